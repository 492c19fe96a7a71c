//! The eviction of a workload: its attempts stop, and later its quota is released.

use std::sync::Arc;

use super::waiting::{hold_waiting, replicas_of};
use super::workload::{Standing, WorkloadNumber, evicted_for};
use crate::core::Core;
use crate::core::store::Wait;
use crate::core::timer::Timer;
use crate::flow::Flow;
use dryrack_event::{Event, Outcome, Phase};
use dryrack_ids::AttemptId;
use dryrack_kueue::{Eviction, Head, WorkloadId};
use dryrack_units::{SimDuration, SimTime};

/// The time between the decision to evict a workload and the release of its quota, at least. Kueue compares times in
/// seconds.
pub(super) const EVICTION: SimDuration = SimDuration::from_secs(1);

/// Tells the attempts of an evicted workload to stop. `heads` are those of the cycle that decided it.
pub(super) fn evict_workload(core: &mut Core, flow: &mut dyn Flow, id: WorkloadId, heads: Option<&Vec<Head>>) {
    let number = core.admission.of_id[&id];
    let Some((why, text)) = core.admission.kueue().eviction(id) else { return };
    let because = evicted_for(&why);
    let by = match why {
        Eviction::Preempted { by, .. } if heads.is_some() => Some(core.admission.of_id[&by]),
        Eviction::Preempted { .. } | Eviction::QueueStopped => None,
    };
    let by = by.map(|by| core.admission.workload(by).jobs[0]);
    let (text, since): (Arc<str>, SimTime) = (Arc::from(text), core.now);
    let workload = core.admission.workload_mut(number);
    workload.standing = Standing::Evicting { id, since };
    workload.last_logged = (because, Arc::clone(&text));
    let jobs = workload.jobs.clone();
    core.emit(Event::Evicted { job: jobs[0], because, by, text });
    jobs.into_iter().for_each(|job| core.groups.reset(job));
    let replicas = replicas_of(core, number);
    forget_replicas(core, number);
    for index in replicas {
        let replica = &core.store[index];
        let demand = core.store[replica.job].demand;
        let (attempt, phase, waits) = (replica.attempt_id(), replica.phase, replica.wait == Wait::Admission);
        match phase {
            Phase::Ended | Phase::Stopping => continue,
            Phase::Pending if waits => {
                hold_waiting(core, index, because);
                continue;
            }
            Phase::Pending | Phase::Analysing => {}
            Phase::Scheduled | Phase::Preparing | Phase::Running => {
                if let Some(by) = by {
                    let by = AttemptId { job: by, replica: 0, number: 1 };
                    let by = core.store.replica_of(by).map_or(by, |index| core.store[index].attempt_id());
                    core.emit(Event::Preempted { attempt, by });
                }
            }
        }
        flow.stop(core, index, Outcome::Lost, because);
        // The next attempt is judged without the flavors of this one.
        if core.store[index].placement.is_none() {
            core.store[index].demand = demand;
        }
    }
    core.timers.set(since.saturating_add(EVICTION), Timer::QuotaReleased { workload: number, since });
}

/// Takes the terms of admission from the replicas of a workload.
pub(super) fn forget_replicas(core: &mut Core, number: WorkloadNumber) {
    for index in replicas_of(core, number) {
        core.admission.let_go.remove(&index);
    }
}
