//! How fast a job's work is done on each type of GPU, relative to the reference GPU on which its duration is stated.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use dryrack_units::{SimDuration, decimal};

/// The work that is done in a unit of time, in millionths of the work that the reference GPU does. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Speed(u64);

/// The error for a number that is no speed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected a speed such as 2.2: above 0, below 1000000, and with at most six digits after the point")]
pub struct BadSpeed;

const ONE: u64 = 1_000_000;

impl Speed {
    /// The speed of the reference GPU.
    pub const ONE: Speed = Speed(ONE);
    const MAX: u64 = ONE * ONE;

    pub fn from_millionths(millionths: u64) -> Option<Speed> {
        (millionths > 0 && millionths < Speed::MAX).then_some(Speed(millionths))
    }

    pub fn as_millionths(self) -> u64 {
        self.0
    }

    /// The quotient of two rates, rounded to the nearest millionth. `None` if it is zero or too large.
    pub fn of_rates(rate: u64, reference: u64) -> Option<Speed> {
        let (rate, base) = (u128::from(rate), u128::from(reference));
        let millionths = (rate * u128::from(ONE) + base / 2).checked_div(base)?;
        Speed::from_millionths(u64::try_from(millionths).ok()?)
    }

    /// The speed of a job whose time on the reference GPU consists of two parts, each of which has a speed of its own.
    /// The time is the sum of the parts, each divided by its speed. Parts are in thousandths; the result is rounded to
    /// the nearest millionth.
    pub fn of_parts(parts: [(u32, Speed); 2]) -> Option<Speed> {
        let [(one, fast), (other, slow)] = parts;
        let whole = u128::from(one) + u128::from(other);
        let (fast, slow) = (u128::from(fast.0), u128::from(slow.0));
        let time = u128::from(one) * slow + u128::from(other) * fast;
        let millionths = (whole * fast * slow + time / 2).checked_div(time)?;
        Speed::from_millionths(u64::try_from(millionths).ok()?)
    }

    /// The time that this work takes, rounded up to whole nanoseconds. Work is measured in time on the reference GPU.
    pub fn time(self, work: SimDuration) -> SimDuration {
        let nanos = (u128::from(work.as_nanos()) * u128::from(ONE)).div_ceil(u128::from(self.0));
        SimDuration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The work that is done in this time, rounded down to whole nanoseconds. If the speed is 1 or more, [`Speed::time`]
    /// of this work is exactly this time.
    pub fn work(self, time: SimDuration) -> SimDuration {
        let nanos = u128::from(time.as_nanos()) * u128::from(self.0) / u128::from(ONE);
        SimDuration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl TryFrom<u64> for Speed {
    type Error = BadSpeed;
    fn try_from(millionths: u64) -> Result<Speed, BadSpeed> {
        Speed::from_millionths(millionths).ok_or(BadSpeed)
    }
}

impl From<Speed> for u64 {
    fn from(speed: Speed) -> u64 {
        speed.0
    }
}

impl FromStr for Speed {
    type Err = BadSpeed;
    fn from_str(text: &str) -> Result<Speed, BadSpeed> {
        decimal(text, ONE, "a speed").ok().and_then(Speed::from_millionths).ok_or(BadSpeed)
    }
}

/// Three digits after the point, without zeros at the end. A very small speed has all six.
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.0 < 10_000 { self.0 } else { (self.0 + 500) / 1000 * 1000 };
        let text = format!("{}.{:06}", shown / ONE, shown % ONE);
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Where a speed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedSource {
    /// The scenario states it.
    File,
    /// It follows from published figures of the catalog.
    Catalog,
    /// It was measured in the trace.
    Trace,
    /// The scenario states it for all GPUs whose speed is not known.
    Others,
}

impl SpeedSource {
    pub fn text(self) -> &'static str {
        match self {
            SpeedSource::File => "stated in the file",
            SpeedSource::Catalog => "from the catalog",
            SpeedSource::Trace => "measured in the trace",
            SpeedSource::Others => "assumed for other GPUs",
        }
    }
}

/// The speed of a job on one type of GPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuSpeed {
    pub gpu: Arc<str>,
    pub speed: Speed,
    pub from: SpeedSource,
}

/// The speeds of a job on all types of GPUs that it may get. Many jobs share one value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speeds {
    /// The type of GPU on which the job takes its stated duration. Its speed is 1.
    pub reference: Arc<str>,
    /// The other types, sorted by name.
    pub others: Vec<GpuSpeed>,
}

impl Speeds {
    /// The speed on this type of GPU. A type without a stated speed counts as the reference.
    pub fn of(&self, gpu: &str) -> Speed {
        self.stated(gpu).map_or(Speed::ONE, |known| known.speed)
    }

    /// The speed on this type of GPU, with its source. `None` for the reference.
    pub fn stated(&self, gpu: &str) -> Option<&GpuSpeed> {
        let at = self.others.binary_search_by(|known| (*known.gpu).cmp(gpu)).ok()?;
        Some(&self.others[at])
    }

    /// The speed on GPUs of these types together, which is that of the slowest. 1 without GPUs.
    pub fn slowest<'a>(&self, gpus: impl Iterator<Item = &'a str>) -> Speed {
        gpus.map(|gpu| self.of(gpu)).min().unwrap_or(Speed::ONE)
    }

    /// The largest speed on any type of GPU.
    pub fn largest(&self) -> Speed {
        self.others.iter().map(|known| known.speed).fold(Speed::ONE, Speed::max)
    }

    /// The smallest speed on any type of GPU.
    pub fn smallest(&self) -> Speed {
        self.others.iter().map(|known| known.speed).fold(Speed::ONE, Speed::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(text: &str) -> Speed {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_speed_is_a_decimal_number_above_zero() {
        for (text, millionths, shown) in [
            ("2.2", 2_200_000, "2.2"),
            ("1", 1_000_000, "1"),
            ("0.45", 450_000, "0.45"),
            ("1.980263", 1_980_263, "1.98"),
            ("0.000001", 1, "0.000001"),
            ("100", 100_000_000, "100"),
        ] {
            assert_eq!((speed(text).as_millionths(), &*speed(text).to_string()), (millionths, shown), "{text}");
        }
        for wrong in ["", "0", "0.0", "-1", "+1", "1.", ".5", "1e3", "2x", "0.0000001", "1000000", "nan", "220%"] {
            assert_eq!(wrong.parse::<Speed>(), Err(BadSpeed), "{wrong}");
        }
    }

    /// 1 h at 2.2 times the speed takes 1636.36… s, rounded up to a nanosecond.
    #[test]
    fn time_is_work_divided_by_speed() {
        let hour = SimDuration::from_secs(3600);
        assert_eq!(speed("2.2").time(hour), SimDuration::from_nanos(1_636_363_636_364));
        assert_eq!(speed("0.5").time(hour), SimDuration::from_secs(7200));
        assert_eq!(Speed::ONE.time(hour), hour);
        assert_eq!(speed("0.000001").time(SimDuration::MAX), SimDuration::MAX);
    }

    /// 70 % at 3 times and 30 % at 1.5 times the speed take 0.7 / 3 + 0.3 / 1.5 = 0.4333… of the time.
    #[test]
    fn parts_of_the_time_have_their_own_speeds() {
        let of =
            |one: (u32, &str), other: (u32, &str)| Speed::of_parts([(one.0, speed(one.1)), (other.0, speed(other.1))]);
        assert_eq!(of((700, "3"), (300, "1.5")), Some(speed("2.307692")));
        assert_eq!(of((1000, "3"), (0, "1.5")), Some(speed("3")));
        assert_eq!(of((0, "3"), (0, "1.5")), None);
        assert_eq!(Speed::of_rates(2_619, 4_395), Some(speed("0.595904")));
        assert_eq!(Speed::of_rates(301_000, 152_000), Some(speed("1.980263")));
        assert_eq!((Speed::of_rates(0, 5), Speed::of_rates(5, 0)), (None, None));
    }

    #[test]
    fn several_gpus_are_as_fast_as_the_slowest() {
        let known = |gpu: &str, text| GpuSpeed { gpu: Arc::from(gpu), speed: speed(text), from: SpeedSource::File };
        let speeds = Speeds { reference: Arc::from("a"), others: vec![known("b", "2"), known("c", "0.5")] };
        for (gpus, expected) in [(&["b", "b"][..], "2"), (&["a", "b"], "1"), (&["b", "c", "a"], "0.5"), (&[], "1")] {
            assert_eq!(speeds.slowest(gpus.iter().copied()), speed(expected), "{gpus:?}");
        }
        assert_eq!(speeds.largest(), speed("2"));
    }
}
