//! The interval of a wait from one long run: how certain is the mean, and the 95th percentile, if the run is one sample?
//!
//! The run is cut into sections of equal time, of whole days if it is long enough, because days of one log are alike.
//! Waits within a section depend on each other, but the totals of long sections hardly do. The mean is the ratio of two
//! totals, so its variance is that of a ratio estimator (Cochran, *Sampling Techniques*, 3rd edition, 6.4; batch means:
//! Law, *Simulation Modeling and Analysis*, 5th edition, 9.5.3). Its interval is Student's t on the logarithm, because
//! waits are skewed. For a percentile, the share of waits up to it gets such an interval, whose ends are read back as
//! waits (Woodruff, *Confidence Intervals for Medians and Other Position Measures*, Journal of the American Statistical
//! Association 47, 1952).
//!
//! If successive sections resemble each other, the run is too short for its busy periods, and there is no interval.

use serde::{Deserialize, Serialize};

use super::account::RunAccount;
use super::interval::student_t;
use dryrack_units::{SimDuration, SimTime};

/// The number of sections, at least and at most. Fewer than ten would give wide intervals, and many would be short.
const SECTIONS: (u64, u64) = (10, 20);
/// The fewest waits of a run with an interval.
const LEAST_WAITS: usize = 200;
const DAY: u64 = 86_400_000_000_000;
/// The percentile with an interval, in thousandths.
const PERCENTILE: f64 = 0.95;
/// The correlation of successive sections is significant above this many standard errors (one-sided 5 %).
const SIGNIFICANT: f64 = 1.645;

/// The sections of a run, and the intervals that they give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitSections {
    pub sections: u64,
    pub section_seconds: f64,
    /// The correlation between the totals of successive sections.
    pub correlation: f64,
    /// The 95 % interval of the mean wait in seconds. `None` if sections depend on each other, or if nobody waited.
    pub mean: Option<(f64, f64)>,
    /// The 95 % interval of the 95th percentile in seconds. The upper end is `None` if it may be above the longest wait.
    pub p95: Option<(f64, Option<f64>)>,
    /// The number of replicas that were never placed. As in the metrics of `queue_wait`, they are in no interval.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub never_placed: u64,
}

impl WaitSections {
    /// Whether the run is too short for an interval.
    pub fn is_dependent(&self) -> bool {
        self.correlation * libm::sqrt(self.sections as f64) > SIGNIFICANT
    }

    pub fn length(&self) -> SimDuration {
        SimDuration::from_nanos((self.section_seconds * 1e9) as u64)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One section: its number of waits, their sum, and the number of waits up to the percentile.
#[derive(Clone, Copy, Default)]
struct Section {
    waits: f64,
    sum: f64,
    up_to: f64,
}

/// The intervals of a run's waits; `None` if too few replicas were placed for an interval, or all at one time.
pub fn wait_sections(accounts: &RunAccount) -> Option<WaitSections> {
    let (mut waits, mut never_placed): (Vec<(SimTime, f64)>, u64) = (Vec::new(), 0);
    accounts.each_row(|row| {
        never_placed += u64::from(row.placed.is_none());
        let wait = row.placed.map(|placed| placed.since(row.wanted).as_secs_f64());
        waits.extend(wait.map(|wait| (row.wanted, wait)));
    });
    waits.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    of_waits(&waits).map(|found| WaitSections { never_placed, ..found })
}

/// The intervals of waits in order of time.
fn of_waits(waits: &[(SimTime, f64)]) -> Option<WaitSections> {
    let (first, last) = (waits.first()?.0, waits.last()?.0);
    let span = last.since(first).as_nanos().saturating_add(1);
    if waits.len() < LEAST_WAITS {
        return None;
    }
    let length = match span.saturating_add(DAY / 2) / DAY {
        days if days >= SECTIONS.0 => days.div_ceil(SECTIONS.1) * DAY,
        _ => span.div_ceil(SECTIONS.0),
    };
    // Less than half a section at the end belongs to the section before it.
    let sections = span.saturating_add(length / 2) / length;
    // A span of a few nanoseconds has fewer sections: for example, all jobs are submitted at one time.
    if sections < SECTIONS.0 {
        return None;
    }
    let mut sorted: Vec<f64> = waits.iter().map(|(_, wait)| *wait).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| -> Option<f64> {
        let rank = libm::ceil(part * sorted.len() as f64).max(1.0) as usize;
        sorted.get(rank - 1).copied()
    };
    let percentile = at(PERCENTILE)?;
    let mut found = vec![Section::default(); sections as usize];
    for (wanted, wait) in waits {
        let section = &mut found[(wanted.since(first).as_nanos() / length).min(sections - 1) as usize];
        section.waits += 1.0;
        section.sum += wait;
        section.up_to += f64::from(u8::from(*wait <= percentile));
    }
    let mean = Ratio::of(&found, |section| section.sum);
    let share = Ratio::of(&found, |section| section.up_to);
    let mut result = WaitSections {
        sections,
        section_seconds: SimDuration::from_nanos(length).as_secs_f64(),
        correlation: mean.correlation,
        mean: None,
        p95: None,
        never_placed: 0,
    };
    if mean.ratio > 0.0 && !result.is_dependent() {
        let half = mean.half_width / mean.ratio;
        result.mean = Some((mean.ratio * libm::exp(-half), mean.ratio * libm::exp(half)));
        result.p95 = at(PERCENTILE - share.half_width).map(|low| (low, at(PERCENTILE + share.half_width)));
    }
    Some(result)
}

/// The ratio of two totals over sections, with half the width of its interval.
struct Ratio {
    ratio: f64,
    half_width: f64,
    /// The correlation of the deviations of successive sections.
    correlation: f64,
}

impl Ratio {
    fn of(sections: &[Section], part: impl Fn(&Section) -> f64) -> Ratio {
        let count = sections.len() as f64;
        let waits: f64 = sections.iter().map(|section| section.waits).sum();
        let ratio = sections.iter().map(&part).sum::<f64>() / waits;
        let apart: Vec<f64> = sections.iter().map(|section| part(section) - ratio * section.waits).collect();
        let squares: f64 = apart.iter().map(|apart| apart * apart).sum();
        let successive: f64 = apart.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let half_width = student_t(sections.len() - 1) * libm::sqrt(squares * count / (count - 1.0)) / waits;
        Ratio { ratio, half_width, correlation: if squares > 0.0 { successive / squares } else { 0.0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty jobs a day for `waits.len()` days. All jobs of a day wait equally long.
    fn days(waits: &[f64]) -> Vec<(SimTime, f64)> {
        let job = |day: usize, job: u64, wait: f64| (SimTime::from_secs(86_400 * day as u64 + 4_320 * job), wait);
        waits.iter().enumerate().flat_map(|(day, wait)| (0..20).map(move |number| job(day, number, *wait))).collect()
    }

    /// Ten days with waits of 90 s and 110 s in turn: the mean is 100 s, and the deviations of the daily sums are 200 s,
    /// up and down. sqrt(10 * 200² * 10/9) / 200 jobs = 10.54 / sqrt(10) = 3.333 s, times t(9) = 2.262 gives 7.54 s.
    #[test]
    fn the_interval_of_the_mean_is_that_of_a_ratio_estimator() {
        let waits: Vec<f64> = (0..10).map(|day| if day % 2 == 0 { 90.0 } else { 110.0 }).collect();
        let found = of_waits(&days(&waits)).expect("200 waits");
        assert_eq!((found.sections, found.length()), (10, SimDuration::from_secs(86_400)));
        let (low, high) = found.mean.expect("days in turn are not alike");
        let half = 2.262 * (10.0 * 200f64 * 200.0 * 10.0 / 9.0).sqrt() / 200.0;
        assert!((low / 100.0 * libm::exp(half / 100.0) - 1.0).abs() < 1e-3, "{found:?}");
        assert!((high / 100.0 / libm::exp(half / 100.0) - 1.0).abs() < 1e-3, "{found:?}");
        // Half of all jobs wait 110 s, so the percentile is 110 s, the longest wait. Its upper end is not known.
        assert_eq!(found.p95.map(|(low, _)| low), Some(110.0));
    }

    #[test]
    fn successive_days_that_are_alike_give_no_interval() {
        let waits: Vec<f64> = (0..20).map(|day| if day < 10 { 10.0 } else { 500.0 }).collect();
        let found = of_waits(&days(&waits)).expect("400 waits");
        assert!(found.is_dependent() && found.mean.is_none(), "{found:?}");
    }

    #[test]
    fn sections_are_whole_days_of_a_long_run_and_tenths_of_a_short_one() {
        for (count, sections, hours) in [(12, 12, 24.0), (60, 20, 72.0), (90, 18, 120.0)] {
            let waits: Vec<f64> = (0..count).map(|day| f64::from(day % 7)).collect();
            let found = of_waits(&days(&waits)).expect("enough waits");
            assert_eq!((found.sections, found.section_seconds / 3600.0), (sections, hours), "{count} days");
        }
        let short: Vec<(SimTime, f64)> = (0..500).map(|job| (SimTime::from_secs(60 * job), (job % 9) as f64)).collect();
        assert_eq!(of_waits(&short).expect("500 waits").sections, 10);
        assert_eq!(of_waits(&short[..100]), None, "too few");
    }

    /// Jobs that are all submitted within 9 ns cannot be cut into ten sections of whole nanoseconds.
    #[test]
    fn jobs_submitted_at_one_time_give_no_interval() {
        for span in [1, 2, 9] {
            let waits: Vec<(SimTime, f64)> =
                (0..300).map(|job| (SimTime::from_nanos(job * span / 300), job as f64)).collect();
            assert_eq!(of_waits(&waits), None, "{span} ns");
        }
        let waits: Vec<(SimTime, f64)> = (0..300).map(|job| (SimTime::from_nanos(job / 30), job as f64)).collect();
        assert_eq!(of_waits(&waits).expect("10 ns").sections, 10);
    }
}
