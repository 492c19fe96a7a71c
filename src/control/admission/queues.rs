//! The queues and other objects of Kueue, when they are stated and when they change.

use std::sync::Arc;

use super::evict::evict_workload;
use super::objects::Objects;
use super::waiting::{tell, tell_pending};
use super::workload::{Standing, WorkloadNumber};
use crate::core::Core;
use crate::flow::Flow;
use crate::kubernetes::kueue_nodes;
use dryrack_event::Reason;
use dryrack_kueue::objects::StopPolicy;
use dryrack_kueue::{Kueue, Setup};

/// Takes over new and changed objects.
pub(crate) fn apply_objects(core: &mut Core, flow: &mut dyn Flow, text: &str) {
    let new = Objects::read(text).expect("it was checked");
    let admission = &mut core.admission;
    if admission.kueue.is_none() {
        let stated = admission.stated.get_or_insert_default();
        stated.flavors.extend(new.flavors);
        stated.topologies.extend(new.topologies);
        stated.cohorts.extend(new.cohorts);
        stated.cluster_queues.extend(new.cluster_queues);
        stated.local_queues.extend(new.local_queues);
        stated.namespaces.extend(new.namespaces);
        stated.selectors.extend(new.selectors);
        stated.fair_sharing = new.fair_sharing.or(stated.fair_sharing.take());
        return;
    }
    apply_queues(core, flow, new);
}

fn apply_queues(core: &mut Core, flow: &mut dyn Flow, new: Objects) {
    for cohort in &new.cohorts {
        // A cohort below itself is refused when the file is read; here it keeps its place.
        let _ = core.admission.kueue().set_cohort(&cohort.name, &cohort.spec);
    }
    for queue in &new.cluster_queues {
        for drained in core.admission.kueue().set_queue(&queue.name, &queue.spec) {
            evict_workload(core, flow, drained, None);
        }
    }
    for local in new.local_queues {
        let key = (Arc::clone(&local.namespace), Arc::clone(&local.name));
        core.admission.local_queues.insert(key, local);
    }
    core.admission.namespaces.extend(new.namespaces.into_iter().map(|namespace| (namespace.name, namespace.spec)));
    core.admission.selectors.extend(new.selectors.into_iter().map(|selector| (selector.name, selector.spec)));
    core.admission.is_due = true;
    judge_queues(core, flow);
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
    let Some(stated) = core.admission.stated.take() else { return };
    let setup = Setup {
        fair_sharing: stated.fair_sharing.as_ref().and_then(|fair| fair.strategies()),
        flavors: stated.flavors.clone(),
        topologies: stated.topologies.clone(),
        nodes: if stated.topologies.is_empty() { Vec::new() } else { kueue_nodes(&core.fleet) },
    };
    core.admission.kueue = Some(Kueue::new(setup));
    apply_queues(core, flow, stated);
}
