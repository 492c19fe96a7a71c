//! Decisions of an outside scheduler. The scheduler receives the waiting replicas, and its decisions are inputs.
//!
//! ```text
//!  queued ──Submit──> outside scheduler ──Decided: a place──> scheduled, as after a pass
//!    │ ^                     │
//!    │ └── next attempt      └───────────Decided: none──────> ended, refused
//!    └───Withdraw──> (ended, or no longer waiting)
//! ```
//!
//! Every decision is checked. A real scheduler (Slurm) may make a decision that breaks safety. Such a decision has
//! already been carried out, so it is accepted and logged with the event `SafetyBroken`. A decision about a replica
//! that does not wait leads to the event `CommitRefused`. The real scheduler also enforces the time limits.
//!
//! An outside program that decides in a simulated run ([`Program`]) can send more than decisions ([`Outside`]). If a
//! placement of the program breaks safety, it is carried out and leads to `SafetyBroken`, unless the run refuses such
//! placements (`CommitRefused`).

use crate::attempts::Attempts;
use crate::clocks::PassTime;
use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::flow::Flow;
use crate::profile::{FlowOptions, PassOptions, Passes, Profile, Program, Trigger, Unsafe};
use crate::queue::Queue;
use crate::safety;
use dryrack_event::{Command, Event, Histogram, Outcome, Outside, Phase, Reason, Refusal, Safety};
use dryrack_fleet::{Fleet, NodeClaim, NodeState, Placement, offer_of};
use dryrack_ids::{AttemptId, NodeId};
use dryrack_scheduler::offers::NewInstances;
use dryrack_scheduler::{Candidate, Preempt};
use dryrack_units::{Score, SimDuration};

impl Profile {
    /// The same profile, with an outside scheduler that decides.
    pub fn decided_outside(&self) -> Profile {
        let (batch, jitter, offset) = (None, SimDuration::ZERO, SimDuration::ZERO);
        let place = PassOptions { trigger: Trigger::Outside, batch, jitter, offset, takes: PassTime::NONE };
        let passes = Passes { place, backfill: None, ..self.passes };
        let name = format!("{}, decided outside", self.name);
        Profile { name, passes, ticks: None, ..self.clone() }
    }

    /// The same profile of Kubernetes, with a real kube-scheduler that decides. Everything else that the control plane
    /// of Kubernetes does stays as it is.
    pub fn decided_by_kube_scheduler(&self, program: Program) -> Profile {
        Profile { program: Some(program), ..self.decided_outside() }
    }

    /// The same profile, with an outside program that decides in a simulated run. Replicas wait for the program in a
    /// queue, independent of the flow that the profile names. Only the program preempts attempts and requests
    /// instances.
    pub fn decided_by(&self, program: Program) -> Profile {
        let mut profile = self.decided_outside();
        (profile.flow, profile.program) = (FlowOptions::Queue, Some(program));
        profile.scheduler.preempt = Preempt::Nobody;
        profile.scheduler.offers.new_instances = NewInstances::Never;
        profile
    }
}

impl Queue {
    pub(super) fn decided_outside(&mut self, core: &mut Core, attempt: AttemptId, placement: Option<&Placement>) {
        let waits = |index: &ReplicaIndex| {
            let replica = &core.replicas[*index as usize];
            replica.attempt == attempt.number && replica.wait == Wait::Queue
        };
        // The store may have dropped the record of a replica that has ended. Such a replica does not wait either.
        let Some(index) = core.replica_of(attempt).filter(waits) else {
            core.emit(Event::CommitRefused { attempt, because: Reason::NotWaiting, fallback: false });
            return;
        };
        // A decision from outside gives no reasons. So the reasons are those that the profile's own stages give for
        // each node.
        core.examine_if_watched(index, |_| None);
        let placement = match (placement, core.profile.program) {
            (Some(placement), Some(program)) => match refused(core, index, placement, program) {
                Some(because) => return core.emit(not_possible(attempt, because)),
                // The price is known only once the place is known, so the quota is checked here.
                None if self.is_over_quota(core, index, placement) => {
                    return core.emit(not_possible(attempt, Reason::QuotaExceeded));
                }
                None => Some(placement),
            },
            (placement, _) => placement,
        };
        self.leave_queue(core, index, Wait::Nothing);
        match placement {
            Some(placement) => self.place_outside(core, index, placement.clone()),
            None => self.end(core, index, Outcome::Refused, Reason::RefusedOutside),
        }
    }

    /// Places a replica and requests those of its instances that do not exist yet. The replica starts only when all of
    /// them are up.
    fn place_outside(&mut self, core: &mut Core, index: ReplicaIndex, placement: Placement) {
        let idle = core.jobs[core.replicas[index as usize].job.index()].spec.terms.idle;
        core.make_for(&placement, idle);
        let candidate = Candidate { placement, score: Score::ZERO };
        if !candidate.placement.claims().iter().any(|claim| core.is_coming(claim.node)) {
            return self.place(core, index, candidate);
        }
        core.keep_examination(index);
        core.bind(index, candidate, None, false);
        self.enter_silently(core, index, Phase::Scheduled);
        self.awaiting.insert(index);
    }

    /// Starts the replicas that waited for this instance and do not wait for another instance.
    pub(super) fn start_on_new(&mut self, core: &mut Core, node: NodeId) {
        let waiting = self.awaiting.iter().copied().filter(|index| core.placement_of(*index).touches(node));
        for index in waiting.collect::<Vec<ReplicaIndex>>() {
            let placement = core.placement_of(index).clone();
            if !placement.claims().iter().any(|claim| core.is_coming(claim.node)) {
                self.awaiting.remove(&index);
                let attempt = core.replicas[index as usize].attempt_id();
                core.command(Command::Start { attempt, placement });
                core.set_deadline(index);
            }
        }
    }

    /// Applies what an outside program sent apart from its placement decisions.
    pub(super) fn said_outside(&mut self, core: &mut Core, said: &Outside) {
        match said {
            Outside::Waits { attempt, reasons, .. } => match waiting(core, *attempt) {
                Some(index) => {
                    self.forget_fresh(core, index);
                    let nodes = core.fleet.len() as u32;
                    let none = reasons.is_empty();
                    let reasons = if none { Histogram::of(Reason::DecidedOutside, nodes) } else { reasons.clone() };
                    core.hold(index, (Refusal::Unfit, reasons));
                }
                None => core.emit(not_possible(*attempt, Reason::NotWaiting)),
            },
            Outside::Preempts { attempt, by, .. } => match holding(core, *attempt) {
                Some(index) => self.preempt_outside(core, index, *by),
                None => core.emit(not_possible(*attempt, Reason::NotRunning)),
            },
            Outside::Cancels { attempt, because, .. } => match waiting(core, *attempt).or(holding(core, *attempt)) {
                Some(index) => {
                    self.stop(core, index, outcome_of(*because), *because);
                }
                None => core.emit(not_possible(*attempt, Reason::NotRunning)),
            },
            Outside::CancelsJob { job, .. } => self.cancel(core, *job, Reason::Cancelled),
            Outside::Answers { name, refusal, reasons, .. } => {
                let (name, refusal, reasons) = (name.clone(), *refusal, reasons.clone());
                core.emit(Event::Evaluated { name, refusal, reasons });
            }
            Outside::Joined { .. } | Outside::Mistaken { .. } | Outside::Failed { .. } => {}
        }
    }

    fn preempt_outside(&mut self, core: &mut Core, index: ReplicaIndex, by: Option<AttemptId>) {
        let attempt = core.replicas[index as usize].attempt_id();
        if let Some(by) = by {
            core.emit(Event::Preempted { attempt, by });
        }
        let replica = &mut core.replicas[index as usize];
        if replica.phase == Phase::Running && core.jobs[replica.job.index()].spec.checkpoints {
            replica.ran = replica.ran.saturating_add(core.now.since(replica.since));
        }
        self.stop(core, index, Outcome::Lost, Reason::Preempted);
    }

    /// Logs once for each newly queued replica that it waits for the decision of an outside scheduler.
    pub(super) fn log_outside_decider(&mut self, core: &mut Core) {
        let reasons = Histogram::of(Reason::DecidedOutside, core.fleet.len() as u32);
        while let Some((_, index)) = self.fresh.pop_front() {
            core.replicas[index as usize].fresh = None;
            core.hold(index, (Refusal::Unfit, reasons.clone()));
        }
    }
}

/// The outcome of an attempt that a program cancels.
pub(crate) fn outcome_of(because: Reason) -> Outcome {
    match because {
        Reason::TimeLimit | Reason::RetryLimit | Reason::UtilizationPolicy => Outcome::Expired,
        _ => Outcome::Cancelled,
    }
}

pub(crate) fn not_possible(attempt: AttemptId, because: Reason) -> Event {
    Event::CommitRefused { attempt, because, fallback: false }
}

/// The replica of an attempt, if the replica waits for a decision.
pub(crate) fn waiting(core: &Core, attempt: AttemptId) -> Option<ReplicaIndex> {
    core.replica_of(attempt).filter(|index| {
        let replica = &core.replicas[*index as usize];
        replica.is_at(attempt) && replica.wait == Wait::Queue
    })
}

/// The replica of an attempt, if the replica holds a place and is not being stopped.
pub(crate) fn holding(core: &Core, attempt: AttemptId) -> Option<ReplicaIndex> {
    core.replica_of(attempt).filter(|index| {
        let replica = &core.replicas[*index as usize];
        replica.is_at(attempt) && matches!(replica.phase, Phase::Scheduled | Phase::Preparing | Phase::Running)
    })
}

/// Why a placement is not carried out; `None` if it may be. A placement is always refused if the ledger cannot record
/// it or a cloud cannot make its instances.
pub(crate) fn refused(core: &Core, index: ReplicaIndex, placement: &Placement, program: Program) -> Option<Reason> {
    let fleet = &core.fleet;
    let is_held = |claim: &NodeClaim| {
        let held = &fleet.node(claim.node).status.blocks;
        claim.blocks.iter().any(|block| held.contains(*block))
    };
    if placement.claims().iter().any(is_held) || !can_be_made(fleet, placement) {
        return Some(Reason::DoesNotFit);
    }
    if placement.claims().iter().any(|claim| is_on_its_way(fleet, claim.node)) {
        return Some(Reason::PlaceNotReady);
    }
    let broken = safety::broken_by(fleet, core.demand_of(index), placement).into_iter();
    // An instance that is made for this placement is ready once it exists, so it does not count as not ready here.
    let mut broken = broken.filter(|(node, what)| *what != Safety::NotReady || !fleet.is_unmade(*node));
    let (_, what) = broken.next().filter(|_| program.when_unsafe == Unsafe::Refused)?;
    Some(match what {
        Safety::NotReady => Reason::PlaceNotReady,
        Safety::Overcommit => Reason::DoesNotFit,
        Safety::GangTorn => Reason::GangTorn,
        Safety::RequirementUnmet => Reason::Unmet,
    })
}

/// Whether the node is an instance that a cloud is making. Until it is up, it is for nothing but what it is made for.
fn is_on_its_way(fleet: &Fleet, node: NodeId) -> bool {
    let node = fleet.node(node);
    node.status.state == NodeState::Joining && offer_of(&node.shape).is_some()
}

/// Whether the clouds can make all instances of a placement that do not exist yet.
fn can_be_made(fleet: &Fleet, placement: &Placement) -> bool {
    let unmade = || placement.claims().iter().map(|claim| claim.node).filter(|node| fleet.is_unmade(*node));
    let own = |node: NodeId| {
        let shape = &fleet.node(node).shape;
        shape.instance.as_ref().map(|own| own.fleet).zip(offer_of(shape))
    };
    unmade().all(|node| {
        let Some((of, offer)) = own(node) else { return false };
        let of_fleet = unmade().filter(|other| own(*other).is_some_and(|(other, _)| other == of)).count();
        let of_offer = unmade().filter(|other| own(*other) == Some((of, offer))).count();
        of_fleet as u32 <= fleet.instances_left(of) && of_offer as u32 <= fleet.capacity_left(of, offer)
    })
}
