//! The offers of a pool: which instances could take one node of a job, how much of each instance, and in which order.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::ask::Ask;
use super::matching::{price, smallest_slice};
use super::offer::{Availability, Offer};
use super::options::{MultinodeTakes, NewInstances, OfferKey, OfferOptions, SplitHosts};
use crate::filter::ready;
use crate::node_class::NodeClass;
use crate::own::{NodeView, RequestView};
use crate::verdict::Verdict;
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, FleetPlacement, NodeShape, NodeState, Slice, offer_of};
use dryrack_ids::{FleetId, NodeId};
use dryrack_planted::planted;
use dryrack_units::Money;
use dryrack_workload::CreationPolicy;

/// The offer of one class of nodes to one node of a job.
#[derive(Clone, Debug)]
pub struct ClassOffer<'r, 'f> {
    pub class: &'r NodeClass<'f>,
    pub fleet: FleetId,
    pub slice: Slice,
    pub total_blocks: u32,
    pub price: Money,
    pub availability: Availability,
}

/// The offer of each class, in the order of the classes. A class without an offer has a verdict with the reason.
pub fn class_offers<'r, 'f>(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    classes: &'r [NodeClass<'f>],
) -> Vec<Result<ClassOffer<'r, 'f>, Verdict>> {
    let mut slices = Slices::default();
    classes.iter().map(|class| class_offer(options, ask, fleet, class, &mut slices)).collect()
}

/// The slice of each shape that was examined so far. All hosts of one shape have the same slice, and there are few
/// shapes.
#[derive(Default)]
struct Slices<'f> {
    known: Vec<(&'f NodeShape, Result<Slice, Reason>)>,
}

impl<'f> Slices<'f> {
    fn of(
        &mut self,
        options: &OfferOptions,
        ask: &Ask<'_>,
        shape: &'f NodeShape,
        whole: bool,
    ) -> Result<Slice, Reason> {
        // Whether all blocks are taken depends only on the shape and on the job.
        if let Some((_, slice)) = self.known.iter().find(|(known, _)| std::ptr::eq(*known, shape)) {
            return *slice;
        }
        let slice = smallest_slice(options, ask.requirements, shape, whole);
        self.known.push((shape, slice));
        slice
    }
}

fn class_offer<'r, 'f>(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    class: &'r NodeClass<'f>,
    slices: &mut Slices<'f>,
) -> Result<ClassOffer<'r, 'f>, Verdict> {
    let never = |reason| Err(Verdict::Never(reason));
    let Some(instance) = &class.shape.instance else { return never(Reason::NotInFleet) };
    let spec = fleet.fleet(instance.fleet);
    may_use(ask, fleet, instance.fleet).map_err(Verdict::Never)?;
    let Some(total) = instance.total_blocks else { return never(Reason::CannotSplit) };
    if !class.picked {
        return never(Reason::NotPicked);
    }
    let (view, asking) = (NodeView::of(class), RequestView::of_requirements(ask.nodes, ask.requirements, ask.fields));
    let refused = options
        .filters
        .iter()
        .map(|filter| filter.judge(&view, &asking, class.is_ideal))
        .find(|verdict| !verdict.is_fit());
    refused.map_or(Ok(()), Err)?;
    let multinode = ask.nodes > 1;
    if multinode && options.cluster_only && spec.placement != FleetPlacement::Cluster {
        return never(Reason::FleetNotCluster);
    }
    let is_split = total > 1;
    if multinode && is_split && options.split_hosts_for_multinode == SplitHosts::Never {
        return never(Reason::HostIsSplit);
    }
    let whole = multinode && is_split && options.multinode_takes == MultinodeTakes::WholeHost;
    let slice = slices.of(options, ask, class.shape, whole).map_err(Verdict::Never)?;
    let price = price(class.shape);
    let offer =
        |availability| ClassOffer { class, fleet: instance.fleet, slice, total_blocks: total, price, availability };
    if let (Some(number), NodeState::Gone) = (instance.offer, class.status.state) {
        // The blocks of the previous instance in this place are not recorded as released yet.
        let may = if class.status.blocks.is_empty() { Ok(()) } else { Err(Reason::NodeGone) };
        let may = may.and_then(|()| may_be_made(options, ask, fleet, (instance.fleet, number)));
        may.map_err(Verdict::Unfit)?;
        return Ok(offer(Availability::New));
    }
    if let unready @ Verdict::Unfit(_) = ready::judge(class.status.state) {
        return Err(unready);
    }
    let idle = class.status.count_idle_blocks(class.shape);
    if whole && idle < total {
        let taken = !class.status.blocks.is_empty();
        return Err(Verdict::Unfit(if taken { Reason::HostInUse } else { Reason::GpuNotUsable }));
    }
    Ok(offer(if slice.blocks <= idle { Availability::Idle } else { Availability::Busy }))
}

/// Whether an instance would be created from an offer for this job.
fn may_be_made(
    options: &OfferOptions,
    ask: &Ask<'_>,
    fleet: &Fleet,
    (id, number): (FleetId, u32),
) -> Result<(), Reason> {
    match (options.new_instances, ask.requirements.creation) {
        (NewInstances::Never, _) => Err(Reason::NodeGone),
        (NewInstances::Whole | NewInstances::AsFleet, CreationPolicy::Reuse) => Err(Reason::ReuseOnly),
        _ if fleet.instances_left(id) == 0 => Err(Reason::FleetFull),
        _ if fleet.capacity_left(id, number) == 0 => Err(Reason::CapacityTaken),
        _ => Ok(()),
    }
}

/// Whether the job may use a fleet. If the job names fleets, it may use only these. If it already has a fleet, it may
/// use only that one.
pub fn may_use(ask: &Ask<'_>, fleet: &Fleet, id: FleetId) -> Result<(), Reason> {
    let names = &ask.requirements.fleets;
    if !names.is_empty() && !names.contains(&fleet.fleet(id).name) {
        return Err(Reason::FleetNotNamed);
    }
    if ask.fleet.is_some_and(|own| own != id) { Err(Reason::OtherFleet) } else { Ok(()) }
}

impl ClassOffer<'_, '_> {
    pub fn is_idle(&self) -> bool {
        self.availability == Availability::Idle
    }

    /// Whether a node of a job could be placed on this offer: on idle blocks, or on an instance that would be created.
    pub fn is_open(&self) -> bool {
        self.availability != Availability::Busy
    }

    pub fn is_split(&self) -> bool {
        self.total_blocks > 1
    }

    /// The backend and region of the offer. The later nodes of a job may be limited to them.
    pub fn place(&self) -> (&str, &str) {
        self.class.shape.instance.as_ref().map_or(("", ""), |instance| {
            let backend = if planted!(RegionWithoutBackend) { "" } else { &*instance.backend };
            (backend, &*instance.region)
        })
    }

    pub fn on(&self, node: NodeId) -> Offer {
        Offer {
            node,
            fleet: self.fleet,
            slice: self.slice,
            total_blocks: self.total_blocks,
            price: self.price,
            availability: self.availability,
        }
    }

    /// Compares two offers by the keys of an order. The order of declaration is not compared.
    pub fn compare(&self, other: &ClassOffer<'_, '_>, order: &[OfferKey]) -> Ordering {
        let in_use = |offer: &ClassOffer<'_, '_>| !offer.class.status.blocks.is_empty();
        let size = |offer: &ClassOffer<'_, '_>| (offer.slice.gpus, offer.slice.cpus, offer.slice.ram);
        let by_key = |key: &OfferKey| match key {
            OfferKey::Price if planted!(PricesInWholeCents) => {
                (self.price.get() / 10_000).cmp(&(other.price.get() / 10_000))
            }
            OfferKey::Price => self.price.cmp(&other.price),
            OfferKey::UnsplitFirst => self.is_split().cmp(&other.is_split()),
            OfferKey::SplitFirst => other.is_split().cmp(&self.is_split()),
            OfferKey::InUseFirst => in_use(other).cmp(&in_use(self)),
            OfferKey::SmallestSlice if planted!(LargestSliceFirst) => size(other).cmp(&size(self)),
            OfferKey::SmallestSlice => size(self).cmp(&size(other)),
        };
        order.iter().map(by_key).find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// The first `most` nodes of these offers, each with the index of its offer. Idle nodes come before nodes that would be
/// created; then the keys of the order decide, and then the order of declaration. `but` is a node that is already
/// taken, with its offer. The result has no more new instances than the fleet and the offer allow.
pub fn in_order<'r, 'f>(
    fleet: &Fleet,
    offers: &[&ClassOffer<'r, 'f>],
    order: &[OfferKey],
    most: usize,
    but: Option<(NodeId, &ClassOffer<'r, 'f>)>,
) -> Vec<(NodeId, usize)> {
    let mut found: Vec<(NodeId, usize)> = Vec::new();
    for (index, offer) in offers.iter().enumerate() {
        let is_free = |node: &NodeId| but.is_none_or(|(taken, _)| taken != *node);
        found.extend(offer.class.nodes().filter(is_free).take(most).map(|node| (node, index)));
    }
    let compare = |a: &(NodeId, usize), b: &(NodeId, usize)| compare(offers, order, *a, *b);
    if most == 1 && but.is_none() {
        return found.into_iter().min_by(compare).into_iter().collect();
    }
    found.sort_unstable_by(compare);
    if offers.iter().any(|offer| offer.availability == Availability::New) {
        let mut made = NewInstanceCounts::default();
        if let Some((_, taken)) = but {
            made.may_have(fleet, taken);
        }
        found.retain(|(_, index)| made.may_have(fleet, offers[*index]));
    }
    found.truncate(most);
    found
}

/// All nodes of these offers, in the same order as in [`in_order`]. Each offer is listed with as many new instances as
/// could be created if no other offer were used.
pub fn listed(fleet: &Fleet, offers: &[&ClassOffer<'_, '_>], order: &[OfferKey]) -> Vec<(NodeId, usize)> {
    let mut found: Vec<(NodeId, usize)> = Vec::new();
    for (index, offer) in offers.iter().enumerate() {
        found.extend(offer.class.nodes().map(|node| (node, index)));
    }
    found.sort_unstable_by(|a, b| compare(offers, order, *a, *b));
    let mut made: BTreeMap<(FleetId, Option<u32>), NewInstanceCounts> = BTreeMap::new();
    found.retain(|(_, index)| {
        let offer = offers[*index];
        made.entry((offer.fleet, offer_of(offer.class.shape))).or_default().may_have(fleet, offer)
    });
    found
}

/// Compares two nodes by availability (idle before new), then by the keys of the order, then by declaration.
fn compare(
    offers: &[&ClassOffer<'_, '_>],
    order: &[OfferKey],
    (node, offer): (NodeId, usize),
    (other_node, other): (NodeId, usize),
) -> Ordering {
    let (offer, other) = (offers[offer], offers[other]);
    let by_keys = || offer.compare(other, order);
    let by_node = || if planted!(EqualOffersLastFirst) { other_node.cmp(&node) } else { node.cmp(&other_node) };
    offer.availability.cmp(&other.availability).then_with(by_keys).then_with(by_node)
}

/// How many instances would be created, for each fleet and offer.
#[derive(Default)]
struct NewInstanceCounts(Vec<(FleetId, u32, u32)>);

impl NewInstanceCounts {
    /// Counts one more instance of this offer, if the fleet and the offer allow it. Returns whether they do.
    fn may_have(&mut self, fleet: &Fleet, offer: &ClassOffer<'_, '_>) -> bool {
        if offer.availability != Availability::New {
            return true;
        }
        let number = offer_of(offer.class.shape).expect("only what is made of an offer is new");
        let id = offer.fleet;
        let of_fleet: u32 = self.0.iter().filter(|(known, ..)| *known == id).map(|(.., count)| count).sum();
        let place = self.0.iter().position(|(known, offer, _)| (*known, *offer) == (id, number));
        let of_offer = place.map_or(0, |place| self.0[place].2);
        if of_fleet >= fleet.instances_left(id) || of_offer >= fleet.capacity_left(id, number) {
            return false;
        }
        match place {
            Some(place) => self.0[place].2 += 1,
            None => self.0.push((id, number, 1)),
        }
        true
    }
}
