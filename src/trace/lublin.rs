//! Synthetic jobs of a parallel machine: the model of Lublin and Feitelson.
//!
//! Source: *The Workload on Parallel Supercomputers: Modeling the Characteristics of Rigid Jobs*, Journal of Parallel
//! and Distributed Computing 63, 2003. The parameters, the cuts and the weight of each half hour come from the authors'
//! program `lublin99` (Parallel Workloads Archive). The random draws are dryrack's own. So a list resembles the lists
//! of that program but is not equal to one of them.
//!
//! - *Width.* Some jobs take one processor. For the other jobs, the binary logarithm of the width is uniform in one of
//!   two intervals. Some of these widths are rounded to a power of two.
//! - *Length.* The natural logarithm of the length follows one of two gamma distributions, one for short and one for
//!   long jobs. Wider jobs are more often long. A length above e^12 s, which is nearly two days, is drawn again.
//! - *Arrival.* The natural logarithm of a gap follows a gamma distribution. A logarithm above 13 is drawn again. A gap
//!   is measured in *points*. Each half hour of the day has a number of points in proportion to its share of a gamma
//!   distribution over the day. The mean half hour has 1,800 points.

use serde::{Deserialize, Serialize};

use dryrack_rng::Stream;
use dryrack_units::{SimDuration, SimTime};

use super::daily::{Clock, Daily, HALF_HOUR, HALF_HOURS};
use super::gamma::Gamma;
use super::row::TraceTask;

/// The parameters of one kind of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// The share of jobs that take one processor, and the share of jobs whose width is rounded to a power of two.
    pub serial: f64,
    pub powers: f64,
    /// The binary logarithms of the least width, of the width at which the two intervals meet, and of the greatest
    /// width. The next field is the share of jobs in the first interval.
    pub widths: [f64; 3],
    pub narrow: f64,
    pub short: Gamma,
    pub long: Gamma,
    /// The share of short jobs at width zero, and the change of this share with each processor.
    pub shorts: (f64, f64),
    pub gap: Gamma,
    /// The distribution of submissions over a day that begins at 5 o'clock, in half hours from midnight. `None` if all
    /// hours have the same weight.
    pub day: Option<Gamma>,
    /// The half hour, counted from midnight, at which the day begins. In the authors' program this is half hour 10,
    /// which is 5 o'clock.
    pub day_begins: u32,
    /// The natural logarithm of the longest run in seconds, and of the longest gap in points.
    pub longest_run: f64,
    pub longest_gap: f64,
}

/// Which kinds of jobs are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kinds {
    /// One kind, with the authors' parameters for all jobs together.
    One,
    /// Two kinds, interactive and batch jobs. Each has its own parameters and arrivals.
    InteractiveAndBatch,
    /// One kind with these parameters.
    Of(Kind),
}

/// The half hour with which the day begins in the authors' program: 5 o'clock.
pub(super) const FIRST_HALF_HOUR: u32 = 10;
/// The largest natural logarithms of a run in seconds and of a gap in points.
const LONGEST_RUN: f64 = 12.0;
const LONGEST_GAP: f64 = 13.0;

const fn gamma(shape: f64, scale: f64) -> Gamma {
    Gamma { shape, scale }
}

impl Kind {
    /// The parameters for all jobs together, on a machine with this number of processors. (The authors' program has 128
    /// processors.) The two intervals of widths meet at the base-2 logarithm of the greatest width minus 2.5.
    fn all(processors: u32) -> Kind {
        let widest = libm::log2(f64::from(processors));
        Kind {
            serial: 0.244,
            powers: 0.576,
            widths: [0.8, widest - 2.5, widest],
            narrow: 0.86,
            short: gamma(4.2, 0.94),
            long: gamma(312.0, 0.03),
            shorts: (0.78, -0.0054),
            gap: gamma(10.2303 * 1.0225, 0.4871),
            day: Some(gamma(8.1737, 3.9631)),
            day_begins: FIRST_HALF_HOUR,
            longest_run: LONGEST_RUN,
            longest_gap: LONGEST_GAP,
        }
    }

    /// Batch jobs. In the authors' program the intervals meet 2 below the logarithm of the greatest width.
    fn batch(processors: u32) -> Kind {
        let widest = libm::log2(f64::from(processors));
        Kind {
            serial: 0.2927,
            powers: 0.6686,
            widths: [1.2, widest - 2.0, widest],
            narrow: 0.875,
            short: gamma(6.57, 0.823),
            long: gamma(639.1, 0.0156),
            shorts: (0.6986, -0.003),
            gap: gamma(6.0415 * 1.0519, 0.8531),
            day: Some(gamma(6.1271, 5.2740)),
            day_begins: FIRST_HALF_HOUR,
            longest_run: LONGEST_RUN,
            longest_gap: LONGEST_GAP,
        }
    }

    /// Interactive jobs. In the authors' program the logarithm of their greatest width is 1.5 below that of the
    /// machine.
    fn interactive(processors: u32) -> Kind {
        let widest = libm::log2(f64::from(processors)) - 1.5;
        Kind {
            serial: 0.1541,
            powers: 0.625,
            widths: [1.0, widest - 2.5, widest],
            narrow: 0.705,
            short: gamma(3.8351, 0.6605),
            long: gamma(7.073, 0.6856),
            shorts: (0.9156, -0.0118),
            gap: gamma(6.5510 * 0.9797, 0.6621),
            day: Some(gamma(8.9186, 3.6680)),
            day_begins: FIRST_HALF_HOUR,
            longest_run: LONGEST_RUN,
            longest_gap: LONGEST_GAP,
        }
    }

    pub(super) fn daily(&self) -> Daily {
        let Some(day) = self.day else { return Daily::even() };
        let mut parts = [0.0; HALF_HOURS];
        for (place, part) in parts_of_a_day(day).into_iter().enumerate() {
            parts[(self.day_begins as usize + place) % HALF_HOURS] = part;
        }
        Daily::of(parts)
    }

    fn width(&self, draws: &mut Stream, processors: u32) -> u32 {
        let which = draws.unit();
        if which <= self.serial {
            return 1;
        }
        let [low, middle, high] = self.widths;
        let (from, to) = if draws.unit() <= self.narrow { (low, middle) } else { (middle, high) };
        let drawn = from + (to - from) * draws.unit();
        let logarithm = if which <= self.serial + self.powers { libm::floor(drawn + 0.5) } else { drawn };
        // Rounding up can exceed the size of the machine if it is not a power of two.
        ((libm::exp2(logarithm) + 0.5) as u32).clamp(1, processors)
    }

    fn length(&self, draws: &mut Stream, width: u32) -> SimDuration {
        let (most, slope) = self.shorts;
        let shorts = (most + slope * f64::from(width)).clamp(0.0, 1.0);
        loop {
            let of = if draws.unit() <= shorts { self.short } else { self.long };
            let logarithm = draws.gamma(of.shape, of.scale);
            if logarithm <= self.longest_run {
                // Use whole seconds, as a machine's log does.
                return SimDuration::from_secs(libm::exp(logarithm) as u64);
            }
        }
    }
}

/// The share of submissions in each half hour of a day, beginning at 5 o'clock.
pub(super) fn parts_of_a_day(day: Gamma) -> [f64; HALF_HOURS] {
    std::array::from_fn(|place| {
        let number = (FIRST_HALF_HOUR as usize + 1 + place) as f64;
        day.below(number + 0.5) - day.below(number - 0.5)
    })
}

/// The arrivals of one kind of jobs, beginning at midnight.
struct Arrivals {
    kind: Kind,
    clock: Clock,
}

impl Arrivals {
    fn new(kind: Kind) -> Arrivals {
        Arrivals { kind, clock: Clock::new(kind.daily()) }
    }

    /// The time of the next arrival. `None` if it is too large to represent.
    fn next(&mut self, draws: &mut Stream) -> Option<SimTime> {
        loop {
            let logarithm = draws.gamma(self.kind.gap.shape, self.kind.gap.scale);
            if logarithm <= self.kind.longest_gap {
                return self.clock.forward(libm::exp(logarithm) / HALF_HOUR.as_secs_f64());
            }
        }
    }
}

/// The smallest machine on which the width intervals of interactive jobs are not empty.
pub const LEAST_PROCESSORS: u32 = 32;

/// Draws the first `count` jobs, beginning at midnight, in order of submission. Draws fewer if the time becomes too
/// large to represent. Interactive jobs are in queue 0, and batch jobs are in queue 1. If there is only one kind, all
/// jobs are in queue 0. Panics if the machine has fewer than [`LEAST_PROCESSORS`], unless the kind is [`Kinds::Of`].
pub fn lublin(kinds: Kinds, processors: u32, count: u64, seed: u64) -> impl Iterator<Item = TraceTask> {
    let is_own = matches!(kinds, Kinds::Of(_));
    assert!(is_own || processors >= LEAST_PROCESSORS, "a machine of {processors} processors");
    let kinds = match kinds {
        Kinds::Of(kind) => vec![kind],
        Kinds::One => vec![Kind::all(processors)],
        Kinds::InteractiveAndBatch => vec![Kind::interactive(processors), Kind::batch(processors)],
    };
    // Each kind has its own random streams, so no kind changes the draws of another.
    let source = |(kind, number): (Kind, u64)| {
        let (mut gaps, jobs) = (Stream::new(seed, "model arrivals", number), Stream::new(seed, "model jobs", number));
        let mut arrivals = Arrivals::new(kind);
        let first = arrivals.next(&mut gaps);
        (arrivals, gaps, jobs, first)
    };
    let mut sources: Vec<(Arrivals, Stream, Stream, Option<SimTime>)> =
        kinds.into_iter().zip(0..).map(source).collect();
    (1..=count).map_while(move |number| {
        let at = |index: usize| sources[index].3.unwrap_or(SimTime::MAX);
        let next = (0..sources.len()).min_by_key(|index| (at(*index), *index))?;
        let (arrivals, gaps, jobs, at) = &mut sources[next];
        // Use whole seconds, as a machine's log does.
        let submit = SimTime::from_secs(std::mem::replace(at, arrivals.next(gaps))?.as_nanos() / 1_000_000_000);
        let width = arrivals.kind.width(jobs, processors);
        let task = TraceTask::new(number.to_string(), number, submit, arrivals.kind.length(jobs, width));
        Some(TraceTask { processors: Some(width), queue: Some(next as u32), ..task })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each share must be within four standard errors of the share that the parameters imply.
    #[test]
    fn widths_are_serial_powers_of_two_and_others() {
        let count = 50_000;
        let jobs: Vec<u32> = lublin(Kinds::One, 128, count, 1).map(|job| job.processors.unwrap()).collect();
        let near = |width: u32, expected: f64| {
            let found = jobs.iter().filter(|job| **job == width).count() as f64 / count as f64;
            let error = (expected * (1.0 - expected) / count as f64).sqrt();
            assert!((found - expected).abs() < 4.0 * error, "{width}: {found} and not {expected}");
        };
        near(1, 0.244);
        // Jobs with rounded widths get width 2 for logarithms from 0.8 to 1.5. Jobs with other widths get it for
        // logarithms below log2(2.5), which is 1.321928. The first interval has 86 % of the jobs and ends at 4.5, so
        // its length is 3.7.
        near(2, 0.86 * (0.576 * 0.7 + 0.18 * 0.521928) / 3.7);
        // Jobs with rounded widths get width 128 for logarithms from 6.5 on. Jobs with other widths get it for
        // logarithms from log2(127.5) on, which is 6.994353. The second interval has 14 % of the jobs and extends from
        // 4.5 to 7, so its length is 2.5.
        near(128, 0.14 * (0.576 * 0.5 + 0.18 * 0.005647) / 2.5);
        assert!(jobs.iter().all(|width| (1..=128).contains(width)));
    }

    /// For a serial job, the logarithm of the length has the mean p a1 b1 + (1 - p) a2 b2 with p = 0.78 - 0.0054, which
    /// is 5.1676. Its standard deviation is about 2.8. The cut at 12 and the rounding to whole seconds change the mean
    /// by less than a hundredth.
    #[test]
    fn lengths_are_hyper_gamma() {
        let (mut draws, kind, count) = (Stream::new(3, "test", 0), Kind::all(128), 50_000);
        let logarithm = |length: SimDuration| libm::log(length.as_secs_f64() + 0.5);
        let sum: f64 = (0..count).map(|_| logarithm(kind.length(&mut draws, 1))).sum();
        let mean = sum / f64::from(count);
        assert!((mean - 5.1676).abs() < 0.06, "{mean}");
    }

    #[test]
    fn arrivals_follow_the_hours_of_the_day() {
        let worth = *Kind::all(128).daily().worth();
        // The mode of the gamma distribution is (8.1737 - 1) * 3.9631 = 28.43. So the half hour around 28 is the
        // busiest one: 13:30 to 14:00.
        let busiest = (0..HALF_HOURS).max_by(|a, b| worth[*a].total_cmp(&worth[*b])).unwrap();
        assert_eq!(busiest, 27);
        let mut found = [0.0; HALF_HOURS];
        let jobs = 200_000;
        for job in lublin(Kinds::One, 128, jobs, 1) {
            found[(job.submit.as_nanos() / HALF_HOUR.as_nanos()) as usize % HALF_HOURS] += 1.0;
        }
        for half_hour in 0..HALF_HOURS {
            let expected = worth[half_hour] * jobs as f64 / HALF_HOURS as f64;
            // The lengths of gaps vary widely, so the counts deviate by more than their square root.
            let error = (16.0 * expected).sqrt();
            assert!(
                (found[half_hour] - expected).abs() < 4.0 * error,
                "{half_hour}: {} of {expected}",
                found[half_hour]
            );
        }
    }

    #[test]
    fn two_kinds_come_each_in_their_own_way() {
        let jobs: Vec<TraceTask> = lublin(Kinds::InteractiveAndBatch, 128, 20_000, 1).collect();
        assert!(jobs.is_sorted_by_key(|job| job.submit));
        // The widest interactive jobs have less than 2^5.5 = 45.25 processors. Such widths can be rounded only to 32.
        let widest = |queue| jobs.iter().filter(|job| job.queue == Some(queue)).filter_map(|job| job.processors).max();
        assert_eq!((widest(0), widest(1)), (Some(45), Some(128)));
    }
}
