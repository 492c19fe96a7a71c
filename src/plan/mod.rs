//! Floor 10. Plans: many alternatives of one scenario, run, set beside each other, and searched for the cheapest that is
//! good enough.
//!
//! Owns what is run of a plan and what is concluded of it. An *alternative* is a value of each factor; a *run* is an
//! alternative with a seed. Every alternative is run with the same seeds, so that what is drawn is drawn for all of them
//! alike and their differences are of their making (common random numbers).
//!
//! | module | does |
//! | --- | --- |
//! | `plan_run` | runs one alternative with one seed |
//! | `journal` | keeps what has been run, so that a killed plan goes on |
//! | `input_hash` | what a plan was made of, so that only what is of it is gone on with |
//! | `interval` | the mean of several runs, and how sure it is |
//! | `paired` | two alternatives job by job, and how sure their difference is |
//! | `search` | which runs show the cheapest alternative, and what was shown |
//! | `summary` | the alternatives side by side, and the answer |
//! | `page` | what a report of them shows |
//!
//! Must never draw, and never speak of an alternative that was not run as if it had been.

#![warn(clippy::unwrap_used)]

mod input_hash;
mod interval;
mod journal;
mod page;
mod paired;
mod plan_run;
mod search;
mod summary;

pub use input_hash::InputHash;
pub use interval::{Estimate, estimate};
pub use journal::{Journal, JournalError, PlanHeader, Runs};
pub use page::page;
pub use paired::{Difference, PairedJob, PairedSeed, Waited, difference, most_changed, pair};
pub use plan_run::{FleetSize, Kept, PlanRun, fleet_size, run_alternative};
pub use search::{Found, Search};
pub use summary::{Comparison, Row, answer, compare};
