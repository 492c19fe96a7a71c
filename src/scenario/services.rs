//! Services that scale: converts `replicas: 1..4` and `scaling:` for the control plane, and `requests:` for the
//! simulated world.

use super::lengths::positive;
use dryrack_units::{RequestRate, SimDuration};
use dryrack_workload::{Bounds, Requests, Scaling, parse_range};
use dryrack_yaml::{Fields, Node, Report, Tree, value};

/// Fields of `scaling:`, as in dstack.
const SCALING_FIELDS: [&str; 5] = ["metric", "target", "window", "scale_up_delay", "scale_down_delay"];
const METRICS: [(&str, ()); 1] = [("rps", ())];

/// Defaults of the fields.
///
/// Source: dstack 0.22.5, the defaults of a service's scaling.
const WINDOW: SimDuration = SimDuration::from_secs(60);
const SCALE_UP_DELAY: SimDuration = SimDuration::from_secs(300);
const SCALE_DOWN_DELAY: SimDuration = SimDuration::from_secs(600);

/// Reads the initial number of replicas of a job, and its scaling if the number can change.
pub(super) fn replicas(fields: &Fields<'_>, report: &mut Report) -> (u32, Option<Scaling>) {
    let is_range = fields.get("replicas").is_some_and(|tree| {
        matches!(tree.node, Node::Map(_)) || tree.scalar().is_some_and(|typed| typed.contains(".."))
    });
    if !is_range {
        if fields.has("scaling") {
            let help = "write `replicas: 1..4`, or leave `scaling` out";
            report.error_with_help(fields.key_span("scaling"), "a fixed number of replicas cannot scale", help);
        }
        return (fields.count("replicas", 1, report).unwrap_or(1), None);
    }
    let Some((min, max)) = fields.get("replicas").and_then(|tree| range(tree, report)) else { return (1, None) };
    if min == max && !fields.has("scaling") {
        return (min, None);
    }
    if min == max {
        let help = "write `replicas: 1..4`, or leave `scaling` out";
        report.error_with_help(fields.key_span("scaling"), "a fixed number of replicas cannot scale", help);
        return (min, None);
    }
    let scaling = match fields.get("scaling") {
        Some(tree) => scaling(tree, (min, max), report),
        None => {
            let help = "add `scaling: {metric: rps, target: 10}`";
            report.error_with_help(fields.key_span("replicas"), "the scaling rule of this service is missing", help);
            None
        }
    };
    (min, scaling)
}

/// Reads `1..4`, or `{min: 1, max: 4}`.
fn range(tree: &Tree, report: &mut Report) -> Option<(u32, u32)> {
    let bounds = match &tree.node {
        Node::Map(_) => {
            let fields = Fields::read(tree, "a range of replicas", &["min", "max"], report)?;
            Bounds { min: fields.value::<u32>("min", report), max: fields.value::<u32>("max", report) }
        }
        _ => match parse_range::<u32>(tree.scalar()?) {
            Ok(bounds) => bounds,
            Err(error) => {
                report.error_with_help(tree.span, error.to_string(), "write `1..4`");
                return None;
            }
        },
    };
    let (Some(max), min) = (bounds.max, bounds.min.unwrap_or(0)) else {
        report.error_with_help(tree.span, "the largest number of replicas is missing", "write `1..4`");
        return None;
    };
    if min > max || max == 0 {
        let message = if max == 0 {
            "a service must have at least one replica"
        } else {
            "the smallest number of replicas is above the largest"
        };
        report.error_with_help(tree.span, message, "write `1..4`");
        return None;
    }
    Some((min, max))
}

fn scaling(tree: &Tree, (min, max): (u32, u32), report: &mut Report) -> Option<Scaling> {
    let fields = Fields::read(tree, "a scaling", &SCALING_FIELDS, report)?;
    fields.require("metric", "rps", report);
    fields.word("metric", "a metric", &METRICS, report);
    let target = fields.require("target", "10", report).and_then(|tree| value::<RequestRate>(tree, report))?;
    if target == RequestRate::ZERO {
        let help = "write `target: 10`";
        report.error_with_help(fields.key_span("target"), "the target of a replica must be above 0", help);
        return None;
    }
    let window = fields.get("window").map_or(Some(WINDOW), |tree| positive(tree, report))?;
    let delay = |key: &str, usual, report: &mut Report| fields.value(key, report).unwrap_or(usual);
    let scale_up_delay = delay("scale_up_delay", SCALE_UP_DELAY, report);
    let scale_down_delay = delay("scale_down_delay", SCALE_DOWN_DELAY, report);
    Some(Scaling { min, max, target, window, scale_up_delay, scale_down_delay })
}

/// Reads `20`, or `[{at: 10m, rps: 20}, ...]`; times are relative to the job's submission.
pub(super) fn requests(fields: &Fields<'_>, scales: bool, report: &mut Report) -> Option<Requests> {
    let Some(tree) = fields.get("requests") else {
        if scales {
            let message = "this service never scales, because its requests are missing";
            report.warning(fields.key_span("scaling"), message, "add `requests: [{at: 0s, rps: 20}]`");
        }
        return None;
    };
    if !scales && !report.has_errors() {
        let help = "add `replicas: 1..4` and `scaling: {metric: rps, target: 10}`";
        report.warning(fields.key_span("requests"), "`requests` has no effect on a job that does not scale", help);
    }
    let Node::List(steps) = &tree.node else {
        return value::<RequestRate>(tree, report).map(|rate| Requests(vec![(SimDuration::ZERO, rate)]));
    };
    let step = |step: &Tree, report: &mut Report| {
        let fields = Fields::read(step, "a number of requests", &["at", "rps"], report)?;
        let at = fields.require("at", "10m", report).and_then(|tree| value::<SimDuration>(tree, report));
        let rate = fields.require("rps", "20", report).and_then(|tree| value::<RequestRate>(tree, report));
        Some((at?, rate?))
    };
    let read: Vec<(SimDuration, RequestRate)> = steps.iter().filter_map(|tree| step(tree, report)).collect();
    if read.len() < steps.len() {
        return None;
    }
    let requests = Requests(read);
    if !requests.is_in_order() {
        report.error_with_help(tree.span, "requests that come before those above", "sort the entries by time");
        return None;
    }
    Some(requests)
}
