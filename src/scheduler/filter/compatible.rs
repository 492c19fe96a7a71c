//! Compares the fixed properties of a node with what a task can use: operating system, CPU architecture, GPU models and
//! GPU sizes. For a model deployment, compares them with what the backend runs on. These properties never change while
//! a node exists, so every refusal is final.

use super::Verdict;
use crate::claimable::{is_large_enough, is_of_type};
use crate::node_class::NodeClass;
use dryrack_catalog::{Accelerator, Host, Mismatch, mismatch};
use dryrack_event::Reason;
use dryrack_fleet::NodeShape;
use dryrack_planted::planted;
use dryrack_workload::{Deployment, GpuTake, TaskGroup};

pub fn judge(demand: TaskGroup<'_>, class: &NodeClass) -> Verdict {
    let task = demand.task;
    if task.os.is_some_and(|os| os != class.shape.os) && !planted!(OsIsNotCompared) {
        return Verdict::Never(Reason::OsMismatch);
    }
    if task.arch.is_some_and(|arch| arch != class.shape.arch) {
        return Verdict::Never(Reason::ArchMismatch);
    }
    let Some(gpus) = &task.gpus else { return Verdict::Fit };
    let needed = class.gpus_per_task(demand) as usize;
    let allowed = || (0..class.shape.gpus.len()).filter(|index| class.allows_gpu(*index));
    if allowed().count() < needed {
        return Verdict::Never(Reason::TooFewGpus);
    }
    let of_type = allowed().filter(|index| is_of_type(gpus, &class.shape.gpus[*index])).count();
    if of_type < needed {
        return Verdict::Never(if of_type == 0 { Reason::GpuTypeMismatch } else { Reason::TooFewGpus });
    }
    let large = |index: &usize| match gpus.take {
        GpuTake::Memory(memory) if class.shape.gpu_memory_capacity(*index) < memory => false,
        GpuTake::Memory(_) | GpuTake::Whole | GpuTake::Share(_) => is_large_enough(gpus, &class.shape.gpus[*index]),
    };
    let of_size = allowed().filter(|index| is_of_type(gpus, &class.shape.gpus[*index])).filter(large).count();
    if of_size < needed { Verdict::Never(Reason::GpuMemoryTooSmall) } else { Verdict::Fit }
}

/// Why the deployment's backend cannot serve its model on this GPU of a node; `None` if it can.
pub fn model_refusal(deployment: &Deployment, shape: &NodeShape, index: usize) -> Option<Reason> {
    let gpu = &shape.gpus[index];
    let accelerator = Accelerator {
        vendor: gpu.vendor,
        compute_capability: gpu.compute_capability,
        architecture: gpu.architecture.as_deref(),
    };
    refusal(deployment, shape, Some(accelerator))
}

/// Why the deployment's backend cannot serve its model on a node without GPUs; `None` if it can.
pub fn model_refusal_without_gpu(deployment: &Deployment, shape: &NodeShape) -> Option<Reason> {
    refusal(deployment, shape, None)
}

fn refusal(deployment: &Deployment, shape: &NodeShape, gpu: Option<Accelerator<'_>>) -> Option<Reason> {
    let (driver, runtime) = (shape.driver.as_deref(), shape.runtime.as_deref());
    let host = Host { os: shape.os, arch: shape.arch, driver, runtime };
    let found = mismatch(deployment.served(), host, gpu)?;
    if planted!(OldDriverIsEnough) && found == Mismatch::Driver {
        return None;
    }
    Some(match found {
        Mismatch::ModelArchitecture => Reason::ModelArchitectureUnsupported,
        Mismatch::Os => Reason::BackendOsMismatch,
        Mismatch::Arch => Reason::BackendArchMismatch,
        Mismatch::Vendor if gpu.is_none() => Reason::TooFewGpus,
        Mismatch::Vendor => Reason::BackendVendorMismatch,
        Mismatch::ComputeCapability => Reason::ComputeCapabilityTooLow,
        Mismatch::GpuArchitecture => Reason::GpuArchitectureUnsupported,
        Mismatch::Driver => Reason::DriverTooOld,
        Mismatch::Runtime => Reason::RuntimeTooOld,
        Mismatch::Quantization => Reason::QuantizationUnsupported,
    })
}
