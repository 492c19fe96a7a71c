//! Machines: those of the catalog and of the scenario, and the fields of a node that override a machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::elsewhere::elsewhere;
use super::money;
use super::own_gpu::own_gpu;
use dryrack_catalog::{self as catalog, ComputeCapability, CpuArch, Os, Vendor};
use dryrack_fleet::{GpuShape, ISLANDS_LABEL, NodeShape, Power, RESTRICTED_CORES_LABEL, read_islands};
use dryrack_nearest::hint;
use dryrack_units::{Bytes, MilliCpu, MilliWatts};
use dryrack_yaml::{Fields, Node, Report, Tree, text, value};

pub(super) const OS_WORDS: [(&str, Os); 3] = [("linux", Os::Linux), ("darwin", Os::Darwin), ("windows", Os::Windows)];
pub(super) const ARCH_WORDS: [(&str, CpuArch); 2] = [("x86_64", CpuArch::X86_64), ("aarch64", CpuArch::Aarch64)];
pub(super) const VENDOR_WORDS: [(&str, Vendor); 6] = [
    ("nvidia", Vendor::Nvidia),
    ("amd", Vendor::Amd),
    ("ascend", Vendor::Ascend),
    ("apple", Vendor::Apple),
    ("intel", Vendor::Intel),
    ("tenstorrent", Vendor::Tenstorrent),
];

/// The fields that a machine in the file and a node share.
pub(super) const FIELDS: [&str; 19] = [
    "machine",
    "cpus",
    "ram",
    "gpus",
    "gpu",
    "os",
    "arch",
    "driver",
    "runtime",
    "labels",
    "reserved",
    "price_per_hour",
    "commitment",
    "purchase",
    "power",
    "rack",
    "switch",
    "islands",
    "restricted_cores_per_gpu",
];

/// The largest number of GPUs of one machine. A GPU index has sixteen bits, and no real machine has this many.
const MAX_GPUS: u32 = 1024;

/// The machines in `machines:`, by name.
pub(super) type Machines = BTreeMap<String, NodeShape>;

/// Reads `machines:`. A machine may build on another that comes before it.
pub(super) fn read(tree: Option<&Tree>, report: &mut Report) -> Machines {
    let mut machines = Machines::new();
    let Some(tree) = tree else { return machines };
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected a map from names to machines, found {}", tree.kind());
        report.error_with_help(tree.span, message, "write `{big: {cpus: 64, ram: 512GiB, gpus: 8, gpu: a100-80g}}`");
        return machines;
    };
    for entry in entries {
        if catalog::machine(&entry.key).is_some() {
            let message = format!("the catalog already has a machine named `{}`", entry.key);
            report.error_with_help(
                entry.key_span,
                message,
                "choose another name, and use the catalog's machine with `machine:`",
            );
        }
        let Some(fields) = Fields::read(&entry.value, "a machine", &FIELDS, report) else { continue };
        let mut shape = shape(&fields, &machines, report);
        shape.machine = Some(Arc::from(entry.key.as_str()));
        machines.insert(entry.key.clone(), shape);
    }
    machines
}

/// The shape that `fields` describe: the named machine, if any, with each other field overriding it.
pub(super) fn shape(fields: &Fields<'_>, machines: &Machines, report: &mut Report) -> NodeShape {
    shape_or(fields, machines, None, false, report)
}

/// Like [`shape`], but `machine` is used if `fields` names none. With `other_gpus`, the caller sets the GPUs.
pub(super) fn shape_or(
    fields: &Fields<'_>,
    machines: &Machines,
    machine: Option<&Tree>,
    other_gpus: bool,
    report: &mut Report,
) -> NodeShape {
    let mut shape = match fields.get("machine").or(machine) {
        Some(tree) => named(tree, machines, report),
        None => blank(),
    };
    let is_told = machine.is_some();
    if !is_told && fields.lacks_all(&["machine", "cpus", "gpus"]) {
        let help =
            "add `machine: a100-80g-x8`, or `cpus: 32` and `ram: 256GiB`; `dryrack catalog machines` lists machines";
        report.error_with_help(fields.place(), "the resources of this machine are missing", help);
    }
    if let Some(cpu) = fields.value::<MilliCpu>("cpus", report) {
        shape.cpu = cpu;
    }
    if let Some(ram) = fields.value::<Bytes>("ram", report) {
        shape.ram = ram;
    }
    if let Some(os) = fields.word("os", "an operating system", &OS_WORDS, report) {
        shape.os = os;
    }
    if let Some(arch) = fields.word("arch", "a CPU architecture", &ARCH_WORDS, report) {
        shape.arch = arch;
    }
    let texts = [
        ("driver", &mut shape.driver),
        ("runtime", &mut shape.runtime),
        ("rack", &mut shape.rack),
        ("switch", &mut shape.switch),
    ];
    for (key, place) in texts {
        if let Some(text) = fields.text(key, "a name", report) {
            *place = Some(Arc::from(text));
        }
    }
    shape.labels.extend(fields.labels("labels", report));
    money::payment(fields, &mut shape, report);
    power(fields, &mut shape, report);
    if !other_gpus {
        gpus(fields, &mut shape, report);
    }
    islands(fields, &mut shape, report);
    reserve(fields, &mut shape, report);
    restrict_cores(fields, &mut shape, report);
    shape
}

fn blank() -> NodeShape {
    NodeShape::of(MilliCpu::ZERO, Bytes::ZERO, Vec::new())
}

fn named(tree: &Tree, machines: &Machines, report: &mut Report) -> NodeShape {
    let Some(name) = text(tree, "the name of a machine", report) else { return blank() };
    if let Some(own) = machines.get(name) {
        return own.clone();
    }
    let of_a_cloud = || catalog::machine_named(name).and_then(catalog::machine);
    let Some(machine) = catalog::machine(name).or_else(of_a_cloud) else {
        let own = machines.keys().map(String::as_str);
        let names = own.chain(catalog::machines().iter().map(|machine| machine.name));
        let hint = hint(name, names).map_or(String::new(), |hint| format!("{hint} "));
        let help = format!("{hint}`dryrack catalog machines` lists them; or state `cpus`, `ram` and `gpus`");
        report.error_with_help(tree.span, format!("no machine is named `{name}`"), help);
        return blank();
    };
    NodeShape {
        machine: Some(Arc::from(machine.name)),
        os: machine.os,
        arch: machine.arch,
        cpu: machine.cpu,
        ram: machine.ram,
        gpus: machine
            .gpus
            .iter()
            .flat_map(|group| from_catalog(group.model, group.count, Some(group.memory)))
            .collect(),
        ..blank()
    }
}

/// `count` GPUs of a catalog model. Empty if the model's memory depends on the machine and `memory` is missing.
pub(super) fn from_catalog(name: &str, count: u32, memory: Option<Bytes>) -> Vec<GpuShape> {
    let Some(model) = catalog::gpu(name) else { return Vec::new() };
    let Some(memory) = memory.or(model.memory) else { return Vec::new() };
    vec![known(model, memory); count as usize]
}

/// A GPU of this model with the given memory.
fn known(model: &catalog::GpuModel, memory: Bytes) -> GpuShape {
    GpuShape {
        vendor: Some(model.vendor),
        unified: model.unified,
        compute_capability: model.compute_capability,
        architecture: model.architecture.map(Arc::from),
        ..GpuShape::of(model.name, memory)
    }
}

fn gpus(fields: &Fields<'_>, shape: &mut NodeShape, report: &mut Report) {
    let kind = fields.get("gpu");
    match (fields.get("gpus"), kind) {
        (None, None) => return,
        (None, Some(kind)) => {
            report.error_with_help(kind.span, "the number of GPUs of this type is missing", "add `gpus: 1`");
            return;
        }
        (Some(Tree { node: Node::List(items), .. }), kind) => {
            if let Some(kind) = kind {
                let help = "leave `gpu` out: each entry of `gpus` has its own `type`";
                report.error_with_help(kind.span, "`gpu` has no effect with a list of GPUs", help);
            }
            shape.gpus = items.iter().flat_map(|item| gpu_group(item, report)).collect();
        }
        (Some(tree), kind) => {
            let Some(count) = value::<u32>(tree, report) else { return };
            let one = match kind {
                Some(kind) => {
                    text(kind, "a GPU type", report).map(|name| one_gpu(name, (None, Some(count)), kind, report))
                }
                None if count == 0 => Some(None),
                None => Some(only_type(shape).or_else(|| {
                    let help = "add `gpu: a100-80g`; `dryrack catalog gpus` lists types";
                    report.error_with_help(tree.span, "the type of these GPUs is missing", help);
                    None
                })),
            };
            shape.gpus = match one.flatten() {
                Some(gpu) if count <= MAX_GPUS => vec![gpu; count as usize],
                _ => Vec::new(),
            };
            too_many(count, tree, report);
        }
    }
    if shape.gpus.len() > MAX_GPUS as usize {
        let tree = fields.get("gpus").map_or(fields.span, |tree| tree.span);
        report.error_with_help(tree, format!("more than {MAX_GPUS} GPUs in one machine"), "use several nodes");
        shape.gpus.clear();
    }
    if shape.gpus.iter().any(|gpu| gpu.unified) && shape.ram == Bytes::ZERO {
        let help = "add `ram: 192GiB`";
        report.error_with_help(
            fields.key_span("gpus"),
            "this GPU uses RAM as its memory, but the machine has no RAM",
            help,
        );
    }
}

fn too_many(count: u32, tree: &Tree, report: &mut Report) {
    if count > MAX_GPUS {
        let message = format!("{count} GPUs in one machine is too many; the limit is {MAX_GPUS}");
        report.error_with_help(tree.span, message, "use several nodes with `count:`");
    }
}

/// Reads `islands: [4, 4]` into a label. Also checks the label, which may come from the machine that this one builds
/// on.
fn islands(fields: &Fields<'_>, shape: &mut NodeShape, report: &mut Report) {
    let help = "write the number of GPUs of each island, in the order of the GPU indexes: `islands: [4, 4]`";
    if let Some(tree) = fields.get("islands") {
        let Node::List(items) = &tree.node else {
            report.error_with_help(tree.span, format!("expected a list of islands, found {}", tree.kind()), help);
            return;
        };
        let sizes: Vec<String> =
            items.iter().filter_map(|item| value::<u16>(item, report)).map(|size| size.to_string()).collect();
        if sizes.len() < items.len() {
            return;
        }
        shape.labels.insert(Arc::from(ISLANDS_LABEL), Arc::from(sizes.join("+")));
    }
    let Some(said) = shape.labels.get(ISLANDS_LABEL) else { return };
    if let Err(error) = read_islands(said, shape.gpus.len()) {
        let span =
            ["islands", "labels", "gpus"].iter().find_map(|key| fields.get(key)).map_or(fields.span, |tree| tree.span);
        report.error_with_help(span, error.to_string(), help);
    }
}

/// Reads `restricted_cores_per_gpu: 1` into a label. Also checks the label, which may come from the machine that this one
/// builds on.
fn restrict_cores(fields: &Fields<'_>, shape: &mut NodeShape, report: &mut Report) {
    const KEY: &str = RESTRICTED_CORES_LABEL;
    if let Some(each) = fields.value::<u32>(KEY, report) {
        shape.labels.insert(Arc::from(KEY), Arc::from(each.to_string()));
    }
    let Some(said) = shape.labels.get(KEY) else { return };
    let span =
        [KEY, "labels", "gpus", "cpus"].iter().find_map(|key| fields.get(key)).map_or(fields.span, |tree| tree.span);
    let Ok(each) = said.parse::<u32>() else {
        let message = format!("expected a number of cores, found `{said}`");
        return report.error_with_help(span, message, "write a whole number, such as `restricted_cores_per_gpu: 1`");
    };
    let (gpus, cores) = (shape.gpus.len() as u64, shape.cpu_capacity());
    if each > 0 && gpus == 0 {
        let help = format!("add `gpus: 8`, or leave `{KEY}` out");
        return report.error_with_help(span, "cores are restricted to GPUs, but the machine has no GPU", help);
    }
    if u64::from(each) * gpus * 1000 > cores.get() {
        let message = format!(
            "{} cores are restricted to {gpus} GPUs, but the machine has {cores} cores",
            u64::from(each) * gpus
        );
        report.error_with_help(span, message, format!("write {} or less", cores.get() / (gpus.max(1) * 1000)));
    }
}

/// The GPU type of a machine if all of its GPUs are equal.
fn only_type(shape: &NodeShape) -> Option<GpuShape> {
    let first = shape.gpus.first()?;
    shape.gpus.iter().all(|gpu| gpu == first).then(|| first.clone())
}

/// Reads `{type: a100-80g, count: 4, memory: 80GiB}`, or just the name of a type.
fn gpu_group(tree: &Tree, report: &mut Report) -> Vec<GpuShape> {
    if let Node::Scalar { .. } = tree.node {
        let name = text(tree, "a GPU type", report);
        return name.and_then(|name| one_gpu(name, (None, None), tree, report)).into_iter().collect();
    }
    let known = ["type", "count", "memory", "vendor", "unified", "compute_capability", "architecture"];
    let Some(fields) = Fields::read_with(tree, "a group of GPUs", &known, elsewhere, report) else { return Vec::new() };
    let kind = fields.require("type", "a100-80g", report);
    let count = if fields.has("count") { fields.count("count", 1, report) } else { Some(1) };
    let (Some(kind), Some(count)) = (kind, count) else { return Vec::new() };
    let Some(name) = text(kind, "a GPU type", report) else { return Vec::new() };
    let typed = fields.has("count").then_some(count);
    let gpu = one_gpu(name, (Some(&fields), typed), kind, report);
    if count > MAX_GPUS {
        too_many(count, fields.get("count").unwrap_or(tree), report);
        return Vec::new();
    }
    gpu.map_or(Vec::new(), |gpu| vec![gpu; count as usize])
}

/// A GPU of the catalog. A type of the scenario's own is allowed too if its memory is given. `typed` is the number of GPUs
/// that the file states.
fn one_gpu(
    name: &str,
    (fields, typed): (Option<&Fields<'_>>, Option<u32>),
    tree: &Tree,
    report: &mut Report,
) -> Option<GpuShape> {
    let memory = fields.and_then(|fields| fields.value::<Bytes>("memory", report));
    let vendor = fields.and_then(|fields| fields.word("vendor", "a vendor", &VENDOR_WORDS, report));
    let unified = fields.and_then(|fields| fields.value::<bool>("unified", report));
    let capability = fields.and_then(|fields| capability(fields, report));
    let architecture =
        fields.and_then(|fields| fields.text("architecture", "a GPU's architecture such as Hopper", report));
    let architecture = architecture.map(Arc::from);
    match (catalog::gpu(name), memory) {
        (Some(model), None) if model.unified => {
            let help = format!("write `gpus: [{{type: {name}, memory: 144GiB}}]`, or name a machine with this GPU");
            let message = format!("{name} uses RAM as its memory, and the amount that it can use is missing");
            report.error_with_help(tree.span, message, help);
            None
        }
        (Some(model), memory) => {
            let known = known(model, memory.or(model.memory)?);
            Some(GpuShape {
                vendor: vendor.or(known.vendor),
                unified: unified.unwrap_or(known.unified),
                compute_capability: capability.or(known.compute_capability),
                architecture: architecture.or(known.architecture.clone()),
                ..known
            })
        }
        (None, Some(memory)) => Some(GpuShape {
            vendor,
            unified: unified.unwrap_or(false),
            compute_capability: capability,
            architecture,
            ..GpuShape::of(name, memory)
        }),
        // The memory of the new type is invalid, which has already been reported.
        (None, None) if fields.is_some_and(|fields| fields.has("memory")) => None,
        (None, None) => {
            let meant = catalog::gpus_named(name);
            if let [model] = meant[..] {
                return Some(known(model, model.memory?));
            }
            if !meant.is_empty() {
                let variants: Vec<&str> = meant.iter().map(|model| model.name).collect();
                let message = format!("`{name}` is the name of several GPUs: {}", variants.join(", "));
                report.error_with_help(tree.span, message, format!("write `{}`, or another of them", variants[0]));
                return None;
            }
            let similar = catalog::similar_gpus(name, []);
            let give = format!("give its memory: {}", own_gpu(name, typed));
            let help = match similar.hint() {
                Some(hint) if similar.meant.is_empty() => format!("{hint}; if it is another GPU, {give}"),
                Some(hint) => hint,
                None => give,
            };
            report.error_with_help(tree.span, format!("no GPU type is named `{name}`"), help);
            None
        }
    }
}

fn capability(fields: &Fields<'_>, report: &mut Report) -> Option<ComputeCapability> {
    let tree = fields.get("compute_capability")?;
    let typed = text(tree, "a compute capability such as 8.9", report)?;
    let help = "write two numbers, such as 8.9";
    typed.parse().map_err(|error: catalog::KindError| report.error_with_help(tree.span, error.to_string(), help)).ok()
}

fn power(fields: &Fields<'_>, shape: &mut NodeShape, report: &mut Report) {
    let Some(tree) = fields.get("power") else { return };
    let Some(power) = Fields::read(tree, "a power", &["idle", "busy"], report) else { return };
    let mut of = |key: &str, example: &str| {
        power.require(key, example, report)?;
        power.value::<MilliWatts>(key, report)
    };
    let (Some(idle), Some(busy)) = (of("idle", "350W"), of("busy", "6.5kW")) else { return };
    shape.power = Some(Power { idle, busy });
    if let Err(too_much) = (NodeShape { power: shape.power, ..blank() }).check_size() {
        shape.power = None;
        let help = "`idle` is the power draw at rest, and `busy` the power draw with all GPUs busy";
        report.error_with_help(power.span, too_much.to_string(), help);
    }
}

fn reserve(fields: &Fields<'_>, shape: &mut NodeShape, report: &mut Report) {
    let Some(tree) = fields.get("reserved") else { return };
    let known = ["cpu", "ram", "gpu_memory"];
    let Some(reserved) = Fields::read(tree, "a reservation", &known, report) else { return };
    if let Some(cpu) = reserved.value("cpu", report) {
        shape.reserved.cpu = cpu;
    }
    if let Some(ram) = reserved.value("ram", report) {
        shape.reserved.ram = ram;
    }
    if let Some(memory) = reserved.value("gpu_memory", report) {
        shape.reserved.gpu_memory = memory;
    }
    let mut more = |key: &str, has: String| {
        let span = reserved.get(key).map_or(reserved.span, |tree| tree.span);
        report.error_with_help(
            span,
            format!("the reserved amount is more than the machine has, which is {has}"),
            format!("write {has} or less"),
        );
    };
    if shape.reserved.cpu > shape.cpu {
        more("cpu", format!("{} cores", shape.cpu));
    }
    if shape.reserved.ram > shape.ram {
        more("ram", shape.ram.to_string());
    }
    if let Some(gpu) = shape.gpus.iter().find(|gpu| gpu.memory < shape.reserved.gpu_memory) {
        more("gpu_memory", format!("{} on {}", gpu.memory, gpu.model));
    }
}
