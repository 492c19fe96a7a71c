//! Nodes: converts `nodes:` to a list for the engine, in the order of the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::elsewhere::elsewhere;
use super::machines::{self, Machines};
use super::world::{World, copies, gpu_index};
use dryrack_catalog as catalog;
use dryrack_engine::{InitialNode, ModelFiles, Stated};
use dryrack_fleet::{Foreign, GpuState, NodeShape, NodeSpec, NodeState};
use dryrack_ids::{GpuId, NodeId};
use dryrack_units::{Bytes, GpuShare};
use dryrack_yaml::{Fields, Node, Report, Span, Tree, name, text, value, word};

pub const NODE_STATES: [(&str, NodeState); 6] = [
    ("joining", NodeState::Joining),
    ("ready", NodeState::Ready),
    ("not_ready", NodeState::NotReady),
    ("unreachable", NodeState::Unreachable),
    ("maintenance", NodeState::Maintenance),
    ("gone", NodeState::Gone),
];

pub(super) const GPU_STATES: [(&str, GpuState); 5] = [
    ("ready", GpuState::Ready),
    ("degraded", GpuState::Degraded),
    ("draining", GpuState::Draining),
    ("failed", GpuState::Failed),
    ("unknown", GpuState::Unknown),
];

/// The fields of a node in addition to those of its machine.
pub(super) const FIELDS: [&str; 7] = ["name", "count", "state", "foreign", "gpu_states", "cached", "bandwidth"];

/// The largest number of nodes of one scenario. More could not be simulated in reasonable time.
const MAX_NODES: usize = 200_000;

/// The machines and default values that nodes refer to.
pub(super) struct Base {
    pub machines: Machines,
    /// The bandwidth of nodes that do not state one.
    bandwidth: Option<Bytes>,
}

/// Reads `machines:` and `bandwidth:`, and reads `nodes:` into the world.
pub(super) fn read(file: &Fields<'_>, world: &mut World, report: &mut Report) -> Base {
    let base = Base { machines: machines::read(file.get("machines"), report), bandwidth: bandwidth(file, report) };
    for tree in file.list("nodes", report) {
        entry(tree, &base, world, report);
    }
    base
}

/// Reads the rate at which a node downloads models: `10Gbit/s`, `1.25GB/s` or `1GiB/s`, in bytes per second.
fn bandwidth(fields: &Fields<'_>, report: &mut Report) -> Option<Bytes> {
    let tree = fields.get("bandwidth")?;
    let typed = text(tree, "a bandwidth such as 10Gbit/s", report)?;
    let rate = typed.strip_suffix("/s").and_then(|amount| match amount.strip_suffix("bit") {
        // A bit rate uses decimal units. Eight bits are a byte.
        Some(bits) => Some(Bytes::new(format!("{bits}B").parse::<Bytes>().ok()?.get() / 8)),
        None => amount.parse::<Bytes>().ok(),
    });
    match rate {
        Some(rate) if rate > Bytes::ZERO => Some(rate),
        Some(_) => {
            report.error_with_help(tree.span, "the bandwidth must be above 0", "write `10Gbit/s`");
            None
        }
        None => {
            let help = "write an amount per second, such as `10Gbit/s` or `1GiB/s`";
            report.error_with_help(tree.span, format!("`{typed}` is not a bandwidth"), help);
            None
        }
    }
}

/// Reads the names of the models whose weights a node already stores.
fn cached(fields: &Fields<'_>, world: &mut World, report: &mut Report) -> Vec<Arc<str>> {
    let items = fields.items("cached", "the name of a model", report);
    let full = |(typed, span): (&str, Span)| {
        world.cached.push((typed.to_string(), span));
        Arc::from(catalog::model(typed).map_or(typed, |model| model.name))
    };
    items.into_iter().map(full).collect()
}

fn entry(tree: &Tree, base: &Base, world: &mut World, report: &mut Report) {
    let mut known = FIELDS.to_vec();
    known.extend(machines::FIELDS);
    let Some(fields) = Fields::read_with(tree, "a node", &known, elsewhere, report) else { return };
    let name_tree = fields.require("name", "alpha", report);
    let shape = Arc::new(machines::shape(&fields, &base.machines, report));
    let Some((name_tree, name)) = name_tree.and_then(|tree| Some((tree, name(tree, report)?))) else { return };
    declare(&fields, (name_tree, name), shape, base, world, report);
}

/// Adds a node to the world, or `count` copies of it.
pub(super) fn declare(
    fields: &Fields<'_>,
    (name_tree, name): (&Tree, &str),
    shape: Arc<NodeShape>,
    base: &Base,
    world: &mut World,
    report: &mut Report,
) {
    let state = fields.word("state", "a state of a node", &NODE_STATES, report).unwrap_or(NodeState::Ready);
    if let Err(excess) = shape.check_size() {
        return report.error_with_help(
            name_tree.span,
            excess,
            "write the real size of the machine; `dryrack catalog machines` lists examples",
        );
    }
    let gpus = gpus(fields, name, &shape, report);
    let is_typed = fields.get("state").is_some_and(|tree| report.is_typed(tree.span));
    let files = ModelFiles {
        cached: cached(fields, world, report),
        bandwidth: self::bandwidth(fields, report).or(base.bandwidth),
    };
    let names: Vec<Arc<str>> = match fields.get("count") {
        None => vec![Arc::from(name)],
        Some(tree) => {
            // If the number is invalid, one copy represents the whole entry in later checks.
            let mut count = fields.value("count", report).unwrap_or(1u32);
            if world.nodes.len() + count as usize > MAX_NODES {
                let message = format!("more than {MAX_NODES} nodes");
                report.error_with_help(tree.span, message, "rehearse a part of the fleet");
                count = 1;
            }
            world.groups.insert(name.to_string());
            copies(name, count).collect()
        }
    };
    world.has_power |= shape.power.is_some();
    // Register the GPU types even if `count` is 0, so that jobs may ask for them.
    world.gpu_types.extend(shape.gpus.iter().map(|gpu| Arc::clone(&gpu.model)));
    world.shapes_without_nodes.extend(names.is_empty().then(|| Arc::clone(&shape)));
    for name in names {
        if world.node_names.add(Arc::clone(&name)).is_err() {
            let message = format!("two nodes are named `{name}`");
            report.error_with_help(name_tree.span, message, "give each node a different name, or use `count:`");
            return;
        }
        let node = NodeId::new(world.nodes.len());
        world.stated.extend(is_typed.then_some(Stated::Node(node)));
        world.stated.extend(typed_gpus(fields, node, report));
        let spec = NodeSpec { name, shape: Arc::clone(&shape) };
        world.nodes.push(InitialNode { spec, state, gpus: gpus.clone(), files: files.clone() });
    }
}

/// Reads the GPUs that are not both ready and free at the start: `gpu_states: {0: degraded}`, `foreign: {0: {memory:
/// 20GiB}}`.
fn gpus(fields: &Fields<'_>, node: &str, shape: &NodeShape, report: &mut Report) -> Vec<(u16, GpuState, Foreign)> {
    let mut gpus: BTreeMap<u16, (GpuState, Foreign)> = BTreeMap::new();
    let idle = (GpuState::Ready, Foreign::NONE);
    for (index, tree) in by_gpu(fields, "gpu_states", node, shape, report) {
        if let Some(state) = word(tree, "a state of a GPU", &GPU_STATES, report) {
            gpus.entry(index).or_insert(idle).0 = state;
        }
    }
    for (index, tree) in by_gpu(fields, "foreign", node, shape, report) {
        let memory = shape.gpus[usize::from(index)].memory;
        if let Some(use_by_others) = foreign(tree, memory, report) {
            gpus.entry(index).or_insert(idle).1 = use_by_others;
        }
    }
    gpus.into_iter().map(|(index, (state, foreign))| (index, state, foreign)).collect()
}

/// What the command line states of the GPUs of a node.
fn typed_gpus(fields: &Fields<'_>, node: NodeId, report: &Report) -> Vec<Stated> {
    let typed = |key: &str| {
        let entries = match fields.get(key).map(|tree| &tree.node) {
            Some(Node::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        let of_command_line = entries.iter().filter(|entry| report.is_typed(entry.value.span));
        let gpus = of_command_line.filter_map(|entry| Some(GpuId { node, index: entry.key.parse().ok()? }));
        gpus.collect::<Vec<GpuId>>()
    };
    let states = typed("gpu_states").into_iter().map(Stated::Gpu);
    states.chain(typed("foreign").into_iter().map(Stated::Foreign)).collect()
}

fn by_gpu<'t>(
    fields: &Fields<'t>,
    key: &str,
    node: &str,
    shape: &NodeShape,
    report: &mut Report,
) -> Vec<(u16, &'t Tree)> {
    let Some(tree) = fields.get(key) else { return Vec::new() };
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected a map from GPU indexes for `{key}`, found {}", tree.kind());
        let example = if key == "foreign" { "{0: {memory: 20GiB}}" } else { "{0: degraded}" };
        report.error_with_help(tree.span, message, format!("write `{key}: {example}`"));
        return Vec::new();
    };
    let found = entries.iter().filter_map(|entry| {
        let index = gpu_index(node, shape, &entry.key, entry.key_span, report)?;
        Some((index, &entry.value))
    });
    found.collect()
}

/// Reads `{memory: 20GiB, share: 80%}` for a GPU with `capacity` bytes of memory.
pub(super) fn foreign(tree: &Tree, capacity: Bytes, report: &mut Report) -> Option<Foreign> {
    let fields = Fields::read(tree, "foreign use", &["memory", "share"], report)?;
    if !fields.has("memory") && !fields.has("share") {
        report.error_with_help(
            tree.span,
            "the amount that others hold is missing",
            "write `{memory: 20GiB, share: 80%}`",
        );
        return None;
    }
    let memory = fields.value::<Bytes>("memory", report).unwrap_or(Bytes::ZERO);
    if memory > capacity {
        let span = fields.get("memory").map_or(tree.span, |tree| tree.span);
        let message = format!("others hold {memory}, but the GPU has {capacity}");
        report.error_with_help(span, message, format!("write {capacity} or less"));
    }
    let share = match fields.get("share") {
        Some(tree) => value::<GpuShare>(tree, report)?,
        None => GpuShare::ZERO,
    };
    Some(Foreign { share, memory })
}
