//! The variables of an expression, their types, and the limits on an expression.

use std::ops::Range;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Bool,
    Number,
    Text,
    /// A list of texts.
    Texts,
    /// Texts with keys: `node.labels.zone` or `node.labels["zone"]`.
    Labels,
}

impl Type {
    /// The name of the type in messages.
    pub fn name(self) -> &'static str {
        match self {
            Type::Bool => "true or false",
            Type::Number => "a number",
            Type::Text => "a text",
            Type::Texts => "a list of texts",
            Type::Labels => "labels",
        }
    }
}

/// A variable that an expression can read, such as `node.spot`.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// The name: one word, or two words with a dot between them.
    pub path: &'static str,
    pub is: Type,
    /// The meaning in a few words, with the unit.
    pub about: &'static str,
}

/// One value that an expression reads.
pub(super) struct Slot {
    /// The name of the value in the checked program. A user's expression cannot contain such a name.
    pub name: String,
    pub variable: &'static Variable,
    /// The key of the label, if the variable holds labels.
    pub label: Option<String>,
    /// The byte range where the expression first reads it.
    pub at: Range<usize>,
}

/// The largest number of steps that an expression may take. The limit is small, because a stage is evaluated for each
/// class of nodes and each demand.
pub const MOST_STEPS: u64 = 10_000;

/// The largest number of characters of an expression.
pub const MOST_CHARACTERS: usize = 2_000;

/// The assumed length of a list variable, for the limit on the number of steps.
pub const ASSUMED_ELEMENTS: u64 = 16;
