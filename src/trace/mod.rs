//! Floor 3. Public traces: what they recorded, where they are, and how they are fetched.
//!
//! Owns:
//!
//! - the readers of trace formats ([`swf`], [`openb`], [`helios`], [`tiresias`], Alibaba's DLRM list and GenAI pods,
//!   Gavel, Pollux and Sia, Slurm's accounting, and dryrack's own CSV and JSON lines) and the rows that they return
//!   ([`TraceTask`], [`TraceNode`]);
//! - the writers of lists ([`TaskWriter`]);
//! - the statistics of a list ([`Census`]), its comparison with a cluster ([`Demands`]), and the counts of its odd rows
//!   ([`Tally`]);
//! - synthetic lists, which are resampled from a recorded list or drawn from a model ([`Recorded`], [`lublin()`],
//!   [`fit()`]), and the blocks of recorded time that make up a resampled list ([`Blocks`]);
//! - the [`Index`] of known traces, the places in which their files are looked for, and the download of their files.
//!
//! Knows nothing about the simulator. A row contains what was recorded, and the caller decides what to do with it.
//!
//! Must never invent a value that a trace does not state (such a value is `None`). Must never drop a row without
//! counting it. Must never return a named trace whose checksum differs from the index. Must never leave a half-written
//! file in the place of a complete one. Reads no clock.
//!
//! | for | call |
//! | --- | --- |
//! | a trace by name, checked | [`load_tasks`], [`load_nodes`] |
//! | the GPU usage of a trace | [`load_usage`], [`read_usage_csv`] |
//! | a file by path | [`read_tasks`], [`read_nodes`], [`swf::read_file`], [`openb::read_tasks`] |
//! | one row at a time | [`TaskStream`], [`swf::SwfReader`], [`openb::PodReader`], [`openb::NodeReader`] |
//! | `dryrack trace get`, `verify`, `list` | [`get`], [`verify`], [`list`] |

#![warn(clippy::unwrap_used)]

mod alter;
mod blocks;
mod census;
mod daily;
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
mod jobcomp;
mod load;
mod locate;
mod lublin;
pub mod openb;
mod outliers;
mod overlap;
mod own;
mod pollux;
mod requests;
mod resample;
mod row;
mod rows;
mod sizing;
mod slurm;
mod slurm_job;
mod slurm_resources;
mod stream;
mod sum;
mod supply;
pub mod swf;
mod swf_header;
mod table;
mod tally;
mod text;
pub mod tiresias;
mod usage_csv;
mod write;

pub use alter::{Sample, Scale};
pub use blocks::{BlockMethod, Blocks, Piece};
pub use census::{Census, Facts, Lengths, SINCE_1970};
pub use error::TraceError;
pub use fetch::{Acquisition, GetResult, GotFile, get};
pub use fitted::{BadModel, Distances, Fitted, Unit};
pub use fitting::{FitError, LEAST_TASKS, fit};
pub use format::{Format, TaskResources};
pub use index::{Index, TraceContent, TraceEntry, TraceFile};
pub use load::{load_nodes, load_tasks, load_usage, open_file, read_nodes, read_tasks};
pub use locate::{Checked, FileCheck, FileState, Listed, Located, Roots, list, locate, verify};
pub use lublin::{Kinds, LEAST_PROCESSORS, lublin};
pub use outliers::Outliers;
pub use requests::{RequestTrace, read_requests};
pub use resample::Recorded;
pub use row::{Measured, NodeTrace, Outcome, RunBasis, TaskTrace, TraceNode, TraceTask};
pub use rows::Rows;
pub use sizing::{InUse, Size, Sizing};
pub use stream::TaskStream;
pub use supply::{Cases, Demands, Impossible, Load, Supply};
pub use swf_header::SwfHeader;
pub use tally::{Oddities, Oddity, RowFate, Tally};
pub use usage_csv::{UsageRecording, read_usage_csv};
pub use write::{DroppedValues, OutputFormat, Processors, TaskWriter, WriteError};
