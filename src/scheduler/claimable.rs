//! The GPUs of a node that one task can claim.

use smallvec::SmallVec;

use super::node_class::NodeClass;
use dryrack_fleet::{GpuClaim, GpuShape, NodeShape, NodeStatus};
use dryrack_planted::planted;
use dryrack_units::{Bytes, GpuShare};
use dryrack_workload::{GpuDemand, GpuTake, TaskGroup};

pub fn is_of_type(demand: &GpuDemand, gpu: &GpuShape) -> bool {
    demand.models.is_empty() || demand.models.contains(&gpu.model)
}

/// Whether the GPU is large enough. The comparison uses its total memory, including memory that the system reserves.
pub fn is_large_enough(demand: &GpuDemand, gpu: &GpuShape) -> bool {
    demand.min_memory.is_none_or(|least| gpu.memory >= least)
}

/// The claim that one task could have on each GPU with room for it, in order of GPU indexes.
pub fn claimable(demand: TaskGroup<'_>, class: &NodeClass) -> SmallVec<[GpuClaim; 8]> {
    let Some(gpus) = &demand.task.gpus else { return SmallVec::new() };
    with_room(demand, gpus, class, class.status).collect()
}

/// For each GPU with room for one task in the given status: the claim of such a task. The claims are in order of GPU
/// indexes.
pub fn with_room<'a>(
    demand: TaskGroup<'_>,
    gpus: &'a GpuDemand,
    class: &'a NodeClass,
    status: &'a NodeStatus,
) -> impl Iterator<Item = GpuClaim> + 'a {
    let shape = class.shape;
    let ram_left = status.ram_free(shape).saturating_sub(demand.task.ram);
    let candidates = (0..shape.gpus.len()).filter(move |index| is_candidate(gpus, class, *index));
    candidates.filter_map(move |index| claim_on(gpus, shape, status, index, ram_left))
}

/// The same claims, each with the free amount of the claimed resource: in thousandths or in bytes; zero for whole GPUs.
pub fn claims_with_room(
    demand: TaskGroup<'_>,
    gpus: &GpuDemand,
    class: &NodeClass,
    status: &NodeStatus,
) -> SmallVec<[(GpuClaim, u64); 8]> {
    let room = |index: usize| match gpus.take {
        GpuTake::Whole => 0,
        GpuTake::Share(_) => u64::from(status.gpu_share_free(index).get()),
        GpuTake::Memory(_) => status.gpu_memory_free(class.shape, index).get(),
    };
    with_room(demand, gpus, class, status).map(|claim| (claim, room(usize::from(claim.index)))).collect()
}

/// Whether the GPU has the right model and size. If GPUs were picked, it must be one of them.
pub fn is_candidate(gpus: &GpuDemand, class: &NodeClass, index: usize) -> bool {
    class.allows_gpu(index)
        && is_of_type(gpus, &class.shape.gpus[index])
        && is_large_enough(gpus, &class.shape.gpus[index])
}

pub fn claim_on(
    gpus: &GpuDemand,
    shape: &NodeShape,
    status: &NodeStatus,
    index: usize,
    ram_left: Bytes,
) -> Option<GpuClaim> {
    if !status.gpus[index].state.is_usable() && !planted!(UnusableGpuIsTaken) {
        return None;
    }
    let capacity = shape.gpu_memory_capacity(index);
    let (share, memory, fits) = match gpus.take {
        GpuTake::Whole => {
            // A GPU that uses RAM gets the memory that the task's own RAM leaves free.
            let memory = if shape.gpus[index].unified { capacity.min(ram_left) } else { capacity };
            let enough = memory == capacity || gpus.min_memory.is_none_or(|least| memory >= least);
            let some = memory > Bytes::ZERO || capacity == Bytes::ZERO;
            (GpuShare::WHOLE, memory, status.gpu_is_idle(index) && enough && some)
        }
        GpuTake::Share(share) => {
            // Rounded down, so that the shares of a GPU are never more than its memory.
            let memory = match planted!(ShareOfMemoryIsRoundedUp) {
                true => Bytes::new((capacity.get() * u64::from(share.get())).div_ceil(1000)),
                false => share.of(capacity),
            };
            let has_memory = planted!(ShareNeedsNoMemory) || status.gpu_memory_free(shape, index) >= memory;
            let fits = status.gpu_share_free(index) >= share && has_memory;
            (share, memory, fits)
        }
        GpuTake::Memory(memory) => {
            // A GPU that is held as a whole has no share left, even if some of its memory is free.
            let held_whole = status.gpu_share_free(index) == GpuShare::ZERO;
            (GpuShare::ZERO, memory, !held_whole && status.gpu_memory_free(shape, index) >= memory)
        }
    };
    fits.then_some(GpuClaim { index: index as u16, share, memory })
}
