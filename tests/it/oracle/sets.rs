//! Gangs of unequal tasks on small fleets, compared with a search through all assignments of tasks to nodes.

use std::sync::Arc;

use super::world::options;
use dryrack_event::Refusal;
use dryrack_fleet::{Fleet, GpuClaim, GpuShape, NodeClaim, NodeShape, NodeSpec, NodeState, Placement};
use dryrack_rng::Stream;
use dryrack_scheduler::{Decision, GpuOrder, Grouping, PlacementContext, ScorerName, decide, still_fits};
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Demand, Gang, GpuDemand, GpuTake, TaskDemand, TaskSet};

const WORLDS: u64 = 6_000;

/// Cores and GPUs.
type Amount = (u64, u64);

struct World {
    /// For each node, what it has and what is taken.
    nodes: Vec<(Amount, Amount)>,
    /// For each set, what a task takes, the number of tasks and the least number.
    sets: Vec<(Amount, u32, u32)>,
    gang: Gang,
}

fn draw(draws: &mut Stream) -> World {
    let node = |draws: &mut Stream| {
        let all = (draws.between(1, 8), *draws.pick(&[0, 1, 2, 4]));
        (all, (draws.between(0, all.0), draws.between(0, all.1)))
    };
    let nodes = (0..draws.between(1, 4)).map(|_| node(draws)).collect();
    let set = |draws: &mut Stream| {
        let tasks = draws.between(1, 3) as u32;
        let least = if draws.chance(300) { draws.between(1, u64::from(tasks)) as u32 } else { tasks };
        ((draws.between(0, 4), draws.between(0, 2)), tasks, least)
    };
    let sets = (0..draws.between(1, 3)).map(|_| set(draws)).collect();
    let gangs = [Gang::Anywhere, Gang::Spread, Gang::Packed, Gang::StrictPack, Gang::PreferSpread];
    World { nodes, sets, gang: *draws.pick(&gangs) }
}

/// Whether an assignment of these numbers of tasks exists. `room` is what is free of each node.
fn fits(world: &World, room: &mut Vec<Amount>, used: &mut Vec<u32>, counts: &mut Vec<u32>) -> bool {
    let Some(set) = counts.iter().position(|left| *left > 0) else { return true };
    let (cores, gpus) = world.sets[set].0;
    for node in 0..room.len() {
        let may = match world.gang {
            Gang::Spread => used[node] == 0,
            Gang::StrictPack => used.iter().enumerate().all(|(other, tasks)| other == node || *tasks == 0),
            Gang::Anywhere | Gang::Packed | Gang::PreferSpread => true,
        };
        if !may || room[node].0 < cores || room[node].1 < gpus {
            continue;
        }
        (room[node].0, room[node].1) = (room[node].0 - cores, room[node].1 - gpus);
        (used[node], counts[set]) = (used[node] + 1, counts[set] - 1);
        let found = fits(world, room, used, counts);
        (room[node].0, room[node].1) = (room[node].0 + cores, room[node].1 + gpus);
        (used[node], counts[set]) = (used[node] - 1, counts[set] + 1);
        if found {
            return true;
        }
    }
    false
}

fn any_fits(world: &World, is_empty: bool, counts: Vec<u32>) -> bool {
    let left = |(all, taken): &(Amount, Amount)| match is_empty {
        true => *all,
        false => (all.0 - taken.0, all.1 - taken.1),
    };
    let mut room: Vec<Amount> = world.nodes.iter().map(left).collect();
    let mut used = vec![0; room.len()];
    fits(world, &mut room, &mut used, &mut { counts })
}

fn fleet_of(world: &World) -> Fleet {
    let mut fleet = Fleet::default();
    let part = |index: u64| GpuClaim { index: index as u16, share: GpuShare::WHOLE, memory: Bytes::from_gib(80) };
    for (index, ((cores, gpus), taken)) in world.nodes.iter().enumerate() {
        let gpu = GpuShape::of("a", Bytes::from_gib(80));
        let shape = NodeShape::of(MilliCpu::from_cores(*cores), Bytes::from_gib(1), vec![gpu; *gpus as usize]);
        let spec = NodeSpec { name: format!("n{index}").into(), shape: Arc::new(shape) };
        let node = fleet.declare(&spec, NodeState::Ready);
        let (cpu, gpus) = (MilliCpu::from_cores(taken.0), (0..taken.1).map(part).collect());
        fleet.take(&Placement::new([NodeClaim { tasks: 1, cpu, gpus, ..NodeClaim::of_nothing(node) }].into()));
    }
    fleet
}

fn demand_of(world: &World) -> Demand {
    let set = |(index, ((cores, gpus), tasks, least)): (usize, &(Amount, u32, u32))| {
        let gpus = GpuDemand { count: *gpus as u32, take: GpuTake::Whole, models: Vec::new(), min_memory: None };
        let gpus = Some(gpus).filter(|gpus| gpus.count > 0);
        let task = TaskDemand { gpus, ..TaskDemand::cpu_only(MilliCpu::from_cores(*cores)) };
        TaskSet { name: format!("s{index}").into(), tasks: *tasks, min_tasks: *least, task }
    };
    let sets: Vec<TaskSet> = world.sets.iter().enumerate().map(set).collect();
    Demand { gang: world.gang, ..Demand::of(Arc::<[TaskSet]>::from(sets)) }
}

/// Checks that a placement is one of the assignments.
fn check(world: &World, placement: &Placement) -> Result<(), String> {
    let mut counts = vec![0; world.sets.len()];
    for claim in placement.claims() {
        let ((cores, gpus), taken) = world.nodes[claim.node.index()];
        let sets = claim.sets.as_deref().ok_or("a claim without sets")?;
        let sum = |of: fn(Amount) -> u64| -> u64 {
            sets.iter().zip(&world.sets).map(|(tasks, (each, ..))| u64::from(*tasks) * of(*each)).sum()
        };
        let (used_cores, used_gpus) = (sum(|each| each.0), sum(|each| each.1));
        if claim.cpu != MilliCpu::from_cores(used_cores) || claim.gpus.len() as u64 != used_gpus {
            return Err("it takes something else than its tasks ask for".to_string());
        }
        if used_cores > cores - taken.0 || used_gpus > gpus - taken.1 {
            return Err("it takes more than is free".to_string());
        }
        if claim.gpus.iter().any(|part| u64::from(part.index) < taken.1) {
            return Err("it takes a GPU that is taken".to_string());
        }
        counts.iter_mut().zip(sets).for_each(|(sum, tasks)| *sum += tasks);
    }
    let nodes = placement.claims().len();
    match world.gang {
        Gang::Spread if placement.claims().iter().any(|claim| claim.tasks != 1) => Err("it is not spread".to_string()),
        Gang::StrictPack if nodes != 1 => Err("it is on several nodes".to_string()),
        _ if counts.iter().zip(&world.sets).any(|(sum, (_, most, least))| sum < least || sum > most) => {
            Err(format!("{counts:?} tasks are placed"))
        }
        _ => Ok(()),
    }
}

fn compare(world: &World) -> Result<&'static str, String> {
    let (fleet, demand) = (fleet_of(world), demand_of(world));
    let options = options(&[(ScorerName::Spread, 1.0)], GpuOrder::First, None);
    let by_class = decide(&options, &demand, &fleet, Grouping::Classes, 1);
    if by_class != decide(&options, &demand, &fleet, Grouping::EachNode, 1) {
        return Err("classes are decided otherwise than nodes".to_string());
    }
    let least: Vec<u32> = world.sets.iter().map(|(_, _, least)| *least).collect();
    let most: Vec<u32> = world.sets.iter().map(|(_, most, _)| *most).collect();
    let (now, ever) = (any_fits(world, false, least.clone()), any_fits(world, true, least));
    match by_class {
        Decision::Place(candidates) => {
            let placement = &candidates[0].placement;
            check(world, placement)?;
            if any_fits(world, false, most) && placement.tasks() != demand.tasks {
                return Err("it has fewer tasks, and all fit".to_string());
            }
            let on_one = World { gang: Gang::StrictPack, nodes: world.nodes.clone(), sets: world.sets.clone() };
            let counts: Vec<u32> = world.sets.iter().map(|(_, most, _)| *most).collect();
            if world.gang == Gang::Packed && placement.claims().len() > 1 && any_fits(&on_one, false, counts) {
                return Err("it is on several nodes, and one would do".to_string());
            }
            match still_fits(&options, &demand, PlacementContext::UNSUBMITTED, &fleet, placement) {
                true => Ok("placed"),
                false => Err("what was just placed no longer fits".to_string()),
            }
        }
        Decision::Refuse { .. } if now => Err("it is refused, and would fit".to_string()),
        Decision::Refuse { refusal: Refusal::Never, .. } if ever => Err("it never fits, and would".to_string()),
        Decision::Refuse { refusal: Refusal::Unfit, .. } if !ever => Err("it waits for ever".to_string()),
        Decision::Refuse { reasons, .. }
            if reasons.iter().map(|(_, count)| count as usize).sum::<usize>() != world.nodes.len() =>
        {
            Err("the reasons do not cover each node".to_string())
        }
        Decision::Refuse { .. } => Ok("refused"),
    }
}

pub fn gangs_of_unequal_tasks() -> Result<(), String> {
    let mut draws = Stream::new(11, "oracle sets", 0);
    let (mut placed, mut refused) = (0, 0);
    for _ in 0..WORLDS {
        let world = draw(&mut draws);
        match compare(&world) {
            Ok("placed") => placed += 1,
            Ok(_) => refused += 1,
            Err(fault) => {
                return Err(format!("{fault}: nodes {:?}, sets {:?}, {:?}", world.nodes, world.sets, world.gang));
            }
        }
    }
    let rare = placed.min(refused) < WORLDS / 10;
    if rare { Err(format!("{placed} worlds placed, {refused} refused")) } else { Ok(()) }
}
