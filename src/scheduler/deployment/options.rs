//! A profile's options for the placement of models: stages by name, and the rules in which releases differ.

use serde::{Deserialize, Serialize};

use dryrack_fleet::{Accounting, GpuKind};
use dryrack_workload::Category;

/// The part of a profile that places model deployments. Each list of stages runs in the order written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeploymentOptions {
    pub filters: Vec<DeploymentFilter>,
    /// Kinds of GPU for which there is an image of the backend, read by the `runner` filter.
    pub runners: Vec<GpuKind>,
    /// The selector of a deployment that has neither a selector nor a pick.
    pub default_selector: DefaultSelector,
    pub arguments: ArgumentReading,
    pub utilization: UtilizationOptions,
    pub need: NeedOptions,
    pub divisible: DivisibleOptions,
    /// What counts as taken of a GPU.
    pub accounting: Accounting,
    pub pool: Pool,
    /// The first that finds a candidate ends the search.
    pub generators: Vec<Generator>,
    pub layers: LayerOptions,
    pub spread: SpreadOptions,
    pub binpack: BinpackOptions,
    pub readiness: ReadinessOptions,
    pub evaluation: EvaluationOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentFilter {
    /// Only nodes on which a GPU was picked manually, if any was.
    Picked,
    /// Only nodes with every label of the selector.
    Labels,
    /// Only nodes that are ready.
    Ready,
    /// Only nodes that are ready, unless GPUs of several nodes were picked (GPUStack before 0.6.0, issue 1548: the
    /// workers were read again from the store, bypassing the filters).
    ReadyUnlessPickedOnSeveral,
    /// Only nodes with a GPU for whose kind there is an image of the backend; a node without GPUs has none.
    Runner,
    /// Only nodes with a GPU on which the backend runs, by the compatibility table, and on these nodes only such
    /// GPUs. The table covers the operating system, the processor, the driver, the GPU's vendor and age, and the
    /// model's architecture and quantization.
    Compatible,
}

/// vLLM runs only on Linux. GPUStack's model controller writes `os: linux` if nothing was chosen, and so does its
/// check before deployment from 0.6.1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultSelector {
    /// For deployments only; an evaluation takes the selector as it is.
    LinuxWhenDeployed,
    /// Never: another filter checks what the backend runs on.
    None,
    /// For deployments and evaluations.
    Linux,
}

/// How a backend's arguments are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentReading {
    /// Any element may be a name, with or without dashes, and the next element is its value, whatever it is. A size
    /// that is not an integer is refused, and one below 1 is taken as it is.
    AnyElement,
    /// Names begin with a dash, and only an element without one is a value. One element may hold a whole command
    /// line. A size that is not an integer counts as absent, and one below 1 is refused.
    Keyed,
}

/// What happens to a request with an unusable argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    Refused,
    /// The upstream program ends the decision with an exception.
    ValueError,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilizationOptions {
    /// The part of a GPU's memory that a backend reserves unless an argument says otherwise; from 0 to 1.
    pub default: f64,
    /// Categories of models that reserve it; a model without a category reserves it too.
    pub categories: Vec<Category>,
    /// Architectures that reserve it whatever their category. Every other model takes what it needs.
    pub architectures: Vec<String>,
    /// What happens to a value that is not a number.
    pub unreadable: Fault,
    pub range: UtilizationRange,
}

/// Which utilizations may be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UtilizationRange {
    Any,
    /// From 0 to 1; any other is refused.
    Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeedOptions {
    pub rounding: Rounding,
    /// What happens to a need stated in the environment that is not an integer.
    pub unreadable: UnreadableNeed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// Fractions of a byte are kept.
    Exact,
    /// Towards zero, before the overhead is added.
    WholeBytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnreadableNeed {
    /// As if it were not stated.
    Ignored,
    ValueError,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DivisibleOptions {
    /// What must be a multiple of the number of GPUs; unknown values pass.
    pub by: Vec<Divided>,
    /// Which number is tested before the search.
    pub tested: TestedNumber,
    pub indivisible: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Divided {
    Heads,
    VisionHeads,
    Vocabulary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestedNumber {
    /// The number of GPUs requested by pick or by arguments.
    Count,
    /// The tensor-parallel size, if it is stated.
    TensorParallel,
    /// The tensor-parallel size, or else the number of GPUs picked manually.
    TensorParallelOrPicked,
}

/// Which GPUs are considered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// All GPUs, of any kind.
    One,
    /// GPUs of one kind, in the order of [`GpuKind`](dryrack_fleet::GpuKind); a node is in the pool of each of its
    /// kinds.
    EachKind,
    /// GPUs of one kind. A node keeps only its last kind, but in the first search it is also in the pools of its
    /// other kinds, without free memory.
    LastKind,
}

/// How candidates are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
pub enum Generator {
    /// Of manually picked GPUs: all of them, whether they fit or not. If the memory is too small, the candidate is
    /// overcommitted.
    PickedAll {
        need: SingleNeed,
        /// The rule for picks on several nodes, whose free memory must be enough.
        several_nodes: FreeMemory,
        /// What happens if the claims on one node are too small for a model that reserves nothing.
        short: Short,
    },
    /// Of manually picked GPUs: as many as one replica takes, those with enough left first.
    PickedSome {},
    /// One GPU.
    SingleGpu { need: SingleNeed, left: Left },
    /// GPUs of one node, those with the most left first, until they are enough.
    LargestGpus { count: CountRule },
    /// All GPUs of nodes that have the same number of GPUs, node after node, until they are enough.
    NodePrefix {
        divisor: Divisor,
        count: NodeCount,
        /// What a GPU counts for a model that reserves nothing.
        without_reservation: Unreserved,
    },
    /// The fewest GPUs of one node that each hold an equal part of the need.
    EvenGpus {},
    /// The fewest GPUs that each hold an equal part of the need: all GPUs of several nodes that have the same number
    /// of GPUs.
    EvenNodes {},
}

/// What a single GPU must hold for a model that reserves part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SingleNeed {
    /// The need, in what is free.
    Free,
    /// The need must fit in the reserved part.
    Reservation,
}

/// When enough of a GPU is left to reserve part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// The free fraction of the total, computed in doubles, is at least that part.
    Ratio,
    /// The reserved amount is free, to the byte.
    Claim,
}

/// What GPUs picked on several nodes must hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FreeMemory {
    /// The need, in what is free.
    Whole,
    /// The need must fit in the reserved part of what is free, which is nothing for a model that reserves nothing.
    Reserved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Short {
    Overcommitted,
    /// The upstream program ends the decision with an exception.
    KeyError,
}

/// When GPUs of one node are enough, if their number is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountRule {
    /// Once that number is reached.
    Reached,
    /// Once that number is reached, if they hold the need.
    ReachedAndEnough,
}

/// The number by which heads must be divisible on several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Divisor {
    /// All GPUs together; if it is unknown, they never are.
    Total,
    /// The GPUs of each node.
    PerNode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeCount {
    /// The requested number is ignored.
    Ignored,
    /// Exactly the requested number.
    Exact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreserved {
    Nothing,
    /// All its memory, whether held or not.
    Total,
}

/// How candidates are found for a GGUF model, whose layers may stay in RAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerOptions {
    /// The first that finds a candidate ends the search.
    pub stages: Vec<LayerStage>,
    pub short_of_ram: ShortOfRam,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerStage {
    /// All layers on one GPU, those with the most free first.
    WholeOnGpu,
    /// All layers on the fewest GPUs of one node.
    WholeOnGpus,
    /// As many layers as fit on GPUs of one node, and the rest in RAM.
    PartOnGpus,
    InRam,
}

/// What happens to a GPU that could hold all layers, on a node whose RAM cannot hold the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShortOfRam {
    PassedOver,
    /// No GPU after it is considered (GPUStack 0.6.0 to 2.3.0,
    /// `find_single_worker_single_gpu_full_offloading_candidates`).
    EndsTheStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpreadOptions {
    pub rule: SpreadRule,
    pub subordinates: Counted,
}

/// How instances are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpreadRule {
    /// A node without instances first, then nodes with only others' instances, then with only the model's own, then
    /// with both; on a node, the GPUs with the fewest.
    Stepped,
    /// Nodes by their number of instances relative to all candidates, plus a bonus for the GPUs with the fewest.
    Relative,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    Counted,
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinpackOptions {
    pub subordinates: Counted,
    /// What happens with a GPU that does not exist, or of which nothing is left.
    pub absent: Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    Zero,
    /// The upstream program ends the decision with an exception.
    Raises,
}

/// What the score of a candidate loses if its nodes or GPUs are unreliable. The loss depends on the smallest
/// readiness of its nodes. The readiness of a node is one, halved for an overdue heartbeat, divided by one more than
/// the number of times that the node recently ceased to be ready, and multiplied by the fraction of the candidate's
/// own GPUs there that are not degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadinessOptions {
    /// The loss at a readiness of zero, where the best placement scores 100. Zero: readiness is ignored.
    pub weight: u32,
}

/// What an evaluation before deployment does in addition to a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationOptions {
    pub checks: Vec<EvaluationCheck>,
    /// The checks made when a model is submitted; if one fails, the model is refused at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_submission: Vec<EvaluationCheck>,
    /// Known architectures, and the category that each gives to a model without one. If empty, all architectures are
    /// known and none gives a category.
    pub architectures: Vec<KnownArchitecture>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownArchitecture {
    pub name: String,
    pub category: Option<Category>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationCheck {
    /// The port is left to the scheduler.
    Port,
    /// No picked GPU is by Apple.
    PickedNotApple,
    /// Every picked GPU is by NVIDIA, AMD or Hygon.
    PickedVendor,
    /// Every picked node runs Linux.
    PickedLinux,
    /// From the first pick on a second node onwards, no picked node leads a distributed instance of another model.
    PickedLeadsNone,
    /// The architecture is known.
    Architecture,
    /// Some node runs Linux, ready or not.
    AnyLinux,
}
