//! How a replica enters the queue, and how it leaves.

use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::pass_options::Trigger;
use crate::queue::Queue;
use crate::queue::attained::level;
use dryrack_event::Command;
use dryrack_scheduler::{Entry, QueueKey};

impl Queue {
    pub(super) fn enter_queue(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.take_turn(core, index);
        self.rank_in_slurm(core, index);
        if self.wait_for_quota(core, index) {
            return;
        }
        let replica = &mut core.store[index];
        replica.wait = Wait::Queue;
        if !matches!(core.profile.passes.place.trigger, Trigger::EachAfter(_)) {
            replica.due = core.now;
        }
        self.queued += 1;
        replica.fresh = Some(self.queued);
        let (key, demand, entry) = (replica.key, replica.demand, self.entry(core, index));
        self.queue.insert_entry(key, demand, entry);
        self.shelve(core, index);
        self.list_visits(core, index);
        self.await_judgement(core, index);
        self.fresh.push_back((self.queued, index));
        if core.is_decided_outside() {
            let attempt = core.store[index].attempt_id();
            core.command(Command::Submit { attempt });
        }
    }

    pub(super) fn leave_queue(&mut self, core: &mut Core, index: ReplicaIndex, wait: Wait) {
        let replica = &core.store[index];
        if replica.wait == Wait::Queue {
            self.queue.remove(replica.key, replica.demand);
            self.unshelve(core, index);
            self.unlist_visits(index);
            self.forget_judgement(core, index);
            self.held_as_head.remove(&index);
            self.leave_group(core, index);
            // An outside program is told of every replica that leaves the queue, even if it leaves because of its
            // quota. A real scheduler is told only when the replica ends.
            if core.profile.program.is_some() {
                let attempt = core.store[index].attempt_id();
                core.command(Command::Withdraw { attempt });
            }
        }
        core.store[index].wait = wait;
        self.forget_fresh(core, index);
        if wait == Wait::Nothing {
            self.forget_nomination(core, index);
        }
    }

    /// Removes a replica from the list of replicas for which an event must still say why they wait.
    pub(super) fn forget_fresh(&mut self, core: &mut Core, index: ReplicaIndex) {
        if let Some(queued) = core.store[index].fresh.take()
            && let Ok(place) = self.fresh.binary_search(&(queued, index))
        {
            self.fresh.remove(place);
        }
    }

    /// The fields of a replica that the order of the queue reads.
    pub(crate) fn entry(&self, core: &Core, index: ReplicaIndex) -> Entry {
        self.entry_with(core, index, self.standing(core, index))
    }

    fn entry_with(&self, core: &Core, index: ReplicaIndex, (tier, multifactor): (u32, u32)) -> Entry {
        let replica = &core.store[index];
        let entry = core.store[replica.job].entry(replica.job, index, replica.wanted, replica.ran);
        Entry { tier, multifactor, level: level(core, index), turn: self.turn(core, index), ..entry }
    }

    /// The key of a replica that has this tier and priority in Slurm.
    pub(super) fn key_with(&self, core: &Core, index: ReplicaIndex, standing: (u32, u32)) -> QueueKey {
        QueueKey::new(&core.profile.scheduler.order, &self.entry_with(core, index, standing))
    }

    pub(super) fn key_of(&self, core: &Core, index: ReplicaIndex) -> QueueKey {
        QueueKey::new(&core.profile.scheduler.order, &self.entry(core, index))
    }
}
