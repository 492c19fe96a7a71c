//! The log: a header, one record for each input and event, and the digest of all records.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::compact::Compact;
use super::forms::Shared;
use super::input::Input;
use super::output::Event;
use super::packed::{write_event, write_input};
use super::predicted::Prediction;
use dryrack_planted::planted;
use dryrack_units::{SimDuration, SimTime};

/// The version of the log format. It increases when older readers could not read the new format. This program reads all
/// versions from 1 on. Version 2 added [`Event::Preempted`], and version 3 added
/// [`External::Said`](crate::External::Said).
pub const FORMAT_VERSION: u32 = 3;

/// The header of a log. With it, a log can be replayed without any other file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogHeader {
    pub dryrack: String,
    pub format: u32,
    /// The scenario's title.
    pub scenario: String,
    /// The text of the scenario file that was run, after overrides were applied.
    pub source: String,
    pub seed: u64,
    /// The profile's name.
    pub profile: String,
    /// The whole profile as data, with its bases merged in.
    pub profile_data: serde_json::Value,
    /// The run that this run branched off, if this run is a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchOf>,
    /// Present only for a run on a real machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveHeader>,
}

/// Additional header fields of a run on a real machine. They are written before the first process is started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveHeader {
    /// When the run began, in wall-clock time, such as `2026-11-21T20:13:17.042Z`.
    pub began: String,
    /// The number of CPU cores that dryrack could use.
    pub cores: u32,
    /// The name and version of the scheduler, such as `slurm 22.05.8`. Absent if dryrack itself scheduled the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The interval at which that scheduler was polled for its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "every_ns")]
    pub every: Option<SimDuration>,
    /// The prediction. Logs of earlier versions call it `foretold`.
    #[serde(alias = "foretold")]
    pub predicted: Prediction,
}

/// The origin of a branch. A branch is the same as another run up to a time, and differs from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchOf {
    /// The digest of the other run, which continued to its own end.
    pub parent: String,
    /// The instant from which the two runs differ.
    pub at: SimTime,
    /// The text of the scenario file that applies after the branch, after overrides were applied.
    pub source: String,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of the round of inputs, decisions and outputs, counted from 1. One instant may take several rounds.
    pub step: u64,
    pub at: SimTime,
    pub said: RecordBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordBody {
    Input(Input),
    Event(Event),
}

/// Receives every record in order. All records of an instant have been received once `at` increases or the run ends.
pub trait Sink {
    fn input(&mut self, step: u64, at: SimTime, input: &Input);
    fn event(&mut self, step: u64, at: SimTime, event: &Event);

    /// Makes all records so far durable, so that they survive a crash. In a run on a real machine, this is called after
    /// each step.
    fn keep(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The BLAKE3 hash of all records in their compact form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes the digest record by record.
pub struct Digester {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
    /// The step and time of the current records. Their compact form is the first `beginning_length` bytes of
    /// `beginning`.
    begins: Option<(u64, SimTime)>,
    beginning: [u8; LONGEST_BEGINNING],
    beginning_length: usize,
    shared: Shared,
    records: u64,
}

/// Room for two varints of at most ten bytes each.
const LONGEST_BEGINNING: usize = 24;

/// The number of bytes that are hashed at once. Hashing many records together is several times faster than hashing each
/// one (64 ns for a single 48-byte record).
const BUFFER_BYTES: usize = 64 * 1024;

impl Default for Digester {
    fn default() -> Digester {
        Digester {
            hasher: blake3::Hasher::new(),
            buffer: Vec::with_capacity(BUFFER_BYTES + 4096),
            begins: None,
            beginning: [0; LONGEST_BEGINNING],
            beginning_length: 0,
            shared: Shared::default(),
            records: 0,
        }
    }
}

impl Sink for Digester {
    fn input(&mut self, step: u64, at: SimTime, input: &Input) {
        self.begin((step, at), kind_of(input));
        write_input(input, &mut self.shared, &mut self.buffer);
        self.end();
    }

    fn event(&mut self, step: u64, at: SimTime, event: &Event) {
        self.begin((step, at), 1);
        write_event(event, &mut self.buffer);
        self.end();
    }
}

/// The kind of an input's record. Some parts of a job are written only if it has them: the dependencies, the group, the
/// terms for Slurm, the pod, and the part in a workload. The kind says which, so that no two different records have the
/// same bytes.
fn kind_of(input: &Input) -> u8 {
    let Input::Submit { spec, .. } = input else { return 0 };
    let depends = match (spec.run_limit.is_some(), spec.after.is_empty()) {
        (true, _) => 3,
        (false, false) => 2,
        (false, true) => 0,
    };
    let present = |is_present: bool, kind: u8| if is_present { kind } else { 0 };
    depends + present(spec.slurm.is_some(), 4) + present(spec.pod.is_some(), 8) + present(spec.queued.is_some(), 16)
}

impl Digester {
    pub fn record(&mut self, record: &Record) {
        match &record.said {
            RecordBody::Input(input) => self.input(record.step, record.at, input),
            RecordBody::Event(event) => self.event(record.step, record.at, event),
        }
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    pub fn finish(mut self) -> Digest {
        self.hasher.update(&self.buffer);
        self.hasher.update(&self.records.to_le_bytes());
        Digest(*self.hasher.finalize().as_bytes())
    }

    /// Writes the beginning of a record: its step, its time and its kind.
    #[inline]
    fn begin(&mut self, begins: (u64, SimTime), kind: u8) {
        let begins = if planted!(DigestWithoutTime) { (begins.0, SimTime::ZERO) } else { begins };
        if self.begins == Some(begins) {
            let end = self.buffer.len() + self.beginning_length;
            // Copy the whole array and cut the copy off, because a copy of constant length needs no function call.
            self.buffer.extend_from_slice(&self.beginning);
            self.buffer.truncate(end);
        } else {
            self.begins = Some(begins);
            let from = self.buffer.len();
            let mut out = Compact(&mut self.buffer);
            out.varint(begins.0);
            out.time(begins.1);
            self.beginning_length = self.buffer.len() - from;
            self.beginning[..self.beginning_length].copy_from_slice(&self.buffer[from..]);
        }
        self.buffer.push(kind);
    }

    #[inline]
    fn end(&mut self) {
        self.records += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }
}
