//! What happened in a run: where each job was placed, which jobs waited, and which safety rules were broken.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_engine::{Progress, Rehearsal};
use dryrack_event::{Event, External, Input, Outside, Safety, Sink};
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::AttemptId;
use dryrack_units::{Bytes, Money, SimTime};
use dryrack_workload::JobSpec;

/// A limit on records that is far above the number of records of a small world.
const MOST_RECORDS: u64 = 200_000;

/// The decisions of one run.
#[derive(Clone, Debug)]
pub struct Observed {
    pub nodes: Vec<ObservedNode>,
    pub jobs: Vec<ObservedJob>,
    /// The placements, in the order in which they were made.
    pub placements: Vec<Placed>,
    pub broken: Vec<Broken>,
    /// The answers to evaluations, by the name of the job.
    pub answers: BTreeMap<Arc<str>, Answered>,
    /// Why the program failed.
    pub failure: Option<String>,
    /// When the run ended.
    pub until: SimTime,
    /// When the world ends at the latest: its `until`.
    pub limit: SimTime,
}

#[derive(Clone, Debug)]
pub struct ObservedNode {
    pub name: Arc<str>,
    pub is_ready: bool,
    /// Whether its readiness never changed during the run.
    pub is_steady: bool,
    /// The region, if the node is an instance in a cloud.
    pub region: Option<Arc<str>>,
    pub price: Money,
    pub has_foreign_use: bool,
    pub gpu_reserve: Bytes,
}

#[derive(Clone, Debug)]
pub struct ObservedJob {
    pub at: SimTime,
    pub spec: Arc<JobSpec>,
    /// The texts with which the program explained that the job waits or is refused, each once.
    pub texts: Vec<Arc<str>>,
    /// For each replica that has ended for good, the time of its end.
    pub ended: BTreeMap<u32, SimTime>,
    pub is_cancelled: bool,
}

/// The name of a node, the indexes of the GPUs, and the indexes of the blocks.
pub type Place = (Arc<str>, Vec<u16>, Vec<u16>);

#[derive(Clone, Debug)]
pub struct Placed {
    pub at: SimTime,
    pub job: usize,
    pub replica: u32,
    pub parts: Vec<Part>,
    pub ended: Option<SimTime>,
}

/// The part of a placement on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub node: usize,
    pub name: Arc<str>,
    /// The index of each GPU, and the memory that the placement holds on it.
    pub gpus: Vec<(u16, Bytes)>,
    pub blocks: Vec<u16>,
}

#[derive(Clone, Debug)]
pub struct Broken {
    pub at: SimTime,
    pub job: usize,
    pub node: usize,
    pub what: Safety,
}

#[derive(Clone, Debug)]
pub struct Answered {
    pub fits: bool,
    pub text: Option<Arc<str>>,
}

impl Observed {
    pub fn name(&self, job: usize) -> &str {
        &self.jobs[job].spec.name
    }

    /// The placements of a job, in the order in which they were made.
    pub fn of(&self, job: usize) -> impl Iterator<Item = &Placed> {
        self.placements.iter().filter(move |placed| placed.job == job)
    }

    /// Whether each replica of the job was placed at some time.
    pub fn is_placed(&self, job: usize) -> bool {
        let mut replicas: Vec<u32> = self.of(job).map(|placed| placed.replica).collect();
        replicas.sort_unstable();
        replicas.dedup();
        replicas.len() as u32 >= self.jobs[job].spec.replicas
    }

    /// Whether no replica of the job was ever placed.
    pub fn is_never_placed(&self, job: usize) -> bool {
        self.of(job).next().is_none()
    }

    pub fn is_safe(&self, job: usize) -> bool {
        self.broken.iter().all(|broken| broken.job != job)
    }

    /// The placements before a time, by names, so that two worlds can be compared.
    pub fn before(&self, at: SimTime) -> Vec<(Arc<str>, u32, Vec<Place>)> {
        let placed = self.placements.iter().filter(|placed| placed.at < at);
        placed.map(|placed| (Arc::clone(&self.jobs[placed.job].spec.name), placed.replica, placed.places())).collect()
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.jobs.iter().position(|job| &*job.spec.name == name)
    }
}

impl Placed {
    pub fn gpus(&self) -> usize {
        self.parts.iter().map(|part| part.gpus.len()).sum()
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.parts.iter().any(|part| &*part.name == name)
    }

    /// The places without the held amounts, in a fixed order.
    pub fn places(&self) -> Vec<Place> {
        let place = |part: &Part| {
            let gpus = part.gpus.iter().map(|(index, _)| *index).collect();
            (Arc::clone(&part.name), gpus, part.blocks.clone())
        };
        let mut places: Vec<_> = self.parts.iter().map(place).collect();
        places.sort();
        places
    }

    /// The place as text: `alpha/0 and alpha/1`, or the names of the nodes if no GPUs are held.
    pub fn text(&self) -> String {
        let mut places: Vec<String> = Vec::new();
        for part in &self.parts {
            match part.gpus.as_slice() {
                [] => places.push(part.name.to_string()),
                gpus => places.extend(gpus.iter().map(|(index, _)| format!("{}/{index}", part.name))),
            }
        }
        joined(&places)
    }
}

/// Joins words to a list such as `a, b and c`.
pub fn joined(words: &[String]) -> String {
    match words {
        [] => "nothing".to_string(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Collects the decisions from the records of a run.
pub struct Recorder<'p> {
    observed: Observed,
    left: u64,
    progress: &'p Progress,
}

impl<'p> Recorder<'p> {
    pub fn new(rehearsal: &Rehearsal, progress: &'p Progress) -> Recorder<'p> {
        let nodes = rehearsal.nodes.iter().map(|node| ObservedNode {
            name: Arc::clone(&node.spec.name),
            is_ready: node.state == NodeState::Ready && node.gpus.iter().all(|(_, state, _)| is_usable(*state)),
            is_steady: true,
            region: (node.spec.shape.instance.as_ref())
                .filter(|instance| &*instance.backend != "remote")
                .map(|instance| Arc::clone(&instance.region)),
            price: node.spec.shape.price_per_hour.unwrap_or_default(),
            has_foreign_use: node.gpus.iter().any(|(_, _, foreign)| !foreign.is_none()),
            gpu_reserve: node.spec.shape.reserved.gpu_memory,
        });
        let jobs = rehearsal.arrivals.iter().enumerate().map(|(index, arrival)| ObservedJob {
            at: arrival.at,
            spec: Arc::clone(&arrival.spec),
            texts: Vec::new(),
            ended: BTreeMap::new(),
            is_cancelled: rehearsal.cancellations.iter().any(|(_, job)| job.index() == index),
        });
        let observed = Observed {
            nodes: nodes.collect(),
            jobs: jobs.collect(),
            placements: Vec::new(),
            broken: Vec::new(),
            answers: BTreeMap::new(),
            failure: None,
            until: rehearsal.until.unwrap_or(SimTime::ZERO),
            limit: rehearsal.until.unwrap_or(SimTime::ZERO),
        };
        Recorder { observed, left: MOST_RECORDS, progress }
    }

    pub fn finish(self, until: SimTime, failure: Option<String>) -> Observed {
        Observed { until, failure, ..self.observed }
    }

    fn placed(&mut self, at: SimTime, attempt: AttemptId, placement: &Placement) {
        let parts = placement.claims().iter().map(|claim| Part {
            node: claim.node.index(),
            name: Arc::clone(&self.observed.nodes[claim.node.index()].name),
            gpus: claim.gpus.iter().map(|gpu| (gpu.index, gpu.memory)).collect(),
            blocks: claim.blocks.to_vec(),
        });
        let (job, replica, parts) = (attempt.job.index(), attempt.replica, parts.collect());
        self.observed.placements.push(Placed { at, job, replica, parts, ended: None });
    }

    fn over(&mut self, at: SimTime, attempt: AttemptId) {
        let is_it = |placed: &&mut Placed| placed.job == attempt.job.index() && placed.replica == attempt.replica;
        if let Some(placed) = self.observed.placements.iter_mut().rev().find(is_it) {
            placed.ended.get_or_insert(at);
        }
        self.observed.jobs[attempt.job.index()].ended.insert(attempt.replica, at);
    }

    fn text(&mut self, attempt: AttemptId, text: Option<&Arc<str>>) {
        let texts = &mut self.observed.jobs[attempt.job.index()].texts;
        if let Some(text) = text.filter(|text| !text.is_empty() && !texts.contains(text)) {
            texts.push(Arc::clone(text));
        }
    }
}

fn is_usable(state: dryrack_fleet::GpuState) -> bool {
    use dryrack_fleet::GpuState;
    match state {
        GpuState::Ready | GpuState::Degraded => true,
        GpuState::Draining | GpuState::Failed | GpuState::Unknown => false,
    }
}

impl Sink for Recorder<'_> {
    fn input(&mut self, _: u64, _: SimTime, input: &Input) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.progress.stop();
        }
        match input {
            Input::External(External::Said(Outside::Waits { attempt, text, .. })) => self.text(*attempt, text.as_ref()),
            Input::External(External::Said(Outside::Answers { name, refusal, text, .. })) => {
                let answered = Answered { fits: refusal.is_none(), text: text.clone() };
                self.observed.answers.insert(Arc::clone(name), answered);
            }
            _ => {}
        }
    }

    fn event(&mut self, _: u64, at: SimTime, event: &Event) {
        match event {
            Event::Placed { attempt, placement, .. } => self.placed(at, *attempt, placement),
            Event::Ended { attempt, .. } => self.over(at, *attempt),
            Event::Retry { attempt, .. } | Event::ReplicaAdded { attempt } => {
                self.observed.jobs[attempt.job.index()].ended.remove(&attempt.replica);
            }
            Event::NodeChanged { node, .. } => self.observed.nodes[node.index()].is_steady = false,
            Event::GpuChanged { gpu, .. } => self.observed.nodes[gpu.node.index()].is_steady = false,
            Event::SafetyBroken { attempt, node, what } => {
                let (job, node, what) = (attempt.job.index(), node.index(), *what);
                self.observed.broken.push(Broken { at, job, node, what });
            }
            _ => {}
        }
    }
}
