//! dstack's names of GPUs, with the memory sizes that dstack knows for each. dstack interprets a host's report by this
//! list.
//!
//! Source: the list of accelerators in PyPI gpuhunt, a library that dstack uses. dstack 0.22.5 uses gpuhunt 0.1.34.
//! dstack 0.19.9 uses 0.1.5 and dstack 0.19.10 uses 0.1.6, and the lists in these two are the same. Google's TPUs are
//! left out, because gpuhunt does not know their memory.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kind::{ComputeCapability, Vendor};
use super::row::{Row, rows};
use dryrack_units::Bytes;

/// One of dstack's GPU names, with its properties; a row of `dstack_gpus.csv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DstackGpu {
    pub name: &'static str,
    pub vendor: Option<Vendor>,
    /// The known memory sizes in GiB, in ascending order. Never empty.
    pub memory_gib: Vec<u64>,
    pub compute_capability: Option<ComputeCapability>,
    /// Whether the GPU is missing from the older list.
    is_new: bool,
}

impl DstackGpu {
    /// Whether the GPU is in this version of the list.
    pub fn is_in(&self, list: KnownGpus) -> bool {
        list == KnownGpus::Gpuhunt0134 || !self.is_new
    }
}

/// The two versions of gpuhunt's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KnownGpus {
    #[serde(rename = "gpuhunt-0.1.34")]
    Gpuhunt0134,
    /// The older list. It lacks the H200, the B200, the RTX 20, 40 (except 4090) and 50 series, and other GPUs. The
    /// memory of a GPU that is not in the list is only rounded.
    #[serde(rename = "gpuhunt-0.1.5")]
    Gpuhunt015,
}

static GPUS: LazyLock<Vec<DstackGpu>> = LazyLock::new(|| {
    let file = include_str!("dstack_gpus.csv");
    let read = |row: Row| DstackGpu {
        name: row.text("name"),
        vendor: row.optional("vendor"),
        memory_gib: row.list("memory_gib").map(|gib| gib.parse().expect("whole GiB")).collect(),
        compute_capability: row.optional("compute_capability"),
        is_new: row.text("first") != "0.1.5",
    };
    rows("dstack_gpus.csv", file).map(read).collect()
});

/// All GPUs of the newer list, sorted by vendor and name.
pub fn dstack_gpus() -> &'static [DstackGpu] {
    &GPUS
}

/// The entries by name in small letters. Schedulers look them up for each offer.
static BY_NAME: LazyLock<BTreeMap<String, &DstackGpu>> = LazyLock::new(|| {
    let mut by_name = BTreeMap::new();
    for gpu in dstack_gpus() {
        by_name.entry(gpu.name.to_ascii_lowercase()).or_insert(gpu);
    }
    by_name
});

/// Finds dstack's entry for a GPU, by dstack's name in any case or by a name of this catalog such as `h100-80g`.
pub fn dstack_gpu(name: &str) -> Option<&'static DstackGpu> {
    let find = |name: &str| BY_NAME.get(&name.to_ascii_lowercase()).copied();
    find(name).or_else(|| {
        // For example, `a100-80g` is dstack's A100, and `rtx-4090` is its RTX4090.
        let bare = name.rsplit_once('-').filter(|(_, size)| is_size(size)).map_or(name, |(bare, _)| bare);
        super::gpu(name).and_then(|_| find(&bare.replace('-', "")))
    })
}

fn is_size(word: &str) -> bool {
    word.strip_suffix('g').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name that dstack gives to a GPU that NVIDIA's driver reports as `reported`. For example, `NVIDIA A100-SXM4-80GB`
/// becomes `A100`.
///
/// Source: recorded answers of dstack 0.22.5.
pub fn dstack_gpu_name(reported: &str) -> String {
    let dropped = |name: String, word: &&str| name.replace(word, "");
    let name = ["NVIDIA ", "Tesla ", "Quadro ", "GeForce "].iter().fold(reported.to_string(), dropped);
    if name.contains("GH200") {
        return "GH200".to_string();
    }
    let is_workstation = name.contains("RTX A");
    let joined = [
        ("RTX A", "A"),
        (" Ti", "Ti"),
        (" SUPER", "SUPER"),
        (" NVL", "NVL"),
        (" Ada Generation", "Ada"),
        ("RTX ", "RTX"),
    ];
    let name = joined.iter().fold(name, |name, (apart, together)| name.replace(apart, together));
    let letters: Vec<char> = name.chars().collect();
    // The name is a family letter with the digits and letters that follow it. For workstation cards, it ends after the
    // digits.
    let family = |at: &usize| {
        let is_letter = if is_workstation { letters[*at] == 'A' } else { "AHLPTV".contains(letters[*at]) };
        is_letter && letters.get(at + 1).is_some_and(char::is_ascii_digit)
    };
    let belongs = |letter: &&char| {
        if is_workstation { letter.is_ascii_digit() } else { letter.is_alphanumeric() || **letter == '_' }
    };
    match (0..letters.len()).find(family) {
        Some(at) => letters[at..=at].iter().chain(letters[at + 1..].iter().take_while(belongs)).collect(),
        None => name.replace(' ', ""),
    }
}

/// The memory that dstack assigns to a GPU. This is the nearest size that dstack knows for the name, if that size
/// differs from the reported one by less than 7 % of itself. Otherwise, it is the reported size rounded to whole GiB. A
/// half is rounded to the even number.
pub fn dstack_gpu_memory(known: KnownGpus, name: &str, reported: Bytes) -> Bytes {
    let entry = GPUS.iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name));
    let entry = entry.filter(|gpu| gpu.is_in(known));
    let sizes = entry.map_or(&[][..], |gpu| &gpu.memory_gib);
    let nearest = sizes.iter().map(|gib| Bytes::from_gib(*gib)).min_by_key(|size| size.get().abs_diff(reported.get()));
    if let Some(size) = nearest
        && u128::from(size.get().abs_diff(reported.get())) * 100 < u128::from(size.get()) * 7
    {
        return size;
    }
    let (whole, rest, half) = (reported.get() >> 30, reported.get() & ((1 << 30) - 1), 1 << 29);
    let up = rest > half || (rest == half && whole % 2 == 1);
    Bytes::from_gib(whole + u64::from(up))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These are recorded answers of dstack 0.22.5 and 0.19.10 (`tests/data/dstack`). Only the row of the H200 with the
    /// older list was not recorded. It follows from the rules, because that list lacks the H200.
    #[test]
    fn reported_memory_becomes_the_size_that_is_known() {
        let rows = [
            (KnownGpus::Gpuhunt0134, "H100", 81559, 81920),
            (KnownGpus::Gpuhunt0134, "A100", 40960, 40960),
            (KnownGpus::Gpuhunt0134, "T4", 15360, 16384),
            (KnownGpus::Gpuhunt0134, "L4", 23034, 24576),
            (KnownGpus::Gpuhunt0134, "h200", 143_771, 141 * 1024),
            (KnownGpus::Gpuhunt015, "H200", 143_771, 140 * 1024),
            (KnownGpus::Gpuhunt0134, "Nobody's", 10_752, 10 * 1024),
        ];
        for (known, name, reported, expected) in rows {
            let found = dstack_gpu_memory(known, name, Bytes::from_mib(reported));
            assert_eq!(found, Bytes::from_mib(expected), "{name} of {reported} MiB");
        }
    }

    /// Recorded answers of dstack 0.22.5.
    #[test]
    fn what_a_driver_reports_is_shortened() {
        let rows = [
            ("NVIDIA A100-SXM4-80GB", "A100"),
            ("Tesla T4", "T4"),
            ("NVIDIA RTX A6000", "A6000"),
            ("NVIDIA H100 80GB HBM3", "H100"),
            ("NVIDIA H100 NVL", "H100NVL"),
            ("NVIDIA GeForce RTX 4090", "RTX4090"),
            ("NVIDIA GeForce RTX 3060 Ti", "RTX3060Ti"),
            ("NVIDIA RTX 6000 Ada Generation", "RTX6000Ada"),
            ("NVIDIA GH200 480GB", "GH200"),
            ("L40S", "L40S"),
        ];
        for (reported, expected) in rows {
            assert_eq!(dstack_gpu_name(reported), expected, "{reported}");
        }
    }

    #[test]
    fn a_gpu_of_this_catalog_has_its_name_there() {
        let rows = [("a100-80g", Some("A100")), ("rtx-4090", Some("RTX4090")), ("L4", Some("L4")), ("m2-ultra", None)];
        for (name, expected) in rows {
            assert_eq!(dstack_gpu(name).map(|gpu| gpu.name), expected, "{name}");
        }
    }
}
