//! What trace readers yield, whatever the format; knows nothing of the simulator.

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
    /// The part of the cluster that it belongs to, which is scheduled apart from the others.
    pub virtual_cluster: Option<String>,
    pub switch: Option<String>,
}

/// One recorded piece of work. `None`, or an empty list, is what the trace does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTask {
    /// The job's number or the pod's name, as the trace writes it.
    pub name: String,
    /// The line of the (uncompressed) file, from 1.
    pub line: u64,
    /// Since the trace's own zero, as recorded: not shifted to the first row.
    pub submit: SimTime,
    pub run: SimDuration,
    pub run_basis: RunBasis,
    /// How long it waited in the recorded world, from submission to start.
    pub recorded_wait: Option<SimDuration>,
    /// How long its user said it would run; it may have run longer.
    pub estimate: Option<SimDuration>,
    /// How many nodes it was given, or asked for: it takes an equal part of all its resources on each.
    pub nodes: Option<u32>,
    /// Processors of whatever kind the machine has; what a processor is, in cores, a log in SWF does not say.
    pub processors: Option<u32>,
    pub cpu: Option<MilliCpu>,
    /// Memory asked for, of all its processors together.
    pub ram: Option<Bytes>,
    /// GPUs asked for; `Some(0)` says that it needs none.
    pub gpus: Option<u32>,
    /// The share it asks of *each* of its GPUs; `None` where it has no GPU or the trace says nothing of GPUs.
    pub gpu_share: Option<GpuShare>,
    /// The GPU models it accepts, as the trace names them; empty where any will do.
    pub gpu_models: Vec<String>,
    /// CPU time used, the mean of its processors.
    pub cpu_time_used: Option<SimDuration>,
    /// Memory used, of all its processors together.
    pub ram_used: Option<Bytes>,
    pub outcome: Option<Outcome>,
    pub user: Option<u64>,
    pub group: Option<u64>,
    pub executable: Option<u64>,
    pub queue: Option<u32>,
    pub partition: Option<u32>,
    /// What it runs, as the trace calls it: a model to be trained, or the name of the job.
    pub application: Option<String>,
    /// The part of the cluster that it was sent to, which is scheduled apart from the others.
    pub virtual_cluster: Option<String>,
    /// Kubernetes' class of service as the trace names it: `LS`, `BE`, `Burstable`, `Guaranteed`.
    pub qos: Option<String>,
}

impl TraceTask {
    /// Of which nothing more is known yet than when it came and how long it ran.
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

    /// Whether all that it asks for must be on one node: so where cores, RAM or parts of GPUs are asked for, as of a pod.
    /// Whole GPUs alone, or processors, may lie on several.
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
    /// From its arrival to its departure: it never started, so how long it would have run was not recorded.
    WholeStay,
    /// Nothing: how long it ran, or would run, the trace does not say. The run is zero and stands for nothing.
    NotRecorded,
}

/// How the recorded world was done with it.
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
    /// Was running when last seen.
    Running,
    /// Had not started when last seen.
    Pending,
}

/// A whole workload: its tasks by time of submission, those of one instant in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTrace {
    pub tasks: Vec<TraceTask>,
    /// What was odd, counted in the order of the file.
    pub tally: Tally,
    /// What an SWF file says of itself; `None` for formats without a header.
    pub header: Option<SwfHeader>,
}

/// The machines of a trace in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTrace {
    pub nodes: Vec<TraceNode>,
}
