//! Judges a table of expectations about one small history.
//!
//! ```text
//!  0s    alpha and beta are declared ready, two GPUs each
//! 10s    chat (one replica) and pair (two) are submitted; chat is held: insufficient_gpus
//! 20s    chat is placed on alpha/0 and prepares
//! 30s    chat runs
//! 40s    alpha becomes unreachable; chat ends as lost, its claim kept, and is pending again for a second attempt
//! 50s    chat and the first of pair are placed on beta and run
//! 60s    the second of pair is placed on beta and runs
//! 70s    beta/1 fails
//! 80s    both of pair complete; late is submitted and held: queue_order
//! 90s    alpha is ready again, and the claim that chat left there is freed
//! 100s   chat is cancelled
//! ```

use std::sync::Arc;

use smallvec::smallvec;

use super::*;
use dryrack_event::{Event, FleetFact, Histogram, Input, Outcome, Phase, Reason, Refusal, Sink};
use dryrack_fleet::{GpuClaim, GpuShape, GpuState, NodeClaim, NodeShape, NodeSpec, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, Names, NodeId};
use dryrack_metrics::{RunAccount, RunMetrics};
use dryrack_units::{Bytes, GpuShare, MilliCpu, Score, SimTime};
use dryrack_workload::{Demand, JobSpec, TaskDemand};

const ALPHA: usize = 0;
const BETA: usize = 1;
const CHAT: usize = 0;
const PAIR: usize = 1;
const LATE: usize = 2;
const GHOST: usize = 3;

fn node(name: &str) -> NodeSpec {
    let gpu = GpuShape::of("l4", Bytes::from_gib(24));
    let shape = NodeShape::of(MilliCpu::from_cores(8), Bytes::from_gib(64), vec![gpu.clone(), gpu]);
    NodeSpec { name: name.into(), shape: Arc::new(shape) }
}

fn job(name: &str, replicas: u32) -> Arc<JobSpec> {
    let demand = Demand::of(TaskDemand::cpu_only(MilliCpu::ZERO));
    Arc::new(JobSpec { replicas, ..JobSpec::of(name.into(), demand) })
}

fn attempt(job: usize, replica: u32, attempt: u32) -> AttemptId {
    AttemptId { job: JobId::new(job), replica, number: attempt }
}

struct Script(Judge, RunAccount);

impl Script {
    fn record(&mut self, second: u64, event: Event) {
        self.0.event(0, SimTime::from_secs(second), &event);
        self.1.event(0, SimTime::from_secs(second), &event);
    }

    fn input(&mut self, second: u64, input: &Input) {
        self.0.input(0, SimTime::from_secs(second), input);
        self.1.input(0, SimTime::from_secs(second), input);
    }

    fn submit(&mut self, second: u64, id: usize, name: &str, replicas: u32) {
        let input = Input::Submit { job: JobId::new(id), spec: job(name, replicas) };
        self.input(second, &input);
    }

    fn place(&mut self, second: u64, attempt: AttemptId, node: usize, gpu: u16) {
        let part = GpuClaim { index: gpu, share: GpuShare::WHOLE, memory: Bytes::from_gib(24) };
        let gpus = smallvec![part];
        let node = NodeId::new(node);
        let claim =
            NodeClaim { node, tasks: 1, cpu: MilliCpu::ZERO, ram: Bytes::ZERO, gpus, blocks: smallvec![], sets: None };
        let placement = Placement::new(smallvec![claim]);
        self.record(second, Event::Placed { attempt, score: Score::ZERO, placement });
    }

    fn go(&mut self, second: u64, attempt: AttemptId, from: Phase, to: Phase) {
        self.record(second, Event::Moved { attempt, from, to, because: None });
    }

    fn hold(&mut self, second: u64, attempt: AttemptId, reason: Reason) {
        let reasons = Histogram::of(reason, 2);
        self.record(second, Event::Held { attempt, refusal: Refusal::Unfit, reasons });
    }

    fn end(&mut self, second: u64, attempt: AttemptId, outcome: Outcome, because: Reason, kept: &[usize]) {
        let kept = kept.iter().map(|node| NodeId::new(*node)).collect();
        self.record(second, Event::Ended { attempt, from: Phase::Running, outcome, because, kept });
    }

    fn end_job(&mut self, second: u64, job: usize, outcome: Outcome, because: Reason) {
        self.record(second, Event::JobEnded { job: JobId::new(job), outcome, because });
    }

    fn turn(&mut self, second: u64, node: usize, from: NodeState, to: NodeState) {
        let because = Reason::Reported;
        self.record(second, Event::NodeChanged { node: NodeId::new(node), from, to, because });
    }

    fn history(&mut self) {
        for (index, name) in ["alpha", "beta"].into_iter().enumerate() {
            let input = Input::Fleet(FleetFact::NodeDeclared {
                node: NodeId::new(index),
                state: NodeState::Ready,
                spec: node(name),
            });
            self.input(0, &input);
        }
        self.submit(10, CHAT, "chat", 1);
        self.submit(10, PAIR, "pair", 2);
        self.hold(10, attempt(CHAT, 0, 1), Reason::InsufficientGpus);
        self.place(20, attempt(CHAT, 0, 1), ALPHA, 0);
        self.go(20, attempt(CHAT, 0, 1), Phase::Scheduled, Phase::Preparing);
        self.go(30, attempt(CHAT, 0, 1), Phase::Preparing, Phase::Running);
        self.turn(40, ALPHA, NodeState::Ready, NodeState::Unreachable);
        self.end(40, attempt(CHAT, 0, 1), Outcome::Lost, Reason::NodeLost, &[ALPHA]);
        let at = SimTime::from_secs(45);
        self.record(40, Event::Retry { attempt: attempt(CHAT, 0, 2), at, because: Reason::NodeLost });
        for (second, id, gpu) in
            [(50, attempt(CHAT, 0, 2), 0), (50, attempt(PAIR, 0, 1), 1), (60, attempt(PAIR, 1, 1), 1)]
        {
            self.place(second, id, BETA, gpu);
            self.go(second, id, Phase::Scheduled, Phase::Running);
        }
        let gpu = GpuId { node: NodeId::new(BETA), index: 1 };
        self.record(70, Event::GpuChanged { gpu, from: GpuState::Ready, to: GpuState::Failed });
        for replica in [0, 1] {
            self.end(80, attempt(PAIR, replica, 1), Outcome::Completed, Reason::Completed, &[]);
        }
        self.end_job(80, PAIR, Outcome::Completed, Reason::Completed);
        self.submit(80, LATE, "late", 1);
        self.hold(80, attempt(LATE, 0, 1), Reason::QueueOrder);
        self.turn(90, ALPHA, NodeState::Unreachable, NodeState::Ready);
        self.record(90, Event::ClaimFreed { attempt: attempt(CHAT, 0, 1), node: NodeId::new(ALPHA) });
        self.end(100, attempt(CHAT, 0, 2), Outcome::Cancelled, Reason::Cancelled, &[]);
        self.end_job(100, CHAT, Outcome::Cancelled, Reason::Cancelled);
    }
}

fn judge(what: ExpectationKind, horizon: Horizon) -> Verdict {
    let mut names = Names::default();
    for name in ["alpha", "beta"] {
        names.nodes.add(name.into()).expect("a new name");
    }
    for name in ["chat", "pair", "late", "ghost"] {
        names.jobs.add(name.into()).expect("a new name");
    }
    let place = SourcePlace { file: "table".into(), line: 1, column: 1 };
    let judge = Judge::new(vec![Expectation { name: "row".into(), entry: "row".into(), place, what }], names);
    let mut script = Script(judge, RunAccount::default());
    script.history();
    let Script(judge, mut accounts) = script;
    accounts.finish(at(100));
    judge.finish(horizon, &RunMetrics::of(accounts)).remove(0)
}

fn at(second: u64) -> SimTime {
    SimTime::from_secs(second)
}

/// `{job: …, MODE: STATE}` with no other fields.
fn says(job: usize, mode: Mode, state: State, window: Window) -> ExpectationKind {
    let subject = Subject::Job(JobId::new(job));
    ExpectationKind::State {
        subject,
        state,
        mode,
        on: None,
        blocks: None,
        because: None,
        replicas: None,
        of: None,
        window,
    }
}

fn on(mut what: ExpectationKind, wanted: usize) -> ExpectationKind {
    if let ExpectationKind::State { on, .. } = &mut what {
        *on = Some(NodeId::new(wanted));
    }
    what
}

fn because(mut what: ExpectationKind, reason: Reason) -> ExpectationKind {
    if let ExpectationKind::State { because, .. } = &mut what {
        *because = Some(reason);
    }
    what
}

fn replicas(mut what: ExpectationKind, count: u32) -> ExpectationKind {
    if let ExpectationKind::State { replicas, .. } = &mut what {
        *replicas = Some(count);
    }
    what
}

fn of_node(node: usize, mode: Mode, state: NodeState, window: Window) -> ExpectationKind {
    let subject = Subject::Node(NodeId::new(node));
    ExpectationKind::State {
        subject,
        state: State::Node(state),
        mode,
        on: None,
        blocks: None,
        because: None,
        replicas: None,
        of: None,
        window,
    }
}

fn of_gpu(index: u16, mode: Mode, state: GpuState, window: Window) -> ExpectationKind {
    let subject = Subject::Gpu(GpuId { node: NodeId::new(BETA), index });
    ExpectationKind::State {
        subject,
        state: State::Gpu(state),
        mode,
        on: None,
        blocks: None,
        because: None,
        replicas: None,
        of: None,
        window,
    }
}

fn count(event: EventName, subject: Option<Subject>, is: Comparison, window: Window) -> ExpectationKind {
    ExpectationKind::Count {
        event: Some(event),
        subject,
        because: None,
        whose: CountedJobs::Any,
        preempted_by: None,
        is,
        window,
    }
}

const RUNNING: State = State::Phase(Phase::Running);
const PENDING: State = State::Phase(Phase::Pending);
const SCHEDULED: State = State::Phase(Phase::Scheduled);

/// The title as a sentence, the expectation, whether it must pass, and a part of the text that describes what happened.
type Row = (&'static str, ExpectationKind, bool, &'static str);

fn check(horizon: Horizon, rows: Vec<Row>) {
    for (sentence, what, passed, happened) in rows {
        let verdict = judge(what, horizon);
        assert_eq!(verdict.passed, passed, "{sentence}: {}", verdict.why());
        assert!(verdict.happened.contains(happened), "{sentence}: {:?} lacks {happened:?}", verdict.happened);
    }
}

#[test]
fn is_asks_for_one_instant_of_its_window() {
    use Mode::Is;
    use Window::*;
    check(
        Horizon::Everything,
        vec![
            ("without a window the end counts", says(LATE, Is, PENDING, Unstated), true, "1m20s pending (queue_order)"),
            ("what once was is not at the end", says(CHAT, Is, RUNNING, Unstated), false, "50s running on beta"),
            ("an instant includes what happens in it", says(CHAT, Is, RUNNING, At(at(30))), true, ""),
            ("an instant before is not yet so", says(CHAT, Is, RUNNING, At(at(29))), false, "20s preparing on alpha"),
            ("a state passed within an instant is none", says(CHAT, Is, SCHEDULED, By(at(100))), false, ""),
            ("by includes its instant", says(CHAT, Is, RUNNING, By(at(30))), true, ""),
            ("until excludes its instant", says(CHAT, Is, RUNNING, Until(at(30))), false, "30s running on alpha"),
            ("after includes its instant", says(PAIR, Is, RUNNING, After(at(79))), true, ""),
            ("after does not look back", says(PAIR, Is, RUNNING, After(at(80))), false, "1m20s completed"),
            ("a time before the job comes has no state", says(CHAT, Is, PENDING, At(at(9))), false, ""),
            ("a window may reach beyond the last record", says(LATE, Is, PENDING, At(at(1000))), true, ""),
            ("all replicas must run", says(PAIR, Is, RUNNING, By(at(59))), false, "1 running on beta and 1 pending"),
            ("one replica is enough if asked for", replicas(says(PAIR, Is, RUNNING, By(at(50))), 1), true, ""),
            ("more replicas than there are never run", replicas(says(PAIR, Is, RUNNING, By(at(99))), 3), false, ""),
            ("throughout means every instant", says(CHAT, Is, RUNNING, Throughout(at(50), at(100))), true, ""),
            (
                "throughout breaks at one instant",
                says(CHAT, Is, RUNNING, Throughout(at(49), at(100))),
                false,
                "40s pending (node_lost)",
            ),
            ("throughout needs the job there", says(CHAT, Is, PENDING, Throughout(at(9), at(12))), false, ""),
        ],
    );
}

#[test]
fn is_takes_a_place_a_reason_and_an_outcome() {
    use Mode::Is;
    use Window::*;
    let placed = |window| says(CHAT, Is, State::Placed, window);
    check(
        Horizon::Everything,
        vec![
            ("a place is where the claim is", on(placed(By(at(20))), ALPHA), true, ""),
            ("another place will not do", on(placed(By(at(49))), BETA), false, "20s preparing on alpha"),
            ("a claim left behind is not the next attempt's", on(placed(At(at(50))), ALPHA), false, ""),
            (
                "the reason of a hold is the last one said",
                because(says(CHAT, Is, PENDING, At(at(15))), Reason::InsufficientGpus),
                true,
                "",
            ),
            ("a retry says its own reason", because(says(CHAT, Is, PENDING, At(at(40))), Reason::NodeLost), true, ""),
            (
                "a placement answers the reasons",
                because(says(CHAT, Is, State::Placed, At(at(20))), Reason::InsufficientGpus),
                false,
                "",
            ),
            ("an outcome is for good", says(CHAT, Is, State::Outcome(Outcome::Cancelled), Unstated), true, "1m40s"),
            (
                "an attempt that was lost is not the job's outcome",
                says(CHAT, Is, State::Outcome(Outcome::Lost), By(at(90))),
                false,
                "",
            ),
            (
                "an outcome can be asked of a number of replicas",
                replicas(says(PAIR, Is, State::Outcome(Outcome::Completed), By(at(80))), 2),
                true,
                "1m20s completed",
            ),
        ],
    );
}

#[test]
fn never_and_always_ask_for_the_whole_window() {
    use Mode::{Always, Never};
    use Window::*;
    check(
        Horizon::Everything,
        vec![
            (
                "never says when it was, and how often",
                says(CHAT, Never, State::Placed, Unstated),
                false,
                "chat was placed at 20s (first of 2 times)",
            ),
            (
                "never names the place",
                on(says(CHAT, Never, State::Placed, Until(at(300))), ALPHA),
                false,
                "chat was placed on alpha at 20s: 10s pending",
            ),
            ("never holds until just before", says(CHAT, Never, State::Placed, Until(at(20))), true, ""),
            ("never by an instant includes it", says(CHAT, Never, State::Placed, By(at(20))), false, ""),
            ("one replica breaks a never", says(PAIR, Never, RUNNING, By(at(50))), false, "pair was running at 50s"),
            ("never two at once", replicas(says(PAIR, Never, RUNNING, By(at(59))), 2), true, ""),
            ("never so ended", says(CHAT, Never, State::Outcome(Outcome::Failed), Unstated), true, ""),
            ("never before it came is nothing", says(LATE, Never, RUNNING, Until(at(50))), false, "it did not exist"),
            ("nor in no time at all", says(CHAT, Never, RUNNING, Until(at(0))), false, "the period does not exist"),
            (
                "never so ended, of one replica",
                says(PAIR, Never, State::Outcome(Outcome::Completed), Unstated),
                false,
                "",
            ),
            ("always counts from when the job came", says(LATE, Always, PENDING, Unstated), true, ""),
            ("always breaks once", says(CHAT, Always, PENDING, Unstated), false, "did not hold at 20s"),
            ("always until just before", says(CHAT, Always, PENDING, Until(at(20))), true, ""),
            ("always after an instant", says(CHAT, Always, RUNNING, After(at(50))), false, "did not hold at 1m40s"),
            ("always before it came is nothing", says(LATE, Always, PENDING, Until(at(80))), false, "did not exist"),
            ("always at an instant is as is", says(CHAT, Always, RUNNING, At(at(30))), true, ""),
        ],
    );
}

#[test]
fn nodes_and_gpus_have_states_from_their_declaration_on() {
    use Mode::{Always, Is, Never};
    use Window::*;
    check(
        Horizon::Everything,
        vec![
            ("a node is declared with a state", of_node(ALPHA, Is, NodeState::Ready, At(at(0))), true, ""),
            ("a node changes", of_node(ALPHA, Is, NodeState::Unreachable, By(at(40))), true, "40s unreachable"),
            ("a node recovers", of_node(ALPHA, Is, NodeState::Ready, Unstated), true, "1m30s ready"),
            ("a node that never changes", of_node(BETA, Always, NodeState::Ready, Unstated), true, "0s ready"),
            ("a node that was lost", of_node(ALPHA, Never, NodeState::Unreachable, Unstated), false, "at 40s"),
            ("a GPU is ready at first", of_gpu(1, Is, GpuState::Ready, At(at(69))), true, ""),
            ("a GPU fails", of_gpu(1, Is, GpuState::Failed, At(at(70))), true, "1m10s failed"),
            ("its neighbour does not", of_gpu(0, Never, GpuState::Failed, Unstated), true, ""),
            ("a GPU that is not there fails its row", of_gpu(7, Never, GpuState::Failed, Unstated), false, "declared"),
        ],
    );
}

#[test]
fn events_are_counted_in_their_window() {
    use Comparison::*;
    use EventName::*;
    use Window::*;
    let chat = Some(Subject::Job(JobId::new(CHAT)));
    let node = |index| Some(Subject::Node(NodeId::new(index)));
    let gpu = |index| Some(Subject::Gpu(GpuId { node: NodeId::new(BETA), index }));
    check(
        Horizon::Everything,
        vec![
            ("all placements", count(Placed, None, Exactly(4), Unstated), true, "at 20s, 50s, 50s, 1m"),
            ("those of one job", count(Placed, chat, Exactly(2), Unstated), true, "2 happened, at 20s, 50s"),
            ("too many", count(Placed, chat, AtMost(1), Unstated), false, "2 happened"),
            ("those on one node", count(Placed, node(BETA), Exactly(3), Unstated), true, "at 50s, 50s, 1m"),
            ("those on one GPU", count(Placed, gpu(1), Exactly(2), Unstated), true, "at 50s, 1m"),
            ("until excludes its instant", count(Placed, None, Exactly(1), Until(at(50))), true, "at 20s"),
            ("an instant alone", count(Placed, None, Exactly(2), At(at(50))), true, ""),
            ("from then on", count(Placed, None, AtLeast(3), After(at(50))), true, ""),
            ("an end counts where the run was", count(Ended, node(ALPHA), Exactly(1), Unstated), true, "at 40s"),
            ("retries", count(Retry, chat, Exactly(1), Unstated), true, "1 happened, at 40s"),
            ("starts of every job", count(Started, None, AtLeast(5), Unstated), false, "4 happened"),
            ("none is a count", count(SafetyBroken, None, Exactly(0), Unstated), true, "none happened"),
            ("changes of one node", count(NodeChanged, node(ALPHA), Exactly(2), Unstated), true, "at 40s, 1m30s"),
            ("changes of a GPU are its node's too", count(GpuChanged, node(BETA), Exactly(1), Unstated), true, "1m10s"),
            ("submissions", count(Submitted, None, Exactly(3), Unstated), true, "at 10s, 10s, 1m20s"),
        ],
    );
}

#[test]
fn a_node_holds_jobs_and_jobs_preempt_others_only_if_they_come() {
    use Mode::Never;
    use Window::Unstated;
    let never_submitted = "ghost was never submitted";
    let holds_none = |jobs: &[usize]| {
        let state = State::Holding(Comparison::AtLeast(1));
        let ExpectationKind::State { subject: _, mode, on, blocks, because, replicas, window, .. } =
            says(GHOST, Never, state, Unstated)
        else {
            unreachable!("it is about a state")
        };
        let of = Some(jobs.iter().map(|job| JobId::new(*job)).collect());
        let subject = Subject::Node(NodeId::new(ALPHA));
        ExpectationKind::State { subject, state, mode, on, blocks, because, replicas, of, window }
    };
    let preempts_none = |jobs: &[usize]| {
        let ExpectationKind::Count { event, subject, because, whose, is, window, .. } =
            count(EventName::Preempted, Some(Subject::Job(JobId::new(CHAT))), Comparison::Exactly(0), Unstated)
        else {
            unreachable!("it is about a count")
        };
        let preempted_by = Some(jobs.iter().map(|job| JobId::new(*job)).collect());
        ExpectationKind::Count { event, subject, because, whose, preempted_by, is, window }
    };
    check(
        Horizon::Everything,
        vec![
            ("a node never holds a job that never came", holds_none(&[GHOST]), false, never_submitted),
            ("a node never holds one of two jobs", holds_none(&[GHOST, LATE]), true, ""),
            ("no preemption for a job that never came", preempts_none(&[GHOST]), false, never_submitted),
            ("no preemption for one of two jobs", preempts_none(&[GHOST, LATE]), true, ""),
        ],
    );
}

#[test]
fn what_was_never_there_and_what_was_cut_off_fails_and_says_so() {
    use Mode::{Always, Is, Never};
    use Window::*;
    let ghost = Some(Subject::Job(JobId::new(GHOST)));
    let never_submitted = "ghost was never submitted";
    check(
        Horizon::Everything,
        vec![
            ("never, of a job that never came", says(GHOST, Never, RUNNING, Unstated), false, never_submitted),
            ("is, of a job that never came", says(GHOST, Is, RUNNING, Unstated), false, never_submitted),
            ("no events of a job that never came", count_none(ghost), false, never_submitted),
        ],
    );
    let stopped = "the run stopped at 2m, before the outcome was known";
    check(
        Horizon::Until(at(120)),
        vec![
            ("a later instant is not known", says(LATE, Is, PENDING, At(at(121))), false, stopped),
            ("the last instant is", says(LATE, Is, PENDING, At(at(120))), true, ""),
            ("what was seen stays seen", says(CHAT, Is, RUNNING, By(at(500))), true, ""),
            ("never cannot be promised", says(LATE, Never, RUNNING, Until(at(500))), false, stopped),
            ("until just after the end can", says(LATE, Never, RUNNING, Until(at(120))), true, ""),
            ("the whole run is what was run", says(LATE, Always, PENDING, Unstated), true, ""),
            ("after the end nothing is known", says(LATE, Never, RUNNING, After(at(121))), false, stopped),
            ("nor whether it always was", says(LATE, Always, PENDING, After(at(121))), false, stopped),
            ("nor whether it came to be", says(LATE, Is, PENDING, After(at(121))), false, stopped),
            ("nor how often", count(EventName::Placed, None, Comparison::Exactly(0), After(at(121))), false, stopped),
            ("from the end on is as far as it goes", says(LATE, Never, RUNNING, After(at(120))), true, ""),
            (
                "so many already are enough",
                count(EventName::Placed, None, Comparison::AtLeast(4), By(at(500))),
                true,
                "",
            ),
            (
                "so few may become more",
                count(EventName::Placed, None, Comparison::AtMost(4), By(at(500))),
                false,
                stopped,
            ),
            ("a broken always is known", says(CHAT, Always, PENDING, By(at(500))), false, "did not hold at 20s"),
        ],
    );
}

#[test]
fn a_failure_names_the_job_on_which_it_turned_and_when() {
    use Mode::{Is, Never};
    use Window::*;
    let of = |job: usize, state| Landmark { subject: Subject::Job(JobId::new(job)), state, on: None, because: None };
    let rows = [
        ("an instant", says(CHAT, Is, RUNNING, At(at(29))), Some((CHAT, Some(29)))),
        ("the end", says(CHAT, Is, RUNNING, Unstated), Some((CHAT, None))),
        ("when it was what it must never be", says(CHAT, Never, RUNNING, Unstated), Some((CHAT, Some(30)))),
        ("when the other was first", says(PAIR, Is, RUNNING, BeforeState(of(CHAT, RUNNING))), Some((PAIR, Some(30)))),
        ("the other, which never came", says(CHAT, Is, RUNNING, BeforeState(of(LATE, RUNNING))), Some((LATE, None))),
        ("a job that never came is not explained", says(GHOST, Is, RUNNING, Unstated), None),
        ("nor is a node", of_node(ALPHA, Never, NodeState::Unreachable, Unstated), None),
    ];
    for (sentence, what, expected) in rows {
        let verdict = judge(what, Horizon::Everything);
        assert!(!verdict.passed, "{sentence}");
        let expected = expected.map(|(job, second)| (JobId::new(job), second.map(at)));
        let turned_on = verdict.turned_on.map(|turned| (turned.job, turned.at));
        assert_eq!(turned_on, expected, "{sentence}");
    }
}

fn count_none(subject: Option<Subject>) -> ExpectationKind {
    count(EventName::Placed, subject, Comparison::Exactly(0), Window::Unstated)
}

#[test]
fn a_reproduction_needs_the_failure_and_its_witness() {
    let verdict = |name: &str, passed| Verdict {
        name: name.into(),
        passed,
        expected: "chat is never placed on alpha".into(),
        happened: "20s preparing on alpha".into(),
        turned_on: None,
    };
    let reproduction = Reproduction {
        under: ReproducedUnder::Profile("old".into()),
        place: SourcePlace { file: "table".into(), line: 1, column: 1 },
        fails: vec!["never_on_alpha".into()],
        and: Vec::new(),
    };
    let rows = [
        ("the expectation fails and the witness holds", false, true, true, "the bug was visible again"),
        ("the expectation holds", true, true, false, "never_on_alpha held: 20s"),
        ("the witness does not hold", false, false, false, "the witness w did not hold"),
    ];
    for (sentence, holds, witness, passed, happened) in rows {
        let judged = judge_reproduction(&reproduction, &[verdict("never_on_alpha", holds)], &[verdict("w", witness)]);
        assert_eq!(judged.passed, passed, "{sentence}");
        assert!(judged.happened.contains(happened), "{sentence}: {}", judged.happened);
    }
    assert!(!judge_reproduction(&reproduction, &[], &[]).passed, "a name that no expectation has is no failure");
}
