//! Judges expectations while the records go by.
//!
//! Only what an expectation names is followed, and looked at again only after an instant that touched it, so the cost of
//! a run with fifty thousand jobs and three expectations is that of three jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::expectation::{EventName, Expectation, Mode, Reproduction, State, Subject, What};
use super::fold::{Fold, Sought};
use super::window::{Finding, Horizon, Standing, Tally, bounds};
use super::words::{sentence, state_name, subject_name};
use crate::event::{Event, Input, Phase, Sink};
use crate::ids::{JobId, Names, RunId};
use crate::units::SimTime;

/// What became of one expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub name: Arc<str>,
    pub passed: bool,
    /// What was expected, as a sentence.
    pub expected: String,
    /// What happened, in order of time.
    pub happened: String,
}

impl Verdict {
    /// Both in one line.
    pub fn why(&self) -> String {
        match self.passed {
            true => format!("{}: {}", self.expected, self.happened),
            false => format!("expected: {}; happened: {}", self.expected, self.happened),
        }
    }
}

/// Changes told at the beginning of a story, and at its end.
const STORY_LINES: usize = 6;
/// Instants named for a count.
const COUNT_INSTANTS: usize = 5;

pub struct Judge {
    expectations: Vec<Expectation>,
    names: Names,
    fold: Fold,
    watches: Vec<Watch>,
    /// The watches of each job; those on nodes and GPUs are few and in one list for each node.
    by_job: BTreeMap<JobId, Vec<usize>>,
    by_node: BTreeMap<usize, Vec<usize>>,
    counts: Vec<usize>,
    /// A count asks where runs are, so all of them must be followed.
    follow_all: bool,
    touched: BTreeSet<usize>,
    now: SimTime,
}

enum Watch {
    State { tally: Tally, story: Story },
    Count { count: u64, instants: Vec<SimTime> },
}

/// How a subject stood, each change once; the middle of a long story is left out.
#[derive(Default)]
struct Story {
    first: Vec<(SimTime, String)>,
    left_out: u64,
    last: Option<(SimTime, String)>,
}

impl Story {
    fn tell(&mut self, at: SimTime, text: String) {
        let latest = self.last.as_ref().or(self.first.last()).map(|(_, known)| known);
        if latest == Some(&text) {
            return;
        }
        if self.first.len() < STORY_LINES {
            self.first.push((at, text));
        } else {
            self.left_out += u64::from(self.last.is_some());
            self.last = Some((at, text));
        }
    }

    fn text(&self) -> String {
        let line = |(at, text): &(SimTime, String)| format!("{at} {text}");
        let mut parts: Vec<String> = self.first.iter().map(line).collect();
        if self.left_out > 0 {
            parts.push(format!("({} more changes)", self.left_out));
        }
        parts.extend(self.last.iter().map(line));
        parts.join(", ")
    }
}

impl Judge {
    /// `names` are those of all nodes and jobs of the run, whether they come to be or not.
    pub fn new(expectations: Vec<Expectation>, names: Names) -> Judge {
        let mut judge = Judge {
            watches: Vec::with_capacity(expectations.len()),
            names,
            fold: Fold::default(),
            by_job: BTreeMap::new(),
            by_node: BTreeMap::new(),
            counts: Vec::new(),
            follow_all: false,
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

    fn watch(&mut self, index: usize, what: &What) {
        let subject = match what {
            What::State { subject, mode, window, .. } => {
                self.watches.push(Watch::State { tally: Tally::new(*mode, *window), story: Story::default() });
                Some(*subject)
            }
            What::Count { subject, .. } => {
                self.watches.push(Watch::Count { count: 0, instants: Vec::new() });
                self.counts.push(index);
                self.follow_all |= matches!(subject, Some(Subject::Node(_) | Subject::Gpu(_)));
                *subject
            }
        };
        match subject {
            Some(Subject::Job(job)) => self.by_job.entry(job).or_default().push(index),
            Some(Subject::Node(node)) => self.by_node.entry(node.index()).or_default().push(index),
            Some(Subject::Gpu(gpu)) => self.by_node.entry(gpu.node.index()).or_default().push(index),
            None => {}
        }
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

    fn arrive(&mut self, at: SimTime) {
        if at > self.now {
            self.close_instant();
            self.now = at;
        }
    }

    /// Looks again at what was touched, now that the instant is whole.
    fn close_instant(&mut self) {
        for index in std::mem::take(&mut self.touched) {
            let What::State { subject, state, mode, on, because, replicas, .. } = &self.expectations[index].what else {
                continue;
            };
            let Watch::State { tally, story } = &mut self.watches[index] else {
                unreachable!("a state is watched as a state")
            };
            let sought = Sought { state: *state, on: *on, because: *because };
            // One replica is enough to break a `never`; how a job ended is one fact about all of it.
            let any = *mode == Mode::Never && !matches!(state, State::Outcome(_));
            let replicas = replicas.or(any.then_some(1));
            let standing = match (self.fold.exists(*subject), self.fold.is(*subject, &sought, replicas)) {
                (false, _) => Standing::Absent,
                (true, true) => Standing::Held,
                (true, false) => Standing::Not,
            };
            tally.turn(self.now, standing);
            story.tell(self.now, self.fold.describe(*subject, &self.names));
        }
    }

    fn count(&mut self, name: EventName, run: Option<RunId>, event: Option<&Event>) {
        for index in &self.counts {
            let What::Count { event: wanted, subject, window, .. } = &self.expectations[*index].what else {
                unreachable!("a count is watched as a count")
            };
            let now = self.now.as_nanos();
            let inside = bounds(*window).is_some_and(|(low, high)| (low..=high).contains(&now));
            if *wanted != name || !inside || !subject.is_none_or(|subject| self.concerns(subject, run, event)) {
                continue;
            }
            let Watch::Count { count, instants } = &mut self.watches[*index] else {
                unreachable!("a count is watched as a count")
            };
            *count += 1;
            if instants.len() < COUNT_INSTANTS {
                instants.push(self.now);
            }
        }
    }

    /// Whether an event is one of this subject. Of a node or GPU are those that name it, and those of runs that have a
    /// claim there when it happens.
    fn concerns(&self, subject: Subject, run: Option<RunId>, event: Option<&Event>) -> bool {
        if let Subject::Job(job) = subject {
            return run.is_some_and(|run| run.job == job);
        }
        match event {
            Some(Event::NodeChanged { node, .. } | Event::SafetyBroken { node, .. }) => {
                return subject == Subject::Node(*node);
            }
            Some(Event::GpuChanged { gpu, .. }) => {
                return subject == Subject::Gpu(*gpu) || subject == Subject::Node(gpu.node);
            }
            _ => {}
        }
        let placement = match event {
            Some(Event::Placed { placement, .. }) => Some(placement),
            _ => run.and_then(|run| self.fold.placement(run)),
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

    /// The verdicts, in the order of the expectations.
    pub fn finish(mut self, horizon: Horizon) -> Vec<Verdict> {
        self.close_instant();
        let watches = std::mem::take(&mut self.watches);
        let expectations = std::mem::take(&mut self.expectations);
        let judged = expectations.iter().zip(watches);
        judged.map(|(expectation, watch)| self.verdict(expectation, watch, horizon)).collect()
    }

    fn verdict(&self, expectation: &Expectation, watch: Watch, horizon: Horizon) -> Verdict {
        let (passed, happened) = match (watch, &expectation.what) {
            (_, What::State { subject, .. } | What::Count { subject: Some(subject), .. })
                if !self.fold.exists(*subject) =>
            {
                (false, self.never_existed(*subject, horizon))
            }
            (Watch::State { mut tally, story }, what) => {
                let finding = tally.finish(horizon);
                (finding == Finding::Passed, self.tell_state(what, &tally, &story, finding, horizon))
            }
            (Watch::Count { count, instants }, What::Count { is, window, .. }) => {
                let (holds, cut) = (is.holds(count), cut_text(horizon, bounds(*window).map_or(0, |(_, high)| high)));
                let text = tell_count(count, &instants);
                match cut {
                    Some(cut) => (false, format!("{text}; {cut}")),
                    None => (holds, text),
                }
            }
            (Watch::Count { .. }, What::State { .. }) => unreachable!("a state is watched as a state"),
        };
        let expected = sentence(&expectation.what, &self.names);
        Verdict { name: Arc::clone(&expectation.name), passed, expected, happened }
    }

    fn never_existed(&self, subject: Subject, horizon: Horizon) -> String {
        let name = subject_name(subject, &self.names);
        let end = match horizon {
            Horizon::Everything => "in the whole run".to_string(),
            Horizon::Until(at) => format!("before the run stopped at {at}"),
        };
        match subject {
            Subject::Job(_) => format!("{name} was never submitted {end}"),
            Subject::Node(_) | Subject::Gpu(_) => format!("{name} was never declared {end}"),
        }
    }

    fn tell_state(&self, what: &What, tally: &Tally, story: &Story, finding: Finding, horizon: Horizon) -> String {
        let What::State { subject, state, mode, on, window, .. } = what else {
            unreachable!("a state is watched as a state")
        };
        let story = story.text();
        if finding == Finding::Undecided {
            let high = bounds(*window).map_or(0, |(_, high)| high);
            return format!("{story}; {}", cut_text(horizon, high).expect("undecided because it was cut"));
        }
        match (mode, finding, tally.first_held) {
            (Mode::Never, Finding::Failed, Some(at)) => {
                let on = on.map_or(String::new(), |node| format!(" on {}", self.names.node(node)));
                let times = match tally.times_held {
                    1 => String::new(),
                    times => format!(" (first of {times} times)"),
                };
                let subject = subject_name(*subject, &self.names);
                format!("{subject} was {}{on} at {at}{times}: {story}", state_name(*state))
            }
            (Mode::Always, Finding::Failed, _) => match tally.first_broken {
                Some(at) => format!("not so at {at}: {story}"),
                None => format!("it was not there in that time: {story}"),
            },
            _ => story,
        }
    }
}

fn cut_text(horizon: Horizon, high: u64) -> Option<String> {
    match horizon {
        Horizon::Until(at) if high != u64::MAX && high > at.as_nanos() => {
            Some(format!("the run was stopped at {at}, before this could be known"))
        }
        Horizon::Until(_) | Horizon::Everything => None,
    }
}

fn tell_count(count: u64, instants: &[SimTime]) -> String {
    let mut at: Vec<String> = instants.iter().map(SimTime::to_string).collect();
    if count > at.len() as u64 {
        at.push("…".to_string());
    }
    match count {
        0 => "none happened".to_string(),
        1 => format!("1 happened, at {}", at.join(", ")),
        count => format!("{count} happened, at {}", at.join(", ")),
    }
}

impl Sink for Judge {
    fn input(&mut self, _step: u64, at: SimTime, input: &Input) {
        self.arrive(at);
        match input {
            Input::Submit { job, .. } => {
                if self.follows(*job) {
                    self.fold.input(input);
                    self.touch_job(*job);
                }
                let first = RunId { job: *job, replica: 0, attempt: 1 };
                self.count(EventName::Submitted, Some(first), None);
            }
            Input::NodeDeclared { node, .. } => {
                self.fold.input(input);
                self.touch_node(node.index());
            }
            Input::NodeReported { .. }
            | Input::HeartbeatBack { .. }
            | Input::HeartbeatMissed { .. }
            | Input::GpuReported { .. }
            | Input::ForeignUse { .. }
            | Input::Run { .. }
            | Input::Cancel { .. }
            | Input::Scale { .. }
            | Input::Wakeup => {}
        }
    }

    fn event(&mut self, _step: u64, at: SimTime, event: &Event) {
        self.arrive(at);
        let (name, run) = kind(event);
        // Counted before it is folded: an ended run still shows where it was.
        if let Some(name) = name
            && !self.counts.is_empty()
        {
            self.count(name, run, Some(event));
        }
        match event {
            Event::NodeChanged { node, .. } => {
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
                if let Some(run) = run.filter(|run| self.follows(run.job)) {
                    self.fold.event(event);
                    self.touch_job(run.job);
                }
            }
        }
    }
}

/// The name under which an event is counted, and the run it is about.
fn kind(event: &Event) -> (Option<EventName>, Option<RunId>) {
    match event {
        Event::NodeChanged { .. } => (Some(EventName::NodeChanged), None),
        Event::GpuChanged { .. } => (Some(EventName::GpuChanged), None),
        Event::Held { run, .. } => (Some(EventName::Held), Some(*run)),
        Event::Placed { run, .. } => (Some(EventName::Placed), Some(*run)),
        Event::CommitRefused { run, .. } => (Some(EventName::CommitRefused), Some(*run)),
        Event::Moved { run, to, .. } => {
            let name = match to {
                Phase::Analysing => Some(EventName::AnalysisStarted),
                Phase::Running => Some(EventName::Started),
                Phase::Stopping => Some(EventName::Stopping),
                Phase::Pending | Phase::Scheduled | Phase::Preparing | Phase::Ended => None,
            };
            (name, Some(*run))
        }
        Event::Ended { run, .. } => (Some(EventName::Ended), Some(*run)),
        Event::ClaimFreed { run, .. } => (None, Some(*run)),
        Event::Retry { run, .. } => (Some(EventName::Retry), Some(*run)),
        Event::DeadlineExpired { run, .. } => (Some(EventName::DeadlineExpired), Some(*run)),
        Event::SafetyBroken { run, .. } => (Some(EventName::SafetyBroken), Some(*run)),
        Event::ReplicaAdded { run } => (None, Some(*run)),
        Event::JobEnded { .. } => (None, None),
    }
}

/// Whether a run under the profile shows the report again: each named expectation failed, and each witness held.
///
/// `verdicts` are those of the scenario's own expectations, `witnesses` those of the reproduction, of the same run.
pub fn judge_reproduction(reproduction: &Reproduction, verdicts: &[Verdict], witnesses: &[Verdict]) -> Verdict {
    let mut happened = Vec::new();
    for name in &reproduction.fails {
        match verdicts.iter().find(|verdict| verdict.name == *name) {
            Some(verdict) if !verdict.passed => {}
            Some(verdict) => happened.push(format!("{name} held: {}", verdict.happened)),
            None => happened.push(format!("there is no expectation named {name}")),
        }
    }
    happened.extend(witnesses.iter().filter(|witness| !witness.passed).map(|witness| {
        format!("the witness {} did not hold, expected {}: {}", witness.name, witness.expected, witness.happened)
    }));
    let mut expected = format!("under {} ", reproduction.profile);
    expected.push_str(&match reproduction.fails.as_slice() {
        [] => "the report is visible".to_string(),
        fails => format!("{} fails", fails.join(" and ")),
    });
    if !witnesses.is_empty() {
        expected.push_str(" as reported");
    }
    let passed = happened.is_empty();
    let happened = if passed { "it was visible again".to_string() } else { happened.join("; ") };
    Verdict { name: format!("reproduces under {}", reproduction.profile).into(), passed, expected, happened }
}
