//! Charges waits to their causes.

use super::super::ReplicaAccount;
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
        if std::mem::take(&mut replica.is_behind) {
            self.waits.leave(&job.spec);
        }
    }

    pub(super) fn hold(&mut self, attempt: AttemptId, refusal: Refusal, reasons: &Histogram) {
        self.charge_wait(attempt);
        let led = reasons.iter().next().map(|(reason, _)| reason);
        let ended_by = ended_by(&self.jobs[attempt.job.index()].spec, refusal, reasons);
        let blame = ended_by.map(|led| self.waits.blame(&self.jobs[attempt.job.index()].spec, led, &self.nodes));
        let is_behind = ended_by == Some(Reason::QueueOrder) && self.waits.join(&self.jobs[attempt.job.index()].spec);
        let replica = self.replica(attempt);
        (replica.reason, replica.blame, replica.is_behind) = (ended_by, blame, is_behind);
        // A place behind the head of the queue says nothing about the nodes.
        if led != Some(Reason::QueueOrder) {
            let never = (refusal == Refusal::Never).then(|| NeverFits::of(reasons));
            replica.never = never.filter(|never| !never.is_of_dependency()).map(NeverRuns::NoRoom);
        }
    }
}

pub(super) fn charge(waits: &mut WaitAccount, job: &JobSpec, replica: &mut ReplicaAccount, now: SimTime) {
    let length = now.since(replica.waiting_since);
    if !replica.is_behind {
        waits.charge(job, replica.blame, length);
    }
    if replica.placed.is_some() {
        waits.again.time += u128::from(length.as_nanos());
    }
    replica.waiting_since = now;
}
