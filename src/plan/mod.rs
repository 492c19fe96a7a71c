//! Floor 10. Plans: runs many alternatives of one scenario, compares them, and searches for the cheapest alternative
//! that meets the constraints.
//!
//! This room decides which runs a plan makes and draws the conclusions from them. In this room, an *alternative* is a
//! choice of one value for each factor. A *run* is an alternative with a seed. All alternatives use the same seeds, so
//! they get the same random draws, and only the factors make a difference (common random numbers).
//!
//! | module | purpose |
//! | --- | --- |
//! | `plan_run` | runs one alternative with one seed |
//! | `journal` | records finished runs, so that a killed plan can resume |
//! | `locked_file` | opens a file that one process at a time may write |
//! | `input_hash` | hashes the inputs of a plan, so that only runs of the same inputs are resumed |
//! | `paired` | compares two alternatives job by job, with a confidence interval of the difference |
//! | `search` | chooses the runs that find the cheapest alternative, and says what they showed |
//! | `summary` | compares the alternatives |
//! | `answer` | gives the answer in words |
//! | `sure` | how sure it is that an alternative meets the constraints |
//! | `order` | says whether a measured cost tells which of two alternatives is cheaper |
//! | `cases` | assumptions that the plan varies: the answer for the worst of their values, and for each other one |
//! | `choices` | the next cheapest alternative, and the cheapest with each named value of a choice |
//! | `fleet_words` | the machines of an answer in words |
//! | `idle_factors` | names factors that made no difference to any run |
//! | `range_ends` | names values beyond the ranges of the factors that may be cheaper, of which nothing is known |
//! | `breaks` | runs the answer with fewer nodes and with more load |
//! | `at_odds` | says if a month of the horizon gives another result than the run with more load |
//! | `limits` | the limit for which jobs wait, if a larger fleet does not help |
//! | `horizon` | how long each alternative stays enough while the load grows |
//! | `horizon_cost` | what an alternative costs over the months, if only runs measure it |
//! | `helps` | changes of a scenario that may shorten waits, and the hours that each saves |
//! | `node_kinds` | the kinds of nodes, and the settings that add a node or a GPU of a kind |
//! | `page` | collects the contents of a report |
//!
//! It must never draw random numbers, and never present an alternative without runs as if it had been run.

#![warn(clippy::unwrap_used)]

mod answer;
mod at_odds;
mod breaks;
mod cases;
mod choices;
mod equal_speeds;
mod failing;
mod fleet_words;
mod helps;
mod horizon;
mod horizon_cost;
mod idle_factors;
mod input_hash;
mod interrupted;
mod journal;
mod left_undone;
mod limits;
mod locked_file;
mod node_kinds;
mod order;
mod page;
mod paired;
mod plan_run;
mod range_ends;
#[cfg(test)]
mod samples;
mod search;
mod summary;
mod sure;

pub use answer::{Answer, answer, start_wait_note, still_open};
pub use at_odds::month_at_odds;
pub use breaks::{BREAK_SEEDS, Break, BreakResult, BrokenConstraint, NodeKind, breaks, kinds};
pub use cases::{case_of_answer, cells_of_a_case, plans_of_cases};
pub use choices::{CheapestOfChoice, by_choice, named_choices};
pub use dryrack_metrics::{Estimate, estimate};
pub use equal_speeds::EqualSpeeds;
pub use failing::failing;
pub use fleet_words::fleet_words;
pub use helps::{Change, Changes, Saving, WaitTotal, changes, saved, sort as sort_savings};
pub use horizon::{
    Lasting, LastingUntil, first_month, horizon_header, horizon_json, horizon_rows, horizon_sentences, of_month,
    stops_being_enough, sure_end,
};
pub use horizon_cost::cheapest_throughout;
pub use idle_factors::{idle_factors, idle_sentence};
pub use input_hash::InputHash;
pub use journal::{Journal, JournalError, PlanHeader, Runs};
pub use limits::LimitedWaits;
pub use locked_file::open_locked;
pub use page::{PlanPage, constraint_names, page};
pub use paired::{Difference, JobWait, PairedJob, PairedSeed, difference, most_changed, pair};
pub use plan_run::{ConstraintResult, FleetSize, PlanRun, ResampledList, fleet_size, run_alternative, run_changed};
pub use range_ends::{EndOfAnswer, ends_of_answer, range_ends};
pub use search::{ChoiceResult, Failing, Search, SearchResult};
pub use summary::{Comparison, Rented, Row, compare};
