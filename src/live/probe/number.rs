//! Converts the text of other programs for a number to a quantity, or to the reason why there is none.

use super::missing::{Missing, shown};
use super::snapshot::Reading;
use dryrack_units::{Bytes, GpuShare, Permille, UnitError};
use dryrack_workload::utilization_of_percent;

/// The smallest of DCGM's blank numbers. For a figure that a GPU does not have, DCGM writes one of the numbers close to
/// the largest 64-bit integer (`DCGM_INT64_BLANK` and the 15 above it, dcgm_fields.h; the README of
/// NVIDIA/dcgm-exporter prints them). It does the same with 32 bits.
const BLANK_64: f64 = 0x7fff_ffff_ffff_fff0_u64 as f64;
const BLANKS_32: std::ops::RangeInclusive<u64> = 0x7fff_fff0..=0x7fff_ffff;
/// `DCGM_FP64_BLANK` and the numbers above it: 2^47 plus 0 to 15.
const BLANKS_FP64: std::ops::RangeInclusive<u64> = 140_737_488_355_328..=140_737_488_355_343;

/// The reason for a word that nvidia-smi, amd-smi or hl-smi print in place of a number; `None` if the text may be a
/// number.
pub(super) fn sentinel(text: &str) -> Option<Missing> {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    match inner.as_str() {
        "" | "n/a" | "na" | "-" | "not available" | "none" => Some(Missing::NotAvailable),
        "not supported" | "requested functionality has been deprecated" => Some(Missing::NotSupported),
        "unknown error" | "unknown" | "gpu requires reset" | "err!" => Some(Missing::UnknownError),
        "insufficient permissions" => Some(Missing::NotPermitted { what: "this figure".to_string() }),
        "gpu is lost" => Some(Missing::Vanished),
        _ => None,
    }
}

/// Parses a number without a unit.
pub(super) fn number(text: &str, what: &str, line: usize) -> Reading<f64> {
    if let Some(missing) = sentinel(text) {
        return Err(missing);
    }
    let number: f64 = text.trim().parse().map_err(|_| Missing::malformed(what, line, "a number", text))?;
    finite(number)
}

pub(super) fn finite(number: f64) -> Reading<f64> {
    match number {
        number if number.is_nan() => Err(Missing::NotANumber),
        number if number.is_infinite() => Err(Missing::Infinite),
        number => Ok(number),
    }
}

/// A number from an exporter's page, unless it is one of the blank numbers.
pub(super) fn not_blank(number: f64) -> Reading<f64> {
    let number = finite(number)?;
    let whole = if (0.0..BLANK_64).contains(&number) { number as u64 } else { 0 };
    let is_blank = number >= BLANK_64 || BLANKS_32.contains(&whole) || BLANKS_FP64.contains(&whole);
    if is_blank { Err(Missing::NotSupported) } else { Ok(number) }
}

pub(super) fn percent(number: f64) -> Reading<Permille> {
    utilization_of_percent(number).map_err(|error| match error {
        UnitError::NotANumber { .. } => Missing::NotANumber,
        UnitError::Infinite { .. } => Missing::Infinite,
        _ => Missing::OutOfRange { found: format!("{number}"), range: "0% to 100%" },
    })
}

/// An amount of memory, given in units of `unit` bytes. The largest accepted amount is a pebibyte.
pub(super) fn memory(number: f64, unit: u64) -> Reading<Bytes> {
    const MOST: f64 = (1_u64 << 50) as f64;
    let number = finite(number)?;
    let bytes = number * unit as f64;
    if !(0.0..=MOST).contains(&bytes) {
        return Err(Missing::OutOfRange { found: shown(&format!("{number}")), range: "0 to 1PiB of memory" });
    }
    // The product is a whole number for every known source: these report MiB, or bytes below 2^53.
    Ok(Bytes::new(bytes as u64))
}

/// The share of a GPU that others take, estimated from its utilization.
pub fn share(utilization: Permille) -> GpuShare {
    GpuShare::new(utilization.get().min(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_has_its_own_reason() {
        let rows = [
            ("[N/A]", "not_available"),
            ("N/A", "not_available"),
            ("", "not_available"),
            ("[Not Supported]", "not_supported"),
            ("[Unknown Error]", "unknown_error"),
            ("[GPU is lost]", "vanished"),
            ("[Insufficient Permissions]", "not_permitted"),
            ("NaN", "not_a_number"),
            ("-nan", "not_a_number"),
            ("inf", "infinite"),
            ("twelve", "malformed"),
            ("1,5", "malformed"),
        ];
        for (text, wanted) in rows {
            let found = number(text, "a probe", 1).map(|number| panic!("{text} read as {number}"));
            assert_eq!(found.unwrap_err().name(), wanted, "{text}");
        }
        assert_eq!(number(" 97 ", "a probe", 1), Ok(97.0));
    }

    #[test]
    fn figures_out_of_range_are_refused_and_not_clamped() {
        assert_eq!(percent(100.5).unwrap_err().name(), "out_of_range");
        assert_eq!(percent(-1.0).unwrap_err().name(), "out_of_range");
        assert_eq!(memory(-1.0, 1).unwrap_err().name(), "out_of_range");
        assert_eq!(memory(1e300, 1 << 20).unwrap_err().name(), "out_of_range");
        assert_eq!(memory(81_559.0, 1 << 20), Ok(Bytes::from_mib(81_559)));
    }

    /// The first number is in the README of NVIDIA/dcgm-exporter. The others are from DCGM's dcgm_fields.h.
    #[test]
    fn what_dcgm_writes_for_nothing_is_not_supported() {
        let largest = "9223372036854775794".parse().expect("a number");
        for blank in [largest, 2_147_483_632.0, 2_147_483_634.0, 140_737_488_355_328.0, 1e19] {
            assert_eq!(not_blank(blank), Err(Missing::NotSupported), "{blank}");
        }
        assert_eq!(not_blank(143_771.0), Ok(143_771.0));
        assert_eq!(not_blank(f64::NAN), Err(Missing::NotANumber));
    }
}
