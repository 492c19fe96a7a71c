//! Floor 3. What is said: inputs, commands, events, their reasons, and the log record.
//!
//! Owns the closed enums between the control plane and whatever world it is in, and the log's two forms: JSON lines with
//! names for people and tools, and the compact form that the digest is taken of. Must never have a variant nobody emits.

#![warn(clippy::unwrap_used)]

mod codec;
mod compact;
mod input;
mod log;
mod output;
mod packed;
mod predicted;
mod reason;

pub use codec::{CodecError, decode_line, encode_event, encode_input, encode_line};
pub use input::{Input, InputClass, Lifecycle, Phase};
pub use log::{BranchOf, Digest, Digester, FORMAT_VERSION, LiveHeader, LogHeader, Record, Said, Sink};
pub use output::{Command, Event, Outcome, Output, Refusal, Safety};
pub use predicted::{AttemptTimeline, Prediction};
pub use reason::{Histogram, Reason};
