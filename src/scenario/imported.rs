//! What an import of a server's records yields, and why there is none.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::found::free_name;
use crate::live::probe::Missing;
use crate::units::SimDuration;

#[derive(Debug, Error)]
pub enum ImportError {
    #[error("{0}")]
    Database(#[from] rusqlite::Error),
    #[error("it is no database of a {server} server: it has no table `{table}`")]
    NoTable { server: &'static str, table: &'static str },
    #[error("{0}")]
    Unread(#[from] Missing),
    #[error("{place}: expected {expected}")]
    Malformed { place: String, expected: String },
}

impl ImportError {
    pub(super) fn malformed(place: impl Into<String>, expected: impl Into<String>) -> ImportError {
        ImportError::Malformed { place: place.into(), expected: expected.into() }
    }
}

/// Files of a folder, and what was left out, one sentence each.
#[derive(Debug, Default)]
pub struct Imported {
    pub scenario: String,
    /// Recordings by the path that the scenario names.
    pub recordings: Vec<(String, String)>,
    pub notes: Vec<String>,
    /// What the scenario holds, such as `2 nodes`.
    pub holds: Vec<String>,
}

/// Whether what a server has keeps its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Kept,
    Numbered,
}

/// New names for the names of one kind of thing, each as often as it is asked for.
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

    /// Of a thing whose name nobody else has.
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

    /// `None` of one that was never asked for with [`NameBook::of`].
    pub fn known(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }
}

pub(super) fn time(millis: i64) -> String {
    SimDuration::from_millis(millis.max(0) as u64).to_string()
}

pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
