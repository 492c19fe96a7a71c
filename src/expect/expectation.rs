//! Expectations as data, with all names resolved.

use std::cmp::Ordering;
use std::sync::Arc;

use dryrack_event::{Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{GpuState, InstanceState, NodeState};
use dryrack_ids::{GpuId, JobId, NodeId};
use dryrack_metrics::{Definition, Function, Series};
use dryrack_units::{Permille, SimDuration, SimTime};

/// A position in a scenario file; line and column are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The name of this expectation; for an entry about several subjects, `runs[chat-0]`.
    pub name: Arc<str>,
    /// The name of the entry: `runs`.
    pub entry: Arc<str>,
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
        /// Only for jobs: the node on which a replica must have a claim.
        on: Option<NodeId>,
        /// Only with `on`: the number of blocks of that node that each replica holds.
        blocks: Option<BlockCount>,
        /// Only for jobs: a reason that the last stated reasons contain.
        because: Option<Reason>,
        /// Only for jobs: at least this many replicas; all if absent.
        replicas: Option<u32>,
        window: Window,
    },
    /// `{count: placed, job: chat, is: 2}`, `{count: retry, is: <= 3, until: 1h}`, and of any event that gives a reason
    /// `{reason: node_lost, never: given}`
    Count {
        /// The event to count; any if absent.
        event: Option<EventName>,
        subject: Option<Subject>,
        /// Counts only events that give this reason.
        because: Option<Reason>,
        whose: Whose,
        is: Comparison,
        window: Window,
    },
    /// `{evaluate: chat, is: incompatible, because: os_mismatch, at: 5m}`
    Evaluation { job: JobId, at: SimTime, is: Judgement, because: Option<Reason> },
    /// `p95(queue_wait) <= 10m`
    Metric(MetricCheck),
    /// Every job could be placed if every node were ready and empty. Implied if a file expects nothing.
    EachCanRun,
    /// An expectation about randomly generated jobs, none of which has this name: it cannot be judged.
    Absent { pattern: Arc<str> },
}

/// A number of blocks of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockCount {
    /// All blocks of the node.
    All,
    Some(Comparison),
}

/// The jobs whose events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Any,
    /// Jobs whose cancellation was requested before the event.
    Cancelled,
}

/// The result of an evaluation before deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The job would be placed.
    Fits,
    /// The job would not be placed as things stand.
    Unfit,
    /// The job would not be placed even if every node were ready and empty.
    Incompatible,
}

/// How jobs that can never run, or still wait when the run ends, affect an expectation on waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unplaced {
    /// An upper bound on waiting fails if a job can never run, or if jobs that still wait already break it.
    #[default]
    Fail,
    /// Such jobs do not count: the file says `unplaced: ignore`.
    Ignore,
}

/// A metric compared with a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricCheck {
    pub quantity: Quantity,
    pub sign: Sign,
    pub bound: Bound,
    /// How jobs that can never run affect a bound on waiting.
    pub unplaced: Unplaced,
    /// The text in the file: `p95(queue_wait) <= 10m`.
    pub text: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// One number for the whole run.
    Run(&'static Definition),
    /// The GPU allocation when the GPUs requested so far were this percentage of all GPUs.
    AllocatedAt { percent: u32 },
    /// An aggregate of the values of all replicas.
    Of { function: Function, series: Series, of: Restriction },
}

/// The jobs that a series covers; all stated conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restriction {
    /// In order of their ids.
    pub jobs: Option<Arc<[JobId]>>,
    pub queue: Option<Arc<str>>,
    pub user: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    Less,
    AtMost,
    Equal,
    Unequal,
    AtLeast,
    More,
}

/// A bound, in the unit of the quantity it bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Count(u64),
    Time(SimDuration),
    Part(Permille),
    /// In millionths of the whole.
    FinePart(u64),
    /// In millionths.
    Number(u64),
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
    /// Ended for good with this outcome.
    Outcome(Outcome),
    Node(NodeState),
    /// The state of an instance that a cloud makes.
    Instance(InstanceState),
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

/// The time of an expectation. The state "at t" is the state after everything of that instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// For `Is` the end of the run; for the others the whole run.
    Unstated,
    At(SimTime),
    /// At or before.
    By(SimTime),
    /// From the start to just before this time.
    Until(SimTime),
    /// From this time on.
    After(SimTime),
    /// Each instant from the first to before the second.
    Throughout(SimTime, SimTime),
    /// At or before this time after the job's submission.
    Within(SimDuration),
    /// Before the first instant of another state, which must occur.
    BeforeState(Landmark),
    /// From the first instant of another state on, which must occur. With `Is`, the state must hold there for the
    /// first time.
    AfterState(Landmark),
}

/// A state of another subject that sets a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landmark {
    pub subject: Subject,
    pub state: State,
    /// Only for jobs.
    pub on: Option<NodeId>,
    /// Only for jobs.
    pub because: Option<Reason>,
}

/// The events that can be counted, by their names in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventName {
    Submitted,
    AnalysisStarted,
    Held,
    Placed,
    CommitRefused,
    Preparing,
    Started,
    Stopping,
    Ended,
    ClaimFreed,
    JobEnded,
    Retry,
    DeadlineExpired,
    SafetyBroken,
    NodeChanged,
    GpuChanged,
    InstanceChanged,
    PolicyBound,
    PolicyFired,
    PolicyWarned,
    SampleOdd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Exactly(u64),
    AtLeast(u64),
    AtMost(u64),
}

/// A bug report that is reproduced under this profile: the named expectations fail, and every witness holds.
#[derive(Clone, Debug)]
pub struct Reproduction {
    pub profile: Arc<str>,
    pub place: SourcePlace,
    pub fails: Vec<Arc<str>>,
    pub and: Vec<Expectation>,
}

impl EventName {
    pub const ALL: [(EventName, &'static str); 21] = [
        (EventName::Submitted, "submitted"),
        (EventName::AnalysisStarted, "analysis_started"),
        (EventName::Held, "held"),
        (EventName::Placed, "placed"),
        (EventName::CommitRefused, "commit_refused"),
        (EventName::Preparing, "preparing"),
        (EventName::Started, "started"),
        (EventName::Stopping, "stopping"),
        (EventName::Ended, "ended"),
        (EventName::ClaimFreed, "claim_freed"),
        (EventName::JobEnded, "job_ended"),
        (EventName::Retry, "retry"),
        (EventName::DeadlineExpired, "deadline_expired"),
        (EventName::SafetyBroken, "safety_broken"),
        (EventName::NodeChanged, "node_changed"),
        (EventName::GpuChanged, "gpu_changed"),
        (EventName::InstanceChanged, "instance_changed"),
        (EventName::PolicyBound, "policy_bound"),
        (EventName::PolicyFired, "policy_fired"),
        (EventName::PolicyWarned, "policy_warned"),
        (EventName::SampleOdd, "sample_odd"),
    ];
}

impl Judgement {
    pub const ALL: [(Judgement, &'static str); 3] =
        [(Judgement::Fits, "fits"), (Judgement::Unfit, "unfit"), (Judgement::Incompatible, "incompatible")];

    pub fn of(refusal: Option<Refusal>) -> Judgement {
        match refusal {
            None => Judgement::Fits,
            Some(Refusal::Unfit) => Judgement::Unfit,
            Some(Refusal::Never) => Judgement::Incompatible,
        }
    }

    pub fn name(self) -> &'static str {
        Judgement::ALL.iter().find(|(known, _)| *known == self).expect("every judgement has a row").1
    }
}

impl Sign {
    /// All signs, longer ones first, so that the first match is the one that was written.
    pub const ALL: [(Sign, &'static str); 7] = [
        (Sign::AtMost, "<="),
        (Sign::AtLeast, ">="),
        (Sign::Equal, "=="),
        (Sign::Unequal, "!="),
        (Sign::Less, "<"),
        (Sign::More, ">"),
        (Sign::Equal, "="),
    ];

    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Sign::Less => order.is_lt(),
            Sign::AtMost => order.is_le(),
            Sign::Equal => order.is_eq(),
            Sign::Unequal => order.is_ne(),
            Sign::AtLeast => order.is_ge(),
            Sign::More => order.is_gt(),
        }
    }
}
