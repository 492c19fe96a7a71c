//! The rows that the readers of all formats return. Knows nothing about the simulator.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};

use super::swf_header::SwfHeader;
use super::tally::{Oddities, Oddity, Tally};

/// A machine of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceNode {
    pub name: String,
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub gpus: u32,
    pub gpu_model: Option<String>,
    /// The part of the cluster that the machine belongs to. Each part is scheduled on its own.
    pub virtual_cluster: Option<String>,
    pub switch: Option<String>,
}

/// One recorded piece of work. `None` or an empty list means that the trace does not state the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTask {
    /// The job's number or the pod's name, as written in the trace.
    pub name: String,
    /// The line number in the uncompressed file, counted from 1.
    pub line: u64,
    /// The recorded time since the trace's own zero. It is not shifted to the first row.
    pub submit: SimTime,
    pub run: SimDuration,
    pub run_basis: RunBasis,
    /// The recorded wait from submission to start.
    pub recorded_wait: Option<SimDuration>,
    /// The user's estimate of the run time. The task may have run longer.
    pub estimate: Option<SimDuration>,
    /// The number of nodes that the task was given or requested. Each of them provides an equal part of all resources
    /// of the task.
    pub nodes: Option<u32>,
    /// The number of processors, in the unit of the recorded machine. An SWF log does not say how many cores a
    /// processor is.
    pub processors: Option<u32>,
    pub cpu: Option<MilliCpu>,
    /// The requested memory of all processors together.
    pub ram: Option<Bytes>,
    /// The number of requested GPUs. `Some(0)` means that the task needs none.
    pub gpus: Option<u32>,
    /// The requested share of *each* GPU. `None` if the task has no GPU or the trace says nothing about GPUs.
    pub gpu_share: Option<GpuShare>,
    /// The accepted GPU models, as written in the trace. Empty if any model is accepted.
    pub gpu_models: Vec<String>,
    /// The used CPU time, as the mean over the task's processors.
    pub cpu_time_used: Option<SimDuration>,
    /// The used memory of all processors together.
    pub ram_used: Option<Bytes>,
    pub outcome: Option<Outcome>,
    pub user: Option<u64>,
    pub group: Option<u64>,
    pub executable: Option<u64>,
    pub queue: Option<u32>,
    pub partition: Option<u32>,
    /// The application, as written in the trace: the model that is trained, or the name of the job.
    pub application: Option<String>,
    /// The most tasks of the application that may be on one node.
    pub most_per_node: Option<u32>,
    /// The part of the cluster that the task was submitted to. Each part is scheduled on its own.
    pub virtual_cluster: Option<String>,
    /// The quality of service, as written in the trace: a class of Kubernetes (`LS`, `BE`, `Burstable`, `Guaranteed`), or
    /// the QOS of Slurm.
    pub qos: Option<String>,
    /// The account that Slurm charges.
    pub account: Option<String>,
    /// The name of the user. `user` numbers the same users.
    pub user_name: Option<String>,
    /// The rates of this kind of task on several kinds of GPUs, if the trace measured them.
    pub measured: Option<Arc<Measured>>,
    /// What is unusual about the row, as far as no other field shows it.
    pub odd: Oddities,
}

/// Rates of one kind of task on several kinds of GPUs. Many tasks share one value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Measured {
    /// The kind of GPU on which the task takes its recorded time.
    pub reference: String,
    /// The name of each kind of GPU, as written in the trace, and the rate on it in billionths. Zero if the task does not
    /// run on it.
    pub rates: Vec<(String, u64)>,
}

impl TraceTask {
    /// A task with only a submission time and a run time. All other fields are unknown.
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
            most_per_node: None,
            virtual_cluster: None,
            qos: None,
            account: None,
            user_name: None,
            measured: None,
            odd: Oddities::default(),
        }
    }

    /// Whether the task may come after tasks that were submitted later: a later row could state the end of a task that
    /// was still running, and a list states a task that became eligible later where it was submitted.
    pub fn is_out_of_order(&self) -> bool {
        self.run_basis == RunBasis::SoFar || self.odd.has(Oddity::EligibleLater)
    }

    /// The GPUs of the task, in thousandths.
    pub fn gpu_milli(&self) -> u64 {
        u64::from(self.gpus.unwrap_or(0)) * u64::from(self.gpu_share.unwrap_or(GpuShare::WHOLE).get())
    }

    /// The longest run that the record allows: of a task that was still running, its time limit, unless it ran longer.
    pub fn longest_run(&self) -> SimDuration {
        let limit = self.estimate.filter(|_| self.run_basis == RunBasis::SoFar);
        limit.map_or(self.run, |limit| limit.max(self.run))
    }

    /// Whether the task has several GPUs, and the list does not state their nodes.
    pub fn leaves_nodes_open(&self) -> bool {
        self.gpus.is_some_and(|gpus| gpus > 1)
            && self.nodes.is_none()
            && self.processors.is_none()
            && !self.is_of_one_node()
    }

    /// Whether all resources of the task must be on one node. This is so if the task requests cores or a share of GPUs,
    /// as a pod does. Whole GPUs without cores, or processors, may be on several nodes.
    pub fn is_of_one_node(&self) -> bool {
        self.nodes.is_none_or(|nodes| nodes <= 1)
            && self.processors.is_none()
            && (self.cpu.is_some() || self.gpu_share.is_some())
    }
}

/// What the time in [`TraceTask::run`] measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunBasis {
    /// The time from the task's start to its end.
    Executed,
    /// The time from the task's arrival to its departure. The task never started, so its run time was not recorded.
    WholeStay,
    /// The time from the task's start to the moment of the record. The task was still running, so it ran longer.
    SoFar,
    /// Nothing, because the trace does not state the run time. The value is zero and has no meaning.
    NotRecorded,
}

/// How the task ended in the recorded cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    Failed,
    Cancelled,
    /// This row is a part of a job that continues in a later row (SWF status 2).
    ToBeContinued,
    /// This row is the last part of a job that completed (SWF status 3).
    LastPartCompleted,
    /// This row is the last part of a job that failed (SWF status 4).
    LastPartFailed,
    /// The task was running at the end of the trace.
    Running,
    /// The task had not started at the end of the trace.
    Pending,
}

/// A whole workload. The tasks are in order of submission, and tasks of the same instant are in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTrace {
    pub tasks: Vec<TraceTask>,
    /// The counts of odd rows.
    pub tally: Tally,
    /// The header of an SWF file. `None` for formats without a header.
    pub header: Option<SwfHeader>,
}

/// The machines of a trace in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTrace {
    pub nodes: Vec<TraceNode>,
}
