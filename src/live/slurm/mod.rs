//! Jobs on a real Slurm cluster. Slurm decides where and when each job runs, and its answers become inputs.
//!
//! | command | action | inputs |
//! | --- | --- | --- |
//! | `Submit` | `sbatch`, which names the attempt in a comment | `Decided`, once it has nodes or is refused |
//! | `Start` | none: Slurm has already started the job | `Preparing`, `Started` |
//! | (the job ends by itself) | | `Exited`, `TimedOut`, `NodeFailed`, `Preempted` |
//! | `Withdraw` | `scancel` | none |
//! | `Stop` | SIGTERM to the whole job, SIGKILL after its `stop_duration` | `Stopped`, once it has left its nodes |
//!
//! One command at regular intervals asks Slurm about all jobs. While Slurm does not answer, nothing is known and no
//! input is made. If this takes too long, the run ends.

mod ask;
mod cluster;
mod request;

pub use cluster::Cluster;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use smallvec::SmallVec;

use super::agenda::Agenda;
use super::backend::RunBackend;
use super::clock::{Deadline, Wall, pause, std_duration};
use super::probe::Missing;
use super::work::PendingRun;
use ask::{Ask, SlurmJob, Standing};
use dryrack_event::{Command, External, FleetFact, Input, Lifecycle, UserRequest};
use dryrack_fleet::{GpuClaim, NodeClaim, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, NodeId};
use dryrack_units::{Bytes, GpuShare, MilliCpu, SimDuration, SimTime};
use dryrack_workload::{Demand, Ending, Gang};

/// The interval at which Slurm is asked for the states of its nodes.
const NODES_EVERY: SimDuration = SimDuration::from_secs(5);
/// The longest time between SIGTERM and SIGKILL after the run was interrupted.
const GRACE_OF_THE_INTERRUPTED: SimDuration = SimDuration::from_secs(5);
/// The interval at which a kill is repeated while a job is still there, and the number of kills after which the job is
/// also cancelled.
const KILL_AGAIN: SimDuration = SimDuration::from_secs(2);
const KILLS: u8 = 5;
/// How long the remaining jobs may take to leave their nodes at the end of the run.
const LAST_BREATH: Duration = Duration::from_secs(20);
/// The time between two polls of the remaining jobs at the end of the run.
const LAST_LOOKS: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Slurm has not decided about the attempt yet.
    Queued,
    /// Slurm has decided about the attempt, but the control plane has not been told.
    Decided,
    /// The control plane has been told, but has not started the attempt yet.
    Told,
    Preparing,
    Running,
    /// The job was told to stop.
    Stopping,
    /// The control plane has withdrawn the attempt. It gets no more inputs, and is cancelled until it is gone.
    Withdrawn,
}

/// One attempt as a Slurm job.
struct Submitted {
    /// The number of the Slurm job; `None` until Slurm is known to have accepted it.
    id: Option<u64>,
    stage: Stage,
    /// The state as of the last poll.
    standing: Standing,
    gpus: Vec<GpuId>,
    /// When the job's remaining processes are killed, and cancelled if they were killed often enough.
    kill_at: Option<SimTime>,
    /// How many times the job was killed.
    kills: u8,
}

pub struct OnSlurm<'a> {
    work: &'a PendingRun,
    ask: Ask,
    cluster: Cluster,
    agenda: Agenda<'a>,
    /// The beginning of the comments of this run's jobs, which identifies them.
    token: String,
    nodes: BTreeMap<&'a str, NodeId>,
    states: Vec<NodeState>,
    attempts: BTreeMap<AttemptId, Submitted>,
    /// The inputs for the next step.
    facts: Vec<Input>,
    /// Decisions that are reported one after the other. If two attempts had the same place one after the other, the
    /// first must have left it before the second is reported.
    decisions: VecDeque<(AttemptId, Placement)>,
    look_at: SimTime,
    nodes_at: SimTime,
    /// Since when Slurm has given no usable answer, and why.
    trouble: Option<(SimTime, Missing)>,
    notes: BTreeSet<String>,
    is_ended: bool,
}

impl<'a> OnSlurm<'a> {
    pub fn new(work: &'a PendingRun, cluster: Cluster) -> OnSlurm<'a> {
        let Wall(began) = super::clock::Clock::start().wall_at_start();
        OnSlurm {
            work,
            ask: cluster.ask,
            cluster,
            agenda: Agenda::new(work),
            token: format!("dryrack-{}-{began}", std::process::id()),
            nodes: work.nodes.iter().enumerate().map(|(index, node)| (&*node.name, NodeId::new(index))).collect(),
            states: work.declarations.iter().filter_map(state_of).collect(),
            attempts: BTreeMap::new(),
            facts: Vec::new(),
            decisions: VecDeque::new(),
            look_at: SimTime::ZERO,
            nodes_at: SimTime::ZERO,
            trouble: None,
            notes: BTreeSet::new(),
            is_ended: false,
        }
    }

    /// Submits an attempt. If Slurm does not answer, it may still have accepted the job. So later polls search for the
    /// job before they submit it again.
    fn submit(&mut self, attempt: AttemptId) -> Result<(), Missing> {
        let comment = request::comment(&self.token, attempt);
        let (arguments, environment) = request::request(self.work, attempt, &comment, &self.cluster.others);
        match self.ask.submit(&arguments, &environment) {
            Ok(id) => self.attempts.get_mut(&attempt).expect("entered before").id = Some(id),
            Err(Missing::Exited { said, .. }) if is_refusal(&said) => {
                let name = &self.work.arrivals[attempt.job.index()].spec.name;
                self.notes.insert(format!("{name} was refused by sbatch: {said}"));
                self.attempts.remove(&attempt);
                self.facts.push(Input::External(External::Decided { attempt, placement: None }));
            }
            Err(why) => return Err(why),
        }
        Ok(())
    }

    /// Asks Slurm about all jobs, and uses every part of the answer that can be understood. The error is about the
    /// first part that cannot.
    fn poll(&mut self, now: SimTime) -> Result<(), Missing> {
        let own = format!("{}/", self.token);
        let ids = self.ids();
        let jobs = self.ask.jobs(|id, comment| ids.contains(&id) || comment.starts_with(&own))?;
        if self.nodes_at <= now {
            self.poll_nodes()?;
            self.nodes_at = now.saturating_add(NODES_EVERY);
        }
        let by_comment: BTreeMap<&str, &SlurmJob> = jobs.iter().map(|job| (job.comment.as_str(), job)).collect();
        let by_id: BTreeMap<u64, &SlurmJob> = jobs.iter().map(|job| (job.id, job)).collect();
        let mut trouble = Ok(());
        for attempt in self.attempts.keys().copied().collect::<Vec<AttemptId>>() {
            let known = self.attempts.get_mut(&attempt).expect("just listed");
            let found = match known.id {
                Some(id) => by_id.get(&id),
                None => by_comment.get(request::comment(&self.token, attempt).as_str()),
            };
            let heard = match (found, known.id) {
                (Some(job), _) => {
                    known.id = Some(job.id);
                    self.observe(attempt, job)
                }
                (None, _) if known.stage == Stage::Withdrawn => {
                    self.attempts.remove(&attempt);
                    Ok(())
                }
                // Slurm did not answer the submission, and has not accepted the job.
                (None, None) => self.submit(attempt),
                (None, Some(id)) => Err(self.forgotten(attempt, id)),
            };
            trouble = trouble.and(heard);
        }
        self.put_in_order();
        trouble
    }

    /// Moves decisions about ended attempts to the front, because these attempts had their places before the others.
    fn put_in_order(&mut self) {
        let is_over = |attempt: &AttemptId| self.attempts.get(attempt).is_some_and(|known| known.standing.is_over());
        let order = |(attempt, _): &(AttemptId, Placement)| {
            (!is_over(attempt), self.attempts.get(attempt).and_then(|known| known.id))
        };
        let mut decisions = Vec::from(std::mem::take(&mut self.decisions));
        decisions.sort_by_key(order);
        self.decisions = decisions.into();
    }

    fn ids(&self) -> BTreeSet<u64> {
        self.attempts.values().filter_map(|known| known.id).collect()
    }

    fn poll_nodes(&mut self) -> Result<(), Missing> {
        for found in self.ask.nodes()?.nodes {
            let Some(node) = self.nodes.get(found.name.as_str()) else { continue };
            // Every node of the file exists from the start and cannot join later, so a joining node counts as not
            // ready.
            let state = if found.state == NodeState::Joining { NodeState::NotReady } else { found.state };
            if std::mem::replace(&mut self.states[node.index()], state) != state {
                self.facts.push(Input::Fleet(FleetFact::NodeReported { node: *node, state }));
            }
        }
        Ok(())
    }

    /// Reports decisions in order. After a decision about an attempt that has already ended, it stops: the end of that
    /// attempt must be reported before the next decision.
    fn decide(&mut self) {
        let is_awaited = |known: &Submitted| known.standing.is_over() && known.stage == Stage::Told;
        while let Some((attempt, _)) = self.decisions.front() {
            if self.attempts.values().any(is_awaited) {
                return;
            }
            let attempt = *attempt;
            let (_, placement) = self.decisions.pop_front().expect("just seen");
            // The attempt may have been withdrawn meanwhile.
            let Some(known) = self.attempts.get_mut(&attempt).filter(|known| known.stage == Stage::Decided) else {
                continue;
            };
            known.stage = Stage::Told;
            self.facts.push(Input::External(External::Decided { attempt, placement: Some(placement) }));
        }
    }

    fn forgotten(&self, attempt: AttemptId, id: u64) -> Missing {
        let name = &self.work.arrivals[attempt.job.index()].spec.name;
        let said = format!("Slurm no longer knows its job {id} (`{name}`), so its outcome is unknown");
        Missing::Unreadable { what: "squeue".to_string(), said }
    }

    fn observe(&mut self, attempt: AttemptId, job: &SlurmJob) -> Result<(), Missing> {
        let stage = self.attempts[&attempt].stage;
        let has_nodes = !job.nodes.is_empty();
        match (stage, job.standing) {
            (Stage::Queued, Standing::Pending) => {}
            (Stage::Queued, Standing::Cancelled) if !has_nodes => {
                // Somebody else cancelled the job, which counts as a cancellation by the user.
                self.facts.push(Input::User(UserRequest::Cancel { job: attempt.job }));
            }
            (Stage::Queued, _) if !has_nodes => {
                let name = &self.work.arrivals[attempt.job.index()].spec.name;
                self.notes.insert(format!("{name} was refused by Slurm: it ended without a node"));
                self.attempts.remove(&attempt);
                self.facts.push(Input::External(External::Decided { attempt, placement: None }));
                return Ok(());
            }
            (Stage::Queued, _) => {
                let placement = self.placement(attempt, job)?;
                let of_claim = |claim: &NodeClaim| -> Vec<GpuId> {
                    claim.gpus.iter().map(|part| GpuId { node: claim.node, index: part.index }).collect()
                };
                let gpus = placement.claims().iter().flat_map(of_claim).collect();
                let known = self.attempts.get_mut(&attempt).expect("just read");
                (known.stage, known.gpus) = (Stage::Decided, gpus);
                self.decisions.push_back((attempt, placement));
            }
            (Stage::Decided | Stage::Told, _) => {}
            // The job is in Slurm's queue again, so its place was taken from it. The control plane decides what
            // follows.
            (Stage::Preparing | Stage::Running, Standing::Pending) => {
                self.report(attempt, Lifecycle::Preempted);
                let known = self.attempts.get_mut(&attempt).expect("just read");
                known.stage = Stage::Withdrawn;
                self.ask.cancel(&[job.id]);
            }
            (Stage::Preparing, Standing::Configuring) => {}
            (Stage::Preparing | Stage::Running, _) => self.advance(attempt, job.standing),
            (Stage::Stopping | Stage::Withdrawn, standing) if standing.is_over() => {
                if stage == Stage::Stopping {
                    self.report(attempt, Lifecycle::Stopped);
                }
                self.attempts.remove(&attempt);
            }
            (Stage::Stopping | Stage::Withdrawn, _) => {}
        }
        if let Some(known) = self.attempts.get_mut(&attempt) {
            known.standing = job.standing;
        }
        Ok(())
    }

    /// Reports progress of an attempt that was started or is being prepared.
    fn advance(&mut self, attempt: AttemptId, standing: Standing) {
        let known = self.attempts.get_mut(&attempt).expect("it is observed");
        if known.stage == Stage::Preparing {
            known.stage = Stage::Running;
            self.report(attempt, Lifecycle::Started);
        }
        let fact = match standing {
            Standing::Pending | Standing::Configuring | Standing::Running => return,
            Standing::Completed => Lifecycle::Exited(Ending::Completed),
            Standing::Failed => Lifecycle::Exited(Ending::Failed),
            Standing::TimedOut => Lifecycle::TimedOut,
            Standing::NodeFailed => Lifecycle::NodeFailed,
            Standing::Preempted => Lifecycle::Preempted,
            // Somebody else cancelled the job. The control plane answers with a `Stop`, and the job has already
            // stopped.
            Standing::Cancelled => {
                self.attempts.get_mut(&attempt).expect("it is observed").standing = standing;
                self.facts.push(Input::User(UserRequest::Cancel { job: attempt.job }));
                return;
            }
        };
        self.report(attempt, fact);
        self.attempts.remove(&attempt);
    }

    fn report(&mut self, attempt: AttemptId, fact: Lifecycle) {
        self.facts.push(Input::Attempt { attempt, fact });
    }

    /// The placement that Slurm reports, as claims of the amounts in the job's demand.
    fn placement(&mut self, attempt: AttemptId, job: &SlurmJob) -> Result<Placement, Missing> {
        let demand = &self.work.arrivals[attempt.job.index()].spec.demand;
        let name = self.work.arrivals[attempt.job.index()].spec.name.clone();
        let mut claims: SmallVec<[NodeClaim; 1]> = SmallVec::new();
        for (host, gpus) in &job.nodes {
            let malformed = |expected: &str| Missing::malformed("squeue", 1, expected, host);
            let node = *self.nodes.get(host.as_str()).ok_or_else(|| malformed("a node of the file"))?;
            if claims.iter().any(|claim| claim.node == node) {
                return Err(malformed("each node of a job once"));
            }
            let indices = match gpus {
                Some(indices) if is_of(indices, self.work.nodes[node.index()].shape.gpus.len()) => indices.clone(),
                Some(_) => return Err(malformed("GPUs that the node has")),
                None if demand.gpus().is_none() => Vec::new(),
                None => {
                    let note = "ended between two polls, and Slurm no longer reported its GPUs: the first free ones are \
                         recorded";
                    self.notes.insert(format!("{name} {note}"));
                    self.first_free(node, job, demand)
                }
            };
            let tasks = tasks_on(demand, indices.len(), job.cores.get(host).copied());
            claims.push(self.claim(node, tasks, &indices, demand));
        }
        Ok(Placement::new(claims))
    }

    fn first_free(&self, node: NodeId, job: &SlurmJob, demand: &Demand) -> Vec<u16> {
        let each = demand.gpus().map_or(0, |gpus| gpus.count) as usize;
        let wanted = each * (demand.tasks as usize).div_ceil(job.nodes.len().max(1));
        let is_held = |index: u16| self.attempts.values().any(|attempt| attempt.gpus.contains(&GpuId { node, index }));
        let count = self.work.nodes[node.index()].shape.gpus.len() as u16;
        let (free, held): (Vec<u16>, Vec<u16>) = (0..count).partition(|index| !is_held(*index));
        let mut indices: Vec<u16> = free.into_iter().chain(held).take(wanted).collect();
        indices.sort_unstable();
        indices
    }

    fn claim(&self, node: NodeId, tasks: u32, indices: &[u16], demand: &Demand) -> NodeClaim {
        let (shape, task) = (&self.work.nodes[node.index()].shape, request::task_of(demand));
        let part = |index: &u16| GpuClaim {
            index: *index,
            share: GpuShare::WHOLE,
            memory: shape.gpu_memory_capacity(usize::from(*index)),
        };
        let times = u64::from(tasks);
        NodeClaim {
            node,
            tasks,
            cpu: MilliCpu::new(task.cpu.get().saturating_mul(times)),
            ram: Bytes::new(task.ram.get().saturating_mul(times)),
            gpus: indices.iter().map(part).collect(),
            blocks: SmallVec::new(),
            sets: None,
        }
    }

    fn stop(&mut self, now: SimTime, attempt: AttemptId) {
        let is_closed = self.agenda.is_closed();
        let Some(known) = self.attempts.get_mut(&attempt).filter(|known| known.stage != Stage::Stopping) else {
            return;
        };
        known.stage = Stage::Stopping;
        if known.standing.is_over() {
            self.attempts.remove(&attempt);
            return self.report(attempt, Lifecycle::Stopped);
        }
        let launch = self.work.arrivals[attempt.job.index()].behavior.launch.as_ref().expect("checked at the door");
        let grace = match is_closed {
            true => Some(launch.grace.unwrap_or(SimDuration::MAX).min(GRACE_OF_THE_INTERRUPTED)),
            false => launch.grace,
        };
        known.kill_at = grace.map(|grace| now.saturating_add(grace));
        let (id, standing) = (known.id.unwrap_or_default(), known.standing);
        match standing {
            Standing::Running => self.ask.terminate(&[id]),
            _ => self.ask.cancel(&[id]),
        }
        self.look_at = now;
    }

    fn withdraw(&mut self, now: SimTime, attempt: AttemptId) {
        let Some(known) = self.attempts.get_mut(&attempt) else { return };
        known.stage = Stage::Withdrawn;
        known.kill_at = Some(now.saturating_add(KILL_AGAIN));
        match known.id {
            Some(id) => self.ask.cancel(&[id]),
            // Slurm did not answer, so its next answer shows whether it accepted the job.
            None if self.trouble.is_some() => {}
            None => drop(self.attempts.remove(&attempt)),
        }
    }

    fn take_snapshot(&mut self, now: SimTime, polled: Result<(), Missing>) {
        self.trouble = match (polled, self.trouble.take()) {
            (Ok(()), _) => None,
            (Err(why), before) => Some((before.map_or(now, |(since, _)| since), why)),
        };
    }

    /// Kills the attempts whose time to stop has passed.
    fn kill_the_late(&mut self, now: SimTime) {
        let is_late = |known: &Submitted| known.kill_at.is_some_and(|at| at <= now);
        for known in self.attempts.values_mut().filter(|known| is_late(known)) {
            known.kill_at = Some(now.saturating_add(KILL_AGAIN));
            known.kills = known.kills.saturating_add(1);
        }
        self.kill(|known| known.kill_at == Some(now.saturating_add(KILL_AGAIN)));
    }

    /// Kills running jobs and cancels waiting jobs. Also cancels running jobs that were killed too often without
    /// success.
    fn kill(&self, is_meant: impl Fn(&Submitted) -> bool) {
        let runs_still = |known: &&Submitted| known.standing == Standing::Running;
        let meant = || self.attempts.values().filter(|known| is_meant(known));
        let ids = |of: &mut dyn Iterator<Item = &Submitted>| of.filter_map(|known| known.id).collect::<Vec<u64>>();
        self.ask.kill(&ids(&mut meant().filter(runs_still)));
        self.ask.cancel(&ids(&mut meant().filter(|known| !runs_still(known) || known.kills > KILLS)));
    }

    /// The jobs of this run that have not left their nodes; an error if Slurm does not answer.
    fn left(&self) -> Result<Vec<u64>, Missing> {
        let (own, ids) = (format!("{}/", self.token), self.ids());
        let jobs = self.ask.jobs(|id, comment| ids.contains(&id) || comment.starts_with(&own))?;
        Ok(jobs.iter().filter(|job| !job.standing.is_over()).map(|job| job.id).collect())
    }
}

impl RunBackend for OnSlurm<'_> {
    fn happen(&mut self, now: SimTime, _: bool, inputs: &mut Vec<Input>) -> io::Result<()> {
        self.agenda.come(now, inputs);
        // Report known facts and decisions first, before asking Slurm again.
        let is_due = self.look_at <= now && self.facts.is_empty() && self.decisions.is_empty();
        if is_due && !self.attempts.is_empty() {
            let polled = self.poll(now);
            self.take_snapshot(now, polled);
            self.look_at = now.saturating_add(self.cluster.every);
        }
        self.kill_the_late(now);
        self.decide();
        let patience = self.cluster.patience;
        let broken = match &self.trouble {
            Some((since, why)) if now > since.saturating_add(patience) => {
                Err(io::Error::other(format!("Slurm has given no answer for {patience}: {why}")))
            }
            _ => Ok(()),
        };
        inputs.append(&mut self.facts);
        inputs.sort_by_key(Input::class);
        broken
    }

    fn obey(&mut self, now: SimTime, command: Command) {
        match command {
            Command::Submit { attempt } => {
                let (id, stage, standing, gpus) = (None, Stage::Queued, Standing::Pending, Vec::new());
                self.attempts.insert(attempt, Submitted { id, stage, standing, gpus, kill_at: None, kills: 0 });
                if let Err(why) = self.submit(attempt) {
                    self.trouble.get_or_insert((now, why));
                }
            }
            Command::Withdraw { attempt } => self.withdraw(now, attempt),
            Command::Start { attempt, .. } => {
                let Some(known) = self.attempts.get_mut(&attempt) else { return };
                let standing = known.standing;
                known.stage = Stage::Preparing;
                match standing {
                    Standing::Pending | Standing::Configuring => self.report(attempt, Lifecycle::Preparing),
                    _ => self.advance(attempt, standing),
                }
            }
            Command::Stop { attempt } => self.stop(now, attempt),
            // These were refused before the run, or are only sent under profiles that are refused.
            Command::Prepare { .. }
            | Command::Begin { .. }
            | Command::Sample { .. }
            | Command::Analyse { .. }
            | Command::AbandonAnalysis { .. }
            | Command::Provision { .. }
            | Command::Terminate { .. } => {}
        }
    }

    fn next_time(&self) -> Option<SimTime> {
        let is_at_once = !self.facts.is_empty() || !self.decisions.is_empty();
        let at_once = is_at_once.then_some(SimTime::ZERO);
        let snapshot = (!self.attempts.is_empty()).then_some(self.look_at);
        let kills = self.attempts.values().filter_map(|known| known.kill_at);
        at_once.into_iter().chain(snapshot).chain(kills).chain(self.agenda.next()).min()
    }

    fn is_over(&self) -> bool {
        self.attempts.is_empty() && self.facts.is_empty() && self.agenda.next().is_none()
    }

    fn interrupt(&mut self, inputs: &mut Vec<Input>) {
        self.agenda.interrupt(inputs);
    }

    fn kill_all(&mut self) {
        self.kill(|_| true);
    }

    fn end_all(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_ended, true) || self.attempts.is_empty() {
            return Ok(());
        }
        let deadline = Deadline::within(LAST_BREATH);
        let patience = Deadline::within(std_duration(self.cluster.patience).min(LAST_BREATH));
        let cancel = Deadline::within(LAST_BREATH / 2);
        self.kill_all();
        loop {
            match self.left() {
                Ok(left) if left.is_empty() => return Ok(()),
                Ok(left) if deadline.has_passed() => {
                    let why = format!("Slurm's jobs {left:?} do not end although they were cancelled");
                    return Err(io::Error::other(why));
                }
                // A killed job needs some time to end. Cancel it only later, because a cancellation begins with a
                // polite request.
                Ok(left) if cancel.has_passed() => self.ask.cancel(&left),
                Ok(_) => {}
                Err(why) if patience.has_passed() => {
                    let ids: Vec<u64> = self.ids().into_iter().collect();
                    let why = format!("Slurm's jobs {ids:?} may still exist and cannot be cancelled: {why}");
                    return Err(io::Error::other(why));
                }
                Err(_) => {}
            }
            pause(LAST_LOOKS);
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.iter().cloned().collect()
    }
}

/// At every kind of end, none of the run's jobs is left.
impl Drop for OnSlurm<'_> {
    fn drop(&mut self) {
        let _nobody_is_left_to_be_told = self.end_all();
    }
}

fn state_of(declaration: &Input) -> Option<NodeState> {
    match declaration {
        Input::Fleet(FleetFact::NodeDeclared { state, .. }) => Some(*state),
        _ => None,
    }
}

fn is_of(indices: &[u16], count: usize) -> bool {
    indices.iter().all(|index| usize::from(*index) < count)
}

/// The number of tasks on a node on which the job has this many GPUs and cores.
fn tasks_on(demand: &Demand, gpus: usize, cores: Option<u32>) -> u32 {
    let each = demand.gpus().map_or(0, |gpus| gpus.count);
    let cpus = (request::task_of(demand).cpu.get() / 1000).max(1);
    match (demand.tasks, demand.gang) {
        (1, _) | (_, Gang::Spread) => 1,
        _ if each > 0 => u32::try_from(gpus).unwrap_or(u32::MAX) / each,
        _ => cores.map_or(1, |cores| u32::try_from(u64::from(cores) / cpus).unwrap_or(1)),
    }
    .max(1)
}

/// Whether Slurm answered and refused the job. Otherwise Slurm may still accept the job later.
fn is_refusal(said: &str) -> bool {
    const NOT_THERE: [&str; 6] = [
        "Unable to contact slurm controller",
        "Socket timed out",
        "Connection refused",
        "Zero Bytes were transmitted",
        "Slurm backup controller in standby",
        "temporarily unable to accept job",
    ];
    said.contains("error") && !NOT_THERE.iter().any(|known| said.contains(known))
}
