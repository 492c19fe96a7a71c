//! Floor 10. A run in the terminal: nodes, jobs and events at any instant of a log, and the explanation of a job there.
//!
//! Owns the state of the screen, the index with which a long log is shown at any instant, and the terminal itself. Must
//! never simulate, never judge and never read a file: it gets the records, and it asks for explanations and verdicts.
//!
//! | module | does |
//! | --- | --- |
//! | `state` | the fleet and its jobs at one instant, folded from records |
//! | `index` | finds the state of any instant, from copies of it that are kept along the log |
//! | `app` | what is shown, and what each key does |
//! | `draw`, `grid` | one picture of it |
//! | `answers` | explanations and verdicts, computed beside the display |
//! | `screen` | the terminal: entered, and left as it was found |

#![warn(clippy::unwrap_used)]

mod answers;
mod app;
mod draw;
mod grid;
mod index;
mod screen;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dryrack_event::Record;
use dryrack_ids::{JobId, Names};
use dryrack_units::SimTime;

pub use screen::{picture, show};

/// A run to be shown.
pub struct ViewedRun {
    pub title: String,
    pub profile: String,
    pub seed: u64,
    pub records: Arc<Vec<Record>>,
    pub names: Arc<Names>,
    pub end: SimTime,
}

/// Explains a job at an instant, as text. It returns `None` if the flag is set before the answer is known: then another
/// question has replaced this one.
pub type Explain = Arc<dyn Fn(JobId, SimTime, &AtomicBool) -> Option<String> + Send + Sync>;

/// Judges the expectations of the run, or says why they cannot be judged.
pub type JudgeRun = Arc<dyn Fn() -> Result<Vec<FailedExpectation>, String> + Send + Sync>;

/// An expectation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedExpectation {
    pub name: String,
    /// The job to explain, if the expectation is about one.
    pub job: Option<JobId>,
    /// When it was broken; the end of the run if only the end decides.
    pub at: SimTime,
    /// What was expected and what happened.
    pub text: String,
}

/// The first picture, and whether to use colours.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// [default: the start of the run]
    pub at: Option<SimTime>,
    pub job: Option<JobId>,
    pub has_colours: bool,
}
