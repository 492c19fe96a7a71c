//! Scorers: how good a node is for a demand, from 0 to 1, or from 0 to 100 if it was published so. They are computed
//! from fractions in the written order, so they are the same on every machine. Scores that are equal on paper but come
//! from different states may differ in their last bit, and are then different scores.

mod openb;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::fragment;
use super::islands;
use super::options::SchedulerOptions;
use super::row::Row;
use dryrack_fleet::{GpuState, Largest, NodeStatus, Reliance};
use dryrack_units::{Bytes, Score};
use dryrack_workload::{GpuTake, TaskGroup};

/// The weighted sum of all scorers; zero without scorers.
pub fn total(options: &SchedulerOptions, largest: &Largest, demand: TaskGroup<'_>, row: &Row) -> Score {
    let weighted =
        options.scorers.iter().map(|scorer| score(options, scorer.stage, largest, demand, row) * scorer.weight);
    weighted.fold(Score::ZERO, |sum, part| sum + part)
}

/// What a scorer reads.
pub(super) struct Scored<'a> {
    options: &'a SchedulerOptions,
    largest: &'a Largest,
    demand: TaskGroup<'a>,
    row: &'a Row<'a>,
}

macro_rules! scorers {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $text:literal, $score:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum ScorerName {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl ScorerName {
            pub const ALL: &'static [ScorerName] = &[$(ScorerName::$variant,)*];

            /// The name in profiles.
            pub fn name(self) -> &'static str {
                match self { $(ScorerName::$variant => $name,)* }
            }

            /// What it prefers, in a few words.
            pub fn describe(self) -> &'static str {
                match self { $(ScorerName::$variant => $text,)* }
            }

            fn function(self) -> fn(&Scored<'_>) -> f64 {
                match self { $(ScorerName::$variant => $score,)* }
            }
        }
    };
}

scorers! {
    /// Least left over of the resources asked for.
    BestFit => "best_fit", "least left over of what is asked for",
        |it| 1.0 - mean(&left_over(it.largest, it.demand, it.row));
    /// The node whose resources are taken most, averaged over CPU, RAM and GPUs.
    Pack => "pack", "resources that are taken most", |it| mean(&taken_after(it.demand, it.row));
    /// The node whose resources are taken least, averaged over CPU, RAM and GPUs.
    Spread => "spread", "resources that are taken least", |it| 1.0 - mean(&taken_after(it.demand, it.row));
    /// Fragmentation gradient descent: the node where fewest GPUs become useless for the target workload
    /// (`scheduler::fragment`).
    Fgd => "fgd", "least growth of fragmentation",
        |it| f64::from(fragment::score(&it.options.target, it.demand, it.row));
    /// Least CPU and GPU left, as in the Kubernetes simulator for openb. `openb` gives the source, also of the next
    /// three.
    BestFitOpenb => "best_fit_openb", "least left over of CPU and GPUs", |it| openb::best_fit(it.demand, it.row);
    /// GPUs in use first, then free GPUs of nodes in use.
    GpuPacking => "gpu_packing", "GPUs in use, then nodes in use", |it| openb::packing(it.demand, it.row);
    /// Nodes that hold tasks with the same number of GPUs.
    GpuClustering => "gpu_clustering", "nodes with tasks of as many GPUs", |it| openb::clustering(it.demand, it.row);
    /// The smallest product of what is asked for and what is free.
    DotProduct => "dot_product", "least product of what is free and what is asked for",
        |it| openb::dot_product(it.demand, it.row);
    /// The node whose NVLink islands suit a task best: it needs the fewest, and leaves least of them
    /// (`scheduler::islands`).
    Islands => "islands", "tasks in the fewest NVLink islands, with least of them left",
        |it| islands::score(it.demand, it.row);
    /// The most reliable node: heartbeats on time, ready throughout, GPUs sound.
    Readiness => "readiness", "nodes that can be relied on: heartbeats on time, no loss of late, sound GPUs",
        |it| readiness(it.row.status);
}

pub fn score(
    options: &SchedulerOptions,
    scorer: ScorerName,
    largest: &Largest,
    demand: TaskGroup<'_>,
    row: &Row,
) -> Score {
    Score::new(scorer.function()(&Scored { options, largest, demand, row }))
}

/// How reliable a node is, times the fraction of its GPUs that are neither degraded nor worse.
pub fn readiness(status: &NodeStatus) -> f64 {
    let sound = status.gpus.iter().filter(|gpu| gpu.state == GpuState::Ready).count() as u64;
    let sound = if status.gpus.is_empty() { 1.0 } else { fraction(sound, status.gpus.len() as u64) };
    reliability(status.reliance) * sound
}

/// One, halved if a heartbeat is overdue, and divided by one more than the number of times that the node recently
/// ceased to be ready.
pub fn reliability(reliance: Reliance) -> f64 {
    let on_time = if reliance.overdue { 0.5 } else { 1.0 };
    let steady = 1.0 / (1.0 + f64::from(reliance.flaps));
    on_time * steady
}

fn mean(parts: &[f64]) -> f64 {
    if parts.is_empty() { 0.0 } else { parts.iter().fold(0.0, |sum, part| sum + part) / parts.len() as f64 }
}

/// For CPU, RAM and GPUs.
type Parts = SmallVec<[f64; 3]>;

fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// What one task would leave of each resource that it asks for, as a fraction of the largest node's. GPUs count by
/// their time, or by their memory if memory is asked for. GPUs that are failed or of another type count too. The score
/// is one less the mean of these.
fn left_over(largest: &Largest, demand: TaskGroup<'_>, row: &Row) -> Parts {
    let (task, shape, status) = (demand.task, row.shape, row.status);
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

/// The fraction of each of the node's resources that would be taken with one more task: CPU, RAM and GPUs, as far as
/// the node has them. A GPU counts by its time or its memory, whichever is held more. The score is the mean of these.
fn taken_after(demand: TaskGroup<'_>, row: &Row) -> Parts {
    let (task, shape, status) = (demand.task, row.shape, row.status);
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
        // Sorted by size, so that the sum does not depend on which GPU is in which state.
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

/// How much of one GPU is held by anyone: the larger fraction of its time and its memory.
fn gpu_held(row: &Row, index: usize) -> f64 {
    let gpu = &row.status.gpus[index];
    let capacity = row.shape.gpu_memory_capacity(index);
    let time = fraction(u64::from((gpu.taken + gpu.foreign.share).get()), 1000);
    let memory = fraction((gpu.memory_taken + gpu.foreign.memory).get(), capacity.get());
    time.max(memory).min(1.0)
}
