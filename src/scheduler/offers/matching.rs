//! Whether a slice of an instance meets the requirements, and which is the smallest such slice.
//!
//! Source: dstack 0.19.9 to 0.22.5 and gpuhunt 0.1.5 to 0.1.34. The rules are checked against recorded decisions of
//! both.

use super::options::{OfferOptions, WithoutGpus};
use dryrack_catalog::{self as catalog, CpuArch};
use dryrack_event::Reason;
use dryrack_fleet::{NodeShape, Slice};
use dryrack_planted::planted;
use dryrack_units::{Bytes, Money};
use dryrack_workload::{GpuRequirements, Requirements, SpotPolicy};

/// The smallest slice of a host of this shape that a job could take, or why no slice matches. `whole` means all blocks
/// or none.
pub fn smallest_slice(
    options: &OfferOptions,
    requirements: &Requirements,
    shape: &NodeShape,
    whole: bool,
) -> Result<Slice, Reason> {
    let total = shape.total_blocks().ok_or(Reason::CannotSplit)?;
    judge_host(requirements, shape)?;
    let first = if whole { total } else { 1 };
    let mut common: Option<Vec<Reason>> = None;
    for blocks in first..=total {
        let Some(slice) = shape.slice(blocks) else { return Err(Reason::CannotSplit) };
        let faults = faults(options, requirements, shape, &slice);
        if faults.is_empty() {
            return Ok(slice);
        }
        common = Some(match common {
            None => faults,
            Some(common) => common.into_iter().filter(|reason| faults.contains(reason)).collect(),
        });
    }
    // If every slice has the same fault, this fault is the reason for the host.
    Err(common.and_then(|common| common.first().copied()).unwrap_or(Reason::NoSliceMatches))
}

/// Checks the requirements that are the same for every slice of a host.
fn judge_host(requirements: &Requirements, shape: &NodeShape) -> Result<(), Reason> {
    let Some(instance) = &shape.instance else { return Err(Reason::NotInFleet) };
    // dstack's own images are for x86, and a run without an image takes one of them. The images of runs are not known here.
    if requirements.arch.unwrap_or(CpuArch::X86_64) != shape.arch {
        return Err(Reason::ArchMismatch);
    }
    let wanted_spot = match requirements.spot {
        SpotPolicy::Auto => None,
        SpotPolicy::Spot => Some(true),
        SpotPolicy::OnDemand => Some(false).filter(|_| !planted!(SpotIsOnDemand)),
    };
    if wanted_spot.is_some_and(|spot| spot != instance.spot) {
        return Err(Reason::SpotMismatch);
    }
    if !requirements.backends.is_empty() && !requirements.backends.contains(&instance.backend) {
        return Err(Reason::BackendMismatch);
    }
    let same = |region: &std::sync::Arc<str>| region.eq_ignore_ascii_case(&instance.region);
    if !requirements.regions.is_empty() && !requirements.regions.iter().any(same) {
        return Err(Reason::RegionMismatch);
    }
    if requirements.max_price.is_some_and(|most| price(shape) > most) {
        return Err(Reason::TooDear);
    }
    match requirements.disk {
        Some(disk) if instance.disk > Bytes::ZERO && !disk.contains(instance.disk) => Err(Reason::DiskOutOfRange),
        _ => Ok(()),
    }
}

/// The price of the whole host per hour; zero if no price is stated.
pub fn price(shape: &NodeShape) -> Money {
    shape.price_per_hour.unwrap_or(Money::ZERO)
}

/// All requirements that a slice does not meet, in the order of the checks.
fn faults(options: &OfferOptions, requirements: &Requirements, shape: &NodeShape, slice: &Slice) -> Vec<Reason> {
    let mut faults = Vec::new();
    let mut check = |holds: bool, reason| {
        if !holds {
            faults.push(reason);
        }
    };
    check(requirements.cpu.contains(slice.cpus), Reason::CpuOutOfRange);
    check(requirements.memory.contains(slice.ram), Reason::MemoryOutOfRange);
    if let Some(gpu) = &requirements.gpu {
        // If the job accepts zero GPUs and the slice has none, the profile may exempt the slice from the GPU
        // requirements.
        let skipped = match options.hosts_without_gpus {
            WithoutGpus::Exempt => gpu.count.min == Some(0) && slice.gpus == 0,
            WithoutGpus::Filtered => false,
        };
        if !skipped {
            check(gpu.count.contains(slice.gpus), Reason::GpuCountOutOfRange);
            check(is_of_type(options, gpu, shape, slice), Reason::GpuTypeMismatch);
            let memory = |range: &Option<dryrack_workload::Bounds<Bytes>>, amount| {
                range.is_none_or(|range| range.contains(amount))
            };
            check(memory(&gpu.memory, slice.gpu_memory), Reason::GpuMemoryOutOfRange);
            let total = Bytes::new(slice.gpu_memory.get().saturating_mul(u64::from(slice.gpus)));
            check(memory(&gpu.total_memory, total), Reason::GpuMemoryOutOfRange);
        }
    }
    faults
}

/// Whether the GPUs of a slice have the required type. All GPUs of a host are alike, so the first one is checked.
fn is_of_type(options: &OfferOptions, wanted: &GpuRequirements, shape: &NodeShape, slice: &Slice) -> bool {
    if wanted.names.is_empty() && wanted.vendor.is_none() && wanted.compute_capability.is_none() {
        return true;
    }
    let Some(gpu) = shape.gpus.first().filter(|_| slice.gpus > 0) else { return false };
    let known = catalog::dstack_gpu(&gpu.model);
    let named = |name: &std::sync::Arc<str>| {
        name.eq_ignore_ascii_case(&gpu.model) || known.is_some_and(|known| name.eq_ignore_ascii_case(known.name))
    };
    let vendor = gpu.vendor.or(known.and_then(|known| known.vendor));
    let capability = catalog::gpu(&gpu.model).and_then(|model| model.compute_capability);
    let capability = match known {
        // A name that is not in the profile's list of known GPUs counts as unknown.
        Some(known) if !known.is_in(options.known_gpus) => None,
        known => capability.or(known.and_then(|known| known.compute_capability)),
    };
    (wanted.names.is_empty() || wanted.names.iter().any(named))
        && wanted.vendor.is_none_or(|wanted| vendor == Some(wanted))
        && wanted.compute_capability.is_none_or(|least| match planted!(CapabilityMustBeExceeded) {
            true => capability.is_some_and(|known| known > least),
            false => capability.is_some_and(|known| known >= least),
        })
}
