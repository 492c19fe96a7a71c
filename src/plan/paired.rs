//! Compares two alternatives job by job: which jobs wait longer, which wait less, and a confidence interval of the
//! difference.
//!
//! Each job of one alternative is paired with the job of the same name and seed in the other alternative, so that the
//! random draws that both share cancel out. Jobs of one run are not independent observations, because they wait for the
//! same machines. Seeds are independent, so the mean difference for each seed is one observation. The interval is
//! Student's t over these observations (paired replications: Law, Simulation Modeling and Analysis, 5th edition,
//! section 10.2.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use dryrack_metrics::RunAccount;
use dryrack_metrics::{Estimate, ResampledFrom, estimate_difference};
use dryrack_units::{SimDuration, SimTime};

/// The least difference of two waits with which a job counts as waiting longer or shorter. Logs of schedulers have whole
/// seconds, and a change of profile moves the start of passes by parts of a second.
const LEAST_CHANGE: SimDuration = SimDuration::from_secs(1);

/// The wait of a job in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobWait {
    pub submitted: SimTime,
    /// The longest wait among the job's replicas, from when a replica was wanted until it was first placed. A replica
    /// that was never placed waits until it ends, or until the run ends.
    pub wait: SimDuration,
    /// Whether all of its replicas were placed.
    pub placed: bool,
}

/// A job that exists in both alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairedJob {
    pub seed: u64,
    pub name: Arc<str>,
    pub first: JobWait,
    pub second: JobWait,
}

/// The paired jobs with one seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairedSeed {
    /// The jobs of both alternatives, in the order of the first.
    pub jobs: Vec<PairedJob>,
    /// The number of jobs that exist only in the first alternative; the next field counts those that exist only in the
    /// second.
    pub only_first: usize,
    pub only_second: usize,
}

/// The difference over all seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Among the jobs that both alternatives placed: how many wait at least a second longer or less with the second
    /// alternative, how many equally long, and how many with a difference below a second.
    pub longer: usize,
    pub less: usize,
    pub same: usize,
    pub below_a_second: usize,
    /// How many jobs were placed only by the first alternative, only by the second, or by neither.
    pub placed_by_first: usize,
    pub placed_by_second: usize,
    pub placed_by_neither: usize,
    pub only_first: usize,
    pub only_second: usize,
    /// The wait with the second alternative minus the wait with the first, in seconds, over jobs that both placed. Each
    /// seed with such jobs is one observation.
    pub mean: Option<Estimate>,
    /// The number of seeds in which the mean wait rises, and in which it falls.
    pub seeds_longer: usize,
    pub seeds_less: usize,
}

/// The waits of a run's jobs, in the order of their submission.
fn waits(run: &RunAccount) -> impl Iterator<Item = (&Arc<str>, JobWait)> {
    run.jobs.values().map(|job| {
        let waited = job
            .replicas
            .iter()
            .map(|replica| replica.placed.or(replica.ended).unwrap_or(run.now).since(replica.wanted));
        let wait = waited.max().unwrap_or(SimDuration::ZERO);
        let placed = job.replicas.iter().all(|replica| replica.placed.is_some());
        (&job.spec.name, JobWait { submitted: job.submitted, wait, placed })
    })
}

/// Pairs the jobs of two runs with the same seed. Leaves out jobs whose wait in the first run ended before `from`.
pub fn pair(seed: u64, first: &RunAccount, second: &RunAccount, from: SimTime) -> PairedSeed {
    let mut others: BTreeMap<&str, JobWait> = waits(second).map(|(name, waited)| (&**name, waited)).collect();
    let mut paired = PairedSeed::default();
    for (name, waited) in waits(first) {
        let other = others.remove(&**name);
        if waited.submitted.saturating_add(waited.wait) < from {
            continue;
        }
        match other {
            Some(second) => paired.jobs.push(PairedJob { seed, name: Arc::clone(name), first: waited, second }),
            None => paired.only_first += 1,
        }
    }
    paired.only_second = others.len();
    paired
}

impl PairedJob {
    /// The wait in the second run minus the wait in the first, in seconds.
    pub fn seconds(&self) -> f64 {
        self.second.wait.as_secs_f64() - self.first.wait.as_secs_f64()
    }

    fn change(&self) -> u64 {
        self.second.wait.as_nanos().abs_diff(self.first.wait.as_nanos())
    }

    /// Whether the waits differ by a second or more.
    fn is_changed(&self) -> bool {
        self.change() >= LEAST_CHANGE.as_nanos()
    }

    fn is_placed(&self) -> bool {
        self.first.placed && self.second.placed
    }
}

/// Combines the seeds into one difference. `resampled` says how their lists were resampled from one log, if they were.
pub fn difference(seeds: &[PairedSeed], resampled: Option<ResampledFrom>) -> Difference {
    let jobs = || seeds.iter().flat_map(|seed| &seed.jobs);
    let count = |is_so: fn(&PairedJob) -> bool| jobs().filter(|job| is_so(job)).count();
    let means: Vec<f64> = seeds
        .iter()
        .filter_map(|seed| {
            let all: Vec<f64> = seed.jobs.iter().filter(|job| job.is_placed()).map(PairedJob::seconds).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        })
        .collect();
    Difference {
        longer: count(|job| job.is_placed() && job.is_changed() && job.second.wait > job.first.wait),
        less: count(|job| job.is_placed() && job.is_changed() && job.second.wait < job.first.wait),
        same: count(|job| job.is_placed() && job.change() == 0),
        below_a_second: count(|job| job.is_placed() && job.change() > 0 && !job.is_changed()),
        placed_by_first: count(|job| job.first.placed && !job.second.placed),
        placed_by_second: count(|job| !job.first.placed && job.second.placed),
        placed_by_neither: count(|job| !job.first.placed && !job.second.placed),
        only_first: seeds.iter().map(|seed| seed.only_first).sum(),
        only_second: seeds.iter().map(|seed| seed.only_second).sum(),
        mean: estimate_difference(&means, resampled),
        seeds_longer: means.iter().filter(|mean| **mean > 0.0).count(),
        seeds_less: means.iter().filter(|mean| **mean < 0.0).count(),
    }
}

/// The jobs whose wait changed most, by a second or more. Ties are ordered by seed, then in the order of the jobs.
pub fn most_changed(seeds: &[PairedSeed], most: usize) -> Vec<&PairedJob> {
    let mut jobs: Vec<&PairedJob> = seeds.iter().flat_map(|seed| &seed.jobs).filter(|job| job.is_changed()).collect();
    // The sort is stable, so ties keep their order.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.change()));
    jobs.truncate(most);
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(wait: u64, placed: bool) -> JobWait {
        JobWait { submitted: SimTime::ZERO, wait: SimDuration::from_secs(wait), placed }
    }

    fn seed(seed: u64, jobs: &[(&str, u64, u64)]) -> PairedSeed {
        let job = |(name, first, second): &(&str, u64, u64)| PairedJob {
            seed,
            name: Arc::from(*name),
            first: waited(*first, true),
            second: waited(*second, true),
        };
        PairedSeed { jobs: jobs.iter().map(job).collect(), ..PairedSeed::default() }
    }

    /// The seed means of 5, 7 and 9 s give 7 ± 4.969, as in the textbook's interval. Treating all jobs as independent
    /// would give 6 differences and another interval.
    #[test]
    fn a_seed_is_one_observation_however_many_jobs_it_has() {
        let seeds = [
            seed(1, &[("a", 10, 15)]),
            seed(2, &[("a", 0, 14), ("b", 7, 7)]),
            seed(3, &[("a", 30, 29), ("b", 0, 28), ("c", 1, 1)]),
        ];
        let found = difference(&seeds, None);
        assert_eq!((found.longer, found.less, found.same), (3, 1, 2));
        assert_eq!((found.seeds_longer, found.seeds_less), (3, 0));
        let mean = found.mean.expect("of three");
        assert_eq!((mean.mean, mean.runs), (7.0, 3));
        assert!((mean.half_width.expect("of three") - 4.969).abs() < 1e-3, "{mean:?}");
        let names: Vec<(u64, &str)> = most_changed(&seeds, 3).iter().map(|job| (job.seed, &*job.name)).collect();
        assert_eq!(names, [(3, "b"), (2, "a"), (1, "a")]);
    }

    /// The waits differ by 1 s, 1 s minus 1 ns, 0.2 ms and nothing, in both directions.
    #[test]
    fn a_difference_below_a_second_is_neither_longer_nor_shorter() {
        let second = 1_000_000_000;
        let both = |change: u64, is_longer: bool| {
            let waits = [5 * second, 5 * second + change].map(|nanos| JobWait {
                submitted: SimTime::ZERO,
                wait: SimDuration::from_nanos(nanos),
                placed: true,
            });
            let [first, second] = if is_longer { waits } else { [waits[1], waits[0]] };
            PairedJob { seed: 1, name: format!("{change}-{is_longer}").into(), first, second }
        };
        let changes = [second, second - 1, 200_000, 0];
        let jobs = changes.into_iter().flat_map(|change| [both(change, true), both(change, false)]).collect();
        let seeds = [PairedSeed { jobs, ..PairedSeed::default() }];
        let found = difference(&seeds, None);
        assert_eq!((found.longer, found.less, found.same, found.below_a_second), (1, 1, 2, 4));
        assert_eq!(most_changed(&seeds, 5).len(), 2);
    }

    #[test]
    fn who_has_no_place_is_counted_and_not_averaged() {
        let job = |name: &str, first: JobWait, second: JobWait| PairedJob { seed: 1, name: name.into(), first, second };
        let jobs = vec![
            job("both", waited(5, true), waited(6, true)),
            job("first", waited(5, true), waited(500, false)),
            job("second", waited(500, false), waited(5, true)),
            job("neither", waited(500, false), waited(500, false)),
        ];
        let found = difference(&[PairedSeed { jobs, only_first: 2, only_second: 3 }], None);
        assert_eq!((found.placed_by_first, found.placed_by_second, found.placed_by_neither), (1, 1, 1));
        assert_eq!((found.longer, found.less, found.same, found.only_first, found.only_second), (1, 0, 0, 2, 3));
        assert_eq!(found.mean, Some(Estimate { mean: 1.0, half_width: None, range: None, runs: 1, is_constant: true }));
    }
}
