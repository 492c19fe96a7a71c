//! The placement of a whole job: all its nodes together, or the reasons for a refusal.

use std::cell::OnceCell;

use smallvec::SmallVec;

use super::ask::Ask;
use super::choose;
use super::claim::{assigned, is_pinned};
use super::options::{GangRule, OfferOptions, OfferPool};
use super::pool::{ClassOffer, class_offers, in_order};
use crate::PlacementContext;
use crate::decision::{Candidate, Decision};
use crate::finding::NodeFinding;
use crate::node_class::{Grouping, NodeClass, ideal_classes, node_classes};
use crate::placer::Placer;
use crate::tasks::histogram;
use crate::verdict::Verdict;
use dryrack_event::{Histogram, Reason};
use dryrack_fleet::{Fleet, FleetKind, NodeClaim, Placement};
use dryrack_ids::{FleetId, GpuId, NodeId};
use dryrack_units::Score;
use dryrack_workload::{CreationPolicy, Demand, Requirements};

/// Places jobs that require instances. A job with several nodes has at most one candidate.
pub struct OfferPlacer<'a> {
    options: &'a OfferOptions,
    demand: &'a Demand,
    ask: Ask<'a>,
    fleet: &'a Fleet,
    /// The verdict on each node if it were picked.
    picked: OnceCell<Vec<Verdict>>,
}

impl<'a> OfferPlacer<'a> {
    pub fn new(options: &'a OfferOptions, demand: &'a Demand, ask: Ask<'a>, fleet: &'a Fleet) -> OfferPlacer<'a> {
        OfferPlacer { options, demand, ask, fleet, picked: OnceCell::new() }
    }

    /// The verdict on each node alone: whether it could take one node of the job in addition to the nodes that are
    /// already placed.
    fn judge(&self, classes: &[NodeClass<'_>]) -> Vec<Verdict> {
        let offers = class_offers(self.options, &self.ask, self.fleet, classes);
        verdicts(self.options, &self.ask, self.fleet, classes, &offers)
    }

    fn classes(&self, grouping: Grouping) -> Vec<NodeClass<'a>> {
        node_classes(self.fleet, self.demand.pick.as_ref(), grouping)
    }
}

impl Placer for OfferPlacer<'_> {
    fn candidates(&self, grouping: Grouping, keep: usize) -> Result<SmallVec<[Candidate; 1]>, Histogram> {
        let OfferPlacer { options, ask, fleet, .. } = self;
        let classes = self.classes(grouping);
        let offers = class_offers(options, ask, fleet, &classes);
        let found: Vec<&ClassOffer<'_, '_>> = offers.iter().flatten().collect();
        let places = match ask.nodes {
            1 => single(options, ask, fleet, &classes, &found, keep),
            _ => gang(options, ask, fleet, &classes, &found).into_iter().collect(),
        };
        if places.is_empty() {
            return Err(histogram(&classes, &verdicts(options, ask, fleet, &classes, &offers)));
        }
        let candidate = |claims: Claims| Candidate { placement: Placement::new(claims), score: Score::ZERO };
        Ok(places.into_iter().map(candidate).collect())
    }

    /// Whether the job would fit on an empty fleet. Instances that could be created count too.
    fn ever_fits(&self) -> bool {
        let OfferPlacer { options, demand, fleet, .. } = self;
        let ask = Ask::of_whole(demand, PlacementContext::UNSUBMITTED);
        if may_grow(options, &ask, fleet) {
            return true;
        }
        let classes = ideal_classes(fleet, demand.pick.as_ref());
        let offers = class_offers(options, &ask, fleet, &classes);
        let offers: Vec<&ClassOffer<'_, '_>> = offers.iter().flatten().collect();
        let is_pinned = |offer: &ClassOffer<'_, '_>| is_pinned(options.pins_master_region, offer.is_split());
        choose::candidates(options, &ask, fleet, &classes).into_iter().any(|id| {
            offers.iter().filter(|master| master.fleet == id).any(|master| {
                let near = |offer: &&&ClassOffer<'_, '_>| {
                    offer.fleet == id && (offer.place() == master.place() || !is_pinned(offer))
                };
                let spec = fleet.fleet(id);
                // A cloud has a node for each instance that it could create, and creates no more than the maximum.
                let most = spec.nodes.filter(|_| spec.cloud.is_some()).and_then(|nodes| nodes.max);
                let most = most.map_or(u64::MAX, u64::from);
                let fitting = offers.iter().filter(near).map(|offer| u64::from(offer.class.count)).sum::<u64>();
                fitting.min(most) >= u64::from(demand.tasks)
            })
        })
    }

    /// Whether the blocks that were chosen earlier are still idle, on instances that would still be offered.
    fn still_fits(&self, placement: &Placement) -> bool {
        let OfferPlacer { options, ask, fleet, .. } = self;
        let classes = self.classes(Grouping::EachNode);
        let verdicts = self.judge(&classes);
        // If single nodes are chosen from all fleets, the verdicts say nothing about the fleets.
        let fleets = (ask.nodes > 1).then(|| choose::candidates(options, ask, fleet, &classes));
        placement.claims().iter().all(|claim| {
            let of = fleet.node(claim.node).shape.instance.as_ref().map(|instance| instance.fleet);
            let is_candidate = fleets.as_ref().is_none_or(|fleets| of.is_some_and(|of| fleets.contains(&of)));
            let class = &classes[claim.node.index()];
            is_candidate
                && verdicts[claim.node.index()].is_fit()
                && claim.blocks.iter().all(|block| class.status.block_is_idle(class.shape, *block))
        })
    }

    fn findings(&self, _: &Decision) -> Vec<NodeFinding> {
        let classes = self.classes(Grouping::EachNode);
        classes
            .iter()
            .zip(self.judge(&classes))
            .map(|(class, verdict)| NodeFinding::of(class.first(), verdict))
            .collect()
    }

    fn select_node(&self, node: NodeId) -> (Verdict, bool) {
        // All instances of a fleet count for the choice of the fleet, so the verdict must use all classes.
        let verdicts = self.picked.get_or_init(|| self.judge(&node_classes(self.fleet, None, Grouping::EachNode)));
        (verdicts[node.index()], false)
    }

    /// Jobs get blocks, not single GPUs. So the verdict on a GPU is the verdict on its node.
    fn select_gpu(&self, gpu: GpuId) -> (Verdict, bool) {
        self.select_node(gpu.node)
    }

    fn takes_gpus(&self) -> bool {
        false
    }
}

fn verdicts(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    classes: &[NodeClass<'_>],
    offers: &[Result<ClassOffer<'_, '_>, Verdict>],
) -> Vec<Verdict> {
    let fleets: Vec<Option<Reason>> = match options.pool {
        OfferPool::AllFleets => Vec::new(),
        OfferPool::ChosenFleet => {
            fleet.fleets().map(|(id, _)| choose::why_not(options, ask, fleet, classes, id)).collect()
        }
    };
    let verdict = |offer: &Result<ClassOffer<'_, '_>, Verdict>| match offer {
        Err(verdict) => *verdict,
        Ok(offer) => match fleets.get(offer.fleet.index()).copied().flatten() {
            Some(reason) => Verdict::Unfit(reason),
            None if !offer.is_open() => Verdict::Unfit(Reason::BlockBusy),
            None => Verdict::Fit,
        },
    };
    offers.iter().map(verdict).collect()
}

/// Whether a cloud fleet below its maximum could add an instance with the required resources.
fn may_grow(options: &OfferOptions, ask: &Ask<'_>, fleet: &Fleet) -> bool {
    let Requirements { creation, .. } = ask.requirements;
    let grows = |(id, spec): (FleetId, &std::sync::Arc<dryrack_fleet::FleetSpec>)| {
        let has = fleet.iter().filter(|(_, node)| node.shape.instance.as_ref().is_some_and(|found| found.fleet == id));
        let most = spec.nodes.and_then(|nodes| nodes.max);
        // The instances that such a cloud could create have separate nodes, and these nodes are judged separately.
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
    classes: &[NodeClass<'_>],
    offers: &[&ClassOffer<'_, '_>],
    keep: usize,
) -> Vec<Claims> {
    let pools: Vec<Option<FleetId>> = match options.pool {
        OfferPool::AllFleets => vec![None],
        OfferPool::ChosenFleet => {
            choose::best(ask, &choose::candidates(options, ask, fleet, classes), offers).map(Some).into_iter().collect()
        }
    };
    let Some(pool) = pools.first() else { return Vec::new() };
    let of_pool = |offer: &&&ClassOffer<'_, '_>| offer.is_open() && pool.is_none_or(|id| id == offer.fleet);
    let open: Vec<&ClassOffer<'_, '_>> = offers.iter().filter(of_pool).copied().collect();
    let found = in_order(fleet, &open, &options.order, keep, None);
    found.into_iter().map(|(node, index)| [assigned(options, open[index].on(node), fleet).claim].into()).collect()
}

fn gang(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    classes: &[NodeClass<'_>],
    offers: &[&ClassOffer<'_, '_>],
) -> Option<Claims> {
    let open = |id: Option<FleetId>| -> Vec<&ClassOffer<'_, '_>> {
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
            let chosen = choose::best(ask, &choose::candidates(options, ask, fleet, classes), offers)?;
            node_by_node(options, ask, fleet, &open(Some(chosen)))
        }
        (GangRule::Whole, _) => {
            let candidates = choose::candidates(options, ask, fleet, classes);
            let ranked = choose::ranked(ask, &candidates, offers);
            ranked.into_iter().find_map(|id| whole(options, ask, fleet, &open(Some(id))))
        }
    }
}

/// Places the first node where it fits best, and then each later node.
fn node_by_node(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    offers: &[&ClassOffer<'_, '_>],
) -> Option<Claims> {
    let (node, index) = *in_order(fleet, offers, &options.order, 1, None).first()?;
    with_first(options, ask, fleet, offers, (node, index))
}

/// Places the nodes after the first. On pinned hosts, they must be in the backend and region of the first node.
fn with_first(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    offers: &[&ClassOffer<'_, '_>],
    (master, index): (NodeId, usize),
) -> Option<Claims> {
    let place = offers[index].place();
    let near = |offer: &&&ClassOffer<'_, '_>| {
        !is_pinned(options.pins_master_region, offer.is_split()) || offer.place() == place
    };
    let near: Vec<&ClassOffer<'_, '_>> = offers.iter().filter(near).copied().collect();
    let others = ask.nodes as usize - 1;
    let found = in_order(fleet, &near, &options.order, others, Some((master, offers[index])));
    if found.len() < others {
        return None;
    }
    let first = assigned(options, offers[index].on(master), fleet).claim;
    let rest = found.into_iter().map(|(node, index)| assigned(options, near[index].on(node), fleet).claim);
    Some(std::iter::once(first).chain(rest).collect())
}

/// Places all nodes in one backend and region. If several places can hold all nodes, takes the one with the best first
/// offer.
fn whole(options: &OfferOptions, ask: &Ask<'_>, fleet: &Fleet, offers: &[&ClassOffer<'_, '_>]) -> Option<Claims> {
    let mut heads: Vec<(NodeId, usize)> = Vec::new();
    let mut places: Vec<(&str, &str)> = Vec::new();
    // The best offer of each place, in order.
    let mut each: Vec<usize> = (0..offers.len()).collect();
    each.sort_by(|a, b| {
        let firsts = || offers[*a].class.first().cmp(&offers[*b].class.first());
        let by_keys = || offers[*a].compare(offers[*b], &options.order);
        offers[*a].availability.cmp(&offers[*b].availability).then_with(by_keys).then_with(firsts)
    });
    for index in each {
        let place = offers[index].place();
        if !places.contains(&place) {
            places.push(place);
            heads.push((offers[index].class.first(), index));
        }
    }
    heads.into_iter().find_map(|head| with_first(options, ask, fleet, offers, head))
}
