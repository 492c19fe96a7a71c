//! Times of the API, such as `2026-01-01T14:56:53Z`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};
use thiserror::Error;

/// Whole seconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub i64);

/// A text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a time; expected one such as 2026-01-01T14:56:53Z")]
pub struct TimeError {
    pub text: String,
}

impl Seconds {
    /// Reads the form that the API writes: RFC 3339 in UTC, or with an offset. A fraction of a second is dropped.
    ///
    /// # Errors
    /// If the text has another form, or states a date or a time of day that does not exist.
    pub fn parse(text: &str) -> Result<Seconds, TimeError> {
        parse(text).ok_or_else(|| TimeError { text: text.to_string() })
    }
}

fn number(text: &str, digits: usize) -> Option<(i64, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
    Some((is_number.then(|| number.parse().ok()).flatten()?, rest))
}

fn parse(text: &str) -> Option<Seconds> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (hour, rest) = number(rest.strip_prefix(['T', 't', ' '])?, 2)?;
    let (minute, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (second, rest) = number(rest.strip_prefix(':')?, 2)?;
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => rest,
    };
    let offset = match rest {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = rest.strip_prefix(['+', '-'])?.split_once(':')?;
            let ((hours, ""), (minutes, "")) = (number(hours, 2)?, number(minutes, 2)?) else { return None };
            let seconds = hours * 3600 + minutes * 60;
            if rest.starts_with('-') { -seconds } else { seconds }
        }
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if !(1..=days_of_month).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Count days from March, so that a leap day is the last of its year.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(Seconds(days * 86_400 + hour * 3600 + minute * 60 + second - offset))
}

/// RFC 3339 in UTC, as the API writes a time.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0.div_euclid(86_400), self.0.rem_euclid(86_400));
        // The inverse of the conversion in `parse`. An era has 400 years.
        let days = days + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = era * 400 + year + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Seconds::parse(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `date -u -d ... +%s` of GNU coreutils.
    #[test]
    fn a_time_is_read() {
        let rows = [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-01-01T14:56:53Z", 1_767_279_413),
            ("2024-02-29T23:59:59Z", 1_709_251_199),
            ("2000-03-01T00:00:00.123456Z", 951_868_800),
            ("2026-01-02T01:30:00+01:30", 1_767_312_000),
            ("1969-12-31T23:59:59Z", -1),
        ];
        for (text, seconds) in rows {
            assert_eq!(Seconds::parse(text), Ok(Seconds(seconds)), "{text}");
            assert_eq!(Seconds::parse(&Seconds(seconds).to_string()), Ok(Seconds(seconds)), "{text}");
        }
        for text in ["", "2026-01-01", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "now"] {
            assert!(Seconds::parse(text).is_err(), "{text}");
        }
    }
}
