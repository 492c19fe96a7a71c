//! Timers: what is due at which time, and what makes each timer void.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::store::ReplicaIndex;
use dryrack_ids::{AttemptId, FleetId, JobId, NodeId};
use dryrack_planted::planted;
use dryrack_units::SimTime;

/// A timer. It holds the state for which it was set, such as a version or an epoch. If that state has changed, the
/// timer is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The silence of a node has lasted longer than the grace period.
    SilenceExpired { node: NodeId, epoch: u64 },
    /// The attempts on a silent node must be given up.
    Evict { node: NodeId, epoch: u64 },
    /// An attempt has stayed in its phase for too long.
    Deadline { replica: ReplicaIndex, version: u64 },
    /// A pause between two attempts is over.
    RetryDue { replica: ReplicaIndex, version: u64 },
    /// An ended attempt with kept claims has not confirmed that it has stopped.
    StopAgain { attempt: AttemptId, left: u8 },
    /// The nodes of an ended attempt are no longer completing.
    Completed { attempt: AttemptId },
    /// The world has not answered a computation of a scanned flow.
    ComputationExpired { number: u64 },
    /// The decision time is over, so the decision must be committed.
    CommitDue { replica: ReplicaIndex, version: u64 },
    /// An attempt has used enough GPU time to move to the next queue.
    NextLevel { replica: ReplicaIndex, version: u64 },
    /// A utilization policy would fire even without another sample. Void once a new time is set.
    PolicyCheck { replica: ReplicaIndex, version: u64, at: SimTime },
    /// An instance has been idle for too long.
    IdleTooLong { node: NodeId, epoch: u64 },
    /// An instance that was requested at `asked` is not up in time.
    NotProvisioned { node: NodeId, asked: SimTime },
    /// An instance has been silent for so long that it is terminated.
    SilentForLong { node: NodeId, since: SimTime },
    /// The number of replicas of a service may change. Void once a new time is set.
    Rescale { job: JobId, at: SimTime },
    /// The back-off of an offer is over, so its instances may be requested again.
    BackoffOver { fleet: FleetId, offer: u32, at: SimTime },
    /// A fleet may have fewer instances than its minimum, so missing instances are requested.
    CheckMinimum { fleet: FleetId, at: SimTime },
    /// The grace time of an attempt that is to be preempted is over.
    GraceOver { replica: ReplicaIndex, version: u64 },
    /// The dependencies of a job are met, or one of them can never be met.
    DependencyJudged { job: JobId },
    /// A workload that was evicted at `since` may release its quota.
    QuotaReleased { workload: u32, since: SimTime },
    /// The time limit that the jobs of a group share is over. They were started at `since`.
    SharedDeadline { group: u32, since: SimTime },
}

impl Timer {
    /// What is due, for a person.
    pub fn reason(self) -> &'static str {
        match self {
            Timer::SilenceExpired { .. } => "a node's grace period",
            Timer::Evict { .. } => "a node's eviction",
            Timer::Deadline { .. } => "a run's deadline",
            Timer::RetryDue { .. } => "a pause between attempts",
            Timer::StopAgain { .. } => "a stop to be asked for again",
            Timer::Completed { .. } => "nodes that complete",
            Timer::ComputationExpired { .. } => "a computation's deadline",
            Timer::CommitDue { .. } => "a decision to commit",
            Timer::NextLevel { .. } => "a run that has had its share of a queue",
            Timer::PolicyCheck { .. } => "a check of a utilization policy",
            Timer::IdleTooLong { .. } => "an instance that is idle",
            Timer::NotProvisioned { .. } => "an instance to be up",
            Timer::SilentForLong { .. } => "an instance that is silent",
            Timer::BackoffOver { .. } => "an offer to be tried again",
            Timer::Rescale { .. } => "a service to be scaled",
            Timer::CheckMinimum { .. } => "a check for missing instances",
            Timer::GraceOver { .. } => "a grace time",
            Timer::DependencyJudged { .. } => "a job that waited for others",
            Timer::QuotaReleased { .. } => "an evicted workload",
            Timer::SharedDeadline { .. } => "a deadline of several jobs",
        }
    }
}

/// Timers in order of time. Timers with equal times are in the order in which they were set.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Entry>,
    /// Timers that were set at this instant. Most of them are void before the instant is over, and never reach the
    /// heap.
    fresh: Vec<Entry>,
    set: u64,
    /// The number of the computation that has a deadline, if any.
    computation: Option<u64>,
}

/// A timer with its time and its number, in reverse order of both.
pub type Entry = Reverse<(SimTime, u64, Timer)>;

/// Maximum number of timers of one instant that are searched one by one. If there are more, they move to the heap.
const MOST_FRESH: usize = 16;

impl Timers {
    /// Sets a timer. A timer at the end of time never fires, so it is not kept.
    pub fn set(&mut self, at: SimTime, timer: Timer) {
        if at < SimTime::MAX {
            let number = if planted!(TimersOfOneInstantReversed) { u64::MAX - self.set } else { self.set };
            self.fresh.push(Reverse((at, number, timer)));
            self.set += 1;
        }
    }

    /// Sets the deadline of a computation. The deadline of an earlier one is void.
    pub fn await_computation(&mut self, at: SimTime, number: u64) {
        self.computation = Some(number);
        self.set(at, Timer::ComputationExpired { number });
    }

    /// Makes the deadline of the computation void, because the computation is over.
    pub fn computation_is_over(&mut self) {
        self.computation = None;
    }

    /// Whether a timer, which may be void, is set for this time or an earlier one.
    pub fn may_be_due(&self, now: SimTime) -> bool {
        self.heap.peek().into_iter().chain(&self.fresh).any(|Reverse((at, ..))| *at <= now)
    }

    /// The next timer that is not void.
    pub fn next(&mut self, is_valid: impl Fn(Timer) -> bool) -> Option<Entry> {
        if self.fresh.len() > MOST_FRESH {
            self.keep(&is_valid);
        }
        let is_valid = and_computations(self.computation, is_valid);
        while let Some(Reverse((.., timer))) = self.heap.peek()
            && !is_valid(*timer)
        {
            self.heap.pop();
        }
        let valid = self.fresh.iter().filter(|Reverse((.., timer))| is_valid(*timer));
        // Entries compare in reverse order of time, so the greatest entry is due first.
        valid.chain(self.heap.peek()).max().copied()
    }

    /// Removes the timer with this number, which [`Timers::next`] has returned just now.
    pub fn remove(&mut self, number: u64) {
        match self.fresh.iter().position(|Reverse((_, other, _))| *other == number) {
            Some(place) => drop(self.fresh.swap_remove(place)),
            None => drop(self.heap.pop()),
        }
    }

    /// Whether any timer was set at this instant.
    #[inline]
    pub fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Moves the valid timers of this instant to those of later instants. This happens when the instant is over, or
    /// when there are too many to search.
    pub fn keep(&mut self, is_valid: impl Fn(Timer) -> bool) {
        let is_valid = and_computations(self.computation, is_valid);
        for entry in self.fresh.drain(..) {
            if is_valid(entry.0.2) {
                self.heap.push(entry);
            }
        }
    }
}

/// Adds what only the timers know: whether the computation with a deadline is over.
fn and_computations(computation: Option<u64>, is_valid: impl Fn(Timer) -> bool) -> impl Fn(Timer) -> bool {
    move |timer| match timer {
        Timer::ComputationExpired { number } => computation == Some(number),
        other => is_valid(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timers that are still fresh and timers that moved to the heap fire in one order.
    #[test]
    fn timers_of_one_instant_fire_in_the_order_in_which_they_were_set() {
        for moves in [false, true] {
            let mut timers = Timers::default();
            let at = SimTime::from_secs(10);
            for number in 0..5 {
                timers.set(at, Timer::DependencyJudged { job: JobId::new(number) });
                if moves {
                    timers.keep(|_| true);
                }
            }
            timers.set(SimTime::from_secs(5), Timer::DependencyJudged { job: JobId::new(9) });
            let mut fired = Vec::new();
            while let Some(Reverse((_, number, Timer::DependencyJudged { job }))) = timers.next(|_| true) {
                timers.remove(number);
                fired.push(job.index());
            }
            assert_eq!(fired, [9, 0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn a_timer_may_be_due_from_its_time_on() {
        for moves in [false, true] {
            let mut timers = Timers::default();
            assert!(!timers.may_be_due(SimTime::from_secs(11)));
            timers.set(SimTime::from_secs(10), Timer::DependencyJudged { job: JobId::new(0) });
            if moves {
                timers.keep(|_| true);
            }
            assert_eq!([9, 10, 11].map(|second| timers.may_be_due(SimTime::from_secs(second))), [false, true, true]);
        }
    }

    #[test]
    fn a_person_is_told_what_is_due() {
        let (node, job) = (NodeId::new(0), JobId::new(0));
        let said = [Timer::Evict { node, epoch: 0 }, Timer::DependencyJudged { job }].map(Timer::reason);
        assert_eq!(said, ["a node's eviction", "a job that waited for others"]);
    }
}
