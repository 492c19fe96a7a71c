//! The report for programs.

use serde_json::{Value, json};

use super::case::{Case, CaseVerdict};
use super::outcome::Outcome;

pub fn value(outcome: &Outcome<'_>) -> Value {
    let files: Vec<_> = (outcome.tested.iter())
        .map(|tested| json!({"file": tested.file, "runs": tested.cases.iter().map(case).collect::<Vec<_>>()}))
        .collect();
    let compared = outcome.compared.as_ref().map(|compared| {
        let changes =
            (compared.runs.iter()).map(|run| json!({"file": run.file, "run": run.name, "change": run.change}));
        changes.collect::<Vec<_>>()
    });
    let mut report = json!({
        "files": files, "left_out": outcome.left_out, "wall_seconds": outcome.wall.as_secs_f64(),
    });
    if outcome.args.options {
        let untold = outcome.untold.iter().map(|known| json!({"profile": known.profile, "option": known.option}));
        report["options_that_nothing_tells_apart"] = untold.collect();
    }
    if let Some(compared) = compared {
        report["baseline"] = json!(compared);
    }
    report
}

fn case(case: &Case) -> Value {
    let shares: Vec<_> = case.judged.iter().filter_map(share).collect();
    json!({
        "scenario": case.title, "cell": case.cell, "set": case.set, "reproduces": case.reproduces, "status": case.status,
        "because_of": case.causes.as_ref().map(|causes| &causes.causing),
        "wall_seconds": case.wall.as_secs_f64(), "digest": case.digest, "seeds": case.seeds,
        "decisions_refused": case.decisions_refused, "restarts": case.restarts,
        "failures": case.failures().map(failure).collect::<Vec<_>>(), "shares": shares,
        "text": case.text, "diagnostics": case.diagnostics.to_json(), "repeat": case.repeat,
    })
}

fn failure(judged: &CaseVerdict) -> Value {
    let CaseVerdict { place, verdict, why, share, .. } = judged;
    json!({
        "name": verdict.name, "place": format!("{}:{}", place.file, place.line),
        "file": place.file, "line": place.line, "column": place.column,
        "expected": verdict.expected, "happened": verdict.happened, "why": why,
        "repeat": share.as_ref().and_then(|share| share.repeat.as_ref()),
    })
}

fn share(judged: &CaseVerdict) -> Option<Value> {
    let share = judged.share.as_ref()?;
    Some(json!({"name": judged.verdict.name, "held": share.held, "of": share.of, "first_otherwise": share.repeat}))
}
