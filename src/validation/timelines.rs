//! The timeline of each attempt, computed from events.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_event::{AttemptTimeline, Event, Input, Lifecycle, Outcome, Phase, Reason, Record, RecordBody, Sink};
use dryrack_fleet::Placement;
use dryrack_ids::{GpuId, Names, RunId};
use dryrack_units::SimTime;

/// Collects timelines from all records of a run. `names` must contain all nodes and jobs of the run.
pub struct Timelines {
    names: Names,
    runs: BTreeMap<RunId, AttemptTimeline>,
}

impl Timelines {
    pub fn new(names: Names) -> Timelines {
        Timelines { names, runs: BTreeMap::new() }
    }

    /// The timelines, in order of jobs, replicas and attempts.
    pub fn finish(self) -> Vec<AttemptTimeline> {
        self.runs.into_values().collect()
    }

    fn run(&mut self, run: RunId) -> &mut AttemptTimeline {
        let names = &self.names;
        self.runs.entry(run).or_insert_with(|| AttemptTimeline {
            job: Arc::from(names.job(run.job)),
            replica: run.replica,
            attempt: run.attempt,
            on: Vec::new(),
            placed: None,
            started: None,
            fired: None,
            stopping: None,
            ended: None,
            outcome: None,
            because: None,
        })
    }

    fn place(&self, placement: &Placement) -> Vec<String> {
        let of_claim = |claim: &dryrack_fleet::NodeClaim| -> Vec<String> {
            match claim.gpus.is_empty() {
                true => vec![self.names.node(claim.node).to_string()],
                false => {
                    let gpu = |index| self.names.gpu(GpuId { node: claim.node, index });
                    claim.gpus.iter().map(|part| gpu(part.index)).collect()
                }
            }
        };
        placement.claims().iter().flat_map(of_claim).collect()
    }

    fn end(&mut self, run: RunId, at: SimTime, outcome: Option<Outcome>, because: Reason) {
        let known = self.run(run);
        (known.ended, known.because) = (Some(at), Some(because));
        known.outcome = outcome;
    }
}

impl Sink for Timelines {
    fn input(&mut self, _: u64, _: SimTime, _: &Input) {}

    fn event(&mut self, _: u64, at: SimTime, event: &Event) {
        match event {
            Event::Placed { run, placement, .. } => {
                let on = self.place(placement);
                let known = self.run(*run);
                (known.on, known.placed) = (on, Some(at));
            }
            Event::Moved { run, to: Phase::Running, .. } => self.run(*run).started = Some(at),
            Event::Moved { run, to: Phase::Stopping, .. } => self.run(*run).stopping = Some(at),
            Event::PolicyFired { run, .. } | Event::PolicyWarned { run, .. } => {
                let known = self.run(*run);
                known.fired = known.fired.or(Some(at));
            }
            Event::Ended { run, outcome, because, .. } => self.end(*run, at, Some(*outcome), *because),
            // The event names the new attempt, but its reason is about the end of the previous attempt.
            Event::Retry { run, because, .. } if run.attempt > 1 => {
                let before = RunId { attempt: run.attempt - 1, ..*run };
                if self.runs.get(&before).is_some_and(|known| known.ended.is_none()) {
                    self.end(before, at, None, *because);
                }
            }
            Event::NodeChanged { .. }
            | Event::GpuChanged { .. }
            | Event::InstanceChanged { .. }
            | Event::Held { .. }
            | Event::CommitRefused { .. }
            | Event::AnalysisStarted { .. }
            | Event::Moved { .. }
            | Event::ClaimFreed { .. }
            | Event::Retry { .. }
            | Event::DeadlineExpired { .. }
            | Event::SafetyBroken { .. }
            | Event::PolicyBound { .. }
            | Event::SampleOdd { .. }
            | Event::ReplicaAdded { .. }
            | Event::JobEnded { .. }
            | Event::Preempted { .. }
            | Event::Evaluated { .. } => {}
        }
    }
}

/// The timelines of a whole log.
pub fn timelines(records: &[Record], names: &Names) -> Vec<AttemptTimeline> {
    let mut timelines = Timelines::new(names.clone());
    for record in records {
        match &record.said {
            RecordBody::Input(input) => timelines.input(record.step, record.at, input),
            RecordBody::Event(event) => timelines.event(record.step, record.at, event),
        }
    }
    timelines.finish()
}

/// For each job with a failed start, the highest attempt number that failed to start. The re-rehearsal uses it.
pub(super) fn failed_starts(records: &[Record]) -> BTreeMap<dryrack_ids::JobId, u32> {
    let mut failed = BTreeMap::new();
    for record in records {
        if let RecordBody::Input(Input::Run { run, fact: Lifecycle::StartFailed }) = &record.said {
            let most: &mut u32 = failed.entry(run.job).or_default();
            *most = (*most).max(run.attempt);
        }
    }
    failed
}
