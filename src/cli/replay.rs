//! `dryrack replay`: runs the recorded inputs of a log again, and compares the events.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use zip::ZipArchive;

use super::exit::{Exit, ExitResult, Failure};
use super::guard::guarded;
use super::logs::open;
use super::output::{Format, print, print_json};
use super::progress::with_line;
use super::recorded_runs::{CONTENTS, RECORD_VERSION, RecordContents, RecordedRun};
use dryrack_codec::encode_line;
use dryrack_control::Profile;
use dryrack_engine::{Difference, Replay};
use dryrack_event::{Event, LogHeader, Record, RecordBody};
use dryrack_ids::Names;
use dryrack_report::{LogError, LogLine, LogReader};
use dryrack_units::counted;

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Log that `run --out` wrote, or record that `test --record` wrote
    #[arg(value_name = "LOG|RECORD.zip")]
    log: PathBuf,
}

/// The place where a log and its replay differ.
struct Divergence {
    line: u64,
    why: String,
    recorded: Option<String>,
    replayed: Option<String>,
}

/// Exits with 0 if every event is the same, and prints nothing, or as JSON that they are equal. Otherwise prints the first difference and exits with 1.
/// For a record, prints a line for each run.
pub fn replay(args: &ReplayArgs, format: Format) -> ExitResult {
    if is_zip(&args.log) {
        return replay_record(&args.log, format);
    }
    let reader = open(&args.log)?;
    let said = || format!("replaying {}", args.log.display());
    let divergence = match with_line(said, || replay_log(&args.log, reader))? {
        Ok(digest) => {
            if format == Format::Json {
                print_json(&json!({"equal": true, "digest": digest}))?;
            }
            return Ok(Exit::Fine);
        }
        Err(divergence) => divergence,
    };
    match format {
        Format::Json => {
            let mut value = divergence.json();
            value["equal"] = json!(false);
            print_json(&value)?;
        }
        Format::Human => print(&divergence.text(&args.log.display().to_string()))?,
    }
    Ok(Exit::Failed)
}

/// Replays a log. Returns its digest, or the first difference. Errors name the log by `path`.
fn replay_log<R: BufRead>(path: &Path, mut reader: LogReader<R>) -> Result<Result<String, Divergence>, Failure> {
    let header = reader.header().clone();
    let mut replay = Replay::new(profile_of(path, &header)?, header.seed);
    let refused = |error: LogError| Failure::file(path, error);
    let mut last = 1;
    while let Some(line) = reader.next_line().map_err(refused)? {
        last = line.number;
        let found = guarded(|| take(&mut replay, &line, &reader.names)).map_err(|message| {
            Failure::Ours(format!("internal error: {message}\n  at line {last} of {}\n", path.display()))
        })?;
        if let Some(divergence) = found {
            return Ok(Err(divergence));
        }
    }
    let names = reader.names.clone();
    if let Err(difference) = replay.finish() {
        return Ok(Err(divergence_of(difference, last + 1, None, &names)));
    }
    match reader.finish() {
        Ok(footer) => Ok(Ok(footer.digest)),
        Err(LogError::Digest { stated, found }) => {
            let why = "every event is the same, but the digest differs: an input or the footer was changed".to_string();
            Ok(Err(Divergence { line: last + 1, why, recorded: Some(stated), replayed: Some(found) }))
        }
        Err(LogError::Sum) => {
            let why = "every event is the same, but the file is not: its header or end was changed".to_string();
            Ok(Err(Divergence { line: 1, why, recorded: None, replayed: None }))
        }
        Err(error) => Err(refused(error)),
    }
}

fn is_zip(path: &Path) -> bool {
    let mut first = [0; 4];
    let opened = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    opened.is_ok() && first == *b"PK\x03\x04"
}

/// Replays every run of a record.
fn replay_record(path: &Path, format: Format) -> ExitResult {
    let damaged = |what: &dyn std::fmt::Display| Failure::file(path, format!("is not a complete record: {what}"));
    let file = File::open(path).map_err(|error| damaged(&error))?;
    let mut zip = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(&error))?;
    let contents = contents(path, &mut zip)?;
    let mut replayed: Vec<(RecordedRun, Option<Divergence>)> = Vec::new();
    for run in contents.runs {
        let name = format!("{}/events.jsonl", run.folder);
        let log = zip.by_name(&name).map_err(|error| damaged(&format!("{name}: {error}")))?;
        let within = path.join(&name);
        let reader = LogReader::new(BufReader::new(log)).map_err(|error| Failure::file(&within, error))?;
        let divergence = match replay_log(&within, reader)? {
            Ok(digest) if digest == run.digest => None,
            Ok(digest) => Some(Divergence {
                line: 0,
                why: format!("the log has another digest than {CONTENTS} states"),
                recorded: Some(run.digest.clone()),
                replayed: Some(digest),
            }),
            Err(divergence) => Some(divergence),
        };
        replayed.push((run, divergence));
    }
    let differing = replayed.iter().filter(|(_, divergence)| divergence.is_some()).count();
    match format {
        Format::Json => print_json(&json!({
            "recorded_by": contents.dryrack, "equal": differing == 0,
            "runs": replayed.iter().map(|(run, divergence)| json!({
                "file": run.file, "repeat": run.repeat, "passed": run.passed, "failed": run.failed,
                "digest": run.digest, "difference": divergence.as_ref().map(Divergence::json),
            })).collect::<Vec<_>>(),
        }))?,
        Format::Human => {
            let mut text = String::new();
            for (run, divergence) in &replayed {
                let word = if divergence.is_some() { "differs" } else { "same" };
                let failed = if run.passed { String::new() } else { format!("  (failed: {})", run.failed.join(", ")) };
                text.push_str(&format!("{word:>8}  {}  {}{failed}\n", run.file, run.scenario));
                text.extend(
                    divergence.as_ref().map(|divergence| divergence.text(&format!("          {}", run.folder))),
                );
            }
            let by = contents.dryrack;
            let said = if differing == 0 { "all as recorded".to_string() } else { format!("{differing} differ") };
            text.push_str(&format!(
                "\n{} replayed, {said} by dryrack {by}; this is {}\n",
                counted(replayed.len(), "run"),
                env!("CARGO_PKG_VERSION")
            ));
            print(&text)?;
        }
    }
    Ok(if differing == 0 { Exit::Fine } else { Exit::Failed })
}

fn contents(path: &Path, zip: &mut ZipArchive<BufReader<File>>) -> Result<RecordContents, Failure> {
    let no_record = |why: &dyn std::fmt::Display| {
        Failure::file(path, format!("is not a record that `dryrack test --record` wrote: {why}"))
    };
    let file = zip.by_name(CONTENTS).map_err(|_| no_record(&format!("it has no {CONTENTS}")))?;
    let value: Value = serde_json::from_reader(file).map_err(|error| no_record(&format!("{CONTENTS}: {error}")))?;
    // A record of a later version cannot be read further.
    if let Some(found) = value["record"].as_u64().filter(|found| *found > u64::from(RECORD_VERSION)) {
        let why = format!("the record has version {found}, but this dryrack reads versions 1 to {RECORD_VERSION}");
        return Err(Failure::file(path, why));
    }
    serde_json::from_value(value).map_err(|error| no_record(&format!("{CONTENTS}: {error}")))
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
            Some(divergence_of(difference, line.number, Some((record, &line.text)), names))
        }
        Err(error) => {
            let replayed = replay.next_event().map(|(step, at, event)| event_line(step, at, event, names));
            let why = format!("not a record: {error}");
            Some(Divergence { line: line.number, why, recorded: Some(line.text.clone()), replayed })
        }
    }
}

fn divergence_of(difference: Difference, line: u64, recorded: Option<(&Record, &String)>, names: &Names) -> Divergence {
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

impl Divergence {
    fn json(&self) -> Value {
        let Divergence { line, why, recorded, replayed } = self;
        json!({"line": line, "why": why, "recorded": recorded, "replayed": replayed})
    }

    /// The difference in three lines; `log` names the log.
    fn text(&self, log: &str) -> String {
        let mut text = format!("{log}: line {}: {}\n", self.line, self.why);
        for (word, side) in [("recorded", &self.recorded), ("replayed", &self.replayed)] {
            text.push_str(&format!("  {word}  {}\n", side.as_deref().unwrap_or("nothing")));
        }
        text
    }
}
