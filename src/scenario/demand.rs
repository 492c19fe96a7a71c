//! Demands of jobs: converts `gpus:`, `cpus:`, `on:` and similar fields.

use std::sync::Arc;

use super::deployment;
use super::machines::{ARCH_WORDS, OS_WORDS};
use super::requirements;
use super::task_sets;
use super::world::World;
use dryrack_ids::{GpuId, NodeId};
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Demand, Gang, GpuDemand, GpuTake, Pick, TaskDemand};
use dryrack_yaml::{Fields, Node, Report, Tree, report_unit, text, value};

pub(super) const GANGS: [(&str, Gang); 5] = [
    ("anywhere", Gang::Anywhere),
    ("spread", Gang::Spread),
    ("packed", Gang::Packed),
    ("strict_pack", Gang::StrictPack),
    ("prefer_spread", Gang::PreferSpread),
];

/// Fields of a task, in addition to its number.
pub(super) const TASK_FIELDS: [&str; 9] =
    ["gpus", "gpu", "gpu_memory", "min_gpu_memory", "cpus", "ram", "labels", "os", "arch"];

/// Fields of a job that decide where it may be placed.
pub(super) const FIELDS: [&str; 16] = [
    "tasks",
    "min_tasks",
    "nodes",
    "gang",
    "gpus",
    "gpu",
    "gpu_memory",
    "min_gpu_memory",
    "cpus",
    "ram",
    "labels",
    "os",
    "arch",
    "on",
    "pick_gpus",
    "replicas",
];

/// The value of `gpus:`.
enum Gpus {
    None,
    Count(u32),
    Share(GpuShare),
    Picked(Vec<GpuId>),
}

/// Reads the demand of each replica of a job.
pub(super) fn read(fields: &Fields<'_>, world: &mut World, report: &mut Report) -> Demand {
    if let Some(demand) = requirements::read(fields, world, report) {
        return demand;
    }
    if fields.has("model") {
        return of_model(fields, world, report);
    }
    deployment::refuse_without_model(fields, report);
    if task_sets::is_of_sets(fields) {
        return task_sets::read(fields, world, report);
    }
    let reason = "both restrict the nodes or GPUs";
    let has_list = matches!(fields.get("gpus"), Some(Tree { node: Node::List(_), .. }));
    fields.exclusive(&["on", "pick_gpus"], reason, report);
    if has_list {
        fields.exclusive(&["gpus", "on"], reason, report);
        fields.exclusive(&["gpus", "pick_gpus"], reason, report);
    }
    let gpus = gpus(fields, world, report);
    let pick = match &gpus {
        Gpus::Picked(picked) => Some(Pick::AllGpus(picked.clone())),
        _ => picked(fields, world, report),
    };
    let tasks = tasks(fields, pick.as_ref(), report);
    let task = task_with(fields, &gpus, pick.as_ref(), world, report);
    let stated = fields.word("gang", "a placement of a gang", &GANGS, report);
    fields.exclusive(&["nodes", "tasks"], "each node runs one task", report);
    fields.exclusive(&["nodes", "gang"], "with `nodes`, each task is on a separate node", report);
    let gang = if fields.has("nodes") && tasks > 1 { Gang::Spread } else { stated.unwrap_or_default() };
    if fields.has("gang") && tasks == 1 {
        let help = "add `tasks: 2` or more, or leave `gang` out";
        report.warning(fields.key_span("gang"), "`gang` places several tasks, but the job has only one", help);
    }
    Demand { tasks, gang, pick, ..Demand::of(task) }
}

/// Reads the resources of a task whose GPUs are not picked.
pub(super) fn task(fields: &Fields<'_>, world: &mut World, report: &mut Report) -> TaskDemand {
    let gpus = match gpus(fields, world, report) {
        Gpus::Picked(_) => {
            let help = "write a number of GPUs, and restrict the nodes with `on:`";
            report.error_with_help(fields.key_span("gpus"), "GPUs of unequal tasks cannot be picked by hand", help);
            Gpus::None
        }
        gpus => gpus,
    };
    task_with(fields, &gpus, None, world, report)
}

fn task_with(
    fields: &Fields<'_>,
    gpus: &Gpus,
    pick: Option<&Pick>,
    world: &mut World,
    report: &mut Report,
) -> TaskDemand {
    let task = TaskDemand {
        cpu: fields.value("cpus", report).unwrap_or(MilliCpu::ZERO),
        ram: fields.value("ram", report).unwrap_or(Bytes::ZERO),
        gpus: gpu_demand(fields, gpus, pick, world, report),
        labels: fields.labels("labels", report),
        os: fields.word("os", "an operating system", &OS_WORDS, report),
        arch: fields.word("arch", "a CPU architecture", &ARCH_WORDS, report),
    };
    if task.gpus.is_none() && fields.lacks_all(&["gpus", "cpus", "ram"]) {
        let help = "add `gpus: 1` or `cpus: 1`";
        report.warning(fields.place(), "the job asks for no GPU, CPU or RAM, so it fits on every node", help);
    }
    task
}

/// Reads the demand of a job with a model: the model's needs, on the picked GPUs or on any.
fn of_model(fields: &Fields<'_>, world: &mut World, report: &mut Report) -> Demand {
    let reason = "both restrict the nodes or GPUs";
    fields.exclusive(&["gpus", "on", "pick_gpus"], reason, report);
    if !world.fleets.is_empty() {
        let help = "use a scenario that has only `nodes:`";
        report.error_with_help(
            fields.key_span("model"),
            "models cannot be served in a scenario with fleets of instances",
            help,
        );
    }
    let pick = match fields.get("gpus") {
        None => picked(fields, world, report),
        Some(tree) => match &tree.node {
            Node::List(items) => Some(Pick::AllGpus(gpu_list(items, world, report))),
            Node::Map(_) | Node::Scalar { .. } => {
                let help = "write `[alpha/0, alpha/1]`, or `parameters: [--tensor-parallel-size=2]` for a number";
                let message = format!("expected a list of GPUs for this model, found {}", tree.kind());
                report.error_with_help(tree.span, message, help);
                None
            }
        },
    };
    deployment::check_pick(fields, pick.as_ref(), report);
    let demand = match deployment::read(fields, pick.as_ref(), world, report) {
        Some(deployment) => Demand::of(deployment),
        // The report already says what is wrong with the model, so return any demand.
        None => Demand::of(TaskDemand::cpu_only(MilliCpu::ZERO)),
    };
    Demand { pick, ..demand }
}

fn gpus(fields: &Fields<'_>, world: &World, report: &mut Report) -> Gpus {
    let Some(tree) = fields.get("gpus") else {
        return if fields.has("gpu_memory") || fields.has("gpu") { Gpus::Count(1) } else { Gpus::None };
    };
    if let Node::List(items) = &tree.node {
        if items.is_empty() {
            report.error_with_help(tree.span, "the list of GPUs is empty", "write `[alpha/0]`, or a number of GPUs");
        }
        return Gpus::Picked(gpu_list(items, world, report));
    }
    let Some(typed) = text(tree, "a number of GPUs, a part of one, or a list such as [alpha/0]", report) else {
        return Gpus::None;
    };
    // A number is read as a number even if a node has that name.
    let is_number = typed.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'%'));
    if !is_number && world.node_names.find(typed.split('/').next().unwrap_or("")).is_some() {
        report.error_with_help(
            tree.span,
            format!("expected a list of GPUs, found `{typed}`"),
            format!("write `[{typed}]`"),
        );
        return Gpus::None;
    }
    if !typed.contains(['.', '%']) {
        return value::<u32>(tree, report)
            .map_or(Gpus::None, |count| if count == 0 { Gpus::None } else { Gpus::Count(count) });
    }
    match typed.parse::<GpuShare>() {
        Ok(GpuShare::WHOLE) => Gpus::Count(1),
        Ok(GpuShare::ZERO) => {
            report.error_with_help(
                tree.span,
                "a GPU share must be above 0",
                "write a part such as 0.5, or leave `gpus` out",
            );
            Gpus::None
        }
        Ok(share) => Gpus::Share(share),
        Err(dryrack_units::UnitError::TooLarge { .. }) => {
            let whole = match typed.strip_suffix('%').map(|percent| percent.split('.').next().unwrap_or("")) {
                Some(percent) => percent.parse::<u64>().map_or(2, |percent| percent.div_ceil(100)).to_string(),
                None => typed.split('.').next().unwrap_or("2").to_string(),
            };
            let help = format!("write `{whole}` for whole GPUs, or a part of one GPU such as `0.5` or `50%`");
            report.error_with_help(
                tree.span,
                format!("`{typed}` GPUs is not possible: a job takes whole GPUs or a part of one"),
                help,
            );
            Gpus::None
        }
        Err(error) => {
            report_unit(&error, typed, tree.span, report);
            Gpus::None
        }
    }
}

fn gpu_list(items: &[Tree], world: &World, report: &mut Report) -> Vec<GpuId> {
    let mut picked: Vec<GpuId> = Vec::new();
    for item in items {
        let Some(typed) = text(item, "a GPU such as alpha/0", report) else { continue };
        for gpu in world.gpus(typed, item.span, report) {
            if picked.contains(&gpu) {
                report.error_with_help(item.span, format!("`{typed}` is listed twice"), "remove one of the two");
                break;
            }
            picked.push(gpu);
        }
    }
    picked
}

pub(super) fn picked(fields: &Fields<'_>, world: &World, report: &mut Report) -> Option<Pick> {
    if let Some(tree) = fields.get("pick_gpus") {
        let Node::List(items) = &tree.node else {
            let message = format!("expected a list of GPUs, found {}", tree.kind());
            report.error_with_help(tree.span, message, "write `[alpha/0, beta/0]`");
            return None;
        };
        if items.is_empty() {
            let help = "write `[alpha/0, beta/0]`, or leave `pick_gpus` out to allow all GPUs";
            report.error_with_help(tree.span, "the list of GPUs is empty", help);
            return None;
        }
        return Some(Pick::Gpus(gpu_list(items, world, report)));
    }
    if refuse_nothing(fields, "on", "the list of nodes is empty", "alpha", report) {
        return None;
    }
    fields.get("on")?;
    let mut nodes: Vec<NodeId> = Vec::new();
    for (typed, span) in fields.items("on", "the name of a node", report) {
        nodes.extend(world.nodes(typed, span, report));
    }
    nodes.sort_unstable();
    nodes.dedup();
    Some(Pick::Nodes(nodes))
}

/// Refuses an empty list, which would match nothing and is surely a mistake.
fn refuse_nothing(fields: &Fields<'_>, key: &str, message: &str, example: &str, report: &mut Report) -> bool {
    let Some(tree) = fields.get(key) else { return false };
    let is_empty = matches!(&tree.node, Node::List(items) if items.is_empty());
    if is_empty {
        report.error_with_help(
            tree.span,
            message,
            format!("write `[{example}]`, or leave `{key}` out to allow all of them"),
        );
    }
    is_empty
}

fn tasks(fields: &Fields<'_>, pick: Option<&Pick>, report: &mut Report) -> u32 {
    let key = if fields.has("nodes") { "nodes" } else { "tasks" };
    let stated = fields.count(key, 1, report);
    let Some(pick @ Pick::AllGpus(_)) = pick else { return stated.unwrap_or(1) };
    let nodes = u32::try_from(pick.nodes().len()).unwrap_or(u32::MAX).max(1);
    if stated.is_some_and(|stated| stated != nodes) {
        let span = fields.get(key).map_or(fields.span, |tree| tree.span);
        let message = format!("the picked GPUs are on {nodes} nodes, and each node takes one task");
        report.error_with_help(span, message, format!("write `{key}: {nodes}`, or leave it out"));
    }
    nodes
}

fn gpu_demand(
    fields: &Fields<'_>,
    gpus: &Gpus,
    pick: Option<&Pick>,
    world: &mut World,
    report: &mut Report,
) -> Option<GpuDemand> {
    let memory = fields.value::<Bytes>("gpu_memory", report);
    let mut models: Vec<Arc<str>> = Vec::new();
    refuse_nothing(fields, "gpu", "the list of GPU types is empty", "a100-80g", report);
    for (typed, span) in fields.items("gpu", "a GPU type", report) {
        models.extend(world.gpu_types_named(typed, span, report));
    }
    let min_memory = fields.value("min_gpu_memory", report);
    let (count, take) = match (gpus, memory) {
        (Gpus::None, _) => {
            for key in ["gpu", "gpu_memory", "min_gpu_memory"].iter().filter(|key| fields.has(key)) {
                let help = format!("add `gpus: 1`, or leave `{key}` out");
                report.error_with_help(
                    fields.key_span(key),
                    format!("`{key}` needs a GPU, but the job has none"),
                    help,
                );
            }
            return None;
        }
        (Gpus::Share(_), Some(_)) => {
            let help = "leave `gpu_memory` out, because the share takes the same part of the memory; or write `gpus: 1` \
                 with `gpu_memory`";
            report.error_with_help(
                fields.key_span("gpu_memory"),
                "a GPU share and `gpu_memory` cannot be given together",
                help,
            );
            return None;
        }
        (Gpus::Share(share), None) => (1, GpuTake::Share(*share)),
        (Gpus::Count(count), Some(memory)) => (*count, GpuTake::Memory(memory)),
        (Gpus::Count(count), None) => (*count, GpuTake::Whole),
        (Gpus::Picked(_), memory) => {
            // A task takes the GPUs that are picked on its node. The number of GPUs is the largest over the nodes.
            let on = |node| pick.and_then(|pick| pick.gpus_on(node)).map_or(0, |picked| picked.len());
            let most = pick.map_or(0, |pick| pick.nodes().into_iter().map(on).max().unwrap_or(0));
            (u32::try_from(most).unwrap_or(u32::MAX).max(1), memory.map_or(GpuTake::Whole, GpuTake::Memory))
        }
    };
    if memory == Some(Bytes::ZERO) {
        let help = "write an amount such as 20GiB, or leave `gpu_memory` out to take whole GPUs";
        report.error_with_help(fields.key_span("gpu_memory"), "the amount of memory must be above 0", help);
    }
    Some(GpuDemand { count, take, models, min_memory })
}
