//! Memory, CPU, shares, power and money, as integers in their smallest unit.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{UnitError, parse_scaled_sum};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            pub const ZERO: $name = $name(0);

            pub const fn new(amount: $inner) -> $name {
                $name(amount)
            }

            pub const fn get(self) -> $inner {
                self.0
            }

            pub fn checked_add(self, other: $name) -> Option<$name> {
                self.0.checked_add(other.0).map($name)
            }

            pub fn checked_sub(self, other: $name) -> Option<$name> {
                self.0.checked_sub(other.0).map($name)
            }

            pub fn saturating_sub(self, other: $name) -> $name {
                $name(self.0.saturating_sub(other.0))
            }
        }

        impl std::ops::Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                match self.checked_add(other) {
                    Some(sum) => sum,
                    None => panic!("overflow: {self} + {other}"),
                }
            }
        }

        impl std::ops::Sub for $name {
            type Output = $name;
            fn sub(self, other: $name) -> $name {
                match self.checked_sub(other) {
                    Some(rest) => rest,
                    None => panic!("negative amount: {self} - {other}"),
                }
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = $name>>(amounts: I) -> $name {
                amounts.fold($name::ZERO, |sum, amount| sum + amount)
            }
        }
    };
}

quantity! {
    /// Memory in bytes.
    Bytes(u64)
}
quantity! {
    /// CPU in thousandths of a core.
    MilliCpu(u64)
}
quantity! {
    /// A part of one GPU in thousandths. 1000 is the whole GPU.
    GpuShare(u32)
}
quantity! {
    /// A proportion in thousandths.
    Permille(u32)
}
quantity! {
    /// Money in millionths of the currency in which the user states prices.
    Money(u64)
}

quantity! {
    /// Power in thousandths of a watt.
    MilliWatts(u64)
}

quantity! {
    /// Thousandths of a request per second.
    RequestRate(u64)
}

impl GpuShare {
    pub const WHOLE: GpuShare = GpuShare(1000);

    /// This share of `memory`, rounded down, so that two halves never exceed the whole.
    pub fn of(self, memory: Bytes) -> Bytes {
        // Multiply thousands and remainder separately, because the full product might overflow before the division.
        let (thousands, rest, share) = (memory.get() / 1000, memory.get() % 1000, u64::from(self.0));
        Bytes::new(thousands.saturating_mul(share).saturating_add(rest * share / 1000))
    }
}

impl Bytes {
    pub const fn from_mib(mib: u64) -> Bytes {
        match mib.checked_mul(1 << 20) {
            Some(bytes) => Bytes(bytes),
            None => panic!("memory overflow"),
        }
    }

    /// Converts an amount in MiB from a file. Returns `None` if it is too large, because bad input must not cause a
    /// panic.
    pub fn checked_from_mib(mib: u64) -> Option<Bytes> {
        mib.checked_mul(1 << 20).map(Bytes)
    }

    pub const fn from_gib(gib: u64) -> Bytes {
        match gib.checked_mul(1 << 30) {
            Some(bytes) => Bytes(bytes),
            None => panic!("memory overflow"),
        }
    }
}

impl MilliCpu {
    pub const fn from_cores(cores: u64) -> MilliCpu {
        match cores.checked_mul(1000) {
            Some(milli) => MilliCpu(milli),
            None => panic!("CPU overflow"),
        }
    }
}

const BYTE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

impl FromStr for Bytes {
    type Err = UnitError;
    /// Parses an amount such as `80GiB` (2^30), `24GB` (10^9) or `512MiB`. `0` needs no unit.
    fn from_str(text: &str) -> Result<Bytes, UnitError> {
        parse_scaled_sum(text, BYTE_UNITS, "an amount of memory such as 80GiB, 24GB or 512MiB").map(Bytes)
    }
}

impl FromStr for MilliCpu {
    type Err = UnitError;
    /// Parses cores such as `2` or `0.5`, or thousandths of a core as in Kubernetes: `500m`.
    fn from_str(text: &str) -> Result<MilliCpu, UnitError> {
        let expected = "a number of cores such as 2, 0.5 or 500m";
        let amount = match text.trim().strip_suffix('m') {
            Some(milli) => parse_scaled_sum(&format!("{milli}u"), &[("u", 1)], expected),
            None => parse_scaled_sum(&format!("{}u", text.trim()), &[("u", 1000)], expected),
        };
        amount.map(MilliCpu).map_err(|error| error.of(text))
    }
}

impl FromStr for Permille {
    type Err = UnitError;
    /// Parses a percentage such as `92%` or `12.5%`.
    fn from_str(text: &str) -> Result<Permille, UnitError> {
        let expected = "a percentage such as 92% or 12.5%";
        let amount = parse_scaled_sum(text, &[("%", 10)], expected)?;
        u32::try_from(amount).map(Permille).map_err(|_| UnitError::TooLarge { text: text.to_string() })
    }
}

impl FromStr for GpuShare {
    type Err = UnitError;
    /// Parses a part of a GPU, as a decimal up to 1 such as `0.5` or as a percentage such as `50%`.
    fn from_str(text: &str) -> Result<GpuShare, UnitError> {
        let expected = "a part of a GPU such as 0.5 or 50%";
        let milli = match text.trim().ends_with('%') {
            true => parse_scaled_sum(text, &[("%", 10)], expected)?,
            false => parse_scaled_sum(&format!("{}u", text.trim()), &[("u", 1000)], expected)
                .map_err(|error| error.of(text))?,
        };
        match u32::try_from(milli) {
            Ok(share) if share <= GpuShare::WHOLE.0 => Ok(GpuShare(share)),
            _ => Err(UnitError::TooLarge { text: text.to_string() }),
        }
    }
}

impl FromStr for RequestRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<RequestRate, UnitError> {
        let expected = "a number of requests per second such as 10 or 0.5";
        let amount = parse_scaled_sum(&format!("{}u", text.trim()), &[("u", 1000)], expected);
        amount.map(RequestRate).map_err(|error| error.of(text))
    }
}

impl FromStr for MilliWatts {
    type Err = UnitError;
    /// Parses a power such as `350W` or `6.5kW`. `0` needs no unit.
    fn from_str(text: &str) -> Result<MilliWatts, UnitError> {
        parse_scaled_sum(text, &[("kW", 1_000_000), ("W", 1000)], "a power such as 350W or 6.5kW").map(MilliWatts)
    }
}

impl FromStr for Money {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Money, UnitError> {
        let amount = parse_scaled_sum(&format!("{}u", text.trim()), &[("u", 1_000_000)], "a price such as 2.49");
        amount.map(Money).map_err(|error| error.of(text))
    }
}

impl fmt::Display for Bytes {
    /// Formats the amount in the largest binary unit in which it is at least one. Adds one decimal if it is not whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = BYTE_UNITS[..4].iter().find(|(_, size)| self.0 >= *size).unwrap_or(&("B", 1));
        let text = match self.0 % size {
            0 => format!("{}{unit}", self.0 / size),
            rest => {
                let tenths = self.0 / size * 10 + (u128::from(rest) * 10 / u128::from(*size)) as u64;
                format!("{}.{}{unit}", tenths / 10, tenths % 10)
            }
        };
        f.pad(&text)
    }
}

/// Formats `amount` as a decimal without trailing zeros. `per_unit` is the number of parts in one unit.
fn decimal(amount: u64, per_unit: u64, digits: usize) -> String {
    let text = format!("{}.{:0digits$}", amount / per_unit, amount % per_unit);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, 1000, 3))
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, 1000, 3))
    }
}

impl fmt::Display for GpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(u64::from(self.0), 1000, 3))
    }
}

impl fmt::Display for Permille {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}%", decimal(u64::from(self.0), 10, 1)))
    }
}

impl fmt::Display for MilliWatts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}W", decimal(self.0, 1000, 3)))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Half a cent and more is rounded up.
        let cents = self.0 / 10_000 + u64::from(self.0 % 10_000 >= 5_000);
        f.pad(&format!("{}.{:02}", cents / 100, cents % 100))
    }
}

/// A decimal number with commas between its thousands, such as `385,440.00`.
pub fn grouped(number: &str) -> String {
    let (sign, digits) = number.split_at(usize::from(number.starts_with('-')));
    let (whole, part) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let first = whole.len() % 3;
    let mut text = whole[..first].to_string();
    for group in whole.as_bytes()[first..].chunks(3) {
        if !text.is_empty() {
            text.push(',');
        }
        text.extend(group.iter().map(|digit| char::from(*digit)));
    }
    format!("{sign}{text}{part}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, expected) in [("0.00", "0.00"), ("999", "999"), ("1000", "1,000"), ("385440.00", "385,440.00")] {
            assert_eq!(grouped(number), expected);
        }
        assert_eq!(grouped("1234567.5"), "1,234,567.5");
        assert_eq!((grouped("-119.03"), grouped("-1190.3")), ("-119.03".to_string(), "-1,190.3".to_string()));
    }

    #[test]
    fn amounts_of_the_field_are_understood() {
        assert_eq!("80GiB".parse(), Ok(Bytes::from_gib(80)));
        assert_eq!("0.25GiB".parse(), Ok(Bytes::from_mib(256)));
        assert_eq!("24GB".parse(), Ok(Bytes::new(24_000_000_000)));
        assert_eq!("0.5".parse(), Ok(MilliCpu::new(500)));
        assert_eq!("500m".parse(), Ok(MilliCpu::new(500)));
        assert_eq!("92%".parse(), Ok(Permille::new(920)));
        assert_eq!("0.46".parse(), Ok(GpuShare::new(460)));
        assert_eq!("2.49".parse(), Ok(Money::new(2_490_000)));
        assert_eq!("350W".parse(), Ok(MilliWatts::new(350_000)));
        assert_eq!("6.5kW".parse(), Ok(MilliWatts::new(6_500_000)));
        assert!("1.5".parse::<GpuShare>().is_err());
        assert!("80".parse::<Bytes>().is_err());
        assert!("NaN".parse::<MilliCpu>().is_err());
    }

    #[test]
    fn amounts_print_as_the_field_writes_them() {
        assert_eq!(Bytes::from_mib(81_559).to_string(), "79.6GiB");
        assert_eq!(Bytes::new(512).to_string(), "512B");
        assert_eq!(MilliCpu::new(1500).to_string(), "1.5");
        assert_eq!(GpuShare::WHOLE.to_string(), "1");
        assert_eq!(Permille::new(925).to_string(), "92.5%");
        assert_eq!(Money::new(2_490_000).to_string(), "2.49");
        let rounded =
            [(4_999, "0.00"), (5_000, "0.01"), (122_639_999_999, "122640.00"), (u64::MAX, "18446744073709.55")];
        for (millionths, wanted) in rounded {
            assert_eq!(Money::new(millionths).to_string(), wanted);
        }
        assert_eq!(MilliWatts::new(6_500_500).to_string(), "6500.5W");
    }

    #[test]
    fn two_halves_of_odd_memory_do_not_exceed_it() {
        let half = GpuShare::new(500).of(Bytes::new(3));
        assert!(half + half <= Bytes::new(3));
    }

    #[test]
    fn a_share_of_any_memory_is_its_product_in_wider_integers() {
        for memory in [0, 999, 1000, 85_899_345_920, u64::MAX - 1, u64::MAX] {
            for share in [0, 1, 333, 500, 1000, 1001, u32::MAX] {
                let plain = u128::from(memory) * u128::from(share) / 1000;
                let found = GpuShare::new(share).of(Bytes::new(memory)).get();
                assert_eq!(found, u64::try_from(plain).unwrap_or(u64::MAX), "{share} of {memory}");
            }
        }
    }
}
