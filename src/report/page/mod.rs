//! Reports as pages: one self-contained HTML file, with its contents also as CSV and JSON beside it.
//!
//! A page contains no URL, so a browser fetches nothing. All user text is escaped. A page mentions neither the current
//! time nor the machine, so its bytes are always the same. It can be read without its script, which only zooms the
//! timeline.

mod axes;
mod chart;
mod data;
mod gantt;
mod heat;
mod helps;
mod html;
mod plan;
mod plan_plots;
mod plan_table;
mod run;
mod serving_plot;

pub use helps::HelpsReport;
pub use plan::{PlanGrowth, PlanReport, PlanRow, TimeLimit};
pub use plan_table::{UNFINISHED_JOBS, mean_jobs};
pub use run::{Files, RunReport};
