//! Floor 1. Known GPUs, machines and models. They come from data files in which each row has its source and date.
//!
//! Owns names such as `h100-80g` and `h100-80g-x8`, and the hardware that they mean. A figure comes from a driver, a
//! vendor or a recorded machine, and its row states the source. If no real product has the number of cores or the
//! memory size of a machine, its row says so. `as_of` is the date of the source, or the day it was read if it has no
//! date. Must never decide or prefer anything. Must never hold a price: the prices of sellers differ several times
//! over, so the user states them.
//!
//! A row that cannot be parsed is a bug in this program and causes a panic on first use. The tests read every row.

#![warn(clippy::unwrap_used)]

mod compatibility;
mod dstack_gpu;
mod gpu_names;
mod kind;
mod mig;
mod model;
mod reported;
mod row;
mod similar;
mod speeds;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;

use dryrack_units::{Bytes, MilliCpu};

pub use compatibility::{Accelerator, Compatibility, Host, Kind, Mismatch, Served, compatibilities, mismatch};
pub use dstack_gpu::{DstackGpu, KnownGpus, dstack_gpu, dstack_gpu_memory, dstack_gpu_name, dstack_gpus};
pub use gpu_names::{GpuName, gpu_names, gpus_named, machine_named};
pub use kind::{Category, ComputeCapability, CpuArch, KindError, Os, Server, Vendor};
pub use mig::{MigProfile, mig_part, mig_profile, mig_profiles};
pub use model::{Model, Weights, model, models};
pub use reported::gpu_reported;
use row::{Row, rows};
pub use similar::{SimilarGpus, similar_gpus, stated_memory};
pub use speeds::{Figure, Work, figures, figures_of_both};

/// A kind of GPU. A row of `gpus.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuModel {
    pub name: &'static str,
    /// Other names of this GPU, in traces and other programs.
    pub aliases: Vec<&'static str>,
    pub vendor: Vendor,
    /// The total memory that the driver reports (for NVIDIA, by NVML). It differs from the marketing size: an H100 of
    /// "80 GB" has 81 559 MiB. `None` if and only if `unified` is true.
    pub memory: Option<Bytes>,
    /// Whether the memory is part of the machine's RAM. If so, its size depends on the machine: see
    /// [`MachineGpu::memory`].
    pub unified: bool,
    /// The architecture: a name such as Ampere, Hopper or CDNA3, or an AMD target such as gfx1101.
    pub architecture: Option<&'static str>,
    pub compute_capability: Option<ComputeCapability>,
    pub source: &'static str,
    /// The date of the source, as YYYY-MM-DD.
    pub as_of: &'static str,
}

/// A kind of machine. A row of `machines.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub name: &'static str,
    /// The number of cores that the operating system counts. On most x86_64 machines these are hardware threads, and in
    /// a cloud these are vCPUs.
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub os: Os,
    pub arch: CpuArch,
    /// The GPUs in the order of the machine's GPU indexes. Empty for a machine without GPUs.
    pub gpus: Vec<MachineGpu>,
    pub source: &'static str,
    /// The date of the source, as YYYY-MM-DD.
    pub as_of: &'static str,
}

/// A group of identical GPUs in a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MachineGpu {
    /// The name of the GPU model, with which [`gpu`] finds it.
    pub model: &'static str,
    pub count: u32,
    /// The memory of each GPU. For unified memory, this is the amount that the machine lets its GPU use. On macOS this
    /// is the limit on wired memory. Its default is two thirds of a small RAM and three quarters of a large one. Newer
    /// releases allow more.
    pub memory: Bytes,
}

static GPUS: LazyLock<Vec<GpuModel>> = LazyLock::new(|| {
    let file = include_str!("gpus.csv");
    rows("gpus.csv", file).map(gpu_from).collect()
});

static MACHINES: LazyLock<Vec<Machine>> = LazyLock::new(|| {
    let file = include_str!("machines.csv");
    rows("machines.csv", file).map(machine_from).collect()
});

/// All GPU models, sorted by name.
pub fn gpus() -> &'static [GpuModel] {
    &GPUS
}

/// All machines, sorted by name.
pub fn machines() -> &'static [Machine] {
    &MACHINES
}

/// The GPU models by name and alias. Schedulers look them up for each offer. A name that two models have is of the first.
static GPUS_BY_NAME: LazyLock<BTreeMap<&str, &GpuModel>> = LazyLock::new(|| {
    let mut by_name = BTreeMap::new();
    for model in gpus() {
        for name in std::iter::once(model.name).chain(model.aliases.iter().copied()) {
            by_name.entry(name).or_insert(model);
        }
    }
    by_name
});

/// The GPU model with exactly this name or alias.
pub fn gpu(name: &str) -> Option<&'static GpuModel> {
    GPUS_BY_NAME.get(name).copied()
}

/// The machine with exactly this name.
pub fn machine(name: &str) -> Option<&'static Machine> {
    machines().iter().find(|machine| machine.name == name)
}

fn gpu_from(row: Row) -> GpuModel {
    let unified = row.text("memory_mib") == "unified";
    GpuModel {
        name: row.text("name"),
        aliases: row.list("aliases").collect(),
        vendor: row.required("vendor"),
        memory: (!unified).then(|| Bytes::from_mib(row.required("memory_mib"))),
        unified,
        architecture: Some(row.text("architecture")).filter(|name| !name.is_empty()),
        compute_capability: row.optional("compute_capability"),
        source: row.text("source"),
        as_of: row.text("as_of"),
    }
}

fn machine_from(row: Row) -> Machine {
    let own_memory = row.optional("gpu_memory_mib").map(Bytes::from_mib);
    let gpu_from = |item: &'static str| {
        let place = &row.place;
        let (name, count) =
            item.split_once(':').unwrap_or_else(|| panic!("{place}: `{item}` is not of the form name:count"));
        let model = gpu(name).unwrap_or_else(|| panic!("{place}: there is no GPU `{name}`"));
        let count = count.parse().unwrap_or_else(|error| panic!("{place}: count in `{item}`: {error}"));
        let memory = own_memory.or(model.memory).unwrap_or_else(|| panic!("{place}: unified without gpu_memory_mib"));
        MachineGpu { model: model.name, count, memory }
    };
    Machine {
        name: row.text("name"),
        cpu: MilliCpu::from_cores(row.required("cpu_cores")),
        ram: Bytes::from_mib(row.required("ram_mib")),
        os: row.required("os"),
        arch: row.required("arch"),
        gpus: row.list("gpus").map(gpu_from).collect(),
        source: row.text("source"),
        as_of: row.text("as_of"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use dryrack_nearest::nearest;

    fn is_date(text: &str) -> bool {
        let numbers: Vec<u32> = text.split('-').filter_map(|part| part.parse().ok()).collect();
        let is_shaped = text.len() == 10 && text.bytes().enumerate().all(|(at, b)| (b == b'-') == (at == 4 || at == 7));
        is_shaped && matches!(numbers[..], [2000..=2100, 1..=12, 1..=31])
    }

    #[test]
    fn every_row_says_where_it_comes_from_and_when() {
        let gpu_rows = gpus().iter().map(|row| (row.name, row.source, row.as_of));
        let machine_rows = machines().iter().map(|row| (row.name, row.source, row.as_of));
        let model_rows = models().iter().map(|row| (row.name, row.source, row.as_of));
        for (name, source, as_of) in gpu_rows.chain(machine_rows).chain(model_rows) {
            assert!(source.len() >= 10, "{name}: source `{source}`");
            assert!(is_date(as_of), "{name}: date `{as_of}`");
        }
    }

    #[test]
    fn names_are_kebab_case_unique_and_sorted() {
        let gpu_names: Vec<_> = gpus().iter().map(|row| row.name).collect();
        let machine_names: Vec<_> = machines().iter().map(|row| row.name).collect();
        for names in [&gpu_names, &machine_names] {
            for name in names {
                let is_kebab = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                assert!(name.bytes().all(is_kebab), "{name}");
            }
            for pair in names.windows(2) {
                assert!(pair[0] < pair[1], "{} before {}", pair[0], pair[1]);
            }
        }
        let aliases = gpus().iter().flat_map(|row| row.aliases.iter().copied());
        let mut seen: BTreeSet<_> = gpu_names.iter().copied().collect();
        for alias in aliases {
            assert!(seen.insert(alias), "{alias} names two GPUs");
        }
    }

    #[test]
    fn memory_of_a_gpu_is_what_such_a_gpu_can_have() {
        for model in gpus() {
            assert_eq!(model.unified, model.memory.is_none(), "{}", model.name);
            if let Some(memory) = model.memory {
                assert!(memory >= Bytes::from_gib(8) && memory <= Bytes::from_gib(512), "{}: {memory}", model.name);
            }
        }
    }

    #[test]
    fn memory_in_a_name_is_its_memory_within_a_tenth() {
        for model in gpus() {
            let Some(memory) = model.memory else { continue };
            let Some(size) = model.name.rsplit('-').next().and_then(|part| part.strip_suffix('g')) else { continue };
            let named = Bytes::from_gib(size.parse().unwrap()).get() as f64;
            assert!((0.9..=1.1).contains(&(memory.get() as f64 / named)), "{}: {memory}", model.name);
        }
    }

    #[test]
    fn every_machine_has_gpus_of_the_catalog_and_memory_that_adds_up() {
        for machine in machines() {
            let name = machine.name;
            assert!(machine.cpu >= MilliCpu::from_cores(1) && machine.cpu <= MilliCpu::from_cores(512), "{name}");
            assert!(machine.ram >= Bytes::from_gib(8) && machine.ram <= Bytes::from_gib(4096), "{name}");
            for group in &machine.gpus {
                let model = gpu(group.model).unwrap();
                assert!((1..=16).contains(&group.count), "{name}");
                match model.memory {
                    Some(memory) => assert_eq!(group.memory, memory, "{name}"),
                    None => {
                        assert_eq!(group.count, 1, "{name}");
                        let half = Bytes::new(machine.ram.get() / 2);
                        assert!(group.memory >= half && group.memory <= machine.ram, "{name}: {}", group.memory);
                    }
                }
                assert_eq!(model.vendor == Vendor::Apple, machine.os == Os::Darwin, "{name}");
            }
        }
    }

    #[test]
    fn a_machine_named_after_gpus_has_that_many_of_them() {
        for machine in machines() {
            let Some((model, count)) = machine.name.rsplit_once("-x") else { continue };
            let (Some(model), Ok(count)) = (gpu(model), count.parse::<u32>()) else { continue };
            let [group] = machine.gpus[..] else { panic!("{}", machine.name) };
            assert_eq!((group.model, group.count), (model.name, count), "{}", machine.name);
        }
    }

    #[test]
    fn figures_are_those_of_their_sources() {
        // 81559MiB by NVML, as listed in modal-labs/modal-client#2797.
        assert_eq!(gpu("h100-80g").unwrap().memory, Some(Bytes::new(85_520_809_984)));
        // The openb trace calls the 32 GB V100 by this name. The trace's authors use the size 34089205760 bytes.
        assert_eq!(gpu("V100M32").unwrap().memory, Some(Bytes::new(34_089_205_760)));
        // The worker that GPUStack recorded. Its limit on GPU memory was raised manually.
        let raised = machine("m2-ultra-192g-raised").unwrap();
        assert_eq!(raised.ram, Bytes::new(206_158_430_208));
        assert_eq!(raised.gpus[0].memory, Bytes::new(200_789_721_088));
        // AWS p4d.24xlarge has 96 vCPU, 1152 GiB and 8 GPUs.
        let p4d = machine("a100-40g-x8").unwrap();
        assert_eq!((p4d.cpu, p4d.ram), (MilliCpu::from_cores(96), Bytes::from_gib(1152)));
        assert_eq!(p4d.gpus, [MachineGpu { model: "a100-40g", count: 8, memory: Bytes::from_gib(40) }]);
    }

    #[test]
    fn there_are_machines_without_gpus_with_mixed_gpus_and_of_every_vendor() {
        assert!(machines().iter().any(|machine| machine.gpus.is_empty()));
        assert!(machines().iter().any(|machine| machine.gpus.len() > 1));
        let in_use: BTreeSet<_> =
            machines().iter().flat_map(|machine| &machine.gpus).map(|group| group.model).collect();
        // No machine of the catalog has an accelerator of these two vendors.
        for word in Vendor::WORDS.iter().filter(|word| !matches!(**word, "intel" | "tenstorrent")) {
            assert!(in_use.iter().any(|name| gpu(name).unwrap().vendor.as_str() == *word), "{word}");
        }
    }

    #[test]
    fn an_unknown_name_has_a_nearest_one() {
        assert_eq!(gpu("H100-80G"), None);
        assert_eq!(machine("h100-80g"), None);
        let near = |word| nearest(word, machines().iter().map(|machine| machine.name));
        assert_eq!(near("a100-80g-8x"), Some("a100-80g-x8"));
        assert_eq!(near("m2ultra-192g"), Some("m2-ultra-192g"));
        assert_eq!(nearest("h100", gpus().iter().map(|model| model.name)), Some("h100-80g"));
    }
}
