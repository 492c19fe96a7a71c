//! Pods: tolerations, affinity terms, spread constraints.

use std::collections::BTreeSet;

use dryrack_yaml::{Report, Tree};

use super::{has, list, place, refuse, text};

/// The spec of a pod.
pub fn pod(tree: &Tree, report: &mut Report) {
    let is_empty = has(tree, "containers") && list(tree, "containers").is_empty();
    refuse(tree, &[(is_empty, "containers", "a pod needs at least one container", "add a container")], report);
    let mut seen = BTreeSet::new();
    for constraint in list(tree, "topologySpreadConstraints") {
        let (key, policy) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if !seen.insert((key, policy)) {
            let message = format!("two spread constraints have the topology key `{key}` and `{policy}`");
            report.error_with_help(place(constraint, "topologyKey"), message, "remove one of them");
        }
    }
}

pub fn toleration(tree: &Tree, report: &mut Report) {
    let (exists, effect) = (text(tree, "operator") == "Exists", text(tree, "effect"));
    let refusals = [
        (
            exists && !text(tree, "value").is_empty(),
            "value",
            "`value` must be empty when `operator` is `Exists`",
            "remove `value`, or write `operator: Equal`",
        ),
        (
            !exists && text(tree, "key").is_empty(),
            "operator",
            "`operator` must be `Exists` when `key` is empty",
            "add `key`, or write `operator: Exists`, which tolerates every taint",
        ),
        (
            has(tree, "tolerationSeconds") && effect != "NoExecute",
            if effect.is_empty() { "tolerationSeconds" } else { "effect" },
            "`effect` must be `NoExecute` when `tolerationSeconds` is set",
            "write `effect: NoExecute`, or remove `tolerationSeconds`",
        ),
    ];
    refuse(tree, &refusals, report);
}

/// A requirement on labels.
pub fn requirement(tree: &Tree, report: &mut Report) {
    let (operator, values) = (text(tree, "operator"), list(tree, "values").len());
    let at = if has(tree, "values") { "values" } else { "operator" };
    let refusals = [
        (
            matches!(operator, "In" | "NotIn") && values == 0,
            at,
            "`values` must be specified when `operator` is `In` or `NotIn`",
            "add values, such as `values: [a]`",
        ),
        (
            matches!(operator, "Exists" | "DoesNotExist") && values > 0,
            at,
            "`values` may not be specified when `operator` is `Exists` or `DoesNotExist`",
            "remove `values`, or write `operator: In`",
        ),
        (
            matches!(operator, "Gt" | "Lt") && values != 1,
            at,
            "`values` must have a single value when `operator` is `Gt` or `Lt`",
            "write one number in quotes, such as `values: [\"4\"]`",
        ),
    ];
    refuse(tree, &refusals, report);
}

/// A requirement on the labels of nodes. The API server accepts a comparison with a text, which no node satisfies.
pub fn node_requirement(tree: &Tree, report: &mut Report) {
    requirement(tree, report);
    let compares = matches!(text(tree, "operator"), "Gt" | "Lt");
    if let ([value], true) = (list(tree, "values"), compares)
        && value.scalar().is_some_and(|text| text.parse::<i64>().is_err())
    {
        let message = "`Gt` and `Lt` compare whole numbers, so no node satisfies this requirement";
        report.warning(value.span, message, "write one number in quotes, such as `values: [\"4\"]`");
    }
}

/// A requirement on the name of a node.
pub fn node_field_requirement(tree: &Tree, report: &mut Report) {
    let (operator, values) = (text(tree, "operator"), list(tree, "values").len());
    let selects = matches!(operator, "In" | "NotIn");
    let at = if has(tree, "values") { "values" } else { "operator" };
    let refusals = [
        (
            !selects && !operator.is_empty(),
            "operator",
            "a field of nodes is compared only by `In` or `NotIn`",
            "write `operator: In`",
        ),
        (
            selects && values != 1,
            at,
            "`values` must have one value for a field of nodes",
            "write one name, such as `values: [node-1]`",
        ),
    ];
    refuse(tree, &refusals, report);
}

/// The required terms of a node affinity.
pub fn node_selector(tree: &Tree, report: &mut Report) {
    let is_empty = list(tree, "nodeSelectorTerms").is_empty();
    let message = "a node selector needs at least one term";
    refuse(tree, &[(is_empty, "nodeSelectorTerms", message, "add a term, or remove the selector")], report);
}

/// A term of a pod affinity.
pub fn affinity_term(tree: &Tree, report: &mut Report) {
    let is_empty = has(tree, "topologyKey") && text(tree, "topologyKey").is_empty();
    let help = "write the key of a label, such as `kubernetes.io/hostname`";
    refuse(tree, &[(is_empty, "topologyKey", "`topologyKey` can not be empty", help)], report);
}

/// A spread constraint.
pub fn spread(tree: &Tree, report: &mut Report) {
    let is_soft = has(tree, "minDomains") && text(tree, "whenUnsatisfiable") == "ScheduleAnyway";
    let message = "`minDomains` needs `whenUnsatisfiable: DoNotSchedule`";
    refuse(tree, &[(is_soft, "minDomains", message, "remove `minDomains`, or write `DoNotSchedule`")], report);
    affinity_term(tree, report);
}
