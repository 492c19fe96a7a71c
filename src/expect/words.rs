//! Expectations as sentences.

use super::expectation::{
    BlockCount, Comparison, CountedJobs, EventName, ExpectationKind, Landmark, Mode, State, Subject, Window,
};
use super::fold::{gpu_state_name, node_state_name};
use dryrack_ids::{JobId, Names};

/// The expectation as a sentence, such as `chat is never placed on alpha before 5m`.
pub(super) fn sentence(what: &ExpectationKind, names: &Names) -> String {
    match what {
        ExpectationKind::State { subject, state, mode, on, blocks, because, replicas, of, window } => {
            let mut text = subject_name(*subject, names);
            if let Some(count) = replicas {
                text = format!("{count} of the replicas of {text}");
            }
            let verb = match mode {
                Mode::Never => "is never",
                Mode::Always => "is always",
                Mode::Is => "is",
            };
            text.push_str(&format!(" {verb} {}", state_name(*state)));
            if let State::Holding(count) = state {
                text.push_str(&format!(" {}{}", of_replicas(*count), of_jobs(of.as_deref(), names)));
            }
            if let Some(node) = on {
                text.push_str(&format!(" on {}", names.node(*node)));
            }
            text.push_str(&blocks.map_or(String::new(), block_text));
            if let Some(reason) = because {
                text.push_str(&format!(" because {reason}"));
            }
            if let (Mode::Is, Window::Throughout(..)) = (mode, window) {
                text.push_str(" at all times");
            }
            text + &window_text(*window, *mode == Mode::Is, names)
        }
        ExpectationKind::Count { event, subject, because, whose, preempted_by, is, window } => {
            let event = event.map_or("any event", EventName::name);
            let of = match (subject, whose) {
                (Some(subject), CountedJobs::Any) => format!(" of {}", subject_name(*subject, names)),
                (Some(subject), CountedJobs::Cancelled) => {
                    format!(" of {} after cancellation", subject_name(*subject, names))
                }
                (None, CountedJobs::Cancelled) => " of cancelled jobs".to_string(),
                (None, CountedJobs::Any) => String::new(),
            };
            let because = because.map_or(String::new(), |reason| format!(" because {reason}"));
            let by = preempted_by.as_deref().map_or(String::new(), |by| format!(" by {}", job_names(by, names)));
            format!("{event}{of}{by}{because}: {}{}", comparison(*is), window_text(*window, false, names))
        }
        ExpectationKind::Evaluation { job, at, is, because } => {
            let because = because.map_or(String::new(), |reason| format!(" because {reason}"));
            format!("{} is evaluated as {}{because} at {at}", names.job(*job), is.name())
        }
        ExpectationKind::Metric(check) => check.text.to_string(),
        ExpectationKind::EachCanRun => "every job can run if all nodes are ready and empty".to_string(),
        ExpectationKind::Absent { pattern } => format!("a job named `{pattern}` is submitted"),
    }
}

pub(super) fn subject_name(subject: Subject, names: &Names) -> String {
    match subject {
        Subject::Job(job) => names.job(job).to_string(),
        Subject::Node(node) => names.node(node).to_string(),
        Subject::Gpu(gpu) => names.gpu(gpu),
    }
}

pub(super) fn state_name(state: State) -> &'static str {
    match state {
        State::Phase(phase) => phase.name(),
        State::Placed => "placed",
        State::Outcome(outcome) => outcome.name(),
        State::Node(state) => node_state_name(state),
        State::Instance(state) => state.name(),
        State::Gpu(state) => gpu_state_name(state),
        State::Holding(_) => "holding",
    }
}

/// The largest number of job names in a sentence.
const NAMED: usize = 3;

fn job_names(jobs: &[JobId], names: &Names) -> String {
    let shown: Vec<&str> = jobs.iter().take(NAMED).map(|job| names.job(*job)).collect();
    match jobs.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{} or {more} more", shown.join(", ")),
        Some(0) | None => shown.join(" or "),
    }
}

fn of_jobs(jobs: Option<&[JobId]>, names: &Names) -> String {
    jobs.map_or(String::new(), |jobs| format!(" of {}", job_names(jobs, names)))
}

/// A state that sets a window, such as `b is running on alpha`.
pub(super) fn landmark_text(landmark: &Landmark, names: &Names) -> String {
    let on = landmark.on.map_or(String::new(), |node| format!(" on {}", names.node(node)));
    let because = landmark.because.map_or(String::new(), |reason| format!(" because {reason}"));
    format!("{} is {}{on}{because}", subject_name(landmark.subject, names), state_name(landmark.state))
}

fn window_text(window: Window, last_if_unstated: bool, names: &Names) -> String {
    match window {
        Window::Unstated if last_if_unstated => " at the end".to_string(),
        Window::Unstated => String::new(),
        Window::At(at) => format!(" at {at}"),
        Window::By(at) => format!(" by {at}"),
        Window::Until(at) => format!(" before {at}"),
        Window::After(at) => format!(" from {at} on"),
        Window::Throughout(from, to) => format!(" from {from} to {to}"),
        Window::Within(length) => format!(" within {length} of its submission"),
        Window::BeforeState(landmark) => format!(" before {}", landmark_text(&landmark, names)),
        Window::AfterState(landmark) => format!(" after {}", landmark_text(&landmark, names)),
    }
}

/// The condition on blocks, such as ` with all of its blocks`.
fn block_text(blocks: BlockCount) -> String {
    match blocks {
        BlockCount::All => " with all of its blocks".to_string(),
        BlockCount::Some(count) => format!(" with {} of its blocks", comparison(count)),
    }
}

/// Such as `at most 1 replica`.
fn of_replicas(is: Comparison) -> String {
    match is {
        Comparison::Exactly(0) => "no replica".to_string(),
        Comparison::Exactly(1) | Comparison::AtLeast(1) | Comparison::AtMost(1) => {
            format!("{} replica", comparison(is))
        }
        _ => format!("{} replicas", comparison(is)),
    }
}

fn comparison(is: Comparison) -> String {
    match is {
        Comparison::Exactly(0) => "none".to_string(),
        Comparison::Exactly(count) => format!("exactly {count}"),
        Comparison::AtLeast(count) => format!("at least {count}"),
        Comparison::AtMost(count) => format!("at most {count}"),
    }
}

impl EventName {
    /// The name in files, such as `analysis_started`.
    pub fn name(self) -> &'static str {
        let row = EventName::ALL.iter().find(|(event, _)| *event == self);
        row.expect("every event has a row").1
    }
}

impl Comparison {
    pub fn holds(self, count: u64) -> bool {
        match self {
            Comparison::Exactly(wanted) => count == wanted,
            Comparison::AtLeast(wanted) => count >= wanted,
            Comparison::AtMost(wanted) => count <= wanted,
        }
    }
}
