//! The ranking of flavors: which of two flavors is better, and whether a scan continues after a flavor.

use super::assignment::Mode;
use super::objects::{FlavorSearch, FungibilityPreference, FungibilitySpec};

/// How a flavor gets quota, in order from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PreemptionMode {
    NoFit,
    /// It would have to preempt, but there is no workload that it may preempt.
    NoCandidates,
    /// By preemption in the workload's own queue, and perhaps in others.
    Preempt,
    /// By preemption only in other queues.
    Reclaim,
    Fit,
}

impl PreemptionMode {
    pub fn mode(self) -> Mode {
        match self {
            PreemptionMode::NoFit => Mode::NoFit,
            PreemptionMode::NoCandidates | PreemptionMode::Preempt | PreemptionMode::Reclaim => Mode::Preempt,
            PreemptionMode::Fit => Mode::Fit,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fitness {
    pub mode: PreemptionMode,
    /// The distance of the quota; 0 means that it is in the queue itself.
    pub borrow: u32,
}

impl Fitness {
    pub fn worst() -> Fitness {
        Fitness { mode: PreemptionMode::NoFit, borrow: u32::MAX }
    }

    pub fn best() -> Fitness {
        Fitness { mode: PreemptionMode::Fit, borrow: 0 }
    }

    /// Whether this is better than the other.
    pub fn is_preferred(self, other: Fitness, preference: FungibilityPreference) -> bool {
        let coarse = |mode: PreemptionMode| mode.min(PreemptionMode::Preempt);
        if coarse(self.mode) != coarse(other.mode) {
            return self.mode > other.mode;
        }
        if self.mode == PreemptionMode::NoFit {
            return false;
        }
        match preference {
            FungibilityPreference::BorrowingOverPreemption if self.mode != other.mode => self.mode > other.mode,
            FungibilityPreference::BorrowingOverPreemption => self.borrow < other.borrow,
            FungibilityPreference::PreemptionOverBorrowing if self.borrow != other.borrow => self.borrow < other.borrow,
            FungibilityPreference::PreemptionOverBorrowing => self.mode > other.mode,
        }
    }

    /// Whether the next flavor is tried too.
    pub fn tries_next(self, policy: &FungibilitySpec) -> bool {
        match self.mode {
            PreemptionMode::NoFit | PreemptionMode::NoCandidates => true,
            PreemptionMode::Preempt | PreemptionMode::Reclaim
                if policy.when_can_preempt == FlavorSearch::TryNextFlavor =>
            {
                true
            }
            PreemptionMode::Preempt | PreemptionMode::Reclaim | PreemptionMode::Fit => {
                self.borrow > 0 && policy.when_can_borrow == FlavorSearch::TryNextFlavor
            }
        }
    }
}
