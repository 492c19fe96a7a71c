//! `load: 110%` and `growth: 20%/month`: more or fewer jobs than the file says, and more with time.
//!
//! The load at a time is the factor `load` times (1 + growth) to the power of the time, counted from the start of the
//! run. It multiplies the rates of `arrivals`. A list of jobs (a trace, or arrivals at equal intervals) is thinned or
//! repeated: job i is submitted as often as the whole part of the sum of the loads of jobs 1 to i rises at job i. So
//! each stretch of the list has its share of the load, and nothing is drawn. A repeated job is submitted midway between
//! the job and the next one. `count` limits the jobs that are left. Jobs with stated times stay as they are.

use std::str::FromStr;

use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration, SimTime, UnitError};
use dryrack_workload::Arrivals;
use dryrack_yaml::{Fields, Report, Span, Value};

const DAY: u64 = 86_400;
/// The units of time in which growth is written, with their length. A month is a twelfth of a year of 365 days.
const PERIODS: [(&str, u64); 4] = [("day", DAY), ("week", 7 * DAY), ("month", 365 * DAY / 12), ("year", 365 * DAY)];
/// The largest load. More would surely be a mistake.
const MAX_LOAD: f64 = 1000.0;

/// The load of a file in proportion to what its jobs and its trace say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    factor: f64,
    growth: Option<Growth>,
}

/// Growth by a part in each period, compounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    by: f64,
    period: SimDuration,
}

impl Value for Growth {
    const EXPECTED: &'static str = "growth such as 20%/month";
    fn parse(text: &str) -> Result<Growth, UnitError> {
        let wrong = || UnitError::Malformed { text: text.to_string(), expected: Self::EXPECTED };
        let (part, period) = text.split_once('/').ok_or_else(wrong)?;
        let (sign, part) = part.trim().strip_prefix('-').map_or((1.0, part.trim()), |part| (-1.0, part.trim()));
        let by = sign * f64::from(Permille::from_str(part).map_err(|_| wrong())?.get()) / 1000.0;
        let (_, seconds) = PERIODS.into_iter().find(|(name, _)| *name == period.trim()).ok_or_else(wrong)?;
        if by <= -1.0 {
            return Err(wrong());
        }
        Ok(Growth { by, period: SimDuration::from_secs(seconds) })
    }
}

/// Reads `load` and `growth`. The load must stay below a limit until the end of the run.
pub(super) fn read(file: &Fields<'_>, until: Option<SimTime>, report: &mut Report) -> Load {
    let factor = file.value::<Permille>("load", report).map_or(1.0, |load| f64::from(load.get()) / 1000.0);
    let load = Load { factor, growth: file.value("growth", report) };
    if factor <= 0.0
        && let Some(tree) = file.get("load")
    {
        report.error_with_help(tree.span, "a load of 0 leaves no job", "write a load such as `110%`");
        return Load::PLAIN;
    }
    if let Some(tree) = file.get("growth").or(file.get("load"))
        && let Err(fault) = load.most(Some(until.unwrap_or(SimTime::ZERO)))
    {
        fault.report(tree.span, "write an earlier `until`", report);
        return Load::PLAIN;
    }
    load
}

impl Growth {
    /// The factor by which a load has grown after a number of months.
    pub fn after_months(self, months: u32) -> f64 {
        let month = (365 * DAY / 12) as f64;
        libm::pow(1.0 + self.by, f64::from(months) * month / self.period.as_secs_f64())
    }
}

impl Load {
    pub const PLAIN: Load = Load { factor: 1.0, growth: None };

    pub fn is_plain(&self) -> bool {
        *self == Load::PLAIN
    }

    pub fn factor(&self) -> f64 {
        self.factor
    }

    pub fn has_growth(&self) -> bool {
        self.growth.is_some()
    }

    /// The load at a time of the run, in proportion to what the file says.
    pub fn at(&self, time: SimTime) -> f64 {
        let Some(Growth { by, period }) = self.growth else { return self.factor };
        let periods = time.since(SimTime::ZERO).as_secs_f64() / period.as_secs_f64();
        self.factor * libm::pow(1.0 + by, periods)
    }

    fn is_growing(&self) -> bool {
        self.growth.is_some_and(|growth| growth.by > 0.0)
    }

    /// The largest load until this time; without an end, the largest of all times.
    fn most(&self, until: Option<SimTime>) -> Result<f64, LoadFault> {
        match until {
            None if self.is_growing() => Err(LoadFault::NoEnd),
            None => Ok(self.factor),
            Some(until) => within_limit(self.factor.max(self.at(until))),
        }
    }

    /// The time from which the load is so small that no job is left of it: less than 2^-53 of the load at the start,
    /// which is the least part that a draw can tell from zero.
    fn faded(&self) -> SimTime {
        let Some(Growth { by, period }) = self.growth.filter(|growth| growth.by < 0.0) else { return SimTime::MAX };
        let periods = -53.0 * std::f64::consts::LN_2 / libm::log1p(by);
        SimTime::ZERO.saturating_add(SimDuration::from_nanos((periods * period.as_nanos() as f64) as u64))
    }

    /// The times at which jobs arrive, at most `enough` of them. Also takes a stream for the draws of growth.
    ///
    /// Of arrivals that are drawn at the rate of the largest load, those of the load at their time are kept (thinning:
    /// Lewis and Shedler, *Simulation of Nonhomogeneous Poisson Processes by Thinning*, Naval Research Logistics 26,
    /// 1979). Nothing is drawn for this if the load is constant.
    pub fn instants(
        &self,
        arrivals: Arrivals,
        (from, until): (SimTime, Option<SimTime>),
        enough: usize,
        (stream, mut growing): (&mut Stream, Stream),
    ) -> Result<Vec<SimTime>, LoadFault> {
        let end = until.unwrap_or(SimTime::MAX);
        if self.is_plain() {
            return Ok(arrivals.times(stream, from, end).take(enough).collect());
        }
        let end = end.min(self.faded());
        if matches!(arrivals, Arrivals::Every(_)) {
            let times = self.spread(arrivals.times(stream, from, end), enough)?;
            return Ok(times.into_iter().map(|(_, at)| at).collect());
        }
        let most = self.most(until)?;
        let mut is_kept = |at: &SimTime| self.growth.is_none() || growing.unit() * most < self.at(*at);
        Ok(arrivals.at_load(most).times(stream, from, end).filter(|at| is_kept(at)).take(enough).collect())
    }

    /// For each job of a list in order of time, when it is submitted: not at all, once, or several times. Returns the
    /// index of the job and its times, in order, at most `enough`.
    pub fn spread(
        &self,
        times: impl Iterator<Item = SimTime>,
        enough: usize,
    ) -> Result<Vec<(usize, SimTime)>, LoadFault> {
        let mut times = times.enumerate().peekable();
        let (mut spread, mut sum) = (Vec::new(), 0.0);
        while spread.len() < enough
            && let Some((index, at)) = times.next()
        {
            let before = libm::floor(sum);
            sum += within_limit(self.at(at))?;
            // The rounding of the sum must not lose a job: 1.1 ten times is less than 11.
            sum = if libm::fabs(sum - libm::round(sum)) < 1e-9 { libm::round(sum) } else { sum };
            let copies = (libm::floor(sum) - before) as u64;
            let gap = times.peek().and_then(|(_, next)| next.checked_since(at)).unwrap_or_default().as_nanos();
            let later =
                |copy: u64| SimDuration::from_nanos((u128::from(gap) * u128::from(copy) / u128::from(copies)) as u64);
            let left = enough - spread.len();
            spread.extend((0..copies).take(left).map(|copy| (index, at.saturating_add(later(copy)))));
        }
        Ok(spread)
    }
}

fn within_limit(load: f64) -> Result<f64, LoadFault> {
    if load <= MAX_LOAD { Ok(load) } else { Err(LoadFault::TooLarge) }
}

/// Why jobs cannot be submitted at this load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadFault {
    /// Random arrivals grow without an end.
    NoEnd,
    TooLarge,
}

impl LoadFault {
    /// Reports the fault. `shorter` says how to end these jobs earlier.
    pub fn report(self, span: Span, shorter: &str, report: &mut Report) {
        match self {
            LoadFault::NoEnd => {
                report.error_with_help(span, "growth needs the end of the arrivals", "add `until: 30d`");
            }
            LoadFault::TooLarge => {
                let message = format!("the load grows to more than {MAX_LOAD} times what the file says");
                report.error_with_help(span, message, format!("{shorter}, or less growth"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(factor: f64, growth: Option<&str>) -> Load {
        Load { factor, growth: growth.map(|text| Growth::parse(text).expect("growth")) }
    }

    fn spread(load: Load, times: &[SimTime]) -> Vec<(usize, SimTime)> {
        load.spread(times.iter().copied(), usize::MAX).expect("a small load")
    }

    fn instants(
        load: Load,
        arrivals: Arrivals,
        until: Option<SimTime>,
        enough: usize,
    ) -> Result<Vec<SimTime>, LoadFault> {
        let stream = |purpose| Stream::new(1, purpose, 0);
        load.instants(arrivals, (SimTime::ZERO, until), enough, (&mut stream("arrivals"), stream("growth")))
    }

    const HOURLY: Arrivals = Arrivals::Poisson { gap: SimDuration::from_secs(3600) };

    fn day(day: u64) -> SimTime {
        SimTime::from_secs(DAY * day)
    }

    #[test]
    fn growth_is_compounded() {
        // 20 % in each of twelve months of a year: 1.2^12 = 8.916.
        let found = load(1.0, Some("20%/month")).at(day(365));
        assert!((found - 8.916_100_448_256).abs() < 1e-3, "{found}");
        let halved = load(2.0, Some("-50%/week")).at(day(7));
        assert!((halved - 1.0).abs() < 1e-12, "{halved}");
        for wrong in ["20%", "20/month", "x%/month", "20%/fortnight", "-100%/month"] {
            assert!(Growth::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_list_has_exactly_its_share_of_the_load() {
        let times: Vec<SimTime> = (0..1000).map(day).collect();
        for (factor, count) in [(1.1, 1100), (0.9, 900), (1.0, 1000), (2.5, 2500), (0.001, 1)] {
            let found = spread(load(factor, None), &times);
            assert_eq!(found.len(), count, "{factor}");
            assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].1), "in order");
        }
        // Every tenth job is submitted twice, the second time midway to the next job.
        let found = spread(load(1.1, None), &times[..20]);
        let twice: Vec<usize> = found.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0).collect();
        assert_eq!((found.len(), twice), (22, vec![9, 19]));
        assert_eq!(found[10].1, SimTime::from_secs(DAY * 9 + DAY / 2));
    }

    /// A load that grows by half each month: the sum over a year of 360 days is 360 times the mean of 1.5^t over 0..11.836
    /// months, (1.5^11.836 - 1) / (11.836 ln 1.5), within a job at each end.
    #[test]
    fn a_growing_list_has_the_integral_of_the_load() {
        let times: Vec<SimTime> = (0..360).map(day).collect();
        let found = spread(load(1.0, Some("50%/month")), &times).len() as f64;
        let months = 360.0 / (365.0 / 12.0);
        let expected = 360.0 * (libm::pow(1.5, months) - 1.0) / (months * libm::log(1.5));
        assert!((found / expected - 1.0).abs() < 0.02, "{found}, expected {expected}");
    }

    /// 24 jobs a day at a load of 10^t after t days: the integral over 3 days is 24 * (10^3 - 1) / ln 10 = 10,413 jobs,
    /// within four times the square root of this number. 24 jobs a day that halve each day are 24 / ln 2 = 34.6 in all.
    #[test]
    fn growing_arrivals_have_the_integral_of_the_load() {
        let growing = load(1.0, Some("900%/day"));
        let found = instants(growing, HOURLY, Some(day(3)), usize::MAX).expect("an end").len() as f64;
        assert!((found - 10_413.0).abs() < 4.0 * 10_413f64.sqrt(), "{found}");
        let halved = instants(load(1.0, Some("-50%/day")), HOURLY, None, 1_000_000).expect("it fades").len() as f64;
        assert!((halved - 34.6).abs() < 4.0 * 34.6f64.sqrt(), "{halved}");
    }

    /// A count is that of the jobs that stay: the first 50 are those that come first without a count.
    #[test]
    fn a_count_of_growing_arrivals_counts_those_that_are_left() {
        let growing = load(1.0, Some("900%/day"));
        let all = instants(growing, HOURLY, Some(day(3)), usize::MAX).expect("an end");
        assert_eq!(instants(growing, HOURLY, Some(day(3)), 50), Ok(all[..50].to_vec()));
        assert_eq!(instants(growing, HOURLY, None, 50), Err(LoadFault::NoEnd));
        // At half the load, every second hour has a job, until there are 50.
        let every = Arrivals::Every(SimDuration::from_secs(3600));
        let hours: Vec<SimTime> = (0..50).map(|job| SimTime::from_secs(3600 * (2 * job + 1))).collect();
        assert_eq!(instants(load(0.5, None), every.clone(), None, 50), Ok(hours));
        assert_eq!(instants(load(0.5, None), every.clone(), Some(day(1)), 50).map(|times| times.len()), Ok(12));
        // A list that grows ends with its count, or at the largest load.
        assert_eq!(instants(growing, every.clone(), None, 200).map(|times| times.len()), Ok(200));
        assert_eq!(instants(load(1.0, Some("-50%/day")), every, None, 1_000_000).map(|times| times.len()), Ok(35));
    }

    /// 10^3 is reached after 3 days, by arrivals and by the jobs of a list.
    #[test]
    fn a_load_has_a_limit_without_an_end_of_the_run() {
        let growing = load(1.0, Some("900%/day"));
        assert_eq!(instants(growing, HOURLY, Some(day(13)), usize::MAX), Err(LoadFault::TooLarge));
        let days = |count: u64| growing.spread((0..count).map(day), usize::MAX);
        assert_eq!(days(4).map(|times| times.len()), Ok(1 + 10 + 100 + 1000));
        assert_eq!(days(5), Err(LoadFault::TooLarge));
        assert_eq!(days(400), Err(LoadFault::TooLarge));
    }
}
