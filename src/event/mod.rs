//! Floor 3. Messages: inputs, commands, events, their reasons, and the log record.
//!
//! Owns the closed enums exchanged between the control plane and its world, and the two forms of the log: JSON lines
//! with names for people and tools, and the compact form from which the digest is computed. Must never have a variant
//! that nothing emits.

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
