//! Custom stages: expressions in a profile, and functions that a program registers by name.
//!
//! Each stage is stored once and lives as long as the process, so options hold only references and can be copied.

mod expressions;
mod field_values;
mod functions;
mod names;
mod view;

use std::fmt;
use std::hash::{Hash, Hasher};

use dryrack_event::{OwnReason, Reason};
use dryrack_workload::JobField;

pub use dryrack_expression::{ComparedText, Comparison, Expression, Relation, Value, Variable};
pub use expressions::{check_filter, check_order, check_scorer, order_variables, placement_variables};
pub use functions::{StageError, register_filter, register_order, register_scorer};
pub use names::{filter_named, order_named, scorer_named};
pub use view::{NodeView, RequestView, WaitingView};

use super::verdict::{Reads, Verdict};

/// Limit of a score. A larger score is cut to this value, and NaN becomes the lowest score, because the sum of scores
/// must stay a number.
const BEST: f64 = 1e15;

/// How a stage computes.
enum Rule<F> {
    /// An expression, with its text from the profile.
    Expression(Expression),
    /// Registered by a program.
    Function(F),
}

impl<F> Rule<F> {
    fn expression(&self) -> Option<&Expression> {
        match self {
            Rule::Expression(expression) => Some(expression),
            Rule::Function(_) => None,
        }
    }
}

/// What a stage reads that changes without any change of nodes or jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub time: bool,
    /// The day of the week. If so, `time` is set too.
    pub weekday: bool,
    pub queue: bool,
}

impl Surroundings {
    fn of(expression: &Expression) -> Surroundings {
        Surroundings {
            time: expression.reads().any(view::is_of_time),
            weekday: expression.reads().any(|path| path == "time.weekday"),
            queue: expression.reads().any(view::is_of_queue),
        }
    }

    /// What at least one of two stages reads.
    pub(crate) fn or(self, other: Surroundings) -> Surroundings {
        Surroundings {
            time: self.time || other.time,
            weekday: self.weekday || other.weekday,
            queue: self.queue || other.queue,
        }
    }
}

/// A custom scorer.
#[derive(Clone, Copy)]
pub struct OwnScorer(&'static ScorerRule);

struct ScorerRule {
    name: String,
    rule: Rule<fn(&NodeView<'_>, &RequestView<'_>) -> f64>,
    surroundings: Surroundings,
    fields: Vec<JobField>,
}

impl OwnScorer {
    pub(crate) fn surroundings(self) -> Surroundings {
        self.0.surroundings
    }

    pub(crate) fn fields(self) -> &'static [JobField] {
        &self.0.fields
    }

    pub(super) fn score(self, node: &NodeView<'_>, job: &RequestView<'_>) -> f64 {
        let score = match &self.0.rule {
            Rule::Expression(expression) => expression.number(|path, label| view::value(node, job, path, label)),
            Rule::Function(function) => function(node, job),
        };
        if score.is_nan() { -BEST } else { score.clamp(-BEST, BEST) }
    }
}

/// A custom filter.
#[derive(Clone, Copy)]
pub struct OwnFilter(&'static FilterRule);

struct FilterRule {
    name: String,
    /// True for a node that must be refused.
    unless: Rule<fn(&NodeView<'_>, &RequestView<'_>) -> bool>,
    because: OwnReason,
    reads: Reads,
    surroundings: Surroundings,
    fields: Vec<JobField>,
    /// Whether it reads how much the job asks for.
    reads_amounts: bool,
}

impl OwnFilter {
    /// The reason of this filter's refusals.
    pub fn because(self) -> OwnReason {
        self.0.because
    }

    pub(crate) fn reads(self) -> Reads {
        self.0.reads
    }

    pub(crate) fn fields(self) -> &'static [JobField] {
        &self.0.fields
    }

    /// Whether it reads how much the job asks for, so that it may refuse a job although a job that asks for more passes.
    pub(crate) fn reads_amounts(self) -> bool {
        self.0.reads_amounts
    }

    pub(crate) fn surroundings(self) -> Surroundings {
        self.0.surroundings
    }

    /// The verdict on a node. If the node is assumed to be empty (`is_ideal`), a filter that reads state always lets it
    /// pass, because the node may pass in another state.
    pub(crate) fn judge(self, node: &NodeView<'_>, job: &RequestView<'_>, is_ideal: bool) -> Verdict {
        if is_ideal && self.0.reads == Reads::State {
            return Verdict::Fit;
        }
        let refuses = match &self.0.unless {
            Rule::Expression(expression) => expression.is_true(|path, label| view::value(node, job, path, label)),
            Rule::Function(function) => function(node, job),
        };
        let reason = Reason::Own(self.0.because);
        match (refuses, self.0.reads) {
            (false, _) => Verdict::Fit,
            (true, Reads::Shape | Reads::Pick) => Verdict::Never(reason),
            (true, Reads::State) => Verdict::Unfit(reason),
        }
    }
}

/// A custom sort key of the queue. The lowest rank comes first.
#[derive(Clone, Copy)]
pub struct OwnKey(&'static KeyRule);

struct KeyRule {
    name: String,
    rule: Rule<fn(&WaitingView) -> f64>,
    surroundings: Surroundings,
    reads_estimate: bool,
    fields: Vec<JobField>,
}

impl OwnKey {
    /// Whether the rank of a job can change while the job waits.
    pub(super) fn moves(self) -> bool {
        self.0.surroundings.time || self.0.surroundings.queue
    }

    pub(crate) fn surroundings(self) -> Surroundings {
        self.0.surroundings
    }

    pub(crate) fn fields(self) -> &'static [JobField] {
        &self.0.fields
    }

    pub(super) fn reads_estimate(self) -> bool {
        self.0.reads_estimate
    }

    pub(super) fn rank(self, job: &WaitingView) -> f64 {
        match &self.0.rule {
            Rule::Expression(expression) => expression.number(|path, _| view::value_of_waiting(job, path)),
            Rule::Function(function) => function(job),
        }
    }
}

/// The parts that all stages share. Equal stages are stored only once, so two stages are equal if they are the same
/// object.
macro_rules! kept_once {
    ($($own:ident by $rule:ident),*) => {$(
        impl $own {
            pub fn name(self) -> &'static str {
                &self.0.name
            }

            /// The text of the expression; `None` for a registered function.
            pub fn text(self) -> Option<&'static str> {
                self.expression().map(Expression::text)
            }

            /// The expression; `None` for a registered function.
            pub fn expression(self) -> Option<&'static Expression> {
                self.0.$rule.expression()
            }
        }

        impl PartialEq for $own {
            fn eq(&self, other: &$own) -> bool {
                std::ptr::eq(self.0, other.0)
            }
        }

        impl Eq for $own {}

        impl Hash for $own {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.name().hash(state);
            }
        }

        impl fmt::Debug for $own {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($own)).field(&self.name()).field(&self.text()).finish()
            }
        }
    )*};
}

kept_once!(OwnScorer by rule, OwnFilter by unless, OwnKey by rule);

#[cfg(test)]
mod tests;
