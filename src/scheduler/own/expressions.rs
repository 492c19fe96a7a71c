//! Custom stages that are expressions. Each expression is checked when a profile is read. Equal stages are stored once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use dryrack_event::OwnReason;
use dryrack_expression::{Expression, ExpressionError, Type, Variable};
use dryrack_workload::JobField;

use super::field_values::{field_of, field_of_order};
use super::view::{OF_ORDER, OF_PLACEMENT, is_of_amount, is_of_shape};
use super::{FilterRule, KeyRule, OwnFilter, OwnKey, OwnScorer, Rule, ScorerRule, Surroundings};
use crate::verdict::Reads;

/// Checks the expression of a filter. The filter refuses a node if the expression is true.
///
/// # Errors
/// The first fault, with its place.
pub fn check_filter(text: &str) -> Result<Expression, ExpressionError> {
    Expression::new(text, OF_PLACEMENT, Type::Bool).map_err(with_help)
}

/// Checks the expression of a scorer.
///
/// # Errors
/// The first fault, with its place.
pub fn check_scorer(text: &str) -> Result<Expression, ExpressionError> {
    Expression::new(text, OF_PLACEMENT, Type::Number).map_err(with_help)
}

/// Adds a help text to the error that a variable is unknown, if it is one that a user may expect.
fn with_help(fault: ExpressionError) -> ExpressionError {
    let is_of = |path: &str| fault.message.starts_with(&format!("`{path}`"));
    let help = if is_of("node.name") {
        "nodes with equal state are judged together: give the node a label, and read `node.labels.NAME`"
    } else if is_of("job.name") {
        "jobs that ask for the same are judged together: read `job.user`, `job.project` or `job.queue`"
    } else if is_of("job.total_gpus") {
        "it is known only to an `order`: read `job.gpus * job.tasks`"
    } else if is_of("job.total_cpus") {
        "it is known only to an `order`: read `job.cpus * job.tasks`"
    } else if is_of("job.total_ram") {
        "it is known only to an `order`: read `job.ram * job.tasks`"
    } else if ["job.submitted", "job.waited", "job.ran", "now"].into_iter().any(is_of) {
        "it differs from job to job, or never repeats, so only an `order` can read it"
    } else {
        return fault;
    };
    ExpressionError { help: Some(help.to_string()), ..fault }
}

/// Checks the expression of a key of the queue's order.
///
/// # Errors
/// The first fault, with its place.
pub fn check_order(text: &str) -> Result<Expression, ExpressionError> {
    Expression::new(text, OF_ORDER, Type::Number).map_err(with_help_for_order)
}

/// Adds a help text to the error that a variable is unknown in an order, if filters and scorers can read it.
fn with_help_for_order(fault: ExpressionError) -> ExpressionError {
    let is_of = |path: &str| fault.message.starts_with(&format!("`{path}`"));
    let of_task = ["gpus", "cpus", "ram"].into_iter().find(|amount| is_of(&format!("job.{amount}")));
    let help = match of_task {
        Some(amount) => format!("read `job.total_{amount}`, the amount of all tasks together"),
        None if OF_PLACEMENT.iter().any(|variable| is_of(variable.path)) => {
            "an order compares waiting jobs before it looks at nodes, so only filters and scorers can read it"
                .to_string()
        }
        None => return fault,
    };
    ExpressionError { help: Some(help), ..fault }
}

/// The fields of a job that an expression reads, in order and without duplicates.
fn fields(expression: &Expression, of: fn(&str) -> Option<JobField>) -> Vec<JobField> {
    let fields: BTreeSet<JobField> = expression.reads().filter_map(of).collect();
    fields.into_iter().collect()
}

/// The variables that expressions of filters and scorers can read.
pub fn placement_variables() -> &'static [Variable] {
    OF_PLACEMENT
}

/// The variables that expressions of sort keys can read.
pub fn order_variables() -> &'static [Variable] {
    OF_ORDER
}

/// The stages that were read so far, by their text in the profile.
struct StageCache<T: 'static>(Mutex<BTreeMap<Vec<String>, &'static T>>);

impl<T> StageCache<T> {
    const fn new() -> StageCache<T> {
        StageCache(Mutex::new(BTreeMap::new()))
    }

    fn get(&self, written: &[&str], make: impl FnOnce() -> Result<T, String>) -> Result<&'static T, String> {
        let key: Vec<String> = written.iter().map(|part| (*part).to_string()).collect();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&key) {
            return Ok(known);
        }
        let made: &'static T = Box::leak(Box::new(make()?));
        kept.insert(key, made);
        Ok(made)
    }
}

impl OwnFilter {
    /// A filter that refuses every node for which `unless` is true.
    ///
    /// # Errors
    /// If the expression or the name of the reason is not valid.
    pub fn of_expression(name: &str, unless: &str, because: &str) -> Result<OwnFilter, String> {
        static KEPT: StageCache<FilterRule> = StageCache::new();
        let make = || {
            let expression = check_filter(unless).map_err(|fault| fault.to_string())?;
            let reads = if expression.reads().all(is_of_shape) { Reads::Shape } else { Reads::State };
            let (because, surroundings) = (OwnReason::new(because)?, Surroundings::of(&expression));
            let (fields, reads_amounts) = (fields(&expression, field_of), expression.reads().any(is_of_amount));
            let (name, unless) = (name.to_string(), Rule::Expression(expression));
            Ok(FilterRule { name, unless, because, reads, surroundings, fields, reads_amounts })
        };
        KEPT.get(&[name, unless, because], make).map(OwnFilter)
    }
}

impl OwnScorer {
    /// A scorer whose score is the value of an expression.
    ///
    /// # Errors
    /// If the expression is not valid.
    pub fn of_expression(name: &str, is: &str) -> Result<OwnScorer, String> {
        static KEPT: StageCache<ScorerRule> = StageCache::new();
        let make = || {
            let expression = check_scorer(is).map_err(|fault| fault.to_string())?;
            let (surroundings, fields) = (Surroundings::of(&expression), fields(&expression, field_of));
            Ok(ScorerRule { name: name.to_string(), rule: Rule::Expression(expression), surroundings, fields })
        };
        KEPT.get(&[name, is], make).map(OwnScorer)
    }
}

impl OwnKey {
    /// A sort key whose rank is the value of an expression.
    ///
    /// # Errors
    /// If the expression is not valid.
    pub fn of_expression(name: &str, is: &str) -> Result<OwnKey, String> {
        static KEPT: StageCache<KeyRule> = StageCache::new();
        let make = || {
            let expression = check_order(is).map_err(|fault| fault.to_string())?;
            let surroundings = Surroundings::of(&expression);
            let reads_estimate = expression.reads().any(|path| matches!(path, "job.estimate" | "job.estimated"));
            let fields = fields(&expression, field_of_order);
            let rule = Rule::Expression(expression);
            Ok(KeyRule { name: name.to_string(), rule, surroundings, reads_estimate, fields })
        };
        KEPT.get(&[name, is], make).map(OwnKey)
    }
}
