//! What a profile says about the placement of models: stages by name, and the rules in which releases differ.

use serde::{Deserialize, Serialize};

use dryrack_fleet::{Accounting, GpuKind};
use dryrack_workload::Category;

/// The part of a profile that places model deployments. Each list of stages is run in the order written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeploymentOptions {
    pub filters: Vec<DeploymentFilter>,
    /// Kinds of GPU for which there is an image of the backend; what the `runner` filter reads.
    pub runners: Vec<GpuKind>,
    /// What a deployment without a selector and without a pick asks for.
    pub default_selector: DefaultSelector,
    pub arguments: ArgumentReading,
    pub utilization: UtilizationOptions,
    pub need: NeedOptions,
    pub divisible: DivisibleOptions,
    /// What is counted as taken of a GPU.
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
    /// Only nodes on which a GPU was picked by hand, if any was.
    Picked,
    /// Only nodes with every label of the selector.
    Labels,
    /// Only nodes that are ready.
    Ready,
    /// Likewise, but where GPUs of several nodes were picked (GPUStack before 0.6.0, issue 1548: the workers were read
    /// again from the store, past the filters).
    ReadyUnlessPickedOnSeveral,
    /// Only nodes with a GPU for whose kind there is an image of the backend; a node without GPUs has none.
    Runner,
    /// Only nodes with a GPU on which the backend runs, by the table of compatibility, and of these only such GPUs: its
    /// operating system, processor, driver, the GPU's vendor and age, the model's architecture and quantization.
    Compatible,
}

/// vLLM runs on Linux alone; GPUStack's model controller writes `os: linux` where nothing was chosen, and its check
/// before deployment did so from 0.6.1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultSelector {
    /// For what is deployed; what is only evaluated is taken as it is.
    LinuxWhenDeployed,
    /// For nothing: what the backend runs on is another filter's.
    None,
    /// For what is deployed and for what is evaluated.
    Linux,
}

/// How a backend's arguments are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentReading {
    /// Any element may be a name, with or without dashes, and the next element is its value, whatever it is. A size that
    /// is no integer is refused, one below 1 is taken as it is.
    AnyElement,
    /// Names begin with a dash, and only what does not is a value; an element may hold a whole command line. A size that
    /// is no integer is as if absent, one below 1 is refused.
    Keyed,
}

/// What becomes of a request whose argument cannot be used.
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
    /// The part of a GPU's memory that a backend reserves if no argument says another; from 0 to 1.
    pub default: f64,
    /// Categories of models that reserve it; also a model without a category does.
    pub categories: Vec<Category>,
    /// Architectures that reserve it whatever their category. Every other model takes what it needs.
    pub architectures: Vec<String>,
    /// One that is no number.
    pub unreadable: Fault,
    pub range: UtilizationRange,
}

/// Which utilizations may be asked for.
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
    /// A need stated in the environment that is no integer.
    pub unreadable: UnreadableNeed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// A fraction of a byte stays.
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
    /// What must be a multiple of a number of GPUs; what is not known passes.
    pub by: Vec<Divided>,
    /// Which number is tested before anything is searched for.
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
    /// The number of GPUs asked for, by pick or by arguments.
    Count,
    /// The tensor-parallel size, if it is stated.
    TensorParallel,
    /// The tensor-parallel size, or else the number of GPUs picked by hand.
    TensorParallelOrPicked,
}

/// Which GPUs are looked at together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// All, of whatever kind.
    One,
    /// Those of one kind, in the order of [`GpuKind`](dryrack_fleet::GpuKind); a node stands in the pool of each of its kinds.
    EachKind,
    /// Those of one kind; a node keeps only its last kind, but in the first search still stands, without free memory, in
    /// the pools of the others.
    LastKind,
}

/// How candidates are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
pub enum Generator {
    /// Of GPUs picked by hand: all of them, fit or not. Where the memory is too small, the candidate is overcommitted.
    PickedAll {
        need: SingleNeed,
        /// On several nodes, whose free memory must be enough.
        several_nodes: FreeMemory,
        /// Claims on one node that are too small for a model that reserves nothing.
        short: Short,
    },
    /// Of GPUs picked by hand: as many as one replica takes, those with enough left first.
    PickedSome {},
    /// One GPU.
    SingleGpu { need: SingleNeed, left: Left },
    /// GPUs of one node, those with most left first, until they are enough.
    LargestGpus { count: CountRule },
    /// All GPUs of nodes with equally many, node after node, until they are enough.
    NodePrefix {
        divisor: Divisor,
        count: NodeCount,
        /// What a GPU counts for a model that reserves nothing.
        without_reservation: Unreserved,
    },
    /// The fewest GPUs of one node that each hold an equal part of the need.
    EvenGpus {},
    /// The fewest GPUs, all those of several nodes with equally many, that each hold an equal part of the need.
    EvenNodes {},
}

/// What a single GPU must hold for a model that reserves a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SingleNeed {
    /// The need, in what is free.
    Free,
    /// The need, in the part that is reserved.
    Reservation,
}

/// When enough of a GPU is left to reserve a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// What is free is that part of the whole, as doubles divide.
    Ratio,
    /// What is reserved is free, to the byte.
    Claim,
}

/// What GPUs picked on several nodes must hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FreeMemory {
    /// The need, in what is free.
    Whole,
    /// The need, in the reserved part of what is free: nothing for a model that reserves nothing.
    Reserved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Short {
    Overcommitted,
    /// The upstream program ends the decision with an exception.
    KeyError,
}

/// When GPUs of one node are enough, where their number is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountRule {
    /// Once there are as many.
    Reached,
    /// Once there are as many, if they hold the need.
    ReachedAndEnough,
}

/// By what heads must divide on several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Divisor {
    /// All GPUs together; what is not known never does.
    Total,
    /// The GPUs of each node.
    PerNode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeCount {
    /// The number that is asked for is not looked at.
    Ignored,
    /// Exactly as many as are asked for.
    Exact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreserved {
    Nothing,
    /// All its memory, held or not.
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
    /// All layers on one GPU, those with most free first.
    WholeOnGpu,
    /// All layers on the fewest GPUs of one node.
    WholeOnGpus,
    /// As many layers as find room on GPUs of one node, and the rest in RAM.
    PartOnGpus,
    InRam,
}

/// A GPU that could hold all layers, on a node whose RAM cannot hold the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShortOfRam {
    PassedOver,
    /// No GPU after it is looked at (GPUStack 0.6.0 to 2.3.0, `find_single_worker_single_gpu_full_offloading_candidates`).
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
    /// A node without instances first, then those with others' alone, with the model's own alone, with both; on it, the
    /// GPUs with fewest.
    Stepped,
    /// Nodes by how many instances they have among all candidates, and a part for the GPUs with fewest.
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
    /// A GPU that is not there, or of which nothing is left.
    pub absent: Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    Zero,
    /// The upstream program ends the decision with an exception.
    Raises,
}

/// What the score of a candidate loses where its nodes or GPUs cannot be relied on: of all that it lies on the least part,
/// which is a half for an overdue heartbeat, of that a half for one time that the node ceased to be ready of late, a third
/// for two and so on, and of that the part of its own GPUs on the node that are not degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadinessOptions {
    /// What it loses if that part is nothing; the best placement scores 100. Zero: nobody looks.
    pub weight: u32,
}

/// What an evaluation before deployment does that a deployment does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationOptions {
    pub checks: Vec<EvaluationCheck>,
    /// Which of them are made of a model as it is submitted: it is refused at once where one fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_submission: Vec<EvaluationCheck>,
    /// Architectures that are known, and the category that a model without one is given by them; all, and none, if empty.
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
    /// The port is the scheduler's to choose.
    Port,
    /// A picked GPU is not by Apple.
    PickedNotApple,
    /// A picked GPU is by NVIDIA, AMD or Hygon.
    PickedVendor,
    /// A picked node runs Linux.
    PickedLinux,
    /// From the first pick on a second node on, no picked node leads a distributed instance of another model.
    PickedLeadsNone,
    /// The architecture is known.
    Architecture,
    /// Some node runs Linux, ready or not.
    AnyLinux,
}
