//! The names of events in expectations.

use super::expectation::{EventName, Subject};
use dryrack_event::{Event, Phase, Reason};
use dryrack_ids::RunId;
use dryrack_workload::PolicyMode;

/// The name under which an event is counted, and the run that the event is about.
pub(super) fn kind(event: &Event) -> (Option<EventName>, Option<RunId>) {
    match event {
        Event::NodeChanged { .. } => (Some(EventName::NodeChanged), None),
        Event::GpuChanged { .. } => (Some(EventName::GpuChanged), None),
        Event::InstanceChanged { .. } => (Some(EventName::InstanceChanged), None),
        Event::Held { run, .. } => (Some(EventName::Held), Some(*run)),
        Event::Placed { run, .. } => (Some(EventName::Placed), Some(*run)),
        Event::CommitRefused { run, .. } => (Some(EventName::CommitRefused), Some(*run)),
        Event::Moved { run, to, .. } => {
            let name = match to {
                Phase::Running => Some(EventName::Started),
                Phase::Stopping => Some(EventName::Stopping),
                Phase::Preparing => Some(EventName::Preparing),
                Phase::Pending | Phase::Analysing | Phase::Scheduled | Phase::Ended => None,
            };
            (name, Some(*run))
        }
        Event::AnalysisStarted { run } => (Some(EventName::AnalysisStarted), Some(*run)),
        Event::Ended { run, .. } => (Some(EventName::Ended), Some(*run)),
        Event::ClaimFreed { run, .. } => (Some(EventName::ClaimFreed), Some(*run)),
        Event::Retry { run, .. } => (Some(EventName::Retry), Some(*run)),
        Event::DeadlineExpired { run, .. } => (Some(EventName::DeadlineExpired), Some(*run)),
        Event::SafetyBroken { run, .. } => (Some(EventName::SafetyBroken), Some(*run)),
        Event::JobEnded { .. } => (Some(EventName::JobEnded), None),
        Event::PolicyBound { run, .. } => (Some(EventName::PolicyBound), Some(*run)),
        Event::PolicyFired { run, .. } => (Some(EventName::PolicyFired), Some(*run)),
        Event::PolicyWarned { run, .. } => (Some(EventName::PolicyWarned), Some(*run)),
        Event::SampleOdd { run, .. } => (Some(EventName::SampleOdd), Some(*run)),
        Event::Preempted { run, .. } => (Some(EventName::Preempted), Some(*run)),
        Event::ReplicaAdded { run } => (None, Some(*run)),
        // The answer to a query changes nothing, so it is not counted.
        Event::Evaluated { .. } => (None, None),
    }
}

/// Whether the event gives this reason.
pub(super) fn gives(event: &Event, reason: Reason) -> bool {
    match event {
        Event::Held { reasons, .. } | Event::Evaluated { reasons, .. } => reasons.contains(reason),
        Event::NodeChanged { because, .. }
        | Event::InstanceChanged { because, .. }
        | Event::CommitRefused { because, .. }
        | Event::Ended { because, .. }
        | Event::Retry { because, .. }
        | Event::JobEnded { because, .. } => *because == reason,
        Event::Moved { because, .. } => *because == Some(reason),
        Event::DeadlineExpired { .. } => reason == Reason::DeadlineExpired,
        Event::PolicyFired { mode, .. } => *mode == PolicyMode::Enforce && reason == Reason::UtilizationPolicy,
        Event::GpuChanged { .. }
        | Event::PolicyBound { .. }
        | Event::PolicyWarned { .. }
        | Event::SampleOdd { .. }
        | Event::Placed { .. }
        | Event::AnalysisStarted { .. }
        | Event::ClaimFreed { .. }
        | Event::ReplicaAdded { .. }
        | Event::Preempted { .. }
        | Event::SafetyBroken { .. } => false,
    }
}

impl EventName {
    /// Whether an event of this kind can give this reason.
    pub fn can_give(self, reason: Reason) -> bool {
        match self {
            EventName::Held
            | EventName::CommitRefused
            | EventName::Preparing
            | EventName::Started
            | EventName::Stopping
            | EventName::Ended
            | EventName::JobEnded
            | EventName::Retry
            | EventName::NodeChanged
            | EventName::InstanceChanged => true,
            EventName::DeadlineExpired => reason == Reason::DeadlineExpired,
            EventName::PolicyFired => reason == Reason::UtilizationPolicy,
            EventName::Submitted
            | EventName::AnalysisStarted
            | EventName::Placed
            | EventName::ClaimFreed
            | EventName::SafetyBroken
            | EventName::GpuChanged
            | EventName::PolicyBound
            | EventName::PolicyWarned
            | EventName::SampleOdd
            | EventName::Preempted => false,
        }
    }

    /// Whether an event of this kind can be about this subject. Events about a node or a GPU are its own events and the
    /// events of runs that have a claim on it.
    pub fn can_concern(self, subject: Subject) -> bool {
        match self {
            EventName::NodeChanged | EventName::InstanceChanged => matches!(subject, Subject::Node(_)),
            EventName::SafetyBroken => !matches!(subject, Subject::Gpu(_)),
            EventName::GpuChanged => !matches!(subject, Subject::Job(_)),
            EventName::Submitted
            | EventName::AnalysisStarted
            | EventName::Held
            | EventName::CommitRefused
            | EventName::Retry
            | EventName::JobEnded => matches!(subject, Subject::Job(_)),
            EventName::Placed
            | EventName::Preparing
            | EventName::Started
            | EventName::Stopping
            | EventName::Ended
            | EventName::ClaimFreed
            | EventName::DeadlineExpired
            | EventName::PolicyBound
            | EventName::PolicyFired
            | EventName::PolicyWarned
            | EventName::SampleOdd
            | EventName::Preempted => true,
        }
    }
}
