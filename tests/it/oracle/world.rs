//! Small worlds, drawn from a seed: a few nodes in any state, the claims on them, one demand, and the options of a
//! profile.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use dryrack_catalog::{CpuArch, Os};
use dryrack_control::Profile;
use dryrack_fleet::{
    Fleet, Foreign, GpuClaim, GpuShape, GpuState, Node, NodeClaim, NodeShape, NodeSpec, NodeState, Placement, Reserved,
};
use dryrack_ids::{GpuId, NodeId};
use dryrack_rng::Stream;
use dryrack_scheduler::{
    Backfill, Discipline, Exemption, FilterName, FilterStage, GangPlaces, GpuOrder, Lines, NeverFits, OrderKey,
    SchedulerOptions, ScorerName, SlotOptions, Target, Ties, Unfit, WeightedScorer,
};
use dryrack_units::{Bytes, GpuShare, MilliCpu};
use dryrack_workload::{Demand, DemandKind, Gang, GpuDemand, GpuTake, Pick, TaskDemand};
use smallvec::SmallVec;

use super::search::Room;

pub struct World {
    pub fleet: Fleet,
    pub demand: Demand,
    pub options: SchedulerOptions,
}

pub fn options(scorers: &[(ScorerName, f64)], gpus: GpuOrder, unless: Option<Exemption>) -> SchedulerOptions {
    let stage = |stage| FilterStage { stage, unless: if stage == FilterName::Ready { unless } else { None } };
    SchedulerOptions {
        preempt: dryrack_scheduler::Preempt::Nobody,
        levels: Vec::new(),
        fair_share: dryrack_scheduler::FairShare::default(),
        order: vec![OrderKey::Submitted],
        discipline: Discipline::Skipping,
        filters: FilterName::ALL.into_iter().map(stage).collect(),
        scorers: scorers.iter().map(|(stage, weight)| WeightedScorer { stage: *stage, weight: *weight }).collect(),
        lines: Lines::One,
        backfill: Backfill::None,
        slots: SlotOptions::default(),
        ties: Ties::First,
        gangs: GangPlaces::Demand,
        gpus,
        never_fits: NeverFits::End,
        unfit: Unfit::Wait,
        target: Target::default(),
        offers: BASE_PROFILE.scheduler.offers.clone(),
        // No model is served here.
        deployments: BASE_PROFILE.scheduler.deployments.clone(),
    }
}

/// The profile that all others begin with. It is read once, because reading takes longer than a search.
static BASE_PROFILE: LazyLock<Profile> = LazyLock::new(|| {
    let text = include_str!("../../../src/profile/builtin/first-fit.yaml");
    serde_saphyr::from_str(text).expect("the profile that all others begin with")
});

/// A node of `gpus` equal GPUs and ample CPU and RAM.
pub fn plain_shape(gpus: usize) -> NodeShape {
    let gpu = GpuShape::of("a", Bytes::from_gib(80));
    NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(128), vec![gpu; gpus])
}

pub fn plain_demand(tasks: u32, gpus: u32, gang: Gang) -> Demand {
    let gpus = GpuDemand { count: gpus, take: GpuTake::Whole, models: Vec::new(), min_memory: None };
    let task = TaskDemand { gpus: Some(gpus), ..TaskDemand::cpu_only(MilliCpu::ZERO) };
    Demand { tasks, gang, ..Demand::of(task) }
}

pub fn declare(fleet: &mut Fleet, shape: NodeShape, state: NodeState) -> NodeId {
    let name = format!("n{}", fleet.len()).into();
    fleet.declare(&NodeSpec { name, shape: Arc::new(shape) }, state)
}

/// The claim of one task that takes `take` of each of these GPUs.
pub fn claim(fleet: &Fleet, node: NodeId, take: GpuTake, gpus: &[usize]) -> NodeClaim {
    let shape = &fleet.node(node).shape;
    let part = |index: usize| {
        let capacity = Bytes::new(shape.gpus[index].memory.get().saturating_sub(shape.reserved.gpu_memory.get()));
        let (share, memory) = match take {
            GpuTake::Whole => (GpuShare::WHOLE, capacity),
            GpuTake::Share(share) => (share, share.of(capacity)),
            GpuTake::Memory(memory) => (GpuShare::ZERO, memory),
        };
        GpuClaim { index: index as u16, share, memory }
    };
    let gpus: SmallVec<[GpuClaim; 2]> = gpus.iter().map(|index| part(*index)).collect();
    NodeClaim { node, tasks: 1, cpu: MilliCpu::ZERO, ram: Bytes::ZERO, gpus, blocks: SmallVec::new(), sets: None }
}

pub fn enter(fleet: &mut Fleet, claim: NodeClaim) {
    fleet.take(&Placement::new(SmallVec::from_iter([claim])));
}

/// The world of this seed.
pub fn draw(seed: u64) -> World {
    let mut from = Stream::new(seed, "oracle", 0);
    let mut fleet = Fleet::default();
    let nodes = from.between(1, 4);
    let take = draw_take(&mut from);
    // Use few shapes, so that some nodes are in equal states and share a class.
    let mut shapes: Vec<NodeShape> = (0..from.between(1, 2)).map(|_| draw_shape(&mut from)).collect();
    if take == GpuTake::Whole {
        // The documentation does not state how several whole GPUs divide the RAM that their memory is a part of, and no
        // machine has several such GPUs.
        let unified = |shape: &&mut NodeShape| shape.gpus.iter().any(|gpu| gpu.unified);
        shapes.iter_mut().filter(unified).for_each(|shape| shape.gpus.truncate(1));
    }
    // Half of the worlds are calm, so that many demands fit and the order of preference decides.
    let calm = from.chance(500);
    for _ in 0..nodes {
        let shape = from.pick(&shapes).clone();
        let trouble = if calm { 50 } else { 250 };
        let state = if from.chance(trouble) { draw_state(&mut from) } else { NodeState::Ready };
        let node = declare(&mut fleet, shape, state);
        draw_gpu_troubles(&mut from, &mut fleet, node, if calm { 40 } else { 150 });
        for _ in 0..from.between(0, if calm { 2 } else { 3 }) {
            let held = if from.chance(600) { take } else { draw_take(&mut from) };
            draw_claim(&mut from, &mut fleet, node, held);
        }
    }
    let demand = draw_demand(&mut from, &fleet, take);
    let mixes: [&[(ScorerName, f64)]; 6] = [
        &[],
        &[],
        &[(ScorerName::BestFit, 1.0)],
        &[(ScorerName::Pack, 1.0)],
        &[(ScorerName::Spread, 1.0)],
        &[(ScorerName::BestFit, 1.0), (ScorerName::Spread, 0.5)],
    ];
    let scorers = *from.pick(&mixes);
    let order = *from.pick(&[GpuOrder::First, GpuOrder::Tightest, GpuOrder::Emptiest]);
    let unless = from.chance(150).then_some(Exemption::PickedOnSeveralNodes);
    World { fleet, demand, options: options(scorers, order, unless) }
}

fn draw_shape(from: &mut Stream) -> NodeShape {
    let unified = from.chance(120);
    let model = if from.chance(300) { "b" } else { "a" };
    let memory = *from.pick(&[20, 40, 80]);
    let mut shape = plain_shape(from.between(0, 4) as usize);
    shape.cpu = MilliCpu::from_cores(*from.pick(&[4, 8, 16]));
    shape.ram = Bytes::from_gib(*from.pick(&[40, 80, 160]));
    for gpu in &mut shape.gpus {
        let odd = !unified && from.chance(100);
        gpu.model = if odd { "b" } else { model }.into();
        gpu.memory = Bytes::from_gib(if odd { 40 } else { memory });
        gpu.unified = unified;
    }
    if unified {
        shape.os = Os::Darwin;
        shape.arch = CpuArch::Aarch64;
    }
    if from.chance(200) {
        let gpu_memory = Bytes::from_gib(from.between(0, 1));
        shape.reserved = Reserved { cpu: MilliCpu::new(500), ram: Bytes::from_gib(2), gpu_memory };
    }
    if from.chance(500) {
        shape.labels.insert("zone".into(), (*from.pick(&["east", "west"])).into());
    }
    shape
}

fn draw_state(from: &mut Stream) -> NodeState {
    use NodeState::*;
    *from.pick(&[Joining, NotReady, Unreachable, Maintenance, Gone])
}

fn draw_gpu_troubles(from: &mut Stream, fleet: &mut Fleet, node: NodeId, permille: u64) {
    for index in 0..fleet.node(node).shape.gpus.len() {
        let gpu = GpuId { node, index: index as u16 };
        if from.chance(permille) {
            let states = [GpuState::Degraded, GpuState::Draining, GpuState::Failed, GpuState::Unknown];
            fleet.set_gpu_state(gpu, *from.pick(&states));
        }
        if from.chance(permille) {
            let share = GpuShare::new(100 * from.between(0, 10) as u32);
            let memory = Bytes::from_gib(from.between(0, 20));
            fleet.set_foreign(gpu, Foreign { share, memory });
        }
    }
}

fn draw_take(from: &mut Stream) -> GpuTake {
    match from.between(0, 4) {
        0 | 1 => GpuTake::Whole,
        2 | 3 => GpuTake::Share(GpuShare::new(100 * from.between(1, 10) as u32)),
        _ => GpuTake::Memory(Bytes::from_gib(from.between(1, 30))),
    }
}

/// Adds a claim on this node, if there is room for it.
fn draw_claim(from: &mut Stream, fleet: &mut Fleet, node: NodeId, take: GpuTake) {
    let count = fleet.node(node).shape.gpus.len();
    let indices: Vec<usize> = (0..count).filter(|_| from.chance(400)).collect();
    let mut task = TaskDemand::cpu_only(MilliCpu::new(500 * from.between(0, 4)));
    task.ram = Bytes::from_gib(4 * from.between(0, 4));
    task.gpus = Some(GpuDemand { count: 1, take, models: Vec::new(), min_memory: None });
    if Room::now(fleet.node(node)).take(&task, &indices) {
        let mut claim = claim(fleet, node, take, &indices);
        (claim.cpu, claim.ram) = (task.cpu, task.ram);
        enter(fleet, claim);
    }
}

fn draw_demand(from: &mut Stream, fleet: &Fleet, take: GpuTake) -> Demand {
    let tasks = if from.chance(450) { 1 } else { from.between(2, 4) as u32 };
    let mut task = TaskDemand::cpu_only(MilliCpu::new(500 * from.between(0, 5)));
    task.ram = Bytes::from_gib(4 * from.between(0, 5));
    if from.chance(880) {
        let count = *from.pick(&[1, 1, 1, 1, 2, 2, 3, 4]);
        let models = match from.between(0, 9) {
            0 => vec!["a".into()],
            1 => vec!["b".into()],
            2 => vec!["b".into(), "a".into()],
            _ => Vec::new(),
        };
        // A separate test covers `min_memory` on nodes whose system reserves GPU memory. For whole GPUs with unified
        // memory, the documentation does not state whether the remaining RAM counts.
        let plain = |(_, node): (NodeId, &Node)| {
            let unified = node.shape.gpus.iter().any(|gpu| gpu.unified);
            node.shape.reserved.gpu_memory == Bytes::ZERO && !(unified && take == GpuTake::Whole)
        };
        let least = fleet.iter().all(plain) && from.chance(200);
        let min_memory = least.then(|| Bytes::from_gib(*from.pick(&[20, 40, 80])));
        task.gpus = Some(GpuDemand { count, take, models, min_memory });
    }
    if from.chance(120) {
        task.labels.insert("zone".into(), (*from.pick(&["east", "west"])).into());
    }
    task.os = from.chance(80).then(|| *from.pick(&[Os::Linux, Os::Darwin]));
    task.arch = from.chance(50).then(|| *from.pick(&[CpuArch::X86_64, CpuArch::Aarch64]));
    let gang = *from.pick(&[Gang::Anywhere, Gang::Spread, Gang::Packed]);
    let mut demand = Demand { tasks, gang, ..Demand::of(task) };
    draw_pick(from, fleet, &mut demand);
    demand
}

pub fn task_of(demand: &Demand) -> &TaskDemand {
    demand.task().expect("it is of tasks")
}

pub fn gpus_mut(demand: &mut Demand) -> Option<&mut GpuDemand> {
    let DemandKind::Tasks(task) = &mut demand.kind else { panic!("it is of tasks") };
    task.gpus.as_mut()
}

fn draw_pick(from: &mut Stream, fleet: &Fleet, demand: &mut Demand) {
    if from.chance(650) {
        return;
    }
    let all = || fleet.iter().flat_map(|(node, there)| (0..there.shape.gpus.len()).map(move |i| (node, i)));
    let mut gpus: Vec<GpuId> = Vec::new();
    let kind = from.between(0, 2);
    let often = *from.pick(&[300, 600, 850]);
    for (node, index) in all() {
        if from.chance(often) {
            gpus.push(GpuId { node, index: index as u16 });
        }
    }
    if kind == 0 || gpus.is_empty() {
        let nodes: Vec<NodeId> = fleet.iter().map(|(node, _)| node).filter(|_| from.chance(600)).collect();
        demand.pick = Some(Pick::Nodes(nodes)).filter(|pick| !pick.nodes().is_empty());
    } else if kind == 1 || demand.gpus().is_none() {
        demand.pick = Some(Pick::Gpus(gpus));
    } else {
        // The stated numbers of tasks and GPUs are those that follow from the pick.
        if from.chance(80) {
            gpus.push(GpuId { node: gpus[0].node, index: 7 });
        }
        let pick = Pick::AllGpus(gpus);
        let nodes = pick.nodes();
        demand.tasks = nodes.len() as u32;
        let on = |node: &NodeId| pick.gpus_on(*node).map_or(0, |gpus| gpus.len());
        if let Some(gpus) = gpus_mut(demand) {
            gpus.count = nodes.iter().map(on).max().unwrap_or(0) as u32;
        }
        demand.pick = Some(pick);
    }
}

impl World {
    /// The length of the description, with which the smallest differing world is found.
    pub fn size(&self) -> usize {
        self.describe().len()
    }

    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (id, node) in self.fleet.iter() {
            let (shape, status) = (&node.shape, &node.status);
            let _ = write!(text, "\n  n{}: {:?}", id.index(), status.state);
            let _ = write!(text, ", {} of {} cores taken", status.cpu_taken, shape.cpu);
            let _ = write!(text, ", {} of {} RAM taken", status.ram_taken, shape.ram);
            if shape.reserved != Reserved::default() {
                let _ = write!(text, ", reserved {:?}", shape.reserved);
            }
            if shape.os != Os::Linux {
                let _ = write!(text, ", {} {}", shape.os.as_str(), shape.arch.as_str());
            }
            if !shape.labels.is_empty() {
                let _ = write!(text, ", labels {:?}", shape.labels);
            }
            for (index, (gpu, now)) in shape.gpus.iter().zip(&status.gpus).enumerate() {
                let unified = if gpu.unified { " unified" } else { "" };
                let _ = write!(text, "\n    gpu {index}: {} {}{unified}", gpu.model, gpu.memory);
                if now.state != GpuState::Ready {
                    let _ = write!(text, ", {:?}", now.state);
                }
                if now.holders > 0 {
                    let _ = write!(text, ", {} holders of {} and {}", now.holders, now.taken, now.memory_taken);
                }
                if now.foreign != Foreign::NONE {
                    let _ = write!(text, ", foreign {} and {}", now.foreign.share, now.foreign.memory);
                }
            }
        }
        let task = task_of(&self.demand);
        let _ = write!(
            text,
            "\n  {} tasks {:?}, {} cores, {} RAM",
            self.demand.tasks, self.demand.gang, task.cpu, task.ram
        );
        if let Some(gpus) = &task.gpus {
            let _ = write!(text, ", {} GPUs {:?}", gpus.count, gpus.take);
            if !gpus.models.is_empty() {
                let _ = write!(text, " of {:?}", gpus.models);
            }
            if let Some(memory) = gpus.min_memory {
                let _ = write!(text, " of at least {memory}");
            }
        }
        if !task.labels.is_empty() || task.os.is_some() || task.arch.is_some() {
            let _ = write!(text, ", on {:?} {:?} {:?}", task.labels, task.os, task.arch);
        }
        if let Some(pick) = &self.demand.pick {
            let _ = write!(text, "\n  {pick:?}");
        }
        let scorers: Vec<&str> = self.options.scorers.iter().map(|scorer| scorer.stage.name()).collect();
        let _ = write!(text, "\n  scorers {scorers:?}, GPUs {:?}", self.options.gpus);
        if self.options.filters.iter().any(|filter| filter.unless.is_some()) {
            let _ = write!(text, ", unless picked_on_several_nodes");
        }
        let _ = writeln!(text);
        text
    }
}
