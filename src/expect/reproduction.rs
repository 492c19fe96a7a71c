//! Whether a report is visible again.

use super::expectation::Reproduction;
use super::judge::Verdict;

/// Whether a run under the profile shows the report again: each named expectation failed, and each witness held.
///
/// `verdicts` are those of the scenario's own expectations, `witnesses` those of the reproduction, of the same run.
pub fn judge_reproduction(reproduction: &Reproduction, verdicts: &[Verdict], witnesses: &[Verdict]) -> Verdict {
    let mut happened = Vec::new();
    for name in &reproduction.fails {
        match verdicts.iter().find(|verdict| verdict.name == *name) {
            Some(verdict) if !verdict.passed => {}
            Some(verdict) => happened.push(format!("{name} held: {}", verdict.happened)),
            None => happened.push(format!("there is no expectation named {name}")),
        }
    }
    happened.extend(witnesses.iter().filter(|witness| !witness.passed).map(|witness| {
        format!("the witness {} did not hold, expected {}: {}", witness.name, witness.expected, witness.happened)
    }));
    let expected = format!("under {} {} fails as reported", reproduction.profile, reproduction.fails.join(" and "));
    let passed = happened.is_empty();
    let happened = if passed { "it was visible again".to_string() } else { happened.join("; ") };
    Verdict {
        name: format!("reproduces under {}", reproduction.profile).into(),
        passed,
        expected,
        happened,
        turned_on: None,
    }
}

/// Whether a run under the profile with something set right shows the report no more: an expectation that failed holds
/// again. `verdicts` are those of the scenario's own expectations, then of the witness; none at all is no cure.
pub fn is_cured(reproduction: &Reproduction, verdicts: &[Verdict]) -> bool {
    let Some(own) = verdicts.len().checked_sub(reproduction.and.len()) else { return false };
    verdicts[..own].iter().any(|verdict| verdict.passed && reproduction.fails.contains(&verdict.name))
}
