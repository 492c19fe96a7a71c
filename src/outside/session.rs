//! The dialogue with the program during one run: the messages and questions to it, its answers, and its failures.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::child::{Child, LONGEST_LINE, NotStarted, ReadResult, silence};
use super::message::{self, Cancel, CancelBecause, Capability, Decision, Hello, Interest, LineFault, PROTOCOL, cut};
use super::mirror::{Changes, Mirror};
use super::objects;
use super::placing::Places;
use super::reasons::{histogram, waits};
use super::refusals::Refusals;
use super::setup::{Setup, ThinkTime};
use dryrack_event::{
    Answer, Command, Decider, Event, External, Histogram, Input, Outside, OutsideFault, OutsideProgram,
    ProgramFailure as Failure, ProgramName, Reason, Refusal, Sink, Timings, UsageFact,
};
use dryrack_fleet::Fleet;
use dryrack_ids::{AttemptId, FleetId, JobId, NodeId};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Demand, JobSpec};

/// The largest number of questions within one instant.
const MOST_AT_ONCE: u32 = 10_000;

/// How many questions within one instant may follow only from decisions that were not carried out. A program that
/// repeats such decisions is asked again after something else happens.
const MOST_REFUSED: u32 = 3;
/// The largest number of questions in a row without a decision.
const MOST_IDLE: u32 = 1_000_000;

pub struct Session {
    setup: Setup,
    scenario: String,
    seed: u64,
    child: Option<Child>,
    /// When the last message was sent to it, in real time.
    said_at: Option<Instant>,
    hello: Option<Hello>,
    mirror: Mirror,
    clouds: Vec<bool>,
    /// The version of each node that the program knows, and each fleet that it knows; empty before the snapshot.
    known_nodes: Vec<u64>,
    /// How many changes of nodes were read.
    read_changes: u64,
    known_fleets: Vec<Value>,
    has_snapshot: bool,
    /// The number of the last question.
    asked: u64,
    /// The index of each decision in the last answer, by the attempt that it concerns.
    indexes: BTreeMap<AttemptId, usize>,
    refusals: Refusals,
    wake_at: Option<SimTime>,
    /// The time of a question that was never asked, because nothing else happened for a day.
    unasked_at: Option<SimTime>,
    restarts_left: u32,
    asked_at: Option<(SimTime, u32)>,
    /// Whether a reason for a decision came up while the program was asked something else.
    is_decision_due: bool,
    idle: u32,
    pub timings: Timings,
    failure: Option<Failure>,
    transcript: Option<Box<dyn Write + Send>>,
}

/// The process of a run that is over; another run can use it.
pub struct IdleProcess {
    child: Child,
    setup: Setup,
}

impl Session {
    /// Starts the program. The first message is sent when the run begins.
    pub fn start(setup: Setup, scenario: &str, seed: u64) -> Result<Session, NotStarted> {
        Session::start_or_keep(None, setup, scenario, seed)
    }

    /// Like [`Session::start`], but uses the process of an earlier run if it was started in the same way.
    pub fn start_or_keep(
        kept: Option<IdleProcess>,
        setup: Setup,
        scenario: &str,
        seed: u64,
    ) -> Result<Session, NotStarted> {
        let is_alike = |kept: &IdleProcess| {
            kept.setup.command == setup.command
                && kept.setup.folder == setup.folder
                && kept.setup.driver == setup.driver
        };
        let child = match kept.filter(is_alike) {
            Some(kept) => kept.child,
            None => Child::of(&setup.command, &setup.folder)?,
        };
        Ok(Session {
            restarts_left: setup.restarts,
            setup,
            scenario: scenario.to_string(),
            seed,
            child: Some(child),
            said_at: None,
            hello: None,
            mirror: Mirror::default(),
            clouds: Vec::new(),
            known_nodes: Vec::new(),
            read_changes: 0,
            known_fleets: Vec::new(),
            has_snapshot: false,
            asked: 0,
            indexes: BTreeMap::new(),
            refusals: Refusals::default(),
            wake_at: None,
            unasked_at: None,
            asked_at: None,
            is_decision_due: false,
            idle: 0,
            timings: Timings::default(),
            failure: None,
            transcript: None,
        })
    }

    /// Whether the last answer says anything about the attempt.
    pub fn answered(&self, attempt: AttemptId) -> bool {
        self.indexes.contains_key(&attempt)
    }

    pub fn who(&self) -> Option<ProgramName> {
        let hello = self.hello.as_ref()?;
        Some(ProgramName { name: Arc::from(hello.name.as_str()), version: Arc::from(hello.version.as_str()) })
    }

    /// The failure, if the program has failed for good.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The process, for another run. A program that failed, or that cannot begin again, is ended.
    pub fn keep(mut self) -> Option<IdleProcess> {
        if !self.can(Capability::Again) || self.failure.is_some() {
            return None;
        }
        let child = self.child.take()?;
        Some(IdleProcess { child, setup: self.setup.clone() })
    }

    /// Ends the process and its group after a last message.
    pub fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let line = json!({"type": "bye", "because": "over"});
        self.note('>', line.to_string().as_bytes());
        child.send(format!("{line}\n").into_bytes());
        child.dismiss();
        if let Some(out) = &mut self.transcript {
            let _unwritten = out.flush();
        }
    }

    fn note(&mut self, direction: char, line: &[u8]) {
        if let Some(out) = &mut self.transcript {
            // Ignore a failed write, because a transcript is only for reading and must not end a run.
            let _unwritten =
                write!(out, "{direction} ").and_then(|()| out.write_all(line)).and_then(|()| writeln!(out));
        }
    }

    fn send_message(&mut self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        self.note('>', &line);
        line.push(b'\n');
        #[expect(clippy::disallowed_methods, reason = "how long an answer took; it reaches a run only as an input")]
        let now = Instant::now();
        self.said_at = Some(now);
        if let Some(child) = &mut self.child {
            child.send(line);
        }
    }

    /// The next line, which is to answer the message `asked`, and how long it took to arrive.
    fn read_next(&mut self, asked: &str, within: Duration) -> Result<(Vec<u8>, Duration), LineFault> {
        let Some(child) = &mut self.child else {
            return Err(LineFault::new(OutsideFault::ProcessDied, "it is gone"));
        };
        let heard = child.read_next(within);
        let took = self.said_at.map_or(Duration::ZERO, |said| said.elapsed());
        match heard {
            ReadResult::Line(line) => {
                self.note('<', &line);
                Ok((line, took))
            }
            ReadResult::Silence { left } => {
                Err(LineFault::new(OutsideFault::DeadlineMissed, silence(asked, within, left)))
            }
            ReadResult::TooLong => {
                Err(LineFault::new(OutsideFault::Flood, format!("a line of more than {} MiB", LONGEST_LINE >> 20)))
            }
            ReadResult::End { left: 0 } => {
                Err(LineFault::new(OutsideFault::ProcessDied, format!("it {}", child.ending())))
            }
            ReadResult::End { left } => {
                let ending = child.ending();
                Err(LineFault::new(
                    OutsideFault::HalfLine,
                    format!("{left} bytes without the end of a line; it {ending}"),
                ))
            }
        }
    }

    fn greet(&mut self) -> Result<Input, LineFault> {
        let nanos = u64::try_from(self.setup.deadline.as_nanos()).unwrap_or(u64::MAX);
        self.send_message(&json!({
            "type": "hello",
            "protocol": PROTOCOL,
            "dryrack": env!("CARGO_PKG_VERSION"),
            "scenario": self.scenario,
            "seed": self.seed,
            "can": ["place", "wait", "refuse", "preempt", "cancel", "evaluate", "usage", "idle", "blocks", "instances", "stands_in", "fault", "again", "queue"],
            "deadline_ns": nanos,
            "driver": self.setup.driver,
        }));
        let (line, _) = self.read_next("hello", self.setup.start)?;
        self.hello = Some(message::hello(&line)?);
        let ProgramName { name, version } = self.who().expect("just heard");
        let stands_in = self.hello.as_ref().map_or(Vec::new(), |hello| hello.stands_in.clone());
        Ok(Input::External(External::Said(Outside::Joined { name, version, stands_in })))
    }

    /// Runs `attempt`. After each failure, starts a new process and runs it again, as long as restarts are left.
    fn insisting<T>(
        &mut self,
        answer: &mut Answer,
        mut attempt: impl FnMut(&mut Session, &mut Answer) -> Result<T, LineFault>,
    ) -> Option<T> {
        let mut wrong = match attempt(self, answer) {
            Ok(done) => return Some(done),
            Err(wrong) => wrong,
        };
        loop {
            let errors = self.child.take().map_or(String::new(), |mut child| child.errors());
            let text = match last_line(&errors) {
                Some(last) => format!("{}; its last words: {last}", wrong.text),
                None => wrong.text.clone(),
            };
            let restarted = self.restarts_left > 0;
            let said = Outside::Failed { fault: wrong.fault, text: Arc::from(text.as_str()), restarted };
            answer.inputs.push(Input::External(External::Said(said)));
            if !restarted {
                self.failure = Some(Failure { fault: wrong.fault, text: wrong.text, errors });
                (answer.is_last, self.wake_at) = (true, None);
                return None;
            }
            self.restarts_left -= 1;
            let again = self.start_afresh().and_then(|()| self.greet()).and_then(|joined| {
                answer.inputs.push(joined);
                attempt(self, answer)
            });
            match again {
                Ok(done) => return Some(done),
                Err(next) => wrong = next,
            }
        }
    }

    fn start_afresh(&mut self) -> Result<(), LineFault> {
        (self.has_snapshot, self.wake_at) = (false, None);
        (self.known_nodes, self.read_changes) = (Vec::new(), 0);
        self.indexes.clear();
        self.refusals.forget();
        let child = Child::of(&self.setup.command, &self.setup.folder);
        self.child = Some(child.map_err(|error| LineFault::new(OutsideFault::NotStarted, error.why))?);
        Ok(())
    }

    /// Updates the program: first with a snapshot, later with the changes.
    fn update_program(&mut self, now: SimTime, fleet: &Fleet) {
        self.collect_refused();
        let touched: BTreeSet<NodeId> = self.touched_nodes(fleet).collect();
        self.read_changes = fleet.node_change_count();
        let changed: BTreeSet<NodeId> = touched.union(&self.mirror.changes.nodes).copied().collect();
        let fleets: Vec<Value> =
            (0..self.clouds.len()).map(|index| objects::fleet(fleet, FleetId::new(index))).collect();
        let is_new = !self.has_snapshot;
        let of_all = |id: &NodeId| objects::node(&self.mirror, *id, fleet.node(*id));
        let ids = if is_new { fleet.iter().map(|(id, _)| id).collect() } else { changed };
        let nodes: Vec<Value> = ids.iter().map(of_all).collect();
        let Changes { jobs, jobs_over, attempts, usage, .. } = &self.mirror.changes;
        let job = |id: &JobId| {
            let job = self.mirror.jobs.get(id)?;
            Some(objects::job(&self.mirror, &job.spec, Some(job.submitted)))
        };
        let attempt = |id: &AttemptId| Some(objects::attempt(&self.mirror, *id, self.mirror.attempts.get(id)?));
        let message = if is_new {
            json!({
                "type": "snapshot",
                "now": now.as_nanos(),
                "nodes": nodes,
                "fleets": fleets,
                "jobs": self.mirror.jobs.keys().filter_map(job).collect::<Vec<Value>>(),
                "runs": self.mirror.attempts.keys().filter_map(attempt).collect::<Vec<Value>>(),
            })
        } else {
            let new_fleets: Vec<&Value> =
                fleets.iter().zip(&self.known_fleets).filter(|(new, old)| new != old).map(|(new, _)| new).collect();
            let over: Vec<&str> = jobs_over.iter().map(|job| self.mirror.names.job(*job)).collect();
            let usage: Vec<Value> = usage.iter().filter_map(|sample| self.sample(sample)).collect();
            let (jobs, attempts): (Vec<Value>, Vec<Value>) =
                (jobs.iter().filter_map(job).collect(), attempts.iter().filter_map(attempt).collect());
            let is_empty = nodes.is_empty() && new_fleets.is_empty() && jobs.is_empty() && attempts.is_empty();
            if is_empty && over.is_empty() && usage.is_empty() && self.refusals.is_empty() {
                return self.mirror.clear_changes();
            }
            json!({
                "type": "delta",
                "now": now.as_nanos(),
                "nodes": nodes,
                "fleets": new_fleets,
                "jobs": jobs,
                "runs": attempts,
                "jobs_over": over,
                "usage": usage,
                "refused": self.refusals.take(),
            })
        };
        self.send_message(&message);
        self.has_snapshot = true;
        self.known_nodes.resize(fleet.len(), 0);
        for id in touched {
            self.known_nodes[id.index()] = fleet.node(id).version;
        }
        self.known_fleets = fleets;
        self.mirror.clear_changes();
    }

    fn wants(&self, want: Interest) -> bool {
        self.hello.as_ref().is_some_and(|hello| hello.wants.contains(&want))
    }

    fn can(&self, what: Capability) -> bool {
        self.hello.as_ref().is_some_and(|hello| hello.can.contains(&what))
    }

    fn sample(&self, sample: &Input) -> Option<Value> {
        let Input::Usage(UsageFact::Sample { attempt, at, utilization, memory }) = sample else { return None };
        let utilization: Vec<_> = utilization.iter().map(|one| one.map(|permille| permille.get())).collect();
        let memory: Vec<_> = memory.iter().map(|one| one.map(|bytes| bytes.get())).collect();
        let attempt = objects::attempt_name(&self.mirror, *attempt);
        let said = json!({"run": attempt, "at": at.as_nanos(), "utilization": utilization, "memory": memory});
        self.wants(Interest::Usage).then_some(said)
    }

    /// Collects the decisions that the control plane did not carry out, for the next delta.
    fn collect_refused(&mut self) {
        for (attempt, because) in std::mem::take(&mut self.mirror.changes.refused) {
            let name = objects::attempt_name(&self.mirror, attempt);
            let index = self.indexes.get(&attempt).copied();
            self.refusals.add(index, Some(name), because.name(), because.text());
        }
    }

    /// Whether there is a reason to ask the program.
    fn is_to_ask(&self, now: SimTime, fleet: &Fleet) -> bool {
        if self.is_decision_due || self.wake_at.is_some_and(|at| at <= now) {
            return true;
        }
        let changes = &self.mirror.changes;
        let has_samples = !changes.usage.is_empty() && self.wants(Interest::Usage);
        let at_once = self.asked_at.map_or(0, |(at, count)| if at == now { count } else { 0 });
        let is_cause = changes.is_cause || (changes.is_refused && at_once < MOST_REFUSED);
        match self.wants(Interest::Idle) {
            true => is_cause || changes.is_any || has_samples || self.fleet_differs(fleet),
            false => has_samples || (is_cause && !self.mirror.waiting.is_empty()),
        }
    }

    fn fleet_differs(&self, fleet: &Fleet) -> bool {
        self.known_nodes.len() != fleet.len() || self.touched_nodes(fleet).next().is_some()
    }

    /// The nodes that differ from what the program knows, in any order.
    fn touched_nodes<'f>(&'f self, fleet: &'f Fleet) -> impl Iterator<Item = NodeId> + 'f {
        assert!(fleet.is_empty() || fleet.node_change_count() > 0, "changes of nodes are not tracked");
        let is_known = |id: &NodeId| self.known_nodes.get(id.index()) == Some(&fleet.node(*id).version);
        fleet.changed_nodes(self.read_changes).filter(move |id| !is_known(id))
    }

    /// Counts the question, and gives up if the program is asked too often without a decision.
    fn count(&mut self, now: SimTime) -> Result<(), LineFault> {
        let count = match self.asked_at {
            Some((at, count)) if at == now => count + 1,
            Some(_) | None => 1,
        };
        self.asked_at = Some((now, count));
        self.idle += 1;
        if count > MOST_AT_ONCE || self.idle > MOST_IDLE {
            self.restarts_left = 0;
            let text = match count > MOST_AT_ONCE {
                true => format!("{count} questions at {now}"),
                false => format!("{} questions in a row without a decision, the last at {now}", self.idle),
            };
            return Err(LineFault::new(OutsideFault::Standstill, text));
        }
        Ok(())
    }

    fn ask(&mut self, now: SimTime, fleet: &Fleet, answer: &mut Answer) -> Result<(), LineFault> {
        self.count(now)?;
        self.is_decision_due = false;
        self.update_program(now, fleet);
        self.asked += 1;
        let (id, mirror) = (self.asked, &self.mirror);
        let mut question = json!({"type": "decide", "id": id, "now": now.as_nanos()});
        if !self.can(Capability::Queue) {
            let names = mirror.waiting.values().map(|attempt| objects::attempt_name(mirror, *attempt));
            question["waiting"] = names.collect();
        }
        self.send_message(&question);
        let (line, took) = self.read_next("decide", self.setup.deadline)?;
        let message::Decisions { decisions, wake_at, took_ns } = message::decisions(&line, id)?;
        self.timings.add(took);
        self.timings.decisions += decisions.len() as u64;
        answer.after = match self.setup.thinking {
            ThinkTime::Free => SimDuration::ZERO,
            ThinkTime::Measured => SimDuration::from_nanos(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)),
            ThinkTime::Stated => SimDuration::from_nanos(took_ns.unwrap_or(0)),
            ThinkTime::Fixed(length) => length,
        };
        self.indexes.clear();
        let mut seen = BTreeSet::new();
        let mut places = Places::default();
        for (index, decision) in decisions.into_iter().enumerate() {
            let (attempt, read) = self.read(fleet, decision, &mut seen, &mut places);
            if let Some(attempt) = attempt {
                self.indexes.entry(attempt).or_insert(index);
            }
            match read {
                Ok(inputs) => answer.inputs.extend(inputs.into_iter().filter(|input| self.is_news(input))),
                Err(wrong) => self.mistaken(answer, Some(index), attempt, &wrong),
            }
        }
        self.wake_at = wake_at.map(SimTime::from_nanos);
        if let Some(at) = self.wake_at.filter(|at| *at <= now) {
            self.wake_at = None;
            let wrong = LineFault::new(
                OutsideFault::InThePast,
                format!("`wake_at` is {at}, and must be later than now, {now}"),
            );
            self.mistaken(answer, None, None, &wrong);
        }
        if !answer.inputs.is_empty() {
            self.idle = 0;
        }
        Ok(())
    }

    fn mistaken(&mut self, answer: &mut Answer, index: Option<usize>, attempt: Option<AttemptId>, wrong: &LineFault) {
        let name = attempt.map(|attempt| objects::attempt_name(&self.mirror, attempt));
        self.refusals.add(index, name, wrong.fault.name(), &wrong.text);
        let text = match index {
            Some(index) => format!("decision {index}: {}", wrong.text),
            None => wrong.text.clone(),
        };
        answer.inputs.push(Input::External(External::Said(Outside::Mistaken {
            fault: wrong.fault,
            attempt,
            text: Arc::from(text),
        })));
    }

    /// Converts a decision to inputs. Also returns the attempt that it concerns, if that is known.
    fn read(
        &self,
        fleet: &Fleet,
        decision: Decision,
        seen: &mut BTreeSet<AttemptId>,
        places: &mut Places,
    ) -> (Option<AttemptId>, Result<Vec<Input>, LineFault>) {
        let name = match &decision {
            Decision::Place(place) => &place.run,
            Decision::Wait(wait) => &wait.run,
            Decision::Refuse(refuse) => &refuse.run,
            Decision::Preempt(preempt) => &preempt.run,
            Decision::Cancel(Cancel { run: Some(attempt), .. }) => attempt,
            Decision::Cancel(cancel) => return (None, self.cancelled_job(cancel)),
        };
        let attempt = match self.attempt(name) {
            Ok(attempt) => attempt,
            Err(wrong) => return (None, Err(wrong)),
        };
        if !seen.insert(attempt) {
            let wrong = LineFault::new(OutsideFault::DecidedTwice, "the run was decided on before in this answer");
            return (Some(attempt), Err(wrong));
        }
        let inputs = match decision {
            Decision::Place(place) => {
                let demand = &self.mirror.jobs[&attempt.job].spec.demand;
                let placement = places.placement(&self.mirror, fleet, demand, &place.parts);
                placement
                    .map(|placement| vec![Input::External(External::Decided { attempt, placement: Some(placement) })])
            }
            Decision::Wait(wait) => waits(attempt, &wait.reasons, wait.text).map(|waits| vec![waits]),
            // State the reasons first, because an attempt that ends without having run gets its reasons from this
            // input.
            Decision::Refuse(refuse) => waits(attempt, &refuse.reasons, refuse.text)
                .map(|waits| vec![waits, Input::External(External::Decided { attempt, placement: None })]),
            Decision::Preempt(preempt) => preempt.by.map(|by| self.attempt(&by)).transpose().map(|by| {
                vec![Input::External(External::Said(Outside::Preempts { attempt, by, text: cut(preempt.text) }))]
            }),
            Decision::Cancel(cancel) => {
                let because = match cancel.because {
                    CancelBecause::Cancelled => Reason::Cancelled,
                    CancelBecause::UtilizationPolicy => Reason::UtilizationPolicy,
                    CancelBecause::TimeLimit => Reason::TimeLimit,
                    CancelBecause::RetryLimit => Reason::RetryLimit,
                };
                Ok(vec![Input::External(External::Said(Outside::Cancels { attempt, because, text: cut(cancel.text) }))])
            }
        };
        (Some(attempt), inputs)
    }

    /// Whether the input contains anything new. A wait is not new if it was already stated with the same reasons and
    /// text.
    fn is_news(&self, input: &Input) -> bool {
        let Input::External(External::Said(Outside::Waits { attempt, reasons, text })) = input else { return true };
        let Some(known) = self.mirror.attempts.get(attempt).filter(|known| known.waits) else { return true };
        match &known.stated {
            Some((known_reasons, known_text)) => known_reasons != reasons || known_text != text,
            None => !reasons.is_empty() || text.is_some(),
        }
    }

    fn cancelled_job(&self, cancel: &Cancel) -> Result<Vec<Input>, LineFault> {
        let name = cancel.job.as_deref().unwrap_or_default();
        let unknown = || LineFault::new(OutsideFault::UnknownJob, format!("no job is named `{name}`"));
        let job = self.mirror.names.jobs.find(name).map(JobId::new).ok_or_else(unknown)?;
        Ok(vec![Input::External(External::Said(Outside::CancelsJob { job, text: cut(cancel.text.clone()) }))])
    }

    /// Finds the attempt with this name among current and former attempts.
    fn attempt(&self, name: &str) -> Result<AttemptId, LineFault> {
        let job = self.mirror.names.jobs.find(name);
        let hint = job.map_or(String::new(), |_| format!("; it is a job, with runs such as `{name}/0/1`"));
        let unknown = || LineFault::new(OutsideFault::UnknownRun, format!("no run is named `{name}`{hint}"));
        let mut parts = name.rsplitn(3, '/');
        let mut number = || -> Option<u32> { parts.next()?.parse().ok() };
        let (number, replica) = (number(), number());
        let job = parts.next().and_then(|job| self.mirror.names.jobs.find(job));
        let (Some(number), Some(replica), Some(job)) = (number, replica, job) else { return Err(unknown()) };
        let attempt = AttemptId { job: JobId::new(job), replica, number };
        // For an ended job, only the name is kept, so its attempts are unknown.
        let is_or_was = self.mirror.jobs.get(&attempt.job).is_some_and(|job| replica < job.replicas && number >= 1);
        if is_or_was { Ok(attempt) } else { Err(unknown()) }
    }

    fn ask_whether_it_fits(
        &mut self,
        (now, fleet): (SimTime, &Fleet),
        name: &Arc<str>,
        demand: &Arc<Demand>,
        answer: &mut Answer,
    ) -> Result<(), LineFault> {
        self.count(now)?;
        self.is_decision_due = self.is_to_ask(now, fleet);
        self.update_program(now, fleet);
        self.asked += 1;
        let id = self.asked;
        let known = self.mirror.names.jobs.find(name).and_then(|job| self.mirror.jobs.get(&JobId::new(job)));
        let job = match known {
            Some(job) => objects::job(&self.mirror, &job.spec, Some(job.submitted)),
            None => objects::job(&self.mirror, &JobSpec::of(Arc::clone(name), Arc::clone(demand)), None),
        };
        self.send_message(&json!({"type": "evaluate", "id": id, "now": now.as_nanos(), "job": job}));
        let (line, took) = self.read_next("evaluate", self.setup.deadline)?;
        let said = message::evaluated(&line, id)?;
        self.timings.add(took);
        let reasons = histogram(&said.reasons).unwrap_or_else(|wrong| {
            self.mistaken(answer, None, None, &wrong);
            Histogram::default()
        });
        let refusal = (!said.fits).then_some(if said.never { Refusal::Never } else { Refusal::Unfit });
        let (name, text) = (Arc::clone(name), cut(said.text));
        answer.inputs.push(Input::External(External::Said(Outside::Answers { name, refusal, reasons, text })));
        Ok(())
    }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

impl Sink for Session {
    fn input(&mut self, _: u64, at: SimTime, input: &Input) {
        if matches!(input, Input::Usage(UsageFact::Sample { .. })) && !self.wants(Interest::Usage) {
            return;
        }
        self.mirror.input(at, input, &mut self.clouds);
    }

    fn event(&mut self, _: u64, at: SimTime, event: &Event) {
        self.mirror.event(at, event);
    }
}

impl Decider for Session {
    fn join(&mut self) -> Answer {
        let mut answer = Answer::default();
        // A restarted program has already been greeted.
        self.insisting(&mut answer, |session, answer| {
            if session.hello.is_none() {
                answer.inputs.push(session.greet()?);
            }
            Ok(())
        });
        answer
    }

    fn command(&mut self, _: SimTime, command: &Command) {
        self.mirror.command(command);
    }

    fn decide(&mut self, now: SimTime, fleet: &Fleet) -> Option<Answer> {
        if self.child.is_none() || !self.is_to_ask(now, fleet) {
            return None;
        }
        let mut answer = Answer::default();
        self.insisting(&mut answer, |session, answer| session.ask(now, fleet, answer));
        Some(answer)
    }

    fn evaluates(&self) -> bool {
        self.hello.as_ref().is_some_and(|hello| hello.can.contains(&Capability::Evaluate))
    }

    fn evaluate(&mut self, now: SimTime, fleet: &Fleet, name: &Arc<str>, demand: &Arc<Demand>) -> Answer {
        let mut answer = Answer::default();
        self.insisting(&mut answer, |session, answer| session.ask_whether_it_fits((now, fleet), name, demand, answer));
        answer
    }

    fn wakes_at(&self) -> Option<SimTime> {
        self.wake_at
    }

    /// The drivers of released programs are known by the parts that they replace.
    fn polls(&self) -> bool {
        self.hello.as_ref().is_some_and(|hello| !hello.stands_in.is_empty())
    }

    fn leave_unasked(&mut self) {
        self.unasked_at = self.wake_at;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

impl OutsideProgram for Session {
    fn who(&self) -> Option<ProgramName> {
        Session::who(self)
    }

    fn failure(&self) -> Option<&Failure> {
        Session::failure(self)
    }

    fn end(&mut self) {
        Session::end(self);
    }

    fn timings(&self) -> &Timings {
        &self.timings
    }

    fn remarks(&self) -> Vec<String> {
        let asks = self.unasked_at.filter(|_| !self.polls());
        let remark = |at| {
            format!(
                "the run ended, although the scheduler asked to be called at {at}: nothing else had happened for 24 hours. \
                 With `until:` in the scenario, it is asked until then"
            )
        };
        asks.map(remark).into_iter().collect()
    }

    fn write_transcript(&mut self, out: Box<dyn Write + Send>) {
        self.transcript = Some(out);
    }

    fn as_decider(&mut self) -> &mut dyn Decider {
        self
    }
}
