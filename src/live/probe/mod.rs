//! Probes: they read the facts that machines and servers report about nodes and GPUs. Every source has the same
//! interface.
//!
//! A [`Probe`] takes one [`Snapshot`] of its source. It either finds nodes or returns one [`Missing`], the reason why
//! it found none. If a figure of one GPU is missing, the reason takes the place of its reading. A poll ends before its
//! deadline: programs run in their own process groups and are killed, and the length of answers is limited. [`Guarded`]
//! handles calls that cannot be stopped.
//!
//! | source | method |
//! | --- | --- |
//! | CPUs and memory of this machine | procfs and cgroups |
//! | its GPUs | NVML, nvidia-smi, amd-smi, hl-smi, sysfs of amdgpu; on macOS ioreg and sysctl |
//! | an address | the page of a Prometheus exporter, mainly DCGM's |
//! | GPUStack, dstack | their REST interfaces |
//! | Kubernetes | `kubectl get nodes` and `pods` |
//! | Slurm | `sinfo` and `squeue` |

mod amd_sysfs;
mod answers;
mod apple;
mod command;
mod dstack;
mod exporter;
#[cfg(test)]
mod faults;
#[cfg(all(test, target_os = "linux"))]
mod faults_of_machine;
mod gpustack;
mod guarded;
mod http;
mod json;
mod kubernetes;
mod local;
mod machine;
mod missing;
mod number;
mod nvml;
#[cfg(test)]
mod recorded;
mod slurm;
mod smi;
mod snapshot;
mod source;

pub use amd_sysfs::AmdSysfs;
pub use answers::{AnswersOf, read_answers};
pub use apple::Apple;
pub use command::{Command, Limits};
pub use dstack::Dstack;
pub use exporter::Exporter;
pub use gpustack::{Gpustack, node as gpustack_worker};
pub use guarded::Guarded;
pub use http::{Page, shown_url};
pub use json::parse as answer;
pub use kubernetes::Kubernetes;
pub use local::{GpuSource, ThisMachine};
pub use machine::{Machine, Roots};
pub use missing::{Missing, shown};
pub use number::share;
pub use nvml::Nvml;
pub use slurm::{Completed, Slurm, completed, gpu_indices, host_list, words};
pub use smi::{Smi, SmiKind};
pub use snapshot::{GpuSnapshot, NodeSnapshot, Reading, Snapshot};
pub use source::{SOURCES, Source, SourceOptions};

use super::clock::{Clock, Deadline};

/// A source of readings.
pub trait Probe: Send {
    /// The name of the source for people.
    fn source(&self) -> String;

    /// Polls the source once. Ends before the deadline as far as the probe can ensure this.
    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing>;
}
