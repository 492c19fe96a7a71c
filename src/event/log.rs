//! The log: a header, then one record for each input and event, and the digest of them all.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::compact::Compact;
use super::input::Input;
use super::output::Event;
use super::packed::{Shared, write_event, write_input};
use super::predicted::Prediction;
use dryrack_units::{SimDuration, SimTime};

/// Raised when an older reader could no longer read what is written. Logs of every format from 1 on are read; format 2 has
/// [`Event::Preempted`].
pub const FORMAT_VERSION: u32 = 2;

/// What a log needs to stand alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogHeader {
    pub dryrack: String,
    pub format: u32,
    /// The scenario's title.
    pub scenario: String,
    /// The scenario file as it was run, overrides applied.
    pub source: String,
    pub seed: u64,
    /// The profile's name.
    pub profile: String,
    /// The whole profile as data, its bases folded in.
    pub profile_data: serde_json::Value,
    /// Where it left another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchOf>,
    /// Of a run on a real machine alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveHeader>,
}

/// What a log of a run on a real machine holds besides: written before its first process was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveHeader {
    /// When it began, by the clock on the wall: `2026-11-21T20:13:17.042Z`.
    pub began: String,
    /// Cores that dryrack might use.
    pub cores: u32,
    /// Who ran it where that was not dryrack itself: `slurm 22.05.8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// How often that was asked what becomes of its jobs.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "every_ns")]
    pub every: Option<SimDuration>,
    pub foretold: Prediction,
}

/// What a branch is a branch of: the same up to a time, and something else from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchOf {
    /// The digest of the other run, to its own end.
    pub parent: String,
    /// From this instant on it is another run.
    pub at: SimTime,
    /// The scenario file of what follows, overrides applied.
    pub source: String,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The round of inputs, decisions and outputs it belongs to, counted from 1. An instant may take several.
    pub step: u64,
    pub at: SimTime,
    pub said: Said,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Input(Input),
    Event(Event),
}

/// Is fed every record, in order. Everything of one instant has been said when `at` rises, or when the run ends.
pub trait Sink {
    fn input(&mut self, step: u64, at: SimTime, input: &Input);
    fn event(&mut self, step: u64, at: SimTime, event: &Event);

    /// All that was said so far is to outlast us, whatever comes. Asked after each step where time is real.
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

/// Takes the digest record by record.
pub struct Digester {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
    /// How records of one step begin: when that is, and in its compact form, of which so many bytes count.
    begins: Option<(u64, SimTime)>,
    beginning: [u8; LONGEST_BEGINNING],
    beginning_length: usize,
    shared: Shared,
    records: u64,
}

/// Two numbers of ten bytes at most.
const LONGEST_BEGINNING: usize = 24;

/// Hashing many records at once is several times faster than one by one (64 ns for a 48-byte record alone).
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
        self.begin((step, at), 0);
        write_input(input, &mut self.shared, &mut self.buffer);
        self.end();
    }

    fn event(&mut self, step: u64, at: SimTime, event: &Event) {
        self.begin((step, at), 1);
        write_event(event, &mut self.buffer);
        self.end();
    }
}

impl Digester {
    pub fn record(&mut self, record: &Record) {
        match &record.said {
            Said::Input(input) => self.input(record.step, record.at, input),
            Said::Event(event) => self.event(record.step, record.at, event),
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

    /// Writes what comes before a record: its step and time, and whether it is an input or an event.
    #[inline]
    fn begin(&mut self, begins: (u64, SimTime), kind: u8) {
        if self.begins == Some(begins) {
            let end = self.buffer.len() + self.beginning_length;
            // All of it, as a copy of known length takes no call.
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
