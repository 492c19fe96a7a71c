//! Floor 9. The output of a run: summaries, tables, timelines, plots, pages and the log file.
//!
//! This room owns the content of every file that a run leaves. It must never simulate. A file must never be left half
//! written: each is written under a temporary name and renamed.

#![warn(clippy::unwrap_used)]

mod bins;
mod jobs_csv;
mod line;
mod log_file;
mod nodes_csv;
mod page;
mod perfetto;
mod plot;
mod policy_line;
mod served;
mod spans;
mod summary;
mod sweep;
mod table;
mod timeline;
mod waits;

pub use jobs_csv::{JobRow, read_jobs_csv, write_jobs_csv};
pub use line::{Filter, record_line};
pub use log_file::{Footer, LogError, LogLine, LogReader, LogWriter, read_log};
pub use nodes_csv::write_nodes_csv;
pub use page::{Files, HelpsReport, PlanGrowth, PlanReport, PlanRow, RunReport, TimeLimit, UNFINISHED_JOBS, mean_jobs};
pub use perfetto::write_perfetto;
pub use policy_line::{covered_alone_text, covered_text, idle_text};
pub use spans::{Span, Spans};
pub use summary::{Heading, summary};
pub use sweep::{SweepPlot, SweepPoint};
pub use table::table;
pub use timeline::{about, timeline};
pub use waits::{Curve, Panel, WaitsPlot};
