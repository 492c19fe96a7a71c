//! Simulated time: whole nanoseconds since the start of a run.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::text::{UnitError, parse_scaled_sum};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// An instant, in nanoseconds since the start of the run. The largest instant is after 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SimTime(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SimDuration(u64);

impl SimTime {
    pub const ZERO: SimTime = SimTime(0);
    pub const MAX: SimTime = SimTime(u64::MAX);

    pub const fn from_nanos(nanos: u64) -> SimTime {
        SimTime(nanos)
    }

    pub const fn from_secs(secs: u64) -> SimTime {
        SimTime(SimDuration::from_secs(secs).0)
    }

    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time in seconds. For reports only, never for a decision.
    pub fn as_secs_f64(self) -> f64 {
        SimDuration(self.0).as_secs_f64()
    }

    pub fn checked_add(self, by: SimDuration) -> Option<SimTime> {
        self.0.checked_add(by.0).map(SimTime)
    }

    /// The instant `by` later, or [`SimTime::MAX`] if that is too large.
    pub fn saturating_add(self, by: SimDuration) -> SimTime {
        SimTime(self.0.saturating_add(by.0))
    }

    /// The time since `earlier`. `None` if `earlier` is later than this instant.
    pub fn checked_since(self, earlier: SimTime) -> Option<SimDuration> {
        self.0.checked_sub(earlier.0).map(SimDuration)
    }

    /// The time since `earlier`. Panics if `earlier` is later than this instant, because simulated time never runs
    /// backwards.
    pub fn since(self, earlier: SimTime) -> SimDuration {
        match self.checked_since(earlier) {
            Some(length) => length,
            None => panic!("time fell: {self} is before {earlier}"),
        }
    }
}

impl SimDuration {
    pub const ZERO: SimDuration = SimDuration(0);
    pub const MAX: SimDuration = SimDuration(u64::MAX);

    pub const fn from_nanos(nanos: u64) -> SimDuration {
        SimDuration(nanos)
    }

    pub const fn from_millis(millis: u64) -> SimDuration {
        match millis.checked_mul(1_000_000) {
            Some(nanos) => SimDuration(nanos),
            None => panic!("duration overflow"),
        }
    }

    /// # Panics
    ///
    /// Panics if there are more than [`SimDuration::MAX`] has. For a number from outside, use one of the two that follow.
    pub const fn from_secs(secs: u64) -> SimDuration {
        match SimDuration::checked_from_secs(secs) {
            Some(length) => length,
            None => panic!("duration overflow"),
        }
    }

    /// `None` if there are more seconds than the longest duration has, some 584 years.
    pub const fn checked_from_secs(secs: u64) -> Option<SimDuration> {
        match secs.checked_mul(NANOS_PER_SEC) {
            Some(nanos) => Some(SimDuration(nanos)),
            None => None,
        }
    }

    /// The longest duration, some 584 years, if there are more seconds.
    pub const fn saturating_from_secs(secs: u64) -> SimDuration {
        SimDuration(secs.saturating_mul(NANOS_PER_SEC))
    }

    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    pub fn as_secs_f64(self) -> f64 {
        // Convert whole and fractional seconds separately, because a double's 53 bits cannot hold every number of
        // nanoseconds.
        (self.0 / NANOS_PER_SEC) as f64 + (self.0 % NANOS_PER_SEC) as f64 / NANOS_PER_SEC as f64
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub fn saturating_mul(self, factor: u64) -> SimDuration {
        SimDuration(self.0.saturating_mul(factor))
    }

    pub fn saturating_add(self, other: SimDuration) -> SimDuration {
        SimDuration(self.0.saturating_add(other.0))
    }

    pub fn saturating_sub(self, other: SimDuration) -> SimDuration {
        SimDuration(self.0.saturating_sub(other.0))
    }

    /// The exact number of seconds as a decimal without trailing zeros: `12.5`, `0.000000001`.
    pub fn to_decimal_seconds(self) -> String {
        let (whole, nanos) = (self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC);
        if nanos == 0 {
            return whole.to_string();
        }
        format!("{whole}.{nanos:09}").trim_end_matches('0').to_string()
    }
}

impl Add<SimDuration> for SimTime {
    type Output = SimTime;
    fn add(self, by: SimDuration) -> SimTime {
        match self.checked_add(by) {
            Some(sum) => sum,
            None => panic!("time overflow: {self} + {by}"),
        }
    }
}

impl AddAssign<SimDuration> for SimTime {
    fn add_assign(&mut self, by: SimDuration) {
        *self = *self + by;
    }
}

impl Add for SimDuration {
    type Output = SimDuration;
    fn add(self, by: SimDuration) -> SimDuration {
        match self.0.checked_add(by.0) {
            Some(sum) => SimDuration(sum),
            None => panic!("duration overflow: {self} + {by}"),
        }
    }
}

impl Sub for SimDuration {
    type Output = SimDuration;
    fn sub(self, by: SimDuration) -> SimDuration {
        match self.0.checked_sub(by.0) {
            Some(rest) => SimDuration(rest),
            None => panic!("negative duration: {self} - {by}"),
        }
    }
}

const TIME_UNITS: &[(&str, u64)] = &[
    ("d", 86_400 * NANOS_PER_SEC),
    ("h", 3_600 * NANOS_PER_SEC),
    ("m", 60 * NANOS_PER_SEC),
    ("s", NANOS_PER_SEC),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl FromStr for SimDuration {
    type Err = UnitError;
    /// Parses a duration such as `90s`, `1h30m`, `2.5d` or `250ms`. `0` needs no unit.
    fn from_str(text: &str) -> Result<SimDuration, UnitError> {
        parse_scaled_sum(text, TIME_UNITS, "a duration such as 90s, 1h30m or 250ms").map(SimDuration)
    }
}

impl FromStr for SimTime {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<SimTime, UnitError> {
        text.parse::<SimDuration>().map(|since_start| SimTime(since_start.0))
    }
}

impl fmt::Display for SimDuration {
    /// Formats the exact duration, largest unit first: `1h30m`, `2d`, `1m0.5s`, `250ms`. Parsing the text gives the same
    /// value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut text = String::new();
        for (unit, nanos) in TIME_UNITS {
            // What is left below a second is a decimal part of the seconds, or of the largest unit there is.
            let is_last = *nanos <= NANOS_PER_SEC && (rest >= *nanos || !text.is_empty());
            if rest == 0 {
                break;
            } else if is_last {
                text.push_str(&format!("{}{unit}", in_units(rest, *nanos)));
                break;
            } else if rest >= *nanos {
                text.push_str(&format!("{}{unit}", rest / nanos));
                rest %= nanos;
            }
        }
        f.pad(if text.is_empty() { "0s" } else { &text })
    }
}

/// A number of nanoseconds in a larger unit, with as many decimals as are needed: `13.605`.
fn in_units(nanos: u64, unit: u64) -> String {
    let decimals = unit.ilog10() as usize;
    let exact = format!("{}.{:0decimals$}", nanos / unit, nanos % unit);
    match nanos % unit {
        0 => (nanos / unit).to_string(),
        _ => exact.trim_end_matches('0').to_string(),
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&SimDuration(self.0), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_back_what_it_prints() {
        for nanos in [0, 1, 999, 1_500_000_000, 60_000_000_001, 5_400_000_000_000, 86_400_000_000_000, u64::MAX] {
            let duration = SimDuration::from_nanos(nanos);
            assert_eq!(duration.to_string().parse::<SimDuration>(), Ok(duration));
        }
    }

    #[test]
    fn a_duration_has_decimals_only_in_its_smallest_unit() {
        let rows = [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5us"),
            (250_000_000, "250ms"),
            (999_000_001, "999.000001ms"),
            (13_605_607_948, "13.605607948s"),
            (60_500_000_000, "1m0.5s"),
            (3_600_000_000_001, "1h0.000000001s"),
            (5_400_000_000_000, "1h30m"),
            (90_061_000_000_000, "1d1h1m1s"),
        ];
        for (nanos, text) in rows {
            assert_eq!(SimDuration::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn durations_of_the_field_are_understood() {
        let rows = [
            ("1h30m", 5_400_000_000_000),
            ("2.5s", 2_500_000_000),
            ("250ms", 250_000_000),
            ("0", 0),
            ("1d", 86_400_000_000_000),
        ];
        for (text, nanos) in rows {
            assert_eq!(text.parse::<SimDuration>(), Ok(SimDuration::from_nanos(nanos)), "{text}");
        }
        for wrong in ["", "5", "-5s", "5 weeks", "s", "1.2.3s", "1e3s", "0.1ns", "99999999999999d"] {
            assert!(wrong.parse::<SimDuration>().is_err(), "{wrong}");
        }
    }
}
