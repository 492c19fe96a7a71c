//! What the commands ask of the rooms that read scenario files.

use std::path::Path;

use crate::control::Profile;
use crate::engine::Rehearsal;
use crate::expect::{Expectation, Reproduction};

/// What the command line says over the file.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    pub seed: Option<String>,
    pub profile: Option<String>,
    pub until: Option<String>,
    pub set: Vec<String>,
}

/// A scenario that may be run.
pub struct Loaded {
    pub rehearsal: Rehearsal,
    pub expectations: Vec<Expectation>,
    pub reproductions: Vec<Reproduction>,
    /// What the file should be told, though it can be run; rendered.
    pub warnings: String,
}

/// Why there is no scenario to run.
pub enum LoadFailure {
    /// Rendered, all faults at once, and as JSON.
    Invalid(String, serde_json::Value),
    /// It needs a trace that is not here; says how to get it.
    TraceMissing(String),
}

pub fn load(path: &Path, _options: &LoadOptions) -> Result<Loaded, LoadFailure> {
    let text = format!("error: {}: this build reads no scenario files\n", path.display());
    Err(LoadFailure::Invalid(text, serde_json::Value::Null))
}

pub fn profile_names() -> Vec<&'static str> {
    Vec::new()
}

/// The profile, its bases folded in.
pub fn profile(_name: &str) -> Option<Profile> {
    None
}
