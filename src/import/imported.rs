//! The result of importing a server's records, or the reason why the import failed.
//!
//! Before the files are written, [`Imported::checked`] passes them to the same parser that will read them later. So an
//! import ends either with a scenario that can run, or with the faults of the source, by table, row and column.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use thiserror::Error;

use super::found::free_name;
use dryrack_live::probe::{Missing, shown};
use dryrack_scenario::{Options, check};
use dryrack_trace::read_usage_csv;
use dryrack_units::SimDuration;
use dryrack_yaml::{Diagnostic, Severity};

#[derive(Debug, Error)]
pub enum ImportError {
    #[error("{0}")]
    Database(#[from] rusqlite::Error),
    #[error("this is not a database of a {server} server: it has no table `{table}`")]
    NoTable { server: &'static str, table: &'static str },
    #[error("{place}: {source}")]
    Unread { place: String, source: Missing },
    #[error("{place}: expected {expected}")]
    Malformed { place: String, expected: String },
    /// The first faults, one sentence each. `more` is the number of further faults.
    #[error("the result would not be a valid scenario\n  {}{}", faults.join("\n  "), further(*more))]
    Refused { faults: Vec<String>, more: usize },
    #[error("the result cannot be checked: {0}")]
    Unchecked(#[from] std::io::Error),
}

fn further(more: usize) -> String {
    if more == 0 { String::new() } else { format!("\n  and {}", counted(more, "further fault")) }
}

impl ImportError {
    pub(super) fn malformed(place: impl Into<String>, expected: impl Into<String>) -> ImportError {
        ImportError::Malformed { place: place.into(), expected: expected.into() }
    }
}

/// The files to write, and notes about left out data, one sentence each.
#[derive(Debug, Default)]
pub struct Imported {
    pub scenario: String,
    /// Recordings, each with the path that the scenario uses.
    pub recordings: Vec<(String, String)>,
    pub notes: Vec<String>,
    /// The contents of the scenario, such as `2 nodes`.
    pub holds: Vec<String>,
}

/// The origin of an entry of the scenario.
#[derive(Debug)]
pub(super) struct Origin {
    /// The byte of the scenario at which the entry begins.
    pub from: usize,
    /// The place in the source, such as ``table `models`, row 3``.
    pub place: String,
    /// For each key of the entry, the column from which it is made.
    pub columns: &'static [(&'static str, &'static str)],
}

/// The number of faults that are reported in full.
const SHOWN: usize = 8;

impl Imported {
    /// Returns this import if [`check`] accepts its scenario.
    pub(super) fn checked(self, origins: &[Origin]) -> Result<Imported, ImportError> {
        let folder = tempfile::tempdir()?;
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            std::fs::write(path, text)
        };
        self.recordings.iter().try_for_each(|(path, text)| write(path, text))?;
        write(SCENARIO, &self.scenario)?;
        for (name, _) in &self.recordings {
            // Check each recording here, because the check of the scenario does not read a recording that no job uses.
            if let Err(fault) = read_usage_csv(&folder.path().join(name)) {
                let said = fault.to_string().replace(&format!("{}/", folder.path().display()), "");
                return Err(ImportError::Refused { faults: vec![said], more: 0 });
            }
        }
        let path = folder.path().join(SCENARIO);
        let found = check(&path, &Options::default());
        let errors: Vec<&Diagnostic> =
            found.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).collect();
        if errors.is_empty() {
            return Ok(self);
        }
        let described = |error: &&Diagnostic| self.describe(error, &path, folder.path(), origins);
        let faults = errors.iter().take(SHOWN).map(described).collect();
        Err(ImportError::Refused { faults, more: errors.len().saturating_sub(SHOWN) })
    }

    /// Describes a fault of the scenario as a fault of the source.
    fn describe(&self, error: &Diagnostic, path: &Path, folder: &Path, origins: &[Origin]) -> String {
        // Remove the temporary folder from the message, because it means nothing to the user.
        let message = error.message.replace(&format!("{}/", folder.display()), "");
        if *error.file != *path.display().to_string() {
            let file = Path::new(&*error.file);
            let file = file.strip_prefix(folder).unwrap_or(file);
            return format!("{}, line {}: {message}", file.display(), error.line);
        }
        let lines = self.scenario.split_inclusive('\n');
        let begin: usize = lines.clone().take(error.line as usize - 1).map(str::len).sum();
        let line = lines.clone().nth(error.line as usize - 1).unwrap_or_default();
        let before: String = line.chars().take(error.column as usize - 1 + error.length as usize).collect();
        let at = begin + before.len();
        let Some(origin) = origins.iter().rfind(|origin| origin.from <= at) else { return message };
        let column = column_of(&self.scenario[origin.from..at], origin.columns);
        let column = column.map_or_else(String::new, |column| format!(", column `{column}`"));
        format!("{}{column}: {message}, in `{}`", origin.place, shown(line.trim()))
    }
}

/// The column for the last key in the entry before the fault.
fn column_of(entry: &str, columns: &[(&'static str, &'static str)]) -> Option<&'static str> {
    let is_between = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    // The last key may itself be faulty and have no colon yet.
    let ends = entry.match_indices(':').map(|(at, _)| at).chain([entry.len()]);
    let keys: Vec<&str> = ends.filter_map(|end| entry[..end].rsplit(is_between).next()).collect();
    keys.iter().rev().find_map(|key| columns.iter().find(|(known, _)| known == key).map(|(_, column)| *column))
}

/// The file name of the scenario in its folder.
pub const SCENARIO: &str = "scenario.yaml";

/// Whether names from the server are kept or replaced with numbered names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Kept,
    Numbered,
}

/// New names for one kind of object; equal names always get the same new name.
#[derive(Debug)]
pub(super) struct NameBook {
    names: Names,
    kind: &'static str,
    given: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl NameBook {
    pub fn new(names: Names, kind: &'static str) -> NameBook {
        NameBook { names, kind, given: BTreeMap::new(), taken: BTreeSet::new() }
    }

    /// The new name for this name. No other name gets the same one.
    pub fn of(&mut self, name: &str) -> String {
        if let Some(known) = self.given.get(name) {
            return known.clone();
        }
        let given = match self.names {
            Names::Kept => free_name(name, &mut self.taken),
            Names::Numbered => free_name(&format!("{}-{}", self.kind, self.given.len() + 1), &mut self.taken),
        };
        self.given.insert(name.to_string(), given.clone());
        given
    }

    /// The new name, if [`NameBook::of`] was already called with this name.
    pub fn known(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }
}

/// Parses a server's date in UTC, such as `2026-11-02 08:20:00.125` or `2026-11-02T08:20:00Z`, to milliseconds since
/// 1970.
pub(super) fn millis_of_date(typed: &str) -> Option<i64> {
    let plain = typed.trim_end_matches('Z').trim_end_matches("+00:00");
    let (whole, part) = plain.split_once('.').unwrap_or((plain, "0"));
    let at = dryrack_units::date::parse(whole)?;
    if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: i64 = format!("{part:0<3}")[..3].parse().ok()?;
    Some((at.as_nanos() / 1_000_000) as i64 + thousandths)
}

/// The beginning of the year 2500, in milliseconds since 1970. Later times are refused.
pub(super) const LAST_MILLIS: i64 = 16_725_225_600_000;

pub(super) fn time(millis: i64) -> String {
    SimDuration::from_millis(millis.max(0) as u64).to_string()
}

pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
