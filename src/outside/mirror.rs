//! What the program has been told about the run, built from records and commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_event::{
    Command, Event, External, FleetFact, Histogram, Input, Outcome, Outside, Phase, Reason, UsageFact,
};
use dryrack_fleet::{InstanceState, NodeClaim, Placement};
use dryrack_ids::{AttemptId, JobId, Names, NodeId};
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;

/// An attempt that has not ended, or that the program does not know to have ended.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub phase: Phase,
    pub since: SimTime,
    /// Whether the control plane asks the program to decide about it.
    pub waits: bool,
    /// The position in the order in which attempts began to wait.
    pub queued: Option<u64>,
    pub placement: Placement,
    pub ended: Option<(Outcome, Reason)>,
    /// Why it waits, as last stated by the program.
    pub stated: Option<StatedReasons>,
}

/// The reasons and the text of a wait.
pub type StatedReasons = (Histogram, Option<Arc<str>>);

pub struct Job {
    pub spec: Arc<JobSpec>,
    pub submitted: SimTime,
    /// The number of replicas that the job has had so far. All indices of its replicas are smaller.
    pub replicas: u32,
}

/// The changes since the last message to the program.
#[derive(Default)]
pub struct Changes {
    pub nodes: BTreeSet<NodeId>,
    pub jobs: BTreeSet<JobId>,
    pub jobs_over: Vec<JobId>,
    pub attempts: BTreeSet<AttemptId>,
    /// Usage samples, in the form of inputs.
    pub usage: Vec<Input>,
    /// Decisions that the control plane did not carry out.
    pub refused: Vec<(AttemptId, Reason)>,
    /// Whether any of the changes frees resources or requests some. Such a change is a reason to ask the program.
    pub is_cause: bool,
    /// Whether a decision was not carried out.
    pub is_refused: bool,
    /// Whether there is any other change.
    pub is_any: bool,
}

#[derive(Default)]
pub struct Mirror {
    pub names: Names,
    pub jobs: BTreeMap<JobId, Job>,
    pub attempts: BTreeMap<AttemptId, Attempt>,
    /// The waiting attempts, in the order in which they began to wait.
    pub waiting: BTreeMap<u64, AttemptId>,
    pub changes: Changes,
    queued: u64,
    /// The claims on each node, including claims that outlive their attempt.
    held: BTreeMap<NodeId, BTreeMap<AttemptId, NodeClaim>>,
    instances: BTreeMap<NodeId, InstanceState>,
}

impl Mirror {
    pub fn held_on(&self, node: NodeId) -> Vec<(AttemptId, &NodeClaim)> {
        let held = self.held.get(&node).into_iter().flatten();
        held.map(|(attempt, claim)| (*attempt, claim)).collect()
    }

    pub fn instance_state(&self, node: NodeId) -> Option<InstanceState> {
        self.instances.get(&node).copied()
    }

    pub fn input(&mut self, at: SimTime, input: &Input, clouds: &mut Vec<bool>) {
        match input {
            Input::Fleet(FleetFact::FleetDeclared { spec, .. }) => {
                self.names.fleets.add_new(Arc::clone(&spec.name));
                clouds.push(spec.cloud.is_some());
                self.cause();
            }
            Input::Fleet(FleetFact::NodeDeclared { node, state, spec }) => {
                self.names.nodes.add_new(Arc::clone(&spec.name));
                let fleet = spec.shape.instance.as_ref().map(|instance| instance.fleet.index());
                if fleet.is_some_and(|fleet| clouds.get(fleet).is_some_and(|is_cloud| *is_cloud)) {
                    self.instances.insert(*node, InstanceState::of(*state));
                }
                self.cause();
            }
            Input::Submit { job, spec } => {
                self.names.jobs.add_new(Arc::clone(&spec.name));
                let record = Job { spec: Arc::clone(spec), submitted: at, replicas: spec.replicas };
                self.jobs.insert(*job, record);
                self.changes.jobs.insert(*job);
                for replica in 0..spec.replicas {
                    self.begin(at, AttemptId { job: *job, replica, number: 1 });
                }
            }
            Input::Usage(UsageFact::Sample { .. }) => self.changes.usage.push(input.clone()),
            Input::Fleet(
                FleetFact::GpuReported { .. } | FleetFact::ForeignUse { .. } | FleetFact::CapacityReported { .. },
            ) => self.cause(),
            Input::External(External::Said(Outside::Waits { attempt, reasons, text })) => {
                if let Some(known) = self.attempts.get_mut(attempt).filter(|known| known.waits) {
                    known.stated = Some((reasons.clone(), text.clone()));
                }
            }
            Input::External(External::Said(Outside::Mistaken { .. })) => self.changes.is_refused = true,
            Input::External(External::Said(_) | External::Decided { .. })
            | Input::Fleet(
                FleetFact::NodeReported { .. }
                | FleetFact::HeartbeatBack { .. }
                | FleetFact::HeartbeatMissed { .. }
                | FleetFact::ObjectsDeclared { .. }
                | FleetFact::KueueApplied { .. }
                | FleetFact::Reconfigure { .. },
            )
            | Input::Attempt { .. }
            | Input::Usage(UsageFact::Requests { .. } | UsageFact::Served { .. })
            | Input::User(_)
            | Input::Evaluate { .. }
            | Input::Wakeup => {}
        }
    }

    pub fn event(&mut self, at: SimTime, event: &Event) {
        match event {
            Event::NodeChanged { .. } | Event::GpuChanged { .. } => self.cause(),
            Event::InstanceChanged { node, to, .. } => {
                self.instances.insert(*node, *to);
                self.changes.nodes.insert(*node);
                self.cause();
            }
            Event::Placed { attempt, placement, .. } => {
                self.unqueue(*attempt);
                for claim in placement.claims() {
                    self.held.entry(claim.node).or_default().insert(*attempt, claim.clone());
                    self.changes.nodes.insert(claim.node);
                }
                self.enter(at, *attempt, Phase::Scheduled);
                if let Some(known) = self.attempts.get_mut(attempt) {
                    known.placement = placement.clone();
                }
            }
            Event::Moved { attempt, to, .. } => self.enter(at, *attempt, *to),
            Event::Ended { attempt, outcome, because, kept, .. } => {
                self.unqueue(*attempt);
                self.enter(at, *attempt, Phase::Ended);
                let Some(known) = self.attempts.get_mut(attempt) else { return };
                known.ended = Some((*outcome, *because));
                let held: Vec<NodeId> = known.placement.claims().iter().map(|claim| claim.node).collect();
                for node in held.into_iter().filter(|node| !kept.contains(node)) {
                    self.free(*attempt, node);
                }
                self.cause();
            }
            Event::ClaimFreed { attempt, node } => {
                self.free(*attempt, *node);
                self.cause();
            }
            Event::Retry { attempt, .. } | Event::ReplicaAdded { attempt } => {
                if let Some(job) = self.jobs.get_mut(&attempt.job) {
                    job.replicas = job.replicas.max(attempt.replica + 1);
                }
                self.begin(at, *attempt);
            }
            Event::CommitRefused { attempt, because, .. } => {
                self.changes.refused.push((*attempt, *because));
                self.changes.is_refused = true;
            }
            Event::JobEnded { job, .. } => {
                self.changes.jobs_over.push(*job);
                self.changes.is_any = true;
            }
            Event::Held { .. }
            | Event::AnalysisStarted { .. }
            | Event::DeadlineExpired { .. }
            | Event::SafetyBroken { .. }
            | Event::PolicyBound { .. }
            | Event::PolicyFired { .. }
            | Event::PolicyWarned { .. }
            | Event::SampleOdd { .. }
            | Event::Evaluated { .. }
            | Event::Preempted { .. }
            | Event::Admitted { .. }
            | Event::NotAdmitted { .. }
            | Event::Evicted { .. } => {}
        }
    }

    /// Processes a command that hands an attempt to the program or takes it back.
    pub fn command(&mut self, command: &Command) {
        match command {
            Command::Submit { attempt } => {
                let Some(known) = self.attempts.get_mut(attempt).filter(|known| known.phase == Phase::Pending) else {
                    return;
                };
                self.queued += 1;
                (known.waits, known.queued) = (true, Some(self.queued));
                self.waiting.insert(self.queued, *attempt);
                self.changes.attempts.insert(*attempt);
                self.cause();
            }
            Command::Withdraw { attempt } => self.unqueue(*attempt),
            Command::Analyse { .. }
            | Command::AbandonAnalysis { .. }
            | Command::Start { .. }
            | Command::Prepare { .. }
            | Command::Begin { .. }
            | Command::Stop { .. }
            | Command::Provision { .. }
            | Command::Terminate { .. }
            | Command::Sample { .. } => {}
        }
    }

    /// Clears the changes, and forgets the jobs and attempts that the program now knows to have ended.
    pub fn clear_changes(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        for attempt in changes.attempts {
            if self.attempts.get(&attempt).is_some_and(|known| known.phase == Phase::Ended) {
                self.attempts.remove(&attempt);
            }
        }
        for job in changes.jobs_over {
            self.jobs.remove(&job);
        }
    }

    fn cause(&mut self) {
        self.changes.is_cause = true;
    }

    fn begin(&mut self, at: SimTime, attempt: AttemptId) {
        let (phase, placement) = (Phase::Pending, Placement::default());
        let fresh = Attempt { phase, since: at, waits: false, queued: None, placement, ended: None, stated: None };
        self.attempts.insert(attempt, fresh);
        self.changes.attempts.insert(attempt);
        self.changes.is_any = true;
    }

    fn enter(&mut self, at: SimTime, attempt: AttemptId, phase: Phase) {
        if let Some(known) = self.attempts.get_mut(&attempt) {
            (known.phase, known.since) = (phase, at);
            self.changes.attempts.insert(attempt);
            self.changes.is_any = true;
        }
    }

    fn unqueue(&mut self, attempt: AttemptId) {
        if let Some(known) = self.attempts.get_mut(&attempt).filter(|known| known.waits) {
            (known.waits, known.stated) = (false, None);
            if let Some(queued) = known.queued {
                self.waiting.remove(&queued);
            }
            self.changes.attempts.insert(attempt);
            self.changes.is_any = true;
        }
    }

    fn free(&mut self, attempt: AttemptId, node: NodeId) {
        if let Some(held) = self.held.get_mut(&node) {
            held.remove(&attempt);
        }
        self.changes.nodes.insert(node);
    }
}
