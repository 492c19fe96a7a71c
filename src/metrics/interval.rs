//! Confidence intervals: of the mean of several runs, of the mean over lists that were resampled from one log, and of a
//! share of all runs.

use dryrack_planted::planted;

/// A mean over runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean. `None` for a single run, and for too few lists that were
    /// resampled from one log. Also `None` if all runs give the same value, because equal values do not show how much
    /// further runs would vary.
    pub half_width: Option<f64>,
    /// The interval, if the mean is not in its middle. `half_width` is then half of its width.
    pub range: Option<(f64, f64)>,
    pub runs: usize,
    /// Whether all runs give the same value, as a single run does.
    pub is_constant: bool,
}

impl Estimate {
    /// The ends of the 95 % confidence interval, or of the range of [`range_over_runs`].
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.range.or_else(|| self.half_width.map(|half| (self.mean - half, self.mean + half)))
    }
}

/// How the runs of several seeds were resampled from one log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResampledFrom {
    /// The number of blocks that the log has.
    pub blocks: u64,
    /// The length of each new list in proportion to the log.
    pub length: f64,
}

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom: NIST/SEMATECH e-Handbook of Statistical
/// Methods, section 1.3.6.7.2, column 0.975.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// The same quantile of the normal distribution.
const Z_975: f64 = 1.959_963_984_540_054;

/// Computes the mean and its confidence interval by Student's t; `None` without values. Values are summed in the given
/// order, and the only function used is the square root. So the result has the same bytes everywhere.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let runs = values.len();
    if runs == 0 {
        return None;
    }
    if values.iter().all(|value| value.total_cmp(&values[0]).is_eq()) {
        return Some(Estimate { mean: values[0], half_width: None, range: None, runs, is_constant: true });
    }
    let mean = values.iter().sum::<f64>() / runs as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let variance = squares / (runs - usize::from(!planted!(VarianceOfThePopulation))) as f64;
    let half_width = student_t(runs - 1) * libm::sqrt(variance / runs as f64);
    Some(Estimate { mean, half_width: Some(half_width), range: None, runs, is_constant: false })
}

/// With this many runs, the smallest and the largest value are left out of a range.
pub const RUNS_FOR_A_TAIL: usize = 40;

/// Computes the mean of a quantile or a maximum over runs, and the range of its values: the 2.5th to the 97.5th percentile,
/// which with fewer than 40 runs are the smallest and the largest value. An interval of the mean would be of little use
/// here: such values are few, skewed, and may differ by orders of magnitude.
///
/// It is no 95 % interval. The range of n runs, n < 40, holds the median over all runs with a probability of 1 - 2^(1-n), and
/// the next run with a probability of (n-1)/(n+1). Over at least 40 lists that were resampled from one log, it is the 95 % percentile interval
/// of the bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3).
pub fn range_over_runs(values: &[f64]) -> Option<Estimate> {
    let plain = estimate(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / RUNS_FOR_A_TAIL;
    let (low, high) = (sorted[cut].min(plain.mean), sorted[sorted.len() - 1 - cut].max(plain.mean));
    Some(match plain.half_width {
        None => plain,
        Some(_) => Estimate { half_width: Some((high - low) / 2.0), range: Some((low, high)), ..plain },
    })
}

/// The fewest lists that give an interval, and the fewest blocks of their log.
pub const FEWEST_LISTS: usize = 5;

/// Computes the mean over lists that were resampled from one log, and the interval in which the mean over other logs of
/// the same process lies. It is the bootstrap's standard error, the standard deviation over the lists, with Student's t.
/// The log has few blocks and the lists are few, so the degrees of freedom are one less than the fewer of the two. More
/// lists do not make the interval vanish: the log stays one log. Fewer than five lists or blocks give no interval,
/// because it would be too wide to say anything.
///
/// The standard deviation is multiplied by the root of blocks / (blocks - 1), because drawing from a log of few blocks
/// shows too little spread; of 1 + 1 / lists, because the centre is a mean of few lists; and of the length of a list in
/// proportion to the log. If all values are positive, this is done with their logarithms. Waits are skewed to the right,
/// and without logarithms fewer intervals hold the true mean. If the values differ by orders of magnitude, their logarithms
/// would give an end of months for waits of minutes. An end beyond ten times the largest value is not used; the interval
/// is then computed from the values themselves.
pub fn estimate_resampled(values: &[f64], from: ResampledFrom) -> Option<Estimate> {
    let largest = values.iter().copied().fold(0.0, f64::max);
    let logarithms = || -> Option<(f64, f64)> {
        let logs: Option<Vec<f64>> = values.iter().map(|value| (*value > 0.0).then(|| libm::log(*value))).collect();
        let (low, high) = interval_of_lists(&logs?, from);
        Some((libm::exp(low), libm::exp(high))).filter(|(_, high)| *high <= 10.0 * largest)
    };
    over_lists(values, from, || logarithms().unwrap_or_else(|| interval_of_lists(values, from)))
}

/// Computes the mean of paired differences and its interval: one difference for each run, or for each list that was
/// resampled from one log. No logarithms are used, even if all differences are positive, because a difference can be
/// negative, and an interval of logarithms never holds 0.
pub fn estimate_difference(differences: &[f64], resampled: Option<ResampledFrom>) -> Option<Estimate> {
    match resampled {
        None => estimate(differences),
        Some(from) => over_lists(differences, from, || interval_of_lists(differences, from)),
    }
}

/// The mean with its interval, if there are enough different lists and blocks for one.
fn over_lists(values: &[f64], from: ResampledFrom, interval: impl FnOnce() -> (f64, f64)) -> Option<Estimate> {
    let plain = estimate(values)?;
    if plain.half_width.is_none() || from.blocks < FEWEST_LISTS as u64 || values.len() < FEWEST_LISTS {
        return Some(Estimate { half_width: None, ..plain });
    }
    let (low, high) = interval();
    // The mean can lie above the interval, whose centre is that of the logarithms.
    let (low, high) = (low.min(plain.mean), high.max(plain.mean));
    Some(Estimate { half_width: Some((high - low) / 2.0), range: Some((low, high)), ..plain })
}

fn interval_of_lists(values: &[f64], from: ResampledFrom) -> (f64, f64) {
    let (lists, blocks) = (values.len() as f64, from.blocks as f64);
    let centre = values.iter().sum::<f64>() / lists;
    let squares: f64 = values.iter().map(|value| (value - centre) * (value - centre)).sum();
    let variance = squares / (lists - 1.0) * blocks / (blocks - 1.0) * (1.0 + 1.0 / lists) * from.length;
    let freedom = (values.len() - 1).min(usize::try_from(from.blocks - 1).unwrap_or(usize::MAX));
    let half = student_t(freedom) * libm::sqrt(variance);
    (centre - half, centre + half)
}

/// The quantile of Student's t. Beyond the table, it uses the first two terms of an expansion about the normal
/// quantile, which is accurate to 1e-4: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
pub(super) fn student_t(freedom: usize) -> f64 {
    assert!(freedom > 0, "an interval needs at least two values");
    let freedom = freedom + usize::from(planted!(TQuantileOfNine) && freedom == 9);
    match T_975.get(freedom - 1) {
        Some(quantile) => *quantile,
        None => {
            let (z, n) = (Z_975, freedom as f64);
            let cube = z * z * z;
            z + (cube + z) / (4.0 * n) + (5.0 * cube * z * z + 16.0 * cube + 3.0 * z) / (96.0 * n * n)
        }
    }
}

/// A lower bound on the share of all possible runs that satisfy a constraint, given that `kept` of `runs` observed runs
/// did. It is the one-sided 95 % limit of Clopper and Pearson, The Use of Confidence or Fiducial Limits Illustrated in
/// the Case of the Binomial, Biometrika 26(4), 1934. Accurate to 1e-9.
pub fn share_at_least(kept: usize, runs: usize) -> f64 {
    assert!(kept <= runs, "{kept} of {runs}");
    if kept == 0 {
        return 0.0;
    }
    // The probability that at least `kept` of the runs satisfy the constraint, if `part` of all possible runs do.
    let chance = |part: f64| {
        let mut term = libm::pow(part, runs as f64);
        let mut sum = term;
        for lost in 1..=runs - kept {
            term *= (runs - lost + 1) as f64 / lost as f64 * (1.0 - part) / part;
            sum += term;
        }
        sum
    };
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 1e-9 {
        let middle = (low + high) / 2.0;
        let level = if planted!(ShareIsTwoSided) { 0.025 } else { 0.05 };
        if chance(middle) < level { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_few_that_all_keep_little_is_known_of_the_rest() {
        // If all n runs satisfy it: the nth root of 0.05. For 1 of 2: 1 - (1-p)² = 0.05. For 8 of 10: 45 p⁸(1-p)² + 10
        // p⁹(1-p) + p¹⁰ = 0.05.
        let rows = [(8, 8, 0.6877), (4, 4, 0.4729), (100, 100, 0.9705), (8, 10, 0.4931), (0, 5, 0.0), (1, 2, 0.0253)];
        for (kept, runs, least) in rows {
            let found = share_at_least(kept, runs);
            assert!((found - least).abs() < 1e-4, "{kept} of {runs}: {found}");
        }
    }

    #[test]
    fn an_interval_is_that_of_the_textbook() {
        // For 5, 7, 9: mean 7, s = 2, t(2) = 4.303, half width 4.303 * 2 / sqrt 3 = 4.969 (calculated by hand).
        let found = estimate(&[5.0, 7.0, 9.0]).expect("of three");
        assert_eq!((found.mean, found.runs), (7.0, 3));
        assert!((found.half_width.expect("of three") - 4.969).abs() < 1e-3, "{found:?}");
        assert_eq!(
            estimate(&[4.0]),
            Some(Estimate { mean: 4.0, half_width: None, range: None, runs: 1, is_constant: true })
        );
        assert_eq!(
            estimate(&[0.1; 5]),
            Some(Estimate { mean: 0.1, half_width: None, range: None, runs: 5, is_constant: true }),
            "nothing is random"
        );
        assert_eq!(estimate(&[]), None);
    }

    /// For the logarithms 0 to 4, the mean is 2 and the variance 2.5. With 5 blocks and 5 lists, t has 4 degrees of freedom:
    /// 2.776 * sqrt(2.5 * 5/4 * 6/5) = 5.376 (calculated by hand). Twice the length doubles the variance. All logarithms are
    /// divided by 4, so that no end is far from the values.
    #[test]
    fn an_interval_of_resampled_lists_is_that_of_their_logarithms() {
        let powers: Vec<f64> = (0..5).map(|power| libm::exp(f64::from(power) / 4.0)).collect();
        for (length, half) in [(1.0, 5.376), (2.0, 5.376 * 2f64.sqrt())] {
            let found = estimate_resampled(&powers, ResampledFrom { blocks: 5, length }).expect("of five");
            let (low, high) = found.interval().expect("of five");
            assert!(
                (4.0 * libm::log(low) - (2.0 - half)).abs() < 2e-3
                    && (4.0 * libm::log(high) - (2.0 + half)).abs() < 2e-3,
                "{found:?}"
            );
        }
        // A value of 0 has no logarithm.
        let numbers = [0.0, 1.0, 2.0, 3.0, 4.0];
        let found = estimate_resampled(&numbers, ResampledFrom { blocks: 5, length: 1.0 }).expect("of five");
        let (low, high) = found.interval().expect("of five");
        assert!((low + 3.376).abs() < 2e-3 && (high - 7.376).abs() < 2e-3, "{found:?}");
        let none = [
            estimate_resampled(&[5.0; 5], ResampledFrom { blocks: 5, length: 1.0 }),
            estimate_resampled(&numbers[..4], ResampledFrom { blocks: 5, length: 1.0 }),
            estimate_resampled(&numbers, ResampledFrom { blocks: 4, length: 1.0 }),
        ];
        for found in none {
            assert_eq!(found.expect("a mean").interval(), None, "nothing differs, or too few lists or blocks");
        }
    }

    /// Five waits between a second and a quarter of an hour. Student's t of their logarithms would end after days.
    #[test]
    fn an_interval_stays_near_its_values() {
        let waits = [1.0, 4.0, 30.0, 300.0, 887.0];
        let found = estimate_resampled(&waits, ResampledFrom { blocks: 28, length: 1.0 }).expect("of five");
        let (_, high) = found.interval().expect("of five");
        // The mean is 244.4 and the standard deviation 380.5: 244.4 + 2.776 * 380.5 * sqrt(28/27 * 6/5) = 1422.6.
        assert!((high - 1422.6).abs() < 0.5, "{found:?}");
        assert_eq!(range_over_runs(&waits).and_then(|found| found.interval()), Some((1.0, 887.0)));
        assert_eq!(range_over_runs(&[3.0; 5]).and_then(|found| found.interval()), None, "nothing differs");
        let many: Vec<f64> = (0..80).map(f64::from).collect();
        assert_eq!(
            range_over_runs(&many).and_then(|found| found.interval()),
            Some((2.0, 77.0)),
            "without 2.5% at each end"
        );
    }

    /// For the differences 1 to 5, the mean is 3 and the variance 2.5: 3 ± 2.776 * sqrt(2.5 * 5/4 * 6/5) = 5.376, so it is
    /// not certain that they are above 0. Of three lists, as of three blocks, nothing is said.
    #[test]
    fn an_interval_of_positive_differences_can_hold_0() {
        let differences = [1.0, 2.0, 3.0, 4.0, 5.0];
        let of = |lists: usize, blocks| {
            let from = ResampledFrom { blocks, length: 1.0 };
            estimate_difference(&differences[..lists], Some(from)).and_then(|found| found.interval())
        };
        let (low, high) = of(5, 5).expect("of five");
        assert!((low + 2.376).abs() < 1e-3 && (high - 8.376).abs() < 1e-3, "{low} to {high}");
        assert_eq!((of(3, 5), of(5, 3)), (None, None));
    }

    /// The logarithms of 1 (nine times) and 1,000,000 have the mean 1.38 and the standard deviation 4.37, so with 100
    /// blocks and a length of 0.01 the interval ends at exp(1.38 + 2.262 * 0.46) = 11, far below the mean of 100,000.
    #[test]
    fn an_interval_holds_its_own_mean() {
        let mut values = [1.0; 10];
        values[9] = 1e6;
        let found = estimate_resampled(&values, ResampledFrom { blocks: 100, length: 0.01 }).expect("of ten");
        let (low, high) = found.interval().expect("of ten");
        assert!(low <= found.mean && found.mean <= high, "{found:?}");
    }

    /// Integrates the density of Student's t from 0 to each quantile of the table: 47.5 % of it lie there. The table has
    /// three decimals, which is at most 3e-5 of the area.
    #[test]
    fn the_table_holds_the_quantiles_of_students_t() {
        for freedom in 1..=T_975.len() {
            let n = freedom as f64;
            let scale =
                libm::lgamma((n + 1.0) / 2.0) - libm::lgamma(n / 2.0) - libm::log(n * std::f64::consts::PI) / 2.0;
            let density = |t: f64| libm::exp(scale - (n + 1.0) / 2.0 * libm::log1p(t * t / n));
            let (steps, quantile) = (4000, student_t(freedom));
            let width = quantile / f64::from(steps);
            // Simpson's rule.
            let inner = (1..steps).map(|step| (f64::from(2 + 2 * (step % 2))) * density(width * f64::from(step)));
            let area = (density(0.0) + inner.sum::<f64>() + density(quantile)) * width / 3.0;
            assert!((area - 0.475).abs() < 3e-5, "{freedom} degrees of freedom: {quantile} covers {area}");
        }
    }

    #[test]
    fn beyond_the_table_the_quantile_is_that_of_longer_tables() {
        // From the same table of NIST: 40, 60 and 100 degrees of freedom.
        for (freedom, quantile) in [(40, 2.021), (60, 2.000), (100, 1.984)] {
            assert!((student_t(freedom) - quantile).abs() < 5e-4, "{freedom}: {}", student_t(freedom));
        }
    }
}
