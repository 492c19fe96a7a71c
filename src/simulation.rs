//! Simulations from Rust: build or read a scenario, run it, and query the outcome.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use dryrack_engine::{Progress, Rehearsal};
use dryrack_event::Sink;
use dryrack_expect::{Expectation, Verdict};
use dryrack_metrics::{RunAccount, Value};
use dryrack_rehearse::{Rehearsed, header, rehearse};
use dryrack_report::LogWriter;
use dryrack_scenario::{Loaded, Options, load, load_text};
use dryrack_scheduler::Caching;
use dryrack_units::{SimDuration, SimTime};
use dryrack_yaml::Diagnostics;
use serde_json::{Map, Value as Json};

/// A valid scenario that is ready to run.
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

/// Why a scenario cannot run: each error with its place and, where possible, a suggested fix.
#[derive(Debug)]
pub struct Error(Diagnostics);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

impl Simulation {
    /// Starts to build a scenario piece by piece.
    pub fn builder() -> SimulationBuilder {
        SimulationBuilder::default()
    }

    /// Reads a scenario file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If the file cannot be read, or if it is not a valid scenario. The error lists all faults.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Simulation, Error> {
        load(path.as_ref(), &Options::default()).map(Simulation::of).map_err(Error)
    }

    /// Reads the text of a scenario file. Paths in it are relative to the current folder.
    ///
    /// # Errors
    /// As for [`Simulation::from_file`].
    pub fn from_yaml(text: &str) -> Result<Simulation, Error> {
        load_text("scenario", text, Path::new(""), &Options::default()).map(Simulation::of).map_err(Error)
    }

    fn of(loaded: Loaded) -> Simulation {
        Simulation { rehearsal: loaded.rehearsal, expectations: loaded.expectations }
    }

    /// Runs the simulation to its end. The same simulation gives the same outcome each time, on every machine.
    ///
    /// # Panics
    /// If an invariant of dryrack itself breaks, or if the run writes more records than
    /// [`limit_records`](dryrack_engine::limit_records) allows.
    pub fn run(&self) -> Outcome {
        self.run_with(Vec::new())
    }

    /// Runs the simulation and passes every record to `sinks` as it is written. The records are the inputs and events
    /// of the event log.
    ///
    /// # Panics
    /// As for [`Simulation::run`].
    pub fn run_with(&self, sinks: Vec<&mut dyn Sink>) -> Outcome {
        let progress = Progress::default();
        let rehearsed = rehearse(&self.rehearsal, self.expectations.clone(), &progress, Caching::On, sinks);
        Outcome { rehearsed }
    }

    /// Runs the simulation and writes its event log, with the same content as `events.jsonl` of `dryrack run --out
    /// DIR`.
    ///
    /// # Errors
    /// If the log cannot be written.
    ///
    /// # Panics
    /// As for [`Simulation::run`].
    pub fn write_log<W: Write>(&self, to: W) -> io::Result<W> {
        let mut log = LogWriter::new(to, &header(&self.rehearsal))?;
        let outcome = self.run_with(vec![&mut log]);
        log.finish(outcome.rehearsed.end.at)
    }
}

/// The outcome of a simulation.
pub struct Outcome {
    rehearsed: Rehearsed,
}

/// The outcome of one replica of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaOutcome {
    pub job: String,
    /// The number of the replica, starting at 0.
    pub replica: u32,
    pub submitted: SimTime,
    /// The time of the first placement, over all attempts.
    pub placed: Option<SimTime>,
    /// The time of the first start, over all attempts.
    pub started: Option<SimTime>,
    pub ended: Option<SimTime>,
    /// The outcome, such as `completed` or `failed`; `None` if the replica had not ended.
    pub outcome: Option<&'static str>,
    /// The nodes of its last placement, in the order of the fleet.
    pub nodes: Vec<String>,
}

impl Outcome {
    /// Whether every expectation held.
    pub fn passed(&self) -> bool {
        self.rehearsed.verdicts.iter().all(|verdict| verdict.passed)
    }

    /// The verdict on each expectation, in the order of the scenario.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.rehearsed.verdicts
    }

    /// The end of the run: the time of the last record, or the time at which the scenario stops the run.
    pub fn end(&self) -> SimTime {
        self.rehearsed.until
    }

    /// The hash of the event log. Equal runs have equal hashes.
    pub fn digest(&self) -> String {
        self.rehearsed.digest.to_string()
    }

    /// A metric by its name in `metrics.json`. The end of the name states the unit; times are in seconds. `None` if the
    /// metric does not exist or is undefined for this run.
    pub fn metric(&self, name: &str) -> Option<f64> {
        match self.rehearsed.run_metrics.metrics().get(name)? {
            Value::Count(count) => Some(count as f64),
            Value::Time(time) => Some(time.as_secs_f64()),
            Value::Ratio(ratio) => Some(ratio),
            Value::Money(money) => Some(money.get() as f64 / 1e6),
            Value::Undefined => None,
        }
    }

    /// The names of all metrics, each with its meaning.
    pub fn metric_names() -> impl Iterator<Item = (&'static str, &'static str)> {
        dryrack_metrics::definitions().into_iter().map(|definition| (definition.name, definition.meaning))
    }

    /// All replicas, in the order in which their jobs were submitted.
    pub fn replicas(&self) -> Vec<ReplicaOutcome> {
        let accounts = self.rehearsed.run_metrics.accounts();
        let replica = |(attempt, job, replica): (dryrack_ids::AttemptId, &dryrack_metrics::JobAccount, &_)| {
            ReplicaOutcome::of(accounts, attempt, job, replica)
        };
        accounts.replicas().map(replica).collect()
    }

    /// How long the first replica of a job waited for its first placement. `None` if it was never placed or the job
    /// does not exist.
    pub fn queue_wait(&self, job: &str) -> Option<SimDuration> {
        let replica = self.replicas().into_iter().find(|replica| replica.job == job)?;
        Some(replica.placed?.since(replica.submitted))
    }
}

impl ReplicaOutcome {
    fn of(
        accounts: &RunAccount,
        attempt: dryrack_ids::AttemptId,
        job: &dryrack_metrics::JobAccount,
        replica: &dryrack_metrics::ReplicaAccount,
    ) -> ReplicaOutcome {
        let claims = replica.placement.iter().flat_map(|placement| placement.claims());
        ReplicaOutcome {
            job: job.spec.name.to_string(),
            replica: attempt.replica,
            submitted: job.submitted,
            placed: replica.placed,
            started: replica.started,
            ended: replica.ended,
            outcome: replica.outcome.map(|outcome| outcome.name()),
            nodes: claims.map(|claim| accounts.names.node(claim.node).to_string()).collect(),
        }
    }
}

/// Builds a [`Simulation`] from nodes, jobs and any other keys of a scenario file.
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
    /// Sets the title of the scenario, which reports show.
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

    /// Sets the scheduling profile by name (`easy`, `dstack`, …) or path. The default is `first-fit`.
    pub fn profile(self, name: &str) -> SimulationBuilder {
        self.set("profile", name)
    }

    /// Sets the seed of all random draws. The default is 1.
    pub fn seed(self, seed: u64) -> SimulationBuilder {
        self.set("seed", seed)
    }

    /// Stops the run before the first instant after this time, such as `2h`.
    pub fn until(self, time: &str) -> SimulationBuilder {
        self.set("until", time)
    }

    /// Adds an expectation in the form of a scenario file: `p95(queue_wait) <= 10m`, or an object such as
    /// `json!({"job": "chat", "is": "running", "by": "5m"})`.
    pub fn expect(mut self, expectation: impl Into<Json>) -> SimulationBuilder {
        self.expectations.push(expectation.into());
        self
    }

    /// Sets any other key of a scenario file, such as `faults`, `fleets` or `trace`.
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> SimulationBuilder {
        self.rest.insert(key.to_string(), value.into());
        self
    }

    /// The equivalent scenario file as JSON, which is valid YAML too.
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

    /// Validates the scenario.
    ///
    /// # Errors
    /// If the scenario is not valid. The error lists all faults, with their places in
    /// [`SimulationBuilder::text`].
    pub fn build(&self) -> Result<Simulation, Error> {
        Simulation::from_yaml(&self.text())
    }

    /// Validates the scenario and runs it.
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

    /// Sets the machine, which must be in the catalog (`dryrack catalog machines` lists all machines).
    pub fn machine(self, machine: &str) -> Node {
        self.set("machine", machine)
    }

    /// Makes several identical nodes, with names such as `a-0` and `a-1`.
    pub fn count(self, count: u32) -> Node {
        self.set("count", count)
    }

    /// Sets the number of cores, for a node without a machine.
    pub fn cpus(self, cores: u32) -> Node {
        self.set("cpus", cores)
    }

    /// Sets the RAM, such as `64GiB`.
    pub fn ram(self, size: &str) -> Node {
        self.set("ram", size)
    }

    /// Sets the initial state, such as `not_ready` or `maintenance`. The default is `ready`.
    pub fn state(self, state: &str) -> Node {
        self.set("state", state)
    }

    /// Sets any other key that a node has in a scenario file.
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> Node {
        self.0.insert(key.to_string(), value.into());
        self
    }
}

impl Job {
    pub fn new(name: &str) -> Job {
        Job(named(name))
    }

    /// Sets the submission time, such as `10m`. The default is the start of the run.
    pub fn at(self, time: &str) -> Job {
        self.set("at", time)
    }

    /// Sets how long the job runs, such as `1h`.
    pub fn duration(self, length: &str) -> Job {
        self.set("duration", length)
    }

    /// Sets the user's estimate of the run time. Backfill plans with it.
    pub fn estimate(self, length: &str) -> Job {
        self.set("estimate", length)
    }

    /// Sets the number of whole GPUs of each task.
    pub fn gpus(self, count: u32) -> Job {
        self.set("gpus", count)
    }

    /// Sets the required GPU model, such as `a100-80g`.
    pub fn gpu(self, model: &str) -> Job {
        self.set("gpu", model)
    }

    /// Sets the number of cores of each task.
    pub fn cpus(self, cores: u32) -> Job {
        self.set("cpus", cores)
    }

    /// Sets the number of tasks. They run together or not at all.
    pub fn tasks(self, count: u32) -> Job {
        self.set("tasks", count)
    }

    /// Makes several identical jobs, with names such as `j-0` and `j-1`.
    pub fn count(self, count: u32) -> Job {
        self.set("count", count)
    }

    /// Sets the time between the submissions of such jobs, such as `30s`.
    pub fn every(self, gap: &str) -> Job {
        self.set("every", gap)
    }

    /// Makes a job array, as `sbatch --array` does: `1-10%3` is ten tasks, of which three run at a time.
    pub fn array(self, tasks: &str) -> Job {
        self.set("array", tasks)
    }

    /// Makes the job wait for another one. The condition is `ok`, `any`, `notok`, `start` or `corr`. May be repeated.
    ///
    /// ```
    /// use dryrack::prelude::*;
    ///
    /// let outcome = Simulation::builder()
    ///     .node(Node::new("n").cpus(4))
    ///     .job(Job::new("prepare").array("1-4%2").cpus(1).duration("5m"))
    ///     .job(Job::new("train").after("ok", "prepare").cpus(4).duration("30m"))
    ///     .run()?;
    /// assert_eq!(outcome.queue_wait("train"), Some(SimDuration::from_secs(600)));
    /// # Ok::<(), dryrack::Error>(())
    /// ```
    pub fn after(mut self, condition: &str, job: &str) -> Job {
        let after = self.0.entry("after").or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(after) = after {
            let named = after.entry(condition).or_insert_with(|| Json::Array(Vec::new()));
            if let Json::Array(named) = named {
                named.push(job.into());
            }
        }
        self
    }

    /// Sets the least number of tasks with which the gang starts.
    pub fn min_tasks(self, count: u32) -> Job {
        self.set("min_tasks", count)
    }

    /// Adds a kind of tasks to a gang of unequal tasks, which start together.
    ///
    /// ```
    /// use dryrack::prelude::*;
    ///
    /// let outcome = Simulation::builder()
    ///     .node(Node::new("gpu").count(2).machine("a100-80g-x2"))
    ///     .node(Node::new("plain").cpus(2))
    ///     .job(
    ///         Job::new("train")
    ///             .task(Task::new("launcher").cpus(1))
    ///             .task(Task::new("worker").count(2).cpus(8).gpus(2))
    ///             .duration("30m"),
    ///     )
    ///     .run()?;
    /// assert_eq!(outcome.queue_wait("train"), Some(SimDuration::ZERO));
    /// # Ok::<(), dryrack::Error>(())
    /// ```
    pub fn task(mut self, task: Task) -> Job {
        match self.0.entry("tasks").or_insert_with(|| Json::Array(Vec::new())) {
            Json::Array(tasks) => tasks.push(Json::Object(task.0)),
            number => *number = Json::Array(vec![Json::Object(task.0)]),
        }
        self
    }

    pub fn priority(self, priority: i64) -> Job {
        self.set("priority", priority)
    }

    /// Sets any other key that a job has in a scenario file.
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> Job {
        self.0.insert(key.to_string(), value.into());
        self
    }
}

/// A kind of tasks of a gang of unequal tasks, for [`Job::task`].
#[derive(Clone, Debug)]
pub struct Task(Map<String, Json>);

impl Task {
    pub fn new(name: &str) -> Task {
        Task(named(name))
    }

    /// Sets the number of tasks of this kind.
    pub fn count(self, count: u32) -> Task {
        self.set("tasks", count)
    }

    /// Sets the least number of tasks of this kind with which the gang starts.
    pub fn min_tasks(self, count: u32) -> Task {
        self.set("min_tasks", count)
    }

    /// Sets the number of cores of each task.
    pub fn cpus(self, cores: u32) -> Task {
        self.set("cpus", cores)
    }

    /// Sets the number of whole GPUs of each task.
    pub fn gpus(self, count: u32) -> Task {
        self.set("gpus", count)
    }

    /// Sets any other key that a kind of tasks has in a scenario file.
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> Task {
        self.0.insert(key.to_string(), value.into());
        self
    }
}
