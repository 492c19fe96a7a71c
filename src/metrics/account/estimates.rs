//! Jobs whose real behavior differs from what their user stated.

use super::RunAccount;
use dryrack_ids::JobId;
use dryrack_units::counted;

/// Why jobs run longer than their estimate, and what this means.
pub const PAST_ESTIMATE: &str = "because their GPU is slower than the one of their stated time; if it is the time limit in \
                                 a log of Slurm, Slurm would end them then";

impl RunAccount {
    /// The number of jobs that ran longer than their estimate because their GPU is slower than the one on which their
    /// time was measured: there, it fits into the estimate. In a log of Slurm, the
    /// estimate is the time limit. Unknown, and 0, in accounts for figures only.
    pub fn past_estimates(&self) -> u64 {
        if self.figures_only {
            return 0;
        }
        let mut jobs: Vec<JobId> = Vec::new();
        for (attempt, job, replica) in self.counted() {
            let (Some(estimate), Some(started)) = (job.spec.estimate, replica.last_started) else { continue };
            let behavior = self.behaviors.get(attempt.job.index());
            let measured = behavior.and_then(|behavior| behavior.recorded_run.or(behavior.run));
            let has_speeds = job.spec.demand.speeds.is_some() || behavior.is_some_and(|own| own.recorded_run.is_some());
            let fits = has_speeds && measured.is_some_and(|measured| measured <= estimate);
            let ran = replica.ended.unwrap_or(self.now).since(started);
            if fits && ran > estimate && jobs.last() != Some(&attempt.job) {
                jobs.push(attempt.job);
            }
        }
        jobs.len() as u64
    }

    /// A sentence about these jobs, such as `200 of 200 jobs ran longer than their estimate, …`. `None` if there are none.
    pub fn past_estimates_sentence(&self) -> Option<String> {
        let (late, all) = (self.past_estimates(), counted(self.submitted() as usize, "job"));
        (late > 0).then(|| format!("{late} of {all} ran longer than their estimate, {PAST_ESTIMATE}"))
    }
}
