//! Floor 9. Scenario files: converts YAML text to a rehearsal with its expectations, or reports all errors of the text.
//!
//! This room owns the format of scenario files and plans, and how their trees are lowered. It must never run a file
//! with errors, and it must not stop at the first error: [`load`] returns either a complete [`Loaded`], or every
//! diagnostic with its place and, where possible, a suggestion.
//!
//! The room `yaml` reads and parses a text. The resulting tree passes through these steps in order:
//!
//! | step | module | result |
//! | --- | --- | --- |
//! | compose | `include`, `params`, `fleets`, `seeds` | the tree of one run, in the order given in `compose` |
//! | override | `set` | the tree with the overrides of the command line |
//! | check and lower | `nodes`, `jobs`, `trace_source`, `changes`, `faults`, `failures`, `expectations` | ids, quantities, resolved names |
//!
//! Ids are indices in lists. The nodes of `nodes:` come first, in the order of the file; those of the trace follow.
//! Jobs are in order of time; at the same instant, those of `jobs:` come first in the order of the file, followed by
//! those of the trace in the order of the trace.

#![warn(clippy::unwrap_used)]

mod arrays;
mod arrivals;
mod changes;
mod clouds;
mod compose;
mod cut_off;
mod demand;
mod dependencies;
mod deployment;
mod dstack_files;
mod dstack_fleets;
mod elsewhere;
mod endless;
mod estimates;
mod expectation_blocks;
mod expectation_window;
mod expectation_words;
mod expectations;
mod failures;
mod faults;
mod fleets;
mod growth;
mod horizon;
mod include;
mod instances;
mod job_template;
mod jobs;
mod kueue;
mod lacking_names;
mod lengths;
mod live;
mod load;
mod machines;
mod manifests;
mod metric_text;
mod misplaced;
mod money;
mod nodes;
mod options;
mod outside;
mod own_gpu;
mod params;
mod plan_assumptions;
mod plan_constraints;
mod plan_file;
mod pods;
mod policies;
mod policy_file;
mod requirements;
mod resources;
mod schema;
mod schema_arrivals;
mod schema_fleets;
mod schema_kueue;
mod schema_money;
mod schema_outside;
mod schema_serving;
mod schema_shape;
mod schema_slurm;
mod schema_speeds;
mod schema_table;
mod schema_trace;
mod schema_usage;
mod seeds;
mod services;
mod serving;
mod serving_table;
mod set;
mod slurm;
mod speeds;
mod splits;
mod streamed;
mod task_list;
mod task_sets;
mod terms;
mod trace_source;
mod unasked;
mod usage;
mod usage_recorded;
mod world;

#[cfg(test)]
mod tests;

pub use compose::{Cell, Outline};
pub use expectations::expectation_words;
pub use horizon::Horizon;
pub use load::{Loaded, check, load, load_text, outline};
pub use nodes::NODE_STATES;
pub use options::{AddedWorkload, ListFile, Options, Outside};
pub use plan_file::{Factor, Method, Objective, PlanFile, Setting, has_same_load, load_plan};
pub use policy_file::{PolicyFile, PolicyOf, load_policies, load_policy};
pub use resources::read_resources;
pub use schema::schema;
pub use streamed::{Streamed, StreamedArrivals};
pub use trace_source::{GpuNameFindings, Resampled, TraceUse};
