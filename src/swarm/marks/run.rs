//! What one run reaches, from its log.

use std::collections::BTreeSet;
use std::mem::{Discriminant, discriminant};

use super::{edge_mark, event_mark, reason_mark, word};
use dryrack_event::{Event, Input, Phase, Reason, Sink};
use dryrack_fleet::{InstanceState, NodeState};
use dryrack_ids::AttemptId;
use dryrack_units::SimTime;

/// A sink that notes what a run reaches.
#[derive(Default)]
pub struct RunMarks {
    reasons: BTreeSet<Reason>,
    /// The kinds of events that happened, each with its name.
    events: Vec<(Discriminant<Event>, String)>,
    attempts: BTreeSet<(Phase, Phase)>,
    /// The attempts that are being analysed.
    analysing: BTreeSet<AttemptId>,
    nodes: BTreeSet<(NodeState, NodeState)>,
    instances: BTreeSet<(InstanceState, InstanceState)>,
}

impl RunMarks {
    /// The names of all marks that the run has reached. A reason of a profile's own is no mark.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + '_ {
        let reasons = self.reasons.iter().filter(|reason| !matches!(reason, Reason::Own(_)));
        let attempts = self.attempts.iter().map(|(from, to)| edge_mark("attempt", word(from), word(to)));
        let nodes = self.nodes.iter().map(|(from, to)| edge_mark("node", word(from), word(to)));
        let instances = self.instances.iter().map(|(from, to)| edge_mark("instance", word(from), word(to)));
        let events = self.events.iter().map(|(_, name)| event_mark(name));
        reasons.map(|reason| reason_mark(*reason)).chain(events).chain(attempts).chain(nodes).chain(instances)
    }
}

impl Sink for RunMarks {
    fn input(&mut self, _: u64, _: SimTime, _: &Input) {}

    fn event(&mut self, _: u64, _: SimTime, event: &Event) {
        let kind = discriminant(event);
        if self.events.iter().all(|(known, _)| *known != kind) {
            // Ids have names only in a log, so an event alone has no JSON form.
            let text = format!("{event:?}");
            self.events.push((kind, word(text.split([' ', '{']).next().unwrap_or_default())));
        }
        match event {
            Event::NodeChanged { from, to, because, .. } => {
                self.nodes.insert((*from, *to));
                self.reasons.insert(*because);
            }
            Event::InstanceChanged { from, to, because, .. } => {
                self.instances.insert((*from, *to));
                self.reasons.insert(*because);
            }
            Event::Held { reasons, .. } | Event::Evaluated { reasons, .. } => {
                self.reasons.extend(reasons.iter().map(|(reason, _)| reason));
            }
            Event::Moved { attempt, from, to, because } => {
                self.attempts.insert((*from, *to));
                self.reasons.extend(because);
                self.analysing.remove(attempt);
                if *to == Phase::Analysing {
                    self.analysing.insert(*attempt);
                }
            }
            Event::Placed { attempt, .. } => {
                let is_analysed = self.analysing.remove(attempt);
                let from = if is_analysed { Phase::Analysing } else { Phase::Pending };
                self.attempts.insert((from, Phase::Scheduled));
            }
            Event::Ended { attempt, from, because, .. } => {
                self.attempts.insert((*from, Phase::Ended));
                self.reasons.insert(*because);
                self.analysing.remove(attempt);
            }
            Event::CommitRefused { because, .. }
            | Event::Retry { because, .. }
            | Event::JobEnded { because, .. }
            | Event::NotAdmitted { because, .. }
            | Event::Evicted { because, .. } => {
                self.reasons.insert(*because);
            }
            Event::GpuChanged { .. }
            | Event::AnalysisStarted { .. }
            | Event::ClaimFreed { .. }
            | Event::DeadlineExpired { .. }
            | Event::SafetyBroken { .. }
            | Event::PolicyBound { .. }
            | Event::PolicyFired { .. }
            | Event::PolicyWarned { .. }
            | Event::SampleOdd { .. }
            | Event::ReplicaAdded { .. }
            | Event::Preempted { .. }
            | Event::Admitted { .. } => {}
        }
    }
}
