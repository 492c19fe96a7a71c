//! The profiles that are compared with recorded answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dryrack_control::Profile;
use dryrack_profile::{load_profile, profile_names};

/// The profile of each version, such as `dstack-0.22.5` for version 0.22.5 of dstack, or one profile for all versions.
#[derive(Default)]
pub struct Profiles {
    fixed: Option<Arc<Profile>>,
    /// If the fixed profile does not belong to any version in the record: whether nothing is compared. Otherwise all
    /// versions are compared.
    own_only: bool,
    loaded: BTreeMap<String, Arc<Profile>>,
}

impl Profiles {
    /// Uses this profile for all answers. But if it is the profile of a version in the record, only the answers of that
    /// version are compared.
    pub fn fixed(profile: Arc<Profile>) -> Profiles {
        Profiles { fixed: Some(profile), ..Profiles::default() }
    }

    /// Compares only answers of the version whose profile has this profile's name.
    pub fn own(profile: Arc<Profile>) -> Profiles {
        Profiles { fixed: Some(profile), own_only: true, ..Profiles::default() }
    }

    /// Whether one profile is used for all answers, so that a record need not state its version.
    pub fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// The versions whose answers are compared, each with its profile. If a version has no profile, returns the name
    /// that the profile would have.
    pub fn choose<'v>(
        &mut self,
        program: &str,
        versions: impl IntoIterator<Item = &'v str>,
    ) -> Vec<(&'v str, Result<Arc<Profile>, String>)> {
        let versions: Vec<&str> = versions.into_iter().collect();
        let name = |version: &str| format!("{program}-{version}");
        if let Some(fixed) = &self.fixed {
            let own: Vec<&str> = versions.iter().copied().filter(|version| name(version) == fixed.name).collect();
            let chosen = if own.is_empty() && !self.own_only { versions } else { own };
            return chosen.into_iter().map(|version| (version, Ok(Arc::clone(fixed)))).collect();
        }
        versions.into_iter().map(|version| (version, self.load(name(version)))).collect()
    }

    fn load(&mut self, name: String) -> Result<Arc<Profile>, String> {
        if let Some(known) = self.loaded.get(&name) {
            return Ok(Arc::clone(known));
        }
        if !profile_names().any(|known| known == name) {
            return Err(name);
        }
        let profile = load_profile(&name, Path::new("")).unwrap_or_else(|faults| panic!("a profile of ours: {faults}"));
        self.loaded.insert(name, Arc::clone(&profile));
        Ok(profile)
    }
}
