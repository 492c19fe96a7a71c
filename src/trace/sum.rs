//! The checksum of a file's content, which is the same for the plain and the compressed form of the file.

use std::fmt::Write;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::TraceError;
use super::text;

/// Reads the uncompressed bytes of a file and computes their checksum on the way.
pub(super) struct ChecksumReader {
    input: Box<dyn Read>,
    state: Sha256,
}

impl ChecksumReader {
    pub(super) fn open(path: &Path) -> Result<ChecksumReader, TraceError> {
        Ok(ChecksumReader { input: text::open(path)?, state: Sha256::new() })
    }

    /// The SHA-256 of the bytes read so far, in lowercase hexadecimal.
    pub(super) fn hex(self) -> String {
        self.state.finalize().iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a String takes all that is written");
            hex
        })
    }
}

impl Read for ChecksumReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.state.update(&buffer[..count]);
        Ok(count)
    }
}

/// The checksum of a file's uncompressed content. If the file cannot be decompressed, the result says why.
pub(super) fn of_file(path: &Path) -> Result<String, TraceError> {
    let mut input = ChecksumReader::open(path)?;
    match io::copy(&mut input, &mut io::sink()) {
        Ok(_) => Ok(input.hex()),
        Err(fault) => Ok(format!("none ({fault})")),
    }
}
