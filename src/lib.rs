//! dryrack simulates the scheduler of a GPU cluster before the cluster runs.
//!
//! A scenario file describes the machines, the jobs that are submitted to them, and the faults. dryrack runs the real
//! scheduler and policy code on it in simulated time. The result is deterministic. dryrack reports what happened, why,
//! and whether the expectations of the file hold.
//!
//! From Rust, [`Simulation`] builds or reads a scenario and runs it; [`log`] reads the event log of a run;
//! [`control`] drives the control plane by hand; [`own`] adds stages, policy rules and metrics. The folder `examples`
//! has a program for each:
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
//! # Overview
//!
//! ```text
//!  scenario file ─┐                                    ┌─> event log ─> expectations, digest, explain,
//!  job trace ─────┤                                    │               metrics, tables, plots
//!                 v                                    │
//!           ┌───────────┐   Input (what happened)   ┌──┴────────┐
//!           │   world   │ ────────────────────────> │  control  │   scheduler: filters, generator, scorers, queue
//!           │           │ <──────────────────────── │   plane   │   policies, lifecycle tables, timers, commit
//!           └───────────┘   Command (please do)     └───────────┘
//!  simulated: event queue, virtual clock, and maybe    sans-IO: no clock, no thread, no file,
//!             a program whose decisions are inputs     no random number of its own
//!  replayed:  the inputs of a recorded log
//!  live:      probes of real machines, their processes,
//!             or a Slurm, whose decisions are inputs
//! ```
//!
//! An *instant* is a time at which something happens. All inputs of an instant are applied in the order of their
//! classes (fleet facts, facts about runs, cancellations, arrivals, decisions of an external scheduler). Then the
//! control plane settles: due timers fire and passes run. If the world answers at once, its answers make another
//! *step* of the same instant. The log holds the inputs and the events. Replaying the inputs of a log gives the same
//! events byte for byte.
//!
//! # Crates
//!
//! Each room is a crate. Its `Cargo.toml` lists the rooms that it uses, which are all on lower floors.
//! `tests/it/tidy.rs` checks that the `mod.rs` of each room opens with its floor, what it owns and what it must never
//! do.
//!
//! | floor | rooms |
//! | --- | --- |
//! | 0 | `nearest`, `objects`, `planted`, `units` |
//! | 1 | `catalog`, `expression`, `ids`, `released`, `rng`, `yaml` |
//! | 2 | `fleet`, `kubernetes`, `workload` |
//! | 3 | `event`, `kueue`, `policy`, `trace` |
//! | 4 | `codec`, `lifecycle`, `manifest`, `scheduler` |
//! | 5 | `control` |
//! | 6 | `apiserver`, `engine`, `live`, `outside`, `profile` |
//! | 7 | `metrics`, `swarm` |
//! | 8 | `expect` |
//! | 9 | `rehearse`, `report`, `scenario` |
//! | 10 | `compare`, `validation`, `conform`, `import`, `minimize`, `plan`, `view` |
//! | 11 | `hunt` |
//! | 12 | `cli` |
//!
//! # Deliberate restrictions
//!
//! - No float represents time, memory, CPU, a share or money. A score is a double, computed with `+ - * /` only.
//! - No decision depends on the order of a hash map, on the machine's clock, or on the number of threads.
//! - Every random number is drawn from `Stream` of the room `rng`: one stream for each seed, purpose and entity.
//! - The control plane never learns which world it is in, or when a job would have ended.
//! - No code asks which version of an upstream program it models: the profile holds that as data.
//! - A command is a request, not a fact. A lost, late or repeated acknowledgement is an ordinary input.
//!
//! # Two optimizations
//!
//! A heartbeat is an input only if it contains news: the first one after silence, and the first one that is missed. The
//! others change nothing, and half a year of heartbeats of a thousand nodes is five hundred million inputs.
//!
//! A refused demand is not evaluated again until the fleet has grown: claims never make room, so the answer would be
//! the same. So thousands of waiting jobs cost no time while no resources are released.

// Set here and not in `Cargo.toml`, because tests may unwrap.
#![warn(clippy::unwrap_used)]

mod simulation;

pub use simulation::{Error, Job, Node, Outcome, ReplicaOutcome, Simulation, SimulationBuilder, Task};

/// The items that a program needs to run simulations.
pub mod prelude {
    pub use crate::{Job, Node, Outcome, Simulation, SimulationBuilder, Task};
    pub use dryrack_units::{SimDuration, SimTime};
}

/// Quantities.
pub mod units {
    pub use dryrack_units::{
        Bytes, GpuShare, MilliCpu, MilliWatts, Money, Permille, RequestRate, Score, SimDuration, SimTime, UnitError,
    };
}

/// Event logs: their records, and how to read them. A [`Sink`](log::Sink) receives the records of a run as they are
/// written.
pub mod log {
    pub use dryrack_codec::CodecError;
    pub use dryrack_event::{
        Command, Digest, Digester, Event, External, FORMAT_VERSION, FleetFact, Histogram, Input, Lifecycle, LogHeader,
        Outcome, Outside, OutsideFault, Phase, Reason, Record, RecordBody, Refusal, Sink, StandIn, UsageFact,
        UserRequest,
    };
    pub use dryrack_ids::{AttemptId, FleetId, GpuId, JobId, Names, NodeId};
    pub use dryrack_report::{Footer, LogError, LogLine, LogReader, LogWriter, read_log};
}

/// The verdicts on expectations, and the metrics of runs.
pub mod results {
    pub use dryrack_expect::Verdict;
    pub use dryrack_metrics::{Definition, METRICS, Metrics, Value};
}

/// Your own stages, policy rules and metrics. A program registers each by name. Scenario and profile files can then use
/// the name like a built-in one. The example `own_stages` registers one of each kind.
pub mod own {
    pub use dryrack_metrics::{MetricFunction, Row, register_metric};
    pub use dryrack_policy::{RuleFunction, Window, register_policy_rule};
    pub use dryrack_scheduler::{
        NodeView, RequestView, StageError, WaitingView, register_filter, register_order, register_scorer,
    };
}

/// The control plane, driven by hand: it takes inputs (what happened) and returns commands (requests to the world).
pub mod control {
    pub use dryrack_catalog::{CpuArch, Os};
    pub use dryrack_control::{Control, Profile, step};
    pub use dryrack_event::{
        Command, Event, External, FleetFact, Input, Lifecycle, Output, Sink, UsageFact, UserRequest,
    };
    pub use dryrack_fleet::{GpuShape, GpuState, NodeShape, NodeSpec, NodeState, Placement};
    pub use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
    pub use dryrack_profile::{load_profile, profile_names};
    pub use dryrack_workload::{Demand, Ending, Gang, GpuDemand, GpuTake, JobSpec, Pick, TaskDemand};
    pub use dryrack_yaml::Diagnostics;
}
