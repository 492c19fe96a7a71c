//! A real kube-scheduler that decides in a rehearsal.
//!
//! ```text
//! engine ──records, commands──> World: what the program has to see ──objects──> Rehearsal ──> kube-scheduler
//! engine <──────inputs───────── decisions that it wrote, once it is idle <──────────┘
//! ```
//!
//! A binding places an attempt, the condition `PodScheduled` says why it waits, and a deleted pod is preempted. The
//! program's thinking takes no simulated time. Where simulated time passes while pods wait, as much real time passes as
//! a back-off needs.

mod budgets;
mod condition;
mod objects;
mod setup;
mod world;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dryrack_event::{
    Answer, Command, Decider, Event, External, Input, Outside, OutsideFault, OutsideProgram, ProgramFailure,
    ProgramName, Sink, Timings,
};
use dryrack_fleet::{Fleet, NodeClaim, Placement};
use dryrack_ids::{AttemptId, NodeId};
use dryrack_units::SimTime;
use dryrack_workload::Demand;
use serde_json::{Value, json};
use smallvec::smallvec;

pub use setup::{KubeSchedulerSetup, find_program};

use super::config::{Config, Release};
use super::heard::{Attempt, Heard, Unserved};
use super::key::ObjectKey;
use super::limits::Limits;
use super::process::{NotStarted, Program};
use super::rehearsal::{Failure, Rehearsal};
use super::store::ObjectError;
use world::{PodState, World, seconds};

/// The largest number of questions within one instant.
const MOST_AT_ONCE: u32 = 1_000;

/// The lines of its stderr that are shown if the program ends at once.
const FIRST_LINES: usize = 5;

/// The paths asked for in vain that a remark names.
const NAMED_PATHS: usize = 12;

/// Why a question has no answer.
enum Wrong {
    Failed(Failure),
    NotServed(ObjectError),
    Standstill(String),
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Wrong {
        Wrong::Failed(failure)
    }
}

impl Wrong {
    /// The fault, its text, and the last part of the program's stderr.
    fn parts(self) -> (OutsideFault, String, String) {
        match self {
            Wrong::Failed(Failure::NotStarted(why)) => (OutsideFault::NotStarted, why.to_string(), String::new()),
            Wrong::Failed(Failure::NoServer(why)) => {
                (OutsideFault::NotStarted, format!("its API server: {why}"), String::new())
            }
            Wrong::Failed(Failure::Ended { how, errors }) => (OutsideFault::ProcessDied, format!("it {how}"), errors),
            Wrong::Failed(Failure::Silent { limit, waits_for, errors }) => {
                (OutsideFault::DeadlineMissed, format!("{waits_for} within {} s", limit.as_secs_f64()), errors)
            }
            Wrong::Failed(failure @ Failure::MarkerBound { .. }) => {
                (OutsideFault::SelectorIgnored, failure.to_string(), String::new())
            }
            Wrong::NotServed(error) => {
                (OutsideFault::GivenUp, format!("an object of the scenario: {error}"), String::new())
            }
            Wrong::Standstill(text) => (OutsideFault::Standstill, text, String::new()),
        }
    }
}

/// A kube-scheduler during one run.
pub struct KubeScheduler {
    setup: KubeSchedulerSetup,
    config: Config,
    release: Release,
    /// The program that was started before the run, or why it does not answer.
    begun: Option<Result<Rehearsal, Failure>>,
    rehearsal: Option<Rehearsal>,
    world: World,
    asked_at: Option<(SimTime, u32)>,
    wake_at: Option<SimTime>,
    restarts_left: u32,
    timings: Timings,
    failure: Option<ProgramFailure>,
    unserved: Vec<Unserved>,
    transcript: Option<Box<dyn Write + Send>>,
}

#[expect(clippy::disallowed_methods, reason = "how long an answer took; it reaches no run")]
fn now() -> Instant {
    Instant::now()
}

impl KubeScheduler {
    /// Finds the program, asks for its release, reads its configuration and starts it.
    ///
    /// # Errors
    /// If there is no such program, if it states no release, if its configuration cannot be used, or if it ends at once,
    /// as it does with a flag or a configuration that it refuses.
    pub fn new(setup: KubeSchedulerSetup) -> Result<KubeScheduler, NotStarted> {
        let program = find_program(&setup.program, &setup.folder)?;
        let config = setup.config()?;
        let release = Program::release_of(&program)?;
        let begun = Rehearsal::start(&program, config.clone(), Limits::default(), setup.start);
        if let Err(Failure::Ended { how, errors }) = &begun {
            let first: Vec<&str> = errors.lines().filter(|line| !line.trim().is_empty()).take(FIRST_LINES).collect();
            let why = format!("it {how} before it answered\n{}", first.join("\n"));
            return Err(NotStarted { program: program.display().to_string(), why });
        }
        Ok(KubeScheduler {
            begun: Some(begun),
            restarts_left: setup.restarts,
            setup: KubeSchedulerSetup { program, ..setup },
            config,
            release,
            rehearsal: None,
            world: World::default(),
            asked_at: None,
            wake_at: None,
            timings: Timings::default(),
            failure: None,
            unserved: Vec::new(),
            transcript: None,
        })
    }

    fn start(&mut self) -> Result<Input, Wrong> {
        let (program, config) = (&self.setup.program, &self.config);
        let begun = self.begun.take();
        let mut rehearsal =
            begun.unwrap_or_else(|| Rehearsal::start(program, config.clone(), Limits::default(), self.setup.start))?;
        rehearsal.set_patience(self.setup.deadline);
        self.rehearsal = Some(rehearsal);
        let (name, version) = (Arc::from("kube-scheduler"), Arc::from(self.release.to_string()));
        Ok(Input::External(External::Said(Outside::Joined { name, version, stands_in: Vec::new() })))
    }

    /// Runs `attempt`. After each failure, starts a new process and runs it again, as long as restarts are left.
    fn insisting(
        &mut self,
        fleet: Option<&Fleet>,
        answer: &mut Answer,
        mut attempt: impl FnMut(&mut KubeScheduler, &mut Answer) -> Result<(), Wrong>,
    ) {
        let mut result = attempt(self, answer);
        while let Err(wrong) = result {
            self.keep_unserved();
            self.rehearsal = None;
            let (fault, text, errors) = wrong.parts();
            let last = errors.lines().rev().map(str::trim).find(|line| !line.is_empty());
            let said = last.map_or_else(|| text.clone(), |last| format!("{text}; its last words: {last}"));
            let restarted = self.restarts_left > 0 && fault != OutsideFault::Standstill;
            let failed = Outside::Failed { fault, text: Arc::from(condition::cut(&said)), restarted };
            answer.inputs.push(Input::External(External::Said(failed)));
            if !restarted {
                self.failure = Some(ProgramFailure { fault, text, errors });
                (answer.is_last, self.wake_at) = (true, None);
                return;
            }
            self.restarts_left -= 1;
            if let Some(fleet) = fleet {
                self.world.forget_served(fleet);
            }
            result = self.start().and_then(|joined| {
                answer.inputs.push(joined);
                if fleet.is_some() { attempt(self, answer) } else { Ok(()) }
            });
        }
    }

    fn note(&mut self, direction: char, message: &Value) {
        if let Some(out) = &mut self.transcript {
            // Ignore a failed write, because a transcript is only for reading and must not end a run.
            let _unwritten = writeln!(out, "{direction} {message}");
        }
    }

    fn keep_unserved(&mut self) {
        let Some(rehearsal) = &self.rehearsal else { return };
        for asked in rehearsal.unserved() {
            let is_same = |known: &&mut Unserved| known.method == asked.method && known.path == asked.path;
            match self.unserved.iter_mut().find(is_same) {
                Some(known) => known.times += asked.times,
                None => self.unserved.push(asked),
            }
        }
    }

    fn count(&mut self, now: SimTime) -> Result<(), Wrong> {
        let count = match self.asked_at {
            Some((at, count)) if at == now => count + 1,
            Some(_) | None => 1,
        };
        self.asked_at = Some((now, count));
        match count > MOST_AT_ONCE {
            true => Err(Wrong::Standstill(format!("{count} questions at {now}"))),
            false => Ok(()),
        }
    }

    fn ask(&mut self, now: SimTime, fleet: &Fleet, answer: &mut Answer) -> Result<(), Wrong> {
        let before = self.asked_at.map(|(at, _)| at);
        self.count(now)?;
        let begun = self::now();
        let Some(mut rehearsal) = self.rehearsal.take() else { return Ok(()) };
        if let Some(passed) = before.and_then(|before| now.checked_since(before)).filter(|passed| !passed.is_zero()) {
            rehearsal.pass(Duration::from_nanos(passed.as_nanos()));
        }
        rehearsal.server().set_now(seconds(now).0);
        let shown = self.show(now, fleet, &mut rehearsal);
        let settled = shown.and_then(|()| Ok(rehearsal.settle()?));
        let may_be_moved = rehearsal.may_be_moved();
        self.rehearsal = Some(rehearsal);
        let heard = settled?.heard;
        self.timings.add(begun.elapsed());
        // The program writes a binding beside its next attempts, so it may come after the refusals of those.
        let (bound, others): (Vec<_>, Vec<_>) =
            heard.iter().enumerate().partition(|(_, one)| matches!(one, Heard::Bound { .. }));
        for (place, one) in bound.into_iter().chain(others) {
            self.read(now, one, (&heard, place), answer);
        }
        self.world.is_cause = false;
        let (initial, max) = (self.config.initial_backoff, self.config.max_backoff);
        self.wake_at = if may_be_moved { self.world.next_backoff_end(now, initial, max) } else { None };
        self.timings.decisions += answer.inputs.len() as u64;
        Ok(())
    }

    /// Shows the program all that changed in the world.
    fn show(&mut self, now: SimTime, fleet: &Fleet, rehearsal: &mut Rehearsal) -> Result<(), Wrong> {
        let budgets = self.world.budgets.follow(now);
        for object in std::mem::take(&mut self.world.objects).into_iter().chain(budgets) {
            self.apply(rehearsal, object)?;
        }
        let changed = std::mem::take(&mut self.world.changed_pods);
        let state = |world: &World, attempt: &AttemptId| world.pods.get(attempt).map(|record| record.state.clone());
        for attempt in &changed {
            if state(&self.world, attempt) == Some(PodState::Gone) {
                self.remove_pod(rehearsal, *attempt);
                self.world.forget(*attempt);
            }
        }
        self.show_nodes(fleet, rehearsal)?;
        let mut waiting = BTreeMap::new();
        for attempt in changed {
            match state(&self.world, &attempt) {
                Some(PodState::Bound { node, since, deleted }) => {
                    let Some((_, pod)) = self.served(fleet, attempt) else { continue };
                    let node = &fleet.node(node).name;
                    self.apply(rehearsal, objects::bound_pod(pod, node, since, deleted))?;
                }
                Some(PodState::Waiting(number)) => drop(waiting.insert(number, attempt)),
                Some(PodState::Gone) | None => {}
            }
        }
        for attempt in waiting.into_values() {
            let Some((_, pod)) = self.served(fleet, attempt) else { continue };
            let Some(record) = self.world.pods.get_mut(&attempt) else { continue };
            let times = record.refused;
            if std::mem::take(&mut record.is_bound) {
                self.remove_pod(rehearsal, attempt);
            }
            self.apply(rehearsal, objects::created_again(pod, times))?;
        }
        Ok(())
    }

    /// Shows nodes that changed, in order of their names, because a program examines nodes in the order in which they came,
    /// and gets those of a cluster by name when it starts. A node with images is shown twice, because 1.20 counts the
    /// nodes that have an image when it sees a node, and a real kubelet reports its node again and again.
    fn show_nodes(&mut self, fleet: &Fleet, rehearsal: &mut Rehearsal) -> Result<(), Wrong> {
        let mut changed: Vec<NodeId> = std::mem::take(&mut self.world.changed_nodes).into_iter().collect();
        changed.sort_by_key(|id| &fleet.node(*id).name);
        let mut with_images = Vec::new();
        for id in changed {
            match World::node(fleet, id) {
                Some(node) => {
                    if node["status"]["images"].is_array() {
                        with_images.push(node.clone());
                    }
                    self.apply(rehearsal, node)?;
                }
                None => {
                    let name = Arc::clone(&fleet.node(id).name);
                    self.note('>', &json!({"removed": {"kind": "Node", "name": &*name}}));
                    rehearsal.remove("Node", &ObjectKey::new("", &name));
                }
            }
        }
        with_images.into_iter().try_for_each(|node| self.apply(rehearsal, node))
    }

    fn apply(&mut self, rehearsal: &mut Rehearsal, object: Value) -> Result<(), Wrong> {
        self.note('>', &object);
        rehearsal.apply(object).map_err(Wrong::NotServed)
    }

    fn remove_pod(&mut self, rehearsal: &mut Rehearsal, attempt: AttemptId) {
        let served = self.world.pods.get(&attempt).and_then(|record| record.served.as_ref());
        let Some(key) = served.map(|(key, _)| key.clone()) else { return };
        self.note('>', &json!({"removed": {"kind": "Pod", "namespace": &*key.namespace, "name": &*key.name}}));
        rehearsal.remove("Pod", &key);
    }

    /// The key and the object of a pod, which is made if the program has not seen it.
    fn served(&mut self, fleet: &Fleet, attempt: AttemptId) -> Option<(ObjectKey, Value)> {
        if let Some(served) = self.world.pods.get(&attempt).and_then(|record| record.served.clone()) {
            return Some(served);
        }
        let mut made = self.world.make_pod(fleet, attempt)?;
        objects::as_stored_by(&self.release, &mut made.1);
        // The first profile of the program schedules all pods.
        made.1["spec"]["schedulerName"] = Value::from(self.config.scheduler_names().swap_remove(0));
        self.world.pods.get_mut(&attempt)?.served = Some(made.clone());
        Some(made)
    }

    /// Converts what the program wrote to inputs. `all` has the writes beside it, and its place among them.
    fn read(&mut self, now: SimTime, heard: &Heard, all: (&[Heard], usize), answer: &mut Answer) {
        let attempt_of = |world: &World, pod: &ObjectKey| world.keys.get(&*pod.to_string()).copied();
        let said = match heard {
            Heard::Bound { pod, node } => {
                self.note('<', &json!({"bound": pod.to_string(), "node": &**node}));
                let (Some(attempt), Some(node)) = (attempt_of(&self.world, pod), self.world.node_ids.get(node)) else {
                    return;
                };
                let claim = NodeClaim { tasks: 1, ..NodeClaim::of_nothing(*node) };
                if let Some(record) = self.world.pods.get_mut(&attempt) {
                    (record.is_bound, record.stated) = (true, None);
                }
                External::Decided { attempt, placement: Some(Placement::new(smallvec![claim])) }
            }
            Heard::Unschedulable { pod, attempt: tried } => {
                let Attempt { reason, message, nominated } = tried;
                let nominated = nominated.as_deref();
                self.note('<', &json!({"unschedulable": pod.to_string(), "reason": &**reason, "message": &**message, "nominated": nominated}));
                let Some(attempt) = attempt_of(&self.world, pod) else { return };
                let Some(record) = self.world.pods.get_mut(&attempt) else { return };
                (record.tried, record.tried_at) = (record.tried.saturating_add(1), now);
                let (reasons, text) = (condition::reasons(message), Arc::<str>::from(condition::cut(message)));
                let stated = Some((reasons.clone(), Arc::clone(&text)));
                if std::mem::replace(&mut record.stated, stated.clone()) == stated {
                    return;
                }
                External::Said(Outside::Waits { attempt, reasons, text: Some(text) })
            }
            Heard::Evicted { pod } => {
                self.note('<', &json!({"deleted": pod.to_string()}));
                let Some(attempt) = attempt_of(&self.world, pod) else { return };
                let by = self.preemptor(attempt, all);
                External::Said(Outside::Preempts { attempt, by, text: None })
            }
            Heard::Nominated { pod, node } => {
                return self.note('<', &json!({"nominated": pod.to_string(), "node": node.as_deref()}));
            }
            Heard::Wrote { kind, key, object } => {
                return self.note('<', &json!({"wrote": &**kind, "name": key.to_string(), "object": &**object}));
            }
        };
        answer.inputs.push(Input::External(said));
    }

    /// The pod for which the program deletes a pod: the next one that it nominates to the node of the deleted pod, or
    /// else the last one before.
    fn preemptor(&self, victim: AttemptId, (all, place): (&[Heard], usize)) -> Option<AttemptId> {
        let PodState::Bound { node, .. } = self.world.pods.get(&victim)?.state else { return None };
        let nominee = |heard: &Heard| {
            let (pod, nominated) = match heard {
                Heard::Unschedulable { pod, attempt } => (pod, attempt.nominated.as_ref()?),
                Heard::Nominated { pod, node } => (pod, node.as_ref()?),
                Heard::Bound { .. } | Heard::Evicted { .. } | Heard::Wrote { .. } => return None,
            };
            let is_here = self.world.node_ids.get(nominated) == Some(&node);
            is_here.then(|| self.world.keys.get(&*pod.to_string()).copied()).flatten()
        };
        let after = all[place..].iter().find_map(nominee);
        after.or_else(|| all[..place].iter().rev().find_map(nominee))
    }
}

impl Sink for KubeScheduler {
    fn input(&mut self, _: u64, _: SimTime, input: &Input) {
        self.world.input(input);
    }

    fn event(&mut self, _: u64, at: SimTime, event: &Event) {
        self.world.event(at, event);
    }
}

impl Decider for KubeScheduler {
    fn join(&mut self) -> Answer {
        let mut answer = Answer::default();
        self.insisting(None, &mut answer, |program, answer| {
            answer.inputs.push(program.start()?);
            Ok(())
        });
        answer
    }

    fn command(&mut self, _: SimTime, command: &Command) {
        self.world.command(command);
    }

    fn decide(&mut self, now: SimTime, fleet: &Fleet) -> Option<Answer> {
        self.rehearsal.as_ref()?;
        self.world.follow_nodes(fleet);
        let is_awake = self.wake_at.is_some_and(|at| at <= now);
        if !is_awake && (!self.world.is_cause || self.world.waiting.is_empty()) {
            return None;
        }
        self.wake_at = None;
        let mut answer = Answer::default();
        self.insisting(Some(fleet), &mut answer, |program, answer| program.ask(now, fleet, answer));
        Some(answer)
    }

    /// The program is not asked about demands that are not pods of the cluster.
    fn evaluates(&self) -> bool {
        false
    }

    fn evaluate(&mut self, _: SimTime, _: &Fleet, _: &Arc<str>, _: &Arc<Demand>) -> Answer {
        Answer::default()
    }

    fn wakes_at(&self) -> Option<SimTime> {
        self.wake_at
    }

    fn polls(&self) -> bool {
        true
    }

    /// A back-off that ends later changes nothing that the run could show.
    fn leave_unasked(&mut self) {}
}

impl OutsideProgram for KubeScheduler {
    fn who(&self) -> Option<ProgramName> {
        Some(ProgramName { name: Arc::from("kube-scheduler"), version: Arc::from(self.release.to_string()) })
    }

    fn failure(&self) -> Option<&ProgramFailure> {
        self.failure.as_ref()
    }

    fn end(&mut self) {
        self.keep_unserved();
        self.rehearsal = None;
        if let Some(out) = &mut self.transcript {
            let _unwritten = out.flush();
        }
    }

    fn timings(&self) -> &Timings {
        &self.timings
    }

    fn remarks(&self) -> Vec<String> {
        let Config { initial_backoff, max_backoff, own, .. } = &self.config;
        let has_own = |field: &str| own.as_ref().is_some_and(|own| own[field].is_u64());
        let source = match has_own("podInitialBackoffSeconds") || has_own("podMaxBackoffSeconds") {
            true => "your configuration",
            false => "the profile",
        };
        let mut remarks = vec![format!(
            "kube-scheduler {} decided. Its back-off is {initial_backoff} s to {max_backoff} s, from {source}",
            self.release
        )];
        if !self.unserved.is_empty() {
            let named = self.unserved.iter().take(NAMED_PATHS).map(|asked| format!("{} {}", asked.method, asked.path));
            let more = self.unserved.len().saturating_sub(NAMED_PATHS);
            let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
            let named = named.collect::<Vec<_>>().join(", ");
            remarks.push(format!("kube-scheduler asked in vain for {named}{rest}"));
        }
        remarks
    }

    fn write_transcript(&mut self, out: Box<dyn Write + Send>) {
        self.transcript = Some(out);
    }

    fn as_decider(&mut self) -> &mut dyn Decider {
        self
    }
}
