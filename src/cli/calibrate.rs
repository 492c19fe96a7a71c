//! `dryrack calibrate`: a machine's delays out of recordings, as settings, and what they gain on others.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::exit::{Done, Exit, Failure};
use super::logs::{WholeLog, read_live};
use super::output::{Format, say, say_json};
use super::validate::{interval_of, rehearsed, scenario};
use crate::agreement::{
    Delays, Outside, Recording, calibrate as fitted, calibrate_outside, compare, courses, exactness,
};
use crate::control::{PassOptions, Trigger};
use crate::engine::Rehearsal;
use crate::ids::RunId;
use crate::rehearse::names;
use crate::units::SimDuration;

#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Logs that `dryrack live` wrote, to fit the delays on
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// Another such log, on which nothing is fitted: shows the gain; may be given again
    #[arg(long, value_name = "LOG")]
    held_out: Vec<PathBuf>,
}

struct Read {
    path: PathBuf,
    log: WholeLog,
    /// Who decided, if that was not the profile.
    on: Option<String>,
    rehearsal: Rehearsal,
}

pub fn calibrate(args: &CalibrateArgs, format: Format) -> Done {
    let seen = args.logs.iter().map(|path| read(path)).collect::<Result<Vec<Read>, Failure>>()?;
    let held_out = args.held_out.iter().map(|path| read(path)).collect::<Result<Vec<Read>, Failure>>()?;
    let recordings: Vec<Recording<'_>> = (seen.iter())
        .map(|read| Recording { rehearsal: &read.rehearsal, records: &read.log.records, names: &read.log.names })
        .collect();
    let mut delays = fitted(&recordings, interval_of_run);
    let (outside, here): (Vec<&Read>, Vec<&Read>) = seen.iter().partition(|read| read.on.is_some());
    if let (Some(one), Some(other)) = (outside.first(), here.first()) {
        let why = format!(
            "was recorded on {}, and {} on this machine",
            one.on.as_deref().unwrap_or_default(),
            other.path.display()
        );
        return Err(Failure::file(&one.path, format!("{why}: they have no delays in common; fit each by itself")));
    }
    if let Some(first) = outside.first() {
        let profile = &first.rehearsal.profile;
        if let Some(other) = outside.iter().find(|read| read.rehearsal.profile != *profile) {
            let why = format!("is of profile `{}`, and others of `{}`", other.rehearsal.profile.name, profile.name);
            return Err(Failure::file(&other.path, format!("{why}; fit those of one profile together")));
        }
        if let Some((outside, later)) = calibrate_outside(&recordings, |rehearsal| rehearsed(rehearsal).0) {
            (delays.passes, delays.start) = (Some(outside), later);
        }
    }
    let gain = [false, true].map(|is_fitted| errors(&held_out, &delays, is_fitted));
    match format {
        Format::Human => {
            let profile = seen.first().map_or("", |read| &read.rehearsal.profile.name);
            say(&(text(&delays, &gain, held_out.len()) + &profile_text(&delays, profile)))?
        }
        Format::Json => say_json(&json!({
            "prepare_ns": delays.start.as_nanos(),
            "duration_more_ns": delays.length.as_nanos(),
            "stop_ns": delays.stop.as_nanos(),
            "sampling_jitter_ns": delays.jitter.as_nanos(),
            "fitted_on": delays.counts,
            "passes_ns": delays.passes.map(|outside| period_ns(outside.place)),
            "offset_ns": delays.passes.map(|outside| outside.place.offset.as_nanos()),
            "backfill_ns": delays.passes.and_then(|outside| outside.backfill).map(period_ns),
            "backfill_offset_ns": delays.passes.and_then(|outside| outside.backfill).map(|pass| pass.offset.as_nanos()),
            "completing_ns": delays.passes.map(|outside| outside.completing.as_nanos()),
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
    Ok(Read { path: path.to_path_buf(), log, on: live.on, rehearsal })
}

fn interval_of_run(rehearsal: &Rehearsal, run: RunId) -> Option<SimDuration> {
    let arrival = rehearsal.arrivals.get(run.job.index())?;
    interval_of(rehearsal, &arrival.spec.name)
}

/// How far starts and ends were from a rehearsal, with the delays or without.
fn errors(held_out: &[Read], delays: &Delays, is_fitted: bool) -> [Vec<u64>; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for read in held_out {
        let rehearsal = if is_fitted { delays.apply(&read.rehearsal) } else { read.rehearsal.clone() };
        let (records, _) = rehearsed(&rehearsal);
        let real = courses(&read.log.records, &read.log.names);
        let found = compare(&courses(&records, &names(&rehearsal)), &real, |job| interval_of(&rehearsal, job));
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
        "# medians of {starts} starts, {lengths} lengths, {stops} stops and {samples} samples\n\
         sampling: {{jitter: {}}}\n\
         # of each job:\n\
         prepare: {}\n\
         stop: {}\n\
         # and its `duration` longer by {}\n",
        delays.jitter, delays.start, delays.stop, delays.length
    );
    let seconds =
        |errors: &[u64]| middle(errors).map_or("none".to_string(), |nanos| format!("{:.3}s", nanos as f64 / 1e9));
    if held_out > 0 {
        let [before, after] = gain;
        text.push_str(&format!(
            "# {held_out} logs held out: median error of starts {} without, {} with; of ends {} without, {} with\n",
            seconds(&before[0]),
            seconds(&after[0]),
            seconds(&before[1]),
            seconds(&after[1]),
        ));
    }
    text
}

fn period_ns(pass: PassOptions) -> u64 {
    match pass.trigger {
        Trigger::Every(period) | Trigger::EachAfter(period) => period.as_nanos(),
        Trigger::Event | Trigger::Outside => 0,
    }
}

fn pass_text(pass: PassOptions) -> String {
    match pass.trigger {
        Trigger::Every(period) | Trigger::EachAfter(period) => {
            format!("{{trigger: {{every: {period}}}, offset: {}}}", pass.offset)
        }
        Trigger::Event | Trigger::Outside => "{trigger: event, offset: 0s}".to_string(),
    }
}

/// When whoever decided looks at the queue, as a profile that can be named in the place of the other.
fn profile_text(delays: &Delays, profile: &str) -> String {
    let Some(Outside { place, backfill, completing }) = delays.passes else { return String::new() };
    let backfill = backfill.map_or(String::new(), |pass| format!("  backfill: {}\n", pass_text(pass)));
    format!(
        "# a profile, as a file of its own:\n\
         base: {profile}\n\
         name: {profile}-as-recorded\n\
         title: As {profile}, with the passes of the scheduler that was recorded\n\
         passes:\n  place: {}\n{backfill}\
         completing: {completing}\n",
        pass_text(place)
    )
}
