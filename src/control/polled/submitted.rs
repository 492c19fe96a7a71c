//! Polls submitted nodes: the first poll finds a place, and the second begins to use it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Polled;
use super::options::{Assignment, GangRule, Loops, NoCapacityRule};
use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_event::{Histogram, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::NodeId;
use dryrack_lifecycle::MemberState;
use dryrack_policy::Holding;
use dryrack_scheduler::offers::{self, Ask};
use dryrack_scheduler::{Candidate, Decision, GangPart, decide_for};
use dryrack_units::Score;
use dryrack_workload::{Demand, Gang, Pick};

impl Polled {
    pub(super) fn poll_submitted(&mut self, core: &mut Core, index: ReplicaIndex) {
        if let Some((outcome, because)) = self.member(index).news {
            if self.member(index).state.is_live() {
                self.terminate(core, index, outcome, because);
            }
            return self.processed(core, index);
        }
        match self.member(index).state {
            MemberState::Submitted => self.assign(core, index),
            MemberState::Assigned => self.provision(core, index),
            // The node has ended since the round began.
            MemberState::Waiting
            | MemberState::Provisioning
            | MemberState::Pulling
            | MemberState::Running
            | MemberState::Terminating
            | MemberState::Draining
            | MemberState::Ended => return,
        }
        self.processed(core, index);
    }

    fn assign(&mut self, core: &mut Core, index: ReplicaIndex) {
        let siblings: Vec<ReplicaIndex> = self.siblings(index).to_vec();
        let master = siblings[0];
        if index != master && core.store[master].placement.is_none() {
            return;
        }
        if self.awaits_fleet(core, index) {
            return;
        }
        if let Some(wanted) = self.over_quota.get(&index).copied()
            && !core.is_within_quota(index, wanted)
        {
            return self.over_quota(core, &siblings, wanted);
        }
        let whole = self.options.gang == GangRule::Whole;
        let seekers = if whole { &siblings[..] } else { std::slice::from_ref(&index) };
        match seek(core, index, &siblings, whole) {
            Ok(candidate) if !core.is_within_quota(index, core.holding(&candidate.placement)) => {
                self.over_quota(core, &siblings, core.holding(&candidate.placement));
            }
            Ok(candidate) => {
                let torn = !whole && siblings.len() > 1;
                self.bind_all(core, seekers, candidate, torn);
            }
            Err(held) => self.refused(core, index, held),
        }
    }

    /// Whether the node must wait until its run has a fleet. If nodes are placed one by one, the first node of the
    /// first replica chooses the fleet of the run.
    fn awaits_fleet(&mut self, core: &mut Core, index: ReplicaIndex) -> bool {
        let by_offers = core.store.job_of(index).spec.demand.requirements().is_some();
        let (one_by_one, member) = (self.options.gang == GangRule::OneByOne, &self.members[index as usize]);
        one_by_one && by_offers && member.group > 0 && !self.runs[member.run.index()].settled
    }

    /// Whether all nodes of a replica are placed together.
    pub(super) fn places_whole(&self) -> bool {
        self.options.gang == GangRule::Whole
    }

    /// Binds each of these nodes to its own claim of the placement.
    fn bind_all(&mut self, core: &mut Core, seekers: &[ReplicaIndex], candidate: Candidate, torn: bool) {
        let Candidate { placement, score } = candidate;
        if let [index] = seekers {
            self.bind(core, *index, placement.clone(), score, torn);
        } else {
            assert_eq!(placement.claims().len(), seekers.len(), "each node of a run has a host of its own");
            for (index, claim) in seekers.iter().zip(placement.claims()) {
                let own: SmallVec<[_; 1]> = std::iter::once(claim.clone()).collect();
                self.bind(core, *index, Placement::new(own), score, torn);
            }
        }
        core.give_back_beside(&placement);
        self.settle_in_fleet(core, seekers[0], &placement);
    }

    /// Sets the fleet of a run whose nodes are placed together. Its other replicas must use the same fleet.
    fn settle_in_fleet(&mut self, core: &mut Core, index: ReplicaIndex, placement: &Placement) {
        let job = core.store[index].job;
        let own = core.fleet.node(placement.claims()[0].node).shape.instance.as_ref().map(|own| own.fleet);
        if self.options.gang == GangRule::Whole {
            core.store[job].fleet = own;
        }
    }

    /// Enters the place of one node into the ledger and the log. No command is sent to its host yet.
    pub(crate) fn bind(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        placement: Placement,
        score: Score,
        torn: bool,
    ) {
        let replica = &core.store[index];
        let attempt = replica.attempt_id();
        let group = core.store.demand(replica.demand);
        let demand = match group.nodes_apart() > 1 {
            true => Demand { tasks: 1, gang: Gang::Anywhere, ..(**group).clone() },
            false => (**group).clone(),
        };
        let idle = core.store[attempt.job].spec.terms.idle;
        core.make_for(&placement, idle);
        let awaits = placement.claims().iter().any(|claim| core.clouds.instances.is_coming(claim.node));
        self.member(index).awaits = awaits;
        core.keep_shared_examination(index);
        core.bind(index, Candidate { placement, score }, Some(&demand), torn);
        self.enter_silently(core, index, Phase::Scheduled);
        let member = self.member(index);
        (member.had_place, member.flagged, member.parked) = (true, true, None);
        self.unlist(index);
        self.advance(core, index, MemberState::Assigned, None);
        self.processed(core, index);
        if self.passes() == Assignment::OnePass {
            self.provision(core, index);
        }
    }

    fn passes(&self) -> Assignment {
        match &self.options.loops {
            Loops::Ideal => Assignment::OnePass,
            Loops::Polled(loops) => loops.submitted.passes,
        }
    }

    fn provision(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.advance(core, index, MemberState::Provisioning, None);
        self.flag(index);
        let siblings = self.siblings(index).to_vec();
        if siblings[0] != index {
            return;
        }
        for worker in siblings {
            if self.member(worker).state == MemberState::Waiting {
                self.advance(core, worker, MemberState::Submitted, None);
            }
        }
    }

    /// Handles a node that finds no place.
    fn refused(&mut self, core: &mut Core, index: ReplicaIndex, held: (Refusal, Histogram)) {
        let whole = self.options.gang == GangRule::Whole;
        // Nodes that are placed together also wait together.
        let waiting = if whole { self.siblings(index).to_vec() } else { vec![index] };
        waiting.into_iter().for_each(|waiting| core.hold(waiting, held.clone()));
        self.over_quota.remove(&index);
        let growth = core.growth();
        let (keeps_turn, over) = (
            self.options.no_capacity == NoCapacityRule::KeepsTurn && self.siblings(index)[0] == index,
            self.is_retry_over(core, index, Reason::NoCapacity),
        );
        match keeps_turn && over == Some(false) {
            true => {
                self.member(index).parked = Some(growth);
                self.parked.insert(index);
            }
            false => self.terminate(core, index, Outcome::Failed, Reason::NoCapacity),
        }
    }

    /// Makes a node wait until its project has enough quota left. This does not depend on the profile's rule for lack
    /// of capacity.
    fn over_quota(&mut self, core: &mut Core, siblings: &[ReplicaIndex], wanted: Holding) {
        let held = (Refusal::Unfit, Histogram::of(Reason::QuotaExceeded, core.fleet.len() as u32));
        siblings.iter().for_each(|waiting| core.hold(*waiting, held.clone()));
        let growth = core.growth();
        self.member(siblings[0]).parked = Some(growth);
        self.parked.insert(siblings[0]);
        self.over_quota.insert(siblings[0], wanted);
    }
}

/// Decides about all nodes of a replica together, or about one of them.
fn seek(
    core: &mut Core,
    index: ReplicaIndex,
    siblings: &[ReplicaIndex],
    whole: bool,
) -> Result<Candidate, (Refusal, Histogram)> {
    let replica = &core.store[index];
    let (number, growth) = (replica.demand, core.growth());
    let context = core.context(replica.attempt_id());
    let (demand, gang_part) = part(core, index, siblings, whole);
    if let GangPart::Node { master } = gang_part {
        core.examine_part_if_watched(index, &demand, gang_part);
        let ask = Ask { master, ..Ask::of_whole(&demand, context) };
        let options = &core.profile.scheduler.offers;
        return match offers::seek(options, &demand, &ask, &core.fleet, core.deciding.grouping, 1) {
            Decision::Place(mut candidates) => Ok(candidates.swap_remove(0)),
            Decision::Refuse { refusal, reasons } => Err((refusal, reasons)),
        };
    }
    let record = &core.store.demands[number as usize];
    // A refused demand stays refused until capacity is released. This is not true for replicas of models, because they
    // differ. It is also not true for replicas of a run that already has a fleet.
    let alike = siblings.len() == 1 && record.demand.model().is_none() && context.fleet.is_none();
    let alike = alike && (record.demand.requirements().is_none() || context.least == 1);
    if let (Some(held), true) = (&record.held, record.refused_at == Some(growth) && alike) {
        return Err(held.clone());
    }
    core.examine_part_if_watched(index, &demand, gang_part);
    match decide_for(&core.profile.scheduler, &demand, context, &core.fleet, core.deciding.grouping, 1) {
        Decision::Place(mut candidates) => Ok(candidates.swap_remove(0)),
        Decision::Refuse { refusal, reasons } => {
            if alike {
                let record = &mut core.store.demands[number as usize];
                (record.held, record.refused_at) = (Some((refusal, reasons.clone())), Some(growth));
            }
            Err((refusal, reasons))
        }
    }
}

/// The demand for which a node of a run looks for a place, and the part of the gang that it covers. There are three cases. If `whole` is set, the
/// demand covers all nodes of the replica together. If the run has requirements, it covers one node, which takes its
/// first offer in the run's fleet; a worker also takes an offer near its master. Otherwise it covers one node, on a
/// host that no other node of the replica uses.
pub(in crate::polled) fn part(
    core: &Core,
    index: ReplicaIndex,
    siblings: &[ReplicaIndex],
    whole: bool,
) -> (Arc<Demand>, GangPart) {
    let demand = core.store.demand_of(index);
    if !whole && demand.requirements().is_some() {
        let placement = core.store[siblings[0]].placement.as_ref();
        let master = placement.filter(|_| index != siblings[0]).map(|placement| placement.claims()[0].node);
        return (Arc::clone(demand), GangPart::Node { master });
    }
    match whole || siblings.len() == 1 {
        true => (Arc::clone(demand), GangPart::Whole),
        false => (Arc::new(demand_of_one(core, demand, siblings)), GangPart::Whole),
    }
}

/// The demand of one task, on a node that no sibling uses.
fn demand_of_one(core: &Core, demand: &Demand, siblings: &[ReplicaIndex]) -> Demand {
    let taken: Vec<NodeId> = (siblings.iter())
        .filter_map(|index| core.store[*index].placement.as_ref())
        .flat_map(|placement| placement.claims().iter().map(|claim| claim.node))
        .collect();
    let mut one = Demand { tasks: 1, gang: Gang::Anywhere, ..demand.clone() };
    if !taken.is_empty() {
        let all = || (0..core.fleet.len()).map(NodeId::new);
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
