//! An expectation as data, every name resolved.

use std::sync::Arc;

use crate::event::{Outcome, Phase, Reason};
use crate::fleet::{GpuState, NodeState};
use crate::ids::{GpuId, JobId, NodeId};
use crate::units::SimTime;

/// Where something stands in a scenario file; line and column counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    pub name: Arc<str>,
    pub place: SourcePlace,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// `{job: chat, is: running, on: beta, by: 8m, because: …}`
    State {
        subject: Subject,
        state: State,
        mode: Mode,
        /// Only for jobs: with a claim on this node.
        on: Option<NodeId>,
        /// Only for jobs: the reasons last said for it contain this one.
        because: Option<Reason>,
        /// Only for jobs: so many replicas at least; all if absent.
        replicas: Option<u32>,
        window: Window,
    },
    /// `{count: placed, job: chat, is: 2}`, `{count: retry, is: <= 3, until: 1h}`
    Count { event: EventName, subject: Option<Subject>, is: Comparison, window: Window },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Job(JobId),
    Node(NodeId),
    Gpu(GpuId),
}

/// A state that a subject can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Phase(Phase),
    /// Any phase that holds a claim: scheduled, preparing, running, stopping.
    Placed,
    /// Ended for good, so.
    Outcome(Outcome),
    Node(NodeState),
    Gpu(GpuState),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At some instant of the window; at every instant of it if the window is `Throughout`.
    Is,
    /// At no instant of the window.
    Never,
    /// At every instant of the window.
    Always,
}

/// When. A state "at t" is the one after everything of that instant has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// For `Is` the end of the run; for the others the whole run.
    Unstated,
    At(SimTime),
    /// At or before.
    By(SimTime),
    /// Before, from the start.
    Until(SimTime),
    /// From then on.
    After(SimTime),
    /// Each instant from the first to before the second.
    Throughout(SimTime, SimTime),
}

/// The events that can be counted, by their names in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventName {
    Submitted,
    AnalysisStarted,
    Held,
    Placed,
    CommitRefused,
    Started,
    Stopping,
    Ended,
    Retry,
    DeadlineExpired,
    SafetyBroken,
    NodeChanged,
    GpuChanged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Exactly(u64),
    AtLeast(u64),
    AtMost(u64),
}

/// Under this profile the report is visible again: the named expectations fail, and every witness holds.
#[derive(Clone, Debug)]
pub struct Reproduction {
    pub profile: Arc<str>,
    pub place: SourcePlace,
    pub fails: Vec<Arc<str>>,
    pub and: Vec<Expectation>,
}

impl EventName {
    pub const ALL: [(EventName, &'static str); 13] = [
        (EventName::Submitted, "submitted"),
        (EventName::AnalysisStarted, "analysis_started"),
        (EventName::Held, "held"),
        (EventName::Placed, "placed"),
        (EventName::CommitRefused, "commit_refused"),
        (EventName::Started, "started"),
        (EventName::Stopping, "stopping"),
        (EventName::Ended, "ended"),
        (EventName::Retry, "retry"),
        (EventName::DeadlineExpired, "deadline_expired"),
        (EventName::SafetyBroken, "safety_broken"),
        (EventName::NodeChanged, "node_changed"),
        (EventName::GpuChanged, "gpu_changed"),
    ];
}
