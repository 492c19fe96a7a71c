//! How fast GPUs do a kind of work. The figures are published measurements or data sheets.
//!
//! Two GPUs are compared only by figures of the same benchmark. If no benchmark has both, their relation is unknown.

use std::sync::LazyLock;

use serde::Serialize;

use dryrack_units::decimal;

use super::kind::KindError;
use super::row::{Row, rows};

/// A kind of work. The figures of each kind are in `speeds.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The peak rate of computing, for work that computing limits.
    Compute,
    Hpc,
    InferenceDecode,
    InferencePrefill,
    /// The peak memory bandwidth, for work that memory limits.
    Memory,
    Training,
}

impl Work {
    pub const ALL: [Work; 6] =
        [Work::Compute, Work::Hpc, Work::InferenceDecode, Work::InferencePrefill, Work::Memory, Work::Training];

    pub fn name(self) -> &'static str {
        match self {
            Work::Compute => "compute",
            Work::Hpc => "hpc",
            Work::InferenceDecode => "inference_decode",
            Work::InferencePrefill => "inference_prefill",
            Work::Memory => "memory",
            Work::Training => "training",
        }
    }
}

impl std::str::FromStr for Work {
    type Err = KindError;
    fn from_str(text: &str) -> Result<Work, KindError> {
        let found = Work::ALL.into_iter().find(|work| work.name() == text);
        found.ok_or_else(|| KindError { text: text.to_string(), expected: "a kind of work" })
    }
}

/// The rate of one GPU in one benchmark; a row of `speeds.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    pub work: Work,
    pub gpu: &'static str,
    /// The rate in thousandths of `unit`.
    pub rate_milli: u64,
    pub unit: &'static str,
    /// What was measured. Rates of different benchmarks are not comparable.
    pub benchmark: &'static str,
    pub source: &'static str,
    /// The date of the source, as YYYY-MM-DD.
    pub as_of: &'static str,
}

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let read = |row: Row| Figure {
        work: row.required("work"),
        gpu: row.text("gpu"),
        rate_milli: rate(row.text("rate")).unwrap_or_else(|| panic!("{}: not a rate above 0", row.place)),
        unit: row.text("unit"),
        benchmark: row.text("benchmark"),
        source: row.text("source"),
        as_of: row.text("as_of"),
    };
    rows("speeds.csv", include_str!("speeds.csv")).map(read).collect()
});

fn rate(text: &str) -> Option<u64> {
    decimal(text, 1000, "a rate").ok().filter(|rate| *rate > 0)
}

/// All figures, sorted by kind of work.
pub fn figures() -> &'static [Figure] {
    &FIGURES
}

/// The figures of `gpu` and of `reference` in the first benchmark of this kind of work that has both.
pub fn figures_of_both(work: Work, gpu: &str, reference: &str) -> Option<(&'static Figure, &'static Figure)> {
    let of = |name: &str| {
        let name = name.to_string();
        FIGURES.iter().filter(move |figure| figure.work == work && figure.gpu == name)
    };
    let pair = |one: &'static Figure| Some((one, of(reference).find(|other| other.benchmark == one.benchmark)?));
    of(gpu).find_map(pair)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu;

    #[test]
    fn every_figure_is_of_a_known_gpu_and_says_where_it_comes_from() {
        for (at, figure) in figures().iter().enumerate() {
            assert!(gpu(figure.gpu).is_some_and(|model| model.name == figure.gpu), "{figure:?}");
            assert!(figure.source.len() >= 10 && figure.as_of.len() == 10 && !figure.unit.is_empty(), "{figure:?}");
            let twin = |other: &&Figure| (other.gpu, other.benchmark) == (figure.gpu, figure.benchmark);
            assert!(!figures()[..at].iter().any(|other| twin(&other)), "{figure:?} is there twice");
            let peers = figures().iter().filter(|other| other.benchmark == figure.benchmark);
            assert!(peers.clone().all(|other| (other.work, other.unit) == (figure.work, figure.unit)), "{figure:?}");
            assert!(peers.count() > 1, "{figure:?} can be compared with nothing");
        }
        for work in Work::ALL {
            assert!(figures().iter().any(|figure| figure.work == work), "{}", work.name());
            assert_eq!(work.name().parse::<Work>(), Ok(work));
        }
    }

    #[test]
    fn gpus_are_compared_by_one_benchmark() {
        let rates = |work, gpu, reference| {
            figures_of_both(work, gpu, reference).map(|(one, other)| (one.rate_milli, other.rate_milli))
        };
        assert_eq!(rates(Work::Training, "h100-80g", "a100-80g"), Some((301_000, 152_000)));
        assert_eq!(rates(Work::Training, "v100-16g", "a100-80g"), Some((57_000, 152_000)));
        assert_eq!(rates(Work::Training, "p100-16g", "v100-16g"), Some((2_619, 4_395)));
        assert_eq!(rates(Work::Memory, "h100-80g", "a100-80g"), Some((3_350_000, 2_000_000)));
        assert_eq!(rates(Work::InferenceDecode, "h200-141g", "h100-80g"), Some((247_900, 184_600)));
        // No benchmark has both.
        assert_eq!(rates(Work::Training, "p100-16g", "a100-80g"), None);
        assert_eq!(rates(Work::Training, "m2-ultra", "a100-80g"), None);
    }
}
