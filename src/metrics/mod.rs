//! Floor 7. The numbers of a run: sums over its records, its metrics, and the series of its replicas.
//!
//! Owns all computations of numbers from records. Sums are integers, and only the last division is a float, so a number
//! is the same on every machine. Must never simulate and never write a file.

#![warn(clippy::unwrap_used)]

mod account;
mod behind;
mod blame;
mod cause;
mod definitions;
mod finished;
mod fragment_account;
mod gone_nodes;
mod interval;
mod job_account;
mod load;
mod never_runs;
mod node_account;
mod outside_account;
mod own;
mod refused;
mod request_series;
mod run_metrics;
mod sections;
mod series;
mod service_account;
mod stated_power;
mod task_room;
mod unplaceable;
mod usage_account;
mod value;

pub use account::{PAST_ESTIMATE, RunAccount, RunRange, Stint};
pub use blame::{Blame, Shortages, WaitAccount, WaitsAgain};
pub use definitions::{METRICS, Metrics, WAIT_PERCENTS, quantile, wait_quantiles};
pub use finished::{JobFigures, Row};
pub use fragment_account::FragmentAccount;
pub use interval::{
    Estimate, FEWEST_LISTS, RUNS_FOR_A_TAIL, ResampledFrom, estimate, estimate_difference, estimate_resampled,
    range_over_runs, share_at_least,
};
pub use job_account::{JobAccount, ReplicaAccount, Standings};
pub use load::{LoadAccount, Sample};
pub use never_runs::{find_never_runs, judge_arrivals, judge_jobs};
pub use node_account::NodeAccount;
pub use outside_account::OutsideAccount;
pub use own::{MetricFunction, definition_of, definitions, register_metric};
pub use refused::{RefusedDecision, RefusedDecisions};
pub use request_series::{OverRequests, RequestSeries};
pub use run_metrics::RunMetrics;
pub use sections::{WaitSections, wait_sections};
pub use series::{Function, Series, Unit};
pub use service_account::{ServiceAccount, ServiceInterval};
pub use unplaceable::UnplaceableAccount;
pub use usage_account::{SavedAccount, UsageAccount, gpu_parts};
pub use value::{Definition, Value};
