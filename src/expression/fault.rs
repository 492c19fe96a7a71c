//! The error for an expression that is refused.

use std::fmt;
use std::ops::Range;

/// Why an expression is refused, and at which place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The byte range of the faulty part. If something is missing at the end, this is the empty range at the end of the
    /// text.
    pub at: Range<usize>,
    pub message: String,
    /// What the user should write instead.
    pub help: Option<String>,
}

impl ExpressionError {
    pub(super) fn new(at: Range<usize>, message: impl Into<String>) -> ExpressionError {
        ExpressionError { at, message: message.into(), help: None }
    }

    pub(super) fn help(self, help: impl Into<String>) -> ExpressionError {
        ExpressionError { help: Some(help.into()), ..self }
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExpressionError {}
