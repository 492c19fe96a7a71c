//! The least that the times of replicas can become that have not ended when the run does.

use super::super::Row;
use super::RunAccount;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Acks, JobBehavior, JobSpec, Speed};

/// How long the last attempt of a replica takes if it completes.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunRange {
    pub least: SimDuration,
    /// `None` if it is not known.
    pub most: Option<SimDuration>,
}

impl RunRange {
    fn of(spec: &JobSpec, behavior: &JobBehavior) -> RunRange {
        // How long a real program takes is not known before it ends. A report that comes late makes a run longer or shorter.
        let has_late_reports = behavior.random_faults.as_ref().is_some_and(|faults| faults.acks != Acks::default());
        let (Some(run), None, false) = (behavior.run, &behavior.launch, has_late_reports) else {
            return RunRange::default();
        };
        let first = behavior.master_run.unwrap_or(run);
        let speeds = spec.demand.speeds.as_ref();
        let (slow, fast) = speeds.map_or((Speed::ONE, Speed::ONE), |speeds| (speeds.smallest(), speeds.largest()));
        // An attempt that resumes has less left, and may take the time to load its checkpoint.
        let restart = behavior.checkpoint.map(|checkpoint| checkpoint.restart);
        let is_elastic = spec.demand.sets().iter().any(|set| set.min_tasks < set.tasks);
        // Tasks that work together wait for each other, and a gang with fewer tasks works more slowly.
        let may_take_longer = behavior.together.is_some() || is_elastic;
        let most = slow.time(run.max(first)).saturating_add(restart.unwrap_or_default());
        RunRange {
            least: if restart.is_some() { SimDuration::ZERO } else { fast.time(run.min(first)) },
            most: (!may_take_longer).then_some(most),
        }
    }
}

impl RunAccount {
    /// How long the last attempt of a replica that has not ended takes. `None` if it runs until it is stopped.
    pub fn run_range(&self, replica: &Row<'_>) -> Option<RunRange> {
        let Some(behavior) = self.behaviors.get(replica.job.index()) else { return Some(RunRange::default()) };
        behavior.run?;
        Some(RunRange::of(&self.jobs[replica.job.index()].spec, behavior))
    }

    /// The earliest time at which a replica that has not ended can complete, if its last attempt takes at least `least`.
    pub(crate) fn earliest_end(&self, replica: &Row<'_>, least: SimDuration) -> SimTime {
        let account = &self.jobs[replica.job.index()].replicas[replica.replica as usize];
        // The report of a start may come late.
        let starts = if account.holding { account.placed_last } else { self.now };
        starts.checked_add(least).unwrap_or(SimTime::MAX).max(self.now)
    }

    /// Whether the replica came in the instant in which the scenario stops the run and was not placed in it. The run does
    /// not show whether it would be.
    pub(crate) fn comes_at_the_end(&self, replica: &Row<'_>) -> bool {
        let is_open = replica.placed.is_none() && replica.outcome.is_none() && !replica.is_unplaceable;
        is_open && replica.wanted == self.now && self.until == Some(self.now)
    }
}
