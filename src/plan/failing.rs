//! What follows for other alternatives of a search if one of them fails.

use super::limits::{counts_jobs, limits_a_wait};
use super::search::Failing;
use super::summary::Row;
use dryrack_scenario::PlanFile;

/// Whether a larger fleet helps to meet a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Helps,
    Breaks,
    /// It may do both, as with `preemptions <= 3`.
    Unknown,
}

/// What a larger fleet does to a constraint. A constraint without a comparison is about what becomes of jobs.
fn more(constraint: &str) -> More {
    // Of `cost <= 500` and `gpu_allocated >= 50%`.
    const SPENT: [&str; 5] = ["cost", "cost_per_month", "cost_per_million_tokens", "energy", "carbon"];
    const USED: [&str; 3] = ["gpu_allocated", "cpu_allocated", "rlscheduler_utilization"];
    let metric = constraint.split([' ', '<', '>', '=']).next().unwrap_or_default();
    let has = |words: &[&str]| words.iter().any(|word| constraint.contains(word));
    let is_upper = constraint.contains('<');
    match is_upper || constraint.contains(['>', '=']) {
        false => More::Helps,
        true if limits_a_wait(constraint) => More::Helps,
        // More machines also fail more often.
        true if has(&["jobs_lost", "jobs_failed"]) => More::Unknown,
        true if counts_jobs(constraint) => More::Helps,
        true if is_upper && SPENT.contains(&metric) || !is_upper && USED.contains(&metric) => More::Breaks,
        true => More::Unknown,
    }
}

/// What follows from an alternative that fails. `None` if it meets all constraints.
pub fn failing(plan: &PlanFile, row: &Row) -> Option<Failing> {
    if row.keeps == Some(true) {
        return None;
    }
    let left = plan.seeds.len() - row.runs;
    let fails = |(number, held): (usize, &usize)| !plan.asked[number].holds(held + left, plan.seeds.len());
    let failed = row.held.iter().enumerate().filter(|part| fails(*part));
    let effects: Vec<More> = failed.map(|(number, _)| more(&row.constraints[number])).collect();
    // Without a constraint that fails, some jobs can never run. Fewer machines do not change this.
    let with_less = effects.contains(&More::Helps) || effects.is_empty();
    // More own nodes may save the cost of instances that are created on demand.
    let with_more = effects.contains(&More::Breaks) && !row.creates_instances();
    Some(Failing { with_less, with_more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_fleet_helps_against_waiting_and_breaks_a_budget() {
        for (constraint, expected) in [
            ("p95(queue_wait) <= 2h", More::Helps),
            ("queue_wait_p95 < 1h", More::Helps),
            ("p99(ttft) <= 2s", More::Helps),
            ("placed >= 99%", More::Helps),
            ("jobs_completed >= 10", More::Helps),
            ("job chat is running by 5m", More::Helps),
            ("cost_per_month <= 160000", More::Breaks),
            ("energy <= 100", More::Breaks),
            ("gpu_allocated >= 50%", More::Breaks),
            ("gpu_allocated <= 50%", More::Unknown),
            ("gpu_utilization >= 50%", More::Unknown),
            ("preemptions <= 3", More::Unknown),
            ("jobs_lost == 0", More::Unknown),
        ] {
            assert_eq!(more(constraint), expected, "{constraint}");
        }
    }
}
