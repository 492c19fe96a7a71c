//! Finds the parameters of the model of Lublin and Feitelson under which a recorded list is most likely.
//!
//! - *Width.* The share of jobs that take one processor is counted. The widths of all other jobs fall into two
//!   intervals. A grid search finds where the intervals begin and where they meet. For each grid point, expectation
//!   maximization (Dempster, Laird and Rubin, JRSS B 39, 1977) finds the share of jobs in the first interval, and the
//!   share of jobs whose width is rounded to a power of two.
//! - *Length.* Expectation maximization also finds the two gamma distributions. The share of short jobs is a linear
//!   function of the width, limited to the range from none to all.
//! - *Arrival.* The day begins in the middle of its quietest three hours. The distribution over the day is the one
//!   under which the counts of the half hours are most likely. Gaps are measured in the weight of this distribution.
//!   The distribution of their logarithms is either the most likely one or the one with the same moments. The closer of
//!   the two is used.
//!
//! A run time or a gap in whole seconds stands for all values up to the next second, so the middle of this range is
//! used. The model has no run time below one second and no gap below one point.

use std::collections::BTreeMap;

use thiserror::Error;

use super::daily::{HALF_HOUR, HALF_HOURS};
use super::fitted::{Distances, Fitted, Model, Unit};
use super::gamma::Gamma;
use super::lublin::{FIRST_HALF_HOUR, Kind, parts_of_a_day};
use super::row::{RunBasis, TraceTask};
use dryrack_units::SimDuration;

/// The least number of tasks. With fewer tasks, six distributions cannot be determined.
pub const LEAST_TASKS: usize = 100;
/// The least length of a list. In a shorter list, no daily cycle can be found.
const TWO_DAYS: SimDuration = SimDuration::from_secs(2 * 86_400);
/// The smallest logarithm that is used, because a gamma distribution has no density at zero.
const LEAST_LOGARITHM: f64 = 0.05;

/// Why no model can be fitted to a list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FitError {
    #[error("has the width and duration of {found} tasks; expected at least {LEAST_TASKS}")]
    TooFew { found: usize },
}

/// Fits the model to a list. Leaves out tasks without a recorded run time and tasks without a processor or GPU.
///
/// `size` is the size of the machine, if the list's header states it. Otherwise, the width of the widest job is used.
/// To measure the fit, a list is drawn from the model with `seed` and compared.
pub fn fit(tasks: &[TraceTask], size: Option<u32>, seed: u64) -> Result<Fitted, FitError> {
    let unit = match tasks.iter().any(|task| task.processors.is_some_and(|count| count > 0)) {
        true => Unit::Processors,
        false => Unit::Gpus,
    };
    let mut jobs: Vec<&TraceTask> = tasks.iter().filter(|task| width(unit, task) > 0 && is_run(task)).collect();
    if jobs.len() < LEAST_TASKS {
        return Err(FitError::TooFew { found: jobs.len() });
    }
    jobs.sort_by_key(|task| (task.submit, task.line));
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    jobs.iter().for_each(|task| *counts.entry(width(unit, task)).or_default() += 1);
    let widest = counts.last_key_value().map_or(1, |(width, _)| *width);
    let mut kind = fit_widths(&counts);
    fit_lengths(&mut kind, &jobs.iter().map(|task| (seconds(task), width(unit, task))).collect::<Vec<_>>());
    fit_arrivals(&mut kind, &jobs);
    let size = size.unwrap_or(widest).max(widest);
    let jobs_count = jobs.len() as u64;
    let model = Model::LublinFeitelson;
    let fitted = Fitted { model, of: unit, size, jobs: jobs_count, parameters: kind, apart: None };
    let drawn: Vec<TraceTask> = fitted.draw(jobs_count, seed).collect();
    let apart = apart(unit, &jobs, &drawn.iter().collect::<Vec<_>>());
    Ok(Fitted { apart: Some(apart), ..fitted })
}

fn width(unit: Unit, task: &TraceTask) -> u32 {
    match unit {
        Unit::Processors => task.processors.unwrap_or(0),
        Unit::Gpus => task.gpus.unwrap_or(0),
    }
}

fn is_run(task: &TraceTask) -> bool {
    task.run_basis != RunBasis::NotRecorded
}

fn seconds(task: &TraceTask) -> u64 {
    task.run.as_nanos() / 1_000_000_000
}

/// The logarithm of a whole number of seconds. Half a second is added, because the number stands for all values up to
/// the next second.
fn logarithm(whole: f64) -> f64 {
    libm::log(whole + 0.5).max(LEAST_LOGARITHM)
}

/// A width and the number of jobs with this width. Two intervals of binary logarithms lead to this width: one without
/// rounding, and one with rounding to a power of two.
struct Width {
    count: f64,
    exact: (f64, f64),
    rounded: Option<(f64, f64)>,
}

/// The share of a uniform distribution over the first interval that lies in the second interval.
fn part_of((low, high): (f64, f64), (from, to): (f64, f64)) -> f64 {
    match high - low < 1e-9 {
        true => f64::from(u8::from(from <= low && low < to)),
        false => ((to.min(high) - from.max(low)) / (high - low)).max(0.0),
    }
}

/// Returns the share of jobs in the first interval, the share of jobs with rounded widths, and the log-likelihood of
/// the widths.
fn parts_of_widths(widths: &[Width], [low, middle, high]: [f64; 3]) -> (f64, f64, f64) {
    let (mut narrow, mut rounds, mut likely) = (0.8, 0.7, 0.0);
    for _ in 0..40 {
        let (mut in_first, mut in_rounded, mut all) = (0.0, 0.0, 0.0);
        likely = 0.0;
        for width in widths {
            let exactly = |interval| part_of(interval, width.exact) * (1.0 - rounds);
            let rounded = |interval| width.rounded.map_or(0.0, |rounded| part_of(interval, rounded)) * rounds;
            let (first, second) = ((low, middle), (middle, high));
            let parts = [
                narrow * exactly(first),
                narrow * rounded(first),
                (1.0 - narrow) * exactly(second),
                (1.0 - narrow) * rounded(second),
            ];
            let sum: f64 = parts.iter().sum();
            likely += width.count * libm::log(sum.max(1e-12));
            if sum > 0.0 {
                in_first += width.count * (parts[0] + parts[1]) / sum;
                in_rounded += width.count * (parts[1] + parts[3]) / sum;
                all += width.count;
            }
        }
        if all > 0.0 {
            (narrow, rounds) = (in_first / all, in_rounded / all);
        }
    }
    (narrow, rounds, likely)
}

/// Fits the parameters of the widths. The other parameters are set later.
fn fit_widths(counts: &BTreeMap<u32, u64>) -> Kind {
    let all: u64 = counts.values().sum();
    let serial = counts.get(&1).copied().unwrap_or(0) as f64 / all as f64;
    let wider: Vec<Width> = (counts.iter().filter(|(width, _)| **width > 1))
        .map(|(width, count)| {
            let (number, logarithm) = (f64::from(*width), libm::log2(f64::from(*width)));
            let rounded = width.is_power_of_two().then_some((logarithm - 0.5, logarithm + 0.5));
            Width { count: *count as f64, exact: (libm::log2(number - 0.5), libm::log2(number + 0.5)), rounded }
        })
        .collect();
    let none = Gamma { shape: 1.0, scale: 1.0 };
    let mut kind = Kind {
        serial,
        powers: 0.0,
        widths: [1.0; 3],
        narrow: 1.0,
        short: none,
        long: none,
        shorts: (0.5, 0.0),
        gap: none,
        day: None,
        day_begins: FIRST_HALF_HOUR,
        longest_run: 1.0,
        longest_gap: 1.0,
    };
    let Some(widest) = counts.last_key_value().map(|(width, _)| *width).filter(|width| *width > 1) else { return kind };
    let high = libm::log2(f64::from(widest));
    let mut best = f64::NEG_INFINITY;
    let mut try_all = |lows: (f64, f64), middles: (f64, f64), step: f64| {
        // A value below 2^0.6 would be rounded to one processor.
        let places = |(from, to): (f64, f64), least: f64| {
            let count = libm::floor((to - from) / step + 1e-9).max(0.0) as u32;
            (0..=count).map(move |number| (from + f64::from(number) * step).clamp(least, high))
        };
        for low in places(lows, 0.6) {
            for middle in places(middles, low) {
                let widths = [low, middle, high];
                let (narrow, rounds, likely) = parts_of_widths(&wider, widths);
                if likely > best {
                    best = likely;
                    (kind.widths, kind.narrow, kind.powers) = (widths, narrow, rounds * (1.0 - serial));
                }
            }
        }
        kind.widths
    };
    let [low, middle, _] = try_all((0.6, high), (0.6, high), 0.4);
    try_all((low - 0.4, low + 0.4), (middle - 0.4, middle + 0.4), 0.1);
    kind
}

/// The length of a job: the natural logarithm of its seconds, the logarithm of that, and the job's width.
struct Length {
    x: f64,
    log_x: f64,
    width: f64,
}

fn fit_lengths(kind: &mut Kind, jobs: &[(u64, u32)]) {
    let length = |(run, width): &(u64, u32)| {
        let x = logarithm(*run as f64);
        Length { x, log_x: libm::log(x), width: f64::from(*width) }
    };
    let lengths: Vec<Length> = jobs.iter().map(length).collect();
    let mut sorted: Vec<f64> = lengths.iter().map(|length| length.x).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let mut shortness: Vec<f64> = lengths.iter().map(|length| if length.x < median { 0.9 } else { 0.1 }).collect();
    for _ in 0..MOST_ROUNDS {
        let short = weighted(&lengths, shortness.iter().copied());
        let long = weighted(&lengths, shortness.iter().map(|part| 1.0 - part));
        let shorts = line(&lengths, &shortness, kind.shorts);
        let moved = [(short, kind.short), (long, kind.long)].map(|(a, b)| (a.shape / b.shape - 1.0).abs());
        (kind.short, kind.long, kind.shorts) = (short, long, shorts);
        if moved.iter().all(|moved| *moved < 1e-6) {
            break;
        }
        let norms = (short.log_norm(), long.log_norm());
        for (part, length) in shortness.iter_mut().zip(&lengths) {
            let chance = part_at(shorts, length.width);
            let a = libm::log(chance) + norms.0 + short.log_kernel(length.x, length.log_x);
            let b = libm::log(1.0 - chance) + norms.1 + long.log_kernel(length.x, length.log_x);
            *part = 1.0 / (1.0 + libm::exp((b - a).clamp(-700.0, 700.0)));
        }
    }
    let mean = |gamma: Gamma| gamma.shape * gamma.scale;
    if mean(kind.short) > mean(kind.long) {
        (kind.short, kind.long) = (kind.long, kind.short);
        kind.shorts = (1.0 - kind.shorts.0, -kind.shorts.1);
    }
    // The cut is at the end of the longest recorded second.
    let longest = jobs.iter().map(|(run, _)| *run).max().unwrap_or(0);
    kind.longest_run = libm::log(longest as f64 + 1.0).max(sorted[sorted.len() - 1]);
}

const MOST_ROUNDS: usize = 300;

/// The gamma distribution under which these weighted lengths are most likely.
fn weighted(lengths: &[Length], weights: impl Iterator<Item = f64>) -> Gamma {
    let (mut all, mut sum, mut log_sum) = (1e-12, 0.0, 0.0);
    for (length, weight) in lengths.iter().zip(weights) {
        (all, sum, log_sum) = (all + weight, sum + weight * length.x, log_sum + weight * length.log_x);
    }
    Gamma::most_likely((sum / all).max(LEAST_LOGARITHM), log_sum / all)
}

/// The share of short jobs at this width.
fn part_at((at_none, each): (f64, f64), width: f64) -> f64 {
    (at_none + each * width).clamp(0.001, 0.999)
}

/// Fits the share of short jobs as a line: its value at width zero, and its change with each processor. `parts` has
/// each job's probability of being short.
fn line(lengths: &[Length], parts: &[f64], from: (f64, f64)) -> (f64, f64) {
    // For each width, the sum of the probabilities of being short and of being long.
    let mut counts: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for (length, part) in lengths.iter().zip(parts) {
        let (short, long) = counts.entry(length.width as u64).or_default();
        (*short, *long) = (*short + part, *long + 1.0 - part);
    }
    let widest = counts.last_key_value().map_or(1, |(width, _)| *width) as f64;
    climb([from.0, from.1 * widest], [0.05, 0.05], |[at_none, at_widest]| {
        let part = |width: f64| part_at((at_none, at_widest / widest), width);
        let each = counts.iter().map(|(width, (short, long))| {
            let part = part(*width as f64);
            short * libm::log(part) + long * libm::log(1.0 - part)
        });
        each.sum()
    })
    .map_or(from, |[at_none, at_widest]| (at_none, at_widest / widest))
}

/// Finds a maximum of a function of two numbers. Moves to a higher neighbour, and halves the step length if there is
/// none. Returns `None` if the function is not finite at the starting point.
fn climb(from: [f64; 2], mut steps: [f64; 2], height: impl Fn([f64; 2]) -> f64) -> Option<[f64; 2]> {
    let (mut best, mut highest) = (from, height(from));
    if !highest.is_finite() {
        return None;
    }
    for _ in 0..MOST_STEPS {
        let ways = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (1.0, -1.0), (-1.0, 1.0)];
        let tried = ways.map(|(a, b)| [best[0] + a * steps[0], best[1] + b * steps[1]]).map(|at| (height(at), at));
        match tried.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(found, _)| *found > highest) {
            Some((found, at)) => (highest, best) = (found, at),
            None if steps[0] < 1e-4 => break,
            None => steps = steps.map(|step| step / 2.0),
        }
    }
    Some(best)
}

const MOST_STEPS: usize = 1000;

fn fit_arrivals(kind: &mut Kind, jobs: &[&TraceTask]) {
    let (first, last) = (jobs[0].submit, jobs[jobs.len() - 1].submit);
    if last.since(first) >= TWO_DAYS {
        let mut counts = [0.0; HALF_HOURS];
        for task in jobs {
            counts[(task.submit.as_nanos() / HALF_HOUR.as_nanos()) as usize % HALF_HOURS] += 1.0;
        }
        kind.day_begins = quietest(&counts);
        let from_then = std::array::from_fn(|place| counts[(kind.day_begins as usize + place) % HALF_HOURS]);
        kind.day = Some(fit_day(&from_then));
    }
    let daily = kind.daily();
    let points = |pair: &[&TraceTask]| {
        let worth = daily.worth_until(pair[1].submit) - daily.worth_until(pair[0].submit);
        libm::log((worth * HALF_HOUR.as_secs_f64()).max(1.0)).max(LEAST_LOGARITHM)
    };
    let mut gaps: Vec<f64> = jobs.windows(2).map(points).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let mean_of_logs = gaps.iter().map(|gap| libm::log(*gap)).sum::<f64>() / count;
    let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / count;
    let (likely, plain) = (Gamma::most_likely(mean, mean_of_logs), Gamma::of_moments(mean, variance));
    kind.gap = if off(plain, &gaps) < off(likely, &gaps) { plain } else { likely };
    kind.longest_gap = gaps[gaps.len() - 1] + 1e-6;
}

/// The half hour in the middle of the three hours with the fewest submissions. On a tie, the first of them.
fn quietest(counts: &[f64; HALF_HOURS]) -> u32 {
    let of = |begin: usize| (0..6).map(|place| counts[(begin + place) % HALF_HOURS]).sum::<f64>();
    let begin = (0..HALF_HOURS).min_by(|a, b| of(*a).total_cmp(&of(*b))).unwrap_or(0);
    ((begin + 3) % HALF_HOURS) as u32
}

/// The gamma distribution over the day under which these counts are most likely.
fn fit_day(counts: &[f64; HALF_HOURS]) -> Gamma {
    let number = |place: usize| (FIRST_HALF_HOUR as usize + 1 + place) as f64;
    let all: f64 = counts.iter().sum();
    let mean = counts.iter().enumerate().map(|(place, count)| number(place) * count).sum::<f64>() / all;
    let square = |place: usize| (number(place) - mean) * (number(place) - mean);
    let variance = counts.iter().enumerate().map(|(place, count)| square(place) * count).sum::<f64>() / all;
    let likely = |day: Gamma| {
        let parts = parts_of_a_day(day);
        let whole: f64 = parts.iter().sum();
        let each = parts.iter().zip(counts).map(|(part, count)| count * libm::log((part / whole).max(1e-12)));
        if whole > 1e-3 { each.sum::<f64>() } else { f64::NEG_INFINITY }
    };
    let from = Gamma::of_moments(mean, variance);
    let day = |[shape, scale]: [f64; 2]| Gamma { shape: libm::exp(shape).max(1.0), scale: libm::exp(scale) };
    let found = climb([libm::log(from.shape), libm::log(from.scale)], [0.2, 0.2], |at| likely(day(at)));
    found.map_or(from, day)
}

/// The Kolmogorov-Smirnov distance between a distribution and sorted values.
fn off(gamma: Gamma, sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    let each = sorted.iter().enumerate().map(|(place, value)| {
        let below = gamma.below(*value);
        (below - place as f64 / count).abs().max((below - (place + 1) as f64 / count).abs())
    });
    each.fold(0.0, f64::max)
}

/// Extracts one quantity from the tasks of a list.
type Side<'f> = &'f dyn Fn(&[&TraceTask]) -> Vec<u64>;

fn apart(unit: Unit, recorded: &[&TraceTask], drawn: &[&TraceTask]) -> Distances {
    let second = |task: &TraceTask| task.submit.as_nanos() / 1_000_000_000;
    let between = |of: Side<'_>| distance(of(recorded), of(drawn));
    let work = |tasks: &[&TraceTask]| -> f64 {
        tasks.iter().map(|task| f64::from(width(unit, task)) * task.run.as_secs_f64()).sum()
    };
    let (n, m) = (recorded.len() as f64, drawn.len() as f64);
    Distances {
        widths: between(&|tasks| tasks.iter().map(|task| u64::from(width(unit, task))).collect()),
        lengths: between(&|tasks| tasks.iter().map(|task| seconds(task)).collect()),
        gaps: between(&|tasks| tasks.windows(2).map(|pair| second(pair[1]) - second(pair[0])).collect()),
        hours: between(&|tasks| tasks.iter().map(|task| second(task) / 3600 % 24).collect()),
        by_chance: 1.949 * libm::sqrt((n + m) / (n * m)),
        work: work(drawn) / work(recorded).max(1e-9),
    }
}

fn distance(mut a: Vec<u64>, mut b: Vec<u64>) -> f64 {
    a.sort_unstable();
    b.sort_unstable();
    let below = |list: &[u64], value: u64| list.partition_point(|other| *other <= value) as f64 / list.len() as f64;
    a.iter().chain(&b).map(|value| (below(&a, *value) - below(&b, *value)).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kinds, lublin};

    /// The list is drawn for 256 processors, with the parameters of the authors' program. For 20,000 jobs, each
    /// parameter must be recovered to within about four standard errors. The two intervals of widths meet at 8 - 2.5.
    #[test]
    fn parameters_come_back_out_of_a_list_that_was_drawn_with_them() {
        let tasks: Vec<TraceTask> = lublin(Kinds::One, 256, 20_000, 7).collect();
        let fitted = fit(&tasks, None, 1).unwrap();
        let kind = fitted.parameters;
        let near = |what: &str, found: f64, expected: f64, within: f64| {
            assert!((found - expected).abs() <= within, "{what}: {found}, not {expected}");
        };
        near("serial", kind.serial, 0.244, 0.013);
        near("powers", kind.powers, 0.576, 0.015);
        near("narrow", kind.narrow, 0.86, 0.04);
        near("low", kind.widths[0], 0.8, 0.11);
        near("middle", kind.widths[1], 5.5, 0.31);
        near("short", kind.short.shape * kind.short.scale, 4.2 * 0.94, 0.12);
        near("long", kind.long.shape * kind.long.scale, 312.0 * 0.03, 0.06);
        near("short for serial jobs", kind.shorts.0, 0.78, 0.05);
        near("slope", kind.shorts.1, -0.0054, 0.0015);
        near("gap", kind.gap.shape * kind.gap.scale, 10.2303 * 1.0225 * 0.4871, 0.06);
        let apart = fitted.apart.unwrap();
        assert!(apart.widths < apart.by_chance && apart.gaps < apart.by_chance, "{apart:?}");
        assert!(apart.lengths < apart.by_chance, "{apart:?}");
    }

    #[test]
    fn a_model_is_the_same_after_it_was_written() {
        let tasks: Vec<TraceTask> = lublin(Kinds::One, 64, 500, 7).collect();
        let fitted = fit(&tasks, Some(128), 1).unwrap();
        let text = serde_json::to_string(&fitted).unwrap();
        let again = Fitted::read(&text).unwrap();
        assert_eq!((again.size, serde_json::to_string(&again).unwrap()), (128, text));
        assert!(again.draw(300, 2).all(|task| (1..=128).contains(&task.processors.unwrap())));
    }

    #[test]
    fn what_cannot_be_fitted_or_drawn_is_refused() {
        let few: Vec<TraceTask> = lublin(Kinds::One, 64, 99, 7).collect();
        assert_eq!(fit(&few, None, 1), Err(FitError::TooFew { found: 99 }));
        let tasks: Vec<TraceTask> = lublin(Kinds::One, 64, 100, 7).collect();
        let honest = serde_json::to_value(fit(&tasks, None, 1).unwrap()).unwrap();
        for (field, value, message) in [
            ("serial", serde_json::json!(1.5), "`serial`: expected a share from 0 to 1, found 1.5"),
            (
                "widths",
                serde_json::json!([3.0, 2.0, 4.0]),
                "`widths`: expected a second number that is not below the first",
            ),
            ("gap", serde_json::json!({"shape": 1e6, "scale": 1.0}), "`gap`: expected a distribution with"),
            ("short", serde_json::json!({"shape": 0.5, "scale": 1.0}), "`short`: expected a shape from 1"),
            ("long", serde_json::json!({"shape": 2.0}), "missing field `scale`"),
        ] {
            let mut wrong = honest.clone();
            wrong["parameters"][field] = value;
            let found = Fitted::read(&wrong.to_string()).unwrap_err().to_string();
            assert!(found.contains(message), "{found}");
        }
    }

    /// All jobs are serial, have the same length and arrive at the same time. This is degenerate, but a list can still
    /// be drawn.
    #[test]
    fn lists_that_hardly_differ_are_fitted() {
        let task = |line: u64| {
            let at = dryrack_units::SimTime::from_secs(line / 50 * 60);
            let task = TraceTask::new(line.to_string(), line, at, SimDuration::from_secs(60));
            TraceTask { gpus: Some(1), ..task }
        };
        let fitted = fit(&(0..200).map(task).collect::<Vec<_>>(), None, 1).unwrap();
        assert_eq!((fitted.of, fitted.size, fitted.parameters.serial), (Unit::Gpus, 1, 1.0));
        let again = Fitted::read(&serde_json::to_string(&fitted).unwrap()).unwrap();
        assert!(again.draw(100, 1).all(|task| task.gpus == Some(1) && (50..70).contains(&seconds(&task))));
    }
}
