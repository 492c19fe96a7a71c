//! The resources that a node lacks for one task.

use super::finding::Shortage;
use super::node_class::NodeClass;
use super::{claimable, fit};
use dryrack_units::{Bytes, GpuShare};
use dryrack_workload::{GpuDemand, GpuTake, TaskGroup};

/// Every resource that the node does not have enough of: GPUs, then CPU and RAM.
pub fn shortages(demand: TaskGroup<'_>, class: &NodeClass) -> Vec<Shortage> {
    let (task, shape, status) = (demand.task, class.shape, class.status);
    let gpus = task.gpus.as_ref().and_then(|gpus| gpu_shortage(demand, gpus, class));
    let mut found = Vec::from_iter(gpus);
    let mut compare = |resource, needed: u64, free: u64, needed_text: String, free_text: String| {
        if free < needed {
            found.push(Shortage::of(resource, (needed, free), (needed_text, free_text)));
        }
    };
    let (cpu, ram) = (status.cpu_free(shape), status.ram_free(shape));
    compare("CPU", task.cpu.get(), cpu.get(), task.cpu.to_string(), cpu.to_string());
    if shape.restricted_cores_per_gpu() > 0 && cpu >= task.cpu {
        let (rest, free) =
            (task.cpu.saturating_sub(fit::own_restricted(demand, class)), status.cpu_unrestricted_free(shape));
        compare("unrestricted CPU", rest.get(), free.get(), rest.to_string(), free.to_string());
    }
    compare("RAM", task.ram.get(), ram.get(), task.ram.to_string(), ram.to_string());
    found
}

/// The shortage of suitable GPUs. For whole GPUs, it compares the number of idle ones. Otherwise, it compares the
/// largest free amount on one of them.
fn gpu_shortage(demand: TaskGroup<'_>, gpus: &GpuDemand, class: &NodeClass) -> Option<Shortage> {
    let (shape, status) = (class.shape, class.status);
    let would_do = |index: &usize| {
        class.allows_gpu(*index)
            && claimable::is_of_type(gpus, &shape.gpus[*index])
            && status.gpus[*index].state.is_usable()
    };
    let usable = || (0..shape.gpus.len()).filter(would_do);
    let needed = class.gpus_per_task(demand);
    let short = |resource: &'static str, count: usize, amounts: (u64, u64), part: String, most: String| {
        let is_short = (count as u32) < needed;
        let (amounts, texts) = match needed {
            0 | 1 => (amounts, (part, most)),
            _ => ((needed.into(), count as u64), (format!("{needed} x {part}"), format!("{count} x {part}"))),
        };
        is_short.then(|| Shortage::of(resource, amounts, texts))
    };
    match gpus.take {
        GpuTake::Whole => {
            let idle = usable().filter(|index| status.gpu_is_idle(*index)).count();
            let texts = (needed.to_string(), idle.to_string());
            ((idle as u32) < needed).then(|| Shortage::of("GPUs", (needed.into(), idle as u64), texts))
        }
        GpuTake::Share(share) => {
            let free = || usable().map(|index| status.gpu_share_free(index));
            let most = free().max().unwrap_or(GpuShare::ZERO);
            let (count, amounts) =
                (free().filter(|free| *free >= share).count(), (share.get().into(), most.get().into()));
            short("GPU", count, amounts, share.to_string(), most.to_string())
        }
        GpuTake::Memory(memory) => {
            let free = || usable().map(|index| status.gpu_memory_free(shape, index));
            let most = free().max().unwrap_or(Bytes::ZERO);
            let (count, amounts) = (free().filter(|free| *free >= memory).count(), (memory.get(), most.get()));
            short("GPU memory", count, amounts, memory.to_string(), most.to_string())
        }
    }
}
