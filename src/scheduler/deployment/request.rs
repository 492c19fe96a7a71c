//! A request and the values that follow from it before any node is considered: the need, the utilization and the number
//! of GPUs.

use std::sync::Arc;

use smallvec::SmallVec;

use super::arguments::{Arguments, to_float, to_integer};
use super::memory_fraction::{Question, of_kinds};
use super::options::{
    ArgumentReading, DeploymentOptions, Divided, Fault, Rounding, TestedNumber, UnreadableNeed, UtilizationRange,
};
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, GpuKind, ModelKey, Serving};
use dryrack_workload::{Backend, Category, Deployment, GgufEstimate, JobFields};

/// Memory that vLLM's framework takes in addition to the weights (GPUStack 0.6.0, `estimate_model_vram`).
const OVERHEAD_LLM: u64 = 2 << 30;
const OVERHEAD_OTHERS: u64 = 512 << 20;
/// The need as a multiple of the weights (GPUStack 0.6.0, `estimate_model_vram`; EleutherAI, "Transformer Math 101").
const NEED_OF_WEIGHTS: f64 = 1.2;
const NEED_VARIABLE: &str = "GPUSTACK_MODEL_VRAM_CLAIM";
const SKIP_COUNT_VARIABLE: &str = "GPUSTACK_SKIP_GPU_COUNT_CHECK";

/// A manually picked GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickedGpu {
    /// The name of the GPU's node. The node may not exist.
    pub node: Arc<str>,
    /// The kind that the pick states.
    pub kind: GpuKind,
    /// The index of the GPU. The node may have no such GPU.
    pub index: u32,
}

/// Manual picks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Picks {
    #[default]
    Free,
    /// Picked GPUs in the order of the picks. There is at least one.
    Gpus(Vec<PickedGpu>),
    /// Picked nodes, by name. Other nodes must not be used.
    Nodes(Vec<Arc<str>>),
    /// A pick that does not have the form `node:kind:index`.
    Unreadable,
}

/// One replica to be placed.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub deployment: &'a Deployment,
    pub picks: Picks,
    /// The model whose instances count as instances of the requested model; `None` before deployment.
    pub model: Option<ModelKey>,
    /// The total number of replicas of the deployment.
    pub replicas: u32,
    /// Kinds of GPU for which there is an image of the backend, if they differ from the profile. An inner `None` allows
    /// every kind, and nodes without GPUs.
    pub runners: Option<Option<&'a [GpuKind]>>,
    /// The fields of the job that custom filters read.
    pub fields: Option<&'a JobFields>,
    /// The fleet. Custom filters read it.
    pub fleet: &'a Fleet,
    /// Whether the nodes are assumed to be ready, healthy and empty instead of in their real state.
    pub is_ideal: bool,
}

impl Request<'_> {
    pub fn picked(&self) -> &[PickedGpu] {
        match &self.picks {
            Picks::Gpus(picks) => picks,
            Picks::Free | Picks::Nodes(_) | Picks::Unreadable => &[],
        }
    }

    /// The names of the picked nodes in the order of the picks, without duplicates.
    pub fn picked_nodes(&self) -> SmallVec<[&str; 4]> {
        let mut names: SmallVec<[&str; 4]> = SmallVec::new();
        for pick in self.picked() {
            if !names.contains(&&*pick.node) {
                names.push(&pick.node);
            }
        }
        names
    }
}

/// The part of a GPU's memory that a replica reserves, from 0 to 1. With zero, it takes only what it needs.
#[derive(Clone, Debug, PartialEq)]
pub enum ReservedPart {
    OfEach(f64),
    /// By kind of GPU. A model is not placed automatically on GPUs of a kind with zero, or of one that is missing.
    OfKind(SmallVec<[(GpuKind, f64); 2]>),
}

impl ReservedPart {
    pub fn of(&self, kind: GpuKind) -> f64 {
        match self {
            ReservedPart::OfEach(part) => *part,
            ReservedPart::OfKind(parts) => {
                parts.iter().find(|(known, _)| *known == kind).map_or(0.0, |(_, part)| *part)
            }
        }
    }

    /// The largest part that is reserved on GPUs of any kind.
    pub fn largest(&self) -> f64 {
        match self {
            ReservedPart::OfEach(part) => *part,
            ReservedPart::OfKind(parts) => parts.iter().map(|(_, part)| *part).fold(0.0, f64::max),
        }
    }

    /// Whether a model may be placed automatically on GPUs of this kind.
    pub fn admits(&self, kind: GpuKind) -> bool {
        matches!(self, ReservedPart::OfEach(_)) || self.of(kind) > 0.0
    }
}

/// Values that are computed before any placement is considered. Bytes are floating-point numbers, as in the released programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Total GPU memory needed.
    pub need: f64,
    pub reserved: ReservedPart,
    /// The requested number of GPUs of one replica. It can be below 1 only if the profile's parser accepts such a size.
    pub count: Option<i64>,
    pub tensor_parallel: Option<i64>,
    /// The number of layers of a GGUF model to put on GPUs, if stated.
    pub gpu_layers: Option<u32>,
    /// The known numbers that must be multiples of the number of GPUs.
    divided: SmallVec<[i64; 3]>,
    /// Whether the number of heads is known.
    pub heads_known: bool,
}

impl Plan {
    /// Whether every number that must be a multiple of `number` is one. False for zero.
    pub fn divides(&self, number: i64) -> bool {
        number != 0 && self.divided.iter().all(|whole| whole % number == 0)
    }

    /// The part of a GPU of this kind that is reserved.
    pub fn utilization(&self, kind: GpuKind) -> f64 {
        self.reserved.of(kind)
    }

    /// The memory that is reserved on a GPU of this kind and size, in bytes.
    pub fn reservation(&self, kind: GpuKind, total: u64) -> u64 {
        whole_bytes(total as f64 * self.utilization(kind))
    }

    pub fn reserves(&self, kind: GpuKind) -> bool {
        self.utilization(kind) > 0.0
    }
}

/// Rounds towards zero, like Python's `int`.
pub fn whole_bytes(bytes: f64) -> u64 {
    bytes as u64
}

/// Why a request is refused before any node is considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halt(pub Reason);

/// Parallel sizes that the arguments state.
#[derive(Debug, Default)]
struct Sizes {
    tensor: Option<i64>,
    /// The number of GPUs of one replica.
    world: Option<i64>,
}

/// Parses the arguments and computes the plan. `nodes` are those that passed the filters. An error in the arguments
/// refuses the request.
pub fn plan(options: &DeploymentOptions, request: &Request, serving: &Serving, nodes: &[u32]) -> Result<Plan, Halt> {
    let deployment = request.deployment;
    let arguments = Arguments::read(options.arguments, &deployment.arguments).map_err(|_| Halt(Reason::BadArgument))?;
    let is_layered = matches!(deployment.backend, Backend::LlamaBox(_));
    let sizes = match options.arguments {
        // llama-box has no parallel sizes.
        _ if is_layered => Sizes::default(),
        ArgumentReading::AnyElement => loose_sizes(&arguments)?,
        ArgumentReading::Keyed if deployment.backend == Backend::Sglang => {
            if options.sglang.is_some() && contradicts(&arguments) {
                return Err(Halt(Reason::UpstreamValueError));
            }
            sglang_sizes(&arguments)?
        }
        ArgumentReading::Keyed => keyed_sizes(&arguments)?,
    };
    let count = count(options, request, sizes.world)?;
    let divided = if is_layered { SmallVec::new() } else { divided(options, request, &arguments) };
    let layers = arguments.value(&["ngl", "gpu-layers", "n-gpu-layers"]).and_then(to_integer);
    let mut plan = Plan {
        need: 0.0,
        reserved: ReservedPart::OfEach(0.0),
        count,
        tensor_parallel: sizes.tensor,
        gpu_layers: layers.and_then(|layers| u32::try_from(layers).ok()),
        heads_known: deployment.model.heads.is_some_and(|heads| heads > 0),
        divided,
    };
    test_number(options, request, &plan)?;
    match &deployment.backend {
        Backend::LlamaBox(estimate) => plan.need = whole_offload(estimate) as f64,
        Backend::Vllm | Backend::Sglang => {
            plan.reserved = reserved(&Question { options, request, serving, nodes, arguments: &arguments })?;
            plan.need = need(options, request)?;
        }
    }
    Ok(plan)
}

/// The GPU memory in bytes that is needed if all layers are on GPUs.
pub fn whole_offload(estimate: &GgufEstimate) -> u64 {
    let layers = estimate.layer_memory.get().saturating_mul(u64::from(estimate.layers));
    estimate.fixed_memory.get().saturating_add(layers)
}

/// Parses sizes. Any integer is accepted, and any other value is refused.
fn loose_sizes(arguments: &Arguments) -> Result<Sizes, Halt> {
    let size = |names: &[&str]| match arguments.value(names).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => to_integer(text).map(Some).ok_or(Halt(Reason::BadArgument)),
    };
    let tensor = size(&["tensor-parallel-size", "tp"])?;
    let pipeline = size(&["pipeline-parallel-size", "pp"])?;
    let world = match (tensor, pipeline) {
        (None, None) => None,
        _ => Some(tensor.unwrap_or(1).saturating_mul(pipeline.unwrap_or(1))),
    };
    Ok(Sizes { tensor, world })
}

/// Parses one size. A value that is not an integer counts as absent. A size below 1 is refused.
fn keyed_size(arguments: &Arguments, names: &[&str]) -> Result<Option<i64>, Halt> {
    match arguments.value(names).and_then(to_integer) {
        Some(size) if size <= 0 => Err(Halt(Reason::BadArgument)),
        size => Ok(size),
    }
}

/// Parses the sizes by SGLang's names (GPUStack 2.3.0, `sglang_resource_fit_selector.py`).
fn sglang_sizes(arguments: &Arguments) -> Result<Sizes, Halt> {
    let tensor = keyed_size(arguments, &["tp-size", "tensor-parallel-size", "tp"])?;
    let pipeline = keyed_size(arguments, &["pp-size", "pipeline-parallel-size"])?;
    let data = keyed_size(arguments, &["dp-size", "data-parallel-size", "dp"])?;
    // With this flag, data parallelism runs on the GPUs of the tensor-parallel group.
    let data = data.filter(|_| !arguments.flag("enable-dp-attention"));
    Ok(Sizes { tensor, world: product(&[tensor, pipeline, data]) })
}

/// Whether GPUStack 2.3.0 refuses SGLang's arguments because they contradict each other
/// (`sglang_resource_fit_selector.py`), or because one of them is not of its type.
fn contradicts(arguments: &Arguments) -> bool {
    let size = |names: &[&str]| arguments.value(names).and_then(to_integer).unwrap_or(1);
    let nodes = match arguments.value(&["nnodes"]).filter(|text| !text.is_empty()).map(to_integer) {
        None => 1,
        Some(Some(nodes)) if nodes != 0 => nodes,
        Some(_) => return true,
    };
    let is_mixed = match arguments.value(&["enable-mixed-chunk"]).map(str::to_lowercase).as_deref() {
        None | Some("n" | "no" | "f" | "false" | "off" | "0") => false,
        Some("y" | "yes" | "t" | "true" | "on" | "1") => true,
        Some(_) => return true,
    };
    let tensor = size(&["tp-size", "tensor-parallel-size", "tp"]);
    let pipeline = size(&["pp-size", "pipeline-parallel-size"]);
    let data = size(&["dp-size", "data-parallel-size", "dp"]);
    let is_speculative = arguments.value(&["speculative-algorithm"]).is_some();
    tensor.saturating_mul(pipeline) % nodes != 0
        || (pipeline > 1 && (is_speculative || is_mixed))
        || (is_speculative && is_mixed)
        || (data > 1 && nodes != 1 && !arguments.flag("enable-dp-attention"))
}

/// The product of the stated sizes; `None` if no size is stated.
fn product(sizes: &[Option<i64>]) -> Option<i64> {
    let stated: SmallVec<[i64; 4]> = sizes.iter().copied().flatten().collect();
    (!stated.is_empty()).then(|| stated.iter().fold(1i64, |product, size| product.saturating_mul(*size)))
}

fn keyed_sizes(arguments: &Arguments) -> Result<Sizes, Halt> {
    let size = |names: &[&str]| keyed_size(arguments, names);
    let tensor = size(&["tensor-parallel-size", "tp"])?;
    let pipeline = size(&["pipeline-parallel-size", "pp"])?;
    let context = size(&["prefill-context-parallel-size", "pcp"])?;
    let mut data = size(&["data-parallel-size", "dp"])?;
    let local = size(&["data-parallel-size-local", "dpl"])?;
    // With this flag, the data-parallel size covers several deployments. Only the local size belongs to this
    // deployment.
    if arguments.flag("data-parallel-hybrid-lb") {
        if local.is_none() {
            return Ok(Sizes { tensor, world: None });
        }
        data = local;
    }
    Ok(Sizes { tensor, world: product(&[tensor, pipeline, context, data]) })
}

/// The number of GPUs of one replica, from the pick and the arguments.
fn count(options: &DeploymentOptions, request: &Request, world: Option<i64>) -> Result<Option<i64>, Halt> {
    let picked = match request.picked().len() {
        0 => None,
        all => Some(match (options.arguments, request.deployment.gpus_per_replica) {
            (ArgumentReading::Keyed, Some(each)) if each > 0 => i64::from(each),
            _ => all as i64,
        }),
    };
    match (picked, world) {
        (Some(picked), Some(world)) if picked != world => match skips_count_check(options, request) {
            true => Ok(Some(picked)),
            false => Err(Halt(Reason::ParallelismMismatch)),
        },
        (picked, world) => Ok(world.or(picked)),
    }
}

fn skips_count_check(options: &DeploymentOptions, request: &Request) -> bool {
    let stated = request.deployment.environment.get(SKIP_COUNT_VARIABLE);
    options.arguments == ArgumentReading::Keyed
        && stated.is_some_and(|text| ["1", "true", "yes", "on"].contains(&text.trim().to_lowercase().as_str()))
}

fn divided(options: &DeploymentOptions, request: &Request, arguments: &Arguments) -> SmallVec<[i64; 3]> {
    let model = &request.deployment.model;
    let language_only = match request.deployment.backend {
        Backend::Sglang => "language-only",
        Backend::Vllm | Backend::LlamaBox(_) => "language-model-only",
    };
    let known = |divided: &Divided| match divided {
        Divided::Heads => model.heads,
        Divided::VisionHeads => model.vision_heads.filter(|_| !arguments.flag(language_only)),
        Divided::Vocabulary => model.vocabulary,
    };
    options.divisible.by.iter().filter_map(known).filter(|whole| *whole > 0).map(i64::from).collect()
}

fn test_number(options: &DeploymentOptions, request: &Request, plan: &Plan) -> Result<(), Halt> {
    let picked = (!request.picked().is_empty()).then_some(plan.count).flatten();
    let number = match options.divisible.tested {
        TestedNumber::Count => plan.count,
        TestedNumber::TensorParallel => plan.tensor_parallel,
        TestedNumber::TensorParallelOrPicked => plan.tensor_parallel.or(picked),
    };
    match number.filter(|number| *number != 0) {
        Some(number) if !plan.divides(number) => Err(Halt(match options.divisible.indivisible {
            Fault::Refused => Reason::Indivisible,
            Fault::ValueError => Reason::UpstreamValueError,
        })),
        _ => Ok(()),
    }
}

fn reserved(question: &Question) -> Result<ReservedPart, Halt> {
    let Question { options, request, arguments, .. } = *question;
    let stated = utilization(options, request, arguments)?;
    if options.sglang.is_none() || request.deployment.backend != Backend::Sglang {
        return Ok(ReservedPart::OfEach(stated.unwrap_or_else(|| usual_utilization(options, request))));
    }
    Ok(match stated {
        Some(part) if part > 0.0 => ReservedPart::OfEach(part),
        Some(_) => ReservedPart::OfKind(SmallVec::new()),
        None => of_kinds(question)?,
    })
}

/// The utilization of a model whose arguments state none.
fn usual_utilization(options: &DeploymentOptions, request: &Request) -> f64 {
    let rule = &options.utilization;
    let model = &request.deployment.model;
    let by_category = model.categories.is_empty() || model.categories.iter().any(|own| rule.categories.contains(own));
    let by_architecture =
        model.architecture.as_ref().is_some_and(|own| rule.architectures.iter().any(|known| **known == **own));
    if by_category || by_architecture { rule.default } else { 0.0 }
}

/// The utilization that the arguments state.
fn utilization(options: &DeploymentOptions, request: &Request, arguments: &Arguments) -> Result<Option<f64>, Halt> {
    let rule = &options.utilization;
    let stated = arguments.value(&[request.deployment.backend.utilization()]).filter(|text| !text.is_empty());
    let Some(text) = stated else { return Ok(None) };
    match (to_float(text), rule.unreadable) {
        (None, Fault::ValueError) => Err(Halt(Reason::UpstreamValueError)),
        (None, Fault::Refused) => Err(Halt(Reason::BadArgument)),
        (Some(part), _) if rule.range == UtilizationRange::Part && !(0.0..=1.0).contains(&part) => {
            Err(Halt(Reason::BadArgument))
        }
        (Some(part), _) if !part.is_finite() => Err(Halt(Reason::UpstreamValueError)),
        (Some(part), _) => Ok(Some(part)),
    }
}

fn need(options: &DeploymentOptions, request: &Request) -> Result<f64, Halt> {
    let deployment = request.deployment;
    if let Some(text) = deployment.environment.get(NEED_VARIABLE) {
        match (to_integer(text), options.need.unreadable) {
            (Some(bytes), _) => return Ok(bytes as f64),
            (None, UnreadableNeed::Ignored) => {}
            (None, UnreadableNeed::ValueError) => return Err(Halt(Reason::UpstreamValueError)),
        }
    }
    let categories = &deployment.model.categories;
    let is_llm = categories.is_empty() || categories.contains(&Category::Llm);
    let overhead = if is_llm { OVERHEAD_LLM } else { OVERHEAD_OTHERS };
    let weights = deployment.model.weights.get() as f64 * NEED_OF_WEIGHTS;
    Ok(match options.need.rounding {
        Rounding::Exact => weights + overhead as f64,
        Rounding::WholeBytes => whole_bytes(weights) as f64 + overhead as f64,
    })
}
