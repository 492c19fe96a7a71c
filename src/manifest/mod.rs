//! Floor 4. Kubernetes manifests as people have them: from files to the objects that matter to a rehearsal.
//!
//! This room owns the fields of each kind of object, the defaults that the API server and its admission plugins fill
//! in, and the pods that controllers make. It reads YAML with several documents, JSON, lists, folders and patterns of
//! paths. It must never ignore a misspelt field, warn about each line that has no meaning here, or decide where a pod
//! goes.
//!
//! | step | module | result |
//! | --- | --- | --- |
//! | find | `files` | the files of paths, patterns and folders, in the order of their names |
//! | read | `read`, `clean`, `fields` | [`Manifests`]: objects with only the data that matters, and counts of the rest |
//! | refuse | `refused` | faults of what the API server and Kueue refuse |
//! | default | `defaults` | what the API server and the controllers of nodes add |
//! | expand | `cluster`, `owners`, `expand` | [`Cluster`]: nodes, pods, and controllers with the pods that they make |
//! | rename | `rename` | [`NewNames`]: the same objects under other names |
//! | write | `write` | the objects as YAML |

#![warn(clippy::unwrap_used)]

mod budgets;
mod claims;
mod clean;
mod cluster;
mod controllers;
mod daemons;
mod defaults;
mod ended;
mod expand;
mod fields;
mod files;
mod generated;
mod injected;
mod kept_controllers;
mod kinds;
mod listed;
mod managers;
mod namespaces;
mod owners;
mod present;
mod read;
mod refused;
mod rename;
mod selectors;
mod shape;
mod typed;
mod unread;
mod unused;
mod versions;
mod write;

use dryrack_kubernetes::object as api;

pub use cluster::{Budget, ClaimTemplate, Cluster, LocalQueue, MadeClaim, Queues, StatedQueue};
pub use controllers::{
    BackoffLimit, Controller, JobTerms, Naming, PodSet, QueuePriority, StatedPod, Terms, claim_name,
};
pub use ended::{LEFT, grace_left};
pub use kinds::{KINDS, Kind, Known};
pub use listed::{ListedAdmission, ListedAssignment, ListedPodSet, ListedWorkload};
pub use read::{Manifests, Object};
pub use rename::NewNames;
pub use unused::Unused;
pub use write::text;

#[cfg(test)]
mod forms_tests;
#[cfg(test)]
mod saved_jobs_tests;
#[cfg(test)]
mod tests;
