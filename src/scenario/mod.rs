//! Floor 9. Scenario files: from YAML text to a rehearsal with its expectations, or to all faults of the text.
//!
//! Owns the format of scenario and profile files, their diagnostics, and how the text is lowered to what it means.
//! Must never run a file that did not validate, nor stop at the first fault: [`load`] returns a complete [`Loaded`], or
//! every [`Diagnostic`] with its place and, if there is one, a suggestion of what to type instead.
//!
//! A text passes through these steps in order:
//!
//! | step | module | result |
//! | --- | --- | --- |
//! | read | `source` | text within bounds |
//! | parse | `parse` | a `tree` that remembers places; parsing stops at a syntax error |
//! | compose | `include`, `params`, `fleets`, `seeds` | the tree of one run, in the order given in `compose` |
//! | override | `set` | the tree with the overrides of the command line; `emit` writes its text |
//! | check and lower | `nodes`, `jobs`, `trace_source`, `changes`, `faults`, `failures`, `expectations` | ids, quantities, resolved names |
//! | report | `diagnostic` | the rendered faults |
//!
//! Ids are indices in lists. The nodes of `nodes:` come first, in the order of the file; those of the trace follow.
//! Jobs are in order of time; at the same instant, those of `jobs:` come first in the order of the file, followed by
//! those of the trace in the order of the trace.

#![warn(clippy::unwrap_used)]

mod arrivals;
mod changes;
mod clouds;
mod compose;
mod demand;
mod deployment;
mod diagnostic;
mod dstack_db;
mod dstack_files;
mod dstack_fleets;
mod elsewhere;
mod emit;
mod endless;
mod estimates;
mod expectation_blocks;
mod expectation_window;
mod expectations;
mod failures;
mod faults;
mod fields;
mod fleets;
mod found;
mod gpustack;
mod imported;
mod include;
mod instances;
mod jobs;
mod lengths;
mod live;
mod load;
mod machines;
mod metric_text;
mod nodes;
mod params;
mod parse;
mod plan_file;
mod policies;
mod policy_file;
mod profile_compare;
mod profile_diff;
mod profiles;
mod requirements;
mod resources;
mod schema;
mod schema_fleets;
mod schema_table;
mod schema_usage;
mod seeds;
mod services;
mod set;
mod source;
mod splits;
mod sqlite;
mod streamed;
mod terms;
mod trace_source;
mod tree;
mod tree_serde;
mod usage;
mod usage_recorded;
mod world;

#[cfg(test)]
mod tests;

pub use compose::{Cell, Outline};
pub use diagnostic::{COMMAND_LINE, Diagnostic, Diagnostics, Kind, Severity, Span, cut_quotes};
pub use dstack_db::import_dstack;
pub use expectations::expectation_words;
pub use fields::matches as matches_pattern;
pub use found::{FoundOptions, nodes_text};
pub use gpustack::{import_gpustack_pages, import_gpustack_store};
pub use imported::{ImportError, Imported, Names, SCENARIO};
pub use load::{DEFAULT_PROFILE, Loaded, Options, check, load, load_text, outline};
pub use plan_file::{Factor, Method, Objective, PlanFile, load_plan};
pub use policy_file::{PolicyFile, PolicyOf, load_policies, load_policy};
pub use profile_compare::{OptionDifference, compare_profiles};
pub use profiles::{Against, check_profile, load_profile, load_profile_as_in_base, profile_names, profile_options};
pub use resources::read_resources;
pub use schema::schema;
pub use source::nearest_path;
pub use streamed::{Streamed, StreamedArrivals};
pub use trace_source::TraceUse;
