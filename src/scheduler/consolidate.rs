//! Consolidation places the tasks of a gang on as few nodes as possible. This is how HeliosArtifact (bdaae10,
//! "framework/QSSF Service") places jobs with many GPUs on nodes of 8.
//!
//! If one node could hold the gang, the gang goes to the node with the least sufficient room. A larger gang fills as
//! many empty nodes as it can. Its remaining tasks go to the node with the most room among the others. The gang waits
//! if there are too few empty nodes, or if its remaining tasks do not fit on one node. This is so even if more nodes
//! could hold it. On a tie, the node that was declared first is taken.

use super::by_rank::by_rank;
use super::fit;
use super::gpu_order::GpuOrder;
use super::node_class::NodeClass;
use dryrack_ids::NodeId;
use dryrack_workload::TaskGroup;

/// A node, the index of its class, and the number of tasks that it takes.
pub type NodeShare = (NodeId, usize, u32);

/// The nodes for the tasks; `None` if the tasks do not fit by this rule. `classes` are all classes of the fleet. `fit`
/// holds the indexes of the classes that passed every filter.
pub fn consolidate(
    demand: TaskGroup<'_>,
    order: GpuOrder,
    classes: &[NodeClass],
    fit: &[usize],
) -> Option<Vec<NodeShare>> {
    let size = fit.iter().map(|index| whole_node(demand, order, &classes[*index])).max()?;
    let room = |index: usize| fit::capacity(demand, order, &classes[index], size);
    if demand.tasks <= size {
        let holds = fit.iter().map(|index| (room(*index), classes[*index].first(), *index));
        let (_, node, index) = holds.filter(|(room, ..)| *room >= demand.tasks).min()?;
        return Some(vec![(node, index, demand.tasks)]);
    }
    let (full, rest) = ((demand.tasks / size) as usize, demand.tasks % size);
    let mut nodes = by_rank(fit.iter().map(|index| (*index, &classes[*index], room(*index))));
    let mut shares: Vec<NodeShare> = Vec::new();
    for tasks in std::iter::repeat_n(size, full).chain((rest > 0).then_some(rest)) {
        let (_, node, index) = nodes.next().filter(|(room, ..)| *room >= tasks)?;
        shares.push((node, index, tasks));
    }
    Some(shares)
}

/// How many of the tasks a node of this class would hold if it were empty.
pub fn whole_node(demand: TaskGroup<'_>, order: GpuOrder, class: &NodeClass) -> u32 {
    let idle = dryrack_fleet::NodeStatus::idle(class.status.state, class.shape);
    fit::capacity(demand, order, &class.as_if(&idle), u32::MAX)
}
