//! The condition text of a pod that fits on no node.

use std::collections::BTreeMap;

use super::verdict::Reason;

/// `0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods`, without a full stop. The parts are sorted as texts.
pub fn histogram<'r>(nodes: usize, reasons: impl Iterator<Item = (&'r Reason, usize)>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (reason, count) in reasons.filter(|(_, count)| *count > 0) {
        *counts.entry(reason.to_string()).or_default() += count;
    }
    let mut parts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    match parts.is_empty() {
        true => format!("0/{nodes} nodes are available:"),
        false => format!("0/{nodes} nodes are available: {}.", parts.join(", ")),
    }
}
