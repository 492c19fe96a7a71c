//! One attempt to schedule a pod: filters, scores, and preemption if no node fits.

mod commit;
mod decision;
mod message;
mod pairs;
mod points;
mod profile;
mod refused;
mod sample;
mod score;
mod state;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

pub use commit::{Preempted, bind, preempt, reserve, reserve_stated, settle};
pub use decision::{Decision, Outcome, PostFilter, Scores};
pub use message::histogram;
pub use profile::{
    AffinityRange, Balance, ComparedVictim, DefaultSpreadScores, FitChecks, MAX_NODE_SCORE, Nominated, NominationEnds,
    Oversized, PreemptionArguments, Profile, ProfileFault, Rounding, ScoringStrategy, SpreadControllers, SpreadCounts,
    Strategy,
};
pub use refused::{KnownRefusals, RefusedByAll};
pub(crate) use sample::by_zone_in_turn;
use sample::nodes_wanted;
pub use state::{CycleState, Sight};
pub use verdict::{Code, Objection, Plugin, Reason, Refusal};

use crate::cluster::{Cluster, PodInfo};
use crate::plugins::{default_preemption, dynamic_resources, gang_scheduling, scheduling_gates};

/// Whether a pod enters the queue. Only plugins of the profile can hold it back.
///
/// # Errors
/// The refusal of the first plugin that holds it back.
pub fn pre_enqueue(pod: &PodInfo, cluster: &Cluster, profile: &Profile) -> Result<(), Refusal> {
    if profile.scheduling_gates {
        scheduling_gates::pre_enqueue(pod)?;
    }
    if profile.filters.contains(&Plugin::DynamicResources) {
        dynamic_resources::pre_enqueue(pod, &cluster.devices)?;
    }
    gang_scheduling::pre_enqueue(pod, &cluster.gangs)
}

/// Where an attempt starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The place of the node that is examined first, in the order in which nodes are examined.
    pub node: usize,
    /// The index of the possible node on which preemption is tried first. Upstream draws it at random.
    pub preemption: usize,
}

/// Decides where a pod can be placed. Changes only caches.
pub fn schedule(pod: &Arc<PodInfo>, cluster: &mut Cluster, profile: &Profile, start: Start) -> Decision {
    let mut decision = Decision {
        pod: Arc::clone(pod),
        nominated: cluster.nominations.node_of(&pod.key).cloned(),
        via_nominated: false,
        pre_filter: None,
        only_nodes: None,
        rejected: Vec::new(),
        feasible: Vec::new(),
        is_of_all_nodes: true,
        next_node: start.node,
        scores: None,
        outcome: Outcome::Failed { message: String::new() },
    };
    let mut state = match CycleState::new(pod, cluster, profile) {
        Ok(state) => state,
        Err(refusal) => {
            decision.outcome = unschedulable(&refusal.reasons, cluster);
            decision.pre_filter = Some(refusal);
            return decision;
        }
    };
    decision.only_nodes = state.only_nodes.clone();
    decision.outcome = match find_feasible(&mut decision, &mut state, cluster, profile, start.node) {
        Err(message) => Outcome::Failed { message },
        Ok(()) if decision.feasible.is_empty() => {
            post_filter(&decision, &mut state, cluster, profile, start.preemption)
        }
        Ok(()) => choose(&mut decision, &mut state, cluster, profile),
    };
    decision
}

/// The refusals of nodes by other filters than the one that refused them first, at which an attempt ends. Each filter
/// is tried alone.
pub fn other_refusals(
    pod: &Arc<PodInfo>,
    cluster: &mut Cluster,
    profile: &Profile,
    refused: &[(usize, Plugin)],
) -> Vec<Vec<Refusal>> {
    let mut found = vec![Vec::new(); refused.len()];
    let mut state = CycleState::as_far_as_possible(pod, cluster, profile);
    for plugin in &profile.filters {
        let alone = Profile { filters: vec![*plugin], ..profile.clone() };
        let mut sight = Sight {
            profile: &alone,
            nominations: &cluster.nominations,
            namespaces: &cluster.namespaces,
            devices: &mut cluster.devices,
        };
        for ((index, first), found) in refused.iter().zip(&mut found) {
            if first != plugin
                && let Err(Objection::Refused(refusal)) =
                    state.filter_with_nominated(&mut sight, &cluster.nodes[*index])
            {
                found.push(refusal);
            }
        }
    }
    found
}

/// The text for a pod that a plugin refused on all nodes.
fn unschedulable(reasons: &[Reason], cluster: &Cluster) -> Outcome {
    let nodes = cluster.nodes().len();
    let reasons: Vec<String> = reasons.iter().map(Reason::to_string).collect();
    let helpless = histogram(nodes, std::iter::once((&Reason::PreemptionNotHelpful, nodes)));
    let message = format!("0/{nodes} nodes are available: {}. {NO_CLAIMS}, preemption: {helpless}", reasons.join(", "));
    Outcome::Unschedulable { message, post_filter: PostFilter { clears_nomination: true, ..PostFilter::default() } }
}

const NO_CLAIMS: &str = "no new claims to deallocate";

/// Filters only the nominated node. If there is none, or it does not fit, filters nodes until enough of them are
/// feasible.
fn find_feasible(
    decision: &mut Decision,
    state: &mut CycleState,
    cluster: &mut Cluster,
    profile: &Profile,
    start: usize,
) -> Result<(), String> {
    let nominated = decision.nominated.as_ref().and_then(|name| cluster.find(name));
    let nodes = &cluster.nodes;
    let mut sight = Sight {
        profile,
        nominations: &cluster.nominations,
        namespaces: &cluster.namespaces,
        devices: &mut cluster.devices,
    };
    if let Some(index) = nominated.filter(|_| profile.nominated == Nominated::First) {
        match state.filter_with_nominated(&mut sight, &nodes[index]) {
            Ok(()) => {
                decision.via_nominated = true;
                decision.feasible.push(index);
                return Ok(());
            }
            Err(Objection::Refused(_)) => {}
            Err(Objection::Failed { plugin, fault }) => return Err(failed(plugin, &fault)),
        }
    }
    let only: Option<Vec<usize>> = (decision.only_nodes.as_ref())
        .map(|only| only.iter().filter_map(|name| cluster.by_name.get(name).copied()).collect());
    let order: &[usize] = only.as_deref().unwrap_or(&cluster.by_zone);
    let wanted = nodes_wanted(profile.percentage_of_nodes_to_score, order.len());
    for step in 0..order.len() {
        let index = order[(start + step) % order.len()];
        match state.filter_with_nominated(&mut sight, &nodes[index]) {
            Ok(()) if decision.feasible.len() == wanted => {
                decision.is_of_all_nodes = false;
                break;
            }
            Ok(()) => decision.feasible.push(index),
            Err(Objection::Refused(refusal)) => decision.rejected.push((index, refusal)),
            Err(Objection::Failed { plugin, fault }) => return Err(failed(plugin, &fault)),
        }
    }
    let examined = decision.feasible.len() + decision.rejected.len();
    decision.next_node = (start + examined) % nodes.len().max(1);
    decision.feasible.sort_unstable();
    decision.rejected.sort_by_key(|(index, _)| *index);
    Ok(())
}

fn failed(plugin: Plugin, fault: &str) -> String {
    format!("running \"{}\" filter plugin: {fault}", plugin.name())
}

/// Scores the feasible nodes if there are several, and takes the best.
fn choose(decision: &mut Decision, state: &mut CycleState, cluster: &Cluster, profile: &Profile) -> Outcome {
    let mut best = decision.feasible.clone();
    if best.len() > 1 {
        let scores = match score::score(state, cluster, &decision.feasible, profile) {
            Ok(scores) => scores,
            Err(message) => return Outcome::Failed { message },
        };
        let highest = scores.totals.iter().copied().max();
        let is_best = |(place, _): &(usize, &usize)| Some(scores.totals[*place]) == highest;
        best = decision.feasible.iter().enumerate().filter(is_best).map(|(_, index)| *index).collect();
        decision.scores = Some(scores);
    }
    let with_devices = |index: usize| {
        let found = state.claims.as_mut().and_then(|claims| claims.found.remove(cluster.node(index).name()));
        (index, found)
    };
    Outcome::Fits { best: best.into_iter().map(with_devices).collect() }
}

/// Searches for claims, and then for pods, whose removal would make room.
fn post_filter(
    decision: &Decision,
    state: &mut CycleState,
    cluster: &mut Cluster,
    profile: &Profile,
    offset: usize,
) -> Outcome {
    let deallocate = state.claims.as_ref().and_then(|claims| claims.to_deallocate(&state.pod, &cluster.devices));
    let of_claims = match (&state.claims, &deallocate) {
        (None, _) => NO_CLAIMS,
        (Some(_), Some(_)) => "deallocation of ResourceClaim completed",
        (Some(_), None) => "still not schedulable",
    };
    let nodes = cluster.nodes().len();
    let outside = Reason::OutsidePreFilter(Plugin::NodeAffinity);
    let absent = if decision.only_nodes.is_some() { nodes - decision.rejected.len() } else { 0 };
    let reasons = decision.rejected.iter().flat_map(|(_, refusal)| &refusal.reasons).map(|reason| (reason, 1));
    let refused = histogram(nodes, reasons.chain(std::iter::once((&outside, absent))));
    let mut post_filter = PostFilter { deallocate, preemption: None, clears_nomination: false };
    let nominated = decision.nominated.as_ref().and_then(|name| cluster.find(name));
    let of_nominated = decision.rejected.iter().find(|(index, _)| Some(*index) == nominated);
    let code = of_nominated.map(|(_, refusal)| refusal.code);
    if let Err(why) = default_preemption::is_allowed(&state.pod, nominated.map(|index| cluster.node(index)), code) {
        let message = format!("{refused} {of_claims}, preemption: {why}");
        return Outcome::Unschedulable { message, post_filter };
    }
    let possible: Vec<usize> = (decision.rejected.iter())
        .filter(|(_, refusal)| refusal.code == Code::Unschedulable)
        .map(|(index, _)| *index)
        .collect();
    let tried = (!possible.is_empty()).then(|| default_preemption::preempt(state, cluster, profile, &possible, offset));
    let message = match &tried {
        Some(Err(fault)) => return Outcome::Failed { message: fault.clone() },
        Some(Ok(preemption)) if !preemption.best.is_empty() => refused,
        None | Some(Ok(_)) => {
            let failed = tried.iter().flatten().flat_map(|preemption| &preemption.failed);
            let of_failed = failed.clone().flat_map(|(_, failed)| &failed.reasons).map(|reason| (reason, 1));
            let helpless = (&Reason::PreemptionNotHelpful, nodes - failed.count());
            let preemption = histogram(nodes, of_failed.chain(std::iter::once(helpless)));
            post_filter.clears_nomination = match profile.nomination_ends {
                NominationEnds::WithoutHelp => true,
                NominationEnds::WithoutPossibleNode => tried.is_none(),
            };
            format!("{refused} {of_claims}, preemption: {preemption}")
        }
    };
    post_filter.preemption = tried.and_then(Result::ok);
    Outcome::Unschedulable { message, post_filter }
}
