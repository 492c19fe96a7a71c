//! Nodes and jobs get each other's names. The draws of a job are those of its name, so a job with draws keeps its name.

use std::sync::Arc;

use super::case::{Case, CheckResult, Judged, log_of};
use super::compare::{events, same};
use dryrack_engine::Rehearsal;
use dryrack_event::Event;
use dryrack_workload::{Arrival, JobBehavior, JobSpec, RandomFaults};
use serde_json::Value;

pub fn judge(case: &Case<'_>) -> CheckResult {
    let world = case.world;
    // kube-scheduler and Kueue decide by names, for example which of two pods of one second came first.
    if world.profile.flow.places_pods() {
        return Ok(Judged::DoesNotApply);
    }
    let draws = world.arrivals.iter().any(|arrival| draws(&arrival.behavior));
    let mut renamed = world.clone();
    // So are those of an instance that a cloud makes.
    let has_clouds = world.clouds.offers.iter().any(|offers| !offers.is_empty());
    // Of equal domains of a topology, Kueue takes the first by name. Nodes are domains too.
    let keeps_nodes = has_clouds || has_topology(world);
    let names: Vec<Arc<str>> = world.nodes.iter().map(|node| Arc::clone(&node.spec.name)).collect();
    for (node, name) in renamed.nodes.iter_mut().zip(names.into_iter().rev()).filter(|_| !keeps_nodes) {
        node.spec.name = name;
    }
    let names: Vec<Arc<str>> = world.arrivals.iter().map(|arrival| Arc::clone(&arrival.spec.name)).collect();
    for (arrival, name) in renamed.arrivals.iter_mut().zip(names.into_iter().rev()).filter(|_| !draws) {
        let spec = Arc::new(JobSpec { name, ..JobSpec::clone(&arrival.spec) });
        *arrival = Arrival { spec, ..arrival.clone() };
    }
    if draws && keeps_nodes {
        return Ok(Judged::DoesNotApply);
    }
    // An answer to a query names the job.
    let counts = |event: &Event| !matches!(event, Event::Evaluated { .. });
    same(&events(case.log, counts), &events(&log_of(&renamed), counts))
        .map_err(|difference| format!("the names of nodes and of jobs are listed in reverse:\n  {difference}"))?;
    Ok(Judged::Holds)
}

/// Whether Kueue knows a topology.
fn has_topology(world: &Rehearsal) -> bool {
    let is_topology = |object: &Value| object["kind"] == "Topology";
    let lists = world.kueue.iter().filter_map(|(_, text)| serde_json::from_str::<Vec<Value>>(text).ok());
    lists.flatten().any(|object| is_topology(&object))
}

/// Whether a job makes draws during the run.
fn draws(behavior: &JobBehavior) -> bool {
    behavior.usage.is_some()
        || behavior.random_faults.as_deref().is_some_and(|faults| *faults != RandomFaults::default())
}
