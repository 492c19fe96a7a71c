//! Decisions about one demand, whatever its kind.

use smallvec::SmallVec;

use super::deployment::PlacementContext;
use super::options::SchedulerOptions;
use super::placer::with_placer;
use super::row::Grouping;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{Fleet, Placement};
use dryrack_units::Score;
use dryrack_workload::Demand;

/// A possible placement and its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub placement: Placement,
    pub score: Score,
}

/// The scheduler's answer for one demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Best first; never empty.
    Place(SmallVec<[Candidate; 1]>),
    /// Reasons with their number of nodes; together they cover every node.
    Refuse { refusal: Refusal, reasons: Histogram },
}

/// Decides for one demand. `keep` is the number of candidates wanted; a gang gets one.
pub fn decide(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, grouping: Grouping, keep: usize) -> Decision {
    decide_for(options, demand, PlacementContext::UNSUBMITTED, fleet, grouping, keep)
}

/// Decides for one demand of a job. The context matters to a model, whose replica is spread among the job's own
/// instances.
pub fn decide_for(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    grouping: Grouping,
    keep: usize,
) -> Decision {
    with_placer(options, demand, context, fleet, |placer| placer.decide(grouping, keep))
}

/// Evaluates a demand before it is submitted: the same stages as a decision, without effect. Returns `None` and no
/// reason if it fits. A released program may evaluate a model by other checks than it places it by; the default profile
/// does not.
pub fn evaluate(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    grouping: Grouping,
) -> (Option<Refusal>, Histogram) {
    with_placer(options, demand, PlacementContext::UNSUBMITTED, fleet, |placer| placer.evaluate(grouping))
}

/// Why the demand is refused as soon as it is submitted; `None` if it is not. The refusal is [`Refusal::Never`] if an
/// empty fleet would refuse it too.
pub fn refused_at_submission(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Option<(Refusal, Reason)> {
    with_placer(options, demand, PlacementContext::UNSUBMITTED, fleet, |placer| placer.refused_at_submission())
}

/// Whether the demand would fit if every node were ready, healthy and empty.
pub fn ever_fits(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> bool {
    with_placer(options, demand, PlacementContext::UNSUBMITTED, fleet, |placer| placer.ever_fits())
}

/// Whether a placement decided earlier still passes every filter and still has its room.
pub fn still_fits(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, placement: &Placement) -> bool {
    with_placer(options, demand, PlacementContext::UNSUBMITTED, fleet, |placer| placer.still_fits(placement))
}

/// The scores of the places that replicas of a job have, with everything that is there. Zero except for models.
pub fn placement_scores(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    placements: &[&Placement],
) -> Vec<Score> {
    with_placer(options, demand, context, fleet, |placer| placer.placement_scores(placements))
}
