//! Records of a released GPUStack: where it placed one replica of a model, or how it evaluated the model before
//! deployment.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use smallvec::SmallVec;

use super::kind::{Compared, Difference, RecordFields, RecordKind, each_version, parse};
use super::profiles::Profiles;
use dryrack_control::Profile;
use dryrack_event::Reason;
use dryrack_fleet::{
    Fleet, GpuClaim, GpuKind, GpuShape, Hosting, ModelKey, NodeClaim, NodeShape, NodeSpec, NodeState, Reserved,
};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_scheduler::PlacementContext;
use dryrack_scheduler::deployment::{
    Answer, Candidate, CandidatePart, DeploymentFilter, Evaluation, PickedGpu, Picks, Request, evaluate, place,
};
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Backend, Category, Demand, Deployment, ModelFacts, Pick, Strategy};

pub struct Placement;

#[derive(Deserialize)]
struct Record {
    request: RecordedRequest,
    answer: RecordedAnswer,
    /// The release that gave the answer.
    #[serde(default)]
    version: Option<String>,
}

#[derive(Deserialize)]
struct RecordedRequest {
    id: String,
    op: Operation,
    model: RecordedModel,
    workers: Vec<RecordedWorker>,
    instances: Vec<RecordedInstance>,
    #[serde(default)]
    runner_gpu_types: Option<Vec<GpuKind>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    Place,
    Evaluate,
}

#[derive(Deserialize)]
struct RecordedModel {
    id: u64,
    name: Arc<str>,
    categories: Vec<Category>,
    weight_bytes: u64,
    heads: Option<u32>,
    arch: Option<Arc<str>>,
    vocab_size: Option<u32>,
    #[serde(default)]
    vision_heads: Option<u32>,
    placement: Strategy,
    distributed: bool,
    replicas: u32,
    worker_selector: Option<BTreeMap<Arc<str>, Arc<str>>>,
    gpu_ids: Option<Vec<String>>,
    gpus_per_replica: Option<u32>,
    backend_parameters: Vec<Arc<str>>,
    env: BTreeMap<Arc<str>, Arc<str>>,
}

#[derive(Deserialize)]
struct RecordedWorker {
    id: u64,
    name: Arc<str>,
    state: NodeState,
    labels: BTreeMap<Arc<str>, Arc<str>>,
    ram: u64,
    unified_memory: bool,
    reserved: RecordedReserve,
    gpus: Vec<RecordedGpu>,
}

#[derive(Deserialize)]
struct RecordedReserve {
    ram: u64,
    vram: u64,
}

#[derive(Deserialize)]
struct RecordedGpu {
    index: u32,
    #[serde(rename = "type")]
    kind: GpuKind,
    vram: u64,
}

#[derive(Deserialize)]
struct RecordedInstance {
    model_id: u64,
    model_name: Arc<str>,
    backend: Arc<str>,
    #[serde(flatten)]
    main: RecordedPart,
    subordinates: Vec<RecordedPart>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct RecordedPart {
    worker_id: u64,
    gpu_indexes: Vec<u32>,
    /// The memory by GPU index.
    vram: BTreeMap<String, u64>,
    #[serde(default)]
    ram: Option<u64>,
}

#[derive(Deserialize)]
struct RecordedAnswer {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    candidate: Option<RecordedCandidate>,
    #[serde(default)]
    evaluation: Option<RecordedEvaluation>,
}

#[derive(Deserialize)]
struct RecordedCandidate {
    #[serde(flatten)]
    main: RecordedPart,
    score: f64,
    overcommit: bool,
    subordinates: Vec<RecordedPart>,
    #[serde(default)]
    gpu_type: Option<GpuKind>,
}

#[derive(Deserialize)]
struct RecordedEvaluation {
    compatible: bool,
    vram: Option<u64>,
}

impl RecordKind for Placement {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["request", "answer"]
    }

    fn compare(&self, record: &RecordFields, file: &str, profiles: &mut Profiles) -> Result<Vec<Compared>, String> {
        let record: Record = parse(record)?;
        let world = world(&record.request)?;
        let version = match record.version.as_deref().or_else(|| version_in(file)) {
            Some(version) => version,
            None if profiles.is_fixed() => "unstated",
            None => return Err("states no `version` of GPUStack, and neither does the name of the file".to_string()),
        };
        each_version(profiles, ("gpustack", [version]), (&record.request.id, &class(&record)), |_, profile| {
            Ok(differences(&record, &world, &profile))
        })
    }
}

/// Finds the version in a file name. For example, `gpustack-0.6.0.jsonl.gz` contains answers of 0.6.0.
fn version_in(file: &str) -> Option<&str> {
    let is_version =
        |part: &&str| part.split('.').count() == 3 && part.split('.').all(|number| number.parse::<u32>().is_ok());
    let name = file.trim_end_matches(".gz").trim_end_matches(".jsonl");
    name.split(['-', '_']).rev().find(is_version)
}

/// The class of a record: the kind of request, and its result.
fn class(record: &Record) -> String {
    let request = &record.request;
    let how = if request.model.gpu_ids.as_ref().is_some_and(|ids| !ids.is_empty()) { "picked" } else { "automatic" };
    let answer = &record.answer;
    let what = match (&answer.error, &answer.candidate, &answer.evaluation) {
        (Some(_), ..) => "an exception",
        (None, _, Some(evaluation)) if evaluation.compatible => "compatible",
        (None, _, Some(_)) => "incompatible",
        (None, None, None) => "nowhere",
        (None, Some(found), None) if !found.subordinates.is_empty() => "several nodes",
        (None, Some(found), None) if found.main.gpu_indexes.len() > 1 => "several GPUs",
        (None, Some(_), None) => "one GPU",
    };
    let operation = if request.op == Operation::Place { "place" } else { "evaluate" };
    format!("{operation}, {how}: {what}")
}

/// A recorded request in the form that a scenario would have.
struct World {
    fleet: Fleet,
    demand: Demand,
    deployment: Arc<Deployment>,
    /// Picks that refer to GPUs or nodes that the fleet does not have. They cannot be part of the demand.
    picks: Option<Picks>,
    /// The recorded id of each worker.
    ids: Vec<u64>,
}

fn world(request: &RecordedRequest) -> Result<World, String> {
    let ids: Vec<u64> = request.workers.iter().map(|worker| worker.id).collect();
    let mut fleet = Fleet::default();
    for worker in &request.workers {
        fleet.declare(&node(worker)?, worker.state);
    }
    for (number, instance) in request.instances.iter().enumerate() {
        let mut claims: SmallVec<[NodeClaim; 1]> = SmallVec::new();
        for part in std::iter::once(&instance.main).chain(&instance.subordinates) {
            let claim = claim(part, u32::from(claims.is_empty()), &ids, &fleet)?;
            if claims.iter().any(|other| other.node == claim.node) {
                return Err(format!("an instance has two parts on worker {}", part.worker_id));
            }
            claims.push(claim);
        }
        let hosting = Hosting {
            model: ModelKey(instance.model_id),
            model_name: Arc::clone(&instance.model_name),
            backend: Arc::clone(&instance.backend),
        };
        let attempt = AttemptId { job: JobId::new(number), replica: 0, number: 1 };
        fleet.host(attempt, &dryrack_fleet::Placement::new(claims), &hosting);
    }
    let deployment = Arc::new(deployment(&request.model));
    let picks = picks(&request.model);
    let pick = pick(&picks, &fleet);
    let picks = (pick.is_none() && picks != Picks::Free).then_some(picks);
    let demand = Demand { pick, ..Demand::of(Arc::clone(&deployment)) };
    Ok(World { fleet, demand, deployment, picks, ids })
}

fn node(worker: &RecordedWorker) -> Result<NodeSpec, String> {
    let gpu = |(place, gpu): (usize, &RecordedGpu)| {
        let vendor = gpu.kind.vendor();
        if gpu.index as usize != place || GpuKind::of(vendor) != gpu.kind {
            let RecordedGpu { index, kind, .. } = gpu;
            return Err(format!("GPU {index} of worker {}, of type {kind}, has no form in a scenario", worker.id));
        }
        Ok(GpuShape { vendor, unified: worker.unified_memory, ..GpuShape::of(gpu.kind.name(), Bytes::new(gpu.vram)) })
    };
    let gpus = worker.gpus.iter().enumerate().map(gpu).collect::<Result<_, String>>()?;
    let RecordedReserve { ram, vram } = worker.reserved;
    let shape = NodeShape {
        labels: worker.labels.clone(),
        reserved: Reserved { ram: Bytes::new(ram), gpu_memory: Bytes::new(vram), ..Reserved::default() },
        ..NodeShape::of(MilliCpu::ZERO, Bytes::new(worker.ram), gpus)
    };
    shape.check_size().map_err(|fault| format!("worker {}: {fault}", worker.id))?;
    Ok(NodeSpec { name: Arc::clone(&worker.name), shape: Arc::new(shape) })
}

fn claim(part: &RecordedPart, tasks: u32, ids: &[u64], fleet: &Fleet) -> Result<NodeClaim, String> {
    let unknown = || format!("an instance is on worker {}, which is not listed", part.worker_id);
    let node = NodeId::new(ids.iter().position(|id| *id == part.worker_id).ok_or_else(unknown)?);
    let gpu = |index: &u32| {
        let memory = part.vram.get(&index.to_string());
        let known = u16::try_from(*index).ok().filter(|index| fleet.knows_gpu(GpuId { node, index: *index }));
        match (known, memory) {
            (Some(index), Some(memory)) => Ok(GpuClaim { index, share: GpuShare::ZERO, memory: Bytes::new(*memory) }),
            _ => Err(format!("an instance is on GPU {index} of worker {}, without its `vram`", part.worker_id)),
        }
    };
    let gpus = part.gpu_indexes.iter().map(gpu).collect::<Result<_, String>>()?;
    if part.vram.len() != part.gpu_indexes.len() {
        return Err(format!("`vram` and `gpu_indexes` on worker {} name different GPUs", part.worker_id));
    }
    let ram = Bytes::new(part.ram.unwrap_or(0));
    Ok(NodeClaim { tasks, ram, gpus, ..NodeClaim::of_nothing(node) })
}

/// Converts the picks to ids. `None` if the fleet does not have all of them.
fn pick(picks: &Picks, fleet: &Fleet) -> Option<Pick> {
    let Picks::Gpus(picked) = picks else { return None };
    let gpu = |picked: &PickedGpu| {
        let (node, known) = fleet.iter().find(|(_, known)| known.name == picked.node)?;
        let shape = known.shape.gpus.get(picked.index as usize)?;
        (GpuKind::of(shape.vendor) == picked.kind).then_some(GpuId { node, index: picked.index as u16 })
    };
    picked.iter().map(gpu).collect::<Option<_>>().map(Pick::AllGpus)
}

fn deployment(model: &RecordedModel) -> Deployment {
    Deployment {
        model: ModelFacts {
            name: Arc::clone(&model.name),
            categories: model.categories.clone(),
            architecture: model.arch.clone(),
            weights: Bytes::new(model.weight_bytes),
            heads: model.heads,
            vision_heads: model.vision_heads,
            vocabulary: model.vocab_size,
            quantization: None,
        },
        backend: Backend::Vllm,
        strategy: model.placement,
        distributable: model.distributed,
        selector: model.worker_selector.clone(),
        gpus_per_replica: model.gpus_per_replica,
        arguments: model.backend_parameters.clone(),
        environment: model.env.clone(),
    }
}

/// Parses `worker:type:index` from the right, because a worker's name may contain colons.
fn picks(model: &RecordedModel) -> Picks {
    let pick = |text: &String| {
        let (rest, index) = text.rsplit_once(':')?;
        let (node, kind) = rest.rsplit_once(':')?;
        let is_index = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
        let index = is_index.then(|| index.parse().unwrap_or(u32::MAX))?;
        let kind = kind.parse().unwrap_or(GpuKind::Unknown);
        (!node.is_empty()).then(|| PickedGpu { node: node.into(), kind, index })
    };
    match &model.gpu_ids {
        Some(ids) if !ids.is_empty() => {
            ids.iter().map(pick).collect::<Option<_>>().map_or(Picks::Unreadable, Picks::Gpus)
        }
        Some(_) | None => Picks::Free,
    }
}

fn differences(record: &Record, world: &World, profile: &Profile) -> Vec<Difference> {
    let mut options = profile.scheduler.deployments.clone();
    // Skip the compatibility table, because a record does not state the properties that the table needs, such as
    // drivers.
    options.filters.retain(|filter| *filter != DeploymentFilter::Compatible);
    let RecordedRequest { op, model, runner_gpu_types, .. } = &record.request;
    let job = (*op == Operation::Place).then(|| JobId::new(model.id as usize));
    let context = PlacementContext { job, replicas: model.replicas, ..PlacementContext::UNSUBMITTED };
    let mut request = Request::of(&world.deployment, &world.demand, context, &world.fleet);
    request.runners = Some(runner_gpu_types.as_deref());
    if let Some(picks) = &world.picks {
        request.picks = picks.clone();
    }
    let serving = world.fleet.serving();
    let difference = match record.request.op {
        Operation::Place => {
            let answer = place(&options, &request, &serving, 1);
            of_placement(&record.answer, &answer, world)
        }
        Operation::Evaluate => {
            let found = evaluate(&options, &request, &serving);
            of_evaluation(&record.answer, &found)
        }
    };
    difference.into_iter().collect()
}

fn differ(kind: &'static str, recorded: impl std::fmt::Display, found: impl std::fmt::Display) -> Option<Difference> {
    Some(Difference { kind, text: format!("recorded: {recorded}; found: {found}") })
}

/// The reason that stands for an exception of the released program.
fn named_after(error: &str) -> Option<Reason> {
    match error.split(':').next()? {
        "ValueError" => Some(Reason::UpstreamValueError),
        "KeyError" => Some(Reason::UpstreamKeyError),
        "ZeroDivisionError" => Some(Reason::UpstreamZeroDivisionError),
        "TypeError" => Some(Reason::UpstreamTypeError),
        _ => None,
    }
}

fn is_exception(reasons: &dryrack_event::Histogram) -> Option<Reason> {
    let exceptions = [
        Reason::UpstreamValueError,
        Reason::UpstreamKeyError,
        Reason::UpstreamZeroDivisionError,
        Reason::UpstreamTypeError,
    ];
    exceptions.into_iter().find(|reason| reasons.contains(*reason))
}

fn of_placement(recorded: &RecordedAnswer, found: &Answer, world: &World) -> Option<Difference> {
    match (recorded, found) {
        (RecordedAnswer { error: Some(error), .. }, Answer::Refuse(reasons)) => {
            match is_exception(reasons) == named_after(error) && named_after(error).is_some() {
                true => None,
                false => differ("exception", error, reasons),
            }
        }
        (RecordedAnswer { error: Some(error), .. }, Answer::Place(ranked)) => {
            differ("exception", error, describe(&ranked[0].0, world))
        }
        (RecordedAnswer { candidate: None, .. }, Answer::Refuse(reasons)) => match is_exception(reasons) {
            None => None,
            Some(reason) => differ("exception", "nowhere", reason),
        },
        (RecordedAnswer { candidate: None, .. }, Answer::Place(ranked)) => {
            differ("places and should not", "nowhere", describe(&ranked[0].0, world))
        }
        (RecordedAnswer { candidate: Some(candidate), .. }, Answer::Refuse(reasons)) => {
            differ("refuses and should not", describe_recorded(candidate), reasons)
        }
        (RecordedAnswer { candidate: Some(candidate), .. }, Answer::Place(ranked)) => {
            of_candidate(candidate, &ranked[0].0, ranked[0].1, world)
        }
    }
}

fn of_candidate(recorded: &RecordedCandidate, found: &Candidate, score: f64, world: &World) -> Option<Difference> {
    let (was, is) = (describe_recorded(recorded), describe(found, world));
    let kind = if part_of(&found.main, world).worker_id != recorded.main.worker_id {
        "node"
    } else if found.main.indexes.as_slice() != recorded.main.gpu_indexes {
        "GPUs"
    } else if part_of(&found.main, world).vram != recorded.main.vram {
        "claims"
    } else if found.subordinates.len() != recorded.subordinates.len()
        || found.subordinates.iter().zip(&recorded.subordinates).any(|(found, was)| {
            let found = part_of(found, world);
            (found.worker_id, &found.gpu_indexes, &found.vram) != (was.worker_id, &was.gpu_indexes, &was.vram)
        })
    {
        "subordinates"
    } else if found.overcommit != recorded.overcommit {
        "overcommit"
    } else if recorded.gpu_type.is_some() && recorded.gpu_type != found.kind {
        "kind of GPU"
    } else if (score - recorded.score).abs() > 1e-9 {
        return differ("score", recorded.score, score);
    } else {
        return None;
    };
    differ(kind, was, is)
}

fn of_evaluation(recorded: &RecordedAnswer, found: &Evaluation) -> Option<Difference> {
    match (recorded, found) {
        (RecordedAnswer { error: Some(error), .. }, Evaluation::Incompatible(reasons)) => {
            match is_exception(reasons) == named_after(error) && named_after(error).is_some() {
                true => None,
                false => differ("exception", error, reasons),
            }
        }
        (RecordedAnswer { error: Some(error), .. }, Evaluation::Compatible { .. }) => {
            differ("exception", error, "compatible")
        }
        (RecordedAnswer { evaluation: Some(was), .. }, Evaluation::Compatible { memory }) => match was.vram {
            None => differ("compatible and should not be", "incompatible", "compatible"),
            Some(vram) if vram != *memory => differ("memory", vram, memory),
            Some(_) => None,
        },
        (RecordedAnswer { evaluation: Some(was), .. }, Evaluation::Incompatible(reasons)) => {
            if was.compatible {
                return differ("incompatible and should not be", "compatible", reasons);
            }
            is_exception(reasons).and_then(|reason| differ("exception", "incompatible", reason))
        }
        (RecordedAnswer { evaluation: None, .. }, _) => differ("no answer", "nothing", "an evaluation"),
    }
}

fn part_of(share: &CandidatePart, world: &World) -> RecordedPart {
    RecordedPart {
        worker_id: world.ids[share.node],
        gpu_indexes: share.indexes.to_vec(),
        vram: share.claims.iter().map(|(index, bytes)| (index.to_string(), *bytes)).collect(),
        ram: None,
    }
}

fn describe(candidate: &Candidate, world: &World) -> String {
    let parts: Vec<String> = candidate.shares().map(|share| describe_part(&part_of(share, world))).collect();
    parts.join(" and ") + if candidate.overcommit { ", overcommitted" } else { "" }
}

fn describe_recorded(candidate: &RecordedCandidate) -> String {
    let parts: Vec<String> =
        std::iter::once(&candidate.main).chain(&candidate.subordinates).map(describe_part).collect();
    parts.join(" and ") + if candidate.overcommit { ", overcommitted" } else { "" }
}

fn describe_part(part: &RecordedPart) -> String {
    let claims: Vec<String> = part.vram.iter().map(|(index, bytes)| format!("{index}: {bytes}")).collect();
    format!("worker {} GPUs {:?} claims {{{}}}", part.worker_id, part.gpu_indexes, claims.join(", "))
}
