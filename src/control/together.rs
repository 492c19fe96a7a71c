//! What jobs of a group do together: count their failures, end, and start again.

use super::attempts::Attempts;
use super::core::Core;
use super::core::groups::{AfterFailure, GroupNumber};
use super::core::store::ReplicaIndex;
use dryrack_event::{Outcome, Phase, Reason};
use dryrack_ids::JobId;
use dryrack_planted::planted;

/// Ends all jobs of a group, and those of the groups that end with it. Jobs that wait for a turn come last in a group, so
/// they end first.
pub(crate) fn end_groups<F: Attempts + ?Sized>(
    flow: &mut F,
    core: &mut Core,
    group: GroupNumber,
    outcome: Outcome,
    because: Reason,
) {
    for group in core.groups.ending_with(group) {
        let open: Vec<JobId> = core.groups.open(group).rev().collect();
        for job in open {
            let replicas: Vec<ReplicaIndex> = core.store[job].replicas().collect();
            for index in replicas {
                flow.stop(core, index, outcome, because);
            }
        }
    }
}

/// Notes that an attempt has failed whose job shares its limit of retries with others. Begins another attempt, or ends all
/// jobs of the group, and of those that end with it.
pub(crate) fn shared_failure<F: Attempts + ?Sized>(
    flow: &mut F,
    core: &mut Core,
    index: ReplicaIndex,
    (outcome, because): (Outcome, Reason),
) {
    let job = core.store[index].job;
    let policy = core.profile.retry_of(&core.store[job].spec);
    match core.groups.attempt_failed(job, &policy, core.now) {
        AfterFailure::NextAttempt(at) => flow.begin_again(core, index, at, because),
        AfterFailure::EndGroup(group) => {
            flow.give_up(core, index);
            // The others end first, so that none of them gets the turn of this one.
            if !planted!(FailedPodEndsAlone) {
                end_groups(flow, core, group, Outcome::Failed, Reason::BackoffLimitExceeded);
            }
            flow.finish(core, index, outcome, Reason::BackoffLimitExceeded);
        }
    }
}

/// Tells the other attempts of a group to stop that starts again as a whole, because one of them ends for this reason. The
/// controller of LeaderWorkerSets deletes the leader of a group, and with it all workers, if a pod of the group is deleted
/// or one of its containers restarts (`handleRestartPolicy` in pkg/controllers/pod_controller.go).
pub(crate) fn restart_others<F: Attempts + ?Sized>(
    flow: &mut F,
    core: &mut Core,
    index: ReplicaIndex,
    because: Reason,
) {
    let ends_by_itself = matches!(
        because,
        Reason::NodeLost
            | Reason::Preempted
            | Reason::GpuLost
            | Reason::Failed
            | Reason::StartFailed
            | Reason::TimeLimit
            | Reason::Completed
    );
    if !ends_by_itself || planted!(PodOfGroupRestartsAlone) {
        return;
    }
    let Some(group) = core.store.job_of(index).spec.restarts_with.clone() else { return };
    let others: Vec<ReplicaIndex> =
        core.groups.restarting_with(&group).flat_map(|job| core.store[job].replicas()).collect();
    for other in others.into_iter().filter(|other| *other != index) {
        if core.store[other].phase.holds_claim() && core.store[other].phase != Phase::Stopping {
            flow.stop(core, other, Outcome::Lost, Reason::GroupRestarted);
        }
    }
}
