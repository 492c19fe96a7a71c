//! Judges whether a bug report is reproduced.

use super::expectation::Reproduction;
use super::judge::Verdict;

/// Judges whether a run under the profile or program reproduces the report. It does if each named expectation fails and each
/// witness holds.
///
/// `verdicts` are the verdicts on the scenario's own expectations. `witnesses` are the verdicts on the reproduction's
/// witnesses. Both must be of the same run.
pub fn judge_reproduction(reproduction: &Reproduction, verdicts: &[Verdict], witnesses: &[Verdict]) -> Verdict {
    let mut happened = Vec::new();
    for name in &reproduction.fails {
        match verdicts.iter().find(|verdict| verdict.name == *name) {
            Some(verdict) if !verdict.passed => {}
            Some(verdict) => happened.push(format!("{name} held: {}", verdict.happened)),
            None => happened.push(format!("no expectation is named {name}")),
        }
    }
    happened.extend(witnesses.iter().filter(|witness| !witness.passed).map(|witness| {
        format!(
            "the witness {} did not hold; expected: {}; happened: {}",
            witness.name, witness.expected, witness.happened
        )
    }));
    let under = reproduction.under.text();
    let expected = format!("under {under} {} fails as reported", reproduction.fails.join(" and "));
    let passed = happened.is_empty();
    let happened = if passed { "the bug was visible again".to_string() } else { happened.join("; ") };
    Verdict { name: format!("reproduces under {under}").into(), passed, expected, happened, turned_on: None }
}

/// Whether a run under a partly corrected profile no longer shows the report. This is so if one of the expectations
/// that should fail holds again. `verdicts` are the verdicts on the scenario's own expectations, followed by those on
/// the witnesses. Returns false if there are too few verdicts.
pub fn is_cured(reproduction: &Reproduction, verdicts: &[Verdict]) -> bool {
    let Some(own) = verdicts.len().checked_sub(reproduction.and.len()) else { return false };
    verdicts[..own].iter().any(|verdict| verdict.passed && reproduction.fails.contains(&verdict.name))
}
