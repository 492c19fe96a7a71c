//! SWF files of other programs, unchanged. They are in the folder `data`, which contains `traces/swf-*`.

use std::path::Path;

use dryrack_trace::{Oddity, TaskTrace, swf};
use dryrack_units::{SimDuration, SimTime};

/// A test on the folder of data; `Err` describes the fault.
pub type Test = fn(&Path) -> Result<(), String>;

/// All tests of foreign SWF files: names and functions.
pub const ALL: [(&str, Test); 4] = [
    ("swf_with_28_columns_is_read", swf_with_28_columns_is_read),
    ("swf_with_decimal_times_out_of_order_is_read", swf_with_decimal_times_out_of_order_is_read),
    ("swf_of_a_model_without_requests_is_read", swf_of_a_model_without_requests_is_read),
    ("swf_without_a_header_is_read", swf_without_a_header_is_read),
];

fn read(data: &Path, file: &str) -> Result<TaskTrace, String> {
    swf::read_file(&data.join("traces").join(file)).map_err(|fault| fault.to_string())
}

/// CQSim's test.swf: burst-buffer columns after the 18, exit codes as status.
pub fn swf_with_28_columns_is_read(data: &Path) -> Result<(), String> {
    let trace = read(data, "swf-cqsim/test.swf")?;
    let rows = trace.tally.rows();
    same("extra", trace.tally.count(Oddity::ExtraFields), rows)?;
    same("kept", trace.tally.kept(), rows)?;
    same("nodes", trace.header.as_ref().and_then(|header| header.max_nodes), Some(4_392))?;
    let first = trace.tasks.first().ok_or("no task")?;
    same("first", (first.processors, first.outcome), (Some(1_024), None))
}

/// evalys' easy_mediumWL_smallPF.swf: 800 jobs, `2739.599152` seconds, waits of `-0.0`.
pub fn swf_with_decimal_times_out_of_order_is_read(data: &Path) -> Result<(), String> {
    let trace = read(data, "swf-evalys/easy_mediumWL_smallPF.swf")?;
    same("tasks", trace.tasks.len(), 800)?;
    let task = trace.tasks.iter().find(|task| task.name == "2050").ok_or("no job 2050")?;
    same("submit", task.submit, SimTime::from_nanos(2_739_599_152_000))?;
    same("wait", task.recorded_wait, Some(SimDuration::ZERO))?;
    same("sorted", trace.tasks.is_sorted_by_key(|task| task.submit), true)?;
    same("some out of order", trace.tally.count(Oddity::OutOfOrder) > 0, true)
}

/// Lublin's model: no wait, no request, no CPU time.
pub fn swf_of_a_model_without_requests_is_read(data: &Path) -> Result<(), String> {
    let trace = read(data, "swf-lublin/lublin_256.swf")?;
    same("tasks", trace.tasks.len(), 10_000)?;
    same("requests", trace.tasks.iter().filter(|task| task.estimate.is_some()).count(), 0)?;
    same("waits", trace.tasks.iter().filter(|task| task.recorded_wait.is_some()).count(), 0)
}

/// AccaSim's workload.swf: 25 jobs, nothing else.
pub fn swf_without_a_header_is_read(data: &Path) -> Result<(), String> {
    let trace = read(data, "swf-accasim/workload.swf")?;
    same("tasks", trace.tasks.len(), 25)?;
    same("nodes", trace.header.and_then(|header| header.max_nodes), None)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}")) }
}
