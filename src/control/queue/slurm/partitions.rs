//! Jobs in several partitions (`sbatch --partition=a,b`). Each pass visits such a job once for each of its partitions, in
//! the order of the partitions' tiers and of the priority that the job has in each. The job begins in the first partition
//! in which it fits. Backfilling can reserve nodes for it in each of them, unless `one_reservation_per_job` is set.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use smallvec::SmallVec;

use super::cluster::Slurm;
use super::pass::demand_on;
use super::usage::qos_of;
use super::visits::{Grounds, InPartition, Visits};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::Held;
use crate::queue::Queue;
use crate::queue::slots::bits::{contains, insert};
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_scheduler::slurm::demand_in;
use dryrack_scheduler::{Caching, QueueKey, ever_fits, is_by_room, why_no_room};

/// What a pass says of a job that does not start in one of its partitions. Of a job in several partitions, the greatest
/// is told.
pub(super) enum Said {
    /// The job would not fit on the nodes of the partition even if nothing ran there.
    NeverFits(Held),
    /// The partition does not allow the job.
    NotAllowed(Reason),
    /// A job ahead of it does not fit.
    Behind,
    /// Its QOS or its reservation does not let the job start now, whatever is free.
    Denied(Reason),
    /// The nodes that reservations leave are not enough, so that the job is passed over.
    PassedOver(Held),
    /// The job does not fit, and those behind it wait.
    Refused(Held),
}

impl Said {
    fn rank(&self) -> u8 {
        match self {
            Said::NeverFits(_) => 0,
            Said::NotAllowed(_) => 1,
            Said::Behind => 2,
            Said::Denied(_) => 3,
            Said::PassedOver(_) => 4,
            Said::Refused(_) => 5,
        }
    }

    /// Why the job was not tried in the partition. `None` if it was.
    fn why_untried(&self) -> Option<Reason> {
        match self {
            Said::NotAllowed(reason) | Said::Denied(reason) => Some(*reason),
            Said::Behind => Some(Reason::QueueOrder),
            Said::NeverFits(_) | Said::PassedOver(_) | Said::Refused(_) => None,
        }
    }
}

/// What is said of each job in several partitions, until the end of a pass.
#[derive(Default)]
pub(super) struct Unsaid(BTreeMap<ReplicaIndex, OfSeveral>);

/// What is said of a job in several partitions.
struct OfSeveral {
    /// The greatest, with its partition.
    greatest: (InPartition, Said),
    /// The partitions in which the job was not tried, by their indices, and why.
    untried: Vec<(usize, Reason)>,
}

impl Slurm {
    /// The tier and the priority of a replica in one of its partitions. Jobs that may preempt others come before them. Then
    /// jobs with an advance reservation come first, and then jobs of partitions with a higher tier (`sort_job_queue2` in
    /// `src/slurmctld/job_scheduler.c`).
    pub(super) fn standing_in(&self, core: &Core, index: ReplicaIndex, section: usize) -> (u32, u32) {
        let section = &self.partitions[section];
        let spec = &core.store.job_of(index).spec;
        let rank = self.preemptors.rank(&section.options, qos_of(spec).map(|name| &**name));
        let has_reservation = self.reservation_of(core, spec).is_some();
        let tier = (u32::from(rank) << (u16::BITS + 1))
            + (u32::from(has_reservation) << u16::BITS)
            + u32::from(section.options.priority_tier);
        (tier, self.priority_of(core, index, section))
    }

    /// Whether a job would fit on the nodes of a partition if they were all ready and empty. True if that cannot be told
    /// for good.
    fn may_fit_in(&mut self, core: &Core, index: ReplicaIndex, section: usize) -> bool {
        let (options, number) = (&core.profile.scheduler, core.store[index].demand);
        let demand = core.store.demand(number);
        if !is_by_room(options, demand) || core.deciding.has_unsteady_stages {
            return true;
        }
        let name = &self.partitions[section].options.name;
        let fits = || ever_fits(options, &demand_in(demand, name), &core.fleet);
        *self.ever_fits.entry((number, section)).or_insert_with(fits)
    }
}

impl Queue {
    /// The first `most` waiting jobs, each in all of its partitions, in the order in which a pass tries them. A job in
    /// several partitions counts once for each.
    pub(in crate::queue) fn in_partitions(&self, core: &Core, most: usize) -> Vec<InPartition> {
        let Some(visits) = self.kept_visits(core) else { return self.in_partitions_plainly(core, most) };
        let found = visits.in_order().take(most).map(|visit| visits.place_of(visit)).collect();
        if core.deciding.caching == Caching::Paranoid {
            assert_eq!(found, self.in_partitions_plainly(core, most), "the visits are not those that are computed");
        }
        found
    }

    /// What is kept of the order in which a pass tries the waiting jobs. `None` if it is computed in each pass.
    pub(super) fn kept_visits(&self, core: &Core) -> Option<&Visits> {
        let is_plain = core.deciding.caching == Caching::Off || self.queue.moves();
        self.slurm.as_ref().filter(|_| !is_plain).map(|slurm| &slurm.visits)
    }

    /// Lists a job that begins to wait, in each of its partitions.
    pub(in crate::queue) fn list_visits(&mut self, core: &Core, index: ReplicaIndex) {
        let spec = &core.store.job_of(index).spec;
        let Some(slurm) = &mut self.slurm else { return };
        let sections = slurm.sections_of(spec);
        let fits: SmallVec<[bool; 1]> = match sections.len() {
            1 => SmallVec::from([true]),
            _ => sections.iter().map(|section| slurm.may_fit_in(core, index, *section)).collect(),
        };
        let Some(slurm) = &self.slurm else { return };
        let reservation = slurm.reservation_of(core, spec);
        let not_allowed = |section: usize| slurm.why_not_allowed(spec, section);
        let is_enough = |(section, fits): (&usize, &bool)| *fits && not_allowed(*section).is_none();
        let has_better = !slurm.may_deny(core, spec) && sections.iter().zip(&fits).any(is_enough);
        let place_in = |(section, fits): (usize, bool)| {
            let key = self.key_with(core, index, slurm.standing_in(core, index, section));
            let not_allowed = not_allowed(section);
            let is_in_vain = !fits && has_better && not_allowed.is_none();
            (key, Grounds { section, reservation, not_allowed, is_in_vain })
        };
        let denied_as = if let [section] = sections[..] { slurm.denied_as(core, spec, section) } else { None };
        let places: SmallVec<[_; 1]> = sections.into_iter().zip(fits).map(place_in).collect();
        self.slurm.iter_mut().for_each(|slurm| slurm.visits.insert(index, &places, denied_as.as_ref()));
    }

    /// Decides whether this pass keeps denied jobs in groups. That needs room that does not change within a pass, and jobs
    /// that are told when they are behind another one.
    pub(super) fn begin_groups(&mut self, core: &Core) {
        let is_steady = core.fleet.fleets().next().is_none() && self.nominations.is_empty();
        let are_kept = is_steady && self.is_held_as_head(core) && !core.may_placement_make_room();
        let changes = self.room_changes(core);
        let Some(slurm) = &mut self.slurm else { return };
        for (replica, at) in slurm.visits.begin_pass(are_kept, changes) {
            self.held_as_head.insert(replica, at);
        }
    }

    pub(in crate::queue) fn unlist_visits(&mut self, index: ReplicaIndex) {
        self.slurm.iter_mut().for_each(|slurm| slurm.visits.remove(index));
    }

    /// Moves these jobs in the order, after their priorities were computed again.
    pub(super) fn move_visits(&mut self, core: &Core, waiting: &[ReplicaIndex]) {
        let Some(slurm) = &mut self.slurm else { return };
        let mut visits = std::mem::take(&mut slurm.visits);
        if let Some(slurm) = &self.slurm {
            for index in waiting {
                visits.move_to(*index, |section| self.key_with(core, *index, slurm.standing_in(core, *index, section)));
            }
        }
        self.slurm.iter_mut().for_each(|slurm| std::mem::swap(&mut slurm.visits, &mut visits));
    }

    fn in_partitions_plainly(&self, core: &Core, most: usize) -> Vec<InPartition> {
        // No job behind these comes earlier in any of its partitions, because a job waits at its best place.
        let waiting = self.queue.iter(core.now).take(most);
        let alone = |replica, section| InPartition { replica, section, is_one_of_several: false };
        let Some(slurm) = &self.slurm else { return waiting.map(|key| alone(key.replica(), 0)).collect() };
        let mut found: Vec<(QueueKey, InPartition)> = Vec::new();
        let mut is_in_order = true;
        for key in waiting {
            let replica = key.replica();
            let sections = slurm.sections_of(&core.store.job_of(replica).spec);
            if let [section] = sections[..] {
                found.push((key, alone(replica, section)));
                continue;
            }
            is_in_order = false;
            found.extend(sections.into_iter().map(|section| {
                let key = self.key_with(core, replica, slurm.standing_in(core, replica, section));
                (key, InPartition { replica, section, is_one_of_several: true })
            }));
        }
        if !is_in_order {
            // Of equal partitions of a job, the one that it names first comes first.
            found.sort_by_key(|(key, _)| *key);
            found.truncate(most);
        }
        found.into_iter().map(|(_, own)| own).collect()
    }

    /// Notes in which partition a job begins.
    pub(in crate::queue) fn choose(&mut self, own: InPartition) {
        if let Some(slurm) = self.slurm.as_mut().filter(|_| own.is_one_of_several) {
            slurm.chosen.insert(own.replica, own.section);
        }
    }

    /// Says why a job waits, at the end of the pass if it is in several partitions.
    pub(super) fn say(&mut self, core: &mut Core, own: InPartition, said: Said, unsaid: &mut Unsaid) {
        if !own.is_one_of_several {
            return self.say_now(core, own.replica, said);
        }
        let untried = said.why_untried().map(|reason| (own.section, reason));
        match unsaid.0.entry(own.replica) {
            Entry::Vacant(vacant) => {
                vacant.insert(OfSeveral { greatest: (own, said), untried: untried.into_iter().collect() });
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.untried.extend(untried);
                if known.greatest.1.rank() < said.rank() {
                    known.greatest = (own, said);
                }
            }
        }
    }

    /// Says why the jobs in several partitions wait.
    pub(super) fn say_all(&mut self, core: &mut Core, unsaid: Unsaid) {
        for (index, OfSeveral { greatest: (own, said), untried }) in unsaid.0 {
            if core.store.waits_in_queue(index) {
                let said = match said {
                    Said::PassedOver(held) => Said::PassedOver(self.with_untried(core, own, held, &untried)),
                    Said::Refused(held) => Said::Refused(self.with_untried(core, own, held, &untried)),
                    said @ (Said::NeverFits(_) | Said::NotAllowed(_) | Said::Behind | Said::Denied(_)) => said,
                };
                self.say_now(core, index, said);
            }
        }
    }

    /// The reasons of a job that was tried in one of its partitions, in which each node of another partition counts with
    /// the reason for which the job was not tried there.
    fn with_untried(&self, core: &Core, own: InPartition, held: Held, untried: &[(usize, Reason)]) -> Held {
        let Some(ground) = self.ground_of(core, own).filter(|_| !untried.is_empty()) else { return held };
        let partitions = &self.slurm.as_ref().expect("it has a ground").partitions;
        let (demand, mut counted) = (demand_on(core, own, &ground), ground.section.bits.clone());
        let mut moved = Vec::new();
        for (section, reason) in untried {
            for node in &partitions[*section].nodes {
                // A node that is not ready keeps this reason.
                let refusal = || why_no_room(&core.profile.scheduler, &demand, &core.fleet, *node);
                if !contains(&counted, *node) && refusal() == Some(Reason::PartitionMismatch) {
                    insert(&mut counted, *node);
                    moved.push((Reason::PartitionMismatch, *reason));
                }
            }
        }
        let (refusal, reasons) = held;
        (refusal, reasons.with_moved(moved.into_iter()))
    }

    /// Notes for which reason a job was denied. Returns whether it is in a group of jobs that are denied alike.
    fn tell_in_group(&mut self, index: ReplicaIndex, denied: Option<Reason>) -> bool {
        self.slurm.as_mut().is_some_and(|slurm| slurm.visits.tell(index, denied))
    }

    fn say_now(&mut self, core: &mut Core, index: ReplicaIndex, said: Said) {
        let all = core.fleet.len() as u32;
        match said {
            Said::NotAllowed(reason) => core.hold(index, (Refusal::Unfit, Histogram::of(reason, all))),
            Said::Denied(reason) => {
                let held = (Refusal::Unfit, Histogram::of(reason, all));
                match self.tell_in_group(index, Some(reason)) {
                    true => {
                        self.held_as_head.remove(&index);
                        core.hold(index, held);
                    }
                    false => self.hold_with_own(core, index, held),
                }
            }
            Said::NeverFits(held) | Said::PassedOver(held) | Said::Refused(held) => {
                self.tell_in_group(index, None);
                self.hold_with_own(core, index, held);
            }
            // A job that is blocked is not looked at again. Once there may be more room, the reasons of its own for which it
            // was held may be over, and it only waits for the new head. Slurm's reason is `Priority`.
            Said::Behind => {
                let changes = self.room_changes(core);
                let was_denied = self.slurm.as_ref().is_some_and(|slurm| slurm.visits.was_denied_before(index));
                let is_passed = was_denied || self.held_as_head.get(&index).is_some_and(|at| *at != changes);
                if is_passed {
                    self.tell_in_group(index, None);
                    self.held_as_head.remove(&index);
                }
                if is_passed || core.store[index].fresh.is_some() {
                    core.hold(index, (Refusal::Unfit, Histogram::of(Reason::QueueOrder, all)));
                }
            }
        }
    }
}
