//! Floor 6. Schedulers in other processes: the protocol by which they decide in a simulated run.
//!
//! ```text
//! engine ──Decider──> Session ──lines──> Child: a process or a socket, with a deadline for each answer
//!                       │  └── Mirror: what the program was told, built from records
//!                       └── answers as inputs; faults in them by name
//! ```
//!
//! This room owns the protocol (`protocol.schema.json`, `docs/src/protocol.md`), its codec, and the life of the process. The
//! engine uses it through the trait [`Decider`](dryrack_event::Decider). The engine and this room never name each
//! other. This room must never decide anything and never trust an answer. It reads a clock only to measure how long an
//! answer took.

#![warn(clippy::unwrap_used)]

mod child;
mod message;
mod mirror;
mod objects;
mod placing;
mod reading;
mod reasons;
mod refusals;
mod session;
mod setup;
mod unique;

pub use child::NotStarted;
pub use dryrack_event::{ProgramFailure as Failure, ProgramName, Timings};
pub use message::{LineFault, PROTOCOL, check_line};
pub use session::{IdleProcess, Session};
pub use setup::{Command, CommandError, KUBE_SCHEDULER, SOCKET, Setup, ThinkTime, quoted};

/// The JSON Schema of all messages.
pub const SCHEMA: &str = include_str!("protocol.schema.json");

/// The Python file that authors of a scheduler can copy.
pub const PYTHON: &str = include_str!("dryrack_outside.py");
