//! Tests of the choice of a fleet, and of jobs with several nodes. All instances have 16 cores and one GPU.

use std::sync::Arc;

use super::ask::Ask;
use super::assign::seek;
use super::choose::{candidates, needs_spare_room, ranked};
use super::gang::OfferPlacer;
use super::offer::Availability;
use super::options::{FitTest, GangRule, OfferKey, OfferOptions, OfferPool, PinsRegion};
use super::pool::{ClassOffer, in_order};
use crate::context::PlacementContext;
use crate::decision::Decision;
use crate::node_class::{Grouping, all_classes};
use crate::placer::Placer;
use crate::test_world::{options, whole_gpus, with_gpus};
use crate::verdict::Verdict;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{
    Blocks, Cloud, Fleet, FleetKind, FleetNodes, FleetPlacement, FleetSpec, IdleDuration, Instance, NodeClaim,
    NodeShape, NodeSpec, NodeState, Placement, Slice,
};
use dryrack_ids::{FleetId, NodeId};
use dryrack_units::{Bytes, Money};
use dryrack_workload::{Bounds, CreationPolicy, Demand, Requirements};

fn offers() -> OfferOptions {
    options().offers
}

/// A fleet of instances that are near each other. A number is the most instances that a cloud provides.
fn spec(most: Option<u32>) -> Arc<FleetSpec> {
    let kind = if most.is_some() { FleetKind::Cloud } else { FleetKind::Ssh };
    let nodes = most.map(|most| FleetNodes { min: 0, target: 0, max: Some(most) });
    let (placement, blocks) = (FleetPlacement::Cluster, Blocks::Count(1));
    Arc::new(FleetSpec { name: "fleet".into(), kind, placement, blocks, nodes, cloud: None })
}

/// An instance of a fleet in a region, split into blocks.
fn instance(fleet: usize, region: &str, blocks: u32) -> NodeShape {
    let instance = Instance {
        fleet: FleetId::new(fleet),
        blocks: Blocks::Count(blocks),
        total_blocks: Some(blocks),
        disk: Bytes::ZERO,
        backend: "remote".into(),
        region: region.into(),
        spot: false,
        offer: None,
    };
    NodeShape { instance: Some(Arc::new(instance)), ..with_gpus(if blocks == 1 { 1 } else { 0 }) }
}

/// A world of these fleets and ready instances.
fn world(fleets: &[Arc<FleetSpec>], instances: &[NodeShape]) -> Fleet {
    let mut fleet = Fleet::default();
    for spec in fleets {
        fleet.declare_fleet(Arc::clone(spec));
    }
    for (number, shape) in instances.iter().enumerate() {
        let spec = NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape.clone()) };
        fleet.declare(&spec, NodeState::Ready);
    }
    fleet
}

/// Lets another job hold this block of an instance.
fn hold(fleet: &mut Fleet, node: usize, block: u16) {
    let claim =
        NodeClaim { tasks: 1, blocks: std::iter::once(block).collect(), ..NodeClaim::of_nothing(NodeId::new(node)) };
    fleet.take(&Placement::new([claim].into()));
}

/// A job with so many nodes.
fn job(nodes: u32, requirements: Requirements) -> Demand {
    Demand { tasks: nodes, ..Demand::of(Arc::new(requirements)) }
}

fn plain(nodes: u32) -> Demand {
    job(nodes, Requirements::default())
}

fn placer<'a>(options: &'a OfferOptions, demand: &'a Demand, fleet: &'a Fleet) -> OfferPlacer<'a> {
    OfferPlacer::new(options, demand, Ask::of_whole(demand, PlacementContext::UNSUBMITTED), fleet)
}

/// The nodes of a job, or `None` if it is refused.
fn placed(options: &OfferOptions, demand: &Demand, fleet: &Fleet) -> Option<Vec<usize>> {
    let found = placer(options, demand, fleet).candidates(Grouping::Classes, 1).ok()?;
    Some(found[0].placement.claims().iter().map(|claim| claim.node.index()).collect())
}

fn ever_fits(options: &OfferOptions, demand: &Demand, fleet: &Fleet) -> bool {
    placer(options, demand, fleet).ever_fits()
}

#[test]
fn fleets_without_an_instance_come_last() {
    let specs = [spec(Some(9)), spec(None), spec(None), spec(None)];
    let mut fleet = world(&specs, &[instance(1, "r", 1), instance(2, "r", 1), instance(3, "r", 1)]);
    fleet.set_node_state(NodeId::new(1), NodeState::Gone);
    let (options, demand) = (offers(), plain(1));
    let ask = Ask::of_whole(&demand, PlacementContext::UNSUBMITTED);
    let order = candidates(&options, &ask, &fleet, &all_classes(&fleet, Grouping::Classes));
    assert_eq!(order.into_iter().map(FleetId::index).collect::<Vec<_>>(), [1, 3, 0, 2]);
}

/// The order of fleets with these offers: fleet, availability and price.
fn order_of(room_for: u32, fleets: usize, offered: &[(usize, Availability, u64)]) -> Vec<usize> {
    let fleet = world(&[spec(None)], &[instance(0, "r", 1)]);
    let classes = all_classes(&fleet, Grouping::EachNode);
    let slice = Slice { blocks: 1, cpus: 16, ram: Bytes::from_gib(64), gpus: 1, gpu_memory: Bytes::from_gib(80) };
    let offer = |(fleet, availability, price): &(usize, Availability, u64)| ClassOffer {
        class: &classes[0],
        fleet: FleetId::new(*fleet),
        slice,
        total_blocks: 1,
        price: Money::new(*price),
        availability: *availability,
    };
    let offers: Vec<ClassOffer<'_, '_>> = offered.iter().map(offer).collect();
    let ids: Vec<FleetId> = (0..fleets).map(FleetId::new).collect();
    let demand = plain(1);
    let ask = Ask { room_for, ..Ask::of_whole(&demand, PlacementContext::UNSUBMITTED) };
    ranked(&ask, &ids, &offers.iter().collect::<Vec<_>>()).into_iter().map(FleetId::index).collect()
}

#[test]
fn the_best_fleet_has_enough_idle_offers_then_a_cheaper_idle_one_then_a_cheaper_new_one() {
    use Availability::{Busy, Idle, New};
    // Enough idle offers, although those of the first are cheaper.
    assert_eq!(order_of(2, 2, &[(0, Idle, 1), (1, Idle, 9), (1, Idle, 8)]), [1, 0]);
    assert_eq!(order_of(1, 2, &[(0, Idle, 3), (1, Idle, 9), (1, Idle, 2)]), [1, 0]);
    // Busy offers, and offers of other fleets, have no influence.
    assert_eq!(order_of(1, 2, &[(0, New, 3), (0, Busy, 1), (1, New, 2), (1, Busy, 9)]), [1, 0]);
    assert_eq!(order_of(1, 2, &[(0, New, 1), (1, Idle, 9)]), [1, 0]);
    // A job that needs no room at first still prefers an idle offer to a cheap new one.
    assert_eq!(order_of(0, 3, &[(0, New, 1), (1, Busy, 1), (2, Idle, 9)]), [2, 0, 1]);
    assert_eq!(order_of(1, 3, &[]), [0, 1, 2]);
}

#[test]
fn offers_are_listed_with_as_many_new_instances_as_the_fleet_and_the_offer_allow() {
    // The fleet may have four instances and has one. Of its second offer, two instances can exist.
    let cloud = Some(Cloud { capacity: vec![9, 2], idle_duration: IdleDuration::Off });
    let spec = FleetSpec { cloud, ..(*spec(Some(4))).clone() };
    let of_offer = |number| {
        let plain = instance(0, "r", 1);
        let own = plain.instance.as_deref().expect("an instance").clone();
        NodeShape { instance: Some(Arc::new(Instance { offer: Some(number), ..own })), ..plain }
    };
    let shapes = [0, 0, 0, 1, 1, 1].map(of_offer).into_iter().chain([instance(0, "r", 1)]);
    let mut fleet = world(&[Arc::new(spec)], &shapes.collect::<Vec<_>>());
    (0..6).for_each(|node| fleet.set_node_state(NodeId::new(node), NodeState::Gone));
    let classes = all_classes(&fleet, Grouping::Classes);
    let slice = Slice { blocks: 1, cpus: 16, ram: Bytes::from_gib(64), gpus: 1, gpu_memory: Bytes::from_gib(80) };
    let offer = |first, availability, price| {
        let class = classes.iter().find(|class| class.first() == NodeId::new(first)).expect("a class");
        let price = Money::new(price);
        ClassOffer { class, fleet: FleetId::new(0), slice, total_blocks: 1, price, availability }
    };
    let dear = offer(0, Availability::New, 2);
    let cheap = offer(3, Availability::New, 1);
    let idle = offer(6, Availability::Idle, 9);
    let listed = |offers: &[&ClassOffer<'_, '_>], most, but| {
        let found = in_order(&fleet, offers, &[OfferKey::Price], most, but);
        found.into_iter().map(|(node, offer)| (node.index(), offer)).collect::<Vec<_>>()
    };
    let all = [&dear, &cheap, &idle];
    // The idle instance, two of the cheap offer, and one of the other, because then the fleet is full.
    assert_eq!(listed(&all, 9, None), [(6, 2), (3, 1), (4, 1), (0, 0)]);
    assert_eq!(listed(&all, 2, None), [(6, 2), (3, 1)]);
    assert_eq!(listed(&all, 1, None), [(6, 2)]);
    assert_eq!(listed(&[&dear, &cheap], 9, None), [(3, 1), (4, 1), (0, 0)]);
    // A node that is taken is left out, and counts as a new instance.
    let taken = Some((NodeId::new(3), &cheap));
    assert_eq!(listed(&all, 9, taken), [(6, 2), (4, 1), (0, 0)]);
    assert_eq!(listed(&[&cheap], 1, taken), [(4, 0)]);
    assert_eq!(listed(&all, 9, Some((NodeId::new(6), &idle))), [(3, 1), (4, 1), (0, 0)]);
}

#[test]
fn a_node_that_finds_no_instance_near_the_first_one_is_told_that_its_gang_is_incomplete() {
    let mut fleet = world(&[spec(None)], &[instance(0, "here", 1), instance(0, "there", 1)]);
    hold(&mut fleet, 0, 0);
    let (options, demand) = (offers(), plain(2));
    let own = (Some(FleetId::new(0)), Some(NodeId::new(0)));
    let ask = Ask { fleet: own.0, master: own.1, ..Ask::of_whole(&demand, PlacementContext::UNSUBMITTED) };
    // A job of one node would be placed there.
    let Decision::Refuse { refusal, reasons } = seek(&options, &demand, &ask, &fleet, Grouping::Classes, 1) else {
        panic!("no instance is near")
    };
    assert_eq!((refusal, reasons), (Refusal::Unfit, Histogram::of(Reason::GangIncomplete, 2)));
}

#[test]
fn a_job_ever_fits_if_one_fleet_has_enough_instances_where_its_rule_allows_them() {
    let options = OfferOptions { pins_master_region: PinsRegion::UnsplitHosts, ..offers() };
    let two = |first, second| world(&[spec(None), spec(None)], &[first, second]);
    let fits = |fleet: &Fleet| [1, 2, 3].map(|nodes| ever_fits(&options, &plain(nodes), fleet));
    assert_eq!(fits(&two(instance(0, "here", 1), instance(0, "here", 1))), [true, true, false]);
    // Instances of two fleets, or hosts in two regions that are not split.
    assert_eq!(fits(&two(instance(0, "here", 1), instance(1, "here", 1))), [true, false, false]);
    assert_eq!(fits(&two(instance(0, "here", 1), instance(0, "there", 1))), [true, false, false]);
    // Hosts that are split may be in any region.
    assert_eq!(fits(&two(instance(0, "here", 2), instance(0, "there", 2))), [true, true, false]);
    assert_eq!(fits(&two(instance(0, "here", 1), instance(0, "there", 2))), [true, true, false]);
}

#[test]
fn a_job_ever_fits_if_a_cloud_may_provide_one_more_instance() {
    let large = |creation| Requirements { cpu: Bounds::from(32), creation, ..Requirements::default() };
    let fits = |most, requirements: Requirements| {
        let instances = [instance(0, "r", 1), instance(1, "r", 1), instance(1, "r", 1), instance(1, "r", 1)];
        let fleet = world(&[spec(most), spec(None)], &instances);
        ever_fits(&offers(), &job(1, requirements), &fleet)
    };
    assert!(fits(Some(2), large(CreationPolicy::ReuseOrCreate)));
    assert!(!fits(Some(1), large(CreationPolicy::ReuseOrCreate)));
    assert!(!fits(Some(0), large(CreationPolicy::ReuseOrCreate)));
    assert!(!fits(Some(2), large(CreationPolicy::Reuse)));
    assert!(!fits(None, large(CreationPolicy::ReuseOrCreate)));
}

#[test]
fn a_placement_still_fits_while_its_blocks_are_idle_and_its_instances_are_offered() {
    let mut fleet = world(&[spec(None)], &[instance(0, "r", 2), instance(0, "r", 2)]);
    let (options, demand) = (offers(), plain(1));
    let found = placer(&options, &demand, &fleet).candidates(Grouping::Classes, 1).expect("both are idle");
    let placement = found[0].placement.clone();
    assert_eq!((placement.claims()[0].node, &*placement.claims()[0].blocks), (NodeId::new(0), [0].as_slice()));
    let still_fits = |fleet: &Fleet| placer(&options, &demand, fleet).still_fits(&placement);
    assert!(still_fits(&fleet));
    hold(&mut fleet, 0, 1);
    hold(&mut fleet, 1, 0);
    assert!(still_fits(&fleet));
    fleet.set_node_state(NodeId::new(0), NodeState::NotReady);
    assert!(!still_fits(&fleet));
    // The other block would do, but another job has the one that was chosen.
    let mut fleet = world(&[spec(None)], &[instance(0, "r", 2)]);
    hold(&mut fleet, 0, 0);
    assert!(!still_fits(&fleet));
    assert_eq!(placer(&options, &demand, &fleet).select_node(NodeId::new(0)).0, Verdict::Fit);
}

#[test]
fn node_by_node_the_first_node_takes_its_best_place_and_the_others_follow() {
    let priced = |price, shape: NodeShape| NodeShape { price_per_hour: Some(Money::new(price)), ..shape };
    let shapes = [
        priced(3, instance(0, "here", 1)),
        priced(1, instance(1, "there", 1)),
        priced(4, instance(1, "here", 1)),
        priced(5, instance(1, "there", 1)),
        priced(2, instance(0, "here", 1)),
    ];
    let fleet = world(&[spec(None), spec(None)], &shapes);
    let with = |gang, pool, nodes| placed(&OfferOptions { gang, pool, ..offers() }, &plain(nodes), &fleet);
    for pool in [OfferPool::AllFleets, OfferPool::ChosenFleet] {
        // The cheapest instance is the first node. The second must be in its fleet and region.
        assert_eq!(with(GangRule::NodeByNode, pool, 2), Some(vec![1, 3]), "{pool:?}");
    }
    assert_eq!(with(GangRule::NodeByNode, OfferPool::AllFleets, 3), None);
    assert_eq!(with(GangRule::Whole, OfferPool::ChosenFleet, 2), Some(vec![1, 3]));
}

#[test]
fn a_replica_may_need_more_room_in_its_fleet_than_it_takes() {
    let large = OfferOptions { fit_test: FitTest::NodesOrBlocks, ..offers() };
    let least = |least| PlacementContext { least, ..PlacementContext::UNSUBMITTED };
    let tasks = Demand::of(whole_gpus(1));
    let rows = [
        ("a service of three replicas", &large, &plain(1), 3, true),
        ("a service of one replica", &large, &plain(1), 1, false),
        ("a service of no replicas at first", &large, &plain(1), 0, false),
        ("a job takes all its nodes", &large, &plain(3), 3, false),
        ("a profile that does not test whether a fleet is large enough", &offers(), &plain(1), 3, false),
        ("tasks without requirements", &large, &tasks, 3, false),
        ("tasks under a profile that does not test", &offers(), &tasks, 3, false),
    ];
    for (name, options, demand, replicas, expected) in rows {
        assert_eq!(needs_spare_room(options, &Fleet::default(), demand, least(replicas)), expected, "{name}");
    }
    for (name, most, blocks, expected) in [
        ("a fleet whose instances in use are counted, although jobs share one of them", Some(3), [1, 4], true),
        ("a fleet whose instances in use are counted, each of which has one job", Some(3), [1, 1], false),
        ("a fleet whose idle blocks are counted", None, [4, 4], false),
    ] {
        let fleet = world(&[spec(most)], &blocks.map(|blocks| instance(0, "r", blocks)));
        assert_eq!(needs_spare_room(&large, &fleet, &plain(1), least(1)), expected, "{name}");
        assert!(!needs_spare_room(&offers(), &fleet, &plain(1), least(1)), "{name}");
        assert!(!needs_spare_room(&large, &fleet, &tasks, least(1)), "{name}");
    }
}

#[test]
fn jobs_that_require_instances_pick_no_gpus() {
    let fleet = world(&[spec(None)], &[instance(0, "r", 1)]);
    let (options, demand) = (offers(), plain(1));
    assert!(!placer(&options, &demand, &fleet).takes_gpus());
}
