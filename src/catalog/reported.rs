//! Finds the catalog's row for a GPU name that a driver or server reports.

use super::{GpuModel, gpus};
use dryrack_units::Bytes;

/// Words in a product name that do not distinguish products.
const ORNAMENTS: [&str; 14] = [
    "nvidia", "tesla", "geforce", "quadro", "amd", "radeon", "instinct", "apple", "graphics", "oam", "pcie", "pci",
    "hbm3", "hbm2e",
];

/// The GPU model for a reported name ("NVIDIA A100-SXM4-80GB", "Tesla T4") and memory. `None` if the model is not
/// certain.
///
/// The reported name must contain all words of the model's name in order. No other word of it may belong to another
/// product ("RTX 4080 SUPER"). The memory, if given, must differ from the model's by at most a thirtieth, because
/// drivers reserve different amounts.
pub fn gpu_reported(name: &str, memory: Option<Bytes>) -> Option<&'static GpuModel> {
    let words = words(name);
    let fits = |model: &&GpuModel| {
        let (kind, size) = parts(model.name);
        let Some(rest) = without(&words, &kind) else { return false };
        let is_other = |word: &&String| !is_ornament(word, size);
        let is_near = match (memory, model.memory) {
            (Some(seen), Some(known)) => seen.get().abs_diff(known.get()) <= known.get() / 30,
            // If no memory is given and the model's name has a size, the reported name must contain that size.
            (None, Some(_)) => size.is_none_or(|size| rest.iter().any(|word| **word == format!("{size}gb"))),
            (_, None) => true,
        };
        is_near && !rest.iter().any(is_other)
    };
    gpus().iter().filter(fits).max_by_key(|model| (parts(model.name).0.len(), model.name))
}

fn words(name: &str) -> Vec<String> {
    let lower = name.to_ascii_lowercase();
    lower
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_string)
        .collect()
}

/// Splits a model's name into words and a memory size: `a100` and 80 for `a100-80g`; `rtx`, `4090` and no size for
/// `rtx-4090`.
fn parts(model: &str) -> (Vec<&str>, Option<u32>) {
    let mut kind: Vec<&str> = model.split('-').collect();
    let size = kind.last().and_then(|last| last.strip_suffix('g')?.parse().ok());
    if size.is_some() {
        kind.pop();
    }
    (kind, size)
}

/// The words that are left without those of `kind`. `None` if `words` does not contain the words of `kind` next to each
/// other.
fn without<'w>(words: &'w [String], kind: &[&str]) -> Option<Vec<&'w String>> {
    let at = words.windows(kind.len()).position(|window| window.iter().map(String::as_str).eq(kind.iter().copied()))?;
    Some(words[..at].iter().chain(&words[at + kind.len()..]).collect())
}

fn is_ornament(word: &str, size: Option<u32>) -> bool {
    let is_size = word.strip_suffix("gb").and_then(|digits| digits.parse::<u32>().ok());
    // Some models differ only in their memory size, so another size means another model.
    is_size.map_or_else(
        || ORNAMENTS.contains(&word) || word.starts_with("sxm"),
        |said| size.is_none_or(|size| size.abs_diff(said) <= 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as reported by nvidia-smi, DCGM and ioreg, from the sources in gpus.csv.
    #[test]
    fn what_drivers_say_is_found_and_what_is_another_product_is_not() {
        let mib = Bytes::from_mib;
        let rows = [
            ("NVIDIA A100-SXM4-80GB", Some(mib(81_920)), Some("a100-80g")),
            ("NVIDIA A100-SXM4-40GB", Some(mib(40_960)), Some("a100-40g")),
            ("NVIDIA A100-SXM4-40GB", None, Some("a100-40g")),
            ("NVIDIA H100 80GB HBM3", Some(mib(81_559)), Some("h100-80g")),
            ("NVIDIA H200", Some(mib(143_771)), Some("h200-141g")),
            ("Tesla V100-SXM2-32GB", Some(mib(32_768)), Some("v100-32g")),
            ("Tesla T4", Some(mib(15_360)), Some("t4")),
            ("NVIDIA L40S", Some(mib(46_068)), Some("l40s")),
            ("NVIDIA GeForce RTX 4090", Some(mib(24_564)), Some("rtx-4090")),
            ("Apple M2 Ultra", Some(mib(191_488)), Some("m2-ultra")),
            ("NVIDIA-L4", Some(mib(23_034)), Some("l4")),
            // These are other products.
            ("NVIDIA GeForce RTX 4080 SUPER", Some(mib(16_376)), None),
            ("NVIDIA RTX A4000", Some(mib(16_376)), None),
            ("NVIDIA A10G", Some(mib(23_028)), None),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", Some(mib(9_728)), None),
            ("NVIDIA A100-SXM4-80GB", Some(mib(20_000)), None),
            ("", None, None),
        ];
        for (name, memory, wanted) in rows {
            assert_eq!(gpu_reported(name, memory).map(|model| model.name), wanted, "{name}");
        }
    }
}
