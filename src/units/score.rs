//! A stage's preference for a candidate.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Mul};

use serde::{Deserialize, Serialize};

/// The score of a candidate. A higher score is better.
///
/// It is a double, like the scores of the schedulers with which dryrack is compared. `+ - * /` in the written order
/// produce the same bits on every machine. All other functions are called from `libm` by name, for the same reason. A
/// score is never NaN, so [`Ord`] is total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Score(f64);

impl Score {
    pub const ZERO: Score = Score(0.0);

    /// Panics if `value` is NaN. A scorer that divides zero by zero is a bug in this program and not bad input.
    pub fn new(value: f64) -> Score {
        assert!(!value.is_nan(), "a score must be a number");
        // Adding 0.0 turns -0.0 into 0.0. Otherwise `total_cmp` would not treat the two as equal.
        Score(value + 0.0)
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Add for Score {
    type Output = Score;
    fn add(self, other: Score) -> Score {
        Score::new(self.0 + other.0)
    }
}

impl Mul<f64> for Score {
    type Output = Score;
    fn mul(self, weight: f64) -> Score {
        Score::new(self.0 * weight)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.3}", self.0))
    }
}
