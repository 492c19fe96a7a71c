//! Floor 1. Random numbers: one stream for each seed, purpose and entity.
//!
//! Owns every random draw of the crate. Each stream is a separate ChaCha8 generator, so adding a node or enabling a
//! fault changes no other stream's draws. Distributions are inverse transforms that call `libm` by name. `rand_distr`
//! and `f64::ln` are not used, because features that other crates enable can change their low bits. Must never take a
//! seed from the machine.

#![warn(clippy::unwrap_used)]

use std::cell::Cell;
use std::sync::LazyLock;

use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use dryrack_units::SimDuration;

/// Tells the keys of these streams from those of other programs. Its hash is the same for all streams.
static CONTEXT: LazyLock<ContextKey> = LazyLock::new(|| hash_derive_key_context("dryrack 2026 random streams"));

thread_local! {
    static DRAWS: Cell<u64> = const { Cell::new(0) };
}

/// The number of draws that this thread has made. A run without draws is the same for every seed.
pub fn draws() -> u64 {
    DRAWS.get()
}

/// The random numbers for one purpose and one entity.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of `purpose` (a constant in the code) for `entity` (an id or a number from [`entity`]) in a run with
    /// this seed.
    pub fn new(seed: u64, purpose: &'static str, entity: u64) -> Stream {
        let mut hasher = blake3::Hasher::new_from_context_key(&CONTEXT);
        hasher.update(&seed.to_le_bytes());
        hasher.update(&entity.to_le_bytes());
        hasher.update(purpose.as_bytes());
        Stream(ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()))
    }

    pub fn bits(&mut self) -> u64 {
        DRAWS.set(DRAWS.get().wrapping_add(1));
        self.0.next_u64()
    }

    /// A whole number from `low` to `high`, both included, without bias.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "empty interval {low}..={high}");
        let span = high - low;
        if span == u64::MAX {
            return self.bits();
        }
        let count = span + 1;
        // Values in the last, incomplete group of `count` values are drawn again.
        let unbiased = u64::MAX - (u64::MAX % count + 1) % count;
        loop {
            let bits = self.bits();
            if bits <= unbiased {
                return low + bits % count;
            }
        }
    }

    /// An index below `len`. Panics if `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        assert!(len > 0, "an index into nothing");
        self.between(0, len as u64 - 1) as usize
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// True with a probability of `permille` thousandths.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.between(0, 999) < permille
    }

    /// A number in `0.0..1.0` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from an exponential distribution: -ln(1 - U) times the mean (inverse transform; Devroye, *Non-Uniform
    /// Random Variate Generation*, 1986, II.2.1).
    pub fn exponential(&mut self, mean: SimDuration) -> SimDuration {
        scaled(mean, -libm::log(1.0 - self.unit()))
    }

    /// A number from a Weibull distribution: (-ln(1 - U))^(1/shape) times the scale (inverse transform; Devroye 1986,
    /// II.2.1). A `shape` below 1 models early failures, 1 gives the exponential distribution, and above 1 models wear.
    pub fn weibull(&mut self, shape: f64, scale: SimDuration) -> SimDuration {
        scaled(scale, libm::pow(-libm::log(1.0 - self.unit()), 1.0 / shape))
    }

    /// A number from a lognormal distribution: e^(sigma Z) times the median, where Z is standard normal.
    pub fn lognormal(&mut self, median: SimDuration, sigma: f64) -> SimDuration {
        let power = sigma * self.normal();
        scaled(median, libm::exp(power))
    }

    /// A number from the standard normal distribution: sqrt(-2 ln U) cos(2 pi V) (Box and Muller, *A Note on the
    /// Generation of Random Normal Deviates*, Annals of Mathematical Statistics 29, 1958). The method also gives a
    /// second number, with the sine, which is not used, so each call makes exactly two draws.
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// A number from a gamma distribution, by the cube of a normal with a squeeze (Marsaglia and Tsang, *A Simple
    /// Method for Generating Gamma Variables*, ACM Transactions on Mathematical Software 26, 2000). Panics if the shape
    /// is below 1.
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        assert!(shape >= 1.0, "a gamma distribution of shape {shape}");
        let third = shape - 1.0 / 3.0;
        let slope = 1.0 / libm::sqrt(9.0 * third);
        loop {
            let normal = self.normal();
            let root = 1.0 + slope * normal;
            let cube = root * root * root;
            let bound = normal * normal / 2.0 + third - third * cube;
            if root > 0.0 && libm::log(1.0 - self.unit()) < bound + third * libm::log(cube) {
                return scale * third * cube;
            }
        }
    }

    /// A duration from `low` to `high`, both included.
    pub fn duration(&mut self, low: SimDuration, high: SimDuration) -> SimDuration {
        SimDuration::from_nanos(self.between(low.as_nanos(), high.as_nanos()))
    }
}

/// The length times `factor`, in whole nanoseconds and at most the largest duration.
fn scaled(length: SimDuration, factor: f64) -> SimDuration {
    assert!(factor >= 0.0, "a length is not negative, and a number: {factor}");
    // The conversion to `u64` saturates.
    SimDuration::from_nanos((factor * length.as_nanos() as f64) as u64)
}

/// A number for an entity that is identified by names. It does not depend on other entities, so adding one changes no
/// draws.
pub fn entity(parts: &[&str]) -> u64 {
    let mut hasher = blake3::Hasher::new_derive_key("dryrack 2026 entities of random streams");
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let hash = hasher.finalize();
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("eight bytes"))
}

/// The distribution of a length of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Lengths {
    Fixed(SimDuration),
    /// A uniformly distributed length between these two, both included.
    Uniform(SimDuration, SimDuration),
    Exponential {
        mean: SimDuration,
    },
    Weibull {
        shape: f64,
        scale: SimDuration,
    },
    Lognormal {
        median: SimDuration,
        sigma: f64,
    },
}

impl Lengths {
    pub fn draw(self, stream: &mut Stream) -> SimDuration {
        match self {
            Lengths::Fixed(length) => length,
            Lengths::Uniform(low, high) => stream.duration(low, high),
            Lengths::Exponential { mean } => stream.exponential(mean),
            Lengths::Weibull { shape, scale } => stream.weibull(shape, scale),
            Lengths::Lognormal { median, sigma } => stream.lognormal(median, sigma),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_purpose_and_entity_alone() {
        let draw = |seed, purpose, entity| Stream::new(seed, purpose, entity).bits();
        assert_eq!(draw(7, "faults", 3), draw(7, "faults", 3));
        assert_ne!(draw(7, "faults", 3), draw(8, "faults", 3));
        assert_ne!(draw(7, "faults", 3), draw(7, "faults", 4));
        assert_ne!(draw(7, "faults", 3), draw(7, "retry", 3));
    }

    /// The mean of a gamma distribution is shape times scale, and the variance is the mean times scale. Both must be
    /// found within four standard errors. The standard error of the variance uses the fourth moment 3 + 6 / shape.
    #[test]
    fn gamma_has_its_analytic_mean_and_variance() {
        for (shape, scale) in [(1.0, 2.0), (4.2, 0.94), (312.0, 0.03)] {
            let mut stream = Stream::new(5, "test", 0);
            let drawn: Vec<f64> = (0..DRAWS).map(|_| stream.gamma(shape, scale)).collect();
            let count = DRAWS as f64;
            let mean = drawn.iter().sum::<f64>() / count;
            let variance = drawn.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
            let expected = shape * scale * scale;
            assert!((mean - shape * scale).abs() < 4.0 * (expected / count).sqrt(), "{shape}: mean {mean}");
            let error = expected * ((2.0 + 6.0 / shape) / count).sqrt();
            assert!((variance - expected).abs() < 4.0 * error, "{shape}: variance {variance} and not {expected}");
        }
    }

    #[test]
    fn a_closed_interval_reaches_both_ends() {
        let mut stream = Stream::new(1, "test", 0);
        let mut seen = [0u32; 3];
        for _ in 0..300 {
            seen[stream.between(0, 2) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 60), "{seen:?}");
        assert_eq!(stream.between(5, 5), 5);
    }

    const DRAWS: usize = 100_000;

    /// The draws in seconds, sorted.
    fn draws(lengths: Lengths) -> Vec<f64> {
        let mut stream = Stream::new(1, "test", 0);
        let mut drawn: Vec<f64> = (0..DRAWS).map(|_| lengths.draw(&mut stream).as_secs_f64()).collect();
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    /// The mean must be within three standard errors, sd / sqrt(n), of the analytic mean. For each quantile q, the
    /// share of draws below it must be within three standard errors, sqrt(q (1 - q) / n), of q.
    #[test]
    fn distributions_have_their_analytic_means_and_quantiles() {
        let secs = SimDuration::from_secs;
        let ln2 = std::f64::consts::LN_2;
        // Each row has the name, the distribution, the mean, the standard deviation, and the 10 %, 50 % and 90 %
        // quantiles, in seconds.
        let rows = [
            ("uniform", Lengths::Uniform(secs(10), secs(70)), 40.0, 60.0 / 12f64.sqrt(), [16.0, 40.0, 64.0]),
            // The quantiles are -ln(0.9), ln 2 and ln 10 times the mean.
            (
                "exponential",
                Lengths::Exponential { mean: secs(100) },
                100.0,
                100.0,
                [10.5360516, 100.0 * ln2, 230.2585093],
            ),
            // Shape 1/2: the mean is scale Gamma(3) = 2 scale; the variance is Gamma(5) - Gamma(3)^2 = 20; the
            // quantiles are (-ln(1 - q))^2.
            (
                "weibull",
                Lengths::Weibull { shape: 0.5, scale: secs(100) },
                200.0,
                100.0 * 20f64.sqrt(),
                [1.1100838, 100.0 * ln2 * ln2, 530.1898110],
            ),
            // The mean is e^(sigma^2/2), the variance is (e^(sigma^2) - 1) e^(sigma^2), and the quantiles are
            // e^(-+1.2815516 sigma).
            (
                "lognormal",
                Lengths::Lognormal { median: secs(100), sigma: 0.5 },
                113.3148453,
                60.3901,
                [52.6894, 100.0, 189.7915],
            ),
        ];
        for (name, lengths, mean, deviation, quantiles) in rows {
            let drawn = draws(lengths);
            let root = (DRAWS as f64).sqrt();
            let found = drawn.iter().sum::<f64>() / DRAWS as f64;
            assert!((found - mean).abs() < 3.0 * deviation / root, "{name}: mean {found}, expected {mean}");
            for (part, quantile) in [0.1f64, 0.5, 0.9].into_iter().zip(quantiles) {
                let below = drawn.partition_point(|draw| *draw < quantile) as f64 / DRAWS as f64;
                let error = (part * (1.0 - part)).sqrt() / root;
                assert!((below - part).abs() < 3.0 * error, "{name}: {below} below {quantile}, expected {part}");
            }
        }
    }

    #[test]
    fn the_normal_has_its_mean_and_variance() {
        let mut stream = Stream::new(1, "test", 0);
        let drawn: Vec<f64> = (0..DRAWS).map(|_| stream.normal()).collect();
        let mean = drawn.iter().sum::<f64>() / DRAWS as f64;
        let variance = drawn.iter().map(|draw| draw * draw).sum::<f64>() / DRAWS as f64;
        let root = (DRAWS as f64).sqrt();
        assert!(mean.abs() < 3.0 / root, "{mean}");
        // The square of a standard normal has mean 1 and variance 2.
        assert!((variance - 1.0).abs() < 3.0 * 2f64.sqrt() / root, "{variance}");
    }

    #[test]
    fn an_entity_is_its_parts_and_where_they_end() {
        assert_ne!(entity(&["ab", "c"]), entity(&["a", "bc"]));
        assert_eq!(entity(&["a", "b"]), entity(&["a", "b"]));
    }
}
