//! Not yet furnished.
mod rehearsal;
pub use rehearsal::*;
