//! The timeline of each attempt, computed from events.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_event::{AttemptTimeline, Event, Input, Lifecycle, Outcome, Phase, Reason, Record, RecordBody, Sink};
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, GpuId, Names};
use dryrack_units::SimTime;

/// Collects timelines from all records of a run. `names` must contain all nodes and jobs of the run.
pub struct Timelines {
    names: Names,
    attempts: BTreeMap<AttemptId, AttemptTimeline>,
}

impl Timelines {
    pub fn new(names: Names) -> Timelines {
        Timelines { names, attempts: BTreeMap::new() }
    }

    /// The timelines, in order of jobs, replicas and attempts.
    pub fn finish(self) -> Vec<AttemptTimeline> {
        self.attempts.into_values().collect()
    }

    fn attempt(&mut self, attempt: AttemptId) -> &mut AttemptTimeline {
        let names = &self.names;
        self.attempts.entry(attempt).or_insert_with(|| AttemptTimeline {
            job: Arc::from(names.job(attempt.job)),
            replica: attempt.replica,
            attempt: attempt.number,
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

    fn end(&mut self, attempt: AttemptId, at: SimTime, outcome: Option<Outcome>, because: Reason) {
        let known = self.attempt(attempt);
        (known.ended, known.because) = (Some(at), Some(because));
        known.outcome = outcome;
    }
}

impl Sink for Timelines {
    fn input(&mut self, _: u64, _: SimTime, _: &Input) {}

    fn event(&mut self, _: u64, at: SimTime, event: &Event) {
        match event {
            Event::Placed { attempt, placement, .. } => {
                let on = self.place(placement);
                let known = self.attempt(*attempt);
                (known.on, known.placed) = (on, Some(at));
            }
            Event::Moved { attempt, to: Phase::Running, .. } => self.attempt(*attempt).started = Some(at),
            Event::Moved { attempt, to: Phase::Stopping, .. } => self.attempt(*attempt).stopping = Some(at),
            Event::PolicyFired { attempt, .. } | Event::PolicyWarned { attempt, .. } => {
                let known = self.attempt(*attempt);
                known.fired = known.fired.or(Some(at));
            }
            Event::Ended { attempt, outcome, because, .. } => self.end(*attempt, at, Some(*outcome), *because),
            // The event names the new attempt, but its reason is about the end of the previous attempt.
            Event::Retry { attempt, because, .. } if attempt.number > 1 => {
                let before = AttemptId { number: attempt.number - 1, ..*attempt };
                if self.attempts.get(&before).is_some_and(|known| known.ended.is_none()) {
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
            | Event::Admitted { .. }
            | Event::NotAdmitted { .. }
            | Event::Evicted { .. }
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
        if let RecordBody::Input(Input::Attempt { attempt, fact: Lifecycle::StartFailed }) = &record.said {
            let most: &mut u32 = failed.entry(attempt.job).or_default();
            *most = (*most).max(attempt.number);
        }
    }
    failed
}
