//! The placer for a demand. Only this file chooses among the kinds of demands.

use super::context::PlacementContext;
use super::deployment::ModelPlacer;
use super::offers::{Ask, OfferPlacer};
use super::options::SchedulerOptions;
use super::placer::Placer;
use super::sets::SetPlacer;
use super::tasks::TaskPlacer;
use dryrack_fleet::Fleet;
use dryrack_workload::{Demand, DemandKind};

/// Calls `ask` with the placer of the demand's kind.
pub fn with_placer<R>(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    ask: impl FnOnce(&dyn Placer) -> R,
) -> R {
    let Demand { kind, gang, pick, speeds, fields, .. } = demand;
    match kind {
        DemandKind::Tasks(_) => {
            let group = demand.task_group().expect("a demand for tasks");
            ask(&TaskPlacer { options, group, context, fleet })
        }
        DemandKind::Model(deployment) => {
            ask(&ModelPlacer::new(&options.deployments, demand, deployment, context, fleet))
        }
        DemandKind::Sets(sets) => {
            let (gang, pick, speeds, fields) = (*gang, pick.as_ref(), speeds.as_deref(), fields.as_deref());
            ask(&SetPlacer { options, sets, gang, pick, speeds, fields, context, fleet })
        }
        DemandKind::Requirements(_) => {
            ask(&OfferPlacer::new(&options.offers, demand, Ask::of_whole(demand, context), fleet))
        }
    }
}
