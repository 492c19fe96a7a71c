//! Counts of the answers that were equal and of those that were not.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Compared, Comparison};
use dryrack_units::Permille;

/// Number of answers that were asked for again, and number of those that are identical in every decision and every
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    pub asked: u64,
    pub identical: u64,
}

impl Share {
    /// The identical share of all answers in thousandths, rounded down; 1000 means that all are identical.
    pub fn permille(self) -> Option<Permille> {
        let share = self.identical.saturating_mul(1000).checked_div(self.asked)?;
        Some(Permille::new(share as u32))
    }

    /// Whether at least this part is identical, compared exactly. False where nothing was asked.
    pub fn is_at_least(self, least: Permille) -> bool {
        self.asked > 0 && u128::from(self.identical) * 1000 >= u128::from(least.get()) * u128::from(self.asked)
    }

    fn add(&mut self, is_identical: bool) {
        self.asked += 1;
        self.identical += u64::from(is_identical);
    }
}

/// A decision that differs, and where it is recorded.
#[derive(Clone, Debug, Serialize)]
pub struct Disagreement {
    pub file: String,
    pub line: u64,
    pub id: String,
    pub version: String,
    pub kind: &'static str,
    pub text: String,
}

/// The counts over all files.
#[derive(Debug, Default)]
pub struct Account {
    pub records: u64,
    pub all: Share,
    /// Shares by kind of record, its class, and the version that answered.
    pub classes: BTreeMap<(&'static str, String, String), Share>,
    /// By kind of record and kind of difference: how many decisions differ, and the index of the first in
    /// `differences`.
    pub kinds: BTreeMap<(&'static str, &'static str), (u64, usize)>,
    /// In the order in which they were found.
    pub differences: Vec<Disagreement>,
    /// Number of answers whose version has no profile, by the name of that profile.
    pub not_asked: BTreeMap<String, u64>,
}

impl Account {
    pub(super) fn add(&mut self, record_kind: &'static str, file: &str, line: u64, compared: Compared) {
        let Compared { id, class, version, result } = compared;
        let differences = match result {
            Comparison::Asked(differences) => differences,
            Comparison::NotAsked { profile } => {
                *self.not_asked.entry(profile).or_default() += 1;
                return;
            }
        };
        self.all.add(differences.is_empty());
        self.classes.entry((record_kind, class, version.clone())).or_default().add(differences.is_empty());
        for difference in differences {
            let first = self.differences.len();
            self.kinds.entry((record_kind, difference.kind)).or_insert((0, first)).0 += 1;
            self.differences.push(Disagreement {
                file: file.to_string(),
                line,
                id: id.clone(),
                version: version.clone(),
                kind: difference.kind,
                text: difference.text,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_of_them_are_the_whole() {
        let nearly = Share { asked: 2000, identical: 1999 };
        assert_eq!(nearly.permille(), Some(Permille::new(999)));
        assert!(!nearly.is_at_least(Permille::new(1000)));
        assert!(nearly.is_at_least(Permille::new(999)));
        assert!(!Share::default().is_at_least(Permille::ZERO), "of nothing, no part is identical");
    }
}
