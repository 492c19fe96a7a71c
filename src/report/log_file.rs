//! The event log as a file: a header, a line for each record, and a footer with the digest of all records.
//!
//! A log needs no other file, and it is checked as a whole. If it is cut off or was changed, the error names the file
//! and the line.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use dryrack_codec::{CodecError, decode_line, encode_event, encode_input};
use dryrack_event::{Digester, Event, FORMAT_VERSION, Input, LogHeader, Record, Sink};
use dryrack_ids::Names;
use dryrack_units::SimTime;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footer {
    pub digest: String,
    pub records: u64,
    pub end_ns: SimTime,
    /// The BLAKE3 hash of every byte before the footer's line, and of `end_ns` as eight bytes in little-endian order.
    /// So it covers the header too.
    pub sum: String,
}

#[derive(Serialize)]
struct HeaderOut<'a> {
    header: &'a LogHeader,
}

#[derive(Deserialize)]
struct HeaderIn<H> {
    header: H,
}

#[derive(Deserialize)]
struct FormatOf {
    format: u32,
}

#[derive(Serialize, Deserialize)]
struct FooterLine {
    footer: Footer,
}

/// Why a file is not a complete log. Line numbers start at 1.
#[derive(Debug, Error)]
pub enum LogError {
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("is empty; expected a log that `dryrack run FILE --out DIR` wrote as DIR/events.jsonl")]
    Empty,
    #[error("line 1: not the header of a log, which `dryrack run FILE --out DIR` writes as DIR/events.jsonl{0}")]
    Header(String),
    #[error("line 1: the log has format {found}, but this dryrack reads formats 1 to {FORMAT_VERSION}")]
    Format { found: u32 },
    #[error("line {line}: {error}")]
    Record { line: u64, error: CodecError },
    #[error("is incomplete: it has no footer after line {line}")]
    Truncated { line: u64 },
    #[error("line {line}: not valid text: {error}")]
    NotText { line: u64, error: String },
    #[error("line {line}: there is data after the footer")]
    AfterFooter { line: u64 },
    #[error("line {line}: the footer states {stated} records, but there are {found}")]
    Count { line: u64, stated: u64, found: u64 },
    #[error(
        "was changed after it was recorded: its digest is {found}, but its footer states {stated}; `dryrack replay` \
         finds the place"
    )]
    Digest { stated: String, found: String },
    #[error(
        "was changed after it was recorded: its records are the same, but its bytes have another sum than the footer \
         states"
    )]
    Sum,
}

/// Writes records as they arrive. After a failed write it writes nothing more, and [`LogWriter::finish`] returns that
/// error.
pub struct LogWriter<W> {
    out: W,
    names: Names,
    failure: Option<io::Error>,
    digester: Digester,
    sum: blake3::Hasher,
    line: Vec<u8>,
}

impl<W: Write> LogWriter<W> {
    pub fn new(mut out: W, header: &LogHeader) -> io::Result<LogWriter<W>> {
        let line = serde_json::to_string(&HeaderOut { header }).expect("a header has a JSON form");
        writeln!(out, "{line}")?;
        let mut sum = blake3::Hasher::new();
        sum.update(line.as_bytes()).update(b"\n");
        let (names, digester) = (Names::default(), Digester::default());
        Ok(LogWriter { out, names, failure: None, digester, sum, line: Vec::new() })
    }

    /// Writes the line that `encode` produces.
    fn write(&mut self, encode: impl FnOnce(&mut Names, &mut Vec<u8>)) {
        if self.failure.is_none() {
            self.line.clear();
            encode(&mut self.names, &mut self.line);
            self.line.push(b'\n');
            self.sum.update(&self.line);
            self.failure = self.out.write_all(&self.line).err();
        }
    }

    /// The log of a run that has no end, and whether all its records were written. Without a footer, it reads as
    /// incomplete.
    pub fn unfinished(self) -> (W, io::Result<()>) {
        (self.out, self.failure.map_or(Ok(()), Err))
    }

    /// Writes the footer.
    pub fn finish(mut self, end: SimTime) -> io::Result<W> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let records = self.digester.records();
        let digest = self.digester.finish().to_string();
        let sum = total(&mut self.sum, end);
        let line = FooterLine { footer: Footer { digest, records, end_ns: end, sum } };
        writeln!(self.out, "{}", serde_json::to_string(&line).expect("a footer has a JSON form"))?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn total(sum: &mut blake3::Hasher, end: SimTime) -> String {
    sum.update(&end.as_nanos().to_le_bytes()).finalize().to_hex().to_string()
}

impl<W: Write> Sink for LogWriter<W> {
    fn input(&mut self, step: u64, at: SimTime, input: &Input) {
        self.digester.input(step, at, input);
        self.write(|names, line| encode_input(step, at, input, names, line));
    }

    fn event(&mut self, step: u64, at: SimTime, event: &Event) {
        self.digester.event(step, at, event);
        self.write(|names, line| encode_event(step, at, event, names, line));
    }

    fn keep(&mut self) -> io::Result<()> {
        match &self.failure {
            Some(failure) => Err(io::Error::new(failure.kind(), failure.to_string())),
            None => self.out.flush(),
        }
    }
}

/// One line between the header and the footer.
pub struct LogLine {
    pub number: u64,
    pub text: String,
    /// The record, or the error if the line is not a record.
    pub record: Result<Record, CodecError>,
}

/// Reads a log line by line, and then its footer.
pub struct LogReader<R> {
    input: R,
    header: LogHeader,
    pub names: Names,
    line: u64,
    digester: Digester,
    sum: blake3::Hasher,
    broken: bool,
    footer: Option<Footer>,
}

/// What is wrong with the first line, if the file is a log at all. Of any other file, the parser's words say nothing.
fn why_no_header(line: &str, error: &serde_json::Error) -> String {
    match line.trim_start().starts_with('{') {
        true => format!(": {error}"),
        false => String::new(),
    }
}

impl<R: BufRead> LogReader<R> {
    pub fn new(mut input: R) -> Result<LogReader<R>, LogError> {
        let first = read_line(&mut input, 1)?.ok_or(LogError::Empty)?;
        // A log of another format version cannot be read further.
        if let Ok(HeaderIn { header: FormatOf { format } }) = serde_json::from_str(&first.0)
            && !(1..=FORMAT_VERSION).contains(&format)
        {
            return Err(LogError::Format { found: format });
        }
        let header: HeaderIn<LogHeader> =
            serde_json::from_str(&first.0).map_err(|error| LogError::Header(why_no_header(&first.0, &error)))?;
        let header = header.header;
        let mut sum = blake3::Hasher::new();
        sum.update(first.0.as_bytes()).update(b"\n");
        let (names, digester) = (Names::default(), Digester::default());
        Ok(LogReader { input, header, names, line: 1, digester, sum, broken: false, footer: None })
    }

    pub fn header(&self) -> &LogHeader {
        &self.header
    }

    /// The next line; `None` after the footer. A missing footer is an error.
    pub fn next_line(&mut self) -> Result<Option<LogLine>, LogError> {
        if self.footer.is_some() {
            return Ok(None);
        }
        self.line += 1;
        let number = self.line;
        let Some((text, ended)) = read_line(&mut self.input, number)? else {
            return Err(LogError::Truncated { line: number - 1 });
        };
        if !ended {
            return Err(LogError::Truncated { line: number });
        }
        if text.starts_with("{\"footer\"") {
            let wrong = |error: serde_json::Error| CodecError::Json(error.to_string());
            let line: FooterLine =
                serde_json::from_str(&text).map_err(|error| LogError::Record { line: number, error: wrong(error) })?;
            if read_line(&mut self.input, number + 1)?.is_some() {
                return Err(LogError::AfterFooter { line: number + 1 });
            }
            self.footer = Some(line.footer);
            return Ok(None);
        }
        self.sum.update(text.as_bytes()).update(b"\n");
        let record = decode_line(&text, &mut self.names);
        match &record {
            Ok(record) => self.digester.record(record),
            Err(_) => self.broken = true,
        }
        Ok(Some(LogLine { number, text, record }))
    }

    /// Returns the footer after the last line. It is an error if the footer's count, digest or sum differ from the
    /// lines.
    pub fn finish(mut self) -> Result<Footer, LogError> {
        let footer = self.footer.expect("read to the end first");
        if self.broken {
            return Ok(footer);
        }
        let found = self.digester.records();
        if found != footer.records {
            return Err(LogError::Count { line: self.line, stated: footer.records, found });
        }
        let digest = self.digester.finish().to_string();
        if digest != footer.digest {
            return Err(LogError::Digest { stated: footer.digest, found: digest });
        }
        if total(&mut self.sum, footer.end_ns) != footer.sum {
            return Err(LogError::Sum);
        }
        Ok(footer)
    }
}

/// A line without its line break, and whether it had a line break.
fn read_line(input: &mut impl BufRead, line: u64) -> Result<Option<(String, bool)>, LogError> {
    let mut bytes = Vec::new();
    if input.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    let ended = bytes.last() == Some(&b'\n');
    if ended {
        bytes.pop();
    }
    let text = String::from_utf8(bytes).map_err(|error| LogError::NotText { line, error: error.to_string() })?;
    Ok(Some((text, ended)))
}

/// Reads and checks a whole log, and passes each record to `each` in order.
pub fn read_log<R: BufRead>(
    mut reader: LogReader<R>,
    mut each: impl FnMut(&Record, &Names),
) -> Result<Footer, LogError> {
    while let Some(LogLine { number, record, .. }) = reader.next_line()? {
        match record {
            Ok(record) => each(&record, &reader.names),
            Err(error) => return Err(LogError::Record { line: number, error }),
        }
    }
    reader.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> LogHeader {
        LogHeader {
            dryrack: "0.1.0".into(),
            format: FORMAT_VERSION,
            scenario: "a log".into(),
            source: "scenario: a log".into(),
            seed: 7,
            profile: "first-fit".into(),
            profile_data: serde_json::Value::Null,
            live: None,
            branch: None,
        }
    }

    fn written() -> String {
        let mut writer = LogWriter::new(Vec::new(), &header()).expect("a Vec takes everything");
        for second in [1, 2] {
            writer.input(second, SimTime::from_secs(second), &Input::Wakeup);
        }
        String::from_utf8(writer.finish(SimTime::from_secs(2)).expect("a Vec takes everything")).expect("JSON is text")
    }

    fn read(text: &str) -> Result<Footer, String> {
        let reader = LogReader::new(text.as_bytes()).map_err(|error| error.to_string())?;
        read_log(reader, |_, _| {}).map_err(|error| error.to_string())
    }

    #[test]
    fn a_log_reads_back_and_knows_its_end() {
        let footer = read(&written()).expect("as written");
        assert_eq!((footer.records, footer.end_ns), (2, SimTime::from_secs(2)));
    }

    #[test]
    fn a_log_that_is_not_whole_is_refused_by_name_and_line() {
        let whole = written();
        let without = |number: usize| {
            let lines = whole.lines().enumerate().filter(|(index, _)| index + 1 != number);
            lines.map(|(_, line)| format!("{line}\n")).collect::<String>()
        };
        let other_format = whole.replacen(&format!("\"format\":{FORMAT_VERSION}"), "\"format\":9", 1);
        let rows = [
            ("an empty file", String::new(), "is empty"),
            ("no log at all", "hello\n".to_string(), "line 1: not the header of a log"),
            ("no footer", without(4), "is incomplete: it has no footer after line 3"),
            ("cut in a line", whole[..whole.len() - 20].to_string(), "is incomplete: it has no footer after line 4"),
            ("a record less", without(3), "line 3: the footer states 2 records, but there are 1"),
            ("another time", whole.replace("2000000000,\"in", "2000000001,\"in"), "was changed after it was recorded"),
            ("no record", whole.replacen("wakeup", "wakeap", 1), "line 2: "),
            ("more after the end", format!("{whole}{{}}\n"), "line 5: there is data after the footer"),
            (
                "a header of another format",
                other_format.replacen("\"seed\"", "\"seeds\"", 1),
                "line 1: the log has format 9",
            ),
            ("another format", other_format, "line 1: the log has format 9"),
        ];
        for (sentence, text, wanted) in rows {
            let error = read(&text).expect_err(sentence);
            assert!(error.starts_with(wanted), "{sentence}: {error}");
        }
    }
}
