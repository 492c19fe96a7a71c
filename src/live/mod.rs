//! Floor 6. Real machines: what they are, how they are used, and the only wall clock of the crate.
//!
//! This floor owns the clock, the probes of hardware and of the servers that manage it, and the recorder of usage.
//! Whatever is outside may hang, answer slowly, lie, vanish or fill the disk. Each look at it ends before its
//! deadline, with readings or with a named reason for each missing one, and leaves no process behind. This floor must
//! never decide anything: it hands what it finds to its caller, and what follows is up to the control plane.
//!
//! ```text
//!  procfs, cgroups, NVML ─┐
//!  nvidia-smi and kin ────┼─> probe ──> Look: nodes, GPUs, readings ──> scenario nodes, recording, policies on watch
//!  HTTP, kubectl, Slurm ──┘              (or the reason of each that is missing)
//!
//!  commands of the control plane ──> run ──> processes of this machine, or jobs of a Slurm ──> inputs
//! ```

#![warn(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod agenda;
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
pub use process::{Kept, end_all, keep};
#[cfg(target_os = "linux")]
pub use run::{LiveEnd, run, run_on_slurm};
pub use shares::{Share, Shares};
#[cfg(target_os = "linux")]
pub use slurm::Cluster;
pub use work::Work;

/// How many cores this process may use.
#[cfg(target_os = "linux")]
pub fn cores() -> std::io::Result<usize> {
    Ok(process::cores::allowed()?.len())
}
