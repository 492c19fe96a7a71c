//! Checks the expressions in a profile before anything else reads them, and reports errors at their places.

use std::collections::BTreeSet;

use dryrack_event::{OwnReason, Reason};
use dryrack_scheduler::{FilterName, OrderKey, ScorerName, check_filter, check_order, check_scorer};
use dryrack_yaml::{Node, Report, Tree};

/// The keys that lead to a list of stages, the key of an expression in such a stage, and the function that checks the
/// expression.
type Stages = (&'static [&'static str], &'static str, fn(&str) -> Option<Fault>);

struct Fault {
    at: std::ops::Range<usize>,
    message: String,
    help: Option<String>,
}

macro_rules! fault_of {
    ($check:path) => {
        |text| $check(text).err().map(|error| Fault { at: error.at, message: error.message, help: error.help })
    };
}

const STAGES: [Stages; 5] = [
    (&["filters"], "unless", fault_of!(check_filter)),
    (&["deployments", "filters"], "unless", fault_of!(check_filter)),
    (&["offers", "filters"], "unless", fault_of!(check_filter)),
    (&["scorers"], "is", fault_of!(check_scorer)),
    (&["order"], "is", fault_of!(check_order)),
];

/// Reports every invalid stage that an expression defines. Returns whether all of them are valid.
pub(super) fn check(profile: &Tree, report: &mut Report) -> bool {
    let Some(scheduler) = profile.get("scheduler") else { return true };
    let mut are_valid = true;
    for (path, key, check) in STAGES {
        let list = path.iter().try_fold(scheduler, |tree, key| tree.get(key));
        let Some(Node::List(stages)) = list.map(|stages| &stages.node) else { continue };
        let kind = match path.last() {
            Some(&"filters") => "filter",
            Some(&"scorers") => "score",
            _ => "order",
        };
        let mut names = BTreeSet::new();
        for stage in stages {
            are_valid &= check_stage(stage, (kind, key, &path.join(".")), check, &mut names, report);
        }
    }
    are_valid
}

/// Checks one stage. A built-in stage has neither its own name nor an expression.
fn check_stage<'t>(
    stage: &'t Tree,
    (kind, key, list): (&str, &str, &str),
    check: fn(&str) -> Option<Fault>,
    names: &mut BTreeSet<&'t str>,
    report: &mut Report,
) -> bool {
    // Register the reason even if the stage is faulty, so that no second message calls the reason unknown.
    let because = stage.get("because").and_then(|tree| Some((tree.scalar()?, tree.span)));
    if let Some((because, _)) = because {
        report.declare(because);
    }
    // In a built-in filter, `unless` names an exemption and is not an expression.
    if let (Some(tree), true) = (stage.get("stage"), kind != "filter" && stage.get(key).is_some()) {
        let message = format!("`stage` names a built-in stage, but this stage has an expression in `{key}`");
        report.error_with_help(tree.span, message, format!("write `{kind}` instead of `stage`"));
        return false;
    }
    let Some(named) = stage.get(kind) else { return true };
    let name = named.scalar().unwrap_or("");
    report.note(format!("scheduler.{list}.{name}"), named.span);
    let is_of_table = match kind {
        "filter" => FilterName::ALL.iter().any(|known| known.name() == name),
        "score" => ScorerName::ALL.iter().any(|known| known.name() == name),
        _ => OrderKey::ALL.iter().any(|known| known.name() == name),
    };
    if is_of_table || !names.insert(name) {
        let message = format!("`{list}` has another stage named `{name}`");
        let message = if is_of_table { format!("`{name}` is the name of a built-in stage") } else { message };
        report.error_with_help(named.span, message, "give this stage another name");
        return false;
    }
    let needed: &[&str] = if kind == "filter" { &["unless", "because"] } else { &["is"] };
    if let Some(lacking) = needed.iter().find(|needed| stage.get(needed).is_none()) {
        let example = match *lacking {
            "because" => "because: too_far_away",
            "unless" => "unless: node.labels.zone != \"a\"",
            _ => "is: gpus.free / gpus.total",
        };
        report.error_with_help(named.span, format!("`{name}` lacks `{lacking}`"), format!("add it, as in `{example}`"));
        return false;
    }
    if let Some((because, span)) = because {
        let known = Reason::ALL.iter().any(|reason| reason.name() == because);
        let fault = match (known, OwnReason::new(because)) {
            (true, _) => Some(format!("`{because}` is a built-in reason")),
            (false, fault) => fault.err(),
        };
        if let Some(message) = fault {
            report.error_with_help(span, message, "write a different name, such as `too_far_away`");
            return false;
        }
    }
    let Some((text, span)) = stage.get(key).and_then(|tree| Some((tree.scalar()?, tree.span))) else { return true };
    report.note(format!("scheduler.{list}.{name}: {text}"), span);
    let Some(Fault { at, message, help }) = check(text) else { return true };
    let span = report.part_of(span, text, at);
    let help = help.unwrap_or_else(|| format!("`dryrack profile expressions` lists the variables for `{list}`"));
    report.error_with_help(span, message, help);
    false
}
