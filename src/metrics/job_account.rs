//! The accounts of one job and its replicas.

use std::sync::Arc;

use smallvec::SmallVec;

use super::behind::Charges;
use super::blame::Blame;
use super::never_runs::NeverRuns;
use dryrack_engine::Standing;
use dryrack_event::{Outcome, Phase, Reason};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, JobId};
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

pub struct JobAccount {
    pub spec: Arc<JobSpec>,
    pub submitted: SimTime,
    pub replicas: SmallVec<[ReplicaAccount; 1]>,
    /// Set once the job has ended for good.
    pub outcome: Option<Outcome>,
    /// The number of attempts that failed or were lost after the warm-up, over all replicas.
    pub failures: u64,
}

impl JobAccount {
    pub fn standing(&self) -> Standing {
        match self.outcome {
            Some(outcome) => Standing::Ended(outcome),
            None if self.replicas.iter().any(|replica| replica.phase.holds_claim()) => Standing::Running,
            None => Standing::Waiting,
        }
    }
}

/// The standings of jobs, computed once for all replicas of a job in a row. A job may have hundreds of thousands.
#[derive(Debug, Default)]
pub struct Standings(Option<(JobId, Standing)>);

impl Standings {
    /// The standing of the job of this attempt.
    pub fn of(&mut self, attempt: AttemptId, job: &JobAccount) -> Standing {
        match self.0 {
            Some((known, standing)) if known == attempt.job => standing,
            _ => self.0.insert((attempt.job, job.standing())).1,
        }
    }
}

/// The waits of a replica that are not charged yet.
#[derive(Default)]
pub(super) struct OwnWaits {
    /// By cause, in nanoseconds; without a cause, before a decision gave a reason.
    pub(super) charged: Vec<(Option<Blame>, u64)>,
    /// While the replica is behind others and its wait is charged as time passes: what was charged to its like before.
    pub(super) behind: Option<Charges>,
}

pub struct ReplicaAccount {
    /// The time from which the replica should run: the submission of its job, or the time of the scale-up that added
    /// it.
    pub wanted: SimTime,
    pub attempt: u32,
    pub phase: Phase,
    /// When the replica was first placed, in any attempt.
    pub placed: Option<SimTime>,
    /// When the replica first ran, in any attempt.
    pub started: Option<SimTime>,
    /// When the last attempt began to run.
    pub last_started: Option<SimTime>,
    /// When the last attempt ended.
    pub ended: Option<SimTime>,
    /// The placement of the last attempt that was placed.
    pub placement: Option<Placement>,
    pub(super) holding: bool,
    pub(super) placed_last: SimTime,
    pub outcome: Option<Outcome>,
    /// Why the replica ended. While the replica waits, the reason whose end ends the wait.
    pub reason: Option<Reason>,
    /// If the replica ended without ever being placed, why it waited at last.
    pub(super) waited_for: Option<Reason>,
    /// Set if the last decision said that the replica would not fit even if every node were ready and empty, or if a limit
    /// keeps it out even if nothing else runs.
    pub(super) never: Option<NeverRuns>,
    /// While the replica waits at the end, the reason for which an own filter refuses it although all nodes are empty.
    pub(super) refused_empty: Option<Reason>,
    /// While the replica waits, the cause to which its wait is charged.
    pub(super) blame: Option<Blame>,
    /// Its waits that are not charged yet.
    pub(super) own_waits: Option<Box<OwnWaits>>,
    pub(super) waiting_since: SimTime,
}

impl ReplicaAccount {
    /// What a waiting replica waits for: the cause to which its wait is charged, else the reason of its last decision.
    pub fn waits_for(&self) -> Option<Blame> {
        self.blame.or(self.reason.map(Blame::One))
    }

    /// If the replica could never run, the cause. Cancelled replicas do not count.
    pub fn unplaceable(&self) -> Option<NeverRuns> {
        self.never.filter(|_| self.placed.is_none() && self.outcome != Some(Outcome::Cancelled))
    }

    /// Whether the replica ended without ever being placed because there was no capacity, at once or when its time to wait
    /// was over.
    pub fn is_turned_away(&self) -> bool {
        self.ended_unplaced_by(&[Reason::NoCapacity, Reason::NoRoom, Reason::RetryTimeOver, Reason::DeadlineExpired])
    }

    /// Whether the replica waits for its first place, and is not known to wait for ever.
    pub(super) fn is_open(&self) -> bool {
        self.placed.is_none() && self.outcome.is_none() && self.never.is_none()
    }

    /// Whether the replica waited for its first place until its job failed because of a deadline or of other pods, and is not
    /// known to have waited in vain.
    pub fn is_cut_off(&self) -> bool {
        self.ended_unplaced_by(&[Reason::DeadlineExceeded, Reason::BackoffLimitExceeded])
    }

    /// Whether the replica ended for one of these reasons without ever being placed, and could have been.
    fn ended_unplaced_by(&self, reasons: &[Reason]) -> bool {
        let has_ended = self.placed.is_none() && self.outcome.is_some() && self.never.is_none();
        has_ended && self.reason.is_some_and(|reason| reasons.contains(&reason))
    }

    pub(super) fn new(now: SimTime) -> ReplicaAccount {
        ReplicaAccount {
            wanted: now,
            attempt: 1,
            phase: Phase::Pending,
            placed: None,
            started: None,
            last_started: None,
            ended: None,
            placement: None,
            holding: false,
            placed_last: now,
            outcome: None,
            reason: None,
            waited_for: None,
            never: None,
            refused_empty: None,
            blame: None,
            own_waits: None,
            waiting_since: now,
        }
    }
}
