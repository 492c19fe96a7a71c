//! Finds the options of a historic profile that cause the bug which a scenario reproduces. Also finds options that no
//! scenario and no record distinguishes from their value in the base profile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::exit::Failure;
use dryrack_conform::Records;
use dryrack_profile::{ComparedBase, load_profile, load_profile_as_in_base, profile_names, profile_options};

/// The options in which a historic profile differs from its bases. Each was reset alone to see whether the bug
/// disappears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes {
    /// The profile's name, or the path of its file.
    profile: String,
    options: Vec<String>,
    /// The options that cause the bug: resetting one of them to the nearest non-historic base, or to the profile's own
    /// base, makes the bug disappear. If the bug came back in a later release, only the profile's own base does.
    pub causing: Vec<String>,
}

impl Causes {
    /// Tries each option of the profile; `is_cured` runs the scenario with that option reset to that base.
    pub fn find(file: &Path, profile: &str, is_cured: impl Fn(&str, ComparedBase) -> bool) -> Causes {
        let profile = profile_beside(file, profile);
        // The scenario has just run under this profile, so the profile is known to be readable.
        let options = |against| profile_options(&profile, against, Path::new("")).unwrap_or_default();
        let (mended, own) = (options(ComparedBase::Mended), options(ComparedBase::Base));
        let mut options = mended.clone();
        options.extend(own.iter().filter(|option| !mended.contains(option)).cloned());
        let is_causing = |option: &&String| {
            mended.contains(option) && is_cured(option, ComparedBase::Mended)
                || own.contains(option) && is_cured(option, ComparedBase::Base)
        };
        let causing = options.iter().filter(is_causing).cloned().collect();
        Causes { profile, options, causing }
    }

    /// The text that follows "reproduced under PROFILE" in the report.
    pub fn text(&self) -> String {
        // A list of stages that is a cause because of one of its stages.
        let is_within = |one: &str, list: &str| one.strip_prefix(list).is_some_and(|rest| rest.starts_with('.'));
        let is_told = |option: &&String| !self.causing.iter().any(|other| is_within(other, option));
        let told: Vec<&str> = self.causing.iter().filter(is_told).map(String::as_str).collect();
        match (self.options.is_empty(), told.as_slice()) {
            (true, _) => String::new(),
            (false, []) => ", because of no single option".to_string(),
            (false, [one]) => format!(", because of {one}"),
            (false, [first @ .., last]) => format!(", because of {} and of {last}", first.join(", ")),
        }
    }
}

/// The profile that a scenario file names. A path is made relative to the current folder instead of the file's folder.
pub fn profile_beside(file: &Path, profile: &str) -> String {
    let is_builtin = profile_names().any(|name| name == profile);
    let folder = file.parent().unwrap_or(Path::new(""));
    if is_builtin { profile.to_string() } else { folder.join(profile).display().to_string() }
}

/// An option of a historic profile that no scenario and no record distinguishes from the same option of its base.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UntestedOption {
    pub profile: String,
    pub option: String,
}

impl fmt::Display for UntestedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no scenario and no record distinguishes {} of {} from its base: write a scenario that reproduces it, or \
             remove the option",
            self.option, self.profile
        )
    }
}

/// All options that no scenario and no record distinguishes, of every historic profile that comes with dryrack and of
/// every other historic profile that a reproduction names.
pub fn untested_options(causes: &[&Causes], records: &[PathBuf]) -> Result<Vec<UntestedOption>, Failure> {
    let mut options: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in profile_names() {
        if load_profile(name, Path::new("")).map_err(input)?.historic {
            let differing = profile_options(name, ComparedBase::Base, Path::new("")).map_err(input)?;
            options.insert(name.to_string(), differing.into_iter().collect());
        }
    }
    for known in causes {
        // A profile that is not historic models no particular release, so its differences from its base need no
        // scenario.
        if load_profile(&known.profile, Path::new("")).map_err(input)?.historic {
            let own = profile_options(&known.profile, ComparedBase::Base, Path::new("")).map_err(input)?;
            options.entry(known.profile.clone()).or_default().extend(own);
        }
    }
    for known in causes {
        if let Some(left) = options.get_mut(&known.profile) {
            left.retain(|option| !known.causing.contains(option));
        }
    }
    let records = Records::read(records).map_err(|(file, fault)| Failure::file(file, fault))?;
    let mut untold = Vec::new();
    for (profile, left) in options {
        let left = untested_by_records(&records, &profile, left.into_iter().collect())?;
        untold.extend(left.into_iter().map(|option| UntestedOption { profile: profile.clone(), option }));
    }
    Ok(untold)
}

/// The options of a profile that no record distinguishes. For each of them: if it is reset to the base, every recorded
/// answer that the profile gave correctly is still correct.
fn untested_by_records(records: &Records, profile: &str, options: Vec<String>) -> Result<Vec<String>, Failure> {
    if options.is_empty() || profile_names().all(|name| name != profile) {
        return Ok(options);
    }
    let met = records.met_by(&load_profile(profile, Path::new("")).map_err(input)?);
    let met = met.map_err(|(file, fault)| Failure::file(file, fault))?;
    let is_told = |option: &String| match load_profile_as_in_base(profile, option, ComparedBase::Base, Path::new("")) {
        Ok(variant) => !met.are_met_by(&variant),
        // Without this option the profile does not load, so the option matters.
        Err(_) => true,
    };
    Ok(options.into_par_iter().filter(|option| !is_told(option)).collect())
}

fn input(diagnostics: dryrack_yaml::Diagnostics) -> Failure {
    Failure::Input(diagnostics.to_string())
}
