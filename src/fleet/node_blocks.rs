//! The blocks of a node that is an instance: how its machine is split, and what each block holds.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Blocks;
use super::blocks::{Cut, Slice};
use super::claim::GpuClaim;
use super::instance::Instance;
use super::node::{NodeShape, NodeStatus};
use dryrack_planted::planted;
use dryrack_units::{Bytes, GpuShare, MilliCpu};

impl NodeShape {
    /// Turns a machine into an instance. Splits it into blocks if its configuration allows.
    pub fn into_instance(mut self, instance: Instance) -> NodeShape {
        let cpus = self.cpu_capacity().get() / 1000;
        let total_blocks = instance.blocks.split(cpus, self.gpus.len() as u32);
        self.instance = Some(Arc::new(Instance { total_blocks, ..instance }));
        self
    }

    /// The number of blocks of the instance. `None` if the node is not an instance of a fleet, or if it cannot be split
    /// as configured.
    pub fn total_blocks(&self) -> Option<u32> {
        self.instance.as_ref().and_then(|instance| instance.total_blocks)
    }

    fn whole_cpus(&self) -> u64 {
        self.cpu_capacity().get() / 1000
    }

    /// The resources of this many blocks. If CPUs or MiB of RAM cannot be divided evenly, the rest belongs to no block.
    pub fn slice(&self, blocks: u32) -> Option<Slice> {
        let instance = self.instance.as_ref()?;
        let total = instance.total_blocks?;
        let ram_mib = self.ram_capacity().get() >> 20;
        let (gpus, gpu_memory) = match &instance.blocks {
            Blocks::Parts(parts) => (blocks, parts.memory),
            Blocks::Auto | Blocks::Count(_) => {
                let gpus = self.gpus.len() as u32 / total * blocks;
                (gpus, self.gpus.first().filter(|_| gpus > 0).map_or(Bytes::ZERO, |gpu| gpu.memory))
            }
        };
        Some(Slice {
            blocks,
            cpus: self.whole_cpus() / u64::from(total) * u64::from(blocks),
            ram: match planted!(RestOfRamIsInTheBlocks) {
                true => Bytes::from_mib(ram_mib * u64::from(blocks) / u64::from(total)),
                false => Bytes::from_mib(ram_mib / u64::from(total) * u64::from(blocks)),
            },
            gpus,
            gpu_memory,
        })
    }

    /// The GPUs of one block, and how much of each GPU the block holds.
    pub fn gpus_of_block(&self, block: u16) -> SmallVec<[GpuClaim; 2]> {
        let Some((instance, total)) = self.instance.as_ref().and_then(|known| Some((known, known.total_blocks?)))
        else {
            return SmallVec::new();
        };
        match &instance.blocks {
            Blocks::Parts(parts) => {
                let index = block / parts.per_gpu as u16;
                SmallVec::from_iter([GpuClaim { index, share: parts.share, memory: parts.memory }])
            }
            Blocks::Auto | Blocks::Count(_) => {
                let each = self.gpus.len() as u32 / total;
                let first = u32::from(block) * each;
                let whole = |index: u32| {
                    let memory = self.gpu_memory_capacity(index as usize);
                    GpuClaim { index: index as u16, share: GpuShare::WHOLE, memory }
                };
                (first..first + each).map(whole).collect()
            }
        }
    }

    /// The resources that these blocks hold together. If several blocks have parts of the same GPU, the parts are
    /// merged into one claim.
    pub fn cut(&self, blocks: &[u16]) -> Option<Cut> {
        let slice = self.slice(blocks.len() as u32)?;
        let mut gpus: SmallVec<[GpuClaim; 2]> = SmallVec::new();
        for part in blocks.iter().flat_map(|block| self.gpus_of_block(*block)) {
            match gpus.iter_mut().find(|known| known.index == part.index) {
                Some(known) => {
                    known.share = known.share + part.share;
                    known.memory = known.memory + part.memory;
                }
                None => gpus.push(part),
            }
        }
        gpus.sort_by_key(|part| part.index);
        Some(Cut { cpu: MilliCpu::from_cores(slice.cpus), ram: slice.ram, gpus })
    }
}

impl NodeStatus {
    /// Whether no claim holds the block and its GPUs are usable and without foreign use.
    pub fn block_is_idle(&self, shape: &NodeShape, block: u16) -> bool {
        let usable = |part: &GpuClaim| {
            let gpu = &self.gpus[usize::from(part.index)];
            gpu.state.is_usable() && gpu.foreign.is_none()
        };
        !self.blocks.contains(block) && (self.is_untroubled() || shape.gpus_of_block(block).iter().all(usable))
    }

    fn is_untroubled(&self) -> bool {
        planted!(BlockOfUnusableGpuIsIdle) || self.gpus.iter().all(|gpu| gpu.state.is_usable() && gpu.foreign.is_none())
    }

    /// The idle blocks, lowest number first.
    pub fn idle_blocks<'s>(&'s self, shape: &'s NodeShape) -> impl Iterator<Item = u16> + 's {
        let total = shape.total_blocks().unwrap_or(0) as u16;
        (0..total).filter(|block| self.block_is_idle(shape, *block))
    }

    pub fn count_idle_blocks(&self, shape: &NodeShape) -> u32 {
        match self.is_untroubled() {
            true => shape.total_blocks().unwrap_or(0).saturating_sub(self.blocks.count()),
            false => self.idle_blocks(shape).count() as u32,
        }
    }
}
