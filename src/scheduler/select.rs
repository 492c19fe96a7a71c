//! What can be picked manually: every node and GPU, with the reason for each refusal. The filters are the same as for a
//! decision.

use super::context::PlacementContext;
use super::dispatch::with_placer;
use super::options::SchedulerOptions;
use super::verdict::Verdict;
use dryrack_fleet::Fleet;
use dryrack_ids::{GpuId, NodeId};
use dryrack_workload::{Demand, Pick};

/// One node and its GPUs, as choices for a manual pick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    pub node: NodeId,
    /// The filters' verdict on this node if it were the only pick. For a model, the verdict is also `Fit` if the node
    /// works only together with others.
    pub verdict: Verdict,
    /// The verdict on each GPU if it were the only pick and had to be taken. Empty if the demand asks for no GPU.
    pub gpus: Vec<Verdict>,
    /// For a model whose verdict is `Fit`: whether the node works only together with other nodes, and the same for each
    /// of its GPUs.
    pub with_others: (bool, Vec<bool>),
}

/// Every node in order of ids, for a demand that is not submitted yet. Its own pick is ignored.
pub fn select(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Vec<Selectable> {
    select_for(options, demand, PlacementContext::UNSUBMITTED, fleet)
}

/// Every node in order of ids, for a replica of a job. The demand's own pick is ignored.
pub fn select_for(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
) -> Vec<Selectable> {
    with_placer(options, demand, context, fleet, |placer| {
        let one = |(node, known): (NodeId, &dryrack_fleet::Node)| {
            let count = if placer.takes_gpus() { known.shape.gpus.len() as u16 } else { 0 };
            let (gpus, with_others) = (0..count).map(|index| placer.select_gpu(GpuId { node, index })).unzip();
            let (verdict, beside_others) = placer.select_node(node);
            Selectable { node, verdict, gpus, with_others: (beside_others, with_others) }
        };
        fleet.iter().map(one).collect()
    })
}

/// The refusals of the demand's picks, each judged alone. If all picked GPUs of a node must be taken and can be taken
/// together, none of them is refused. Empty if all picks can be selected, or if nothing is picked.
pub fn refused_picks(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Vec<Verdict> {
    let Some(pick) = &demand.pick else { return Vec::new() };
    let mut verdicts: Vec<Verdict> =
        with_placer(options, demand, PlacementContext::UNSUBMITTED, fleet, |placer| match pick {
            Pick::Nodes(nodes) => nodes.iter().map(|node| placer.select_node(*node).0).collect(),
            Pick::Gpus(gpus) => gpus.iter().map(|gpu| placer.select_gpu(*gpu).0).collect(),
            Pick::AllGpus(gpus) => {
                let on = |node: NodeId| gpus.iter().copied().filter(|gpu| gpu.node == node).collect::<Vec<_>>();
                let refused = gpus.iter().filter(|gpu| !placer.takes_together(&on(gpu.node)));
                refused.map(|gpu| placer.select_gpu(*gpu).0).collect()
            }
        });
    verdicts.retain(|verdict| !verdict.is_fit());
    verdicts
}
