//! Resolves the names in a file to nodes, GPUs, jobs and GPU types.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::options::Varying;
use super::own_gpu::own_gpu;
use super::speeds::SpeedTable;
use dryrack_catalog as catalog;
use dryrack_engine::{CloudModels, InitialNode, Stated};
use dryrack_fleet::{FleetSpec, NodeShape};
use dryrack_ids::{GpuId, JobId, NameTable, NodeId};
use dryrack_units::MilliCpu;
use dryrack_workload::{JobSpec, Requirements};
use dryrack_yaml::{Report, Span, is_pattern, matches_pattern};

/// Everything in a file that is read before the expectations.
#[derive(Default)]
pub(super) struct World {
    /// Fleets of instances.
    pub fleets: Vec<Arc<FleetSpec>>,
    /// Models of the clouds that create instances for fleets.
    pub clouds: CloudModels,
    /// The states of nodes and GPUs that come from the command line.
    pub stated: BTreeSet<Stated>,
    /// Settings of these clouds because of which a run could go on forever, with their places.
    pub endless_clouds: Vec<(Span, &'static str)>,
    /// For each job that needs instances: its requirements, the number of nodes, and its place in the file.
    pub wanted: Vec<(Arc<Requirements>, u32, Span)>,
    /// Hosts of fleets, each with the place that states its split.
    pub hosts: Vec<(Arc<NodeShape>, Span)>,
    pub nodes: Vec<InitialNode>,
    pub node_names: NameTable,
    pub job_names: NameTable,
    /// The number of replicas of each job.
    pub replicas: Vec<u32>,
    /// The place of each job's name.
    pub job_spans: Vec<Span>,
    /// Names of models that the file describes.
    pub models: BTreeSet<String>,
    /// Names of models that some node stores, as written, with their places.
    pub cached: Vec<(String, Span)>,
    /// Shapes of entries of nodes with a `count` of 0.
    pub shapes_without_nodes: Vec<Arc<NodeShape>>,
    /// Entries of jobs of which none is submitted.
    pub unsubmitted: Vec<JobSpec>,
    /// Whether there are jobs that are read only during the run, or not at all.
    pub has_unread_jobs: bool,
    /// Whether the file is refused because of its manifests, so that their nodes and jobs are missing.
    pub has_refused_manifests: bool,
    /// The words of a file with a matrix that may differ between its cells.
    words_of_matrix: BTreeSet<String>,
    /// The text of the plan for which the file is read.
    plan: Option<Arc<str>>,
    /// GPU types of the nodes.
    pub gpu_types: BTreeSet<Arc<str>>,
    /// Whether a node or an offer states its power, even if there are 0 of it.
    pub has_power: bool,
    /// What names and figures the file leaves open, and what is assumed for each. Sentences for the report.
    pub assumed: BTreeSet<String>,
    /// The speeds that the file states for all jobs.
    pub speed: Option<SpeedTable>,
    /// The types of GPUs of the nodes and hosts, once they were collected.
    pub fleet_gpus: Option<FleetGpus>,
    /// The types of GPUs whose missing speed was reported, with the place of `speed`.
    pub unknown_speeds: Vec<(Span, Arc<str>)>,
    /// All distinct shapes so far, used only to find an equal one.
    shapes: HashSet<Arc<NodeShape>, foldhash::fast::FixedState>,
    /// Names of entries with a `count`. The names of their copies begin with the name of the entry.
    pub groups: BTreeSet<String>,
    /// The numbers of the tasks of each job array. The names of the tasks are the array's name, `_` and a number.
    pub arrays: BTreeMap<String, Arc<[u32]>>,
    /// The LocalQueues of Kueue that jobs can name. `None` if the file has no Kueue.
    pub local_queues: Option<BTreeMap<String, BTreeSet<Arc<str>>>>,
    /// Entries whose jobs arrive at random. The number of their jobs depends on the seed.
    pub chances: BTreeMap<String, RandomEntry>,
}

/// The types of GPUs of a fleet.
pub(super) struct FleetGpus {
    /// The numbers of nodes and of hosts at which the types were collected.
    pub of: (usize, usize),
    pub types: Arc<BTreeSet<Arc<str>>>,
}

/// Properties that all jobs of one random entry share.
pub(super) struct RandomEntry {
    pub queue: Option<Arc<str>>,
    pub user: Option<Arc<str>>,
}

impl World {
    /// A world without anything in it yet.
    pub fn new(words_of_matrix: BTreeSet<String>, plan: Option<&Varying>) -> World {
        let plan = plan.map(|plan| Arc::clone(&plan.text));
        World { words_of_matrix, plan, ..World::default() }
    }

    /// Whether another cell of the matrix, or another alternative of the plan, may have this word.
    pub fn may_vary(&self, word: &str) -> bool {
        self.words_of_matrix.contains(word) || self.plan.as_ref().is_some_and(|text| text.contains(word))
    }

    /// A shared pointer to this shape. Equal shapes share one pointer.
    pub fn shared_shape(&mut self, shape: NodeShape) -> Arc<NodeShape> {
        if let Some(known) = self.shapes.get(&shape) {
            return Arc::clone(known);
        }
        let shape = Arc::new(shape);
        self.shapes.insert(Arc::clone(&shape));
        shape
    }

    /// Reports an error if no fleet of instances has this name.
    pub fn check_fleet(&self, typed: &str, span: Span, report: &mut Report) {
        if !self.fleets.iter().any(|fleet| &*fleet.name == typed) {
            let names = self.fleets.iter().map(|fleet| &*fleet.name);
            report.unknown(span, format!("no fleet is named `{typed}`"), typed, names);
        }
    }

    /// Finds a node by its name.
    pub fn node(&self, typed: &str, span: Span, report: &mut Report) -> Option<NodeId> {
        let found = self.node_names.find(typed).map(NodeId::new);
        if found.is_none() {
            self.no_such("node", typed, span, &self.node_names, report);
        }
        found
    }

    /// Finds nodes by a name or a pattern.
    pub fn nodes(&self, typed: &str, span: Span, report: &mut Report) -> Vec<NodeId> {
        match is_pattern(typed) {
            false => self.node(typed, span, report).into_iter().collect(),
            true => self.matching("node", typed, span, &self.node_names, report).map(NodeId::new).collect(),
        }
    }

    /// Whether a name or pattern refers to an entry with random arrivals, but to no job that arrives with this seed.
    pub fn may_come(&self, typed: &str) -> bool {
        let copy_of = |group: &String| typed.strip_prefix(group.as_str())?.strip_prefix('-');
        let is_number = |rest: &str| rest.len() >= 4 && rest.bytes().all(|byte| byte.is_ascii_digit());
        let is_of = |group: &String| match is_pattern(typed) {
            true => matches_pattern(typed, &format!("{group}-0000")),
            false => copy_of(group).is_some_and(is_number),
        };
        self.chances.keys().any(is_of) && !self.job_names.iter().any(|name| matches_pattern(typed, name))
    }

    /// Finds jobs by a name or a pattern. The result is empty, with a warning, if such jobs could arrive at random but
    /// none does with this seed.
    pub fn jobs(&self, typed: &str, span: Span, report: &mut Report) -> Vec<JobId> {
        if self.may_come(typed) {
            let message = format!("with this seed, random arrivals produce no job named `{typed}`");
            report.warning(span, message, "the expectation fails; use jobs that are submitted with every seed");
            return Vec::new();
        }
        if is_pattern(typed) {
            return self.matching("job", typed, span, &self.job_names, report).map(JobId::new).collect();
        }
        let found = self.job_names.find(typed).map(JobId::new);
        if found.is_none() {
            self.no_such("job", typed, span, &self.job_names, report);
        }
        found.into_iter().collect()
    }

    /// Finds jobs by a name or a pattern. The name of an entry with a `count` finds all of its copies, and the name of an
    /// array finds all of its tasks.
    pub fn jobs_of(&self, typed: &str, span: Span, report: &mut Report) -> Vec<JobId> {
        if let Some(numbers) = self.arrays.get(typed).filter(|_| self.job_names.find(typed).is_none()) {
            return numbers.iter().filter_map(|number| self.task_of(typed, *number)).collect();
        }
        if self.job_names.find(typed).is_none() && self.groups.contains(typed) {
            let number =
                |name: &str| name.strip_prefix(typed).and_then(|rest| rest.strip_prefix('-').map(str::to_string));
            let is_copy =
                |name: &str| number(name).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
            let copies = self.job_names.iter().enumerate().filter(|(_, name)| is_copy(name));
            let copies: Vec<JobId> = copies.map(|(index, _)| JobId::new(index)).collect();
            if !copies.is_empty() {
                return copies;
            }
        }
        self.jobs(typed, span, report)
    }

    /// The task of an array with this number.
    pub fn task_of(&self, array: &str, number: u32) -> Option<JobId> {
        self.job_names.find(&format!("{array}_{number}")).map(JobId::new)
    }

    /// Finds a GPU such as `alpha/0`.
    pub fn gpu(&self, typed: &str, span: Span, report: &mut Report) -> Option<GpuId> {
        let Some((node_name, index)) = typed.rsplit_once('/') else {
            let help = match self.node_names.find(typed) {
                Some(_) => format!("did you mean `{typed}/0`?"),
                None => "write the name of the node, a slash and the index of the GPU, counted from 0".to_string(),
            };
            report.error_with_help(span, format!("`{typed}` is not a GPU such as alpha/0"), help);
            return None;
        };
        let node = self.node(node_name, span.within(0, node_name.len(), typed.len()), report)?;
        let index_span = span.within(node_name.len() + 1, index.len(), typed.len());
        let index = self.gpu_index(node, index, index_span, report)?;
        Some(GpuId { node, index })
    }

    /// Finds GPUs by a name such as `alpha/0`, or by a pattern such as `alpha/*`.
    pub fn gpus(&self, typed: &str, span: Span, report: &mut Report) -> Vec<GpuId> {
        if !is_pattern(typed) {
            return self.gpu(typed, span, report).into_iter().collect();
        }
        let all = self.nodes.iter().enumerate().flat_map(|(node, known)| {
            let indices = 0..known.spec.shape.gpus.len();
            indices.map(move |index| (format!("{}/{index}", known.spec.name), node, index))
        });
        let matching = all.filter(|(name, ..)| matches_pattern(typed, name));
        let found: Vec<GpuId> =
            matching.map(|(_, node, index)| GpuId { node: NodeId::new(node), index: index as u16 }).collect();
        if found.is_empty() && !self.has_refused_manifests {
            report.error_with_help(span, format!("no GPU matches `{typed}`"), "the names of GPUs look like alpha/0");
        }
        found
    }

    fn gpu_index(&self, node: NodeId, typed: &str, span: Span, report: &mut Report) -> Option<u16> {
        let known = &self.nodes[node.index()].spec;
        gpu_index(&known.name, &known.shape, typed, span, report)
    }

    /// Finds GPU types by a name that a node in the file gives them, or by a name that the catalog knows. The name of a
    /// family such as `a100` finds every GPU of it.
    pub fn gpu_types_named(&mut self, typed: &str, span: Span, report: &mut Report) -> Vec<Arc<str>> {
        let found = self.known_gpu_types(typed);
        if found.is_empty() {
            report.error_with_help(span, format!("no GPU type is named `{typed}`"), self.help_for_gpu(typed));
        }
        found
    }

    /// The GPUs that an unknown name may mean. If there are none: the nearest, and how nodes get GPUs of this name.
    fn help_for_gpu(&self, typed: &str) -> String {
        let own = || self.gpu_types.iter().map(|name| &**name);
        let similar = catalog::similar_gpus(typed, own());
        let near = match (similar.hint(), Vec::from_iter(own())) {
            (Some(hint), _) if !similar.meant.is_empty() => return hint,
            (Some(hint), _) => hint,
            (None, own) if own.is_empty() => "`dryrack catalog gpus` lists the known names".to_string(),
            (None, own) => format!("the nodes have {}", own.join(", ")),
        };
        format!("{near}; if it is none of them, give nodes {}", own_gpu(typed, None))
    }

    /// Like [`World::gpu_types_named`], but empty if the name is unknown. Notes what a name means that is not the GPU's own.
    pub fn known_gpu_types(&mut self, typed: &str) -> Vec<Arc<str>> {
        let found = self.meant_gpu_types(typed);
        if let [_, _, ..] = found[..] {
            self.assumed.insert(format!("GPU `{typed}` means any of {}", found.join(", ")));
        } else if !self.gpu_types.contains(typed) && catalog::gpu(typed).is_none() && !found.is_empty() {
            self.assumed.insert(format!("GPU `{typed}` means {}", found[0]));
        }
        found
    }

    /// Like [`World::known_gpu_types`], but without the note that tells the user what was assumed.
    pub fn meant_gpu_types(&self, typed: &str) -> Vec<Arc<str>> {
        match self.gpu_types.get(typed) {
            Some(own) => vec![Arc::clone(own)],
            None => catalog::gpus_named(typed).iter().map(|model| Arc::from(model.name)).collect(),
        }
    }

    fn matching<'w>(
        &'w self,
        what: &str,
        typed: &'w str,
        span: Span,
        names: &'w NameTable,
        report: &mut Report,
    ) -> impl Iterator<Item = usize> + 'w {
        if !self.has_refused_manifests && !names.iter().any(|name| matches_pattern(typed, name)) {
            let message = format!("no {what} matches `{typed}`");
            let word = typed.trim_matches(['*', '?', '-']);
            report.unknown(span, message, word, names.iter().map(|name| &**name));
        }
        names.iter().enumerate().filter(move |(_, name)| matches_pattern(typed, name)).map(|(index, _)| index)
    }

    fn no_such(&self, what: &str, typed: &str, span: Span, names: &NameTable, report: &mut Report) {
        if self.has_refused_manifests {
            return;
        }
        let message = format!("no {what} is named `{typed}`");
        if let Some(first) = self.arrays.get(typed).filter(|_| what == "job").and_then(|numbers| numbers.first()) {
            let help = format!("its tasks are `{typed}_{first}` and so on; `{typed}_*` matches all of them");
            return report.error_with_help(span, message, help);
        }
        match self.groups.contains(typed) && names.iter().any(|name| name.starts_with(typed)) {
            true => {
                let help = format!(
                    "its copies are `{}` and so on; `{typed}-*` matches all of them",
                    self.first_of(typed, names)
                );
                report.error_with_help(span, message, help);
            }
            false => report.unknown(span, message, typed, names.iter().map(|name| &**name)),
        }
    }

    fn first_of<'n>(&self, group: &str, names: &'n NameTable) -> &'n str {
        let is_copy = |name: &&Arc<str>| name.strip_prefix(group).is_some_and(|rest| rest.starts_with('-'));
        names.iter().find(is_copy).map_or("", |name| name)
    }
}

/// Reads the index of one of the GPUs of a node.
pub(super) fn gpu_index(node: &str, shape: &NodeShape, typed: &str, span: Span, report: &mut Report) -> Option<u16> {
    let count = shape.gpus.len();
    let found = typed.parse::<u16>().ok().filter(|index| usize::from(*index) < count);
    // Refuse `+1` and `01`, which would be second names for the same GPU.
    let found = found.filter(|index| index.to_string() == typed);
    // A node whose machine could not be read has nothing; that error is enough.
    let is_blank = shape.cpu_capacity() == MilliCpu::ZERO && count == 0;
    if found.is_none() && !(is_blank && report.has_errors()) {
        let help = match count {
            0 => format!("{node} has no GPUs"),
            1 => format!("{node} has one GPU, `0`"),
            _ => format!("{node} has {count} GPUs, `0` to `{}`", count - 1),
        };
        report.error_with_help(span, format!("{node} has no GPU `{typed}`"), help);
    }
    found
}

/// The names of the copies of an entry: `name-0`, `name-1` and so on. All numbers have as many digits as the largest.
pub(super) fn copies(name: &str, count: u32) -> impl Iterator<Item = Arc<str>> {
    let width = count.saturating_sub(1).to_string().len();
    let name = name.to_string();
    (0..count).map(move |index| Arc::from(format!("{name}-{index:0width$}")))
}
