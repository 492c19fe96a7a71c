//! Under which profile an answer is asked for again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dryrack_control::Profile;
use dryrack_scenario::{load_profile, profile_names};

/// The profile of each version, `dstack-0.22.5` for version 0.22.5 of dstack; or one for all.
#[derive(Default)]
pub struct Profiles {
    fixed: Option<Arc<Profile>>,
    /// Of a fixed profile that is of no version in the record, nothing is asked.
    own_only: bool,
    loaded: BTreeMap<String, Arc<Profile>>,
}

impl Profiles {
    /// All answers are held against this profile; if it is that of one version, only the answers of that version are.
    pub fn fixed(profile: Arc<Profile>) -> Profiles {
        Profiles { fixed: Some(profile), ..Profiles::default() }
    }

    /// Only the answers of the version that this profile is named after are asked for.
    pub fn own(profile: Arc<Profile>) -> Profiles {
        Profiles { fixed: Some(profile), own_only: true, ..Profiles::default() }
    }

    /// Whether there is one for all, so that no version need be known.
    pub fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// Which of these answers are asked for, and under which profile; the name of the profile that there is not.
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
