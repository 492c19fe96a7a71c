//! The rows that trace readers yield, whatever the format. Knows nothing of the simulator.

use serde::{Deserialize, Serialize};

use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};

use super::swf::SwfHeader;
use super::tally::Tally;

/// A machine as a trace lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceNode {
    pub name: String,
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub gpus: u32,
    pub gpu_model: Option<String>,
    /// Part of the cluster that the machine belongs to, which is scheduled separately from the others.
    pub virtual_cluster: Option<String>,
    pub switch: Option<String>,
}

/// One recorded piece of work. `None`, or an empty list, stands for what the trace does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTask {
    /// The job's number or the pod's name, as the trace writes it.
    pub name: String,
    /// The line of the (uncompressed) file, from 1.
    pub line: u64,
    /// Time since the trace's own zero, as recorded: not shifted to the first row.
    pub submit: SimTime,
    pub run: SimDuration,
    pub run_basis: RunBasis,
    /// How long it waited in the recorded world, from submission to start.
    pub recorded_wait: Option<SimDuration>,
    /// The user's estimate of how long it would run; it may have run longer.
    pub estimate: Option<SimDuration>,
    /// Number of nodes that it was given, or asked for. It takes an equal part of all its resources on each.
    pub nodes: Option<u32>,
    /// Processors of whatever kind the machine has. An SWF log does not say what a processor is in cores.
    pub processors: Option<u32>,
    pub cpu: Option<MilliCpu>,
    /// Memory requested, for all its processors together.
    pub ram: Option<Bytes>,
    /// GPUs requested; `Some(0)` means that it needs none.
    pub gpus: Option<u32>,
    /// Share requested of *each* of its GPUs; `None` where it has no GPU or the trace says nothing of GPUs.
    pub gpu_share: Option<GpuShare>,
    /// The GPU models it accepts, as the trace names them; empty where any will do.
    pub gpu_models: Vec<String>,
    /// CPU time used, as the mean over its processors.
    pub cpu_time_used: Option<SimDuration>,
    /// Memory used by all its processors together.
    pub ram_used: Option<Bytes>,
    pub outcome: Option<Outcome>,
    pub user: Option<u64>,
    pub group: Option<u64>,
    pub executable: Option<u64>,
    pub queue: Option<u32>,
    pub partition: Option<u32>,
    /// What it runs, as the trace names it: a model to be trained, or the name of the job.
    pub application: Option<String>,
    /// Part of the cluster that it was submitted to, which is scheduled separately from the others.
    pub virtual_cluster: Option<String>,
    /// Kubernetes' quality-of-service class as the trace names it: `LS`, `BE`, `Burstable`, `Guaranteed`.
    pub qos: Option<String>,
}

impl TraceTask {
    /// A task with only its submission and run time set; every other field is unknown.
    pub(super) fn new(name: String, line: u64, submit: SimTime, run: SimDuration) -> TraceTask {
        TraceTask {
            name,
            line,
            submit,
            run,
            run_basis: RunBasis::Executed,
            recorded_wait: None,
            estimate: None,
            nodes: None,
            processors: None,
            cpu: None,
            ram: None,
            gpus: None,
            gpu_share: None,
            gpu_models: Vec::new(),
            cpu_time_used: None,
            ram_used: None,
            outcome: None,
            user: None,
            group: None,
            executable: None,
            queue: None,
            partition: None,
            application: None,
            virtual_cluster: None,
            qos: None,
        }
    }

    /// Whether all that it asks for must be on one node. That is so where cores, RAM or parts of GPUs are requested,
    /// as by a pod. Whole GPUs alone, or processors, may be spread over several nodes.
    pub fn is_of_one_node(&self) -> bool {
        self.nodes.is_none_or(|nodes| nodes <= 1)
            && self.processors.is_none()
            && (self.cpu.is_some() || self.gpu_share.is_some())
    }
}

/// What [`TraceTask::run`] measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunBasis {
    /// From its start to its end.
    Executed,
    /// From its arrival to its departure. It never started, so how long it would have run was not recorded.
    WholeStay,
    /// Nothing: the trace does not say how long it ran or would run. The run time is zero and has no meaning.
    NotRecorded,
}

/// How the task ended in the recorded world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    Failed,
    Cancelled,
    /// This row is a part of a job that goes on in a later row (SWF status 2).
    ToBeContinued,
    /// This row is the last part of a job that completed (SWF status 3).
    LastPartCompleted,
    /// This row is the last part of a job that failed (SWF status 4).
    LastPartFailed,
    /// It was running when last seen.
    Running,
    /// It had not started when last seen.
    Pending,
}

/// A whole workload: its tasks by time of submission, those of the same instant in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTrace {
    pub tasks: Vec<TraceTask>,
    /// What was odd, counted in the order of the file.
    pub tally: Tally,
    /// The header of an SWF file; `None` for formats without a header.
    pub header: Option<SwfHeader>,
}

/// The machines of a trace in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTrace {
    pub nodes: Vec<TraceNode>,
}
