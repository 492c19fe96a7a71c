//! Counts how many recorded answers dryrack reproduces.

use std::collections::BTreeMap;

use serde::Serialize;

use super::kind::{Compared, Comparison};
use dryrack_units::Permille;

/// The number of answers that were compared, and the number that are identical in every decision and every time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgreementCount {
    pub asked: u64,
    pub identical: u64,
}

impl AgreementCount {
    /// The identical answers in thousandths of all answers, rounded down. So 1000 means that all are identical.
    pub fn permille(self) -> Option<Permille> {
        let share = self.identical.saturating_mul(1000).checked_div(self.asked)?;
        Some(Permille::new(share as u32))
    }

    /// Whether at least this share of the answers is identical. The comparison is exact. False if no answer was
    /// compared.
    pub fn is_at_least(self, least: Permille) -> bool {
        self.asked > 0 && u128::from(self.identical) * 1000 >= u128::from(least.get()) * u128::from(self.asked)
    }

    fn add(&mut self, is_identical: bool) {
        self.asked += 1;
        self.identical += u64::from(is_identical);
    }
}

/// A decision that differs, and the place where it is recorded.
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
    pub all: AgreementCount,
    /// The counts for each kind of record, class of record and version of the program.
    pub classes: BTreeMap<(&'static str, String, String), AgreementCount>,
    /// For each kind of record and kind of difference, the number of decisions that differ and the index of the first
    /// in `differences`.
    pub kinds: BTreeMap<(&'static str, &'static str), (u64, usize)>,
    /// All differences, in the order in which they were found.
    pub differences: Vec<Disagreement>,
    /// The number of answers that were not compared because their version has no profile, by the name of the missing
    /// profile.
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
        let nearly = AgreementCount { asked: 2000, identical: 1999 };
        assert_eq!(nearly.permille(), Some(Permille::new(999)));
        assert!(!nearly.is_at_least(Permille::new(1000)));
        assert!(nearly.is_at_least(Permille::new(999)));
        assert!(!AgreementCount::default().is_at_least(Permille::ZERO), "of nothing, no part is identical");
    }
}
