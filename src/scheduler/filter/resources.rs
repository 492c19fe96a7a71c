//! Room for at least one task, now.

use super::Verdict;
use crate::scheduler::fit::first_shortage;
use crate::scheduler::options::GpuOrder;
use crate::scheduler::row::Row;
use crate::workload::Demand;

pub fn judge(demand: &Demand, order: GpuOrder, row: &Row) -> Verdict {
    match first_shortage(demand, order, row) {
        None => Verdict::Fit,
        Some(reason) => Verdict::Unfit(reason),
    }
}
