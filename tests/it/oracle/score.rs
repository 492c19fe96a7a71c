//! The scores of nodes, computed a second time from the documentation of the scorers.

use super::world::task_of;
use dryrack_fleet::{Fleet, GpuState, NodeStatus};
use dryrack_ids::NodeId;
use dryrack_scheduler::{GpuOrder, ScorerName};
use dryrack_workload::{Demand, GpuTake, Pick};

use super::search::{GpuRoom, Room};

fn mean(parts: &[f64]) -> f64 {
    if parts.is_empty() { 0.0 } else { parts.iter().sum::<f64>() / parts.len() as f64 }
}

fn over(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The GPUs that one task takes on this node.
fn gpu_count(demand: &Demand, id: NodeId) -> u64 {
    match (demand.gpus(), &demand.pick) {
        (None, _) => 0,
        (Some(_), Some(Pick::AllGpus(gpus))) => gpus.iter().filter(|gpu| gpu.node == id).count() as u64,
        (Some(asked), _) => u64::from(asked.count),
    }
}

pub fn score(scorer: ScorerName, demand: &Demand, fleet: &Fleet, id: NodeId) -> f64 {
    match scorer {
        ScorerName::BestFit => 1.0 - mean(&left_over(demand, fleet, id)),
        ScorerName::Pack => mean(&taken_after(demand, fleet, id)),
        ScorerName::Spread => 1.0 - mean(&taken_after(demand, fleet, id)),
        ScorerName::Fgd
        | ScorerName::BestFitOpenb
        | ScorerName::GpuPacking
        | ScorerName::GpuClustering
        | ScorerName::DotProduct => unreachable!("not drawn here: what their programs published holds them"),
        ScorerName::Fastest => unreachable!("no job here has speeds: scenarios/hardware holds it"),
        ScorerName::Islands => unreachable!("not drawn here: cases on paper hold it"),
        ScorerName::Own(_) => unreachable!("not drawn here: the tests of expressions hold them"),
        ScorerName::Readiness => readiness(&fleet.node(id).status),
    }
}

fn left_over(demand: &Demand, fleet: &Fleet, id: NodeId) -> Vec<f64> {
    let (room, task) = (Room::now(fleet.node(id)), task_of(demand));
    let largest =
        |amount: &dyn Fn(&Room) -> u64| fleet.iter().map(|(_, node)| amount(&Room::ideal(node))).max().unwrap_or(0);
    let mut parts = Vec::new();
    if task.cpu.get() > 0 {
        parts.push(over(room.cpu.saturating_sub(task.cpu.get()), largest(&|room| room.cpu)));
    }
    if task.ram.get() > 0 {
        parts.push(over(room.ram.saturating_sub(task.ram.get()), largest(&|room| room.ram)));
    }
    let count = gpu_count(demand, id);
    if let Some(asked) = &task.gpus {
        let milli = |room: &Room| room.gpus.iter().map(|gpu| gpu.share).sum::<u64>();
        // Free unified memory is limited by the free RAM. The total memory of a node is not limited in this way.
        let free = |gpu: &GpuRoom| if gpu.unified { gpu.memory.min(room.ram) } else { gpu.memory };
        let memory_free: u64 = room.gpus.iter().map(free).sum();
        let memory = |room: &Room| room.gpus.iter().map(|gpu| gpu.memory).sum::<u64>();
        parts.push(match asked.take {
            GpuTake::Whole => over(milli(&room).saturating_sub(1000 * count), largest(&milli)),
            GpuTake::Share(share) => over(milli(&room).saturating_sub(u64::from(share.get()) * count), largest(&milli)),
            GpuTake::Memory(bytes) => over(memory_free.saturating_sub(bytes.get() * count), largest(&memory)),
        });
    }
    parts
}

/// The reliability of a node: halved if a heartbeat is overdue, divided by n + 1 after n losses, and multiplied by the
/// share of GPUs that are ready.
fn readiness(status: &NodeStatus) -> f64 {
    let late = if status.reliance.overdue { 2.0 } else { 1.0 };
    let unsound = status.gpus.iter().filter(|gpu| gpu.state != GpuState::Ready).count();
    let sound = status.gpus.len() - unsound;
    let part = if status.gpus.is_empty() { 1.0 } else { sound as f64 / status.gpus.len() as f64 };
    1.0 / late * (1.0 / (f64::from(status.reliance.flaps) + 1.0)) * part
}

fn taken_after(demand: &Demand, fleet: &Fleet, id: NodeId) -> Vec<f64> {
    let (room, all, task) = (Room::now(fleet.node(id)), Room::ideal(fleet.node(id)), task_of(demand));
    let mut parts = Vec::new();
    if all.cpu > 0 {
        parts.push(over(all.cpu - room.cpu + task.cpu.get(), all.cpu));
    }
    if all.ram > 0 {
        parts.push(over(all.ram - room.ram + task.ram.get(), all.ram));
    }
    if !all.gpus.is_empty() {
        let number = all.gpus.len() as f64;
        // Each GPU counts with the larger of two held shares, that of its time and that of its memory.
        let held = room.gpus.iter().zip(&all.gpus).map(|(now, idle)| {
            let (time, memory) = (over(1000 - now.share, 1000), over(idle.memory - now.memory, idle.memory));
            if time > memory { time } else { memory }
        });
        let held: f64 = held.sum();
        let more = match task.gpus.as_ref().map(|asked| asked.take) {
            Some(GpuTake::Whole) => 1.0,
            Some(GpuTake::Share(share)) => over(u64::from(share.get()), 1000),
            Some(GpuTake::Memory(bytes)) => {
                over(bytes.get(), all.gpus.iter().map(|gpu| gpu.memory).sum::<u64>()) * number
            }
            None => 0.0,
        };
        parts.push((held + more * gpu_count(demand, id) as f64) / number);
    }
    parts
}

/// The GPUs that one task could use, in the order in which they are taken.
pub fn gpu_order(order: GpuOrder, demand: &Demand, fleet: &Fleet, id: NodeId, would_do: &[usize]) -> Vec<usize> {
    let node = fleet.node(id);
    let room = Room::now(node);
    let by_memory = matches!(demand.gpus().map(|asked| asked.take), Some(GpuTake::Memory(_)));
    let free = |index: usize| {
        let gpu = &room.gpus[index];
        if by_memory { gpu.memory.min(if gpu.unified { room.ram } else { u64::MAX }) } else { gpu.share }
    };
    let mut sorted = would_do.to_vec();
    sorted.sort_by_key(|index| {
        let key = match order {
            GpuOrder::First => 0,
            GpuOrder::Tightest => i128::from(free(*index)),
            GpuOrder::Emptiest => -i128::from(free(*index)),
            GpuOrder::LeastFragmentation | GpuOrder::Islands | GpuOrder::Random => unreachable!("not drawn here"),
        };
        (node.status.gpus[*index].state == GpuState::Degraded, key, *index)
    });
    sorted
}
