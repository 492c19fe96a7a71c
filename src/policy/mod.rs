//! Floor 3. Policies: small machines over facts and timers that say what should follow.
//!
//! Owns when a failed attempt is followed by another. Must never read a clock, and acts on nothing itself.

mod retry;

pub use retry::{Next, RetryState};
