//! Gangs in racks: all tasks of a gang go to one rack, if a rack can hold them.
//!
//! Among the racks that can hold the whole gang, takes the one with the least room, so that larger racks stay free. The
//! room is the number of such tasks that the nodes of the rack could hold, even if the gang has fewer. On a tie, takes
//! the first rack by name. If no rack can hold the gang, takes as few racks as possible, those with the
//! most room first. Within the racks, nodes are taken in order of preference, as for any gang. Nodes without a rack
//! count as one rack.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::fit;
use super::gpu_order::GpuOrder;
use super::node_class::NodeClass;
use super::verdict::Verdict;
use dryrack_event::Reason;
use dryrack_workload::{Gang, TaskGroup};

/// The most tasks that are counted on one node, unless the gang has more. This bounds the time for tasks that take almost
/// nothing.
const MOST_COUNTED: u32 = 10_000;

/// The verdicts after the choice of racks. Nodes in other racks are refused.
pub fn within(demand: TaskGroup<'_>, order: GpuOrder, classes: &[NodeClass], verdicts: &[Verdict]) -> Vec<Verdict> {
    let limit = if demand.gang == Gang::Spread { 1 } else { demand.tasks.max(MOST_COUNTED) };
    let mut room: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for (class, _) in classes.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_fit()) {
        let tasks = u64::from(fit::capacity(demand, order, class, limit)) * u64::from(class.count);
        *room.entry(class.shape.rack.as_deref()).or_default() += tasks;
    }
    let wanted = u64::from(demand.tasks);
    let one = room.iter().filter(|(_, tasks)| **tasks >= wanted).min_by_key(|(rack, tasks)| (**tasks, **rack));
    let chosen: Vec<Option<&str>> = match one {
        Some((rack, _)) => vec![*rack],
        None => {
            let mut racks: Vec<(Reverse<u64>, Option<&str>)> =
                room.iter().map(|(rack, tasks)| (Reverse(*tasks), *rack)).collect();
            racks.sort_unstable();
            let mut held = 0;
            let enough = racks.iter().position(|(Reverse(tasks), _)| {
                held += tasks;
                held >= wanted
            });
            let count = enough.map_or(racks.len(), |last| last + 1);
            racks[..count].iter().map(|(_, rack)| *rack).collect()
        }
    };
    let left = |(class, verdict): (&NodeClass, &Verdict)| match verdict {
        Verdict::Fit if !chosen.contains(&class.shape.rack.as_deref()) => Verdict::Unfit(Reason::GangIncomplete),
        verdict => *verdict,
    };
    classes.iter().zip(verdicts).map(left).collect()
}
