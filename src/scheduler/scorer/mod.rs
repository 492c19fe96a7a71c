//! Scorers: how good a node is for a demand, from 0 to 1, or from 0 to 100 where that is how it was published. Computed of fractions in the written order, so the same on
//! every machine. Scores that are equal on paper but come of different states may differ in their last bit, and are then
//! different scores.

mod openb;

use smallvec::SmallVec;

use super::fragment;
use super::islands;
use super::options::{SchedulerOptions, ScorerName};
use super::row::Row;
use dryrack_fleet::{GpuState, Largest, NodeStatus, Reliance};
use dryrack_units::{Bytes, Score};
use dryrack_workload::{Demand, GpuTake};

/// The weighted sum of all scorers; zero where there are none.
pub fn total(options: &SchedulerOptions, largest: &Largest, demand: &Demand, row: &Row) -> Score {
    let weighted =
        options.scorers.iter().map(|scorer| score(options, scorer.stage, largest, demand, row) * scorer.weight);
    weighted.fold(Score::ZERO, |sum, part| sum + part)
}

pub fn score(options: &SchedulerOptions, scorer: ScorerName, largest: &Largest, demand: &Demand, row: &Row) -> Score {
    Score::new(match scorer {
        ScorerName::BestFit => 1.0 - mean(&left_over(largest, demand, row)),
        ScorerName::Pack => mean(&taken_after(demand, row)),
        ScorerName::Spread => 1.0 - mean(&taken_after(demand, row)),
        ScorerName::Fgd => f64::from(fragment::score(&options.target, demand, row)),
        ScorerName::BestFitOpenb => openb::best_fit(demand, row),
        ScorerName::GpuPacking => openb::packing(demand, row),
        ScorerName::GpuClustering => openb::clustering(demand, row),
        ScorerName::DotProduct => openb::dot_product(demand, row),
        ScorerName::Islands => islands::score(demand, row),
        ScorerName::Readiness => readiness(row.status),
    })
}

/// How far a node can be relied on, and of that the part of its GPUs that are neither degraded nor worse.
pub fn readiness(status: &NodeStatus) -> f64 {
    let sound = status.gpus.iter().filter(|gpu| gpu.state == GpuState::Ready).count() as u64;
    let sound = if status.gpus.is_empty() { 1.0 } else { fraction(sound, status.gpus.len() as u64) };
    reliability(status.reliance) * sound
}

/// A half where a heartbeat is overdue; of that a half for one time that it ceased to be ready of late, a third for two,
/// and so on.
pub fn reliability(reliance: Reliance) -> f64 {
    let on_time = if reliance.overdue { 0.5 } else { 1.0 };
    let steady = 1.0 / (1.0 + f64::from(reliance.flaps));
    on_time * steady
}

fn mean(parts: &[f64]) -> f64 {
    if parts.is_empty() { 0.0 } else { parts.iter().fold(0.0, |sum, part| sum + part) / parts.len() as f64 }
}

/// Of CPU, RAM and GPUs.
type Parts = SmallVec<[f64; 3]>;

fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// What one task would leave of each resource it asks for, as a fraction of the largest node's. Of GPUs it is their time,
/// or their memory where memory is asked for; those that are failed or of another type count too. The score is one less
/// the mean of these.
fn left_over(largest: &Largest, demand: &Demand, row: &Row) -> Parts {
    let (task, shape, status) = (&demand.task, row.shape, row.status);
    let mut parts = Parts::new();
    if task.cpu.get() > 0 {
        parts.push(fraction(status.cpu_free(shape).saturating_sub(task.cpu).get(), largest.cpu));
    }
    if task.ram.get() > 0 {
        parts.push(fraction(status.ram_free(shape).saturating_sub(task.ram).get(), largest.ram));
    }
    if let Some(gpus) = &task.gpus {
        let count = u64::from(row.gpus_per_task(demand));
        parts.push(match gpus.take {
            GpuTake::Whole => fraction(gpu_milli_free(row).saturating_sub(1000 * count), largest.gpu_milli),
            GpuTake::Share(share) => {
                fraction(gpu_milli_free(row).saturating_sub(u64::from(share.get()) * count), largest.gpu_milli)
            }
            GpuTake::Memory(memory) => {
                let free: Bytes = (0..shape.gpus.len()).map(|index| status.gpu_memory_free(shape, index)).sum();
                fraction(free.get().saturating_sub(memory.get() * count), largest.gpu_memory)
            }
        });
    }
    parts
}

fn gpu_milli_free(row: &Row) -> u64 {
    (0..row.shape.gpus.len()).map(|index| u64::from(row.status.gpu_share_free(index).get())).sum()
}

/// The part of each of the node's resources that would be taken with one task more: of CPU, RAM and GPUs, as far as the
/// node has them. A GPU counts by its time or its memory, whichever is held more. The score is the mean of these.
fn taken_after(demand: &Demand, row: &Row) -> Parts {
    let (task, shape, status) = (&demand.task, row.shape, row.status);
    let mut parts = Parts::new();
    if shape.cpu_capacity().get() > 0 {
        parts.push(fraction((status.cpu_taken + task.cpu).get(), shape.cpu_capacity().get()));
    }
    if shape.ram_capacity().get() > 0 {
        let free = status.ram_free(shape).saturating_sub(task.ram);
        parts.push(1.0 - fraction(free.get(), shape.ram_capacity().get()));
    }
    if !shape.gpus.is_empty() {
        let count = shape.gpus.len() as f64;
        // In order of size: the sum is that of nodes whose GPUs are in the same states in another order.
        let mut held: SmallVec<[Score; 8]> =
            (0..shape.gpus.len()).map(|index| Score::new(gpu_held(row, index))).collect();
        held.sort_unstable();
        let held = held.into_iter().fold(Score::ZERO, |sum, part| sum + part).get();
        let memory: Bytes = (0..shape.gpus.len()).map(|index| shape.gpu_memory_capacity(index)).sum();
        let asked = match task.gpus.as_ref().map(|gpus| gpus.take) {
            None => 0.0,
            Some(GpuTake::Whole) => 1.0,
            Some(GpuTake::Share(share)) => fraction(u64::from(share.get()), 1000),
            Some(GpuTake::Memory(each)) => fraction(each.get(), memory.get()) * count,
        };
        parts.push((held + asked * f64::from(row.gpus_per_task(demand))) / count);
    }
    parts
}

/// How much of one GPU is held by anyone: of its time or of its memory, whichever is more.
fn gpu_held(row: &Row, index: usize) -> f64 {
    let gpu = &row.status.gpus[index];
    let capacity = row.shape.gpu_memory_capacity(index);
    let time = fraction(u64::from((gpu.taken + gpu.foreign.share).get()), 1000);
    let memory = fraction((gpu.memory_taken + gpu.foreign.memory).get(), capacity.get());
    time.max(memory).min(1.0)
}
