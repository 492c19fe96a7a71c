//! `dryrack calibrate`: fits a machine's delays to recordings and prints them as settings. It also shows how much these
//! settings improve the rehearsals of other recordings.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::exit::{Exit, ExitResult, Failure};
use super::logs::{WholeLog, read_live};
use super::output::{Format, print, print_json};
use super::validate::{interval_of, rehearsed, scenario};
use dryrack_control::{PassOptions, Trigger};
use dryrack_engine::Rehearsal;
use dryrack_ids::AttemptId;
use dryrack_rehearse::names;
use dryrack_units::SimDuration;
use dryrack_validation::{
    Calibrated, Calibration, Delays, Recording, calibrate as fitted, calibrate_outside, compare, exactness, timelines,
};

#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Logs that `dryrack live` wrote; the delays are fitted to them
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// Log to test the fitted delays on, not used for fitting; may be repeated
    #[arg(long, value_name = "LOG")]
    held_out: Vec<PathBuf>,
}

/// The default of `dryrack live --every`.
const USUAL_EVERY: SimDuration = SimDuration::from_secs(1);

struct Read {
    path: PathBuf,
    log: WholeLog,
    /// The scheduler that decided, if it was not the profile.
    on: Option<String>,
    /// How often that scheduler was asked.
    every: SimDuration,
    rehearsal: Rehearsal,
}

pub fn calibrate(args: &CalibrateArgs, format: Format) -> ExitResult {
    let seen = args.logs.iter().map(|path| read(path)).collect::<Result<Vec<Read>, Failure>>()?;
    let held_out = args.held_out.iter().map(|path| read(path)).collect::<Result<Vec<Read>, Failure>>()?;
    let recordings: Vec<Recording<'_>> = (seen.iter())
        .map(|read| Recording {
            rehearsal: &read.rehearsal,
            records: &read.log.records,
            names: &read.log.names,
            every: read.every,
        })
        .collect();
    let mut delays = fitted(&recordings, interval_of_attempt);
    let (outside, here): (Vec<&Read>, Vec<&Read>) = seen.iter().partition(|read| read.on.is_some());
    if let (Some(one), Some(other)) = (outside.first(), here.first()) {
        let why = format!(
            "was recorded on {}, but {} was recorded on this machine",
            one.on.as_deref().unwrap_or_default(),
            other.path.display()
        );
        return Err(Failure::file(
            &one.path,
            format!("{why}: their delays differ in kind; calibrate each one separately"),
        ));
    }
    if let Some(first) = outside.first() {
        let profile = &first.rehearsal.profile;
        if let Some(other) = outside.iter().find(|read| read.rehearsal.profile != *profile) {
            let why = format!("has the profile `{}`, but others have `{}`", other.rehearsal.profile.name, profile.name);
            return Err(Failure::file(&other.path, format!("{why}; calibrate the logs of each profile separately")));
        }
        delays.outside = calibrate_outside(&recordings, |rehearsal| rehearsed(rehearsal).0);
        delays.start = delays.outside.as_ref().and_then(|found| found.later).unwrap_or_default();
    }
    let gain = [false, true].map(|is_fitted| errors(&held_out, &delays, is_fitted));
    match format {
        Format::Human => {
            let profile = seen.first().map_or("", |read| &read.rehearsal.profile.name);
            print(&(text(&delays, &gain, held_out.len()) + &profile_text(&delays, profile)))?
        }
        Format::Json => print_json(&json!({
            "prepare_ns": delays.start.as_nanos(),
            "duration_more_ns": delays.length.as_nanos(),
            "stop_ns": delays.stop.as_nanos(),
            "sampling_jitter_ns": delays.jitter.as_nanos(),
            "fitted_on": delays.counts,
            "outside": delays.outside.as_ref().map(outside_json),
            "held_out": held_out.len(),
            "median_error_of_starts_ns": gain.each_ref().map(|[starts, _]| middle(starts)),
            "median_error_of_ends_ns": gain.each_ref().map(|[_, ends]| middle(ends)),
        }))?,
    }
    Ok(Exit::Fine)
}

fn read(path: &Path) -> Result<Read, Failure> {
    let (log, live) = read_live(path)?;
    let rehearsal = scenario(path, &log)?;
    // Use the default of `dryrack live` if the log does not state the interval.
    let every = live.every.unwrap_or(USUAL_EVERY);
    Ok(Read { path: path.to_path_buf(), log, on: live.on, every, rehearsal })
}

fn interval_of_attempt(rehearsal: &Rehearsal, attempt: AttemptId) -> Option<SimDuration> {
    let arrival = rehearsal.arrivals.get(attempt.job.index())?;
    interval_of(rehearsal, &arrival.spec.name)
}

/// The differences in start times and end times between each run and its rehearsal, either with the fitted delays
/// (`is_fitted`) or without them.
fn errors(held_out: &[Read], delays: &Delays, is_fitted: bool) -> [Vec<u64>; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for read in held_out {
        let rehearsal = if is_fitted { delays.apply(&read.rehearsal) } else { read.rehearsal.clone() };
        let (records, _) = rehearsed(&rehearsal);
        let real = timelines(&read.log.records, &read.log.names);
        let found = compare(&timelines(&records, &names(&rehearsal)), &real, |job| interval_of(&rehearsal, job));
        all.iter_mut().zip(exactness(&found)).for_each(|(all, found)| all.extend(found));
    }
    all
}

fn middle(errors: &[u64]) -> Option<u64> {
    let mut errors = errors.to_vec();
    errors.sort_unstable();
    errors.get(errors.len().checked_sub(1)? / 2).copied()
}

fn text(delays: &Delays, gain: &[[Vec<u64>; 2]; 2], held_out: usize) -> String {
    let [starts, lengths, stops, samples] = delays.counts;
    let mut text = format!(
        "# medians of {starts} starts, {lengths} lengths, {stops} stops and {samples} samples\nsampling: {{jitter: \
         {}}}\n# for each job:\nprepare: {}\nstop: {}\n# and a `duration` that is longer by {}\n",
        delays.jitter, delays.start, delays.stop, delays.length
    );
    if delays.outside.as_ref().is_some_and(|found| found.later.is_none()) {
        text.push_str(
            "# `prepare` is undetermined: late starts also depend on the scheduler's clocks, which are undetermined\n",
        );
    }
    let seconds =
        |errors: &[u64]| middle(errors).map_or("none".to_string(), |nanos| format!("{:.3}s", nanos as f64 / 1e9));
    if held_out > 0 {
        let [before, after] = gain;
        text.push_str(&format!(
            "# {held_out} held-out logs: median error of starts {} before, {} after; of ends {} before, {} after\n",
            seconds(&before[0]),
            seconds(&after[0]),
            seconds(&before[1]),
            seconds(&after[1]),
        ));
    }
    text
}

fn pass_json(calibrated: &Calibrated<PassOptions>) -> Value {
    match calibrated {
        Calibrated::Exact(pass) => {
            let every = match pass.trigger {
                Trigger::Every(period) | Trigger::EachAfter(period) => Some(period.as_nanos()),
                Trigger::Event | Trigger::Outside => None,
            };
            json!({"told": true, "every_ns": every, "offset_ns": pass.offset.as_nanos()})
        }
        untold => undetermined_json(untold),
    }
}

fn undetermined_json<T>(untold: &Calibrated<T>) -> Value {
    match untold {
        Calibrated::Exact(_) => json!({"told": true}),
        Calibrated::Ambiguous(values) => {
            json!({"told": false, "as_well_ns": values.iter().map(|value| value.as_nanos()).collect::<Vec<_>>()})
        }
        Calibrated::Coarse { found, every } => {
            json!({"told": false, "found_ns": found.as_nanos(), "asked_every_ns": every.as_nanos()})
        }
    }
}

fn outside_json(found: &Calibration) -> Value {
    let completing = match &found.completing {
        Calibrated::Exact(time) => json!({"told": true, "completing_ns": time.as_nanos()}),
        untold => undetermined_json(untold),
    };
    json!({
        "place": pass_json(&found.place),
        "backfill": found.backfill.as_ref().map(pass_json),
        "completing": completing,
    })
}

fn pass_text(pass: PassOptions) -> String {
    match pass.trigger {
        Trigger::Every(period) | Trigger::EachAfter(period) => {
            format!("{{trigger: {{every: {period}}}, offset: {}}}", pass.offset)
        }
        Trigger::Event | Trigger::Outside => "{trigger: event, offset: 0s}".to_string(),
    }
}

/// A profile with the times at which the recorded scheduler examines its queue. It can replace the profile of the log.
/// Settings that the recordings do not reveal stay as in the log's profile, and a YAML comment says so.
fn profile_text(delays: &Delays, profile: &str) -> String {
    let Some(found) = &delays.outside else { return String::new() };
    let passes = [("place", Some(&found.place)), ("backfill", found.backfill.as_ref())];
    let passes = passes.into_iter().filter_map(|(name, calibrated)| Some((name, calibrated?)));
    let (mut lines, mut untold) = (String::new(), String::new());
    for (name, calibrated) in passes {
        match calibrated {
            Calibrated::Exact(pass) => lines.push_str(&format!("  {name}: {}\n", pass_text(*pass))),
            calibrated => untold.push_str(&undetermined_text(&format!("the clock of `{name}`"), calibrated)),
        }
    }
    if !lines.is_empty() {
        lines.insert_str(0, "passes:\n");
    }
    match &found.completing {
        Calibrated::Exact(time) => lines.push_str(&format!("completing: {time}\n")),
        calibrated => untold.push_str(&undetermined_text("`completing`", calibrated)),
    }
    if lines.is_empty() {
        return format!("{untold}# so there is no profile to write\n");
    }
    format!(
        "{untold}# a profile, for a separate file:\nbase: {profile}\nname: {profile}-as-recorded\ntitle: As \
         {profile}, with the recorded passes of the scheduler\n{lines}"
    )
}

fn undetermined_text<T>(what: &str, untold: &Calibrated<T>) -> String {
    let named = |value: &SimDuration| if value.is_zero() { "none".to_string() } else { value.to_string() };
    let why = match untold {
        Calibrated::Exact(_) => return String::new(),
        Calibrated::Ambiguous(values) => {
            let values: Vec<String> = values.iter().map(named).collect();
            format!("{} explain so many starts equally well", values.join(", "))
        }
        Calibrated::Coarse { found, every } => {
            format!(
                "{} fits best, but the scheduler was polled only every {every}; record with a shorter `--every`",
                named(found)
            )
        }
    };
    format!("# {what} is undetermined and stays as it is: {why}\n")
}
