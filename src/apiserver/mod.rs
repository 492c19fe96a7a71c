//! Floor 6. The Kubernetes API as far as an unmodified kube-scheduler needs it, and the life of that program.
//!
//! ```text
//! world ──objects──> Store <──requests── kube-scheduler (a process that Program starts)
//!                      │                      ^
//!                      └──watches, answers────┘
//! world <─decisions── Rehearsal: knows from the requests when the program is idle
//! ```
//!
//! This room owns the objects that are served, their versions and watches, the HTTP server, and the process of the
//! program. The server listens on loopback only, and answers only who knows its random token.
//!
//! This room must never decide anything and never trust a request. A request that is refused changes nothing, and its
//! answer names the fault as a Kubernetes API server does. The wall clock limits how long a client may take, and lets
//! the back-off of the program pass; it never decides what is true.

#![warn(clippy::unwrap_used)]

mod answer;
mod config;
mod decider;
mod discovery;
mod fault;
mod heard;
mod key;
mod limits;
mod path;
mod pods;
mod process;
mod read;
mod rehearsal;
mod reply;
mod resource;
mod selector;
mod server;
mod shared;
mod store;
mod table;
mod watch;
mod write;

pub use config::{Config, ConfigError, Release};
pub use decider::{KubeScheduler, KubeSchedulerSetup, find_program};
pub use fault::Fault;
pub use heard::{Attempt, Heard, Unserved};
pub use key::ObjectKey;
pub use limits::Limits;
pub use process::{NotStarted, Program};
pub use rehearsal::{Failure, Rehearsal, Settled};
pub use resource::Resource;
pub use server::Server;
pub use store::ObjectError;
