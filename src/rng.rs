//! Floor 0. Random numbers: one stream for each (seed, purpose, entity).
//!
//! Owns every draw of the crate. Each stream is a ChaCha8 generator of its own, so one more node, or a fault switched
//! on, moves no other draw. Distributions are inverse transforms through `libm` by name: `rand_distr` and `f64::ln`
//! change their low bits with the features that other crates switch on. Must never be seeded from the machine.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::units::SimDuration;

/// The draws of one purpose for one entity.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of `purpose` (a constant of the code) for `entity` (an id) in the run with this seed.
    pub fn new(seed: u64, purpose: &'static str, entity: u64) -> Stream {
        let mut hasher = blake3::Hasher::new_derive_key("dryrack 2026 random streams");
        hasher.update(&seed.to_le_bytes());
        hasher.update(&entity.to_le_bytes());
        hasher.update(purpose.as_bytes());
        Stream(ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number in the closed interval `low..=high`, without bias.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "empty interval {low}..={high}");
        let span = high - low;
        if span == u64::MAX {
            return self.bits();
        }
        let count = span + 1;
        // The last, incomplete run of `count` values is drawn again.
        let unbiased = u64::MAX - (u64::MAX % count + 1) % count;
        loop {
            let bits = self.bits();
            if bits <= unbiased {
                return low + bits % count;
            }
        }
    }

    /// An index below `len`, which must not be 0.
    pub fn index(&mut self, len: usize) -> usize {
        assert!(len > 0, "an index into nothing");
        self.between(0, len as u64 - 1) as usize
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// True `permille` times in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.between(0, 999) < permille
    }

    /// A number in `0.0..1.0` with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed with this mean (inverse transform).
    pub fn exponential(&mut self, mean: SimDuration) -> SimDuration {
        let draw = -libm::log(1.0 - self.unit()) * mean.as_nanos() as f64;
        SimDuration::from_nanos(draw.min(u64::MAX as f64) as u64)
    }

    /// A duration in the closed interval.
    pub fn duration(&mut self, low: SimDuration, high: SimDuration) -> SimDuration {
        SimDuration::from_nanos(self.between(low.as_nanos(), high.as_nanos()))
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

    #[test]
    fn the_exponential_has_its_mean() {
        let mut stream = Stream::new(1, "test", 0);
        let mean = SimDuration::from_secs(100);
        let sum: f64 = (0..100_000).map(|_| stream.exponential(mean).as_secs_f64()).sum();
        // Three standard errors of the mean of 100,000 draws: 3 * 100 / sqrt(100000) = 0.95.
        assert!((sum / 100_000.0 - 100.0).abs() < 0.95, "{}", sum / 100_000.0);
    }
}
