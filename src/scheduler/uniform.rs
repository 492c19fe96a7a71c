//! Demands on nodes whose GPUs are all alike and do not use RAM or restricted cores. Such nodes are judged by counting, without a list of
//! claims. The answers equal those of [`super::fit`].

use super::claimable::{is_large_enough, is_of_type};
use super::fit::Load;
use super::states::ClassState;
use dryrack_event::Reason;
use dryrack_fleet::{GpuClaim, GpuState, NodeShape, NodeStatus};
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{GpuTake, TaskDemand, TaskGroup};

/// The resources that one task takes on nodes of one shape, including the part of each GPU.
#[derive(Clone, Copy, Debug)]
pub struct Uniform {
    cpu: MilliCpu,
    ram: Bytes,
    gpus: u32,
    take: GpuTake,
    /// Memory of one GPU that tasks can use.
    capacity: Bytes,
    memory: Bytes,
}

impl Uniform {
    /// Prepares a demand for nodes of this shape. `None` if these nodes cannot be judged by counting.
    pub fn of(demand: TaskGroup<'_>, shape: &NodeShape) -> Option<Uniform> {
        let gpus = demand.task.gpus.as_ref()?;
        let first = shape.gpus.first()?;
        let is_alike = !first.unified && shape.gpus.iter().all(|gpu| gpu == first);
        let has_restricted = shape.restricted_cores_per_gpu() > 0;
        if !is_alike
            || has_restricted
            || demand.pick.is_some()
            || !is_of_type(gpus, first)
            || !is_large_enough(gpus, first)
        {
            return None;
        }
        let capacity = shape.gpu_memory_capacity(0);
        let memory = match gpus.take {
            GpuTake::Whole => capacity,
            GpuTake::Share(share) => share.of(capacity),
            GpuTake::Memory(memory) => memory,
        };
        let TaskDemand { cpu, ram, .. } = *demand.task;
        Some(Uniform { cpu, ram, gpus: gpus.count, take: gpus.take, capacity, memory })
    }

    /// Why not even one task fits; `None` if one does.
    pub fn first_shortage<'s>(&self, state: &ClassState, status: impl FnOnce() -> &'s NodeStatus) -> Option<Reason> {
        if state.cpu < self.cpu {
            return Some(Reason::InsufficientCpu);
        }
        if state.ram < self.ram {
            return Some(Reason::InsufficientRam);
        }
        if let (Some(shares), Some((share, reason))) = (&state.shares, self.by_share()) {
            return match shares.has(self.gpus, share) {
                true => None,
                false if shares.usable < self.gpus => Some(Reason::GpuNotUsable),
                false => Some(reason),
            };
        }
        let status = status();
        let (mut free, mut usable, mut own, mut is_foreign) = (0, 0, 0, false);
        for (index, gpu) in status.gpus.iter().enumerate().filter(|(_, gpu)| gpu.state.is_usable()) {
            usable += 1;
            free += u32::from(self.has_room(status, index));
            own += u32::from(self.would_have_room(status, index));
            is_foreign |= !gpu.foreign.is_none();
        }
        if free >= self.gpus {
            return None;
        }
        Some(match self.take {
            _ if usable < self.gpus => Reason::GpuNotUsable,
            _ if own >= self.gpus && is_foreign => Reason::GpuBusyElsewhere,
            GpuTake::Whole => Reason::InsufficientGpus,
            GpuTake::Share(_) => Reason::InsufficientGpuShare,
            GpuTake::Memory(_) => Reason::InsufficientGpuMemory,
        })
    }

    /// The resources of this many tasks on a node on which they fit, if they take its first idle GPUs. `None` if the
    /// tasks do not take whole GPUs, or if a degraded GPU changes the order.
    pub fn first_whole(&self, status: &NodeStatus, tasks: u32) -> Option<Load> {
        let is_in_order = status.gpus.iter().all(|gpu| gpu.state != GpuState::Degraded);
        if self.take != GpuTake::Whole || !is_in_order {
            return None;
        }
        let claim = |index| GpuClaim { index: index as u16, share: GpuShare::WHOLE, memory: self.capacity };
        let is_free = |index: &usize| status.gpus[*index].state.is_usable() && status.gpu_is_idle(*index);
        let gpus = (0..status.gpus.len()).filter(is_free).take((self.gpus * tasks) as usize).map(claim).collect();
        let cpu = MilliCpu::new(self.cpu.get() * u64::from(tasks));
        Some(Load { tasks, cpu, ram: Bytes::new(self.ram.get() * u64::from(tasks)), gpus })
    }

    /// How many tasks with whole GPUs fit, up to `limit`. `None` if counting is not enough.
    pub fn capacity(&self, state: &ClassState, limit: u32) -> Option<u32> {
        let free = state.shares.as_ref().filter(|_| self.take == GpuTake::Whole)?.with(GpuShare::WHOLE);
        let by_gpus = u64::from(free.checked_div(self.gpus)?);
        let by_cpu = state.cpu.get().checked_div(self.cpu.get()).unwrap_or(u64::MAX);
        let by_ram = state.ram.get().checked_div(self.ram.get()).unwrap_or(u64::MAX);
        Some(by_gpus.min(by_cpu).min(by_ram).min(u64::from(limit)) as u32)
    }

    /// The share that must be free on each GPU, and the reason for a refusal if it is not.
    fn by_share(&self) -> Option<(GpuShare, Reason)> {
        match self.take {
            GpuTake::Whole => Some((GpuShare::WHOLE, Reason::InsufficientGpus)),
            GpuTake::Share(share) => Some((share, Reason::InsufficientGpuShare)).filter(|_| share > GpuShare::ZERO),
            GpuTake::Memory(_) => None,
        }
    }

    /// Whether one task could have its part of this GPU. The GPU must be usable.
    pub fn has_room(&self, status: &NodeStatus, index: usize) -> bool {
        let gpu = &status.gpus[index];
        let memory = || self.capacity.saturating_sub(gpu.memory_taken).saturating_sub(gpu.foreign.memory);
        match self.take {
            GpuTake::Whole => status.gpu_is_idle(index),
            GpuTake::Share(share) => status.gpu_share_free(index) >= share && memory() >= self.memory,
            GpuTake::Memory(_) => status.gpu_share_free(index) > GpuShare::ZERO && memory() >= self.memory,
        }
    }

    /// Like [`Uniform::has_room`], but without foreign use.
    fn would_have_room(&self, status: &NodeStatus, index: usize) -> bool {
        let gpu = &status.gpus[index];
        let memory = || self.capacity.saturating_sub(gpu.memory_taken);
        match self.take {
            GpuTake::Whole => gpu.holders == 0,
            GpuTake::Share(share) => GpuShare::WHOLE.saturating_sub(gpu.taken) >= share && memory() >= self.memory,
            GpuTake::Memory(_) => memory() >= self.memory && gpu.taken < GpuShare::WHOLE,
        }
    }
}
