//! Decimal numbers as traces write them. They are read from bytes without a conversion to floats.

use std::fmt;

const NANOS: u64 = 1_000_000_000;

/// A decimal number with nine decimal places: `-1`, `358.00`, `2739.599152`. Further places are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) negative: bool,
    whole: u64,
    nanos: u32,
}

/// Why bytes are not a [`Decimal`]. The text follows the quoted field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotDecimal {
    Malformed,
    TooLarge,
}

impl Decimal {
    pub(super) fn parse(field: &[u8]) -> Result<Decimal, NotDecimal> {
        let (negative, digits) = match field {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, field),
        };
        let mut whole: u64 = 0;
        let mut at = 0;
        while at < digits.len() && digits[at].is_ascii_digit() {
            let digit = u64::from(digits[at] - b'0');
            whole = whole.checked_mul(10).and_then(|ten| ten.checked_add(digit)).ok_or(NotDecimal::TooLarge)?;
            at += 1;
        }
        if at == 0 {
            return Err(NotDecimal::Malformed);
        }
        let nanos = fraction(&digits[at..])?;
        // A program that prints a difference of floats may print -0.0. It means zero.
        Ok(Decimal { negative: negative && (whole > 0 || nanos > 0), whole, nanos })
    }

    pub(super) fn is_minus_one(self) -> bool {
        self.negative && self.whole == 1 && self.nanos == 0
    }

    /// The value, if it is a whole number and not negative.
    pub(super) fn as_whole(self) -> Option<u64> {
        if self.negative || self.nanos > 0 { None } else { Some(self.whole) }
    }

    /// The value in billionths, if it is not negative and fits in a `u64`.
    pub(super) fn as_billionths(self) -> Option<u64> {
        if self.negative {
            return None;
        }
        self.whole.checked_mul(NANOS).and_then(|nanos| nanos.checked_add(u64::from(self.nanos)))
    }

    /// The value times `scale`, rounded down, if it is not negative and fits in a `u64`.
    pub(super) fn scaled(self, scale: u64) -> Option<u64> {
        if self.negative {
            return None;
        }
        let billionths = u128::from(self.whole) * u128::from(NANOS) + u128::from(self.nanos);
        let scaled = billionths.checked_mul(u128::from(scale))? / u128::from(NANOS);
        u64::try_from(scaled).ok()
    }
}

/// The fraction in billionths. `tail` is the text from the decimal point on, and may be empty.
fn fraction(tail: &[u8]) -> Result<u32, NotDecimal> {
    let places = match tail {
        [] => return Ok(0),
        [b'.', places @ ..] if !places.is_empty() && places.iter().all(u8::is_ascii_digit) => places,
        _ => return Err(NotDecimal::Malformed),
    };
    let digit = |place: usize| places.get(place).map_or(0, |digit| u32::from(digit - b'0'));
    Ok((0..9).fold(0, |nanos, place| nanos * 10 + digit(place)))
}

impl fmt::Display for NotDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotDecimal::Malformed => "",
            NotDecimal::TooLarge => ", which is too large",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_real_traces_are_exact() {
        let rows: [(&str, Option<u64>); 7] = [
            ("0", Some(0)),
            ("358.00", Some(358_000_000_000)),
            ("2739.599152", Some(2_739_599_152_000)),
            ("-0.0", Some(0)),
            ("-1", None),
            // Some programs print doubles with seventeen places.
            ("0.12345678901234567", Some(123_456_789)),
            ("18446744073.709551615", Some(u64::MAX)),
        ];
        for (text, nanos) in rows {
            let value = Decimal::parse(text.as_bytes()).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
            assert_eq!(value.as_billionths(), nanos, "{text}");
        }
        assert_eq!(Decimal::parse(b"1.5").map(|half| half.scaled(1024)), Ok(Some(1536)));
        assert_eq!(Decimal::parse(b"16.00").map(Decimal::as_whole), Ok(Some(16)));
        assert_eq!(Decimal::parse(b"16.5").map(Decimal::as_whole), Ok(None));
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        for text in ["", "-", "1.", ".5", "1.2.3", "1e5", "NaN", "inf", "+1", "--1", "0x10", "1,5", "١"] {
            assert_eq!(Decimal::parse(text.as_bytes()), Err(NotDecimal::Malformed), "{text}");
        }
        assert_eq!(Decimal::parse(b"99999999999999999999"), Err(NotDecimal::TooLarge));
    }
}
