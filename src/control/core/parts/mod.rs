//! The parts of the core. Each owns its state and keeps it whole. None knows the core, a flow, or another part beside
//! the records of the store.

pub mod accounts;
pub mod deciding;
pub mod dependencies;
pub mod dropping;
pub mod examined;
pub mod instances;
pub mod kept;
pub mod nodes;
pub mod run_limits;
pub mod scale_up;
pub mod services;
pub mod shares;
pub mod store;
pub mod timer;
pub mod usage;
pub mod watch;
