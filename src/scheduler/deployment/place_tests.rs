//! Places and scores of replicas, computed by hand from the published rules. All GPUs have 80 GiB. Instances hold 8 GiB of
//! each of their GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::request::PickedGpu;
use super::{
    Absent, Answer, Candidate, CountRule, Counted, DeploymentOptions, Divisor, Generator, LayerStage, Left, NodeCount,
    Picks, Pool, Request, SingleNeed, SpreadRule, Unreserved, place,
};
use crate::test_world::options;
use dryrack_event::Reason;
use dryrack_fleet::{
    Accounting, Fleet, GpuKind, GpuStanding, GpuState, ModelKey, NodeState, Part, Reliance, ServedInstance, Serving,
    ServingGpu, ServingNode,
};
use dryrack_units::Bytes;
use dryrack_workload::{Backend, Deployment, GgufEstimate, Strategy};

const GIB: u64 = 1 << 30;
const OWN: ModelKey = ModelKey(1);
const OTHER: ModelKey = ModelKey(2);

/// Options with these generators. A model reserves 90 % of each of its GPUs.
fn with(generators: &[Generator]) -> DeploymentOptions {
    DeploymentOptions { generators: generators.to_vec(), filters: Vec::new(), ..options().deployments }
}

const SINGLE: Generator = Generator::SingleGpu { need: SingleNeed::Reservation, left: Left::Claim };

/// Nodes of 64 GiB RAM with these sizes of GPUs in GiB.
fn serving(nodes: &[&[u64]]) -> Serving {
    let mut serving = Serving::default();
    for (number, sizes) in nodes.iter().enumerate() {
        let gpu =
            |(index, gib): (usize, &u64)| ServingGpu { index: index as u32, kind: GpuKind::Cuda, total: gib * GIB };
        serving.add(ServingNode {
            name: format!("n{number}").into(),
            labels: Arc::default(),
            state: NodeState::Ready,
            ram: 64 * GIB,
            unified: false,
            reserved_ram: 0,
            reserved_memory: 0,
            gpus: sizes.iter().enumerate().map(gpu).collect(),
            shape: None,
        });
    }
    serving
}

fn part(node: usize, indexes: &[u32], gib: u64) -> Part {
    let claims = indexes.iter().map(|index| (*index, gib * GIB)).collect();
    Part { node: Some(node), indexes: indexes.into(), claims, ram: 0 }
}

/// Lets an instance of a model hold these parts, the main part first.
fn host(serving: &mut Serving, model: ModelKey, mut parts: Vec<Part>) {
    let main = parts.remove(0);
    serving.host(ServedInstance {
        model,
        model_name: "m".into(),
        backend: "vllm".into(),
        kind: Some(GpuKind::Cuda),
        is_distributed: !parts.is_empty(),
        main: Some(main),
        subordinates: parts.into_iter().collect(),
    });
}

/// A model that needs this much GPU memory in GiB in all.
fn deployment(strategy: Strategy, need: u64) -> Deployment {
    let facts = r#"{"name": "m", "categories": [], "architecture": null, "weights": 0, "heads": null, "vision_heads": null,
        "vocabulary": null, "quantization": null}"#;
    Deployment {
        model: serde_json::from_str(facts).expect("facts of a model"),
        backend: Backend::Vllm,
        strategy,
        distributable: true,
        selector: None,
        gpus_per_replica: None,
        arguments: Vec::new(),
        environment: BTreeMap::from([("GPUSTACK_MODEL_VRAM_CLAIM".into(), (need * GIB).to_string().into())]),
    }
}

/// A model that takes only what it needs.
fn unreserved(strategy: Strategy, need: u64) -> Deployment {
    let arguments = vec!["--gpu-memory-utilization=0".into()];
    Deployment { arguments, ..deployment(strategy, need) }
}

fn answer(options: &DeploymentOptions, deployment: &Deployment, serving: &Serving, picks: Picks) -> Answer {
    let fleet = Fleet::default();
    let (model, fleet) = (Some(OWN), &fleet);
    let request =
        Request { deployment, picks, model, replicas: 1, runners: None, fields: None, fleet, is_ideal: false };
    place(options, &request, serving, 9)
}

/// The candidates, best first: each GPU as its node and index, and the score in thousandths.
fn places(options: &DeploymentOptions, deployment: &Deployment, serving: &Serving) -> Vec<(Vec<(usize, u32)>, i64)> {
    match answer(options, deployment, serving, Picks::Free) {
        Answer::Place(found) => found.iter().map(|(candidate, score)| (gpus(candidate), thousandths(*score))).collect(),
        Answer::Refuse(_) => Vec::new(),
    }
}

fn gpus(candidate: &Candidate) -> Vec<(usize, u32)> {
    candidate.shares().flat_map(|share| share.indexes.iter().map(|index| (share.node, *index))).collect()
}

fn thousandths(score: f64) -> i64 {
    (score * 1000.0).round() as i64
}

/// The candidates with a single GPU: node, index and score.
fn singles(options: &DeploymentOptions, deployment: &Deployment, serving: &Serving) -> Vec<(usize, u32, i64)> {
    places(options, deployment, serving).into_iter().map(|(gpus, score)| (gpus[0].0, gpus[0].1, score)).collect()
}

#[test]
fn models_spread_by_steps_over_nodes_and_then_over_gpus() {
    let mut options = with(&[SINGLE]);
    options.spread.rule = SpreadRule::Stepped;
    let mut held = serving(&[&[80, 80], &[80, 80], &[80, 80], &[80, 80]]);
    host(&mut held, OTHER, vec![part(1, &[0], 8)]);
    host(&mut held, OWN, vec![part(2, &[0], 8)]);
    host(&mut held, OWN, vec![part(3, &[1], 8)]);
    host(&mut held, OTHER, vec![part(3, &[1], 8)]);
    // A node without instances has 100, one with others 90, with its own 80, and with both 70. A free GPU adds
    // 10 / (2 + 1), and one in use less: divided by 2 with one instance, and by 2 + 0.2 * 2 with one of each.
    let found = singles(&options, &unreserved(Strategy::Spread, 8), &held);
    assert_eq!(
        found,
        [
            (0, 0, 100_000),
            (0, 1, 100_000),
            (1, 1, 93_333),
            (1, 0, 91_667),
            (2, 1, 83_333),
            (2, 0, 81_667),
            (3, 0, 73_333),
            (3, 1, 71_389),
        ]
    );
}

#[test]
fn models_spread_relative_to_the_fullest_and_the_emptiest_node() {
    let mut options = with(&[SINGLE]);
    let model = unreserved(Strategy::Spread, 8);
    let mut held = serving(&[&[80], &[80], &[80]]);
    // Nodes with the same instances: 0.85 + 0.15, and a free GPU.
    assert_eq!(singles(&options, &model, &held), [0, 1, 2].map(|node| (node, 0, 100_000)));
    host(&mut held, OTHER, vec![part(1, &[0], 8)]);
    host(&mut held, OWN, vec![part(2, &[0], 8)]);
    // Of others there are 0 to 1, of the model itself 0 to 1. The GPUs have 1, 1 / 1.2 and 1 / 2.
    // 0.85 * 100 + 15, 0.85 * 85 + 12.5, and 0.85 * (45 + 20) + 7.5.
    assert_eq!(singles(&options, &model, &held), [(0, 0, 100_000), (1, 0, 84_750), (2, 0, 62_750)]);
    // Two more of the model on node 2, and one on each other node: 1 to 3 of its own, and 0 to 1 of others. All nodes have
    // some: 50 + 25 * few(own) + 15 * few(others).
    for node in [2, 2, 1, 0] {
        host(&mut held, OWN, vec![part(node, &[0], 8)]);
    }
    let of = |node: f64, weight: f64| thousandths(node * 0.85 + 15.0 / weight);
    assert_eq!(singles(&options, &model, &held), [(0, 0, of(90.0, 2.0)), (1, 0, of(75.0, 2.2)), (2, 0, of(65.0, 4.0))]);
    // Subordinate parts count on their nodes, unless the profile ignores them.
    let mut spread = serving(&[&[80], &[80], &[80]]);
    host(&mut spread, OTHER, vec![part(0, &[0], 8), part(1, &[0], 8)]);
    let of_subordinates = |options: &DeploymentOptions, serving: &Serving| singles(options, &model, serving);
    assert_eq!(of_subordinates(&options, &spread), [(2, 0, 100_000), (0, 0, 84_750), (1, 0, 84_750)]);
    options.spread.subordinates = Counted::Ignored;
    assert_eq!(of_subordinates(&options, &spread), [(1, 0, 100_000), (2, 0, 100_000), (0, 0, 84_750)]);
    let mut own = serving(&[&[80], &[80], &[80]]);
    host(&mut own, OWN, vec![part(0, &[0], 8), part(1, &[0], 8)]);
    assert_eq!(of_subordinates(&options, &own), [(1, 0, 100_000), (2, 0, 100_000), (0, 0, 62_750)]);
    options.spread.subordinates = Counted::Counted;
    assert_eq!(of_subordinates(&options, &own), [(2, 0, 100_000), (0, 0, 62_750), (1, 0, 62_750)]);
}

#[test]
fn models_on_several_gpus_spread_by_the_mean_of_their_gpus() {
    let options = with(&[Generator::EvenGpus {}]);
    let model = unreserved(Strategy::Spread, 100);
    let mut held = serving(&[&[80, 80], &[80, 80]]);
    host(&mut held, OTHER, vec![part(1, &[0], 8)]);
    // (1 + 1 / 1.2) / 2 on the second node.
    let mean = (1.0 + 1.0 / 1.2) / 2.0;
    assert_eq!(
        places(&options, &model, &held),
        [(vec![(0, 0), (0, 1)], 100_000), (vec![(1, 1), (1, 0)], thousandths(0.85 * 85.0 + 15.0 * mean))]
    );
    let mut stepped = options;
    stepped.spread.rule = SpreadRule::Stepped;
    assert_eq!(places(&stepped, &model, &held)[1].1, thousandths(90.0 + 10.0 / 3.0 + 10.0 / 6.0));
}

#[test]
fn packed_models_take_the_gpu_that_becomes_fullest() {
    let options = with(&[SINGLE]);
    let model = unreserved(Strategy::Binpack, 20);
    let mut held = serving(&[&[80], &[80]]);
    host(&mut held, OTHER, vec![part(1, &[0], 40)]);
    // Two thirds of 20 / 40 and of 20 / 80.
    assert_eq!(singles(&options, &model, &held), [(1, 0, 33_333), (0, 0, 16_667)]);
    // A part is reserved: 72 of 80 GiB. The second GPU has only 40.
    assert_eq!(singles(&options, &deployment(Strategy::Binpack, 20), &held), [(0, 0, 60_000)]);
    // Two equal parts of 50 GiB. The fuller GPU counts.
    let even = with(&[Generator::EvenGpus {}]);
    let mut two = serving(&[&[80, 80], &[80, 80]]);
    host(&mut two, OTHER, vec![part(1, &[1], 20)]);
    let model = unreserved(Strategy::Binpack, 100);
    let full = thousandths(50.0 / 60.0 * 200.0 / 3.0);
    assert_eq!(
        places(&even, &model, &two),
        [(vec![(1, 0), (1, 1)], full), (vec![(0, 0), (0, 1)], thousandths(50.0 / 80.0 * 200.0 / 3.0))]
    );
}

#[test]
fn the_main_node_of_a_packed_model_has_five_times_the_weight_of_another() {
    let mut options = with(&[Generator::EvenNodes {}]);
    options.binpack.subordinates = Counted::Counted;
    let model = unreserved(Strategy::Binpack, 180);
    let mut held = serving(&[&[80], &[80], &[80]]);
    host(&mut held, OTHER, vec![part(2, &[0], 20)]);
    // Three nodes, each with 60 GiB. The fullest GPU comes first: two thirds of 60 / 60, and twice of 60 / 80. With its
    // weight of 5, the main part is added to twice the sum of the others.
    let (main, other) = (200.0 / 3.0, 50.0);
    let expected = thousandths((main * 5.0 + 2.0 * other * 2.0) / 7.0);
    assert_eq!(places(&options, &model, &held), [(vec![(2, 0), (0, 0), (1, 0)], expected)]);
    options.binpack.subordinates = Counted::Ignored;
    assert_eq!(places(&options, &model, &held), [(vec![(2, 0), (0, 0), (1, 0)], thousandths(main))]);
}

#[test]
fn doubtful_nodes_and_gpus_lose_a_part_of_the_weight() {
    let mut options = with(&[SINGLE]);
    options.readiness.weight = 40;
    let model = unreserved(Strategy::Spread, 8);
    let mut held = serving(&[&[80, 80], &[80, 80]]);
    let standing = |state| GpuStanding { state, ..GpuStanding::IDLE };
    let states = [GpuState::Ready, GpuState::Degraded].map(standing);
    held.set_others(0, Reliance { overdue: true, flaps: 0 }, 0, states.into_iter());
    // A heartbeat is overdue on node 0, which halves its reliability, and a degraded GPU has none.
    assert_eq!(singles(&options, &model, &held), [(1, 0, 100_000), (1, 1, 100_000), (0, 0, 80_000), (0, 1, 60_000)]);
    options.generators = vec![Generator::EvenGpus {}];
    // One of two GPUs is degraded: 1/2 * 1/2 is left.
    let both = unreserved(Strategy::Spread, 100);
    assert_eq!(places(&options, &both, &held), [(vec![(1, 0), (1, 1)], 100_000), (vec![(0, 0), (0, 1)], 70_000)]);
    options.readiness.weight = 0;
    assert_eq!(places(&options, &both, &held).iter().map(|(_, score)| *score).collect::<Vec<_>>(), [100_000, 100_000]);
}

/// Options that take all picked GPUs, also those that their nodes have no more.
fn all_picked() -> DeploymentOptions {
    let several_nodes = super::FreeMemory::Whole;
    let short = super::Short::Overcommitted;
    let picked = Generator::PickedAll { need: SingleNeed::Free, several_nodes, short };
    DeploymentOptions { accounting: Accounting::AllParts, ..with(&[picked]) }
}

#[test]
fn an_absent_gpu_of_a_packed_model_counts_nothing_or_is_an_exception() {
    let mut options = all_picked();
    let model = unreserved(Strategy::Binpack, 80);
    let held = serving(&[&[80, 80]]);
    let pick = |indexes: &[u32]| {
        let gpu = |index: &u32| PickedGpu { node: "n0".into(), kind: GpuKind::Cuda, index: *index };
        Picks::Gpus(indexes.iter().map(gpu).collect())
    };
    let score = |options: &DeploymentOptions, indexes: &[u32]| match answer(options, &model, &held, pick(indexes)) {
        Answer::Place(found) => Ok(thousandths(found[0].1)),
        Answer::Refuse(reasons) => Err(reasons.iter().next().map(|(reason, _)| reason).expect("a reason")),
    };
    // 40 of 80 GiB on each.
    assert_eq!(score(&options, &[0, 1]), Ok(33_333));
    assert_eq!(score(&options, &[0, 5]), Ok(33_333));
    options.binpack.absent = Absent::Raises;
    assert_eq!(score(&options, &[0, 1]), Ok(33_333));
    assert_eq!(score(&options, &[0, 5]), Err(Reason::UpstreamKeyError));
}

/// A GGUF model of 40 layers: 1 GiB each and 2 GiB for each GPU. It takes 4 GiB of RAM with all layers on GPUs, and 44 GiB
/// without.
fn gguf(arguments: &[&str]) -> Deployment {
    let gib = |gib: u64| Bytes::new(gib * GIB);
    let estimate = GgufEstimate {
        layers: 40,
        layer_memory: gib(1),
        fixed_memory: gib(2),
        ram_offloaded: gib(4),
        ram_unoffloaded: gib(44),
    };
    Deployment {
        backend: Backend::LlamaBox(estimate),
        arguments: arguments.iter().map(|argument| Arc::from(*argument)).collect(),
        ..deployment(Strategy::Spread, 0)
    }
}

#[test]
fn layers_go_to_one_gpu_or_several_or_partly_to_ram() {
    let mut options = with(&[]);
    options.layers.stages =
        vec![LayerStage::WholeOnGpu, LayerStage::WholeOnGpus, LayerStage::PartOnGpus, LayerStage::InRam];
    // For each candidate: the claim on each GPU and the RAM, in GiB.
    let laid = |serving: &Serving, arguments: &[&str]| {
        let Answer::Place(found) = answer(&options, &gguf(arguments), serving, Picks::Free) else { return Vec::new() };
        let of = |(candidate, _): (Candidate, f64)| {
            let claims = candidate.main.claims.iter().map(|(index, bytes)| (*index, bytes / GIB)).collect::<Vec<_>>();
            (candidate.main.node, claims, candidate.main.ram / GIB)
        };
        found.into_iter().map(of).collect::<Vec<_>>()
    };
    // All layers on one GPU: 40 + 2 GiB, and 4 GiB of RAM.
    assert_eq!(laid(&serving(&[&[42, 41], &[41]]), &[]), [(0, vec![(0, 42)], 4)]);
    // On two GPUs of 24 GiB: 20 layers and 2 GiB each.
    assert_eq!(laid(&serving(&[&[24, 24], &[41]]), &[]), [(0, vec![(0, 22), (1, 22)], 4)]);
    // In proportion to the free memory: 40 * 30 / 46 = 26, so 14 on the second.
    assert_eq!(laid(&serving(&[&[30, 16]]), &[]), [(0, vec![(0, 28), (1, 16)], 4)]);
    // 22 layers on the GPU of 24 GiB: each layer saves 1 GiB of RAM.
    assert_eq!(laid(&serving(&[&[24], &[23]]), &[]), [(0, vec![(0, 24)], 22)]);
    assert_eq!(laid(&serving(&[&[2], &[]]), &[]), [(0, vec![], 44), (1, vec![], 44)]);
    // As many layers as are asked for, but no more than there are.
    let large = serving(&[&[80]]);
    assert_eq!(laid(&large, &["--ngl=10"]), [(0, vec![(0, 12)], 34)]);
    assert_eq!(laid(&large, &["--ngl=0"]), [(0, vec![], 44)]);
    assert_eq!(laid(&large, &["--ngl=99"]), [(0, vec![(0, 42)], 4)]);
    assert_eq!(laid(&serving(&[&[24]]), &["--ngl=23"]), []);
    assert_eq!(laid(&serving(&[&[24]]), &["--ngl=40"]), []);
    // The fewest GPUs, and only nodes that need no more.
    assert_eq!(laid(&serving(&[&[16, 16, 16], &[24, 24]]), &[]), [(1, vec![(0, 22), (1, 22)], 4)]);
}

#[test]
fn a_stage_takes_a_model_only_if_it_can_place_as_many_layers_as_are_asked_for() {
    use LayerStage::{InRam, PartOnGpus, WholeOnGpu, WholeOnGpus};
    let mut options = with(&[]);
    let large = serving(&[&[80, 80]]);
    let mut places = |stage: LayerStage, layers: u32| {
        options.layers.stages = vec![stage];
        let model = gguf(&[&format!("--ngl={layers}")]);
        matches!(answer(&options, &model, &large, Picks::Free), Answer::Place(_))
    };
    // The model has 40 layers.
    for (stage, expected) in [
        (WholeOnGpu, [false, false, false, true, true]),
        (WholeOnGpus, [false, false, false, true, true]),
        (PartOnGpus, [false, true, true, false, false]),
        (InRam, [true, false, false, false, false]),
    ] {
        assert_eq!([0, 1, 39, 40, 41].map(|layers| places(stage, layers)), expected, "{stage:?}");
    }
}

#[test]
fn on_another_picked_node_the_gpus_that_become_fullest_are_taken() {
    let options = with(&[Generator::PickedSome {}]);
    let taken = |sizes: &[&[u64]]| {
        let model = Deployment { gpus_per_replica: Some(3), ..unreserved(Strategy::Spread, 30) };
        let gpu =
            |(node, index): (usize, u32)| PickedGpu { node: format!("n{node}").into(), kind: GpuKind::Cuda, index };
        let picks = sizes.iter().enumerate().flat_map(|(node, gpus)| (0..gpus.len() as u32).map(move |at| (node, at)));
        let Answer::Place(found) = answer(&options, &model, &serving(sizes), Picks::Gpus(picks.map(gpu).collect()))
        else {
            return Vec::new();
        };
        found.iter().map(|(candidate, _)| gpus(candidate)).collect()
    };
    // Both GPUs of the first node, and one of the second: an equal part is more of a smaller GPU.
    assert_eq!(taken(&[&[80, 80], &[80, 40]]), [[(0, 0), (0, 1), (1, 1)]]);
    assert_eq!(taken(&[&[80, 80], &[40, 80]]), [[(0, 0), (0, 1), (1, 0)]]);
    assert_eq!(taken(&[&[80, 80], &[80, 80]]), [[(0, 0), (0, 1), (1, 0)]]);
    // A GPU without memory comes last.
    assert_eq!(taken(&[&[80, 80], &[0, 80]]), [[(0, 0), (0, 1), (1, 1)]]);
}

#[test]
fn layers_need_ram_for_what_is_not_on_gpus() {
    let mut options = with(&[]);
    options.layers.stages = vec![LayerStage::WholeOnGpu, LayerStage::PartOnGpus];
    let mut held = serving(&[&[80]]);
    let places = |serving: &Serving, arguments: &[&str]| {
        matches!(answer(&options, &gguf(arguments), serving, Picks::Free), Answer::Place(_))
    };
    held.set_others(0, Reliance::default(), 60 * GIB, [GpuStanding::IDLE].into_iter());
    assert!(places(&held, &[]));
    assert!(!places(&held, &["--ngl=39"]));
    held.set_others(0, Reliance::default(), 61 * GIB, [GpuStanding::IDLE].into_iter());
    assert!(!places(&held, &[]));
}

#[test]
fn gpus_are_added_from_the_largest_on_until_they_are_enough() {
    let gpus_of = |generator: Generator, arguments: &[&str], need: u64, heads: Option<u32>, sizes: &[&[u64]]| {
        let mut model = deployment(Strategy::Spread, need);
        model.arguments = arguments.iter().map(|argument| Arc::from(*argument)).collect();
        model.model.heads = heads;
        let options = DeploymentOptions { pool: Pool::One, ..with(&[generator]) };
        places(&options, &model, &serving(sizes)).into_iter().map(|(gpus, _)| gpus).collect::<Vec<_>>()
    };
    let reached = Generator::LargestGpus { count: CountRule::Reached };
    let enough = Generator::LargestGpus { count: CountRule::ReachedAndEnough };
    let nodes: &[&[u64]] = &[&[40, 80, 60], &[80, 80]];
    // 90 % of 80 and of 60 GiB are 126 GiB, and of twice 80 GiB 144 GiB.
    assert_eq!(gpus_of(enough, &[], 100, None, nodes), [vec![(0, 1), (0, 2)], vec![(1, 0), (1, 1)]]);
    assert_eq!(gpus_of(enough, &[], 140, None, nodes), [vec![(1, 0), (1, 1)]]);
    assert_eq!(gpus_of(enough, &[], 150, None, nodes), [vec![(0, 1), (0, 2), (0, 0)]]);
    assert_eq!(gpus_of(enough, &[], 163, None, nodes), Vec::<Vec<_>>::new());
    // Three GPUs do not divide 32 heads.
    assert_eq!(gpus_of(enough, &[], 150, Some(32), nodes), Vec::<Vec<_>>::new());
    let three = ["--tensor-parallel-size=3"];
    assert_eq!(gpus_of(reached, &three, 163, None, nodes), [vec![(0, 1), (0, 2), (0, 0)]]);
    assert_eq!(gpus_of(enough, &three, 163, None, nodes), Vec::<Vec<_>>::new());
    assert_eq!(gpus_of(enough, &three, 162, None, nodes), [vec![(0, 1), (0, 2), (0, 0)]]);
    // One GPU is no matter of several.
    assert_eq!(gpus_of(reached, &["--tensor-parallel-size=1"], 10, None, nodes), Vec::<Vec<_>>::new());
    // Similar GPUs: the least is at least 0.9 of the most, and those with the least memory come first.
    let similar = Generator::SimilarGpus { count: CountRule::ReachedAndEnough };
    assert_eq!(gpus_of(similar, &[], 100, None, &[&[72, 80, 71, 80]]), [vec![(0, 0), (0, 2)]]);
    assert_eq!(gpus_of(similar, &[], 130, None, &[&[72, 80, 71, 80]]), [vec![(0, 1), (0, 3)]]);
    assert_eq!(gpus_of(similar, &[], 100, None, &[&[72, 80, 40]]), [vec![(0, 1), (0, 0)]]);
    assert_eq!(gpus_of(similar, &[], 100, None, &[&[71, 80]]), Vec::<Vec<_>>::new());
    assert_eq!(gpus_of(similar, &[], 100, None, &[&[72, 80]]), [vec![(0, 1), (0, 0)]]);
    // Two GPUs that are asked for together have 152 GiB, of which 90 % are 136.8 GiB.
    let (similar, two) = (Generator::SimilarGpus { count: CountRule::Reached }, ["--tensor-parallel-size=2"]);
    assert_eq!(gpus_of(similar, &two, 136, None, &[&[72, 80]]), [vec![(0, 1), (0, 0)]]);
    assert_eq!(gpus_of(similar, &two, 137, None, &[&[72, 80]]), Vec::<Vec<_>>::new());
    // Whole nodes with equal numbers of GPUs, those with the most GPUs first, until they are enough.
    let prefix =
        |count| Generator::NodePrefix { divisor: Divisor::PerNode, count, without_reservation: Unreserved::Nothing };
    let many: &[&[u64]] = &[&[80], &[80, 80], &[80], &[80, 80], &[80, 80]];
    let first_two = vec![(1, 0), (1, 1), (3, 0), (3, 1)];
    let and_third: Vec<_> = first_two.iter().copied().chain([(4, 0), (4, 1)]).collect();
    assert_eq!(gpus_of(prefix(NodeCount::Ignored), &[], 288, None, many).concat(), first_two);
    assert_eq!(gpus_of(prefix(NodeCount::Ignored), &[], 289, None, many).concat(), and_third);
    assert_eq!(gpus_of(prefix(NodeCount::Exact), &["--tp=6"], 100, None, many), [and_third]);
    assert_eq!(gpus_of(prefix(NodeCount::Exact), &["--tp=4"], 100, None, many), [first_two]);
    assert_eq!(gpus_of(prefix(NodeCount::Exact), &["--tp=5"], 100, None, many), Vec::<Vec<_>>::new());
}

#[test]
fn equal_parts_go_to_the_fewest_gpus_and_then_to_the_fewest_nodes() {
    let gpus_of = |generator: Generator, need: u64, heads: Option<u32>, nodes: &[&[u64]]| {
        let mut model = unreserved(Strategy::Spread, need);
        model.model.heads = heads;
        places(&with(&[generator]), &model, &serving(nodes)).into_iter().map(|(gpus, _)| gpus).collect::<Vec<_>>()
    };
    let on_gpus = |need, heads, nodes: &[&[u64]]| gpus_of(Generator::EvenGpus {}, need, heads, nodes);
    let on_nodes = |need, heads, nodes: &[&[u64]]| gpus_of(Generator::EvenNodes {}, need, heads, nodes);
    assert_eq!(on_gpus(120, None, &[&[40, 80, 60], &[60, 60]]), [vec![(0, 1), (0, 2)], vec![(1, 0), (1, 1)]]);
    assert_eq!(on_gpus(121, None, &[&[41, 80, 60], &[60, 60]]), [vec![(0, 1), (0, 2), (0, 0)]]);
    assert_eq!(on_gpus(124, None, &[&[41, 80, 60], &[60, 60]]), Vec::<Vec<_>>::new());
    // Two or four GPUs divide 32 heads, but three do not.
    assert_eq!(on_gpus(120, Some(32), &[&[40, 40, 40]]), Vec::<Vec<_>>::new());
    assert_eq!(on_gpus(120, Some(32), &[&[40, 40, 40, 30]]), [vec![(0, 0), (0, 1), (0, 2), (0, 3)]]);
    assert_eq!(on_nodes(240, None, &[&[80], &[60, 60], &[60, 80]]), [vec![(1, 0), (1, 1), (2, 0), (2, 1)]]);
    assert_eq!(on_nodes(160, None, &[&[80], &[60, 39], &[60, 80], &[80]]), [vec![(0, 0), (3, 0)]]);
    assert_eq!(on_nodes(161, None, &[&[80], &[80]]), Vec::<Vec<_>>::new());
    let mut alone = unreserved(Strategy::Spread, 100);
    alone.distributable = false;
    assert_eq!(places(&with(&[Generator::EvenNodes {}]), &alone, &serving(&[&[80], &[80]])), []);
}

#[test]
fn whole_nodes_are_taken_if_similar_gpus_are_spread_evenly_over_their_nodes() {
    let (divisor, count, without_reservation) = (Divisor::PerNode, NodeCount::Ignored, Unreserved::Nothing);
    let options = with(&[Generator::SimilarNodes { divisor, count, without_reservation }]);
    let options = DeploymentOptions { pool: Pool::One, ..options };
    let nodes_of = |need, sizes: &[&[u64]], distributable| {
        let model = Deployment { distributable, ..deployment(Strategy::Spread, need) };
        places(&options, &model, &serving(sizes)).into_iter().map(|(gpus, _)| gpus).collect::<Vec<_>>()
    };
    // 90 % of two GPUs of 80 GiB are 144 GiB.
    let both_of_both = [vec![(0, 0), (0, 1), (1, 0), (1, 1)]];
    assert_eq!(nodes_of(100, &[&[80], &[80]], true), [vec![(0, 0), (1, 0)]]);
    assert_eq!(nodes_of(200, &[&[80, 80], &[80, 80]], true), both_of_both);
    assert_eq!(nodes_of(200, &[&[80, 40], &[80, 40]], true), both_of_both);
    let none = Vec::<Vec<_>>::new();
    assert_eq!(nodes_of(100, &[&[80], &[80]], false), none);
    // One node is no matter of several.
    assert_eq!(nodes_of(100, &[&[80, 80]], true), none);
    // No two GPUs are similar, or there are two on one node and one on each of the others.
    assert_eq!(nodes_of(100, &[&[71], &[80]], true), none);
    assert_eq!(nodes_of(200, &[&[80, 80], &[80, 40], &[80, 30]], true), none);
    // A GPU without free memory is similar to none, even if the model reserves nothing.
    let (divisor, without_reservation) = (Divisor::PerNode, Unreserved::Total);
    let options = with(&[Generator::SimilarNodes { divisor, count, without_reservation }]);
    let mut held = serving(&[&[80], &[80]]);
    assert_eq!(places(&options, &unreserved(Strategy::Spread, 100), &held).len(), 1);
    host(&mut held, OTHER, vec![part(0, &[0], 80)]);
    host(&mut held, OTHER, vec![part(1, &[0], 80)]);
    assert_eq!(places(&options, &unreserved(Strategy::Spread, 100), &held), []);
}

#[test]
fn an_absent_gpu_that_an_instance_still_holds_counts_when_models_are_spread() {
    let mut options = all_picked();
    let gpu = |index: u32| PickedGpu { node: "n0".into(), kind: GpuKind::Cuda, index };
    let score = |options: &DeploymentOptions, holder: ModelKey| {
        let mut held = serving(&[&[80, 80]]);
        host(&mut held, holder, vec![part(0, &[5], 8)]);
        match answer(options, &unreserved(Strategy::Spread, 80), &held, Picks::Gpus([0, 5].map(gpu).into())) {
            Answer::Place(found) => Ok(thousandths(found[0].1)),
            Answer::Refuse(reasons) => Err(reasons),
        }
    };
    // On a node that is the fullest and the emptiest: 85 and 15 times the mean of 1 and 1 / 1.2. With an instance of its own,
    // 0.85 * 90, and 15 times the mean of 1 and 1 / 2.
    assert_eq!((score(&options, OTHER), score(&options, OWN)), (Ok(98_750), Ok(87_750)));
    // A free GPU adds 10 / (2 + 1), and one with an instance the half of it.
    options.spread.rule = SpreadRule::Stepped;
    assert_eq!((score(&options, OTHER), score(&options, OWN)), (Ok(95_000), Ok(85_000)));
}
