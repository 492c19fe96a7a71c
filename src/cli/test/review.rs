//! `dryrack review`: accepts or rejects decisions that differ from a baseline.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::PathBuf;

use clap::Args;
use rayon::prelude::*;
use serde_json::json;

use super::args::TestArgs;
use super::baseline::{self, BaselineRequest, Change, ComparedRun, Updates};
use super::case::{self, Tested};
use super::{plan, pool};
use crate::exit::{Exit, ExitResult, Failure};
use crate::output::{Format, end_if_closed, print, print_json};
use crate::progress;
use crate::run::Overrides;
use crate::select::{refuse_others, scenario_files};
use dryrack_units::counted;

#[derive(Debug, Args)]
pub struct ReviewArgs {
    /// Scenario files, and folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Folder with the stored decisions, which `test --update-baseline` wrote
    #[arg(long, value_name = "DIR")]
    baseline: PathBuf,
    /// Review only runs whose path or title contains this text, as in `test`; may be repeated
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Accept every change without a question
    #[arg(long, conflicts_with = "reject")]
    accept: bool,
    /// Reject every change without a question, and list them
    #[arg(long)]
    reject: bool,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Accept,
    Reject,
    Skip,
    /// Accept this change and all that follow.
    AcceptAll,
    Quit,
}

const QUESTION: &str = "accept (a), reject (r), skip (s), accept this and the rest (all), quit (q)? ";

impl Answer {
    fn of(typed: &str) -> Option<Answer> {
        match typed.trim() {
            "a" | "accept" => Some(Answer::Accept),
            "r" | "reject" => Some(Answer::Reject),
            "s" | "skip" => Some(Answer::Skip),
            "all" => Some(Answer::AcceptAll),
            "q" | "quit" => Some(Answer::Quit),
            _ => None,
        }
    }
}

/// What was answered, by the names of the runs.
#[derive(Default)]
struct Answers {
    accepted: BTreeSet<String>,
    rejected: Vec<String>,
    undecided: Vec<String>,
}

pub fn review(args: &ReviewArgs, format: Format) -> ExitResult {
    let (filter, threads) = (args.filter.clone(), args.threads);
    let test = TestArgs { paths: args.paths.clone(), filter, threads, ..TestArgs::default() };
    let files = scenario_files(&test.paths)?;
    refuse_others(&files)?;
    let overrides = Overrides::default();
    let selection = plan::select(&files, &test, &overrides);
    if selection.plans.is_empty() {
        crate::output::warn(&selection.nothing(&test));
        return Ok(Exit::NothingSelected);
    }
    let pool = pool(test.threads)?;
    let tested: Vec<Tested> = progress::with_runs(selection.runs(), |runs| {
        let (overrides, runs) = (&overrides, Some(runs));
        let context = case::Context { overrides, keeps_decisions: true, marks: None, recorder: None, runs };
        pool.install(|| selection.plans.par_iter().map(|plan| case::test_plan(plan, &context)).collect())
    });
    let asked = |updates| BaselineRequest { paths: &test.paths, is_whole: test.filter.is_empty(), updates };
    let compared = baseline::compare(&args.baseline, &tested, &asked(Updates::None))?;
    let changed: Vec<&ComparedRun> = compared.runs.iter().filter(|run| run.change != Change::Same).collect();
    let answers = match (args.accept, args.reject) {
        (true, _) => Answers { accepted: changed.iter().map(|run| run.name.clone()).collect(), ..Answers::default() },
        (false, true) => {
            Answers { rejected: changed.iter().map(|run| run.name.clone()).collect(), ..Answers::default() }
        }
        (false, false) => ask(&changed)?,
    };
    if !answers.accepted.is_empty() {
        baseline::compare(&args.baseline, &tested, &asked(Updates::Only(&answers.accepted)))?;
    }
    report(&answers, &changed, args.reject, format)?;
    let is_settled = answers.rejected.is_empty() && answers.undecided.is_empty();
    Ok(if is_settled { Exit::Fine } else { Exit::Failed })
}

/// A change, in a few lines.
fn told(run: &ComparedRun) -> String {
    let lines = match &run.change {
        Change::New => vec!["is not stored yet".to_string()],
        change => change.lines(),
    };
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("{}\n{lines}", run.name)
}

/// Asks about each change. The end of the input ends the questions.
fn ask(changed: &[&ComparedRun]) -> Result<Answers, Failure> {
    let mut answers = Answers::default();
    let mut typed = std::io::stdin().lock().lines();
    let mut rest = None;
    for (number, run) in changed.iter().enumerate() {
        let answer = match rest {
            Some(answer) => answer,
            None => {
                print(&format!("{} of {}  {}", number + 1, changed.len(), told(run)))?;
                answer(&mut typed)?
            }
        };
        let name = run.name.clone();
        match answer {
            Answer::Accept => {
                answers.accepted.insert(name);
            }
            Answer::AcceptAll => {
                answers.accepted.insert(name);
                rest = Some(Answer::Accept);
            }
            Answer::Reject => answers.rejected.push(name),
            Answer::Skip => answers.undecided.push(name),
            Answer::Quit => {
                answers.undecided.push(name);
                rest = Some(Answer::Skip);
            }
        }
    }
    Ok(answers)
}

fn answer(typed: &mut impl Iterator<Item = std::io::Result<String>>) -> Result<Answer, Failure> {
    loop {
        print(QUESTION)?;
        end_if_closed()?;
        let Some(line) = typed.next() else {
            print("\n")?;
            return Ok(Answer::Quit);
        };
        let line = line.map_err(|error| Failure::Input(format!("error: the answer cannot be read: {error}\n")))?;
        match Answer::of(&line) {
            Some(answer) => return Ok(answer),
            None => print("expected a, r, s, all or q\n")?,
        }
    }
}

fn report(answers: &Answers, changed: &[&ComparedRun], lists: bool, format: Format) -> Result<(), Failure> {
    let Answers { accepted, rejected, undecided } = answers;
    if format == Format::Json {
        let change = |run: &&ComparedRun| json!({"file": run.file, "run": run.name, "change": run.change});
        print_json(&json!({
            "accepted": accepted, "rejected": rejected, "undecided": undecided,
            "changes": changed.iter().map(change).collect::<Vec<_>>(),
        }))?;
        return Ok(());
    }
    if changed.is_empty() {
        print("every run decides as the baseline says\n")?;
        return Ok(());
    }
    let mut text = String::new();
    if lists {
        changed.iter().for_each(|run| text.push_str(&format!("{}\n", told(run))));
    }
    text.push_str(&format!(
        "{}: {} accepted and stored, {} rejected, {} undecided\n",
        counted(changed.len(), "change"),
        accepted.len(),
        rejected.len(),
        undecided.len()
    ));
    print(&text)?;
    Ok(())
}
