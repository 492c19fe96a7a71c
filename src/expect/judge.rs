//! Judges expectations while a run writes its records.
//!
//! The judge follows only the subjects that expectations name. It evaluates an expectation only after an instant that
//! affected its subject. So in a run of fifty thousand jobs, three expectations about three jobs cost only as much as a
//! run of three jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::expectation::{
    Comparison, CountedJobs, EventName, Expectation, ExpectationKind, Judgement, Landmark, Mode, State, Subject, Window,
};
use super::fold::{Fold, StateCondition};
use super::history::{COUNT_INSTANTS, History, count_text, cut_text};
use super::metric::{self, Figures};
use super::named::{gives, kind};
use super::window::{Finding, Horizon, Standing, Tally, bounds};
use super::words::{landmark_text, sentence, state_name, subject_name};
use dryrack_event::{Declaration, Event, Histogram, Input, Sink, UserRequest};
use dryrack_ids::{AttemptId, JobId, Names};
use dryrack_metrics::RunMetrics;
use dryrack_units::SimTime;

/// The verdict on one expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub name: Arc<str>,
    pub passed: bool,
    /// The expectation as a sentence.
    pub expected: String,
    /// What really happened, in order of time.
    pub happened: String,
    /// The job and the time to explain if the expectation failed.
    pub turned_on: Option<DecidedBy>,
}

/// The job and the time that decided a verdict. `explain` is suggested for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedBy {
    pub job: JobId,
    /// The replica that broke the expectation, if it was a single replica.
    pub replica: Option<u32>,
    /// The time at which the expectation was broken. `None` means the end of the run.
    pub at: Option<SimTime>,
}

/// What to do about jobs that can never run.
pub const NEVER_RUNS_HELP: &str = "change these jobs, add a node that takes them, or write `unplaced: ignore` in the \
    scenario, which leaves them out of bounds on waiting";

impl Verdict {
    /// Whether it fails because jobs can never run.
    pub fn is_of_never_run(&self) -> bool {
        !self.passed && self.happened.contains(" can never run")
    }

    /// The expectation and what happened, in one line.
    pub fn why(&self) -> String {
        match self.passed {
            true => format!("{}: {}", self.expected, self.happened),
            false => format!("expected: {}; happened: {}", self.expected, self.happened),
        }
    }
}

pub struct Judge {
    expectations: Vec<Expectation>,
    names: Names,
    fold: Fold,
    watches: Vec<Watch>,
    /// The window of each expectation. If a window depends on an event, it is set when the event has happened.
    windows: Vec<Window>,
    /// The watches of each job. The watches of a node and of its GPUs share one list, because there are few of them.
    by_job: BTreeMap<JobId, Vec<usize>>,
    by_node: BTreeMap<usize, Vec<usize>>,
    counts: Vec<usize>,
    evaluations: Vec<usize>,
    /// Watches that counted an event in this instant. Whether their windows include the instant is known only at its
    /// end.
    counted: Vec<usize>,
    cancelled: BTreeSet<JobId>,
    /// Whether all attempts must be followed, because an expectation depends on the attempts on a node.
    follow_all: bool,
    /// Whether a change of an attempt must also re-evaluate the expectations about its nodes.
    holders_count: bool,
    touched: BTreeSet<usize>,
    now: SimTime,
}

enum Watch {
    State {
        tally: Tally,
        history: History,
        /// For a job: the first replica that broke the expectation.
        broken_by: Option<u32>,
    },
    Count {
        count: u64,
        instants: Vec<SimTime>,
    },
    Evaluation {
        found: Option<(Judgement, Histogram)>,
    },
    /// Nothing to watch. The verdict comes from the accounts at the end, or is known from the beginning.
    Nothing,
}

impl Judge {
    /// `names` must contain all nodes and jobs of the run, including those that never come to exist.
    pub fn new(expectations: Vec<Expectation>, names: Names) -> Judge {
        let mut judge = Judge {
            watches: Vec::with_capacity(expectations.len()),
            windows: Vec::with_capacity(expectations.len()),
            names,
            fold: Fold::default(),
            by_job: BTreeMap::new(),
            by_node: BTreeMap::new(),
            counts: Vec::new(),
            evaluations: Vec::new(),
            counted: Vec::new(),
            cancelled: BTreeSet::new(),
            follow_all: false,
            holders_count: false,
            touched: BTreeSet::new(),
            now: SimTime::ZERO,
            expectations: Vec::new(),
        };
        for (index, expectation) in expectations.iter().enumerate() {
            judge.watch(index, &expectation.what);
        }
        judge.expectations = expectations;
        judge
    }

    fn watch(&mut self, index: usize, what: &ExpectationKind) {
        let (watch, window, subject) = match what {
            ExpectationKind::State { subject, state, mode, window, .. } => {
                if matches!(state, State::Holding(_)) {
                    self.follow_holders();
                }
                let tally = Tally::new(*mode, *window);
                (Watch::State { tally, history: History::default(), broken_by: None }, *window, Some(*subject))
            }
            ExpectationKind::Count { subject, window, preempted_by, .. } => {
                self.counts.push(index);
                // It is judged only if one of these jobs exists.
                for job in preempted_by.iter().flat_map(|jobs| jobs.iter()) {
                    self.by_job.entry(*job).or_default();
                }
                self.follow_all |= matches!(subject, Some(Subject::Node(_) | Subject::Gpu(_)));
                (Watch::Count { count: 0, instants: Vec::new() }, *window, *subject)
            }
            ExpectationKind::Evaluation { at, .. } => {
                self.evaluations.push(index);
                (Watch::Evaluation { found: None }, Window::At(*at), None)
            }
            ExpectationKind::Metric(_) | ExpectationKind::EachCanRun | ExpectationKind::Absent { .. } => {
                (Watch::Nothing, Window::Unstated, None)
            }
        };
        self.watches.push(watch);
        self.windows.push(window);
        if landmark(window).is_some_and(|landmark| matches!(landmark.state, State::Holding(_))) {
            self.follow_holders();
        }
        for subject in [subject, landmark(window).map(|landmark| landmark.subject)].into_iter().flatten() {
            match subject {
                Subject::Job(job) => self.by_job.entry(job).or_default().push(index),
                Subject::Node(node) => self.by_node.entry(node.index()).or_default().push(index),
                Subject::Gpu(gpu) => self.by_node.entry(gpu.node.index()).or_default().push(index),
            }
        }
    }

    /// Follows all attempts, because the expected state of a node depends on the replicas that it holds.
    fn follow_holders(&mut self) {
        (self.follow_all, self.holders_count) = (true, true);
        self.fold.follow_holders();
    }

    fn follows(&self, job: JobId) -> bool {
        self.follow_all || self.by_job.contains_key(&job)
    }

    fn touch_job(&mut self, job: JobId) {
        self.touched.extend(self.by_job.get(&job).into_iter().flatten());
    }

    fn touch_node(&mut self, node: usize) {
        self.touched.extend(self.by_node.get(&node).into_iter().flatten());
    }

    /// Marks the nodes of an attempt for evaluation, if expectations depend on the replicas of a node.
    fn touch_holder(&mut self, attempt: AttemptId) {
        if self.holders_count {
            self.fold.places(attempt).into_iter().for_each(|node| self.touch_node(node.index()));
        }
    }

    fn arrive(&mut self, at: SimTime) {
        if at > self.now {
            if !self.touched.is_empty() || !self.counted.is_empty() {
                self.close_instant();
            }
            self.now = at;
        }
    }

    /// Evaluates all expectations that this instant may have affected.
    fn close_instant(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        for index in &touched {
            self.set_by_landmark(*index);
        }
        for index in std::mem::take(&mut self.counted) {
            let now = self.now.as_nanos();
            let inside = bounds(self.windows[index]).is_some_and(|(low, high)| (low..=high).contains(&now));
            if let (true, Watch::Count { count, instants }) = (inside, &mut self.watches[index]) {
                *count += 1;
                if instants.len() < COUNT_INSTANTS {
                    instants.push(self.now);
                }
            }
        }
        for index in touched {
            let ExpectationKind::State { subject, state, mode, on, blocks, because, replicas, of, .. } =
                &self.expectations[index].what
            else {
                continue;
            };
            let Watch::State { tally, history, broken_by } = &mut self.watches[index] else {
                unreachable!("a state is watched as a state")
            };
            let of = of.as_deref();
            let sought = StateCondition { state: *state, of, on: *on, blocks: *blocks, because: *because };
            let mut is = self.fold.is(*subject, &sought, *replicas);
            // A `never` is broken if one replica is in the state, or if the job as a whole is.
            if *mode == Mode::Never && replicas.is_none() {
                is |= self.fold.is(*subject, &sought, Some(1));
            }
            let standing = match (self.fold.exists(*subject), is) {
                (false, _) => Standing::Absent,
                (true, true) => Standing::Held,
                (true, false) => Standing::Not,
            };
            tally.turn(self.now, standing);
            match (mode, standing) {
                (Mode::Never, Standing::Held) if tally.first_held.is_none() => {
                    *broken_by = self.fold.first_replica(*subject, &sought, true);
                }
                (Mode::Always, Standing::Not) if tally.first_broken.is_none() => {
                    *broken_by = self.fold.first_replica(*subject, &sought, false);
                }
                _ => {}
            }
            history.record(
                self.now,
                match (subject, state) {
                    (Subject::Node(node), State::Holding(_)) if self.fold.exists(*subject) => {
                        self.fold.describe_holders(*node, of, &self.names)
                    }
                    _ => self.fold.describe(*subject, &self.names),
                },
            );
        }
    }

    /// Sets the window that depends on another state, if that state holds for the first time now.
    fn set_by_landmark(&mut self, index: usize) {
        let set = match self.windows[index] {
            Window::BeforeState(_) => Window::Until(self.now),
            Window::AfterState(_) => Window::After(self.now),
            _ => return,
        };
        let Some(Landmark { subject, state, on, because }) = landmark(self.windows[index]) else { return };
        if self.fold.is(subject, &StateCondition { state, of: None, on, blocks: None, because }, None) {
            self.set(index, set);
        }
    }

    fn set(&mut self, index: usize, window: Window) {
        self.windows[index] = window;
        if let Watch::State { tally, .. } = &mut self.watches[index] {
            tally.set(window);
        }
    }

    fn submitted(&mut self, job: JobId) {
        let within = self.by_job.get(&job).into_iter().flatten().filter_map(|index| match self.windows[*index] {
            Window::Within(length) => Some((*index, Window::By(self.now.saturating_add(length)))),
            _ => None,
        });
        for (index, window) in within.collect::<Vec<_>>() {
            self.set(index, window);
        }
    }

    fn count(&mut self, name: EventName, (job, attempt): (Option<JobId>, Option<AttemptId>), said: Option<&Event>) {
        for index in &self.counts {
            let ExpectationKind::Count { event, subject, because, whose, preempted_by, .. } =
                &self.expectations[*index].what
            else {
                unreachable!("a count is watched as a count")
            };
            let is_counted = event.is_none_or(|event| event == name)
                && because.is_none_or(|reason| said.is_some_and(|said| gives(said, reason)))
                && preempted_by.as_deref().is_none_or(|by| is_preempted_by(said, by))
                && (*whose == CountedJobs::Any || job.is_some_and(|job| self.cancelled.contains(&job)))
                && subject.is_none_or(|subject| self.concerns(subject, (job, attempt), said));
            if is_counted {
                self.counted.push(*index);
            }
        }
    }

    fn evaluated(&mut self, name: &str, judgement: Judgement, reasons: &Histogram) {
        for index in &self.evaluations {
            let ExpectationKind::Evaluation { job, at, .. } = &self.expectations[*index].what else {
                unreachable!("an evaluation is watched as one")
            };
            if *at == self.now && self.names.job(*job) == name {
                self.watches[*index] = Watch::Evaluation { found: Some((judgement, reasons.clone())) };
            }
        }
    }

    /// Whether an event is about this subject. Events about a node or GPU are those that name it, and those of attempts
    /// that have a claim on it at that time.
    fn concerns(
        &self,
        subject: Subject,
        (job, attempt): (Option<JobId>, Option<AttemptId>),
        event: Option<&Event>,
    ) -> bool {
        if let Subject::Job(wanted) = subject {
            return job == Some(wanted);
        }
        match event {
            Some(
                Event::NodeChanged { node, .. }
                | Event::InstanceChanged { node, .. }
                | Event::SafetyBroken { node, .. },
            ) => {
                return subject == Subject::Node(*node);
            }
            Some(Event::GpuChanged { gpu, .. }) => {
                return subject == Subject::Gpu(*gpu) || subject == Subject::Node(gpu.node);
            }
            _ => {}
        }
        let placement = match event {
            Some(Event::Placed { placement, .. }) => Some(placement),
            _ => attempt.and_then(|attempt| self.fold.placement(attempt)),
        };
        placement.is_some_and(|placement| match subject {
            Subject::Node(node) => placement.touches(node),
            Subject::Gpu(gpu) => placement
                .claims()
                .iter()
                .any(|claim| claim.node == gpu.node && claim.gpus.iter().any(|part| part.index == gpu.index)),
            Subject::Job(_) => false,
        })
    }

    /// Returns the verdicts in the order of the expectations. `run_metrics` must be of the same run.
    pub fn finish(mut self, horizon: Horizon, run_metrics: &RunMetrics) -> Vec<Verdict> {
        self.close_instant();
        let watches = std::mem::take(&mut self.watches);
        let expectations = std::mem::take(&mut self.expectations);
        let figures = Figures::of(&expectations, run_metrics.accounts());
        let judged = expectations.iter().zip(watches).enumerate();
        let verdict = |(index, (expectation, watch)): (usize, (&Expectation, Watch))| {
            let turned_on = self.turned_on(index, &expectation.what, &watch);
            let (passed, happened) = self.verdict(index, &expectation.what, watch, horizon, (run_metrics, &figures));
            let expected = sentence(&expectation.what, &self.names);
            Verdict { name: Arc::clone(&expectation.name), passed, expected, happened, turned_on }
        };
        judged.map(verdict).collect()
    }

    fn verdict(
        &self,
        index: usize,
        what: &ExpectationKind,
        watch: Watch,
        horizon: Horizon,
        (run_metrics, figures): (&RunMetrics, &Figures<'_>),
    ) -> (bool, String) {
        let window = self.windows[index];
        if let Some(missing) = self.missing(what, window, horizon) {
            return (false, missing);
        }
        match (watch, what) {
            (Watch::State { mut tally, history, .. }, ExpectationKind::State { .. }) => {
                let finding = tally.finish(horizon);
                let text = self.state_text(what, (&tally, window), &history, finding, horizon);
                (finding == Finding::Passed, text)
            }
            (Watch::Count { count, instants }, ExpectationKind::Count { is, .. }) => {
                let (holds, text) = (is.holds(count), count_text(count, &instants));
                match cut_text(horizon, window) {
                    // A count that has reached its minimum cannot fall below it, even if the run was stopped early.
                    Some(_) if holds && matches!(is, Comparison::AtLeast(_)) => (true, text),
                    Some(cut) => (false, format!("{text}; {cut}")),
                    None => (holds, text),
                }
            }
            (Watch::Evaluation { found: None }, ExpectationKind::Evaluation { at, .. }) => {
                (false, cut_text(horizon, Window::At(*at)).unwrap_or_else(|| "it was not evaluated".to_string()))
            }
            (
                Watch::Evaluation { found: Some((judgement, reasons)) },
                ExpectationKind::Evaluation { is, because, .. },
            ) => {
                let holds = judgement == *is && because.is_none_or(|reason| reasons.contains(reason));
                let reasons = if reasons.is_empty() { String::new() } else { format!(" ({reasons})") };
                (holds, format!("{}{reasons}", judgement.name()))
            }
            (Watch::Nothing, ExpectationKind::Metric(check)) => metric::judge(check, run_metrics, figures),
            (Watch::Nothing, ExpectationKind::EachCanRun) => metric::judge_each_can_run(run_metrics.accounts()),
            (Watch::Nothing, ExpectationKind::Absent { pattern }) => {
                (false, format!("no job named `{pattern}` was submitted"))
            }
            _ => unreachable!("each is watched as what it is"),
        }
    }

    fn turned_on(&self, index: usize, what: &ExpectationKind, watch: &Watch) -> Option<DecidedBy> {
        let subject = match what {
            ExpectationKind::State { subject, .. } => Some(*subject),
            ExpectationKind::Count { subject, .. } => *subject,
            // The verdict has the reasons of an evaluation. No decision about the job, which may be yet to come, has them.
            ExpectationKind::Evaluation { .. }
            | ExpectationKind::Metric(_)
            | ExpectationKind::EachCanRun
            | ExpectationKind::Absent { .. } => None,
        };
        // If the window depends on an event that never happened, explain why it did not happen.
        let subject = landmark(self.windows[index]).map(|landmark| landmark.subject).or(subject);
        let Some(Subject::Job(job)) = subject.filter(|subject| self.fold.exists(*subject)) else { return None };
        let (broken, replica) = match (what, watch) {
            (ExpectationKind::State { mode: Mode::Never, .. }, Watch::State { tally, broken_by, .. }) => {
                (tally.first_held, *broken_by)
            }
            (ExpectationKind::State { mode: Mode::Always, .. }, Watch::State { tally, broken_by, .. }) => {
                (tally.first_broken, *broken_by)
            }
            _ => (None, None),
        };
        let of_window = match self.windows[index] {
            Window::At(at) | Window::By(at) | Window::Until(at) | Window::Throughout(at, _) => Some(at),
            Window::Unstated
            | Window::After(_)
            | Window::Within(_)
            | Window::BeforeState(_)
            | Window::AfterState(_) => None,
        };
        Some(DecidedBy { job, replica, at: broken.or(of_window) })
    }

    /// Names a subject that never existed, if the expectation can be judged only for a subject that exists.
    fn missing(&self, what: &ExpectationKind, window: Window, horizon: Horizon) -> Option<String> {
        let (subject, whose) = match what {
            ExpectationKind::State { subject, .. } => (Some(*subject), CountedJobs::Any),
            ExpectationKind::Count { subject, whose, .. } => (*subject, *whose),
            ExpectationKind::Evaluation { .. }
            | ExpectationKind::Metric(_)
            | ExpectationKind::EachCanRun
            | ExpectationKind::Absent { .. } => return None,
        };
        let landmark = landmark(window);
        let subjects = [subject, landmark.map(|landmark| landmark.subject)];
        if let Some(absent) = subjects.into_iter().flatten().find(|subject| !self.fold.exists(*subject)) {
            return Some(self.never_existed(absent, horizon));
        }
        // Jobs that a node holds, or for which others are preempted.
        let others = match what {
            ExpectationKind::State { of, .. } => of.as_deref(),
            ExpectationKind::Count { preempted_by, .. } => preempted_by.as_deref(),
            _ => None,
        };
        let is_absent = |job: &JobId| !self.fold.exists(Subject::Job(*job));
        if let Some([first, ..]) = others.filter(|jobs| jobs.iter().all(is_absent)) {
            return Some(self.never_existed(Subject::Job(*first), horizon));
        }
        if let Some(landmark) = landmark {
            return Some(format!("`{}` never happened {}", landmark_text(&landmark, &self.names), ending(horizon)));
        }
        let is_cancelled = match subject {
            Some(Subject::Job(job)) => self.cancelled.contains(&job),
            _ => !self.cancelled.is_empty(),
        };
        (whose == CountedJobs::Cancelled && !is_cancelled).then(|| format!("no job was cancelled {}", ending(horizon)))
    }

    fn never_existed(&self, subject: Subject, horizon: Horizon) -> String {
        let name = subject_name(subject, &self.names);
        let end = ending(horizon);
        match subject {
            Subject::Job(_) => format!("{name} was never submitted {end}"),
            Subject::Node(_) | Subject::Gpu(_) => format!("{name} was never declared {end}"),
        }
    }

    fn state_text(
        &self,
        what: &ExpectationKind,
        (tally, window): (&Tally, Window),
        history: &History,
        finding: Finding,
        horizon: Horizon,
    ) -> String {
        let ExpectationKind::State { subject, state, mode, on, window: stated, .. } = what else {
            unreachable!("a state is watched as a state")
        };
        let mut history = history.text();
        if let (Some(landmark), Window::Until(at) | Window::After(at)) = (landmark(*stated), window) {
            history.push_str(&format!("; {} at {at}", landmark_text(&landmark, &self.names)));
        }
        if finding == Finding::Undecided {
            return format!("{history}; {}", cut_text(horizon, window).expect("undecided because it was cut"));
        }
        match (mode, finding, tally.first_held) {
            (Mode::Never, Finding::Failed, Some(at)) => {
                let on = on.map_or(String::new(), |node| format!(" on {}", self.names.node(node)));
                let times = match tally.times_held {
                    1 => String::new(),
                    times => format!(" (first of {times} times)"),
                };
                let subject = subject_name(*subject, &self.names);
                format!("{subject} was {}{on} at {at}{times}: {history}", state_name(*state))
            }
            (Mode::Always, Finding::Failed, _) => match tally.first_broken {
                Some(at) => format!("did not hold at {at}: {history}"),
                None => not_there(window, &history),
            },
            (Mode::Never, Finding::Failed, None) => not_there(window, &history),
            _ => history,
        }
    }
}

fn not_there(window: Window, history: &str) -> String {
    match bounds(window) {
        None => format!("the period does not exist: {history}"),
        Some(_) => format!("it did not exist in this period: {history}"),
    }
}

fn landmark(window: Window) -> Option<Landmark> {
    match window {
        Window::BeforeState(landmark) | Window::AfterState(landmark) => Some(landmark),
        _ => None,
    }
}

fn ending(horizon: Horizon) -> String {
    match horizon {
        Horizon::Everything => "in the whole run".to_string(),
        Horizon::Until(at) => format!("before the run stopped at {at}"),
    }
}

/// Whether the event is a preemption for one of these jobs.
fn is_preempted_by(event: Option<&Event>, jobs: &[JobId]) -> bool {
    matches!(event, Some(Event::Preempted { by, .. }) if jobs.contains(&by.job))
}

impl Sink for Judge {
    fn input(&mut self, _step: u64, at: SimTime, input: &Input) {
        self.arrive(at);
        match input.declaration() {
            Some(Declaration::Job { job, .. }) => {
                if self.follows(job) {
                    self.fold.input(input);
                    self.touch_job(job);
                    self.submitted(job);
                }
                let first = AttemptId { job, replica: 0, number: 1 };
                self.count(EventName::Submitted, (Some(job), Some(first)), None);
            }
            Some(Declaration::Node { node, .. }) => {
                self.fold.input(input);
                self.touch_node(node.index());
            }
            Some(Declaration::Fleet { .. }) => self.fold.input(input),
            None => {}
        }
        if let Input::User(UserRequest::Cancel { job }) = input {
            self.cancelled.insert(*job);
        }
    }

    fn event(&mut self, _step: u64, at: SimTime, event: &Event) {
        self.arrive(at);
        let (name, attempt) = kind(event);
        // Count before updating the fold, because an ended attempt still has its placement then.
        if let Some(name) = name
            && !self.counts.is_empty()
        {
            self.count(name, (event.job(), attempt), Some(event));
        }
        match event {
            Event::Evaluated { name, refusal, reasons } => self.evaluated(name, Judgement::of(*refusal), reasons),
            Event::NodeChanged { node, .. } | Event::InstanceChanged { node, .. } => {
                self.fold.event(event);
                self.touch_node(node.index());
            }
            Event::GpuChanged { gpu, .. } => {
                self.fold.event(event);
                self.touch_node(gpu.node.index());
            }
            Event::JobEnded { job, .. } if self.follows(*job) => {
                self.fold.event(event);
                self.touch_job(*job);
            }
            _ => {
                if let Some(attempt) = attempt.filter(|attempt| self.follows(attempt.job)) {
                    self.touch_holder(attempt);
                    self.fold.event(event);
                    self.touch_holder(attempt);
                    self.touch_job(attempt.job);
                }
            }
        }
    }
}
