//! The limits of QOS.

use std::sync::Arc;

use super::cluster::{Slurm, held_by, requested};
use super::denied_as::DeniedAs;
use super::usage::qos_of;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use dryrack_event::Reason;
use dryrack_scheduler::slurm::Qos;
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

    /// Why the QOS of a job does not let it start now. `None` if it does.
    pub(super) fn denied_by_qos(&self, core: &Core, spec: &JobSpec) -> Option<Reason> {
        let name = qos_of(spec)?;
        let qos = core.profile.slurm.as_ref()?.qos(name)?;
        let usage = self.slurm.as_ref()?.usage.get(name);
        let held = usage.map(|usage| usage.held_of(spec, qos)).unwrap_or_default();
        qos.denies(requested(spec), limit_of_spec(spec), held)
    }
}

impl Slurm {
    /// What decides, beside time and the running jobs, whether a job is denied. `None` if nothing can deny it.
    pub(super) fn denied_as(&self, core: &Core, spec: &JobSpec) -> Option<DeniedAs> {
        if !self.may_deny(core, spec) {
            return None;
        }
        let options = core.profile.slurm.as_ref();
        let qos = options.zip(qos_of(spec)).and_then(|(options, name)| options.qos(name));
        Some(qos.map_or_else(DeniedAs::default, |qos| DeniedAs::of(qos, spec, requested(spec), limit_of_spec(spec))))
    }

    /// Whether the reservation or the QOS of a job can deny it at some time.
    pub(super) fn may_deny(&self, core: &Core, spec: &JobSpec) -> bool {
        let options = core.profile.slurm.as_ref();
        let qos = options.zip(qos_of(spec)).and_then(|(options, name)| options.qos(name));
        self.reservation_of(core, spec).is_some() || qos.is_some_and(Qos::has_limits)
    }

    fn add_usage(&mut self, core: &Core, index: ReplicaIndex) {
        let spec = &core.store.job_of(index).spec;
        let (Some(name), Some(placement)) = (qos_of(spec), &core.store[index].placement) else { return };
        let held = held_by(placement.claims());
        self.usage.entry(Arc::clone(name)).or_default().add(spec, held);
    }
}
