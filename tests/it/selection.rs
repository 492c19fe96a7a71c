//! Manual picks that are offered, compared with what the scheduler then does, over random worlds and over all
//! scenarios.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dryrack_control::Profile;
use dryrack_engine::{Records, Rehearsal, Replay, RunOptions, draw_world, run};
use dryrack_fleet::{Fleet, NodeState, offer_of};
use dryrack_ids::{GpuId, NodeId};
use dryrack_profile::{load_profile, profile_names};
use dryrack_rng::Stream;
use dryrack_scenario::{Options, load, load_text, outline};
use dryrack_scheduler::{
    Decision, Grouping, NodeFinding, SchedulerOptions, decide, examine, on_gpu, on_node, refused_picks, select,
};
use dryrack_units::SimTime;
use dryrack_workload::{Arrival, Demand, Pick};
use rayon::prelude::*;

trials! {
    Nothing: [
        what_is_offered_fits_and_what_is_refused_does_not_in_some_random_worlds,
        what_is_offered_fits_and_what_is_refused_does_not_in_all_scenarios,
        what_is_offered_for_a_model_is_placed_and_what_is_refused_is_not_in_random_worlds,
    ]
}

const WORLDS: u64 = 10_000;
/// The number of worlds in the fast set.
const SOME_WORLDS: u64 = 500;
/// The number of fleets examined in one run, and of nodes in each; a scenario may have thousands.
const LOOKS: u64 = 3;
const NODES: usize = 12;

fn profiles() -> Vec<Arc<Profile>> {
    let load = |name: &str| load_profile(name, Path::new("")).unwrap_or_else(|faults| panic!("{faults}"));
    profile_names().map(load).collect()
}

/// The fleet at a few moments of a run.
fn moments(rehearsal: &Rehearsal, draws: &mut Stream) -> Vec<Fleet> {
    let mut records = Records::default();
    run(rehearsal, RunOptions::default(), &mut [&mut records]);
    let mut stops: Vec<usize> = (0..LOOKS).map(|_| draws.index(records.0.len())).collect();
    stops.sort_unstable();
    let mut replay = Replay::new(Arc::clone(&rehearsal.profile), rehearsal.seed);
    let mut fleets = Vec::new();
    for (index, record) in records.0.iter().enumerate() {
        if stops.last().is_some_and(|last| index > *last) {
            break;
        }
        replay.take(record).expect("what was just recorded replays");
        if stops.contains(&index) {
            fleets.push(replay.control.fleet().clone());
        }
    }
    fleets
}

/// The numbers of nodes that were offered and refused.
#[derive(Default)]
struct Tally {
    offered: u64,
    refused: u64,
}

/// Checks every property for a few jobs at a few moments.
fn hold(rehearsal: &Rehearsal, draws: &mut Stream, tally: &mut Tally) {
    if rehearsal.arrivals.is_empty() {
        return;
    }
    // Releases place picked models even if they do not fit; other tests report this.
    let is_of_model = |arrival: &Arrival| arrival.spec.demand.model().is_some();
    let options = &rehearsal.profile.scheduler;
    // A model that is refused at submission is not placed where a decision alone would place it.
    let refuses_at_once = !options.deployments.evaluation.at_submission.is_empty();
    if (rehearsal.profile.historic || refuses_at_once) && rehearsal.arrivals.iter().any(is_of_model) {
        return;
    }
    for fleet in moments(rehearsal, draws) {
        let demand = options.demand_of(&draws.pick(&rehearsal.arrivals).spec);
        let demand = &*demand;
        // A node is offered to a gang of unequal tasks if it can hold one of them. A pick of this node must hold all.
        if !demand.sets().is_empty() {
            continue;
        }
        let offered = select(options, demand, &fleet);
        assert_eq!(offered.len(), fleet.len(), "every node is judged");
        for _ in 0..NODES.min(fleet.len()) {
            let known = draws.pick(&offered);
            node_is_as_offered(options, demand, &fleet, known.node, known.verdict.reason());
            tally.offered += u64::from(known.verdict.is_fit());
            tally.refused += u64::from(!known.verdict.is_fit());
            let count = fleet.node(known.node).shape.gpus.len();
            let asks_for_gpus = demand.gpus().is_some() || demand.model().is_some();
            assert_eq!(known.gpus.len(), if asks_for_gpus { count } else { 0 });
            // For a model, all picks with a GPU are tried, so one of its GPUs is enough.
            let one = draws.between(0, count.max(1) as u64 - 1) as usize;
            let is_asked = |index: &usize| demand.model().is_none() || *index == one;
            for (index, verdict) in known.gpus.iter().enumerate().filter(|(index, _)| is_asked(index)) {
                let gpu = GpuId { node: known.node, index: index as u16 };
                gpu_is_as_offered(options, demand, &fleet, gpu, verdict.is_fit());
            }
        }
    }
}

fn node_is_as_offered(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    node: NodeId,
    refused: Option<dryrack_event::Reason>,
) {
    let picked = on_node(demand, node);
    assert_eq!(refused_picks(options, &picked, fleet).is_empty(), refused.is_none());
    let by_hand = decide(options, &picked, fleet, Grouping::Classes, 1);
    let seen = finding(options, &picked, fleet, node);
    match refused {
        None => assert!(seen.refusals.is_empty(), "{node:?} is offered, but refused: {seen:?}"),
        Some(reason) => {
            assert!(matches!(by_hand, Decision::Refuse { .. }), "{node:?} is refused for {reason}, but placed");
            // For a model, the reason of a node that can never fit is the one that an idle fleet would give.
            assert!(seen.verdict.reason() == Some(reason) || demand.model().is_some(), "{node:?}: {seen:?}");
        }
    }
    // Automatic placement, which may use any node, finds the same on this node as a pick of this node.
    let free = Demand { pick: None, ..demand.clone() };
    let also = finding(options, &free, fleet, node);
    let parts = |found: &NodeFinding| {
        (found.verdict, found.refusals.clone(), found.shortages.clone(), found.capacity, found.scores.clone())
    };
    // A node that cannot hold a model alone may still hold a part of it.
    assert!(parts(&seen) == parts(&also) || demand.model().is_some(), "{node:?}: {seen:?}, {also:?}");
    // If no other node is left, automatic placement does the same as the pick. An instance that could be created
    // elsewhere remains possible if its node is gone, so fleets with one are skipped.
    if (0..fleet.len()).map(NodeId::new).any(|other| other != node && offer_of(&fleet.node(other).shape).is_some()) {
        return;
    }
    let mut alone = fleet.clone();
    for index in (0..fleet.len()).filter(|index| *index != node.index()) {
        alone.set_node_state(NodeId::new(index), NodeState::Gone);
    }
    let automatic = decide(options, &free, &alone, Grouping::Classes, 1);
    match (&automatic, &by_hand) {
        (Decision::Place(automatic), Decision::Place(by_hand)) => assert_eq!(automatic, by_hand),
        (Decision::Refuse { .. }, Decision::Refuse { .. }) => {}
        (automatic, by_hand) => panic!("{node:?}: automatic {automatic:?}, by hand {by_hand:?}"),
    }
}

fn finding(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId) -> NodeFinding {
    examine(options, demand, fleet).nodes.swap_remove(node.index())
}

fn gpu_is_as_offered(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, gpu: GpuId, is_offered: bool) {
    let picked = on_gpu(demand, gpu);
    if demand.model().is_some() {
        return gpu_of_model_is_as_offered(options, demand, fleet, gpu, is_offered);
    }
    assert_eq!(refused_picks(options, &picked, fleet).is_empty(), is_offered);
    match decide(options, &picked, fleet, Grouping::Classes, 1) {
        Decision::Refuse { reasons, .. } => assert!(!is_offered, "{gpu:?} is offered, but refused for {reasons}"),
        Decision::Place(candidates) => {
            assert!(is_offered, "{gpu:?} is refused, but placed");
            let [claim] = candidates[0].placement.claims() else { panic!("one GPU lies on one node") };
            assert_eq!((claim.node, claim.gpus.len(), claim.gpus[0].index), (gpu.node, 1, gpu.index));
        }
    }
}

/// For a model, a GPU may be too small without others. It must be offered exactly if some pick with it is placed. The
/// test tries all picks on its node, and the GPU together with all GPUs of another node.
fn gpu_of_model_is_as_offered(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    gpu: GpuId,
    is_offered: bool,
) {
    assert_eq!(refused_picks(options, &on_gpu(demand, gpu), fleet).is_empty(), is_offered);
    let deployment = demand.model().expect("it is of a model");
    let here = fleet.node(gpu.node).shape.gpus.len() as u16;
    let is_placed = |picked: Vec<GpuId>| {
        let by_hand = Demand { pick: Some(Pick::AllGpus(picked)), ..on_gpu(demand, gpu) };
        matches!(decide(options, &by_hand, fleet, Grouping::Classes, 1), Decision::Place(_))
    };
    let with = |mask: u32| {
        let chosen = (0..here).filter(|index| mask & (1 << index) != 0);
        chosen.map(|index| GpuId { node: gpu.node, index }).collect::<Vec<_>>()
    };
    let masks = (0..1u32 << here.min(8)).filter(|mask| mask & (1 << gpu.index) != 0);
    let alone = masks.into_iter().any(|mask| is_placed(with(mask)));
    let beside = fleet.iter().filter(|(other, _)| *other != gpu.node).any(|(other, node)| {
        let others = (0..node.shape.gpus.len() as u16).map(|index| GpuId { node: other, index });
        is_placed(others.chain([gpu]).collect())
    });
    assert!(is_offered || !(alone || beside), "{gpu:?} is refused, but placed with others");
    // Over several nodes there are more picks than the test tries.
    assert!(!is_offered || alone || deployment.distributable, "{gpu:?} is offered, but no pick with it is placed");
}

/// In random worlds, a pick that is offered passes the filters, and one that is refused is not placed. This is the fast
/// set.
fn what_is_offered_fits_and_what_is_refused_does_not_in_some_random_worlds() {
    in_random_worlds(SOME_WORLDS);
}

/// The same in 10,000 worlds.
fn what_is_offered_fits_and_what_is_refused_does_not_in_all_random_worlds() {
    in_random_worlds(WORLDS);
}

pub const SLOW: [(&str, fn()); 1] = [(
    "slow::what_is_offered_fits_and_what_is_refused_does_not_in_10000_random_worlds",
    what_is_offered_fits_and_what_is_refused_does_not_in_all_random_worlds,
)];

fn in_random_worlds(worlds: u64) {
    let profiles = profiles();
    let one = |seed: u64| {
        let mut tally = Tally::default();
        hold(&draw_world(seed, &profiles), &mut Stream::new(seed, "selection test", 0), &mut tally);
        tally
    };
    let sum =
        |one: Tally, other: Tally| Tally { offered: one.offered + other.offered, refused: one.refused + other.refused };
    let tally = (0..worlds).into_par_iter().map(one).reduce(Tally::default, sum);
    // Both answers must be frequent.
    assert!(tally.offered > worlds && tally.refused > worlds, "{} offered, {} refused", tally.offered, tally.refused);
}

/// Draws a scenario of a few nodes and models, some of which do not fit.
fn draw_models(draws: &mut Stream) -> String {
    let mut text = "scenario: Models\nprofile: gpustack\nuntil: 10m\nnodes:\n".to_string();
    for node in 0..draws.between(1, 4) {
        let count = *draws.pick(&[0, 1, 2, 2, 3, 4]);
        let kind = *draws.pick(&[
            "nvidia, compute_capability: 8.0",
            "nvidia, compute_capability: 8.0",
            "amd",
            "nvidia, compute_capability: 6.1",
        ]);
        let gpu = format!("{{type: g, memory: {}GiB, vendor: {kind}}}", draws.pick(&[24, 48, 80]));
        let state = draws.pick(&["ready", "ready", "ready", "not_ready"]);
        let gpus = vec![gpu; count].join(", ");
        let ram = draws.pick(&[8, 64, 256]);
        text.push_str(&format!("  - {{name: n{node}, cpus: 32, ram: {ram}GiB, state: {state}, gpus: [{gpus}]}}\n"));
    }
    text.push_str("jobs:\n");
    for job in 0..draws.between(2, 5) {
        let weights = draws.pick(&[8, 16, 30, 60, 130]);
        let model = match draws.between(0, 3) {
            0 => format!(
                "{{name: m{job}, weights: {weights}GiB, gguf: {{layers: 40, layer_memory: {}MiB, fixed_memory: 1GiB, \
                 ram_offloaded: 2GiB, ram_unoffloaded: {weights}GiB}}}}",
                weights * 1024 / 40
            ),
            1 => format!("{{name: m{job}, weights: {weights}GiB, category: embedding, heads: 16}}"),
            _ => format!("{{name: m{job}, weights: {weights}GiB, heads: {}}}", draws.pick(&[32, 40, 28])),
        };
        let is_gguf = model.contains("gguf");
        let distributed = !is_gguf && draws.chance(400);
        let parameters = match draws.between(0, 5) {
            0 if !is_gguf => "--tensor-parallel-size=2",
            1 if !is_gguf => "--gpu-memory-utilization=0.5",
            0 if is_gguf => "--gpu-layers=20",
            _ => "",
        };
        let parameters = if parameters.is_empty() { String::new() } else { format!(", parameters: [{parameters}]") };
        text.push_str(&format!(
            "  - {{name: j{job}, at: {job}m, model: {model}, distributed: {distributed}, replicas: {}{parameters}}}\n",
            draws.between(1, 2)
        ));
    }
    text
}

/// The same for models, which have separate rules of placement.
fn what_is_offered_for_a_model_is_placed_and_what_is_refused_is_not_in_random_worlds() {
    let mut tally = Tally::default();
    for seed in 0..150 {
        let mut draws = Stream::new(seed, "model selection test", 0);
        let text = draw_models(&mut draws);
        let loaded = load_text("models.yaml", &text, Path::new(""), &Options::default());
        let loaded = loaded.unwrap_or_else(|faults| panic!("{text}\n{faults}"));
        hold(&loaded.rehearsal, &mut draws, &mut tally);
    }
    assert!(tally.offered > 100 && tally.refused > 100, "{} offered, {} refused", tally.offered, tally.refused);
}

fn scenarios(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("scenarios are carried") {
        let path = entry.expect("a folder can be listed").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if path.ends_with("manifests") {
            // Manifests of Kubernetes are not scenarios.
            continue;
        } else if path.is_dir() {
            scenarios(&path, found);
        } else if name.ends_with(".yaml") && !name.ends_with(".profile.yaml") && !name.ends_with(".part.yaml") {
            found.push(path);
        }
    }
}

/// Every scenario except those of traces, whose runs are too long to repeat; with reproductions, also under each
/// profile that reproduces its report.
pub fn all_scenarios(with_reproductions: bool) -> Vec<Rehearsal> {
    let mut files = Vec::new();
    scenarios(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios")), &mut files);
    files.sort();
    let is_of_traces =
        |part: std::path::Component| ["traces", "literature"].iter().any(|name| part.as_os_str() == *name);
    files.retain(|file| !file.components().any(is_of_traces));
    assert!(files.len() > 30, "{} scenarios", files.len());
    let mut rehearsals = Vec::new();
    for file in files {
        let outline = outline(&file, &Options::default()).unwrap_or_else(|faults| panic!("{faults}"));
        for cell in outline.cells {
            let options = Options { set: cell.set, ..Options::default() };
            let loaded = match load(&file, &options) {
                // Its trace is not in the repository; other scenarios cover traces.
                Err(faults) if faults.lacks_only_a_trace() => continue,
                loaded => loaded.unwrap_or_else(|faults| panic!("{faults}")),
            };
            let profiles = loaded.reproductions.iter().filter_map(|reproduction| reproduction.under.profile());
            let again = profiles.filter(|_| with_reproductions).map(|profile| {
                // The scenario's own profile, if it has one, is in the same folder.
                let own = file.with_file_name(profile);
                let profile = if own.is_file() { own.display().to_string() } else { profile.to_string() };
                let profile = Some(profile);
                let loaded = load(&file, &Options { profile, ..options.clone() });
                loaded.unwrap_or_else(|faults| panic!("{faults}")).rehearsal
            });
            rehearsals.extend(again);
            rehearsals.push(loaded.rehearsal);
        }
    }
    let month = Some(SimTime::from_secs(30 * 86_400));
    let cut = |rehearsal: Rehearsal| Rehearsal { until: rehearsal.until.min(month).or(rehearsal.until), ..rehearsal };
    rehearsals.into_iter().map(cut).collect()
}

/// The same in all scenarios.
fn what_is_offered_fits_and_what_is_refused_does_not_in_all_scenarios() {
    for rehearsal in all_scenarios(false) {
        named(&rehearsal, || hold(&rehearsal, &mut Stream::new(1, "selection test", 0), &mut Tally::default()));
    }
}

/// Does the work. If it panics, so does this, with the title of the scenario and its profile.
pub fn named<R>(rehearsal: &Rehearsal, work: impl FnOnce() -> R) -> R {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    let failed = |_| panic!("the message above is about `{}` under {}", rehearsal.title, rehearsal.profile.name);
    done.unwrap_or_else(failed)
}
