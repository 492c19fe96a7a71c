//! The settings of a trace, and what reading it needs besides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::unfinished::Running;
use crate::growth::Load;
use dryrack_rng::Stream;
use dryrack_scheduler::slurm::SlurmOptions;
use dryrack_trace as trace;
use dryrack_trace::{Blocks, Format, Roots, TraceTask};
use dryrack_units::{GpuShare, Permille, SimDuration, SimTime};
use dryrack_workload::Checkpoint;
use dryrack_yaml::{Report, Span, Tree};

/// The estimate of each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Estimates {
    AsRecorded,
    /// The actual run time.
    Exact,
}

/// What a task gets that asks for a part of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GpuShares {
    AsRecorded,
    /// A whole GPU.
    Whole,
}

impl GpuShares {
    pub(super) fn apply(self, task: &mut TraceTask) {
        if self == GpuShares::Whole && task.gpu_share.is_some() {
            task.gpu_share = Some(GpuShare::WHOLE);
        }
    }
}

/// The nodes of a task that states GPUs, but no nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GpuNodes {
    /// As few nodes as can hold its GPUs.
    Fewest,
    /// Each GPU may be on another node.
    Any,
}

/// Where the tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOn {
    /// On `nodes:`.
    Nodes,
    /// On instances and hosts of `fleets:`, as jobs with `resources` do.
    Instances,
}

/// The value of `gpu_names`: for each name in the trace, the GPU types of the scenario.
pub(super) type TypedNames<'t> = Vec<(&'t str, Span, Vec<(&'t str, Span)>)>;

/// The settings of `resample:`.
#[derive(Clone, Copy)]
pub(super) struct Resampling {
    pub span: Span,
    pub blocks: Blocks,
    /// The length of the new list; `None` means the recorded length.
    pub length: Option<SimDuration>,
    /// The key of the time that is copied at once, with its place.
    pub step: (&'static str, Span),
}

/// The settings of `trace:`.
pub(super) struct TraceSettings<'t> {
    pub(super) span: Span,
    pub(super) name: Option<(&'t str, Span)>,
    pub(super) format: Option<Format>,
    pub(super) list: Option<&'t str>,
    pub(super) file: Option<(&'t str, Span)>,
    pub(super) nodes: Option<Choice>,
    pub(super) nodes_span: Span,
    pub(super) node_list: Option<&'t str>,
    pub(super) node_file: Option<(&'t str, Span)>,
    pub(super) queues: Vec<(&'t str, Span)>,
    pub(super) limit: Option<u32>,
    /// Tasks before this time are left out, and the run starts at this time.
    pub(super) offset: SimTime,
    /// The number of tasks to leave out at the beginning. The start of the run stays the same.
    pub(super) skip: u32,
    pub(super) order: Option<(&'t str, Span)>,
    pub(super) ranks: Option<(&'t str, Span)>,
    pub(super) tune: Option<Permille>,
    /// The first and the last date, both included. The run starts with the first chosen task.
    pub(super) from: Option<SimTime>,
    pub(super) to: Option<SimTime>,
    pub(super) estimates: Estimates,
    /// The run time of each task that was still running.
    pub(super) running: Running,
    /// The run time of each application, for a trace that does not state run times.
    pub(super) durations: BTreeMap<String, SimDuration>,
    pub(super) durations_span: Span,
    /// The GPU types that names in the trace mean.
    pub(super) gpu_names: TypedNames<'t>,
    /// The nodes of a task that states GPUs, but no nodes.
    pub(super) gpu_nodes: Option<GpuNodes>,
    pub(super) gpu_shares: GpuShares,
    /// Where the tasks run, with the place of the key.
    pub(super) run_on: (RunOn, Span),
    /// The checkpoints of all tasks.
    pub(super) checkpoint: Option<Checkpoint>,
    /// The speeds of GPUs for these tasks, which override those of the file.
    pub(super) speed: Option<&'t Tree>,
    pub(super) resample: Option<Resampling>,
}

impl TraceSettings<'_> {
    /// The name of the trace in messages.
    pub(super) fn called(&self) -> &str {
        self.name.or(self.file).map_or("the trace", |(name, _)| name)
    }

    /// The start of the run, in the time of the trace. If times are dates, the run starts with the first chosen task,
    /// because the run would otherwise begin in 1970.
    pub(super) fn start(&self, first: SimTime) -> SimTime {
        let has_dates = self.offset == SimTime::ZERO && first >= trace::SINCE_1970;
        if self.from.is_some() || has_dates { first } else { self.offset }
    }
}

/// The context in which a trace is read.
pub(crate) struct ReadContext<'s> {
    pub roots: &'s Roots,
    /// The folder of the scenario file.
    pub folder: &'s Path,
    pub seed: u64,
    /// Whether the profile needs the expected workload.
    pub needs_target: bool,
    /// The cluster of Slurm, if the file has `slurm:`.
    pub slurm: Option<&'s SlurmOptions>,
    /// Whether each task is a pod that kube-scheduler places.
    pub as_pods: bool,
    /// Whether tasks are read during the run.
    pub streamed: bool,
    /// Whether the caller needs only the nodes.
    pub only_nodes: bool,
    pub load: Load,
}

impl ReadContext<'_> {
    /// The file with this name in the scenario's folder or in the data folder, either plain or with `.gz` appended.
    pub(super) fn find(&self, typed: &str, span: Span, report: &mut Report) -> Option<PathBuf> {
        let folders = [Some(self.folder), self.roots.data.as_deref()];
        let places = folders.into_iter().flatten().flat_map(|folder| {
            let path = folder.join(typed);
            let packed = PathBuf::from(format!("{}.gz", path.display()));
            [path, packed]
        });
        let found = places.into_iter().find(|path| path.is_file());
        if found.is_none() {
            let help = "set DRYRACK_DATA to its folder, or put it beside the scenario";
            report.trace_missing(span, format!("{typed} is missing"), help.to_string());
        }
        found
    }

    /// Whether the file has partitions of Slurm.
    pub(super) fn has_partitions(&self) -> bool {
        self.slurm.is_some_and(|slurm| !slurm.partitions.is_empty())
    }

    pub(super) fn stream(&self, purpose: &'static str) -> Stream {
        Stream::new(self.seed, purpose, 0)
    }
}

/// Returns the result of reading, or reports the error and returns `None`.
pub(crate) fn value_or_report<T>(read: Result<T, trace::TraceError>, span: Span, report: &mut Report) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(trace::TraceError::NotHere { trace, file, .. }) => {
            let help =
                format!("get it with `dryrack trace get {trace}`, or set DRYRACK_DATA to a folder that contains it");
            report.trace_missing(span, format!("trace {trace} is missing: no {file}"), help);
            None
        }
        Err(error) => {
            let help = "the trace must be the published version; `dryrack trace list` shows which one";
            report.error_with_help(span, error.to_string().replace('\n', "; "), help);
            None
        }
    }
}

/// Returns the result of reading a file of the user, or reports the error and returns `None`.
pub(crate) fn file_or_report<T>(read: Result<T, trace::TraceError>, span: Span, report: &mut Report) -> Option<T> {
    read.map_err(|error| {
        let help = "mend the file, or write another `format:`; docs/src/traces.md describes the formats";
        report.error_with_help(span, error.to_string().replace('\n', "; "), help);
    })
    .ok()
}

/// The nodes of the trace to use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    All,
    Gpu,
    None,
}
