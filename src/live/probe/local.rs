//! This machine as one node: its CPUs, its memory and its GPUs.
//!
//! For each vendor there are several ways to ask, tried from the most informative to the least: NVML before nvidia-smi,
//! amd-smi before sysfs. The first way that answers is kept, so that a whole recording comes from one way. A way that
//! fails adds a note with its reason. If every way of a vendor reports "not installed", the machine has no GPU of that
//! vendor.

use super::missing::Missing;
use super::snapshot::{GpuSnapshot, NodeSnapshot, Snapshot};
use super::{AmdSysfs, Apple, Machine, Nvml, Probe, Roots, Smi, SmiKind};
use crate::clock::{Clock, Deadline};

/// How to find the GPUs of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuSource {
    /// Try all ways, in the order of this list.
    Any,
    Nvml,
    NvidiaSmi,
    AmdSmi,
    AmdSysfs,
    HlSmi,
    /// Look for no GPUs.
    None,
}

impl GpuSource {
    pub const ALL: [(&'static str, GpuSource); 7] = [
        ("any", GpuSource::Any),
        ("nvml", GpuSource::Nvml),
        ("nvidia-smi", GpuSource::NvidiaSmi),
        ("amd-smi", GpuSource::AmdSmi),
        ("amd-sysfs", GpuSource::AmdSysfs),
        ("hl-smi", GpuSource::HlSmi),
        ("none", GpuSource::None),
    ];
}

pub struct ThisMachine {
    base: Box<dyn Probe>,
    vendors: Vec<GpuSources>,
    /// Whether the user named one way. If so, its absence is worth a note.
    is_named: bool,
}

/// The ways to ask about the GPUs of one vendor, the best first.
struct GpuSources {
    ways: Vec<Box<dyn Probe>>,
    /// The GPUs of the last successful poll. They still exist when no way answers.
    known: Vec<GpuSnapshot>,
}

impl GpuSources {
    fn new(ways: Vec<Box<dyn Probe>>) -> GpuSources {
        GpuSources { ways, known: Vec::new() }
    }

    /// Uses the first way that answers, and drops the ways before it for good. If no way answers now but one did
    /// before, returns the known GPUs without readings, with the first reason.
    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Vec<Missing>> {
        let mut reasons = Vec::new();
        for index in 0..self.ways.len() {
            match self.ways[index].poll(clock, deadline) {
                Ok(snapshot) => {
                    self.ways.drain(..index);
                    self.known = snapshot.nodes.iter().flat_map(|node| node.gpus.clone()).collect();
                    return Ok(snapshot);
                }
                Err(missing) => reasons.push(missing),
            }
        }
        let Some(why) = reasons.first().filter(|_| !self.known.is_empty()) else { return Err(reasons) };
        let mut node = NodeSnapshot::named("", clock.now(), "");
        let unread = |gpu: &GpuSnapshot| GpuSnapshot {
            at: node.at,
            utilization: Err(why.clone()),
            memory_used: Err(why.clone()),
            ..gpu.clone()
        };
        node.gpus = self.known.iter().map(unread).collect();
        Ok(Snapshot { nodes: vec![node], notes: vec![why.to_string()] })
    }
}

impl ThisMachine {
    pub fn new(roots: Roots, gpus: GpuSource) -> ThisMachine {
        if cfg!(target_os = "macos") {
            return ThisMachine { base: Box::new(Apple), vendors: Vec::new(), is_named: false };
        }
        let nvml = || -> Box<dyn Probe> { Box::new(Nvml::default()) };
        let smi = |kind| -> Box<dyn Probe> { Box::new(Smi::new(kind)) };
        let sysfs = || -> Box<dyn Probe> { Box::new(AmdSysfs::new(&roots.sys)) };
        let vendors = match gpus {
            GpuSource::Any => {
                vec![vec![nvml(), smi(SmiKind::Nvidia)], vec![smi(SmiKind::Amd), sysfs()], vec![smi(SmiKind::Gaudi)]]
            }
            GpuSource::Nvml => vec![vec![nvml()]],
            GpuSource::NvidiaSmi => vec![vec![smi(SmiKind::Nvidia)]],
            GpuSource::AmdSmi => vec![vec![smi(SmiKind::Amd)]],
            GpuSource::AmdSysfs => vec![vec![sysfs()]],
            GpuSource::HlSmi => vec![vec![smi(SmiKind::Gaudi)]],
            GpuSource::None => Vec::new(),
        };
        let base = Box::new(Machine::new(roots.clone()));
        let vendors = vendors.into_iter().map(GpuSources::new).collect();
        ThisMachine { base, vendors, is_named: gpus != GpuSource::Any }
    }
}

impl Probe for ThisMachine {
    fn source(&self) -> String {
        "this-machine".to_string()
    }

    fn poll(&mut self, clock: &Clock, deadline: Deadline) -> Result<Snapshot, Missing> {
        let mut snapshot = self.base.poll(clock, deadline)?;
        let Some(node) = snapshot.nodes.first_mut() else { return Ok(snapshot) };
        for ways in &mut self.vendors {
            match ways.poll(clock, deadline) {
                Ok(mut found) => {
                    snapshot.notes.append(&mut found.notes);
                    found.nodes.into_iter().for_each(|other| join(node, other));
                }
                Err(reasons) => {
                    // If nothing of this vendor is installed, a note would not help.
                    let is_named = self.is_named;
                    let is_said = |missing: &&Missing| is_named || !matches!(missing, Missing::NotInstalled { .. });
                    let said = reasons.iter().filter(is_said);
                    snapshot.notes.extend(said.map(Missing::to_string));
                }
            }
        }
        Ok(snapshot)
    }
}

/// Adds the GPUs of another vendor after the existing GPUs of the node.
fn join(node: &mut NodeSnapshot, other: NodeSnapshot) {
    let first = node.gpus.iter().map(|gpu| gpu.index + 1).max().unwrap_or(0);
    node.driver = node.driver.take().or(other.driver);
    node.gpus.extend(other.gpus.into_iter().map(|gpu| GpuSnapshot { index: gpu.index + first, ..gpu }));
}
