//! What Slurm's main scheduler and sched/backfill know of a job besides its resources: its partition ([`ground`]), its
//! priority ([`priority`]), what its user and account have used ([`fair`]), its advance reservation, and the limits of
//! its QOS and of the partition's ([`limits`]).
//!
//! The main scheduler ([`pass`]) visits all waiting jobs: those with an advance reservation first, then in order of the
//! partition's tier and the job's priority. A job that its partition, QOS or reservation does not allow is passed over. A
//! job that does not fit ends the pass for its partition, and the nodes of that partition are kept from the jobs behind
//! it; a job of a reservation ends the pass for its reservation only. Backfilling asks [`Queue::denied`] too. A job in
//! several partitions is visited once for each of them ([`partitions`]). The list of visits is kept from pass to pass, and a
//! pass leaves out those that are blocked ([`visits`]).

mod charging;
mod cluster;
mod denied_as;
mod evaluate;
mod fair;
mod ground;
mod limits;
mod partitions;
#[cfg(test)]
mod partitions_tests;
mod pass;
mod preempt;
mod preemptor;
mod priority;
mod section;
mod submission;
mod usage;
mod visits;

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use crate::queue::slots::time::SECOND;
pub(super) use cluster::Slurm;
use cluster::weights;
use dryrack_event::Reason;
use dryrack_scheduler::slurm::Multifactor;
use dryrack_units::SimTime;
pub(crate) use evaluate::never_starts;
pub(super) use ground::Ground;
pub(super) use preemptor::Preemptor;
use section::ReservedNodes;
pub(super) use visits::InPartition;

/// Whether priorities change with time. All other factors are known when a job comes.
fn change_with_time(weights: &Multifactor) -> bool {
    weights.weight_age > 0 || weights.weight_fairshare > 0
}

impl Queue {
    /// The number of time-dependent changes in the Slurm cluster so far: computations of priorities, and beginnings and
    /// ends of advance reservations, and jobs that are no longer exempt from preemption. A computation that changes no
    /// priority does not count. Otherwise a pass would depend on whether a step happens to follow it, such as a question.
    pub(in crate::queue) fn epoch(&self, core: &Core) -> u64 {
        let last = |weights: &Multifactor| match self.slurm.as_deref() {
            Some(slurm) if !slurm.is_unsettled(weights) => slurm.calculated,
            _ => core.now,
        };
        let weights = weights(core).filter(|weights| change_with_time(weights));
        let calculations = weights.map_or(0, |weights| weights.calculations(last(weights)));
        calculations + self.reservation_boundaries(core) + self.preemptible(core)
    }

    /// How many times an advance reservation has begun or ended.
    pub(in crate::queue) fn reservation_boundaries(&self, core: &Core) -> u64 {
        self.slurm.as_ref().map_or(0, |slurm| slurm.boundaries(core.now))
    }

    /// When the next such change comes. `None` if none comes. A computation of priorities that changes no order does not
    /// count, so that a run with a job that never starts can end.
    pub(in crate::queue) fn next_epoch(&self, core: &Core) -> Option<SimTime> {
        let is_due = |weights: &&Multifactor| {
            change_with_time(weights) && self.slurm.as_deref().is_some_and(|slurm| slurm.is_unsettled(weights))
        };
        let weights = weights(core).filter(is_due);
        let calculated = weights.and_then(|weights| weights.calculated_after(weights.calculations(core.now)));
        let boundary = self.slurm.as_ref().and_then(|slurm| slurm.next_boundary(core.now));
        calculated.into_iter().chain(boundary).chain(self.next_preemptible(core)).min()
    }

    /// Why a job may not start now in one of its partitions, whatever is free. `None` if it may.
    pub(in crate::queue) fn denied(&self, core: &Core, own: InPartition) -> Option<Reason> {
        let slurm = self.slurm.as_ref()?;
        let not_allowed = slurm.why_not_allowed(&core.store.job_of(own.replica).spec, own.section);
        not_allowed.or_else(|| self.why_denied(core, own))
    }

    /// Why a job's reservation or a QOS does not let it start now in one of its partitions. `None` if they do.
    fn why_denied(&self, core: &Core, own: InPartition) -> Option<Reason> {
        let slurm = self.slurm.as_ref()?;
        let spec = &core.store.job_of(own.replica).spec;
        if let Some(own) = slurm.reservation_of(core, spec) {
            let ReservedNodes { from, until, .. } = &slurm.reservations[own];
            if core.now < *from || core.now >= *until {
                return Some(Reason::Reservation);
            }
        }
        self.denied_by_qos(core, spec, own.section)
    }

    /// The tier and the priority of a replica, in the partition in which they are highest. Both are 0 if the profile has
    /// no configuration of Slurm.
    pub(in crate::queue) fn standing(&self, core: &Core, index: ReplicaIndex) -> (u32, u32) {
        let Some(slurm) = &self.slurm else { return (0, 0) };
        let sections = slurm.sections_of(&core.store.job_of(index).spec);
        sections.into_iter().map(|section| slurm.standing_in(core, index, section)).max().unwrap_or_default()
    }

    /// Prepares for a replica that enters the queue: learns the fleet, and makes the replica's key.
    pub(in crate::queue) fn rank_in_slurm(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(slurm) = &mut self.slurm else { return };
        slurm.follow_fleet(core);
        if let (Some(weights), Some(fair)) = (weights(core), &mut slurm.fair) {
            fair.catch_up(weights, core.now);
        }
        if let Some(weights) = weights(core).filter(|weights| weights.weight_age > 0) {
            let is_old = core.store[index].wanted.saturating_add(weights.max_age);
            // Slurm counts whole seconds.
            slurm.settled = slurm.settled.max(is_old.saturating_add(SECOND));
        }
        core.store[index].key = self.key_of(core, index);
    }

    /// What decides which nodes a replica may use. `None` if the profile has no configuration of Slurm, so that it may
    /// use all.
    pub(in crate::queue) fn ground_of(&self, core: &Core, own: InPartition) -> Option<Ground<'_>> {
        let slurm = self.slurm.as_ref()?;
        let reservation = slurm.reservation_of(core, &core.store.job_of(own.replica).spec);
        let section = &slurm.partitions[own.section];
        Some(Ground { section, reservations: &slurm.reservations, own: reservation })
    }
}
