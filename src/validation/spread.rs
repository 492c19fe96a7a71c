//! The distribution of errors.

use std::fmt;

/// The spread of errors in nanoseconds. An error is positive if the machine was later. Each figure is a value that
/// really occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    pub count: usize,
    pub least: i64,
    pub median: i64,
    /// The 95th percentile of the absolute errors.
    pub p95: u64,
    pub most: i64,
    /// The largest absolute error.
    pub worst: u64,
}

impl Spread {
    /// The spread of these errors. `None` if there are none.
    pub fn of(errors: impl IntoIterator<Item = i64>) -> Option<Spread> {
        let mut errors: Vec<i64> = errors.into_iter().collect();
        errors.sort_unstable();
        let (least, most) = (*errors.first()?, *errors.last()?);
        let median = errors[(errors.len() - 1) / 2];
        let mut sizes: Vec<u64> = errors.iter().map(|error| error.unsigned_abs()).collect();
        sizes.sort_unstable();
        // The nearest-rank quantile.
        let p95 = sizes[(sizes.len() * 95).div_ceil(100) - 1];
        Some(Spread { count: errors.len(), least, median, p95, most, worst: sizes[sizes.len() - 1] })
    }
}

/// A signed number of seconds, such as `+0.004s`.
pub(super) fn signed(nanos: i64) -> String {
    format!("{:+.3}s", nanos as f64 / 1e9)
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p95 = self.p95 as f64 / 1e9;
        let [least, median, most] = [self.least, self.median, self.most].map(signed);
        write!(f, "median {median}, 95 % within {p95:.3}s, from {least} to {most} (n={})", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_values_that_occurred() {
        assert_eq!(Spread::of([]), None);
        let found = Spread::of([3, -10, 1, 2]).expect("there are some");
        assert_eq!(found, Spread { count: 4, least: -10, median: 1, p95: 10, most: 3, worst: 10 });
        let hundred = Spread::of(1..=100).expect("there are some");
        assert_eq!((hundred.median, hundred.p95), (50, 95));
    }
}
