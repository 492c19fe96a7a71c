//! The simulated world: what nodes and attempts really do, no matter what the control plane knows.

mod branching;
mod fates;
mod sampling;
mod serving;
mod together;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::arrival_source::ArrivalSource;
use super::checkpoints::{Checkpoints, Pace};
use super::cloud_models::InstanceTurn;
use super::clouds::Places;
use super::downloads::Downloads;
pub use super::due::Due;
use super::queue::EventQueue;
use super::rehearsal::{Fault, InitialNode, NodeTurn, Rehearsal};
use super::sampler::Sampler;
use super::serving::Services;
use super::shared_gpus::SharedGpus;
use super::traffic::{self, Traffic};
use dryrack_event::{Command, FleetFact, Input, Lifecycle, UserRequest};
use dryrack_fleet::{GpuState, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Fate, JobBehavior, JobSpec};
use together::Meeting;

struct WorldNode {
    reported: NodeState,
    /// Whether the node's Kubernetes object says that it is not ready, and no report has denied it.
    is_tainted: bool,
    /// Whether the node's heartbeats arrive and commands reach the node.
    heard: bool,
    /// Whether the node's processes are alive.
    alive: bool,
    /// Incremented to cancel the scheduled report of a missed heartbeat.
    epoch: u32,
    /// Reports that the node will send once it can be heard again.
    unsent: Vec<(AttemptId, Lifecycle)>,
    /// Attempts that the node will be told to stop once it can be reached again.
    to_stop: Vec<AttemptId>,
}

impl WorldNode {
    /// Whether the node cannot be reached but may still run its work. A node that is gone runs nothing.
    fn is_out_of_reach(&self) -> bool {
        !self.heard && self.reported != NodeState::Gone
    }
}

struct WorldAttempt {
    spec: Arc<JobSpec>,
    behavior: Arc<JobBehavior>,
    /// The placement of the attempt. `None` while the attempt is only analysed.
    placement: Option<Placement>,
    /// How fast the attempt works on its placement.
    pace: Pace,
    /// Incremented to cancel the scheduled events of the attempt.
    epoch: u32,
    alive: bool,
    /// When the attempt will have stopped, once it was told to stop. The report of the stop is sent even if its nodes
    /// fail before.
    stops_at: Option<SimTime>,
    /// How many facts the attempt has reported. Each report has its own random draw, keyed by this number.
    said: u32,
    started: Option<SimTime>,
    /// The sampling interval, once the control plane has requested samples. Sampling begins when the attempt starts.
    sampled_every: Option<SimDuration>,
    /// The sampler, from the first request for samples until the attempt is over.
    sampler: Option<Box<Sampler>>,
}

/// The specification and the real behavior of an attempt's job.
type Taking = (Arc<JobSpec>, Arc<JobBehavior>);

impl WorldAttempt {
    fn new((spec, behavior): Taking, placed: (Option<Placement>, &[InitialNode]), alive: bool) -> WorldAttempt {
        let (placement, nodes) = placed;
        let pace = Pace::of(&spec, placement.as_ref(), nodes);
        WorldAttempt {
            pace,
            spec,
            behavior,
            placement,
            epoch: 0,
            alive,
            stops_at: None,
            said: 0,
            started: None,
            sampled_every: None,
            sampler: None,
        }
    }

    /// The placement of an attempt that puts a known load on its GPUs.
    fn loading(&self) -> Option<&Placement> {
        self.placement.as_ref().filter(|_| self.behavior.usage.is_some())
    }

    fn course(&self) -> (&JobBehavior, Pace) {
        (&self.behavior, self.pace)
    }
}

/// The earlier of two optional times.
pub(super) fn earlier(one: Option<SimTime>, other: Option<SimTime>) -> Option<SimTime> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

pub struct World<'a> {
    rehearsal: &'a Rehearsal,
    queue: EventQueue<Due>,
    /// The events of the current instant while they are processed; empty at all other times. The field exists only to
    /// reuse the allocation.
    taken: Vec<Due>,
    nodes: Vec<WorldNode>,
    attempts: HashMap<AttemptId, WorldAttempt, foldhash::fast::FixedState>,
    downloads: Downloads,
    places: Places,
    checkpoints: Checkpoints,
    arrival_source: ArrivalSource<'a>,
    /// Cancellations and scalings of jobs that a stream has not delivered yet, each with its time and a number.
    early: BTreeMap<JobId, Vec<(SimTime, u64, Due)>>,
    asked_early: u64,
    heartbeat: SimDuration,
    /// Samples in transit. A free slot is `None`.
    samples: Vec<Option<Input>>,
    free_samples: Vec<u32>,
    shared_gpus: SharedGpus,
    traffic: Traffic,
    services: Services,
    /// Nodes that are leaving for good but still run something.
    leaving: BTreeSet<NodeId>,
    /// The running tasks of each job whose tasks work together.
    meetings: BTreeMap<JobId, Meeting>,
}

impl<'a> World<'a> {
    pub fn new(rehearsal: &'a Rehearsal, arrival_source: ArrivalSource<'a>) -> World<'a> {
        let mut queue = EventQueue::default();
        if let Some(branch) = &rehearsal.branch {
            // Must be pushed first, so that the branch is the first event of its instant.
            queue.push(branch.at, Due::Branch);
        }
        for (index, (at, _)) in rehearsal.faults.iter().enumerate() {
            queue.push(*at, Due::Fault(index as u32));
        }
        for (at, job) in &rehearsal.cancellations {
            queue.push(*at, Due::Cancel(*job));
        }
        for (at, job, replicas) in &rehearsal.scalings {
            queue.push(*at, Due::Scale(*job, *replicas));
        }
        for (at, job) in &rehearsal.evaluations {
            queue.push(*at, Due::Evaluate(*job));
        }
        rehearsal.later_kueue().for_each(|(at, index)| queue.push(at, Due::Kueue(index)));
        for (index, (at, ..)) in rehearsal.clouds.capacity.iter().enumerate() {
            queue.push(*at, Due::Capacity(index as u32));
        }
        let node = |state, is_tainted: bool| WorldNode {
            reported: state,
            is_tainted,
            heard: state != NodeState::Unreachable,
            alive: state != NodeState::Gone,
            epoch: 0,
            unsent: Vec::new(),
            to_stop: Vec::new(),
        };
        World {
            rehearsal,
            queue,
            taken: Vec::new(),
            nodes: rehearsal
                .nodes
                .iter()
                .map(|initial| node(initial.state, initial.spec.shape.is_tainted_as_not_ready()))
                .collect(),
            attempts: HashMap::default(),
            checkpoints: Checkpoints::default(),
            downloads: Downloads::new(&rehearsal.nodes),
            places: Places::new(rehearsal),
            arrival_source,
            early: BTreeMap::new(),
            asked_early: 0,
            heartbeat: rehearsal.profile.heartbeat.every,
            samples: Vec::new(),
            free_samples: Vec::new(),
            shared_gpus: SharedGpus::default(),
            traffic: Traffic::default(),
            services: Services::default(),
            leaving: BTreeSet::new(),
            meetings: BTreeMap::new(),
        }
    }

    /// The time of the next event of the world. `None` if no event is scheduled.
    pub fn next_time(&mut self) -> Option<SimTime> {
        earlier(self.queue.next_time(), self.arrival_source.next_time())
    }

    /// Lets all events of this instant happen. Adds the inputs for the control plane, sorted by class.
    pub fn happen(&mut self, now: SimTime, inputs: &mut Vec<Input>) {
        if self.queue.next_time() == Some(now) {
            let mut taken = std::mem::take(&mut self.taken);
            self.queue.take_instant(&mut taken);
            for due in taken.drain(..) {
                self.happen_one(now, due, inputs);
            }
            self.taken = taken;
        }
        self.follow_replicas(now);
        if !self.leaving.is_empty() {
            self.let_go(now);
        }
        let rehearsal = self.rehearsal;
        let mut early = Vec::new();
        while let Some((job, arrival)) = self.arrival_source.take(now) {
            inputs.push(Input::Submit { job, spec: Arc::clone(&arrival.spec) });
            traffic::begin(&mut self.queue, arrival, job);
            self.services.begin(&mut self.queue, arrival, job, World::limits(rehearsal));
            if !self.early.is_empty() {
                early.extend(self.early.remove(&job).into_iter().flatten());
            }
        }
        if !early.is_empty() {
            // The order must be the same as for a list of jobs. In that case, an early request waits for the arrival of
            // its job and is applied after the requests of that instant.
            early.sort_by_key(|(at, number, _)| (*at < now, *number));
            early.into_iter().for_each(|(_, _, due)| self.queue.push(now, due));
        }
        if inputs.len() > 1 {
            inputs.sort_by_key(Input::class);
        }
    }

    /// Carries out a command on the nodes that it reaches.
    pub fn obey(&mut self, now: SimTime, command: Command) {
        match command {
            Command::Analyse { attempt } => {
                let taking = self.taking(attempt);
                let (_, behavior) = &taking;
                let fate = self.analysis_fate(&taking, attempt);
                let fails = behavior.analysis_fails || fate == Fate::Fails;
                let fact = if fails { Lifecycle::AnalysisFailed } else { Lifecycle::Analysed };
                let length = match fate {
                    Fate::Never => None,
                    Fate::SlowBy(more) => behavior.analysis.map(|length| length.saturating_add(more)),
                    Fate::Well | Fate::Fails | Fate::AgainAfter(_) => behavior.analysis,
                };
                // A placed attempt may be analysed again. The analysis is not tracked, so that it does not disturb it.
                let is_placed = self.attempts.get(&attempt).is_some_and(|known| known.placement.is_some());
                let due = if is_placed { Due::Ack { attempt, fact } } else { Due::Fact { attempt, epoch: 0, fact } };
                if let Some(length) = length {
                    self.queue.push_after(now, length, due);
                }
                if is_placed {
                    return;
                }
                self.attempts.insert(attempt, WorldAttempt::new(taking, (None, &[]), true));
            }
            Command::AbandonAnalysis { attempt } => {
                if self.attempts.get(&attempt).is_some_and(|known| known.placement.is_none()) {
                    self.attempts.remove(&attempt);
                }
            }
            // A simulated run never sends these commands, which are for an external cluster.
            Command::Submit { .. } | Command::Withdraw { .. } => {}
            Command::Start { attempt, placement } => self.start(now, attempt, placement, Lifecycle::Started),
            Command::Prepare { attempt, placement } => self.start(now, attempt, placement, Lifecycle::Prepared),
            Command::Begin { attempt } => {
                // An attempt that has died in the meantime does not begin.
                if let Some(known) = self.attempts.get(&attempt).filter(|known| known.alive) {
                    let epoch = known.epoch;
                    self.queue.push(now, Due::Fact { attempt, epoch, fact: Lifecycle::Started });
                }
            }
            Command::Sample { attempt, interval } => self.sample_from_now_on(now, attempt, interval),
            Command::Provision { node } => self.places.provision(self.rehearsal, &mut self.queue, now, node),
            Command::Terminate { node } => self.places.terminate(self.rehearsal, &mut self.queue, now, node),
            Command::Stop { attempt } => match self.attempts.get(&attempt).map(|known| known.stops_at) {
                Some(Some(stops_at)) => self.stop_again(now.max(stops_at), attempt),
                Some(None) => self.stop_and_drain(now, attempt),
                // The attempt has already ended, and its report is on its way.
                None => {}
            },
        }
    }

    fn taking(&self, attempt: AttemptId) -> Taking {
        let arrival = self.arrival_source.of(attempt.job);
        (Arc::clone(&arrival.spec), arrival.course_of(attempt.replica))
    }

    /// Forgets a job whose record the control plane has dropped.
    pub fn forget(&mut self, job: JobId) {
        self.arrival_source.forget(job);
    }

    /// Starts an attempt. The attempt reports `up` when its preparation is complete.
    fn start(&mut self, now: SimTime, attempt: AttemptId, placement: Placement, up: Lifecycle) {
        let taking = self.taking(attempt);
        let (spec, behavior) = &taking;
        let reached = placement.claims().iter().all(|claim| {
            let node = &self.nodes[claim.node.index()];
            // A node that has not joined yet cannot start anything.
            node.heard && node.alive && node.reported != NodeState::Joining
        });
        let (epoch, said) = self.attempts.get(&attempt).map_or((0, 0), |known| (known.epoch + 1, known.said));
        let fate = self.start_fate(&taking, attempt);
        let fails = attempt.number <= behavior.failing_starts || fate == Fate::Fails;
        let prepare = match fate {
            Fate::SlowBy(more) => behavior.prepare.saturating_add(more),
            Fate::Well | Fate::Fails | Fate::Never | Fate::AgainAfter(_) => behavior.prepare,
        };
        let nodes = &self.rehearsal.nodes[..];
        if !reached {
            let known = WorldAttempt { epoch, said, ..WorldAttempt::new(taking, (Some(placement), nodes), false) };
            self.attempts.insert(attempt, known);
            return;
        }
        let fetched = Self::fetched_at(&mut self.downloads, now, spec, &placement);
        let prepare = fetched.since(now).saturating_add(prepare);
        let known = WorldAttempt { epoch, said, ..WorldAttempt::new(taking, (Some(placement), nodes), true) };
        self.attempts.insert(attempt, known);
        if !prepare.is_zero() {
            self.queue.push(now, Due::Fact { attempt, epoch, fact: Lifecycle::Preparing });
        }
        let fact = if fails { Lifecycle::StartFailed } else { up };
        self.queue.push_after(now, prepare, Due::Fact { attempt, epoch, fact });
    }

    /// When all nodes of the attempt have the weights of the model. Returns `now` if the attempt serves no model.
    fn fetched_at(downloads: &mut Downloads, now: SimTime, spec: &JobSpec, placement: &Placement) -> SimTime {
        let Some(deployment) = spec.demand.model() else { return now };
        let model = &deployment.model;
        let nodes = placement.claims().iter().map(|claim| claim.node);
        nodes.map(|node| downloads.whole_at(now, node, &model.name, model.weights)).max().unwrap_or(now)
    }

    /// Tells each node of the attempt to stop it. Nodes out of reach are told when they can be reached again. If there
    /// are any, the other nodes each report their own stop.
    fn stop(&mut self, now: SimTime, attempt: AttemptId) {
        let works_since = self.leave(now, attempt);
        // An unknown attempt has already ended and reported so.
        let Some(known) = self.attempts.get_mut(&attempt) else { return };
        let placement = known.placement.clone().unwrap_or_default();
        known.epoch += 1;
        if let Some(since) = works_since.filter(|_| known.alive) {
            self.checkpoints.interrupt(attempt, known.course(), now.since(since), true);
        }
        let length = if known.alive { known.behavior.stop } else { SimDuration::ZERO };
        let (epoch, at) = (known.epoch, now.saturating_add(length));
        known.stops_at = Some(at);
        let (unreached, reached) = placement.split(|node| self.nodes[node.index()].is_out_of_reach());
        if unreached.is_empty() {
            self.queue.push(at, Due::Fact { attempt, epoch, fact: Lifecycle::Stopped });
            return;
        }
        for claim in reached.claims() {
            let fact = Lifecycle::StoppedOn { node: claim.node };
            self.queue.push(at, Due::Fact { attempt, epoch, fact });
        }
        for claim in unreached.claims() {
            self.nodes[claim.node.index()].to_stop.push(attempt);
        }
    }

    /// Handles a repeated request to stop. A stopping attempt goes on stopping, and a stopped attempt reports again.
    fn stop_again(&mut self, at: SimTime, attempt: AttemptId) {
        let known = &self.attempts[&attempt];
        let (epoch, placement) = (known.epoch, known.placement.clone().unwrap_or_default());
        let (unreached, reached) = placement.split(|node| self.nodes[node.index()].is_out_of_reach());
        if unreached.is_empty() {
            return self.queue.push(at, Due::Fact { attempt, epoch, fact: Lifecycle::Stopped });
        }
        for claim in reached.claims() {
            self.queue.push(at, Due::Fact { attempt, epoch, fact: Lifecycle::StoppedOn { node: claim.node } });
        }
    }

    fn happen_one(&mut self, now: SimTime, due: Due, inputs: &mut Vec<Input>) {
        match due {
            Due::Fact { attempt, epoch, fact } => self.fact(now, attempt, epoch, fact, inputs),
            Due::HeartbeatMissed { node, epoch, last } => {
                if self.nodes[node.index()].epoch == epoch {
                    inputs.push(Input::Fleet(FleetFact::HeartbeatMissed { node, last }));
                }
            }
            Due::Branch => self.branch(now, inputs),
            Due::WorkDone { job, round } => self.finish_together(now, job, round, inputs),
            Due::Leave(node) => self.turn(now, node, NodeTurn::Gone, inputs),
            Due::Fault(index) => self.fault(now, self.rehearsal.faults[index as usize].1, inputs),
            Due::Instance { node, epoch, becomes } => {
                if self.places.is_current(node, epoch) {
                    self.turn_instance(now, node, becomes, inputs);
                }
            }
            Due::Capacity(index) => inputs.push(self.rehearsal.capacity_input(index)),
            Due::Kueue(index) => inputs.push(self.rehearsal.kueue_input(index)),
            // A request about a job that has not arrived yet is delivered right after the arrival.
            Due::Cancel(job) | Due::Scale(job, _) if !self.arrival_source.has_come(job) => {
                match self.arrival_source.time_of(job) {
                    Some(arrives) => self.queue.push(arrives.max(now), due),
                    None => {
                        self.asked_early += 1;
                        self.early.entry(job).or_default().push((now, self.asked_early, due));
                    }
                }
            }
            Due::Cancel(job) => inputs.push(Input::User(UserRequest::Cancel { job })),
            Due::Scale(job, replicas) => inputs.push(Input::User(UserRequest::Scale { job, replicas })),
            Due::Requests { job, counts } => {
                let arrival = self.arrival_source.of(job);
                inputs.extend(self.traffic.count(&mut self.queue, arrival, (job, counts), now));
            }
            Due::ServiceReport(job) => self.report_service(now, job, inputs),
            Due::Ack { attempt, fact } => inputs.push(Input::Attempt { attempt, fact }),
            Due::Sample { attempt, epoch } => self.sample(now, attempt, epoch, inputs),
            Due::SampleHeard(place) => {
                let heard = self.samples[place as usize].take();
                self.free_samples.push(place);
                inputs.push(heard.expect("heard once"));
            }
            Due::Evaluate(job) => {
                let spec = &self.arrival_source.of(job).spec;
                let rehearsal = self.rehearsal;
                let later = rehearsal.branch.as_ref().and_then(|branch| branch.profile.as_ref());
                let mut profiles = [Some(&rehearsal.profile), later].into_iter().flatten();
                let reads_fields = profiles.any(|profile| profile.scheduler.reads_fields());
                inputs.push(if reads_fields { Input::evaluate_job(spec) } else { Input::evaluate(spec) });
            }
        }
    }

    fn fault(&mut self, now: SimTime, fault: Fault, inputs: &mut Vec<Input>) {
        let (Fault::Node { node, .. }
        | Fault::Gpu { gpu: GpuId { node, .. }, .. }
        | Fault::Foreign { gpu: GpuId { node, .. }, .. }) = fault;
        if self.places.is_absent(node) {
            return;
        }
        match fault {
            Fault::Node { node, becomes: NodeTurn::Gone } => {
                self.turn_instance(now, node, InstanceTurn::Gone, inputs);
            }
            Fault::Node { node, becomes } => self.turn(now, node, becomes, inputs),
            Fault::Gpu { gpu, becomes } => {
                self.places.touch(gpu);
                self.turn_gpu(now, gpu, becomes, inputs);
            }
            Fault::Foreign { gpu, foreign } => {
                self.places.touch(gpu);
                inputs.push(Input::Fleet(FleetFact::ForeignUse { gpu, foreign }));
            }
        }
    }

    fn turn_instance(&mut self, now: SimTime, node: NodeId, becomes: InstanceTurn, inputs: &mut Vec<Input>) {
        match becomes {
            InstanceTurn::Accepted => {
                inputs.push(Input::Fleet(FleetFact::NodeReported { node, state: NodeState::Joining }))
            }
            InstanceTurn::Up => {
                self.places.is_up(self.rehearsal, &mut self.queue, now, node);
                self.turn(now, node, NodeTurn::Ready, inputs);
            }
            InstanceTurn::Gone => {
                self.turn(now, node, NodeTurn::Gone, inputs);
                self.places.is_gone(self.rehearsal, node, inputs);
            }
        }
    }

    fn fact(&mut self, now: SimTime, attempt: AttemptId, epoch: u32, fact: Lifecycle, inputs: &mut Vec<Input>) {
        let Some(known) = self.attempts.get_mut(&attempt).filter(|known| known.epoch == epoch) else { return };
        if fact == Lifecycle::Started {
            known.started = Some(now);
            self.services.started(attempt);
            if let Some(placement) = known.loading() {
                self.shared_gpus.started(attempt, placement);
            }
            let sampled_every = known.sampled_every;
            let (behavior, pace) = known.course();
            if let Some(tasks) = behavior.together {
                self.meet(now, attempt, tasks);
            } else if let Some(length) = self.checkpoints.length(attempt, behavior, pace) {
                let ending = Lifecycle::Exited(known.behavior.ending);
                self.queue.push_after(now, length, Due::Fact { attempt, epoch, fact: ending });
            }
            if let Some(interval) = sampled_every {
                self.sample_from_now_on(now, attempt, interval);
            }
        }
        if let Lifecycle::Exited(_) = fact {
            self.checkpoints.forget(attempt);
        }
        self.tell(now, attempt, fact, inputs);
    }

    /// Reports a fact of an attempt. If a node of the attempt cannot be heard, it sends the report later.
    fn tell(&mut self, now: SimTime, attempt: AttemptId, fact: Lifecycle, inputs: &mut Vec<Input>) {
        let Entry::Occupied(mut entry) = self.attempts.entry(attempt) else {
            panic!("{attempt} has facts but is unknown")
        };
        let known = entry.get_mut();
        let is_over = fact.is_end();
        known.alive &= !is_over;
        self.services.is_touched |= is_over;
        if let Some(placement) = known.loading().filter(|_| is_over) {
            self.shared_gpus.ended(attempt, placement);
        }
        let claims = known.placement.as_ref().map_or(&[][..], |placement| placement.claims());
        let speaker = if let Lifecycle::StoppedOn { node } = fact { Some(node) } else { None };
        let speaks = |node| speaker.is_none_or(|speaker| speaker == node);
        let unheard =
            claims.iter().find(|claim| speaks(claim.node) && self.nodes[claim.node.index()].is_out_of_reach());
        if let Some(claim) = unheard {
            return self.nodes[claim.node.index()].unsent.push((attempt, fact));
        }
        let fate = known.ack_fate(self.rehearsal.seed, attempt);
        // If the last report is lost, the attempt is kept, because its node still knows of its end.
        if is_over && fate != Fate::Never {
            entry.remove();
        }
        self.send(now, (attempt, fact), fate, inputs);
    }

    /// Sends a report about an attempt. Depending on `fate`, the report arrives at once, later, twice or never.
    fn send(&mut self, now: SimTime, (attempt, fact): (AttemptId, Lifecycle), fate: Fate, inputs: &mut Vec<Input>) {
        match fate {
            Fate::Well | Fate::Fails => inputs.push(Input::Attempt { attempt, fact }),
            Fate::Never => {}
            Fate::SlowBy(later) => self.queue.push_after(now, later, Due::Ack { attempt, fact }),
            Fate::AgainAfter(later) => {
                inputs.push(Input::Attempt { attempt, fact });
                self.queue.push_after(now, later, Due::Ack { attempt, fact });
            }
        }
    }

    fn turn(&mut self, now: SimTime, id: NodeId, becomes: NodeTurn, inputs: &mut Vec<Input>) {
        self.services.is_touched = true;
        let node = &mut self.nodes[id.index()];
        match becomes {
            NodeTurn::NotReady | NodeTurn::Maintenance => {
                let state = if becomes == NodeTurn::NotReady { NodeState::NotReady } else { NodeState::Maintenance };
                node.reported = state;
                inputs.push(Input::Fleet(FleetFact::NodeReported { node: id, state }));
            }
            NodeTurn::Silent => self.fall_silent(now, id),
            NodeTurn::Crashed => {
                self.fall_silent(now, id);
                self.nodes[id.index()].alive = false;
                self.downloads.interrupt(now, id);
                self.kill_on(now, id, inputs);
            }
            NodeTurn::Gone => {
                node.reported = NodeState::Gone;
                node.alive = false;
                node.epoch += 1;
                node.unsent.clear();
                self.downloads.clear(now, id);
                inputs.push(Input::Fleet(FleetFact::NodeReported { node: id, state: NodeState::Gone }));
                for attempt in self.attempts_on(id) {
                    self.interrupt(now, attempt);
                    let attempt = self.attempts.get_mut(&attempt).expect("just listed");
                    attempt.alive = false;
                    attempt.epoch += u32::from(attempt.stops_at.is_none());
                }
            }
            NodeTurn::Ready => self.come_back(now, id, inputs),
        }
    }

    /// Silences a node. Heartbeats are sent at every multiple of their interval, so the last heartbeat to arrive is at
    /// the latest multiple up to now.
    fn fall_silent(&mut self, now: SimTime, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if !node.heard {
            return;
        }
        node.heard = false;
        node.epoch += 1;
        let every = self.heartbeat.as_nanos();
        let last = SimTime::from_nanos(now.as_nanos() / every * every);
        let due = Due::HeartbeatMissed { node: id, epoch: node.epoch, last };
        self.queue.push(last.saturating_add(self.heartbeat).max(now), due);
    }

    /// Kills all attempts on this node. If another node of an attempt can be heard, it reports the failure.
    fn kill_on(&mut self, now: SimTime, id: NodeId, inputs: &mut Vec<Input>) {
        for attempt in self.attempts_on(id) {
            let known = self.attempts.get_mut(&attempt).expect("just listed");
            if !known.alive || known.stops_at.is_some() {
                continue;
            }
            self.interrupt(now, attempt);
            let known = self.attempts.get_mut(&attempt).expect("just listed");
            known.alive = false;
            known.epoch += 1;
            let placement = known.placement.as_ref().expect("it runs on a node");
            let witness = placement.claims().iter().any(|claim| self.nodes[claim.node.index()].heard);
            match witness {
                true => {
                    let known = self.attempts.get_mut(&attempt).expect("just listed");
                    let fate = known.ack_fate(self.rehearsal.seed, attempt);
                    self.send(now, (attempt, Lifecycle::NodeFailed), fate, inputs);
                }
                false => self.nodes[id.index()].unsent.push((attempt, Lifecycle::NodeFailed)),
            }
        }
    }

    /// An attempt loses the work since its last checkpoint, because a node or a GPU of it fails. An attempt that stops has
    /// written its last checkpoint.
    fn interrupt(&mut self, now: SimTime, attempt: AttemptId) {
        let works_since = self.leave(now, attempt);
        let known = &self.attempts[&attempt];
        if let Some(since) = works_since.filter(|_| known.alive && known.stops_at.is_none()) {
            self.checkpoints.interrupt(attempt, known.course(), now.since(since), false);
        }
    }

    fn come_back(&mut self, now: SimTime, id: NodeId, inputs: &mut Vec<Input>) {
        let node = &mut self.nodes[id.index()];
        let was_silent = !std::mem::replace(&mut node.heard, true);
        node.alive = true;
        node.epoch += 1;
        if was_silent {
            inputs.push(Input::Fleet(FleetFact::HeartbeatBack { node: id }));
        }
        if node.reported != NodeState::Ready || node.is_tainted {
            (node.reported, node.is_tainted) = (NodeState::Ready, false);
            inputs.push(Input::Fleet(FleetFact::NodeReported { node: id, state: NodeState::Ready }));
        }
        let (unsent, to_stop) = (std::mem::take(&mut node.unsent), std::mem::take(&mut node.to_stop));
        for (attempt, fact) in unsent {
            if self.attempts.contains_key(&attempt) {
                self.tell(now, attempt, fact, inputs);
            }
        }
        for attempt in to_stop {
            self.stop(now, attempt);
        }
    }

    fn turn_gpu(&mut self, now: SimTime, gpu: GpuId, becomes: GpuState, inputs: &mut Vec<Input>) {
        inputs.push(Input::Fleet(FleetFact::GpuReported { gpu, state: becomes }));
        if becomes != GpuState::Failed {
            return;
        }
        for attempt in self.attempts_on(gpu.node) {
            let known = self.attempts.get_mut(&attempt).expect("just listed");
            let placement = known.placement.as_ref().expect("it runs on a node");
            let holds = placement
                .claims()
                .iter()
                .any(|claim| claim.node == gpu.node && claim.gpus.iter().any(|part| part.index == gpu.index));
            if holds && known.alive {
                known.epoch += 1;
                self.interrupt(now, attempt);
                self.tell(now, attempt, Lifecycle::GpuFailed, inputs);
            }
        }
    }

    /// The attempts on a node, in order of their ids. Only faults and leaving nodes need this list, so a scan of all
    /// attempts is fast enough.
    fn attempts_on(&self, node: NodeId) -> Vec<AttemptId> {
        let touches =
            |attempt: &WorldAttempt| attempt.placement.as_ref().is_some_and(|placement| placement.touches(node));
        // The order of the map cannot show, because the list is sorted.
        #[expect(clippy::disallowed_methods, reason = "sorted below")]
        let mut found: Vec<AttemptId> =
            self.attempts.iter().filter(|(_, attempt)| touches(attempt)).map(|(id, _)| *id).collect();
        found.sort_unstable();
        found
    }
}
