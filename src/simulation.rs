//! A simulation from Rust: a scenario that is built or read, run, and asked what happened.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use dryrack_engine::{Progress, Rehearsal};
use dryrack_event::Sink;
use dryrack_expect::{Expectation, Verdict};
use dryrack_metrics::{METRICS, RunAccount, Value};
use dryrack_rehearse::{Rehearsed, header, rehearse};
use dryrack_report::LogWriter;
use dryrack_scenario::{Diagnostics, Loaded, Options, load, load_text};
use dryrack_scheduler::Caching;
use dryrack_units::{SimDuration, SimTime};
use serde_json::{Map, Value as Json};

/// A scenario that was found to be right, ready to run.
///
/// ```
/// use dryrack::prelude::*;
///
/// let simulation = Simulation::from_yaml(
///     "
///     scenario: Two jobs want one GPU
///     nodes: [{name: alpha, machine: l4-x1}]
///     jobs:
///       - {name: chat, gpus: 1, duration: 60s}
///       - {name: late, at: 10s, gpus: 1, duration: 60s}
///     expect: [max(queue_wait) <= 1m]
///     ",
/// )?;
/// let outcome = simulation.run();
/// assert!(outcome.passed());
/// assert_eq!(outcome.metric("queue_wait_max_seconds"), Some(50.0));
/// # Ok::<(), dryrack::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    rehearsal: Rehearsal,
    expectations: Vec<Expectation>,
}

/// Why a scenario cannot be run: each fault with its place, and where there is one what to write instead.
#[derive(Debug)]
pub struct Error(Diagnostics);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

impl Simulation {
    /// A scenario built piece by piece.
    pub fn builder() -> SimulationBuilder {
        SimulationBuilder::default()
    }

    /// A scenario file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If the file cannot be read or is not a scenario that can be run: all faults of it.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Simulation, Error> {
        load(path.as_ref(), &Options::default()).map(Simulation::of).map_err(Error)
    }

    /// The text of a scenario file. Paths in it are relative to the current folder.
    ///
    /// # Errors
    /// As for [`Simulation::from_file`].
    pub fn from_yaml(text: &str) -> Result<Simulation, Error> {
        load_text("scenario", text, Path::new(""), &Options::default()).map(Simulation::of).map_err(Error)
    }

    fn of(loaded: Loaded) -> Simulation {
        Simulation { rehearsal: loaded.rehearsal, expectations: loaded.expectations }
    }

    /// Runs it to its end. The same simulation gives the same outcome each time, on every machine.
    ///
    /// # Panics
    /// If an invariant of dryrack itself breaks, or if the run has more records than
    /// [`limit_records`](dryrack_engine::limit_records) allows.
    pub fn run(&self) -> Outcome {
        self.run_with(Vec::new())
    }

    /// Runs it, and hands every record to these as it is written: the inputs and events that the log would hold.
    ///
    /// # Panics
    /// As for [`Simulation::run`].
    pub fn run_with(&self, sinks: Vec<&mut dyn Sink>) -> Outcome {
        let progress = Progress::default();
        let rehearsed = rehearse(&self.rehearsal, self.expectations.clone(), &progress, Caching::On, sinks);
        Outcome { rehearsed }
    }

    /// Runs it, and writes its event log: what `dryrack run --out DIR` leaves as `events.jsonl`.
    ///
    /// # Errors
    /// If it cannot be written.
    ///
    /// # Panics
    /// As for [`Simulation::run`].
    pub fn write_log<W: Write>(&self, to: W) -> io::Result<W> {
        let mut log = LogWriter::new(to, &header(&self.rehearsal))?;
        let outcome = self.run_with(vec![&mut log]);
        log.finish(outcome.rehearsed.end.at)
    }
}

/// What happened in a simulation.
pub struct Outcome {
    rehearsed: Rehearsed,
}

/// What became of one replica of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaOutcome {
    pub job: String,
    /// From 0.
    pub replica: u32,
    pub submitted: SimTime,
    /// First placed, over all attempts.
    pub placed: Option<SimTime>,
    /// First ran, over all attempts.
    pub started: Option<SimTime>,
    pub ended: Option<SimTime>,
    /// `completed`, `failed`, …; `None` if it had not ended.
    pub outcome: Option<&'static str>,
    /// Of its last placement, in the order of the fleet.
    pub nodes: Vec<String>,
}

impl Outcome {
    /// Whether every expectation held.
    pub fn passed(&self) -> bool {
        self.rehearsed.verdicts.iter().all(|verdict| verdict.passed)
    }

    /// What became of each expectation, in the order of the scenario.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.rehearsed.verdicts
    }

    /// When the last thing happened, or the time at which the scenario says that the run stops.
    pub fn end(&self) -> SimTime {
        self.rehearsed.until
    }

    /// The hash of the event log: equal for equal runs.
    pub fn digest(&self) -> String {
        self.rehearsed.digest.to_string()
    }

    /// A metric by its name in `metrics.json`, in the unit that the name ends with; times in seconds. `None` if there is no
    /// such metric, or nothing to take it of.
    pub fn metric(&self, name: &str) -> Option<f64> {
        match self.rehearsed.run_metrics.metrics().get(name)? {
            Value::Count(count) => Some(count as f64),
            Value::Time(time) => Some(time.as_secs_f64()),
            Value::Ratio(ratio) => Some(ratio),
            Value::Money(money) => Some(money.get() as f64 / 1e6),
            Value::Undefined => None,
        }
    }

    /// The names of all metrics, with what each means.
    pub fn metric_names() -> impl Iterator<Item = (&'static str, &'static str)> {
        METRICS.iter().map(|definition| (definition.name, definition.meaning))
    }

    /// All replicas, in order of their jobs' submission.
    pub fn replicas(&self) -> Vec<ReplicaOutcome> {
        let accounts = self.rehearsed.run_metrics.accounts();
        let replica = |(run, job, replica): (dryrack_ids::RunId, &dryrack_metrics::JobAccount, &_)| {
            ReplicaOutcome::of(accounts, run, job, replica)
        };
        accounts.replicas().map(replica).collect()
    }

    /// Of one replica of a job: how long it waited for its first place. `None` if it had none, or there is no such job.
    pub fn queue_wait(&self, job: &str) -> Option<SimDuration> {
        let replica = self.replicas().into_iter().find(|replica| replica.job == job)?;
        Some(replica.placed?.since(replica.submitted))
    }
}

impl ReplicaOutcome {
    fn of(
        accounts: &RunAccount,
        run: dryrack_ids::RunId,
        job: &dryrack_metrics::JobAccount,
        replica: &dryrack_metrics::ReplicaAccount,
    ) -> ReplicaOutcome {
        let claims = replica.placement.iter().flat_map(|placement| placement.claims());
        ReplicaOutcome {
            job: job.spec.name.to_string(),
            replica: run.replica,
            submitted: job.submitted,
            placed: replica.placed,
            started: replica.started,
            ended: replica.ended,
            outcome: replica.outcome.map(|outcome| outcome.name()),
            nodes: claims.map(|claim| accounts.names.node(claim.node).to_string()).collect(),
        }
    }
}

/// Builds a [`Simulation`] from nodes, jobs and whatever else a scenario file may say.
///
/// ```
/// use dryrack::prelude::*;
///
/// let outcome = Simulation::builder()
///     .node(Node::new("a").machine("a100-80g-x8"))
///     .job(Job::new("train").gpus(8).duration("1h"))
///     .job(Job::new("chat").at("1m").gpus(1).duration("10m"))
///     .profile("fifo")
///     .run()?;
/// assert_eq!(outcome.queue_wait("chat"), Some(SimDuration::from_secs(59 * 60)));
/// # Ok::<(), dryrack::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SimulationBuilder {
    nodes: Vec<Json>,
    jobs: Vec<Json>,
    expectations: Vec<Json>,
    rest: Map<String, Json>,
}

impl SimulationBuilder {
    /// What the reports are headed with.
    pub fn title(self, title: &str) -> SimulationBuilder {
        self.set("scenario", title)
    }

    pub fn node(mut self, node: Node) -> SimulationBuilder {
        self.nodes.push(Json::Object(node.0));
        self
    }

    pub fn job(mut self, job: Job) -> SimulationBuilder {
        self.jobs.push(Json::Object(job.0));
        self
    }

    /// A scheduling profile by name (`easy`, `dstack`, …) or path; `first-fit` if not given.
    pub fn profile(self, name: &str) -> SimulationBuilder {
        self.set("profile", name)
    }

    /// The seed of every draw; 1 if not given.
    pub fn seed(self, seed: u64) -> SimulationBuilder {
        self.set("seed", seed)
    }

    /// The run stops before the first instant after this, such as `2h`.
    pub fn until(self, time: &str) -> SimulationBuilder {
        self.set("until", time)
    }

    /// An expectation as a scenario writes it: `p95(queue_wait) <= 10m`, or an object such as
    /// `json!({"job": "chat", "is": "running", "by": "5m"})`.
    pub fn expect(mut self, expectation: impl Into<Json>) -> SimulationBuilder {
        self.expectations.push(expectation.into());
        self
    }

    /// Any other key of a scenario file: `faults`, `fleets`, `trace`, ….
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> SimulationBuilder {
        self.rest.insert(key.to_string(), value.into());
        self
    }

    /// The scenario file that this amounts to. JSON is YAML.
    pub fn text(&self) -> String {
        let mut file = Map::new();
        file.insert("scenario".to_string(), "a simulation".into());
        file.extend(self.rest.clone());
        let lists = [("nodes", &self.nodes), ("jobs", &self.jobs), ("expect", &self.expectations)];
        for (key, list) in lists {
            if !list.is_empty() {
                file.insert(key.to_string(), Json::Array(list.clone()));
            }
        }
        format!("{:#}\n", Json::Object(file))
    }

    /// Checks it.
    ///
    /// # Errors
    /// If it is not a scenario that can be run: all faults, with their places in [`SimulationBuilder::text`].
    pub fn build(&self) -> Result<Simulation, Error> {
        Simulation::from_yaml(&self.text())
    }

    /// Checks it and runs it.
    ///
    /// # Errors
    /// As for [`SimulationBuilder::build`].
    ///
    /// # Panics
    /// As for [`Simulation::run`].
    pub fn run(&self) -> Result<Outcome, Error> {
        Ok(self.build()?.run())
    }
}

/// An entry of `nodes:`.
#[derive(Clone, Debug)]
pub struct Node(Map<String, Json>);

/// An entry of `jobs:`.
#[derive(Clone, Debug)]
pub struct Job(Map<String, Json>);

fn named(name: &str) -> Map<String, Json> {
    Map::from_iter([("name".to_string(), name.into())])
}

impl Node {
    pub fn new(name: &str) -> Node {
        Node(named(name))
    }

    /// A machine of the catalog (`dryrack catalog machines` lists them).
    pub fn machine(self, machine: &str) -> Node {
        self.set("machine", machine)
    }

    /// So many alike: `a-0`, `a-1`, ….
    pub fn count(self, count: u32) -> Node {
        self.set("count", count)
    }

    /// Cores, where no machine says how many.
    pub fn cpus(self, cores: u32) -> Node {
        self.set("cpus", cores)
    }

    /// Such as `64GiB`.
    pub fn ram(self, size: &str) -> Node {
        self.set("ram", size)
    }

    /// `ready` if not given; `not_ready`, `maintenance`, ….
    pub fn state(self, state: &str) -> Node {
        self.set("state", state)
    }

    /// Any other key of a node in a scenario file.
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> Node {
        self.0.insert(key.to_string(), value.into());
        self
    }
}

impl Job {
    pub fn new(name: &str) -> Job {
        Job(named(name))
    }

    /// When it is submitted, such as `10m`; at the start if not given.
    pub fn at(self, time: &str) -> Job {
        self.set("at", time)
    }

    /// How long it runs, such as `1h`.
    pub fn duration(self, length: &str) -> Job {
        self.set("duration", length)
    }

    /// How long its user says that it runs, by which backfilling plans.
    pub fn estimate(self, length: &str) -> Job {
        self.set("estimate", length)
    }

    /// Whole GPUs of each task.
    pub fn gpus(self, count: u32) -> Job {
        self.set("gpus", count)
    }

    /// The type of GPU that will do: `a100-80g`.
    pub fn gpu(self, model: &str) -> Job {
        self.set("gpu", model)
    }

    /// Cores of each task.
    pub fn cpus(self, cores: u32) -> Job {
        self.set("cpus", cores)
    }

    /// Tasks that run together or not at all.
    pub fn tasks(self, count: u32) -> Job {
        self.set("tasks", count)
    }

    /// So many jobs alike: `j-0`, `j-1`, ….
    pub fn count(self, count: u32) -> Job {
        self.set("count", count)
    }

    /// Between two of them, such as `30s`.
    pub fn every(self, gap: &str) -> Job {
        self.set("every", gap)
    }

    pub fn priority(self, priority: i64) -> Job {
        self.set("priority", priority)
    }

    /// Any other key of a job in a scenario file.
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> Job {
        self.0.insert(key.to_string(), value.into());
        self
    }
}
