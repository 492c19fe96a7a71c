//! Floor 10. Conformance: compares the recorded decisions of released programs with the decisions of dryrack.
//!
//! A file of records has one case in each line, as JSON, plain or gzip. A case has a world, a request, and the answers
//! of released versions of one program. Each answer is compared with the decision that the control plane's own code
//! makes under the profile of that version. Every difference has a kind and a sentence that describes it.
//!
//! Owns the reading of such files, the kinds of records, and the counts of equal and different answers. A kind
//! ([`RecordKind`]) recognizes its records by their fields. Each kind has its own file here and is listed in [`KINDS`].
//! Must never decide anything itself: the modules that decide in a run also decide here. Must never skip a record: a
//! record of an unknown kind is an error, and an answer without a profile is counted as not asked.

#![warn(clippy::unwrap_used)]

mod account;
mod instances;
mod kind;
mod kubernetes;
mod kueue;
mod matching;
mod model_states;
mod placement;
mod profiles;
mod read;
mod records;
mod regions;
mod run_states;
mod utilization;

pub use account::{Account, AgreementCount, Disagreement};
pub use instances::{Outcome, assign_all};
pub use kind::{Compared, Comparison, Difference, RecordFields, RecordKind};
pub use profiles::Profiles;
pub use read::{ConformError, conform};
pub use records::{Met, Records};

/// All kinds. A record belongs to the first kind that describes it.
pub const KINDS: [&dyn RecordKind; 8] = [
    &utilization::Utilization,
    &run_states::RunStates,
    &model_states::ModelStates,
    &matching::Matching,
    &regions::Regions,
    &placement::Placement,
    &kubernetes::Kubernetes,
    &kueue::KueueCycles,
];
