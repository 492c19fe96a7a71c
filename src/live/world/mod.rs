//! Connects the control plane to this machine: its commands become processes and signals, and changes of these
//! processes become inputs.
//!
//! | command | action | inputs |
//! | --- | --- | --- |
//! | `Start` | start a process for each task, with its devices | `Started`, or `StartFailed` if one cannot be run |
//! | `Prepare`, `Begin` | nothing; then as for `Start` | `Prepared`; then as for `Start` |
//! | (the job ends by itself) | if one task fails, the others are ended | `Exited`, once all its processes are gone |
//! | `Stop` | SIGTERM to all processes, SIGKILL after `stop_duration` | `Stopped`, once all its processes are gone |
//! | `Sample` | poll its devices at each multiple of the interval | `UsageSample` |

mod devices;
mod sampler;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::agenda::Agenda;
use super::backend::RunBackend;
use super::clock::Deadline;
use super::probe::Guarded;
use super::process::{Runner, TaskEnd, TaskId};
use super::work::PendingRun;
use devices::{Devices, tasks_of};
use dryrack_event::{Command, Input, Lifecycle, UsageFact};
use dryrack_fleet::Placement;
use dryrack_ids::AttemptId;
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{Ending, Launch};
use sampler::Sampler;

/// The longest time between SIGTERM and SIGKILL after the run was interrupted.
const GRACE_OF_THE_INTERRUPTED: SimDuration = SimDuration::from_secs(5);
/// The time limit of reading the GPUs. A GPU that takes longer has no reading.
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// The interval at which killed processes are checked, and killed again if they still exist.
const LOOK_AGAIN: SimDuration = SimDuration::from_millis(100);

struct LiveAttempt {
    placement: Placement,
    launch: Arc<Launch>,
    /// The tasks of the attempt; empty until it is told to begin.
    tasks: Vec<TaskId>,
    started: Option<SimTime>,
    sampler: Option<Sampler>,
    /// Whether the attempt was told to stop.
    is_stopping: bool,
    /// When the remaining processes are killed.
    kill_at: Option<SimTime>,
}

pub struct World<'a> {
    work: &'a PendingRun,
    runner: Runner,
    devices: Devices,
    /// Reads the GPUs that are not CPU shares.
    gpus: Option<Guarded>,
    attempts: BTreeMap<AttemptId, LiveAttempt>,
    agenda: Agenda<'a>,
    /// The inputs for the next step.
    facts: Vec<(AttemptId, Lifecycle)>,
    look_at: Option<SimTime>,
}

impl<'a> World<'a> {
    pub fn new(work: &'a PendingRun, gpus: Option<Guarded>) -> io::Result<World<'a>> {
        Ok(World {
            work,
            runner: Runner::new()?,
            devices: Devices::default(),
            gpus,
            attempts: BTreeMap::new(),
            agenda: Agenda::new(work),
            facts: Vec::new(),
            look_at: None,
        })
    }
}

impl RunBackend for World<'_> {
    /// Whether nothing runs and no further input is scheduled.
    fn is_over(&self) -> bool {
        self.attempts.is_empty() && self.facts.is_empty() && self.agenda.next().is_none()
    }

    /// The time of the next poll, even if no child process changes before.
    fn next_time(&self) -> Option<SimTime> {
        let of_attempts =
            self.attempts.values().flat_map(|attempt| [attempt.kill_at, attempt.sampler.as_ref().map(Sampler::due)]);
        let at_once = (!self.facts.is_empty()).then_some(SimTime::ZERO);
        of_attempts.flatten().chain(self.agenda.next()).chain(at_once).chain(self.look_at).min()
    }

    /// Observes everything that has happened until `now`, and adds it as inputs, in order of classes.
    fn happen(&mut self, now: SimTime, child_changed: bool, inputs: &mut Vec<Input>) -> io::Result<()> {
        self.agenda.come(now, inputs);
        let is_sampled =
            self.attempts.values().any(|attempt| attempt.sampler.as_ref().is_some_and(|it| it.due() <= now));
        let is_due = self.look_at.is_some_and(|at| at <= now);
        if child_changed || is_sampled || is_due {
            self.poll(now);
        }
        for (attempt, fact) in self.facts.drain(..) {
            if let (Lifecycle::Started, Some(known)) = (fact, self.attempts.get_mut(&attempt)) {
                known.started = Some(now);
            }
            inputs.push(Input::Attempt { attempt, fact });
        }
        let levels = if is_sampled { self.levels() } else { BTreeMap::new() };
        for (attempt, known) in &mut self.attempts {
            let Some(sampler) = known.sampler.as_mut().filter(|sampler| sampler.due() <= now) else { continue };
            let utilization = sampler.take(now, &known.placement, &self.work.shares, &self.devices, &levels);
            inputs.push(Input::Usage(UsageFact::Sample {
                attempt: *attempt,
                at: now,
                utilization,
                memory: Default::default(),
            }));
        }
        inputs.sort_by_key(Input::class);
        Ok(())
    }

    /// Starts nothing new, and cancels every submitted job.
    fn interrupt(&mut self, inputs: &mut Vec<Input>) {
        self.agenda.interrupt(inputs);
    }

    fn kill_all(&mut self) {
        for id in self.attempts.values().flat_map(|attempt| &attempt.tasks) {
            self.runner.kill(*id);
        }
    }

    /// Ends every process, and waits until all are gone. Returns an error if that takes too long.
    fn end_all(&mut self) -> io::Result<()> {
        self.runner.end_all(Deadline::within(Duration::from_secs(10)));
        if self.runner.is_empty() { Ok(()) } else { Err(io::Error::other("a process does not die when it is killed")) }
    }

    fn obey(&mut self, now: SimTime, command: Command) {
        match command {
            Command::Start { attempt, placement } => {
                self.enter(attempt, placement);
                self.begin(attempt);
            }
            Command::Prepare { attempt, placement } => {
                self.enter(attempt, placement);
                self.facts.push((attempt, Lifecycle::Prepared));
            }
            Command::Begin { attempt } => self.begin(attempt),
            Command::Stop { attempt } => self.stop(now, attempt),
            Command::Sample { attempt, interval } => {
                if let Some(known) = self.attempts.get_mut(&attempt) {
                    let started = known.started.unwrap_or(now);
                    known.sampler = Some(Sampler::new(started, interval, &known.placement, &self.devices));
                }
            }
            // These were refused before the run, or are only sent if an outside scheduler decides.
            Command::Submit { .. }
            | Command::Withdraw { .. }
            | Command::Analyse { .. }
            | Command::AbandonAnalysis { .. }
            | Command::Provision { .. }
            | Command::Terminate { .. } => {}
        }
    }
}

impl World<'_> {
    /// The utilization of each GPU of this machine, by its index. A GPU that cannot be read is left out.
    fn levels(&mut self) -> BTreeMap<u16, Permille> {
        let polled = self.gpus.as_mut().and_then(|gpus| gpus.poll(LONGEST_LOOK).ok());
        let found = polled.into_iter().flat_map(|snapshot| snapshot.nodes).flat_map(|node| node.gpus);
        found.filter_map(|gpu| Some((u16::try_from(gpu.index).ok()?, gpu.utilization.ok()?))).collect()
    }

    fn enter(&mut self, attempt: AttemptId, placement: Placement) {
        let launch = self.work.arrivals[attempt.job.index()].behavior.launch.clone().expect("checked at the door");
        let known = LiveAttempt {
            placement,
            launch,
            tasks: Vec::new(),
            started: None,
            sampler: None,
            is_stopping: false,
            kill_at: None,
        };
        self.attempts.insert(attempt, known);
    }

    /// Starts a process for each task. If one cannot be started, the processes before it are killed.
    fn begin(&mut self, attempt: AttemptId) {
        let Some(known) = self.attempts.get_mut(&attempt) else { return };
        let mut tasks = Vec::new();
        for task in tasks_of(self.work, attempt, &known.placement) {
            match self.runner.start(&known.launch, &task.place) {
                Ok(id) => {
                    self.devices.enter(id, task.gpus);
                    tasks.push(id);
                }
                Err(_) => {
                    tasks.iter().for_each(|id| self.runner.kill(*id));
                    self.attempts.remove(&attempt);
                    self.facts.push((attempt, Lifecycle::StartFailed));
                    return;
                }
            }
        }
        known.tasks = tasks;
        self.facts.push((attempt, Lifecycle::Started));
    }

    fn stop(&mut self, now: SimTime, attempt: AttemptId) {
        // If the attempt is not in the map, it has ended meanwhile, and has already reported its end.
        let Some(known) = self.attempts.get_mut(&attempt).filter(|known| !known.is_stopping) else { return };
        known.is_stopping = true;
        if known.tasks.is_empty() {
            self.attempts.remove(&attempt);
            self.facts.push((attempt, Lifecycle::Stopped));
            return;
        }
        // Poll first, so that processes which have left the group are known and get the signal too.
        self.runner.poll();
        for id in &known.tasks {
            self.runner.terminate(*id);
        }
        known.kill_at = deadline(now, &known.launch, self.agenda.is_closed());
        self.look_at = Some(now);
    }

    /// Takes a snapshot of all processes, and reports changes of the attempts.
    fn poll(&mut self, now: SimTime) {
        self.runner.poll();
        self.devices.advance(|id| self.runner.cpu(id));
        let mut over = Vec::new();
        let mut is_anyone_awaited = false;
        for (attempt, known) in self.attempts.iter_mut().filter(|(_, known)| !known.tasks.is_empty()) {
            let ends: Vec<Option<TaskEnd>> = known.tasks.iter().map(|id| self.runner.end(*id)).collect();
            if ends.iter().all(Option::is_some) {
                let fact = match ends.iter().flatten().all(|end| end.is_success()) {
                    _ if known.is_stopping => Lifecycle::Stopped,
                    true => Lifecycle::Exited(Ending::Completed),
                    false => Lifecycle::Exited(Ending::Failed),
                };
                over.push((*attempt, fact));
                continue;
            }
            let has_failed = ends.iter().flatten().any(|end| !end.is_success());
            if has_failed && !known.is_stopping && known.kill_at.is_none() {
                known.tasks.iter().for_each(|id| self.runner.terminate(*id));
                known.kill_at = deadline(now, &known.launch, self.agenda.is_closed()).or(Some(SimTime::MAX));
            }
            if known.kill_at.is_some_and(|at| at <= now) {
                known.tasks.iter().for_each(|id| self.runner.kill(*id));
                // Repeat the kill while any process is left.
                known.kill_at = Some(now.saturating_add(LOOK_AGAIN));
            }
            is_anyone_awaited |= known.kill_at.is_some() || known.is_stopping || self.runner.is_draining(&known.tasks);
        }
        for (attempt, fact) in over {
            self.attempts.remove(&attempt);
            self.facts.push((attempt, fact));
        }
        self.look_at = is_anyone_awaited.then(|| now.saturating_add(LOOK_AGAIN));
    }
}

/// When to kill the processes of an attempt that was told to stop. Never, if its file says so and the attempt was not
/// interrupted.
fn deadline(now: SimTime, launch: &Launch, is_interrupted: bool) -> Option<SimTime> {
    let grace = match is_interrupted {
        true => Some(launch.grace.unwrap_or(SimDuration::MAX).min(GRACE_OF_THE_INTERRUPTED)),
        false => launch.grace,
    };
    grace.map(|grace| now.saturating_add(grace))
}
