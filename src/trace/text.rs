//! Reads the lines of a file with their numbers, without an allocation for each line. The file may be compressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::decimal::{Decimal, NotDecimal};
use super::error::TraceError;

/// The largest length of a line in bytes. A file with a longer line is not a trace, so any file can be read in bounded
/// memory.
pub(super) const LINE_BYTES_MAX: u64 = 64 * 1024;
/// The largest number of characters of a wrong field that a message quotes.
const QUOTED_CHARS_MAX: usize = 40;
const BUFFER_BYTES: usize = 128 * 1024;

/// The first bytes of a gzip file and of a zstd file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Opens `path`. Decompresses it if it begins with the magic number of gzip or zstd, independent of its name.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, TraceError> {
    let unopened = |source| TraceError::Unopened { file: path.to_path_buf(), source };
    let file = File::open(path).map_err(unopened)?;
    // Opening a folder succeeds, and only reading from it would fail, so check it here.
    if file.metadata().map_err(unopened)?.is_dir() {
        return Err(unopened(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    uncompressed(path, file)
}

/// Decompresses `input` like [`open`]. `path` is the name of the input in error messages.
fn uncompressed(path: &Path, input: impl Read + 'static) -> Result<Box<dyn Read>, TraceError> {
    let unopened = |source| TraceError::Unopened { file: path.to_path_buf(), source };
    let mut bytes = BufReader::with_capacity(BUFFER_BYTES, input);
    let begins = bytes.fill_buf().map_err(unopened)?;
    let (gzip, zstd) = (begins.starts_with(&GZIP), begins.starts_with(&ZSTD));
    Ok(match (gzip, zstd) {
        (true, _) => Box::new(MultiGzDecoder::new(bytes)),
        (_, true) => Box::new(zstd::stream::read::Decoder::with_buffer(bytes).map_err(unopened)?),
        _ => Box::new(bytes),
    })
}

/// Opens a file like [`open`], for reading lines.
pub(super) fn open_lines(path: &Path) -> Result<BufReader<Box<dyn Read>>, TraceError> {
    Ok(BufReader::with_capacity(BUFFER_BYTES, open(path)?))
}

/// Decompresses `input` like [`open`], for reading lines. `name` is the name of the input in error messages.
pub(super) fn lines_of(name: &Path, input: impl Read + 'static) -> Result<BufReader<Box<dyn Read>>, TraceError> {
    Ok(BufReader::with_capacity(BUFFER_BYTES, uncompressed(name, input)?))
}

/// The lines of one file.
pub(super) struct Lines<R> {
    input: R,
    file: PathBuf,
    line: u64,
    buffer: Vec<u8>,
    /// Set at the end of the file or after an error.
    done: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(file: &Path, input: R) -> Lines<R> {
        Lines { input, file: file.to_path_buf(), line: 0, buffer: Vec::new(), done: false }
    }

    /// Moves to the next line. Returns false at the end of the file and on every call after an error.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
        if self.done {
            return Ok(false);
        }
        self.buffer.clear();
        self.line += 1;
        let read = (&mut self.input).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.buffer);
        match read {
            Ok(0) => {
                self.done = true;
                return Ok(false);
            }
            Ok(_) => {}
            Err(source) => {
                self.done = true;
                return Err(TraceError::Unreadable { file: self.file.clone(), line: self.line, source });
            }
        }
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() as u64 > LINE_BYTES_MAX {
            self.done = true;
            return Err(self.malformed(0, format!("a line of at most {LINE_BYTES_MAX} bytes"), "a longer one"));
        }
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        if self.line == 1 && self.buffer.starts_with("\u{feff}".as_bytes()) {
            self.buffer.drain(..3);
        }
        Ok(true)
    }

    /// The name of the file in error messages.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn number(&self) -> u64 {
        self.line
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// An error at the byte `start` of the current line.
    pub(super) fn malformed(&self, start: usize, expected: impl Into<String>, found: &str) -> TraceError {
        TraceError::Malformed {
            file: self.file.clone(),
            line: self.line,
            column: start as u64 + 1,
            expected: expected.into(),
            found: found.to_string(),
        }
    }

    /// An error about `field`. The message quotes the field.
    pub(super) fn wrong(&self, field: &Span, expected: &str, why: NotDecimal) -> TraceError {
        self.malformed(field.start, expected, &format!("{}{why}", quoted(field.of(&self.buffer))))
    }

    pub(super) fn decimal(&self, field: &Span, expected: &str) -> Result<Decimal, TraceError> {
        Decimal::parse(field.of(&self.buffer)).map_err(|why| self.wrong(field, expected, why))
    }

    /// Parses a whole number that is not negative and fits in `N`.
    pub(super) fn whole<N: TryFrom<u64>>(&self, field: &Span, expected: &str) -> Result<N, TraceError> {
        let value = self.decimal(field, expected)?;
        let whole = value.as_whole().ok_or_else(|| self.wrong(field, expected, NotDecimal::Malformed))?;
        N::try_from(whole).map_err(|_| self.wrong(field, expected, NotDecimal::TooLarge))
    }

    pub(super) fn text(&self, field: &Span, expected: &str) -> Result<&str, TraceError> {
        match std::str::from_utf8(field.of(&self.buffer)) {
            Ok(text) if !text.is_empty() => Ok(text),
            _ => Err(self.wrong(field, expected, NotDecimal::Malformed)),
        }
    }
}

/// The position of a field in its line, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    pub(super) fn of(self, line: &[u8]) -> &[u8] {
        &line[self.start..self.end]
    }
}

/// Quotes a field as `` `abc` ``, shortened and without control characters. Returns `nothing` if the field is empty.
pub(super) fn quoted(field: &[u8]) -> String {
    if field.is_empty() {
        return "nothing".to_string();
    }
    let text = String::from_utf8_lossy(field);
    let mut shown: String = text.chars().take(QUOTED_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().count() > QUOTED_CHARS_MAX {
        shown.push('…');
    }
    format!("`{shown}`")
}
