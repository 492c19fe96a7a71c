//! The placement of a whole job: all its nodes at once, or why not.

use smallvec::SmallVec;

use super::assign::{assigned, is_pinned};
use super::options::{GangRule, OfferOptions, OfferPool};
use super::pool::{RowOffer, in_order, row_offers};
use super::{Ask, choose};
use crate::PlacementContext;
use crate::decide::{Candidate, Decision};
use crate::filter::Verdict;
use crate::row::{Grouping, Row, ideal_rows, rows};
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{Fleet, FleetKind, NodeClaim, Placement};
use dryrack_ids::{FleetId, NodeId};
use dryrack_units::Score;
use dryrack_workload::{CreationPolicy, Demand, Requirements};

/// Decides for a job that requires instances; `keep` is how many candidates are wanted. A job of several nodes has one.
pub fn decide(
    options: &OfferOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    grouping: Grouping,
    keep: usize,
) -> Decision {
    let ask = Ask::of_whole(demand, context);
    let rows = rows(fleet, demand, grouping);
    let offers = row_offers(options, &ask, fleet, &rows);
    let found: Vec<&RowOffer<'_, '_>> = offers.iter().flatten().collect();
    let places = match demand.tasks {
        1 => single(options, &ask, fleet, &rows, &found, keep),
        _ => gang(options, &ask, fleet, &rows, &found).into_iter().collect(),
    };
    if !places.is_empty() {
        let candidate =
            |claims: SmallVec<[NodeClaim; 1]>| Candidate { placement: Placement::new(claims), score: Score::ZERO };
        return Decision::Place(places.into_iter().map(candidate).collect());
    }
    let refusal = if ever_fits(options, demand, fleet) { Refusal::Unfit } else { Refusal::Never };
    let mut reasons = Histogram::default();
    for (row, verdict) in rows.iter().zip(verdicts(options, &ask, fleet, &rows, &offers)) {
        reasons.add(verdict.reason().unwrap_or(Reason::GangIncomplete), row.count);
    }
    Decision::Refuse { refusal, reasons }
}

/// Each node's verdict alone: whether it could take one node of the job.
pub fn judge(
    options: &OfferOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    rows: &[Row<'_>],
) -> Vec<Verdict> {
    judge_for(options, &Ask::of_whole(demand, context), fleet, rows)
}

/// The same for one node of a job, given where the others are.
pub fn judge_for(options: &OfferOptions, ask: &Ask<'_>, fleet: &Fleet, rows: &[Row<'_>]) -> Vec<Verdict> {
    let offers = row_offers(options, ask, fleet, rows);
    verdicts(options, ask, fleet, rows, &offers)
}

fn verdicts(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    rows: &[Row<'_>],
    offers: &[Result<RowOffer<'_, '_>, Verdict>],
) -> Vec<Verdict> {
    let fleets: Vec<Option<Reason>> = match options.pool {
        OfferPool::AllFleets => Vec::new(),
        OfferPool::ChosenFleet => {
            fleet.fleets().map(|(id, _)| choose::why_not(options, ask, fleet, rows, id)).collect()
        }
    };
    let verdict = |offer: &Result<RowOffer<'_, '_>, Verdict>| match offer {
        Err(verdict) => *verdict,
        Ok(offer) => match fleets.get(offer.fleet.index()).copied().flatten() {
            Some(reason) => Verdict::Unfit(reason),
            None if !offer.is_open() => Verdict::Unfit(Reason::BlockBusy),
            None => Verdict::Fit,
        },
    };
    offers.iter().map(verdict).collect()
}

/// Whether the job would fit if every instance were ready and idle, including those that could be created.
pub fn ever_fits(options: &OfferOptions, demand: &Demand, fleet: &Fleet) -> bool {
    let ask = Ask::of_whole(demand, PlacementContext::UNSUBMITTED);
    if may_grow(options, &ask, fleet) {
        return true;
    }
    let rows = ideal_rows(fleet, demand);
    let offers = row_offers(options, &ask, fleet, &rows);
    let offers: Vec<&RowOffer<'_, '_>> = offers.iter().flatten().collect();
    let is_pinned = |offer: &RowOffer<'_, '_>| is_pinned(options.pins_master_region, offer.is_split());
    choose::candidates(options, &ask, fleet, &rows).into_iter().any(|id| {
        offers.iter().filter(|master| master.fleet == id).any(|master| {
            let near = |offer: &&&RowOffer<'_, '_>| {
                offer.fleet == id && (offer.place() == master.place() || (demand.tasks > 1 && !is_pinned(offer)))
            };
            let most = fleet.fleet(id).nodes.and_then(|nodes| nodes.max).map_or(u64::MAX, u64::from);
            let fitting = offers.iter().filter(near).map(|offer| u64::from(offer.row.count)).sum::<u64>();
            fitting.min(most) >= u64::from(demand.tasks)
        })
    })
}

/// Whether a cloud fleet below its maximum may grow to have what is required.
fn may_grow(options: &OfferOptions, ask: &Ask<'_>, fleet: &Fleet) -> bool {
    let Requirements { creation, .. } = ask.requirements;
    let grows = |(id, spec): (FleetId, &std::sync::Arc<dryrack_fleet::FleetSpec>)| {
        let has = fleet.iter().filter(|(_, node)| node.shape.instance.as_ref().is_some_and(|found| found.fleet == id));
        let most = spec.nodes.and_then(|nodes| nodes.max);
        // What such a cloud could create is among the places that are judged.
        spec.kind == FleetKind::Cloud
            && spec.cloud.is_none()
            && choose::why_not(options, ask, fleet, &[], id).is_none()
            && most.is_none_or(|most| (has.count() as u64) < u64::from(most))
    };
    *creation == CreationPolicy::ReuseOrCreate && fleet.fleets().any(grows)
}

type Claims = SmallVec<[NodeClaim; 1]>;

fn single(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    rows: &[Row<'_>],
    offers: &[&RowOffer<'_, '_>],
    keep: usize,
) -> Vec<Claims> {
    let pools: Vec<Option<FleetId>> = match options.pool {
        OfferPool::AllFleets => vec![None],
        OfferPool::ChosenFleet => {
            choose::best(ask, &choose::candidates(options, ask, fleet, rows), offers).map(Some).into_iter().collect()
        }
    };
    let Some(pool) = pools.first() else { return Vec::new() };
    let of_pool = |offer: &&&RowOffer<'_, '_>| offer.is_open() && pool.is_none_or(|id| id == offer.fleet);
    let open: Vec<&RowOffer<'_, '_>> = offers.iter().filter(of_pool).copied().collect();
    let found = in_order(fleet, &open, &options.order, keep, None);
    found.into_iter().map(|(node, index)| [assigned(options, open[index].on(node), fleet).claim].into()).collect()
}

fn gang(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    rows: &[Row<'_>],
    offers: &[&RowOffer<'_, '_>],
) -> Option<Claims> {
    let open = |id: Option<FleetId>| -> Vec<&RowOffer<'_, '_>> {
        offers.iter().filter(|offer| offer.is_open() && id.is_none_or(|id| id == offer.fleet)).copied().collect()
    };
    match (options.gang, options.pool) {
        (GangRule::NodeByNode, OfferPool::AllFleets) => {
            let offers = open(None);
            let first = *in_order(fleet, &offers, &options.order, 1, None).first()?;
            let offers = open(Some(offers[first.1].fleet));
            node_by_node(options, ask, fleet, &offers)
        }
        (GangRule::NodeByNode, OfferPool::ChosenFleet) => {
            let chosen = choose::best(ask, &choose::candidates(options, ask, fleet, rows), offers)?;
            node_by_node(options, ask, fleet, &open(Some(chosen)))
        }
        (GangRule::Whole, _) => {
            let candidates = choose::candidates(options, ask, fleet, rows);
            let ranked = choose::ranked(ask, &candidates, offers);
            ranked.into_iter().find_map(|id| whole(options, ask, fleet, &open(Some(id))))
        }
    }
}

/// Places the first node where it is best for itself, then each later one.
fn node_by_node(options: &OfferOptions, ask: &Ask<'_>, fleet: &Fleet, offers: &[&RowOffer<'_, '_>]) -> Option<Claims> {
    let (node, index) = *in_order(fleet, offers, &options.order, 1, None).first()?;
    with_first(options, ask, fleet, offers, (node, index))
}

/// Places the nodes after the first, on pinned hosts only in the first node's place.
fn with_first(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    offers: &[&RowOffer<'_, '_>],
    (master, index): (NodeId, usize),
) -> Option<Claims> {
    let place = offers[index].place();
    let near =
        |offer: &&&RowOffer<'_, '_>| !is_pinned(options.pins_master_region, offer.is_split()) || offer.place() == place;
    let near: Vec<&RowOffer<'_, '_>> = offers.iter().filter(near).copied().collect();
    let others = ask.nodes as usize - 1;
    let found = in_order(fleet, &near, &options.order, others, Some((master, offers[index])));
    if found.len() < others {
        return None;
    }
    let first = assigned(options, offers[index].on(master), fleet).claim;
    let rest = found.into_iter().map(|(node, index)| assigned(options, near[index].on(node), fleet).claim);
    Some(std::iter::once(first).chain(rest).collect())
}

/// Takes, of the places that hold all nodes, the one with the best first offer.
fn whole(options: &OfferOptions, ask: &Ask<'_>, fleet: &Fleet, offers: &[&RowOffer<'_, '_>]) -> Option<Claims> {
    let mut heads: Vec<(NodeId, usize)> = Vec::new();
    let mut places: Vec<(&str, &str)> = Vec::new();
    // The best offer of each place, in order.
    let mut each: Vec<usize> = (0..offers.len()).collect();
    each.sort_by(|a, b| {
        let firsts = || offers[*a].row.first().cmp(&offers[*b].row.first());
        let by_keys = || offers[*a].compare(offers[*b], &options.order);
        offers[*a].availability.cmp(&offers[*b].availability).then_with(by_keys).then_with(firsts)
    });
    for index in each {
        let place = offers[index].place();
        if !places.contains(&place) {
            places.push(place);
            heads.push((offers[index].row.first(), index));
        }
    }
    heads.into_iter().find_map(|head| with_first(options, ask, fleet, offers, head))
}

/// Whether the blocks chosen earlier are still idle, on an instance that would still be offered.
pub fn still_fits(options: &OfferOptions, demand: &Demand, fleet: &Fleet, placement: &Placement) -> bool {
    let rows = rows(fleet, demand, Grouping::EachNode);
    placement.claims().iter().all(|claim| {
        let row = &rows[claim.node.index()];
        let passes = judge(options, demand, PlacementContext::UNSUBMITTED, fleet, &rows)[claim.node.index()].is_fit();
        passes && claim.blocks.iter().all(|block| row.status.block_is_idle(row.shape, *block))
    })
}
