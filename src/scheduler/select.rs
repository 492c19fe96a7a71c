//! What can be picked by hand: every node and GPU, each *no* with its reason, from the filters that decide.

use super::decide::judge;
use super::filter::Verdict;
use super::offers;
use super::options::SchedulerOptions;
use super::row::row_of;
use crate::fleet::Fleet;
use crate::ids::{GpuId, NodeId};
use crate::workload::{Demand, Pick};

/// One node and its GPUs, as something to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    pub node: NodeId,
    /// The filters' answer if this node alone were picked.
    pub verdict: Verdict,
    /// Each GPU's answer if it alone were picked, to be taken; empty where the demand asks for no GPU.
    pub gpus: Vec<Verdict>,
}

/// Every node in order of ids, for one demand; what it picks itself is left out of account.
pub fn select(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Vec<Selectable> {
    let one = |(node, known): (NodeId, &crate::fleet::Node)| {
        let count = if demand.task.gpus.is_some() { known.shape.gpus.len() as u16 } else { 0 };
        let gpus = (0..count).map(|index| judge_gpu(options, demand, fleet, GpuId { node, index })).collect();
        Selectable { node, verdict: judge_node(options, demand, fleet, node), gpus }
    };
    fleet.iter().map(one).collect()
}

/// Whether all that the demand picks could be selected, each for itself; a demand without a pick has nothing to refuse.
pub fn is_pick_selectable(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> bool {
    match &demand.pick {
        None => true,
        Some(Pick::Nodes(nodes)) => nodes.iter().all(|node| judge_node(options, demand, fleet, *node).is_fit()),
        Some(Pick::Gpus(gpus) | Pick::AllGpus(gpus)) => {
            gpus.iter().all(|gpu| judge_gpu(options, demand, fleet, *gpu).is_fit())
        }
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
    Demand { pick: None, ..demand.clone() }
}

fn judge_node(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId) -> Verdict {
    judge_alone(options, &on_node(demand, node), fleet, node)
}

fn judge_gpu(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, gpu: GpuId) -> Verdict {
    judge_alone(options, &on_gpu(demand, gpu), fleet, gpu.node)
}

fn judge_alone(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId) -> Verdict {
    if demand.requirements.is_some() {
        return offers::judge(&options.offers, demand, fleet, std::slice::from_ref(&row_of(fleet, demand, node)))[0];
    }
    judge(options, demand, std::slice::from_ref(&row_of(fleet, demand, node)))[0]
}
