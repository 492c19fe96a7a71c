//! The queues and other objects of Kueue, when they are stated and when they change.

use std::sync::Arc;

use super::evict::evict_workload;
use super::objects::Objects;
use super::state::Admission;
use super::waiting::{tell, tell_pending};
use super::workload::{Standing, Workload, WorkloadNumber, waits_for};
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

    /// Admission without workloads, with these lists of objects in the order in which they are stated.
    pub fn of_objects<'a>(lists: impl Iterator<Item = &'a str>, fleet: &Fleet) -> Admission {
        let mut admission = Admission::default();
        lists.filter_map(Objects::read).for_each(|objects| admission.state(objects));
        if let Some(stated) = admission.set_up(fleet) {
            admission.take_over(stated);
        }
        admission
    }

    /// Why Kueue does not admit a workload from `now` on even if it has no other. `None` if it does, or if its queue is
    /// stopped. Changes nothing.
    pub fn never_admits(&mut self, part: &QueuedPart, now: SimTime) -> Option<Reason> {
        self.kueue.as_ref()?;
        let workload = Workload::new(&part.workload, now);
        let key = (Arc::clone(&workload.spec.namespace), Arc::clone(&workload.spec.queue));
        let queue = match self.cluster_queue_of(&key) {
            Ok(queue) => queue,
            Err((Reason::QueueInactive, _)) => return None,
            Err((reason, _)) => return Some(reason),
        };
        let kueue = self.kueue();
        let id = kueue.submit(&workload.spec_for(&queue, 0)).expect("the queue exists");
        // A cycle may stop behind a flavor that does not fit, and the next cycle goes on from there. So there are at most
        // as many cycles as the pod sets may try flavors.
        for _ in 0..=kueue.flavors() * workload.spec.pod_sets.len() {
            if !kueue.is_pending(id) || !kueue.is_active(id) {
                break;
            }
            kueue.cycle(0);
        }
        let condition = if kueue.is_pending(id) { kueue.condition(id) } else { None };
        let reason = condition.map(|condition| waits_for(condition.reason));
        kueue.delete(id);
        reason.filter(|reason| matches!(reason, Reason::ExceedsMaxQuota | Reason::NoMatchingFlavor))
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
