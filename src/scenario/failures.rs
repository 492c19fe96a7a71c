//! Random or repeated failures: converts `failures:` to faults of nodes and GPUs, and to random faults of jobs.
//!
//! The first key of an entry states what fails: `nodes`, `gpus` or `racks` (with `time_to_failure` and `repair`),
//! `flapping` (with `every` and `down`), or for jobs `starts`, `analyses` or `acks`. `active: false` disables the
//! entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::faults::turn;
use super::lengths::{lengths, positive};
use super::nodes::GPU_STATES;
use super::world::World;
use dryrack_engine::{FailedState, FailureModel, Fault, NodeTurn, Outage, Subject, Target, as_faults};
use dryrack_fleet::GpuState;
use dryrack_ids::{JobId, NodeId};
use dryrack_rng::Lengths;
use dryrack_units::{Permille, SimDuration, SimTime};
use dryrack_workload::{Acks, Analyses, Arrival, Starts};
use dryrack_yaml::{Fields, Node, Report, Span, Tree, list, matches_pattern, value};

/// The first key of an entry, with the other keys that the entry may have.
const KINDS: [(&str, &[&str]); 7] = [
    ("nodes", &["time_to_failure", "repair", "becomes", "from", "until"]),
    ("gpus", &["time_to_failure", "repair", "becomes", "from", "until"]),
    ("racks", &["time_to_failure", "repair", "becomes", "from", "until"]),
    ("flapping", &["every", "down", "becomes", "from", "until"]),
    ("starts", &["fail", "slow", "slow_by"]),
    ("analyses", &["fail", "hang", "slow", "slow_by"]),
    ("acks", &["lost", "late", "repeated", "late_by"]),
];

/// The largest number of failures of one scenario. More could not be simulated in reasonable time.
const MAX_FAILURES: usize = 1_000_000;

/// The context in which the failures of a file are read.
pub(super) struct ReadContext<'w> {
    pub world: &'w World,
    pub seed: u64,
    pub until: Option<SimTime>,
}

/// Reads `failures:`. Faults of jobs are written directly into the arrivals.
pub(super) fn read(
    file: &Fields<'_>,
    setting: &ReadContext<'_>,
    arrivals: &mut [Arrival],
    report: &mut Report,
) -> Vec<(SimTime, Fault)> {
    let mut outages: Vec<Outage> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for tree in file.list("failures", report) {
        let Some((kind, fields)) = entry(tree, report) else { continue };
        let is_active = fields.value::<bool>("active", report).unwrap_or(true);
        let subjects = fields.items(kind, "a name or a pattern", report);
        let before = outages.len();
        match kind {
            "starts" | "analyses" | "acks" => {
                random_faults(&fields, kind, &subjects, setting, arrivals, is_active, report)
            }
            _ => draw(&fields, kind, &subjects, setting, &mut names, &mut outages, report),
        }
        if !is_active {
            outages.truncate(before);
        }
    }
    as_faults(&outages)
}

/// The random faults without those of a node that is `gone` by a stated fault. Such a node was removed, so it does not come
/// back because a failure would be repaired, but only with a stated fault.
pub(super) fn of_present_nodes(mut drawn: Vec<(SimTime, Fault)>, stated: &[(SimTime, Fault)]) -> Vec<(SimTime, Fault)> {
    let mut turns: BTreeMap<NodeId, Vec<(SimTime, NodeTurn)>> = BTreeMap::new();
    for (at, fault) in stated {
        if let Fault::Node { node, becomes: becomes @ (NodeTurn::Gone | NodeTurn::Ready) } = fault {
            turns.entry(*node).or_default().push((*at, *becomes));
        }
    }
    turns.values_mut().for_each(|turns| turns.sort_by_key(|(at, _)| *at));
    drawn.retain(|(at, fault)| {
        let Fault::Node { node, .. } = fault else { return true };
        let before = turns.get(node).and_then(|turns| turns.iter().rfind(|(turned, _)| turned <= at));
        before.is_none_or(|(_, turn)| *turn != NodeTurn::Gone)
    });
    drawn
}

/// The kind of the entry, and its fields.
fn entry<'t>(tree: &'t Tree, report: &mut Report) -> Option<(&'static str, Fields<'t>)> {
    let has = |kind: &str| match &tree.node {
        Node::Map(entries) => entries.iter().any(|entry| entry.key == kind),
        Node::Scalar { .. } | Node::List(_) => false,
    };
    let found: Vec<&(&str, &[&str])> = KINDS.iter().filter(|(kind, _)| has(kind)).collect();
    let Some((kind, keys)) = found.first().copied() else {
        let all: Vec<&str> =
            KINDS.iter().flat_map(|(kind, keys)| [*kind].into_iter().chain(keys.iter().copied())).collect();
        let fields = Fields::read(tree, "a failure", &[&["name", "active"], all.as_slice()].concat(), report)?;
        let kinds = list(KINDS.iter().map(|(kind, _)| *kind));
        if fields.lacks_all(&KINDS.map(|(kind, _)| kind)) {
            report.error_with_help(
                fields.place(),
                "the target of the failure is missing",
                format!("add one of {kinds}"),
            );
        }
        return None;
    };
    let mut known = vec!["name", "active", *kind];
    known.extend(keys.iter());
    known.extend(found.iter().map(|(kind, _)| *kind));
    let fields = Fields::read(tree, "a failure", &known, report)?;
    fields.exclusive(&KINDS.map(|(kind, _)| kind), "an entry describes one kind of failure", report);
    Some((*kind, fields))
}

fn draw(
    fields: &Fields<'_>,
    kind: &'static str,
    typed: &[(&str, Span)],
    setting: &ReadContext<'_>,
    names: &mut Vec<String>,
    outages: &mut Vec<Outage>,
    report: &mut Report,
) {
    let subjects: Vec<Subject> =
        typed.iter().flat_map(|(typed, span)| subjects(kind, typed, *span, setting.world, report)).collect();
    let is_gpu = kind == "gpus";
    let becomes = match is_gpu {
        true => FailedState::Gpu(
            fields.word("becomes", "a state of a GPU", &GPU_STATES, report).unwrap_or(GpuState::Failed),
        ),
        false => {
            let usual = if kind == "flapping" { NodeTurn::Silent } else { NodeTurn::Crashed };
            FailedState::Node(turn(fields, report).unwrap_or(usual))
        }
    };
    if matches!(becomes, FailedState::Node(NodeTurn::Ready) | FailedState::Gpu(GpuState::Ready)) {
        let span = fields.key_span("becomes");
        report.error_with_help(span, "`ready` is not a failure", "write the state during the failure");
    }
    let lengths = if kind == "flapping" { flapping(fields, report) } else { failing(fields, report) };
    let from = fields.value("from", report).unwrap_or(SimTime::ZERO);
    let Some(until) = fields.value("until", report).or(setting.until) else {
        let help = "add `until: 90d` here, or to the file";
        return report.error_with_help(
            fields.place(),
            "the failures would go on forever, so the run would never end",
            help,
        );
    };
    let Some((up, down)) = lengths else { return };
    // The text of an entry identifies its random stream. A number distinguishes entries with equal text.
    let called = format!("{kind} {}", typed.iter().map(|(typed, _)| *typed).collect::<Vec<_>>().join(" "));
    let alike = names.iter().filter(|name| **name == called).count();
    names.push(called.clone());
    let model = FailureModel { name: format!("{called} {alike}"), up, down, from, until };
    for subject in &subjects {
        let most = (MAX_FAILURES - outages.len()) / subject.targets.len().max(1);
        let Some(times) = model.draw(setting.seed, subject, most) else {
            let message = format!("more than {MAX_FAILURES} failures by {until}");
            return report.error_with_help(fields.place(), message, "write longer times, or an earlier `until`");
        };
        for (from, to) in times {
            outages.extend(subject.targets.iter().map(|target| Outage { target: *target, becomes, from, to }));
        }
    }
}

fn failing(fields: &Fields<'_>, report: &mut Report) -> Option<(Lengths, Lengths)> {
    let up = fields.require("time_to_failure", "{weibull: {shape: 0.8, scale: 30d}}", report);
    let down = fields.require("repair", "{lognormal: {median: 4h, sigma: 1}}", report);
    let (up, down) = (up.and_then(|tree| lengths(tree, report)), down.and_then(|tree| lengths(tree, report)));
    Some((up?, down?))
}

fn flapping(fields: &Fields<'_>, report: &mut Report) -> Option<(Lengths, Lengths)> {
    let (every, down) = (fields.require("every", "2m", report), fields.require("down", "20s", report));
    let every = every.and_then(|tree| positive(tree, report));
    let down = down.and_then(|tree| positive(tree, report));
    let (every, down) = (every?, down?);
    if down >= every {
        let message = format!("with `down: {down}` of every {every}, it would never be up");
        report.error_with_help(fields.key_span("down"), message, format!("write less than {every}"));
        return None;
    }
    Some((Lengths::Fixed(every - down), Lengths::Fixed(down)))
}

/// The parts that fail as one unit: a node, a GPU or a rack.
fn subjects(kind: &str, typed: &str, span: Span, world: &World, report: &mut Report) -> Vec<Subject> {
    let name = |node: NodeId| world.nodes[node.index()].spec.name.to_string();
    match kind {
        "gpus" => {
            let one = |gpu: dryrack_ids::GpuId| Subject {
                name: format!("{}/{}", name(gpu.node), gpu.index),
                targets: vec![Target::Gpu(gpu)],
            };
            world.gpus(typed, span, report).into_iter().map(one).collect()
        }
        "racks" => racks(typed, span, world, report),
        _ => {
            let one = |node| Subject { name: name(node), targets: vec![Target::Node(node)] };
            world.nodes(typed, span, report).into_iter().map(one).collect()
        }
    }
}

fn racks(typed: &str, span: Span, world: &World, report: &mut Report) -> Vec<Subject> {
    let mut racks: Vec<Subject> = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (index, node) in world.nodes.iter().enumerate() {
        let Some(rack) = node.spec.shape.rack.as_deref() else { continue };
        if !known.contains(&rack) {
            known.push(rack);
        }
        if !matches_pattern(typed, rack) {
            continue;
        }
        let target = Target::Node(NodeId::new(index));
        match racks.iter_mut().find(|subject| subject.name == rack) {
            Some(subject) => subject.targets.push(target),
            None => racks.push(Subject { name: rack.to_string(), targets: vec![target] }),
        }
    }
    if racks.is_empty() {
        let message = format!("no node is in a rack named `{typed}`");
        match known.is_empty() {
            true => report.error_with_help(span, message, format!("write `rack: {typed}` on its nodes")),
            false => report.unknown(span, message, typed, known.into_iter()),
        }
    }
    racks
}

fn random_faults(
    fields: &Fields<'_>,
    kind: &str,
    typed: &[(&str, Span)],
    setting: &ReadContext<'_>,
    arrivals: &mut [Arrival],
    is_active: bool,
    report: &mut Report,
) {
    let jobs: Vec<JobId> = typed.iter().flat_map(|(typed, span)| setting.world.jobs(typed, *span, report)).collect();
    let chances: &[&str] = match kind {
        "starts" => &["fail", "slow"],
        "analyses" => &["fail", "hang", "slow"],
        _ => &["lost", "late", "repeated"],
    };
    let found: Vec<Permille> = chances.iter().map(|key| fields.value(key, report).unwrap_or(Permille::ZERO)).collect();
    if fields.lacks_all(chances) {
        let help = format!("add one of {}, such as `{}: 5%`", list(chances.iter().copied()), chances[0]);
        report.error_with_help(fields.place(), "the probability is missing", help);
    }
    if found.iter().map(|chance| u64::from(chance.get())).sum::<u64>() > 1000 {
        let help = "write probabilities that add up to 100% or less";
        report.error_with_help(fields.place(), "these probabilities add up to more than 100%", help);
    }
    let by = delay(fields, kind, report);
    if kind == "analyses" && !jobs.is_empty() && jobs.iter().all(|job| !arrivals[job.index()].spec.analyse) {
        report.warning(fields.key_span(kind), "none of these jobs is analysed", "add `analysis: 10s` to a job");
    }
    if !is_active {
        return;
    }
    for job in jobs {
        let arrival = &mut arrivals[job.index()];
        let random_faults = Arc::make_mut(&mut arrival.behavior).random_faults.get_or_insert_default();
        match kind {
            "starts" => random_faults.starts = Starts { fail: found[0], slow: found[1], slow_by: by },
            "analyses" => {
                let (fail, hang, slow) = (found[0], found[1], found[2]);
                random_faults.analyses = Analyses { fail, hang, slow, slow_by: by };
            }
            _ => {
                let (lost, late, repeated) = (found[0], found[1], found[2]);
                random_faults.acks = Acks { lost, late, repeated, late_by: by };
            }
        }
    }
}

/// Reads the delay of slow actions or of late acknowledgements.
fn delay(fields: &Fields<'_>, kind: &str, report: &mut Report) -> SimDuration {
    let (key, users): (&str, &[&str]) = match kind {
        "acks" => ("late_by", &["late", "repeated"]),
        _ => ("slow_by", &["slow"]),
    };
    let is_used = !fields.lacks_all(users);
    match (is_used, fields.get(key)) {
        (true, None) => {
            let message = format!("the delay `{key}` is missing");
            report.error_with_help(fields.place(), message, format!("add `{key}: 30s`"));
            SimDuration::ZERO
        }
        (false, Some(_)) => {
            let message = format!("`{key}` needs `{}`, which is missing", users.join("` or `"));
            report.error_with_help(fields.key_span(key), message, format!("add `{}: 5%`", users[0]));
            SimDuration::ZERO
        }
        (_, tree) => tree.and_then(|tree| value(tree, report)).unwrap_or_default(),
    }
}
