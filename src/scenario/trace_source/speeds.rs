//! Speeds of the tasks of a trace on each type of GPU.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::gpu_names::{GpuNames, NameCounts};
use super::settings::TraceSettings;
use crate::speeds::{self, MeasuredRates, SpeedTable};
use crate::world::World;
use dryrack_trace::{Measured, TraceTask};
use dryrack_workload::{Demand, DemandKind, Speeds};
use dryrack_yaml::Report;

/// The accepted types of GPUs, and what the trace measured.
type Case = (Vec<Arc<str>>, Option<Arc<Measured>>);

/// The speeds of a kind of task, and the types of GPUs on which it runs.
type CaseSpeeds = (Arc<Speeds>, Vec<Arc<str>>);

/// The speeds of each kind of task. Empty if the scenario states no speeds.
#[derive(Clone, Debug, Default)]
pub(super) struct TraceSpeeds {
    known: HashMap<Case, CaseSpeeds, FixedState>,
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
        TraceSpeeds::resolve((own.or(base).as_ref(), scope), counted, world, report)
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
