//! The decisions of a scheduler, taken from the records of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_event::{Event, Input, Outcome, Record, RecordBody, Refusal, Sink};
use dryrack_ids::{JobId, Names};
use dryrack_report::{Filter, record_line};
use dryrack_units::SimTime;

/// The job that a decision is about, or the name that a question before deployment gives to its job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecisionAbout {
    Question(Arc<str>),
    Job(JobId),
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub at: SimTime,
    pub about: DecisionAbout,
    /// The decision with its score and its reasons: `10s chat placed on alpha/0, score 1`.
    pub line: String,
    /// The decision without its score and its reasons.
    pub(super) bare: String,
    /// Whether the job already waited before, and now waits for other reasons.
    pub(super) goes_on: bool,
    /// Whether the job stopped waiting at the same time. A job waits for an external scheduler until that scheduler
    /// answers, so a wait of zero length is not a decision of its own.
    pub(super) was_momentary: bool,
}

/// Collects the decisions of a run.
pub struct Decisions {
    names: Names,
    pub all: Vec<Decision>,
    /// For each waiting replica, the refusal and the index of the decision in `all`.
    waiting: BTreeMap<(JobId, u32), (Refusal, usize)>,
}

impl Decisions {
    pub fn new(names: Names) -> Decisions {
        Decisions { names, all: Vec::new(), waiting: BTreeMap::new() }
    }

    /// The decisions about jobs as lines, one decision in each.
    pub fn into_lines(self) -> Vec<String> {
        let of_jobs = self.all.into_iter().filter(|decision| matches!(decision.about, DecisionAbout::Job(_)));
        of_jobs.map(|decision| decision.line).collect()
    }
}

impl Sink for Decisions {
    fn input(&mut self, _step: u64, _at: SimTime, _input: &Input) {}

    fn event(&mut self, step: u64, at: SimTime, event: &Event) {
        let is_decision = match event {
            Event::Held { .. }
            | Event::Placed { .. }
            | Event::CommitRefused { .. }
            | Event::Retry { .. }
            | Event::DeadlineExpired { .. }
            | Event::Preempted { .. }
            | Event::Admitted { .. }
            | Event::NotAdmitted { .. }
            | Event::Evicted { .. }
            | Event::SafetyBroken { .. } => true,
            Event::JobEnded { outcome, .. } => *outcome != Outcome::Completed,
            _ => false,
        };
        let about = match event {
            Event::Evaluated { name, .. } => Some(DecisionAbout::Question(Arc::clone(name))),
            _ => event.job().filter(|_| is_decision).map(DecisionAbout::Job),
        };
        let Some(about) = about else { return };
        let record = Record { step, at, said: RecordBody::Event(event.clone()) };
        let line = record_line(&record, &self.names, &Filter::default()).unwrap_or_default();
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let replica = event.attempt().map(|run| (run.job, run.replica));
        let before = replica.and_then(|replica| self.waiting.remove(&replica));
        let (bare, goes_on) = match event {
            Event::Held { refusal, reasons, .. } => {
                self.waiting.extend(replica.map(|replica| (replica, (*refusal, self.all.len()))));
                let bare = line.strip_suffix(&reasons.to_string()).unwrap_or(&line);
                (bare.to_string(), before.is_some_and(|(known, _)| known == *refusal))
            }
            Event::Evaluated { reasons, .. } => {
                (line.strip_suffix(&reasons.to_string()).unwrap_or(&line).to_string(), false)
            }
            Event::Placed { .. } => (line.split(", score ").next().unwrap_or(&line).to_string(), false),
            _ => (line.clone(), false),
        };
        if let (Event::Placed { .. }, Some((_, index))) = (event, before) {
            let wait = &mut self.all[index];
            wait.was_momentary = wait.at == at;
        }
        self.all.push(Decision { at, about, line, bare, goes_on, was_momentary: false });
    }
}
