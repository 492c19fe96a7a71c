//! Floor 5. The control plane: one state machine that is told what happened and says what it wants done.
//!
//! Owns the mechanism: the store of records with versions, timers, passes, commit, and the outbox. A [`Profile`] owns
//! the flow. The control plane is handed `(now, Input)`, settles once all inputs of an instant are applied, and is
//! drained of commands and events. It must do no input or output, read no clock, hold no thread, and never learn
//! which world it is in.
//!
//! Its laws, asserted: `now` never decreases; all outputs are drained before the next input; a command is a request,
//! and only an input makes it a fact; every id in an input was declared before.

#![warn(clippy::unwrap_used)]

mod attained;
mod backfill;
mod clocks;
mod clouds;
mod drive;
mod dropping;
mod explaining;
mod instances;
mod nodes;
mod outside;
mod passes;
mod placing;
mod policies;
mod polled;
mod preempting;
mod profile;
mod reconfigure;
mod runs;
mod safety;
mod scaling;
mod scan;
mod sharing;
mod slots;
mod store;
mod timer;
mod watching;

pub use clocks::{PassTime, Ticks};
pub use clouds::LONGEST_PROVISIONING;
pub use drive::{arrange, step, step_len};
pub use explaining::{AnalysedBefore, Watch, Watched};
pub use policies::{PolicyOptions, PolicyReads, UtilizationOptions};
pub use polled::{
    Assignment, BeginRule, GangRule, Loops, MemberStanding, NoCapacityRule, Pause, PlacelessRule, PolledLoops,
    PrepareRule, ReleaseRule, ReplicaRetryRule, Rounds, RunStanding, RunningLoop, RunsLoop, RunsOptions, SubmittedLoop,
    TerminatingLoop, UncountedRule,
};
pub use profile::{
    AnalysisOptions, CommitOptions, Deadlines, HeartbeatOptions, Instant, PassOptions, Passes, Profile, ProfileError,
    RetryOptions, Trigger,
};
pub use reconfigure::can_become;
pub use scan::{
    Created, DeadEntries, OwnClaim, PackedScaleDown, PausesFrom, Reads, RowIds, RowView, ScaleDown, ScanOptions,
    Unplaced, Writes,
};

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use attained::Turns;
use clocks::Clocks;
use clouds::{CloudRecord, InstanceRecord};
use dropping::Dropping;
use dryrack_event::{Command, Event, Input, InputClass, Lifecycle, Output, Phase};
use dryrack_fleet::{Fleet, NodeSpec, NodeState, Placement};
use dryrack_ids::{GpuId, JobId, NodeId, Records, RunId};
use dryrack_policy::Quotas;
use dryrack_scheduler::{Caching, Decision, Discipline, Grouping, OrderKey, Rankings, Refusals, WaitQueue, decide_for};
use dryrack_units::SimTime;
use dryrack_workload::{Demand, JobSpec};
use explaining::Watching;
use nodes::NodeRecord;
use passes::PassState;
use placing::Deciding;
use scan::ScanState;
use sharing::Shares;
use store::{DemandRecord, JobRecord, Replica, ReplicaIndex, Wait};
use timer::{Timer, Timers};
use watching::check_sample;

/// The most replicas, and the most tasks, of one job.
const MOST_COPIES: u32 = 1_000_000;

/// The control plane.
pub struct Control {
    profile: Arc<Profile>,
    grouping: Grouping,
    caching: Caching,
    rankings: Rankings,
    refusals: Refusals,
    seed: u64,
    now: SimTime,
    /// An input other than a question has come since the last settling.
    has_news: bool,
    /// A question has come since the last settling.
    was_asked: bool,
    /// When settling last did anything.
    settled_at: SimTime,
    fleet: Fleet,
    nodes: Vec<NodeRecord>,
    jobs: Records<JobRecord>,
    replicas: Records<Replica>,
    /// Ended jobs that are to be dropped, and those dropped since [`Control`] was last asked for them; `None` keeps all.
    dropping: Option<Dropping>,
    demands: Vec<DemandRecord>,
    demand_index: HashMap<Arc<Demand>, u32, foldhash::fast::FixedState>,
    /// Numbers of demands by address, because most jobs share one that is already known.
    demand_places: HashMap<*const Demand, u32, foldhash::fast::FixedState>,
    queue: WaitQueue,
    /// The lines of the queue by the queues that jobs name.
    lines: HashMap<Option<Arc<str>>, u32, foldhash::fast::FixedState>,
    /// GPU time that each user has had, if the queue is ordered by it.
    shares: Option<Shares>,
    turns: Turns,
    /// The head of the queue, if its reservation is fixed once made.
    picked: Option<backfill::Picked>,
    /// State that backfilling keeps between passes.
    backfilling: Option<Box<backfill::Backfilling>>,
    /// Where each job will go for which others are being preempted, until their room is free.
    nominations: preempting::Nominations,
    preempting: preempting::Preempting,
    /// Future reservations of each node, if they are made in time slots.
    ahead: slots::Ahead,
    /// Queued since the last pass, in that order. Each gets one event that says why it waits.
    fresh: VecDeque<(u64, ReplicaIndex)>,
    /// How many have been queued so far.
    queued: u64,
    /// Waiting to be analysed, first come first served.
    analysis_queue: VecDeque<(ReplicaIndex, u64)>,
    analysing: BTreeSet<RunId>,
    deciding: Option<Deciding>,
    /// Claims that outlive their run, because a node cannot confirm that it has stopped.
    kept_claims: BTreeMap<RunId, Placement>,
    /// The rows of a scanned flow.
    scan: Option<ScanState>,
    timers: Timers,
    /// Until when a node's last loss of readiness counts against it, earliest first.
    flaps: VecDeque<(SimTime, NodeId)>,
    /// Replicas with a usage sample in this instant.
    to_judge: BTreeSet<ReplicaIndex>,
    quotas: Quotas,
    /// By fleet; `None` for a fleet whose instances are all there from the start.
    clouds: Vec<Option<CloudRecord>>,
    /// Instances of cloud fleets, including places at which there is no instance.
    instances: BTreeMap<NodeId, InstanceRecord>,
    analyse_pass: PassState,
    place_pass: PassState,
    backfill_pass: PassState,
    /// Clocks of passes that take time.
    clocks: Option<Clocks>,
    /// The state that the last backfill pass has seen, so that an equal one is skipped.
    backfilled: Option<(u64, u64, usize)>,
    outbox: VecDeque<Output>,
    /// The flow of a profile with `runs`.
    runs: Option<polled::Flow>,
    watching: Watching,
    /// When the profile last changed.
    reconfigured: Option<SimTime>,
}

/// The earlier of two optional times. On a tie, the reason that sorts first.
fn earliest(
    one: Option<(SimTime, &'static str)>,
    other: Option<(SimTime, &'static str)>,
) -> Option<(SimTime, &'static str)> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Control {
    /// Creates a control plane over an empty fleet. `seed` determines the jitter of passes and everything else that
    /// the profile leaves to chance.
    pub fn new(profile: Arc<Profile>, seed: u64) -> Control {
        Control::with_grouping(profile, seed, Grouping::Classes)
    }

    /// Like [`Control::new`], but decides over classes of nodes or, as the plain computation, over single nodes.
    /// Every output is the same.
    pub fn with_grouping(profile: Arc<Profile>, seed: u64, grouping: Grouping) -> Control {
        let is_fair = profile.scheduler.order.contains(&OrderKey::FairShare);
        let shares = is_fair.then(|| Shares::new(&profile.scheduler.fair_share));
        let rankings = Rankings::new(&profile.scheduler);
        let mut control = Control {
            backfilling: None,
            queue: WaitQueue::new(profile.scheduler.discipline, &profile.scheduler.order),
            fleet: if profile.scheduler.needs_kinds() { Fleet::with_kinds() } else { Fleet::default() },
            analyse_pass: PassState::new(profile.passes.analyse, seed, "analyse pass"),
            place_pass: PassState::new(profile.passes.place, seed, "place pass"),
            backfill_pass: PassState::new(profile.passes.for_backfill(), seed, "backfill pass"),
            clocks: Clocks::new(&profile.passes, profile.ticks.as_ref()),
            backfilled: None,
            runs: profile.runs.as_ref().map(|options| polled::Flow::new(options, seed)),
            scan: profile.scan.as_ref().map(ScanState::new),
            quotas: Quotas::new(&profile.policies.quotas),
            profile,
            grouping,
            caching: Caching::On,
            rankings,
            refusals: Refusals::default(),
            seed,
            now: SimTime::ZERO,
            has_news: false,
            was_asked: false,
            settled_at: SimTime::ZERO,
            nodes: Vec::new(),
            jobs: Records::default(),
            replicas: Records::default(),
            dropping: None,
            demands: Vec::new(),
            demand_index: HashMap::default(),
            demand_places: HashMap::default(),
            lines: HashMap::default(),
            shares,
            turns: Turns::default(),
            picked: None,
            nominations: preempting::Nominations::new(),
            preempting: preempting::Preempting::default(),
            ahead: slots::Ahead::default(),
            fresh: VecDeque::new(),
            queued: 0,
            analysis_queue: VecDeque::new(),
            analysing: BTreeSet::new(),
            deciding: None,
            kept_claims: BTreeMap::new(),
            timers: Timers::default(),
            flaps: VecDeque::new(),
            to_judge: BTreeSet::new(),
            clouds: Vec::new(),
            instances: BTreeMap::new(),
            outbox: VecDeque::new(),
            watching: Watching::default(),
            reconfigured: None,
        };
        control.keep_backfilling();
        control
    }

    /// Sets whether computed results are kept. Every output is the same either way.
    pub fn with_caching(self, caching: Caching) -> Control {
        let mut control = Control { caching, ..self };
        control.keep_backfilling();
        control
    }

    /// Applies one input. The inputs of one instant come in order of their classes, followed by [`Control::settle`].
    pub fn handle(&mut self, now: SimTime, input: &Input) {
        assert!(self.outbox.is_empty(), "outputs must be drained before the next input");
        if let Err(refusal) = self.check_input(now, input) {
            panic!("{refusal}: {input:?} at {now}");
        }
        self.go_on_to(now);
        let is_question = input.class() == InputClass::Question;
        self.was_asked |= is_question;
        self.has_news |= !is_question;
        self.forget_flaps();
        match input {
            Input::FleetDeclared { fleet, spec } => {
                let declared = self.fleet.declare_fleet(Arc::clone(spec));
                assert_eq!(declared, *fleet, "fleets are declared in order of their ids");
                self.declare_cloud(spec);
            }
            Input::NodeDeclared { node, state, spec } => self.declare_node(*node, *state, spec),
            Input::NodeReported { node, state } => self.node_reported(*node, *state),
            Input::HeartbeatBack { node } => self.heartbeat_back(*node),
            Input::HeartbeatMissed { node, last } => self.heartbeat_missed(*node, *last),
            Input::GpuReported { gpu, state } => self.gpu_reported(*gpu, *state),
            Input::ForeignUse { gpu, foreign } => self.fleet.set_foreign(*gpu, *foreign),
            Input::CapacityReported { fleet, offer, available } => self.fleet.set_capacity(*fleet, *offer, *available),
            Input::Reconfigure { profile } => {
                let profile = self.read_profile(profile).expect("it was checked");
                self.reconfigure(profile);
            }
            Input::Run { run, fact } => self.run_fact(*run, *fact),
            Input::UsageSample { run, at, utilization, memory } => {
                self.usage_sample(*run, *at, utilization, memory.len());
            }
            Input::RequestsCounted { job, requests } => self.requests_counted(*job, *requests),
            Input::Cancel { job } => self.cancel(*job),
            Input::Scale { job, replicas } => self.scale(*job, *replicas),
            Input::Submit { job, spec } => self.submit(*job, spec),
            Input::Decided { run, placement } => self.decided(*run, placement.as_ref()),
            Input::Evaluate { name, demand } => self.evaluate(name, demand),
            Input::Wakeup => {}
        }
    }

    /// Checks whether an input may come at this point. Every world guarantees that it may; an altered log may break
    /// this.
    pub fn check_input(&self, now: SimTime, input: &Input) -> Result<(), &'static str> {
        let known_node = |node: NodeId| self.fleet.knows(node).then_some(()).ok_or("a node that was never declared");
        let known_gpu = |gpu: GpuId| self.fleet.knows_gpu(gpu).then_some(()).ok_or("a GPU that was never declared");
        let known_job =
            |job: JobId| (job.index() < self.jobs.len()).then_some(()).ok_or("a job that was never submitted");
        if now < self.now {
            return Err("time falls");
        }
        match input {
            Input::NodeDeclared { node, .. } if node.index() != self.fleet.len() => Err("a node out of order"),
            Input::FleetDeclared { fleet, .. } if fleet.index() != self.fleet.fleets().count() => {
                Err("a fleet out of order")
            }
            Input::FleetDeclared { .. } => Ok(()),
            Input::NodeDeclared { spec, .. } if !self.knows_fleet_of(spec) => Err("an instance of no declared fleet"),
            Input::NodeDeclared { spec, .. } => spec.shape.check_size(),
            Input::Wakeup => Ok(()),
            Input::NodeReported { node, state } => {
                known_node(*node)?;
                let joined = !matches!(self.fleet.node(*node).status.state, NodeState::Joining | NodeState::Gone);
                if *state == NodeState::Joining && joined { Err("a node that has joined joins again") } else { Ok(()) }
            }
            Input::HeartbeatBack { node } => known_node(*node),
            Input::CapacityReported { fleet, offer, .. } if !self.fleet.knows_offer(*fleet, *offer) => {
                Err("an offer that no fleet has")
            }
            Input::CapacityReported { .. } => Ok(()),
            Input::Reconfigure { profile } => self.read_profile(profile).map(|_| ()),
            Input::HeartbeatMissed { last, .. } if *last > now => Err("a heartbeat from the future"),
            Input::HeartbeatMissed { node, .. } => known_node(*node),
            Input::GpuReported { gpu, .. } | Input::ForeignUse { gpu, .. } => known_gpu(*gpu),
            Input::Run { fact: Lifecycle::StoppedOn { node }, .. } if !self.fleet.knows(*node) => known_node(*node),
            Input::Run { run, .. } | Input::UsageSample { run, .. }
                if known_job(run.job).map(|()| !self.knows_replica(*run))? =>
            {
                Err("a replica that is not")
            }
            Input::UsageSample { utilization, memory, .. } => check_sample(utilization, memory.len()),
            Input::Run { .. } => Ok(()),
            Input::RequestsCounted { job, .. } | Input::Cancel { job } => known_job(*job),
            Input::Scale { replicas: 0, .. } if self.scan.is_none() => Err("a job scaled to nothing"),
            Input::Scale { job, .. } => known_job(*job),
            Input::Submit { job, .. } if job.index() != self.jobs.len() => Err("a job out of order"),
            Input::Submit { spec, .. } if spec.replicas.max(spec.demand.tasks) > MOST_COPIES => {
                Err("a job of more replicas or tasks than any")
            }
            Input::Submit { spec, .. } if spec.demand.tasks == 0 => Err("a job of nothing"),
            Input::Submit { spec, .. } => self.check_submission(spec),
            Input::Decided { run, .. } if known_job(run.job).map(|()| !self.knows_replica(*run))? => {
                Err("a replica that is not")
            }
            Input::Decided { placement, .. } => self.check_decision(placement.as_ref()),
            Input::Evaluate { demand, .. } if demand.tasks == 0 => Err("a job of nothing"),
            Input::Evaluate { demand, .. } => demand.pick.iter().flat_map(|pick| pick.nodes()).try_for_each(known_node),
        }
    }

    fn check_submission(&self, spec: &JobSpec) -> Result<(), &'static str> {
        let scales = self.runs.is_some().then_some(spec.scaling.as_deref()).flatten();
        if spec.replicas == 0 && scales.is_none_or(|scaling| scaling.min > 0) {
            return Err("a job of nothing");
        }
        if scales.is_some_and(|scaling| scaling.target.get() == 0 || scaling.window.is_zero()) {
            return Err("a service of which a replica serves nothing");
        }
        if scales.is_some_and(|scaling| scaling.max > MOST_COPIES) {
            return Err("a service of more replicas than any");
        }
        match self.profile.policies.utilization.can_bind(&spec.utilization) {
            true => Ok(()),
            false => Err("a utilization policy of no time, or of more samples than are kept"),
        }
    }

    fn knows_fleet_of(&self, spec: &NodeSpec) -> bool {
        spec.shape.instance.as_ref().is_none_or(|instance| self.fleet.knows_fleet(instance.fleet))
    }

    /// Fires what is due and runs the passes, once all inputs of this instant are applied.
    ///
    /// If the only inputs were questions, nothing is done before something is due. Otherwise, in an order that moves
    /// with time, each look would let another job go first. Nor do questions begin another round of the same instant,
    /// because that round would come before facts that the previous round has led to.
    pub fn settle(&mut self, now: SimTime) {
        assert!(now >= self.now, "time fell from {} to {now}", self.now);
        self.go_on_to(now);
        let has_news = std::mem::take(&mut self.has_news);
        let was_asked = std::mem::take(&mut self.was_asked);
        let is_another_round = was_asked && self.settled_at == now;
        if !has_news && (is_another_round || self.next_wakeup().is_none_or(|(at, _)| at > now)) {
            return;
        }
        self.settled_at = now;
        self.forget_flaps();
        self.begin_fleets();
        self.judge_sampled();
        while let Some(timer) = self.pop_due_timer() {
            self.fire(timer);
        }
        self.go_on_with_clocks();
        self.run_analyse_pass();
        self.run_place_pass();
        self.run_backfill_pass();
        self.tell_clocks();
        self.look_at_runs();
        self.run_scans();
        self.drop_ended();
    }

    fn go_on_to(&mut self, now: SimTime) {
        if now > self.now {
            self.keep_timers();
            self.now = now;
        }
    }

    /// Takes the next output, in the order in which outputs arose.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.pop_front()
    }

    /// The next time at which the control plane must settle even if nothing happens, and why; `None` if it waits only
    /// for inputs.
    pub fn next_wakeup(&mut self) -> Option<(SimTime, &'static str)> {
        earliest(self.next_but_scans(), self.scan_due())
    }

    fn next_but_scans(&mut self) -> Option<(SimTime, &'static str)> {
        let pass = earliest(self.analyse_pass_due(), earliest(self.place_pass_due(), self.backfill_pass_due()));
        earliest(self.peek_timer(), earliest(pass, self.next_look()))
    }

    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// What each run holds, including kept claims.
    pub fn held(&self) -> Vec<Placement> {
        let live = self.replicas.values().filter_map(|replica| replica.placement.clone());
        live.chain(self.kept_claims.values().cloned()).collect()
    }

    /// Asserts the integrity of the whole store. Costs a pass over everything.
    pub fn assert_integrity(&self) {
        let held = self.held();
        self.fleet.assert_adds_up(held.iter());
        for replica in self.replicas.values() {
            let holds = replica.placement.is_some();
            assert_eq!(holds, replica.phase.holds_claim(), "{} holds a claim in the wrong phase", replica.run());
        }
        self.assert_indexes();
        self.assert_runs();
        self.assert_rows();
        self.assert_monitors();
        self.assert_instances();
        self.assert_quotas();
    }

    /// Asserts that the indexes kept for speed agree with the records.
    fn assert_indexes(&self) {
        let (mut queued, mut fresh) = (0, 0);
        for (index, replica) in self.replicas.iter() {
            let index = index as ReplicaIndex;
            let analysing = self.analysing.contains(&replica.run());
            let is_analysed = replica.phase == Phase::Analysing && self.scan.is_none();
            assert_eq!(analysing, is_analysed, "{} is not what is analysed", replica.run());
            for claim in replica.placement.iter().flat_map(|placement| placement.claims()) {
                assert!(self.nodes[claim.node.index()].runs.contains(&index), "{} is not on its node", replica.run());
            }
            queued += usize::from(replica.wait == Wait::Queue);
            let is_fresh = replica.fresh.is_some_and(|turn| self.fresh.binary_search(&(turn, index)).is_ok());
            assert_eq!(is_fresh, replica.fresh.is_some(), "{} is told what it was told", replica.run());
            assert!(!is_fresh || replica.wait == Wait::Queue, "{} is to be told why it waits", replica.run());
            fresh += usize::from(is_fresh);
        }
        assert_eq!(fresh, self.fresh.len(), "somebody is told twice why it waits");
        assert_eq!(queued, self.queue.len(), "the queue holds who does not wait in it");
        let on_nodes: usize = self.nodes.iter().map(|node| node.runs.len()).sum();
        let claims = |replica: &Replica| replica.placement.as_ref().map_or(0, |placement| placement.claims().len());
        assert_eq!(on_nodes, self.replicas.values().map(claims).sum::<usize>(), "a node keeps a run that has left it");
        let is_analysed = |replica: &&Replica| replica.phase == Phase::Analysing && self.scan.is_none();
        let analysed = self.replicas.values().filter(is_analysed).count();
        assert_eq!(self.analysing.len(), analysed, "an analysis goes on that nobody waits for");
    }

    /// Asserts liveness: when nothing more is to come, no replica waits that the queue would let pass and the fleet
    /// would hold.
    pub fn assert_nobody_waits_in_vain(&self) {
        let heads: Vec<_> = match self.profile.scheduler.discipline {
            Discipline::Strict | Discipline::Committed => self.queue.heads(self.now).map(|(key, _)| key).collect(),
            Discipline::Skipping => self.queue.iter(self.now).collect(),
        };
        for key in heads {
            let replica = &self.replicas[key.replica() as usize];
            let demand = &self.demands[replica.demand as usize].demand;
            let context = self.context(replica.run());
            let decision = decide_for(&self.profile.scheduler, demand, context, &self.fleet, Grouping::EachNode, 1);
            assert!(matches!(decision, Decision::Refuse { .. }), "{} waits, but would fit", replica.run());
            assert!(replica.held.is_some(), "{} waits and was never told why", replica.run());
        }
        self.assert_no_run_waits_in_vain();
        let known = |run: &RunId| !self.is_carried(*run) && !self.leaks();
        for (run, kept) in self.kept_claims.iter().filter(|(run, _)| known(run)) {
            for claim in kept.claims() {
                let state = self.fleet.node(claim.node).status.state;
                assert_ne!(state, NodeState::Ready, "{run} has ended, and its node could long have said so");
            }
        }
    }

    fn emit(&mut self, event: Event) {
        self.outbox.push_back(Output::Event(event));
    }

    fn command(&mut self, command: Command) {
        self.outbox.push_back(Output::Command(command));
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::SilenceExpired { node, .. } => self.silence_expired(node),
            Timer::Evict { node, .. } => self.evict(node),
            Timer::Deadline { replica, .. } => self.deadline_expired(replica),
            Timer::RetryDue { replica, .. } => self.restart(replica),
            Timer::StopAgain { run, left } => self.stop_again(run, left),
            Timer::Completed { run } => self.free_kept(run, |_| true),
            Timer::ComputationExpired { .. } => self.computation_expired(),
            Timer::CommitDue { .. } => self.commit_due(),
            Timer::NextLevel { replica, .. } => self.join_next_level(replica),
            Timer::PolicyLook { replica, .. } => self.look_at_usage(replica),
            Timer::IdleTooLong { node, .. } => self.idle_too_long(node),
            Timer::NotProvisioned { node, .. } => self.not_provisioned(node),
            Timer::SilentForLong { node, .. } => self.silent_for_long(node),
            Timer::LookForMissing { fleet, .. } => self.look_for_missing(fleet),
        }
    }
}
