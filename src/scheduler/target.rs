//! The target workload: the tasks that are expected, as shapes and the fraction of all tasks with each shape.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use dryrack_units::{GpuShare, MilliCpu};
use dryrack_workload::{GpuTake, TaskDemand};

/// Shapes, most frequent first. Their parts add up to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Target(Vec<TargetShape>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetShape {
    /// From 0 to 1.
    pub part: f64,
    #[serde(flatten)]
    pub shape: TaskShape,
}

/// What a task asks for, as far as fragmentation depends on it. The order of the fields breaks ties.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskShape {
    pub cpu: MilliCpu,
    /// Of each GPU; zero if none is asked for.
    pub share: GpuShare,
    pub gpus: u32,
    /// Accepted GPU models, as the workload writes them; any if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub models_written: String,
    /// The same, as the fleet names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Arc<str>>,
}

/// Shapes are taken until they make up this percentage of all tasks.
const COVERED_PERCENT: u64 = 95;

impl Target {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn shapes(&self) -> &[TargetShape] {
        &self.0
    }

    /// The most frequent shapes that make up 95 % of these tasks; on a tie, the larger shape first
    /// (kubernetes-scheduler-simulator 8f3d641, `GetTypicalPods` with a threshold of 95 and a step of 1). The count of
    /// each is divided by the count of all, then by the covered part of all, in this order.
    pub fn of(tasks: impl Iterator<Item = TaskShape>) -> Target {
        Target::of_counted(tasks.map(|task| (task, 1)))
    }

    /// The same, from a number of tasks for each shape, which must be at least one. A shape may come several times.
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
    /// The shape of one task. A demand for GPU memory counts as the whole GPU, since fragmentation is about time.
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
