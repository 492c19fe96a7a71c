//! Decides whether a state held in a window of time, from a sequence of spans.
//!
//! A state is evaluated after all events of an instant, and time is in whole nanoseconds. So a state is a step function
//! of time. A span says that from one instant to another, both included, the subject was absent, the state held, or the
//! state did not hold.
//!
//! | window | its instants | a subject that does not exist from the start |
//! | --- | --- | --- |
//! | not stated | all; with `is`, only the last | instants before it exists do not count |
//! | `at: t` | t | must exist at t |
//! | `by: t` | 0 to t | instants before it exists do not count |
//! | `until: t` | 0 to just before t | instants before it exists do not count |
//! | `after: t` | t and all later instants | must exist at t |
//! | `from: t, for: d` | t to just before t + d | must exist at t |
//! | `within: d` | 0 to d after the job's submission | instants before it exists do not count |
//! | `before: {…}` | 0 to just before the other state's first instant | instants before it exists do not count |
//! | `after: {…}` | the other state's first instant and all later instants | must exist at that instant |
//!
//! The last three windows are set when the event that they depend on happens. If it never happens, the expectation
//! fails. `is` with `after: {…}` requires that the state begins to hold in the window for the first time. So it checks
//! an order, and a state that only recurs in the window does not satisfy it.
//!
//! | mode | passes if |
//! | --- | --- |
//! | `is` | the state held at one or more counted instants of the window; with `from … for`, at every one |
//! | `never` | the state held at no counted instant of the window, and there was at least one |
//! | `always` | the state held at every counted instant of the window, and there was at least one |
//!
//! Nothing changes after the last record, so a window may extend beyond it. But a run that was stopped early (`until:`
//! of the scenario, or `--until`) does not decide about later instants. An expectation that depends on later instants
//! fails and says so. A window without an end is judged up to the end of the run. If such a window begins after the end
//! of the run, it cannot be judged and fails.

use super::expectation::{Mode, Window};
use dryrack_planted::planted;
use dryrack_units::SimTime;

/// The last instant about which the records of a run say anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// The run ended because nothing was left to happen.
    Everything,
    /// The run was stopped. Nothing is known about later instants.
    Until(SimTime),
}

impl Horizon {
    fn last_ns(self) -> u64 {
        match self {
            Horizon::Everything => u64::MAX,
            Horizon::Until(at) => at.as_nanos(),
        }
    }
}

/// Whether a state held during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Absent,
    Held,
    Not,
}

/// The first and the last instant of a window. `None` if the window contains no instant.
pub(super) fn bounds(window: Window) -> Option<(u64, u64)> {
    match window {
        // These windows are not set yet: they have no end yet, or they have not begun.
        Window::Unstated | Window::Within(_) | Window::BeforeState(_) => Some((0, u64::MAX)),
        Window::AfterState(_) => None,
        Window::At(at) => Some((at.as_nanos(), at.as_nanos())),
        Window::By(at) => Some((0, at.as_nanos())),
        Window::Until(at) if planted!(UntilIncludesItsEnd) => Some((0, at.as_nanos())),
        Window::Until(at) => at.as_nanos().checked_sub(1).map(|last| (0, last)),
        Window::After(at) => Some((at.as_nanos() + u64::from(planted!(AfterLeavesOutItsStart)), u64::MAX)),
        Window::Throughout(from, to) => {
            let last = to.as_nanos().checked_sub(1)?;
            (from.as_nanos() <= last).then_some((from.as_nanos(), last))
        }
    }
}

/// Whether a run with this horizon can decide the window. For a window without an end, it is enough that the window has
/// begun.
pub(super) fn is_seen(window: Window, horizon: Horizon) -> bool {
    bounds(window).is_none_or(|(low, high)| {
        let must_be_known = if high == u64::MAX { low } else { high };
        must_be_known <= horizon.last_ns()
    })
}

/// Evaluates the spans of one state. They must come in order of time and without gaps.
#[derive(Debug)]
pub(super) struct Tally {
    mode: Mode,
    window: Window,
    open: (u64, Standing),
    /// The first instant of the window at which the state held, and how many times it began to hold in the window.
    pub first_held: Option<SimTime>,
    pub times_held: u64,
    /// The first counted instant of the window at which the state did not hold.
    pub first_broken: Option<SimTime>,
    /// The first instant at which the state held, in the window or before it.
    first_ever: Option<u64>,
    /// Whether the state must begin to hold in the window for the first time.
    is_order: bool,
    last: Standing,
    /// Whether the subject existed at some instant of the window.
    was_there: bool,
}

/// The result for all spans together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Passed,
    Failed,
    /// The run was stopped before the window ended.
    Undecided,
}

impl Tally {
    pub fn new(mode: Mode, window: Window) -> Tally {
        Tally {
            mode,
            window,
            open: (0, Standing::Absent),
            first_held: None,
            times_held: 0,
            first_broken: None,
            first_ever: None,
            is_order: mode == Mode::Is && matches!(window, Window::AfterState(_)),
            last: Standing::Absent,
            was_there: false,
        }
    }

    /// Sets the window, when the event that it depends on has happened.
    pub fn set(&mut self, window: Window) {
        self.window = window;
    }

    /// Records that `standing` applies from `at` on.
    pub fn turn(&mut self, at: SimTime, standing: Standing) {
        let (since, before) = self.open;
        if before == standing {
            return;
        }
        if let Some(end) = at.as_nanos().checked_sub(1)
            && since <= end
        {
            self.close(since, end, before);
        }
        self.open = (at.as_nanos(), standing);
        if standing == Standing::Held {
            self.first_ever.get_or_insert(at.as_nanos());
        }
    }

    fn close(&mut self, from: u64, to: u64, standing: Standing) {
        let Some((low, high)) = bounds(self.window) else { return };
        self.last = standing;
        let (from, to) = (from.max(low), to.min(high));
        if from > to {
            return;
        }
        let counted = match standing {
            Standing::Absent => matches!(self.window, Window::At(_) | Window::After(_) | Window::Throughout(..)),
            Standing::Held | Standing::Not => true,
        };
        self.was_there |= standing != Standing::Absent;
        if standing == Standing::Held {
            self.first_held.get_or_insert(SimTime::from_nanos(from));
            self.times_held += 1;
        } else if counted {
            self.first_broken.get_or_insert(SimTime::from_nanos(from));
        }
    }

    pub fn finish(&mut self, horizon: Horizon) -> Finding {
        let (since, standing) = self.open;
        self.close(since, horizon.last_ns().max(since), standing);
        if bounds(self.window).is_none() {
            return Finding::Failed;
        }
        let seen_whole = is_seen(self.window, horizon);
        let passed_if = |decided: bool| if decided { Finding::Passed } else { Finding::Failed };
        let unless_cut = |finding| if seen_whole { finding } else { Finding::Undecided };
        match (self.mode, self.window) {
            (_, Window::Within(_) | Window::BeforeState(_) | Window::AfterState(_)) => Finding::Failed,
            (Mode::Is, Window::After(from)) if self.is_order => match self.first_ever {
                Some(first) => passed_if(first >= from.as_nanos()),
                None => unless_cut(Finding::Failed),
            },
            (Mode::Is, Window::Unstated) => passed_if(self.last == Standing::Held),
            (Mode::Is, Window::Throughout(..)) | (Mode::Always, _) => match self.first_broken {
                Some(_) => Finding::Failed,
                None => unless_cut(passed_if(self.first_held.is_some())),
            },
            (Mode::Is, Window::At(_) | Window::By(_) | Window::Until(_) | Window::After(_)) => match self.first_held {
                Some(_) => Finding::Passed,
                None => unless_cut(Finding::Failed),
            },
            (Mode::Never, _) => match self.first_held {
                Some(_) => Finding::Failed,
                None => unless_cut(passed_if(self.was_there || planted!(NeverHoldsWithoutSubject))),
            },
        }
    }
}
