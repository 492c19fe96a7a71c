//! `dryrack test`: many scenarios, each judged.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use clap::Args;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;

use super::causes::{Causes, Untold, untold_options};
use super::exit::{Done, Exit, Failure};
use super::guard::guarded;
use super::output::{Format, say, say_json, warn};
use super::rehearse::{fault_text, rehearse};
use super::run::Overrides;
use super::select::scenario_files;
use crate::engine::Progress;
use crate::expect::{Reproduction, Verdict, is_cured, judge_reproduction};
use crate::scenario::{Diagnostics, Loaded, load};

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Scenario files, and folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Run under this profile instead of the file's; then nothing is reproduced
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Threads to run on; as many as there are cores if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Fail if no scenario among them tells some option of a historic profile apart from its base
    #[arg(long)]
    options: bool,
}

/// How a scenario, or one of its reproductions, came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Passed,
    Failed,
    /// Its trace is not here.
    NotRun,
    Invalid,
    OurFault,
}

/// One line of the report, and what is told below it.
struct Case {
    title: String,
    /// The profile, where it is not the scenario's own.
    reproduces: Option<String>,
    status: Status,
    wall: Duration,
    /// Every expectation, in order of the file.
    judged: Vec<Judged>,
    /// Diagnostics, or what broke.
    text: String,
    /// Of a scenario that can be run all the same.
    warnings: String,
    digest: Option<String>,
    repeat: Option<String>,
    /// Which options of the profile cause what is reproduced.
    causes: Option<Causes>,
}

/// What became of an expectation, and where it stands.
struct Judged {
    place: String,
    verdict: Verdict,
}

struct Tested {
    file: PathBuf,
    cases: Vec<Case>,
}

pub fn test(args: &TestArgs, format: Format) -> Done {
    let files = scenario_files(&args.paths)?;
    if files.is_empty() {
        warn("no scenario files there: folders are searched for *.yaml\n");
        return Ok(Exit::NothingSelected);
    }
    #[expect(clippy::disallowed_methods, reason = "how long it took is said, and reaches no run")]
    let begun = Instant::now();
    let pool = pool(args.threads)?;
    let overrides = Overrides::under(args.profile.clone());
    // Collected in the order of the files, whichever ends first.
    let tested: Vec<Tested> = pool.install(|| files.par_iter().map(|file| test_file(file, &overrides)).collect());
    let mut untold = Vec::new();
    if args.options {
        untold =
            untold_options(tested.iter().flat_map(|tested| &tested.cases).filter_map(|case| case.causes.as_ref()))?;
    }
    let wall = begun.elapsed();
    // A reproduction loads the same file; its warnings are the same.
    tested.iter().for_each(|tested| warn(&tested.cases[0].warnings));
    match format {
        Format::Human => say(&human(&tested, &untold, wall))?,
        Format::Json => say_json(&json_report(&tested, &untold, wall))?,
    }
    Ok(match exit_of(&tested) {
        Exit::Fine if !untold.is_empty() => Exit::Failed,
        exit => exit,
    })
}

/// Threads as many as were asked for, or as there are cores.
pub fn pool(threads: Option<u16>) -> Result<rayon::ThreadPool, Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads.unwrap_or(0))).build();
    pool.map_err(|error| Failure::Input(format!("error: --threads: {error}")))
}

fn exit_of(tested: &[Tested]) -> Exit {
    let statuses = || tested.iter().flat_map(|tested| &tested.cases).map(|case| case.status);
    let any = |wanted| statuses().any(|status| status == wanted);
    if any(Status::OurFault) {
        Exit::OurFault
    } else if any(Status::Invalid) {
        Exit::BadInput
    } else if any(Status::Failed) {
        Exit::Failed
    } else if statuses().all(|status| status == Status::NotRun) {
        Exit::NothingSelected
    } else {
        Exit::Fine
    }
}

fn test_file(file: &Path, overrides: &Overrides) -> Tested {
    let mut reproductions = Vec::new();
    let first = test_case(file, overrides, |loaded| reproductions = std::mem::take(&mut loaded.reproductions));
    let is_own_profile = overrides.lower().profile.is_none();
    let mut cases = vec![first];
    for reproduction in reproductions.into_iter().filter(|_| is_own_profile) {
        let under = Overrides::under(Some(reproduction.profile.to_string()));
        let mut case = test_case(file, &under, |loaded| loaded.expectations.extend(reproduction.and.iter().cloned()));
        case.reproduces = Some(reproduction.profile.to_string());
        if matches!(case.status, Status::Passed | Status::Failed) {
            let place = format!("{}:{}", reproduction.place.file, reproduction.place.line);
            judge_case(&mut case, place, &reproduction);
        }
        if case.status == Status::Passed {
            case.causes = Some(find_causes(file, &under, &reproduction));
        }
        cases.push(case);
    }
    Tested { file: file.to_path_buf(), cases }
}

/// Runs it once for each option that could be the cause.
fn find_causes(file: &Path, under: &Overrides, reproduction: &Reproduction) -> Causes {
    Causes::find(file, &reproduction.profile, |option| {
        let witnesses = |loaded: &mut Loaded| loaded.expectations.extend(reproduction.and.iter().cloned());
        let case = test_case(file, &under.as_in_base(option), witnesses);
        let verdicts: Vec<Verdict> = case.judged.into_iter().map(|judged| judged.verdict).collect();
        is_cured(reproduction, &verdicts)
    })
}

/// Turns the verdicts of a run under the historic profile into the one that was asked for.
fn judge_case(case: &mut Case, place: String, reproduction: &Reproduction) {
    let verdicts: Vec<Verdict> = case.judged.drain(..).map(|judged| judged.verdict).collect();
    let (verdicts, witnesses) = verdicts.split_at(verdicts.len() - reproduction.and.len());
    let verdict = judge_reproduction(reproduction, verdicts, witnesses);
    case.status = if verdict.passed { Status::Passed } else { Status::Failed };
    case.judged.push(Judged { place, verdict });
}

/// Runs the scenario once, after `prepare` had its way with it.
fn test_case(file: &Path, overrides: &Overrides, prepare: impl FnOnce(&mut Loaded)) -> Case {
    #[expect(clippy::disallowed_methods, reason = "how long it took is said, and reaches no run")]
    let begun = Instant::now();
    let mut loaded = match load(file, &overrides.lower()) {
        Ok(loaded) => loaded,
        Err(diagnostics) => return not_loaded(file, &diagnostics, begun.elapsed()),
    };
    prepare(&mut loaded);
    let Loaded { rehearsal, expectations, warnings, .. } = loaded;
    let places: Vec<String> =
        expectations.iter().map(|known| format!("{}:{}", known.place.file, known.place.line)).collect();
    let repeat = overrides.repeat(file, rehearsal.seed);
    let progress = Progress::default();
    let mut case = Case {
        title: rehearsal.title.clone(),
        reproduces: None,
        status: Status::Passed,
        wall: Duration::ZERO,
        judged: Vec::new(),
        text: String::new(),
        warnings: warnings.to_string(),
        digest: None,
        repeat: Some(repeat.clone()),
        causes: None,
    };
    match guarded(|| rehearse::<Vec<u8>>(&rehearsal, expectations, &progress, None)) {
        Ok(rehearsed) => {
            case.digest = Some(rehearsed.digest.to_string());
            let failed = rehearsed.verdicts.iter().any(|verdict| !verdict.passed);
            case.status = if failed { Status::Failed } else { Status::Passed };
            let judged = places.into_iter().zip(rehearsed.verdicts);
            case.judged = judged.map(|(place, verdict)| Judged { place, verdict }).collect();
        }
        Err(message) => {
            case.status = Status::OurFault;
            case.text = fault_text(&message, rehearsal.seed, &progress, &repeat);
        }
    }
    case.wall = begun.elapsed();
    case
}

fn not_loaded(file: &Path, diagnostics: &Diagnostics, wall: Duration) -> Case {
    // Where the traces are said to be, one that is missing is a fault.
    let must_be_there = std::env::var_os("DRYRACK_DATA").is_some();
    let status = match (diagnostics.lacks_only_a_trace(), must_be_there) {
        (false, _) => Status::Invalid,
        (true, true) => Status::Failed,
        (true, false) => Status::NotRun,
    };
    let (title, text) = (file.display().to_string(), diagnostics.to_string());
    Case {
        title,
        reproduces: None,
        status,
        wall,
        judged: Vec::new(),
        text,
        warnings: String::new(),
        digest: None,
        repeat: None,
        causes: None,
    }
}

const OK: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default();

fn human(tested: &[Tested], untold: &[Untold], wall: Duration) -> String {
    let mut text = String::new();
    for Tested { file, cases } in tested {
        for case in cases {
            text.push_str(&case_line(file, case));
        }
    }
    for Tested { file, cases } in tested {
        for case in cases.iter().filter(|case| case.status != Status::Passed) {
            text.push_str(&case_details(file, case));
        }
    }
    if !untold.is_empty() {
        text.push('\n');
    }
    for known in untold {
        text.push_str(&format!("{BAD}{:>8}{BAD:#} {known}\n", "FAIL"));
    }
    text + &summary_line(tested, wall)
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
        None if case.status == Status::Invalid => String::new(),
        None => case.title.clone(),
    };
    let line = format!("{style}{word:>8}{style:#} [{seconds:>7.3}s] {}  {what}", file.display());
    format!("{}\n", line.trim_end())
}

fn case_details(file: &Path, case: &Case) -> String {
    let bold = Style::new().bold();
    let mut text = format!("\n{bold}{}{bold:#}  {}\n", file.display(), case.title);
    if case.text.is_empty() && case.judged.is_empty() {
        return text;
    }
    for line in case.text.lines() {
        text.push_str(&format!("  {line}\n").replace("  \n", "\n"));
    }
    for Judged { place, verdict } in case.judged.iter().filter(|judged| !judged.verdict.passed) {
        text.push_str(&format!("  {place}  {}\n", verdict.name));
        text.push_str(&format!("    expected  {}\n    happened  {}\n", verdict.expected, verdict.happened));
    }
    if let Some(repeat) = &case.repeat
        && !case.judged.is_empty()
    {
        text.push_str(&format!("  repeat with: {repeat}\n"));
    }
    text
}

fn summary_line(tested: &[Tested], wall: Duration) -> String {
    let statuses: Vec<Status> = tested.iter().flat_map(|tested| &tested.cases).map(|case| case.status).collect();
    let mut parts = Vec::new();
    for (status, word, style) in [
        (Status::Passed, "passed", OK),
        (Status::Failed, "failed", BAD),
        (Status::Invalid, "invalid", BAD),
        (Status::OurFault, "broke an invariant", BAD),
        (Status::NotRun, "not run", ODD),
    ] {
        let count = statuses.iter().filter(|known| **known == status).count();
        if count > 0 {
            parts.push(format!("{style}{count} {word}{style:#}"));
        }
    }
    let files = tested.len();
    let scenarios = if files == 1 { "scenario" } else { "scenarios" };
    let checks = statuses.len();
    let checks = if checks == files { String::new() } else { format!(", {checks} runs") };
    format!("\n{files} {scenarios}{checks}: {} [{:.3}s]\n", parts.join(", "), wall.as_secs_f64())
}

fn json_report(tested: &[Tested], untold: &[Untold], wall: Duration) -> serde_json::Value {
    let case = |case: &Case| {
        let failures: Vec<_> = (case.judged.iter())
            .filter(|judged| !judged.verdict.passed)
            .map(|Judged { place, verdict }| {
                json!({
                    "name": verdict.name, "place": place,
                    "expected": verdict.expected, "happened": verdict.happened,
                })
            })
            .collect();
        json!({
            "scenario": case.title, "reproduces": case.reproduces, "status": case.status,
            "because_of": case.causes.as_ref().map(|causes| &causes.causing),
            "wall_seconds": case.wall.as_secs_f64(), "digest": case.digest,
            "failures": failures, "text": case.text, "repeat": case.repeat,
        })
    };
    let files: Vec<_> = (tested.iter())
        .map(|tested| json!({"file": tested.file, "runs": tested.cases.iter().map(case).collect::<Vec<_>>()}))
        .collect();
    let untold: Vec<_> = untold.iter().map(|known| json!({"profile": known.profile, "option": known.option})).collect();
    json!({"files": files, "options_that_nothing_tells_apart": untold, "wall_seconds": wall.as_secs_f64()})
}
