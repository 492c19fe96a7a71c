//! Quantities such as `500m`, `28311552Ki` and `1e3`, read exactly.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};
use thiserror::Error;

/// An amount of a resource in billionths of its unit. Kubernetes rounds smaller fractions up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

const NANOS: i128 = 1_000_000_000;
const LARGEST: i128 = i64::MAX as i128 * NANOS;
/// The largest number of digits of a number. An amount of 2^63 units has fewer.
const DIGITS_MAX: usize = 30;

/// A text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a quantity; expected a number with an optional suffix, such as 500m, 4 or 16Gi")]
pub struct QuantityError {
    pub text: String,
}

impl Quantity {
    /// The amount in whole units, rounded up.
    pub fn value(self) -> i64 {
        self.rounded_up(NANOS)
    }

    /// The amount in thousandths of a unit, rounded up.
    pub fn milli_value(self) -> i64 {
        self.rounded_up(NANOS / 1000)
    }

    fn rounded_up(self, unit: i128) -> i64 {
        let whole = self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0);
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// The nearest double, such as a weight.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// Whether the amount is a whole number of units.
    pub fn is_whole(self) -> bool {
        self.nanos % NANOS == 0
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }
}

/// The factor of a suffix: a power of two, and the exponent of a power of ten.
fn factor(suffix: &str) -> Option<(i128, i32)> {
    let factor = match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    Some(factor)
}

/// A quotient, rounded up.
fn divided(number: i128, by: i128) -> i128 {
    number / by + i128::from(number % by != 0)
}

/// `scaled` times a power of ten, rounded up. `None` if it does not fit.
fn times_power(scaled: i128, exponent: i32) -> Option<i128> {
    /// The largest power of ten in 128 bits.
    const POWER_MAX: u32 = 38;
    let power = 10_i128.pow(exponent.unsigned_abs().min(POWER_MAX));
    match exponent < 0 {
        true => Some(divided(scaled, power)),
        false => scaled.checked_mul(power),
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        let parsed = || {
            let (sign, rest) = match text.strip_prefix(['+', '-']) {
                Some(rest) => (if text.starts_with('-') { -1 } else { 1 }, rest),
                None => (1, text),
            };
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, suffix) = rest.split_at(end);
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            let has_digits = !whole.is_empty() || !fraction.is_empty();
            if !has_digits || fraction.contains('.') || whole.len() + fraction.len() > DIGITS_MAX {
                return None;
            }
            let (mut digits, mut places) = (format!("0{whole}{fraction}").parse::<i128>().ok()?, fraction.len() as i32);
            let (numerator, exponent) = factor(suffix)?;
            let scaled = loop {
                match digits.checked_mul(numerator).and_then(|scaled| scaled.checked_mul(NANOS)) {
                    // The last places of a long fraction are far below a billionth.
                    None if places > 0 => (digits, places) = (divided(digits, 10), places - 1),
                    scaled => break scaled,
                }
            };
            let nanos = scaled.and_then(|scaled| times_power(scaled, exponent.saturating_sub(places)));
            // Kubernetes limits an amount that does not fit into 64 bits to the largest that does.
            Some(Quantity { nanos: sign * nanos.map_or(LARGEST, |nanos| nanos.min(LARGEST)) })
        };
        parsed().ok_or_else(|| QuantityError { text: text.to_string() })
    }
}

/// The shortest exact form in decimal units, such as `4`, `1500m` or `17179869184`.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(NANOS, ""), (NANOS / 1000, "m"), (1000, "u"), (1, "n")];
        let (unit, suffix) = units.into_iter().find(|(unit, _)| self.nanos % unit == 0).unwrap_or((1, "n"));
        write!(f, "{}{suffix}", self.nanos / unit)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m, 4 or 16Gi")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
                number.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values follow from the definition of the suffixes in the Kubernetes API reference.
    #[test]
    fn a_quantity_is_read_exactly_and_rounded_up() {
        let rows = [
            ("4", 4, 4000),
            ("500m", 1, 500),
            ("1.5", 2, 1500),
            ("0.1", 1, 100),
            (".5", 1, 500),
            ("100u", 1, 1),
            ("1Ki", 1024, 1_024_000),
            ("28311552Ki", 28_991_029_248, 28_991_029_248_000),
            ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
            ("2k", 2000, 2_000_000),
            ("1e3", 1000, 1_000_000),
            ("12E-1", 2, 1200),
            ("-1500m", -1, -1500),
            ("7Ei", 8_070_450_532_247_928_832, i64::MAX),
            ("99Ei", i64::MAX, i64::MAX),
            ("1e+3", 1000, 1_000_000),
            ("1e30", i64::MAX, i64::MAX),
            ("5e400000", i64::MAX, i64::MAX),
            ("1e-30", 1, 1),
            ("0.000001e9", 1000, 1_000_000),
            // Pi times 2^30 is 3,373,259,426.1305 and so on.
            ("3.14159265358979323846Gi", 3_373_259_427, 3_373_259_426_131),
            ("0e99", 0, 0),
            ("0", 0, 0),
        ];
        for (text, value, milli) in rows {
            let quantity: Quantity = text.parse().expect(text);
            assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text}");
        }
    }

    #[test]
    fn a_quantity_is_written_exactly() {
        let rows =
            [("4", "4"), ("1.5", "1500m"), ("2Ki", "2048"), ("100u", "100u"), ("1n", "1n"), ("-1500m", "-1500m")];
        for (text, written) in rows {
            let quantity: Quantity = text.parse().expect(text);
            assert_eq!(quantity.to_string(), written, "{text}");
            assert_eq!(written.parse(), Ok(quantity), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "m", "1 Gi", "1.2.3", "1KiB", "one", "1e", "1e1.5", "--1", "."] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }
}
