//! Controllers, budgets, classes and claims.

use dryrack_yaml::{Node, Report, Span, Tree};

use super::{has, list, map, place, refuse, text};
use crate::api::PriorityClass;

/// The spec of a Deployment, a ReplicaSet, a StatefulSet or a DaemonSet.
pub fn controller(tree: &Tree, report: &mut Report) {
    if let Some(selector) = tree.get("selector").filter(|selector| matches!(selector.node, Node::Map(_))) {
        let (labels, requirements) = (map(selector, "matchLabels"), list(selector, "matchExpressions"));
        let is_empty = labels.clone().next().is_none() && requirements.is_empty();
        let holds = has_labels(tree, labels) && requirements.iter().all(|requirement| meets(tree, requirement));
        mismatch(tree, is_empty, !holds, report);
    }
    restarts_always(tree, report);
}

/// The spec of a ReplicationController, whose selector is a map of labels.
pub fn replication_controller(tree: &Tree, report: &mut Report) {
    mismatch(tree, false, !has_labels(tree, map(tree, "selector")), report);
    restarts_always(tree, report);
}

/// A label of the template of a controller.
fn label<'t>(tree: &'t Tree, key: &str) -> Option<&'t str> {
    let label = tree.get("template")?.get("metadata")?.get("labels")?.get(key)?;
    Some(label.scalar().unwrap_or_default())
}

fn has_labels<'t>(tree: &Tree, mut labels: impl Iterator<Item = (&'t str, Span, &'t Tree)>) -> bool {
    labels.all(|(key, _, value)| label(tree, key) == Some(value.scalar().unwrap_or_default()))
}

/// Whether the template meets a requirement on labels.
fn meets(tree: &Tree, requirement: &Tree) -> bool {
    let own = label(tree, text(requirement, "key"));
    let is_in = list(requirement, "values").iter().any(|value| value.scalar() == own);
    match text(requirement, "operator") {
        "In" => own.is_some() && is_in,
        "NotIn" => own.is_none() || !is_in,
        "Exists" => own.is_some(),
        "DoesNotExist" => own.is_none(),
        // It is refused as it stands.
        _ => true,
    }
}

fn mismatch(tree: &Tree, is_empty: bool, differs: bool, report: &mut Report) {
    let refusals = [
        (is_empty, "selector", "the selector is empty", "write the labels of the template, as `matchLabels:`"),
        (
            differs && !is_empty,
            "selector",
            "the selector does not match the labels of the template",
            "write the same labels in `template.metadata.labels`",
        ),
    ];
    refuse(tree, &refusals, report);
}

fn restarts_always(tree: &Tree, report: &mut Report) {
    let Some(spec) = tree.get("template").and_then(|template| template.get("spec")) else { return };
    let refusals = [(
        !matches!(text(spec, "restartPolicy"), "" | "Always"),
        "restartPolicy",
        "the pods of this kind always restart",
        "write `restartPolicy: Always`, or leave it out",
    )];
    refuse(spec, &refusals, report);
}

/// A Job. Without a policy, its pods would always restart.
pub fn job(tree: &Tree, report: &mut Report) {
    let replacement = tree.get("spec").and_then(|spec| spec.get("podReplacementPolicy"));
    if let Some(replacement) = replacement.filter(|policy| policy.scalar() == Some("Failed")) {
        let message = "`podReplacementPolicy: Failed` is not followed, so a pod on a silent node is replaced";
        report.warning(replacement.span, message, "docs/src/kubernetes.md says what is read");
    }
    let Some(spec) = pod_of(tree) else { return };
    let refusals = [(
        !has(spec, "restartPolicy"),
        "restartPolicy",
        "a Job needs a restart policy: without one, its pods restart always",
        "add `restartPolicy: Never` or `restartPolicy: OnFailure`",
    )];
    refuse(spec, &refusals, report);
    ends(spec, report);
}

/// A job of a JobSet, which fills in a missing policy.
pub fn replicated_job(tree: &Tree, report: &mut Report) {
    if let Some(spec) = tree.get("template").and_then(pod_of) {
        ends(spec, report);
    }
}

/// Warns of a JobSet whose pods stay where they are when it starts again.
pub fn failure_policy(tree: &Tree, report: &mut Report) {
    if let Some(strategy) = tree.get("restartStrategy").filter(|_| text(tree, "restartStrategy") == "InPlaceRestart") {
        let message =
            "restarts in place are not followed, so the pods of the JobSet are made again, as under `Recreate`";
        report.warning(strategy.span, message, "docs/src/kubernetes.md says what is read");
    }
}

/// Warns of a JobSet that succeeds with one of its Jobs.
pub fn success_policy(tree: &Tree, report: &mut Report) {
    if let Some(operator) = tree.get("operator").filter(|_| text(tree, "operator") == "Any") {
        let message =
            "the success policy of a JobSet is not followed, so its other Jobs go on after the first succeeds";
        report.warning(operator.span, message, "docs/src/kubernetes.md says what is read");
    }
}

fn pod_of(job: &Tree) -> Option<&Tree> {
    job.get("spec")?.get("template")?.get("spec").filter(|spec| matches!(spec.node, Node::Map(_)))
}

fn ends(spec: &Tree, report: &mut Report) {
    let restarts = text(spec, "restartPolicy") == "Always";
    let help = "write `restartPolicy: Never` or `restartPolicy: OnFailure`";
    refuse(spec, &[(restarts, "restartPolicy", "the pods of a Job may not restart always", help)], report);
}

/// A constraint of the devices of a claim.
pub fn device_constraint(tree: &Tree, report: &mut Report) {
    let lacks = !has(tree, "matchAttribute") && !has(tree, "distinctAttribute");
    let message = "a constraint of devices lacks `matchAttribute`";
    refuse(tree, &[(lacks, "matchAttribute", message, "name an attribute, such as `gpu.example.com/numa`")], report);
}

/// The spec of a PodDisruptionBudget.
pub fn budget(tree: &Tree, report: &mut Report) {
    let has_both = has(tree, "minAvailable") && has(tree, "maxUnavailable");
    let message = "`minAvailable` and `maxUnavailable` cannot be both set";
    refuse(tree, &[(has_both, "maxUnavailable", message, "remove one of them")], report);
    for key in ["minAvailable", "maxUnavailable"] {
        let stated = text(tree, key);
        let percent = stated.strip_suffix('%').and_then(|percent| percent.parse::<u32>().ok());
        if percent.is_some_and(|percent| percent > 100) {
            let message = format!("`{key}` is at most 100%, found {stated}");
            report.error_with_help(place(tree, key), message, "write a smaller percentage, or a number of pods");
        }
    }
}

/// A PriorityClass. Only the system has classes above a thousand million.
pub fn priority_class(tree: &Tree, report: &mut Report) {
    const LARGEST: i64 = 1_000_000_000;
    let Some(metadata) = tree.get("metadata") else { return };
    let (name, value) = (text(metadata, "name"), text(tree, "value").parse::<i64>());
    let system = PriorityClass::SYSTEM.iter().find(|(known, _)| *known == name);
    match (system, value) {
        (Some((_, known)), Ok(value)) if value != i64::from(*known) => {
            let message = format!("the value of `{name}` is {known}, found {value}");
            report.error_with_help(place(tree, "value"), message, format!("write {known}, or another name"));
        }
        (None, Ok(value)) if value > LARGEST => {
            let message = format!("the value of a PriorityClass is at most {LARGEST}, found {value}");
            report.error_with_help(place(tree, "value"), message, "write a smaller number");
        }
        _ => {}
    }
    if system.is_none() && name.starts_with("system-") {
        let message = format!("`{name}` begins with `system-`, which is for the classes of Kubernetes");
        report.error_with_help(place(metadata, "name"), message, "write another name");
    }
}
