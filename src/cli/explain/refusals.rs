//! Why the nodes of an examination refuse a job: the counted reasons, and the table of nodes.

use dryrack_event::{Histogram, Reason};
use dryrack_ids::Names;
use dryrack_report::table;
use dryrack_scheduler::{Decision, Examination, NodeFinding};

/// The number of candidates and nodes shown, because a fleet may have thousands.
pub(super) const SHOWN: usize = 10;

/// A line such as `  3 nodes  node_not_ready  not ready` for each reason, the most frequent reason first. If the nodes were
/// examined, the line also says what else they lack, such as `too little CPU is free; 3 nodes also lack GPUs`: a node is
/// counted under the first reason only, so the reason alone would blame CPUs where GPUs are missing too.
pub(super) fn refusals(reasons: &Histogram, examined: Option<&Examination>) -> String {
    let line = |(reason, count): (Reason, u32)| {
        format!(
            "  {count:>5} {}  {:<24} {}{}\n",
            if count == 1 { "node " } else { "nodes" },
            reason.name(),
            reason.text(),
            examined.map_or(String::new(), |examined| also_lacked(reason, examined))
        )
    };
    reasons.iter().map(line).collect()
}

/// Text such as `; 3 nodes also lack GPUs`: what else is short on the nodes that are counted under CPU or RAM. Empty if
/// nodes are counted under each reason that they give, as in Kubernetes.
fn also_lacked(reason: Reason, examined: &Examination) -> String {
    let own = match reason {
        Reason::InsufficientCpu => "CPU",
        Reason::InsufficientRam => "RAM",
        _ => return String::new(),
    };
    let mut others: Vec<(&str, usize)> = Vec::new();
    let gives_others = |node: &NodeFinding| node.refusals.iter().any(|(_, other)| *other != reason && is_short(*other));
    let counted = examined.nodes.iter().filter(|node| node.verdict.reason() == Some(reason) && !gives_others(node));
    for short in counted.flat_map(|node| &node.shortages).filter(|short| short.resource != own) {
        match others.iter_mut().find(|(resource, _)| *resource == short.resource) {
            Some((_, nodes)) => *nodes += 1,
            None => others.push((&short.resource, 1)),
        }
    }
    let part = |(resource, nodes): &(&str, usize)| match nodes {
        1 => format!("; 1 node also lacks {resource}"),
        _ => format!("; {nodes} nodes also lack {resource}"),
    };
    others.iter().map(part).collect()
}

/// Whether the reason is that a resource of the node is short.
fn is_short(reason: Reason) -> bool {
    use Reason::{
        InsufficientCpu, InsufficientGpuMemory, InsufficientGpuShare, InsufficientGpus, InsufficientRam,
        InsufficientResource,
    };
    matches!(
        reason,
        InsufficientCpu
            | InsufficientRam
            | InsufficientGpus
            | InsufficientGpuShare
            | InsufficientGpuMemory
            | InsufficientResource
    )
}

/// The nodes of a decision that refuses a job.
pub(super) fn node_table(examination: &Examination, names: &Names) -> String {
    let is_of_gang = matches!(
        &examination.decision,
        Decision::Refuse { reasons, .. } if reasons.contains(Reason::GangIncomplete)
    );
    let of_fit = if is_of_gang { Reason::GangIncomplete.name() } else { "no reason of its own" };
    let rows: Vec<Vec<String>> = (examination.nodes.iter().take(SHOWN))
        .map(|node| {
            let mut refusals: Vec<&str> = Vec::new();
            for (_, reason) in &node.refusals {
                if !refusals.contains(&reason.name()) {
                    refusals.push(reason.name());
                }
            }
            let said = match (refusals.is_empty(), node.verdict.reason()) {
                (true, None) => of_fit.to_string(),
                (true, Some(reason)) => reason.name().to_string(),
                (false, _) => refusals.join(", "),
            };
            vec![names.node(node.node).to_string(), said, shortages(node)]
        })
        .collect();
    let mut text = table(&["node", "refused because of", "lacks"], &rows);
    if examination.nodes.len() > SHOWN {
        text.push_str(&format!("and {} more nodes\n", examination.nodes.len() - SHOWN));
    }
    text
}

fn shortages(node: &NodeFinding) -> String {
    let taints = node.taints.iter().map(|taint| format!("a toleration of {taint}"));
    let parts =
        node.shortages.iter().map(|short| format!("{}: {} free, {} needed", short.resource, short.free, short.needed));
    taints.chain(parts).collect::<Vec<_>>().join("; ")
}
