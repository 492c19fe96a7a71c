//! Floor 0. Planted faults: mistakes that a build for tests makes on purpose, to learn which test notices them.
//!
//! Each fault has one place in the code: `if planted!(Name) { wrong } else { right }`. A build with the feature `planted`
//! makes the mistake that the environment variable `DRYRACK_PLANTED` names, and no other. In all other builds,
//! [`planted!`] is `false` at compile time, so the wrong branch is not there.
//!
//! `.ci/planted` runs the tests with each fault. `docs/src/planted.md` says which of them noticed it. Owns the table of
//! faults. Must never change what a build without the feature does.

#![warn(clippy::unwrap_used)]

mod table;

#[cfg(feature = "planted")]
use std::sync::atomic::{AtomicUsize, Ordering};

pub use table::Fault;

/// The environment variable that names the chosen fault.
pub const VARIABLE: &str = "DRYRACK_PLANTED";

/// Whether this run makes this mistake: `planted!(Name)`.
#[macro_export]
macro_rules! planted {
    ($fault:ident) => {
        $crate::is_planted($crate::Fault::$fault)
    };
}

/// Whether this run makes this mistake. Called by [`planted!`].
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is_planted(_: Fault) -> bool {
    false
}

/// The place in [`Fault::ALL`] of the fault that [`choose`] chose; [`NONE`] for no fault, [`AS_NAMED`] before the first
/// choice.
#[cfg(feature = "planted")]
static CHOSEN: AtomicUsize = AtomicUsize::new(AS_NAMED);
#[cfg(feature = "planted")]
const NONE: usize = usize::MAX - 1;
#[cfg(feature = "planted")]
const AS_NAMED: usize = usize::MAX;

/// Whether this run makes this mistake. Called by [`planted!`].
///
/// # Panics
/// If `DRYRACK_PLANTED` names no fault. The program checks that first, with [`chosen`].
#[cfg(feature = "planted")]
pub fn is_planted(fault: Fault) -> bool {
    static NAMED: std::sync::LazyLock<Option<Fault>> =
        std::sync::LazyLock::new(|| chosen().unwrap_or_else(|unknown| panic!("{unknown}")));
    match CHOSEN.load(Ordering::Relaxed) {
        AS_NAMED => *NAMED == Some(fault),
        chosen => chosen == fault as usize,
    }
}

/// From now on, this process makes this mistake, or none, whatever `DRYRACK_PLANTED` names. Returns false if this build
/// has no planted faults.
#[must_use]
pub fn choose(fault: Option<Fault>) -> bool {
    #[cfg(feature = "planted")]
    CHOSEN.store(fault.map_or(NONE, |fault| fault as usize), Ordering::Relaxed);
    cfg!(feature = "planted") || fault.is_none()
}

/// The fault that `DRYRACK_PLANTED` names; `None` if it is not set. The error says that no fault has this name.
#[cfg(feature = "planted")]
pub fn chosen() -> Result<Option<Fault>, String> {
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return Ok(None) };
    let found = Fault::ALL.iter().find(|fault| *fault.name() == *name);
    let unknown = || format!("{VARIABLE}: no fault is named {name:?}; src/planted/table.rs lists them");
    found.copied().map(Some).ok_or_else(unknown)
}
