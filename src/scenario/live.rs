//! Settings of a scenario for a run on a real machine: the commands of its jobs, and the CPU shares that stand in for
//! accelerators.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::world::World;
use dryrack_ids::NodeId;
use dryrack_live::{Shares, StandInGpu};
use dryrack_units::{MilliCpu, Permille, SimDuration};
use dryrack_workload::{DEFAULT_GRACE, Launch};
use dryrack_yaml::{Entry, Fields, Node, Report, Tree, text, value};

/// Fields of a job that state the real process to run.
pub(super) const JOB_FIELDS: [&str; 2] = ["command", "env"];

/// Reads `command: [python3, train.py]`, or one line for `/bin/sh -c`; `None` for a job without a command, which can
/// only be rehearsed.
pub(super) fn launch(fields: &Fields<'_>, report: &mut Report) -> Option<Arc<Launch>> {
    let Some(tree) = fields.get("command") else {
        if fields.has("env") {
            let help = "add `command: [python3, train.py]`, or leave `env` out";
            report.error_with_help(fields.key_span("env"), "`env` needs a `command`", help);
        }
        return None;
    };
    let arguments = match &tree.node {
        Node::List(items) => {
            let words = items.iter().map(|item| text(item, "a word of the command", report).map(Arc::from));
            words.collect::<Option<Vec<Arc<str>>>>()?
        }
        Node::Scalar { .. } | Node::Map(_) => {
            let line = text(tree, "a command such as `[python3, train.py]`", report)?;
            if line.trim().is_empty() { Vec::new() } else { ["/bin/sh", "-c", line].map(Arc::from).to_vec() }
        }
    };
    if arguments.first().is_none_or(|program| program.is_empty()) {
        report.error_with_help(tree.span, "the command is empty", "write `[python3, train.py]`");
        return None;
    }
    if arguments.iter().any(|argument| argument.contains('\0')) {
        report.error_with_help(tree.span, "a word of the command contains a zero byte", "remove it");
        return None;
    }
    let place = report.place(fields.key_span("command"));
    Some(Arc::new(Launch { arguments, environment: fields.labels("env", report), grace: grace(fields, report), place }))
}

/// Reads `stop_duration`, or its default for a job with a command. Errors in it are reported elsewhere.
fn grace(fields: &Fields<'_>, report: &mut Report) -> Option<SimDuration> {
    match fields.get("stop_duration") {
        None => Some(DEFAULT_GRACE),
        Some(tree) if matches!(tree.scalar(), Some("off")) => None,
        Some(tree) => value(tree, &mut Report::default()).or_else(|| value(tree, report)),
    }
}

/// Reads `live: {accelerators: {here: [{cores: [0], cpu: 1}]}, oversubscribe: 150%}`.
pub(super) fn shares(file: &Fields<'_>, world: &World, report: &mut Report) -> Shares {
    let mut shares = Shares::default();
    let Some(tree) = file.get("live") else { return shares };
    let Some(fields) = Fields::read(tree, "a live run", &["accelerators", "oversubscribe"], report) else {
        return shares;
    };
    let most = fields.value::<Permille>("oversubscribe", report).unwrap_or(Permille::new(1000));
    for entry in fields.get("accelerators").map_or(&[][..], |tree| entries(tree, report)) {
        let Some(index) = world.node_names.find(&entry.key) else {
            let names = world.node_names.iter().map(|name| &**name);
            report.unknown(entry.key_span, format!("no node is named `{}`", entry.key), &entry.key, names);
            continue;
        };
        let found: Option<Vec<StandInGpu>> =
            list_of(&entry.value, report).iter().map(|tree| share(tree, report)).collect();
        let gpus = world.nodes[index].spec.shape.gpus.len();
        match found {
            Some(found) if found.len() == gpus => shares.set(NodeId::new(index), found),
            Some(found) => {
                let message =
                    format!("found {} CPU shares for the {gpus} accelerators of `{}`", found.len(), entry.key);
                report.error_with_help(
                    entry.value.span,
                    message,
                    format!("write {gpus} of them, one for each accelerator"),
                );
            }
            None => {}
        }
    }
    if let Some(found) = oversubscription(&shares).filter(|found| *found > most) {
        let message = format!("the shares take up to {found} of their cores, but the limit is {most}");
        report.error_with_help(tree.span, message, format!("add `oversubscribe: {found}`, or make them smaller"));
    }
    shares
}

fn entries<'t>(tree: &'t Tree, report: &mut Report) -> &'t [Entry] {
    match &tree.node {
        Node::Map(entries) => entries,
        Node::List(_) | Node::Scalar { .. } => {
            let message = format!("expected a map from nodes to CPU shares, found {}", tree.kind());
            report.error_with_help(tree.span, message, "write `{here: [{cores: [0], cpu: 1}]}`");
            &[]
        }
    }
}

fn list_of<'t>(tree: &'t Tree, report: &mut Report) -> &'t [Tree] {
    match &tree.node {
        Node::List(items) => items,
        Node::Map(_) | Node::Scalar { .. } => {
            let message = format!("expected a list of CPU shares, found {}", tree.kind());
            report.error_with_help(tree.span, message, "write `[{cores: [0], cpu: 1}]`");
            &[]
        }
    }
}

fn share(tree: &Tree, report: &mut Report) -> Option<StandInGpu> {
    let fields = Fields::read(tree, "a CPU share", &["cores", "cpu"], report)?;
    let cores = fields.require("cores", "[0]", report)?;
    let mut numbers: Vec<u16> = match &cores.node {
        Node::List(items) => items.iter().map(|item| value::<u16>(item, report)).collect::<Option<_>>()?,
        Node::Scalar { .. } | Node::Map(_) => vec![value::<u16>(cores, report)?],
    };
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.is_empty() {
        report.error_with_help(cores.span, "the CPU share has no core", "write `[0]`");
        return None;
    }
    let whole = MilliCpu::from_cores(numbers.len() as u64);
    let cpu = if fields.has("cpu") { fields.value::<MilliCpu>("cpu", report)? } else { whole };
    if cpu == MilliCpu::ZERO || cpu > whole {
        let message = format!("a CPU share of {cpu} cores is not possible on {}", numbers.len());
        report.error_with_help(fields.key_span("cpu"), message, format!("write more than 0 and at most {whole}"));
        return None;
    }
    Some(StandInGpu { cores: numbers, cpu })
}

/// For each set of cores, the ratio of the promised CPU to the number of cores. Returns the largest ratio.
fn oversubscription(shares: &Shares) -> Option<Permille> {
    let sets: BTreeMap<Vec<u16>, u64> = shares.iter().fold(BTreeMap::new(), |mut sets, share| {
        *sets.entry(share.cores.clone()).or_default() += share.cpu.get();
        sets
    });
    let all: Vec<u16> = sets.keys().flatten().copied().collect::<BTreeSet<u16>>().into_iter().collect();
    let within = |cores: &[u16]| {
        let promised: u64 =
            sets.iter().filter(|(set, _)| set.iter().all(|core| cores.contains(core))).map(|(_, cpu)| cpu).sum();
        let permille = promised.div_ceil((cores.len() as u64).max(1));
        Permille::new(u32::try_from(permille).unwrap_or(u32::MAX))
    };
    sets.keys().chain((!all.is_empty()).then_some(&all)).map(|cores| within(cores)).max()
}
