//! Replays the recorded actions to the control plane, and compares the control plane with the record after every
//! instant.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::super::kind::Difference;
use super::record::{RowRecord, Sequence, Step};
use dryrack_control::{Control, Profile, RowView};
use dryrack_event::{Command, FleetFact, Input, Lifecycle, Output, Phase, UserRequest};
use dryrack_fleet::NodeState;
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Ending;

/// The states of GPUStack's instances, each with the phase that it maps to. An `unreachable` instance runs on an
/// unreachable node. An instance in `error` waits for its next attempt.
const STATES: [(&str, Phase); 7] = [
    ("pending", Phase::Pending),
    ("analyzing", Phase::Analysing),
    ("scheduled", Phase::Scheduled),
    ("initializing", Phase::Preparing),
    ("running", Phase::Running),
    ("unreachable", Phase::Running),
    ("error", Phase::Pending),
];

/// Finds the first instant after which the rows, the queue or the nodes differ from the record. Returns the difference.
pub fn first_difference(sequence: &Sequence, profile: Arc<Profile>) -> Option<Difference> {
    let mut outside = Outside::new(sequence, profile);
    for instant in sequence.steps.chunk_by(|one, two| one.at_ms == two.at_ms) {
        let at = time(instant[0].at_ms);
        while let Some(wakeup) = outside.next().filter(|wakeup| *wakeup < at) {
            outside.instant(wakeup, &[]);
            if let Some(difference) = outside.difference(wakeup) {
                return Some(difference);
            }
        }
        outside.instant(at, instant);
        outside.recorded = instant.last();
        if let Some(difference) = outside.difference(at) {
            return Some(difference);
        }
    }
    None
}

fn time(ms: u64) -> SimTime {
    SimTime::ZERO.saturating_add(SimDuration::from_millis(ms))
}

/// The users and workers, which repeat their recorded actions and answer the commands of the control plane.
struct Outside<'s> {
    sequence: &'s Sequence,
    control: Control,
    /// The names of models, in order of job ids.
    jobs: Vec<Arc<str>>,
    /// The computations that are running, with the times at which they end.
    computations: BTreeMap<(SimTime, AttemptId), ()>,
    /// Inputs that the control plane still gets in the current instant.
    answers: VecDeque<Input>,
    recorded: Option<&'s Step>,
    /// The id of a row that a step refers to although the row does not exist.
    missing: Option<u64>,
}

impl<'s> Outside<'s> {
    fn new(sequence: &'s Sequence, profile: Arc<Profile>) -> Outside<'s> {
        let mut outside = Outside {
            sequence,
            control: Control::new(profile, 0),
            jobs: Vec::new(),
            computations: BTreeMap::new(),
            answers: VecDeque::new(),
            recorded: None,
            missing: None,
        };
        for (number, worker) in sequence.workers.iter().enumerate() {
            let node = NodeId::new(number);
            outside.apply(
                SimTime::ZERO,
                Input::Fleet(FleetFact::NodeDeclared { node, state: NodeState::Ready, spec: worker.spec() }),
            );
        }
        outside
    }

    fn next(&mut self) -> Option<SimTime> {
        let computed = self.computations.keys().next().map(|(at, _)| *at);
        let wakeup = self.control.next_wakeup().map(|(at, _)| at);
        [computed, wakeup].into_iter().flatten().min()
    }

    /// Handles one instant. First passes on the recorded actions, then answers commands until there are no more.
    fn instant(&mut self, at: SimTime, steps: &[Step]) {
        while let Some((&(due, attempt), ())) = self.computations.first_key_value() {
            if due > at {
                break;
            }
            self.computations.pop_first();
            self.answers.push_back(Input::Attempt { attempt, fact: Lifecycle::Analysed });
        }
        for step in steps {
            let inputs = self.inputs(step);
            self.answers.extend(inputs);
        }
        loop {
            while let Some(input) = self.answers.pop_front() {
                self.apply(at, input);
            }
            self.control.settle(at);
            self.obey(at);
            self.control.assert_integrity();
            let is_due = self.control.next_wakeup().is_some_and(|(wakeup, _)| wakeup <= at);
            if self.answers.is_empty() && !is_due {
                return;
            }
        }
    }

    fn apply(&mut self, at: SimTime, input: Input) {
        self.control.handle(at, &input);
        self.obey(at);
    }

    fn obey(&mut self, at: SimTime) {
        while let Some(output) = self.control.poll_output() {
            match output {
                Output::Command(Command::Analyse { attempt }) => {
                    let name = &self.jobs[attempt.job.index()];
                    let model = self.sequence.models.iter().find(|model| model.name == *name).expect("it was created");
                    self.computations.insert((at.saturating_add(model.computes()), attempt), ());
                }
                Output::Command(Command::AbandonAnalysis { attempt }) => {
                    self.computations.retain(|(_, computed), ()| *computed != attempt);
                }
                Output::Command(Command::Stop { attempt }) => {
                    self.answers.push_back(Input::Attempt { attempt, fact: Lifecycle::Stopped });
                }
                Output::Command(
                    Command::Submit { .. }
                    | Command::Withdraw { .. }
                    | Command::Start { .. }
                    | Command::Prepare { .. }
                    | Command::Sample { .. }
                    | Command::Begin { .. }
                    | Command::Provision { .. }
                    | Command::Terminate { .. },
                )
                | Output::Event(_) => {}
            }
        }
    }

    fn node(&self, step: &Step) -> NodeId {
        let name = step.worker.as_ref().expect("checked when it was read");
        let number = self.sequence.workers.iter().position(|worker| worker.name == *name);
        NodeId::new(number.expect("checked when it was read"))
    }

    fn job(&self, step: &Step) -> Option<JobId> {
        let name = step.model.as_ref()?;
        self.jobs.iter().position(|job| job == name).map(JobId::new)
    }

    fn inputs(&mut self, step: &Step) -> Vec<Input> {
        match step.call.as_str() {
            "create" => {
                let name = step.model.as_ref().expect("checked when it was read");
                let model = self.sequence.models.iter().find(|model| model.name == *name).expect("checked likewise");
                let job = JobId::new(self.jobs.len());
                self.jobs.push(Arc::clone(name));
                vec![Input::Submit { job, spec: Arc::new(model.spec()) }]
            }
            "scale" | "stop" => {
                let replicas = step.replicas.expect("checked when it was read");
                self.job(step).into_iter().map(|job| Input::User(UserRequest::Scale { job, replicas })).collect()
            }
            "silent" | "cut_off" => {
                let last = time(step.last_ms.expect("checked when it was read"));
                vec![Input::Fleet(FleetFact::HeartbeatMissed { node: self.node(step), last })]
            }
            "back" => {
                let node = self.node(step);
                let mut inputs = vec![Input::Fleet(FleetFact::HeartbeatBack { node })];
                inputs.push(Input::Fleet(FleetFact::NodeReported { node, state: NodeState::Ready }));
                inputs
            }
            // A worker's missing answer to a probe is a recorded event, so the control plane gets it as an input.
            // Whether heartbeats are too old is decided by the control plane itself.
            "syncer" => {
                let unreachable = |node: &NodeId| {
                    let name = &self.sequence.workers[node.index()].name;
                    step.workers.get(name).is_some_and(|state| state == "unreachable")
                        && self.control.fleet().node(*node).status.state == NodeState::Ready
                };
                let nodes = (0..self.sequence.workers.len()).map(NodeId::new).filter(unreachable);
                nodes
                    .map(|node| Input::Fleet(FleetFact::NodeReported { node, state: NodeState::Unreachable }))
                    .collect()
            }
            "report" => {
                let id = step.row.expect("checked when it was read");
                let Some(row) = self.control.rows().into_iter().find(|row| row.id == id) else {
                    self.missing = Some(id);
                    return Vec::new();
                };
                let fact = match (step.state.as_deref(), row.phase) {
                    (Some("initializing"), _) => Lifecycle::Preparing,
                    (Some("running"), _) => Lifecycle::Started,
                    (_, Phase::Running) => Lifecycle::Exited(Ending::Failed),
                    (_, _) => Lifecycle::StartFailed,
                };
                vec![Input::Attempt { attempt: row.attempt, fact }]
            }
            _ => Vec::new(),
        }
    }

    /// The first difference between the control plane and the record.
    fn difference(&self, at: SimTime) -> Option<Difference> {
        let recorded = self.recorded?;
        let differs = |kind, text: String| Some(Difference { kind, text: format!("{at}: {text}") });
        if let Some(id) = self.missing {
            return differs("rows", format!("row {id} is reported on, and there is none"));
        }
        let found: Vec<RowRecord> = self.control.rows().iter().map(|row| self.row_record(row)).collect();
        let wanted: Vec<RowRecord> = recorded.rows.iter().map(canonical).collect();
        if found != wanted {
            return differs("rows", format!("{}; recorded: {}", describe(&found), describe(&wanted)));
        }
        if self.control.row_queue() != recorded.queue {
            let queue = self.control.row_queue();
            return differs("queue", format!("{queue:?}; recorded: {:?}", recorded.queue));
        }
        let state = |(number, worker): (usize, &super::record::Worker)| {
            let state = match self.control.fleet().node(NodeId::new(number)).status.state {
                NodeState::Ready => return None,
                NodeState::Unreachable => "unreachable",
                _ => "not_ready",
            };
            Some((Arc::clone(&worker.name), state.to_string()))
        };
        let nodes: BTreeMap<Arc<str>, String> = self.sequence.workers.iter().enumerate().filter_map(state).collect();
        if nodes != recorded.workers {
            return differs("workers", format!("{nodes:?}; recorded: {:?}", recorded.workers));
        }
        None
    }

    fn row_record(&self, row: &RowView) -> RowRecord {
        let state = match row.failed {
            true => "error",
            false => STATES.iter().find(|(_, phase)| *phase == row.phase).map_or("ended", |(name, _)| name),
        };
        let main = row.placement.as_ref().and_then(|placement| placement.claims().iter().find(|claim| claim.tasks > 0));
        RowRecord {
            id: row.id,
            model: Arc::clone(&self.jobs[row.attempt.job.index()]),
            state: state.to_string(),
            worker: main.map(|claim| Arc::clone(&self.sequence.workers[claim.node.index()].name)),
            gpus: main.map_or(Vec::new(), |claim| claim.gpus.iter().map(|part| part.index).collect()),
        }
    }
}

/// Converts a recorded row to the form of dryrack's rows: the state that stands for its phase, and GPUs in order.
fn canonical(row: &RowRecord) -> RowRecord {
    let mut row = row.clone();
    row.gpus.sort_unstable();
    if row.state == "unreachable" {
        row.state = "running".to_string();
    }
    row
}

fn describe(rows: &[RowRecord]) -> String {
    let described = |row: &RowRecord| {
        let place = row.worker.as_ref().map_or("nowhere".to_string(), |worker| format!("{worker}{:?}", row.gpus));
        format!("{} {} {} {place}", row.id, row.model, row.state)
    };
    if rows.is_empty() { "no rows".to_string() } else { rows.iter().map(described).collect::<Vec<String>>().join(", ") }
}
