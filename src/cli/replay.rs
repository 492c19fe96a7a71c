//! `dryrack replay`: runs the recorded inputs of a log again, and compares the events.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::logs::open;
use super::output::{Format, print, print_json};
use dryrack_codec::encode_line;
use dryrack_control::Profile;
use dryrack_engine::{Difference, Replay};
use dryrack_event::{Event, LogHeader, Record, RecordBody};
use dryrack_ids::Names;
use dryrack_report::{LogError, LogLine};

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Log that `run --out` wrote
    log: PathBuf,
}

/// The place where a log and its replay differ.
struct Divergence {
    line: u64,
    why: String,
    recorded: Option<String>,
    replayed: Option<String>,
}

/// Prints nothing and exits with 0 if every event is the same. Otherwise prints the first difference and exits with 1.
pub fn replay(args: &ReplayArgs, format: Format) -> ExitResult {
    let mut reader = open(&args.log)?;
    let header = reader.header().clone();
    let mut replay = Replay::new(profile_of(&args.log, &header)?, header.seed);
    let refused = |error: LogError| Failure::file(&args.log, error);
    let mut last = 1;
    while let Some(line) = reader.next_line().map_err(refused)? {
        last = line.number;
        let found = guarded(|| take(&mut replay, &line, &reader.names)).map_err(|message| {
            Failure::Ours(format!("internal error: {message}\n  at line {last} of {}\n", args.log.display()))
        })?;
        if let Some(parting) = found {
            return print_result(args, format, &parting);
        }
    }
    let names = reader.names.clone();
    if let Err(difference) = replay.finish() {
        return print_result(args, format, &parting_of(difference, last + 1, None, &names));
    }
    match reader.finish() {
        Ok(_) => Ok(Exit::Fine),
        Err(LogError::Digest { stated, found }) => {
            let why = "every event is the same, but the digest differs: an input or the footer was changed".to_string();
            print_result(
                args,
                format,
                &Divergence { line: last + 1, why, recorded: Some(stated), replayed: Some(found) },
            )
        }
        Err(LogError::Sum) => {
            let why = "every event is the same, but the file is not: its header or end was changed";
            print_result(args, format, &Divergence { line: 1, why: why.to_string(), recorded: None, replayed: None })
        }
        Err(error) => Err(refused(error)),
    }
}

pub fn profile_of(path: &Path, header: &LogHeader) -> Result<Arc<Profile>, Failure> {
    let profile: Profile = Profile::from_data(header.profile_data.clone())
        .map_err(|error| Failure::file(path, format!("line 1: the profile cannot be read: {error}")))?;
    match profile.faults().first() {
        Some(fault) => Err(Failure::file(path, format!("line 1: the profile {}: {fault}", profile.name))),
        None => Ok(Arc::new(profile)),
    }
}

fn take(replay: &mut Replay, line: &LogLine, names: &Names) -> Option<Divergence> {
    match &line.record {
        Ok(record) => {
            let difference = replay.take(record).err()?;
            Some(parting_of(difference, line.number, Some((record, &line.text)), names))
        }
        Err(error) => {
            let replayed = replay.next_event().map(|(step, at, event)| event_line(step, at, event, names));
            let why = format!("not a record: {error}");
            Some(Divergence { line: line.number, why, recorded: Some(line.text.clone()), replayed })
        }
    }
}

fn parting_of(difference: Difference, line: u64, recorded: Option<(&Record, &String)>, names: &Names) -> Divergence {
    let why = difference.to_string();
    let step = recorded.map_or(0, |(record, _)| record.step);
    let replayed = match difference {
        Difference::Event { at, replayed, .. } | Difference::Missing { at, replayed, .. } => {
            Some(event_line(step, at, *replayed, names))
        }
        Difference::Extra { .. } | Difference::Impossible { .. } => None,
    };
    Divergence { line, why, recorded: recorded.map(|(_, text)| text.clone()), replayed }
}

/// The event as a line of the log.
fn event_line(step: u64, at: dryrack_units::SimTime, event: Event, names: &Names) -> String {
    encode_line(&Record { step, at, said: RecordBody::Event(event) }, &mut names.clone())
}

fn print_result(args: &ReplayArgs, format: Format, parting: &Divergence) -> ExitResult {
    let Divergence { line, why, recorded, replayed } = parting;
    match format {
        Format::Json => print_json(&json!({"line": line, "why": why, "recorded": recorded, "replayed": replayed}))?,
        Format::Human => {
            let mut text = format!("{}: line {line}: {why}\n", args.log.display());
            for (word, side) in [("recorded", recorded), ("replayed", replayed)] {
                text.push_str(&format!("  {word}  {}\n", side.as_deref().unwrap_or("nothing")));
            }
            print(&text)?;
        }
    }
    Ok(Exit::Failed)
}
