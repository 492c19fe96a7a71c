//! Passes nodes that currently have room for at least one task.

use super::Verdict;
use crate::fit::first_shortage;
use crate::options::GpuOrder;
use crate::row::Row;
use dryrack_workload::TaskGroup;

pub fn judge(demand: TaskGroup<'_>, order: GpuOrder, row: &Row) -> Verdict {
    match first_shortage(demand, order, row) {
        None => Verdict::Fit,
        Some(reason) => Verdict::Unfit(reason),
    }
}
