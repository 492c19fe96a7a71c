//! The contents of a record, which `test --record` writes and `replay` reads.

use serde::{Deserialize, Serialize};

/// The version of the records. It increases when an older dryrack could not read them.
pub const RECORD_VERSION: u32 = 1;
/// The file of a record that says what else is in it.
pub const CONTENTS: &str = "record.json";

/// What a record contains.
#[derive(Debug, Serialize, Deserialize)]
pub struct RecordContents {
    pub record: u32,
    /// The version of the program that made it.
    pub dryrack: String,
    pub runs: Vec<RecordedRun>,
}

/// One run of a record. Its files are in the folder `folder`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordedRun {
    /// The scenario file, as it was named on the command line.
    pub file: String,
    /// The command that ran it.
    pub repeat: String,
    pub scenario: String,
    pub passed: bool,
    /// The names of the expectations that failed.
    pub failed: Vec<String>,
    pub digest: String,
    pub folder: String,
}
