//! Floor 1. Expressions in CEL, the Common Expression Language, which Kubernetes uses for device selectors.
//!
//! This room owns the check of an expression: its variables, its types, and an upper bound on its number of steps. The
//! crate `cel` parses and evaluates it. This room must never know the meaning of a variable, and never evaluate an
//! unchecked expression. A checked expression always ends, and always has a value of the expected type.
//!
//! In three points, the rules differ from CEL's, because the operator of a cluster would not expect CEL's behavior. All
//! numbers are doubles, even without a decimal point, so `1 / 2` is 0.5. A division by zero gives 0, so
//! `gpus.free / gpus.total` is 0 on a node without GPUs. A missing label reads as `""`.

#![warn(clippy::unwrap_used)]

mod check;
mod comparisons;
mod constant;
mod eval;
mod fault;
mod macros;
mod standard;
mod syntax;
mod variable;

use std::fmt;
use std::ops::Range;

use check::Checked;
pub use comparisons::{ComparedText, Comparison, Relation};
pub use eval::Value;
pub use fault::ExpressionError;
pub use variable::{ASSUMED_ELEMENTS, MOST_CHARACTERS, MOST_STEPS, Type, Variable};

/// The stack of the parser in bytes. It suffices for the longest and most deeply nested text.
const STACK: usize = 64 << 20;

/// An expression that has been checked.
pub struct Expression {
    text: String,
    checked: Checked,
}

/// Parses an expression of standard CEL, such as a device selector of Kubernetes. Checks neither its variables nor its
/// types: both can fault when it is evaluated.
///
/// # Errors
/// The first fault, with its place in the text.
pub fn parse_standard(text: &str) -> Result<cel::common::ast::IdedExpr, ExpressionError> {
    with_large_stack(|| syntax::parse_standard(text)).map(|(program, _)| program)
}

/// Checks the syntax and the names of an expression of standard CEL whose value is true or false. `variables` are the
/// variables that it may read, each with its fields. Types are not checked.
///
/// # Errors
/// The first fault, with its place in the text.
pub fn check_standard(text: &str, variables: &[(&str, &[&str])]) -> Result<(), ExpressionError> {
    with_large_stack(|| standard::check(text, variables))
}

/// Runs the parser, which is recursive, on its own thread with a large stack: the calling thread may have little left.
fn with_large_stack<T: Send>(parse: impl FnOnce() -> T + Send) -> T {
    let parsed = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, parse).expect("a thread can be started").join()
    });
    parsed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Expression {
    /// Checks an expression over these variables, whose value must have the type `wanted`.
    ///
    /// # Errors
    /// The first fault, with its place in the text.
    pub fn new(text: &str, variables: &'static [Variable], wanted: Type) -> Result<Expression, ExpressionError> {
        let checked = with_large_stack(|| check::check(text, variables, wanted))?;
        Ok(Expression { text: text.to_string(), checked })
    }

    /// The text as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The paths of the variables that the expression reads, each listed once.
    pub fn reads(&self) -> impl Iterator<Item = &'static str> {
        let paths: std::collections::BTreeSet<&'static str> =
            self.checked.slots.iter().map(|slot| slot.variable.path).collect();
        paths.into_iter()
    }

    /// The labels that the expression reads: the path of the variable, the key, and the byte range of the first place.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, &str, Range<usize>)> {
        let labels = self.checked.slots.iter().filter_map(|slot| Some((slot, slot.label.as_deref()?)));
        labels.map(|(slot, label)| (slot.variable.path, label, slot.at.clone()))
    }

    /// The comparisons of variables with texts, such as `node.labels.pool == "prod"`.
    pub fn comparisons(&self) -> &[Comparison] {
        &self.checked.comparisons
    }

    /// The value of the expression if it does not depend on any variable, once the comparisons with impossible texts are
    /// known to fail.
    pub fn constant(&self, is_possible: impl Fn(&Comparison, &ComparedText) -> bool) -> Option<Value<'static>> {
        constant::constant(&self.checked, &is_possible)
    }

    /// The value of an expression of type number; NaN if the result exceeds the range of doubles. `value` returns the
    /// value of a variable, given its path and, for labels, the key of the label.
    ///
    /// # Panics
    /// If the expression was checked for another type, or if `value` returns a value of the wrong type.
    pub fn number<'a>(&self, value: impl Fn(&'static str, Option<&str>) -> Value<'a>) -> f64 {
        match eval::evaluate(&self.checked, value) {
            Some(Value::Number(number)) => number,
            None => f64::NAN,
            other => panic!("`{}` was checked to be a number and is {other:?}", self.text),
        }
    }

    /// The value of an expression of type bool; `false` if it compares with NaN.
    ///
    /// # Panics
    /// As for [`Expression::number`].
    pub fn is_true<'a>(&self, value: impl Fn(&'static str, Option<&str>) -> Value<'a>) -> bool {
        match eval::evaluate(&self.checked, value) {
            Some(Value::Bool(value)) => value,
            None => false,
            other => panic!("`{}` was checked to be true or false and is {other:?}", self.text),
        }
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests;
