//! The share of runs with different seeds in which an expectation must hold.

use std::fmt;

use super::expectation::SourcePlace;
use dryrack_planted::planted;
use dryrack_units::Permille;

/// A minimum or maximum share of the seeds: `">= 95%"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedShare {
    AtLeast(Permille),
    AtMost(Permille),
}

/// A share, with the place of the expectation that states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareAt {
    pub place: SourcePlace,
    pub share: SeedShare,
}

impl SeedShare {
    /// All seeds. This is the default.
    pub const ALL: SeedShare = SeedShare::AtLeast(Permille::new(1000));

    /// Whether the share is satisfied if the expectation held in `held` of `of` runs.
    pub fn holds(self, held: usize, of: usize) -> bool {
        let scaled = |part: usize| part as u128 * 1000;
        match self {
            SeedShare::AtLeast(least) if planted!(ShareIsRoundedToPercent) => {
                (held * 200 + of) / (of * 2) * 10 >= least.get() as usize
            }
            SeedShare::AtLeast(least) => scaled(held) >= u128::from(least.get()) * of as u128,
            SeedShare::AtMost(most) => scaled(held) <= u128::from(most.get()) * of as u128,
        }
    }

    /// Whether one run with this result counts against the share.
    pub fn is_against(self, passed: bool) -> bool {
        match self {
            SeedShare::AtLeast(_) => !passed,
            SeedShare::AtMost(_) => passed,
        }
    }
}

impl fmt::Display for SeedShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SeedShare::AtLeast(all) if *all == Permille::new(1000) => f.write_str("every seed"),
            SeedShare::AtLeast(least) => write!(f, "at least {least} of the seeds"),
            SeedShare::AtMost(most) => write!(f, "at most {most} of the seeds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_whole_runs() {
        let rows = [
            (SeedShare::AtLeast(Permille::new(950)), 95, 100, true),
            (SeedShare::AtLeast(Permille::new(950)), 94, 100, false),
            // 95% of 7 is 6.65, so 6 runs are not enough.
            (SeedShare::AtLeast(Permille::new(950)), 6, 7, false),
            // 18 of 19 are 94.7%, which is less than 95% although it is rounded to it.
            (SeedShare::AtLeast(Permille::new(950)), 18, 19, false),
            (SeedShare::AtMost(Permille::new(50)), 5, 100, true),
            (SeedShare::AtMost(Permille::new(50)), 6, 100, false),
            (SeedShare::ALL, 3, 3, true),
            (SeedShare::ALL, 2, 3, false),
        ];
        for (share, held, of, expected) in rows {
            assert_eq!(share.holds(held, of), expected, "{held} of {of}: {share}");
        }
    }
}
