//! The choice of a fleet for a job.

use std::cmp::Reverse;

use super::ask::Ask;
use super::offer::Availability;
use super::options::{FitTest, OfferOptions};
use super::pool::{ClassOffer, may_use};
use crate::PlacementContext;
use crate::node_class::NodeClass;
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, FleetKind, FleetPlacement, FleetSpec, NodeState};
use dryrack_ids::FleetId;
use dryrack_planted::planted;
use dryrack_units::Money;
use dryrack_workload::Demand;

/// The fleets that a job may use, in order of declaration. Fleets without an instance come last.
pub fn candidates(options: &OfferOptions, ask: &Ask<'_>, fleet: &Fleet, classes: &[NodeClass<'_>]) -> Vec<FleetId> {
    let mut candidates: Vec<FleetId> =
        fleet.fleets().map(|(id, _)| id).filter(|id| why_not(options, ask, fleet, classes, *id).is_none()).collect();
    candidates.sort_by_key(|id| (Reverse(count_instances(classes, *id) > 0), *id));
    candidates
}

/// Why a fleet is not a candidate; `None` if it is one.
pub fn why_not(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    classes: &[NodeClass<'_>],
    id: FleetId,
) -> Option<Reason> {
    if let Err(reason) = may_use(ask, fleet, id) {
        return Some(reason);
    }
    // A job that already has a fleet keeps it, even if another fleet would be better now.
    if ask.fleet.is_some() {
        return None;
    }
    if ask.nodes > 1 && options.cluster_only && fleet.fleet(id).placement != FleetPlacement::Cluster {
        return Some(Reason::FleetNotCluster);
    }
    let room_for = if planted!(FleetTooSmallForGang) { 1 } else { ask.room_for };
    match options.fit_test {
        FitTest::NodesOrBlocks if !has_room(fleet, classes, id, room_for) => Some(Reason::FleetTooSmall),
        FitTest::NodesOrBlocks | FitTest::None => None,
    }
}

/// Whether a replica may fit only in a fleet with more room than the replica takes ([`FitTest::NodesOrBlocks`]): room for
/// more nodes, or instances that nobody uses although the replica takes only a part of them.
pub fn needs_spare_room(options: &OfferOptions, fleet: &Fleet, demand: &Demand, context: PlacementContext) -> bool {
    let asks_for_more = || Ask::of_whole(demand, context).room_for > demand.tasks;
    let counts_shared =
        || fleet.fleets().any(|(id, spec)| most_in_use(spec).is_some() && fleet.has_split_instances(id));
    options.fit_test == FitTest::NodesOrBlocks
        && demand.requirements().is_some()
        && (asks_for_more() || counts_shared())
}

/// The maximum number of instances of a fleet whose instances in use are counted. `None` if its idle blocks are.
fn most_in_use(spec: &FleetSpec) -> Option<u64> {
    let most = spec.nodes.and_then(|nodes| nodes.max);
    most.filter(|_| spec.blocks.stated() == 1).map(u64::from)
}

fn instances<'r, 'f>(classes: &'r [NodeClass<'f>], id: FleetId) -> impl Iterator<Item = &'r NodeClass<'f>> {
    classes.iter().filter(move |class| class.shape.instance.as_ref().is_some_and(|instance| instance.fleet == id))
}

fn count_instances(classes: &[NodeClass<'_>], id: FleetId) -> u64 {
    instances(classes, id)
        .filter(|class| class.status.state != NodeState::Gone)
        .map(|class| u64::from(class.count))
        .sum()
}

/// The rule [`FitTest::NodesOrBlocks`].
fn has_room(fleet: &Fleet, classes: &[NodeClass<'_>], id: FleetId, nodes: u32) -> bool {
    let spec = fleet.fleet(id);
    if let Some(most) = most_in_use(spec) {
        let in_use = instances(classes, id).filter(|class| !class.status.blocks.is_empty());
        let in_use: u64 = in_use.map(|class| u64::from(class.count)).sum();
        return most.saturating_sub(in_use) >= u64::from(nodes);
    }
    match spec.kind {
        FleetKind::Cloud => true,
        FleetKind::Ssh => {
            let blocks = |class: &NodeClass<'_>| {
                let instance = class.shape.instance.as_ref().expect("an instance of this fleet");
                // A machine that could not be split counts with the number of blocks that were requested for it.
                let total = instance.total_blocks.unwrap_or_else(|| instance.blocks.stated());
                let busy = class.status.blocks.count();
                u64::from(total.saturating_sub(busy)) * u64::from(class.count)
            };
            instances(classes, id).map(blocks).sum::<u64>() >= u64::from(nodes)
        }
    }
}

/// The best candidate. The order is: fleets with enough idle offers, then fleets with a cheaper idle offer, then fleets
/// in which a cheaper instance would be created.
pub fn best(ask: &Ask<'_>, candidates: &[FleetId], offers: &[&ClassOffer<'_, '_>]) -> Option<FleetId> {
    ranked(ask, candidates, offers).first().copied()
}

/// All candidates, best first.
pub fn ranked(ask: &Ask<'_>, candidates: &[FleetId], offers: &[&ClassOffer<'_, '_>]) -> Vec<FleetId> {
    let key = |id: &FleetId| {
        let idle = || offers.iter().filter(|offer| offer.fleet == *id && offer.is_idle());
        let count: u64 = idle().map(|offer| u64::from(offer.class.count)).sum();
        let enough = count >= u64::from(ask.room_for);
        let dearest = Money::new(u64::MAX);
        let cheapest = idle().map(|offer| offer.price).min().unwrap_or(dearest);
        let new = offers.iter().filter(|offer| offer.fleet == *id && offer.availability == Availability::New);
        (!enough, cheapest, new.map(|offer| offer.price).min().unwrap_or(dearest))
    };
    let mut ranked = candidates.to_vec();
    if planted!(EqualFleetsLastFirst) {
        ranked.reverse();
    }
    // The sort is stable, so on a tie the first candidate stays first.
    ranked.sort_by_key(key);
    ranked
}
