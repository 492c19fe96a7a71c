//! The target workload: the shapes of the expected tasks, and the fraction of all tasks that has each shape.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use dryrack_units::{GpuShare, MilliCpu};
use dryrack_workload::{GpuTake, TaskDemand};

/// The shapes, most frequent first. Their fractions add up to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Target(Vec<TargetShape>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetShape {
    /// The fraction of tasks with this shape, from 0 to 1.
    pub part: f64,
    #[serde(flatten)]
    pub shape: TaskShape,
}

/// The resources that a task requests, as far as fragmentation depends on them. Ties are broken by the order of the
/// fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct TaskShape {
    pub cpu: MilliCpu,
    /// The share of each GPU; zero if the task asks for no GPU.
    pub share: GpuShare,
    /// The number of GPUs.
    pub gpus: u32,
    /// The accepted GPU models, as the workload writes them. If empty, any model is accepted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub models_written: String,
    /// The accepted GPU models, as the fleet names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Arc<str>>,
}

/// Percentage of all tasks that the shapes of the target must cover.
const COVERED_PERCENT: u64 = 95;

impl Target {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn shapes(&self) -> &[TargetShape] {
        &self.0
    }

    /// The most frequent shapes that together make up 95 % of these tasks. On a tie, the larger shape comes first. The
    /// fraction of a shape is its count divided by the count of all tasks, and then divided by the covered fraction of
    /// all tasks. The divisions are done in this order.
    ///
    /// Source: kubernetes-scheduler-simulator 8f3d641, `GetTypicalPods` with a threshold of 95 and a step of 1.
    pub fn of(tasks: impl Iterator<Item = TaskShape>) -> Target {
        Target::of_counted(tasks.map(|task| (task, 1)))
    }

    /// Like [`Target::of`], but each shape comes with its number of tasks, which must be at least one. A shape may
    /// occur more than once.
    pub fn of_counted(tasks: impl Iterator<Item = (TaskShape, u64)>) -> Target {
        let mut counts: BTreeMap<TaskShape, u64> = BTreeMap::new();
        let mut all = 0u64;
        for (task, count) in tasks {
            *counts.entry(task).or_default() += count;
            all += count;
        }
        let mut shapes: Vec<(u64, TaskShape)> = counts.into_iter().map(|(shape, count)| (count, shape)).collect();
        shapes.sort_unstable_by(|a, b| b.cmp(a));
        let mut covered = 0;
        let enough = |(count, _): &(u64, TaskShape)| {
            let more = covered * 100 < all * COVERED_PERCENT;
            covered += if more { *count } else { 0 };
            more
        };
        let taken: Vec<(u64, TaskShape)> = shapes.into_iter().take_while(enough).collect();
        let covered: u64 = taken.iter().map(|(count, _)| count).sum();
        let part = |count: u64| count as f64 / all as f64;
        let whole = if covered == all { 1.0 } else { part(covered) };
        Target(taken.into_iter().map(|(count, shape)| TargetShape { part: part(count) / whole, shape }).collect())
    }
}

impl TaskShape {
    /// The shape of one task. A demand for GPU memory counts as a whole GPU, because fragmentation is about GPU time.
    pub fn of(task: &TaskDemand) -> TaskShape {
        let (gpus, share, models) = match &task.gpus {
            None => (0, GpuShare::ZERO, Vec::new()),
            Some(gpus) => match gpus.take {
                GpuTake::Share(share) => (gpus.count, share, gpus.models.clone()),
                GpuTake::Whole | GpuTake::Memory(_) => (gpus.count, GpuShare::WHOLE, gpus.models.clone()),
            },
        };
        TaskShape { cpu: task.cpu, share, gpus, models_written: models.join("|"), models }
    }

    pub fn accepts(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|accepted| &**accepted == model)
    }
}
