//! Why the replicas of a workload wait.

use std::sync::Arc;

use super::workload::{Standing, WorkloadNumber};
use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use dryrack_event::{Event, Histogram, Reason, Refusal};

/// The replicas of a workload in the order of their jobs.
pub(super) fn replicas_of(core: &Core, number: WorkloadNumber) -> Vec<ReplicaIndex> {
    let jobs = core.admission.workload(number).jobs.iter();
    jobs.filter_map(|job| core.store.jobs.get(job.index())).flat_map(|record| record.replicas()).collect()
}

/// Logs why a workload waits, unless the same was logged last, and holds its replicas.
pub(super) fn tell(core: &mut Core, number: WorkloadNumber, because: Reason, text: &str) {
    let workload = core.admission.workload_mut(number);
    if workload.last_logged.0 == because && &*workload.last_logged.1 == text {
        return;
    }
    let text: Arc<str> = Arc::from(text);
    workload.last_logged = (because, Arc::clone(&text));
    let job = workload.jobs[0];
    core.emit(Event::NotAdmitted { job, because, text });
    for index in replicas_of(core, number) {
        hold_waiting(core, index, because);
    }
}

/// Notes that Kueue is yet to judge a workload, because it was queued just now or its queue goes on. Its replicas are held
/// for this at the end of the instant, unless a cycle gives another reason until then.
pub(super) fn tell_pending(core: &mut Core, number: WorkloadNumber) {
    core.admission.workload_mut(number).last_logged = (Reason::PendingEvaluation, Arc::from(""));
    let replicas = replicas_of(core, number);
    core.admission.untold.extend(replicas);
}

pub(super) fn hold_waiting(core: &mut Core, index: ReplicaIndex, because: Reason) {
    if core.store[index].wait == Wait::Admission {
        core.hold(index, (Refusal::Unfit, Histogram::of(because, core.fleet.len().max(1) as u32)));
    }
}

/// Holds the replicas that were set aside or queued again at this instant and still wait.
pub(super) fn tell_untold(core: &mut Core) {
    for index in std::mem::take(&mut core.admission.untold) {
        let number = core.admission.of_job[&core.store[index].job];
        let workload = core.admission.workload(number);
        let because = match workload.standing {
            Standing::Admitted(..) => Reason::PartiallyAdmitted,
            _ => workload.last_logged.0,
        };
        hold_waiting(core, index, because);
    }
}
