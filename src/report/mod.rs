//! Floor 6. What a run amounted to: metrics, tables, timelines, plots and the log file.
//!
//! Owns the folds from records to numbers, and every file that a run leaves. Sums are integers to the end, and only the
//! last division is a float, so a number is the same on every machine. Must never simulate, and never write a file half:
//! what is written is written beside and renamed.

mod account;
mod bins;
mod blame;
mod books;
mod brief;
mod fragment_account;
mod jobs_csv;
mod line;
mod load;
mod log_file;
mod metrics;
mod node_account;
mod nodes_csv;
mod page;
mod perfetto;
mod plot;
mod policy_line;
mod series;
mod spans;
mod summary;
mod sweep;
mod table;
mod timeline;
mod unplaceable;
mod usage_account;
mod waits;

pub use account::{JobAccount, ReplicaAccount, RunAccount};
pub use blame::{Blame, Shortages, WaitAccount};
pub use books::Books;
pub use brief::{JobFigures, Row};
pub use fragment_account::FragmentAccount;
pub use jobs_csv::{JobRow, read_jobs_csv, write_jobs_csv};
pub use line::{Filter, record_line};
pub use load::LoadAccount;
pub use log_file::{Footer, LogError, LogLine, LogReader, LogWriter, read_log};
pub use metrics::{Definition, METRICS, Metrics, Value, wait_quantiles};
pub use node_account::NodeAccount;
pub use nodes_csv::write_nodes_csv;
pub use page::{Files, PlanReport, PlanRow, RunReport, WAIT_PERCENTS};
pub use perfetto::write_perfetto;
pub use policy_line::{covered_alone_text, covered_text, idle_text};
pub use series::{Function, Series, Unit};
pub use spans::{Span, Spans};
pub use summary::{Heading, some, summary};
pub use sweep::{SweepPlot, SweepPoint};
pub use table::table;
pub use timeline::{about, timeline};
pub use unplaceable::UnplaceableAccount;
pub use usage_account::{SavedAccount, UsageAccount};
pub use waits::{Curve, Panel, WaitsPlot};
