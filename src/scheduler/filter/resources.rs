//! Passes nodes that currently have room for at least one task.

use super::Verdict;
use crate::fit::first_shortage;
use crate::gpu_order::GpuOrder;
use crate::node_class::NodeClass;
use dryrack_workload::TaskGroup;

pub fn judge(demand: TaskGroup<'_>, order: GpuOrder, class: &NodeClass) -> Verdict {
    match first_shortage(demand, order, class) {
        None => Verdict::Fit,
        Some(reason) => Verdict::Unfit(reason),
    }
}
