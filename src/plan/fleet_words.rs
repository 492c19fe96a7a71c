//! The machines of an answer in words, as the scenario names them.

use std::collections::BTreeSet;

use super::breaks::{called, kinds};
use super::node_kinds::entries;
use super::summary::Row;
use dryrack_engine::Rehearsal;
use dryrack_scenario::Objective;
use dryrack_units::{counted, grouped};
use dryrack_yaml::{Node, Report, Tree, parse};

/// The fleet of an alternative, such as `2 x a100-80g-x8, 16 GPUs` or `no node of its own, up to 9 x a100-80g-x8 rented at a
/// time`. Empty if there is nothing to name.
pub fn fleet_words(rehearsal: &Rehearsal, row: &Row, objective: Option<Objective>) -> String {
    let mut report = Report::default();
    let source = report.add_source("the scenario", &*rehearsal.source);
    let tree = parse(&rehearsal.source, source, &mut report);
    let entries = tree.as_ref().map_or(Vec::new(), |tree| entries(tree, rehearsal));
    let machine = |kind: &str| {
        let entry = entries.iter().find(|entry| called(entry.shape) == kind)?;
        entry.tree.get("machine").and_then(Tree::scalar)
    };
    let kinds = kinds(rehearsal);
    let mut parts: Vec<String> = (kinds.iter())
        .map(|kind| match machine(&kind.called) {
            Some(machine) => format!("{} x {machine}", kind.count),
            None => format!("{} with {}", counted(kind.count, "node"), kind.called),
        })
        .collect();
    let named: usize = kinds.iter().map(|kind| kind.count).sum();
    let rest = (row.fleet.nodes as usize).saturating_sub(named);
    parts.extend((rest > 0).then(|| counted(rest, "other node")));
    if parts.is_empty() && row.rented.is_some() {
        parts.push("no node of its own".to_string());
    }
    // A number of GPUs that is minimized follows anyway.
    let gpus = if objective == Some(Objective::Gpus) { 0 } else { row.fleet.gpus };
    parts.extend((gpus > 0).then(|| format!("{} GPU{}", grouped(&gpus.to_string()), if gpus == 1 { "" } else { "s" })));
    parts.extend(row.rented.map(|rented| {
        let offers = tree.as_ref().map_or(Vec::new(), offers);
        let of = if offers.is_empty() { String::new() } else { format!(" x {}", offers.join(" or ")) };
        format!("up to {}{of} rented at a time", grouped(&rented.instances.to_string()))
    }));
    parts.join(", ")
}

/// The machines that the fleets of instances offer.
fn offers(tree: &Tree) -> Vec<String> {
    let Some(Node::Map(fleets)) = tree.get("fleets").map(|fleets| &fleets.node) else { return Vec::new() };
    let lists = fleets.iter().filter_map(|fleet| match fleet.value.get("offers").map(|offers| &offers.node) {
        Some(Node::List(offers)) => Some(offers),
        _ => None,
    });
    let machines: BTreeSet<String> =
        (lists.flatten()).filter_map(|offer| offer.get("machine").and_then(Tree::scalar).map(str::to_string)).collect();
    machines.into_iter().collect()
}
