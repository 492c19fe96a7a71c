//! What the answer of a plan leaves undone: replicas that were never placed, and jobs that did not run to their end.

use super::summary::Row;
use dryrack_metrics::PAST_ESTIMATE;

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

/// Whether jobs were placed and did not run to their end, or ran longer than they might in a log of Slurm.
pub(super) fn leaves_jobs_unfinished(row: &Row) -> bool {
    let is_some = |name: &str| row.metrics.get(name).is_some_and(|found| found.mean > 0.0);
    row.past_estimates > 0.0 || UNFINISHED.iter().any(|(name, _)| is_some(name))
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
