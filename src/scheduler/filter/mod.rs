//! Filters: whether nodes may be used at all, and if not, why. Each filter looks only at rows that passed all filters
//! before it.

mod compatible;
pub mod labels;
pub mod picked;
pub mod ready;
mod resources;

pub use compatible::{model_refusal, model_refusal_without_gpu};

use super::options::{Exemption, FilterName, FilterStage, GpuOrder};
use super::row::Row;
use dryrack_event::Reason;
use dryrack_workload::{Pick, TaskGroup};

/// A filter's answer for one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fit,
    /// They do not fit at the moment.
    Unfit(Reason),
    /// These nodes will never fit this demand.
    Never(Reason),
}

impl Verdict {
    pub fn is_fit(self) -> bool {
        self == Verdict::Fit
    }

    pub fn reason(self) -> Option<Reason> {
        match self {
            Verdict::Fit => None,
            Verdict::Unfit(reason) | Verdict::Never(reason) => Some(reason),
        }
    }
}

/// Runs one filter over the rows that are still fit.
pub fn apply(stage: &FilterStage, order: GpuOrder, demand: TaskGroup<'_>, rows: &[Row], verdicts: &mut [Verdict]) {
    for (row, verdict) in rows.iter().zip(verdicts) {
        if verdict.is_fit() {
            *verdict = judge_one(stage, order, demand, row);
        }
    }
}

/// One filter's answer for one row.
pub fn judge_one(stage: &FilterStage, order: GpuOrder, demand: TaskGroup<'_>, row: &Row) -> Verdict {
    if stage.unless.is_some_and(|exemption| is_exempt(exemption, demand)) {
        return Verdict::Fit;
    }
    match stage.stage {
        FilterName::Picked => picked::judge(row.picked, || picked::has_gpus(demand, row)),
        FilterName::Labels => labels::judge(&demand.task.labels, &row.shape.labels),
        FilterName::Ready => ready::judge(row.status.state),
        FilterName::Compatible => compatible::judge(demand, row),
        FilterName::Resources => resources::judge(demand, order, row),
    }
}

fn is_exempt(exemption: Exemption, demand: TaskGroup<'_>) -> bool {
    match (exemption, demand.pick) {
        (Exemption::PickedOnSeveralNodes, Some(pick @ (Pick::Gpus(_) | Pick::AllGpus(_)))) => pick.nodes().len() > 1,
        (Exemption::PickedOnSeveralNodes, Some(Pick::Nodes(_)) | None) => false,
    }
}
