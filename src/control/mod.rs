//! Not yet furnished.
mod profile;
pub use profile::*;
