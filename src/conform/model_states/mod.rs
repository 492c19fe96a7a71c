//! GPUStack's rows of model instances: what users and nodes did, and what every call of the released scheduler left in its
//! store.
//!
//! The control plane is told what was done, at the times at which it was done, and its rows and its queue are held against
//! the recorded ones after every instant. How they are recorded is said in `tests/upstream/gpustack/sequences`.

mod record;
mod retrace;

use serde_json::Value;

use super::{Compared, Comparison, Profiles, RecordFields, RecordKind};
use record::Sequence;

pub struct ModelStates;

impl RecordKind for ModelStates {
    fn name(&self) -> &'static str {
        "sequence"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["workers", "models", "steps", "until", "version", "name"]
    }

    fn compare(&self, record: &RecordFields, _: &str, profiles: &mut Profiles) -> Result<Vec<Compared>, String> {
        let sequence: Sequence =
            serde_json::from_value(Value::Object(record.clone())).map_err(|fault| fault.to_string())?;
        sequence.check()?;
        let chosen = profiles.choose("gpustack", [sequence.version.as_str()]);
        let compared = chosen.into_iter().map(|(version, profile)| Compared {
            id: sequence.name.clone(),
            class: if sequence.name.starts_with("drawn ") { "drawn" } else { "by hand" }.to_string(),
            version: version.to_string(),
            result: match profile {
                Err(profile) => Comparison::NotAsked { profile },
                Ok(profile) => Comparison::Asked(retrace::first_difference(&sequence, profile).into_iter().collect()),
            },
        });
        Ok(compared.collect())
    }
}
