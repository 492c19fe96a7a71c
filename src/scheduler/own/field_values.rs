//! The fields of a job that variables read, and their values.

use dryrack_expression::Value;
use dryrack_units::{Bytes, SimDuration};
use dryrack_workload::{FieldValue, JobField, JobFields};

/// The field of a job that a variable reads beyond the demand of the job; `None` for other variables.
pub(super) fn field_of(path: &str) -> Option<JobField> {
    match path {
        "job.priority" => Some(JobField::Priority),
        "job.queue" => Some(JobField::Queue),
        "job.user" => Some(JobField::User),
        "job.project" => Some(JobField::Project),
        "job.estimated" | "job.estimate" => Some(JobField::Estimate),
        "job.time_limit" => Some(JobField::TimeLimit),
        "job.checkpoints" => Some(JobField::Checkpoints),
        _ => None,
    }
}

/// The field of a job that a variable of an order reads, if an entry of the queue does not always hold it.
pub(super) fn field_of_order(path: &str) -> Option<JobField> {
    match path {
        "job.model" => Some(JobField::Model),
        "job.total_gpus" => Some(JobField::Gpus),
        "job.total_cpus" => Some(JobField::Cpus),
        "job.total_ram" => Some(JobField::Ram),
        "job.priority" | "job.estimated" | "job.estimate" => None,
        _ => field_of(path),
    }
}

/// The value of a field of a job.
///
/// # Panics
/// If the job was submitted without this field, so that jobs which differ in it would share decisions.
pub(super) fn value_among(fields: Option<&JobFields>, field: JobField) -> &FieldValue {
    let value = fields.and_then(|fields| fields.get(field));
    value.unwrap_or_else(|| panic!("a stage reads {field:?}, which the job was not submitted with"))
}

/// The value in seconds of a time that a job does not state. It is longer than any real time.
pub(super) const NO_TIME: f64 = 1e15;

pub(super) fn value_of_variable<'a>(path: &str, value: &'a FieldValue) -> Value<'a> {
    match value {
        FieldValue::Time(time) if path == "job.estimated" => Value::Bool(time.is_some()),
        FieldValue::Flag(flag) => Value::Bool(*flag),
        FieldValue::Text(text) => Value::Text(text),
        FieldValue::Number(_) | FieldValue::Thousandths(_) | FieldValue::Size(_) | FieldValue::Time(_) => {
            Value::Number(number_of_field(value))
        }
    }
}

/// A value as a number: in seconds, cores, GPUs or GiB.
pub(super) fn number_of_field(value: &FieldValue) -> f64 {
    match value {
        FieldValue::Time(time) => time.map_or(NO_TIME, SimDuration::as_secs_f64),
        FieldValue::Number(number) => *number as f64,
        FieldValue::Thousandths(number) => cores(*number),
        FieldValue::Size(size) => gib(*size),
        FieldValue::Flag(_) | FieldValue::Text(_) => panic!("{value:?} is not a number"),
    }
}

pub(super) fn cores(milli: u64) -> f64 {
    milli as f64 / 1000.0
}

pub(super) fn gib(bytes: Bytes) -> f64 {
    bytes.get() as f64 / (1u64 << 30) as f64
}
