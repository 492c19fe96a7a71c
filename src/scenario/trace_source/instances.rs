//! Tasks of a trace as jobs on instances: with `run_on: instances`, each task asks as a job with `resources` does.
//!
//! Each node of a task asks for an instance or a host of `fleets:`, or for blocks of one, with at least its cores, its RAM
//! and its GPUs, whole. A task whose parts may be on one node, such as the processors of a job in the Standard Workload
//! Format, asks for one instance that has room for all of them. On demand or spot, as the fleets offer.

use std::collections::HashSet;
use std::sync::Arc;

use super::settings::{ReadContext, TraceSettings};
use crate::job_template::Draft;
use crate::world::World;
use dryrack_units::{Bytes, MilliCpu};
use dryrack_workload::{Bounds, Demand, DemandKind, Gang, GpuRequirements, Requirements, SpotPolicy};
use dryrack_yaml::{Fields, Report, Span};
use foldhash::fast::FixedState;

/// The demand of a task for instances.
pub(super) fn on_instances(demand: Demand) -> Demand {
    let DemandKind::Tasks(task) = &demand.kind else { return demand };
    let (tasks, each) = if demand.gang == Gang::Spread { (demand.tasks, 1) } else { (1, demand.tasks) };
    let all = |part: u64| part.saturating_mul(u64::from(each));
    let gpus = task.gpus.as_ref().filter(|gpus| gpus.count > 0).map(|gpus| GpuRequirements {
        names: gpus.models.clone(),
        count: Bounds::from(gpus.count.saturating_mul(each)),
        memory: gpus.min_memory.map(Bounds::from),
        ..GpuRequirements::default()
    });
    let requirements = Requirements {
        cpu: Bounds::from(all(task.cpu.get()).div_ceil(MilliCpu::from_cores(1).get())),
        memory: Bounds::from(Bytes::new(all(task.ram.get()))),
        disk: None,
        gpu: gpus,
        spot: SpotPolicy::Auto,
        ..Requirements::default()
    };
    Demand { tasks, speeds: demand.speeds.clone(), ..Demand::of(Arc::new(requirements)) }
}

/// Checks that there are fleets, and says what the setting assumes.
pub(super) fn check(
    file: &Fields<'_>,
    asked: &TraceSettings<'_>,
    setting: &ReadContext<'_>,
    world: &mut World,
    report: &mut Report,
) -> Option<()> {
    let span = asked.run_on.1;
    if !file.has("fleets") {
        let help =
            "add `fleets: {cloud: {nodes: 0..8, offers: [{name: od, machine: a100-80g-x8, price_per_hour: 30}]}}`";
        report.error_with_help(span, "`run_on: instances` needs a fleet, and the file has none", help);
        return None;
    }
    if setting.as_pods {
        let help = "choose another profile, such as `fifo`, or leave it out";
        report.error_with_help(
            span,
            "under a Kubernetes profile, the jobs of a trace are pods, which run on nodes",
            help,
        );
        return None;
    }
    if setting.streamed {
        report.error_with_help(
            span,
            "a streamed run cannot place the jobs of a trace on instances",
            "leave `--stream` out",
        );
        return None;
    }
    world.assumed.insert(format!(
        "each node of a job of {} takes an instance or a host, or blocks of one, with at least its cores, its RAM and its \
         GPUs, each of them whole",
        asked.called()
    ));
    Some(())
}

/// Notes the different demands of the jobs for instances, which warnings about fleets read.
pub(super) fn note_wanted(drafts: &[Draft], span: Span, world: &mut World) {
    let mut seen: HashSet<usize, FixedState> = HashSet::default();
    for draft in drafts {
        let demand = &draft.arrival.spec.demand;
        if let DemandKind::Requirements(wanted) = &demand.kind
            && seen.insert(Arc::as_ptr(demand).addr())
        {
            world.wanted.push((Arc::clone(wanted), demand.tasks, span));
        }
    }
}
