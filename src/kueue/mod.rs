//! Floor 3. The rules of Kueue. They decide which waiting workload gets quota, from which flavors, and which workloads
//! must release quota for it.
//!
//! [`Kueue`] holds cluster queues in cohorts, flavors with quota, and workloads. A scheduling cycle ([`Kueue::cycle`])
//! takes the head of each queue, assigns flavors to it (`assigner`), finds the workloads that it preempts
//! (`preemption`, `fair`), and admits one head after another while quota lasts (`cycle`). The decisions are those
//! of Kueue's scheduler at commit ff69552e (0.20 line), with its feature gates at their defaults. Files name the
//! upstream file that has the same rule.
//!
//! Quota is a tree (`tree`). A change of usage updates the path to the root, and a simulation is undone. A decision
//! copies neither the tree nor the list of waiting workloads. Amounts are integers. Shares and weights of fair sharing
//! are doubles, because Kueue compares doubles; they are computed with `*` and `/` in one order.
//!
//! Owns quota, queues, and the decisions about both. Must never read a clock, know how long a workload runs, or place
//! pods on nodes (except in the topologies that it is given). The caller states that a workload has finished
//! ([`Kueue::finish`]), and that an evicted workload has stopped ([`Kueue::release`]).
//!
//! Not modelled: admission checks, waiting for pods to be ready, admission fair sharing, MultiKueue, workload slices,
//! device claims, slices and groups of pod sets in a topology, failures of nodes.

#![warn(clippy::unwrap_used)]

mod assigner;
mod assignment;
mod cluster;
mod cycle;
mod fungibility;
mod held;
mod manager;
mod names;
mod nominate;
pub mod objects;
mod preemption;
mod quantity;
mod queue;
mod reason;
mod share;
#[cfg(test)]
mod tests;
mod topology;
mod tournament;
mod tree;
mod workload;

pub use dryrack_kubernetes::object::Quantity;

pub use assignment::{Assignment, FlavorChoice, Mode, PodSetAssignment};
pub use cycle::{Cycle, Head, Verdict};
pub use held::{Held, HeldPodSet};
pub use manager::{Behind, Kueue, Setup, SpecError};
pub use names::{FlavorId, FlavorResource, Names, ResourceId};
pub use preemption::{FairStrategy, Target};
pub use quantity::{amount_of, amount_text};
pub use queue::QueueId;
pub use reason::{FlavorReason, PreemptionReason, QuotaReason};
pub use share::Share;
pub use topology::{DomainId, NoPlacement, TopologyPlacement};
pub use tree::NodeId;
pub use workload::{Condition, Eviction, WorkloadId};
