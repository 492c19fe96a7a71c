//! Jobs in several partitions (`sbatch --partition=a,b`). Each pass visits such a job once for each of its partitions, in
//! the order of the partitions' tiers and of the priority that the job has in each. The job begins in the first partition
//! in which it fits. Backfilling can reserve nodes for it in each of them, unless `one_reservation_per_job` is set.

use std::collections::BTreeMap;

use super::cluster::Slurm;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::Held;
use crate::queue::Queue;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_scheduler::QueueKey;

/// A job in one of its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPartition {
    pub replica: ReplicaIndex,
    /// The index of the partition. 0 if the profile has no configuration of Slurm.
    pub section: usize,
}

/// What a pass says of a job that does not start in one of its partitions. Of a job in several partitions, the greatest
/// is told.
pub(super) enum Said {
    /// The job may not start in the partition, whatever is free.
    Denied(Reason),
    /// A job ahead of it does not fit.
    Behind,
    /// The nodes that reservations leave are not enough, so that the job is passed over.
    PassedOver(Held),
    /// The job does not fit, and those behind it wait.
    Refused(Held),
}

impl Said {
    fn rank(&self) -> u8 {
        match self {
            Said::Denied(_) => 0,
            Said::Behind => 1,
            Said::PassedOver(_) => 2,
            Said::Refused(_) => 3,
        }
    }
}

/// What is said of each job in several partitions, until the end of a pass.
#[derive(Default)]
pub(super) struct Unsaid(BTreeMap<ReplicaIndex, Said>);

impl Slurm {
    /// The tier and the priority of a replica in one of its partitions. Jobs with an advance reservation come first, and
    /// then jobs of partitions with a higher tier (`sort_job_queue2` in `src/slurmctld/job_scheduler.c`).
    pub(super) fn standing_in(&self, core: &Core, index: ReplicaIndex, section: usize) -> (u32, u32) {
        let section = &self.partitions[section];
        let has_reservation = self.reservation_of(core, &core.store.job_of(index).spec).is_some();
        let tier = (u32::from(has_reservation) << u16::BITS) + u32::from(section.options.priority_tier);
        (tier, self.priority_of(core, index, section))
    }

    fn has_several(&self, core: &Core, index: ReplicaIndex) -> bool {
        self.sections_of(&core.store.job_of(index).spec).len() > 1
    }
}

impl Queue {
    /// All waiting jobs, each in all of its partitions, in the order in which a pass tries them.
    pub(in crate::queue) fn in_partitions(&self, core: &Core) -> Vec<InPartition> {
        let waiting = self.queue.iter(core.now);
        let Some(slurm) = &self.slurm else {
            return waiting.map(|key| InPartition { replica: key.replica(), section: 0 }).collect();
        };
        let mut found: Vec<(QueueKey, InPartition)> = Vec::new();
        let mut is_in_order = true;
        for key in waiting {
            let replica = key.replica();
            let sections = slurm.sections_of(&core.store.job_of(replica).spec);
            if let [section] = sections[..] {
                found.push((key, InPartition { replica, section }));
                continue;
            }
            is_in_order = false;
            let in_section = |section| (self.key_in(core, replica, section), InPartition { replica, section });
            found.extend(sections.into_iter().map(in_section));
        }
        if !is_in_order {
            // Of equal partitions of a job, the one that it names first comes first.
            found.sort_by_key(|(key, _)| *key);
        }
        found.into_iter().map(|(_, own)| own).collect()
    }

    fn key_in(&self, core: &Core, index: ReplicaIndex, section: usize) -> QueueKey {
        let slurm = self.slurm.as_ref().expect("it has partitions");
        self.key_with(core, index, slurm.standing_in(core, index, section))
    }

    /// Notes in which partition a job begins.
    pub(in crate::queue) fn choose(&mut self, core: &Core, own: InPartition) {
        if let Some(slurm) = self.slurm.as_mut().filter(|slurm| slurm.has_several(core, own.replica)) {
            slurm.chosen.insert(own.replica, own.section);
        }
    }

    /// Says why a job waits, at the end of the pass if it is in several partitions.
    pub(super) fn say(&mut self, core: &mut Core, index: ReplicaIndex, said: Said, unsaid: &mut Unsaid) {
        let has_several = self.slurm.as_ref().is_some_and(|slurm| slurm.has_several(core, index));
        if !has_several {
            return self.say_now(core, index, said);
        }
        let is_known = unsaid.0.get(&index).is_some_and(|known| known.rank() >= said.rank());
        if !is_known {
            unsaid.0.insert(index, said);
        }
    }

    /// Says why the jobs in several partitions wait.
    pub(super) fn say_all(&mut self, core: &mut Core, unsaid: Unsaid) {
        for (index, said) in unsaid.0 {
            if core.store.waits_in_queue(index) {
                self.say_now(core, index, said);
            }
        }
    }

    fn say_now(&mut self, core: &mut Core, index: ReplicaIndex, said: Said) {
        let all = core.fleet.len() as u32;
        match said {
            Said::Denied(reason) => core.hold(index, (Refusal::Unfit, Histogram::of(reason, all))),
            Said::PassedOver(held) => core.hold(index, held),
            Said::Refused(held) => self.hold_with_own(core, index, held),
            // A job that is blocked is not looked at again. Once the fleet has grown, the reasons for which it was held
            // as the head may be over, and it only waits for the new head. Slurm's reason is `Priority`.
            Said::Behind => {
                let growth = core.growth();
                let is_passed = self.held_as_head.get(&index).is_some_and(|at| *at != growth);
                if is_passed {
                    self.held_as_head.remove(&index);
                }
                if is_passed || core.store[index].fresh.is_some() {
                    core.hold(index, (Refusal::Unfit, Histogram::of(Reason::QueueOrder, all)));
                }
            }
        }
    }
}
