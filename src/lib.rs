//! dryrack rehearses a GPU cluster before it runs.
//!
//! A scenario file says which machines there are, what is asked of them and what goes wrong. dryrack runs the real
//! scheduler and policy code over it in virtual time, the same way every time, and says what happened, why, and whether
//! that is what the file expected.
//!
//! From Rust, [`Simulation`] builds or reads a scenario and runs it; [`log`] reads what a run wrote; [`control`] drives the
//! control plane by hand. The folder `examples` has a program for each:
//!
//! ```
//! use dryrack::prelude::*;
//!
//! let outcome = Simulation::builder()
//!     .node(Node::new("alpha").machine("l4-x1"))
//!     .job(Job::new("chat").gpus(1).duration("1m"))
//!     .job(Job::new("late").at("10s").gpus(1).duration("1m"))
//!     .expect("max(queue_wait) <= 1m")
//!     .run()?;
//! assert!(outcome.passed());
//! # Ok::<(), dryrack::Error>(())
//! ```
//!
//! # The whole on one page
//!
//! ```text
//!  scenario file ─┐                                    ┌─> event log ─> expectations, digest, explain,
//!  job trace ─────┤                                    │               metrics, tables, plots
//!                 v                                    │
//!           ┌───────────┐   Input (what happened)   ┌──┴────────┐
//!           │   world   │ ────────────────────────> │  control  │   scheduler: filters, generator, scorers, queue
//!           │           │ <──────────────────────── │   plane   │   policies, lifecycle tables, timers, commit
//!           └───────────┘   Command (please do)     └───────────┘
//!  simulated: event queue, virtual clock               sans-IO: no clock, no thread, no file,
//!  replayed:  the inputs of a recorded log             no random number of its own
//!  live:      probes of real machines, their processes,
//!             or a Slurm, whose decisions are inputs
//! ```
//!
//! An *instant* is a time at which something happens. All inputs of an instant are applied in the order of their classes
//! (fleet facts, facts about runs, cancellations, arrivals, decisions of a scheduler outside), then the control plane
//! settles: timers that are due fire, passes run. What the world answers at once makes another *step* of the same instant.
//! The log holds the inputs and the events; a log's inputs, replayed, give the same events byte for byte.
//!
//! # The rooms
//!
//! Each room is a crate, and its `Cargo.toml` says which others it uses: only rooms of lower floors. `tests/it/tidy.rs` holds
//! that each room's `mod.rs` opens with its floor, what it owns and what it must never do.
//!
//! | floor | rooms |
//! | --- | --- |
//! | 0 | `nearest`, `units` |
//! | 1 | `catalog`, `ids`, `rng` |
//! | 2 | `fleet`, `workload` |
//! | 3 | `event`, `policy`, `trace` |
//! | 4 | `lifecycle`, `scheduler` |
//! | 5 | `control` |
//! | 6 | `engine`, `live` |
//! | 7 | `metrics` |
//! | 8 | `expect` |
//! | 9 | `rehearse`, `report`, `scenario` |
//! | 10 | `validation`, `conform`, `plan` |
//! | 11 | `cli` |
//!
//! # What is absent, on purpose
//!
//! - No float stands for time, memory, CPU, a share or money. A score is a double, combined with `+ - * /` alone.
//! - No decision depends on the order of a hash map, on the machine's clock, or on the number of threads.
//! - No random number is drawn but from `Stream` of the room `rng`, one stream for each seed, purpose and entity.
//! - The control plane never learns which world it is in, and never that a job would have ended at a certain time.
//! - No code asks which version of an upstream program it models: that is in the profile, as data.
//! - No command is a fact. A lost, late or repeated acknowledgement is an ordinary input.
//!
//! # Two departures from first thoughts
//!
//! A heartbeat is an input only where it says something new: the first after silence, and the first that is missed. The
//! ones in between change nothing, and half a year of them for a thousand nodes would be five hundred million inputs.
//!
//! A demand that was refused is not judged again before the fleet has grown: taking never makes room, so the answer
//! would be the same. So a queue of thousands costs nothing while nothing is given back.

// Here, not in `Cargo.toml`: tests may unwrap.
#![warn(clippy::unwrap_used)]

mod simulation;

pub use simulation::{Error, Job, Node, Outcome, ReplicaOutcome, Simulation, SimulationBuilder};

/// What a program that runs simulations needs.
pub mod prelude {
    pub use crate::{Job, Node, Outcome, Simulation, SimulationBuilder};
    pub use dryrack_units::{SimDuration, SimTime};
}

/// Quantities.
pub mod units {
    pub use dryrack_units::{
        Bytes, GpuShare, MilliCpu, MilliWatts, Money, Permille, RequestRate, Score, SimDuration, SimTime, UnitError,
    };
}

/// Event logs: what a record says, and how one is read. A [`Sink`](log::Sink) takes the records of a run as they are written.
pub mod log {
    pub use dryrack_event::{
        CodecError, Command, Digest, Digester, Event, FORMAT_VERSION, Histogram, Input, Lifecycle, LogHeader, Outcome,
        Phase, Reason, Record, Refusal, Said, Sink,
    };
    pub use dryrack_ids::{FleetId, GpuId, JobId, Names, NodeId, RunId};
    pub use dryrack_report::{Footer, LogError, LogLine, LogReader, LogWriter, read_log};
}

/// What became of expectations, and the metrics of runs.
pub mod results {
    pub use dryrack_expect::Verdict;
    pub use dryrack_metrics::{Definition, METRICS, Metrics, Value};
}

/// The control plane, driven by hand: it is told what happened, and says what it wants done.
pub mod control {
    pub use dryrack_catalog::{CpuArch, Os};
    pub use dryrack_control::{Control, Profile, step};
    pub use dryrack_event::{Command, Event, Input, Lifecycle, Output, Sink};
    pub use dryrack_fleet::{GpuShape, GpuState, NodeShape, NodeSpec, NodeState, Placement};
    pub use dryrack_ids::{GpuId, JobId, NodeId, RunId};
    pub use dryrack_scenario::{Diagnostics, load_profile, profile_names};
    pub use dryrack_workload::{Demand, Ending, Gang, GpuDemand, GpuTake, JobSpec, Pick, TaskDemand};
}
