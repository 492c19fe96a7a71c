//! Judges whether a bug report is reproduced.

use super::expectation::Reproduction;
use super::judge::Verdict;
use dryrack_planted::planted;

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
    let fails = reproduction.fails.join(" and ");
    let witness = witnesses.iter().find(|witness| !witness.passed);
    let expected = match witness.filter(|_| happened.len() == witnesses.iter().filter(|other| !other.passed).count()) {
        // Everything fails as it should, but not in the reported way.
        Some(witness) => format!("under {under} {fails} fails, and the witness {} holds", witness.name),
        None => format!("under {under} {fails} fails as reported"),
    };
    let passed =
        happened.is_empty() || planted!(OneFailureIsAReproduction) && verdicts.iter().any(|verdict| !verdict.passed);
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

#[cfg(test)]
mod tests {
    use super::super::expectation::{ReproducedUnder, SourcePlace};
    use super::*;

    fn verdict(name: &str, passed: bool) -> Verdict {
        Verdict { name: name.into(), passed, expected: String::new(), happened: String::new(), turned_on: None }
    }

    #[test]
    fn a_report_is_reproduced_only_if_all_of_it_is_visible() {
        let reproduction = Reproduction {
            under: ReproducedUnder::Profile("old".into()),
            place: SourcePlace { file: "report.yaml".into(), line: 1, column: 1 },
            fails: vec!["one".into(), "other".into()],
            and: Vec::new(),
        };
        let rows = [
            ("both fail and the witness holds", [false, false], true, true),
            ("one of them holds", [false, true], true, false),
            ("the witness does not hold", [false, false], false, false),
        ];
        for (sentence, [one, other], witness, reproduced) in rows {
            let verdicts = [verdict("one", one), verdict("other", other)];
            let found = judge_reproduction(&reproduction, &verdicts, &[verdict("witness", witness)]);
            assert_eq!(found.passed, reproduced, "{sentence}: {}", found.happened);
        }
    }
}
