//! The smallest change that would let a waiting job fit.

use super::Tasks;
use dryrack_event::Reason;
use dryrack_ids::Names;
use dryrack_scheduler::{Decision, Examination, FilterName, NodeFinding};

/// The node with the fewest obstacles, and what they are. On a tie, the node that lacks the smallest shares wins, then
/// the node declared first. Nodes outside what the user asked for come last. If all picked nodes are needed, the text
/// lists every picked node that has an obstacle. `None` if the job fits.
pub(super) fn least_change(examination: &Examination, tasks: Tasks, names: &Names) -> Option<String> {
    if matches!(examination.decision, Decision::Place(_)) {
        return None;
    }
    let refused = || examination.nodes.iter().filter(|node| !node.verdict.is_fit());
    // A node without an obstacle was not examined, so nothing is known of what would help there.
    let is_known = |node: &&NodeFinding| !node.refusals.is_empty() || !node.shortages.is_empty();
    let missing = |node: &NodeFinding| node.shortages.iter().map(|short| short.missing.get()).sum::<u32>();
    let is_outside = |node: &NodeFinding| node.refusals.iter().any(|(_, reason)| if_asked_for(*reason).is_some());
    let key = |node: &&NodeFinding| (is_outside(node), parts(node).len(), missing(node), node.node);
    let nearest = || refused().filter(is_known).min_by_key(key);
    match tasks {
        Tasks::Untried => None,
        Tasks::One => nearest().map(|node| format!("{} would fit {}", names.node(node.node), obstacles(node))),
        Tasks::Gang => nearest().map(|node| format!("{} would fit a task {}", names.node(node.node), obstacles(node))),
        Tasks::EachPicked => {
            let picked = refused().filter(|node| node.verdict.reason() != Some(Reason::NotPicked));
            let parts: Vec<String> =
                picked.map(|node| format!("{} would fit {}", names.node(node.node), obstacles(node))).collect();
            (!parts.is_empty()).then(|| parts.join(", and "))
        }
    }
}

/// The condition under which a node would fit that is only outside what the user asked for. `None` for other reasons.
fn if_asked_for(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::NotPicked => Some("if picked"),
        Reason::PartitionMismatch => Some("as a node of the partition in which the job was tried"),
        Reason::OutsideReservation => Some("as a node of the job's reservation"),
        _ => None,
    }
}

/// Whether a refusal is one of the shortages of a node.
fn is_shortage(filter: &str, reason: Reason) -> bool {
    filter == FilterName::Resources.name() || (filter == "NodeResourcesFit" && reason != Reason::TooManyPods)
}

/// The obstacles on a node, such as `without node_not_ready and with 2 GPUs free instead of 1`.
fn obstacles(node: &NodeFinding) -> String {
    parts(node).join(" and ")
}

fn parts(node: &NodeFinding) -> Vec<String> {
    let mut parts: Vec<String> = (node.refusals.iter())
        .filter(|(filter, reason)| node.shortages.is_empty() || !is_shortage(filter, *reason))
        .map(|(_, reason)| match (*reason, node.taints.is_empty()) {
            (Reason::UntoleratedTaint, false) => format!("without the taint {}", node.taints.join(" and ")),
            (reason, _) => if_asked_for(reason).map_or_else(|| format!("without {reason}"), str::to_string),
        })
        .collect();
    parts.extend(
        (node.shortages.iter())
            .map(|short| format!("with {} free instead of {}", so_much(&short.needed, &short.resource), short.free)),
    );
    parts
}

/// A quantity in words, such as `1 GPU`, `2 GPUs` or `64GiB RAM`.
fn so_much(needed: &str, resource: &str) -> String {
    match (needed, resource) {
        ("1", "GPUs") => "1 GPU".to_string(),
        _ => format!("{needed} {resource}"),
    }
}
