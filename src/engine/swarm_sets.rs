//! Random gangs of unequal tasks, and of numbers of tasks that may be smaller.

use std::sync::Arc;

use super::rehearsal::Rehearsal;
use dryrack_rng::Stream;
use dryrack_units::MilliCpu;
use dryrack_workload::{Arrival, Demand, DemandKind, Gang, JobSpec, Pick, TaskDemand, TaskSet};

/// Makes gangs of some jobs. Uses its own random stream, so other draws do not change.
pub(super) fn add_sets(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm sets of tasks", 0);
    if !draws.chance(250) {
        return;
    }
    for arrival in &mut world.arrivals {
        let demand = &arrival.spec.demand;
        let DemandKind::Tasks(task) = &demand.kind else { continue };
        if !draws.chance(400) || demand.pick.as_ref().is_some_and(Pick::is_of_gpus) {
            continue;
        }
        let mut sets = vec![set(&mut draws, "worker", 4, task.clone())];
        if draws.chance(700) {
            let cores = MilliCpu::from_cores(draws.between(1, 4));
            sets.push(set(&mut draws, "launcher", 2, TaskDemand::cpu_only(cores)));
        }
        if draws.chance(200) {
            let half = TaskDemand { cpu: MilliCpu::new(task.cpu.get() / 2), ..task.clone() };
            sets.push(set(&mut draws, "helper", 3, half));
        }
        let gangs = [Gang::Anywhere, Gang::Anywhere, Gang::Spread, Gang::Packed, Gang::StrictPack, Gang::PreferSpread];
        let gang = *draws.pick(&gangs);
        let demand = Demand { gang, pick: demand.pick.clone(), ..Demand::of(Arc::<[TaskSet]>::from(sets)) };
        let spec = JobSpec { demand: Arc::new(demand), ..JobSpec::clone(&arrival.spec) };
        *arrival = Arrival { spec: Arc::new(spec), ..arrival.clone() };
    }
}

fn set(draws: &mut Stream, name: &str, most: u64, task: TaskDemand) -> TaskSet {
    let tasks = draws.between(1, most) as u32;
    let min_tasks = if draws.chance(400) { draws.between(1, u64::from(tasks)) as u32 } else { tasks };
    TaskSet { name: Arc::from(name), tasks, min_tasks, task }
}
