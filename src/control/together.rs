//! What jobs of a group do together: count their failures, end, and start again.

use super::attempts::Attempts;
use super::core::Core;
use super::core::groups::{AfterFailure, GroupNumber};
use super::core::store::{Replica, ReplicaIndex, Wait};
use dryrack_event::{Outcome, Phase, Reason};
use dryrack_ids::JobId;
use dryrack_planted::planted;

/// Ends the jobs of a group that has failed, and those of the groups that end with it, unless they start again.
pub(crate) fn group_failed<F: Attempts + ?Sized>(
    flow: &mut F,
    core: &mut Core,
    group: GroupNumber,
    outcome: Outcome,
    because: Reason,
) {
    match core.groups.restart(group) {
        true => restart_groups(flow, core, group),
        false => end_groups(flow, core, group, outcome, because),
    }
}

/// Stops all attempts of a group that starts again, and of the groups that end with it. The controller of JobSets deletes all
/// Jobs, and makes each of them again once it is gone (`failurePolicyRecreateAll` in pkg/controllers/failure_policy.go,
/// `shouldCreateJob` in jobset_controller.go).
fn restart_groups<F: Attempts + ?Sized>(flow: &mut F, core: &mut Core, group: GroupNumber) {
    let groups = core.groups.ending_with(group);
    for group in &groups {
        let open: Vec<JobId> = core.groups.open(*group).collect();
        let replicas: Vec<ReplicaIndex> = open.into_iter().flat_map(|job| core.store[job].replicas()).collect();
        for index in replicas {
            let Replica { phase, wait, .. } = core.store[index];
            if phase.holds_claim() || wait == Wait::Queue {
                core.groups.leave(*group, index);
            }
            if wait == Wait::Queue || phase.holds_claim() && phase != Phase::Stopping {
                flow.stop(core, index, Outcome::Lost, Reason::GroupRestarted);
            }
            core.await_group(index);
        }
    }
    groups.into_iter().for_each(|group| core.let_restarted_begin(group));
}

/// Ends all jobs of a group, and those of the groups that end with it. Jobs that wait for a turn come last in a group, so
/// they end first.
fn end_groups<F: Attempts + ?Sized>(
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
/// jobs of the group, and of those that end with it, or lets them all start again.
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
        AfterFailure::GroupFailed(group) => match core.groups.restart(group) {
            true => {
                restart_groups(flow, core, group);
                flow.begin_again(core, index, core.now, because);
            }
            false => {
                flow.give_up(core, index);
                // The others end first, so that none of them gets the turn of this one.
                if !planted!(FailedPodEndsAlone) {
                    end_groups(flow, core, group, Outcome::Failed, Reason::BackoffLimitExceeded);
                }
                flow.finish(core, index, outcome, Reason::BackoffLimitExceeded);
            }
        },
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
