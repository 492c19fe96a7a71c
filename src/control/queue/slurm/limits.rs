//! The limits of QOS.

use std::sync::Arc;

use super::cluster::{Slurm, held_by, requested};
use super::denied_as::DeniedAs;
use super::usage::qos_of;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use dryrack_event::Reason;
use dryrack_scheduler::slurm::{HeldOf, LimitingQos, Partition, Qos, SlurmOptions};
use dryrack_units::SimDuration;
use dryrack_workload::JobSpec;

/// The time limit of a job.
fn limit_of_spec(spec: &JobSpec) -> SimDuration {
    spec.estimate.unwrap_or(SimDuration::MAX)
}

impl Queue {
    /// Counts what the running jobs of each QOS hold. A pass does so once, and adds each job that it starts.
    pub(in crate::queue) fn count_usage(&mut self, core: &Core) {
        let has_limits = core.profile.slurm.as_ref().is_some_and(|slurm| !slurm.qos.is_empty());
        let Some(slurm) = self.slurm.as_mut().filter(|_| has_limits) else { return };
        slurm.usage.clear();
        for index in core.holders() {
            slurm.add_usage(core, index);
        }
    }

    /// Adds a job that has just been placed to what its QOS holds.
    pub(in crate::queue) fn note_started(&mut self, core: &Core, index: ReplicaIndex) {
        if let Some(slurm) = &mut self.slurm {
            slurm.add_usage(core, index);
        }
    }

    /// Why no QOS lets a job start now in one of its partitions. `None` if they do.
    pub(super) fn denied_by_qos(&self, core: &Core, spec: &JobSpec, section: usize) -> Option<Reason> {
        let slurm = self.slurm.as_ref()?;
        let held = |qos: &Qos| slurm.usage.get(&qos.name).map(|usage| usage.held_of(spec, qos)).unwrap_or_default();
        slurm.limiting_qos(core, spec, section).denies(requested(spec), limit_of_spec(spec), held)
    }
}

/// Why QOS do not let a job start in a partition even if nothing else runs. `None` if they do.
pub(super) fn never_by_qos(options: &SlurmOptions, partition: &Partition, spec: &JobSpec) -> Option<Reason> {
    let limiting = options.limiting_qos(partition, qos_of(spec).map(|name| &**name));
    limiting.denies(requested(spec), limit_of_spec(spec), |_| HeldOf::default())
}

impl Slurm {
    /// The QOS that limit a job in one of its partitions.
    fn limiting_qos<'c>(&self, core: &'c Core, spec: &JobSpec, section: usize) -> LimitingQos<'c> {
        let name = qos_of(spec).map(|name| &**name);
        let options = core.profile.slurm.as_ref();
        options.map(|options| options.limiting_qos(&self.partitions[section].options, name)).unwrap_or_default()
    }

    /// What decides, beside time and the running jobs, whether a job of one partition is denied. `None` if nothing can deny
    /// it.
    pub(super) fn denied_as(&self, core: &Core, spec: &JobSpec, section: usize) -> Option<DeniedAs> {
        let is_deniable = self.may_deny(core, spec);
        is_deniable.then(|| {
            let limiting = self.limiting_qos(core, spec, section);
            DeniedAs::of(limiting, spec, requested(spec), limit_of_spec(spec))
        })
    }

    /// Whether the reservation or a QOS of a job can deny it at some time in some of its partitions.
    pub(super) fn may_deny(&self, core: &Core, spec: &JobSpec) -> bool {
        let has_limits = |section| self.limiting_qos(core, spec, section).has_limits();
        self.reservation_of(core, spec).is_some() || self.sections_of(spec).into_iter().any(has_limits)
    }

    fn add_usage(&mut self, core: &Core, index: ReplicaIndex) {
        let Some(placement) = &core.store[index].placement else { return };
        let spec = &core.store.job_of(index).spec;
        let held = held_by(placement.claims());
        let limiting = self.limiting_qos(core, spec, self.section_of(core, index));
        for qos in limiting.each() {
            self.usage.entry(Arc::clone(&qos.name)).or_default().add(spec, held);
        }
    }
}
