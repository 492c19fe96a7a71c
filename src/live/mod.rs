//! Floor 6. Real machines: what they are, how they are used, and the only wall clock of the crate.
//!
//! Owns the clock, the probes of hardware and of the servers that manage it, and the recorder of usage. Whatever is
//! outside may hang, drip, lie, vanish or fill the disk: each look at it ends before its deadline, with readings or with a
//! named reason for each that is missing, and leaves no process behind. Must never decide anything: what is found is
//! handed to whoever asked, and what follows from it is the control plane's.
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
