//! Floor 3. Public traces: what they recorded, where they are, and how they are fetched.
//!
//! Owns:
//!
//! - the readers of trace formats ([`swf`], [`openb`], [`helios`], [`tiresias`], Alibaba's DLRM list and GenAI pods,
//!   Gavel, Pollux and Sia, Slurm's accounting, and dryrack's own CSV and JSON lines) and the rows they yield
//!   ([`TraceTask`], [`TraceNode`]);
//! - the writers of lists ([`TaskWriter`]);
//! - the statistics of a list and its comparison with a cluster ([`Census`], [`Demands`]), and the [`Tally`] of what
//!   was odd in it;
//! - synthetic lists, resampled from a recorded one or drawn from a model ([`Recorded`], [`lublin()`], [`fit()`]);
//! - the [`Index`] of known traces, the places where their files are looked for, and the fetching of a file from its
//!   public address.
//!
//! Knows nothing of the simulator: a row says what was recorded, and its reader decides what to do with it.
//!
//! Must never invent what a trace does not say (it is `None`), drop a row without counting it, return a named trace
//! whose checksum is not the one in the index, or leave a half-written file where a complete one is looked for. Reads
//! no clock.
//!
//! | for | call |
//! | --- | --- |
//! | a trace by name, checked | [`load_tasks`], [`load_nodes`] |
//! | what GPUs did | [`load_usage`], [`read_usage_csv`] |
//! | a file by path | [`read_tasks`], [`read_nodes`], [`swf::read_file`], [`openb::read_tasks`] |
//! | one row at a time | [`TaskStream`], [`swf::SwfReader`], [`openb::PodReader`], [`openb::NodeReader`] |
//! | `dryrack trace get`, `verify`, `list` | [`get`], [`verify`], [`list`] |

#![warn(clippy::unwrap_used)]

mod alter;
mod census;
mod daily;
mod date;
mod decimal;
mod dlrm;
mod error;
mod fetch;
mod fitted;
mod fitting;
mod format;
mod gamma;
mod gavel;
mod genai;
pub mod helios;
mod index;
mod load;
mod locate;
mod lublin;
pub mod openb;
mod own;
mod pollux;
mod resample;
mod row;
mod rows;
mod slurm;
mod stream;
mod sum;
mod supply;
pub mod swf;
mod table;
mod tally;
mod text;
pub mod tiresias;
mod usage_csv;
mod write;

pub use alter::{Sample, Scale};
pub use census::{Census, Facts, Lengths, SINCE_1970};
pub use date::parse as parse_date;
pub use error::TraceError;
pub use fetch::{Got, GotFile, How, get};
pub use fitted::{Apart, BadModel, Fitted, Unit};
pub use fitting::{LEAST_TASKS, Unfit, fit};
pub use format::{Asks, Format};
pub use index::{Holds, Index, TraceEntry, TraceFile};
pub use load::{load_nodes, load_tasks, load_usage, open_file, read_nodes, read_tasks};
pub use locate::{Checked, FileCheck, FileState, Listed, Located, Roots, list, locate, verify};
pub use lublin::{Kinds, LEAST_PROCESSORS, lublin};
pub use resample::Recorded;
pub use row::{NodeTrace, Outcome, RunBasis, TaskTrace, TraceNode, TraceTask};
pub use rows::Rows;
pub use stream::TaskStream;
pub use supply::{Cases, Demands, Impossible, Load, Supply};
pub use swf::SwfHeader;
pub use tally::{Fate, Oddity, Tally};
pub use usage_csv::{UsageRecording, read_usage_csv};
pub use write::{Lost, Processors, TaskWriter, WriteError, Written};
