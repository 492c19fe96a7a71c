//! This machine as one node: its CPUs and memory, and its GPUs, from whatever answers about them.
//!
//! Each vendor is asked in the way that says most, and in the next way if that does not answer: NVML before
//! nvidia-smi, amd-smi before sysfs. The way that answered is kept, so that a whole recording comes from one way.
//! What no way could say, and why, is a note. If every way says only "not installed", there is no GPU of that kind.

use super::found::{GpuFound, Look, NodeFound};
use super::missing::Missing;
use super::{AmdSysfs, Apple, Machine, Nvml, Probe, Roots, Smi, SmiKind};
use crate::clock::{Clock, Deadline};

/// Where to look for GPUs of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuSource {
    /// Everywhere, in the order of this list.
    Any,
    Nvml,
    NvidiaSmi,
    AmdSmi,
    AmdSysfs,
    HlSmi,
    /// There is none, or none is to be asked for.
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
    vendors: Vec<Ways>,
    /// One way was asked for by name, so it is worth saying if that is not installed.
    is_named: bool,
}

/// The ways to the GPUs of one vendor, the best first.
struct Ways {
    ways: Vec<Box<dyn Probe>>,
    /// What was found last: GPUs still exist when nothing can be asked about them.
    known: Vec<GpuFound>,
}

impl Ways {
    fn new(ways: Vec<Box<dyn Probe>>) -> Ways {
        Ways { ways, known: Vec::new() }
    }

    /// Looks in the first way that answers, and gives up the ways before it for good. If none answers but one did
    /// before, its GPUs have no readings, with the first reason.
    fn look(&mut self, clock: &Clock, deadline: Deadline) -> Result<Look, Vec<Missing>> {
        let mut reasons = Vec::new();
        for index in 0..self.ways.len() {
            match self.ways[index].look(clock, deadline) {
                Ok(look) => {
                    self.ways.drain(..index);
                    self.known = look.nodes.iter().flat_map(|node| node.gpus.clone()).collect();
                    return Ok(look);
                }
                Err(missing) => reasons.push(missing),
            }
        }
        let Some(why) = reasons.first().filter(|_| !self.known.is_empty()) else { return Err(reasons) };
        let mut node = NodeFound::named("", clock.now(), "");
        let unread = |gpu: &GpuFound| GpuFound {
            at: node.at,
            utilization: Err(why.clone()),
            memory_used: Err(why.clone()),
            ..gpu.clone()
        };
        node.gpus = self.known.iter().map(unread).collect();
        Ok(Look { nodes: vec![node], notes: vec![why.to_string()] })
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
        let vendors = vendors.into_iter().map(Ways::new).collect();
        ThisMachine { base, vendors, is_named: gpus != GpuSource::Any }
    }
}

impl Probe for ThisMachine {
    fn source(&self) -> String {
        "this-machine".to_string()
    }

    fn look(&mut self, clock: &Clock, deadline: Deadline) -> Result<Look, Missing> {
        let mut look = self.base.look(clock, deadline)?;
        let Some(node) = look.nodes.first_mut() else { return Ok(look) };
        for ways in &mut self.vendors {
            match ways.look(clock, deadline) {
                Ok(mut found) => {
                    look.notes.append(&mut found.notes);
                    found.nodes.into_iter().for_each(|other| join(node, other));
                }
                Err(reasons) => {
                    // If nothing of a vendor is installed, there is nothing to say.
                    let is_named = self.is_named;
                    let is_said = |missing: &&Missing| is_named || !matches!(missing, Missing::NotInstalled { .. });
                    let said = reasons.iter().filter(is_said);
                    look.notes.extend(said.map(Missing::to_string));
                }
            }
        }
        Ok(look)
    }
}

/// Adds the GPUs of another vendor after those that are there.
fn join(node: &mut NodeFound, other: NodeFound) {
    let first = node.gpus.iter().map(|gpu| gpu.index + 1).max().unwrap_or(0);
    node.driver = node.driver.take().or(other.driver);
    node.gpus.extend(other.gpus.into_iter().map(|gpu| GpuFound { index: gpu.index + first, ..gpu }));
}
