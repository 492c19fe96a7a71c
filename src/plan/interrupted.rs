//! Work that is lost in the runs of the answer and begins again.

use super::summary::{Comparison, Row};
use dryrack_scenario::{Objective, PlanFile};
use dryrack_units::grouped;

/// The metrics of interruptions, and what is said of one and of several.
const INTERRUPTIONS: [(&str, [&str; 2]); 2] = [
    ("instances_taken", ["running instance is lost", "running instances are lost"]),
    ("preemptions", ["attempt is preempted", "attempts are preempted"]),
];

/// A sentence if attempts are interrupted in the runs of the answer and begin again, so that the time until the first start
/// does not show all of what it costs. Names the cheapest alternative in which nothing is.
pub(super) fn interrupted(plan: &PlanFile, comparison: &Comparison, objective: Objective, best: &Row) -> String {
    let Some((number, what)) =
        INTERRUPTIONS.iter().map(|(name, what)| (mean(best, name), what)).find(|one| one.0 > 0.0)
    else {
        return String::new();
    };
    let again = mean(best, "retries");
    if again == 0.0 {
        return String::new();
    }
    let average = if best.is_one_run() { "" } else { " on average" };
    let asked = match plan.asked.len() {
        0 => "",
        1 => " that meets the constraint",
        _ => " that meets all constraints",
    };
    let names = || INTERRUPTIONS.iter().map(|(name, _)| *name).chain(["retries"]);
    let is_spared = |row: &Row| names().all(|name| row.metrics.get(name).is_some_and(|found| found.mean == 0.0));
    let without = comparison
        .cheapest(objective, is_spared)
        .map_or(String::new(), |other| format!(" Without interruptions, the cheapest{asked} is {}.", other.name));
    let (lost, times) = (count(number), count(again));
    let is = what[usize::from(lost != "1")];
    let word = if times == "1" { "time" } else { "times" };
    format!(" In a run, {lost} {is}{average}, and jobs start again {times} {word}.{without}")
}

fn mean(row: &Row, name: &str) -> f64 {
    row.metrics.get(name).map_or(0.0, |found| found.mean)
}

fn count(mean: f64) -> String {
    grouped(&if mean.fract() == 0.0 { format!("{mean:.0}") } else { format!("{mean:.1}") })
}
