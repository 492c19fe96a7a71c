//! Names that other programs give to GPUs: GRES types of Slurm, labels of Kubernetes, names of drivers, of dstack and of
//! clouds' machines.
//!
//! [`gpus_named`] compares names without regard to case, and takes spaces, `_` and `-` for the same letter. So
//! `nvidia_a100-sxm4-80gb` of Slurm, `NVIDIA-A100-SXM4-80GB` of Kubernetes and `NVIDIA A100-SXM4-80GB` of the driver are
//! one name.

use std::sync::LazyLock;

use serde::Serialize;

use super::row::{Row, rows};
use super::{GpuModel, gpu, gpu_reported};

/// A name and its meaning; a row of `gpu_names.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuName {
    pub name: &'static str,
    /// The names of the GPU models that have this name. A family such as `a100` has several.
    pub gpus: Vec<&'static str>,
    /// The machine of the catalog, if the name is that of a cloud's machine and the catalog has it.
    pub machine: Option<&'static str>,
    /// The program or the cloud that uses the name. `family` if many do.
    pub system: &'static str,
    pub source: &'static str,
    /// The date of the source, as YYYY-MM-DD.
    pub as_of: &'static str,
}

static NAMES: LazyLock<Vec<GpuName>> = LazyLock::new(|| {
    let read = |row: Row| GpuName {
        name: row.text("name"),
        gpus: row.list("gpus").collect(),
        machine: Some(row.text("machine")).filter(|name| !name.is_empty()),
        system: row.text("system"),
        source: row.text("source"),
        as_of: row.text("as_of"),
    };
    rows("gpu_names.csv", include_str!("gpu_names.csv")).map(read).collect()
});

/// All names of the table.
pub fn gpu_names() -> &'static [GpuName] {
    &NAMES
}

/// The GPU models that this name can mean. Several if the name is that of a family, such as `a100`, and none if the name
/// is unknown. A name of the catalog means exactly this model.
pub fn gpus_named(name: &str) -> Vec<&'static GpuModel> {
    if let Some(model) = gpu(name).or_else(|| gpu(&folded(name))) {
        return vec![model];
    }
    match row_of(name) {
        Some(row) => row.gpus.iter().filter_map(|model| gpu(model)).collect(),
        None => gpu_reported(name, None).into_iter().collect(),
    }
}

/// The machine of the catalog that a cloud calls by this name.
pub fn machine_named(name: &str) -> Option<&'static str> {
    row_of(name)?.machine
}

fn row_of(name: &str) -> Option<&'static GpuName> {
    let folded = folded(name);
    NAMES.iter().find(|row| self::folded(row.name) == folded)
}

fn folded(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace([' ', '_'], "-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::machine;

    #[test]
    fn every_name_means_something_once() {
        let mut seen = BTreeSet::new();
        for row in gpu_names() {
            assert!(seen.insert(folded(row.name)), "{} is there twice", row.name);
            assert!(gpu(row.name).is_none(), "{} is a name of gpus.csv", row.name);
            assert!(!row.gpus.is_empty() && row.source.len() >= 10 && row.as_of.len() == 10, "{row:?}");
            for model in &row.gpus {
                assert!(gpu(model).is_some_and(|known| known.name == *model), "{}: {model}", row.name);
            }
            if let Some(name) = row.machine {
                let gpus: Vec<_> = machine(name).expect(row.name).gpus.iter().map(|group| group.model).collect();
                assert_eq!(gpus, row.gpus, "{}", row.name);
            }
        }
    }

    /// The names are those of the programs, from the sources in the table.
    #[test]
    fn names_of_other_programs_are_known() {
        let rows: [(&str, &[&str]); 24] = [
            ("a100", &["a100-40g", "a100-80g"]),
            ("A100", &["a100-40g", "a100-80g"]),
            ("tesla_v100", &["v100-16g", "v100-32g"]),
            ("tesla_v100-sxm2-16gb", &["v100-16g"]),
            ("nvidia_a100-sxm4-80gb", &["a100-80g"]),
            ("NVIDIA-A100-SXM4-40GB", &["a100-40g"]),
            ("NVIDIA A100-SXM4-80GB", &["a100-80g"]),
            ("nvidia_h100_80gb_hbm3", &["h100-80g"]),
            ("NVIDIA-H200", &["h200-141g"]),
            ("Tesla-T4", &["t4"]),
            ("NVIDIA GeForce RTX 4090", &["rtx-4090"]),
            ("RTX4090", &["rtx-4090"]),
            ("p4d.24xlarge", &["a100-40g"]),
            ("Standard_NC24ads_A100_v4", &["a100-80g"]),
            ("V100M32", &["v100-32g"]),
            ("a100_40g", &["a100-40g"]),
            ("NVIDIA-B200", &["b200-180g"]),
            ("nvidia_b200", &["b200-180g"]),
            ("NVIDIA H100 PCIe", &["h100-80g"]),
            ("a2-ultragpu-4g", &["a100-80g"]),
            ("Standard_ND96asr_v4", &["a100-40g"]),
            ("nvidia-tesla-a100", &["a100-40g"]),
            // A part of a GPU, and a product that the catalog does not have.
            ("a100_3g.20gb", &[]),
            ("NVIDIA A10G", &[]),
        ];
        for (name, expected) in rows {
            let found: Vec<_> = gpus_named(name).iter().map(|model| model.name).collect();
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(machine_named("p5.48xlarge"), Some("h100-80g-x8"));
        assert_eq!(machine_named("p5.49xlarge"), None);
    }
}
