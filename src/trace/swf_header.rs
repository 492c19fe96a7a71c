//! The header of an SWF file: lines that begin with `;`, before the first job.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::decimal::{Decimal, NotDecimal};
use super::error::TraceError;
use super::text::{Lines, quoted};

/// The header of an SWF file. The number -1 in the file is `None` here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwfHeader {
    pub max_jobs: Option<u64>,
    pub max_nodes: Option<u32>,
    pub max_procs: Option<u32>,
    /// The time zero of the log, in seconds since 1970.
    pub unix_start_time: Option<u64>,
    /// The description of each queue, by the queue's number. Several lines about one queue are joined by `; `.
    pub queues: BTreeMap<u32, String>,
    /// The other directives, such as `Computer`, `Acknowledge` or `Note`, in the order of the file.
    pub about: Vec<(String, String)>,
}

impl SwfHeader {
    /// Reads one line before the first job. Skips a line that is not a directive.
    pub(super) fn read_line<R: BufRead>(&mut self, lines: &Lines<R>) -> Result<(), TraceError> {
        let line = lines.bytes();
        let text = String::from_utf8_lossy(line);
        let directive = text.trim_start().trim_start_matches(';').trim_start();
        let Some((key, value)) = directive.split_once(':') else { return Ok(()) };
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphabetic()) {
            return Ok(());
        }
        let value = value.trim();
        match key {
            "MaxJobs" => self.max_jobs = header_number(lines, key, value)?,
            "MaxNodes" => self.max_nodes = header_number(lines, key, value)?,
            "MaxProcs" => self.max_procs = header_number(lines, key, value)?,
            "UnixStartTime" => self.unix_start_time = header_number(lines, key, value)?,
            "Queue" => self.add_queue(value),
            _ => self.about.push((key.to_string(), value.to_string())),
        }
        Ok(())
    }

    /// Parses a queue such as `1 - Normal jobs` or `2  besteffort`. Skips a value without a number.
    fn add_queue(&mut self, value: &str) {
        let digits = value.bytes().take_while(u8::is_ascii_digit).count();
        let (number, name) = value.split_at(digits);
        let Ok(number) = number.parse() else { return };
        let name = name.trim_start_matches([' ', '\t', '-', ':', '.']).split_whitespace().collect::<Vec<_>>().join(" ");
        let known = self.queues.entry(number).or_default();
        if !known.is_empty() && !name.is_empty() {
            known.push_str("; ");
        }
        known.push_str(&name);
    }
}

/// Parses the whole number at the start of a value, as in `144 (of 8 processors each)`. Returns `None` for -1.
fn header_number<R: BufRead, N: TryFrom<u64>>(
    lines: &Lines<R>,
    key: &str,
    value: &str,
) -> Result<Option<N>, TraceError> {
    let word = value.split_whitespace().next().unwrap_or("");
    let whole = match Decimal::parse(word.as_bytes()) {
        Ok(number) if number.is_minus_one() => return Ok(None),
        Ok(number) => number.as_whole().ok_or(NotDecimal::Malformed),
        Err(why) => Err(why),
    };
    let fits = whole.and_then(|whole| N::try_from(whole).map_err(|_| NotDecimal::TooLarge));
    fits.map(Some).map_err(|why| {
        let line = String::from_utf8_lossy(lines.bytes());
        let after_key = line.find(':').map_or(0, |colon| colon + 1);
        let blank = line[after_key..].len() - line[after_key..].trim_start().len();
        let found = format!("{}{why}", quoted(word.as_bytes()));
        lines.malformed(after_key + blank, format!("a whole number as {key}"), &found)
    })
}
