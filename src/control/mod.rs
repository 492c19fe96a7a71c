//! Floor 5. The control plane: one state machine that takes inputs (what happened) and gives commands (what to do).
//!
//! ```text
//!              Control: passes on inputs, settles, is drained
//!        ┌───────────────┴────────────────┐
//!      Core  <── works on ──  Flow: Queue, Polled or Scanned
//!   store, ledger, timers,     the waiting replicas, and
//!   clock, outbox; instances,  how they are placed
//!   quotas, policies
//! ```
//!
//! The `core` holds the common mechanism. Only the core binds, releases and emits. The [`Profile`] names a `flow`,
//! which owns the waiting replicas: in a queue with passes over it (`queue`), in records that loops visit (`polled`),
//! or in rows that are scanned (`scan`). The module `attempts` has what all flows do with an attempt.
//!
//! A world hands `(now, Input)` to the control plane, lets it settle once all inputs of an instant are applied, and
//! drains its commands and events. The control plane must do no input or output, read no clock, start no thread, and
//! never learn which world drives it.
//!
//! Between both stands `admission`: Kueue, which lets a job into the flow once its workload has quota.
//!
//! Assertions check four laws. `now` never decreases. All outputs are drained before the next input. A command is a
//! request, and becomes a fact only when an input reports it. Every id in an input was declared before.

#![warn(clippy::unwrap_used)]

mod admission;
mod attempts;
mod checks;
#[cfg(test)]
mod checks_tests;
mod clocks;
#[cfg(test)]
mod control_tests;
mod core;
mod drive;
mod flow;
mod instance_claims;
#[cfg(test)]
mod kept_tests;
mod kubernetes;
mod lasting_limits;
mod outside;
#[cfg(test)]
mod outside_tests;
mod pass;
mod pass_options;
mod policies;
mod polled;
mod profile;
mod profile_error;
#[cfg(test)]
mod profile_tests;
mod queue;
mod reconfigure;
mod safety;
#[cfg(test)]
mod safety_tests;
mod scan;
mod together;
mod views;

pub use admission::{AdmissionState, AdmissionView, Behind, StandsBehind};
pub use clocks::{PassTime, Ticks};
pub use core::{AnalysesAhead, LONGEST_PROVISIONING, Watch, Watched};
pub use drive::{arrange, step, step_len};
pub use kubernetes::{GangScheduling, KubernetesOptions, Neighbors, QueueOptions, is_gpu, pods, reason_of_text};
pub use lasting_limits::LastingLimits;
pub use pass_options::{PassOptions, Passes, Trigger};
pub use policies::{PolicyOptions, PolicyReads, UtilizationOptions};
pub use polled::{
    Assignment, BeginRule, GangRule, Loops, MemberStanding, NoCapacityRule, Pause, PlacelessRule, PolledLoops,
    PrepareRule, ReleaseRule, ReplicaRetryRule, Rounds, RunStanding, RunningLoop, RunsLoop, RunsOptions, SubmittedLoop,
    TerminatingLoop, UncountedRule,
};
pub use profile::{
    AnalysisOptions, CommitOptions, Deadlines, FlowOptions, HeartbeatOptions, Instant, Profile, Program, RetryOptions,
    SilentState, Unsafe,
};
pub use profile_error::ProfileError;
pub use queue::{CLOSE, attained_width};
pub use reconfigure::can_become;
pub use safety::{stated_tolerations, tolerate_state};
pub use scan::{
    Created, DeadEntries, OwnClaim, PackedScaleDown, PausesFrom, Reads, RowIds, RowView, ScaleDown, ScanOptions,
    Unplaced, Writes,
};

use std::sync::Arc;

use attempts::Attempts;
use checks::check_input;
use core::Core;
use core::timer::Timer;
use dryrack_event::{External, FleetFact, Input, InputClass, Output, Reason, UsageFact, UserRequest};
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::JobId;
use dryrack_scheduler::{Caching, Grouping};
use dryrack_units::{SimDuration, SimTime};
use flow::{Due, Flow};
use kubernetes::Kubernetes;
use polled::Polled;
use queue::Queue;
use reconfigure::read_profile;
use scan::Scanned;

/// Maximum number of replicas of one job. The same limit holds for the number of its tasks.
const MOST_COPIES: u32 = 1_000_000;

/// The control plane.
pub struct Control {
    core: Core,
    flow: AnyFlow,
    /// Whether an input other than a question arrived since the last `settle`.
    has_news: bool,
    /// Whether a question arrived since the last `settle`.
    was_asked: bool,
    /// The instant at which `settle` last did anything.
    settled_at: SimTime,
}

/// The flow that the profile names.
enum AnyFlow {
    Queue(Box<Queue>),
    Polled(Box<Polled>),
    Scanned(Box<Scanned>),
    Kubernetes(Box<Kubernetes>),
}

impl AnyFlow {
    fn new(core: &mut Core) -> AnyFlow {
        let profile = Arc::clone(&core.profile);
        if core.is_decided_outside() {
            // The program that decides is told of nodes that changed.
            core.fleet.keep_node_changes();
        }
        match &profile.flow {
            FlowOptions::Queue => AnyFlow::Queue(Box::new(Queue::new(core))),
            FlowOptions::Polled(options) => AnyFlow::Polled(Box::new(Polled::new(options, core.deciding.seed))),
            FlowOptions::Scanned(options) => AnyFlow::Scanned(Box::new(Scanned::new(options))),
            FlowOptions::Kubernetes(options) => AnyFlow::Kubernetes(Box::new(Kubernetes::new(core, options))),
        }
    }

    fn as_mut(&mut self) -> &mut dyn Flow {
        match self {
            AnyFlow::Queue(flow) => &mut **flow,
            AnyFlow::Polled(flow) => &mut **flow,
            AnyFlow::Scanned(flow) => &mut **flow,
            AnyFlow::Kubernetes(flow) => &mut **flow,
        }
    }

    fn as_ref(&self) -> &dyn Flow {
        match self {
            AnyFlow::Queue(flow) => &**flow,
            AnyFlow::Polled(flow) => &**flow,
            AnyFlow::Scanned(flow) => &**flow,
            AnyFlow::Kubernetes(flow) => &**flow,
        }
    }
}

impl Control {
    /// Creates a control plane over an empty fleet. `seed` determines the jitter of passes and everything else that
    /// the profile leaves to chance.
    pub fn new(profile: Arc<Profile>, seed: u64) -> Control {
        Control::with_grouping(profile, seed, Grouping::Classes)
    }

    /// Like [`Control::new`], but the caller chooses how decisions are computed: over classes of equal nodes, or node
    /// by node. Both ways give the same outputs.
    pub fn with_grouping(profile: Arc<Profile>, seed: u64, grouping: Grouping) -> Control {
        let mut core = Core::new(profile, seed, grouping);
        let flow = AnyFlow::new(&mut core);
        if flow.as_ref().requests_instances() {
            core.clouds.scale_up.is_enabled = false;
        }
        Control { core, flow, has_news: false, was_asked: false, settled_at: SimTime::ZERO }
    }

    /// Sets whether computed results are cached. The outputs are the same either way.
    pub fn with_caching(mut self, caching: Caching) -> Control {
        self.core.deciding.caching = caching;
        self.flow.as_mut().caching_changed(&mut self.core);
        self
    }

    /// Makes room for this many nodes and jobs. More or fewer may come.
    pub fn expecting(mut self, nodes: usize, jobs: usize) -> Control {
        self.core.fleet.reserve(nodes);
        self.core.nodes.reserve(nodes);
        self.core.store.reserve(jobs);
        self
    }

    /// Drops the records of jobs that have ended. After that, questions about these jobs have no answer, and the
    /// profile cannot change. Flows whose records outlive their jobs keep all records.
    pub fn dropping_ended(mut self) -> Control {
        if self.flow.as_ref().may_drop_records() {
            self.core.store.drop_from_now_on();
        }
        self
    }

    /// Applies one input. The inputs of one instant must come in order of their classes. [`Control::settle`] follows
    /// the last one.
    pub fn handle(&mut self, now: SimTime, input: &Input) {
        assert!(self.core.is_drained(), "outputs must be drained before the next input");
        if let Err(refusal) = self.check_input(now, input) {
            panic!("{refusal}: {input:?} at {now}");
        }
        self.core.advance_to(now);
        let is_question = input.class() == InputClass::Question;
        self.was_asked |= is_question;
        if !is_question && !matches!(input, Input::Wakeup) {
            self.core.note_change();
        }
        self.has_news |= !is_question && !matches!(input, Input::Usage(UsageFact::Served { .. }));
        self.core.forget_flaps();
        let (core, flow) = (&mut self.core, self.flow.as_mut());
        match input {
            Input::Fleet(fact) => apply_fleet_fact(core, flow, fact),
            Input::Attempt { attempt, fact } => flow.apply_fact(core, *attempt, *fact),
            Input::Usage(UsageFact::Sample { attempt, at, utilization, memory }) => {
                core.usage_sample(*attempt, *at, utilization, memory.len());
            }
            Input::Usage(UsageFact::Requests { job, requests }) => flow.requests_counted(core, *job, *requests),
            // Recorded for metrics only.
            Input::Usage(UsageFact::Served { .. }) => {}
            Input::User(UserRequest::Cancel { job }) => flow.cancel(core, *job, Reason::Cancelled),
            Input::User(UserRequest::Scale { job, replicas }) => flow.scale_job(core, *job, *replicas),
            Input::Submit { job, spec } => {
                let spec = core.with_fields(spec);
                flow.submit(core, *job, &spec);
            }
            Input::External(External::Decided { attempt, placement }) => {
                flow.decided(core, *attempt, placement.as_ref())
            }
            Input::External(External::Said(said)) => flow.said(core, said),
            Input::Evaluate { name, demand, spec } => match spec {
                Some(spec) => {
                    let spec = core.with_fields(spec);
                    flow.evaluate_job(core, &spec);
                }
                None => flow.evaluate(core, name, demand),
            },
            Input::Wakeup => {}
        }
    }

    /// Checks whether an input may come at this point. The inputs of every world are possible by design. A log that
    /// someone altered may contain other inputs.
    pub fn check_input(&self, now: SimTime, input: &Input) -> Result<(), &'static str> {
        check_input(&self.core, self.flow.as_ref(), now, input)
    }

    /// Fires the timers that are due and lets the flow do its due work. Call this after all inputs of an instant are
    /// applied.
    ///
    /// A question alone must not change any decision, so if all inputs were questions, this function does nothing
    /// unless a timer or a pass is due. In an order that changes with time, an additional round could let another job
    /// go first. Questions also do not start a second round in the same instant, because that round would run before
    /// the facts that the first round causes.
    pub fn settle(&mut self, now: SimTime) {
        assert!(now >= self.core.now, "time fell from {} to {now}", self.core.now);
        self.core.advance_to(now);
        let has_news = std::mem::take(&mut self.has_news);
        let was_asked = std::mem::take(&mut self.was_asked);
        let is_another_round = was_asked && self.settled_at == now;
        if !has_news && (is_another_round || self.next_wakeup().is_none_or(|(at, _)| at > now)) {
            return;
        }
        self.settled_at = now;
        let (core, flow) = (&mut self.core, self.flow.as_mut());
        core.move_clock();
        core.count_pending();
        core.forget_flaps();
        core.begin_fleets();
        flow.judge_sampled(core);
        while let Some(timer) = core.pop_due_timer() {
            // A decision that takes time may end in the same refusal again.
            if !matches!(timer, Timer::CommitDue { .. }) {
                core.note_change();
            }
            flow.fire_timer(core, timer);
        }
        admission::settle(core, flow);
        core.count_pending();
        flow.settle(core);
        // A job that ended in a pass of the flow has released quota.
        while core.admission.is_due() {
            admission::settle(core, flow);
            flow.settle(core);
        }
        core.scale_up(flow);
        if !flow.names_ended() {
            core.store.drop_ended(|job| core.kept.has_claims_of(job));
        }
    }

    /// Whether all outputs were taken.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.core.is_drained()
    }

    /// Takes the oldest output that was not yet taken.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.core.poll_output()
    }

    /// The next time at which the control plane must settle even if no input comes, and why. `None` if it waits only
    /// for inputs. If two reasons have the same time, returns the one that sorts first.
    pub fn next_wakeup(&mut self) -> Option<(SimTime, &'static str)> {
        let timer: Option<Due> = self.core.peek_timer();
        timer.into_iter().chain(self.core.next_round()).chain(self.flow.as_mut().next_due(&mut self.core)).min()
    }

    /// For how long the flow retries replicas that have no place although nothing else happens. `None` if it does not
    /// retry without end. `otherwise` is the time if no stage reads the time.
    pub fn patience(&self, otherwise: SimDuration) -> Option<SimDuration> {
        self.flow.as_ref().retries_forever().then(|| self.core.clock.patience(otherwise))
    }

    /// Whether the only remaining work repeats refusals that were made since the fleet last grew.
    pub fn only_repeats_refusals(&mut self) -> bool {
        self.flow.as_ref().only_repeats_refusals(&self.core)
            && self.core.peek_timer().is_none()
            && self.core.next_round().is_none()
    }

    /// What each attempt holds. This includes claims that an attempt keeps after its end.
    pub fn held(&self) -> Vec<Placement> {
        self.core.held()
    }

    pub fn fleet(&self) -> &Fleet {
        &self.core.fleet
    }

    pub fn profile(&self) -> &Profile {
        &self.core.profile
    }

    /// Calls `take` with each job that was dropped since the last call.
    pub fn take_dropped(&mut self, take: impl FnMut(JobId)) {
        self.core.store.take_dropped(take);
    }

    /// Asserts the integrity of the whole state. This visits every record.
    pub fn assert_integrity(&self) {
        self.core.check();
        self.flow.as_ref().check(&self.core);
    }

    /// Asserts liveness at the end of a run: no replica waits although the fleet has room for it.
    pub fn assert_nobody_waits_in_vain(&self) {
        let flow = self.flow.as_ref();
        flow.check_nothing_waits_in_vain(&self.core);
        if !flow.leaks_claims() {
            self.core.check_kept_claims();
        }
    }
}

fn apply_fleet_fact(core: &mut Core, flow: &mut dyn Flow, fact: &FleetFact) {
    match fact {
        FleetFact::FleetDeclared { fleet, spec } => core.declare_fleet(*fleet, spec),
        FleetFact::ObjectsDeclared { objects } => flow.objects_declared(core, objects),
        FleetFact::KueueApplied { objects } => admission::apply_objects(core, flow, objects),
        FleetFact::NodeDeclared { node, state, spec } => core.declare_node(*node, *state, spec),
        FleetFact::NodeReported { node, state } => flow.node_reported(core, *node, *state),
        FleetFact::HeartbeatBack { node } => core.heartbeat_back(*node),
        FleetFact::HeartbeatMissed { node, last } => core.heartbeat_missed(*node, *last),
        FleetFact::GpuReported { gpu, state } => core.gpu_reported(*gpu, *state),
        FleetFact::ForeignUse { gpu, foreign } => core.fleet.set_foreign(*gpu, *foreign),
        FleetFact::CapacityReported { fleet, offer, available } => core.set_capacity(*fleet, *offer, *available),
        FleetFact::Reconfigure { profile } => {
            core.follow(read_profile(core, profile).expect("it was checked"));
            flow.reconfigured(core);
        }
    }
}
