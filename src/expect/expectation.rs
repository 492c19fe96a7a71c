//! An expectation as data, every name resolved.

use std::cmp::Ordering;
use std::sync::Arc;

use dryrack_event::{Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{GpuState, InstanceState, NodeState};
use dryrack_ids::{GpuId, JobId, NodeId};
use dryrack_metrics::{Definition, Function, Series};
use dryrack_units::{Permille, SimDuration, SimTime};

/// Where something stands in a scenario file; line and column counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Its own: of an entry about several subjects, `runs[chat-0]`.
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
        /// Only for jobs: with a claim on this node.
        on: Option<NodeId>,
        /// Only with `on`: how many blocks of that node each replica holds.
        blocks: Option<BlockCount>,
        /// Only for jobs: the reasons last said for it contain this one.
        because: Option<Reason>,
        /// Only for jobs: so many replicas at least; all if absent.
        replicas: Option<u32>,
        window: Window,
    },
    /// `{count: placed, job: chat, is: 2}`, `{count: retry, is: <= 3, until: 1h}`, and of any event that gives a reason
    /// `{reason: node_lost, never: given}`
    Count {
        /// Any if absent.
        event: Option<EventName>,
        subject: Option<Subject>,
        /// Only those that give this reason.
        because: Option<Reason>,
        whose: Whose,
        is: Comparison,
        window: Window,
    },
    /// `{evaluate: chat, is: incompatible, because: os_mismatch, at: 5m}`
    Evaluation { job: JobId, at: SimTime, is: Judgement, because: Option<Reason> },
    /// `p95(queue_wait) <= 10m`
    Metric(MetricCheck),
    /// Every job could be placed if every node were ready and empty: implied where a file expects nothing.
    EachCanRun,
    /// Of jobs that come by chance, and of which none of this name came: nothing can be said of it.
    Absent { pattern: Arc<str> },
}

/// A number of blocks of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockCount {
    /// All that the node is split into.
    All,
    Some(Comparison),
}

/// Of which jobs the events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Any,
    /// Of jobs whose cancellation had been asked for by then.
    Cancelled,
}

/// What an evaluation before deployment can find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It would be placed.
    Fits,
    /// Not as things stand.
    Unfit,
    /// Nor if every node were ready and empty.
    Incompatible,
}

/// What jobs that can never run, or still wait when the run ends, mean for an expectation on waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unplaced {
    /// No upper bound on waiting holds where a job can never run, nor where those who still wait break it already.
    #[default]
    Fail,
    /// They do not count: the file says `unplaced: ignore`.
    Ignore,
}

/// A metric held against a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricCheck {
    pub quantity: Quantity,
    pub sign: Sign,
    pub bound: Bound,
    /// What a job that can never run means for a bound on waiting.
    pub unplaced: Unplaced,
    /// As it is said: `p95(queue_wait) <= 10m`.
    pub text: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// One number for the whole run.
    Run(&'static Definition),
    /// The GPUs that were taken when those asked for so far were so many hundredths of all.
    AllocatedAt { percent: u32 },
    /// One number of those of all replicas.
    Of { function: Function, series: Series, of: Restriction },
}

/// Which jobs a series is taken of; each that is given must hold.
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

/// In the unit of what it bounds.
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
    /// Ended for good, so.
    Outcome(Outcome),
    Node(NodeState),
    /// Of a node that a cloud makes.
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
    /// At or before so long after the job's submission.
    Within(SimDuration),
    /// Before the first instant of another state, which must come to be.
    BeforeState(Landmark),
    /// From the first instant of another state on, which must come to be. With `Is`: for the first time then.
    AfterState(Landmark),
}

/// Another subject's state, by which a window is set.
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

/// Under this profile the report is visible again: the named expectations fail, and every witness holds.
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
    /// Longer ones first, so that the first that matches is the one that was written.
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
