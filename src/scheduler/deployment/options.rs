//! A profile's options for the placement of models: the stages by name, and the rules in which releases differ.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::own::OwnFilter;
use dryrack_fleet::{Accounting, GpuKind};
use dryrack_workload::Category;

/// The part of a profile that places model deployments. Stages run in the order in which they are listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentOptions {
    /// Filters, in the order in which they run. A node must pass all of them.
    pub filters: Vec<DeploymentFilter>,
    /// Kinds of GPU for which there is an image of the backend. The `runner` filter reads them.
    #[serde(deserialize_with = "runners")]
    #[schemars(with = "Vec<RunnerKind>")]
    pub runners: Vec<GpuKind>,
    /// The selector of a deployment that has neither a selector nor a pick.
    pub default_selector: DefaultSelector,
    pub arguments: ArgumentReading,
    pub utilization: UtilizationOptions,
    pub need: NeedOptions,
    pub divisible: DivisibleOptions,
    /// What counts as taken on a GPU.
    pub accounting: Accounting,
    pub pool: Pool,
    /// Generators of candidates. The first one that finds a candidate ends the search.
    pub generators: Vec<Generator>,
    /// How models on SGLang are placed. If it is missing, they are placed like models on vLLM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sglang: Option<SglangOptions>,
    pub layers: LayerOptions,
    pub spread: SpreadOptions,
    pub binpack: BinpackOptions,
    pub readiness: ReadinessOptions,
    pub evaluation: EvaluationOptions,
}

/// The placement of models on SGLang, where it differs from vLLM. The part of a GPU that a model reserves follows from the
/// memory of the smallest GPU, if no argument states it. Nodes with more GPUs come first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SglangOptions {
    /// Generators of candidates, instead of those of other models.
    pub generators: Vec<Generator>,
}

/// A kind of GPU that a node can have. The images for `musa` and `dcu` do not matter, because no node has such GPUs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RunnerKind {
    Cuda,
    Rocm,
    Mps,
    Cann,
    Unknown,
}

fn runners<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<GpuKind>, D::Error> {
    let kind = |kind: RunnerKind| match kind {
        RunnerKind::Cuda => GpuKind::Cuda,
        RunnerKind::Rocm => GpuKind::Rocm,
        RunnerKind::Mps => GpuKind::Mps,
        RunnerKind::Cann => GpuKind::Cann,
        RunnerKind::Unknown => GpuKind::Unknown,
    };
    Ok(Vec::deserialize(deserializer)?.into_iter().map(kind).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentFilter {
    /// Only nodes with a picked GPU, if GPUs were picked manually.
    Picked,
    /// Only nodes with every label of the selector.
    Labels,
    /// Only nodes that are ready.
    Ready,
    /// Only nodes that are ready, unless GPUs on several nodes were picked. In GPUStack before 0.6.0, such a pick read
    /// the workers again from the store and so bypassed the filters (issue 1548).
    ReadyUnlessPickedOnSeveral,
    /// Only nodes with a GPU for which there is an image of the backend. A node without GPUs never passes.
    Runner,
    /// Only nodes with a GPU on which the backend runs, by the compatibility table. On these nodes, only such GPUs are
    /// used. The table covers the operating system, the processor, the driver, the GPU's vendor and age, and the
    /// model's architecture and quantization.
    Compatible,
    /// A custom filter.
    #[serde(untagged)]
    Own(OwnFilter),
}

/// The selector of a deployment for which the user has chosen nothing. vLLM runs only on Linux, so GPUStack's model
/// controller writes `os: linux`. From 0.6.1 on, GPUStack's check before deployment does so too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DefaultSelector {
    /// Linux for deployments. An evaluation uses the selector as it is.
    LinuxWhenDeployed,
    /// No selector. Another filter checks on which systems the backend runs.
    None,
    /// Linux for deployments and evaluations.
    Linux,
}

/// How a backend's arguments are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentReading {
    /// Any element may be a name, with or without dashes. The next element is always its value. A size that is not an
    /// integer is refused. A size below 1 is accepted as it is.
    AnyElement,
    /// Names begin with a dash, and only an element without a dash is a value. One element may hold a whole command
    /// line. A size that is not an integer counts as absent. A size below 1 is refused.
    Keyed,
}

/// What happens to a request with an unusable argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    Refused,
    /// The upstream program ends the decision with an exception.
    ValueError,
}

/// The part of a GPU that a model reserves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UtilizationOptions {
    /// The part of a GPU's memory that a backend reserves unless an argument says otherwise; from 0 to 1.
    pub default: f64,
    /// Categories of models that reserve this part. A model without a category reserves it too.
    pub categories: Vec<Category>,
    /// Architectures that reserve this part in every category. All other models take only what they need.
    pub architectures: Vec<String>,
    /// What happens if the value of the argument is not a number.
    pub unreadable: Fault,
    pub range: UtilizationRange,
}

/// Which values of the utilization may be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UtilizationRange {
    Any,
    /// From 0 to 1. Other values are refused.
    Part,
}

/// How the memory that a model needs is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeedOptions {
    /// How fractions of a byte are rounded.
    pub rounding: Rounding,
    /// What happens if the environment states a need that is not an integer.
    pub unreadable: UnreadableNeed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// Fractions of a byte are kept.
    Exact,
    /// Fractions are cut off before the overhead is added.
    WholeBytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnreadableNeed {
    /// The stated need is ignored.
    Ignored,
    ValueError,
}

/// Which numbers of GPUs a model can be divided among.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DivisibleOptions {
    /// The numbers that must be multiples of the number of GPUs. Unknown numbers pass the check.
    pub by: Vec<Divided>,
    /// The number of GPUs that is checked before the search.
    pub tested: TestedNumber,
    /// What happens to a request with a number of GPUs that does not divide the model.
    pub indivisible: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Divided {
    Heads,
    VisionHeads,
    Vocabulary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestedNumber {
    /// The number of GPUs that is requested by a pick or by arguments.
    Count,
    /// The tensor-parallel size, if stated.
    TensorParallel,
    /// The tensor-parallel size, or else the number of GPUs picked manually.
    TensorParallelOrPicked,
}

/// Which GPUs are considered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// All GPUs, of any kind.
    One,
    /// GPUs of one kind, in the order of [`GpuKind`](dryrack_fleet::GpuKind). A node is in the pools of all its kinds.
    EachKind,
    /// GPUs of one kind. A node is in the pool of its last kind only. In the first search, it is also in the pools of
    /// its other kinds, where it has no free memory.
    LastKind,
}

/// How candidates are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
pub enum Generator {
    /// For picked GPUs: takes all of them, even if they do not fit. If they have too little memory, the candidate is
    /// overcommitted.
    PickedAll {
        need: SingleNeed,
        /// For picks on several nodes, what their free memory must hold.
        several_nodes: FreeMemory,
        /// What happens on one node if the claims are too small and the model reserves nothing.
        short: Short,
    },
    /// For picked GPUs: takes as many as one replica needs. GPUs with enough free memory come first.
    PickedSome {},
    /// One GPU.
    SingleGpu { need: SingleNeed, left: Left },
    /// GPUs of one node, added in order of free memory (most first) until they are enough.
    LargestGpus { count: CountRule },
    /// All GPUs of nodes with equal numbers of GPUs, added node by node until they are enough.
    NodePrefix {
        divisor: Divisor,
        count: NodeCount,
        /// How much one GPU counts if the model reserves nothing.
        without_reservation: Unreserved,
    },
    /// GPUs of one node with similar free memory (the least is at least 0.9 of the most), in order of free memory, until
    /// they are enough.
    SimilarGpus { count: CountRule },
    /// As `node_prefix`, but only if some GPUs with similar free memory could all reserve their part, with equal numbers
    /// of them on each of their nodes.
    SimilarNodes {
        divisor: Divisor,
        count: NodeCount,
        /// How much one GPU counts if the model reserves nothing.
        without_reservation: Unreserved,
    },
    /// The fewest GPUs of one node such that each holds an equal part of the need.
    EvenGpus {},
    /// All GPUs of the fewest nodes with equal numbers of GPUs, such that each GPU holds an equal part of the need.
    EvenNodes {},
}

/// What a single GPU must hold if the model reserves part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SingleNeed {
    /// The need must fit in the free memory.
    Free,
    /// The need must fit in the reserved part.
    Reservation,
}

/// When a GPU has enough free memory to reserve part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// The free fraction of the total is at least the reserved fraction. It is computed in floating point.
    Ratio,
    /// The reserved amount is free, exact to the byte.
    Claim,
}

/// What the GPUs of a pick on several nodes must hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FreeMemory {
    /// The need must fit in their free memory.
    Whole,
    /// The need must fit in the reserved part of their free memory. A model that reserves nothing has no such part.
    Reserved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Short {
    Overcommitted,
    /// The upstream program ends the decision with an exception.
    KeyError,
}

/// When the chosen GPUs of one node are enough, if the request states a number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountRule {
    /// When the requested number is reached.
    Reached,
    /// When the requested number is reached and the GPUs hold the need.
    ReachedAndEnough,
}

/// The number of GPUs by which the number of heads must be divisible on several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Divisor {
    /// All GPUs together. If the number of heads is unknown, the check fails.
    Total,
    /// The GPUs of each node.
    PerNode,
}

/// How many GPUs of several nodes are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeCount {
    /// Any number of GPUs. A requested number is ignored.
    Ignored,
    /// Exactly the requested number of GPUs.
    Exact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unreserved {
    Nothing,
    /// Its whole memory, even if some of it is taken.
    Total,
}

/// How candidates are found for a GGUF model. Layers of such a model may stay in RAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerOptions {
    /// Stages of the search. The first one that finds a candidate ends the search.
    pub stages: Vec<LayerStage>,
    pub short_of_ram: ShortOfRam,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayerStage {
    /// All layers on one GPU. GPUs with the most free memory come first.
    WholeOnGpu,
    /// All layers on the fewest GPUs of one node.
    WholeOnGpus,
    /// As many layers as possible on GPUs of one node, and the rest in RAM.
    PartOnGpus,
    InRam,
}

/// What happens to a GPU that could hold all layers, if the RAM of its node cannot hold the rest of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShortOfRam {
    PassedOver,
    /// No further GPU is considered (GPUStack 0.6.0 to 2.3.0,
    /// `find_single_worker_single_gpu_full_offloading_candidates`).
    EndsTheStage,
}

/// The score of candidates under the strategy `spread`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpreadOptions {
    pub rule: SpreadRule,
    /// Whether nodes that hold a further part of an instance count as nodes of the instance.
    pub subordinates: Counted,
}

/// How instances are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpreadRule {
    /// In steps. The best node has no instances; then follow nodes with instances of other models only, of this model
    /// only, and of both. On a node, the GPUs with the fewest instances are best.
    Stepped,
    /// By the number of instances on a node relative to all candidates, plus a bonus for the GPUs with the fewest
    /// instances.
    Relative,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    Counted,
    Ignored,
}

/// The score of candidates under the strategy `binpack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BinpackOptions {
    /// Whether the score counts the nodes that hold further parts of the candidate.
    pub subordinates: Counted,
    /// What happens if a GPU does not exist or has no free memory.
    pub absent: Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    Zero,
    /// The upstream program ends the decision with an exception.
    Raises,
}

/// How much the score of a candidate is reduced if its nodes or GPUs are unreliable. The loss depends on the lowest
/// readiness of its nodes. The readiness of a node begins at one. It is halved for an overdue heartbeat, divided by one
/// plus the number of recent losses of readiness, and multiplied by the fraction of the candidate's GPUs on the node
/// that are not degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadinessOptions {
    /// The loss at a readiness of zero. For comparison, the best placement scores 100. With a weight of zero, readiness
    /// is ignored.
    pub weight: u32,
}

/// What an evaluation before deployment checks in addition to a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluationOptions {
    /// Checks, in the order in which they run.
    pub checks: Vec<EvaluationCheck>,
    /// Checks when a model is submitted. If one of them fails, the model is refused at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_submission: Vec<EvaluationCheck>,
    /// Known architectures, each with the category for models that state none. If the list is empty, all architectures
    /// count as known and none gives a category.
    pub architectures: Vec<KnownArchitecture>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnownArchitecture {
    /// The name that the configuration of the model states.
    pub name: String,
    pub category: Option<Category>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationCheck {
    /// The deployment leaves the port to the scheduler.
    Port,
    /// No picked GPU is made by Apple.
    PickedNotApple,
    /// Every picked GPU is made by NVIDIA, AMD or Hygon.
    PickedVendor,
    /// Every picked node runs Linux.
    PickedLinux,
    /// No picked node leads a distributed instance of another model. The check begins with the first pick on a second
    /// node.
    PickedLeadsNone,
    /// The architecture of the model is known.
    Architecture,
    /// At least one node runs Linux, ready or not.
    AnyLinux,
}
