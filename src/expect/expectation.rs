//! Expectations as data. All names are resolved to ids.

use std::cmp::Ordering;
use std::sync::Arc;

use dryrack_event::{Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{GpuState, InstanceState, NodeState};
use dryrack_ids::{GpuId, JobId, NodeId};
use dryrack_metrics::{Definition, Function, RequestSeries, Series};
use dryrack_units::{Permille, SimDuration, SimTime};

/// A position in a scenario file. The line and the column are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The name of this expectation. If its entry is about several subjects, the name also has the subject:
    /// `runs[chat-0]`.
    pub name: Arc<str>,
    /// The name of the entry in the file: `runs`.
    pub entry: Arc<str>,
    pub place: SourcePlace,
    pub what: ExpectationKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectationKind {
    /// `{job: chat, is: running, on: beta, by: 8m, because: …}`
    State {
        subject: Subject,
        state: State,
        mode: Mode,
        /// For jobs only: the node on which a replica must hold a claim.
        on: Option<NodeId>,
        /// Only together with `on`: the number of blocks of that node that each replica holds.
        blocks: Option<BlockCount>,
        /// For jobs only: a reason that must be among the last reasons given.
        because: Option<Reason>,
        /// For jobs only: the minimum number of replicas in the state. `None` means all replicas.
        replicas: Option<u32>,
        /// Only for the state `Holding` of a node: the jobs whose replicas count. `None` means all jobs.
        of: Option<Arc<[JobId]>>,
        window: Window,
    },
    /// `{count: placed, job: chat, is: 2}`, `{count: retry, is: <= 3, until: 1h}`, `{reason: node_lost, never: given}`
    /// (any event with that reason), or `{job: small, preempted_by: urgent}`.
    Count {
        /// The kind of event to count. `None` means all kinds.
        event: Option<EventName>,
        subject: Option<Subject>,
        /// If set, counts only events that give this reason.
        because: Option<Reason>,
        whose: CountedJobs,
        /// For preemptions only: the jobs for which a replica was preempted. `None` means any job.
        preempted_by: Option<Arc<[JobId]>>,
        is: Comparison,
        window: Window,
    },
    /// `{evaluate: chat, is: incompatible, because: os_mismatch, at: 5m}`
    Evaluation { job: JobId, at: SimTime, is: Judgement, because: Option<Reason> },
    /// `p95(queue_wait) <= 10m`
    Metric(MetricCheck),
    /// Every job could be placed if every node were ready and empty. A file without expectations implies this one.
    EachCanRun,
    /// No job of the run has a name that matches this pattern, so the expectation cannot be judged. This can happen
    /// only if jobs are generated randomly.
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
pub enum CountedJobs {
    Any,
    /// Jobs for which a cancellation was requested before the event.
    Cancelled,
}

/// The result of an evaluation before deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The job would be placed.
    Fits,
    /// The job would not be placed at that moment.
    Unfit,
    /// The job would not be placed even if every node were ready and empty.
    Incompatible,
}

/// How an expectation about waiting treats jobs that can never run, and jobs that still wait when the run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unplaced {
    /// An upper bound on waiting fails if a job can never run, or if the waits that have not ended already exceed the
    /// bound.
    #[default]
    Fail,
    /// Such jobs are ignored. The file says `unplaced: ignore`.
    Ignore,
}

/// A metric compared with a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricCheck {
    pub quantity: Quantity,
    pub sign: Sign,
    pub bound: Bound,
    /// How jobs that were never placed affect a bound on waiting.
    pub unplaced: Unplaced,
    /// The expectation as written in the file: `p95(queue_wait) <= 10m`.
    pub text: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// One number for the whole run.
    Run(&'static Definition),
    /// The GPU allocation at the moment when the total of requested GPUs was this percentage of all GPUs.
    AllocatedAt { percent: u32 },
    /// An aggregate of the values of all replicas.
    Of { function: Function, series: Series, of: Restriction },
    /// An aggregate of the values of all requests to services, or to these services only.
    OfRequests { function: Function, series: RequestSeries, jobs: Option<Arc<[JobId]>> },
}

/// The replicas that a series covers. All stated conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restriction {
    /// The jobs, in order of their ids.
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

/// A bound in the unit of the quantity that is compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Count(u64),
    Time(SimDuration),
    Part(Permille),
    /// A share in millionths.
    FinePart(u64),
    /// A number in millionths.
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
    /// Any phase in which an attempt holds a claim: scheduled, preparing, running or stopping.
    Placed,
    /// The job has ended for good with this outcome.
    Outcome(Outcome),
    Node(NodeState),
    /// The state of a cloud instance.
    Instance(InstanceState),
    Gpu(GpuState),
    /// The number of replicas that are placed on a node.
    Holding(Comparison),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The state holds at some instant of the window. If the window is `Throughout`, at every instant.
    Is,
    /// The state holds at no instant of the window.
    Never,
    /// The state holds at every instant of the window.
    Always,
}

/// The time of an expectation. The state "at t" is the state after all events of the instant t.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// No time is stated. `Is` then means the end of the run; the other modes mean the whole run.
    Unstated,
    At(SimTime),
    /// At this time or before it.
    By(SimTime),
    /// From the start to just before this time.
    Until(SimTime),
    /// From this time on, including it.
    After(SimTime),
    /// From the first time to just before the second.
    Throughout(SimTime, SimTime),
    /// From the job's submission to this time after it, both included.
    Within(SimDuration),
    /// Before the first instant of another state, which must occur.
    BeforeState(Landmark),
    /// From the first instant of another state on, which must occur. With `Is`, the expected state must begin to hold
    /// for the first time in this window.
    AfterState(Landmark),
}

/// A state of another subject. Its first instant is the beginning or the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landmark {
    pub subject: Subject,
    pub state: State,
    /// For jobs only: the node on which a replica must hold a claim.
    pub on: Option<NodeId>,
    /// For jobs only: a reason that must be among the last reasons given.
    pub because: Option<Reason>,
}

/// The kinds of events that can be counted. In files, each has the same name as in the log.
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
    Preempted,
    Admitted,
    NotAdmitted,
    Evicted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Exactly(u64),
    AtLeast(u64),
    AtMost(u64),
}

/// How a bug report is reproduced: the named expectations fail, and every witness holds.
#[derive(Clone, Debug)]
pub struct Reproduction {
    pub under: ReproducedUnder,
    pub place: SourcePlace,
    pub fails: Vec<Arc<str>>,
    pub and: Vec<Expectation>,
}

/// The profile or program that decides while a bug report is reproduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReproducedUnder {
    /// dryrack, by the rules of a profile: its name, or its path relative to the scenario file.
    Profile(Arc<str>),
    /// A released program such as `gpustack==2.3.0`, or a command line.
    Outside(Arc<str>),
}

impl ReproducedUnder {
    pub fn text(&self) -> &Arc<str> {
        match self {
            ReproducedUnder::Profile(text) | ReproducedUnder::Outside(text) => text,
        }
    }

    pub fn profile(&self) -> Option<&str> {
        match self {
            ReproducedUnder::Profile(profile) => Some(profile),
            ReproducedUnder::Outside(_) => None,
        }
    }
}

impl EventName {
    pub const ALL: [(EventName, &'static str); 25] = [
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
        (EventName::Preempted, "preempted"),
        (EventName::Admitted, "admitted"),
        (EventName::NotAdmitted, "not_admitted"),
        (EventName::Evicted, "evicted"),
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
    /// All signs. Longer signs come before their prefixes, so the first match is the sign in the text.
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
