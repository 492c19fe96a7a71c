//! Splits of hosts: parts of GPUs, and warnings about splits that no job can use.

use std::sync::Arc;

use super::world::World;
use dryrack_catalog::{self as catalog, MigProfile};
use dryrack_control::Profile;
use dryrack_fleet::{Blocks, GpuParts, GpuShape, Instance, MOST_BLOCKS, NodeShape};
use dryrack_scheduler::offers::smallest_slice;
use dryrack_units::{Bytes, GpuShare};
use dryrack_yaml::{Fields, Report, Span, Tree, text};

/// The largest number of time slices of a GPU.
const MOST_SLICES: u32 = 1000;
/// The largest number of time slices that a warning suggests. Smaller slices are of little use.
const USEFUL_SLICES: u32 = 64;

/// Reads `{mig: 1g.10gb}` or `{time_slices: 4}`.
pub(super) fn parts(tree: &Tree, report: &mut Report) -> Option<Blocks> {
    let fields = Fields::read(tree, "parts of GPUs", &["mig", "time_slices"], report)?;
    fields.exclusive(&["mig", "time_slices"], "a GPU can be divided in only one way", report);
    if let Some(tree) = fields.get("mig") {
        let typed = text(tree, "a MIG profile", report)?;
        let Some(profile) = catalog::mig_profile(typed) else {
            let names = catalog::mig_profiles().iter().map(|known| known.name);
            report.unknown(tree.span, format!("no MIG profile is named `{typed}`"), typed, names);
            return None;
        };
        return Some(Blocks::Parts(mig(profile)));
    }
    let count = fields.count("time_slices", 2, report)?;
    if count > MOST_SLICES {
        let span = fields.key_span("time_slices");
        let help = format!("write {MOST_SLICES} or fewer");
        report.error_with_help(span, format!("{count} time slices of one GPU is too many"), help);
        return None;
    }
    Some(Blocks::Parts(slices(count)))
}

fn mig(profile: &MigProfile) -> GpuParts {
    GpuParts {
        name: Arc::from(profile.name),
        per_gpu: profile.per_gpu,
        share: GpuShare::new(1000 * profile.compute_slices / 7),
        memory: Bytes::from_gib(u64::from(profile.memory_gib)),
    }
}

/// Parts for time slices. Their memory is zero until the GPU is known.
fn slices(count: u32) -> GpuParts {
    let share = GpuShare::new(1000 / count);
    GpuParts { name: Arc::from(format!("1/{count}")), per_gpu: count, share, memory: Bytes::ZERO }
}

/// Whether the parts fit in the GPU's memory. A 5% excess is accepted, because the memory in the name of a MIG profile
/// is slightly more than the part really has.
fn has_room(gpu: &GpuShape, memory: Bytes, per_gpu: u32) -> bool {
    memory.get().saturating_mul(u64::from(per_gpu)) <= gpu.memory.get() + gpu.memory.get() / 20
}

/// The parts with their memory on this GPU. Together they never exceed the GPU's memory.
fn on(gpu: &GpuShape, parts: GpuParts) -> GpuParts {
    let even = gpu.memory.get() / u64::from(parts.per_gpu);
    let memory = if parts.memory == Bytes::ZERO { even } else { parts.memory.get().min(even) };
    GpuParts { memory: Bytes::new(memory), ..parts }
}

pub(super) fn fit_parts(parts: &mut GpuParts, shape: &NodeShape, span: Span, report: &mut Report) {
    let Some(gpu) = shape.gpus.first() else {
        report.error_with_help(span, "the host has no GPUs to divide into parts", "write `blocks: auto`");
        return;
    };
    let is_mig = parts.memory > Bytes::ZERO;
    if !has_room(gpu, parts.memory, parts.per_gpu) {
        let message = format!("{} parts of {} do not fit on a GPU with {}", parts.per_gpu, parts.memory, gpu.memory);
        let names = catalog::mig_profiles()
            .iter()
            .filter(|known| has_room(gpu, Bytes::from_gib(known.memory_gib.into()), known.per_gpu));
        let names: Vec<&str> = names.map(|known| known.name).collect();
        let help = match names.is_empty() {
            true => "no MIG profile is small enough; write `blocks: auto`, or `{time_slices: 2}`".to_string(),
            false => format!("these profiles fit: {}", names.join(", ")),
        };
        report.error_with_help(span, message, help);
    } else if is_mig && !has_mig(gpu) {
        let message = format!("a GPU named `{}` has no known MIG profiles", gpu.model);
        let help = format!("write `{{time_slices: {}}}`, or a type of {}", parts.per_gpu.max(2), MIG_GPUS);
        report.warning(span, message, help);
    }
    *parts = on(gpu, parts.clone());
}

const MIG_GPUS: &str = "A100, H100 or H200";

fn has_mig(gpu: &GpuShape) -> bool {
    let known = catalog::dstack_gpu(&gpu.model).map_or(&*gpu.model, |known| known.name);
    MIG_GPUS.split([',', ' ']).any(|name| name.eq_ignore_ascii_case(known))
}

/// The end of a message about a host that cannot be split.
pub(super) const NEVER_USED: &str = "so this host is never used";

/// Warns about blocks that do not divide the machine evenly. Such a machine is never used.
pub(super) fn warn_of_blocks(shape: &NodeShape, span: Span, report: &mut Report) {
    let Some(instance) = &shape.instance else { return };
    let (cpus, gpus) = (shape.cpu_capacity().get() / 1000, shape.gpus.len() as u32);
    if cpus == 0 && gpus == 0 {
        return;
    }
    let wanted = match &instance.blocks {
        Blocks::Parts(parts) => return warn_of_parts(parts, (cpus, gpus), span, report),
        _ if instance.total_blocks.is_some() => return,
        Blocks::Auto if gpus > 0 => (cpus.min(u64::from(gpus))) as u32,
        Blocks::Auto => cpus as u32,
        Blocks::Count(count) => *count,
    };
    let message = format!("{wanted} blocks do not divide {cpus} CPUs and {gpus} GPUs evenly, {NEVER_USED}");
    match Blocks::nearest_split(wanted, cpus, gpus) {
        Some(near) => report.warning(span, message, format!("write `blocks: {near}`")),
        None => report.warning(span, message, "add CPUs to the host"),
    }
}

/// Warns about parts without CPUs. Each part gets an equal share of the CPUs. A part with less than one CPU cannot run
/// a job that asks for a CPU.
fn warn_of_parts(parts: &GpuParts, (cpus, gpus): (u64, u32), span: Span, report: &mut Report) {
    let total = u64::from(parts.per_gpu) * u64::from(gpus);
    let (most, message) = match () {
        () if gpus == 0 => return,
        () if total > u64::from(MOST_BLOCKS) => {
            let message = format!("{total} parts of {gpus} GPUs are too many, {NEVER_USED}");
            (cpus.min(u64::from(MOST_BLOCKS)), message)
        }
        () if total > cpus => {
            (cpus, format!("the host has {total} parts of {gpus} GPUs but only {cpus} CPUs, so the parts get no CPU"))
        }
        () => return,
    };
    let per_gpu = (most / u64::from(gpus)).min(u64::from(MOST_SLICES)) as u32;
    let help = match per_gpu {
        0 | 1 => "add CPUs to the host, or write `blocks: auto`".to_string(),
        _ if parts.name.starts_with("1/") => format!("write `{{time_slices: {per_gpu}}}`"),
        _ => format!("write a MIG profile with {per_gpu} or fewer parts of each GPU, or add CPUs to the host"),
    };
    report.warning(span, message, help);
}

/// Warns about hosts whose blocks no job of the file can use, if another split would allow it. Without the name of a
/// profile, nothing is known about splits.
pub(super) fn warn_of_unusable(world: &World, profile: Option<&Profile>, report: &mut Report) {
    let Some(profile) = profile else { return };
    let options = &profile.scheduler.offers;
    let can_use = |shape: &NodeShape| {
        world
            .wanted
            .iter()
            .any(|(requirements, nodes, _)| smallest_slice(options, requirements, shape, *nodes > 1).is_ok())
    };
    if world.wanted.is_empty() {
        return;
    }
    for (shape, span) in &world.hosts {
        let Some(instance) = shape.instance.as_deref() else { continue };
        let Some(total) = instance.total_blocks.filter(|_| !can_use(shape)) else { continue };
        if shape.slice(total).is_some_and(|slice| slice.cpus == 0) {
            // This host has already been reported.
            continue;
        }
        let mut others = match &instance.blocks {
            Blocks::Auto | Blocks::Count(_) => other_counts(shape, total),
            Blocks::Parts(parts) => other_parts(shape, parts),
        };
        // Try the splits that are nearest to the current one first, and suggest the first that works.
        let nearest = others.find(|(blocks, _)| {
            let split = NodeShape::clone(shape).into_instance(Instance { blocks: blocks.clone(), ..instance.clone() });
            split.total_blocks().is_some() && can_use(&split)
        });
        if let Some((_, written)) = nearest {
            let message = match &instance.blocks {
                Blocks::Auto | Blocks::Count(_) if total == 1 => {
                    "no job of this file can use the whole of this host".to_string()
                }
                Blocks::Auto | Blocks::Count(_) => {
                    format!("no job of this file can use any number of the {total} blocks of this host")
                }
                Blocks::Parts(parts) => {
                    format!("no job of this file can use any number of the {total} parts ({}) of this host", parts.name)
                }
            };
            report.warning(*span, message, format!("write `blocks: {written}`"));
        }
    }
}

/// Other splits of a host, each with its text in a scenario.
type Splits<'a> = Box<dyn Iterator<Item = (Blocks, String)> + 'a>;

/// Numbers of blocks that divide the host evenly. The nearest number comes first; on a tie, the smaller number.
fn other_counts(shape: &NodeShape, total: u32) -> Splits<'_> {
    let (cpus, gpus) = (shape.cpu_capacity().get() / 1000, shape.gpus.len() as u32);
    let most = u32::try_from(cpus).unwrap_or(MOST_BLOCKS).min(MOST_BLOCKS);
    let mut counts: Vec<u32> = (1..=most).filter(|count| Blocks::Count(*count).split(cpus, gpus).is_some()).collect();
    counts.sort_by_key(|count| (count.abs_diff(total), *count));
    Box::new(counts.into_iter().map(|count| (Blocks::Count(count), count.to_string())))
}

/// Other parts of the same kind, the nearest number first, and then blocks of whole GPUs.
fn other_parts<'a>(shape: &'a NodeShape, parts: &'a GpuParts) -> Splits<'a> {
    let Some(gpu) = shape.gpus.first() else { return Box::new(std::iter::empty()) };
    let mut others: Vec<(GpuParts, String)> = match parts.name.starts_with("1/") {
        true => (2..=USEFUL_SLICES).map(|count| (slices(count), format!("{{time_slices: {count}}}"))).collect(),
        false => catalog::mig_profiles()
            .iter()
            .map(|profile| (mig(profile), format!("{{mig: {}}}", profile.name)))
            .filter(|(parts, _)| has_room(gpu, parts.memory, parts.per_gpu))
            .collect(),
    };
    others.sort_by_key(|(other, _)| (other.per_gpu.abs_diff(parts.per_gpu), other.per_gpu));
    let others = others.into_iter().map(|(other, written)| (Blocks::Parts(on(gpu, other)), written));
    Box::new(others.chain(other_counts(shape, shape.gpus.len() as u32)))
}
