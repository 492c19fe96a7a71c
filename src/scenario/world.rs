//! The meaning of names in a file: nodes, GPUs, jobs and GPU types, found by the text that was typed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::diagnostic::{Report, Span};
use super::fields::{is_pattern, matches};
use dryrack_catalog as catalog;
use dryrack_engine::{CloudModels, InitialNode};
use dryrack_fleet::{FleetSpec, NodeShape};
use dryrack_ids::{GpuId, JobId, NameTable, NodeId};
use dryrack_workload::Requirements;

/// Everything that is known before expectations are read.
#[derive(Default)]
pub(super) struct World {
    /// Fleets of instances.
    pub fleets: Vec<Arc<FleetSpec>>,
    /// Models of the clouds that create instances for fleets.
    pub clouds: CloudModels,
    /// What might go on for ever in these clouds, and its place.
    pub endless_clouds: Vec<(Span, &'static str)>,
    /// The requirements of jobs for instances, the number of nodes, and their places.
    pub wanted: Vec<(Arc<Requirements>, u32, Span)>,
    /// Hosts of fleets, and the places that state how they are split.
    pub hosts: Vec<(Arc<NodeShape>, Span)>,
    pub nodes: Vec<InitialNode>,
    pub node_names: NameTable,
    pub job_names: NameTable,
    /// The number of replicas of each job.
    pub replicas: Vec<u32>,
    /// The places of the names of jobs.
    pub job_spans: Vec<Span>,
    /// Models that the file describes.
    pub models: BTreeSet<String>,
    /// Models that a node has a copy of, as typed.
    pub cached: Vec<(String, Span)>,
    /// GPU types that a node has.
    pub gpu_types: BTreeSet<Arc<str>>,
    /// Shapes seen so far, used only to look up equal ones.
    shapes: HashSet<Arc<NodeShape>, foldhash::fast::FixedState>,
    /// Names of entries with a `count`. The names of their copies begin with these.
    pub groups: BTreeSet<String>,
    /// Names of entries whose jobs arrive at random, so that their number depends on the seed.
    pub chances: BTreeMap<String, Chance>,
}

/// Properties of all jobs of an entry whose jobs arrive at random.
pub(super) struct Chance {
    pub queue: Option<Arc<str>>,
    pub user: Option<Arc<str>>,
}

impl World {
    /// The shape, shared with an equal one if there is one.
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

    /// Whether a name or pattern refers to jobs that arrive at random and none of them does with this seed.
    pub fn may_come(&self, typed: &str) -> bool {
        let copy_of = |group: &String| typed.strip_prefix(group.as_str())?.strip_prefix('-');
        let is_number = |rest: &str| rest.len() >= 4 && rest.bytes().all(|byte| byte.is_ascii_digit());
        let is_of = |group: &String| match is_pattern(typed) {
            true => matches(typed, &format!("{group}-0000")),
            false => copy_of(group).is_some_and(is_number),
        };
        self.chances.keys().any(is_of) && !self.job_names.iter().any(|name| matches(typed, name))
    }

    /// Finds jobs by a name or a pattern. Empty, with a warning, if they arrive at random and none does with this seed.
    pub fn jobs(&self, typed: &str, span: Span, report: &mut Report) -> Vec<JobId> {
        if self.may_come(typed) {
            let message = format!("of the jobs that come by chance none is called `{typed}` with this seed");
            report.warning(span, message, "what is expected of it fails; expect it of what comes with every seed");
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

    /// Finds a GPU such as `alpha/0`.
    pub fn gpu(&self, typed: &str, span: Span, report: &mut Report) -> Option<GpuId> {
        let Some((node_name, index)) = typed.rsplit_once('/') else {
            let help = match self.node_names.find(typed) {
                Some(_) => format!("did you mean `{typed}/0`?"),
                None => "write the node's name, a slash and the GPU's index from 0".to_string(),
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
        let matching = all.filter(|(name, ..)| matches(typed, name));
        let found: Vec<GpuId> =
            matching.map(|(_, node, index)| GpuId { node: NodeId::new(node), index: index as u16 }).collect();
        if found.is_empty() {
            report.error_with_help(span, format!("no GPU matches `{typed}`"), "GPUs are named as in alpha/0");
        }
        found
    }

    fn gpu_index(&self, node: NodeId, typed: &str, span: Span, report: &mut Report) -> Option<u16> {
        let known = &self.nodes[node.index()].spec;
        gpu_index(&known.name, known.shape.gpus.len(), typed, span, report)
    }

    /// Finds a GPU type by its name or alias in the catalog, or by the name that a node of the file gives it.
    pub fn gpu_type(&self, typed: &str, span: Span, report: &mut Report) -> Option<Arc<str>> {
        if let Some(own) = self.gpu_types.get(typed) {
            return Some(Arc::clone(own));
        }
        let found = catalog::gpu(typed).map(|model| Arc::from(model.name));
        if found.is_none() {
            let own = self.gpu_types.iter().map(|name| &**name);
            let names: BTreeSet<&str> = own.chain(catalog::gpus().iter().map(|model| model.name)).collect();
            report.unknown(span, format!("no GPU type is named `{typed}`"), typed, names.into_iter());
        }
        found
    }

    fn matching<'w>(
        &'w self,
        what: &str,
        typed: &'w str,
        span: Span,
        names: &'w NameTable,
        report: &mut Report,
    ) -> impl Iterator<Item = usize> + 'w {
        if !names.iter().any(|name| matches(typed, name)) {
            let message = format!("no {what} matches `{typed}`");
            let word = typed.trim_matches(['*', '?', '-']);
            report.unknown(span, message, word, names.iter().map(|name| &**name));
        }
        names.iter().enumerate().filter(move |(_, name)| matches(typed, name)).map(|(index, _)| index)
    }

    fn no_such(&self, what: &str, typed: &str, span: Span, names: &NameTable, report: &mut Report) {
        let message = format!("no {what} is named `{typed}`");
        match self.groups.contains(typed) && names.iter().any(|name| name.starts_with(typed)) {
            true => {
                let help =
                    format!("its copies are `{}` and so on; `{typed}-*` names them all", self.first_of(typed, names));
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

/// Reads the index of one of a node's `count` GPUs.
pub(super) fn gpu_index(node: &str, count: usize, typed: &str, span: Span, report: &mut Report) -> Option<u16> {
    let found = typed.parse::<u16>().ok().filter(|index| usize::from(*index) < count);
    // `+1` and `01` would be second names for the same GPU.
    let found = found.filter(|index| index.to_string() == typed);
    if found.is_none() {
        let help = match count {
            0 => format!("{node} has no GPUs"),
            1 => format!("{node} has one GPU, `0`"),
            _ => format!("{node} has {count} GPUs, `0` to `{}`", count - 1),
        };
        report.error_with_help(span, format!("{node} has no GPU `{typed}`"), help);
    }
    found
}

/// Names for the copies of an entry: `name-0`, `name-1`, … with as many digits as the last one needs.
pub(super) fn copies(name: &str, count: u32) -> impl Iterator<Item = Arc<str>> {
    let width = count.saturating_sub(1).to_string().len();
    let name = name.to_string();
    (0..count).map(move |index| Arc::from(format!("{name}-{index:0width$}")))
}
