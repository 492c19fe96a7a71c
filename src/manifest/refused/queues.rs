//! Quotas of Kueue.

use std::collections::BTreeSet;

use dryrack_yaml::{Report, Tree};

use super::{has, list, map, place, refuse, text};
use crate::api::Quantity;

/// What has quotas, what it calls the cohort above it, and the field that names that cohort in `v1beta2`.
type Owner = (&'static str, &'static str, &'static str);

const QUEUE: Owner = ("queue", "cohort", "cohortName");
const COHORT: Owner = ("cohort", "parent", "parentName");

pub fn cluster_queue(tree: &Tree, report: &mut Report) {
    let cohorts = [("v1beta1", "cohortName", "cohort"), ("v1beta2", "cohort", "cohortName")];
    fields_of_version(tree, &cohorts, report);
    quotas(tree, QUEUE, report);
    if let Some(preemption) = tree.get("spec").and_then(|spec| spec.get("preemption")) {
        preempts_while_borrowing(preemption, report);
    }
}

pub fn cohort(tree: &Tree, report: &mut Report) {
    let parents = [("v1alpha1", "parentName", "parent"), ("v1beta2", "parent", "parentName")];
    fields_of_version(tree, &parents, report);
    quotas(tree, COHORT, report);
}

/// A queue that never reclaims its quota must not preempt in the cohort while it borrows.
fn preempts_while_borrowing(preemption: &Tree, report: &mut Report) {
    let Some(borrow) = preemption.get("borrowWithinCohort") else { return };
    // Both are `Never` by default.
    let is_never = |policy: &str| policy.is_empty() || policy == "Never";
    let applies = is_never(text(preemption, "reclaimWithinCohort")) && !is_never(text(borrow, "policy"));
    let message =
        "`borrowWithinCohort.policy` must be Never when `reclaimWithinCohort` is Never, which it is by default";
    let help = "write `reclaimWithinCohort: LowerPriority` or `Any`, or remove `borrowWithinCohort`";
    refuse(borrow, &[(applies, "policy", message, help)], report);
}

/// Reports fields that have another name in the version of the object: the version, the field, and its name there.
fn fields_of_version(tree: &Tree, fields: &[(&str, &str, &str)], report: &mut Report) {
    let (Some(spec), version) = (tree.get("spec"), text(tree, "apiVersion")) else { return };
    let short = version.rsplit('/').next().unwrap_or_default();
    for (_, field, right) in fields.iter().filter(|(of, field, _)| *of == short && has(spec, field)) {
        let message = format!("`{field}` is not a field of a {} in {version}", text(tree, "kind"));
        report.error_with_help(place(spec, field), message, format!("write `{right}`"));
    }
}

pub fn resource_flavor(tree: &Tree, report: &mut Report) {
    let labels = map(tree, "nodeLabels").next();
    let message = "a flavor with a topology has at least one node label";
    let refusals = [(
        has(tree, "topologyName") && labels.is_none(),
        "topologyName",
        message,
        "add `nodeLabels` that the nodes of the topology have",
    )];
    refuse(tree, &refusals, report);
}

pub fn topology(tree: &Tree, report: &mut Report) {
    let levels: Vec<&Tree> = list(tree, "levels").iter().filter_map(|level| level.get("nodeLabel")).collect();
    let mut seen = BTreeSet::new();
    for (index, level) in levels.iter().enumerate() {
        let Some(label) = level.scalar() else { continue };
        if !seen.insert(label) {
            let message = format!("the level `{label}` is named twice");
            report.error_with_help(level.span, message, "name each label once");
        }
        if label == "kubernetes.io/hostname" && index + 1 < levels.len() {
            let message = "`kubernetes.io/hostname` can only be the last level of a topology";
            report.error_with_help(level.span, message, "write the levels from the widest to the narrowest");
        }
    }
}

/// The quotas of a ClusterQueue or a Cohort.
fn quotas(tree: &Tree, owner: Owner, report: &mut Report) {
    let Some(spec) = tree.get("spec") else { return };
    let annotations = tree.get("metadata").and_then(|metadata| metadata.get("annotations"));
    // A change need not repeat the cohort.
    let is_patch = annotations.is_some_and(|annotations| text(annotations, "dryrack/patch") == "true");
    // In `v1beta1`, the field has the name of the thing.
    let is_alone = !is_patch && [owner.1, owner.2].iter().all(|key| text(spec, key).is_empty());
    let (mut resources, mut flavors) = (BTreeSet::new(), BTreeSet::new());
    for group in list(spec, "resourceGroups") {
        let lacks = |key: &str| has(group, key) && list(group, key).is_empty();
        let refusals = [
            (lacks("coveredResources"), "coveredResources", "a resource group covers at least one resource", "add one"),
            (lacks("flavors"), "flavors", "a resource group has at least one flavor", "add a flavor with its quotas"),
        ];
        refuse(group, &refusals, report);
        let covered = list(group, "coveredResources");
        for resource in covered {
            once("resource", resource, &mut resources, report);
        }
        for flavor in list(group, "flavors") {
            if let Some(name) = flavor.get("name") {
                once("flavor", name, &mut flavors, report);
            }
            covers(flavor, covered, report);
            for quota in list(flavor, "resources") {
                limits(quota, owner, is_alone, report);
            }
        }
    }
}

/// Reports a resource or a flavor that is named twice.
fn once<'t>(what: &str, name: &'t Tree, seen: &mut BTreeSet<&'t str>, report: &mut Report) {
    let Some(typed) = name.scalar() else { return };
    if !seen.insert(typed) {
        let message = format!("the {what} `{typed}` is named twice");
        report.error_with_help(name.span, message, format!("name each {what} in one resource group only"));
    }
}

/// A flavor has a quota for each covered resource, in the same order.
fn covers(flavor: &Tree, covered: &[Tree], report: &mut Report) {
    let names: Vec<&str> = covered.iter().filter_map(Tree::scalar).collect();
    let own: Vec<&Tree> = list(flavor, "resources").iter().filter_map(|quota| quota.get("name")).collect();
    let differs = own.iter().enumerate().find(|(index, name)| name.scalar() != names.get(*index).copied());
    let help = format!("write quotas of {} in this order", names.join(", "));
    match differs {
        Some((_, name)) => {
            let typed = name.scalar().unwrap_or_default();
            let why = if names.contains(&typed) { "is not at its place in" } else { "is not in" };
            report.error_with_help(name.span, format!("`{typed}` {why} `coveredResources`"), help);
        }
        None if own.len() < names.len() => {
            let message = format!("the flavor has no quota of `{}`", names[own.len()]);
            report.error_with_help(place(flavor, "resources"), message, help);
        }
        None => {}
    }
}

/// The limits of a quota. They are for borrowing in a cohort.
fn limits(quota: &Tree, owner: Owner, is_alone: bool, report: &mut Report) {
    let (what, above, field) = owner;
    for key in ["borrowingLimit", "lendingLimit"] {
        if is_alone && has(quota, key) {
            let message = format!("`{key}` must be absent when the {what} has no {above}");
            report.error_with_help(place(quota, key), message, format!("remove it, or add `{field}`"));
        }
    }
    let amount = |key: &str| text(quota, key).parse::<Quantity>().ok();
    // Kueue lets a cohort lend more than its own quota.
    let lends_more =
        owner == QUEUE && amount("lendingLimit").zip(amount("nominalQuota")).is_some_and(|(lent, own)| lent > own);
    let message = "`lendingLimit` is above `nominalQuota`";
    refuse(quota, &[(lends_more, "lendingLimit", message, "lend at most the own quota")], report);
}
