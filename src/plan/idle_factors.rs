//! Factors that made no difference to any run.

use std::collections::{BTreeMap, BTreeSet};

use super::journal::Runs;
use super::plan_run::PlanRun;
use dryrack_scenario::PlanFile;

/// The factors whose values changed nothing, by their indexes in the plan: runs with the same seed and the same values of all
/// other factors have the same fleet and figures. Each value of such a factor was compared with another one.
pub fn idle_factors(plan: &PlanFile, runs: &Runs) -> Vec<usize> {
    let several = |factor: &usize| plan.factors[*factor].values.len() > 1;
    (0..plan.factors.len()).filter(several).filter(|factor| is_idle(plan, runs, *factor)).collect()
}

/// A sentence about these factors; empty if there are none.
pub fn idle_sentence(plan: &PlanFile, idle: &[usize]) -> String {
    let names: Vec<String> = idle.iter().map(|factor| format!("`{}`", plan.factors[*factor].name)).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" {} changed nothing: every run is the same with each of its values.", names.join(" and ")),
    }
}

fn is_idle(plan: &PlanFile, runs: &Runs, factor: usize) -> bool {
    let mut first: BTreeMap<(Vec<usize>, u64), (usize, &PlanRun)> = BTreeMap::new();
    let mut compared = BTreeSet::new();
    for ((cell, seed), run) in runs {
        let mut places = plan.places(*cell);
        let value = places.remove(factor);
        match first.get(&(places.clone(), *seed)) {
            None => drop(first.insert((places, *seed), (value, run))),
            Some((_, other)) if !places_some(run) && !places_some(other) => {}
            Some((_, other)) if !is_same(run, other) => return false,
            Some((other, _)) => compared.extend([value, *other]),
        }
    }
    compared.len() == plan.factors[factor].values.len()
}

/// Whether a run places a job. Two runs that place none show nothing of a factor.
fn places_some(run: &PlanRun) -> bool {
    run.metrics.get("placed").and_then(serde_json::Value::as_f64).is_some_and(|part| part > 0.0)
}

/// Whether two runs have the same fleet, results and figures. A figure that only one of them has does not count: without a
/// machine, for example, there is no cost instead of a cost of 0.
fn is_same(one: &PlanRun, other: &PlanRun) -> bool {
    let held = |run: &PlanRun| run.constraints.iter().map(|found| found.held).collect::<Vec<_>>();
    let is_equal = |(name, value): (&String, &serde_json::Value)| {
        let other = other.metrics.get(name).unwrap_or(value);
        value.is_null() || other.is_null() || value == other
    };
    (one.fleet, &one.waits, held(one)) == (other.fleet, &other.waits, held(other)) && one.metrics.iter().all(is_equal)
}
