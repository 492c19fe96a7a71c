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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::GpuParts;
    use crate::{GpuShape, GpuState, NodeState};
    use dryrack_ids::FleetId;

    /// An instance with 18 cores, 65 GiB of RAM and two GPUs.
    fn instance(blocks: Blocks) -> NodeShape {
        let gpus = vec![GpuShape::of("a", Bytes::from_gib(80)); 2];
        let shape = NodeShape::of(MilliCpu::from_cores(18), Bytes::from_gib(65), gpus);
        shape.into_instance(Instance {
            fleet: FleetId::new(0),
            blocks,
            total_blocks: None,
            disk: Bytes::ZERO,
            backend: "remote".into(),
            region: "remote".into(),
            spot: false,
            offer: None,
        })
    }

    fn parts() -> Blocks {
        let (share, memory) = (GpuShare::new(250), Bytes::from_gib(20));
        Blocks::Parts(GpuParts { name: "quarter".into(), per_gpu: 4, share, memory })
    }

    fn whole(index: u16) -> GpuClaim {
        GpuClaim { index, share: GpuShare::WHOLE, memory: Bytes::from_gib(80) }
    }

    #[test]
    fn a_slice_has_its_part_of_everything() {
        let halves = instance(Blocks::Auto);
        assert_eq!(halves.total_blocks(), Some(2));
        // 65 GiB are 66560 MiB, of which each of two blocks has 33280.
        let (ram, gpu_memory) = (Bytes::from_mib(33280), Bytes::from_gib(80));
        assert_eq!(halves.slice(1), Some(Slice { blocks: 1, cpus: 9, ram, gpus: 1, gpu_memory }));
        let none = Slice { blocks: 0, cpus: 0, ram: Bytes::ZERO, gpus: 0, gpu_memory: Bytes::ZERO };
        assert_eq!(halves.slice(0), Some(none));
    }

    #[test]
    fn what_cannot_be_divided_belongs_to_no_block() {
        let eighths = instance(parts());
        assert_eq!(eighths.total_blocks(), Some(8));
        // 18 / 8 = 2 cores, and 66560 / 8 = 8320 MiB of RAM.
        let slice = Slice { blocks: 3, cpus: 6, ram: Bytes::from_mib(24960), gpus: 3, gpu_memory: Bytes::from_gib(20) };
        assert_eq!(eighths.slice(3), Some(slice));
    }

    #[test]
    fn blocks_hold_whole_gpus_or_their_parts() {
        let halves = instance(Blocks::Auto);
        assert_eq!([0, 1].map(|block| halves.gpus_of_block(block).to_vec()), [[whole(0)], [whole(1)]]);
        let both = instance(Blocks::Count(1));
        assert_eq!(both.gpus_of_block(0).to_vec(), [whole(0), whole(1)]);
        let quarter = |index| GpuClaim { index, share: GpuShare::new(250), memory: Bytes::from_gib(20) };
        let eighths = instance(parts());
        let of_blocks = [0, 3, 4, 7].map(|block| eighths.gpus_of_block(block).to_vec());
        assert_eq!(of_blocks, [[quarter(0)], [quarter(0)], [quarter(1)], [quarter(1)]]);
    }

    #[test]
    fn parts_of_one_gpu_are_held_together() {
        let cut = instance(parts()).cut(&[5, 0, 4]).expect("a split instance");
        let held = |index, share, gib| GpuClaim { index, share: GpuShare::new(share), memory: Bytes::from_gib(gib) };
        assert_eq!(cut.gpus.to_vec(), [held(0, 250, 20), held(1, 500, 40)]);
        assert_eq!((cut.cpu, cut.ram), (MilliCpu::from_cores(6), Bytes::from_mib(24960)));
    }

    #[test]
    fn a_block_is_idle_if_nobody_holds_it_and_its_gpus_are_usable() {
        let shape = instance(Blocks::Auto);
        let mut status = NodeStatus::idle(NodeState::Ready, &shape);
        let idle =
            |status: &NodeStatus| (status.idle_blocks(&shape).collect::<Vec<_>>(), status.count_idle_blocks(&shape));
        assert_eq!(idle(&status), (vec![0, 1], 2));
        status.blocks.insert(0);
        assert_eq!(idle(&status), (vec![1], 1));
        status.gpus[0].state = GpuState::Failed;
        assert_eq!(idle(&status), (vec![1], 1));
        status.gpus[1].foreign.memory = Bytes::from_gib(1);
        assert_eq!(idle(&status), (vec![], 0));
        status.blocks.remove(0);
        assert_eq!(idle(&status), (vec![], 0));
        status.gpus[0].state = GpuState::Ready;
        assert_eq!(idle(&status), (vec![0], 1));
    }
}
