//! Decisions about one demand of any kind.

use super::context::PlacementContext;
use super::decision::{Candidate, Decision};
use super::dispatch::with_placer;
use super::node_class::Grouping;
use super::options::SchedulerOptions;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{Fleet, Placement};
use dryrack_units::Score;
use dryrack_workload::Demand;

/// Decides about one demand. `keep` is the number of candidates wanted. A gang always gets one candidate.
pub fn decide(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, grouping: Grouping, keep: usize) -> Decision {
    decide_for(options, demand, PlacementContext::UNSUBMITTED, fleet, grouping, keep)
}

/// Decides about one demand of a job. The context matters for models, because replicas of one job are spread over
/// nodes.
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

/// The candidate that [`decide_for`] would choose. Unlike [`decide_for`], it does not check whether an empty fleet would
/// refuse the demand too, which costs as much again.
pub fn candidate_for(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    grouping: Grouping,
) -> Option<Candidate> {
    with_placer(options, demand, context, fleet, |placer| placer.place(grouping))
}

/// Evaluates a demand before it is submitted. The stages are those of a decision, but nothing changes. Returns `None`
/// and no reasons if the demand fits. For a model, the profile of a released program may use other checks here than
/// those that place the model. The default profile uses the same checks.
pub fn evaluate(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    grouping: Grouping,
) -> (Option<Refusal>, Histogram) {
    with_placer(options, demand, PlacementContext::UNSUBMITTED, fleet, |placer| placer.evaluate(grouping))
}

/// Why the demand is refused as soon as it is submitted; `None` if it is accepted. The refusal is [`Refusal::Never`] if
/// an empty fleet would refuse the demand too.
pub fn refused_at_submission(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Option<(Refusal, Reason)> {
    with_placer(options, demand, PlacementContext::UNSUBMITTED, fleet, |placer| placer.refused_at_submission())
}

/// Whether the demand would fit if every node were ready, healthy and empty.
pub fn ever_fits(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> bool {
    with_placer(options, demand, PlacementContext::UNSUBMITTED, fleet, |placer| placer.ever_fits())
}

/// Whether a placement that was decided earlier still passes every filter and still has room.
pub fn still_fits(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    placement: &Placement,
) -> bool {
    with_placer(options, demand, context, fleet, |placer| placer.still_fits(placement))
}

/// The scores of the places that replicas of a job hold, on the fleet with all its claims. Only models have such
/// scores; for other demands they are zero.
pub fn placement_scores(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    placements: &[&Placement],
) -> Vec<Score> {
    with_placer(options, demand, context, fleet, |placer| placer.placement_scores(placements))
}
