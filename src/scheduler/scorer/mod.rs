//! Scorers: how good a node is for a demand. A score is from 0 to 1, or from 0 to 100 if it is published that way.
//! Scores are computed from fractions in the written order, so they are the same on every machine. Two scores that are
//! equal in exact arithmetic may still differ in their last bit if they come from different states. They then count as
//! different.

mod openb;

use smallvec::SmallVec;

use super::fragment;
use super::islands;
use super::node_class::NodeClass;
use super::own::{NodeView, OwnScorer, RequestView, scorer_named};
use super::stage_name::StageName;
use super::target::Target;
use dryrack_fleet::{GpuShape, GpuState, Largest, NodeStatus, Reliance};
use dryrack_units::{Bytes, Score};
use dryrack_workload::{GpuTake, TaskGroup};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightedScorer {
    pub stage: ScorerName,
    pub weight: f64,
}

/// The weighted sum of all scorers; zero without scorers.
pub fn total(
    scorers: &[WeightedScorer],
    target: &Target,
    largest: &Largest,
    demand: TaskGroup<'_>,
    class: &NodeClass,
) -> Score {
    let weighted = scorers.iter().map(|scorer| score(target, scorer.stage, largest, demand, class) * scorer.weight);
    weighted.fold(Score::ZERO, |sum, part| sum + part)
}

/// The inputs of a scorer.
pub(super) struct Scored<'a> {
    target: &'a Target,
    largest: &'a Largest,
    demand: TaskGroup<'a>,
    class: &'a NodeClass<'a>,
}

macro_rules! scorers {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $text:literal, $score:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ScorerName {
            $($(#[$doc])* $variant,)*
            /// An expression, or a function that a program registered.
            Own(OwnScorer),
        }

        impl ScorerName {
            /// All scorers of the table.
            pub const ALL: &'static [ScorerName] = &[$(ScorerName::$variant,)*];
            const NAMES: &'static [&'static str] = &[$($name,)*];

            /// The name of this scorer in profiles.
            pub fn name(self) -> &'static str {
                match self {
                    $(ScorerName::$variant => $name,)*
                    ScorerName::Own(own) => own.name(),
                }
            }

            /// A short description of the nodes that the scorer prefers.
            pub fn describe(self) -> &'static str {
                match self {
                    $(ScorerName::$variant => $text,)*
                    ScorerName::Own(own) => own.text().unwrap_or("registered by the program"),
                }
            }

            fn value(self, it: &Scored<'_>) -> f64 {
                let function: fn(&Scored<'_>) -> f64 = match self {
                    $(ScorerName::$variant => $score,)*
                    ScorerName::Own(own) => {
                        return own.score(&NodeView::of(it.class), &RequestView::of_tasks(it.demand, it.class));
                    }
                };
                function(it)
            }
        }
    };
}

scorers! {
    /// Prefers the node with the least of the requested resources left over.
    BestFit => "best_fit", "least free capacity left of the requested resources",
        |it| 1.0 - mean(&left_over(it.largest, it.demand, it.class));
    /// Prefers the node whose resources are used most, averaged over CPU, RAM and GPUs.
    Pack => "pack", "most allocated resources", |it| mean(&taken_after(it.demand, it.class));
    /// Prefers the node whose resources are used least, averaged over CPU, RAM and GPUs.
    Spread => "spread", "least allocated resources", |it| 1.0 - mean(&taken_after(it.demand, it.class));
    /// Fragmentation gradient descent: prefers the node on which the fewest GPUs become useless for the target workload
    /// (`scheduler::fragment`).
    Fgd => "fgd", "least growth of fragmentation",
        |it| f64::from(fragment::score(it.target, it.demand, it.class));
    /// Prefers the node with the least CPU and GPU left, as in the Kubernetes simulator for openb. The module `openb`
    /// names the source of this scorer and of the next three.
    BestFitOpenb => "best_fit_openb", "least free CPUs and GPUs left", |it| openb::best_fit(it.demand, it.class);
    /// Prefers GPUs that are in use, then free GPUs on nodes that are in use.
    GpuPacking => "gpu_packing", "GPUs in use first, then nodes in use", |it| openb::packing(it.demand, it.class);
    /// Prefers nodes that hold tasks with the same number of GPUs.
    GpuClustering => "gpu_clustering", "nodes whose tasks have the same number of GPUs", |it| openb::clustering(it.demand, it.class);
    /// Prefers the node with the smallest product of requested and free resources.
    DotProduct => "dot_product", "smallest dot product of free and requested resources",
        |it| openb::dot_product(it.demand, it.class);
    /// Prefers the node whose NVLink islands suit a task best: the task needs the fewest islands and leaves the fewest
    /// GPUs free in them (`scheduler::islands`).
    Islands => "islands", "tasks in the fewest NVLink islands, with the fewest free GPUs left in them",
        |it| islands::score(it.demand, it.class);
    /// Prefers reliable nodes: heartbeats are on time, readiness was not lost recently, and GPUs are healthy.
    Readiness => "readiness", "reliable nodes: heartbeats on time, not lost recently, healthy GPUs",
        |it| readiness(it.class.status);
    /// Prefers the GPUs on which the job's work is done fastest. A node with GPUs of several accepted types counts by the
    /// slowest. All nodes are equal for a job without GPUs, or whose speeds are not stated.
    Fastest => "fastest", "GPUs on which the job runs fastest", |it| fastest(it.demand, it.class);
}

impl StageName for ScorerName {
    const NAMES: &'static [&'static str] = ScorerName::NAMES;

    fn named(name: &str) -> Option<ScorerName> {
        let known = ScorerName::ALL.iter().copied().find(|known| known.name() == name);
        known.or_else(|| scorer_named(name).map(ScorerName::Own))
    }
}

pub fn score(
    target: &Target,
    scorer: ScorerName,
    largest: &Largest,
    demand: TaskGroup<'_>,
    class: &NodeClass,
) -> Score {
    Score::new(scorer.value(&Scored { target, largest, demand, class }))
}

/// The speed of the job on the slowest accepted GPU of the node, as a fraction of its largest speed on any GPU.
fn fastest(demand: TaskGroup<'_>, class: &NodeClass) -> f64 {
    let (Some(speeds), Some(gpus)) = (demand.speeds, &demand.task.gpus) else { return 0.0 };
    let accepted = |gpu: &&GpuShape| gpus.models.is_empty() || gpus.models.contains(&gpu.model);
    let usable = class.shape.gpus.iter().filter(accepted);
    let slowest = usable.map(|gpu| speeds.of(&gpu.model).as_millionths()).min();
    fraction(slowest.unwrap_or(0), speeds.largest().as_millionths())
}

/// The reliability of a node, multiplied by the fraction of its GPUs that are ready and not degraded.
pub fn readiness(status: &NodeStatus) -> f64 {
    let sound = status.gpus.iter().filter(|gpu| gpu.state == GpuState::Ready).count() as u64;
    let sound = if status.gpus.is_empty() { 1.0 } else { fraction(sound, status.gpus.len() as u64) };
    reliability(status.reliance) * sound
}

/// The reliability of a node: 1, halved if a heartbeat is overdue, and divided by one plus the number of recent losses
/// of readiness.
pub fn reliability(reliance: Reliance) -> f64 {
    let on_time = if reliance.overdue { 0.5 } else { 1.0 };
    let steady = 1.0 / (1.0 + f64::from(reliance.flaps));
    on_time * steady
}

fn mean(parts: &[f64]) -> f64 {
    if parts.is_empty() { 0.0 } else { parts.iter().fold(0.0, |sum, part| sum + part) / parts.len() as f64 }
}

/// Values for CPU, RAM and GPUs.
type Parts = SmallVec<[f64; 3]>;

fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The amount of each requested resource that would be left free after placing one task, as a fraction of the largest
/// node's amount. GPUs count by their time, or by their memory if the task asks for memory. Failed GPUs and GPUs of
/// another type count too. The score is 1 minus the mean of these fractions.
fn left_over(largest: &Largest, demand: TaskGroup<'_>, class: &NodeClass) -> Parts {
    let (task, shape, status) = (demand.task, class.shape, class.status);
    let mut parts = Parts::new();
    if task.cpu.get() > 0 {
        parts.push(fraction(status.cpu_free(shape).saturating_sub(task.cpu).get(), largest.cpu));
    }
    if task.ram.get() > 0 {
        parts.push(fraction(status.ram_free(shape).saturating_sub(task.ram).get(), largest.ram));
    }
    if let Some(gpus) = &task.gpus {
        let count = u64::from(class.gpus_per_task(demand));
        parts.push(match gpus.take {
            GpuTake::Whole => fraction(gpu_milli_free(class).saturating_sub(1000 * count), largest.gpu_milli),
            GpuTake::Share(share) => {
                fraction(gpu_milli_free(class).saturating_sub(u64::from(share.get()) * count), largest.gpu_milli)
            }
            GpuTake::Memory(memory) => {
                let free: Bytes = (0..shape.gpus.len()).map(|index| status.gpu_memory_free(shape, index)).sum();
                fraction(free.get().saturating_sub(memory.get() * count), largest.gpu_memory)
            }
        });
    }
    parts
}

fn gpu_milli_free(class: &NodeClass) -> u64 {
    (0..class.shape.gpus.len()).map(|index| u64::from(class.status.gpu_share_free(index).get())).sum()
}

/// The fraction of each resource of the node that would be taken with one more task: CPU, RAM and GPUs, if the node has
/// them. A GPU counts with the larger of the used fractions of its time and its memory. The score is the mean of these
/// fractions.
fn taken_after(demand: TaskGroup<'_>, class: &NodeClass) -> Parts {
    let (task, shape, status) = (demand.task, class.shape, class.status);
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
        // The values are sorted, so the sum does not depend on which GPU is in which state.
        let mut held: SmallVec<[Score; 8]> =
            (0..shape.gpus.len()).map(|index| Score::new(gpu_held(class, index))).collect();
        held.sort_unstable();
        let held = held.into_iter().fold(Score::ZERO, |sum, part| sum + part).get();
        let memory: Bytes = (0..shape.gpus.len()).map(|index| shape.gpu_memory_capacity(index)).sum();
        let asked = match task.gpus.as_ref().map(|gpus| gpus.take) {
            None => 0.0,
            Some(GpuTake::Whole) => 1.0,
            Some(GpuTake::Share(share)) => fraction(u64::from(share.get()), 1000),
            Some(GpuTake::Memory(each)) => fraction(each.get(), memory.get()) * count,
        };
        parts.push((held + asked * f64::from(class.gpus_per_task(demand))) / count);
    }
    parts
}

/// The used part of one GPU, by any user: the larger of the used fractions of its time and its memory.
fn gpu_held(class: &NodeClass, index: usize) -> f64 {
    let gpu = &class.status.gpus[index];
    let capacity = class.shape.gpu_memory_capacity(index);
    let time = fraction(u64::from((gpu.taken + gpu.foreign.share).get()), 1000);
    let memory = fraction((gpu.memory_taken + gpu.foreign.memory).get(), capacity.get());
    time.max(memory).min(1.0)
}
