//! The fields of a job that stages of a profile read: expressions of its filters, scorers and order.

use std::sync::Arc;

use dryrack_units::{Bytes, SimDuration};

/// A field of a job. No field changes after the job is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobField {
    Priority,
    Queue,
    User,
    Project,
    Estimate,
    TimeLimit,
    Checkpoints,
    Model,
    /// The GPUs of all tasks. A shared GPU counts with its share.
    Gpus,
    /// The cores of all tasks.
    Cpus,
    /// The RAM of all tasks.
    Ram,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldValue {
    Flag(bool),
    Number(i64),
    /// A number in thousandths.
    Thousandths(u64),
    Size(Bytes),
    /// `None` if the job states no time.
    Time(Option<SimDuration>),
    /// Empty if the job has no such name.
    Text(Arc<str>),
}

/// The fields of a job that stages read, with their values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobFields(Box<[(JobField, FieldValue)]>);

impl JobField {
    pub const ALL: [JobField; 11] = [
        JobField::Priority,
        JobField::Queue,
        JobField::User,
        JobField::Project,
        JobField::Estimate,
        JobField::TimeLimit,
        JobField::Checkpoints,
        JobField::Model,
        JobField::Gpus,
        JobField::Cpus,
        JobField::Ram,
    ];
}

impl JobFields {
    pub(super) fn new(fields: Box<[(JobField, FieldValue)]>) -> JobFields {
        JobFields(fields)
    }

    /// The value of a field. `None` if it is not among these fields.
    pub fn get(&self, field: JobField) -> Option<&FieldValue> {
        self.0.iter().find(|(known, _)| *known == field).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_listed_once() {
        assert!(JobField::ALL.is_sorted() && JobField::ALL.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
