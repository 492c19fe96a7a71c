//! `slurm:` of a scenario, and the words of its jobs: partition, account, QOS, reservation, requeue, nice.
//!
//! The configuration itself is read with the profile. Here its names are resolved: the nodes of a partition or of an
//! advance reservation get its label, and its jobs ask for that label.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::world::World;
use dryrack_control::Profile;
use dryrack_fleet::NodeShape;
use dryrack_scheduler::slurm::{
    Associations, DEFAULT_QOS, MEMBER, Partition, Reservation, SlurmOptions, partition_label, reservation_label,
};
use dryrack_units::SimDuration;
use dryrack_workload::{Arrival, Demand, DemandKind, Gang, GpuTake, SlurmTerms, TaskSet};
use dryrack_yaml::{Fields, Node, Report, Span, Tree, is_pattern, matches_pattern};

/// The keys of a job that only a profile that schedules like Slurm understands.
pub(super) const JOB_FIELDS: [&str; 6] = ["partition", "account", "qos", "reservation", "requeue", "nice"];

/// Gives the nodes of each partition and of each advance reservation its label.
pub(super) fn label_nodes(file: &Fields<'_>, profile: &Profile, world: &mut World, report: &mut Report) {
    let Some(slurm) = &profile.slurm else { return };
    let typed = |list: &str, name: &str| {
        let list = file.get("slurm").and_then(|tree| tree.get(list));
        list.and_then(|tree| named(tree, name)).map_or(file.place(), |tree| tree.span)
    };
    refuse_empty_lists(file, report);
    for partition in &slurm.partitions {
        let of = (typed("partitions", &partition.name), "partition", &*partition.name);
        label(&partition.nodes, of, partition_label(&partition.name), world, report);
    }
    let mut reserved: Vec<(&Reservation, Vec<usize>)> = Vec::new();
    for reservation in &slurm.reservations {
        let of = (typed("reservations", &reservation.name), "reservation", &*reservation.name);
        let nodes = label(&reservation.nodes, of, reservation_label(&reservation.name), world, report);
        refuse_overlap((reservation, &nodes), (&reserved, of.0), world, report);
        reserved.push((reservation, nodes));
    }
}

/// Refuses a partition or a reservation with an empty list of nodes. A list that is absent means all nodes.
fn refuse_empty_lists(file: &Fields<'_>, report: &mut Report) {
    for (list, what) in [("partitions", "partition"), ("reservations", "reservation")] {
        let listed = file.get("slurm").and_then(|tree| tree.get(list)).map(|tree| &tree.node);
        let Some(Node::List(items)) = listed else { continue };
        for nodes in items.iter().filter_map(|item| item.get("nodes")) {
            if matches!(&nodes.node, Node::List(names) if names.is_empty()) {
                let message = format!("this {what} has no nodes");
                report.error_with_help(nodes.span, message, "write `[n1, n2]`, or leave `nodes` out for all nodes");
            }
        }
    }
}

/// Gives nodes a label. Returns the nodes.
fn label(
    names: &[String],
    of: (Span, &str, &str),
    label: Arc<str>,
    world: &mut World,
    report: &mut Report,
) -> Vec<usize> {
    let nodes = members(names, of, world, report);
    for node in &nodes {
        let mut shape = (*world.nodes[*node].spec.shape).clone();
        shape.labels.insert(Arc::clone(&label), Arc::from(MEMBER));
        world.nodes[*node].spec.shape = world.shared_shape(shape);
    }
    nodes
}

/// Refuses a reservation that has a node at the same time as an earlier one, as `scontrol create reservation` does.
fn refuse_overlap(
    (own, nodes): (&Reservation, &[usize]),
    (earlier, span): (&[(&Reservation, Vec<usize>)], Span),
    world: &World,
    report: &mut Report,
) {
    let is_then = |other: &Reservation| own.start < other.end() && other.start < own.end();
    let shared = earlier.iter().filter(|(other, _)| is_then(other)).find_map(|(other, theirs)| {
        let node = nodes.iter().find(|node| theirs.contains(node))?;
        Some((&other.name, &world.nodes[*node].spec.name))
    });
    if let Some((other, node)) = shared {
        let message = format!("the reservation `{}` overlaps with `{other}` on {node}", own.name);
        let help = "let one begin when the other ends, or leave this node out of it; Slurm allows an overlap only with \
                    `Flags=OVERLAP` or `Flags=MAINT`, which are not modelled";
        report.error_with_help(span, message, help);
    }
}

/// The item of a list of maps with this name.
fn named<'t>(list: &'t Tree, name: &str) -> Option<&'t Tree> {
    let Node::List(items) = &list.node else { return None };
    items.iter().find(|item| item.get("name").and_then(Tree::scalar) == Some(name))
}

/// The nodes with these names or patterns, in ascending order. All nodes if the list is empty.
fn members(names: &[String], of: (Span, &str, &str), world: &World, report: &mut Report) -> Vec<usize> {
    let (place, what, owner) = of;
    if names.is_empty() {
        return (0..world.nodes.len()).collect();
    }
    let mut found = Vec::new();
    for typed in names {
        let before = found.len();
        let is_it = |name: &str| if is_pattern(typed) { matches_pattern(typed, name) } else { typed == name };
        let all = world.nodes.iter().enumerate();
        found.extend(all.filter(|(_, node)| is_it(&node.spec.name)).map(|(place, _)| place));
        if found.len() == before {
            let message = format!("the {what} `{owner}` names `{typed}`, but no node matches");
            report.unknown(place, message, typed, world.nodes.iter().map(|node| &*node.spec.name));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Reads the terms of a job. Its demand then asks for nodes of its partition.
pub(super) fn terms(
    fields: &Fields<'_>,
    demand: &mut Demand,
    profile: &Profile,
    report: &mut Report,
) -> Option<Arc<SlurmTerms>> {
    let Some(slurm) = &profile.slurm else {
        for key in ["partition", "account", "qos", "reservation", "requeue"].into_iter().filter(|key| fields.has(key)) {
            let message = format!("`{key}` has no effect under the profile `{}`, which has no `slurm`", profile.name);
            let help = match profile.schedules_like_slurm() {
                true => "add `slurm: {partitions: [{name: main, default: true}]}` to the file, or leave the field out",
                false => "write `profile: slurm-22.05` and `slurm:` with the partitions, or leave it out",
            };
            report.error_with_help(fields.key_span(key), message, help);
        }
        return None;
    };
    let partitions = partitions(fields, slurm, report);
    let account = account(fields, slurm, report);
    let qos = qos(fields, slurm, report);
    let reservation = reservation(fields, slurm, account.as_deref(), report);
    let names: Vec<&str> = partitions.iter().map(|partition| &*partition.name).collect();
    let partition = (!names.is_empty()).then(|| Arc::from(names.join(",")));
    let labels = partition.iter().map(|names: &Arc<str>| partition_label(names));
    let labels = labels.chain(reservation.map(|reservation| reservation_label(&reservation.name)));
    match &mut demand.kind {
        DemandKind::Tasks(task) => task.labels.extend(labels.map(|label| (label, Arc::from(MEMBER)))),
        DemandKind::Model(_) | DemandKind::Requirements(_) => {
            let help = "write the resources as `nodes`, `cpus` and `gpus`";
            report.error_with_help(fields.place(), "Slurm cannot place models or jobs with `resources`", help);
        }
        DemandKind::Sets(sets) => refuse_sets(fields, sets, report),
    }
    warn_of_node_limits(fields, demand, slurm, (&partitions, qos.as_deref()), report);
    warn_of_parts_of_gpus(fields, demand, slurm, (&partitions, qos.as_deref()), report);
    let reservation = reservation.map(|reservation| Arc::clone(&reservation.name));
    let requeue = fields.value("requeue", report).unwrap_or(slurm.job_requeue);
    Some(Arc::new(SlurmTerms { partition, account, qos, reservation, requeue }))
}

/// Refuses a gang that a single job of Slurm cannot be. Slurm has heterogeneous jobs for unequal tasks: jobs of their own,
/// with their own partitions and priorities, which the backfill scheduler starts together.
fn refuse_sets(fields: &Fields<'_>, sets: &[TaskSet], report: &mut Report) {
    let (key, message, help) = if matches!(fields.get("tasks"), Some(Tree { node: Node::List(_), .. })) {
        if let [set] = sets {
            let help = format!("write `tasks: {}`, and the resources of a task beside it", set.tasks);
            let message = "a list of `tasks` cannot be rehearsed with `slurm:`";
            return report.error_with_help(fields.key_span("tasks"), message, help);
        }
        let name = fields.get("name").and_then(Tree::scalar).unwrap_or("job");
        let jobs: Vec<String> =
            sets.iter().map(|set| format!("`{{name: {name}-{}, tasks: {}, ...}}`", set.name, set.tasks)).collect();
        let help = format!(
            "write each kind of tasks as a job of its own, though they may then start at different times: {}; or leave out \
             `slurm:`, so that the gang starts as a whole",
            jobs.join(" and ")
        );
        let message = "a gang of unequal tasks is a heterogeneous job in Slurm, which `slurm:` does not rehearse";
        ("tasks", message, help)
    } else if fields.has("min_tasks") {
        let tasks: u32 = sets.iter().map(|set| set.tasks).sum();
        let help = format!("leave `min_tasks` out, so that the job waits for room for all of `tasks: {tasks}`");
        ("min_tasks", "a gang that starts with fewer tasks cannot be rehearsed with `slurm:`", help)
    } else {
        let help = "write `gang: spread` for one task a node, `gang: packed` for as few nodes as possible, or `tasks: 1` \
                    with the resources of all tasks for one node";
        ("gang", "this placement of a gang cannot be rehearsed with `slurm:`", help.to_string())
    };
    report.error_with_help(fields.key_span(key), message, help);
}

/// Whether the number of nodes of a job is known only when it is placed. It counts as one node for limits.
pub(super) fn has_unknown_nodes(demand: &Demand) -> bool {
    demand.tasks > 1 && demand.gang != Gang::Spread
}

/// Whether a task takes parts of GPUs, which count as whole ones for limits.
pub(super) fn has_parts_of_gpus(demand: &Demand) -> bool {
    demand.gpus().is_some_and(|gpus| gpus.take != GpuTake::Whole)
}

/// Warns about a job whose number of nodes is not known before it is placed, if something limits this number.
fn warn_of_node_limits(
    fields: &Fields<'_>,
    demand: &Demand,
    slurm: &SlurmOptions,
    (partitions, qos): (&[&Partition], Option<&str>),
    report: &mut Report,
) {
    if has_unknown_nodes(demand) && slurm.limits_nodes(partitions, qos) {
        let message = "the tasks may get several nodes, but they count as one node for limits on nodes";
        let help = "add `gang: spread`, with which each task has a node of its own";
        report.warning(fields.place(), message, help);
    }
}

/// Warns about a job with a part of a GPU, if something limits `gres/gpu`. In Slurm, it would ask for `gres/shard` or `gres/mps`.
fn warn_of_parts_of_gpus(
    fields: &Fields<'_>,
    demand: &Demand,
    slurm: &SlurmOptions,
    (partitions, qos): (&[&Partition], Option<&str>),
    report: &mut Report,
) {
    if has_parts_of_gpus(demand) && slurm.limits_gpus(partitions, qos) {
        let message = "a part of a GPU counts as one GPU for limits on gres/gpu";
        let help = "Slurm would count it as gres/shard or gres/mps, of which no limits are modelled";
        report.warning(fields.place(), message, help);
    }
}

/// The account of a job: the one that it names, or the default account of its user. If the cluster has accounts, the
/// user must be one of the account's.
fn account(fields: &Fields<'_>, slurm: &SlurmOptions, report: &mut Report) -> Option<Arc<str>> {
    let typed = fields.text("account", "the name of an account", report);
    if slurm.accounts.is_empty() {
        return typed.map(Arc::from);
    }
    let known = Associations::of(&slurm.accounts);
    let span = fields.get("account").map_or(fields.place(), |tree| tree.span);
    // The user is read and checked with the job itself.
    let Some(user) = fields.get("user").and_then(Tree::scalar) else {
        let help = "add `user:` with a user of `slurm.accounts`";
        report.error_with_help(fields.place(), "the job names no user, but the cluster has accounts", help);
        return None;
    };
    let names = || slurm.accounts.iter().map(|account| &*account.name);
    match typed {
        Some(typed) if !names().any(|name| name == typed) && typed != "root" => {
            report.unknown(span, format!("no account is named `{typed}`"), typed, names());
            None
        }
        Some(typed) if known.find(user, typed).is_none() => {
            let message = format!("the account `{typed}` has no user `{user}`");
            report.error_with_help(span, message, "add the user to the account in `slurm.accounts`");
            None
        }
        Some(typed) => Some(Arc::from(typed)),
        None => {
            let found = known.default_account(user).cloned();
            if found.is_none() {
                let span = fields.get("user").map_or(fields.place(), |tree| tree.span);
                let users = slurm.accounts.iter().flat_map(|account| account.users.keys().map(|user| &**user));
                report.unknown(span, format!("no account has a user `{user}`"), user, users);
            }
            found
        }
    }
}

/// The QOS of a job. `None` if it names none and there is no default QOS.
fn qos(fields: &Fields<'_>, slurm: &SlurmOptions, report: &mut Report) -> Option<Arc<str>> {
    let typed = fields.text("qos", "the name of a QOS", report);
    let found = slurm.qos(typed.unwrap_or(DEFAULT_QOS));
    if let (Some(typed), None) = (typed, found) {
        let span = fields.get("qos").map_or(fields.place(), |tree| tree.span);
        report.unknown(span, format!("no QOS is named `{typed}`"), typed, slurm.qos.iter().map(|qos| &*qos.name));
    }
    found.map(|qos| Arc::clone(&qos.name))
}

/// The advance reservation of a job. The job's user or account must be allowed to use it, as `sbatch` demands.
fn reservation<'s>(
    fields: &Fields<'_>,
    slurm: &'s SlurmOptions,
    account: Option<&str>,
    report: &mut Report,
) -> Option<&'s Reservation> {
    let typed = fields.text("reservation", "the name of a reservation", report)?;
    let span = fields.get("reservation").map_or(fields.place(), |tree| tree.span);
    let Some(found) = slurm.reservation(typed) else {
        let names = slurm.reservations.iter().map(|one| &*one.name);
        report.unknown(span, format!("no reservation is named `{typed}`"), typed, names);
        return None;
    };
    // The user is read and checked with the job itself.
    let user = fields.get("user").and_then(Tree::scalar);
    if !found.admits(user, account) {
        let message = format!("the reservation `{typed}` does not allow this job's user or account");
        let help = "set `user` to one of its `users`, or `account` to one of its `accounts`";
        report.error_with_help(span, message, help);
    }
    Some(found)
}

/// The partitions of a job, each once. Empty if the cluster has no partitions, or if that is an error.
fn partitions<'s>(fields: &Fields<'_>, slurm: &'s SlurmOptions, report: &mut Report) -> Vec<&'s Partition> {
    match fields.text("partition", "the name of a partition", report) {
        Some(typed) => {
            let span = fields.get("partition").map_or(fields.place(), |tree| tree.span);
            let mut found: Vec<&Partition> = Vec::new();
            for typed in typed.split(',').map(str::trim) {
                match slurm.partition(typed) {
                    Some(partition) if found.iter().any(|known| known.name == partition.name) => {}
                    Some(partition) => found.push(partition),
                    None => {
                        let names = slurm.partitions.iter().map(|partition| &*partition.name);
                        report.unknown(span, format!("no partition is named `{typed}`"), typed, names);
                    }
                }
            }
            found
        }
        None => {
            let found = slurm.default_partition();
            if found.is_none() && !slurm.partitions.is_empty() {
                let help = format!("add `partition: {}`, or mark one as `default: true`", &*slurm.partitions[0].name);
                report.error_with_help(
                    fields.place(),
                    "the job names no partition, and no partition is the default",
                    help,
                );
            }
            found.into_iter().collect()
        }
    }
}

/// Gives the nodes of the partitions of each job that is in several of them the label for which it asks.
pub(super) fn label_unions<'n>(named: impl Iterator<Item = &'n Arc<str>>, world: &mut World) {
    let several: BTreeSet<Arc<str>> = named.filter(|names| names.contains(',')).cloned().collect();
    for names in several {
        let labels: Vec<Arc<str>> = names.split(',').map(partition_label).collect();
        for node in 0..world.nodes.len() {
            let shape = &world.nodes[node].spec.shape;
            if labels.iter().any(|label| shape.labels.contains_key(label)) {
                let mut shape = NodeShape::clone(shape);
                shape.labels.insert(partition_label(&names), Arc::from(MEMBER));
                world.nodes[node].spec.shape = world.shared_shape(shape);
            }
        }
    }
}

/// The partitions that jobs name.
pub(super) fn partitions_of(arrivals: &[Arrival]) -> impl Iterator<Item = &Arc<str>> {
    arrivals.iter().filter_map(|arrival| arrival.spec.slurm.as_ref()?.partition.as_ref())
}

/// The time limit that its partitions and QOS give to a job without one.
pub(super) fn default_limit(terms: Option<&Arc<SlurmTerms>>, profile: &Profile) -> Option<SimDuration> {
    profile.slurm.as_ref()?.limit_if_unstated(terms?)
}

/// The priority of a job: its own, minus its `nice`.
pub(super) fn priority(fields: &Fields<'_>, profile: &Profile, report: &mut Report) -> i32 {
    let priority: i32 = fields.value("priority", report).unwrap_or(0);
    let Some(tree) = fields.get("nice") else { return priority };
    let nice: i32 = fields.value("nice", report).unwrap_or(0);
    if !profile.schedules_like_slurm() {
        let message = format!("`nice` has no effect under the profile `{}`", profile.name);
        report.error_with_help(fields.key_span("nice"), message, "write `priority: 100`; a higher priority goes first");
    }
    priority.checked_sub(nice).unwrap_or_else(|| {
        let message = format!("the priority {priority} minus the nice value {nice} is out of range");
        report.error_with_help(tree.span, message, "write a smaller number");
        priority
    })
}
