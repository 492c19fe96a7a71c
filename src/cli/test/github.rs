//! Annotations for GitHub: output lines that its runner displays beside the lines of the files.

use super::case::{Case, Status};
use super::outcome::Outcome;
use dryrack_units::counted;
use dryrack_yaml::{COMMAND_LINE, Diagnostic, Severity};

pub fn annotations(outcome: &Outcome<'_>) -> String {
    let mut text = String::new();
    for tested in &outcome.tested {
        let file = tested.file.display().to_string();
        // Each reproduction loads the same file, so print the warnings only once.
        let first = &tested.cases[0];
        first.warnings.iter().for_each(|found| text.push_str(&diagnostic(found, None)));
        tested.cases.iter().for_each(|case| text.push_str(&of_case(&file, case)));
    }
    for run in outcome.compared.iter().flat_map(|compared| &compared.runs).filter(|run| run.change.is_other()) {
        let file = run.file.display().to_string();
        // A deleted file gets no place at all.
        let place = run.file.exists().then_some((file.as_str(), run.change.line(), 1));
        let title = format!("{} differs from the baseline", run.name);
        text.push_str(&line("warning", place, &title, &run.change.lines().join("\n")));
    }
    text
}

fn of_case(file: &str, case: &Case) -> String {
    let mut text = String::new();
    // A missing trace is not a failure, so it is only a notice.
    let level = (case.status == Status::NotRun).then_some("notice");
    case.diagnostics.iter().for_each(|found| text.push_str(&diagnostic(found, level)));
    if case.status == Status::OurFault {
        text.push_str(&line("error", Some((file, 1, 1)), &case.title, &case.text));
    }
    if case.decisions_refused + case.restarts > 0 {
        let count = |number: u64, noun| counted(usize::try_from(number).unwrap_or(usize::MAX), noun);
        let title = match case.decisions_refused {
            0 => format!("{} of the scheduler", count(case.restarts, "restart")),
            refused => format!("{} of the scheduler refused", count(refused, "decision")),
        };
        text.push_str(&line("warning", Some((file, 1, 1)), &title, &case.remarks.join("\n")));
    }
    for judged in case.failures() {
        let (place, verdict) = (&judged.place, &judged.verdict);
        let mut message = format!("expected {}\nhappened {}", verdict.expected, verdict.happened);
        judged.why.iter().for_each(|why| message.push_str(&format!("\n{why}")));
        let cell = if case.cell.is_empty() { String::new() } else { format!(" [{}]", case.cell) };
        let place = Some((&*place.file, place.line, place.column));
        text.push_str(&line("error", place, &format!("{}{cell}", verdict.name), &message));
    }
    text
}

/// The annotation for a diagnostic, at `level` or else at the level of its severity.
fn diagnostic(found: &Diagnostic, level: Option<&str>) -> String {
    let level = level.unwrap_or(match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    });
    let help = found.help.as_ref().map_or(String::new(), |help| format!("\nhelp: {help}"));
    // An error on the command line has no place in a file.
    let place = (*found.file != *COMMAND_LINE).then_some((&*found.file, found.line, found.column));
    line(level, place, &found.message, &format!("{}{help}", found.message))
}

/// Formats an annotation, such as `::error file=a.yaml,line=3,col=5,title=…::…`.
fn line(level: &str, place: Option<(&str, u32, u32)>, title: &str, message: &str) -> String {
    let place = place.map_or(String::new(), |(file, line, column)| {
        // GitHub expects paths relative to the repository, without `./`.
        let file = file.strip_prefix("./").unwrap_or(file);
        format!("file={},line={line},col={column},", property(file))
    });
    format!("::{level} {place}title={}::{}\n", property(title), data(message))
}

/// Escapes the text as `toolkit/packages/core/src/command.ts` of actions/toolkit does.
fn data(text: &str) -> String {
    text.trim_end().replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_a_command_is_escaped() {
        let found = line("error", Some(("./a,b.yaml", 3, 5)), "50%: x", "one\ntwo: 100%");
        assert_eq!(found, "::error file=a%2Cb.yaml,line=3,col=5,title=50%25%3A x::one%0Atwo: 100%25\n");
    }
}
