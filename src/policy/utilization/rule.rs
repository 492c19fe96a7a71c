//! The interface that the rules of a utilization policy share.

use super::ring::Ring;
use dryrack_units::SimTime;
use dryrack_workload::{Coverage, UtilizationPolicy};

/// A rule, which watches the samples of one run.
pub(super) trait Rule {
    /// Whether the rule accepts a sample of this many GPUs for a run with `width` GPUs.
    fn takes(&self, gpus: usize, width: usize) -> bool {
        gpus == width
    }

    /// Called just before the oldest sample is dropped. The rule can keep what that sample shows.
    fn drops_oldest(&mut self, _policy: &UtilizationPolicy, _ring: &Ring) {}

    /// Reads the newest sample, which is the last one in the ring.
    fn added(&mut self, policy: &UtilizationPolicy, ring: &Ring);

    /// Reads all samples again, after one was inserted at `place` before newer samples.
    fn inserted(&mut self, policy: &UtilizationPolicy, ring: &Ring, place: usize);

    /// When the rule fires next if no more samples arrive, and the readings that then cover the window. `bound_at` is
    /// the start of the run. A time in the past means that the rule is due.
    fn next(
        &self,
        policy: &UtilizationPolicy,
        ring: &Ring,
        bound_at: SimTime,
        now: SimTime,
    ) -> Option<(SimTime, Coverage)>;

    /// Notes that the rule has fired, so it does not fire for the same spell again.
    fn fired(&mut self, ring: &Ring, coverage: &Coverage);
}
