//! Limits that keep a job out for good: a job that exceeds one of them does not start even if nothing else runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::admission::{Admission, Terms};
use super::profile::Profile;
use super::queue::slurm_never_starts;
use dryrack_event::Reason;
use dryrack_fleet::Fleet;
use dryrack_policy::{Holding, Quotas};
use dryrack_units::SimTime;
use dryrack_workload::{JobSpec, QueuedPart, QueuedPodSet};

/// The namespace and the queue of a workload, and its pods.
type Asked = (Arc<str>, Arc<str>, Vec<QueuedPodSet>);

/// The limits of a profile and of Kueue's queues, from one time on.
pub struct LastingLimits<'a> {
    profile: &'a Profile,
    quotas: Quotas,
    /// Kueue with its queues before the first change, and after each change. No queue is stopped.
    admissions: Vec<Admission>,
    /// The first of them that counts from that time on.
    first: usize,
    now: SimTime,
    /// What Kueue says of equal workloads.
    known: BTreeMap<Asked, Option<Reason>>,
    /// What Kueue may add to the pods of equal pod sets.
    terms: BTreeMap<(Asked, Option<u32>), BTreeSet<Terms>>,
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
        let admissions = (0..=kueue.len()).map(admission).collect();
        let (known, terms) = (BTreeMap::new(), BTreeMap::new());
        LastingLimits { profile, quotas, admissions, first, now, known, terms }
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
        // What is admitted already is not judged again.
        let part = spec.queued.as_ref().filter(|part| part.workload.held.is_none())?;
        let LastingLimits { admissions, first, known, .. } = self;
        let judge = || {
            let mut reasons = admissions[*first..].iter_mut().map(|admission| admission.never_admits(part));
            let first = reasons.next().flatten();
            first.filter(|_| reasons.all(|reason| reason.is_some()))
        };
        *known.entry(asked(part)).or_insert_with(judge)
    }

    /// The job as it is placed after Kueue has admitted it, once for each choice of flavors that its pods may get or have
    /// got. Empty if Kueue adds nothing to its pods.
    pub fn with_flavors(&mut self, spec: &JobSpec) -> Vec<JobSpec> {
        let Some(part) = &spec.queued else { return Vec::new() };
        let LastingLimits { admissions, terms, .. } = self;
        let find = || admissions.iter_mut().flat_map(|admission| admission.possible_terms(part)).collect();
        let terms = terms.entry((asked(part), part.pod_set)).or_insert_with(find);
        if terms.contains(&Terms::default()) {
            return Vec::new();
        }
        terms.iter().map(|terms| terms.applied_to(spec)).collect()
    }
}

fn asked(part: &QueuedPart) -> Asked {
    let workload = &part.workload;
    (Arc::clone(&workload.namespace), Arc::clone(&workload.queue), workload.pod_sets.clone())
}
