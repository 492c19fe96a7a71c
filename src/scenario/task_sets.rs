//! Gangs of unequal tasks (`tasks: [{name: launcher, cpus: 1}, {name: worker, tasks: 4, gpus: 8}]`), and of a number of
//! tasks that may be smaller (`tasks: 8, min_tasks: 4`).

use std::sync::Arc;

use super::demand::{self, GANGS, TASK_FIELDS};
use super::world::World;
use dryrack_workload::{Demand, Gang, TaskDemand, TaskSet};
use dryrack_yaml::{Fields, Node, Report, Tree, name};

/// The largest number of sets of one gang.
const MAX_SETS: usize = 32;
/// The largest number of tasks of a gang. Their placement takes time for each node and set.
const MAX_TASKS: u32 = 100_000;

/// Whether the job's tasks form sets.
pub(super) fn is_of_sets(fields: &Fields<'_>) -> bool {
    let has_list = matches!(fields.get("tasks"), Some(Tree { node: Node::List(_), .. }));
    let gang = fields.get("gang").and_then(Tree::scalar);
    let is_of_gang = GANGS
        .iter()
        .any(|(word, gang_of)| Some(*word) == gang && matches!(gang_of, Gang::StrictPack | Gang::PreferSpread));
    has_list || fields.has("min_tasks") || is_of_gang
}

/// Reads a demand of sets. Call this only if [`is_of_sets`].
pub(super) fn read(fields: &Fields<'_>, world: &mut World, report: &mut Report) -> Demand {
    fields.exclusive(&["nodes", "gang"], "each task is on a separate node", report);
    for key in ["nodes", "pick_gpus"] {
        if fields.has(key) {
            let help = format!(
                "leave `{key}` out; `on:` restricts the nodes, and `gang: spread` places each task on a separate node"
            );
            let message = format!("`{key}` is ambiguous for {}", called(fields));
            report.error_with_help(fields.key_span(key), message, help);
        }
    }
    let gang = fields.word("gang", "a placement of a gang", &GANGS, report).unwrap_or_default();
    let sets = match fields.get("tasks") {
        Some(tree @ Tree { node: Node::List(items), .. }) => of_list(fields, (tree, items), world, report),
        _ => vec![set(fields, Arc::from("task"), world, report)],
    };
    let total = sets.iter().fold(0_u32, |sum, set| sum.saturating_add(set.tasks));
    if total > MAX_TASKS {
        let message = format!("a gang of {total} tasks is too large; the limit is {MAX_TASKS}");
        report.error_with_help(fields.key_span("tasks"), message, "use `count:` for separate jobs");
        return Demand::of(TaskDemand::cpu_only(dryrack_units::MilliCpu::ZERO));
    }
    if fields.has("gang") && total == 1 {
        let help = "add `tasks: 2` or more, or leave `gang` out";
        report.warning(fields.key_span("gang"), "`gang` places several tasks, but the job has only one", help);
    }
    if sets.is_empty() {
        return Demand::of(TaskDemand::cpu_only(dryrack_units::MilliCpu::ZERO));
    }
    Demand { gang, pick: demand::picked(fields, world, report), ..Demand::of(Arc::<[TaskSet]>::from(sets)) }
}

/// What makes the demand one of sets, as the file states it.
fn called(fields: &Fields<'_>) -> String {
    match fields.get("gang").and_then(Tree::scalar) {
        _ if matches!(fields.get("tasks"), Some(Tree { node: Node::List(_), .. })) => {
            "a job with a list of `tasks`".to_string()
        }
        _ if fields.has("min_tasks") => "a job with `min_tasks`".to_string(),
        gang => format!("a job with `gang: {}`", gang.unwrap_or("pack")),
    }
}

fn of_list(
    fields: &Fields<'_>,
    (tree, items): (&Tree, &[Tree]),
    world: &mut World,
    report: &mut Report,
) -> Vec<TaskSet> {
    for key in TASK_FIELDS.iter().chain(&["min_tasks"]).filter(|key| fields.has(key)) {
        let help = format!("move `{key}` into the entries of `tasks`");
        report.error_with_help(fields.key_span(key), "each entry of `tasks` states its own resources", help);
    }
    if items.is_empty() {
        report.error_with_help(tree.span, "the gang has no tasks", "write `[{name: worker, tasks: 4, gpus: 8}]`");
    }
    if items.len() > MAX_SETS {
        let message = format!("{} kinds of tasks are too many; the limit is {MAX_SETS}", items.len());
        report.error_with_help(tree.span, message, "combine identical tasks in one entry with `tasks: 4`");
        return Vec::new();
    }
    let mut sets: Vec<TaskSet> = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let mut known = vec!["name", "tasks", "min_tasks"];
        known.extend(TASK_FIELDS);
        let Some(own) = Fields::read(item, "tasks of a gang", &known, report) else { continue };
        let typed = own.get("name").and_then(|tree| Some((tree.span, name(tree, report)?)));
        if let Some((span, typed)) = typed
            && sets.iter().any(|set| &*set.name == typed)
        {
            report.error_with_help(
                span,
                format!("two kinds of tasks are named `{typed}`"),
                "give each a different name",
            );
        }
        let typed = typed.map_or_else(|| Arc::from(format!("task-{place}")), |(_, typed)| Arc::from(typed));
        sets.push(set(&own, typed, world, report));
    }
    sets
}

fn set(fields: &Fields<'_>, name: Arc<str>, world: &mut World, report: &mut Report) -> TaskSet {
    let tasks = fields.count("tasks", 1, report).unwrap_or(1);
    let min_tasks = fields.count("min_tasks", 1, report).unwrap_or(tasks);
    if min_tasks > tasks {
        let message = format!("the gang needs at least {min_tasks} of {tasks} tasks");
        report.error_with_help(fields.key_span("min_tasks"), message, format!("write {tasks} or less"));
    }
    TaskSet { name, tasks, min_tasks: min_tasks.min(tasks), task: demand::task(fields, world, report) }
}
