//! `load: 110%` and `growth: 20%/month`: more or fewer jobs than the file says, and more with time.
//!
//! The load at a time is the factor `load` times (1 + growth) to the power of the time, counted from the start of the
//! run. It multiplies the rates of `arrivals`. A list of jobs (a trace, or arrivals at equal intervals) is thinned or
//! repeated: job i is submitted as often as the whole part of the sum of the loads of jobs 1 to i rises at job i. So
//! each stretch of the list has its share of the load, and nothing is drawn. A repeated job is submitted midway between
//! the job and the next one. Jobs with stated times stay as they are.

use std::str::FromStr;

use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration, SimTime, UnitError};
use dryrack_workload::Arrivals;
use dryrack_yaml::{Fields, Report, Value};

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
struct Growth {
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
        && load.at(until.unwrap_or(SimTime::ZERO)) > MAX_LOAD
    {
        let message = format!("the load grows to more than {MAX_LOAD} times what the file says");
        report.error_with_help(tree.span, message, "write an earlier `until`, or less growth");
        return Load::PLAIN;
    }
    load
}

impl Load {
    pub const PLAIN: Load = Load { factor: 1.0, growth: None };

    pub fn is_plain(&self) -> bool {
        *self == Load::PLAIN
    }

    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// The load at a time of the run, in proportion to what the file says.
    pub fn at(&self, time: SimTime) -> f64 {
        let Some(Growth { by, period }) = self.growth else { return self.factor };
        let periods = time.since(SimTime::ZERO).as_secs_f64() / period.as_secs_f64();
        self.factor * libm::pow(1.0 + by, periods)
    }

    /// The largest load from the start until this time.
    fn most(&self, until: SimTime) -> f64 {
        self.at(SimTime::ZERO).max(self.at(until))
    }

    /// The times at which jobs arrive, at most `enough` of them unless a list is repeated. Also takes a stream for the
    /// draws of growth.
    pub fn instants(
        &self,
        arrivals: Arrivals,
        (from, until): (SimTime, Option<SimTime>),
        enough: usize,
        (stream, mut growing): (&mut Stream, Stream),
    ) -> Vec<SimTime> {
        let end = until.unwrap_or(SimTime::MAX);
        if self.is_plain() {
            return arrivals.times(stream, from, end, enough);
        }
        if matches!(arrivals, Arrivals::Every(_)) {
            let times = arrivals.times(stream, from, end, enough);
            return self.spread(&times).into_iter().map(|(_, at)| at).collect();
        }
        let most = self.most(until.unwrap_or(from));
        self.thin(arrivals.at_load(most).times(stream, from, end, enough), most, &mut growing)
    }

    /// Of arrivals that were drawn at the rate of the largest load, keeps those of the load at their time (thinning:
    /// Lewis and Shedler, *Simulation of Nonhomogeneous Poisson Processes by Thinning*, Naval Research Logistics 26,
    /// 1979). Draws nothing if the load is constant.
    fn thin(&self, times: Vec<SimTime>, most: f64, stream: &mut Stream) -> Vec<SimTime> {
        match self.growth {
            None => times,
            Some(_) => times.into_iter().filter(|time| stream.unit() * most < self.at(*time)).collect(),
        }
    }

    /// For each job of a list in order of time, when it is submitted: not at all, once, or several times. Returns the
    /// index of the job and its times, in order.
    pub fn spread(&self, times: &[SimTime]) -> Vec<(usize, SimTime)> {
        let mut spread = Vec::with_capacity(times.len());
        let mut sum = 0.0;
        for (index, at) in times.iter().enumerate() {
            let before = libm::floor(sum);
            sum += self.at(*at);
            // The rounding of the sum must not lose a job: 1.1 ten times is less than 11.
            sum = if libm::fabs(sum - libm::round(sum)) < 1e-9 { libm::round(sum) } else { sum };
            let copies = (libm::floor(sum) - before) as u64;
            let gap = times.get(index + 1).map_or(SimDuration::ZERO, |next| next.since(*at)).as_nanos();
            let later =
                |copy: u64| SimDuration::from_nanos((u128::from(gap) * u128::from(copy) / u128::from(copies)) as u64);
            spread.extend((0..copies).map(|copy| (index, at.saturating_add(later(copy)))));
        }
        spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(factor: f64, growth: Option<&str>) -> Load {
        Load { factor, growth: growth.map(|text| Growth::parse(text).expect("growth")) }
    }

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
            let found = load(factor, None).spread(&times);
            assert_eq!(found.len(), count, "{factor}");
            assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].1), "in order");
        }
        // Every tenth job is submitted twice, the second time midway to the next job.
        let found = load(1.1, None).spread(&times[..20]);
        let twice: Vec<usize> = found.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0).collect();
        assert_eq!((found.len(), twice), (22, vec![9, 19]));
        assert_eq!(found[10].1, SimTime::from_secs(DAY * 9 + DAY / 2));
    }

    /// A load that doubles each month: the sum over a year of 360 days is 360 times the mean of 2^t over 0..11.836
    /// months, (2^11.836 - 1) / (11.836 ln 2), within a job at each end.
    #[test]
    fn a_growing_list_has_the_integral_of_the_load() {
        let times: Vec<SimTime> = (0..360).map(day).collect();
        let found = load(1.0, Some("100%/month")).spread(&times).len() as f64;
        let months = 360.0 / (365.0 / 12.0);
        let expected = 360.0 * (libm::pow(2.0, months) - 1.0) / (months * std::f64::consts::LN_2);
        assert!((found / expected - 1.0).abs() < 0.02, "{found}, expected {expected}");
    }
}
