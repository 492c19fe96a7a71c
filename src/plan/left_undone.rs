//! What the answer of a plan leaves undone: replicas that were never placed, jobs that did not run to their end, and why larger
//! alternatives do not help.

use super::limits::is_of_waiting;
use super::summary::{Broken, Comparison, NEVER_RUN, Row};
use dryrack_metrics::PAST_ESTIMATE;
use dryrack_scenario::Objective;

/// The metrics of jobs that were placed but did not run to their end, and what they say.
const UNFINISHED: [(&str, &str); 3] = [
    ("jobs_lost", "were lost with a node or GPU"),
    ("jobs_failed", "failed"),
    ("jobs_expired", "were ended by a limit: of run time, of retries, or of waiting"),
];

/// A sentence if some replicas were never placed, because they were refused or still waited at the end, or if jobs were
/// lost, failed or ran into a limit. The constraints may allow all of this.
pub(super) fn left_undone(row: &Row) -> String {
    let mean = |name: &str| row.metrics.get(name).map_or(0.0, |found| found.mean);
    let jobs = mean("jobs_submitted");
    let mut parts = Vec::new();
    if let Some(placed) = row.metrics.get("placed").filter(|placed| placed.mean < 1.0) {
        parts.push(format!("{} of the replicas were never placed", share(1.0 - placed.mean)));
    }
    let unfinished = UNFINISHED.iter().filter(|(name, _)| mean(name) > 0.0);
    parts.extend(unfinished.map(|(name, what)| format!("{} of the jobs {what}", share(mean(name) / jobs))));
    if row.past_estimates > 0.0 {
        let late = share(row.past_estimates / jobs);
        parts.push(format!("{late} of the jobs ran longer than their estimate, {PAST_ESTIMATE}"));
    }
    match parts.is_empty() {
        true => String::new(),
        false => {
            let seeds = if row.is_one_run() { "" } else { " (means over the seeds)" };
            format!(" {}{seeds}.", parts.join(", and "))
        }
    }
}

/// Whether jobs can never run, were placed and did not run to their end, or ran longer than they might in a log of Slurm.
pub(super) fn leaves_jobs_unfinished(row: &Row) -> bool {
    let is_some = |name: &str| row.metrics.get(name).is_some_and(|found| found.mean > 0.0);
    row.unplaceable.is_some() || row.past_estimates > 0.0 || UNFINISHED.iter().any(|(name, _)| is_some(name))
}

/// A sentence if the largest alternative that was run fails because jobs wait for a limit. Empty if this is not so.
pub(super) fn limit_sentence(comparison: &Comparison, objective: Option<Objective>) -> String {
    let size = |row: &Row| objective.and_then(|objective| row.of(objective)).unwrap_or(row.fleet.gpus as f64);
    let failing = comparison.rows.iter().filter(|row| row.keeps == Some(false));
    let Some(largest) = failing.max_by(|one, other| size(one).total_cmp(&size(other))) else { return String::new() };
    let waits = |broken: &Broken| is_of_waiting(&broken.constraint) && !broken.happened.contains(NEVER_RUN);
    match &largest.limit {
        Some(limit) if largest.broken.as_ref().is_some_and(waits) => {
            format!(" More nodes do not help: with {}, {}.", largest.name, limit.text())
        }
        _ => String::new(),
    }
}

fn share(part: f64) -> String {
    match part * 100.0 {
        percent if percent < 0.01 => "<0.01%".to_string(),
        percent => format!("{percent:.2}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::alternative;
    use super::*;
    use dryrack_metrics::Estimate;

    #[test]
    fn each_kind_of_unfinished_job_is_named_with_its_share() {
        let count = |mean: f64| Estimate { mean, half_width: None, range: None, runs: 1, is_constant: true };
        let with = |metrics: &[(&'static str, f64)], past_estimates: f64| {
            let metrics = [("jobs_submitted", 50.0)].iter().chain(metrics);
            let metrics = metrics.map(|(name, mean)| (*name, count(*mean))).collect();
            left_undone(&Row { metrics, past_estimates, ..alternative(0, None) })
        };
        assert_eq!(with(&[("jobs_expired", 0.0)], 0.0), "");
        let limit = "of the jobs were ended by a limit: of run time, of retries, or of waiting.";
        assert_eq!(with(&[("jobs_expired", 50.0)], 0.0), format!(" 100.00% {limit}"));
        assert_eq!(
            with(&[("jobs_failed", 5.0), ("jobs_expired", 1.0)], 0.0),
            format!(" 10.00% of the jobs failed, and 2.00% {limit}")
        );
        assert!(with(&[], 25.0).starts_with(" 50.00% of the jobs ran longer than their estimate, "));
    }
}
