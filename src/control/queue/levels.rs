//! How replicas move through the queues of Tiresias, and in which order they wait in each.

use super::Queue;
use super::attained::{await_next_level, level};
use super::preempting::freeable::note_changes_of;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_scheduler::OrderKey;
use dryrack_units::SimTime;

impl Queue {
    /// The sort key of a replica among those that wait in its queue.
    pub(super) fn turn(&self, core: &Core, index: ReplicaIndex) -> i64 {
        let of_submission = core.store[index].job.index() as i64;
        self.turns.place_of(index).unwrap_or(of_submission)
    }

    /// Sets the place in the queue of a replica that begins to wait. The place depends on the GPU time the replica has
    /// used.
    pub(super) fn take_turn(&mut self, core: &mut Core, index: ReplicaIndex) {
        let order = &core.profile.scheduler.order;
        if !order.iter().any(|key| matches!(key, OrderKey::Remaining | OrderKey::Attained)) {
            return;
        }
        if order.contains(&OrderKey::Joined) && level(core, index) > 0 {
            self.turns.begin_to_wait(index);
        }
        core.store[index].key = self.key_of(core, index);
    }

    /// Moves a running replica into the next queue.
    pub(super) fn join_next_level(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.turns.join(index, core.now);
        note_changes_of(core, index);
        await_next_level(core, index);
    }

    /// Whether a running replica ranks behind `other`, which waits. This is the case if the running replica enters the
    /// queue of `other` at this instant.
    pub(super) fn joins_behind(&self, core: &Core, index: ReplicaIndex, other: ReplicaIndex) -> bool {
        let attempts_on = core.store[index].since < core.now;
        attempts_on && self.turns.has_joined(index, core.now) && !self.turns.has_joined(other, core.now)
    }

    /// Notes that a running replica is stopped. If the replica entered its queue at this instant, it waits behind all
    /// others there.
    pub(super) fn leave_as_last(&mut self, core: &mut Core, index: ReplicaIndex) {
        if self.turns.has_joined(index, core.now) {
            self.turns.leave_as_last(index);
        }
    }

    /// Sort key of a running replica: the time since which it has been running in its queue. At equal times, a replica
    /// that started from this queue comes before one that entered it while running.
    pub(super) fn running_key(&self, core: &Core, index: ReplicaIndex) -> (SimTime, bool, i64) {
        let since = core.store[index].since;
        match self.turns.joined_since(index, since) {
            Some(joined) => (joined, true, i64::from(index)),
            None => (since, false, self.turn(core, index)),
        }
    }
}
