//! Reports as pages: one HTML file that needs nothing else, and beside it all that is in it as CSV and JSON.
//!
//! A page names no address, so nothing is fetched; what anybody wrote is escaped; nothing in it tells the time or the
//! machine, so that it is the same bytes every time. It is read without its script, which only zooms the timeline.

mod axes;
mod chart;
mod data;
mod gantt;
mod heat;
mod html;
mod plan;
mod run;

pub use plan::{PlanReport, PlanRow};
pub use run::{Files, RunReport};
