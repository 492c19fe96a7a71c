//! What every kind of record has: how it is recognized, and how its answers are compared.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::profiles::Profiles;
use dryrack_control::Profile;

/// The fields of one line of a file.
pub type RecordFields = Map<String, Value>;

/// A kind of record.
pub trait RecordKind: Sync {
    /// The name in reports, such as `utilization`.
    fn name(&self) -> &'static str;

    /// The fields that identify records of this kind.
    fn fields(&self) -> &'static [&'static str];

    /// Whether the record is of this kind. Only the names of its fields matter, not their values.
    fn describes(&self, record: &RecordFields) -> bool {
        self.fields().iter().all(|field| record.contains_key(*field))
    }

    /// Compares each answer of the record. Returns an error if the record itself is wrong. The error says what was
    /// expected and what was found. If the record does not state which version answered, the version may come from the
    /// file name `file`.
    fn compare(&self, record: &RecordFields, file: &str, profiles: &mut Profiles) -> Result<Vec<Compared>, String>;
}

/// The comparison of one answer of a record.
pub struct Compared {
    /// The name of the record.
    pub id: String,
    /// The class of the record within its kind, as stated in the record.
    pub class: String,
    /// The version of the program that answered.
    pub version: String,
    pub result: Comparison,
}

pub enum Comparison {
    /// The answer was compared. Contains each decision that differs; empty if all are equal.
    Asked(Vec<Difference>),
    /// The answer was not compared, because there is no profile of this name.
    NotAsked { profile: String },
}

/// One decision that differs from the recorded decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of difference, such as `fires early`. Differences of the same kind are counted together.
    pub kind: &'static str,
    /// A sentence with the recorded and the found value.
    pub text: String,
}

/// Deserializes a record as the type of its kind.
pub fn parse<R: DeserializeOwned>(record: &RecordFields) -> Result<R, String> {
    serde_json::from_value(Value::Object(record.clone())).map_err(|fault| fault.to_string())
}

/// Repeats the decision for each of these versions that has a profile. `id` and `class` are those of the record.
pub fn each_version<'v>(
    profiles: &mut Profiles,
    (program, versions): (&str, impl IntoIterator<Item = &'v str>),
    (id, class): (&str, &str),
    mut ask: impl FnMut(&str, Arc<Profile>) -> Result<Vec<Difference>, String>,
) -> Result<Vec<Compared>, String> {
    let compared = profiles.choose(program, versions).into_iter().map(|(version, profile)| {
        let result = match profile {
            Err(profile) => Comparison::NotAsked { profile },
            Ok(profile) => Comparison::Asked(ask(version, profile)?),
        };
        Ok(Compared { id: id.to_string(), class: class.to_string(), version: version.to_string(), result })
    });
    compared.collect()
}
