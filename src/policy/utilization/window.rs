//! What a rule reads: the policy, and the samples in the window that ends with the newest sample.

use super::ring::Ring;
use dryrack_units::{Permille, SimTime};
use dryrack_workload::UtilizationPolicy;

/// The policy, and the samples of a run in the window that ends with the newest sample.
pub struct Window<'a> {
    pub(super) policy: &'a UtilizationPolicy,
    pub(super) ring: &'a Ring,
    /// The index of the first sample in the window.
    pub(super) first: usize,
    pub(super) width: usize,
}

impl Window<'_> {
    pub fn policy(&self) -> &UtilizationPolicy {
        self.policy
    }

    /// The number of GPUs of the run.
    pub fn gpus(&self) -> usize {
        self.width
    }

    /// The times of the samples, oldest first.
    pub fn times(&self) -> impl ExactSizeIterator<Item = SimTime> {
        (self.first..self.ring.len()).map(|index| self.ring.time(index))
    }

    /// The readings of one GPU, oldest first. `None` for a sample in which the GPU could not be read.
    ///
    /// # Panics
    /// If the run has no such GPU.
    pub fn readings(&self, gpu: usize) -> impl ExactSizeIterator<Item = Option<Permille>> {
        assert!(gpu < self.width, "the run has {} GPUs", self.width);
        (self.first..self.ring.len()).map(move |index| self.ring.reading(index, gpu))
    }
}

/// A rule. Returns whether it holds for the samples in the window.
pub type RuleFunction = fn(&Window<'_>) -> bool;
