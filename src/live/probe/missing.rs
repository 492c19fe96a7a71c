//! The reasons for missing readings. Each reason has a name, and its text says what was found instead.

use thiserror::Error;

use dryrack_units::SimDuration;

/// The reason for a missing reading. `what` names the source: a program, an address or a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    // There was no answer.
    #[error("{what} is not installed")]
    NotInstalled { what: String },
    #[error("{what} has no working driver: {said}")]
    NoDriver { what: String, said: String },
    #[error("{what} cannot be read: permission denied")]
    NotPermitted { what: String },
    #[error("{what} cannot be read: {said}")]
    Unreadable { what: String, said: String },
    #[error("{what} cannot be reached: {said}")]
    Unreachable { what: String, said: String },
    #[error("{what} refused the request: HTTP status {status}")]
    Refused { what: String, status: u16 },
    #[error("{what} did not answer within {within}")]
    TimedOut { what: String, within: SimDuration },
    /// The source is still busy with an earlier question.
    #[error("{what} still hangs")]
    StillHangs { what: String },
    #[error("{what} ended with status {code}{}", colon(.said))]
    Exited { what: String, code: i32, said: String },
    #[error("{what} was killed by signal {signal}")]
    Killed { what: String, signal: i32 },
    // There was an answer, but it could not be understood.
    #[error("{what} printed nothing")]
    Silent { what: String },
    #[error("{what} printed more than {most} bytes")]
    TooMuch { what: String, most: usize },
    #[error("{what} printed invalid text at byte {at}")]
    NotText { what: String, at: usize },
    #[error("{what} ended in the middle of line {line}: `{found}`")]
    HalfLine { what: String, line: usize, found: String },
    #[error("{what}, line {line}: expected {expected}, found `{found}`")]
    Malformed { what: String, line: usize, expected: String, found: String },
    // The answer was understood, but contains no reading.
    #[error("not available")]
    NotAvailable,
    #[error("not supported by this device")]
    NotSupported,
    #[error("the driver reported an unknown error")]
    UnknownError,
    #[error("not a number")]
    NotANumber,
    #[error("infinite")]
    Infinite,
    #[error("{found} is outside {range}")]
    OutOfRange { found: String, range: &'static str },
    #[error("{what} does not report it")]
    Unsaid { what: String },
    #[error("the number of GPUs changed from {expected} to {found}")]
    GpuCount { expected: usize, found: usize },
    #[error("it no longer exists")]
    Vanished,
    #[error("process {pid} no longer exists")]
    ProcessGone { pid: u32 },
    /// The process number now belongs to another process.
    #[error("the number {pid} now belongs to another process")]
    ProcessReused { pid: u32 },
}

fn colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

impl Missing {
    pub fn name(&self) -> &'static str {
        match self {
            Missing::NotInstalled { .. } => "not_installed",
            Missing::NoDriver { .. } => "no_driver",
            Missing::NotPermitted { .. } => "not_permitted",
            Missing::Unreadable { .. } => "unreadable",
            Missing::Unreachable { .. } => "unreachable",
            Missing::Refused { .. } => "refused",
            Missing::TimedOut { .. } => "timed_out",
            Missing::StillHangs { .. } => "still_hangs",
            Missing::Exited { .. } => "exited",
            Missing::Killed { .. } => "killed",
            Missing::Silent { .. } => "silent",
            Missing::TooMuch { .. } => "too_much",
            Missing::NotText { .. } => "not_text",
            Missing::HalfLine { .. } => "half_line",
            Missing::Malformed { .. } => "malformed",
            Missing::NotAvailable => "not_available",
            Missing::NotSupported => "not_supported",
            Missing::UnknownError => "unknown_error",
            Missing::NotANumber => "not_a_number",
            Missing::Infinite => "infinite",
            Missing::OutOfRange { .. } => "out_of_range",
            Missing::Unsaid { .. } => "unsaid",
            Missing::GpuCount { .. } => "gpu_count",
            Missing::Vanished => "vanished",
            Missing::ProcessGone { .. } => "process_gone",
            Missing::ProcessReused { .. } => "process_reused",
        }
    }

    pub fn malformed(what: &str, line: usize, expected: &str, found: &str) -> Missing {
        Missing::Malformed { what: what.to_string(), line, expected: expected.to_string(), found: shown(found) }
    }

    pub fn unsaid(what: &str) -> Missing {
        Missing::Unsaid { what: what.to_string() }
    }

    /// The reason for a file that could not be read.
    pub fn of_file(path: &std::path::Path, error: &std::io::Error) -> Missing {
        let what = path.display().to_string();
        match error.kind() {
            std::io::ErrorKind::NotFound => Missing::NotInstalled { what },
            std::io::ErrorKind::PermissionDenied => Missing::NotPermitted { what },
            _ => Missing::Unreadable { what, said: error.to_string() },
        }
    }
}

/// Foreign text, shortened to one line and without control characters, which a terminal would execute.
pub fn shown(text: &str) -> String {
    const MOST: usize = 120;
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut shown: String = text.trim().chars().take(MOST).map(plain).collect();
    if text.trim().chars().count() > MOST {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_said_is_shown_without_what_a_terminal_would_obey() {
        assert_eq!(shown("  a\u{1b}[31mb\n"), "a [31mb");
        assert_eq!(shown(&"x".repeat(500)).len(), 123);
        let exited = |said: &str| Missing::Exited { what: "a".into(), code: 9, said: said.into() }.to_string();
        assert_eq!((exited(""), exited("b")), ("a ended with status 9".into(), "a ended with status 9: b".into()));
    }
}
