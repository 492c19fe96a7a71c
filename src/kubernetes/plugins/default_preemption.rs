//! `DefaultPreemption`: which pods of lower priority to evict, and from which node.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::{Budget, Cluster, NodeInfo, Placed, PodInfo};
use crate::cycle::{Code, ComparedVictim, CycleState, Objection, PreemptionArguments, Profile, Reason, Refusal, Sight};
use crate::object::{PreemptionPolicy, Seconds};

/// The results on the nodes that were tried.
#[derive(Debug, Default)]
pub struct Preemption {
    pub candidates: Vec<(usize, Victims)>,
    pub failed: Vec<(usize, Unhelpful)>,
    /// The best candidates. Each is a correct choice.
    pub best: Vec<usize>,
}

/// The pods to evict from a node, most important first.
#[derive(Clone, Debug)]
pub struct Victims {
    pub pods: Vec<Placed>,
    /// The number of pods whose eviction violates a disruption budget.
    pub violations: usize,
    /// The priority that is compared with those of other nodes.
    pub compared: i32,
}

/// Why preemption does not help on a node.
#[derive(Clone, Debug)]
pub struct Unhelpful {
    /// `None` if there is no pod of lower priority.
    pub refusal: Option<Refusal>,
    pub reasons: Vec<Reason>,
}

impl Unhelpful {
    pub fn code(&self) -> Code {
        self.refusal.as_ref().map_or(Code::UnschedulableAndUnresolvable, |refusal| refusal.code)
    }
}

/// Whether a pod may preempt others.
///
/// # Errors
/// Why it may not. A pod that has already preempted others waits until they are gone, unless its nominated node is
/// refused for good.
pub fn is_allowed(pod: &PodInfo, nominated: Option<&NodeInfo>, refused: Option<Code>) -> Result<(), &'static str> {
    if pod.pod.spec.preemption_policy == PreemptionPolicy::Never {
        return Err("not eligible due to preemptionPolicy=Never.");
    }
    let makes_room = |placed: &Placed| placed.is_preempted && placed.pod.priority < pod.priority;
    let is_for_good = refused == Some(Code::UnschedulableAndUnresolvable);
    match nominated {
        Some(node) if !is_for_good && node.pods.iter().any(makes_room) => {
            Err("not eligible due to a terminating pod on the nominated node.")
        }
        Some(_) | None => Ok(()),
    }
}

/// Tries preemption on nodes where it could help.
///
/// # Errors
/// If a plugin fails.
pub fn preempt(
    state: &mut CycleState,
    cluster: &mut Cluster,
    profile: &Profile,
    possible: &[usize],
    offset: usize,
) -> Result<Preemption, String> {
    let wanted = candidates_wanted(profile.preemption, possible.len());
    let mut found = Preemption::default();
    let mut sight = Sight {
        profile,
        nominations: &cluster.nominations,
        namespaces: &cluster.namespaces,
        devices: &mut cluster.devices,
    };
    let mut is_one_without_violation = false;
    for step in 0..possible.len() {
        let index = possible[(offset + step) % possible.len()];
        let mut node = cluster.nodes[index].clone();
        match select_victims(state, &mut sight, &mut node, &cluster.budgets) {
            // The node was refused with all of its pods, so it cannot fit with all of them.
            Ok(victims) if victims.pods.is_empty() => {
                return Err(format!("expected at least one victim pod on node \"{}\"", node.name()));
            }
            Ok(victims) => {
                is_one_without_violation |= victims.violations == 0;
                found.candidates.push((index, victims));
            }
            Err(Unhelped::Reason(why)) => found.failed.push((index, why)),
            Err(Unhelped::Fault(fault)) => return Err(fault),
        }
        if is_one_without_violation && found.candidates.len() >= wanted {
            break;
        }
    }
    found.candidates.sort_by_key(|(index, _)| *index);
    found.failed.sort_by_key(|(index, _)| *index);
    found.best = best_of(&found.candidates);
    Ok(found)
}

/// Whether preemption helps the pod on a node that refuses it for now. A failed plugin counts as help.
pub fn helps_on(state: &mut CycleState, sight: &mut Sight, node: &NodeInfo, budgets: &[Budget]) -> bool {
    let priority = state.pod.priority;
    state.pod.pod.spec.preemption_policy != PreemptionPolicy::Never
        && node.pods.iter().any(|placed| placed.pod.priority < priority)
        && !matches!(select_victims(state, sight, &mut node.clone(), budgets), Err(Unhelped::Reason(_)))
}

fn candidates_wanted(arguments: PreemptionArguments, nodes: usize) -> usize {
    let share = nodes * arguments.min_candidate_nodes_percentage / 100;
    share.max(arguments.min_candidate_nodes_absolute).min(nodes)
}

enum Unhelped {
    Reason(Unhelpful),
    Fault(String),
}

impl From<Objection> for Unhelped {
    fn from(objection: Objection) -> Unhelped {
        match objection {
            Objection::Refused(refusal) => {
                Unhelped::Reason(Unhelpful { reasons: refusal.reasons.clone(), refusal: Some(refusal) })
            }
            Objection::Failed { plugin, fault } => {
                Unhelped::Fault(format!("running \"{}\" filter plugin: {fault}", plugin.name()))
            }
        }
    }
}

/// Removes all pods of lower priority, and then puts back as many as the incoming pod allows. The node is a copy. The
/// state is restored at the end.
fn select_victims(
    state: &mut CycleState,
    sight: &mut Sight,
    node: &mut NodeInfo,
    budgets: &[Budget],
) -> Result<Victims, Unhelped> {
    let priority = state.pod.priority;
    let weaker = node.pods.iter().filter(|placed| placed.pod.priority < priority);
    let mut potential: Vec<Placed> = weaker.cloned().collect();
    if potential.is_empty() {
        let why = Unhelpful { refusal: None, reasons: vec![Reason::NoVictims] };
        return Err(Unhelped::Reason(why));
    }
    for placed in &potential {
        remove(state, sight, node, placed);
    }
    if let Err(objection) = state.filter_with_nominated(sight, node) {
        for placed in &potential {
            add(state, sight, node, placed);
        }
        return Err(objection.into());
    }
    potential.sort_by_key(importance);
    let violating = violating(&potential, budgets);
    let (first, then): (Vec<&Placed>, Vec<&Placed>) =
        potential.iter().partition(|placed| violating.contains(&placed.pod.key));
    let mut victims = Victims { pods: Vec::new(), violations: 0, compared: i32::MIN };
    for (placed, violates) in
        first.into_iter().map(|placed| (placed, true)).chain(then.into_iter().map(|it| (it, false)))
    {
        add(state, sight, node, placed);
        if state.filter_with_nominated(sight, node).is_err() {
            remove(state, sight, node, placed);
            victims.pods.push(placed.clone());
            victims.violations += usize::from(violates);
        }
    }
    for placed in &victims.pods {
        add(state, sight, node, placed);
    }
    let first_found = victims.pods.first().map(|placed| placed.pod.priority);
    victims.pods.sort_by_key(importance);
    let most_important = victims.pods.first().map(|placed| placed.pod.priority);
    // Kubernetes 1.20.2 takes the first victim for the most important one: `pickOneNodeForPreemption` in
    // `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`.
    let compared = match sight.profile.compared_victim {
        ComparedVictim::MostImportant => most_important,
        ComparedVictim::FirstFound => first_found,
    };
    victims.compared = compared.unwrap_or(i32::MIN);
    Ok(victims)
}

fn add(state: &mut CycleState, sight: &Sight, node: &mut NodeInfo, placed: &Placed) {
    node.add(placed.clone());
    state.update(sight, &placed.pod, node, 1);
}

fn remove(state: &mut CycleState, sight: &Sight, node: &mut NodeInfo, placed: &Placed) {
    node.remove(&placed.pod.key);
    state.update(sight, &placed.pod, node, -1);
}

/// The order of pods by importance: higher priority first, then earlier start. A pod that has not started comes last.
fn importance(placed: &Placed) -> (Reverse<i32>, Seconds, Arc<str>) {
    (Reverse(placed.pod.priority), start(placed), Arc::clone(&placed.pod.key))
}

fn start(placed: &Placed) -> Seconds {
    placed.start.unwrap_or(Seconds(i64::MAX))
}

/// The pods whose eviction would violate a budget, if they were evicted in this order.
fn violating(pods: &[Placed], budgets: &[Budget]) -> BTreeSet<Arc<str>> {
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| budget.disruptions_allowed).collect();
    let mut violating = BTreeSet::new();
    for pod in pods.iter().map(|placed| &placed.pod).filter(|pod| !pod.labels().is_empty()) {
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let protects = budget.namespace == pod.namespace
                && !budget.selector.is_everything()
                && budget.selector.matches(pod.labels())
                && !budget.disrupted.contains(&pod.pod.metadata.name);
            if protects {
                *allowed -= 1;
                if *allowed < 0 {
                    violating.insert(Arc::clone(&pod.key));
                }
            }
        }
    }
    violating
}

/// The candidates that remain after all criteria. Each criterion is applied to the candidates that the previous one
/// left.
fn best_of(candidates: &[(usize, Victims)]) -> Vec<usize> {
    let mut best: Vec<&(usize, Victims)> = candidates.iter().collect();
    let criteria: [fn(&Victims) -> i64; 5] = [
        |victims| victims.violations as i64,
        |victims| i64::from(victims.compared),
        // Upstream shifts priorities, so that more victims of negative priority are not better than fewer.
        |victims| victims.pods.iter().map(|placed| i64::from(placed.pod.priority) + (1 << 31)).sum(),
        |victims| victims.pods.len() as i64,
        |victims| earliest_start(victims).0.saturating_neg(),
    ];
    for criterion in criteria {
        let lowest = best.iter().map(|(_, victims)| criterion(victims)).min();
        best.retain(|(_, victims)| Some(criterion(victims)) == lowest);
    }
    best.into_iter().map(|(index, _)| *index).collect()
}

/// When the first of the victims with the highest priority started.
fn earliest_start(victims: &Victims) -> Seconds {
    let highest = victims.pods.first().map(|first| first.pod.priority);
    let most_important = victims.pods.iter().filter(|placed| Some(placed.pod.priority) == highest);
    most_important.map(start).min().unwrap_or(Seconds(i64::MAX))
}
