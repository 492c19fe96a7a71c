//! The text form of quantities, and a check of floats that come from outside.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};
use thiserror::Error;

/// Why a text is not the expected quantity. The text of the error follows "failed to read …: ".
#[derive(Clone, Debug, PartialEq, Error)]
pub enum UnitError {
    #[error("`{text}` is not {expected}")]
    Malformed { text: String, expected: &'static str },
    #[error("`{text}` has no unit; expected {expected}")]
    NoUnit { text: String, expected: &'static str },
    #[error("`{text}` is negative; expected {expected}")]
    Negative { text: String, expected: &'static str },
    #[error("`{text}` is finer than the smallest unit; expected {expected}")]
    TooFine { text: String, expected: &'static str },
    #[error("`{text}` is too large")]
    TooLarge { text: String },
    #[error("{what} is NaN")]
    NotANumber { what: &'static str },
    #[error("{what} is infinite")]
    Infinite { what: &'static str },
    #[error("{what} is {value}, which is outside {low} to {high}")]
    OutOfRange { what: &'static str, value: f64, low: f64, high: f64 },
}

impl UnitError {
    /// The same error with the text that the user typed. Used if a unit was appended to the typed text before parsing.
    pub(super) fn of(self, typed: &str) -> UnitError {
        let text = typed.to_string();
        match self {
            UnitError::Malformed { expected, .. } => UnitError::Malformed { text, expected },
            UnitError::NoUnit { expected, .. } => UnitError::NoUnit { text, expected },
            UnitError::Negative { expected, .. } => UnitError::Negative { text, expected },
            UnitError::TooFine { expected, .. } => UnitError::TooFine { text, expected },
            UnitError::TooLarge { .. } => UnitError::TooLarge { text },
            other @ (UnitError::NotANumber { .. } | UnitError::Infinite { .. } | UnitError::OutOfRange { .. }) => other,
        }
    }
}

impl UnitError {
    /// The error in two parts: what is wrong and, for a malformed text, also what to write instead.
    pub fn parted(&self) -> (String, Option<String>) {
        let what = |expected: &str| expected.split(" such as ").next().unwrap_or(expected).to_string();
        let (message, expected) = match self {
            UnitError::Malformed { text, expected } => (format!("`{text}` is not {}", what(expected)), expected),
            UnitError::NoUnit { text, expected } => (format!("`{text}` has no unit"), expected),
            UnitError::Negative { text, expected } => (format!("`{text}` is negative"), expected),
            UnitError::TooFine { text, expected } => {
                (format!("`{text}` is finer than the smallest unit of {}", what(expected)), expected)
            }
            UnitError::TooLarge { .. }
            | UnitError::NotANumber { .. }
            | UnitError::Infinite { .. }
            | UnitError::OutOfRange { .. } => return (self.to_string(), None),
        };
        let help = match *expected {
            "a whole number" => "write a whole number such as 8".to_string(),
            expected => format!("write {expected}"),
        };
        (message, Some(help))
    }
}

/// Checks that a reading from outside (a probe or a trace) is a number within `low..=high`. Otherwise returns a named
/// error.
pub fn finite(what: &'static str, value: f64, low: f64, high: f64) -> Result<f64, UnitError> {
    if value.is_nan() {
        return Err(UnitError::NotANumber { what });
    }
    if value.is_infinite() {
        return Err(UnitError::Infinite { what });
    }
    if !(low..=high).contains(&value) {
        return Err(UnitError::OutOfRange { what, value, low, high });
    }
    Ok(value)
}

/// Parses a sum of decimal numbers with units (`1h30m`, `2.5GiB`). The result is exact, because only integers are used.
pub(super) fn parse_scaled_sum(text: &str, units: &[(&str, u64)], expected: &'static str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let own = || text.to_string();
    if trimmed == "0" {
        return Ok(0);
    }
    if trimmed.starts_with('-') {
        return Err(UnitError::Negative { text: own(), expected });
    }
    let mut rest = trimmed;
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_len);
        let tail = tail.trim_start();
        let unit_len = tail.find(|c: char| c.is_ascii_digit() || c == '.' || c == ' ').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_len);
        if number.is_empty() {
            return Err(UnitError::Malformed { text: own(), expected });
        }
        if unit.is_empty() {
            return Err(UnitError::NoUnit { text: own(), expected });
        }
        let scale = units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
        let scale = scale.ok_or_else(|| UnitError::Malformed { text: own(), expected })?;
        let part = scale_decimal(number, scale, text, expected)?;
        sum = sum.checked_add(part).ok_or_else(|| UnitError::TooLarge { text: own() })?;
        rest = next.trim_start();
    }
    if trimmed.is_empty() { Err(UnitError::Malformed { text: own(), expected }) } else { Ok(sum) }
}

/// Parses a decimal number such as `2.2`, and returns it times `scale`. The result is exact.
pub fn decimal(text: &str, scale: u64, expected: &'static str) -> Result<u64, UnitError> {
    match text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        true => scale_decimal(text, scale, text, expected),
        false => Err(UnitError::Malformed { text: text.to_string(), expected }),
    }
}

fn scale_decimal(number: &str, scale: u64, text: &str, expected: &'static str) -> Result<u64, UnitError> {
    let malformed = || UnitError::Malformed { text: text.to_string(), expected };
    let too_large = || UnitError::TooLarge { text: text.to_string() };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(malformed());
    }
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let sum = whole.checked_mul(scale).ok_or_else(too_large)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Ok(sum);
    }
    let too_fine = || UnitError::TooFine { text: text.to_string(), expected };
    let numerator: u128 = fraction.parse().map_err(|_| too_fine())?;
    let divisor = 10u128.checked_pow(fraction.len() as u32).ok_or_else(too_fine)?;
    let scaled = numerator.checked_mul(u128::from(scale)).ok_or_else(too_fine)?;
    match scaled % divisor {
        0 => sum.checked_add((scaled / divisor) as u64).ok_or_else(too_large),
        _ => Err(too_fine()),
    }
}

/// Serializes a quantity in its text form: `#[serde(with = "TextForm")]`.
pub struct TextForm;

impl TextForm {
    pub fn serialize<T: Display, S: Serializer>(quantity: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(quantity)
    }

    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Serializes an optional quantity in its text form: `#[serde(with = "OptionalTextForm")]`.
pub struct OptionalTextForm;

impl OptionalTextForm {
    pub fn serialize<T: Display, S: Serializer>(quantity: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match quantity {
            Some(quantity) => serializer.collect_str(quantity),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// The schema of a quantity in its text form, which stands where the quantity is used.
macro_rules! text_schema {
    ($name:ident, $types:tt) => {
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": $types})
            }
        }
    };
}

text_schema!(TextForm, ["string", "number"]);
text_schema!(OptionalTextForm, ["string", "number", "null"]);

/// The words of a text, in lines of at most `width` characters. A longer word has a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_string());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

/// The text of another program, as part of a line on a terminal. Control characters, such as line feeds and the start of
/// a terminal's escape sequence, and characters that reverse the direction of text or cannot be seen are shown as `\n` or
/// `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_odd = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(letter, '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let shown = |letter: char| match letter {
        '\n' | '\r' | '\t' => letter.escape_default().to_string(),
        odd if is_odd(odd) => odd.escape_unicode().to_string(),
        plain => plain.to_string(),
    };
    Cow::Owned(text.chars().map(shown).collect())
}

/// A number with its noun: `1 node`, `2 nodes`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
