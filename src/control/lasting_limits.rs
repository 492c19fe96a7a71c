//! Limits that keep a job out for good: a job that exceeds one of them does not start even if nothing else runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::admission::Admission;
use super::profile::Profile;
use super::queue::slurm_never_starts;
use dryrack_event::Reason;
use dryrack_fleet::Fleet;
use dryrack_policy::{Holding, Quotas};
use dryrack_units::SimTime;
use dryrack_workload::{JobSpec, QueuedPodSet};

/// The namespace and the queue of a workload, and its pods.
type Asked = (Arc<str>, Arc<str>, Vec<QueuedPodSet>);

/// The limits of a profile and of Kueue's queues, from one time on.
pub struct LastingLimits<'a> {
    profile: &'a Profile,
    quotas: Quotas,
    /// Kueue with its queues as they are at that time, and after each later change.
    admissions: Vec<Admission>,
    now: SimTime,
    /// What Kueue says of equal workloads.
    known: BTreeMap<Asked, Option<Reason>>,
}

impl LastingLimits<'_> {
    /// The limits from `now` on. `kueue` are the lists of Kueue's objects, and when they are created or changed.
    pub fn new<'a>(
        profile: &'a Profile,
        kueue: &[(SimTime, Arc<str>)],
        fleet: &Fleet,
        now: SimTime,
    ) -> LastingLimits<'a> {
        let quotas = Quotas::new(&profile.policies.quotas);
        let first = kueue.partition_point(|(at, _)| *at <= now);
        let admission = |count: usize| Admission::of_objects(kueue[..count].iter().map(|(_, list)| &**list), fleet);
        let admissions = (first..=kueue.len()).map(admission).collect();
        LastingLimits { profile, quotas, admissions, now, known: BTreeMap::new() }
    }

    /// Why a limit keeps out a job, or each replica of it, even if nothing else runs. `None` if none does. What depends
    /// on the nodes is not judged, such as a quota of the price.
    pub fn keeps_out(&mut self, spec: &JobSpec) -> Option<Reason> {
        let slurm = self.profile.slurm.as_ref();
        let by_slurm = slurm.and_then(|slurm| slurm_never_starts(slurm, spec, self.now));
        by_slurm.or_else(|| self.by_project(spec)).or_else(|| self.by_kueue(spec))
    }

    fn by_project(&self, spec: &JobSpec) -> Option<Reason> {
        let least = || Holding::least_of(&spec.demand);
        let is_over = !self.quotas.is_empty() && !self.quotas.admits(spec.project.as_deref(), least());
        is_over.then_some(Reason::QuotaExceeded)
    }

    fn by_kueue(&mut self, spec: &JobSpec) -> Option<Reason> {
        let part = spec.queued.as_ref()?;
        let workload = &part.workload;
        let asked = (Arc::clone(&workload.namespace), Arc::clone(&workload.queue), workload.pod_sets.clone());
        let LastingLimits { admissions, known, now, .. } = self;
        let judge = || {
            let mut reasons = admissions.iter_mut().map(|admission| admission.never_admits(part, *now));
            let first = reasons.next().flatten();
            first.filter(|_| reasons.all(|reason| reason.is_some()))
        };
        *known.entry(asked).or_insert_with(judge)
    }
}
