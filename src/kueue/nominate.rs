//! The nomination of a head: its assignment, the workloads that it would preempt, and a smaller number of pods if not
//! all of them fit.

use super::assigner::{Asking, assign};
use super::assignment::{Assignment, Mode};
use super::cluster::Cluster;
use super::preemption::{Need, Target, targets};
use super::topology::Occupancy;

/// An assignment, and the workloads to preempt for it.
#[derive(Clone, Debug)]
pub(crate) struct Nominated {
    pub assignment: Assignment,
    pub targets: Vec<Target>,
}

pub(crate) fn nominate(cluster: &mut Cluster, asking: &Asking<'_>) -> Nominated {
    let mut nominated = with_full_counts_or_fewer(cluster, asking);
    if nominated.assignment.mode() == Mode::Preempt {
        place_for_preemption(cluster, asking, &mut nominated);
    }
    nominated
}

fn with_full_counts_or_fewer(cluster: &mut Cluster, asking: &Asking<'_>) -> Nominated {
    let full = assign(cluster, asking, None);
    if let Some(targets) = targets_of(cluster, asking, &full) {
        return Nominated { assignment: full, targets };
    }
    let fewer = if cluster.workload(asking.id).can_be_partial() { with_fewer_pods(cluster, asking) } else { None };
    fewer.unwrap_or(Nominated { assignment: full, targets: Vec::new() })
}

/// The workloads that are preempted for the assignment. `None` if the workload does not fit, or if it would have to
/// preempt but may not.
fn targets_of(cluster: &mut Cluster, asking: &Asking<'_>, assignment: &Assignment) -> Option<Vec<Target>> {
    match assignment.mode() {
        Mode::Fit => Some(Vec::new()),
        Mode::NoFit | Mode::DeferredFit => None,
        Mode::Preempt => {
            let pairs = assignment.needing_preemption(cluster);
            let placing = assignment.to_place(cluster, asking.id);
            let need = Need {
                id: asking.id,
                queue: cluster.workload(asking.id).queue,
                now: asking.now,
                pairs: &pairs,
                usage: &assignment.usage,
                placing: &placing,
            };
            Some(targets(cluster, &need)).filter(|targets| !targets.is_empty())
        }
    }
}

/// Searches for the smallest reduction of pods with which the workload fits, by bisection. The reduction is divided
/// among the pod sets in proportion to their optional pods, rounded down.
///
/// The rule is that of Kueue's `podset_reducer.go`.
fn with_fewer_pods(cluster: &mut Cluster, asking: &Asking<'_>) -> Option<Nominated> {
    let pod_sets = cluster.workload(asking.id).pod_sets.iter();
    let counts: Vec<(u32, u64)> = pod_sets
        .map(|pod_set| {
            let least = pod_set.min_count.unwrap_or(pod_set.count).min(pod_set.count);
            (pod_set.count, u64::from(pod_set.count - least))
        })
        .collect();
    let spare: u64 = counts.iter().map(|(_, spare)| spare).sum();
    let (mut low, mut high, mut best) = (0, spare + 1, None);
    while low < high {
        let reduction = low + (high - low) / 2;
        let reduced: Vec<u32> =
            counts.iter().map(|(count, of_pod_set)| count - (of_pod_set * reduction / spare) as u32).collect();
        let assignment = assign(cluster, asking, Some(&reduced));
        match targets_of(cluster, asking, &assignment) {
            Some(targets) => (high, best) = (reduction, Some(Nominated { assignment, targets })),
            None => low = reduction + 1,
        }
    }
    best
}

/// Finds the domains that the workload will use when its targets are gone. Without targets, finds domains in an empty
/// cluster, so that they can be reserved.
fn place_for_preemption(cluster: &mut Cluster, asking: &Asking<'_>, nominated: &mut Nominated) {
    let placing = nominated.assignment.to_place(cluster, asking.id);
    if placing.is_empty() {
        return;
    }
    let occupancy = if nominated.targets.is_empty() { Occupancy::Empty } else { Occupancy::AsUsed };
    let mark = cluster.mark();
    nominated.targets.iter().for_each(|target| cluster.take_away(target.workload));
    let placed = cluster.place_all(asking.id, &placing, occupancy);
    cluster.undo_to(&mark);
    if let Ok(placements) = placed {
        nominated.assignment.set_placements(placements);
    }
}
