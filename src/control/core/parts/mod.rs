//! The parts of the core. Each owns its state and keeps it whole. None knows the core, a flow, or another part beside
//! the records of the store.

pub mod accounts;
pub mod clock;
#[cfg(test)]
mod clock_tests;
pub mod clouds;
pub mod deciding;
pub mod examined;
pub mod groups;
pub mod kept;
pub mod nodes;
pub mod services;
pub mod shares;
#[cfg(test)]
mod shares_tests;
pub mod store;
pub mod timer;
pub mod usage;
pub mod watch;
