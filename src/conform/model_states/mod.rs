//! Recorded sequences of GPUStack's model instances. A sequence contains the actions of users and nodes, and the
//! database rows that each call of the released scheduler wrote.
//!
//! The control plane gets the recorded actions at their recorded times. After every instant, its rows and its queue are
//! compared with the recorded ones. `tests/upstream/gpustack/sequences` describes how sequences are recorded.

mod record;
mod retrace;

use super::kind::{Compared, RecordFields, RecordKind, each_version, parse};
use super::profiles::Profiles;
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
        let sequence: Sequence = parse(record)?;
        sequence.check()?;
        let class = if sequence.name.starts_with("drawn ") { "drawn" } else { "by hand" };
        let versions = [sequence.version.as_str()];
        each_version(profiles, ("gpustack", versions), (&sequence.name, class), |_, profile| {
            Ok(retrace::first_difference(&sequence, profile).into_iter().collect())
        })
    }
}
