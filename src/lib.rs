//! dryrack rehearses a GPU cluster before it runs.
//!
//! A scenario file says which machines there are, what is asked of them and what goes wrong. dryrack runs the real
//! scheduler and policy code over it in virtual time, the same way every time, and says what happened, why, and whether
//! that is what the file expected.
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
//! | 0 | [`nearest`], [`units`] |
//! | 1 | [`catalog`], [`ids`], [`rng`] |
//! | 2 | [`fleet`], [`workload`] |
//! | 3 | [`event`], [`policy`], [`trace`] |
//! | 4 | [`lifecycle`], [`scheduler`] |
//! | 5 | [`control`] |
//! | 6 | [`engine`], [`live`] |
//! | 7 | [`metrics`] |
//! | 8 | [`expect`] |
//! | 9 | [`rehearse`], [`report`], [`scenario`] |
//! | 10 | [`agreement`], [`conform`], [`plan`] |
//! | 11 | [`cli`] |
//!
//! # What is absent, on purpose
//!
//! - No float stands for time, memory, CPU, a share or money. A score is a double, combined with `+ - * /` alone.
//! - No decision depends on the order of a hash map, on the machine's clock, or on the number of threads.
//! - No random number is drawn but from [`rng::Stream`], one stream for each seed, purpose and entity.
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

pub use dryrack_agreement as agreement;
pub use dryrack_catalog as catalog;
pub use dryrack_cli as cli;
pub use dryrack_conform as conform;
pub use dryrack_control as control;
pub use dryrack_engine as engine;
pub use dryrack_event as event;
pub use dryrack_expect as expect;
pub use dryrack_fleet as fleet;
pub use dryrack_ids as ids;
pub use dryrack_lifecycle as lifecycle;
pub use dryrack_live as live;
pub use dryrack_metrics as metrics;
pub use dryrack_nearest as nearest;
pub use dryrack_plan as plan;
pub use dryrack_policy as policy;
pub use dryrack_rehearse as rehearse;
pub use dryrack_report as report;
pub use dryrack_rng as rng;
pub use dryrack_scenario as scenario;
pub use dryrack_scheduler as scheduler;
pub use dryrack_trace as trace;
pub use dryrack_units as units;
pub use dryrack_workload as workload;
