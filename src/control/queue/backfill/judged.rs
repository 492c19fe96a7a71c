//! The search for room for a demand about which single nodes do not decide, such as a gang of unequal tasks. The
//! scheduler's stages judge it on a whole fleet, as it would be at a time at which something ends.
//!
//! A judgement is expensive, so most times are ruled out before. If single nodes say when the demand cannot fit, no time is
//! tried before it may fit. A time is not tried either if the fleet is as it was at the last one. One fleet is kept for the
//! whole pass. Between two judgements, only the nodes change on which a claim began or ended.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use smallvec::SmallVec;

use super::bookings::end;
use super::ends::MOMENT;
use super::kept::Backfilling;
use super::plain::judge_on;
use super::reservations::{Span, most_of_node};
use super::room::{Asked, Gap, room_in};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_fleet::{Fleet, NodeClaim, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::Candidate;
use dryrack_units::{SimDuration, SimTime};

/// The fleet as it would be in a span of time.
pub(super) struct Trial {
    /// The fleet without any claim.
    empty: Fleet,
    fleet: Fleet,
    /// For each node, what is taken on it in `fleet`.
    taken: Vec<Option<NodeClaim>>,
}

impl Trial {
    fn new(core: &Core, kept: &Backfilling) -> Trial {
        let mut empty = core.fleet.clone();
        for (node, _) in core.fleet.iter() {
            kept.calendar.held_on(node).for_each(|held| empty.release(held.claim()));
        }
        Trial { fleet: empty.clone(), taken: vec![None; empty.len()], empty }
    }

    /// Changes a node to what it would be in this span, beside all attempts and reservations.
    fn move_node(&mut self, core: &Core, kept: &Backfilling, node: NodeId, (from, until): (SimTime, SimTime)) {
        let spans = kept.spans(node, core.now).filter(|(begins, ends, _)| *begins < until && *ends > from);
        let spans: SmallVec<[Span; 16]> = spans.map(|(begins, ends, part)| (begins, ends, part.claim())).collect();
        let claim = most_of_node(spans, from, core.fleet.node(node).shape.restricted_cores_per_gpu());
        let taken = &mut self.taken[node.index()];
        if *taken == claim {
            return;
        }
        taken.iter().for_each(|taken| self.fleet.release(taken));
        claim.iter().for_each(|claim| self.fleet.take(&Placement::new([claim.clone()].into())));
        *taken = claim;
    }

    /// The place of a replica, if it fits in this fleet. A replica that does not fit on an empty fleet fits nowhere.
    fn judge(&self, core: &Core, index: ReplicaIndex) -> Option<Option<Candidate>> {
        let candidate = judge_on(core, index, &self.fleet)?;
        Some(judge_on(core, index, &self.empty).map(|_| candidate))
    }
}

/// The rooms of nodes for the demand that single nodes must have room for.
struct Rooms<'a> {
    asked: Option<Asked<'a>>,
    of_nodes: Vec<u32>,
    sum: u64,
}

impl Rooms<'_> {
    fn update(&mut self, core: &Core, kept: &Backfilling, node: NodeId, at: SimTime) {
        let Some(asked) = self.asked else { return };
        let found = room_in(core, kept, asked, node, (at, end(at, asked.length))).map_or(0, |(_, room)| room);
        let before = std::mem::replace(&mut self.of_nodes[node.index()], found);
        self.sum = self.sum + u64::from(found) - u64::from(before);
    }

    fn may_fit(&self) -> bool {
        self.asked.is_none_or(|asked| self.sum >= u64::from(asked.demand.tasks))
    }
}

/// The first time from now on at which a replica of this length fits beside all attempts and reservations, and its place.
pub(super) fn gap_judged(
    core: &Core,
    kept: &Backfilling,
    trial: &mut Option<Trial>,
    index: ReplicaIndex,
    (number, length): (u32, SimDuration),
) -> Gap {
    let asked = kept.by_node(core, number).map(|demand| Asked { demand, outlook: kept.outlook(number), length });
    let earliest = kept.bookings.earliest(kept.alike(number), length);
    let Some(from) = earliest_start(core, kept, asked, earliest) else {
        return Gap { found: None, not_before: SimTime::MAX };
    };
    let soon = core.now.saturating_add(MOMENT);
    let mut ends: Vec<SimTime> = kept.ends_from(from.max(soon)).map(|(at, _)| at).collect();
    ends.dedup();
    let now = (from <= core.now).then_some(core.now);
    let mut rooms = Rooms { asked, of_nodes: vec![0; core.fleet.len()], sum: 0 };
    // When each node is examined next, and the nodes that differ from the trial.
    let mut due: BinaryHeap<_> = core.fleet.iter().map(|(node, _)| Reverse((from, node))).collect();
    let mut differ: BTreeSet<NodeId> = BTreeSet::new();
    let mut not_before = SimTime::MAX;
    for at in now.into_iter().chain(ends) {
        while let Some(Reverse((_, node))) = due.peek().copied().filter(|Reverse((when, _))| *when <= at) {
            due.pop();
            rooms.update(core, kept, node, at);
            differ.insert(node);
            due.extend(kept.next_change(node, (core.now, at), length).map(|when| Reverse((when, node))));
        }
        if !rooms.may_fit() {
            continue;
        }
        not_before = not_before.min(at);
        if differ.is_empty() {
            continue;
        }
        let trial = trial.get_or_insert_with(|| Trial::new(core, kept));
        std::mem::take(&mut differ)
            .into_iter()
            .for_each(|node| trial.move_node(core, kept, node, (at, end(at, length))));
        if let Some(fits) = trial.judge(core, index) {
            return Gap { found: fits.map(|candidate| (at, candidate)), not_before };
        }
    }
    Gap { found: None, not_before }
}

/// A time before which the replica does not fit, by single nodes and what runs; `None` if it never fits.
fn earliest_start(core: &Core, kept: &Backfilling, asked: Option<Asked>, earliest: SimTime) -> Option<SimTime> {
    if earliest == SimTime::MAX {
        return None;
    }
    match asked {
        Some(Asked { demand, outlook, .. }) if !outlook.fits_now(demand.tasks) => {
            Some(earliest.max(outlook.fits_at(demand.tasks, &kept.calendar)?))
        }
        Some(_) | None => Some(earliest.max(core.now)),
    }
}
