//! Faults and repairs: converts `faults:` to a list for the engine, in order of time.

use super::elsewhere::elsewhere;
use super::nodes::{GPU_STATES, foreign};
use super::world::World;
use dryrack_engine::{Fault, NodeTurn};
use dryrack_fleet::{Foreign, GpuState};
use dryrack_ids::GpuId;
use dryrack_units::{Bytes, SimTime};
use dryrack_yaml::{Fields, Report, Span, Tree};

pub(super) const NODE_TURNS: [(&str, NodeTurn); 6] = [
    ("ready", NodeTurn::Ready),
    ("not_ready", NodeTurn::NotReady),
    ("maintenance", NodeTurn::Maintenance),
    ("silent", NodeTurn::Silent),
    ("crashed", NodeTurn::Crashed),
    ("gone", NodeTurn::Gone),
];

/// Reads `faults:`. Faults at the same instant stay in the order of the file.
pub(super) fn read(
    file: &Fields<'_>,
    world: &World,
    until: Option<SimTime>,
    report: &mut Report,
) -> Vec<(SimTime, Fault)> {
    let mut faults = Vec::new();
    for tree in file.list("faults", report) {
        entry(tree, world, until, &mut faults, report);
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn entry(tree: &Tree, world: &World, until: Option<SimTime>, faults: &mut Vec<(SimTime, Fault)>, report: &mut Report) {
    let known = ["at", "node", "becomes", "foreign"];
    let Some(fields) = Fields::read_with(tree, "a fault", &known, elsewhere, report) else { return };
    let has_time = fields.require("at", "5m", report).is_some();
    let at = fields.value::<SimTime>("at", report);
    fields.require("node", "alpha", report);
    fields.exclusive(&["becomes", "foreign"], "a fault makes one change", report);
    if fields.lacks_all(&["becomes", "foreign"]) {
        let help = "add `becomes: not_ready`, or for a GPU `foreign: {memory: 20GiB}`";
        report.error_with_help(fields.place(), "the change is missing", help);
    }
    if let (Some(at), Some(until)) = (at, until)
        && at > until
    {
        let help = format!("write {until} or earlier, or a later `until`");
        report.warning(fields.key_span("at"), format!("the run stops at {until}, before this fault"), help);
    }
    let subjects = fields.items("node", "a node such as alpha, or a GPU such as alpha/0", report);
    let kinds: Vec<bool> = subjects.iter().map(|(typed, _)| typed.contains('/')).collect();
    if kinds.contains(&true) && kinds.contains(&false) {
        let help = "write one fault for the nodes and one for the GPUs";
        return report.error_with_help(fields.key_span("node"), "nodes and GPUs cannot be in one list", help);
    }
    let at = at.unwrap_or(SimTime::ZERO);
    let mut found: Vec<Fault> = Vec::new();
    if kinds.first() == Some(&true) {
        let gpus = subjects.iter().flat_map(|(typed, span)| world.gpus(typed, *span, report)).collect();
        found.extend(gpu_faults(&fields, gpus, world, report));
    } else {
        found.extend(node_faults(&fields, &subjects, world, report));
    }
    if has_time {
        faults.extend(found.into_iter().map(|fault| (at, fault)));
    }
}

fn node_faults(fields: &Fields<'_>, subjects: &[(&str, Span)], world: &World, report: &mut Report) -> Vec<Fault> {
    let nodes: Vec<_> = subjects.iter().flat_map(|(typed, span)| world.nodes(typed, *span, report)).collect();
    if let (true, Some((typed, _))) = (fields.has("foreign"), subjects.first()) {
        let help = format!("name the GPU: `node: {typed}/0`");
        report.error_with_help(fields.key_span("foreign"), "foreign use applies to a GPU, not to a node", help);
    }
    let is_gpu_word = |tree: &Tree| {
        let typed = tree.scalar().unwrap_or("");
        let known = NODE_TURNS.iter().any(|(name, _)| *name == typed);
        !known && GPU_STATES.iter().any(|(name, _)| *name == typed)
    };
    if let (Some(tree), Some((typed, _))) = (fields.get("becomes").filter(|tree| is_gpu_word(tree)), subjects.first()) {
        let message = format!("`{}` is a state of a GPU, not of a node", tree.scalar().unwrap_or(""));
        let turns: Vec<&str> = NODE_TURNS.iter().map(|(name, _)| *name).collect();
        let help = format!("name the GPU (`node: {typed}/0`), or write one of {}", turns.join(", "));
        report.error_with_help(tree.span, message, help);
        return Vec::new();
    }
    let becomes = turn(fields, report);
    becomes.map_or(Vec::new(), |becomes| nodes.into_iter().map(|node| Fault::Node { node, becomes }).collect())
}

/// Reads the new state of a node.
pub(super) fn turn(fields: &Fields<'_>, report: &mut Report) -> Option<NodeTurn> {
    let tree = fields.get("becomes")?;
    let meant = tree.scalar().and_then(|typed| TURNS_OF_OTHERS.iter().find(|(word, _)| *word == typed));
    match meant {
        Some((typed, help)) => {
            report.error_with_help(tree.span, format!("`{typed}` is not a new state of a node"), *help);
            None
        }
        None => fields.word("becomes", "a new state of a node", &NODE_TURNS, report),
    }
}

/// States of nodes in other programs, and what they are called here.
const TURNS_OF_OTHERS: [(&str, &str); 12] = [
    ("cordoned", "write `maintenance`"),
    ("deleted", "write `gone`"),
    ("down", STOPS),
    ("drained", "write `maintenance`"),
    ("draining", "write `maintenance`"),
    ("failed", "write `crashed`"),
    ("lost", "write `silent` (its tasks may go on, unseen) or `gone` (removed from the cluster)"),
    ("offline", STOPS),
    ("online", "write `ready`"),
    ("removed", "write `gone`"),
    ("unreachable", "write `silent`"),
    ("up", "write `ready`"),
];
const STOPS: &str =
    "write `crashed` (its tasks end), `silent` (they may go on, unseen) or `gone` (removed from the cluster)";

fn gpu_faults(fields: &Fields<'_>, gpus: Vec<GpuId>, world: &World, report: &mut Report) -> Vec<Fault> {
    if let Some(tree) = fields.get("foreign") {
        if tree.scalar() == Some("none") {
            return gpus.into_iter().map(|gpu| Fault::Foreign { gpu, foreign: Foreign::NONE }).collect();
        }
        let memory = |gpu: &GpuId| world.nodes[gpu.node.index()].spec.shape.gpus[usize::from(gpu.index)].memory;
        let least = gpus.iter().map(memory).min().unwrap_or(Bytes::new(u64::MAX));
        let foreign = foreign(tree, least, report);
        return foreign
            .map_or(Vec::new(), |foreign| gpus.iter().map(|gpu| Fault::Foreign { gpu: *gpu, foreign }).collect());
    }
    let becomes: Option<GpuState> = fields.word("becomes", "a state of a GPU", &GPU_STATES, report);
    becomes.map_or(Vec::new(), |becomes| gpus.into_iter().map(|gpu| Fault::Gpu { gpu, becomes }).collect())
}
