//! The order of a trace's tasks and nodes, if a scenario changes it.
//!
//! `tune` follows the rule of kubernetes-scheduler-simulator (8f3d641):
//!
//! - The tasks are sorted by name and shuffled.
//! - Copies of randomly drawn tasks follow, until all tasks together would ask for more than the given part of the
//!   nodes' GPUs. If they already ask for more at the start, randomly drawn tasks are left out instead.
//! - As in that program, the limit is compared with the total plus the part that the next copy takes of *each* of its
//!   GPUs.
//!
//! dryrack draws from its own random streams, so an order differs from that of the program with the same seed. The
//! program's own orders can be read from files (`order`, `ranks`).

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::settings::{ReadContext, TraceSettings};
use dryrack_ids::NameTable;
use dryrack_rng::Stream;
use dryrack_trace::{NodeTrace, TaskTrace, TraceNode, TraceTask, open_file};
use dryrack_yaml::{Report, Span};

/// Names of tasks, with their indices in the list. A copy has a separate name.
pub(super) struct Order(pub Vec<(Arc<str>, usize)>);

/// Separates the name of a task from the number of its copy.
const COPY: &str = "-tuned-";

/// The tasks in the order that the scenario asks for; `None` if it asks for none.
pub(super) fn tasks(
    tasks: &TaskTrace,
    gpus: u64,
    asked: &TraceSettings<'_>,
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> Option<Option<Order>> {
    match (asked.order, asked.tune) {
        (Some((typed, span)), _) => Some(Some(read_order(tasks, (typed, span), setting, report)?)),
        (None, Some(part)) => {
            let target = gpus * u64::from(part.get());
            Some(Some(tuned(tasks, target, &mut setting.stream("order of a trace"))))
        }
        (None, None) => Some(None),
    }
}

/// The nodes in the order that the scenario asks for, or else in the order of the trace.
pub(super) fn nodes(
    nodes: NodeTrace,
    asked: &TraceSettings<'_>,
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> Option<Vec<TraceNode>> {
    let mut nodes = nodes.nodes;
    match (asked.ranks, asked.tune) {
        (Some((typed, span)), _) => {
            let ranks = read_ranks(&nodes, (typed, span), setting, report)?;
            let mut ranked: Vec<(u32, TraceNode)> = ranks.into_iter().zip(nodes).collect();
            ranked.sort_by_key(|(rank, _)| *rank);
            Some(ranked.into_iter().map(|(_, node)| node).collect())
        }
        (None, Some(_)) => {
            nodes.sort_by(|a, b| a.name.cmp(&b.name));
            shuffle(&mut nodes, &mut setting.stream("order of a trace's nodes"));
            Some(nodes)
        }
        (None, None) => Some(nodes),
    }
}

/// Shuffles the items. All orders are equally likely (Fisher and Yates; Knuth, *The Art of Computer Programming* 2,
/// 3.4.2, P).
fn shuffle<T>(items: &mut [T], stream: &mut Stream) {
    for last in (1..items.len()).rev() {
        items.swap(last, stream.index(last + 1));
    }
}

fn gpu_milli(task: &TraceTask) -> (u64, u64) {
    let each =
        if task.gpus.unwrap_or(0) == 0 { 0 } else { task.gpu_share.map_or(1000, |share| u64::from(share.get())) };
    (each, each * u64::from(task.gpus.unwrap_or(0)))
}

/// Adds or leaves out tasks until they ask for `target`, in thousandths of a GPU.
fn tuned(tasks: &TaskTrace, target: u64, stream: &mut Stream) -> Order {
    let mut by_name: Vec<usize> = (0..tasks.tasks.len()).collect();
    by_name.sort_by(|a, b| tasks.tasks[*a].name.cmp(&tasks.tasks[*b].name));
    let mut order = by_name.clone();
    shuffle(&mut order, stream);
    let named = |task: usize| (Arc::from(tasks.tasks[task].name.as_str()), task);
    let mut total: u64 = order.iter().map(|task| gpu_milli(&tasks.tasks[*task]).1).sum();
    while total > target && !order.is_empty() {
        total -= gpu_milli(&tasks.tasks[order.remove(stream.index(order.len()))]).1;
    }
    let mut order: Vec<(Arc<str>, usize)> = order.into_iter().map(named).collect();
    let is_any = by_name.iter().any(|task| gpu_milli(&tasks.tasks[*task]).1 > 0);
    for number in 0.. {
        if !is_any || total >= target {
            break;
        }
        let task = *stream.pick(&by_name);
        let (each, all) = gpu_milli(&tasks.tasks[task]);
        if total + each > target {
            break;
        }
        total += all;
        order.push((Arc::from(format!("{}{COPY}{number}", tasks.tasks[task].name)), task));
    }
    Order(order)
}

/// Reads the text of a small file.
fn read_lines(path: &Path, span: Span, report: &mut Report) -> Option<String> {
    let mut text = String::new();
    let read = open_file(path)
        .and_then(|mut file| file.read_to_string(&mut text).map_err(|source| trace_unreadable(path, source)));
    match read {
        Ok(_) => Some(text),
        Err(fault) => {
            report.error_with_help(span, fault.to_string(), "the file must be a readable text file");
            None
        }
    }
}

fn trace_unreadable(path: &Path, source: std::io::Error) -> dryrack_trace::TraceError {
    dryrack_trace::TraceError::Unreadable { file: path.to_path_buf(), line: 1, source }
}

/// Reads one task name per line; a copy has the suffix `-tuned-` and a number.
fn read_order(
    tasks: &TaskTrace,
    (typed, span): (&str, Span),
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> Option<Order> {
    let path = setting.find(typed, span, report)?;
    let text = read_lines(&path, span, report)?;
    let place = |number: usize| format!("{}:{}", path.display(), number + 1);
    let known: HashMap<&str, usize> =
        tasks.tasks.iter().enumerate().map(|(index, task)| (task.name.as_str(), index)).collect();
    let mut names = NameTable::default();
    let mut order = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let original = match line.rsplit_once(COPY) {
            Some((original, copy)) if copy.bytes().all(|byte| byte.is_ascii_digit()) => original,
            _ => line,
        };
        let Some(task) = known.get(original) else {
            let names = tasks.tasks.iter().map(|task| task.name.as_str());
            report.unknown(span, format!("{}: no task is named `{original}`", place(number)), original, names);
            return None;
        };
        let name: Arc<str> = Arc::from(line);
        if names.add(Arc::clone(&name)).is_err() {
            let help = format!("each task can appear once; name a second copy `{original}{COPY}2`");
            report.error_with_help(span, format!("{}: `{line}` is listed twice", place(number)), help);
            return None;
        }
        order.push((name, *task));
    }
    Some(Order(order))
}

/// Reads `RANK NODE` from each line, with every node and every rank once. The result is in the order of `nodes`.
fn read_ranks(
    nodes: &[TraceNode],
    (typed, span): (&str, Span),
    setting: &ReadContext<'_>,
    report: &mut Report,
) -> Option<Vec<u32>> {
    let path = setting.find(typed, span, report)?;
    let text = read_lines(&path, span, report)?;
    let mut ranks: Vec<Option<u32>> = vec![None; nodes.len()];
    let index: HashMap<&str, usize> = nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
    let mut taken = std::collections::BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{}:{}", path.display(), number + 1);
        let parsed = line.split_once(' ').and_then(|(rank, node)| Some((rank.parse::<u32>().ok()?, node.trim())));
        let Some((rank, node)) = parsed else {
            let message = format!("{place}: expected a rank and the name of a node, found `{line}`");
            report.error_with_help(span, message, "write lines such as `17 openb-node-0003`");
            return None;
        };
        let Some(at) = index.get(node) else {
            let help = "the file must name the selected nodes: see `nodes` and `node_list`";
            report.error_with_help(span, format!("{place}: no node is named `{node}`"), help);
            return None;
        };
        if let Some(other) = taken.insert(rank, number) {
            let message = format!("{place}: rank {rank} is already used in line {}", other + 1);
            report.error_with_help(span, message, "give each node a different rank");
            return None;
        }
        if ranks[*at].replace(rank).is_some() {
            report.error_with_help(
                span,
                format!("{place}: `{node}` already has a rank"),
                "remove one of the two lines",
            );
            return None;
        }
    }
    if let Some(at) = ranks.iter().position(Option::is_none) {
        let message = format!("{} has no rank for `{}`", path.display(), nodes[at].name);
        report.error_with_help(span, message, "give every selected node a rank");
        return None;
    }
    Some(ranks.into_iter().flatten().collect())
}
