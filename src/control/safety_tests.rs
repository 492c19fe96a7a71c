//! Tests of the safety checks. Each row changes one thing of a placement that is safe, and states the rules that it breaks
//! then. The scheduler makes no such placement, so nothing else notices a check that passes too much.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{instance_claims, safety};
use Safety::{GangTorn, NotReady, Overcommit, RequirementUnmet};
use dryrack_catalog::{CpuArch, Os, Vendor};
use dryrack_event::Safety;
use dryrack_fleet::{
    Blocks, DeviceName, Fleet, FleetKind, FleetPlacement, FleetSpec, Foreign, GpuClaim, GpuParts, GpuShape, GpuState,
    Instance, NodeClaim, NodeShape, NodeSpec, NodeState, Placement, PublishedDevice, RESTRICTED_CORES_LABEL, Reserved,
};
use dryrack_ids::{FleetId, GpuId, NodeId};
use dryrack_objects::{Effect, Pod, PodClaim, Taint, Toleration, TolerationOperator};
use dryrack_units::{Bytes, GpuShare, MilliCpu, Money};
use dryrack_workload::{
    Backend, Bounds, Demand, Deployment, Gang, GpuDemand, GpuRequirements, GpuTake, JobSpec, Pick, Requirements,
    SpotPolicy, Strategy, TaskDemand, TaskSet,
};

fn cores(cores: u64) -> MilliCpu {
    MilliCpu::from_cores(cores)
}

fn gib(gib: u64) -> Bytes {
    Bytes::from_gib(gib)
}

/// A node with 16 cores, 64 GiB and four GPUs of 80 GiB, of which the system reserves 1 core, 4 GiB and 2 GiB of each GPU.
fn shape() -> NodeShape {
    let mut shape = NodeShape::of(cores(16), gib(64), vec![GpuShape::of("a", gib(80)); 4]);
    shape.labels.insert("zone".into(), "a".into());
    shape.reserved = Reserved { cpu: cores(1), ram: gib(4), gpu_memory: gib(2) };
    shape
}

fn fleet_of(shapes: &[NodeShape]) -> Fleet {
    let mut fleet = Fleet::default();
    for (number, shape) in shapes.iter().enumerate() {
        let spec = NodeSpec { name: format!("n{number}").into(), shape: Arc::new(shape.clone()) };
        fleet.declare(&spec, NodeState::Ready);
    }
    fleet
}

fn part(index: u16, share: u32, memory: u64) -> GpuClaim {
    GpuClaim { index, share: GpuShare::new(share), memory: gib(memory) }
}

fn whole(indexes: &[u16]) -> Vec<GpuClaim> {
    indexes.iter().map(|index| part(*index, 1000, 78)).collect()
}

fn claim(node: usize, tasks: u32, (cpu, ram): (u64, u64), gpus: Vec<GpuClaim>) -> NodeClaim {
    let gpus = gpus.into_iter().collect();
    NodeClaim { tasks, cpu: cores(cpu), ram: gib(ram), gpus, ..NodeClaim::of_nothing(NodeId::new(node)) }
}

fn take(fleet: &mut Fleet, claim: NodeClaim) {
    fleet.take(&Placement::new([claim].into_iter().collect()));
}

fn broken(fleet: &Fleet, demand: &Demand, claims: &[NodeClaim]) -> Vec<Safety> {
    let placement = Placement::new(claims.iter().cloned().collect());
    safety::broken_by(fleet, demand, &placement, |_| false).into_iter().map(|(_, what)| what).collect()
}

fn task(count: u32, take: GpuTake) -> TaskDemand {
    let gpus = GpuDemand { count, take, models: Vec::new(), min_memory: None };
    TaskDemand { ram: gib(8), gpus: Some(gpus), ..TaskDemand::cpu_only(cores(4)) }
}

fn gang(tasks: u32, task: TaskDemand) -> Demand {
    Demand { tasks, ..Demand::of(task) }
}

/// Two tasks of two GPUs, 4 cores and 8 GiB each, all on one node.
fn pair() -> (Demand, NodeClaim) {
    (gang(2, task(2, GpuTake::Whole)), claim(0, 2, (8, 16), whole(&[0, 1, 2, 3])))
}

#[test]
fn a_claim_holds_exactly_what_its_tasks_ask_for() {
    let fleet = fleet_of(&[shape()]);
    let (demand, right) = pair();
    let with = |change: &dyn Fn(&mut NodeClaim)| {
        let mut claim = right.clone();
        change(&mut claim);
        broken(&fleet, &demand, &[claim])
    };
    assert_eq!(with(&|_| ()), []);
    type Change<'a> = &'a dyn Fn(&mut NodeClaim);
    let unmet: [Change<'_>; 8] = [
        &|claim| claim.cpu = cores(7),
        &|claim| claim.cpu = cores(9),
        &|claim| claim.ram = gib(15),
        &|claim| claim.ram = gib(17),
        &|claim| claim.gpus.truncate(claim.gpus.len() - 1),
        &|claim| claim.gpus[3].share = GpuShare::new(999),
        &|claim| claim.gpus[3].index = 2,
        &|claim| claim.gpus.swap(0, 1),
    ];
    for (row, change) in unmet.into_iter().enumerate() {
        assert_eq!(with(change), [RequirementUnmet], "row {row}");
    }
    assert_eq!(with(&|claim| claim.tasks = 1), [RequirementUnmet, GangTorn]);
    // Shares and memory are added up over the tasks.
    let halves = gang(2, task(1, GpuTake::Share(GpuShare::new(500))));
    let of = |demand: &Demand, gpus: Vec<GpuClaim>| broken(&fleet, demand, &[claim(0, 2, (8, 16), gpus)]);
    assert_eq!(of(&halves, vec![part(0, 1000, 78)]), []);
    assert_eq!(of(&halves, vec![part(0, 500, 39), part(1, 500, 39)]), []);
    assert_eq!(of(&halves, vec![part(0, 500, 39), part(1, 499, 39)]), [RequirementUnmet]);
    let memory = gang(2, task(1, GpuTake::Memory(gib(10))));
    assert_eq!(of(&memory, vec![part(0, 0, 20)]), []);
    assert_eq!(of(&memory, vec![part(0, 0, 19)]), [RequirementUnmet]);
    assert_eq!(of(&gang(2, TaskDemand { gpus: None, ..task(0, GpuTake::Whole) }), whole(&[0])), [RequirementUnmet]);
}

#[test]
fn a_node_has_what_a_task_requires_of_it() {
    let mut elsewhere = shape();
    elsewhere.gpus[3].model = "b".into();
    let mut large = shape();
    large.gpus.iter_mut().for_each(|gpu| gpu.memory = gib(82));
    let mut smaller = large.clone();
    smaller.gpus[3].memory = gib(81);
    let (_, right) = pair();
    let with = |shape: NodeShape, change: &dyn Fn(&mut TaskDemand)| {
        let mut task = task(2, GpuTake::Whole);
        change(&mut task);
        broken(&fleet_of(&[shape]), &gang(2, task), std::slice::from_ref(&right))
    };
    let label = |key: &'static str, value: &'static str| {
        move |task: &mut TaskDemand| drop(task.labels.insert(key.into(), value.into()))
    };
    let model = |task: &mut TaskDemand| task.gpus.as_mut().expect("GPUs").models = vec!["a".into()];
    let memory = |task: &mut TaskDemand| task.gpus.as_mut().expect("GPUs").min_memory = Some(gib(82));
    assert_eq!((with(shape(), &model), with(elsewhere, &model)), (vec![], vec![RequirementUnmet]));
    assert_eq!((with(large, &memory), with(smaller, &memory)), (vec![], vec![RequirementUnmet]));
    let os = |os| move |task: &mut TaskDemand| task.os = Some(os);
    assert_eq!((with(shape(), &os(Os::Linux)), with(shape(), &os(Os::Windows))), (vec![], vec![RequirementUnmet]));
    let arch = |arch| move |task: &mut TaskDemand| task.arch = Some(arch);
    assert_eq!(with(shape(), &arch(CpuArch::X86_64)), []);
    assert_eq!(with(shape(), &arch(CpuArch::Aarch64)), [RequirementUnmet]);
    // Kubernetes sets some labels itself. 81,920 MiB are 80 GiB.
    let set = [
        ("zone", "a"),
        ("kubernetes.io/hostname", "n0"),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("nvidia.com/gpu.product", "a"),
        ("nvidia.com/gpu.memory", "81920"),
    ];
    for (key, value) in set {
        assert_eq!(with(shape(), &label(key, value)), [], "{key}");
        assert_eq!(with(shape(), &label(key, "other")), [RequirementUnmet], "{key}");
    }
    assert_eq!(with(shape(), &label("rack", "a")), [RequirementUnmet]);
    let arm = NodeShape { arch: CpuArch::Aarch64, ..shape() };
    assert_eq!(with(arm.clone(), &label("kubernetes.io/arch", "arm64")), []);
    assert_eq!(with(arm, &label("kubernetes.io/arch", "amd64")), [RequirementUnmet]);
}

#[test]
fn only_ready_nodes_and_usable_gpus_are_taken() {
    let (demand, right) = pair();
    let mut fleet = fleet_of(&[shape()]);
    let id = NodeId::new(0);
    for state in
        [NodeState::Joining, NodeState::NotReady, NodeState::Unreachable, NodeState::Maintenance, NodeState::Gone]
    {
        fleet.set_node_state(id, state);
        assert_eq!(broken(&fleet, &demand, std::slice::from_ref(&right)), [NotReady], "{state:?}");
        let placement = Placement::new([right.clone()].into_iter().collect());
        assert_eq!(safety::broken_by(&fleet, &demand, &placement, |own| own == state), [], "{state:?}");
    }
    fleet.set_node_state(id, NodeState::Ready);
    let gpu = GpuId { node: id, index: 3 };
    for (state, expected) in [
        (GpuState::Ready, vec![]),
        (GpuState::Degraded, vec![]),
        (GpuState::Draining, vec![NotReady]),
        (GpuState::Failed, vec![NotReady]),
        (GpuState::Unknown, vec![NotReady]),
    ] {
        fleet.set_gpu_state(gpu, state);
        assert_eq!(broken(&fleet, &demand, std::slice::from_ref(&right)), expected, "{state:?}");
    }
}

#[test]
fn a_pod_tolerates_a_state_if_it_tolerates_each_taint_of_it() {
    let tolerates = |key: &str, effect, state| {
        let toleration =
            Toleration { key: key.into(), operator: TolerationOperator::Exists, effect, ..Toleration::default() };
        safety::tolerate_state([&toleration], state)
    };
    for (state, key, has_execute) in [
        (NodeState::NotReady, Taint::NOT_READY, true),
        (NodeState::Unreachable, Taint::UNREACHABLE, true),
        (NodeState::Maintenance, "node.kubernetes.io/unschedulable", false),
    ] {
        assert!(tolerates(key, None, state) && !tolerates("other", None, state), "{state:?}");
        assert_eq!(tolerates(key, Some(Effect::NoSchedule), state), !has_execute, "{state:?}");
        assert!(!tolerates(key, Some(Effect::NoExecute), state), "{state:?}");
    }
    for state in [NodeState::Ready, NodeState::Joining, NodeState::Gone] {
        assert!(!tolerates("", None, state), "{state:?}");
    }
}

#[test]
fn no_more_of_a_resource_is_taken_than_is_left() {
    // Others hold half: 8 of 15 cores, 30 of 60 GiB, and 400 thousandths and 28 GiB of each GPU.
    let mut fleet = fleet_of(&[shape()]);
    let held = (0..4).map(|index| part(index, 400, 28)).collect();
    take(&mut fleet, claim(0, 1, (8, 30), held));
    let of = |fleet: &Fleet, (cpu, ram): (u64, u64), gpus: Vec<GpuClaim>| {
        let claim = claim(0, 1, (cpu, ram), gpus);
        broken(fleet, &Demand::of(TaskDemand::cpu_only(cores(99))), &[claim]).contains(&Overcommit)
    };
    assert!(!of(&fleet, (7, 30), vec![part(0, 600, 50)]));
    assert!(of(&fleet, (8, 0), vec![]) && of(&fleet, (0, 31), vec![]));
    assert!(of(&fleet, (0, 0), vec![part(0, 601, 0)]) && of(&fleet, (0, 0), vec![part(0, 0, 51)]));
    assert!(of(&fleet, (0, 0), vec![part(0, 1, 1), part(1, 601, 0)]));
    // What other programs use is not left. A claim of nothing takes nothing, even if too much is taken already.
    fleet.set_foreign(GpuId { node: NodeId::new(0), index: 0 }, Foreign { share: GpuShare::new(100), memory: gib(10) });
    assert!(!of(&fleet, (0, 0), vec![part(0, 500, 40)]));
    assert!(of(&fleet, (0, 0), vec![part(0, 501, 40)]) && of(&fleet, (0, 0), vec![part(0, 500, 41)]));
    let over = (0..4).map(|index| part(index, 900, 78)).collect();
    take(&mut fleet, claim(0, 1, (9, 40), over));
    assert!(!of(&fleet, (0, 0), vec![part(0, 0, 0)]));
    assert!(of(&fleet, (0, 0), vec![part(1, 1, 0)]) && of(&fleet, (0, 0), vec![part(1, 0, 1)]));
}

#[test]
fn memory_of_unified_gpus_is_part_of_the_ram() {
    let mut unified = shape();
    unified.gpus.iter_mut().for_each(|gpu| (gpu.unified, gpu.memory) = (true, gib(48)));
    let mut fleet = fleet_of(&[unified]);
    take(&mut fleet, claim(0, 1, (0, 10), vec![part(0, 0, 20)]));
    let of = |fleet: &Fleet, ram, gpus: Vec<GpuClaim>| {
        broken(fleet, &Demand::of(TaskDemand::cpu_only(cores(99))), &[claim(0, 1, (0, ram), gpus)])
            .contains(&Overcommit)
    };
    // Of 64 GiB, 4 are reserved, 10 are taken as RAM and 20 by a GPU: 30 are left.
    assert!(!of(&fleet, 30, vec![]) && of(&fleet, 31, vec![]));
    assert!(!of(&fleet, 10, vec![part(1, 0, 20)]) && of(&fleet, 11, vec![part(1, 0, 20)]));
    assert!(!of(&fleet, 0, vec![part(1, 0, 30)]) && of(&fleet, 0, vec![part(1, 0, 31)]));
    fleet.set_foreign(GpuId { node: NodeId::new(0), index: 2 }, Foreign { share: GpuShare::ZERO, memory: gib(5) });
    assert!(!of(&fleet, 25, vec![]) && of(&fleet, 26, vec![]));
}

#[test]
fn restricted_cores_are_for_their_own_gpus() {
    // Of 15 cores, 8 are restricted to the four GPUs.
    let mut restricted = shape();
    restricted.labels.insert(RESTRICTED_CORES_LABEL.into(), "2".into());
    let mut fleet = fleet_of(&[restricted]);
    let of = |fleet: &Fleet, cpu, gpus: Vec<GpuClaim>| {
        broken(fleet, &Demand::of(TaskDemand::cpu_only(cores(99))), &[claim(0, 1, (cpu, 0), gpus)])
            .contains(&Overcommit)
    };
    assert!(!of(&fleet, 7, vec![]) && of(&fleet, 8, vec![]));
    assert!(!of(&fleet, 9, whole(&[0])) && of(&fleet, 10, whole(&[0])));
    assert!(!of(&fleet, 8, vec![part(0, 500, 1)]) && of(&fleet, 9, vec![part(0, 500, 1)]));
    // Another job holds two restricted cores and three others.
    take(&mut fleet, claim(0, 1, (5, 0), whole(&[0])));
    assert!(!of(&fleet, 4, vec![]) && of(&fleet, 5, vec![]));
    assert!(!of(&fleet, 2, whole(&[1])) && !of(&fleet, 6, whole(&[1])) && of(&fleet, 7, whole(&[1])));
}

#[test]
fn a_gang_is_whole_and_on_the_nodes_that_were_picked() {
    let fleet = fleet_of(&[shape(), shape()]);
    let one = |node| claim(node, 1, (4, 8), whole(&[0, 1]));
    let (demand, right) = pair();
    let spread = Demand { gang: Gang::Spread, ..demand.clone() };
    assert_eq!(broken(&fleet, &demand, &[one(0), one(1)]), []);
    assert_eq!(broken(&fleet, &spread, &[one(0), one(1)]), []);
    assert_eq!(broken(&fleet, &spread, std::slice::from_ref(&right)), [GangTorn]);
    assert_eq!(broken(&fleet, &demand, &[one(0)]), [GangTorn]);
    let picked = |pick| Demand { pick: Some(pick), ..demand.clone() };
    let gpu = |node, index| GpuId { node: NodeId::new(node), index };
    let nodes = picked(Pick::Nodes(vec![NodeId::new(0)]));
    assert_eq!(broken(&fleet, &nodes, std::slice::from_ref(&right)), []);
    assert_eq!(broken(&fleet, &nodes, &[one(0), one(1)]), [RequirementUnmet]);
    let gpus = picked(Pick::Gpus([0, 1, 2, 3].map(|index| gpu(0, index)).to_vec()));
    assert_eq!(broken(&fleet, &gpus, std::slice::from_ref(&right)), []);
    let fewer = picked(Pick::Gpus([0, 1, 2].map(|index| gpu(0, index)).to_vec()));
    assert_eq!(broken(&fleet, &fewer, std::slice::from_ref(&right)), [RequirementUnmet]);
    let others = picked(Pick::Gpus([0, 1, 2, 3].map(|index| gpu(1, index)).to_vec()));
    assert_eq!(broken(&fleet, &others, std::slice::from_ref(&right)), [RequirementUnmet]);
    // Exactly these GPUs, whatever number a task asks for.
    let all = Demand { tasks: 1, ..picked(Pick::AllGpus(vec![gpu(0, 0), gpu(0, 1), gpu(0, 2)])) };
    let three = claim(0, 1, (4, 8), whole(&[0, 1, 2]));
    assert_eq!(broken(&fleet, &all, std::slice::from_ref(&three)), []);
    assert_eq!(broken(&fleet, &all, &[one(0)]), [RequirementUnmet, GangTorn]);
    let two_nodes = picked(Pick::AllGpus(vec![gpu(0, 0), gpu(0, 1), gpu(1, 0), gpu(1, 1)]));
    assert_eq!(broken(&fleet, &two_nodes, &[one(0), one(1)]), []);
    assert_eq!(broken(&fleet, &two_nodes, &[one(0)]), [GangTorn]);
}

#[test]
fn the_shares_and_the_memory_of_sets_are_added_up_over_their_tasks() {
    let fleet = fleet_of(&[shape()]);
    let set = |tasks, task| TaskSet { name: "set".into(), tasks, min_tasks: 1, task };
    let taking = |take| {
        let sets = [set(2, task(1, take)), set(1, TaskDemand::cpu_only(cores(1)))];
        Demand { gang: Gang::Anywhere, ..Demand::of(Arc::<[TaskSet]>::from(sets)) }
    };
    let held = |take, gpus| {
        let claim = NodeClaim { sets: Some([2, 0].into()), ..claim(0, 2, (8, 16), gpus) };
        broken(&fleet, &taking(take), &[claim])
    };
    // No task of the second set is there, so the gang is torn.
    let (memory, half) = (GpuTake::Memory(gib(10)), GpuTake::Share(GpuShare::new(500)));
    assert_eq!(
        (held(memory, vec![part(0, 0, 20)]), held(half, vec![part(0, 1000, 78)])),
        (vec![GangTorn], vec![GangTorn])
    );
    assert!(held(memory, vec![part(0, 0, 19)]).contains(&RequirementUnmet));
    assert!(held(half, vec![part(0, 999, 78)]).contains(&RequirementUnmet));
}

#[test]
fn a_claim_of_sets_holds_what_the_tasks_of_each_set_ask_for() {
    let mut mixed = shape();
    mixed.gpus[3].model = "b".into();
    let fleet = fleet_of(&[mixed, shape()]);
    let of_b = |task: TaskDemand| {
        let gpus = task.gpus.map(|gpus| GpuDemand { models: vec!["b".into()], ..gpus });
        TaskDemand { gpus, ..task }
    };
    let set = |tasks, min_tasks, task| TaskSet { name: "set".into(), tasks, min_tasks, task };
    let sets = |gang, sets: Vec<TaskSet>| Demand { gang, ..Demand::of(Arc::<[TaskSet]>::from(sets)) };
    let two = |gang| sets(gang, vec![set(2, 1, task(1, GpuTake::Whole)), set(1, 1, of_b(task(1, GpuTake::Whole)))]);
    let of = |node, counts: &[u32], amounts, gpus| {
        let claim = claim(node, counts.iter().sum(), amounts, gpus);
        NodeClaim { sets: Some(counts.into()), ..claim }
    };
    let right = of(0, &[2, 1], (12, 24), whole(&[0, 1, 3]));
    let with = |demand: &Demand, change: &dyn Fn(&mut NodeClaim)| {
        let mut claim = right.clone();
        change(&mut claim);
        broken(&fleet, demand, &[claim])
    };
    let anywhere = two(Gang::Anywhere);
    assert_eq!(with(&anywhere, &|_| ()), []);
    type Change<'a> = &'a dyn Fn(&mut NodeClaim);
    let unmet: [Change<'_>; 9] = [
        &|claim| claim.tasks = 2,
        &|claim| claim.cpu = cores(11),
        &|claim| claim.cpu = cores(13),
        &|claim| claim.ram = gib(23),
        &|claim| claim.ram = gib(25),
        // No GPU of model `b`, a GPU that counts twice, one too few, and one too many.
        &|claim| claim.gpus[2].index = 2,
        &|claim| claim.gpus[1].index = 0,
        &|claim| claim.gpus.retain(|part| part.index > 0),
        &|claim| claim.gpus.insert(2, part(2, 1000, 78)),
    ];
    for (row, change) in unmet.into_iter().enumerate() {
        assert_eq!(with(&anywhere, change), [RequirementUnmet], "row {row}");
    }
    assert_eq!(with(&anywhere, &|claim| claim.sets = None), [RequirementUnmet, GangTorn]);
    // From the least number of tasks on, and on one node or each on a node of its own if the gang asks for that.
    let fewer = of(0, &[1, 1], (8, 16), whole(&[0, 3]));
    let lone = of(0, &[0, 1], (4, 8), whole(&[3]));
    let beside = of(1, &[1, 0], (4, 8), whole(&[0]));
    assert_eq!(broken(&fleet, &anywhere, std::slice::from_ref(&fewer)), []);
    assert_eq!(broken(&fleet, &anywhere, std::slice::from_ref(&lone)), [GangTorn]);
    assert_eq!(broken(&fleet, &anywhere, &[of(0, &[3, 1], (16, 32), whole(&[0, 1, 2, 3]))]), [Overcommit, GangTorn]);
    assert_eq!(broken(&fleet, &two(Gang::StrictPack), std::slice::from_ref(&fewer)), []);
    assert_eq!(broken(&fleet, &two(Gang::StrictPack), &[lone.clone(), beside.clone()]), [GangTorn]);
    assert_eq!(broken(&fleet, &two(Gang::Spread), &[lone, beside]), []);
    assert_eq!(broken(&fleet, &two(Gang::Spread), std::slice::from_ref(&fewer)), [GangTorn]);
    // Only the sets with a task on the node must suit it. Shares and memory are added up.
    let mut elsewhere = task(1, GpuTake::Whole);
    elsewhere.labels.insert("zone".into(), "b".into());
    let labels = sets(Gang::Anywhere, vec![set(1, 0, elsewhere), set(1, 1, task(1, GpuTake::Whole))]);
    assert_eq!(broken(&fleet, &labels, &[of(0, &[0, 1], (4, 8), whole(&[0]))]), []);
    assert_eq!(broken(&fleet, &labels, &[of(0, &[1, 1], (8, 16), whole(&[0, 1]))]), [RequirementUnmet]);
    let parts = sets(
        Gang::Anywhere,
        vec![set(2, 2, task(1, GpuTake::Share(GpuShare::new(300)))), set(1, 1, task(1, GpuTake::Memory(gib(8))))],
    );
    let of_parts = |gpus| broken(&fleet, &parts, &[of(0, &[2, 1], (12, 24), gpus)]);
    assert_eq!(of_parts(vec![part(0, 600, 56)]), []);
    assert_eq!(
        (of_parts(vec![part(0, 599, 56)]), of_parts(vec![part(0, 601, 56)])),
        (vec![RequirementUnmet], vec![RequirementUnmet])
    );
    assert_eq!(of_parts(vec![part(0, 600, 7)]), [RequirementUnmet]);
    // Each GPU must suit a set, even if it is not needed.
    let memory = sets(Gang::Anywhere, vec![set(1, 1, of_b(task(1, GpuTake::Memory(gib(8)))))]);
    let of_memory = |gpus| broken(&fleet, &memory, &[of(0, &[1], (4, 8), gpus)]);
    assert_eq!(of_memory(vec![part(3, 0, 8)]), []);
    assert_eq!(
        (of_memory(vec![part(3, 0, 7)]), of_memory(vec![part(0, 0, 8)])),
        (vec![RequirementUnmet], vec![RequirementUnmet])
    );
    assert_eq!(of_memory(vec![part(0, 0, 1), part(3, 0, 8)]), [RequirementUnmet]);
}

/// A model without figures, on one node or several.
fn model(distributable: bool, gpus_per_replica: Option<u32>) -> Deployment {
    let facts = r#"{"name": "m", "categories": [], "architecture": null, "weights": 0, "heads": null, "vision_heads": null,
        "vocabulary": null, "quantization": null}"#;
    Deployment {
        model: serde_json::from_str(facts).expect("facts of a model"),
        backend: Backend::Vllm,
        strategy: Strategy::Spread,
        distributable,
        selector: None,
        gpus_per_replica,
        arguments: Vec::new(),
        environment: BTreeMap::new(),
    }
}

#[test]
fn a_replica_of_a_model_is_on_gpus_that_run_its_backend_and_on_nodes_of_its_selector() {
    let mut nvidia = shape();
    nvidia.gpus.iter_mut().for_each(|gpu| gpu.vendor = Some(Vendor::Nvidia));
    let with = |shape: &NodeShape, selector: &[(&str, &str)], gpus: Vec<GpuClaim>| {
        let selector = selector.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
        let demand = Demand::of(Arc::new(Deployment { selector: Some(selector), ..model(false, None) }));
        broken(&fleet_of(std::slice::from_ref(shape)), &demand, &[claim(0, 1, (0, 0), gpus)])
    };
    let meets = |shape: &NodeShape, selector: &[(&str, &str)]| with(shape, selector, whole(&[0, 1])).is_empty();
    assert!(meets(&nvidia, &[]) && meets(&nvidia, &[("zone", "a")]) && meets(&nvidia, &[("os", "linux")]));
    assert!(!meets(&nvidia, &[("zone", "b")]) && !meets(&nvidia, &[("os", "windows")]));
    assert!(!meets(&nvidia, &[("zone", "a"), ("rack", "a")]));
    // A label that the node states counts more than its system.
    let mut stated = nvidia.clone();
    stated.labels.insert("os".into(), "other".into());
    assert!(meets(&stated, &[("os", "other")]) && !meets(&stated, &[("os", "linux")]));
    // Each GPU once, with some memory. vLLM runs on GPUs of NVIDIA, on Linux, and not without a GPU.
    let of = |gpus: Vec<GpuClaim>| with(&nvidia, &[], gpus);
    assert_eq!(of(vec![part(0, 0, 1)]), []);
    assert_eq!(of(vec![part(0, 1000, 0)]), [RequirementUnmet]);
    assert_eq!(of(vec![part(0, 500, 10), part(0, 500, 10)]), [RequirementUnmet]);
    assert_eq!(of(Vec::new()), [RequirementUnmet]);
    let mut mixed = nvidia.clone();
    mixed.gpus[1].vendor = Some(Vendor::Apple);
    assert_eq!(with(&mixed, &[], whole(&[0, 2])), []);
    assert_eq!(with(&mixed, &[], whole(&[0, 1])), [RequirementUnmet]);
    let windows = NodeShape { os: Os::Windows, ..nvidia };
    assert_eq!(with(&windows, &[], whole(&[0])), [RequirementUnmet]);
}

#[test]
fn a_replica_of_a_model_has_one_main_part_and_several_nodes_only_if_it_may() {
    let fleet = fleet_of(&[shape(), shape()]);
    let is_torn = |deployment: Deployment, pick: Option<Pick>, claims: &[NodeClaim]| {
        let demand = Demand { pick, ..Demand::of(Arc::new(deployment)) };
        broken(&fleet, &demand, claims).contains(&GangTorn)
    };
    let on = |node, tasks| claim(node, tasks, (0, 0), whole(&[0, 1]));
    assert!(!is_torn(model(false, None), None, &[on(0, 1)]));
    assert!(is_torn(model(false, None), None, &[on(0, 0)]) && is_torn(model(true, None), None, &[on(0, 2)]));
    assert!(!is_torn(model(true, None), None, &[on(0, 1), on(1, 0)]));
    assert!(is_torn(model(false, None), None, &[on(0, 1), on(1, 0)]));
    assert!(is_torn(model(true, None), None, &[on(0, 1), on(1, 1)]));
    assert!(is_torn(model(true, None), None, &[on(0, 1), on(1, 2)]));
    // As many GPUs as were picked, or as many of them as a replica takes.
    let pick = |count| Some(Pick::AllGpus((0..count).map(|index| GpuId { node: NodeId::new(0), index }).collect()));
    assert!(!is_torn(model(false, None), pick(2), &[on(0, 1)]) && is_torn(model(false, None), pick(3), &[on(0, 1)]));
    assert!(!is_torn(model(false, Some(2)), pick(3), &[on(0, 1)]));
    assert!(is_torn(model(false, Some(1)), pick(3), &[on(0, 1)]));
    let gpus = Some(Pick::Gpus((0..3).map(|index| GpuId { node: NodeId::new(0), index }).collect()));
    assert!(!is_torn(model(false, None), gpus, &[on(0, 1)]));
}

#[test]
fn devices_are_held_only_by_pods_that_claim_some() {
    let name = DeviceName { driver: "d".into(), pool: "p".into(), device: "x".into() };
    let mut with_device = shape();
    with_device.devices.push(PublishedDevice { name, gpu: 3, share: GpuShare::WHOLE, memory: gib(80) });
    let fleet = fleet_of(&[with_device]);
    let on = |index| Placement::new([claim(0, 1, (0, 0), whole(&[index]))].into_iter().collect());
    let mut spec = JobSpec::of("job".into(), Demand::of(TaskDemand::cpu_only(cores(1))));
    let has = |spec: &JobSpec, index| safety::has_its_devices(&fleet, spec, &on(index));
    assert!(has(&spec, 2) && !has(&spec, 3));
    let mut pod = Pod::default();
    spec.pod = Some(Arc::new(pod.clone()));
    assert!(has(&spec, 2) && !has(&spec, 3));
    pod.spec.resource_claims.push(PodClaim {
        name: "gpu".into(),
        resource_claim_name: None,
        resource_claim_template_name: None,
    });
    spec.pod = Some(Arc::new(pod));
    assert!(has(&spec, 2) && has(&spec, 3));
}

/// The shape of [`shape`] as an instance on demand of the fleet `pool`, with this many blocks.
fn instance(blocks: Blocks, total: Option<u32>) -> NodeShape {
    let (backend, region) = ("aws".into(), "eu".into());
    let fleet = FleetId::new(0);
    let instance =
        Instance { fleet, blocks, total_blocks: total, disk: gib(100), backend, region, spot: false, offer: None };
    NodeShape { instance: Some(Arc::new(instance)), price_per_hour: Some(Money::new(5)), ..shape() }
}

fn meets(shape: NodeShape, requirements: &Requirements, claim: &NodeClaim) -> bool {
    let (kind, placement) = (FleetKind::Ssh, FleetPlacement::Any);
    let (blocks, nodes, cloud) = (Blocks::Auto, None, None);
    let mut fleet = Fleet::default();
    fleet.declare_fleet(Arc::new(FleetSpec { name: "pool".into(), kind, placement, blocks, nodes, cloud }));
    fleet.declare(&NodeSpec { name: "n0".into(), shape: Arc::new(shape) }, NodeState::Ready);
    instance_claims::meets(&fleet, requirements, claim)
}

fn quarters() -> NodeShape {
    instance(Blocks::Count(4), Some(4))
}

/// Two of four blocks. A block has three of the 15 cores that are not reserved, 15 of 60 GiB, and one GPU.
fn two_blocks() -> NodeClaim {
    NodeClaim { blocks: [0, 1].into_iter().collect(), ..claim(0, 1, (6, 30), whole(&[0, 1])) }
}

#[test]
fn a_claim_on_an_instance_holds_exactly_its_blocks() {
    let requirements = Requirements::default();
    assert!(meets(quarters(), &requirements, &two_blocks()));
    type Change<'a> = &'a dyn Fn(&mut NodeClaim);
    let changes: [Change<'_>; 12] = [
        &|claim| claim.blocks.clear(),
        &|claim| claim.blocks[1] = 4,
        &|claim| claim.blocks[1] = 2,
        &|claim| claim.cpu = cores(5),
        &|claim| claim.cpu = cores(7),
        &|claim| claim.ram = gib(29),
        &|claim| claim.ram = gib(31),
        &|claim| claim.gpus.truncate(claim.gpus.len() - 1),
        &|claim| claim.gpus.push(part(2, 1000, 78)),
        &|claim| claim.gpus.push(part(1, 1000, 78)),
        &|claim| claim.gpus[1].share = GpuShare::new(999),
        &|claim| claim.gpus[1].memory = gib(77),
    ];
    for (row, change) in changes.into_iter().enumerate() {
        let mut claim = two_blocks();
        change(&mut claim);
        assert!(!meets(quarters(), &requirements, &claim), "row {row}");
    }
    assert!(!meets(shape(), &requirements, &two_blocks()));
    assert!(!meets(instance(Blocks::Count(4), None), &requirements, &two_blocks()));
    assert!(!meets(instance(Blocks::Count(4), Some(0)), &requirements, &two_blocks()));
    // Each block is half of a GPU. Of eight blocks, each has one core and 7.5 GiB.
    let parts = GpuParts { name: "half".into(), per_gpu: 2, share: GpuShare::new(500), memory: gib(40) };
    let halves = || instance(Blocks::Parts(parts.clone()), Some(8));
    let three = |gpus: Vec<GpuClaim>| {
        let claim = claim(0, 1, (3, 0), gpus);
        NodeClaim { blocks: [0, 1, 2].into_iter().collect(), ram: Bytes::from_mib(23_040), ..claim }
    };
    assert!(meets(halves(), &requirements, &three(vec![part(0, 1000, 80), part(1, 500, 40)])));
    assert!(!meets(halves(), &requirements, &three(vec![part(0, 500, 40), part(1, 1000, 80)])));
    assert!(!meets(halves(), &requirements, &three(vec![part(0, 1000, 80), part(1, 500, 39)])));
    let count = |least| GpuRequirements { count: Bounds::from(least), ..GpuRequirements::default() };
    let of_parts = |gpu| {
        let requirements = Requirements { gpu: Some(gpu), ..Requirements::default() };
        meets(halves(), &requirements, &three(vec![part(0, 1000, 80), part(1, 500, 40)]))
    };
    assert!(of_parts(count(3)) && !of_parts(count(4)));
    let memory = |gib| GpuRequirements { memory: Some(Bounds::from(Bytes::from_gib(gib))), ..count(1) };
    assert!(of_parts(memory(40)) && !of_parts(memory(41)));
}

#[test]
fn an_instance_is_within_every_required_range() {
    let fits = |shape: NodeShape, change: &dyn Fn(&mut Requirements)| {
        let mut requirements = Requirements::default();
        change(&mut requirements);
        meets(shape, &requirements, &two_blocks())
    };
    let (below, above) = (Bounds { min: None, max: Some(5) }, Bounds { min: None, max: Some(6) });
    type Change<'a> = &'a dyn Fn(&mut Requirements);
    let rows: [(Change<'_>, Change<'_>); 10] = [
        (&|it| it.cpu = Bounds::from(6), &|it| it.cpu = Bounds::from(7)),
        (&|it| it.cpu = above, &|it| it.cpu = below),
        (&|it| it.memory = Bounds::from(gib(30)), &|it| it.memory = Bounds::from(gib(31))),
        (&|it| it.disk = Some(Bounds::from(gib(100))), &|it| it.disk = Some(Bounds::from(gib(101)))),
        (&|it| it.max_price = Some(Money::new(5)), &|it| it.max_price = Some(Money::new(4))),
        (&|it| it.arch = Some(CpuArch::X86_64), &|it| it.arch = Some(CpuArch::Aarch64)),
        (&|it| it.spot = SpotPolicy::OnDemand, &|it| it.spot = SpotPolicy::Spot),
        (&|it| it.fleets = vec!["other".into(), "Pool".into()], &|it| it.fleets = vec!["other".into()]),
        (&|it| it.backends = vec!["AWS".into()], &|it| it.backends = vec!["gcp".into()]),
        (&|it| it.regions = vec!["eu".into()], &|it| it.regions = vec!["us".into()]),
    ];
    for (row, (within, outside)) in rows.into_iter().enumerate() {
        assert!(fits(quarters(), within) && !fits(quarters(), outside), "row {row}");
    }
    assert!(!fits(NodeShape { arch: CpuArch::Aarch64, ..quarters() }, &|_| ()));
    let with = |change: &dyn Fn(&mut Instance)| {
        let mut instance = quarters().instance.expect("an instance").as_ref().clone();
        change(&mut instance);
        NodeShape { instance: Some(Arc::new(instance)), ..quarters() }
    };
    let spot = with(&|instance| instance.spot = true);
    assert!(fits(spot.clone(), &|_| ()) && fits(spot.clone(), &|it| it.spot = SpotPolicy::Spot));
    assert!(!fits(spot, &|it| it.spot = SpotPolicy::OnDemand));
    // An unknown disk is not compared.
    let unknown = with(&|instance| instance.disk = Bytes::ZERO);
    assert!(fits(unknown, &|it| it.disk = Some(Bounds::from(gib(101)))));
    let gpu = |change: &dyn Fn(&mut GpuRequirements)| {
        let mut gpu = GpuRequirements::default();
        change(&mut gpu);
        fits(quarters(), &|it| it.gpu = Some(gpu.clone()))
    };
    assert!(gpu(&|it| it.count = Bounds::exactly(2)) && !gpu(&|it| it.count = Bounds::from(3)));
    assert!(!gpu(&|it| it.count = Bounds::exactly(1)));
    assert!(gpu(&|it| it.names = vec!["z".into(), "A".into()]) && !gpu(&|it| it.names = vec!["z".into()]));
    assert!(gpu(&|it| it.memory = Some(Bounds::from(gib(80)))) && !gpu(&|it| it.memory = Some(Bounds::from(gib(81)))));
    let total = |gib| move |it: &mut GpuRequirements| it.total_memory = Some(Bounds::from(Bytes::from_gib(gib)));
    assert!(gpu(&total(160)) && !gpu(&total(161)));
    // The name of dstack for a model of the catalog does too.
    let mut known = quarters();
    known.gpus.iter_mut().for_each(|gpu| (gpu.model, gpu.vendor) = ("l4".into(), Some(Vendor::Nvidia)));
    let names = |name: &'static str| {
        move |it: &mut Requirements| {
            it.gpu = Some(GpuRequirements { names: vec![name.into()], ..GpuRequirements::default() });
        }
    };
    assert!(fits(known.clone(), &names("L4")) && !fits(known, &names("A")));
    // A host without GPUs meets any requirement of GPUs that accepts none.
    let bare = || NodeShape { gpus: Vec::new(), ..quarters() };
    let of = |change: &dyn Fn(&mut GpuRequirements)| {
        let mut gpu = GpuRequirements { names: vec!["z".into()], ..GpuRequirements::default() };
        change(&mut gpu);
        let requirements = Requirements { gpu: Some(gpu), ..Requirements::default() };
        meets(bare(), &requirements, &NodeClaim { gpus: Default::default(), ..two_blocks() })
    };
    assert!(of(&|_| ()) && !of(&|it| it.count = Bounds::from(1)));
    assert!(!of(&|it| it.count = Bounds { min: None, max: None }));
}

#[test]
fn a_block_is_held_once() {
    let mut fleet = Fleet::default();
    let (kind, placement) = (FleetKind::Ssh, FleetPlacement::Any);
    let (blocks, nodes, cloud) = (Blocks::Auto, None, None);
    fleet.declare_fleet(Arc::new(FleetSpec { name: "pool".into(), kind, placement, blocks, nodes, cloud }));
    fleet.declare(&NodeSpec { name: "n0".into(), shape: Arc::new(quarters()) }, NodeState::Ready);
    let demand = Demand::of(Arc::new(Requirements::default()));
    let of = |fleet: &Fleet, blocks: &[u16], gpus: &[u16]| {
        let claim = claim(0, 1, (6, 30), whole(gpus));
        broken(fleet, &demand, &[NodeClaim { blocks: blocks.iter().copied().collect(), ..claim }])
    };
    assert_eq!(of(&fleet, &[0, 1], &[0, 1]), []);
    assert_eq!(
        (of(&fleet, &[1, 1], &[1]), of(&fleet, &[1, 0], &[0, 1])),
        (vec![Overcommit, RequirementUnmet], vec![Overcommit])
    );
    take(&mut fleet, NodeClaim { blocks: [1].into_iter().collect(), ..claim(0, 1, (3, 15), Vec::new()) });
    assert_eq!((of(&fleet, &[0, 1], &[0, 1]), of(&fleet, &[2, 3], &[2, 3])), (vec![Overcommit], vec![]));
    // A job without requirements takes no instance, and one with requirements has one node for each task.
    let plain = Demand::of(TaskDemand::cpu_only(cores(1)));
    assert_eq!(broken(&fleet, &plain, &[claim(0, 1, (1, 0), Vec::new())]), [RequirementUnmet]);
    let two = Demand { tasks: 2, ..demand.clone() };
    let both = NodeClaim { blocks: [2, 3].into_iter().collect(), ..claim(0, 2, (6, 30), whole(&[2, 3])) };
    assert_eq!(broken(&fleet, &two, &[both]), [GangTorn]);
}
