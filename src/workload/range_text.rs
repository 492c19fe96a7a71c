//! Parses dstack's notation for ranges: `2..8`, `16GB..`, `..4`, `80GB`.
//!
//! Source: the answers of the parser of dstack 0.19.9 to 0.22.5. The parser drops whitespace and ignores case. A number
//! without a unit is in GB. 1 GB is 1024 MB, and 1 TB is 1024 GB.

use thiserror::Error;

use super::requirements::Bounds;
use dryrack_units::Bytes;

/// Why a text is not a range. The message follows a name and a colon.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    #[error("a range without ends allows everything")]
    Endless,
    #[error("the end of `{text}` is before its start")]
    Inverted { text: String },
    #[error("`{text}` is not {expected}")]
    Malformed { text: String, expected: &'static str },
}

/// A value that can be an end of a range.
pub trait Bound: Copy + Ord {
    const EXPECTED: &'static str;

    /// Parses one end of a range. A value between two units is rounded up at a lower end (`is_min`), and down at an
    /// upper end.
    fn read(text: &str, is_min: bool) -> Option<Self>;
}

impl Bound for u64 {
    const EXPECTED: &'static str = "a whole number";

    fn read(text: &str, _: bool) -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    }
}

impl Bound for u32 {
    const EXPECTED: &'static str = "a whole number";

    fn read(text: &str, is_min: bool) -> Option<u32> {
        u64::read(text, is_min).and_then(|number| u32::try_from(number).ok())
    }
}

impl Bound for Bytes {
    const EXPECTED: &'static str = "an amount of memory such as 16GB";

    fn read(text: &str, is_min: bool) -> Option<Bytes> {
        let lower = text.to_ascii_lowercase();
        let units = [("mb", 1u128 << 20), ("gb", 1 << 30), ("tb", 1 << 40)];
        let found = units.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?, *bytes)));
        let (number, unit) = found.unwrap_or((lower.as_str(), 1 << 30));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        // Real amounts of memory never have more than 18 decimal places. The limit prevents overflow below.
        if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) || fraction.len() > 18 {
            return None;
        }
        let scale = 10u128.pow(fraction.len() as u32);
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let scaled = whole.checked_mul(scale)?.checked_add(fraction)?.checked_mul(unit)?;
        let bytes = if is_min { scaled.div_ceil(scale) } else { scaled / scale };
        u64::try_from(bytes).ok().map(Bytes::new)
    }
}

/// Parses `a..b`, `a..`, `..b` or a single value, which then is both ends of the range.
pub fn parse_range<T: Bound>(text: &str) -> Result<Bounds<T>, RangeError> {
    let bare: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let end = |part: &str, is_min| match part {
        "" => Ok(None),
        part => match T::read(part, is_min) {
            Some(value) => Ok(Some(value)),
            None => Err(RangeError::Malformed { text: part.to_string(), expected: T::EXPECTED }),
        },
    };
    let (low, high) = bare.split_once("..").unwrap_or((&bare, &bare));
    let bounds = Bounds { min: end(low, true)?, max: end(high, false)? };
    check_range(bounds, &bare)
}

/// Rejects a range that no value satisfies, and a range that every value satisfies.
pub fn check_range<T: Bound>(bounds: Bounds<T>, text: &str) -> Result<Bounds<T>, RangeError> {
    match (bounds.min, bounds.max) {
        (None, None) => Err(RangeError::Endless),
        (Some(min), Some(max)) if min > max => Err(RangeError::Inverted { text: text.to_string() }),
        _ => Ok(bounds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(text: &str) -> Result<(Option<u64>, Option<u64>), RangeError> {
        let mib = |bytes: Bytes| bytes.get() >> 20;
        parse_range::<Bytes>(text).map(|range| (range.min.map(mib), range.max.map(mib)))
    }

    /// Expected values are in MiB, by the rules at the top of this file.
    #[test]
    fn ranges_of_memory_are_read_as_dstack_reads_them() {
        let rows = [
            ("16", (Some(16384), Some(16384))),
            ("8GB..", (Some(8192), None)),
            ("..512 mb", (None, Some(512))),
            ("0.5..1TB", (Some(512), Some(1 << 20))),
            ("523775MB..", (Some(523_775), None)),
            (" 1gb .. 1.5gb ", (Some(1024), Some(1536))),
        ];
        for (text, expected) in rows {
            assert_eq!(memory(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_is_told_why() {
        assert_eq!(parse_range::<u64>(".."), Err(RangeError::Endless));
        assert_eq!(parse_range::<u64>("8..2"), Err(RangeError::Inverted { text: "8..2".to_string() }));
        for text in ["", "x", "2...4", "-1", "1.5"] {
            assert!(parse_range::<u64>(text).is_err(), "{text}");
        }
        for text in ["8KB", "8GiB", ".", "GB"] {
            assert!(memory(text).is_err(), "{text}");
        }
    }
}
