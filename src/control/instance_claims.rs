//! Checks a claim on an instance against its requirements. This code is separate from the scheduler. It uses only
//! records and arithmetic, so it cannot share a mistake with the scheduler.

use std::collections::BTreeMap;

use dryrack_catalog::{self as catalog, CpuArch};
use dryrack_fleet::{Blocks, Fleet, NodeClaim, NodeShape};
use dryrack_units::{Bytes, GpuShare};
use dryrack_workload::{Bounds, GpuRequirements, Requirements, SpotPolicy};

/// Whether the claim takes whole blocks of its instance together with exactly the GPUs of these blocks, and whether the
/// resources of the blocks are within every required range.
pub fn meets(fleet: &Fleet, requirements: &Requirements, claim: &NodeClaim) -> bool {
    let shape = &fleet.node(claim.node).shape;
    let Some(instance) = &shape.instance else { return false };
    let Some(total) = instance.total_blocks.filter(|total| *total > 0) else { return false };
    let spec = fleet.fleet(instance.fleet);
    let taken = claim.blocks.len() as u64;
    if taken == 0 || claim.blocks.iter().any(|block| u32::from(*block) >= total) {
        return false;
    }
    let named = |names: &[std::sync::Arc<str>], name: &str| {
        names.is_empty() || names.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    let spot = match requirements.spot {
        SpotPolicy::Auto => true,
        SpotPolicy::Spot => instance.spot,
        SpotPolicy::OnDemand => !instance.spot,
    };
    let price = shape.price_per_hour.map_or(0, |price| price.get());
    let host = spot
        && named(&requirements.fleets, &spec.name)
        && named(&requirements.backends, &instance.backend)
        && named(&requirements.regions, &instance.region)
        && requirements.arch.unwrap_or(CpuArch::X86_64) == shape.arch
        && requirements.max_price.is_none_or(|most| price <= most.get())
        && requirements.disk.is_none_or(|disk| instance.disk == Bytes::ZERO || within(disk, instance.disk));
    let cores = (shape.cpu.get() - shape.reserved.cpu.get().min(shape.cpu.get())) / 1000 / u64::from(total) * taken;
    let mib = ((shape.ram.get() - shape.reserved.ram.get().min(shape.ram.get())) >> 20) / u64::from(total) * taken;
    let amounts = claim.cpu.get() == cores * 1000 && claim.ram == Bytes::from_mib(mib);
    let ranges = within(requirements.cpu, cores) && within(requirements.memory, Bytes::from_mib(mib));
    host && amounts
        && ranges
        && holds_gpus_of_its_blocks(shape, &instance.blocks, total, claim)
        && requirements.gpu.as_ref().is_none_or(|gpu| gpus_suffice(shape, &instance.blocks, total, gpu, taken))
}

fn within<T: Ord + Copy>(range: Bounds<T>, value: T) -> bool {
    range.min.is_none_or(|min| min <= value) && range.max.is_none_or(|max| value <= max)
}

/// Whether the claim holds exactly that part of each GPU that belongs to the claimed blocks.
fn holds_gpus_of_its_blocks(shape: &NodeShape, blocks: &Blocks, total: u32, claim: &NodeClaim) -> bool {
    let mut expected: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for (index, gpu) in shape.gpus.iter().enumerate() {
        for block in &claim.blocks {
            let part = match blocks {
                Blocks::Parts(parts) if u32::from(*block) / parts.per_gpu == index as u32 => {
                    (u64::from(parts.share.get()), parts.memory.get())
                }
                Blocks::Auto | Blocks::Count(_)
                    if index / (shape.gpus.len() / total as usize).max(1) == usize::from(*block) =>
                {
                    let memory = gpu.memory.get() - shape.reserved.gpu_memory.get().min(gpu.memory.get());
                    (u64::from(GpuShare::WHOLE.get()), memory)
                }
                Blocks::Parts(_) | Blocks::Auto | Blocks::Count(_) => continue,
            };
            let sum = expected.entry(index as u16).or_default();
            *sum = (sum.0 + part.0, sum.1 + part.1);
        }
    }
    let found: BTreeMap<u16, (u64, u64)> =
        claim.gpus.iter().map(|gpu| (gpu.index, (u64::from(gpu.share.get()), gpu.memory.get()))).collect();
    found == expected && found.len() == claim.gpus.len()
}

fn gpus_suffice(shape: &NodeShape, blocks: &Blocks, total: u32, wanted: &GpuRequirements, taken: u64) -> bool {
    let (count, memory) = match blocks {
        Blocks::Parts(parts) => (taken, parts.memory.get()),
        Blocks::Auto | Blocks::Count(_) => {
            let count = shape.gpus.len() as u64 / u64::from(total) * taken;
            (count, if count > 0 { shape.gpus[0].memory.get() } else { 0 })
        }
    };
    if count == 0 && wanted.count.min == Some(0) {
        return true;
    }
    let name_is = |name: &str| {
        shape.gpus.first().filter(|_| count > 0).is_some_and(|gpu| {
            let known = catalog::dstack_gpu(&gpu.model).map_or("", |known| known.name);
            name.eq_ignore_ascii_case(&gpu.model) || name.eq_ignore_ascii_case(known)
        })
    };
    let range = |range: Option<Bounds<Bytes>>, value| range.is_none_or(|range| within(range, Bytes::new(value)));
    within(wanted.count, count as u32)
        && (wanted.names.is_empty() || wanted.names.iter().any(|name| name_is(name)))
        && range(wanted.memory, memory)
        && range(wanted.total_memory, memory.saturating_mul(count))
}
