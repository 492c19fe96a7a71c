//! The answer of the scheduler for one demand.

use smallvec::SmallVec;

use dryrack_event::{Histogram, Refusal};
use dryrack_fleet::Placement;
use dryrack_units::Score;

/// A possible placement and its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub placement: Placement,
    pub score: Score,
}

/// The scheduler's answer for one demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Candidates, best first. There is at least one.
    Place(SmallVec<[Candidate; 1]>),
    /// Reasons, each with its number of nodes. Together they cover every node.
    Refuse { refusal: Refusal, reasons: Histogram },
}
