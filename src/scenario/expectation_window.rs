//! The time window of an expectation. An expectation may state it in only one way.

use super::expectation_words::{ReadContext, reason, state_of, subjects};
use dryrack_expect::{Landmark, State, Subject, Window};
use dryrack_units::{SimDuration, SimTime};
use dryrack_yaml::{Fields, Node, Report, Tree, text, value};

/// All keys that state a time.
pub(super) const TIMES: [&str; 8] = ["at", "by", "until", "before", "after", "within", "from", "for"];
const LANDMARK_FIELDS: [&str; 6] = ["job", "node", "gpu", "is", "on", "because"];

/// Reads the window. In `before: b`, the instant is when job `b` enters the same `state`.
pub(super) fn read(
    fields: &Fields<'_>,
    setting: &ReadContext<'_>,
    state: Option<State>,
    meant_by_for: ForKey,
    report: &mut Report,
) -> Window {
    let ways = ["at", "by", "until", "before", "after", "within", "from"];
    fields.exclusive(&ways, "only one of them can give the time", report);
    warn_of_late_times(fields, setting.until, report);
    refuse_empty_windows(fields, report);
    let landmark_or_time = |key: &'static str, report: &mut Report| match fields.get(key) {
        Some(tree) => instant(key, tree, setting, state, report),
        None => None,
    };
    let mut time = |key: &str| fields.value::<SimTime>(key, report);
    let simple = [time("at").map(Window::At), time("by").map(Window::By), time("until").map(Window::Until)];
    let before = landmark_or_time("before", report).map(|instant| match instant {
        Instant::Time(at) => Window::Until(at),
        Instant::Landmark(landmark) => Window::BeforeState(landmark),
    });
    let after = landmark_or_time("after", report).map(|instant| match instant {
        Instant::Time(at) => Window::After(at),
        Instant::Landmark(landmark) => Window::AfterState(landmark),
    });
    let within = within(fields, report);
    let throughout = if meant_by_for == ForKey::Length { throughout(fields, report) } else { None };
    let rest = [before, after, within, throughout];
    simple.into_iter().chain(rest).flatten().next().unwrap_or(Window::Unstated)
}

/// Names and patterns of all jobs that the expectation mentions, either as its subjects or in its window.
pub(super) fn jobs_named<'t>(fields: &Fields<'t>) -> Vec<&'t str> {
    let own = ["job", "evaluate", "preempted_by", "before", "after"].into_iter().filter_map(|key| fields.get(key));
    // A metric may have `of` without `node`. The code for metrics checks those jobs.
    let own = own.chain(fields.get("of").filter(|_| fields.has("node")));
    own.filter_map(|tree| tree.scalar().or_else(|| tree.get("job")?.scalar())).collect()
}

/// The meaning of `for` in an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForKey {
    Length,
    /// The jobs to count, as in `for: cancelled`.
    Jobs,
}

enum Instant {
    Time(SimTime),
    Landmark(Landmark),
}

fn warn_of_late_times(fields: &Fields<'_>, until: Option<SimTime>, report: &mut Report) {
    let Some(until) = until else { return };
    for key in ["at", "by", "until", "before", "after", "from"] {
        let mut unreported = Report::default();
        let late = fields.value::<SimTime>(key, &mut unreported).is_some_and(|time| time > until);
        if late {
            let help = format!("write {until} or earlier, or a later `until` in the file");
            report.warning(fields.key_span(key), format!("the run stops at {until}, before this time"), help);
        }
    }
}

/// Refuses a window without an instant, in which nothing could be seen.
fn refuse_empty_windows(fields: &Fields<'_>, report: &mut Report) {
    for key in ["until", "before"] {
        let mut unreported = Report::default();
        if fields.value::<SimTime>(key, &mut unreported) == Some(SimTime::ZERO) {
            let message = "the run begins at 0s, so nothing is before it";
            report.error_with_help(
                fields.key_span(key),
                message,
                "write a later time, or `at: 0s` for the first instant",
            );
        }
    }
}

/// Reads a time, a job (in the same state), or a map that says which job, node or GPU is in which state.
fn instant(
    key: &'static str,
    tree: &Tree,
    setting: &ReadContext<'_>,
    state: Option<State>,
    report: &mut Report,
) -> Option<Instant> {
    if let Node::Map(_) = &tree.node {
        return landmark(tree, setting, report).map(Instant::Landmark);
    }
    let typed = text(tree, "a time, a job, or a state such as {job: chat, is: running}", report)?;
    if typed.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-') {
        return value::<SimTime>(tree, report).map(Instant::Time);
    }
    let [job] = setting.world.jobs(typed, tree.span, report)[..] else {
        // Jobs that arrive at random can be absent. `World::jobs` reports a name that matches nothing.
        let several = setting.world.jobs(typed, tree.span, &mut Report::default()).len();
        if several > 1 {
            let message = format!("`{typed}` matches {several} jobs");
            report.error_with_help(tree.span, message, "name one of them");
        }
        return None;
    };
    let is_of_jobs = |state: &State| match state {
        State::Phase(_) | State::Placed | State::Outcome(_) => true,
        State::Node(_) | State::Instance(_) | State::Gpu(_) | State::Holding(_) => false,
    };
    let state = state.filter(is_of_jobs);
    if state.is_none() {
        let help = format!("write `{key}: {{job: {typed}, is: running}}`");
        report.error_with_help(tree.span, format!("the state of `{typed}` is missing"), help);
    }
    Some(Instant::Landmark(Landmark { subject: Subject::Job(job), state: state?, on: None, because: None }))
}

fn landmark(tree: &Tree, setting: &ReadContext<'_>, report: &mut Report) -> Option<Landmark> {
    let fields = Fields::read(tree, "another's state", &LANDMARK_FIELDS, report)?;
    fields.exclusive(&["job", "node", "gpu"], "a state belongs to one of them", report);
    let found = subjects(&fields, setting.world, report);
    if fields.lacks_all(&["job", "node", "gpu"]) {
        let help = "write `{job: chat, is: running}` or `{node: alpha, is: ready}`";
        report.error_with_help(fields.place(), "the job, node or GPU is missing", help);
    }
    if found.len() > 1 {
        let message = format!("this matches {} of them, but the time must be that of one", found.len());
        report.error_with_help(fields.place(), message, "name one");
        return None;
    }
    let is = fields.require("is", "running", report)?;
    let state = state_of(&fields, is, report);
    let on = fields.get("on");
    let on = on.and_then(|tree| setting.world.node(text(tree, "the name of a node", report)?, tree.span, report));
    let because = fields.get("because").and_then(|tree| reason(tree, report));
    Some(Landmark { subject: *found.first()?, state: state?, on, because })
}

fn within(fields: &Fields<'_>, report: &mut Report) -> Option<Window> {
    let length = fields.value::<SimDuration>("within", report);
    if fields.has("within") && !fields.has("job") {
        let help = "add `job: chat`, or write `by:` for a time from the start";
        report.error_with_help(fields.key_span("within"), "`within` counts from the submission of a job", help);
        return None;
    }
    length.map(Window::Within)
}

fn throughout(fields: &Fields<'_>, report: &mut Report) -> Option<Window> {
    let from = fields.value::<SimTime>("from", report);
    if let Some(tree) = fields.get("for")
        && tree.scalar() == Some("cancelled")
    {
        let help = "write `count: placed, for: cancelled, is: 0`, or a duration after `from: 5m`";
        report.error_with_help(tree.span, "`for: cancelled` works only with `count`", help);
        return None;
    }
    let length = fields.value::<SimDuration>("for", report);
    match (from, length) {
        (Some(from), Some(length)) => match from.checked_add(length) {
            Some(to) if !length.is_zero() => return Some(Window::Throughout(from, to)),
            Some(_) => {
                let help = "write a longer time, or `at:` for one instant";
                report.error_with_help(fields.key_span("for"), "the period has no length", help);
            }
            None => {
                let help = "write a shorter time";
                report.error_with_help(fields.key_span("for"), "the period ends after the largest possible time", help);
            }
        },
        (Some(from), None) if !fields.has("for") => {
            let help = format!("add `for: 5m`, or write `after: {from}` for the rest of the run");
            report.error_with_help(fields.key_span("from"), "the length of the period is missing", help);
        }
        (None, Some(_)) if !fields.has("from") => {
            report.error_with_help(fields.key_span("for"), "the start of the period is missing", "add `from: 5m`");
        }
        _ => {}
    }
    None
}
