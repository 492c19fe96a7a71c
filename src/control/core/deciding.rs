//! Decisions about replicas, and the check of a decision when it is committed. A decision is computed on the fleet as it
//! was read, and committed by compare-and-set.

use std::sync::Arc;

use super::Core;
use super::parts::clock::last_step;
use super::store::ReplicaIndex;
use dryrack_event::{Event, Histogram, Refusal};
use dryrack_fleet::{Fleet, Moment, Placement};
use dryrack_ids::{AttemptId, FleetId, NodeId};
use dryrack_scheduler::{Candidate, Decision, Draw, PlacementContext, evaluate, still_fits};
use dryrack_workload::{Demand, JobSpec};

impl Core {
    /// Decides about a replica on the current fleet.
    pub(crate) fn decide_now(&mut self, index: ReplicaIndex, keep: usize) -> Decision {
        let replica = &self.store[index];
        self.decide_of(replica.demand, replica.attempt_id(), keep)
    }

    /// Decides about an attempt with the demand of this number on the current fleet.
    pub(crate) fn decide_of(&mut self, number: u32, attempt: AttemptId, keep: usize) -> Decision {
        let context = self.context(attempt);
        let demand = self.store.demand(number);
        let sees = (&self.profile.scheduler, &self.fleet);
        self.deciding.decide(sees, (number, demand), (attempt, context), keep)
    }

    /// Number of candidates that a decision keeps. If a decision is committed at the instant at which the fleet was
    /// read, nothing can change in between, so one candidate is enough.
    pub(crate) fn candidates_wanted(&self) -> usize {
        let options = self.profile.commit;
        if options.decision_time.is_zero() { 1 } else { options.candidates as usize }
    }

    /// Emits what the scheduler would decide about a demand now. Nothing is placed.
    pub(crate) fn evaluate(&mut self, name: &Arc<str>, demand: &Demand) {
        self.answer(name, |core| evaluate(&core.profile.scheduler, demand, &core.fleet, core.deciding.grouping));
    }

    /// Emits the answer to the question whether a job would be placed.
    pub(crate) fn answer(&mut self, name: &Arc<str>, evaluate: impl FnOnce(&Core) -> (Option<Refusal>, Histogram)) {
        // What a question reads is not kept, so that it changes no decision.
        let moment = self.fleet.moment();
        let read = self.profile.scheduler.read_by_stages();
        let time = if read.time { last_step(self.now) } else { moment.time };
        let pending = if read.queue { self.store.pending() } else { moment.pending };
        self.fleet.set_moment(Moment { time, pending });
        let (refusal, reasons) = evaluate(self);
        self.fleet.set_moment(moment);
        self.emit(Event::Evaluated { name: Arc::clone(name), refusal, reasons });
    }

    /// The context in which an attempt is placed. It names the job and the replica of the attempt.
    pub(crate) fn context(&self, attempt: AttemptId) -> PlacementContext {
        let job = &self.store[attempt.job];
        self.context_for(attempt, &job.spec, job.fleet)
    }

    /// The context for a job that may not be in the store. `fleet` is the fleet of the job's other replicas.
    pub(crate) fn context_for(&self, attempt: AttemptId, spec: &JobSpec, fleet: Option<FleetId>) -> PlacementContext {
        let least = spec.scaling.as_deref().map_or(spec.replicas, |scaling| scaling.min);
        PlacementContext {
            job: Some(attempt.job),
            replicas: spec.replicas,
            draw: Draw::new(self.deciding.seed, attempt),
            fleet,
            least,
        }
    }

    pub(crate) fn versions_of(&self, candidates: &[Candidate]) -> Vec<(NodeId, u64)> {
        let claims = candidates.iter().flat_map(|candidate| candidate.placement.claims());
        let mut read: Vec<_> = claims.map(|claim| (claim.node, self.fleet.node(claim.node).version)).collect();
        read.sort_unstable();
        read.dedup();
        read
    }

    /// Compare-and-set: whether the nodes of the candidate are unchanged since they were read, or the candidate still
    /// fits.
    pub(crate) fn may_commit(&self, index: ReplicaIndex, candidate: &Candidate, read: &[(NodeId, u64)]) -> bool {
        if !self.profile.commit.recheck {
            return true;
        }
        let unchanged = candidate.placement.claims().iter().all(|claim| {
            let version = self.fleet.node(claim.node).version;
            read.binary_search(&(claim.node, version)).is_ok()
        });
        unchanged || self.still_fits(index, self.store.demand_of(index), &self.fleet, &candidate.placement)
    }

    /// Whether a placement that was decided earlier for a replica still passes every filter and still has room.
    pub(crate) fn still_fits(&self, index: ReplicaIndex, demand: &Demand, fleet: &Fleet, place: &Placement) -> bool {
        let context = self.context(self.store[index].attempt_id());
        still_fits(&self.profile.scheduler, demand, context, fleet, place)
    }
}
