//! The report as TAP, version 14. Each run and each comparison with a baseline is a test point. A failed point has a
//! YAML block.

use std::path::Path;

use super::baseline::{Change, ComparedRun};
use super::case::{Case, Status};
use super::outcome::Outcome;

pub fn text(outcome: &Outcome<'_>) -> String {
    let tested = || outcome.tested.iter();
    let cases = || tested().flat_map(|tested| tested.cases.iter().map(|case| (tested.file.as_path(), case)));
    let compared =
        || outcome.compared.iter().filter(|compared| !compared.was_updated).flat_map(|compared| &compared.runs);
    let mut text = format!("TAP version 14\n1..{}\n", cases().count() + compared().count());
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    cases().for_each(|(file, case)| text.push_str(&point(next(), file, case)));
    compared().for_each(|run| text.push_str(&comparison(next(), run)));
    text
}

fn comparison(number: usize, run: &ComparedRun) -> String {
    let ok = if run.change.is_other() { "not ok" } else { "ok" };
    let skip = if run.change == Change::New { " # SKIP not in the baseline yet" } else { "" };
    let mut text = format!("{ok} {number} - {}{skip}\n", escaped(&format!("{} is as in the baseline", run.name)));
    if run.change.is_other() {
        text.push_str("  ---\n  message: |\n");
        run.change.lines().iter().for_each(|line| text.push_str(&format!("    {line}\n")));
        text.push_str("  ...\n");
    }
    text
}

fn point(number: usize, file: &Path, case: &Case) -> String {
    let ok = match case.status {
        Status::Passed | Status::NotRun => "ok",
        Status::Failed | Status::Invalid | Status::OurFault => "not ok",
    };
    let title = if case.reproduces.is_some() { String::new() } else { format!(": {}", case.full_title()) };
    let mut text = format!("{ok} {number} - {}", escaped(&format!("{}{title}", case.name(file))));
    if case.status == Status::NotRun {
        text.push_str(&format!(" # SKIP {}", escaped(case.text.lines().next().unwrap_or("not here"))));
    }
    text.push('\n');
    if ok == "not ok" {
        text.push_str(&block(case));
    }
    text
}

fn block(case: &Case) -> String {
    let mut text = String::from("  ---\n");
    if !case.text.is_empty() {
        text.push_str("  message: |\n");
        for line in case.text.lines() {
            text.push_str(&format!("    {line}\n").replace("    \n", "\n"));
        }
    }
    let mut failures = case.failures().peekable();
    if failures.peek().is_some() {
        text.push_str("  failures:\n");
    }
    for judged in failures {
        let (place, verdict) = (&judged.place, &judged.verdict);
        let at = format!("{}:{}:{}", place.file, place.line, place.column);
        text.push_str(&format!("    - name: {}\n", quoted(&verdict.name)));
        let mut rows = vec![("at", at), ("expected", verdict.expected.clone()), ("happened", verdict.happened.clone())];
        rows.extend(judged.why.iter().enumerate().map(|(index, why)| (["why", "and"][index.min(1)], why.clone())));
        rows.dedup_by_key(|(key, _)| *key);
        rows.iter().for_each(|(key, value)| text.push_str(&format!("      {key}: {}\n", quoted(value))));
    }
    if let Some(repeat) = &case.repeat {
        text.push_str(&format!("  repeat: {}\n", quoted(repeat)));
    }
    text + "  ...\n"
}

/// Escapes the text. An unescaped `#` would begin a directive.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('#', "\\#")
}

/// The text as a YAML string on one line.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text has a JSON form, which is YAML too")
}
