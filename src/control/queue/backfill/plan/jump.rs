//! Replicas that start now although replicas ahead of them are not planned yet.
//!
//! In a long queue, the replicas that are short enough for a gap on some nodes are far behind, and all those ahead of them
//! would have to be planned first. But a reservation of another replica only matters if it overlaps the gap on one of these
//! nodes. If no replica in between could run on them at any time before the gap ends, whatever is planned for it, then the
//! replica behind starts now, and its reservation changes nothing for those in between.
//!
//! A replica in between could run on a node only if the node has room for a task of its demand from now on, or from an end
//! of a claim on the node, and if the replica is short enough for the time for which the room lasts. Reservations that are
//! made later only take room away.

use std::collections::BTreeSet;

use super::StartableDemand;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::backfill::bookings::end;

use crate::queue::backfill::kept::Backfilling;
use crate::queue::backfill::shelves::{ENDLESS, Position, Waiting};
use dryrack_ids::NodeId;
use dryrack_scheduler::QueueKey;
use dryrack_units::{SimDuration, SimTime};

/// After how many plans a jump is tried for the first time.
const FIRST: u64 = 4;

/// When jumps are tried, and which replicas have been planned by one.
pub(super) struct Jumps {
    planned: u64,
    next: u64,
    done: BTreeSet<ReplicaIndex>,
}

impl Jumps {
    pub fn new() -> Jumps {
        Jumps { planned: 0, next: FIRST, done: BTreeSet::new() }
    }

    /// Notes that another replica was planned in its turn.
    pub fn count(&mut self) {
        self.planned += 1;
    }

    /// Whether it is time to try. A failed try costs as much as a few plans, so the tries become rarer.
    pub fn are_due(&self) -> bool {
        self.planned >= self.next
    }

    pub fn fail(&mut self) {
        self.next = self.planned.saturating_mul(2);
    }

    pub fn note(&mut self, replica: ReplicaIndex) {
        self.done.insert(replica);
    }

    pub fn is_done(&self, replica: ReplicaIndex) -> bool {
        self.done.contains(&replica)
    }
}

/// The first replica in the queue that may start now, with its demand, if no replica between `behind` and it could run on
/// its nodes before it ends.
pub(super) fn safe_start(
    core: &Core,
    kept: &Backfilling,
    demands: &[u32],
    hopes: &[StartableDemand],
    (behind, jumps): (QueueKey, &Jumps),
) -> Option<(u32, Waiting)> {
    let first = hopes.iter().filter(|hope| hope.next.is_some()).min_by_key(|hope| hope.next.map(|next| next.key))?;
    let next = first.next?;
    let until = end(core.now, next.length);
    let mut nodes = first.rooms.iter().filter(|(_, (free_until, _))| *free_until >= until).map(|(node, _)| *node);
    let is_between = |waiting: &Waiting| waiting.key < next.key;
    let may_run = |demand: u32, node: NodeId| {
        let longest = longest_stay(core, kept, demand, node, until);
        let mut from = Position::Behind(behind);
        // The first replica in between that is short enough and has not been planned.
        loop {
            let found = kept.shelves.of(demand).first(from, longest?).filter(is_between)?;
            if !jumps.is_done(found.key.replica()) {
                return Some(found);
            }
            from = Position::Behind(found.key);
        }
    };
    let is_there_between = |demand: &u32| {
        kept.shelves.of(*demand).first(Position::Behind(behind), ENDLESS).as_ref().is_some_and(is_between)
    };
    let between: Vec<u32> = demands.iter().copied().filter(is_there_between).collect();
    let is_safe = nodes.all(|node| between.iter().all(|demand| may_run(*demand, node).is_none()));
    (is_safe && !core.is_watched(next.key.replica())).then_some((first.demand, next))
}

/// The longest time for which a task of this demand could run on the node, if it begins now or at an end of a claim on the
/// node before `until`. `None` if there is never room.
fn longest_stay(core: &Core, kept: &Backfilling, number: u32, node: NodeId, until: SimTime) -> Option<SimDuration> {
    let demand = kept.by_node(core, number)?;
    let ends = kept.spans(node, core.now).map(|(_, ends, _)| ends).filter(|ends| *ends < until);
    let mut begins: Vec<SimTime> = ends.chain([core.now]).collect();
    begins.sort_unstable();
    begins.dedup();
    let stays = begins.into_iter().filter_map(|begins| {
        let free_until = super::free_until(core, kept, (number, demand), node, begins)?;
        Some(if free_until == SimTime::MAX { ENDLESS } else { free_until.since(begins) })
    });
    stays.max()
}
