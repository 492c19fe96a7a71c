//! Questions to a control plane about its decisions and records. They change nothing.

use std::sync::Arc;

use super::admission::AdmissionView;
use super::core::store::ReplicaIndex;
use super::core::{AnalysesAhead, Watch, Watched};
use super::polled::{MemberStanding, RunStanding};
use super::scan::RowView;
use super::{AnyFlow, Control};
use dryrack_event::{Histogram, Phase, Reason, Refusal};
use dryrack_fleet::Fleet;
use dryrack_ids::{AttemptId, JobId};
use dryrack_scheduler::{Decision, Examination, NodeFinding, SchedulerView, Verdict};
use dryrack_workload::{Demand, JobSpec};

impl Control {
    /// Examines each decision about this job, or about every job, while it is made. A caller takes the decision that
    /// placed a replica with [`Control::take_watched`].
    pub fn watch(&mut self, whose: Watch) {
        self.core.deciding.examined.watch(whose);
    }

    /// Takes the decision that placed this attempt.
    pub fn take_watched(&mut self, attempt: AttemptId) -> Option<Watched> {
        self.core.deciding.examined.take_placed(attempt)
    }

    /// Takes every decision since the last call, in order.
    pub fn take_decisions(&mut self) -> Vec<Watched> {
        self.core.deciding.examined.take_decisions()
    }

    /// The data on which a decision about this replica would be based if it were made now.
    pub fn sight_of(&self, job: JobId, replica: u32) -> Option<SchedulerView> {
        let index = self.core.store.jobs.get(job.index())?.replica(replica)?;
        let left = self.flow.as_ref().left_to(&self.core, index);
        Some(self.sight_on(index, left.as_ref().unwrap_or(&self.core.fleet)))
    }

    fn sight_on(&self, index: ReplicaIndex, fleet: &Fleet) -> SchedulerView {
        let part = self.flow.as_ref().part_of(&self.core, index);
        let keep = if part.is_some() { 1 } else { self.core.candidates_wanted() };
        self.core.sight(index, part, fleet, keep)
    }

    /// The demand that is decided about for this replica: the demand of its job, with the flavors that Kueue gave it.
    pub fn demand_of(&self, job: JobId, replica: u32) -> Option<&Arc<Demand>> {
        let store = &self.core.store;
        Some(store.demand_of(store.jobs.get(job.index())?.replica(replica)?))
    }

    /// Makes the decision about this replica now, with everything that an explanation shows. `None` if the job is not
    /// submitted.
    pub fn examine(&mut self, job: JobId, replica: u32) -> Option<Examination> {
        let index = self.core.store.jobs.get(job.index())?.replica(replica)?;
        if let Some(of_flow) = self.flow.as_mut().examine(&self.core, index) {
            return Some(of_flow);
        }
        let examine = |fleet: &Fleet| self.sight_on(index, fleet).examine(&self.core.profile.scheduler);
        let Some(left) = self.flow.as_ref().left_to(&self.core, index) else { return Some(examine(&self.core.fleet)) };
        let beside = examine(&left);
        match beside.decision {
            Decision::Place(_) => Some(beside),
            Decision::Refuse { .. } => Some(beside_promises(examine(&self.core.fleet), &beside, self.core.fleet.len())),
        }
    }

    /// The data on which a decision about a job would be based now, before the job is submitted.
    pub fn sight_before(&self, job: JobId, spec: &JobSpec) -> SchedulerView {
        let core = &self.core;
        let demand = core.profile.scheduler.demand_of(spec);
        let attempt = AttemptId { job, replica: 0, number: 1 };
        let (context, gang_part) = (core.context_for(attempt, spec, None), self.flow.as_ref().first_gang_part(&demand));
        SchedulerView { fleet: core.fleet.clone(), demand, context, gang_part, keep: core.candidates_wanted() }
    }

    /// How the workload of a job stands with Kueue. `None` if Kueue does not manage the job.
    pub fn admission_of(&self, job: JobId) -> Option<AdmissionView> {
        self.core.admission.view_of(job)
    }

    /// The first job of the workload to which a job belongs. Events about the workload name this job.
    pub fn first_of_workload(&self, job: JobId) -> Option<JobId> {
        self.core.admission.first_of_workload(job)
    }

    /// The number of the first replica that has no place. If all replicas of the job have places, returns replica 0,
    /// which stands for one more replica. `None` if the job is not submitted yet.
    pub fn next_to_place(&self, job: JobId) -> Option<u32> {
        self.core.store.next_to_place(job)
    }

    /// The attempts that are analysed before this replica. `None` if the replica does not wait for its analysis.
    pub fn analyses_ahead(&self, job: JobId, replica: u32) -> Option<AnalysesAhead> {
        let core = &self.core;
        let index = core.store.jobs.get(job.index())?.replica(replica)?;
        let (now, before) = self.flow.as_ref().analyses_ahead(core, index)?;
        let is_wanted = |attempt: &AttemptId| {
            let replica = core.store.replica_of(*attempt).map(|index| &core.store[index]);
            replica.is_some_and(|replica| replica.phase != Phase::Ended && replica.attempt == attempt.number)
        };
        let (wanted, unwanted) = before.into_iter().partition(is_wanted);
        Some(AnalysesAhead { now, wanted, unwanted })
    }

    /// The jobs that hold the turns for which a job waits, because of the limit of its array or because it is a
    /// singleton.
    pub fn holders_of_turns(&self, job: JobId) -> Vec<JobId> {
        self.core.store.holders_of_turns(job)
    }

    /// Makes the polled flow run every round, including rounds that would change nothing. A caller that steps through
    /// each round needs this. Other flows ignore it.
    pub fn poll_in_rounds(&mut self) {
        if let AnyFlow::Polled(flow) = &mut self.flow {
            flow.poll_in_rounds();
        }
    }

    /// Every run of the polled flow, in order of submission. Empty for other flows.
    pub fn runs(&self) -> Vec<RunStanding> {
        match &self.flow {
            AnyFlow::Polled(flow) => flow.standings(&self.core),
            AnyFlow::Queue(_) | AnyFlow::Scanned(_) | AnyFlow::Kubernetes(_) => Vec::new(),
        }
    }

    /// Every node of every run of the polled flow, in order of declaration. Empty for other flows.
    pub fn members(&self) -> Vec<MemberStanding> {
        match &self.flow {
            AnyFlow::Polled(flow) => flow.member_standings(&self.core),
            AnyFlow::Queue(_) | AnyFlow::Scanned(_) | AnyFlow::Kubernetes(_) => Vec::new(),
        }
    }

    /// The rows of the scanned flow, in order of their ids. Empty for other flows.
    pub fn rows(&self) -> Vec<RowView> {
        match &self.flow {
            AnyFlow::Scanned(flow) => flow.row_views(&self.core),
            AnyFlow::Queue(_) | AnyFlow::Polled(_) | AnyFlow::Kubernetes(_) => Vec::new(),
        }
    }

    /// The row id of each entry in the queue of the scanned flow, in queue order.
    pub fn row_queue(&self) -> Vec<u64> {
        match &self.flow {
            AnyFlow::Scanned(flow) => flow.row_queue(),
            AnyFlow::Queue(_) | AnyFlow::Polled(_) | AnyFlow::Kubernetes(_) => Vec::new(),
        }
    }
}

/// What is shown of a replica that is refused because room is promised to others: the nodes as they are, and not as if the
/// promised room were taken. Nodes that would take it without the promises refuse it because of the order of the queue.
/// `of_all` is without the promises, and `left` beside them.
fn beside_promises(mut of_all: Examination, left: &Examination, nodes: usize) -> Examination {
    if !matches!(of_all.decision, Decision::Place(_)) {
        return of_all;
    }
    for (finding, left) in of_all.nodes.iter_mut().zip(&left.nodes) {
        if finding.verdict.is_fit() && !left.verdict.is_fit() {
            *finding = NodeFinding::of(finding.node, Verdict::Unfit(Reason::QueueOrder));
        }
    }
    let reasons = Histogram::of(Reason::QueueOrder, nodes as u32);
    of_all.decision = Decision::Refuse { refusal: Refusal::Unfit, reasons };
    of_all
}
