//! Floor 2. The rules of kube-scheduler: they decide which node a pod gets, and why it does not get another.
//!
//! This room owns the state of a cluster ([`cluster`]), devices and their claims ([`devices`]), the plugins
//! ([`plugins`]), and one attempt to schedule a pod ([`cycle`]). A file of `plugins` is named after its plugin. The reasons, scores and condition texts are those of Kubernetes 1.35.
//!
//! This room must never keep a queue, know the time or draw a random number. The caller of [`cycle::schedule`] decides
//! which pod is next and which of several best nodes it gets. An attempt never copies the cluster: preemption is tried
//! on a copy of one node at a time.

#![warn(clippy::unwrap_used)]

pub mod cluster;
pub mod cycle;
pub mod devices;
pub mod plugins;

pub use dryrack_objects as object;
