//! Stages that a program registers by name. A profile can then use such a name like that of a built-in stage.

use std::fmt;

use dryrack_event::OwnReason;
use dryrack_workload::JobField;

use super::names::{FILTERS, KEYS, Named, SCORERS};
use super::view::{NodeView, RequestView, WaitingView};
use super::{FilterRule, KeyRule, OwnFilter, OwnKey, OwnScorer, Rule, ScorerRule, Surroundings};
use crate::filter::FilterName;
use crate::order::OrderKey;
use crate::scorer::ScorerName;
use crate::verdict::Reads;

/// Why a stage cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageError {
    /// Another stage of this kind already has the name.
    Taken(String),
    /// The name is too long, or has characters other than lowercase letters, digits and `_`.
    Name(String),
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StageError::Taken(name) => write!(f, "a stage named `{name}` already exists"),
            StageError::Name(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for StageError {}

/// Registers a scorer. A profile uses it with `scorers: [{stage: NAME}]`. A higher score is better. The score is
/// multiplied by the weight, and is usually between 0 and 1.
///
/// The function must depend only on its arguments, and compute only with `+ - * /`. Then a run produces the same log on
/// every machine. Programs that register the same scorer can replay the log of such a run.
///
/// # Errors
/// If the name is taken, or is not a plain word.
pub fn register_scorer(name: &str, score: fn(&NodeView<'_>, &RequestView<'_>) -> f64) -> Result<(), StageError> {
    let is_taken = ScorerName::ALL.iter().any(|known| known.name() == name);
    let rule = || {
        OwnScorer(Box::leak(Box::new(ScorerRule {
            name: name.to_string(),
            rule: Rule::Function(score),
            surroundings: Surroundings::default(),
            fields: Vec::new(),
        })))
    };
    register(&SCORERS, name, is_taken, rule)
}

/// Registers a filter. A profile uses it with `filters: [..., {stage: NAME}]`. The function returns whether a node is
/// refused. The filter's name is the reason of its refusals. The function must depend only on its arguments. Unlike an
/// expression, it cannot read the priority or the user of a job, because jobs that ask for the same share its verdicts.
///
/// # Errors
/// If the name is taken, or is not a plain word.
pub fn register_filter(name: &str, refuses: fn(&NodeView<'_>, &RequestView<'_>) -> bool) -> Result<(), StageError> {
    let is_taken = FilterName::ALL.iter().any(|known| known.name() == name);
    let because = OwnReason::new(name).map_err(StageError::Name)?;
    let unless = Rule::Function(refuses);
    // A function may read anything, so this assumes that it reads the state of nodes.
    let rule = FilterRule {
        name: name.to_string(),
        unless,
        because,
        reads: Reads::State,
        surroundings: Surroundings::default(),
        fields: Vec::new(),
        reads_amounts: true,
    };
    register(&FILTERS, name, is_taken, || OwnFilter(Box::leak(Box::new(rule))))
}

/// Registers a sort key of the queue. A profile uses it with `order: [NAME]`. The entry with the lowest rank comes
/// first. The function must depend only on its argument. Its ranks are computed again at each pass.
///
/// # Errors
/// If the name is taken, or is not a plain word.
pub fn register_order(name: &str, rank: fn(&WaitingView) -> f64) -> Result<(), StageError> {
    let is_taken = OrderKey::ALL.iter().any(|known| known.name() == name);
    let rule = Rule::Function(rank);
    let surroundings = Surroundings { time: true, ..Surroundings::default() };
    let fields = JobField::ALL.to_vec();
    let rule = KeyRule { name: name.to_string(), rule, surroundings, reads_estimate: true, fields };
    register(&KEYS, name, is_taken, || OwnKey(Box::leak(Box::new(rule))))
}

fn register<T: Copy>(named: &Named<T>, name: &str, is_taken: bool, make: impl FnOnce() -> T) -> Result<(), StageError> {
    OwnReason::new(name).map_err(StageError::Name)?;
    if is_taken || !named.add(name, make) {
        return Err(StageError::Taken(name.to_string()));
    }
    Ok(())
}
