//! `dryrack policy`: rehearses a utilization policy on recordings of GPU usage, without a scheduler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use rayon::prelude::*;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, WholeFile, print, print_json, warn};
use dryrack_policy::{GpuTime, JudgedJob, MOST_SAMPLES, judge_recording, ring_samples};
use dryrack_report::{SweepPlot, SweepPoint, covered_alone_text, covered_text, idle_text, table};
use dryrack_scenario::{PolicyFile, load_policy};
use dryrack_trace::{Index, TraceError, load_usage, read_usage_csv};
use dryrack_units::{Permille, SimDuration, counted};
use dryrack_workload::{Gaps, PolicyMode, SampleFault, UsageRow, UtilizationPolicy, UtilizationRule};

#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// File with `utilization_policy: {min_gpu_utilization: 30%, time_window: 10m}` and, optionally, a `profile`
    file: PathBuf,
    /// CSV file of one job, with a column for each of its GPUs; or the name of a trace, in which each pod is a job
    #[arg(long, value_name = "RECORDING")]
    usage: String,
    /// Treat each column of the CSV file as a separate job
    #[arg(long)]
    each: bool,
    /// Try every combination of a minimum and a window
    #[arg(long)]
    sweep: bool,
    /// With --sweep: the minimums to try
    #[arg(
        long,
        value_name = "PERCENT",
        value_delimiter = ',',
        requires = "sweep",
        default_value = "1%,5%,10%,20%,30%,50%,70%"
    )]
    minimums: Vec<Permille>,
    /// With --sweep: the windows to try
    #[arg(
        long,
        value_name = "TIME",
        value_delimiter = ',',
        requires = "sweep",
        default_value = "5m,10m,20m,30m,1h,2h,4h"
    )]
    windows: Vec<SimDuration>,
    /// With --sweep: SVG file to draw
    #[arg(long, value_name = "FILE", requires = "sweep")]
    out: Option<PathBuf>,
}

/// A job in the recording.
struct Job {
    name: String,
    rows: Vec<UsageRow>,
    /// The column of the recording, if the job is only one column.
    column: Option<u16>,
}

impl Job {
    fn whole(name: String, rows: Vec<UsageRow>) -> Job {
        Job { name, rows, column: None }
    }
}

pub fn policy(args: &PolicyArgs, format: Format) -> ExitResult {
    let (jobs, refused) = recorded(args)?;
    let input = |diagnostics: dryrack_yaml::Diagnostics| Failure::Input(diagnostics.to_string());
    let recorded = interval(&jobs);
    let file = load_policy(&args.file, recorded).map_err(input)?;
    let PolicyFile { policy: UtilizationPolicy { rule, gaps, longest_gap, .. }, .. } = file;
    if let Some(apart) = recorded.filter(|apart| *apart > longest_gap && gaps == Gaps::Void)
        && rule == UtilizationRule::Covered
    {
        let why = format!(
            "samples are {apart} apart, which is more than the longest gap of {longest_gap}: no window is covered"
        );
        warn(&format!("warning: {why}\n  = help: write `interval: {apart}`, or leave `interval` out\n"));
    }
    if args.sweep {
        return sweep(args, &file, &jobs, format);
    }
    let judged: Vec<JudgedJob> = jobs.par_iter().map(|job| judge_recording(file.policy, &job.rows)).collect();
    match format {
        Format::Json => print_json(&as_json(&file.policy, &jobs, &judged, &refused))?,
        Format::Human => print(&human(&file.policy, &jobs, &judged, &refused))?,
    }
    Ok(Exit::Fine)
}

/// Counts, by reason, of the cells in a recording that hold no usable reading.
type Refused = BTreeMap<&'static str, u64>;

/// The jobs of the recording, and counts of its cells without a usable reading.
fn recorded(args: &PolicyArgs) -> Result<(Vec<Job>, Refused), Failure> {
    let input_error = |fault: TraceError| Failure::Input(format!("error: {fault}"));
    let index = Index::built_in();
    let is_trace = index.traces.iter().any(|entry| entry.name == args.usage);
    if is_trace {
        let pods = load_usage(&index, &super::roots::roots(None), &args.usage).map_err(input_error)?;
        let jobs = pods.into_iter().map(|(name, series)| Job::whole(name, series.rows()));
        return Ok((jobs.collect(), Refused::new()));
    }
    let path = Path::new(&args.usage);
    if !path.exists() {
        let names = index.traces.iter().filter(|entry| entry.utilization().is_ok()).map(|entry| entry.name.as_str());
        let help =
            dryrack_nearest::hint(&args.usage, names).map(|hint| format!("\n  = help: {hint}")).unwrap_or_default();
        let message = format!(
            "error: --usage: `{}` does not exist; expected a CSV file of GPU usage, or the name of a trace{help}",
            args.usage
        );
        return Err(Failure::Input(message));
    }
    let recording = read_usage_csv(path).map_err(input_error)?;
    if recording.rows.is_empty() {
        return Err(Failure::Input(format!("error: {}:2:1: expected a sample, found nothing", path.display())));
    }
    let refused = recording.refused.clone();
    if !args.each {
        let name = path.file_stem().map_or(args.usage.clone(), |name| name.to_string_lossy().into_owned());
        return Ok((vec![Job::whole(name, recording.rows)], refused));
    }
    let job = |column: usize| Job {
        name: recording.names[column].clone(),
        rows: recording.column(column),
        column: u16::try_from(column).ok(),
    };
    Ok(((0..recording.names.len()).map(job).collect(), refused))
}

/// The intended sampling interval: the median gap between successive rows, over all jobs.
fn interval(jobs: &[Job]) -> Option<SimDuration> {
    let apart = |pair: &[UsageRow]| pair[1].at.as_nanos().abs_diff(pair[0].at.as_nanos());
    let mut gaps: Vec<u64> =
        jobs.iter().flat_map(|job| job.rows.windows(2).map(apart)).filter(|gap| *gap > 0).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().map(SimDuration::from_nanos)
}

/// Formats GPU hours with two decimals, rounded down, such as `12.34`.
fn hours(length: SimDuration) -> String {
    let hundredths = length.as_nanos() / 36_000_000_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn human(policy: &UtilizationPolicy, jobs: &[Job], judged: &[JudgedJob], refused: &Refused) -> String {
    let mut text = String::new();
    for (job, judged) in jobs.iter().zip(judged) {
        let Some((at, covered)) = &judged.fired else {
            text.push_str(&format!("{}: never fires\n", job.name));
            continue;
        };
        let idle = idle_text(policy.min_gpu_utilization, policy.at_minimum);
        let text_of = if job.column.is_some() { covered_alone_text } else { covered_text };
        let why = text_of(&idle, policy.time_window, covered);
        text.push_str(&format!("{}: fires at {at}: {why}\n", job.name));
        let GpuTime { idle, busy, .. } = judged.after;
        let then = match judged.busy_again_after {
            None => "was never busy again".to_string(),
            Some(after) => {
                format!("was busy again {after} later, so the end was wrong: {} busy GPU hours lost", hours(busy))
            }
        };
        text.push_str(&format!("  {} idle GPU hours saved; {then}\n", hours(idle)));
    }
    let odd: Vec<String> = (SampleFault::ALL.iter())
        .map(|fault| (fault, judged.iter().map(|judged| judged.odd[*fault as usize]).sum::<u64>()))
        .filter(|(_, count)| *count > 0)
        .map(|(fault, count)| format!("{count} {}", fault.name()))
        .collect();
    if !odd.is_empty() {
        text.push_str(&format!("odd samples: {}\n", odd.join(", ")));
    }
    let Totals { all, after, ended, false_ends } = totals(judged);
    let what = match policy.mode {
        PolicyMode::Enforce => "ended",
        PolicyMode::Warn => "warned of",
        PolicyMode::Observe => "found, but not ended",
    };
    text.push_str(&format!(
        "{}: {ended} would have been {}, {false_ends} of them wrongly; {} of {} idle GPU hours {}saved, {} of {} \
         busy GPU hours lost\n",
        counted(jobs.len(), "job"),
        what,
        hours(after.idle),
        hours(all.idle),
        if policy.mode == PolicyMode::Enforce { "" } else { "could have been " },
        hours(after.busy),
        hours(all.busy),
    ));
    if !refused.is_empty() {
        let refused: Vec<String> = refused.iter().map(|(why, count)| format!("{count} {why}")).collect();
        text.push_str(&format!("no readings: {}\n", refused.join(", ")));
    }
    text
}

struct Totals {
    all: GpuTime,
    after: GpuTime,
    ended: usize,
    false_ends: usize,
}

fn totals(judged: &[JudgedJob]) -> Totals {
    let sum = |part: fn(&JudgedJob) -> GpuTime| judged.iter().map(part).fold(GpuTime::default(), GpuTime::plus);
    Totals {
        all: sum(|judged| judged.all),
        after: sum(|judged| judged.after),
        ended: judged.iter().filter(|judged| judged.fired.is_some()).count(),
        false_ends: judged.iter().filter(|judged| judged.is_false_end()).count(),
    }
}

fn as_json(policy: &UtilizationPolicy, jobs: &[Job], judged: &[JudgedJob], refused: &Refused) -> serde_json::Value {
    let time = |time: &GpuTime| json!({"idle_hours": hours(time.idle), "busy_hours": hours(time.busy), "unknown_hours": hours(time.unknown)});
    let each: Vec<_> = (jobs.iter().zip(judged))
        .map(|(job, judged)| {
            let odd: serde_json::Map<String, serde_json::Value> = (SampleFault::ALL.iter())
                .map(|fault| (fault.name().to_string(), judged.odd[*fault as usize].into()))
                .collect();
            json!({
                "job": job.name,
                "fires_at": judged.fired.as_ref().map(|(at, _)| at.to_string()),
                "covered": judged.fired.as_ref().map(|(_, covered)| json!({
                    "gpus": job.column.map_or_else(|| covered.gpus.clone(), |column| smallvec::smallvec![column]), "first": covered.first.to_string(), "last": covered.last.to_string(),
                    "samples": covered.samples,
                })),
                "false_end": judged.is_false_end(),
                "busy_again_after": judged.busy_again_after.map(|after| after.to_string()),
                "all": time(&judged.all),
                "after": time(&judged.after),
                "odd": odd,
            })
        })
        .collect();
    let Totals { all, after, ended, false_ends } = totals(judged);
    json!({"policy": policy, "jobs": each, "ended": ended, "false_ends": false_ends, "all": time(&all),
           "after": time(&after), "no_readings": refused})
}

fn sweep(args: &PolicyArgs, file: &PolicyFile, jobs: &[Job], format: Format) -> ExitResult {
    let windows = windows(args, file)?;
    let mut minimums = args.minimums.clone();
    minimums.sort_unstable();
    minimums.dedup();
    if let Some(over) = minimums.iter().find(|minimum| **minimum > Permille::new(1000)) {
        return Err(Failure::Input(format!("error: --minimums {over}: expected 100% or less")));
    }
    let each = |window: &SimDuration| minimums.iter().map(|minimum| (*window, *minimum)).collect::<Vec<_>>();
    let policies: Vec<(SimDuration, Permille)> = windows.iter().flat_map(each).collect();
    let points: Vec<SweepPoint> =
        policies.par_iter().map(|(window, minimum)| point(file, *window, *minimum, jobs)).collect();
    match format {
        Format::Json => {
            let rows = points.iter().map(|point| {
                json!({
                    "time_window": point.window.to_string(), "min_gpu_utilization": point.minimum.to_string(),
                    "ended": point.ended, "false_ends": point.false_ends, "idle_hours": hours(point.idle),
                    "saved_hours": hours(point.saved), "lost_hours": hours(point.lost),
                })
            });
            print_json(&rows.collect::<Vec<_>>())?;
        }
        Format::Human => {
            let rows: Vec<Vec<String>> = points
                .iter()
                .map(|point| {
                    vec![
                        point.window.to_string(),
                        point.minimum.to_string(),
                        point.ended.to_string(),
                        point.false_ends.to_string(),
                        hours(point.saved),
                        hours(point.idle),
                        hours(point.lost),
                    ]
                })
                .collect();
            print(&table(&["window", "minimum", "ended", "falsely", "saved h", "of idle h", "busy h lost"], &rows))?;
        }
    }
    if let Some(out) = &args.out {
        let plot = SweepPlot {
            title: "Idle GPU time saved, and jobs that were ended but became busy again".to_string(),
            jobs: jobs.len() as u32,
            points,
            caption: format!("{}, {}; the minimum increases along each curve", args.usage, counted(jobs.len(), "job")),
        };
        WholeFile::write(out, plot.svg().as_bytes())?;
    }
    Ok(Exit::Fine)
}

/// The windows in ascending order without duplicates. Windows that the policy cannot use because they are too short are
/// reported and left out.
fn windows(args: &PolicyArgs, file: &PolicyFile) -> Result<Vec<SimDuration>, Failure> {
    let mut windows = args.windows.clone();
    windows.sort_unstable();
    windows.dedup();
    if windows.first().is_some_and(|window| window.is_zero()) {
        return Err(Failure::Input("error: --windows 0s: expected a window above 0s".to_string()));
    }
    let interval = file.policy.interval;
    if let Some(long) = windows.iter().find(|window| ring_samples(**window, interval) > MOST_SAMPLES) {
        let message = format!("more than {MOST_SAMPLES} samples, one every {interval}");
        return Err(Failure::Input(format!("error: --windows {long}: {message}")));
    }
    let least = file.min_time_window;
    let short: Vec<String> = windows.iter().filter(|window| **window < least).map(ToString::to_string).collect();
    windows.retain(|window| *window >= least);
    if windows.is_empty() {
        return Err(Failure::Input(format!("error: --windows {}: the shortest is {least}", short.join(","))));
    }
    if !short.is_empty() {
        warn(&format!("left out: windows of {}, because the shortest is {least}\n", short.join(", ")));
    }
    Ok(windows)
}

fn point(file: &PolicyFile, window: SimDuration, minimum: Permille, jobs: &[Job]) -> SweepPoint {
    let policy = UtilizationPolicy { time_window: window, min_gpu_utilization: minimum, ..file.policy };
    let judged: Vec<JudgedJob> = jobs.iter().map(|job| judge_recording(policy, &job.rows)).collect();
    let Totals { all, after, ended, false_ends } = totals(&judged);
    SweepPoint {
        minimum,
        window,
        idle: all.idle,
        saved: after.idle,
        lost: after.busy,
        ended: ended as u32,
        false_ends: false_ends as u32,
    }
}
