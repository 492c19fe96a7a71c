//! Floor 3. Policies: small machines over facts and timers that say what should follow.
//!
//! Owns when a failed attempt is followed by another, and when GPUs have been idle for too long. Must never read a clock,
//! and acts on nothing itself: what drives it, simulated or live, tells it what was seen and when.

mod retry;
mod utilization;

pub use retry::{Next, RetryState};
pub use utilization::{GpuTime, Judged, MOST_SAMPLES, Sample, UtilizationMonitor, judge_recording, ring_samples};
