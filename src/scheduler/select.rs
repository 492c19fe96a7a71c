//! What can be picked by hand: every node and GPU, each *no* with its reason, from the filters that decide.

use std::sync::Arc;

use super::decide::{Decision, decide, judge};
use super::deployment::{Asking, Pickable, PickableNode, findings, pickable};
use super::filter::Verdict;
use super::offers;
use super::options::SchedulerOptions;
use super::row::{Grouping, row_of, rows};
use crate::event::{Reason, Refusal};
use crate::fleet::Fleet;
use crate::ids::{GpuId, NodeId};
use crate::workload::{Demand, Deployment, Pick};

/// One node and its GPUs, as something to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    pub node: NodeId,
    /// The filters' answer if this node alone were picked; of a model also where it will do with others.
    pub verdict: Verdict,
    /// Each GPU's answer if it alone were picked, to be taken; empty where the demand asks for no GPU.
    pub gpus: Vec<Verdict>,
    /// Of a model, where the answer is yes: whether the node, and each of its GPUs, will not do without others.
    pub with_others: (bool, Vec<bool>),
}

/// Every node in order of ids, for one demand; what it picks itself is left out of account.
pub fn select(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Vec<Selectable> {
    if let Some(deployment) = &demand.deployment {
        return select_for_model(options, demand, deployment, fleet);
    }
    let one = |(node, known): (NodeId, &crate::fleet::Node)| {
        let count = if demand.task.gpus.is_some() { known.shape.gpus.len() as u16 } else { 0 };
        let gpus = (0..count).map(|index| judge_gpu(options, demand, fleet, GpuId { node, index })).collect();
        let with_others = (false, vec![false; usize::from(count)]);
        Selectable { node, verdict: judge_node(options, demand, fleet, node), gpus, with_others }
    };
    fleet.iter().map(one).collect()
}

/// Of what the demand picks, each for itself, the refusals; none where all could be selected, or nothing is picked.
pub fn refused_picks(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Vec<Verdict> {
    let Some(pick) = &demand.pick else { return Vec::new() };
    let verdicts: Vec<Verdict> = match (&demand.deployment, pick) {
        (Some(deployment), Pick::Nodes(picked)) => {
            let nodes = select_for_model(options, demand, deployment, fleet);
            picked.iter().map(|node| nodes[node.index()].verdict).collect()
        }
        (Some(deployment), Pick::Gpus(gpus) | Pick::AllGpus(gpus)) => {
            let nodes = select_for_model(options, demand, deployment, fleet);
            let verdict = |gpu: &GpuId| nodes[gpu.node.index()].gpus.get(usize::from(gpu.index)).copied();
            gpus.iter().map(|gpu| verdict(gpu).unwrap_or(Verdict::Never(Reason::PickedGpuMissing))).collect()
        }
        (None, Pick::Nodes(nodes)) => nodes.iter().map(|node| judge_node(options, demand, fleet, *node)).collect(),
        (None, Pick::Gpus(gpus) | Pick::AllGpus(gpus)) => {
            gpus.iter().map(|gpu| judge_gpu(options, demand, fleet, *gpu)).collect()
        }
    };
    verdicts.into_iter().filter(|verdict| !verdict.is_fit()).collect()
}

/// Of a model: a node or a GPU that could hold a replica, alone or with others.
fn select_for_model(
    options: &SchedulerOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
) -> Vec<Selectable> {
    let free = without_pick(demand);
    let now = pickable(&options.deployments, &free, deployment, fleet, &fleet.serving());
    let idle = pickable(&options.deployments, &free, deployment, fleet, fleet.idle_serving());
    let one = |((id, _), (now, idle)): ((NodeId, &crate::fleet::Node), (PickableNode, PickableNode))| {
        let alone = judge_node_for_model(options, demand, deployment, fleet, id);
        let verdict = match (alone, now.node) {
            (Verdict::Fit, _) | (_, Pickable::WithOthers | Pickable::Alone) => Verdict::Fit,
            (Verdict::Never(reason), Pickable::Not(_)) if idle.node == Pickable::WithOthers => Verdict::Unfit(reason),
            // What lacks for ever, and not what lacks now.
            (Verdict::Never(_), Pickable::Not(_)) => judged(now.node, idle.node),
            (unfit @ Verdict::Unfit(_), Pickable::Not(_)) => unfit,
        };
        let with_others = now.gpus.iter().map(|gpu| *gpu == Pickable::WithOthers).collect();
        let gpus = now.gpus.iter().zip(&idle.gpus).map(|(now, idle)| judged(*now, *idle)).collect();
        Selectable { node: id, verdict, gpus, with_others: (!alone.is_fit(), with_others) }
    };
    fleet.iter().zip(now.into_iter().zip(idle)).map(one).collect()
}

/// Never is what an idle fleet refuses too.
fn judged(now: Pickable, idle: Pickable) -> Verdict {
    match (now, idle) {
        (Pickable::Alone | Pickable::WithOthers, _) => Verdict::Fit,
        (Pickable::Not(_), Pickable::Not(reason)) => Verdict::Never(reason),
        (Pickable::Not(reason), Pickable::Alone | Pickable::WithOthers) => Verdict::Unfit(reason),
    }
}

fn judge_node_for_model(
    options: &SchedulerOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
    node: NodeId,
) -> Verdict {
    let alone = on_node(demand, node);
    let Decision::Refuse { refusal, .. } = decide(options, &alone, fleet, Grouping::EachNode, 1) else {
        return Verdict::Fit;
    };
    let (_, found) = findings(&options.deployments, &alone, deployment, fleet);
    let reason = found[node.index()].reason.unwrap_or(Reason::TooFewNodes);
    match refusal {
        Refusal::Unfit => Verdict::Unfit(reason),
        Refusal::Never => Verdict::Never(reason),
    }
}

/// The demand with another pick: one node.
pub fn on_node(demand: &Demand, node: NodeId) -> Demand {
    Demand { pick: Some(Pick::Nodes(vec![node])), ..without_pick(demand) }
}

/// The demand with another pick: exactly one GPU, which one task takes.
pub fn on_gpu(demand: &Demand, gpu: GpuId) -> Demand {
    Demand { tasks: 1, pick: Some(Pick::AllGpus(vec![gpu])), ..without_pick(demand) }
}

/// The same demand, free to go anywhere. What one node takes of exact picks is what every node would have to take.
fn without_pick(demand: &Demand) -> Demand {
    let deployment = demand.deployment.as_ref().map(|deployment| match deployment.gpus_per_replica {
        None => Arc::clone(deployment),
        // It is said of a pick.
        Some(_) => Arc::new(Deployment { gpus_per_replica: None, ..(**deployment).clone() }),
    });
    Demand { pick: None, deployment, ..demand.clone() }
}

fn judge_node(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId) -> Verdict {
    judge_alone(options, &on_node(demand, node), fleet, node)
}

fn judge_gpu(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, gpu: GpuId) -> Verdict {
    judge_alone(options, &on_gpu(demand, gpu), fleet, gpu.node)
}

fn judge_alone(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId) -> Verdict {
    if demand.requirements.is_some() {
        // A fleet is chosen by all it has.
        let rows = rows(fleet, demand, Grouping::EachNode);
        return offers::judge(&options.offers, demand, Asking::NOBODY, fleet, &rows)[node.index()];
    }
    judge(options, demand, std::slice::from_ref(&row_of(fleet, demand, node)))[0]
}
