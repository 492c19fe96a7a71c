//! Floor 10. Conformance: compares decisions that released programs made with those that dryrack makes.
//!
//! A file of records holds one case per line, as JSON, plain or gzip: a world, what was asked, and the answers of the
//! released versions of one program. Each answer is compared with what the control plane's own code decides under the
//! profile of that version. Every difference has a kind and a sentence that describes it.
//!
//! Owns the reading of such files, the kinds of records, and the account of what is equal. A kind ([`RecordKind`])
//! recognizes its records by their fields; each kind is one file here and is entered in [`KINDS`]. Must never decide
//! anything itself: what a record asks is decided by the same modules that decide it in a run. Must never skip a
//! record: a record of no known kind is an error, and an answer for which there is no profile is counted as not
//! asked.

#![warn(clippy::unwrap_used)]

mod account;
mod instances;
mod matching;
mod model_states;
mod placement;
mod profiles;
mod read;
mod records;
mod regions;
mod run_states;
mod utilization;

pub use account::{Account, Disagreement, Share};
pub use profiles::Profiles;
pub use read::{ConformError, conform};
pub use records::{Met, Records};

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use dryrack_control::Profile;

/// One line of a file.
pub type RecordFields = Map<String, Value>;

/// A kind of record.
pub trait RecordKind: Sync {
    /// Name in reports, such as `utilization`.
    fn name(&self) -> &'static str;

    /// Fields by which records of this kind are recognized.
    fn fields(&self) -> &'static [&'static str];

    /// Whether the record is of this kind, judged by its fields alone, whether or not their values are right.
    fn describes(&self, record: &RecordFields) -> bool {
        self.fields().iter().all(|field| record.contains_key(*field))
    }

    /// Compares each answer of the record. An error is about the record: it says what was expected and what is there.
    /// `file` may say which version answered where the record does not.
    fn compare(&self, record: &RecordFields, file: &str, profiles: &mut Profiles) -> Result<Vec<Compared>, String>;
}

/// All kinds, in the order in which they are tried: a record belongs to the first kind that describes it.
pub const KINDS: [&dyn RecordKind; 6] = [
    &utilization::Utilization,
    &run_states::RunStates,
    &model_states::ModelStates,
    &matching::Matching,
    &regions::Regions,
    &placement::Placement,
];

/// Deserializes a record into the form of its kind.
fn parse<R: DeserializeOwned>(record: &RecordFields) -> Result<R, String> {
    serde_json::from_value(Value::Object(record.clone())).map_err(|fault| fault.to_string())
}

/// Asks again for each of these versions of a program that has a profile. `id` and `class` are those of the record.
fn each_version<'v>(
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

/// One answer of a record.
pub struct Compared {
    /// Name of the record.
    pub id: String,
    /// Class of the record within its kind, as the record states it.
    pub class: String,
    /// Version of the program that answered.
    pub version: String,
    pub result: Comparison,
}

pub enum Comparison {
    /// Each decision that differs; empty if all are equal.
    Asked(Vec<Difference>),
    /// There is no such profile.
    NotAsked { profile: String },
}

/// One decision that differs from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Kind of the difference, such as `fires early`. Differences of one kind are counted together.
    pub kind: &'static str,
    /// What was recorded and what was found.
    pub text: String,
}
