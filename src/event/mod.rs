//! Floor 3. Messages: inputs, commands, events, their reasons, and the log record.
//!
//! Owns the closed enums that the control plane and the world exchange. Owns the compact form of the log, from
//! which the digest is computed. Must never have a variant that nothing emits.

#![warn(clippy::unwrap_used)]

mod compact;
mod decider;
mod dependence;
mod forms;
mod input;
mod log;
mod output;
mod outside;
mod own_reason;
mod packed;
mod phase;
mod predicted;
mod program;
mod reason;
mod served;
mod timings;
mod wire;

pub use decider::{Answer, Decider};
pub use dependence::Dependence;
pub use input::{Declaration, External, FleetFact, Input, InputClass, Lifecycle, UsageFact, UserRequest};
pub use log::{BranchOf, Digest, Digester, FORMAT_VERSION, LiveHeader, LogHeader, Record, RecordBody, Sink};
pub use output::{AdmittedPodSet, Command, Event, Outcome, Output, Refusal, Safety};
pub use outside::{Outside, OutsideFault, StandIn};
pub use own_reason::OwnReason;
pub use phase::Phase;
pub use predicted::{AttemptTimeline, Prediction};
pub use program::{OutsideProgram, ProgramFailure, ProgramName};
pub use reason::{Histogram, Reason};
pub use served::{Durations, ServiceReport};
pub use timings::Timings;
