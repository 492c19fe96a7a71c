//! Follows the jobs that begin and end, and charges what they use.

use super::cluster::{Slurm, held_by, weights};
use super::fair::{Charge, FairShares};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use crate::queue::slots::time::{SECOND, down_to, limit_of};
use dryrack_event::Phase;
use dryrack_scheduler::slurm::Multifactor;
use dryrack_units::SimTime;

impl Slurm {
    /// What a job uses per second.
    fn charge_of(&self, core: &Core, index: ReplicaIndex) -> Option<Charge> {
        let replica = &core.store[index];
        let spec = &core.store[replica.job].spec;
        let association = self.fair.as_ref()?.association_of(spec)?;
        let claims = replica.placement.as_ref()?.claims();
        let held = held_by(claims);
        let rate = self.partitions[self.section_of(core, index)].options.billing(held);
        let until = core.now.saturating_add(limit_of(core, index));
        Some(Charge { association, rate: (rate * 1000.0) as u64, since: down_to(core.now, SECOND), until })
    }

    /// A computation of priorities at this time or later is the last that changes an order, unless another job comes,
    /// begins or ends. What runs changes factors until it ends, at its time limit at the latest.
    pub fn settled_from(&self, weights: &Multifactor) -> SimTime {
        let running = self.fair.as_ref().filter(|_| weights.weight_fairshare > 0).and_then(FairShares::last_end);
        running.map_or(self.settled, |last| last.max(self.settled))
    }
}

impl Queue {
    pub(super) fn fair_shares(&mut self) -> Option<&mut FairShares> {
        self.slurm.as_mut()?.fair.as_mut()
    }

    /// Follows a job that begins to hold its nodes, or that ends.
    pub(in crate::queue) fn note_usage(&mut self, core: &Core, index: ReplicaIndex, before: Phase) {
        let Some(weights) = weights(core) else { return };
        let holds = |phase| matches!(phase, Phase::Scheduled | Phase::Preparing | Phase::Running);
        if holds(before) == holds(core.store[index].phase) {
            return;
        }
        let Some(fair) = self.fair_shares() else { return };
        fair.catch_up(weights, core.now);
        if holds(before) {
            fair.end(index, core.now);
            self.expect_usage(weights, core.now);
            return;
        }
        self.begin_usage(core, index);
    }

    /// Charges a job from now on.
    fn begin_usage(&mut self, core: &Core, index: ReplicaIndex) {
        let charge = self.slurm.as_ref().and_then(|slurm| slurm.charge_of(core, index));
        if let (Some(charge), Some(fair)) = (charge, self.fair_shares()) {
            fair.begin(index, charge);
        }
    }

    /// Notes that usage changes the order until then.
    fn expect_usage(&mut self, weights: &Multifactor, until: SimTime) {
        if let Some(slurm) = self.slurm.as_mut().filter(|_| weights.weight_fairshare > 0) {
            slurm.settled = slurm.settled.max(until);
        }
    }

    /// Takes over from another configuration what was used, in which partitions jobs run, and which of them are to be
    /// preempted after their grace time. Jobs that run are charged anew from now on.
    pub(in crate::queue) fn take_over(&mut self, before: Option<Box<Slurm>>, core: &Core) {
        let Some(before) = before else { return };
        if let Some(slurm) = &mut self.slurm {
            let of_name = |section: &usize| {
                let name = &before.partitions[*section].options.name;
                slurm.partitions.iter().position(|section| section.options.name == *name)
            };
            let chosen = before.chosen.iter().filter_map(|(index, section)| Some((*index, of_name(section)?)));
            slurm.chosen = chosen.collect();
            slurm.graced = before.graced;
        }
        let Some(mut before) = before.fair else { return };
        let running: Vec<ReplicaIndex> = before.running().collect();
        running.iter().for_each(|index| before.end(*index, core.now));
        let Some(weights) = weights(core) else { return };
        let Some(fair) = self.fair_shares() else { return };
        fair.catch_up(weights, core.now);
        fair.take_usage_of(&before);
        self.expect_usage(weights, core.now);
        running.into_iter().for_each(|index| self.begin_usage(core, index));
    }
}
