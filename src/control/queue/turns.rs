//! The turns of replicas that have left the first queue of Tiresias.

use std::collections::BTreeMap;

use crate::core::store::ReplicaIndex;
use dryrack_units::SimTime;

/// The turns of replicas that have left the first queue of Tiresias. Only an order with the key `joined` uses turns. No
/// run in the first queue is ever preempted, so replicas there have their turns in order of submission.
#[derive(Default)]
pub struct Turns {
    /// The lowest and the highest turn given so far, with the time at which the highest was given. Replicas that come
    /// last at one instant share a turn and keep their order of submission.
    first: i64,
    last: (i64, SimTime),
    of: BTreeMap<ReplicaIndex, Turn>,
    /// The replicas that entered a queue while running, at the last instant at which any replica did so.
    joined: (SimTime, Vec<ReplicaIndex>),
}

#[derive(Clone, Copy, Default)]
struct Turn {
    /// Sort key of the replica among those that wait in its queue.
    place: i64,
    /// When the replica last entered a queue while it was running.
    joined: SimTime,
    /// Whether the replica was stopped at the instant at which it entered its queue. If so, it waits behind the
    /// replicas that were already there.
    is_last: bool,
}

impl Turns {
    /// The sort key of a replica among those that wait in its queue. `None` if it is still in the first queue.
    pub fn place_of(&self, index: ReplicaIndex) -> Option<i64> {
        self.of.get(&index).map(|turn| turn.place)
    }

    /// Sets the place of a replica that begins to wait. It is the first in its queue, unless it was stopped at the
    /// instant at which it entered that queue.
    pub fn begin_to_wait(&mut self, index: ReplicaIndex) {
        let Turns { first, last, of, .. } = self;
        let turn = of.entry(index).or_default();
        if std::mem::take(&mut turn.is_last) {
            *last = (last.0 + i64::from(last.1 != turn.joined), turn.joined);
            turn.place = last.0;
        } else {
            *first -= 1;
            turn.place = *first;
        }
    }

    /// Notes that a running replica enters the next queue.
    pub fn join(&mut self, index: ReplicaIndex, now: SimTime) {
        self.of.entry(index).or_default().joined = now;
        if self.joined.0 != now {
            self.joined = (now, Vec::new());
        }
        self.joined.1.push(index);
    }

    /// The replicas that entered a queue at this instant while running.
    pub fn joined_at(&self, now: SimTime) -> &[ReplicaIndex] {
        if self.joined.0 == now { &self.joined.1 } else { &[] }
    }

    /// Whether the replica entered its queue at this instant while running.
    pub fn has_joined(&self, index: ReplicaIndex, now: SimTime) -> bool {
        self.of.get(&index).is_some_and(|turn| turn.joined == now)
    }

    /// When a replica that has been running since this time entered its queue. `None` if it began in that queue.
    pub fn joined_since(&self, index: ReplicaIndex, since: SimTime) -> Option<SimTime> {
        self.of.get(&index).map(|turn| turn.joined).filter(|joined| *joined >= since)
    }

    /// Lets a replica wait behind all others of its queue once it waits.
    pub fn leave_as_last(&mut self, index: ReplicaIndex) {
        self.of.entry(index).or_default().is_last = true;
    }

    /// Forgets a replica that has ended for good.
    pub fn forget(&mut self, index: ReplicaIndex) {
        if self.of.remove(&index).is_some_and(|turn| turn.joined == self.joined.0) {
            self.joined.1.retain(|joined| *joined != index);
        }
    }
}
