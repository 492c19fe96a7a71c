//! `dryrack bisect`: finds the first release of a program under which the verdict on a scenario changes.

mod reports;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::decider::OutsideChoice;
use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, print, print_json};
use super::progress::with_line;
use super::run::Overrides;
use super::select::{refuse_others, scenario_files};
use super::test::{Status, judged_once};
use dryrack_outside::Command;
use dryrack_released::{Release, Store, programs, releases};
use dryrack_report::table;
use dryrack_scenario::{Cell, load, outline};

#[derive(Debug, Args)]
pub struct BisectArgs {
    /// Scenario files, and folders of them; more than one scenario gives a table
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Program whose releases decide in place of the profile, such as `gpustack`
    #[arg(long, value_name = "PROGRAM")]
    outside: String,
    /// First release to try, such as 0.6.0 [default: the oldest]
    #[arg(long, value_name = "VERSION")]
    from: Option<String>,
    /// Last release to try [default: the newest]
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// Judge by this expectation only [default: all expectations]
    #[arg(long, value_name = "NAME")]
    expect: Option<String>,
    /// Try only scenarios that name a public report of the program, as in `report: gpustack#1933`
    #[arg(long)]
    reports: bool,
    #[command(flatten)]
    overrides: Overrides,
}

/// A scenario, or one cell of its matrix.
#[derive(Default)]
struct Subject {
    file: PathBuf,
    /// Empty without a matrix.
    cell: String,
    overrides: Overrides,
    /// The public report that it is about.
    report: Option<String>,
    /// The historic profiles under which it is to fail.
    historic: Vec<String>,
    /// For each reproduction of the report, the expectations that fail.
    reproduced: Vec<Vec<String>>,
}

/// The parts of a run that a verdict on a release does not cover. A report about these parts passes under every
/// release.
const LIMITS: &str = "A release decides only where and when jobs are placed; with `driver` in `outside` of the file, also by its own \
     queue or policy. dryrack does everything else.\n";

/// The result of the scenario under one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Passes,
    Fails,
    /// Expectations fail, but not all of those that fail in a reproduction of the report.
    FailsOtherwise,
    /// The release is not installed, or it could not decide in this scenario.
    Skipped,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Passes => "passes",
            Outcome::Fails => "fails",
            Outcome::FailsOtherwise => "fails otherwise",
            Outcome::Skipped => "skipped",
        }
    }
}

#[derive(Debug, Serialize)]
struct ReleaseOutcome {
    release: String,
    outcome: Outcome,
    /// The result of the first failed expectation (or of the first one, if none failed), or why the release was
    /// skipped.
    happened: String,
}

pub fn bisect(args: &BisectArgs, format: Format) -> ExitResult {
    let range = range(args)?;
    let store = Store::from_env().map_err(|error| Failure::Input(format!("error: {error}\n")))?;
    let files = scenario_files(&args.paths)?;
    refuse_others(&files)?;
    let subjects: Vec<Subject> = files.iter().flat_map(|file| args.subjects(file)).collect();
    match subjects.as_slice() {
        [] => Ok(Exit::NothingSelected),
        [only] if !args.reports => bisect_one(args, only, (&range, &store), format),
        all => reports::table_of(args, all, (&range, &store), format),
    }
}

impl BisectArgs {
    /// The runs of a file. Programs decide in place of profiles, so cells that differ only in the profile are one. If a
    /// file cannot be read, its errors are reported where it is run.
    fn subjects(&self, file: &Path) -> Vec<Subject> {
        let lowered = self.overrides.lower(file);
        let cells = outline(file, &lowered).map_or_else(|_| vec![Cell::whole()], |known| known.cells);
        let subject = |cell: Cell| {
            let overrides = self.overrides.with_set(&cell.set);
            let mut subject = Subject { file: file.to_path_buf(), cell: cell.name, overrides, ..Subject::default() };
            if let Ok(loaded) = load(file, &subject.overrides.lower(file)) {
                let profiles = loaded.reproductions.iter().filter_map(|known| known.under.profile());
                subject.historic = profiles.map(str::to_string).collect();
                let fails = |names: &[Arc<str>]| names.iter().map(|name| name.to_string()).collect();
                subject.reproduced = loaded.reproductions.iter().map(|known| fails(&known.fails)).collect();
                subject.report = loaded.report;
            }
            subject
        };
        let is_wanted = |subject: &Subject| {
            let of_program = |report: &String| report.split('#').next() == Some(self.outside.as_str());
            !self.reports || subject.report.as_ref().is_some_and(of_program)
        };
        let mut cells: Vec<Cell> = cells.into_iter().filter(|cell| cell.reproduces).collect();
        if let [only] = cells.as_mut_slice() {
            only.name.clear();
        }
        cells.into_iter().map(subject).filter(is_wanted).collect()
    }
}

/// Bisects one scenario, and says what happened in each release.
fn bisect_one(
    args: &BisectArgs,
    subject: &Subject,
    (range, store): (&[Release], &Store),
    format: Format,
) -> ExitResult {
    let at = Mutex::new(String::new());
    let said = || format!("  trying {}", at.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    let tried = with_line(said, || {
        let each = range.iter().map(|release| {
            *at.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = release.to_string();
            try_release(args, subject, release, store)
        });
        each.collect::<Result<Vec<ReleaseOutcome>, Failure>>()
    })?;
    let judged: Vec<&ReleaseOutcome> = tried.iter().filter(|tried| tried.outcome != Outcome::Skipped).collect();
    let changes = changes(&tried);
    match format {
        Format::Json => {
            print_json(&json!({"tried": tried, "changes": changes.iter().map(change_json).collect::<Vec<_>>()}))?;
        }
        Format::Human => {
            let rows: Vec<Vec<String>> = (tried.iter())
                .map(|tried| vec![tried.release.clone(), tried.outcome.name().to_string(), tried.happened.clone()])
                .collect();
            print(&table(&["release", "verdict", "what happened"], &rows))?;
            print("\n")?;
            for (before, after) in &changes {
                let (was, is) = (before.outcome.name(), after.outcome.name());
                print(&format!("{} is the first release that {is}; {} {was}\n", after.release, before.release))?;
            }
            if changes.is_empty() {
                let verdict = judged.first().map(|tried| tried.outcome.name());
                let under = match judged.len() {
                    1 => "the only release that was tried".to_string(),
                    all => format!("each of the {all} releases that were tried"),
                };
                let said = verdict.map_or("no release could be tried".to_string(), |verdict| {
                    format!("no change: the scenario {verdict} under {under}")
                });
                print(&format!("{said}\n"))?;
            }
            print(LIMITS)?;
        }
    }
    Ok(match (judged.is_empty(), changes.is_empty()) {
        (true, _) => Exit::NothingSelected,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Fine,
    })
}

/// The pairs of neighbouring releases between which the verdict changed. Releases that were skipped do not count.
fn changes(tried: &[ReleaseOutcome]) -> Vec<(&ReleaseOutcome, &ReleaseOutcome)> {
    let judged: Vec<&ReleaseOutcome> = tried.iter().filter(|tried| tried.outcome != Outcome::Skipped).collect();
    judged.windows(2).filter(|pair| pair[0].outcome != pair[1].outcome).map(|pair| (pair[0], pair[1])).collect()
}

fn change_json((before, after): &(&ReleaseOutcome, &ReleaseOutcome)) -> serde_json::Value {
    json!({"before": before.release, "first": after.release, "was": before.outcome, "is": after.outcome})
}

/// The releases to try, oldest first.
fn range(args: &BisectArgs) -> Result<Vec<Release>, Failure> {
    let program = args.outside.as_str();
    let of_program: Vec<&Release> = releases().iter().filter(|release| release.program == program).collect();
    if of_program.is_empty() {
        let known = programs().join(", ");
        let help = "--outside takes only the program's name; --from and --to take its versions";
        let message =
            format!("error: --outside: `{program}` has no known releases\n  = help: {help}; known are {known}\n");
        return Err(Failure::Input(message));
    }
    let place = |flag: &str, version: &Option<String>| -> Result<Option<usize>, Failure> {
        let Some(version) = version else { return Ok(None) };
        let release = Release::named(&format!("{program}=={version}"));
        let release = release.map_err(|error| Failure::Input(format!("error: --{flag}: {error}\n")))?;
        Ok(of_program.iter().position(|known| **known == release))
    };
    let (first, last) =
        (place("from", &args.from)?.unwrap_or(0), place("to", &args.to)?.unwrap_or(of_program.len() - 1));
    if first > last {
        let help = "write the older release after --from";
        return Err(Failure::Input(format!("error: --from is newer than --to\n  = help: {help}\n")));
    }
    Ok(of_program[first..=last].iter().map(|release| (*release).clone()).collect())
}

fn try_release(
    args: &BisectArgs,
    subject: &Subject,
    release: &Release,
    store: &Store,
) -> Result<ReleaseOutcome, Failure> {
    let name = release.to_string();
    if !store.is_installed(release) {
        let happened = format!("not installed: `dryrack outside install {name}`");
        return Ok(ReleaseOutcome { release: name, outcome: Outcome::Skipped, happened });
    }
    let overrides = subject.overrides.clone().and_outside(program_of(release)?);
    let case = judged_once(&subject.file, &overrides);
    let judged: Vec<_> = case.judged.iter().filter(|judged| is_asked(args, &judged.verdict.name)).collect();
    match case.status {
        // The scheduler failed before the end, so the verdicts are not about its decisions.
        Status::Passed | Status::Failed if case.gave_up => {
            let first = case.text.lines().next().unwrap_or("").trim().to_string();
            Ok(ReleaseOutcome { release: name, outcome: Outcome::Skipped, happened: first })
        }
        Status::Passed | Status::Failed if judged.is_empty() => {
            let names: Vec<&str> = case.judged.iter().map(|judged| &*judged.verdict.name).collect();
            let expect = args.expect.as_deref().unwrap_or("");
            let known = if names.is_empty() {
                "the file has no expectations".to_string()
            } else {
                format!("known are {}", names.join(", "))
            };
            Err(Failure::Input(format!("error: --expect: no expectation is named `{expect}`\n  = help: {known}\n")))
        }
        Status::Passed | Status::Failed => {
            let broken = judged.iter().find(|judged| !judged.verdict.passed);
            let fails = |name: &String| judged.iter().any(|it| !it.verdict.passed && *it.verdict.name == **name);
            let as_reported = !args.reports
                || args.expect.is_some()
                || subject.reproduced.is_empty()
                || subject.reproduced.iter().any(|names| names.iter().all(fails));
            let outcome = match (broken.is_some(), as_reported) {
                (false, _) => Outcome::Passes,
                (true, true) => Outcome::Fails,
                (true, false) => Outcome::FailsOtherwise,
            };
            let shown = broken.or(judged.first()).expect("there is one");
            let happened = format!("{}: {}", shown.verdict.name, shown.verdict.happened);
            Ok(ReleaseOutcome { release: name, outcome, happened })
        }
        Status::OurFault => Err(Failure::Ours(case.text)),
        // An error in the file is the same under every release, so it ends the command.
        Status::Invalid if case.diagnostics.has_errors() => Err(Failure::Input(case.diagnostics.to_string())),
        Status::NotRun | Status::Invalid => {
            let first = case.text.lines().next().unwrap_or("it could not be run").trim().to_string();
            Ok(ReleaseOutcome { release: name, outcome: Outcome::Skipped, happened: first })
        }
    }
}

fn program_of(release: &Release) -> Result<OutsideChoice, Failure> {
    let command = Command::read(&release.to_string());
    let command = command.map_err(|error| Failure::Input(format!("error: --outside: {error}\n")))?;
    Ok(OutsideChoice::started_in(Path::new(""), command))
}

fn is_asked(args: &BisectArgs, name: &str) -> bool {
    args.expect.as_ref().is_none_or(|expect| expect == name)
}
