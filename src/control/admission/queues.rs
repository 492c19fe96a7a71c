//! The queues and other objects of Kueue, when they are stated and when they change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::evict::evict_workload;
use super::objects::Objects;
use super::state::Admission;
use super::waiting::{tell, tell_pending};
use super::workload::{Standing, Terms, Workload, WorkloadNumber, waits_for};
use crate::core::Core;
use crate::flow::Flow;
use crate::kubernetes::kueue_nodes;
use dryrack_event::Reason;
use dryrack_fleet::Fleet;
use dryrack_kueue::objects::StopPolicy;
use dryrack_kueue::{Kueue, Setup, WorkloadId};
use dryrack_units::SimTime;
use dryrack_workload::QueuedPart;

/// Takes over new and changed objects.
pub(crate) fn apply_objects(core: &mut Core, flow: &mut dyn Flow, text: &str) {
    let new = Objects::read(text).expect("it was checked");
    let admission = &mut core.admission;
    if admission.kueue.is_none() {
        admission.state(new);
        return;
    }
    apply_queues(core, flow, new);
}

fn apply_queues(core: &mut Core, flow: &mut dyn Flow, new: Objects) {
    for drained in core.admission.take_over(new) {
        evict_workload(core, flow, drained, None);
    }
    core.admission.is_due = true;
    judge_queues(core, flow);
}

impl Admission {
    /// Adds objects that are stated before the first decision.
    fn state(&mut self, new: Objects) {
        let stated = self.stated.get_or_insert_default();
        stated.flavors.extend(new.flavors);
        stated.topologies.extend(new.topologies);
        stated.cohorts.extend(new.cohorts);
        stated.cluster_queues.extend(new.cluster_queues);
        stated.local_queues.extend(new.local_queues);
        stated.namespaces.extend(new.namespaces);
        stated.selectors.extend(new.selectors);
        stated.fair_sharing = new.fair_sharing.or(stated.fair_sharing.take());
    }

    /// Makes Kueue of the stated objects without their queues, which it returns. `None` if nothing was stated.
    fn set_up(&mut self, fleet: &Fleet) -> Option<Objects> {
        let stated = self.stated.take()?;
        self.kueue = Some(Kueue::new(Setup {
            fair_sharing: stated.fair_sharing.as_ref().and_then(|fair| fair.strategies()),
            flavors: stated.flavors.clone(),
            topologies: stated.topologies.clone(),
            nodes: if stated.topologies.is_empty() { Vec::new() } else { kueue_nodes(fleet) },
        }));
        Some(stated)
    }

    /// Takes over new and changed queues. Returns the workloads that must release their quota because their queue drains.
    fn take_over(&mut self, new: Objects) -> Vec<WorkloadId> {
        for cohort in &new.cohorts {
            // A cohort below itself is refused when the file is read; here it keeps its place.
            let _ = self.kueue().set_cohort(&cohort.name, &cohort.spec);
        }
        let mut drained = Vec::new();
        for queue in &new.cluster_queues {
            drained.extend(self.kueue().set_queue(&queue.name, &queue.spec));
        }
        for local in new.local_queues {
            let key = (Arc::clone(&local.namespace), Arc::clone(&local.name));
            self.local_queues.insert(key, local);
        }
        self.namespaces.extend(new.namespaces.into_iter().map(|namespace| (namespace.name, namespace.spec)));
        self.selectors.extend(new.selectors.into_iter().map(|selector| (selector.name, selector.spec)));
        drained
    }

    /// Admission without workloads, with these lists of objects in the order in which they are stated. No queue is
    /// stopped, because a stopped queue may be started again.
    pub fn of_objects<'a>(lists: impl Iterator<Item = &'a str>, fleet: &Fleet) -> Admission {
        let mut admission = Admission::default();
        for mut objects in lists.filter_map(Objects::read) {
            objects.cluster_queues.iter_mut().for_each(|queue| queue.spec.stop_policy = StopPolicy::None);
            objects.local_queues.iter_mut().for_each(|queue| queue.stop = StopPolicy::None);
            admission.state(objects);
        }
        if let Some(stated) = admission.set_up(fleet) {
            admission.take_over(stated);
        }
        admission
    }

    /// Why Kueue never admits a workload even if it has no other. `None` if it may. Changes nothing.
    pub fn never_admits(&mut self, part: &QueuedPart) -> Option<Reason> {
        self.kueue.as_ref()?;
        let id = match self.try_alone(part) {
            Ok(id) => id,
            Err(reason) => return Some(reason),
        };
        let kueue = self.kueue();
        // A cycle may stop behind a flavor that does not fit, and the next cycle goes on from there. So there are at most
        // as many cycles as the pod sets may try flavors.
        for _ in 0..=kueue.flavors() * part.workload.pod_sets.len() {
            if !kueue.is_pending(id) || !kueue.is_active(id) {
                break;
            }
            kueue.cycle(0);
        }
        let condition = if kueue.is_pending(id) { kueue.condition(id) } else { None };
        let reason = condition.map(|condition| waits_for(condition.reason));
        let has_no_topology = kueue.fits_no_topology(id);
        kueue.delete(id);
        reason.filter(|reason| match reason {
            Reason::ExceedsMaxQuota | Reason::NoMatchingFlavor => true,
            // With other workloads there, it may get another flavor.
            Reason::TopologyPlacementFailed => has_no_topology,
            _ => false,
        })
    }

    /// What each choice of flavors that a pod set of a workload may get adds to its pods. Changes nothing.
    pub fn possible_terms(&mut self, part: &QueuedPart) -> BTreeSet<Terms> {
        let Some(pod_set) = part.pod_set.filter(|_| self.kueue.is_some()) else { return BTreeSet::new() };
        let Ok(id) = self.try_alone(part) else { return BTreeSet::new() };
        let kueue = self.kueue();
        let mut choices = BTreeSet::from([Terms::default()]);
        for flavors in kueue.possible_flavors(id, pod_set as usize) {
            let specs: Vec<_> = flavors.into_iter().filter_map(|flavor| kueue.flavor(flavor)).collect();
            let with = |terms: &Terms| {
                let mut all = Vec::new();
                for spec in &specs {
                    let mut terms = terms.clone();
                    terms.add(spec);
                    all.push(terms);
                }
                all
            };
            choices = choices.iter().flat_map(with).collect();
        }
        kueue.delete(id);
        choices
    }

    /// Submits a workload that leaves again. The reason, if its queue is missing or does not take it.
    fn try_alone(&mut self, part: &QueuedPart) -> Result<WorkloadId, Reason> {
        let workload = Workload::new(&part.workload, SimTime::ZERO);
        let key = (Arc::clone(&workload.spec.namespace), Arc::clone(&workload.spec.queue));
        let queue = self.cluster_queue_of(&key).map_err(|(reason, _)| reason)?;
        Ok(self.kueue().submit(&workload.spec_for(&queue, 0)).expect("the queue exists"))
    }
}

/// Follows changes of queues: workloads leave Kueue's queues if theirs is missing, stopped or not for
/// their namespace, and come back later.
fn judge_queues(core: &mut Core, flow: &mut dyn Flow) {
    for number in 0..core.admission.workloads.len() as WorkloadNumber {
        let workload = core.admission.workload(number);
        let key = (Arc::clone(&workload.spec.namespace), Arc::clone(&workload.spec.queue));
        let may = core.admission.cluster_queue_of(&key);
        let is_stopped = |queue: &str| core.admission.kueue.as_ref().is_some_and(|it| it.is_queue_stopped(queue));
        match (&workload.standing, may) {
            (Standing::Inadmissible, Ok(_)) => core.admission.fresh.push(number),
            (Standing::Waiting(id), Err((reason, text))) => {
                let id = *id;
                core.admission.kueue().delete(id);
                core.admission.workload_mut(number).standing = Standing::Inadmissible;
                tell(core, number, reason, &text);
            }
            (Standing::Waiting(_), Ok(queue)) if is_stopped(&queue) => {
                tell(core, number, Reason::QueueInactive, &format!("ClusterQueue {queue} is inactive"));
            }
            (Standing::Waiting(_), Ok(_)) if workload.last_logged.0 == Reason::QueueInactive => {
                tell_pending(core, number);
            }
            (Standing::Admitted(id, _), Err(_)) => {
                let (id, drains) = (*id, core.admission.local_queues.get(&key));
                let drains = drains.is_some_and(|local| local.stop == StopPolicy::HoldAndDrain);
                if drains && core.admission.kueue().drain_workload(id) {
                    evict_workload(core, flow, id, None);
                }
            }
            _ => {}
        }
    }
    core.admission.fresh.sort_unstable();
    core.admission.fresh.dedup();
}

/// Makes Kueue of the objects and the nodes that were stated, before the first decision.
pub(super) fn begin(core: &mut Core, flow: &mut dyn Flow) {
    if let Some(stated) = core.admission.set_up(&core.fleet) {
        apply_queues(core, flow, stated);
    }
}
