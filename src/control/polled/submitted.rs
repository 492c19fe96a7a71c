//! Looks at submitted nodes: the first finds a place, the second begins to use it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::options::{Assignment, GangRule, Loops, NoCapacityRule};
use crate::store::ReplicaIndex;
use crate::{Control, safety};
use dryrack_event::{Event, Histogram, Outcome, Output, Phase, Reason, Refusal, Safety};
use dryrack_fleet::Placement;
use dryrack_ids::NodeId;
use dryrack_lifecycle::MemberState;
use dryrack_policy::Holding;
use dryrack_scheduler::offers::{self, Ask};
use dryrack_scheduler::{Candidate, Decision, Seats, decide_for};
use dryrack_units::Score;
use dryrack_workload::{Demand, Gang, Pick};

impl Control {
    pub(super) fn look_at_submitted(&mut self, index: ReplicaIndex) {
        if let Some((outcome, because)) = self.flow().member(index).news {
            if self.flow().member(index).state.is_live() {
                self.terminate(index, outcome, because);
            }
            return self.processed(index);
        }
        match self.flow().member(index).state {
            MemberState::Submitted => self.assign(index),
            MemberState::Assigned => self.provision(index),
            // It was ended since it was listed.
            MemberState::Waiting
            | MemberState::Provisioning
            | MemberState::Pulling
            | MemberState::Running
            | MemberState::Terminating
            | MemberState::Draining
            | MemberState::Ended => return,
        }
        self.processed(index);
    }

    fn assign(&mut self, index: ReplicaIndex) {
        let siblings: Vec<ReplicaIndex> = self.flow().siblings(index).to_vec();
        let master = siblings[0];
        if index != master && self.replicas[master as usize].placement.is_none() {
            return;
        }
        if self.awaits_fleet(index) {
            return;
        }
        if let Some(wanted) = self.flow().over_quota.get(&index).copied()
            && !self.is_within_quota(index, wanted)
        {
            return self.over_quota(&siblings, wanted);
        }
        let whole = self.flow().options.gang == GangRule::Whole;
        let seekers = if whole { &siblings[..] } else { std::slice::from_ref(&index) };
        match self.seek(index, &siblings, whole) {
            Ok(candidate) if !self.is_within_quota(index, self.holding(&candidate.placement)) => {
                self.over_quota(&siblings, self.holding(&candidate.placement));
            }
            Ok(candidate) => {
                let torn = !whole && siblings.len() > 1;
                self.bind_all(seekers, candidate, torn);
            }
            Err(held) => self.refused(index, held),
        }
    }

    /// Whether it waits until its run has a fleet. If nodes are placed one by one, the first node of the first
    /// replica finds the fleet of the run, and the others wait for it.
    fn awaits_fleet(&mut self, index: ReplicaIndex) -> bool {
        let by_offers = self.jobs[self.replicas[index as usize].job.index()].spec.demand.requirements.is_some();
        let flow = self.flow();
        let (one_by_one, member) = (flow.options.gang == GangRule::OneByOne, &flow.members[index as usize]);
        one_by_one && by_offers && member.group > 0 && !flow.runs[member.run.index()].settled
    }

    /// Decides for all nodes together, or for one of them.
    fn seek(
        &mut self,
        index: ReplicaIndex,
        siblings: &[ReplicaIndex],
        whole: bool,
    ) -> Result<Candidate, (Refusal, Histogram)> {
        let replica = &self.replicas[index as usize];
        let (number, growth) = (replica.demand, self.fleet.growth());
        let context = self.context(replica.run());
        let (demand, seats) = self.part(index, siblings, whole);
        if let Seats::One { master } = seats {
            self.examine_part_if_watched(index, &demand, seats);
            let ask = Ask { master, ..Ask::of_whole(&demand, context) };
            let options = &self.profile.scheduler.offers;
            return match offers::seek(options, &demand, &ask, &self.fleet, self.grouping, 1) {
                Decision::Place(mut candidates) => Ok(candidates.swap_remove(0)),
                Decision::Refuse { refusal, reasons } => Err((refusal, reasons)),
            };
        }
        let record = &self.demands[number as usize];
        // A refused demand stays refused as long as nothing is given back. That does not hold for replicas of models,
        // which differ, nor for those of a run that has its fleet.
        let alike = siblings.len() == 1 && record.demand.deployment.is_none() && context.fleet.is_none();
        let alike = alike && (record.demand.requirements.is_none() || context.least == 1);
        if let (Some(held), true) = (&record.held, record.refused_at == Some(growth) && alike) {
            return Err(held.clone());
        }
        self.examine_part_if_watched(index, &demand, seats);
        match decide_for(&self.profile.scheduler, &demand, context, &self.fleet, self.grouping, 1) {
            Decision::Place(mut candidates) => Ok(candidates.swap_remove(0)),
            Decision::Refuse { refusal, reasons } => {
                if alike {
                    let record = &mut self.demands[number as usize];
                    (record.held, record.refused_at) = (Some((refusal, reasons.clone())), Some(growth));
                }
                Err((refusal, reasons))
            }
        }
    }

    /// What is decided about when one node of a run looks for a place: all its nodes together; or one of them, on the
    /// first offer that it has in the run's fleet and, for a worker, near its master; or one of them, on a node that
    /// none of the others has.
    fn part(&self, index: ReplicaIndex, siblings: &[ReplicaIndex], whole: bool) -> (Arc<Demand>, Seats) {
        let demand = &self.demands[self.replicas[index as usize].demand as usize].demand;
        if !whole && demand.requirements.is_some() {
            let placement = self.replicas[siblings[0] as usize].placement.as_ref();
            let master = placement.filter(|_| index != siblings[0]).map(|placement| placement.claims()[0].node);
            return (Arc::clone(demand), Seats::One { master });
        }
        match whole || siblings.len() == 1 {
            true => (Arc::clone(demand), Seats::All),
            false => (Arc::new(self.demand_of_one(demand, siblings)), Seats::All),
        }
    }

    /// Whether all nodes of a run's replica get their places together.
    pub(crate) fn places_whole(&self) -> bool {
        self.runs.as_ref().is_none_or(|flow| flow.options.gang == GangRule::Whole)
    }

    /// The same, for a caller that asks about a node of a run; `None` if jobs are not runs.
    pub(crate) fn part_of_run(&self, index: ReplicaIndex) -> Option<(Arc<Demand>, Seats)> {
        let flow = self.runs.as_ref()?;
        Some(self.part(index, flow.siblings(index), self.places_whole()))
    }

    /// The demand of one of its tasks, on a node that no sibling has.
    fn demand_of_one(&self, demand: &Demand, siblings: &[ReplicaIndex]) -> Demand {
        let taken: Vec<NodeId> = (siblings.iter())
            .filter_map(|index| self.replicas[*index as usize].placement.as_ref())
            .flat_map(|placement| placement.claims().iter().map(|claim| claim.node))
            .collect();
        let mut one = Demand { tasks: 1, gang: Gang::Anywhere, ..demand.clone() };
        if !taken.is_empty() {
            let all = || (0..self.fleet.len()).map(NodeId::new);
            let free = |node: &NodeId| !taken.contains(node);
            one.pick = Some(match one.pick {
                None => Pick::Nodes(all().filter(free).collect()),
                Some(Pick::Nodes(nodes)) => Pick::Nodes(nodes.into_iter().filter(free).collect()),
                Some(Pick::Gpus(gpus)) => Pick::Gpus(gpus.into_iter().filter(|gpu| free(&gpu.node)).collect()),
                Some(Pick::AllGpus(gpus)) => Pick::AllGpus(gpus),
            });
        }
        one
    }

    /// Gives each of the seekers its part of the placement.
    fn bind_all(&mut self, seekers: &[ReplicaIndex], candidate: Candidate, torn: bool) {
        let Candidate { placement, score } = candidate;
        if let [index] = seekers {
            self.bind(*index, placement.clone(), score, torn);
        } else {
            assert_eq!(placement.claims().len(), seekers.len(), "each node of a run has a host of its own");
            for (index, claim) in seekers.iter().zip(placement.claims()) {
                let own: SmallVec<[_; 1]> = std::iter::once(claim.clone()).collect();
                self.bind(*index, Placement::new(own), score, torn);
            }
        }
        self.give_back_beside(&placement);
        self.settle_in_fleet(seekers[0], &placement);
    }

    /// Sets the fleet of a run whose nodes are placed together: its other replicas go to no other fleet.
    fn settle_in_fleet(&mut self, index: ReplicaIndex, placement: &Placement) {
        let job = self.replicas[index as usize].job;
        let own = self.fleet.node(placement.claims()[0].node).shape.instance.as_ref().map(|own| own.fleet);
        if self.flow().options.gang == GangRule::Whole {
            self.flow().run(job).fleet = own;
        }
    }

    /// Enters the place of one node into the ledger and into the log. Nothing is asked of its host yet.
    fn bind(&mut self, index: ReplicaIndex, placement: Placement, score: Score, torn: bool) {
        let replica = &self.replicas[index as usize];
        let run = replica.run();
        let group = &self.demands[replica.demand as usize].demand;
        let demand = match group.nodes_apart() > 1 {
            true => Demand { tasks: 1, gang: Gang::Anywhere, ..(**group).clone() },
            false => (**group).clone(),
        };
        let idle = self.jobs[run.job.index()].spec.terms.idle;
        self.make_for(&placement, idle);
        let awaits = placement.claims().iter().any(|claim| self.is_coming(claim.node));
        self.flow().member(index).awaits = awaits;
        let mut broken = safety::broken_by(&self.fleet, &demand, &placement);
        if torn {
            broken.push((placement.claims()[0].node, Safety::GangTorn));
        }
        for (node, what) in broken {
            assert!(
                self.profile.historic,
                "{run} on {} would break safety: {what:?}, under the profile {}",
                self.fleet.node(node).name,
                self.profile.name
            );
            self.outbox.push_back(Output::Event(Event::SafetyBroken { run, node, what }));
        }
        self.keep_shared_examination(index);
        self.enter_ledger(index, &placement);
        self.emit(Event::Placed { run, score, placement: placement.clone() });
        placement.claims().iter().for_each(|claim| self.instance_taken(claim.node));
        self.replicas[index as usize].placement = Some(placement);
        self.enter_silently(index, Phase::Scheduled);
        let member = self.flow().member(index);
        (member.had_place, member.flagged, member.parked) = (true, true, None);
        self.flow().unlist(index);
        self.advance(index, MemberState::Assigned, None);
        self.processed(index);
        if self.passes() == Assignment::OnePass {
            self.provision(index);
        }
    }

    fn passes(&mut self) -> Assignment {
        match &self.flow().options.loops {
            Loops::Ideal => Assignment::OnePass,
            Loops::Polled(loops) => loops.submitted.passes,
        }
    }

    fn provision(&mut self, index: ReplicaIndex) {
        self.advance(index, MemberState::Provisioning, None);
        self.flag(index);
        let siblings = self.flow().siblings(index).to_vec();
        if siblings[0] != index {
            return;
        }
        for worker in siblings {
            if self.flow().member(worker).state == MemberState::Waiting {
                self.advance(worker, MemberState::Submitted, None);
            }
        }
    }

    /// Handles a node for which there is no place.
    fn refused(&mut self, index: ReplicaIndex, held: (Refusal, Histogram)) {
        let whole = self.flow().options.gang == GangRule::Whole;
        // Nodes that get places together wait for them together.
        let waiting = if whole { self.flow().siblings(index).to_vec() } else { vec![index] };
        waiting.into_iter().for_each(|waiting| self.hold(waiting, held.clone()));
        self.flow().over_quota.remove(&index);
        let growth = self.fleet.growth();
        let (keeps_turn, over) = (
            self.flow().options.no_capacity == NoCapacityRule::KeepsTurn && self.flow().siblings(index)[0] == index,
            self.is_retry_over(index, Reason::NoCapacity),
        );
        match keeps_turn && over == Some(false) {
            true => {
                self.flow().member(index).parked = Some(growth);
                self.flow().parked.insert(index);
            }
            false => self.terminate(index, Outcome::Failed, Reason::NoCapacity),
        }
    }

    /// Makes a node wait until its project has enough quota left, whatever the profile does when there is no
    /// capacity.
    fn over_quota(&mut self, siblings: &[ReplicaIndex], wanted: Holding) {
        let held = (Refusal::Unfit, Histogram::of(Reason::QuotaExceeded, self.fleet.len() as u32));
        siblings.iter().for_each(|waiting| self.hold(*waiting, held.clone()));
        let growth = self.fleet.growth();
        self.flow().member(siblings[0]).parked = Some(growth);
        self.flow().parked.insert(siblings[0]);
        self.flow().over_quota.insert(siblings[0], wanted);
    }
}
