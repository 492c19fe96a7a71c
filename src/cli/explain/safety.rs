//! The part of an explanation that is about placements that are not safe.

use std::collections::{BTreeMap, BTreeSet};

use dryrack_engine::PlacementReasons;
use dryrack_event::{Event, Record, RecordBody, Safety};
use dryrack_ids::{AttemptId, JobId, Names, NodeId};
use dryrack_units::SimTime;
use serde_json::{Value, json};

/// The number of events that are listed.
const SHOWN: usize = 5;

/// An event `safety_broken` that concerns the explained job.
struct Broken {
    at: SimTime,
    attempt: AttemptId,
    node: NodeId,
    what: Safety,
    /// Whether another job was placed where the explained one was.
    by_other: bool,
}

/// The placements of the job that were not safe, and those of other jobs that took too much of its nodes.
fn of_job(records: &[Record], job: JobId, until: SimTime) -> Vec<Broken> {
    let mut held: BTreeMap<AttemptId, BTreeSet<NodeId>> = BTreeMap::new();
    let mut broken = Vec::new();
    for record in records.iter().take_while(|record| record.at <= until) {
        let RecordBody::Event(event) = &record.said else { continue };
        match event {
            Event::SafetyBroken { attempt, node, what } => {
                let is_beside = || *what == Safety::Overcommit && held.values().any(|nodes| nodes.contains(node));
                let by_other = attempt.job != job;
                if !by_other || is_beside() {
                    broken.push(Broken { at: record.at, attempt: *attempt, node: *node, what: *what, by_other });
                }
            }
            Event::Placed { attempt, placement, .. } if attempt.job == job => {
                held.insert(*attempt, placement.claims().iter().map(|claim| claim.node).collect());
            }
            Event::Ended { attempt, .. } => {
                held.remove(attempt);
            }
            _ => {}
        }
    }
    broken
}

/// The last of these events until then; empty if there were none.
pub fn human(records: &[Record], job: JobId, until: SimTime, names: &Names) -> String {
    let broken = of_job(records, job, until);
    let last = &broken[broken.len().saturating_sub(SHOWN)..];
    if last.is_empty() {
        return String::new();
    }
    let line = |broken: &Broken| {
        let beside = if broken.by_other { ", where this job was" } else { "" };
        let (attempt, what, node) = (names.attempt(broken.attempt), broken.what.name(), names.node(broken.node));
        format!("  {}  {attempt:<20} {what} on {node}{beside}\n", broken.at)
    };
    let lines: Vec<String> = last.iter().map(line).collect();
    let which = if last.len() < broken.len() {
        format!(", {} times; the last {}", broken.len(), last.len())
    } else {
        String::new()
    };
    format!("\nSAFETY BROKEN{which}:\n{}", lines.concat())
}

pub fn as_json(records: &[Record], job: JobId, until: SimTime, names: &Names) -> Value {
    let value = |broken: Broken| {
        json!({
            "at_seconds": broken.at.as_secs_f64(), "run": names.attempt(broken.attempt), "what": broken.what.name(),
            "node": names.node(broken.node),
        })
    };
    of_job(records, job, until).into_iter().map(value).collect()
}

/// Text such as `alpha (node_maintenance)` for the nodes of a place that were not suitable. Only a scheduler in another process,
/// or a historic profile, chooses such nodes.
pub(super) fn unsuitable(here: &PlacementReasons, names: &Names) -> Option<String> {
    let of_place = here.examination.nodes.iter().filter(|node| here.placement.touches(node.node));
    let refused = of_place.filter_map(|node| Some(format!("{} ({})", names.node(node.node), node.verdict.reason()?)));
    let texts: Vec<String> = refused.take(SHOWN).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}
