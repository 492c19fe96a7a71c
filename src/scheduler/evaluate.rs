//! The evaluation of a demand before it is submitted: the same stages as a decision, without effect.

use super::decide::{Decision, decide};
use super::deployment::{Evaluation, evaluate_deployment, ever_compatible};
use super::options::SchedulerOptions;
use super::row::Grouping;
use dryrack_event::{Histogram, Refusal};
use dryrack_fleet::Fleet;
use dryrack_workload::Demand;

/// Evaluates a demand. Returns `None` and no reason if it fits. A released program may evaluate a model by other
/// checks than it places it by; the default profile does not.
pub fn evaluate(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    grouping: Grouping,
) -> (Option<Refusal>, Histogram) {
    let Some(deployment) = &demand.deployment else {
        return match decide(options, demand, fleet, grouping, 1) {
            Decision::Place(_) => (None, Histogram::default()),
            Decision::Refuse { refusal, reasons } => (Some(refusal), reasons),
        };
    };
    match evaluate_deployment(&options.deployments, demand, deployment, fleet) {
        Evaluation::Compatible { .. } => (None, Histogram::default()),
        Evaluation::Incompatible(reasons) => {
            let ever = ever_compatible(&options.deployments, demand, deployment, fleet);
            (Some(if ever { Refusal::Unfit } else { Refusal::Never }), reasons)
        }
    }
}
