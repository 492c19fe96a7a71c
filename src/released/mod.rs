//! Floor 1. Released schedulers: the environments in which they run, and the drivers through which they are asked.
//!
//! This room owns the lock files (packages with their versions and checksums), the cache folder of the environments,
//! and the drivers. A driver is a Python program embedded in the dryrack binary. It speaks the protocol of outside
//! schedulers. [`command_of`] returns the command that starts a driver.
//!
//! An environment has two parts. A *base* contains the packages that the releases of one generation share. A *release*
//! contains the program itself and the packages that only it needs. With a base in place, a further release takes
//! seconds. Each part is built under a temporary name and then renamed. It stores the lock from which it was built. A
//! part that is incomplete, or that was built from another lock, is never used.
//!
//! This room must never decide anything, and never install a package that is not locked. It does not speak the
//! protocol, except for the greeting in [`Store::doctor`].

#![warn(clippy::unwrap_used)]

mod doctor;
mod error;
mod install;
mod pip;
mod python;
mod release;
mod store;

pub use doctor::{DoctorReport, ReleaseFault, ReleaseHealth};
pub use error::ReleasedError;
pub use install::Installed;
pub use python::{PYTHON, Python, find_python};
pub use release::{Release, programs, releases};
pub use store::{InstalledRelease, Store};

use std::ffi::OsString;

/// The command (program first) that starts the driver of an installed release such as `gpustack==0.6.0`.
pub fn command_of(name: &str) -> Result<Vec<OsString>, ReleasedError> {
    Store::from_env()?.command_of(&Release::named(name)?)
}
