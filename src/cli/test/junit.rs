//! The report as JUnit XML, for Jenkins, GitLab and similar tools. Each run of a scenario is a suite, and each
//! expectation is a case. The comparison with a baseline is one more suite.
//!
//! The report contains no times, so equal verdicts give equal bytes. It is valid under the schema of Jenkins' xUnit
//! plug-in, `junit-10.xsd`, which has no `skipped` attribute for the whole report.

use std::path::Path;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::baseline::{Change, Compared};
use super::case::{Case, CaseVerdict, Status, Tested};
use super::outcome::Outcome;

pub fn text(outcome: &Outcome<'_>) -> String {
    let mut report = Report::new("dryrack");
    for Tested { file, cases } in &outcome.tested {
        report.add_test_suites(cases.iter().map(|case| suite(file, case)));
    }
    if let Some(compared) = outcome.compared.as_ref().filter(|compared| !compared.was_updated) {
        report.add_test_suite(baseline(compared));
    }
    let text = report.to_string().expect("XML is written into memory");
    let of_all = format!(" skipped=\"{}\"", report.skipped);
    text.replacen(&of_all, "", 1)
}

/// The suite for the baseline, with a case for each compared run.
fn baseline(compared: &Compared) -> TestSuite {
    let mut suite = TestSuite::new("baseline");
    for run in &compared.runs {
        let mut status = TestCaseStatus::success();
        if run.change == Change::New {
            status = TestCaseStatus::skipped();
            status.set_message("not in the baseline yet");
        } else if run.change.is_other() {
            status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let lines = run.change.lines();
            status.set_type("baseline").set_message(lines[0].clone()).set_description(lines.join("\n"));
        }
        let mut test = TestCase::new(run.name.clone(), status);
        test.set_classname("baseline");
        suite.add_test_case(test);
    }
    suite
}

fn suite(file: &Path, case: &Case) -> TestSuite {
    let name = case.name(file);
    let mut suite = TestSuite::new(name.clone());
    let add = |suite: &mut TestSuite, test: &str, status: TestCaseStatus| {
        let mut test = TestCase::new(test, status);
        test.set_classname(name.clone());
        suite.add_test_case(test);
    };
    if case.judged.is_empty() {
        add(&mut suite, &case.title, whole(case));
    }
    for judged in &case.judged {
        add(&mut suite, &judged.verdict.name, one(case, judged));
    }
    suite
}

/// The status of a run without verdicts.
fn whole(case: &Case) -> TestCaseStatus {
    let first = || case.text.lines().next().unwrap_or("").to_string();
    match case.status {
        Status::Passed => TestCaseStatus::success(),
        Status::NotRun => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(first());
            status
        }
        Status::Failed | Status::Invalid | Status::OurFault => {
            let kind = match case.status {
                Status::Failed => NonSuccessKind::Failure,
                _ => NonSuccessKind::Error,
            };
            let mut status = TestCaseStatus::non_success(kind);
            let of = if case.status == Status::OurFault { "invariant" } else { "input" };
            status.set_type(of).set_message(first()).set_description(case.text.clone());
            status
        }
    }
}

fn one(case: &Case, judged: &CaseVerdict) -> TestCaseStatus {
    let CaseVerdict { place, verdict, why, share, .. } = judged;
    if verdict.passed {
        return TestCaseStatus::success();
    }
    let mut text = format!("{}:{}:{}\n", place.file, place.line, place.column);
    text.push_str(&format!("expected  {}\nhappened  {}\n", verdict.expected, verdict.happened));
    why.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    let repeat = share.as_ref().map_or(case.repeat.as_ref(), |share| share.repeat.as_ref());
    if let Some(repeat) = repeat {
        text.push_str(&format!("repeat with: {repeat}\n"));
    }
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type("expectation").set_message(format!("expected {}", verdict.expected)).set_description(text);
    status
}
