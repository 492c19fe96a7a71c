//! Chance in a decision: one stream for each attempt and purpose, so that a decision made again draws the same again.

use dryrack_ids::RunId;
use dryrack_rng::Stream;

/// What a decision draws its random numbers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    seed: u64,
    entity: u64,
}

impl Draw {
    /// For a question that belongs to no run: an evaluation, an explanation.
    pub const NONE: Draw = Draw { seed: 0, entity: 0 };

    /// Of one attempt in the run of this seed.
    pub fn new(seed: u64, run: RunId) -> Draw {
        let entity = (run.job.index() as u64) << 32 | u64::from(run.replica);
        Draw { seed: seed.wrapping_add(u64::from(run.attempt) - 1), entity }
    }

    pub(super) fn stream(self, purpose: &'static str) -> Stream {
        Stream::new(self.seed, purpose, self.entity)
    }
}
