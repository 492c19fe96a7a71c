//! Tests of a whole fleet: what it knows, when it counts as changed, and whether its classes and counts add up.

use super::*;
use crate::claim::GpuClaim;
use dryrack_ids::JobId;
use dryrack_rng::Stream;
use dryrack_units::{Bytes, GpuShare, MilliCpu};

fn shape(cores: u64, gib: u64, gpus: usize) -> NodeShape {
    let gpu = GpuShape::of("a", Bytes::from_gib(80));
    NodeShape::of(MilliCpu::from_cores(cores), Bytes::from_gib(gib), vec![gpu; gpus])
}

fn declare(fleet: &mut Fleet, shape: NodeShape) -> NodeId {
    let name = Arc::from(format!("n{}", fleet.len()));
    fleet.declare(&NodeSpec { name, shape: Arc::new(shape) }, NodeState::Ready)
}

/// A task of one core on this node, with these whole GPUs.
fn claim(node: NodeId, gpus: &[u16]) -> NodeClaim {
    let whole = |index: &u16| GpuClaim { index: *index, share: GpuShare::WHOLE, memory: Bytes::from_gib(80) };
    NodeClaim {
        tasks: 1,
        cpu: MilliCpu::from_cores(1),
        gpus: gpus.iter().map(whole).collect(),
        ..NodeClaim::of_nothing(node)
    }
}

fn placed(claims: &[NodeClaim]) -> Placement {
    Placement::new(claims.iter().cloned().collect())
}

fn cloud(capacity: Vec<u32>) -> Arc<FleetSpec> {
    Arc::new(FleetSpec {
        name: "cloud".into(),
        kind: FleetKind::Cloud,
        placement: FleetPlacement::Any,
        blocks: Blocks::Count(1),
        nodes: None,
        cloud: Some(Cloud { capacity, idle_duration: IdleDuration::Off }),
    })
}

fn instance(fleet: FleetId, blocks: Blocks, offer: Option<u32>) -> Instance {
    let backend = Arc::from("remote");
    let region = Arc::clone(&backend);
    Instance { fleet, blocks, total_blocks: None, disk: Bytes::ZERO, backend, region, spot: false, offer }
}

#[test]
fn a_fleet_knows_what_was_declared_and_nothing_else() {
    let mut fleet = Fleet::default();
    assert!(fleet.is_empty());
    let (small, large) = (declare(&mut fleet, shape(4, 8, 0)), declare(&mut fleet, shape(8, 16, 2)));
    let id = fleet.declare_fleet(cloud(vec![3, 0]));
    assert_eq!((fleet.is_empty(), fleet.len()), (false, 2));
    assert!(fleet.knows(large) && !fleet.knows(NodeId::new(2)));
    let knows_gpu = |node, index| fleet.knows_gpu(GpuId { node, index });
    assert!(knows_gpu(large, 1) && !knows_gpu(large, 2) && !knows_gpu(small, 0) && !knows_gpu(NodeId::new(2), 0));
    assert!(fleet.knows_fleet(id) && !fleet.knows_fleet(FleetId::new(1)));
    assert!(fleet.knows_offer(id, 1) && !fleet.knows_offer(id, 2) && !fleet.knows_offer(FleetId::new(1), 0));
    assert_eq!([0, 1, 2].map(|offer| fleet.capacity(id, offer)), [3, 0, 0]);
    assert_eq!((fleet.shape_index(small), fleet.shape_index(large)), (0, 1));
    assert!(*fleet.idle_serving() == fleet.serving().idle() && fleet.idle_serving().hosts().len() == 2);
}

#[test]
fn the_largest_amount_of_each_resource_is_that_of_one_node() {
    let mut fleet = Fleet::default();
    declare(&mut fleet, shape(64, 8, 1));
    declare(&mut fleet, shape(8, 256, 3));
    let Largest { cpu, ram, gpu_milli, gpu_memory } = *fleet.largest();
    assert_eq!((cpu, ram), (64_000, 256 << 30));
    assert_eq!((gpu_milli, gpu_memory), (3000, 240 << 30));
}

#[test]
fn only_changes_that_may_make_room_count_as_growth() {
    let mut fleet = Fleet::default();
    let node = declare(&mut fleet, shape(8, 16, 2));
    let id = fleet.declare_fleet(cloud(vec![3]));
    let gpu = GpuId { node, index: 1 };
    let of_one = claim(node, &[0]);
    let foreign = Foreign { share: GpuShare::ZERO, memory: Bytes::from_gib(1) };
    let doubtful = Reliance { overdue: true, flaps: 0 };
    // Each change, and by how much it raises the version of the fleet and its growth.
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Fleet), (u64, u64));
    let changes: [Change<'_>; 10] = [
        ("take", &|fleet| fleet.take(&placed(std::slice::from_ref(&of_one))), (1, 0)),
        ("reliance", &|fleet| fleet.set_reliance(node, doubtful), (1, 0)),
        ("the same reliance", &|fleet| fleet.set_reliance(node, doubtful), (0, 0)),
        ("release", &|fleet| fleet.release(&of_one), (1, 1)),
        ("node", &|fleet| fleet.set_node_state(node, NodeState::NotReady), (1, 1)),
        ("GPU", &|fleet| fleet.set_gpu_state(gpu, GpuState::Failed), (1, 1)),
        ("foreign use", &|fleet| fleet.set_foreign(gpu, foreign), (1, 1)),
        ("capacity", &|fleet| fleet.set_capacity(id, 0, 4), (1, 1)),
        ("asked again", &|fleet| fleet.ask_again(), (0, 1)),
        ("declared", &|fleet| assert!(declare(fleet, shape(4, 8, 0)) > node), (1, 1)),
    ];
    for (name, change, (versions, growth)) in changes {
        let before = (fleet.version(), fleet.growth());
        change(&mut fleet);
        assert_eq!((fleet.version(), fleet.growth()), (before.0 + versions, before.1 + growth), "{name}");
    }
    assert_eq!(fleet.capacity(id, 0), 4);
    assert_eq!(fleet.node(node).version, 6);
}

#[test]
fn a_node_that_was_declared_as_not_ready_is_ready_again_once() {
    let mut fleet = Fleet::default();
    let taint = |key: &str| dryrack_objects::Taint {
        key: key.into(),
        value: "".into(),
        effect: dryrack_objects::Effect::NoSchedule,
    };
    let mut nodes = [dryrack_objects::Taint::NOT_READY, "maintenance"].map(|key| {
        let mut tainted = shape(8, 16, 0);
        let mut stated = KubernetesNode::default();
        stated.spec.taints.push(taint(key));
        tainted.kubernetes = Some(Arc::new(stated));
        declare(&mut fleet, tainted)
    });
    nodes.sort();
    let before = (fleet.version(), fleet.growth());
    assert_eq!(nodes.map(|node| fleet.set_ready_again(node)), [true, false]);
    assert_eq!(nodes.map(|node| fleet.set_ready_again(node)), [false, false]);
    assert_eq!((fleet.version(), fleet.growth()), (before.0 + 1, before.1 + 1));
    assert_eq!(nodes.map(|node| fleet.node(node).status.is_ready_again), [true, false]);
}

#[test]
fn a_reader_of_changes_sees_each_changed_class_and_shape_once() {
    let mut fleet = Fleet::default();
    let nodes = [4, 8, 8].map(|cores| declare(&mut fleet, shape(cores, 16, 1)));
    let (all, own) = (fleet.all_class_changes(), fleet.class_change_count(1));
    assert_eq!((fleet.changed_shapes(all).count(), fleet.class_changes(1, own).count()), (0, 0));
    fleet.take(&placed(&[claim(nodes[1], &[0])]));
    let shapes: Vec<usize> = fleet.changed_shapes(all).collect();
    assert_eq!(shapes, [1]);
    // The node has left the class of its shape and is the only one of another class.
    assert_eq!(fleet.class_changes(1, own).count(), 2);
    assert!(fleet.all_class_changes() > all && fleet.class_change_count(1) > own);
    assert_eq!(fleet.class_changes(0, fleet.class_change_count(0)).count(), 0);
}

#[test]
fn kinds_are_counted_only_in_a_fleet_that_keeps_them() {
    for (mut fleet, kinds) in [(Fleet::with_kinds(), vec![(2, 1)]), (Fleet::default(), vec![])] {
        let node = declare(&mut fleet, shape(8, 16, 4));
        let pair = claim(node, &[0, 1]);
        fleet.take(&placed(std::slice::from_ref(&pair)));
        assert_eq!(fleet.node(node).status.kinds.to_vec(), kinds);
        let mut copy = fleet.node(node).status.clone();
        fleet.without_claim(&mut copy, &pair);
        assert_eq!(copy.kinds.to_vec(), []);
        fleet.with_claim(&mut copy, &pair);
        assert_eq!(copy, fleet.node(node).status);
        fleet.assert_adds_up(std::iter::once(&placed(std::slice::from_ref(&pair))));
        fleet.release(&pair);
        assert_eq!(fleet.node(node).status.kinds.to_vec(), []);
    }
}

#[test]
fn a_plan_may_take_what_a_stopping_attempt_still_holds() {
    let mut fleet = Fleet::default();
    let split = shape(8, 16, 2).into_instance(instance(FleetId::new(0), Blocks::Count(2), None));
    let node = declare(&mut fleet, split);
    let held = NodeClaim { blocks: [0].into_iter().collect(), ..claim(node, &[0]) };
    fleet.take(&placed(std::slice::from_ref(&held)));
    fleet.take_in_advance(&placed(&[held]));
    let status = &fleet.node(node).status;
    assert_eq!((status.cpu_taken, status.gpus[0].holders), (MilliCpu::from_cores(2), 2));
}

#[test]
#[should_panic(expected = "claims do not add up to the ledger on n0")]
fn a_claim_that_nobody_holds_is_found() {
    let mut fleet = Fleet::default();
    let node = declare(&mut fleet, shape(8, 16, 2));
    fleet.take(&placed(&[claim(node, &[0])]));
    fleet.assert_adds_up(std::iter::empty());
}

#[test]
fn a_replica_of_a_model_is_known_until_its_last_node_is_released() {
    let mut fleet = Fleet::default();
    let nodes = [0, 1].map(|_| declare(&mut fleet, shape(8, 16, 2)));
    let attempt = AttemptId { job: JobId::new(0), replica: 0, number: 1 };
    let hosting = Hosting { model: ModelKey(1), model_name: "m".into(), backend: "vllm".into() };
    let other = NodeClaim { tasks: 0, ..claim(nodes[1], &[1]) };
    let placement = placed(&[claim(nodes[0], &[0]), other]);
    for _ in 0..2 {
        fleet.host(attempt, &placement, &hosting);
        fleet.assert_adds_up(std::iter::once(&placement));
        let on = |fleet: &Fleet| nodes.map(|node| fleet.serving().instances_on(node.index()).count());
        assert_eq!(on(&fleet), [1, 1]);
        fleet.release_of(attempt, &placement.claims()[0]);
        assert_eq!(on(&fleet), [0, 1]);
        fleet.release_of(attempt, &placement.claims()[1]);
        assert_eq!(on(&fleet), [0, 0]);
        fleet.assert_adds_up(std::iter::empty());
    }
}

#[test]
#[should_panic(expected = "what is kept of models is not")]
fn a_node_that_models_see_in_another_state_is_found() {
    let mut fleet = Fleet::default();
    let node = declare(&mut fleet, shape(8, 16, 2));
    fleet.keep_serving();
    let later = declare(&mut fleet, shape(8, 16, 2));
    fleet.assert_adds_up(std::iter::empty());
    assert_eq!((fleet.serving().hosts().len(), node < later), (2, true));
    fleet.hosts.serving.as_mut().expect("it is kept").set_state(1, NodeState::NotReady);
    fleet.assert_adds_up(std::iter::empty());
}

#[test]
#[should_panic(expected = "is hosted twice")]
fn an_attempt_is_hosted_once() {
    let mut fleet = Fleet::default();
    let node = declare(&mut fleet, shape(8, 16, 2));
    let attempt = AttemptId { job: JobId::new(0), replica: 0, number: 1 };
    let hosting = Hosting { model: ModelKey(1), model_name: "m".into(), backend: "vllm".into() };
    fleet.host(attempt, &placed(&[claim(node, &[0])]), &hosting);
    fleet.host(attempt, &placed(&[claim(node, &[1])]), &hosting);
}

/// A claim that fits the node, drawn at random. Claims take few different amounts, so that nodes return to states that
/// others were in.
fn drawn(fleet: &Fleet, node: NodeId, draws: &mut Stream) -> Option<NodeClaim> {
    let Node { shape, status, .. } = fleet.node(node);
    let mut claim = NodeClaim { tasks: draws.between(1, 2) as u32, ..NodeClaim::of_nothing(node) };
    if shape.instance.is_some() {
        let idle: Vec<u16> = status.idle_blocks(shape).collect();
        claim.blocks = idle.iter().copied().take(draws.between(1, 2) as usize).collect();
        // Blocks without a GPU, which the state of the GPUs does not show.
        let cut = shape.cut(&claim.blocks)?;
        (claim.cpu, claim.ram) = (cut.cpu, cut.ram);
        return (!idle.is_empty()).then_some(claim);
    }
    claim.cpu = MilliCpu::from_cores(draws.between(0, 2));
    for _ in 0..draws.between(0, 2) {
        let index = draws.index(shape.gpus.len());
        let (share, gib) = *draws.pick(&[(500, 40), (1000, 80)]);
        let share = GpuShare::new(share);
        let is_new = claim.gpus.iter().all(|part| usize::from(part.index) != index);
        if is_new && status.gpu_share_free(index) >= share {
            claim.gpus.push(GpuClaim { index: index as u16, share, memory: Bytes::from_gib(gib) });
        }
    }
    claim.gpus.sort_by_key(|part| part.index);
    (claim.cpu <= status.cpu_free(shape)).then_some(claim)
}

/// Nodes with restricted cores, with counted kinds of tasks, and with blocks have more state than their CPU, RAM and
/// GPUs.
#[test]
fn random_claims_add_up_and_each_node_is_in_the_class_of_its_state() {
    let plain = || shape(8, 64, 3);
    let restricted = || {
        let mut shape = plain();
        shape.labels.insert(RESTRICTED_CORES_LABEL.into(), "1".into());
        shape
    };
    let split = || plain().into_instance(instance(FleetId::new(0), Blocks::Count(1), None));
    let without_gpus = || shape(8, 64, 0).into_instance(instance(FleetId::new(0), Blocks::Count(4), None));
    let shapes: [(&dyn Fn() -> NodeShape, bool); 6] = [
        (&plain, false),
        (&plain, true),
        (&restricted, false),
        (&restricted, true),
        (&split, false),
        (&without_gpus, false),
    ];
    for (number, (shape, keeps_kinds)) in shapes.into_iter().enumerate() {
        let mut fleet = if keeps_kinds { Fleet::with_kinds() } else { Fleet::default() };
        let nodes = [0; 6].map(|_| declare(&mut fleet, shape()));
        let mut draws = Stream::new(number as u64, "fleet test", 0);
        let mut held: Vec<NodeClaim> = Vec::new();
        for _ in 0..400 {
            if !held.is_empty() && draws.chance(450) {
                let claim = held.swap_remove(draws.index(held.len()));
                fleet.release(&claim);
            } else if let Some(claim) = drawn(&fleet, *draws.pick(&nodes), &mut draws) {
                fleet.take(&placed(std::slice::from_ref(&claim)));
                held.push(claim);
            }
            let placements: Vec<Placement> = held.iter().map(|claim| placed(std::slice::from_ref(claim))).collect();
            fleet.assert_adds_up(placements.iter());
        }
    }
}

#[test]
fn nodes_alone_show_what_is_taken_if_there_are_no_instances_and_no_models() {
    let mut fleet = Fleet::default();
    declare(&mut fleet, shape(4, 8, 1));
    assert!(fleet.is_of_nodes_alone());
    let mut serving = fleet.clone();
    serving.keep_serving();
    assert!(!serving.is_of_nodes_alone());
    fleet.declare_fleet(cloud(vec![1]));
    assert!(!fleet.is_of_nodes_alone());
}

#[test]
fn changes_of_nodes_are_counted_from_the_first_request_on() {
    let mut fleet = Fleet::default();
    let nodes = [0, 1, 2].map(|_| declare(&mut fleet, shape(4, 8, 0)));
    let changed = |fleet: &Fleet, read| fleet.changed_nodes(read).collect::<Vec<_>>();
    fleet.set_node_state(nodes[0], NodeState::NotReady);
    assert_eq!((fleet.node_change_count(), changed(&fleet, 0)), (0, vec![]));
    fleet.keep_node_changes();
    // Each node counts as changed once.
    let read = fleet.node_change_count();
    assert_eq!((read, changed(&fleet, 0).len(), changed(&fleet, read)), (3, 3, vec![]));
    fleet.set_node_state(nodes[1], NodeState::NotReady);
    fleet.note_change(nodes[2]);
    assert_eq!((fleet.node_change_count(), changed(&fleet, read)), (5, vec![nodes[2], nodes[1]]));
    // A node without a change of its status is not copied.
    let mut other = Fleet::default();
    for _ in nodes {
        declare(&mut other, shape(4, 8, 0));
    }
    other.set_node_state(nodes[1], NodeState::NotReady);
    let read = fleet.node_change_count();
    for node in nodes {
        fleet.stand_as_in(&other, node);
    }
    assert_eq!(changed(&fleet, read), [nodes[0]]);
    assert_eq!(fleet.node(nodes[0]).status.state, NodeState::Ready);
}
