//! Jobs that run on instances: converts `resources:` and related fields to a demand.

use std::sync::Arc;

use super::resources;
use super::world::World;
use dryrack_units::Money;
use dryrack_workload::{CreationPolicy, Demand, Requirements, SpotPolicy};
use dryrack_yaml::{Fields, Node, Report, Span, list};

/// The fields of a job that has `resources`.
pub(super) const FIELDS: [&str; 8] =
    ["resources", "nodes", "max_price", "spot_policy", "backends", "regions", "fleets", "creation_policy"];

pub(super) const SPOT_POLICIES: [(&str, SpotPolicy); 3] =
    [("spot", SpotPolicy::Spot), ("on-demand", SpotPolicy::OnDemand), ("auto", SpotPolicy::Auto)];
pub(super) const CREATION_POLICIES: [(&str, CreationPolicy); 2] =
    [("reuse", CreationPolicy::Reuse), ("reuse-or-create", CreationPolicy::ReuseOrCreate)];

/// Fields that do not apply to such a job, or that would state a requirement in a second way.
const OTHERS: [&str; 13] = [
    "tasks",
    "gang",
    "gpus",
    "gpu",
    "gpu_memory",
    "min_gpu_memory",
    "cpus",
    "ram",
    "labels",
    "os",
    "arch",
    "on",
    "pick_gpus",
];

/// Reads the demand of a job that has `resources` or one of the related fields.
pub(super) fn read(fields: &Fields<'_>, world: &mut World, report: &mut Report) -> Option<Demand> {
    let given: Vec<&str> =
        FIELDS.into_iter().filter(|key| fields.has(key) && (*key != "nodes" || fields.has("resources"))).collect();
    let first = *given.first()?;
    let Some(tree) = fields.get("resources") else {
        let message = format!("{} works only for a job with `resources`", list(given.iter().copied()));
        report.error_with_help(fields.key_span(first), message, "add `resources: {gpu: 1}`");
        return None;
    };
    for key in OTHERS.into_iter().filter(|key| fields.has(key)) {
        let message = format!("`{key}` has no effect with `resources`");
        let help = "keep one of the two: `resources` asks for instances of fleets, and the other fields ask for nodes";
        report.error_with_help(fields.key_span(key), message, help);
    }
    // dstack then finds no offer or no fleet (`regions is not None`), which nobody wants who writes the key.
    for (key, what) in [("backends", "backend"), ("regions", "region"), ("fleets", "fleet")] {
        if matches!(fields.get(key).map(|tree| &tree.node), Some(Node::List(names)) if names.is_empty()) {
            let help = format!("name the {what}s that the job accepts, or leave `{key}` out to accept all");
            report.error_with_help(fields.key_span(key), format!("an empty list accepts no {what}"), help);
        }
    }
    let names = |key: &str, report: &mut Report| -> Vec<(&str, Span)> { fields.items(key, "a name", report) };
    let own = |names: &[(&str, Span)]| names.iter().map(|(name, _)| Arc::from(*name)).collect::<Vec<Arc<str>>>();
    let fleets = names("fleets", report);
    let requirements = Requirements {
        max_price: fields.value::<Money>("max_price", report),
        spot: fields.word("spot_policy", "a spot policy", &SPOT_POLICIES, report).unwrap_or(SpotPolicy::OnDemand),
        backends: own(&names("backends", report)),
        regions: own(&names("regions", report)),
        fleets: own(&fleets),
        creation: fields.word("creation_policy", "a creation policy", &CREATION_POLICIES, report).unwrap_or_default(),
        ..resources::read(tree, report)
    };
    for (name, span) in fleets {
        world.check_fleet(name, span, report);
    }
    if world.fleets.is_empty() {
        let help =
            "add `fleets: {lab: {hosts: [{name: h0, machine: a100-80g-x8, blocks: auto}]}}`; `nodes:` are no fleet";
        report.error_with_help(fields.key_span("resources"), "`resources` needs a fleet, and the file has none", help);
    }
    let tasks = fields.count("nodes", 1, report).unwrap_or(1);
    world.wanted.push((Arc::new(requirements), tasks, fields.key_span("resources")));
    let (requirements, ..) = world.wanted.last().expect("just pushed");
    Some(Demand { tasks, ..Demand::of(Arc::clone(requirements)) })
}
