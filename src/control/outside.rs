//! What a scheduler in another process may do, for every flow that supports one.
//!
//! A program that decides in a simulated run ([`Program`]) can send more than decisions ([`Outside`]): why an attempt
//! waits, that an attempt is preempted or cancelled, and answers to queries. A decision that cannot be carried out leads
//! to the event `CommitRefused`.

use std::sync::Arc;

use crate::attempts::Attempts;
use crate::clocks::PassTime;
use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::pass_options::{PassOptions, Passes, Trigger};
use crate::profile::{FlowOptions, Profile, Program, Unsafe};
use dryrack_event::{Event, Histogram, Outcome, Outside, Phase, Reason, Refusal, Safety};
use dryrack_fleet::{Fleet, NodeClaim, NodeState, Placement, offer_of};
use dryrack_ids::{AttemptId, NodeId};
use dryrack_scheduler::Preempt;
use dryrack_scheduler::offers::NewInstances;
use dryrack_units::SimDuration;

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

/// A flow in which an outside scheduler may decide.
pub(crate) trait DecidedOutside: Attempts {
    /// Prepares to hold a replica for the reasons of the program. `text` is the program's own text.
    fn waits(&mut self, core: &mut Core, index: ReplicaIndex, text: Option<&Arc<str>>);

    /// Stops an attempt that the program preempts.
    fn preempt_outside(&mut self, core: &mut Core, index: ReplicaIndex);

    /// Applies what an outside program sent apart from its placement decisions.
    fn said_outside(&mut self, core: &mut Core, said: &Outside) {
        match said {
            Outside::Waits { attempt, reasons, text } => match waiting(core, *attempt) {
                Some(index) => {
                    let none = || Histogram::of(Reason::DecidedOutside, core.fleet.len() as u32);
                    let reasons = if reasons.is_empty() { none() } else { reasons.clone() };
                    self.waits(core, index, text.as_ref());
                    core.hold(index, (Refusal::Unfit, reasons));
                }
                None => core.emit(not_possible(*attempt, Reason::NotWaiting)),
            },
            Outside::Preempts { attempt, by, .. } => match holding(core, *attempt) {
                Some(index) => {
                    if let Some(by) = *by {
                        core.emit(Event::Preempted { attempt: *attempt, by });
                    }
                    self.preempt_outside(core, index);
                }
                None => core.emit(not_possible(*attempt, Reason::NotRunning)),
            },
            Outside::Cancels { attempt, because, .. } => match waiting(core, *attempt).or(holding(core, *attempt)) {
                Some(index) => self.stop(core, index, outcome_of(*because), *because),
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
    core.store.replica_of(attempt).filter(|index| {
        let replica = &core.store[*index];
        replica.is_at(attempt) && replica.wait == Wait::Queue
    })
}

/// The replica of an attempt, if the replica holds a place and is not being stopped.
pub(crate) fn holding(core: &Core, attempt: AttemptId) -> Option<ReplicaIndex> {
    core.store.replica_of(attempt).filter(|index| {
        let replica = &core.store[*index];
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
    let broken = core.broken_by(index, core.store.demand_of(index), placement).into_iter();
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
