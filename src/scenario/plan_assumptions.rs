//! Which factors of a plan are assumptions: no operator chooses how fast a GPU is, how much load comes, or what power costs.

use std::path::Path;

use super::include::include;
use super::plan_file::Factor;
use dryrack_yaml::{Node, Report, Tree, parse, read_text};

/// Fields of the whole scenario that say what happens, and not what is bought or decided.
const ASSUMED: [&str; 9] = ["speed", "load", "growth", "electricity", "failures", "faults", "seed", "until", "warm_up"];
/// Fields of a job that say how much work there is.
const OF_JOBS: [&str; 6] = ["arrivals", "requests", "duration", "speed", "speeds", "count"];
/// Fields of a trace that are decisions about its jobs.
const DECISIONS: [&str; 2] = ["gpu_names", "checkpoint"];
/// The last names of fields that hold a price.
const PRICES: [&str; 4] = ["price_per_hour", "price", "price_per_kwh", "interruptions"];

/// Fields of the whole scenario that change no run of a plan.
const WITHOUT_EFFECT: [&str; 5] = ["scenario", "report", "tags", "expect", "reproduces"];

/// Whether a field of a scenario, such as `speed.factors.h100-80g`, is an assumption.
fn is_assumption(path: &str) -> bool {
    let mut parts = path.split('.');
    let root = parts.next().unwrap_or_default();
    let has = |names: &[&str]| path.split('.').skip(1).any(|part| names.contains(&part));
    match root {
        "jobs" => has(&OF_JOBS),
        "trace" => !has(&DECISIONS),
        root => ASSUMED.contains(&root) || path.rsplit('.').next().is_some_and(|last| PRICES.contains(&last)),
    }
}

/// Marks each factor that sets only assumptions. A parameter is one if the scenario and the files that it includes use it only
/// in such fields.
pub(super) fn mark(factors: &mut [Factor], scenario: &Path) {
    let mut quiet = Report::default();
    let mut tree = read_text(scenario, None, &mut quiet).and_then(|(source, text)| parse(&text, source, &mut quiet));
    let folder = scenario.parent().unwrap_or(Path::new(""));
    tree.iter_mut().for_each(|tree| _ = include(tree, Some(scenario), folder, &mut quiet));
    for factor in factors {
        let is_one = |path: &str| match path.strip_prefix("params.") {
            None => is_assumption(path),
            Some(name) => {
                let mut used = Vec::new();
                tree.iter().for_each(|tree| uses(tree, &format!("${{{name}}}"), String::new(), &mut used));
                !used.is_empty() && used.iter().all(|path| is_assumption(path))
            }
        };
        let is_assumed = factor.paths().next().is_some() && factor.paths().all(is_one);
        factor.is_assumed = is_assumed;
    }
}

/// Adds the paths of the fields whose text has `what`.
fn uses(tree: &Tree, what: &str, path: String, found: &mut Vec<String>) {
    match &tree.node {
        Node::Map(entries) => {
            for entry in entries {
                if path.is_empty() && WITHOUT_EFFECT.contains(&&*entry.key) {
                    continue;
                }
                let dot = if path.is_empty() { "" } else { "." };
                uses(&entry.value, what, format!("{path}{dot}{}", entry.key), found);
            }
        }
        Node::List(items) => items.iter().for_each(|item| uses(item, what, path.clone(), found)),
        _ => found.extend(tree.scalar().filter(|text| text.contains(what)).map(|_| path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_decides_is_no_assumption() {
        for path in [
            "speed.factors.h100-80g",
            "load",
            "electricity.price_per_kwh",
            "jobs.train.arrivals.poisson",
            "jobs.chat.serving.requests.rps",
            "trace.resample.block",
            "nodes.a.price_per_hour",
        ] {
            assert!(is_assumption(path), "{path}");
        }
        for path in [
            "nodes.a.count",
            "nodes.a.machine",
            "profile",
            "trace.gpu_names.a100",
            "jobs.chat.replicas",
            "fleets.cloud.nodes",
        ] {
            assert!(!is_assumption(path), "{path}");
        }
    }
}
