//! Records of tests: one zip file with each run's scenario, profile and log, which `dryrack replay` runs anywhere.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::case::{Case, Status};
use crate::exit::Failure;
use crate::output::WholeFile;
use crate::recorded_runs::{CONTENTS, RECORD_VERSION, RecordContents, RecordedRun};
use dryrack_engine::Rehearsal;
use dryrack_event::LogHeader;

/// A run and its files.
struct Kept {
    run: RecordedRun,
    header: LogHeader,
    /// The log, compressed: logs are long, and many are kept until the end.
    log: Vec<u8>,
}

/// Collects the runs of a test.
#[derive(Default)]
pub struct Recorder {
    kept: Mutex<Vec<Kept>>,
}

/// The log of a run that goes on.
pub type KeptLog = zstd::Encoder<'static, Vec<u8>>;

/// A place for a log in memory.
pub fn kept_log() -> KeptLog {
    zstd::Encoder::new(Vec::new(), 0).expect("a Vec takes everything")
}

impl Recorder {
    pub fn keep(&self, file: &Path, rehearsal: &Rehearsal, case: &Case, log: KeptLog) {
        let header = dryrack_rehearse::header(rehearsal);
        let run = RecordedRun {
            file: file.display().to_string(),
            repeat: case.repeat.clone().unwrap_or_default(),
            scenario: rehearsal.title.clone(),
            passed: case.status == Status::Passed,
            failed: case.failures().map(|judged| judged.verdict.name.to_string()).collect(),
            digest: case.digest.clone().unwrap_or_default(),
            folder: String::new(),
        };
        let log = log.finish().expect("a Vec takes everything");
        self.kept.lock().expect("no other thread panicked").push(Kept { run, header, log });
    }

    /// Writes the record. Equal runs give equal bytes.
    pub fn write(self, path: &Path) -> Result<(), Failure> {
        let mut kept = self.kept.into_inner().expect("no other thread panicked");
        kept.sort_by(|one, other| one.run.cmp(&other.run));
        for (number, kept) in kept.iter_mut().enumerate() {
            kept.run.folder = format!("runs/{:04}", number + 1);
        }
        let mut file = WholeFile::create(path)?;
        let written = write_all(&mut file, &kept);
        file.keep(written)
    }
}

fn write_all(file: &mut WholeFile, kept: &[Kept]) -> std::io::Result<()> {
    let contents = RecordContents {
        record: RECORD_VERSION,
        dryrack: env!("CARGO_PKG_VERSION").to_string(),
        runs: kept.iter().map(|kept| kept.run.clone()).collect(),
    };
    let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).expect("it has a JSON form") + "\n";
    let mut zip = ZipWriter::new_stream(file);
    // The time is always the same, so that equal runs give equal bytes.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default())
        .large_file(true);
    zip.start_file(CONTENTS, options)?;
    zip.write_all(pretty(&serde_json::to_value(&contents).expect("it has a JSON form")).as_bytes())?;
    for Kept { run, header, log } in kept {
        zip.start_file(format!("{}/scenario.yaml", run.folder), options)?;
        zip.write_all(header.source.as_bytes())?;
        zip.start_file(format!("{}/profile.json", run.folder), options)?;
        zip.write_all(pretty(&header.profile_data).as_bytes())?;
        zip.start_file(format!("{}/events.jsonl", run.folder), options)?;
        zstd::stream::copy_decode(log.as_slice(), &mut zip)?;
    }
    zip.finish()?;
    Ok(())
}
