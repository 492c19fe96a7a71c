//! Decisions and their commit. A decision is computed on a read of the fleet and committed by compare-and-set.

use std::sync::Arc;

use super::Control;
use super::safety;
use super::store::{Replica, ReplicaIndex, Wait};
use super::timer::Timer;
use dryrack_event::{Command, Event, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{Hosting, NodeClaim, Placement};
use dryrack_ids::{FleetId, NodeId, RunId};
use dryrack_policy::Holding;
use dryrack_scheduler::offers::GangRule;
use dryrack_scheduler::{
    Caching, Candidate, Decision, Draw, Grouping, NeverFits, PlacementContext, Unfit, decide_for, evaluate, still_fits,
};
use dryrack_workload::{Demand, Deployment, JobSpec};

/// A decision that is being made.
pub struct Deciding {
    replica: ReplicaIndex,
    version: u64,
    decision: Decision,
    /// The fleet's growth when the fleet was read.
    growth: u64,
    /// The nodes of all candidates, with the versions that were read.
    read: Vec<(NodeId, u64)>,
}

impl Control {
    /// Looks at one replica of the queue. Decides, and commits either at once or after the time that a decision
    /// takes.
    pub(super) fn consider(&mut self, index: ReplicaIndex) {
        let options = self.profile.commit;
        let takes_time = !options.decision_time.is_zero();
        let keep = self.candidates_wanted();
        self.examine_several_if_watched(index, keep, |control| control.left_to(index));
        let decision = match self.decide_beside_nominations(index, keep) {
            Some(decision) => decision,
            None => self.decide_now(index, keep),
        };
        if !takes_time {
            self.conclude(index, decision, self.fleet.growth());
            return;
        }
        let read = match &decision {
            Decision::Place(candidates) => self.versions_of(candidates),
            Decision::Refuse { .. } => Vec::new(),
        };
        self.leave_queue(index, Wait::Decision);
        let version = self.replicas[index as usize].version;
        self.deciding = Some(Deciding { replica: index, version, decision, growth: self.fleet.growth(), read });
        let at = self.now.saturating_add(options.decision_time);
        self.timers.set(at, Timer::CommitDue { replica: index, version });
    }

    /// Decides about a replica on the current fleet.
    pub(super) fn decide_now(&mut self, index: ReplicaIndex, keep: usize) -> Decision {
        let replica = &self.replicas[index as usize];
        self.decide_of(replica.demand, replica.run(), keep)
    }

    /// The same, for a run of the demand with this number.
    pub(super) fn decide_of(&mut self, number: u32, run: RunId, keep: usize) -> Decision {
        let demand = &self.demands[number as usize].demand;
        let context = self.context(run);
        let (scheduler, fleet) = (&self.profile.scheduler, &self.fleet);
        let may_keep = match (self.caching, self.grouping) {
            (Caching::Off, _) | (_, Grouping::EachNode) => false,
            (Caching::On | Caching::Paranoid, Grouping::Classes) => keep == 1,
        };
        let plain = || decide_for(scheduler, demand, context, fleet, self.grouping, keep);
        if !may_keep {
            return plain();
        }
        let ranked = self.rankings.decide(scheduler, (number, demand), fleet, context.draw);
        match ranked.or_else(|| self.refusals.still(number, fleet)) {
            Some(kept) if self.caching == Caching::Paranoid => {
                assert_eq!(kept, plain(), "{run}: what was kept is not what is computed");
                kept
            }
            Some(kept) => kept,
            None => {
                let decision = plain();
                self.refusals.keep(scheduler, (number, demand), fleet, &decision);
                decision
            }
        }
    }

    /// How many candidates to keep. Nothing can change between read and commit within one instant, so then one is
    /// enough.
    pub(super) fn candidates_wanted(&self) -> usize {
        let options = self.profile.commit;
        if options.decision_time.is_zero() { 1 } else { options.candidates as usize }
    }

    /// Answers what the scheduler would say to a demand at this time. Nothing comes of it.
    pub(super) fn evaluate(&mut self, name: &Arc<str>, demand: &Demand) {
        let (refusal, reasons) = evaluate(&self.profile.scheduler, demand, &self.fleet, self.grouping);
        self.emit(Event::Evaluated { name: Arc::clone(name), refusal, reasons });
    }

    /// The context in which a run is placed, which says whose replica it is.
    pub(super) fn context(&self, run: RunId) -> PlacementContext {
        let fleet = self.runs.as_ref().and_then(|flow| flow.fleet_of(run.job));
        self.context_for(run, &self.jobs[run.job.index()].spec, fleet)
    }

    /// The same, for a job that need not be known. `fleet` is the fleet that its other replicas are in.
    pub(super) fn context_for(&self, run: RunId, spec: &JobSpec, fleet: Option<FleetId>) -> PlacementContext {
        let least = spec.scaling.as_deref().map_or(spec.replicas, |scaling| scaling.min);
        PlacementContext { job: Some(run.job), replicas: spec.replicas, draw: Draw::new(self.seed, run), fleet, least }
    }

    fn versions_of(&self, candidates: &[Candidate]) -> Vec<(NodeId, u64)> {
        let claims = candidates.iter().flat_map(|candidate| candidate.placement.claims());
        let mut read: Vec<_> = claims.map(|claim| (claim.node, self.fleet.node(claim.node).version)).collect();
        read.sort_unstable();
        read.dedup();
        read
    }

    /// Commits a decision whose time is over, unless what it was based on has changed.
    pub(super) fn commit_due(&mut self) {
        let deciding = self.deciding.take().expect("only the decision under way sets this timer");
        let index = deciding.replica;
        assert_eq!(self.replicas[index as usize].version, deciding.version, "a void decision must not be committed");
        let Decision::Place(candidates) = deciding.decision else {
            self.enter_queue(index);
            self.conclude(index, deciding.decision, deciding.growth);
            // It has just been told why it waits.
            self.forget_fresh(index);
            return;
        };
        let count = candidates.len();
        for (rank, candidate) in candidates.into_iter().enumerate() {
            if self.may_commit(index, &candidate, &deciding.read) {
                self.forget_promise(index);
                self.place(index, candidate);
                return;
            }
            let fallback = rank + 1 < count;
            let run = self.replicas[index as usize].run();
            self.emit(Event::CommitRefused { run, because: Reason::StaleRead, fallback });
        }
        self.enter_queue(index);
    }

    /// Compare-and-set: whether nothing that the decision was based on has changed, or the candidate still fits.
    fn may_commit(&self, index: ReplicaIndex, candidate: &Candidate, read: &[(NodeId, u64)]) -> bool {
        if !self.profile.commit.recheck {
            return true;
        }
        let unchanged = candidate.placement.claims().iter().all(|claim| {
            let version = self.fleet.node(claim.node).version;
            read.binary_search(&(claim.node, version)).is_ok()
        });
        let demand = &self.demands[self.replicas[index as usize].demand as usize].demand;
        unchanged || still_fits(&self.profile.scheduler, demand, &self.fleet, &candidate.placement)
    }

    fn conclude(&mut self, index: ReplicaIndex, decision: Decision, growth: u64) {
        match decision {
            Decision::Place(mut candidates) => {
                self.leave_queue(index, Wait::Nothing);
                self.place(index, candidates.swap_remove(0));
            }
            Decision::Refuse { refusal: Refusal::Never, reasons }
                if self.profile.scheduler.never_fits == NeverFits::End =>
            {
                self.hold(index, (Refusal::Never, reasons));
                self.leave_queue(index, Wait::Nothing);
                self.end(index, Outcome::NeverFits, Reason::NeverFits);
            }
            Decision::Refuse { refusal, reasons } if self.profile.scheduler.unfit == Unfit::End => {
                self.hold(index, (refusal, reasons));
                self.leave_queue(index, Wait::Nothing);
                self.end(index, Outcome::Refused, Reason::NoRoom);
            }
            Decision::Refuse { refusal, reasons } => {
                let Replica { demand, key, .. } = self.replicas[index as usize];
                self.queue.refuse(demand, growth);
                self.queue.commit(key, demand);
                let record = &mut self.demands[demand as usize];
                let held = (refusal, reasons);
                let same = (record.held.as_ref())
                    .is_some_and(|(refusal, reasons)| *refusal == held.0 && reasons.has_same_reasons(&held.1));
                record.held = Some(held.clone());
                if !same {
                    self.tell_group(demand, &held);
                }
                self.hold(index, held);
            }
        }
    }

    /// Tells all replicas of one demand why they wait, because they wait for the same reasons. Only if the queue
    /// skips: otherwise replicas may wait behind the head.
    fn tell_group(&mut self, demand: u32, held: &(Refusal, dryrack_event::Histogram)) {
        if self.profile.scheduler.discipline != dryrack_scheduler::Discipline::Skipping {
            return;
        }
        let waiting: Vec<ReplicaIndex> = self.queue.of_demand(demand).map(|key| key.replica()).collect();
        for index in waiting {
            self.hold(index, held.clone());
        }
    }

    /// Enters a placement into the ledger.
    pub(super) fn hold_placement(&mut self, run: RunId, deployment: Option<&Deployment>, placement: &Placement) {
        let Some(deployment) = deployment else { return self.fleet.take(placement) };
        let hosting = Hosting {
            model: PlacementContext::key(run.job),
            model_name: Arc::clone(&deployment.model.name),
            backend: Arc::from(deployment.backend.name()),
        };
        self.fleet.host(run, placement, &hosting);
    }

    /// Whether its project may take this much more.
    pub(super) fn is_within_quota(&self, index: ReplicaIndex, wanted: Holding) -> bool {
        let job = &self.jobs[self.replicas[index as usize].job.index()];
        self.quotas.admits(job.spec.project.as_deref(), wanted)
    }

    /// What a placement takes, as quotas count it.
    pub(super) fn holding(&self, placement: &Placement) -> Holding {
        let each = placement.claims().iter().map(|claim| Holding::of(self.fleet.node(claim.node), claim));
        each.fold(Holding::default(), Holding::and)
    }

    /// Frees what a run held of a node.
    pub(super) fn release_claim(&mut self, run: RunId, claim: &NodeClaim) {
        self.fleet.release_of(run, claim);
        let project = self.jobs[run.job.index()].spec.project.as_deref();
        if self.quotas.counts(project) {
            self.quotas.give_back(project, Holding::of(self.fleet.node(claim.node), claim));
        }
    }

    /// Asserts that quotas count for each project what its runs hold.
    pub(super) fn assert_quotas(&self) {
        let live = self.replicas.values().filter_map(|replica| Some((replica.job, replica.placement.as_ref()?)));
        let kept = self.kept_claims.iter().map(|(run, placement)| (run.job, placement));
        let all: Vec<_> = live.chain(kept).collect();
        for (project, said) in self.quotas.held() {
            let own = all.iter().filter(|(job, _)| self.jobs[job.index()].spec.project.as_deref() == Some(project));
            let held = own.fold(Holding::default(), |sum, (_, placement)| sum.and(self.holding(placement)));
            assert_eq!(said, held, "{project} holds something else than is counted");
        }
    }

    /// Enters a placement into the ledger, and counts what it takes against shares and quotas.
    pub(super) fn enter_ledger(&mut self, index: ReplicaIndex, placement: &Placement) {
        let replica = &self.replicas[index as usize];
        let (run, deployment) = (replica.run(), self.demands[replica.demand as usize].demand.deployment.clone());
        self.hold_placement(run, deployment.as_deref(), placement);
        // A first node that goes elsewhere may leave the other nodes of its gang what they need, so taking can make
        // room.
        if self.profile.scheduler.offers.gang == GangRule::NodeByNode && self.fleet.fleets().next().is_some() {
            self.fleet.ask_again();
        }
        if let Some(shares) = &mut self.shares {
            shares.take(self.jobs[run.job.index()].user, self.now, placement);
        }
        let project = self.jobs[run.job.index()].spec.project.as_deref();
        if self.quotas.counts(project) {
            self.quotas.take(project, self.holding(placement));
        }
        for claim in placement.claims() {
            let runs = &mut self.nodes[claim.node.index()].runs;
            if let Err(place) = runs.binary_search(&index) {
                runs.insert(place, index);
            }
        }
    }

    /// Places a replica: in the ledger, in the log, and in the world.
    pub(super) fn place(&mut self, index: ReplicaIndex, candidate: Candidate) {
        self.keep_examination(index);
        let replica = &self.replicas[index as usize];
        let run = replica.run();
        let demand = &self.demands[replica.demand as usize].demand;
        for (node, what) in safety::broken_by(&self.fleet, demand, &candidate.placement) {
            assert!(
                self.profile.historic || self.is_decided_outside(),
                "{run} on {} would break safety: {what:?}, under the profile {}",
                self.fleet.node(node).name,
                self.profile.name
            );
            self.outbox.push_back(dryrack_event::Output::Event(Event::SafetyBroken { run, node, what }));
        }
        let Candidate { placement, score } = candidate;
        self.enter_ledger(index, &placement);
        self.emit(Event::Placed { run, score, placement: placement.clone() });
        placement.claims().iter().for_each(|claim| self.instance_taken(claim.node));
        self.command(Command::Start { run, placement: placement.clone() });
        self.replicas[index as usize].placement = Some(placement);
        self.enter_silently(index, Phase::Scheduled);
    }
}
