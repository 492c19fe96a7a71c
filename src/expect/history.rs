//! Describes in words what happened to a subject.

use super::expectation::Window;
use super::window::{Horizon, is_seen};
use dryrack_units::SimTime;

/// How many changes are shown from the beginning of a history. After them, only the last change is shown.
const STORY_LINES: usize = 6;
/// How many instants are named for a count.
pub(super) const COUNT_INSTANTS: usize = 5;

/// The changes of a subject's state. The middle of a long history is left out.
#[derive(Default)]
pub(super) struct History {
    first: Vec<(SimTime, String)>,
    left_out: u64,
    last: Option<(SimTime, String)>,
}

impl History {
    pub fn record(&mut self, at: SimTime, text: String) {
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

    pub fn text(&self) -> String {
        let line = |(at, text): &(SimTime, String)| format!("{at} {text}");
        let mut parts: Vec<String> = self.first.iter().map(line).collect();
        if self.left_out > 0 {
            parts.push(format!("({} more changes)", self.left_out));
        }
        parts.extend(self.last.iter().map(line));
        parts.join(", ")
    }
}

/// A note that the run was stopped before the window could be judged. `None` if it was not.
pub(super) fn cut_text(horizon: Horizon, window: Window) -> Option<String> {
    match horizon {
        Horizon::Until(at) if !is_seen(window, horizon) => {
            Some(format!("the run stopped at {at}, before the outcome was known"))
        }
        Horizon::Until(_) | Horizon::Everything => None,
    }
}

pub(super) fn count_text(count: u64, instants: &[SimTime]) -> String {
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
