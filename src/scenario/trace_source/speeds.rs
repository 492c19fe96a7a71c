//! Speeds of the tasks of a trace on each type of GPU.
//!
//! A task that names one GPU was recorded on it, so its duration is the time on this GPU and not on the reference.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::gpu_names::{GpuNames, NameCounts};
use super::settings::TraceSettings;
use crate::speeds::{self, MeasuredRates, SpeedTable};
use crate::world::World;
use dryrack_trace::{Measured, TraceTask};
use dryrack_units::counted;
use dryrack_workload::{Demand, DemandKind, Speed, Speeds};
use dryrack_yaml::Report;

/// The accepted types of GPUs, and what the trace measured.
type Case = (Vec<Arc<str>>, Option<Arc<Measured>>);

/// The speeds of a kind of task, and the types of GPUs on which it runs.
type CaseSpeeds = (Arc<Speeds>, Vec<Arc<str>>);

/// The speeds of each kind of task. Empty if the scenario states no speeds.
#[derive(Clone, Debug, Default)]
pub(super) struct TraceSpeeds {
    known: HashMap<Case, CaseSpeeds, FixedState>,
    /// The speeds of the GPUs on which tasks were recorded, by the name in the trace. Names of the reference are left out.
    recorded_on: HashMap<String, Speed, FixedState>,
    /// Whether the trace measured rates of a kind of task.
    is_measured: bool,
}

impl TraceSpeeds {
    /// The speeds that the trace's own settings state, or else those of the file.
    pub fn read(
        asked: &TraceSettings<'_>,
        counted: (&NameCounts, &GpuNames),
        world: &mut World,
        report: &mut Report,
    ) -> TraceSpeeds {
        let base = world.speed.clone();
        let own = asked.speed.and_then(|tree| speeds::read(tree, base.as_ref(), world, report));
        let scope = if own.is_some() { "for the trace, " } else { "" };
        let table = own.or(base);
        let mut found = TraceSpeeds::resolve((table.as_ref(), scope), counted, world, report);
        // With `order` or `tune`, tasks never end. Measured rates have the reference of their trace.
        let stays = asked.order.is_some() || asked.tune.is_some();
        if let Some(table) = table.filter(|table| !stays && !table.is_measured()) {
            found.recorded_on = recorded_on((&table, scope), asked, counted, (world, report));
        }
        found
    }

    /// Computes the speeds of all tasks. Reports types of GPUs whose speed is not known.
    fn resolve(
        (table, scope): (Option<&SpeedTable>, &str),
        (counts, names): (&NameCounts, &GpuNames),
        world: &mut World,
        report: &mut Report,
    ) -> TraceSpeeds {
        let mut found = TraceSpeeds::default();
        let Some(table) = table else { return found };
        let fleet = world.fleet_gpus();
        let mut unknown = BTreeSet::new();
        let mut references = BTreeSet::new();
        for (accepted, measured) in counts.cases(names) {
            let types = measured.as_ref().map(|measured| of_trace(measured, world)).unwrap_or_default();
            if let Some(measured) = measured.as_ref().filter(|_| table.is_measured())
                && references.insert(measured.reference.clone())
            {
                let types = world.known_gpu_types(&measured.reference);
                table.refuse_other_reference((&measured.reference, &types), report);
            }
            let rates = measured.as_deref().map(|measured| MeasuredRates { measured, names: &types });
            let rates = rates.filter(|_| table.is_measured());
            let runs = rates.as_ref().map_or_else(|| accepted.clone(), |rates| runs_on(&accepted, &fleet, rates));
            let (speeds, missing) = table.speeds(&runs, &fleet, rates.as_ref());
            unknown.extend(missing);
            found.is_measured |= measured.is_some();
            found.known.insert((accepted, measured), (Arc::new(speeds), runs));
        }
        table.note(scope, &fleet, &mut world.assumed);
        table.refuse(&unknown, report);
        found
    }

    /// The speed of the GPU on which a task was recorded. 1 if the trace does not tell it.
    pub fn recorded_on(&self, task: &TraceTask) -> Speed {
        match &task.gpu_models[..] {
            [name] if task.gpus.unwrap_or(0) > 0 => self.recorded_on.get(name).copied().unwrap_or(Speed::ONE),
            _ => Speed::ONE,
        }
    }

    /// The demand of a task with its speeds.
    pub fn add(&self, mut demand: Demand, task: &TraceTask) -> Demand {
        let DemandKind::Tasks(each) = &mut demand.kind else { return demand };
        let Some(gpus) = each.gpus.as_mut().filter(|_| !self.known.is_empty()) else { return demand };
        if let Some((speeds, runs)) = self.known.get(&(gpus.models.clone(), task.measured.clone())) {
            gpus.models.clone_from(runs);
            demand.speeds = Some(Arc::clone(speeds));
        }
        demand
    }

    /// Whether tasks with equal numbers of GPUs have equal speeds.
    pub fn are_equal(&self) -> bool {
        !self.is_measured
    }
}

/// The speed of the GPU that each name of the trace means, unless this is the reference. Notes which durations are not
/// those on the reference, and where these speeds come from. Warns of names that may mean GPUs of different or unknown speeds.
fn recorded_on(
    (table, scope): (&SpeedTable, &str),
    asked: &TraceSettings<'_>,
    (counts, names): (&NameCounts, &GpuNames),
    (world, report): (&mut World, &mut Report),
) -> HashMap<String, Speed, FixedState> {
    let (mut found, fleet, reference) = (HashMap::default(), world.fleet_gpus(), table.reference());
    for (models, tasks) in counts.kinds().filter(|(models, tasks)| !models.is_empty() && *tasks > 0) {
        let mut types: Vec<Arc<str>> = models.iter().flat_map(|name| names.recorded_on(name, world)).collect();
        // An unknown name is an error already, or that of a GPU which a cloud may offer.
        if types.is_empty() || types.contains(reference) {
            continue;
        }
        if types.iter().any(|gpu| fleet.contains(gpu)) {
            types.retain(|gpu| fleet.contains(gpu));
        }
        let speeds: BTreeSet<Option<Speed>> = types.iter().map(|gpu| table.speed_of(gpu)).collect();
        let jobs = counted(usize::try_from(tasks).unwrap_or(usize::MAX), "job");
        let (name, durations) = match tasks {
            1 => ("names", "its recorded duration counts"),
            _ => ("name", "their recorded durations count"),
        };
        let said = format!("{jobs} of the trace {} {name} GPU `{}`", asked.called(), models.join("|"));
        match (models, Vec::from_iter(speeds)[..].as_ref()) {
            ([model], [Some(speed)]) => {
                world.assumed.insert(format!(
                    "{said}, so {durations} as the time on {}, which works {speed} times as fast as \
                     {reference}",
                    types.join(" or ")
                ));
                // The fleet may not have this GPU, and then nothing else states where its speed comes from.
                world.assumed.extend(types.iter().filter_map(|gpu| table.speed_and_source(scope, gpu)));
                found.insert(model.clone(), *speed);
            }
            _ => {
                let message = format!(
                    "{said}, whose speed relative to {reference} is not known, so {durations} as the \
                     time on {reference}"
                );
                let help = "state the speeds in `factors`, or write as `reference` the GPU on which these jobs ran";
                report.warning(asked.span, message.clone(), help.to_string());
                world.assumed.insert(message);
            }
        }
    }
    found
}

/// The scenario's types of GPUs for each name under which the trace measured rates.
fn of_trace(measured: &Measured, world: &mut World) -> BTreeMap<String, Vec<Arc<str>>> {
    measured.rates.iter().map(|(name, _)| (name.clone(), world.known_gpu_types(name))).collect()
}

/// The types of GPUs on which a task can run. Types on which its measured rate is zero are left out.
fn runs_on(accepted: &[Arc<str>], fleet: &BTreeSet<Arc<str>>, rates: &MeasuredRates<'_>) -> Vec<Arc<str>> {
    let is_zero = |gpu: &Arc<str>| rates.of(gpu) == Some(0);
    if !fleet.iter().any(is_zero) {
        return accepted.to_vec();
    }
    let all: Vec<Arc<str>> = if accepted.is_empty() { fleet.iter().cloned().collect() } else { accepted.to_vec() };
    let runs: Vec<Arc<str>> = all.into_iter().filter(|gpu| !is_zero(gpu)).collect();
    // An empty list would accept any GPU. The task accepts the GPU on which its duration was measured.
    if runs.is_empty() { vec![Arc::from(rates.measured.reference.as_str())] } else { runs }
}
