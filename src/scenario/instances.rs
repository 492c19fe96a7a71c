//! Fleets of instances: converts `fleets: {lab: {placement: cluster, blocks: auto, hosts: [...]}}` to nodes.

use std::sync::Arc;

use super::clouds;
use super::machines;
use super::nodes::{self, Base};
use super::splits;
use super::world::World;
use dryrack_catalog::{self as catalog, KnownGpus};
use dryrack_control::Profile;
use dryrack_fleet::{
    Blocks, FleetKind, FleetNodes, FleetPlacement, FleetSpec, GpuShape, Instance, MOST_BLOCKS, NodeShape,
};
use dryrack_ids::FleetId;
use dryrack_scheduler::offers::NewInstances;
use dryrack_units::{Bytes, Money};
use dryrack_yaml::{Entry, Fields, Node, Report, Span, Tree, name, text, value};

const FIELDS: [&str; 14] = [
    "kind",
    "placement",
    "blocks",
    "hosts",
    "nodes",
    "offers",
    "capacity",
    "idle_duration",
    "backend",
    "region",
    "price_per_hour",
    "disk",
    "spot",
    "machine",
];

/// Fields of a host in addition to those of every node.
pub(super) const HOST_FIELDS: [&str; 5] = ["blocks", "backend", "region", "disk", "spot"];

const PLACEMENTS: [(&str, FleetPlacement); 2] = [("any", FleetPlacement::Any), ("cluster", FleetPlacement::Cluster)];
const KINDS: [(&str, FleetKind); 2] = [("ssh", FleetKind::Ssh), ("cloud", FleetKind::Cloud)];

/// The largest number of fleets of one scenario.
const MAX_FLEETS: usize = 10_000;

/// The values of a fleet that apply to hosts without a value of their own.
pub(super) struct Common<'t> {
    pub fleet: FleetId,
    pub blocks: Blocks,
    backend: Arc<str>,
    region: Arc<str>,
    price: Option<Money>,
    disk: Bytes,
    pub spot: bool,
    machine: Option<&'t Tree>,
}

/// Reads the fleets of instances in `fleets:` into the world, in the order of the file.
pub(super) fn read(file: &Fields<'_>, base: &Base, world: &mut World, profile: &Profile, report: &mut Report) {
    let Some(Tree { node: Node::Map(entries), .. }) = file.get("fleets") else { return };
    for entry in entries {
        if world.fleets.len() == MAX_FLEETS {
            let message = format!("more than {MAX_FLEETS} fleets");
            report.error_with_help(entry.key_span, message, "merge fleets with identical instances");
            return;
        }
        fleet(entry, base, world, profile, report);
    }
}

fn fleet(entry: &Entry, base: &Base, world: &mut World, profile: &Profile, report: &mut Report) {
    let Some(fields) = Fields::read(&entry.value, "a fleet of instances", &FIELDS, report) else { return };
    let kind = fields.word("kind", "a kind of fleet", &KINDS, report);
    let is_cloud = fields.has("nodes") || fields.has("offers");
    let kind = kind.unwrap_or(if is_cloud { FleetKind::Cloud } else { FleetKind::Ssh });
    let nodes = fields.get("nodes").and_then(|tree| node_range(tree, report));
    if kind == FleetKind::Ssh && fields.has("nodes") {
        let help = "leave `nodes` out, or write `kind: cloud`";
        report.error_with_help(
            fields.key_span("nodes"),
            "the number of hosts reached by SSH is the length of their list",
            help,
        );
    }
    let blocks = fields.get("blocks").and_then(|tree| blocks(tree, report)).unwrap_or(Blocks::Count(1));
    let fleet = FleetId::new(world.fleets.len());
    let default = if kind == FleetKind::Ssh { "remote" } else { "cloud" };
    let word = |key: &str, report: &mut Report| Arc::from(fields.text(key, "a name", report).unwrap_or(default));
    let common = Common {
        fleet,
        blocks: blocks.clone(),
        backend: word("backend", report),
        region: word("region", report),
        price: fields.value("price_per_hour", report),
        disk: fields.value("disk", report).unwrap_or(Bytes::ZERO),
        spot: fields.value("spot", report).unwrap_or(false),
        machine: fields.get("machine"),
    };
    world.fleets.push(Arc::new(FleetSpec {
        name: Arc::from(entry.key.as_str()),
        kind,
        placement: fields.word("placement", "a placement", &PLACEMENTS, report).unwrap_or_default(),
        blocks,
        nodes,
        cloud: clouds::read(&fields, nodes, report),
    }));
    let hosts = fields.list("hosts", report);
    if hosts.is_empty() && kind == FleetKind::Ssh && !report.has_errors() {
        let help = "add `hosts: [{name: h0, machine: a100-80g-x8}]`";
        report.error_with_help(entry.key_span, format!("the fleet `{}` has no hosts", entry.key), help);
    }
    let wanted = nodes.map_or(1, |nodes| nodes.max.unwrap_or(nodes.target));
    if kind == FleetKind::Cloud && !fields.has("offers") && (hosts.len() as u64) < u64::from(wanted) {
        let message = format!("the cloud fleet `{}` creates no instances: it has only its `hosts`", entry.key);
        report.warning(
            entry.key_span,
            message,
            "write `offers` to state which instances the cloud creates, or list `hosts`",
        );
    }
    let first = world.nodes.len();
    for tree in hosts {
        host(tree, &common, base, world, profile, report);
    }
    let most = nodes.and_then(|nodes| nodes.max);
    if let Some(most) = most.filter(|most| ((world.nodes.len() - first) as u64) > u64::from(*most)) {
        let message = format!("the fleet `{}` starts with more than its maximum of {most} nodes", entry.key);
        report.error_with_help(fields.key_span("hosts"), message, "write fewer hosts, or a larger maximum");
    }
    clouds::places(&fields, &entry.key, &common, base, world, profile, report);
}

/// Reads `4`, or `{min: 0, target: 2, max: 4}`.
fn node_range(tree: &Tree, report: &mut Report) -> Option<FleetNodes> {
    if tree.scalar().is_some() {
        let typed = text(tree, "a number of nodes", report)?;
        if let Some((low, high)) = typed.split_once("..") {
            let read = |part: &str| if part.is_empty() { Some(None) } else { part.parse::<u32>().ok().map(Some) };
            let (Some(min), Some(max)) = (read(low), read(high)) else {
                report.error_with_help(tree.span, format!("`{typed}` is not a range of nodes"), "write `0..4`");
                return None;
            };
            let min = min.unwrap_or(0);
            return checked(FleetNodes { min, target: min, max }, tree.span, report);
        }
        let count = value::<u32>(tree, report)?;
        return Some(FleetNodes { min: count, target: count, max: Some(count) });
    }
    let fields = Fields::read(tree, "a number of nodes", &["min", "target", "max"], report)?;
    let min = fields.value::<u32>("min", report).unwrap_or(0);
    let target = fields.value::<u32>("target", report).unwrap_or(min);
    checked(FleetNodes { min, target, max: fields.value("max", report) }, tree.span, report)
}

fn checked(nodes: FleetNodes, span: Span, report: &mut Report) -> Option<FleetNodes> {
    let rises = nodes.min <= nodes.target && nodes.max.is_none_or(|max| nodes.target <= max);
    if !rises {
        report.error_with_help(span, "min, target and max must not decrease", "write `{min: 0, target: 2, max: 4}`");
    }
    rises.then_some(nodes)
}

/// Reads `auto`, a number, `{mig: 1g.10gb}` or `{time_slices: 4}`.
fn blocks(tree: &Tree, report: &mut Report) -> Option<Blocks> {
    if matches!(tree.node, Node::Map(_)) {
        return splits::parts(tree, report);
    }
    let typed = text(tree, "a number of blocks or `auto`", report)?;
    if typed == "auto" {
        return Some(Blocks::Auto);
    }
    let count = value::<u32>(tree, report)?;
    if count == 0 || count > MOST_BLOCKS {
        let message = format!("{count} blocks is not possible; an instance has 1 to {MOST_BLOCKS}");
        report.error_with_help(tree.span, message, "write a number that divides its CPUs and GPUs, or `auto`");
        return None;
    }
    Some(Blocks::Count(count))
}

fn host(tree: &Tree, common: &Common<'_>, base: &Base, world: &mut World, profile: &Profile, report: &mut Report) {
    let mut known = nodes::FIELDS.to_vec();
    known.extend(machines::FIELDS);
    known.extend(HOST_FIELDS);
    let Some(fields) = Fields::read(tree, "a host", &known, report) else { return };
    let shape = instance(&fields, common, None, base, world, profile, report);
    let Some(name_tree) = fields.require("name", "h0", report) else { return };
    let Some(name) = name(name_tree, report) else { return };
    nodes::declare(&fields, (name_tree, name), shape, base, world, report);
}

/// Reads an instance. Its own fields take precedence over those of its fleet. In a cloud, `offer` is the index of the
/// instance's offer.
pub(super) fn instance(
    fields: &Fields<'_>,
    common: &Common<'_>,
    offer: Option<u32>,
    base: &Base,
    world: &mut World,
    profile: &Profile,
    report: &mut Report,
) -> Arc<NodeShape> {
    let own = fields.get("blocks").map(|tree| (tree, blocks(tree, report)));
    let gpus = gpus_by_name(fields, profile.scheduler.offers.known_gpus);
    let shape = machines::shape_or(fields, &base.machines, common.machine, gpus.is_some(), report);
    let shape = match gpus {
        Some(gpu) => with_gpus(shape, fields, gpu, report),
        None => shape,
    };
    let shape = corrected(shape, profile.scheduler.offers.known_gpus);
    let mut split = own.as_ref().and_then(|(_, own)| own.clone()).unwrap_or_else(|| common.blocks.clone());
    let span = own.as_ref().map_or(fields.place(), |(tree, _)| tree.span);
    if let Blocks::Parts(parts) = &mut split {
        splits::fit_parts(parts, &shape, span, report);
    }
    let offers = &profile.scheduler.offers;
    if offer.is_some() && offers.new_instances == NewInstances::Whole {
        split = Blocks::Count(1);
    }
    let word = |key: &str, other: &Arc<str>, report: &mut Report| {
        fields.text(key, "a name", report).map_or_else(|| Arc::clone(other), Arc::from)
    };
    let instance = Instance {
        fleet: common.fleet,
        blocks: split,
        total_blocks: None,
        disk: fields.value("disk", report).unwrap_or(common.disk),
        backend: word("backend", &common.backend, report),
        region: word("region", &common.region, report),
        spot: fields.value("spot", report).unwrap_or(common.spot),
        offer,
    };
    if shape.restricted_cores_per_gpu() > 0 {
        let message = "an instance of a fleet cannot have restricted cores: its blocks divide its cores among its GPUs";
        report.error_with_help(
            span,
            message,
            "leave `restricted_cores_per_gpu` out, or declare the machine in `nodes`",
        );
    }
    let price_per_hour = shape.price_per_hour.or(common.price);
    let shape = NodeShape { price_per_hour, ..shape }.into_instance(instance);
    let shape = Arc::new(shape);
    splits::warn_of_blocks(&shape, span, report);
    world.hosts.push((Arc::clone(&shape), span));
    shape
}

/// GPUs of a type that dstack knows by name but the catalog does not have.
fn gpus_by_name(fields: &Fields<'_>, known: KnownGpus) -> Option<GpuShape> {
    let typed = fields.get("gpu")?.scalar()?;
    if catalog::gpu(typed).is_some() {
        return None;
    }
    let gpu = catalog::dstack_gpu(typed)?;
    // If dstack knows several memory sizes, the largest is used. For another size, a separate group of nodes must state
    // it.
    let reported = Bytes::from_gib(*gpu.memory_gib.last()?);
    let memory = catalog::dstack_gpu_memory(known, gpu.name, reported);
    let compute_capability = gpu.compute_capability;
    Some(GpuShape { vendor: gpu.vendor, compute_capability, ..GpuShape::of(gpu.name, memory) })
}

fn with_gpus(shape: NodeShape, fields: &Fields<'_>, gpu: GpuShape, report: &mut Report) -> NodeShape {
    match fields.get("gpus") {
        None => {
            let span = fields.key_span("gpu");
            report.error_with_help(span, "the number of GPUs of this type is missing", "add `gpus: 8`");
            shape
        }
        Some(tree) => match value::<u32>(tree, report) {
            Some(count) if count <= 1024 => NodeShape { gpus: vec![gpu; count as usize], ..shape },
            _ => shape,
        },
    }
}

/// Replaces GPU memory by the size that dstack assumes: an H100 that reports 81,559 MiB counts as 80 GB.
fn corrected(mut shape: NodeShape, known: KnownGpus) -> NodeShape {
    for gpu in &mut shape.gpus {
        if let Some(entry) = catalog::dstack_gpu(&gpu.model) {
            gpu.memory = catalog::dstack_gpu_memory(known, entry.name, gpu.memory);
        }
    }
    shape
}
