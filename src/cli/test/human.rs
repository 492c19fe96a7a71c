//! The report for people.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::baseline::{Change, Compared};
use super::case::{Case, CaseVerdict, Status, Tested};
use super::outcome::Outcome;
use super::plan::name;
use crate::causes::Causes;
use dryrack_expect::NEVER_RUNS_HELP;
use dryrack_outside::KUBE_SCHEDULER;
use dryrack_units::counted;
use dryrack_yaml::Kind;

const OK: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default();

/// A run that takes longer than this is listed as slow.
const SLOW: Duration = Duration::from_secs(1);

pub fn text(outcome: &Outcome<'_>) -> String {
    match outcome.is_folded {
        true => folded(outcome),
        false => listed(outcome),
    }
}

/// One line for each folder whose runs passed, and every other run with its details.
fn folded(outcome: &Outcome<'_>) -> String {
    let mut text = String::new();
    for (folder, tested) in by_folder(&outcome.tested) {
        let passed = || tested.iter().flat_map(|one| &one.cases).filter(|case| case.status == Status::Passed);
        let wall: Duration = passed().map(|case| case.wall).sum();
        let runs = counted(passed().count(), "run");
        if passed().next().is_some() {
            let seconds = wall.as_secs_f64();
            text.push_str(&format!("{OK}{:>8}{OK:#} [{seconds:>7.3}s] {}  {runs}\n", "ok", folder.display()));
        }
        for Tested { file, cases } in tested {
            let is_listed = |case: &&Case| !matches!(case.status, Status::Passed | Status::NotRun);
            cases.iter().filter(is_listed).for_each(|case| text.push_str(&case_line(file, case)));
        }
    }
    text += &details(outcome);
    text += &other_faults(outcome);
    let is_not_run = |case: &&Case| case.status == Status::NotRun;
    let not_run = outcome.tested.iter().flat_map(|tested| &tested.cases).filter(is_not_run).count();
    if not_run > 0 {
        let need = "need traces or released programs that are not here; --verbose names them";
        text.push_str(&format!("\nnot run: {}, which {need}\n", counted(not_run, "run")));
    }
    text + &summary_line(outcome)
}

/// The files of each folder, in the order of the folders' first files.
fn by_folder(tested: &[Tested]) -> Vec<(&Path, Vec<&Tested>)> {
    let mut folders: Vec<(&Path, Vec<&Tested>)> = Vec::new();
    for one in tested {
        let folder = one.file.parent().unwrap_or(Path::new(""));
        match folders.iter_mut().find(|(known, _)| *known == folder) {
            Some((_, files)) => files.push(one),
            None => folders.push((folder, vec![one])),
        }
    }
    folders
}

fn listed(outcome: &Outcome<'_>) -> String {
    let mut text = String::new();
    for Tested { file, cases } in &outcome.tested {
        for case in cases.iter().filter(|case| !outcome.args.quiet || case.status != Status::Passed) {
            text.push_str(&case_line(file, case));
            text.push_str(&shares(case));
        }
    }
    text += &details(outcome);
    text += &other_faults(outcome);
    text.push_str(&slowest(&outcome.tested, outcome.args.slowest));
    text.push_str(&not_run(&outcome.tested));
    text.push_str(&not_installed(&outcome.tested));
    text + &summary_line(outcome)
}

/// What happened in the runs that did not pass.
fn details(outcome: &Outcome<'_>) -> String {
    let mut text = String::new();
    for Tested { file, cases } in &outcome.tested {
        // Missing data is reported once for all runs, below.
        let is_told = |case: &&Case| match case.status {
            Status::Passed => false,
            Status::NotRun => outcome.args.verbose,
            Status::Failed | Status::Invalid | Status::OurFault => true,
        };
        for case in cases.iter().filter(is_told) {
            text.push_str(&case_details(file, case));
        }
    }
    let cases = outcome.tested.iter().flat_map(|tested| &tested.cases);
    if cases.flat_map(|case| &case.judged).any(|judged| judged.verdict.is_of_never_run()) {
        text.push_str(&format!("\nhelp: {NEVER_RUNS_HELP}\n"));
    }
    text
}

/// Options that nothing distinguishes, and decisions that differ from the baseline.
fn other_faults(outcome: &Outcome<'_>) -> String {
    let mut text = String::new();
    if !outcome.untold.is_empty() {
        text.push('\n');
    }
    for known in &outcome.untold {
        text.push_str(&format!("{BAD}{:>8}{BAD:#} {known}\n", "FAIL"));
    }
    if let Some(compared) = &outcome.compared {
        text.push_str(&comparison(compared));
    }
    text
}

/// One line about all runs that lack data: how many they are, which data is missing, and how to get it.
fn not_run(tested: &[Tested]) -> String {
    let cases: Vec<&Case> =
        tested.iter().flat_map(|tested| &tested.cases).filter(|case| case.status == Status::NotRun).collect();
    let lacking =
        cases.iter().flat_map(|case| case.diagnostics.iter()).filter(|known| known.kind == Kind::TraceMissing);
    // The message is `trace openb is missing: no FILE`, or `FILE is missing`.
    let names: BTreeSet<&str> = lacking.filter_map(|known| Some(known.message.split_once(" is missing")?.0)).collect();
    let traces: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("trace ")).collect();
    let files: Vec<&str> = names.iter().filter(|name| !name.starts_with("trace ")).copied().collect();
    if names.is_empty() {
        return String::new();
    }
    let get = match traces[..] {
        [] => String::new(),
        [trace] if files.is_empty() => format!("get it with `dryrack trace get {trace}`, or "),
        [trace] => format!("get {trace} with `dryrack trace get {trace}`, or "),
        _ => "get each with `dryrack trace get NAME`, or ".to_string(),
    };
    let all: Vec<&str> = traces.into_iter().chain(files).collect();
    let (are, them) = if all.len() == 1 { ("is", "it") } else { ("are", "them") };
    let which = "; --verbose shows which scenario needs which";
    format!(
        "\n{} not run: {} {are} missing; {get}set DRYRACK_DATA to a folder that contains {them}{which}\n",
        counted(cases.len(), "scenario"),
        all.join(", "),
    )
}

/// One line about the reproductions whose released programs are not installed, and one about those whose
/// kube-scheduler is not there.
fn not_installed(tested: &[Tested]) -> String {
    let lacks =
        |case: &&Case| case.status == Status::NotRun && case.reproduces.is_some() && case.diagnostics.is_empty();
    let cases = tested.iter().flat_map(|tested| &tested.cases).filter(lacks);
    let is_kube_scheduler =
        |case: &&Case| case.reproduces.as_deref().is_some_and(|under| under.starts_with(KUBE_SCHEDULER));
    let (kube, released): (Vec<&Case>, Vec<&Case>) = cases.partition(is_kube_scheduler);
    let line = |cases: &[&Case], help: &str, separator: &str| {
        let programs: BTreeSet<&str> = cases.iter().filter_map(|case| case.reproduces.as_deref()).collect();
        let programs: Vec<&str> = programs.into_iter().collect();
        match programs.is_empty() {
            true => String::new(),
            false => {
                let count = counted(cases.len(), "reproduction");
                format!("\n{count} not run; {}\n", help.replace("{}", &programs.join(separator)))
            }
        }
    };
    let install = "install the released programs with `dryrack outside install {}`";
    let missing = "there is no file at the path of {}";
    line(&released, install, " ") + &line(&kube, missing, " or ")
}

fn case_line(file: &Path, case: &Case) -> String {
    let (style, word) = match case.status {
        Status::Passed => (OK, "ok"),
        Status::Failed => (BAD, "FAIL"),
        Status::NotRun => (ODD, "not run"),
        Status::Invalid => (BAD, "INVALID"),
        Status::OurFault => (BAD, "FAULT"),
    };
    let seconds = case.wall.as_secs_f64();
    let what = match &case.reproduces {
        Some(profile) => {
            let causes = case.causes.as_ref().map_or(String::new(), Causes::text);
            format!("reproduced under {profile}{causes}")
        }
        None if case.title == file.display().to_string() => String::new(),
        None => case.full_title(),
    };
    let line = format!("{style}{word:>8}{style:#} [{seconds:>7.3}s] {}  {what}", name(file, &case.cell));
    format!("{}\n", line.trim_end())
}

/// For each passed expectation about a share of the seeds: the number of seeds in which it held.
fn shares(case: &Case) -> String {
    let mut text = String::new();
    for judged in case.judged.iter().filter(|judged| judged.verdict.passed) {
        let Some((shared, asked)) = judged.share.as_ref().and_then(|shared| Some((shared, shared.asked?))) else {
            continue;
        };
        let indent = " ".repeat(20);
        let counted = format!("{} of {} seeds", shared.held, shared.of);
        text.push_str(&format!("{indent}{}: {counted}, expected {asked}\n", judged.verdict.name));
        if let Some(repeat) = &shared.repeat {
            text.push_str(&format!("{indent}  first exception: {repeat}\n"));
        }
    }
    text
}

fn case_details(file: &Path, case: &Case) -> String {
    let bold = Style::new().bold();
    let name = name(file, &case.cell);
    // A file that could not be loaded has its path as its title. Do not print the path twice.
    let title = if case.title == file.display().to_string() { "" } else { &case.title };
    let mut text = format!("\n{}\n", format!("{bold}{name}{bold:#}  {title}").trim_end());
    if case.text.is_empty() && case.judged.is_empty() {
        return text;
    }
    for line in case.text.lines() {
        text.push_str(&format!("  {line}\n").replace("  \n", "\n"));
    }
    case.failures().for_each(|judged| text.push_str(&failure(judged)));
    if let Some(repeat) = &case.repeat
        && !case.judged.is_empty()
    {
        text.push_str(&format!("  repeat with: {repeat}\n"));
    }
    text
}

fn failure(judged: &CaseVerdict) -> String {
    let CaseVerdict { place, verdict, why, share, .. } = judged;
    let mut text = format!("  {}:{}  {}\n", place.file, place.line, verdict.name);
    text.push_str(&format!("    expected  {}\n    happened  {}\n", verdict.expected, verdict.happened));
    why.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
    if let Some(repeat) = share.as_ref().and_then(|share| share.repeat.as_ref()) {
        text.push_str(&format!("    repeat with: {repeat}\n"));
    }
    text
}

/// The runs that differ from the baseline, each with the first decision that differs.
fn comparison(compared: &Compared) -> String {
    let count = |wanted: fn(&Change) -> bool| compared.runs.iter().filter(|run| wanted(&run.change)).count();
    let mut text = String::new();
    for run in compared.runs.iter().filter(|run| run.change.is_other()) {
        text.push_str(&format!("  {}\n", run.name));
        run.change.lines().iter().for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    let (same, new) = (count(|change| *change == Change::Same), count(|change| *change == Change::New));
    let gone = count(|change| *change == Change::Gone);
    let other = compared.runs.len() - same - new - gone;
    let stored = compared.runs.len() - gone;
    let gone = if gone > 0 { format!(", {gone} gone") } else { String::new() };
    let new = if new > 0 { format!(", {new} new") } else { String::new() };
    let head = match compared.was_updated {
        true => format!("baseline: {} stored, {other} changed{new}{gone}", counted(stored, "run")),
        false => format!("baseline: {same} as stored, {other} changed{new}{gone}"),
    };
    format!("\n{head}\n{text}")
}

fn slowest(tested: &[Tested], asked: Option<usize>) -> String {
    let all = tested.iter().flat_map(|tested| tested.cases.iter().map(|case| (case.wall, case.name(&tested.file))));
    let mut slow: Vec<(Duration, String)> = match asked {
        Some(_) => all.collect(),
        None => all.filter(|(wall, _)| *wall > SLOW).collect(),
    };
    slow.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    slow.truncate(asked.unwrap_or(usize::MAX));
    if slow.is_empty() {
        return String::new();
    }
    let lines = slow.iter().map(|(wall, name)| format!("  [{:>7.3}s] {name}\n", wall.as_secs_f64()));
    format!("\nslowest\n{}", lines.collect::<String>())
}

fn summary_line(outcome: &Outcome<'_>) -> String {
    let cases = || outcome.tested.iter().flat_map(|tested| &tested.cases);
    let mut parts = Vec::new();
    for (status, word, style) in [
        (Status::Passed, "passed", OK),
        (Status::Failed, "failed", BAD),
        (Status::Invalid, "invalid", BAD),
        (Status::OurFault, "broke an invariant", BAD),
        (Status::NotRun, "not run", ODD),
    ] {
        let count = cases().filter(|case| case.status == status).count();
        if count > 0 {
            parts.push(format!("{style}{count} {word}{style:#}"));
        }
    }
    if outcome.left_out > 0 {
        parts.push(format!("{} left out", outcome.left_out));
    }
    // A run may pass although its scheduler does not work.
    let sum = |of: fn(&Case) -> u64| usize::try_from(cases().map(of).sum::<u64>()).unwrap_or(usize::MAX);
    let (refused, restarts) = (sum(|case| case.decisions_refused), sum(|case| case.restarts));
    if refused > 0 {
        parts.push(format!("{ODD}{} of the scheduler refused{ODD:#}", counted(refused, "decision")));
    }
    if restarts > 0 {
        parts.push(format!("{ODD}{} of the scheduler{ODD:#}", counted(restarts, "restart")));
    }
    let files = outcome.tested.len();
    let runs = cases().count();
    let runs = if runs == files { String::new() } else { format!(", {runs} runs") };
    format!("\n{}{runs}: {} [{:.3}s]\n", counted(files, "scenario"), parts.join(", "), outcome.wall.as_secs_f64())
}
