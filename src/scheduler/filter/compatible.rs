//! What a node is, against what a task can use: operating system, CPU architecture, types and sizes of GPUs. Nothing of
//! this changes while a node lives, so every no is a never.

use super::Verdict;
use crate::event::Reason;
use crate::scheduler::fit::{is_large_enough, is_of_type};
use crate::scheduler::row::Row;
use crate::workload::{Demand, GpuTake};

pub fn judge(demand: &Demand, row: &Row) -> Verdict {
    let task = &demand.task;
    if task.os.is_some_and(|os| os != row.shape.os) {
        return Verdict::Never(Reason::OsMismatch);
    }
    if task.arch.is_some_and(|arch| arch != row.shape.arch) {
        return Verdict::Never(Reason::ArchMismatch);
    }
    let Some(gpus) = &task.gpus else { return Verdict::Fit };
    let needed = row.gpus_per_task(demand) as usize;
    let allowed = || (0..row.shape.gpus.len()).filter(|index| row.allows_gpu(*index));
    if allowed().count() < needed {
        return Verdict::Never(Reason::TooFewGpus);
    }
    let of_type = allowed().filter(|index| is_of_type(gpus, &row.shape.gpus[*index])).count();
    if of_type < needed {
        return Verdict::Never(if of_type == 0 { Reason::GpuTypeMismatch } else { Reason::TooFewGpus });
    }
    let large = |index: &usize| match gpus.take {
        GpuTake::Memory(memory) if row.shape.gpu_memory_capacity(*index) < memory => false,
        GpuTake::Memory(_) | GpuTake::Whole | GpuTake::Share(_) => is_large_enough(gpus, &row.shape.gpus[*index]),
    };
    let of_size = allowed().filter(|index| is_of_type(gpus, &row.shape.gpus[*index])).filter(large).count();
    if of_size < needed { Verdict::Never(Reason::GpuMemoryTooSmall) } else { Verdict::Fit }
}
