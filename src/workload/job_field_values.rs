//! The values of the fields of a job that stages read.

use std::sync::Arc;

use super::demand::{Demand, DemandKind, GpuTake, Pick, TaskDemand};
use super::job::JobSpec;
use super::job_fields::{FieldValue, JobField, JobFields};
use dryrack_units::Bytes;

impl JobField {
    fn of(self, job: &JobSpec) -> FieldValue {
        let text = |name: &Option<Arc<str>>| FieldValue::Text(name.clone().unwrap_or_default());
        match self {
            JobField::Priority => FieldValue::Number(i64::from(job.priority)),
            JobField::Queue => text(&job.queue),
            JobField::User => text(&job.user),
            JobField::Project => text(&job.project),
            JobField::Estimate => FieldValue::Time(job.estimate),
            JobField::TimeLimit => FieldValue::Time(job.time_limit),
            JobField::Checkpoints => FieldValue::Flag(job.checkpoints),
            JobField::Model => {
                FieldValue::Text(job.demand.model().map_or_else(Arc::default, |model| Arc::clone(&model.model.name)))
            }
            JobField::Gpus => FieldValue::Thousandths(gpus(&job.demand)),
            JobField::Cpus => FieldValue::Thousandths(cpus(&job.demand)),
            JobField::Ram => FieldValue::Size(Bytes::new(ram(&job.demand))),
        }
    }
}

impl JobFields {
    /// These fields of a job. `None` if there are none. The caller lists each field once, in a fixed order.
    pub fn of(job: &JobSpec, read: &[JobField]) -> Option<Arc<JobFields>> {
        let fields = read.iter().map(|field| (*field, field.of(job)));
        (!read.is_empty()).then(|| Arc::new(JobFields::new(fields.collect())))
    }
}

/// Thousandths of the GPUs of all tasks. A GPU of which only memory is taken counts 0, because its share is not known. For
/// requirements, the least number counts, and for a model, the number that is stated.
fn gpus(demand: &Demand) -> u64 {
    let of_task = |task: &TaskDemand| task.gpus.as_ref().map_or(0, |gpus| u64::from(gpus.count) * share(gpus.take));
    match &demand.kind {
        DemandKind::Tasks(task) => match (&demand.pick, &task.gpus) {
            // A task takes all GPUs that are picked on its node.
            (Some(Pick::AllGpus(picked)), Some(gpus)) => (picked.len() as u64).saturating_mul(share(gpus.take)),
            _ => of_task(task).saturating_mul(u64::from(demand.tasks)),
        },
        DemandKind::Sets(_) => sum(demand, of_task),
        DemandKind::Model(model) => u64::from(model.gpus_per_replica.unwrap_or(0)) * 1000,
        DemandKind::Requirements(asked) => {
            let least = asked.gpu.as_ref().and_then(|gpu| gpu.count.min).unwrap_or(0);
            (u64::from(least) * 1000).saturating_mul(u64::from(demand.tasks))
        }
    }
}

/// Thousandths of the GPU that such a task takes.
fn share(take: GpuTake) -> u64 {
    match take {
        GpuTake::Whole => 1000,
        GpuTake::Share(share) => u64::from(share.get()),
        GpuTake::Memory(_) => 0,
    }
}

/// Thousandths of cores of all tasks.
fn cpus(demand: &Demand) -> u64 {
    match demand.requirements() {
        Some(asked) => asked.cpu.min.unwrap_or(0).saturating_mul(1000).saturating_mul(u64::from(demand.tasks)),
        None => sum(demand, |task| task.cpu.get()),
    }
}

/// Bytes of RAM of all tasks.
fn ram(demand: &Demand) -> u64 {
    match demand.requirements() {
        Some(asked) => asked.memory.min.unwrap_or(Bytes::ZERO).get().saturating_mul(u64::from(demand.tasks)),
        None => sum(demand, |task| task.ram.get()),
    }
}

fn sum(demand: &Demand, of_task: impl Fn(&TaskDemand) -> u64) -> u64 {
    let of_kind = |(tasks, task): (u32, &TaskDemand)| of_task(task).saturating_mul(u64::from(tasks));
    demand.kinds_of_tasks().map(of_kind).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GpuDemand, TaskSet};
    use dryrack_units::{GpuShare, MilliCpu};

    fn task(cores: u64, gpus: u32, take: GpuTake) -> TaskDemand {
        let gpus = (gpus > 0).then(|| GpuDemand { count: gpus, take, models: Vec::new(), min_memory: None });
        TaskDemand { ram: Bytes::from_gib(cores), gpus, ..TaskDemand::cpu_only(MilliCpu::from_cores(cores)) }
    }

    fn read(demand: Demand, field: JobField) -> FieldValue {
        let job = JobSpec::of("job".into(), demand);
        JobFields::of(&job, &[field]).and_then(|fields| fields.get(field).cloned()).expect("it was read")
    }

    #[test]
    fn resources_are_those_of_all_tasks() {
        let set = |name: &str, tasks, task| TaskSet { name: name.into(), tasks, min_tasks: 1, task };
        let sets: Arc<[TaskSet]> =
            vec![set("launcher", 1, task(2, 0, GpuTake::Whole)), set("worker", 3, task(4, 2, GpuTake::Whole))].into();
        let sets = Demand::of(sets);
        assert_eq!(read(sets.clone(), JobField::Gpus), FieldValue::Thousandths(6000));
        assert_eq!(read(sets.clone(), JobField::Cpus), FieldValue::Thousandths(14_000));
        assert_eq!(read(sets, JobField::Ram), FieldValue::Size(Bytes::from_gib(14)));
        let halves = Demand { tasks: 3, ..Demand::of(task(1, 1, GpuTake::Share(GpuShare::new(500)))) };
        assert_eq!(read(halves, JobField::Gpus), FieldValue::Thousandths(1500));
        let memory = Demand::of(task(1, 1, GpuTake::Memory(Bytes::from_gib(8))));
        assert_eq!(read(memory, JobField::Gpus), FieldValue::Thousandths(0));
    }

    #[test]
    fn a_name_that_a_job_lacks_is_empty() {
        for field in [JobField::User, JobField::Project, JobField::Queue, JobField::Model] {
            assert_eq!(read(Demand::of(task(1, 0, GpuTake::Whole)), field), FieldValue::Text("".into()));
        }
    }
}
