//! The room on one node in a span of time, beside all attempts and reservations.

use smallvec::SmallVec;

use super::kept::Backfilling;
use super::outlook::Outlook;
use super::reservations::{Span, most_of_node};
use crate::core::Core;
use dryrack_fleet::NodeStatus;
use dryrack_ids::NodeId;
use dryrack_scheduler::{Candidate, room as room_of};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Demand;

/// The demand and the length for which a search looks for room.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub demand: &'a Demand,
    pub outlook: &'a Outlook,
    pub length: SimDuration,
}

/// The result of a search for room.
pub(super) struct Gap {
    /// The first time at which the replica fits, and its place.
    pub found: Option<(SimTime, Candidate)>,
    /// A time before which no replica of the demand fits that is not shorter. `MAX` means never.
    pub not_before: SimTime,
}

/// The status of a node in which every claim that exists at some time in this span is taken, and the number of tasks
/// that still fit. `None` if no task fits.
pub(super) fn room_in(
    core: &Core,
    kept: &Backfilling,
    asked: Asked,
    node: NodeId,
    (from, until): (SimTime, SimTime),
) -> Option<(NodeStatus, u32)> {
    if !asked.outlook.may_do[core.fleet.shape_index(node)] {
        return None;
    }
    let spans = kept.spans(node, core.now).filter(|(begins, ends, _)| *begins < until && *ends > from);
    // If too few GPUs are completely free, no task fits, even if all other resources are free.
    let needed = asked.demand.gpus().map_or(0, |gpus| gpus.count);
    let taken = spans.clone().fold(0, |taken: u64, (_, _, part)| taken | part.gpus);
    if core.fleet.node(node).status.gpus.len() as u32 - taken.count_ones() < needed {
        return None;
    }
    let spans: SmallVec<[Span; 16]> = spans.map(|(begins, ends, part)| (begins, ends, part.claim())).collect();
    let mut status = kept.calendar.empty(node).clone();
    let restricted = core.fleet.node(node).shape.restricted_cores_per_gpu();
    if let Some(claim) = most_of_node(spans, from, restricted) {
        core.fleet.with_claim(&mut status, &claim);
    }
    let room = room_of(&core.profile.scheduler, asked.demand, &core.fleet, node, &status);
    (room > 0).then_some((status, room))
}
