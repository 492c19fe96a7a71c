//! A recording of usage in a form that the simulator can replay. The file is valid at any time.
//!
//! A complete row is written with a single call, so the recording stays valid if the process is killed. If a row does
//! not fit on the disk, its partial text is removed. Each interval has a row even if the probe fails; a value that
//! cannot be read is `N/A`. A second file, `FILE.why.csv`, gets a line whenever the reason of a column changes. Times
//! are those of the monotonic clock. If the wall clock is set, the second file gets a line about it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::clock::{Clock, Stamp, std_duration};
use super::columns::{Cell, Column, nothing, strangers};
use super::probe::{Guarded, Missing, Snapshot};
use super::stop::Stop;
use dryrack_units::SimDuration;

/// The length of the recording, the interval, and the time limit of one poll.
#[derive(Clone, Copy, Debug)]
pub struct RecordingOptions {
    pub length: SimDuration,
    pub every: SimDuration,
    pub within: SimDuration,
}

/// The result of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingResult {
    pub columns: Vec<String>,
    pub rows: u64,
    /// The number of cells without a reading, by the name of the reason.
    pub missing: BTreeMap<&'static str, u64>,
    /// Whether the recording was stopped before its end.
    pub was_stopped: bool,
}

#[derive(Debug, Error)]
pub enum RecordError {
    /// The first poll failed. It would have determined the columns.
    #[error("there is nothing to record: {0}")]
    Nothing(Missing),
    #[error("{path}: already exists; a recording does not replace a file")]
    Exists { path: PathBuf },
    #[error("{path}: cannot be written: {source}; {rows} rows are complete")]
    Unwritten { path: PathBuf, source: io::Error, rows: u64 },
}

/// A difference between the two clocks over one interval, in nanoseconds. A larger difference is reported.
const JUMP: i64 = 1_000_000_000;

/// Records until the time is over or a stop is requested. Calls `on_row` after every row.
pub fn record(
    probe: &mut Guarded,
    clock: &Clock,
    pace: RecordingOptions,
    out: &Path,
    stop: &Stop,
    on_row: &mut dyn FnMut(&RecordingResult, SimDuration),
) -> Result<RecordingResult, RecordError> {
    let began = clock.now().in_millis();
    let first = probe.poll_unless(stop, std_duration(pace.within)).map_err(RecordError::Nothing)?;
    let columns = Column::all(&first);
    if columns.is_empty() {
        return Err(RecordError::Nothing(Missing::Silent { what: probe.source().to_string() }));
    }
    let mut recording = Recording::create(out, columns, began)?;
    let mut snapshot = Ok(first);
    let (mut asked, mut checked) = (began, began);
    for tick in 1_u64.. {
        recording.row(clock, asked, &snapshot)?;
        checked = recording.check_clock(clock, checked)?;
        let since = checked.since_start.saturating_sub(began.since_start);
        on_row(&recording.so_far, since);
        // Skip missed intervals: the next row is at the first multiple of the interval after now.
        let next = tick.max(since.as_nanos() / pace.every.as_nanos().max(1) + 1);
        let next = pace.every.saturating_mul(next);
        if next > pace.length {
            break;
        }
        if !wait(clock, began.since_start.saturating_add(next), stop) {
            recording.so_far.was_stopped = true;
            break;
        }
        asked = clock.now();
        snapshot = probe.poll_unless(stop, std_duration(pace.within));
    }
    recording.finish()
}

/// Waits until this time. Returns `false` if a stop was requested before.
pub fn wait(clock: &Clock, until: SimDuration, stop: &Stop) -> bool {
    const SLICE: SimDuration = SimDuration::from_millis(50);
    loop {
        let now = clock.now().since_start;
        if stop.is_wanted() {
            return false;
        }
        if now >= until {
            return true;
        }
        clock.wait_until(until.min(now.saturating_add(SLICE)));
    }
}

struct Recording {
    columns: Vec<Column>,
    began: Stamp,
    rows: WholeLines,
    why: WholeLines,
    /// The last reported reason of each column; `notes` has the last reported notes on the whole poll.
    reported: Vec<Option<Missing>>,
    notes: Vec<String>,
    so_far: RecordingResult,
}

impl Recording {
    fn create(out: &Path, columns: Vec<Column>, began: Stamp) -> Result<Recording, RecordError> {
        let mut rows = WholeLines::create(out)?;
        let mut why = WholeLines::create(&why_path(out))?;
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let memory: Vec<String> = names.iter().map(|name| format!("{name}_memory")).collect();
        rows.line(&format!("time,{},{}", names.join(","), memory.join(",")), 0)?;
        why.line("time,wall,column,reason,said", 0)?;
        let so_far = RecordingResult { columns: names, ..RecordingResult::default() };
        let reported = vec![None; columns.len()];
        let mut recording = Recording { columns, began, rows, why, reported, notes: Vec::new(), so_far };
        recording.note_change(began, "*", "began", "")?;
        Ok(recording)
    }

    /// Writes one row, with the time at which the poll was requested.
    fn row(&mut self, clock: &Clock, at: Stamp, snapshot: &Result<Snapshot, Missing>) -> Result<(), RecordError> {
        let now = clock.now();
        let cells: Vec<Cell> = match snapshot {
            Ok(snapshot) => self.columns.iter().map(|column| column.read(snapshot)).collect(),
            Err(why) => self.columns.iter().map(|_| nothing(why)).collect(),
        };
        let mut line = since(self.began, at).to_decimal_seconds();
        for cell in &cells {
            line.push(',');
            match &cell.utilization {
                Ok(level) => line.push_str(level.to_string().trim_end_matches('%')),
                Err(_) => line.push_str("N/A"),
            }
        }
        for cell in &cells {
            line.push(',');
            match &cell.memory {
                Ok(bytes) => line.push_str(&bytes.get().to_string()),
                Err(_) => line.push_str("N/A"),
            }
        }
        self.rows.line(&line, self.so_far.rows)?;
        self.so_far.rows += 1;
        self.reasons(now, &cells)?;
        let notes = snapshot.as_ref().map(|snapshot| self.notes_of(snapshot)).unwrap_or_default();
        for note in notes.iter().filter(|note| !self.notes.contains(note)) {
            self.why.line(&why_line(self.began, now, "*", "note", note), self.so_far.rows)?;
        }
        self.notes = notes;
        Ok(())
    }

    fn notes_of(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut notes = snapshot.notes.clone();
        let found = snapshot.nodes.iter().map(|node| node.gpus.len()).sum();
        let expected = self.columns.len();
        let has_gpus = found > 0 || self.columns.iter().any(|column| !column.name.ends_with("cpu"));
        if has_gpus && found != expected {
            notes.push(Missing::GpuCount { expected, found }.to_string());
        }
        notes.extend(
            strangers(&self.columns, snapshot).into_iter().map(|gpu| format!("{gpu} is new and has no column")),
        );
        notes
    }

    fn reasons(&mut self, now: Stamp, cells: &[Cell]) -> Result<(), RecordError> {
        for (index, cell) in cells.iter().enumerate() {
            let why = cell.utilization.as_ref().err();
            if let Some(why) = why {
                *self.so_far.missing.entry(why.name()).or_default() += 1;
            }
            if why == self.reported[index].as_ref() {
                continue;
            }
            let (name, said) = why.map_or(("read", String::new()), |why| (why.name(), why.to_string()));
            let column = self.columns[index].name.clone();
            self.note_change(now, &column, name, &said)?;
            self.reported[index] = why.cloned();
        }
        Ok(())
    }

    /// Adds a line if the wall clock was set since the last check.
    fn check_clock(&mut self, clock: &Clock, since: Stamp) -> Result<Stamp, RecordError> {
        let now = clock.now();
        let jump = clock.jump(since, now);
        if jump.unsigned_abs() > JUMP.unsigned_abs() {
            let way = if jump > 0 { "ahead" } else { "back" };
            let by = SimDuration::from_secs((jump.unsigned_abs() + 500_000_000) / 1_000_000_000);
            self.note_change(now, "*", "clock_set", &format!("the wall clock was set {way} by {by}"))?;
        }
        Ok(now)
    }

    fn note_change(&mut self, at: Stamp, column: &str, name: &str, said: &str) -> Result<(), RecordError> {
        self.why.line(&why_line(self.began, at, column, name, said), self.so_far.rows)
    }

    fn finish(self) -> Result<RecordingResult, RecordError> {
        let rows = self.so_far.rows;
        self.rows.finish(rows)?;
        self.why.finish(rows)?;
        Ok(self.so_far)
    }
}

fn since(began: Stamp, at: Stamp) -> SimDuration {
    at.in_millis().since_start.saturating_sub(began.since_start)
}

fn why_line(began: Stamp, at: Stamp, column: &str, name: &str, said: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let said: String = said.replace('"', "\"\"").chars().map(plain).collect();
    format!("{},{},{column},{name},\"{said}\"", since(began, at).to_decimal_seconds(), at.wall)
}

/// The path of the file of reasons.
pub fn why_path(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_os_string();
    name.push(".why.csv");
    PathBuf::from(name)
}

/// A file that consists of complete lines at any time.
pub(super) struct WholeLines {
    path: PathBuf,
    file: File,
    /// The total length of the complete lines, in bytes.
    whole: u64,
}

impl WholeLines {
    fn create(path: &Path) -> Result<WholeLines, RecordError> {
        // Open the file for appending, so that nothing is overwritten if another process also writes to it.
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let path = path.to_path_buf();
        match file {
            Ok(file) => Ok(WholeLines { path, file, whole: 0 }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(RecordError::Exists { path }),
            Err(source) => Err(RecordError::Unwritten { path, source, rows: 0 }),
        }
    }

    /// Wraps an empty file that is open for appending.
    #[cfg(test)]
    pub fn of(path: PathBuf, file: File) -> WholeLines {
        WholeLines { path, file, whole: 0 }
    }

    pub fn line(&mut self, text: &str, rows: u64) -> Result<(), RecordError> {
        let line = format!("{text}\n");
        match self.file.write_all(line.as_bytes()) {
            Ok(()) => {
                self.whole += line.len() as u64;
                Ok(())
            }
            Err(source) => {
                // The disk may contain a part of the line. Truncating a file needs no free space.
                let _as_it_is = self.file.set_len(self.whole);
                Err(RecordError::Unwritten { path: self.path.clone(), source, rows })
            }
        }
    }

    fn finish(self, rows: u64) -> Result<(), RecordError> {
        self.file.sync_all().map_err(|source| RecordError::Unwritten { path: self.path, source, rows })
    }
}

/// The default time limit of one poll: the interval, but at least one second and at most ten.
pub fn usual_within(every: SimDuration) -> SimDuration {
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(10));
    super::clock::sim_duration(std_duration(every).clamp(least, most))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use crate::clock::{Deadline, Wall};
    use crate::probe::{GpuSnapshot, NodeSnapshot, Probe};
    use dryrack_units::Permille;

    const HOUR: i64 = 3_600_000_000_000;

    /// A probe that finds one GPU at 42 %. It sets the clock an hour ahead at the third poll, and two hours back at the
    /// fifth.
    struct Jumping {
        polls: u32,
        wall: Arc<AtomicI64>,
    }

    impl Probe for Jumping {
        fn source(&self) -> String {
            "jumping".to_string()
        }

        fn poll(&mut self, clock: &Clock, _: Deadline) -> Result<Snapshot, Missing> {
            self.polls += 1;
            match self.polls {
                3 => self.wall.store(HOUR, Ordering::Relaxed),
                5 => self.wall.store(-HOUR, Ordering::Relaxed),
                _ => {}
            }
            let mut node = NodeSnapshot::named("a", clock.now(), "jumping");
            let mut gpu = GpuSnapshot::numbered(0, clock.now(), "jumping");
            gpu.utilization = Ok(Permille::new(420));
            node.gpus.push(gpu);
            Ok(Snapshot { nodes: vec![node], notes: Vec::new() })
        }
    }

    #[test]
    fn a_clock_that_jumps_an_hour_either_way_moves_no_row_and_is_told() {
        let wall = Arc::new(AtomicI64::new(0));
        let set = Arc::clone(&wall);
        let machine = Clock::start();
        let source = Box::new(move || Wall(machine.now().since_start.as_nanos() as i64 + set.load(Ordering::Relaxed)));
        let clock = Arc::new(Clock::with_wall(source));
        let mut probe = Guarded::new(Box::new(Jumping { polls: 0, wall }), Arc::clone(&clock));
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().join("usage.csv");
        let millis = SimDuration::from_millis;
        let pace = RecordingOptions { length: millis(700), every: millis(100), within: SimDuration::from_secs(5) };
        let mut heard = 0;
        let recorded =
            record(&mut probe, &clock, pace, &out, &Stop::default(), &mut |_, _| heard += 1).expect("recorded");
        assert_eq!(
            (recorded.rows, recorded.columns.clone(), recorded.missing.len()),
            (heard, vec!["gpu0".to_string()], 0)
        );
        let text = std::fs::read_to_string(&out).expect("it is there");
        let times: Vec<f64> =
            text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]) && *times.last().unwrap() < 60.0, "{times:?}");
        assert!(text.lines().skip(1).all(|line| line.contains(",42,")), "{text}");
        let why = std::fs::read_to_string(why_path(&out)).expect("it is there");
        let set: Vec<&str> = why.lines().filter(|line| line.contains("clock_set")).collect();
        // The file reports both changes: an hour ahead, then two hours back.
        assert!(set.len() == 2 && set[0].contains("ahead by 1h") && set[1].contains("back by 2h"), "{why}");
        let again = record(&mut probe, &clock, pace, &out, &Stop::default(), &mut |_, _| {});
        assert!(matches!(again, Err(RecordError::Exists { .. })));
    }
}
