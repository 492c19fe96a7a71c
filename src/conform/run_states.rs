//! Records of run states: a sequence of submissions and ends of runs on one fleet. A record has the state of each run
//! after each round, the host and the number of blocks that each run gets, and the state at the end.
//!
//! Runs request the recorded resources, and hosts have the recorded size. The control plane itself is stepped. In each
//! round it gets the round's events as inputs, its clock is set forward, and it settles once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::instances::{RecordedHost, RecordedRun};
use super::kind::{Compared, Difference, RecordFields, RecordKind, each_version, parse};
use super::profiles::Profiles;
use dryrack_catalog::KnownGpus;
use dryrack_control::{Control, MemberStanding, Profile, RunStanding};
use dryrack_event::{Command, Event, FleetFact, Input, Lifecycle, Outcome, Output, Reason, UsageFact};
use dryrack_fleet::{Blocks, FleetKind, FleetPlacement, FleetSpec, NodeSpec, NodeState, Placement};
use dryrack_ids::{AttemptId, FleetId, JobId, NodeId};
use dryrack_lifecycle::{MemberState, WholeState};
use dryrack_units::{RequestRate, SimDuration, SimTime};
use dryrack_workload::{Demand, Ending, EventRetry, JobSpec, Requirements, RetryEvent, RunTerms, Scaling};

pub struct RunStates;

/// The recorded version of the program.
const VERSION: &str = "0.22.5";
/// The time for setting up the hosts before the first round.
const SETUP: SimDuration = SimDuration::from_secs(8);
/// How long a run is retried, if the record says that it is retried.
const RETRY_FOR: SimDuration = SimDuration::from_secs(7200);

#[derive(Deserialize)]
struct Record {
    id: String,
    fleet: FleetOf,
    round_dt_s: Vec<u64>,
    events: Vec<Step>,
    answer: Answer,
}

#[derive(Deserialize)]
struct FleetOf {
    name: Arc<str>,
    placement: FleetPlacement,
    /// Either `auto` or a number of blocks.
    blocks: Value,
    hosts: u32,
    cpus: u64,
    memory_gib: u64,
    gpus: u32,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Step {
    Submit {
        round: usize,
        name: String,
        nodes: u32,
        priority: i32,
        retry_no_capacity: bool,
        resources: Value,
        service: Option<Service>,
    },
    /// From this round on, a service receives this many requests in each window.
    Requests {
        round: usize,
        name: String,
        count: u64,
    },
    Finish {
        round: usize,
        name: String,
    },
}

/// A service that scales with its requests.
#[derive(Deserialize)]
struct Service {
    replicas: ReplicaRange,
    scaling: RecordedScaling,
}

#[derive(Deserialize)]
struct ReplicaRange {
    min: u32,
    max: u32,
}

#[derive(Deserialize)]
struct RecordedScaling {
    target: serde_json::Number,
    window: u64,
    scale_up_delay: u64,
    scale_down_delay: u64,
}

impl Service {
    fn scaling(&self) -> Result<Scaling, String> {
        let RecordedScaling { target, window, scale_up_delay, scale_down_delay } = &self.scaling;
        let ReplicaRange { min, max } = self.replicas;
        let target = target.to_string().parse::<RequestRate>().map_err(|fault| fault.to_string())?;
        if min > max || max > 10_000 || target == RequestRate::ZERO || !(1..1 << 32).contains(window) {
            return Err("a service of other bounds than any record has".to_string());
        }
        Ok(Scaling {
            min,
            max,
            target,
            window: SimDuration::from_secs(*window),
            scale_up_delay: SimDuration::from_secs((*scale_up_delay).min(1 << 32)),
            scale_down_delay: SimDuration::from_secs((*scale_down_delay).min(1 << 32)),
        })
    }
}

type Decision = (usize, String, u32, String, Option<String>, Option<u32>);

#[derive(Debug, Deserialize, PartialEq)]
struct Answer {
    decisions: Vec<Decision>,
    run_status_changes: Vec<(usize, String, String)>,
    /// The round, the service, and its desired number of replicas from then on. Only records with services have this
    /// field.
    #[serde(default)]
    desired: Vec<(usize, String, u32)>,
    #[serde(rename = "final")]
    last: LastSeen,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
struct LastSeen {
    /// The host, its status, the number of taken blocks, and the number of all blocks.
    instances: Vec<(String, String, u32, u32)>,
    /// The node, the submission, the status, the host, and the number of blocks.
    placed: Vec<(String, u32, String, String, u32)>,
    /// The run, its status, and the reason.
    runs: Vec<(String, String, Option<String>)>,
}

impl RecordKind for RunStates {
    fn name(&self) -> &'static str {
        "run_states"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["fleet", "round_dt_s", "events", "answer"]
    }

    fn compare(&self, record: &RecordFields, _: &str, profiles: &mut Profiles) -> Result<Vec<Compared>, String> {
        let record: Record = parse(record)?;
        let parsed = ParsedRecord::of(&record)?;
        let class = match record.fleet.placement {
            FleetPlacement::Any => "placement any",
            FleetPlacement::Cluster => "placement cluster",
        };
        each_version(profiles, ("dstack", [VERSION]), (&record.id, class), |_, profile| {
            if !profile.flow.places_runs() {
                let text = format!("recorded: runs; found: the profile {} has none", profile.name);
                return Ok(vec![Difference { kind: "no runs", text }]);
            }
            Ok(differences(&record.answer, &Stepper::play(&record, &parsed, profile)))
        })
    }
}

/// The contents of a record, after parsing.
struct ParsedRecord {
    hosts: Vec<RecordedHost>,
    /// The requirements of each run, in order of submission.
    requirements: Vec<Arc<Requirements>>,
    scaling: Vec<Option<Scaling>>,
}

/// Hardware that each host has in addition to what the record says. No run requires more disk, or a particular GPU.
const DISK_MIB: u64 = 500 << 10;
const GPU: (&str, u64) = ("A100", 81_920);

impl ParsedRecord {
    fn of(record: &Record) -> Result<ParsedRecord, String> {
        let mut names: Vec<&str> = Vec::new();
        let (mut requirements, mut scaling) = (Vec::new(), Vec::new());
        let mut last = 0;
        for step in &record.events {
            let (round, name) = match step {
                Step::Submit { round, name, nodes, resources, service, .. } => {
                    if names.contains(&name.as_str()) {
                        return Err(format!("`{name}` is submitted twice"));
                    }
                    names.push(name);
                    let run = RecordedRun {
                        nodes: *nodes,
                        resources: resources.clone(),
                        creation_policy: "reuse".to_string(),
                        fleets: None,
                    };
                    requirements.push(Arc::new(run.requirements()?));
                    scaling.push(service.as_ref().map(Service::scaling).transpose()?);
                    (round, name)
                }
                Step::Finish { round, name } | Step::Requests { round, name, .. } => (round, name),
            };
            if !names.contains(&name.as_str()) {
                return Err(format!("`{name}` finishes and was not submitted"));
            }
            if *round >= record.round_dt_s.len() {
                return Err(format!("round {round} is after the last"));
            }
            if *round < last {
                return Err(format!("round {round} comes after round {last}"));
            }
            last = *round;
        }
        let fleet = &record.fleet;
        if fleet.hosts > 10_000 || fleet.memory_gib > 1 << 20 || record.round_dt_s.iter().any(|secs| *secs > 1 << 32) {
            return Err("more hosts, memory or time than any record has".to_string());
        }
        let blocks = blocks_of(fleet)?;
        let host = |number: u32| RecordedHost {
            name: format!("h{number}").into(),
            fleet: FleetId::new(0),
            cpus: fleet.cpus,
            memory_mib: fleet.memory_gib << 10,
            disk_mib: DISK_MIB,
            gpus: fleet.gpus,
            gpu_name: Some(GPU.0.to_string()),
            gpu_memory_mib: GPU.1,
            blocks: blocks.clone(),
            total_blocks: None,
            backend: Arc::from("remote"),
            region: Arc::from("remote"),
            price: None,
        };
        let hosts: Vec<RecordedHost> = (0..fleet.hosts).map(host).collect();
        hosts.first().map(|host| host.shape(KnownGpus::Gpuhunt0134)).transpose()?;
        Ok(ParsedRecord { hosts, requirements, scaling })
    }
}

fn blocks_of(fleet: &FleetOf) -> Result<Blocks, String> {
    match &fleet.blocks {
        Value::String(text) if text == "auto" => Ok(Blocks::Auto),
        other => {
            let count = other.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
            count.map(Blocks::Count).ok_or_else(|| format!("blocks: {other}; expected `auto` or a number"))
        }
    }
}

/// A control plane that is stepped through the rounds of a record.
struct Stepper {
    control: Control,
    now: SimTime,
    round: usize,
    names: Vec<String>,
    /// Reports of the nodes that arrive before the next round.
    answers: Vec<(AttemptId, Lifecycle)>,
    placements: BTreeMap<AttemptId, Placement>,
    statuses: Vec<&'static str>,
    desired: BTreeMap<JobId, u32>,
    said: Answer,
}

impl Stepper {
    fn play(record: &Record, asked: &ParsedRecord, profile: Arc<Profile>) -> Answer {
        let known = profile.scheduler.offers.known_gpus;
        let mut control = Control::new(profile, 0);
        control.poll_in_rounds();
        let said = Answer {
            decisions: Vec::new(),
            run_status_changes: Vec::new(),
            desired: Vec::new(),
            last: LastSeen::default(),
        };
        let mut stage = Stepper {
            control,
            now: SimTime::ZERO,
            round: 0,
            names: Vec::new(),
            answers: Vec::new(),
            placements: BTreeMap::new(),
            statuses: Vec::new(),
            desired: BTreeMap::new(),
            said,
        };
        let spec = FleetSpec {
            name: Arc::clone(&record.fleet.name),
            kind: FleetKind::Ssh,
            placement: record.fleet.placement,
            blocks: Blocks::Auto,
            nodes: None,
            cloud: None,
        };
        stage.apply(Input::Fleet(FleetFact::FleetDeclared { fleet: FleetId::new(0), spec: Arc::new(spec) }));
        for (number, host) in asked.hosts.iter().enumerate() {
            let shape = Arc::new(host.shape(known).expect("checked"));
            let spec = NodeSpec { name: Arc::clone(&host.name), shape };
            stage.apply(Input::Fleet(FleetFact::NodeDeclared {
                node: NodeId::new(number),
                state: NodeState::Ready,
                spec,
            }));
        }
        stage.settle();
        stage.now = stage.now.saturating_add(SETUP);
        for (round, secs) in record.round_dt_s.iter().enumerate() {
            stage.round = round;
            stage.begin(record, asked);
            stage.now = stage.now.saturating_add(SimDuration::from_secs(*secs));
            stage.settle();
            stage.note_statuses();
        }
        stage.finish()
    }

    /// Passes on the inputs of this round before the clock advances.
    fn begin(&mut self, record: &Record, asked: &ParsedRecord) {
        for (attempt, fact) in std::mem::take(&mut self.answers) {
            self.apply(Input::Attempt { attempt, fact });
        }
        for step in &record.events {
            match step {
                Step::Submit { round, name, nodes, priority, retry_no_capacity, .. } if *round == self.round => {
                    let retry = EventRetry { on: vec![RetryEvent::NoCapacity], duration: RETRY_FOR };
                    let terms = RunTerms { retry: retry_no_capacity.then_some(retry), ..RunTerms::default() };
                    let number = self.names.len();
                    let requirements = Arc::clone(&asked.requirements[number]);
                    let spec = job_spec(name, *nodes, requirements, *priority, terms);
                    let scaling = asked.scaling[number];
                    let replicas = scaling.map_or(1, |scaling| scaling.min);
                    let spec = Arc::new(JobSpec { replicas, scaling: scaling.map(Box::new), ..spec });
                    self.apply(Input::Submit { job: JobId::new(number), spec });
                    self.names.push(name.clone());
                }
                Step::Finish { round, name } if *round == self.round => {
                    let job = self.names.iter().position(|known| known == name).expect("checked");
                    for member in self.members_of(JobId::new(job)) {
                        let fact = Lifecycle::Exited(Ending::Completed);
                        self.apply(Input::Attempt { attempt: attempt_of(&member), fact });
                    }
                }
                Step::Requests { round, name, count } if *round == self.round => {
                    let job = self.names.iter().position(|known| known == name).expect("checked");
                    self.apply(Input::Usage(UsageFact::Requests { job: JobId::new(job), requests: *count }));
                }
                Step::Submit { .. } | Step::Finish { .. } | Step::Requests { .. } => {}
            }
        }
    }

    fn members_of(&self, job: JobId) -> Vec<MemberStanding> {
        self.control.members().into_iter().filter(|member| member.job == job).collect()
    }

    fn apply(&mut self, input: Input) {
        self.control.handle(self.now, &input);
        self.drain();
    }

    fn settle(&mut self) {
        self.control.settle(self.now);
        self.drain();
        self.control.assert_integrity();
    }

    fn drain(&mut self) {
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Command(Command::Prepare { attempt, .. } | Command::Start { attempt, .. }) => {
                    self.answers.push((attempt, Lifecycle::Prepared));
                }
                Output::Command(Command::Stop { attempt }) => self.answers.push((attempt, Lifecycle::Stopped)),
                Output::Command(
                    Command::Submit { .. }
                    | Command::Withdraw { .. }
                    | Command::Begin { .. }
                    | Command::Sample { .. }
                    | Command::Analyse { .. }
                    | Command::AbandonAnalysis { .. }
                    | Command::Provision { .. }
                    | Command::Terminate { .. },
                ) => {}
                Output::Event(event) => self.note(event),
            }
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Placed { attempt, placement, .. } => {
                let claim = &placement.claims()[0];
                let (host, blocks) = (self.host(claim.node), taken(&placement));
                let (job, submission) = self.job_name(attempt);
                let decision = (self.round, job, submission, "assigned".to_string(), Some(host), Some(blocks));
                self.said.decisions.push(decision);
                self.placements.insert(attempt, placement);
            }
            Event::Held { attempt, reasons, .. } if !reasons.contains(Reason::BackingOff) => {
                let outcome = "failed_to_start_due_to_no_capacity".to_string();
                let (job, submission) = self.job_name(attempt);
                self.said.decisions.push((self.round, job, submission, outcome, None, None));
            }
            Event::Ended { attempt, .. } => {
                self.placements.remove(&attempt);
            }
            _ => {}
        }
    }

    fn host(&self, node: NodeId) -> String {
        self.control.fleet().node(node).name.to_string()
    }

    /// The name of a job, and the number of its submission counted from 0. For example, `run-03-1-0` is node 1 of
    /// replica 0 of run-03.
    fn job_name(&self, attempt: AttemptId) -> (String, u32) {
        let is_it = |member: &MemberStanding| member.job == attempt.job && member.replica == attempt.replica;
        let member = self.control.members().into_iter().find(is_it).expect("every replica is a node of a run");
        let name = format!("{}-{}-{}", self.names[attempt.job.index()], member.node, member.group);
        (name, member.before + attempt.number - 1)
    }

    fn note_statuses(&mut self) {
        for run in self.control.runs() {
            let status = run_status(&run);
            let index = run.job.index();
            // A run that was not examined since its submission has no desired number yet.
            if let Some(desired) = run.desired.filter(|desired| self.desired.get(&run.job) != Some(desired)) {
                self.desired.insert(run.job, desired);
                self.said.desired.push((self.round, self.names[index].clone(), desired));
            }
            if self.statuses.get(index) != Some(&status) {
                self.said.run_status_changes.push((self.round, self.names[index].clone(), status.to_string()));
            }
            self.statuses.truncate(self.statuses.len().max(index));
            match self.statuses.get_mut(index) {
                Some(known) => *known = status,
                None => self.statuses.push(status),
            }
        }
    }

    fn finish(mut self) -> Answer {
        let mut busy: BTreeMap<NodeId, u32> = BTreeMap::new();
        for placement in self.control.held() {
            *busy.entry(placement.claims()[0].node).or_default() += taken(&placement);
        }
        let hosts: Vec<NodeId> = self.control.fleet().iter().map(|(node, _)| node).collect();
        for node in hosts {
            let taken = busy.get(&node).copied().unwrap_or(0);
            let status = if taken > 0 { "busy" } else { "idle" };
            let total = self.control.fleet().node(node).shape.total_blocks().unwrap_or(0);
            self.said.last.instances.push((self.host(node), status.to_string(), taken, total));
        }
        let mut members = self.control.members();
        members.sort_by_key(|member| member.created);
        for member in members {
            let status = match member.state {
                MemberState::Provisioning => "provisioning",
                MemberState::Pulling => "pulling",
                MemberState::Running => "running",
                MemberState::Waiting
                | MemberState::Submitted
                | MemberState::Assigned
                | MemberState::Terminating
                | MemberState::Draining
                | MemberState::Ended => continue,
            };
            let attempt = attempt_of(&member);
            let placement = &self.placements[&attempt];
            let (host, blocks) = (self.host(placement.claims()[0].node), taken(placement));
            let (job, submission) = self.job_name(attempt);
            self.said.last.placed.push((job, submission, status.to_string(), host, blocks));
        }
        for run in self.control.runs() {
            let name = self.names[run.job.index()].clone();
            self.said.last.runs.push((name, run_status(&run).to_string(), run_reason(&run).map(str::to_string)));
        }
        self.said
    }
}

fn attempt_of(member: &MemberStanding) -> AttemptId {
    AttemptId { job: member.job, replica: member.replica, number: member.attempt }
}

fn taken(placement: &Placement) -> u32 {
    placement.claims()[0].blocks.len() as u32
}

fn run_status(run: &RunStanding) -> &'static str {
    match (run.state, run.ending) {
        (WholeState::Submitted, _) => "submitted",
        (WholeState::Provisioning, _) => "provisioning",
        (WholeState::Running, _) => "running",
        (WholeState::Pending, _) => "pending",
        (WholeState::Terminating, _) => "terminating",
        (WholeState::Ended, Some((Outcome::Completed, _))) => "done",
        (WholeState::Ended, _) => "failed",
    }
}

fn run_reason(run: &RunStanding) -> Option<&'static str> {
    run.ending.map(|(outcome, because)| match (outcome, because) {
        (Outcome::Completed, _) => "all_jobs_done",
        (_, Reason::RetryTimeOver) => "retry_limit_exceeded",
        (_, _) => "job_failed",
    })
}

fn job_spec(name: &str, nodes: u32, requirements: Arc<Requirements>, priority: i32, terms: RunTerms) -> JobSpec {
    JobSpec {
        priority,
        terms: Arc::new(terms),
        ..JobSpec::of(name.into(), Demand { tasks: nodes, ..Demand::of(requirements) })
    }
}

fn differences(recorded: &Answer, found: &Answer) -> Vec<Difference> {
    let mut differences = Vec::new();
    first_difference("decision", &recorded.decisions, &found.decisions, &mut differences);
    first_difference("run status", &recorded.run_status_changes, &found.run_status_changes, &mut differences);
    first_difference("replicas wanted", &recorded.desired, &found.desired, &mut differences);
    first_difference("host at the end", &recorded.last.instances, &found.last.instances, &mut differences);
    first_difference("node at the end", &recorded.last.placed, &found.last.placed, &mut differences);
    first_difference("run at the end", &recorded.last.runs, &found.last.runs, &mut differences);
    differences
}

/// Adds only the first difference between two lists, because later differences may follow from it.
fn first_difference<T: PartialEq + std::fmt::Debug>(
    kind: &'static str,
    recorded: &[T],
    found: &[T],
    differences: &mut Vec<Difference>,
) {
    let most = recorded.len().max(found.len());
    if let Some(at) = (0..most).find(|at| recorded.get(*at) != found.get(*at)) {
        let said = |item: Option<&T>| item.map_or("nothing".to_string(), |item| format!("{item:?}"));
        let text = format!("number {at}: recorded: {}; found: {}", said(recorded.get(at)), said(found.get(at)));
        differences.push(Difference { kind, text });
    }
}
