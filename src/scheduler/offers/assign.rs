//! Offers for one node of a job: the plan that a user sees, and the instance that the node gets.

use smallvec::SmallVec;

use super::ask::Ask;
use super::choose;
use super::claim::{assigned, claim, is_pinned};
use super::gang::OfferPlacer;
use super::offer::{Assigned, NoOffer, Plan};
use super::options::{OfferOptions, OfferPool};
use super::pool::{ClassOffer, class_offers, in_order, listed};
use crate::PlacementContext;
use crate::decision::{Candidate, Decision};
use crate::node_class::{Grouping, NodeClass, all_classes};
use crate::offers::Offer;
use crate::placer::Placer;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::{FleetId, NodeId};
use dryrack_units::Score;
use dryrack_workload::Demand;

/// Maximum number of offers in the list that a user sees.
pub const PLAN_OFFERS_MAX: usize = 50;

/// The offers that a user sees before submitting, in order: idle offers first, then new ones, then busy ones.
pub fn plan(options: &OfferOptions, ask: &Ask<'_>, fleet: &Fleet) -> Plan {
    let classes = all_classes(fleet, Grouping::EachNode);
    let offers = class_offers(options, ask, fleet, &classes);
    let offers: Vec<&ClassOffer<'_, '_>> = offers.iter().flatten().collect();
    let chosen = match pool(options, ask, fleet, &classes, &offers) {
        Ok(chosen) => chosen,
        Err(_) => return Plan { fleet: None, offers: Vec::new() },
    };
    let of_pool: Vec<&ClassOffer<'_, '_>> =
        offers.into_iter().filter(|offer| chosen.is_none_or(|id| id == offer.fleet)).collect();
    let ordered = listed(fleet, &of_pool, &options.plan_order);
    let mut offers: Vec<Offer> = ordered.into_iter().map(|(node, index)| of_pool[index].on(node)).collect();
    offers.sort_by_key(|offer| offer.availability);
    offers.truncate(PLAN_OFFERS_MAX);
    Plan { fleet: chosen, offers }
}

/// The instance that this node of the job gets now.
pub fn assign(options: &OfferOptions, ask: &Ask<'_>, fleet: &Fleet, grouping: Grouping) -> Result<Assigned, NoOffer> {
    let classes = all_classes(fleet, grouping);
    let offers = class_offers(options, ask, fleet, &classes);
    let offers: Vec<&ClassOffer<'_, '_>> = offers.iter().flatten().collect();
    let chosen = pool(options, ask, fleet, &classes, &offers)?;
    let offers = allowed(options, ask, fleet, &offers, chosen);
    let first = in_order(fleet, &offers, &options.order, 1, None);
    let (node, index) = *first.first().ok_or(NoOffer::NoIdleInstance)?;
    Ok(assigned(options, offers[index].on(node), fleet))
}

/// Decides about one node of a job whose nodes are placed one by one. `keep` is how many candidates are wanted. A
/// refusal has the reasons for this node alone. If this node alone would fit, the reason is that the gang is
/// incomplete.
pub fn seek(
    options: &OfferOptions,
    demand: &Demand,
    ask: &Ask<'_>,
    fleet: &Fleet,
    grouping: Grouping,
    keep: usize,
) -> Decision {
    let classes = all_classes(fleet, grouping);
    let offers = class_offers(options, ask, fleet, &classes);
    let offers: Vec<&ClassOffer<'_, '_>> = offers.iter().flatten().collect();
    let open = pool(options, ask, fleet, &classes, &offers).map(|chosen| allowed(options, ask, fleet, &offers, chosen));
    let open = open.unwrap_or_default();
    let candidate = |(node, index): (NodeId, usize)| {
        let claim = claim(fleet, node, open[index].slice.blocks);
        Candidate { placement: Placement::new(std::iter::once(claim).collect()), score: Score::ZERO }
    };
    let candidates: SmallVec<[Candidate; 1]> =
        in_order(fleet, &open, &options.order, keep, None).into_iter().map(candidate).collect();
    if !candidates.is_empty() {
        return Decision::Place(candidates);
    }
    let alone = Demand { tasks: 1, ..demand.clone() };
    let own = Ask::of_whole(&alone, PlacementContext::UNSUBMITTED);
    match OfferPlacer::new(options, &alone, own, fleet).decide(grouping, 1) {
        refuse @ Decision::Refuse { .. } => refuse,
        Decision::Place(_) => {
            let reasons = Histogram::of(Reason::GangIncomplete, fleet.len() as u32);
            Decision::Refuse { refusal: Refusal::Unfit, reasons }
        }
    }
}

/// The fleet to choose from; `None` for all fleets that the job may use.
fn pool(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    classes: &[NodeClass<'_>],
    offers: &[&ClassOffer<'_, '_>],
) -> Result<Option<FleetId>, NoOffer> {
    if let Some(own) = ask.fleet {
        return Ok(Some(own));
    }
    match options.pool {
        OfferPool::AllFleets => Ok(None),
        OfferPool::ChosenFleet => {
            let candidates = choose::candidates(options, ask, fleet, classes);
            choose::best(ask, &candidates, offers).map(Some).ok_or(NoOffer::NoFleet)
        }
    }
}

/// The offers that this node of the job may take: idle offers and new offers of the pool.
fn allowed<'o, 'r, 'f>(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    offers: &[&'o ClassOffer<'r, 'f>],
    pool: Option<FleetId>,
) -> Vec<&'o ClassOffer<'r, 'f>> {
    let master = ask.master.and_then(|node| fleet.node(node).shape.instance.as_ref());
    let is_allowed = |offer: &&&ClassOffer<'_, '_>| {
        let pinned = is_pinned(options.pins_master_region, offer.is_split());
        let near = master.is_none_or(|master| !pinned || offer.place() == (&*master.backend, &*master.region));
        offer.is_open() && near && pool.is_none_or(|id| id == offer.fleet)
    };
    offers.iter().filter(is_allowed).copied().collect()
}
