//! `dryrack trace info|check|convert|sample|scale|resample FILE`: works on lists of tasks, which are read one task at a
//! time where possible.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, print, print_json};
use super::trace_scenario;
use super::trace_source::{Source, is_scenario};
use super::trace_target::{Target, put};
use dryrack_trace::{
    self as trace, Census, Demands, Facts, Impossible, Recorded, Sample, Scale, Supply, TaskStream, TraceError,
    TraceTask,
};
use dryrack_units::{Permille, SimTime, counted};

#[derive(Debug, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    source: Source,
    /// Scenario whose nodes and profile are to run the tasks, or a list of nodes in the same format as the tasks, such
    /// as that of openb
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gpus", "processors"])]
    nodes: Option<PathBuf>,
    /// Capacity as a number of GPUs of one kind, all of which one task may take together
    #[arg(long, value_name = "N")]
    gpus: Option<u64>,
    /// Capacity as a number of processors [default: number in the swf header]
    #[arg(long, value_name = "N")]
    processors: Option<u64>,
}

#[derive(Debug, Args)]
pub struct ConvertArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub struct SampleArgs {
    #[command(flatten)]
    source: Source,
    /// Keep each task with this probability, such as 10%
    #[arg(long, value_name = "PERCENT", value_parser = part)]
    part: Permille,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").required(true).args(["gaps", "load"])))]
pub struct ScaleArgs {
    #[command(flatten)]
    source: Source,
    /// Scale the gaps between submissions to this percentage: 50% doubles the load
    #[arg(long, value_name = "PERCENT", value_parser = part)]
    gaps: Option<Permille>,
    /// Scale the offered load to this percentage: 200% halves the gaps
    #[arg(long, value_name = "PERCENT", value_parser = part)]
    load: Option<Permille>,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub struct ResampleArgs {
    #[command(flatten)]
    source: Source,
    /// Number of tasks to draw [default: number of tasks in the list]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    target: Target,
}

fn part(text: &str) -> Result<Permille, String> {
    let part: Permille = text.parse().map_err(|error| format!("{error}"))?;
    if part.get() == 0 { Err("expected more than nothing".to_string()) } else { Ok(part) }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        Failure::Input(format!("error: {error}"))
    }
}

pub fn info(args: &InfoArgs, format: Format) -> ExitResult {
    let mut stream = args.source.open()?;
    let mut census = Census::default();
    stream.each(args.source.name(), |task| -> Result<(), Failure> {
        census.add(&task);
        Ok(())
    })?;
    let facts = census.finish(stream.rows.tally());
    match format {
        Format::Json => print_json(&json!({"format": stream.format, "facts": facts}))?,
        Format::Human => print(&heading(args.source.name(), &stream, &facts))?,
    }
    Ok(if facts.tasks == 0 { Exit::NothingSelected } else { Exit::Fine })
}

fn heading(file: &Path, stream: &TaskStream, facts: &Facts) -> String {
    format!("{}: {}\n{}\n", file.display(), stream.format.name(), facts.lines(stream.format.is_of_slurm()).join("\n"))
}

/// Exits with 1 if a task could never run.
pub fn check(args: &CheckArgs, format: Format) -> ExitResult {
    if let Some(path) = args.source.scenario() {
        if args.nodes.is_some() || args.gpus.is_some() || args.processors.is_some() {
            let message = "error: a scenario has nodes of its own; leave --nodes, --gpus and --processors out\n";
            return Err(Failure::Input(message.to_string()));
        }
        return trace_scenario::check(path, format);
    }
    let scenario = args.nodes.as_deref().filter(|path| is_scenario(path));
    let unplaceable = scenario.map(|path| trace_scenario::judge_list(&args.source, path)).transpose()?;
    let mut stream = args.source.open()?;
    let nodes = match args.nodes.as_ref().filter(|_| scenario.is_none()) {
        None => Vec::new(),
        Some(path) => trace::read_nodes(stream.format, path)?.nodes,
    };
    let said = stream.rows.header().and_then(|header| header.max_procs).map(u64::from);
    let gpus = args.gpus.or(unplaceable.as_ref().map(|found| found.gpus));
    let supply = Supply { nodes, gpus, processors: args.processors.or(said) };
    let (mut census, mut demands) = (Census::default(), Demands::default());
    stream.each(args.source.name(), |task| -> Result<(), Failure> {
        census.add(&task);
        demands.add(&task, &supply);
        Ok(())
    })?;
    let facts = census.finish(stream.rows.tally());
    let (loads, impossible) = demands.finish(&supply);
    match format {
        Format::Json => {
            let never_run = unplaceable.as_ref().map(|found| found.account.json());
            let facts = json!({
                "format": stream.format, "facts": facts, "loads": loads, "impossible": impossible, "never_run": never_run,
            });
            print_json(&facts)?;
        }
        Format::Human => {
            let mut text = heading(args.source.name(), &stream, &facts);
            text.push_str("\noffered load, between the first and the last submission\n");
            for load in &loads {
                text.push_str(&load_line(load));
            }
            if let Some(found) = &unplaceable {
                text.push_str(&found.text());
            }
            match (&unplaceable, impossible.is_empty()) {
                (Some(_), _) => {}
                (None, false) => text.push_str("impossible\n"),
                (None, true) => text.push_str("no task is known to be impossible\n"),
            }
            // With a scenario, the sentence above already lists these tasks by missing resource.
            for (why, cases) in impossible.iter().filter(|_| unplaceable.is_none()) {
                text.push_str(&line(*why, cases));
            }
            print(&text)?;
        }
    }
    let is_possible = unplaceable.map_or(impossible.is_empty(), |found| found.account.jobs == 0);
    Ok(match (facts.tasks, is_possible) {
        (0, _) => Exit::NothingSelected,
        (_, true) => Exit::Fine,
        (_, false) => Exit::Failed,
    })
}

fn load_line(load: &trace::Load) -> String {
    let offered = match (load.capacity, load.offered_permille) {
        (0, _) => "of an unknown capacity; state it with --nodes or --gpus".to_string(),
        (_, None) if load.lengths_unknown == load.tasks => "no load, because all durations are unknown".to_string(),
        (capacity, None) => format!("of {capacity}, but without a load: all submissions are at one time"),
        (capacity, Some(permille)) => format!("{}.{} % of {capacity}", permille / 10, permille % 10),
    };
    let unknown = match load.lengths_unknown {
        0 => String::new(),
        unknown => format!(" ({unknown} of unknown length)"),
    };
    format!("  {}: {}{unknown}, {offered}\n", load.pool, counted(load.tasks as usize, "task"))
}

fn line(why: Impossible, cases: &trace::Cases) -> String {
    let first: Vec<String> = cases.first.iter().map(|(line, name)| format!("{name} in line {line}")).collect();
    let more = if cases.tasks > first.len() as u64 { ", …" } else { "" };
    format!("  {}: {} ({}{more})\n", counted(cases.tasks as usize, "task"), why.describe(), first.join(", "))
}

pub fn convert(args: &ConvertArgs) -> ExitResult {
    pass(args.source.open()?, args.source.name(), &args.target, |task| Ok(Some(task)))
}

pub fn sample(args: &SampleArgs) -> ExitResult {
    if args.part.get() > 1000 {
        return Err(Failure::Input(format!("error: --part: {} is more than 100%", args.part)));
    }
    let sample = Sample { part: args.part, seed: args.seed };
    let keep = |task| Ok(Some(task).filter(|task| sample.keeps(task)));
    pass(args.source.open()?, args.source.name(), &args.target, keep)
}

pub fn scale(args: &ScaleArgs) -> ExitResult {
    let (numerator, denominator) = match (args.gaps, args.load) {
        (Some(gaps), _) => (u64::from(gaps.get()), 1000),
        (None, load) => (1000, u64::from(load.expect("one of the two is required").get())),
    };
    // A list need not be sorted by time, so the first submission is known only at the end.
    let mut first: Option<SimTime> = None;
    let kept = args.source.keep()?;
    kept.open()?.each(args.source.name(), |task| -> Result<(), Failure> {
        first = Some(first.map_or(task.submit, |first| first.min(task.submit)));
        Ok(())
    })?;
    let scale = Scale { first: first.unwrap_or(SimTime::ZERO), numerator, denominator };
    pass(kept.open()?, args.source.name(), &args.target, |task| {
        let line = task.line;
        let too_late = || Failure::file(args.source.name(), format!("line {line} would be submitted too late"));
        scale.apply(task).map(Some).ok_or_else(too_late)
    })
}

pub fn resample(args: &ResampleArgs) -> ExitResult {
    let (file, mut tasks) = (args.source.name(), Vec::new());
    let mut stream = args.source.open()?;
    stream.each(file, |task| -> Result<(), Failure> {
        tasks.push(task);
        Ok(())
    })?;
    let count = args.jobs.unwrap_or(tasks.len() as u64);
    let Some(recorded) = Recorded::new(tasks) else { return Ok(Exit::NothingSelected) };
    put(&args.target, file, stream.rows.header(), |write| {
        recorded.draw(count, args.seed).try_for_each(write)?;
        Ok(stream.rows.tally().lines())
    })
}

/// Reads the list, applies `change` to each task and writes the results. Writes the whole list or nothing.
fn pass(
    mut stream: TaskStream,
    file: &Path,
    target: &Target,
    mut change: impl FnMut(TraceTask) -> Result<Option<TraceTask>, Failure>,
) -> ExitResult {
    let header = stream.rows.header().cloned();
    put(target, file, header.as_ref(), |write| {
        stream.each(file, |task| change(task)?.map_or(Ok(()), &mut *write))?;
        Ok(stream.rows.tally().lines())
    })
}
