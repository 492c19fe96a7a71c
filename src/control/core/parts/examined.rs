//! Recorded decisions about jobs that are being explained, each with all its reasons.

use std::collections::BTreeMap;

use smallvec::smallvec;

use dryrack_ids::{AttemptId, JobId};
use dryrack_scheduler::{Candidate, Decision, Examination, NodeFinding, SchedulerView, Verdict};
use dryrack_units::SimTime;

/// The data on which a decision was based, and the same decision computed node by node.
#[derive(Clone)]
pub struct Watched {
    pub at: SimTime,
    /// The attempt that the decision is about. If the decision is about several nodes of an attempt, the attempt of the
    /// first node.
    pub attempt: AttemptId,
    pub sight: SchedulerView,
    pub examination: Examination,
    /// What an explanation shows of nodes that the decision could not use, although the job might fit there. In `sight`,
    /// these nodes are not ready.
    pub closed: Vec<NodeFinding>,
    /// Whether the replica takes a place that was promised to it, and that this decision did not find.
    pub is_by_promise: bool,
}

impl Watched {
    /// The examination as an explanation shows it.
    pub fn into_shown(self) -> Examination {
        let Watched { mut examination, closed, .. } = self;
        for finding in closed {
            let place = finding.node.index();
            examination.nodes[place] = finding;
        }
        examination
    }
}

/// The attempts that are analysed before a replica that waits for its analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysesAhead {
    /// Attempts that are being analysed now.
    pub now: Vec<AttemptId>,
    /// Attempts of the entries ahead of the replica in the queue, in order. `wanted` holds those that have not ended,
    /// `unwanted` those that have.
    pub wanted: Vec<AttemptId>,
    pub unwanted: Vec<AttemptId>,
}

/// The jobs whose decisions are examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    #[default]
    Nobody,
    Job(JobId),
    Everybody,
}

#[derive(Default)]
pub struct Examined {
    whose: Watch,
    /// The last decision about any replica. `decided` holds the last decision about each replica that is not placed
    /// yet.
    last: Option<Watched>,
    decided: BTreeMap<(JobId, u32), Watched>,
    /// All decisions that were not taken yet.
    decisions: Vec<Watched>,
    /// The decisions that placed a replica and were not taken yet.
    placed: BTreeMap<AttemptId, Watched>,
}

impl Examined {
    /// From now on, each decision about these jobs is examined while it is made. The caller takes the decision that placed
    /// a replica with [`Examined::take_placed`].
    pub fn watch(&mut self, whose: Watch) {
        self.whose = whose;
    }

    pub fn watches_anybody(&self) -> bool {
        !matches!(self.whose, Watch::Nobody)
    }

    pub fn is_watched(&self, of: JobId) -> bool {
        match self.whose {
            Watch::Nobody => false,
            Watch::Job(job) => job == of,
            Watch::Everybody => true,
        }
    }

    /// Keeps a decision. It places its attempt, unless another decision about the same replica follows.
    pub fn keep(&mut self, watched: Watched) {
        self.last = Some(watched.clone());
        self.decided.insert((watched.attempt.job, watched.attempt.replica), watched.clone());
        self.decisions.push(watched);
    }

    /// Keeps why a replica waits although the last decision about it found a place. That decision still is the one that
    /// places it.
    pub fn keep_wait(&mut self, watched: Watched) {
        self.decisions.push(watched);
    }

    /// The last decision about any replica.
    pub fn last(&self) -> Option<&Watched> {
        self.last.as_ref()
    }

    /// Takes the last decision about a replica that is not placed yet.
    pub fn take_decided(&mut self, (job, replica): (JobId, u32)) -> Option<Watched> {
        self.decided.remove(&(job, replica))
    }

    /// Sets the last decision about a replica. It may have been made about another replica.
    pub fn set_decided(&mut self, (job, replica): (JobId, u32), watched: Watched) {
        self.decided.insert((job, replica), watched);
    }

    /// Changes the candidate of the last decision about a replica.
    pub fn change_candidate(&mut self, (job, replica): (JobId, u32), candidate: &Candidate) {
        if let Some(decided) = self.decided.get_mut(&(job, replica)) {
            decided.examination.decision = Decision::Place(smallvec![candidate.clone()]);
        }
    }

    /// Lets the last decision about a replica, if it is a refusal, take the place that was promised to the replica.
    pub fn take_promise(&mut self, (job, replica): (JobId, u32), candidate: &Candidate) {
        let decided = self.decided.get_mut(&(job, replica));
        if let Some(decided) = decided.filter(|decided| matches!(decided.examination.decision, Decision::Refuse { .. }))
        {
            decided.examination.decision = Decision::Place(smallvec![candidate.clone()]);
            for claim in candidate.placement.claims() {
                decided.examination.nodes[claim.node.index()] = NodeFinding::of(claim.node, Verdict::Fit);
            }
            decided.is_by_promise = true;
        }
    }

    /// Keeps the decision that placed an attempt.
    pub fn placed_by(&mut self, attempt: AttemptId, watched: Watched) {
        self.placed.insert(attempt, watched);
    }

    /// Takes the decision that placed this attempt.
    pub fn take_placed(&mut self, attempt: AttemptId) -> Option<Watched> {
        self.placed.remove(&attempt)
    }

    /// Takes every decision since the last call, in order.
    pub fn take_decisions(&mut self) -> Vec<Watched> {
        std::mem::take(&mut self.decisions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_is_watched_or_all_or_none() {
        let (one, other) = (JobId::new(1), JobId::new(2));
        for (whose, expected) in [
            (Watch::Nobody, [false, false, false]),
            (Watch::Job(one), [true, true, false]),
            (Watch::Everybody, [true, true, true]),
        ] {
            let mut examined = Examined::default();
            examined.watch(whose);
            let is_watched = [one, other].map(|job| examined.is_watched(job));
            assert_eq!([examined.watches_anybody(), is_watched[0], is_watched[1]], expected, "{whose:?}");
        }
    }
}
