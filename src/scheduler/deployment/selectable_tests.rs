//! Which GPUs and nodes could be picked for a model. GPUs are given by their memory in GiB.

use std::sync::Arc;

use super::DeploymentOptions;
use super::options::TestedNumber;
use super::selectable::{Pickable, pickable};
use crate::test_world::{self, fleet, options};
use dryrack_fleet::{Fleet, GpuClaim, GpuShape, Hosting, ModelKey, NodeClaim, NodeShape, Placement};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Demand, Deployment};

fn with(tested: TestedNumber) -> DeploymentOptions {
    let mut options = options().deployments;
    options.filters.clear();
    options.divisible.tested = tested;
    options
}

fn model(need: u64, heads: Option<u32>, arguments: &str) -> Deployment {
    let mut deployment = test_world::model(need, arguments);
    deployment.model.heads = heads;
    deployment
}

/// A model that runs on one node.
fn alone(need: u64, heads: Option<u32>, arguments: &str) -> Deployment {
    Deployment { distributable: false, ..model(need, heads, arguments) }
}

fn world(nodes: &[&[u64]]) -> Fleet {
    let of = |sizes: &&[u64]| {
        let gpus = sizes.iter().map(|gib| GpuShape::of("a", Bytes::from_gib(*gib))).collect();
        NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), gpus)
    };
    fleet(nodes.iter().map(of))
}

fn letter(answer: Pickable) -> char {
    match answer {
        Pickable::Alone => '1',
        Pickable::WithOthers => '+',
        Pickable::Not(_) => '-',
    }
}

/// The GPUs of all nodes: `1` for a GPU that could be picked alone, `+` for one only with others, and `-` for no. Then the
/// same for all nodes.
fn answers(options: &DeploymentOptions, model: &Deployment, fleet: &Fleet) -> (String, String) {
    let demand = Demand::of(Arc::new(model.clone()));
    let found = pickable(options, &demand, model, fleet, &fleet.serving());
    let gpus: Vec<String> = found.iter().map(|node| node.gpus.iter().map(|gpu| letter(*gpu)).collect()).collect();
    (gpus.join(" "), found.iter().map(|node| letter(node.node)).collect())
}

#[test]
fn a_gpu_can_be_picked_if_it_and_enough_others_hold_equal_parts() {
    let options = with(TestedNumber::Count);
    let of = |need, nodes: &[&[u64]]| answers(&options, &alone(need, None, ""), &world(nodes));
    let gpus = |need, nodes: &[&[u64]]| of(need, nodes).0;
    assert_eq!(of(80, &[&[40, 60, 80], &[60]]), ("++1 -".into(), "--".into()));
    // Two GPUs hold 60 GiB each, and three hold 40 GiB each.
    assert_eq!(gpus(120, &[&[40, 60, 80], &[60]]), "+++ -");
    assert_eq!(gpus(120, &[&[39, 60, 80], &[60]]), "-++ -");
    assert_eq!(gpus(121, &[&[40, 60, 80], &[60]]), "--- -");
    assert_eq!(gpus(120, &[&[39, 59, 80], &[60, 60]]), "--- ++");
    // Five GPUs would have to hold 50 GiB each, four 63, and three 84.
    assert_eq!(gpus(250, &[&[80, 70, 60, 50, 30]]), "-----");
    assert_eq!(gpus(250, &[&[80, 70, 60, 50, 50]]), "+++++");
}

#[test]
fn gpus_of_several_nodes_are_picked_together_if_no_other_distributed_model_is_there() {
    let options = with(TestedNumber::Count);
    let of = |need, fleet: &Fleet| answers(&options, &model(need, None, ""), fleet);
    let mut fleet = world(&[&[40], &[80], &[80], &[80], &[80]]);
    // Two GPUs hold 80 GiB each. Three would have to hold 54 GiB each, four 40 GiB, and five 32 GiB.
    assert_eq!(of(160, &fleet), ("+ + + + +".into(), "+++++".into()));
    assert_eq!(of(240, &fleet), ("- + + + +".into(), "-++++".into()));
    let hosting = Hosting { model: ModelKey(9), model_name: "other".into(), backend: "vllm".into() };
    let attempt = AttemptId { job: JobId::new(9), replica: 0, number: 1 };
    let claim = |tasks, node| {
        let gpu = GpuClaim { index: 0, share: GpuShare::ZERO, memory: Bytes::from_gib(8) };
        NodeClaim { tasks, gpus: [gpu].into_iter().collect(), ..NodeClaim::of_nothing(NodeId::new(node)) }
    };
    fleet.host(attempt, &Placement::new([claim(1, 3), claim(0, 4)].into_iter().collect()), &hosting);
    // The last two nodes have 72 GiB left, and still hold a small model alone.
    assert_eq!(of(140, &fleet).0, "- + + - -");
    assert_eq!(of(72, &fleet).0, "+ 1 1 1 1");
}

#[test]
fn a_pick_has_the_number_of_gpus_that_is_asked_for_or_one_that_divides_the_heads() {
    use TestedNumber::{Count, TensorParallel, TensorParallelOrPicked};
    let three: &[&[u64]] = &[&[40, 40, 40]];
    let six: &[&[u64]] = &[&[20; 6]];
    let gpus = |tested, (need, heads, arguments), nodes| {
        answers(&with(tested), &alone(need, heads, arguments), &world(nodes)).0
    };
    assert_eq!(gpus(Count, (80, None, "--tp=2"), &[&[80, 80, 30]]), "++-");
    assert_eq!(gpus(Count, (80, None, "--tp=3"), &[&[80, 80, 30]]), "+++");
    assert_eq!(gpus(Count, (80, None, "--tp=4"), &[&[80, 80, 30]]), "---");
    // 32 heads are divided among two or four GPUs.
    assert_eq!(gpus(Count, (120, Some(32), ""), three), "---");
    assert_eq!(gpus(TensorParallelOrPicked, (120, Some(32), ""), three), "---");
    assert_eq!(gpus(TensorParallel, (120, Some(32), ""), three), "+++");
    assert_eq!(gpus(Count, (80, Some(32), ""), three), "+++");
    assert_eq!(gpus(TensorParallelOrPicked, (120, Some(32), "--tp=2 --pp=3"), six), "++++++");
}

#[test]
fn a_node_is_used_with_others_if_equal_numbers_of_gpus_hold_equal_parts() {
    let options = with(TestedNumber::Count);
    let of = |model: &Deployment, nodes: &[&[u64]]| answers(&options, model, &world(nodes)).1;
    let mixed: &[&[u64]] = &[&[80, 80], &[60, 80], &[30, 30], &[80]];
    // Four GPUs of two nodes hold 60 GiB each. Six would have to hold 40 GiB each.
    assert_eq!(of(&model(240, None, ""), mixed), "++--");
    assert_eq!(of(&model(241, None, ""), mixed), "----");
    assert_eq!(of(&model(180, None, ""), mixed), "+++-");
    assert_eq!(of(&alone(180, None, ""), mixed), "----");
    // Two nodes with two GPUs are four.
    assert_eq!(of(&model(180, None, "--tp=4"), mixed), "++--");
    assert_eq!(of(&model(180, None, "--tp=6"), mixed), "+++-");
    assert_eq!(of(&model(180, None, "--tp=3"), mixed), "----");
    // The GPUs of each node divide the heads.
    assert_eq!(of(&model(180, Some(32), ""), mixed), "+++-");
    assert_eq!(of(&model(180, Some(33), ""), mixed), "----");
}
