//! Floor 1. YAML as a tree that remembers places, and diagnostics that mark each fault with a caret.
//!
//! This room reads and parses text, checks the fields of a map, converts them to quantities, writes a tree as text, and
//! renders faults. It must never know what a file is about: the rooms that use it define the keys of each map and their
//! meaning. It must never stop at the first fault, except at a syntax error.
//!
//! | step | module | result |
//! | --- | --- | --- |
//! | read | `source` | text within bounds |
//! | parse | `parse` | a `tree`; parsing stops at a syntax error |
//! | take apart | `fields`, `tree_serde` | the fields of a map, or a type that serde can read |
//! | write | `emit` | text that parses to the same tree |
//! | report | `diagnostic` | the rendered faults |

#![warn(clippy::unwrap_used)]

mod diagnostic;
mod emit;
mod fields;
mod parse;
mod source;
mod tree;
mod tree_serde;
mod written;

pub use diagnostic::{COMMAND_LINE, Diagnostic, Diagnostics, Kind, Report, Severity, SourceId, Span, cut_quotes};
pub use emit::{emit, emit_line, scalar};
pub use fields::matches as matches_pattern;
pub use fields::{Fields, Value, is_pattern, list, name, report_unit, text, value, word};
pub use parse::{parse, parse_documents};
pub use source::{nearest_path, read_foreign_text, read_text};
pub use tree::{Entry, Node, Tree};
pub use tree_serde::Misfit;
