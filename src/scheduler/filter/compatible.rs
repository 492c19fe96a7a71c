//! What a node is, against what a task can use: operating system, CPU architecture, types and sizes of GPUs; of a model
//! deployment, what its backend runs on. Nothing of this changes while a node lives, so every no is a never.

use super::Verdict;
use crate::catalog::{Accelerator, Host, Mismatch, mismatch};
use crate::event::Reason;
use crate::fleet::NodeShape;
use crate::scheduler::fit::{is_large_enough, is_of_type};
use crate::scheduler::row::Row;
use crate::workload::{Demand, Deployment, GpuTake};

pub fn judge(demand: &Demand, row: &Row) -> Verdict {
    if let Some(deployment) = &demand.deployment {
        return judge_deployment(deployment, row);
    }
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

/// One GPU that the backend runs on is enough here; how many are needed, and of which memory, is asked later.
fn judge_deployment(deployment: &Deployment, row: &Row) -> Verdict {
    let allowed = (0..row.shape.gpus.len()).filter(|index| row.allows_gpu(*index));
    let refusals: Option<Vec<Reason>> = allowed.map(|index| gpu_refusal(deployment, row.shape, index)).collect();
    match refusals {
        None => Verdict::Fit,
        Some(refusals) if refusals.is_empty() => {
            refusal(deployment, row.shape, None).map_or(Verdict::Fit, Verdict::Never)
        }
        // Of unlike GPUs the one counts that comes furthest: the reasons stand in the order in which they are asked.
        Some(refusals) => Verdict::Never(refusals.into_iter().max().expect("not empty")),
    }
}

/// Why the deployment's backend cannot serve its model on this GPU of such a node; `None` if it can.
pub fn gpu_refusal(deployment: &Deployment, shape: &NodeShape, index: usize) -> Option<Reason> {
    let gpu = &shape.gpus[index];
    let accelerator = Accelerator {
        vendor: gpu.vendor,
        compute_capability: gpu.compute_capability,
        architecture: gpu.architecture.as_deref(),
    };
    refusal(deployment, shape, Some(accelerator))
}

fn refusal(deployment: &Deployment, shape: &NodeShape, gpu: Option<Accelerator<'_>>) -> Option<Reason> {
    let host = Host { os: shape.os, arch: shape.arch, driver: shape.driver.as_deref() };
    let found = mismatch(deployment.served(), host, gpu)?;
    Some(match found {
        Mismatch::ModelArchitecture => Reason::ModelArchitectureUnsupported,
        Mismatch::Os => Reason::BackendOsMismatch,
        Mismatch::Arch => Reason::BackendArchMismatch,
        Mismatch::Vendor if gpu.is_none() => Reason::TooFewGpus,
        Mismatch::Vendor => Reason::BackendVendorMismatch,
        Mismatch::ComputeCapability => Reason::ComputeCapabilityTooLow,
        Mismatch::GpuArchitecture => Reason::GpuArchitectureUnsupported,
        Mismatch::Driver => Reason::DriverTooOld,
        Mismatch::Quantization => Reason::QuantizationUnsupported,
    })
}
