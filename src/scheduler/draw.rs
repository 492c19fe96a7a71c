//! Randomness in a decision. Each attempt and purpose has its own stream, so repeating a decision draws the same
//! numbers.

use dryrack_ids::AttemptId;
use dryrack_rng::Stream;

/// The source of a decision's random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    seed: u64,
    entity: u64,
}

impl Draw {
    /// The source for a question that belongs to no attempt, such as an evaluation or an explanation.
    pub const NONE: Draw = Draw { seed: 0, entity: 0 };

    /// The source for one attempt, in a simulation with this seed.
    pub fn new(seed: u64, attempt: AttemptId) -> Draw {
        let entity = (attempt.job.index() as u64) << 32 | u64::from(attempt.replica);
        Draw { seed: seed.wrapping_add(u64::from(attempt.number) - 1), entity }
    }

    pub(super) fn stream(self, purpose: &'static str) -> Stream {
        Stream::new(self.seed, purpose, self.entity)
    }
}
