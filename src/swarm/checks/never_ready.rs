//! A further node, declared last, which is never ready and on which nothing fits.

use std::sync::Arc;

use super::case::{Case, CheckResult, Judged, log_of};
use super::compare::{events, same};
use dryrack_engine::{InitialNode, ModelFiles};
use dryrack_event::Event;
use dryrack_fleet::{NodeShape, NodeSpec, NodeState};
use dryrack_units::{Bytes, MilliCpu};
use dryrack_workload::{Demand, DemandKind, TaskDemand};

pub fn judge(case: &Case<'_>) -> CheckResult {
    let world = case.world;
    let asks_for_nothing = world.arrivals.iter().any(|arrival| may_fit_anywhere(&arrival.spec.demand));
    // kube-scheduler examines a part of the nodes, which depends on how many there are. Models and Slurm's choice of
    // neighbouring nodes are not judged either: they look at all nodes.
    if asks_for_nothing || world.profile.flow.places_pods() || world.profile.slurm.is_some() {
        return Ok(Judged::DoesNotApply);
    }
    let mut more = world.clone();
    let shape = Arc::new(NodeShape::of(MilliCpu::ZERO, Bytes::ZERO, Vec::new()));
    more.nodes.push(InitialNode {
        spec: NodeSpec { name: "never".into(), shape },
        state: NodeState::NotReady,
        gpus: Vec::new(),
        files: ModelFiles::default(),
    });
    // The node is one more in the counts of reasons, so a set of reasons may change at other times.
    let counts = |event: &Event| !matches!(event, Event::Held { .. } | Event::Evaluated { .. });
    same(&events(case.log, counts), &events(&log_of(&more), counts))
        .map_err(|difference| format!("there is one more node, which is never ready:\n  {difference}"))?;
    Ok(Judged::Holds)
}

/// Whether a task of the demand fits a node without resources.
fn may_fit_anywhere(demand: &Demand) -> bool {
    let is_empty = |task: &TaskDemand| task.cpu == MilliCpu::ZERO && task.ram == Bytes::ZERO && task.gpus.is_none();
    match &demand.kind {
        DemandKind::Tasks(_) | DemandKind::Sets(_) => demand.kinds_of_tasks().any(|(_, task)| is_empty(task)),
        DemandKind::Model(_) | DemandKind::Requirements(_) => false,
    }
}
