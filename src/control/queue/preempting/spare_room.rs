//! Room that a promise needs beside its place.
//!
//! Under [`FitTest::NodesOrBlocks`], a replica fits only if its fleet also has room for the other replicas of its job, or
//! if enough instances of its fleet are not in use, although it takes only blocks of them. So a replica that has the
//! promise of a place could lose its fit to replicas behind it that do not take this place. The attempts that were stopped
//! for it would take their old places again, and would be stopped again, without end.
//!
//! [`FitTest::NodesOrBlocks`]: dryrack_scheduler::offers::FitTest::NodesOrBlocks

use super::{fleet_without_what_stops, take_promised};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::backfill::plain::judge_on;
use dryrack_fleet::{Fleet, Placement};
use dryrack_scheduler::offers::{needs_spare_room, take_idle_blocks};

/// Replicas ahead of a waiting one with their promised places, in the order of the queue.
pub type Promises<'a> = &'a [(ReplicaIndex, Placement)];

/// Takes blocks in a copy of the fleet, so that the replica finds no place there with which it would break a promise.
/// The promised places are already taken in this copy. A fleet in which the replica would break a promise is closed to
/// it.
pub fn close_needed_fleets(core: &Core, index: ReplicaIndex, promises: Promises<'_>, fleet: &mut Fleet) {
    if !promises.iter().any(|(head, _)| needs_more_than_its_place(core, *head)) {
        return;
    }
    let free = fleet_without_what_stops(core, &core.holders());
    while let Some(candidate) = judge_on(core, index, fleet)
        && breaks_a_promise(core, promises, &free, &candidate.placement)
    {
        let node = fleet.node(candidate.placement.claims()[0].node);
        let of = node.shape.instance.as_ref().map(|instance| instance.fleet);
        if !of.is_some_and(|of| take_idle_blocks(fleet, of)) {
            return;
        }
    }
}

fn needs_more_than_its_place(core: &Core, head: ReplicaIndex) -> bool {
    let context = core.context(core.store[head].attempt_id());
    needs_spare_room(&core.profile.scheduler.offers, &core.fleet, core.store.demand_of(head), context)
}

/// Whether a replica with a promise fits in `free`, but not beside this place. `free` is the fleet without all attempts
/// that stop.
fn breaks_a_promise(core: &Core, promises: Promises<'_>, free: &Fleet, place: &Placement) -> bool {
    let mut without = free.clone();
    let fits_beside = |without: &Fleet, head| {
        let mut beside = without.clone();
        beside.take_in_advance(place);
        judge_on(core, head, &beside).is_some()
    };
    promises.iter().any(|(head, promised)| {
        let breaks = needs_more_than_its_place(core, *head)
            && !fits_beside(&without, *head)
            && judge_on(core, *head, &without).is_some();
        take_promised(&mut without, promised);
        breaks
    })
}
