//! `dryrack watch`: applies a utilization policy to real usage and reports its verdicts. It ends no job.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{Format, end_if_closed, print, warn};
use super::record::LEAST_EVERY;
use super::source::SourceArgs;
use dryrack_live::clock::{Clock, std_duration};
use dryrack_live::recorder::{usual_within, wait};
use dryrack_live::stop::Stop;
use dryrack_live::watch::{Fired, GpuGrouping, Watch};
use dryrack_report::{covered_text, idle_text};
use dryrack_scenario::{PolicyOf, load_policies};
use dryrack_units::{SimDuration, counted};
use dryrack_workload::{PolicyMode, SampleFault};

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Scenario with the policies to watch, or a file with `utilization_policy: {min_gpu_utilization: 30%, time_window:
    /// 10m}` and, optionally, a `profile`
    file: PathBuf,
    #[command(flatten)]
    source: SourceArgs,
    /// Length of the watch [default: until Control-C]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<SimDuration>,
    /// Time between readings
    #[arg(long, value_name = "TIME", default_value = "10s")]
    every: SimDuration,
    /// Grouping of GPUs that are judged together
    #[arg(long, value_name = "GROUP", value_enum, default_value_t)]
    by: TogetherArg,
}

/// [`GpuGrouping`], as a command-line value.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum TogetherArg {
    /// Each GPU separately
    #[default]
    Gpu,
    /// All GPUs of a node
    Node,
    /// All GPUs that one pod or job holds at the beginning
    Holder,
}

pub fn watch(args: &WatchArgs, format: Format) -> ExitResult {
    if args.every < LEAST_EVERY {
        return Err(Failure::Input(format!("error: --every {}: the shortest is {LEAST_EVERY}", args.every)));
    }
    let policies = load_policies(&args.file, Some(args.every)).map_err(|faults| Failure::Input(faults.to_string()))?;
    if policies.is_empty() {
        return Err(Failure::file(&args.file, NO_POLICY));
    }
    let stop = Stop::on_signals()?;
    let clock = Arc::new(Clock::start());
    let mut probe = args.source.probe(&clock)?;
    let within = std_duration(args.source.within(usual_within(args.every)));
    let together = match args.by {
        TogetherArg::Gpu => GpuGrouping::Gpu,
        TogetherArg::Node => GpuGrouping::Node,
        TogetherArg::Holder => GpuGrouping::Holder,
    };
    let mut asked = clock.now().in_millis();
    let began = asked;
    let first = probe
        .poll_unless(&stop, within)
        .map_err(|missing| Failure::Input(format!("error: {missing} ({})", missing.name())))?;
    let begin = |policy: PolicyOf| (Watch::begin(policy.policy, together, &first, asked), policy);
    let mut watches: Vec<(Watch, PolicyOf)> = policies.into_iter().map(begin).collect();
    let subjects = watches[0].0.subjects();
    if subjects == 0 {
        warn("there is nothing to watch\n");
        return Ok(Exit::NothingSelected);
    }
    let under = if watches.len() > 1 { format!(" under {} policies", watches.len()) } else { String::new() };
    warn(&format!("watching {}{under}; no job is touched\n", counted(subjects, "subject")));
    let (mut snapshot, mut ends) = (Ok(first), 0_usize);
    for tick in 1_u64.. {
        let now = clock.now().in_millis();
        for (watch, policy) in &mut watches {
            for fired in watch.take_snapshot(&snapshot, asked, now) {
                ends += 1;
                print_fired(&fired, policy, format)?;
                end_if_closed()?;
            }
        }
        let since = clock.now().since_start - began.since_start;
        let next = args.every.saturating_mul(tick.max(since.as_nanos() / args.every.as_nanos() + 1));
        let is_over = args.length.is_some_and(|length| next > length);
        if is_over || !wait(&clock, began.since_start.saturating_add(next), &stop) {
            break;
        }
        asked = clock.now().in_millis();
        snapshot = probe.poll_unless(&stop, within);
    }
    // All watches get the same readings, so the first one represents all.
    let watch = &watches[0].0;
    let summary = summary(watch, ends);
    match format {
        Format::Json => {
            print(&format!("{}\n", json!({"fired": ends, "readings": watch.readings, "missing": watch.missing})))?
        }
        Format::Human => print(&summary)?,
    }
    Ok(Exit::Fine)
}

const NO_POLICY: &str = "has no utilization policy; add `policies: {utilization: {min_gpu_utilization: 30%, time_window: 10m}}`, or \
     `utilization_policy:` to one of its jobs";

/// The jobs of a policy, such as `train` or `train and 3 others`; `None` for a file that states only a policy.
fn whose(policy: &PolicyOf) -> Option<String> {
    let first = policy.jobs.first()?;
    match policy.jobs.len() - 1 {
        0 => Some(first.clone()),
        others => Some(format!("{first} and {}", counted(others, "other"))),
    }
}

fn print_fired(fired: &Fired, of: &PolicyOf, format: Format) -> Result<(), Failure> {
    let policy = &of.policy;
    let idle = idle_text(policy.min_gpu_utilization, policy.at_minimum);
    let why = covered_text(&idle, policy.time_window, &fired.covered);
    let what = match policy.mode {
        PolicyMode::Enforce => "would have been ended",
        PolicyMode::Warn => "would have been warned",
        PolicyMode::Observe => "would have been recorded",
    };
    let names: Vec<&str> = fired.covered.gpus.iter().map(|gpu| fired.columns[usize::from(*gpu)].as_str()).collect();
    let text = match format {
        // One JSON object on each line, so that a reader need not wait for the end.
        Format::Json => format!(
            "{}\n",
            json!({"at": fired.at.at().to_string(), "wall": fired.at.wall.to_string(), "subject": fired.subject,
                   "gpus": names, "why": why, "samples": fired.covered.samples, "policy_of": of.jobs})
        ),
        Format::Human => {
            let (at, wall) = (fired.at.at(), fired.at.wall);
            let whose = whose(of).map_or_else(String::new, |jobs| format!(" under the policy of {jobs}"));
            format!("{at}  {wall}  {}: {what}{whose}: {} ({why})\n", fired.subject, names.join(", "))
        }
    };
    Ok(print(&text)?)
}

fn summary(watch: &Watch, ends: usize) -> String {
    let mut text = format!("{}, {}", counted(ends, "firing"), counted(watch.readings as usize, "reading"));
    for (name, count) in &watch.missing {
        text.push_str(&format!(", {count} {name}"));
    }
    for fault in SampleFault::ALL {
        if watch.odd[fault as usize] > 0 {
            text.push_str(&format!(", {} {}", watch.odd[fault as usize], fault.name()));
        }
    }
    text + "\n"
}
