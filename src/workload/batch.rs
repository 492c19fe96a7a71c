//! Batches: several jobs that arrive at the same time.

use dryrack_rng::Stream;
use dryrack_units::SimTime;

/// How many jobs arrive at each arrival time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Always this many, at least one.
    Fixed(u32),
    /// A uniformly distributed number between these two, both included. The first is at least one.
    Uniform(u32, u32),
    /// A geometrically distributed number with this mean: after each job, another one follows with a constant
    /// probability.
    Geometric { mean: u32 },
}

impl Batch {
    /// Draws a batch size. A geometric size is 1 + floor(ln(1 - U) / ln(1 - p)) with p = 1 / mean (inverse transform;
    /// Devroye, *Non-Uniform Random Variate Generation*, 1986, X.2.1).
    pub fn draw(self, stream: &mut Stream) -> u32 {
        match self {
            Batch::Fixed(size) => size,
            Batch::Uniform(from, to) => u32::try_from(stream.between(from.into(), to.into())).unwrap_or(to),
            Batch::Geometric { mean: 0 | 1 } => 1,
            Batch::Geometric { mean } => {
                let stays = 1.0 - 1.0 / f64::from(mean);
                // The conversion to `u32` saturates.
                1 + (libm::log(1.0 - stream.unit()) / libm::log(stays)) as u32
            }
        }
    }

    /// Repeats each arrival time once for each job of its batch. Returns at most `most` times in total.
    pub fn spread(self, instants: &[SimTime], stream: &mut Stream, most: usize) -> Vec<SimTime> {
        let mut times = Vec::with_capacity(instants.len());
        for at in instants {
            let size = self.draw(stream) as usize;
            times.extend(std::iter::repeat_n(*at, size.min(most - times.len())));
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(batch: Batch, count: usize) -> Vec<u32> {
        let mut stream = Stream::new(1, "test", 0);
        (0..count).map(|_| batch.draw(&mut stream)).collect()
    }

    #[test]
    fn each_instant_has_its_batch_until_there_are_enough() {
        let instants = [1, 2, 3].map(SimTime::from_secs);
        let times = Batch::Fixed(4).spread(&instants, &mut Stream::new(1, "test", 0), 9);
        assert_eq!(times, [1, 1, 1, 1, 2, 2, 2, 2, 3].map(SimTime::from_secs));
        let sizes = sizes(Batch::Uniform(2, 5), 1000);
        assert!((2..=5).all(|size| sizes.contains(&size)) && sizes.iter().all(|size| (2..=5).contains(size)));
    }

    /// With mean 4, p is 1/4, so 1/4 of the sizes are 1, 3/16 of them are 2, and the variance (1 - p) / p^2 is 12.
    #[test]
    fn a_geometric_size_has_its_mean_and_its_ones() {
        let (count, sizes) = (20_000.0, sizes(Batch::Geometric { mean: 4 }, 20_000));
        let mean = sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / count;
        assert!((mean - 4.0).abs() < 3.0 * (12.0f64 / count).sqrt(), "{mean}");
        for (size, part) in [(1, 0.25), (2, 0.1875)] {
            let found = sizes.iter().filter(|found| **found == size).count() as f64 / count;
            assert!((found - part).abs() < 3.0 * (part * (1.0 - part) / count).sqrt(), "{size}: {found}");
        }
        assert_eq!(super::tests::sizes(Batch::Geometric { mean: 1 }, 3), [1, 1, 1]);
    }
}
