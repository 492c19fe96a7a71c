//! `dryrack test`: runs many scenarios and judges each.
//!
//! | module | does |
//! | --- | --- |
//! | `plan` | selects files, cells of their matrices, and seeds |
//! | `case` | runs and judges one of these |
//! | `each` | runs all of them under every profile, without judging them |
//! | `unfailing` | finds the expectations that no profile, planted fault or change of their scenario breaks |
//! | `why` | explains the job that a failure is about |
//! | `human`, `json`, `junit`, `github`, `tap` | the report, one form each |
//! | `baseline` | compares decisions with stored ones |
//! | `review` | asks about each decision that differs from the stored one |
//! | `recorder` | keeps every run in one file, to hand on |
//! | `last` | remembers what failed, for `--rerun failed` |
//! | `watch` | when to run again |

mod args;
mod baseline;
mod case;
mod each;
mod github;
mod human;
mod json;
mod junit;
mod last;
mod outcome;
mod plan;
mod recorder;
mod review;
mod tap;
mod unfailing;
mod watch;
mod why;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Instant;

use rayon::prelude::*;

use super::causes::untested_options;
use super::decider::OutsideChoice;
use super::exit::{Exit, ExitResult, Failure};
use super::marks::ReachedMarks;
use super::output::{TestFormat, WholeFile, end_if_closed, print, print_json, warn};
use super::progress;
use super::run::Overrides;
use super::select::{refuse_others, scenario_files};
pub use args::TestArgs;
use baseline::{BaselineRequest, Compared, Updates};
use case::Tested;
pub use case::{Status, judged_once};
use outcome::Outcome;
use recorder::Recorder;
pub use review::{ReviewArgs, review};

pub fn test(args: &TestArgs, format: TestFormat) -> ExitResult {
    if !args.watch {
        return once(args, format);
    }
    let mut seen = watch::snapshot(&args.paths);
    loop {
        let ended = once(args, format);
        end_if_closed()?;
        if let Err(failure) = ended {
            match failure {
                Failure::Input(message) | Failure::Ours(message) | Failure::Killed(message) => {
                    warn(&format!("{}\n", message.trim_end()))
                }
                gone @ Failure::BrokenPipe => return Err(gone),
            }
        }
        warn("waiting for a change; press Control-C to end\n");
        seen = watch::changed(&args.paths, seen);
    }
}

fn once(args: &TestArgs, format: TestFormat) -> ExitResult {
    let files = match args.rerun {
        None => scenario_files(&args.paths)?,
        Some(args::Rerun::Failed) => last::load()?,
    };
    if args.rerun.is_some() && files.is_empty() {
        warn("nothing failed in the last test in this folder\n");
        return Ok(Exit::NothingSelected);
    }
    refuse_others(&files)?;
    if files.is_empty() {
        warn("no scenario files found; in folders, *.yaml files are used\n");
        return Ok(Exit::NothingSelected);
    }
    #[expect(clippy::disallowed_methods, reason = "how long it took is said, and reaches no run")]
    let begun = Instant::now();
    let choice = OutsideChoice::of(args.outside.as_deref())?;
    let overrides = Overrides::under(args.profile.clone()).with_set(&args.set).and_outside(choice);
    let selection = plan::select(&files, args, &overrides);
    if selection.plans.is_empty() {
        warn(&selection.nothing(args));
        return Ok(Exit::NothingSelected);
    }
    let marks = args.marks.as_ref().map(|_| ReachedMarks::new()).transpose()?;
    let write_marks = || match (&marks, &args.marks) {
        (Some(marks), Some(file)) => marks.write(file),
        (_, _) => Ok(()),
    };
    if args.each_profile {
        let pool = pool(args.threads)?;
        let runs = |bar: &_| each::each_profile(&selection.plans, &overrides, &pool, bar, marks.as_ref());
        let results = progress::with_bar((selection.runs(), "runs"), runs);
        write_marks()?;
        return results.print(format);
    }
    if args.unfailing {
        return unfailing::unfailing(&selection.plans, &overrides, args, format);
    }
    let recorder = args.record.as_ref().map(|_| Recorder::default());
    let keeps_decisions = args.baseline.is_some();
    let (marks_of, recorder_of) = (marks.as_ref(), recorder.as_ref());
    let pool = pool(args.threads)?;
    // The results are in the order of the files, even if runs finish in a different order.
    let tested: Vec<Tested> = progress::with_runs(selection.runs(), |runs| {
        let (overrides, runs) = (&overrides, Some(runs));
        let context = case::Context { overrides, keeps_decisions, marks: marks_of, recorder: recorder_of, runs };
        pool.install(|| selection.plans.par_iter().map(|plan| case::test_plan(plan, &context)).collect())
    });
    let is_whole = args.tag.is_empty() && args.filter.is_empty() && args.profile.is_none() && args.set.is_empty();
    let updates = if args.update_baseline { Updates::All } else { Updates::None };
    let asked = BaselineRequest { paths: &args.paths, is_whole, updates };
    let compared = args.baseline.as_deref().map(|dir| baseline::compare(dir, &tested, &asked));
    let compared = compared.transpose()?;
    let untold = if args.options {
        let causes = tested.iter().flat_map(|tested| &tested.cases).filter_map(|case| case.causes.as_ref());
        let causes: Vec<_> = causes.collect();
        pool.install(|| untested_options(&causes, &args.records))?
    } else {
        Vec::new()
    };
    let (left_out, wall) = (selection.left_out, begun.elapsed());
    let is_folded = folds(args, &tested, std::io::stdout().is_terminal());
    let outcome = Outcome { args, is_folded, tested, left_out, wall, compared, untold };
    // A reproduction loads the same file as the first case, so print the warnings of the first case only.
    outcome.tested.iter().for_each(|tested| warn(&tested.cases[0].warnings.to_string()));
    last::store(&outcome);
    // Write each file even if another one cannot be written, and print the results in any case.
    let recorded = recorder.zip(args.record.as_ref()).map_or(Ok(()), |(recorder, path)| recorder.write(path));
    let files = [write_marks(), write_junit(&outcome), write_json(&outcome), recorded];
    report(&outcome, format)?;
    let remarks = outcome.tested.iter().flat_map(|tested| &tested.cases).flat_map(|case| &case.remarks);
    // Each remark once, however many scenarios it is about.
    remarks.collect::<BTreeSet<_>>().into_iter().for_each(|remark| warn(&format!("note: {remark}\n")));
    let unwritten = files.into_iter().filter_map(Result::err);
    unwritten.reduce(Failure::and).map_or_else(|| Ok(exit_of(&outcome)), Err)
}

/// Whether runs that passed are counted by folder: at a terminal, where nobody reads hundreds of lines, unless they are
/// asked for.
fn folds(args: &TestArgs, tested: &[Tested], is_terminal: bool) -> bool {
    is_terminal && tested.len() > 1 && !args.verbose && !args.quiet && args.slowest.is_none()
}

fn report(outcome: &Outcome<'_>, format: TestFormat) -> Result<(), Failure> {
    match format {
        TestFormat::Human => print(&human::text(outcome))?,
        TestFormat::Json => print_json(&json::value(outcome))?,
        TestFormat::Junit => print(&junit::text(outcome))?,
        TestFormat::Github => print(&format!("{}{}", human::text(outcome), github::annotations(outcome)))?,
        TestFormat::Tap => print(&tap::text(outcome))?,
    }
    Ok(())
}

fn write_junit(outcome: &Outcome<'_>) -> Result<(), Failure> {
    let write = |path: &PathBuf| WholeFile::write(path, junit::text(outcome).as_bytes());
    outcome.args.junit.as_ref().map_or(Ok(()), write)
}

fn write_json(outcome: &Outcome<'_>) -> Result<(), Failure> {
    let Some(path) = &outcome.args.json else { return Ok(()) };
    let text = serde_json::to_string_pretty(&json::value(outcome)).expect("it has a JSON form") + "\n";
    WholeFile::write(path, text.as_bytes())
}

/// A thread pool with this many threads, or with one for each core.
pub fn pool(threads: Option<u16>) -> Result<rayon::ThreadPool, Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads.unwrap_or(0))).build();
    pool.map_err(|error| Failure::Input(format!("error: --threads: {error}")))
}

fn exit_of(outcome: &Outcome<'_>) -> Exit {
    let statuses = || outcome.tested.iter().flat_map(|tested| &tested.cases).map(|case| case.status);
    let any = |wanted| statuses().any(|status| status == wanted);
    if any(Status::OurFault) {
        Exit::OurFault
    } else if any(Status::Invalid) {
        Exit::BadInput
    } else if any(Status::Failed)
        || !outcome.untold.is_empty()
        || outcome.compared.as_ref().is_some_and(Compared::differs)
    {
        Exit::Failed
    } else if statuses().all(|status| status == Status::NotRun) {
        Exit::NothingSelected
    } else {
        Exit::Fine
    }
}
