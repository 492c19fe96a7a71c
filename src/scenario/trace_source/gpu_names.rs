//! Resolves the names that a trace gives to GPUs.
//!
//! A name means, in this order: what `gpu_names` of the scenario states, the type of a GPU of a node, or what the
//! catalog knows by this name. A family such as `a100` means every GPU of it. Any other name is an error, because no job
//! that asks for it could ever run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::settings::{TraceSettings, TypedNames};
use crate::world::World;
use dryrack_catalog as catalog;
use dryrack_trace::{Measured, TraceTask};
use dryrack_units::counted;
use dryrack_yaml::{Entry, Fields, Node, Report, Span, Tree, scalar, text};

/// The names in a list.
#[derive(Debug, Default)]
pub(super) struct NameCounts {
    /// For each name, the number of chosen tasks that ask for it.
    names: BTreeMap<String, u64>,
    /// The chosen tasks with GPUs, by the names of which each accepts any. No name means any GPU.
    kinds: BTreeMap<Vec<String>, TaskKind>,
}

#[derive(Debug, Default)]
struct TaskKind {
    tasks: u64,
    measured: BTreeSet<Option<Arc<Measured>>>,
}

impl NameCounts {
    /// Adds the names of a task of the list, which need not be chosen.
    pub fn list(&mut self, task: &TraceTask) {
        for model in task.gpu_models.iter().filter(|model| !self.names.contains_key(*model)).collect::<Vec<_>>() {
            self.names.insert(model.clone(), 0);
        }
    }

    /// Adds a chosen task.
    pub fn add(&mut self, task: &TraceTask) {
        for model in &task.gpu_models {
            match self.names.get_mut(model) {
                Some(count) => *count += 1,
                None => {
                    self.names.insert(model.clone(), 1);
                }
            }
        }
        if task.gpus.unwrap_or(0) > 0 {
            if !self.kinds.contains_key(&task.gpu_models[..]) {
                self.kinds.insert(task.gpu_models.clone(), TaskKind::default());
            }
            let kind = self.kinds.get_mut(&task.gpu_models[..]).expect("inserted above");
            kind.tasks += 1;
            if !kind.measured.contains(&task.measured) {
                kind.measured.insert(task.measured.clone());
            }
        }
    }

    /// The names of which tasks accept any GPU, with the number of these tasks.
    pub fn kinds(&self) -> impl Iterator<Item = (&[String], u64)> {
        self.kinds.iter().map(|(models, kind)| (&models[..], kind.tasks))
    }

    /// For each kind of task: the GPU types that it accepts, and the rates that the trace measured.
    pub fn cases(&self, names: &GpuNames) -> impl Iterator<Item = (Vec<Arc<str>>, Option<Arc<Measured>>)> {
        self.kinds.iter().flat_map(|(models, kind)| {
            let types = names.of_models(models);
            kind.measured.iter().map(move |measured| (types.clone(), measured.clone()))
        })
    }
}

/// The GPU types that each name of the trace means.
#[derive(Clone, Debug, Default)]
pub(super) struct GpuNames {
    types: BTreeMap<String, Vec<Arc<str>>>,
    pub findings: GpuNameFindings,
}

/// What the names that a trace gives to GPUs mean for a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuNameFindings {
    /// The names because of which some chosen task can never run: no node has any of the GPUs that it accepts.
    pub absent: BTreeSet<String>,
    /// The names of chosen tasks that may run on other GPUs of the nodes because `gpu_names` says so, with these GPUs.
    pub substitutes: BTreeMap<String, Vec<Arc<str>>>,
}

impl GpuNames {
    /// Resolves all names of the trace. Reports each unknown one that a chosen task has as an error.
    pub fn resolve(counts: &NameCounts, asked: &TraceSettings<'_>, world: &mut World, report: &mut Report) -> GpuNames {
        let mut names = BTreeMap::new();
        for (name, span, types) in &asked.gpu_names {
            if !counts.names.contains_key(*name) {
                let message = format!("the trace {} has no GPU `{name}`", asked.called());
                report.unknown(*span, message, name, counts.names.keys().map(String::as_str));
            }
            let types = types.iter().flat_map(|(typed, span)| world.gpu_types_named(typed, *span, report));
            let types: Vec<Arc<str>> = types.collect();
            if let Some(part) =
                catalog::mig_part(name).filter(|_| types.iter().any(|gpu| catalog::mig_part(gpu).is_none()))
            {
                let message = format!(
                    "jobs of the trace {} that ask for the MIG instance `{name}` take whole GPUs here, because of `gpu_names`",
                    asked.called()
                );
                report.warning(*span, message.clone(), mig_help(name, part));
                world.assumed.insert(message);
            }
            names.insert((*name).to_string(), types);
        }
        for (name, count) in &counts.names {
            if names.contains_key(name) {
                continue;
            }
            if *count == 0 {
                names.insert(name.clone(), world.meant_gpu_types(name));
                continue;
            }
            let types = world.known_gpu_types(name);
            // A cloud may offer GPUs of any type.
            if types.is_empty() && world.fleets.is_empty() {
                unknown(name, *count, asked, world, report);
            }
            names.insert(name.clone(), types);
        }
        let (fleet, mut absent) = (world.fleet_gpus(), BTreeMap::<&String, u64>::new());
        let mut found = GpuNames { types: names, findings: GpuNameFindings::default() };
        for (name, span, _) in
            asked.gpu_names.iter().filter(|(name, ..)| counts.names.get(*name).is_some_and(|n| *n > 0))
        {
            let meant = world.meant_gpu_types(name);
            let is_other = |gpu: &&Arc<str>| !meant.contains(gpu) && fleet.contains(*gpu);
            let others: Vec<Arc<str>> = found.types[*name].iter().filter(is_other).cloned().collect();
            // A name that means nothing by itself has no substitute: `gpu_names` is what gives it a meaning.
            if !meant.is_empty() && !others.is_empty() {
                if asked.speed.is_none() && world.speed.is_none() {
                    let message = format!(
                        "jobs of the trace {} that ask for `{name}` take as long on {} as they took, because the file states no \
                         `speed`",
                        asked.called(),
                        others.join(" and ")
                    );
                    let help =
                        format!("add `speed: {{reference: {}, work: training}}`, or another kind of work", meant[0]);
                    report.warning(*span, message.clone(), help);
                    world.assumed.insert(message);
                }
                found.findings.substitutes.insert((*name).to_string(), others);
            }
        }
        for (models, kind) in counts.kinds.iter().filter(|_| !fleet.is_empty()) {
            // An unknown name is an error, or that of a GPU which a cloud may offer.
            let is_known = models.iter().all(|name| found.types.get(name).is_some_and(|types| !types.is_empty()));
            if is_known && !models.is_empty() && !found.of_models(models).iter().any(|gpu| fleet.contains(gpu)) {
                models.iter().for_each(|name| *absent.entry(name).or_default() += kind.tasks);
            }
        }
        for (name, count) in absent {
            let message = warn_of_absent((name, count), &found.types[name], (&fleet, asked), report);
            world.assumed.insert(message);
            found.findings.absent.insert(name.clone());
        }
        found
    }

    /// The GPU types on one of which a task that names this GPU was recorded. Only the meaning of a name that has none by
    /// itself comes from `gpu_names`, which states where tasks may run now.
    pub fn recorded_on(&self, name: &str, world: &World) -> Vec<Arc<str>> {
        let meant = world.meant_gpu_types(name);
        if meant.is_empty() { self.types.get(name).cloned().unwrap_or_default() } else { meant }
    }

    /// The GPU types that a task accepts. Empty if it accepts any.
    pub fn of(&self, task: &TraceTask) -> Vec<Arc<str>> {
        self.of_models(&task.gpu_models)
    }

    fn of_models(&self, models: &[String]) -> Vec<Arc<str>> {
        let mut types: Vec<Arc<str>> = Vec::new();
        for name in models {
            match self.types.get(name).filter(|known| !known.is_empty()) {
                Some(known) => types.extend(known.iter().cloned()),
                None => types.push(Arc::from(name.as_str())),
            }
        }
        let mut seen = BTreeSet::new();
        types.retain(|name| seen.insert(Arc::clone(name)));
        types
    }
}

/// Warns of a GPU that the trace names and no node has. A list of another cluster, or a plan that compares GPUs, should
/// say on which of them its jobs may run.
fn warn_of_absent(
    (name, count): (&str, u64),
    types: &[Arc<str>],
    (fleet, asked): (&BTreeSet<Arc<str>>, &TraceSettings<'_>),
    report: &mut Report,
) -> String {
    let jobs = counted(usize::try_from(count).unwrap_or(usize::MAX), "job");
    let (own, all) = (Vec::from_iter(fleet.iter().map(|gpu| &**gpu)).join(", "), types.iter().chain(fleet));
    let message = format!(
        "{jobs} of the trace {} cannot run on these nodes, because the trace names GPU `{name}` for {} and the nodes have {own}",
        asked.called(),
        if count == 1 { "it" } else { "them" },
    );
    let all = Vec::from_iter(all.map(|gpu| &**gpu)).join(", ");
    let help = format!("if they may run on either, write `gpu_names: {{{}: [{all}]}}` in `trace:`", scalar(name, true));
    report.warning(asked.span, message.clone(), help);
    message
}

fn unknown(name: &str, count: u64, asked: &TraceSettings<'_>, world: &World, report: &mut Report) {
    let jobs = counted(usize::try_from(count).unwrap_or(usize::MAX), "job");
    let ask = if count == 1 { "asks" } else { "ask" };
    let message = format!(
        "{jobs} of the trace {} {ask} for GPU `{name}`, which no node has and the catalog does not know",
        asked.called()
    );
    report.error_with_help(asked.span, message, help_for_unknown(name, &world.gpu_types));
}

/// What to write for a name that is unknown. `own` are the types of the nodes. If no GPU is plausible, the line has a
/// placeholder, because a wrong one would give wrong results without a further word.
fn help_for_unknown(name: &str, own: &BTreeSet<Arc<str>>) -> String {
    let line = |gpus: &str| format!("write `gpu_names: {{{}: {gpus}}}` in `trace:`", scalar(name, true));
    if let Some(part) = catalog::mig_part(name) {
        return mig_help(name, part);
    }
    let own = || own.iter().map(|gpu| &**gpu);
    let similar = catalog::similar_gpus(name, own());
    match similar.meant[..] {
        [] => {}
        [one] => return line(one),
        ref several => return line(&format!("[{}]", several.join(", "))),
    }
    let place = line("GPU");
    let which = match Vec::from_iter(own())[..] {
        [] => "with the GPU on which its jobs may run in place of GPU".to_string(),
        [one] => format!("with {one} in place of GPU if its jobs may run on it"),
        ref several => format!("where GPU is one of {}", several.join(", ")),
    };
    match similar.hint() {
        Some(near) => format!("{near}; {place}, {which}"),
        None => format!("{place}, {which}"),
    }
}

/// What to write for a MIG instance. `gpu_names` would give its jobs whole GPUs.
fn mig_help(name: &str, part: &str) -> String {
    let memory = part.split_once("g.").map_or("5", |(_, memory)| memory.trim_end_matches("gb"));
    let count = catalog::mig_profile(part).map_or(7, |profile| profile.per_gpu);
    format!(
        "`{part}` is a MIG instance, a part of a GPU; write nodes that have such instances as GPUs: `gpus: [{{type: {}, \
         memory: {memory}GiB, count: {count}}}]` for each GPU divided so. `gpu_names` would give each of its jobs whole GPUs",
        scalar(name, true)
    )
}

/// Reads `{gtx: rtx-4090, fast: [a100-80g, h100-80g]}`.
pub(super) fn read<'t>(fields: &Fields<'t>, report: &mut Report) -> TypedNames<'t> {
    let Some(tree) = fields.get("gpu_names") else { return Vec::new() };
    let help = "write `{a100_80: a100-80g, any: [a100-80g, h100-80g]}`";
    let Node::Map(entries) = &tree.node else {
        let message = format!("expected GPU types by their names in the trace, found {}", tree.kind());
        report.error_with_help(tree.span, message, help);
        return Vec::new();
    };
    entries.iter().map(|entry| (entry.key.as_str(), entry.key_span, types(entry, help, report))).collect()
}

fn types<'t>(entry: &'t Entry, help: &str, report: &mut Report) -> Vec<(&'t str, Span)> {
    let one = std::slice::from_ref(&entry.value);
    let items: &'t [Tree] = if let Node::List(items) = &entry.value.node { items } else { one };
    if items.is_empty() {
        report.error_with_help(entry.value.span, "the list of GPU types is empty", help);
    }
    items.iter().filter_map(|item| Some((text(item, "a GPU type", report)?, item.span))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_told_to_mean_the_nearest_gpu_of_the_nodes() {
        let own: BTreeSet<Arc<str>> = ["a100-40g", "a100-80g", "h100-80g", "l4", "rtx-4090"].map(Arc::from).into();
        let rows = [
            ("h100_nvl", "write `gpu_names: {h100_nvl: h100-80g}` in `trace:`"),
            ("nvidia_h100_nvl", "write `gpu_names: {nvidia_h100_nvl: h100-80g}` in `trace:`"),
            ("H100-SXM", "write `gpu_names: {H100-SXM: h100-80g}` in `trace:`"),
            ("h100pcie", "write `gpu_names: {h100pcie: h100-80g}` in `trace:`"),
            ("a100_x", "write `gpu_names: {a100_x: [a100-40g, a100-80g]}` in `trace:`"),
            ("rtx_4090_d", "write `gpu_names: {rtx_4090_d: rtx-4090}` in `trace:`"),
            (
                "a100_3g.20gb",
                "`3g.20gb` is a MIG instance, a part of a GPU; write nodes that have such instances as GPUs: `gpus: [{type: \
                 a100_3g.20gb, memory: 20GiB, count: 2}]` for each GPU divided so. `gpu_names` would give each of its jobs \
                 whole GPUs",
            ),
            ("h10O", "write `gpu_names: {h10O: h100-80g}` in `trace:`"),
            (
                "rtxpro6000",
                "the nearest names are rtx-3090, rtx-4080, rtx-4090; write `gpu_names: {rtxpro6000: GPU}` in `trace:`, where GPU is one of a100-40g, \
                 a100-80g, h100-80g, l4, rtx-4090",
            ),
            (
                "fastest",
                "write `gpu_names: {fastest: GPU}` in `trace:`, where GPU is one of a100-40g, a100-80g, h100-80g, l4, \
                 rtx-4090",
            ),
        ];
        for (name, expected) in rows {
            assert_eq!(help_for_unknown(name, &own), expected);
        }
        let one = [Arc::from("h100-80g")].into();
        assert_eq!(
            help_for_unknown("fastest", &one),
            "write `gpu_names: {fastest: GPU}` in `trace:`, with h100-80g in place of GPU if its jobs may run on it"
        );
    }
}
