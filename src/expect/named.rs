//! The names of events in expectations.

use super::expectation::{EventName, Subject};
use dryrack_event::{Event, Phase, Reason};
use dryrack_ids::{AttemptId, JobId};
use dryrack_workload::PolicyMode;

/// The name under which an event is counted, and the attempt that the event is about.
pub(super) fn kind(event: &Event) -> (Option<EventName>, Option<AttemptId>) {
    match event {
        Event::NodeChanged { .. } => (Some(EventName::NodeChanged), None),
        Event::GpuChanged { .. } => (Some(EventName::GpuChanged), None),
        Event::InstanceChanged { .. } => (Some(EventName::InstanceChanged), None),
        Event::Held { attempt, .. } => (Some(EventName::Held), Some(*attempt)),
        Event::Placed { attempt, .. } => (Some(EventName::Placed), Some(*attempt)),
        Event::CommitRefused { attempt, .. } => (Some(EventName::CommitRefused), Some(*attempt)),
        Event::Moved { attempt, to, .. } => {
            let name = match to {
                Phase::Running => Some(EventName::Started),
                Phase::Stopping => Some(EventName::Stopping),
                Phase::Preparing => Some(EventName::Preparing),
                Phase::Pending | Phase::Analysing | Phase::Scheduled | Phase::Ended => None,
            };
            (name, Some(*attempt))
        }
        Event::AnalysisStarted { attempt } => (Some(EventName::AnalysisStarted), Some(*attempt)),
        Event::Ended { attempt, .. } => (Some(EventName::Ended), Some(*attempt)),
        Event::ClaimFreed { attempt, .. } => (Some(EventName::ClaimFreed), Some(*attempt)),
        Event::Retry { attempt, .. } => (Some(EventName::Retry), Some(*attempt)),
        Event::DeadlineExpired { attempt, .. } => (Some(EventName::DeadlineExpired), Some(*attempt)),
        Event::SafetyBroken { attempt, .. } => (Some(EventName::SafetyBroken), Some(*attempt)),
        Event::JobEnded { .. } => (Some(EventName::JobEnded), None),
        Event::PolicyBound { attempt, .. } => (Some(EventName::PolicyBound), Some(*attempt)),
        Event::PolicyFired { attempt, .. } => (Some(EventName::PolicyFired), Some(*attempt)),
        Event::PolicyWarned { attempt, .. } => (Some(EventName::PolicyWarned), Some(*attempt)),
        Event::SampleOdd { attempt, .. } => (Some(EventName::SampleOdd), Some(*attempt)),
        Event::Preempted { attempt, .. } => (Some(EventName::Preempted), Some(*attempt)),
        Event::Admitted { job, .. } => (Some(EventName::Admitted), Some(first(*job))),
        Event::NotAdmitted { job, .. } => (Some(EventName::NotAdmitted), Some(first(*job))),
        Event::Evicted { job, .. } => (Some(EventName::Evicted), Some(first(*job))),
        Event::ReplicaAdded { attempt } => (None, Some(*attempt)),
        // The answer to a query changes nothing, so it is not counted.
        Event::Evaluated { .. } => (None, None),
    }
}

/// The first attempt of a job, which stands for the job.
fn first(job: JobId) -> AttemptId {
    AttemptId { job, replica: 0, number: 1 }
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
        | Event::NotAdmitted { because, .. }
        | Event::Evicted { because, .. }
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
        | Event::Admitted { .. }
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
            | EventName::NotAdmitted
            | EventName::Evicted
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
            | EventName::Admitted
            | EventName::Preempted => false,
        }
    }

    /// Whether an event of this kind can be about this subject. Events about a node or a GPU are its own events and the
    /// events of attempts that have a claim on it.
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
            | EventName::Admitted
            | EventName::NotAdmitted
            | EventName::Evicted
            | EventName::Preempted => true,
        }
    }
}
