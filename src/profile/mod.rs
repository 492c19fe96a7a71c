//! Floor 6. Profile files: read by name or path, merged with their bases, checked and compared.
//!
//! This room owns the profiles that come with dryrack, the rules of bases, and the comparison of profiles. It must
//! never define the meaning of an option, which is the task of the room `control`. It must report every fault of a
//! profile that it returns.

#![warn(clippy::unwrap_used)]

mod expressions;
mod profile_compare;
mod profile_diff;
mod profile_faults;
mod profile_schema;
mod profiles;

pub use profile_compare::{OptionDifference, compare_profiles};
pub use profile_schema::{OptionValue, PROFILE_SCHEMA, ProfileOption, derived_schema, option_reference};
pub use profiles::{
    Changes, ComparedBase, check_profile, load_profile, load_profile_as_in_base, profile, profile_names,
    profile_options, profile_with, read_profile, stand_in,
};
