//! One replica of a model, and the resources that it holds.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use dryrack_catalog::Vendor;

/// The programming interface of a GPU. Model schedulers call it the GPU's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GpuKind {
    Cuda,
    Rocm,
    Mps,
    Cann,
    Musa,
    Dcu,
    Unknown,
}

impl GpuKind {
    const NAMES: [(&'static str, GpuKind); 8] = [
        ("cuda", GpuKind::Cuda),
        ("rocm", GpuKind::Rocm),
        ("mps", GpuKind::Mps),
        ("cann", GpuKind::Cann),
        ("npu", GpuKind::Cann),
        ("musa", GpuKind::Musa),
        ("dcu", GpuKind::Dcu),
        ("unknown", GpuKind::Unknown),
    ];

    pub fn of(vendor: Option<Vendor>) -> GpuKind {
        match vendor {
            Some(Vendor::Nvidia) => GpuKind::Cuda,
            Some(Vendor::Amd) => GpuKind::Rocm,
            Some(Vendor::Apple) => GpuKind::Mps,
            Some(Vendor::Ascend) => GpuKind::Cann,
            Some(Vendor::Intel | Vendor::Tenstorrent) | None => GpuKind::Unknown,
        }
    }

    /// The vendor of GPUs of this kind. `None` if no node can have such GPUs.
    pub fn vendor(self) -> Option<Vendor> {
        match self {
            GpuKind::Cuda => Some(Vendor::Nvidia),
            GpuKind::Rocm => Some(Vendor::Amd),
            GpuKind::Mps => Some(Vendor::Apple),
            GpuKind::Cann => Some(Vendor::Ascend),
            GpuKind::Musa | GpuKind::Dcu | GpuKind::Unknown => None,
        }
    }

    pub fn name(self) -> &'static str {
        GpuKind::NAMES.iter().find(|(_, kind)| *kind == self).expect("every kind has a name").0
    }
}

impl fmt::Display for GpuKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for GpuKind {
    type Err = String;

    fn from_str(text: &str) -> Result<GpuKind, String> {
        let known = GpuKind::NAMES.iter().find(|(name, _)| *name == text);
        known
            .map(|(_, kind)| *kind)
            .ok_or_else(|| format!("`{text}` is not a kind of GPU: cuda, rocm, mps, cann, musa, dcu"))
    }
}

/// The key that identifies the model of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelKey(pub u64);

/// The resources that an instance holds on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The number of the node. `None` if a recorded node does not exist.
    pub node: Option<usize>,
    /// The instance's GPUs, by index on the node.
    pub indexes: SmallVec<[u32; 8]>,
    /// The index of each GPU, with the number of bytes held on it.
    pub claims: SmallVec<[(u32, u64); 8]>,
    /// Held RAM in bytes.
    pub ram: u64,
}

/// One replica of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedInstance {
    pub model: ModelKey,
    pub model_name: Arc<str>,
    pub backend: Arc<str>,
    /// The kind of GPU that the instance claims to use.
    pub kind: Option<GpuKind>,
    /// Whether the instance was placed on several nodes.
    pub is_distributed: bool,
    /// The part on the main node. `None` after this part has ended.
    pub main: Option<Part>,
    pub subordinates: SmallVec<[Part; 1]>,
}

impl ServedInstance {
    /// The numbers of the instance's nodes, sorted and without duplicates.
    pub fn nodes(&self) -> SmallVec<[usize; 4]> {
        let mut nodes: SmallVec<[usize; 4]> =
            self.main.iter().chain(&self.subordinates).filter_map(|part| part.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The parts of the instance on a node. The flag says whether a part is the main part.
    pub fn parts_on(&self, node: usize) -> impl Iterator<Item = (&Part, bool)> {
        let main = self.main.iter().map(|part| (part, true));
        let all = main.chain(self.subordinates.iter().map(|part| (part, false)));
        all.filter(move |(part, _)| part.node == Some(node))
    }

    pub(super) fn leave(&mut self, node: usize) {
        if self.main.as_ref().is_some_and(|part| part.node == Some(node)) {
            self.main = None;
        }
        self.subordinates.retain(|part| part.node != Some(node));
    }
}
