//! How long the program's answers took, in real time. These times are printed, and never affect a run.

use std::fmt;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Timings {
    took: Vec<Duration>,
    pub decisions: u64,
}

impl Timings {
    pub fn add(&mut self, took: Duration) {
        self.took.push(took);
    }

    pub fn questions(&self) -> usize {
        self.took.len()
    }

    pub fn total(&self) -> Duration {
        self.took.iter().sum()
    }

    /// A quantile of the answer times, given in thousandths.
    pub fn quantile(&self, permille: usize) -> Option<Duration> {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len().checked_sub(1)? * permille).div_ceil(1000)).copied()
    }
}

impl fmt::Display for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (questions, decisions) = (self.questions(), self.decisions);
        write!(f, "{questions} questions, {decisions} decisions")?;
        let quantiles = [("median", 500), ("p95", 950), ("max", 1000)];
        for (name, permille) in quantiles {
            if let Some(took) = self.quantile(permille) {
                write!(f, ", {name} {:.3} ms", took.as_secs_f64() * 1000.0)?;
            }
        }
        Ok(())
    }
}
