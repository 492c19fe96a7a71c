//! Requested labels. A missing key and a wrong value are different mistakes, so they have different reasons.

use super::Verdict;
use crate::row::Row;
use dryrack_event::Reason;
use dryrack_workload::TaskGroup;

pub fn judge(demand: TaskGroup<'_>, row: &Row) -> Verdict {
    let mut verdict = Verdict::Fit;
    for (key, value) in &demand.task.labels {
        match row.shape.labels.get(key) {
            None => return Verdict::Never(Reason::LabelMissing),
            Some(found) if found != value => verdict = Verdict::Never(Reason::LabelMismatch),
            Some(_) => {}
        }
    }
    verdict
}
