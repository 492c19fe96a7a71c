//! Charges waits to their causes.

use super::super::ReplicaAccount;
use super::super::behind::add_charge;
use super::super::blame::{WaitAccount, ended_by};
use super::super::never_runs::{NeverFits, NeverRuns};
use super::RunAccount;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_ids::AttemptId;
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

impl RunAccount {
    pub(super) fn charge_wait(&mut self, attempt: AttemptId) {
        let now = self.now;
        let job = &mut self.jobs[attempt.job.index()];
        let replica = &mut job.replicas[attempt.replica as usize];
        charge(&mut self.waits, &job.spec, replica, now);
    }

    pub(super) fn hold(&mut self, attempt: AttemptId, refusal: Refusal, reasons: &Histogram) {
        self.charge_wait(attempt);
        let led = reasons.iter().next().map(|(reason, _)| reason);
        let ended_by = ended_by(&self.jobs[attempt.job.index()].spec, refusal, reasons);
        let blame = ended_by.map(|led| self.waits.blame(&self.jobs[attempt.job.index()].spec, led, &self.nodes));
        let is_behind = ended_by == Some(Reason::QueueOrder);
        let behind = is_behind.then(|| self.waits.join(&self.jobs[attempt.job.index()].spec)).flatten();
        let replica = self.replica(attempt);
        (replica.reason, replica.blame) = (ended_by, blame);
        if let Some(behind) = behind {
            replica.own_waits.get_or_insert_default().behind = Some(behind);
        }
        // A place behind the head of the queue says nothing about the nodes.
        if led != Some(Reason::QueueOrder) {
            let never = (refusal == Refusal::Never).then(|| NeverFits::of(reasons));
            replica.never = never.filter(|never| !never.is_of_dependency()).map(NeverRuns::NoRoom);
        }
    }
}

/// Charges the wait up to now. Before the first place of the replica, it is only noted, because whether the replica can ever run
/// may become known at the end.
pub(super) fn charge(waits: &mut WaitAccount, job: &JobSpec, replica: &mut ReplicaAccount, now: SimTime) {
    let length = now.since(replica.waiting_since).as_nanos();
    replica.waiting_since = now;
    let behind = replica.own_waits.as_mut().and_then(|own| own.behind.take());
    if behind.is_none() && length == 0 {
        return;
    }
    let own = replica.own_waits.get_or_insert_default();
    match behind {
        Some(before) => {
            let charged = waits.leave(job, &before);
            charged.into_iter().for_each(|(blame, time)| add_charge(&mut own.charged, Some(blame), time));
        }
        None => add_charge(&mut own.charged, replica.blame, length),
    }
    if replica.placed.is_some() {
        waits.again.time += u128::from(length);
        charge_own(waits, job, replica);
    }
}

/// Charges what was noted of the replica's waits, unless it can never run.
pub(super) fn charge_own(waits: &mut WaitAccount, job: &JobSpec, replica: &mut ReplicaAccount) {
    let Some(own) = replica.own_waits.take() else { return };
    match replica.unplaceable() {
        None => own.charged.iter().for_each(|(blame, time)| waits.charge(job, *blame, *time)),
        Some(_) => waits.never_run += own.charged.iter().map(|(_, time)| u128::from(*time)).sum::<u128>(),
    }
}
