//! Floor 6. Real machines: their hardware, their use, and the only wall clock of the crate.
//!
//! This floor owns the clock, the recorder of usage, and the probes of hardware and of the servers that manage it. Any
//! outside system may hang, answer slowly, report false values, vanish or fill the disk. Each poll ends before its
//! deadline with readings, or with a named reason for each missing reading, and leaves no process behind. This floor
//! must never decide anything: it reports its findings to its caller, and the control plane decides.
//!
//! ```text
//!  procfs, cgroups, NVML ─┐
//!  nvidia-smi and kin ────┼─> probe ──> Snapshot: nodes, GPUs, readings ──> scenario nodes, recording, watch
//!  HTTP, kubectl, Slurm ──┘              (or the reason of each that is missing)
//!
//!  commands of the control plane ──> run ──> processes of this machine, or jobs of a Slurm ──> inputs
//! ```

#![warn(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod agenda;
mod backend;
pub mod clock;
pub mod columns;
pub mod probe;
#[cfg(target_os = "linux")]
mod process;
pub mod procfs;
pub mod recorder;
#[cfg(target_os = "linux")]
mod run;
mod shares;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod slurm;
pub mod stop;
pub mod watch;
mod work;
#[cfg(target_os = "linux")]
mod world;

#[cfg(target_os = "linux")]
pub use process::{ProcessEnd, end_all, keep};
#[cfg(target_os = "linux")]
pub use run::{LiveEnd, run, run_on_slurm};
pub use shares::{Shares, StandInGpu};
#[cfg(target_os = "linux")]
pub use slurm::Cluster;
pub use work::PendingRun;

/// The number of cores that this process may use.
#[cfg(target_os = "linux")]
pub fn cores() -> std::io::Result<usize> {
    Ok(process::cores::allowed()?.len())
}
