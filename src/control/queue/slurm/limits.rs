//! The limits of QOS.

use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;

use super::cluster::{Slurm, held_by, requested};
use super::denied_as::DeniedAs;
use super::usage::{NodesCounted, qos_of};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use dryrack_event::Reason;
use dryrack_ids::NodeId;
use dryrack_scheduler::slurm::{HeldOf, LimitingQos, Partition, Qos, Requested, SlurmOptions};
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

    /// Why no QOS lets a job start now in one of its partitions, wherever it would start. `None` if they do.
    pub(super) fn denied_by_qos(&self, core: &Core, spec: &JobSpec, section: usize) -> Option<Reason> {
        self.denied_beside(core, (spec, section), requested(spec), &NodesCounted::None)
    }

    /// Why no QOS lets a job start now on the nodes that were chosen for it, or wait for nodes if none were. `None` if they
    /// do. A node on which other jobs of the limit run counts only once. If no node was found, none counts as shared.
    /// (Measured with Slurm 22.05.8; see `_get_unique_job_node_cnt` in `src/slurmctld/acct_policy.c`.)
    pub(in crate::queue) fn denied_by_nodes(
        &self,
        core: &Core,
        (spec, section): (&JobSpec, usize),
        chosen: impl FnOnce() -> Option<BTreeSet<NodeId>>,
    ) -> Option<Reason> {
        if !self.slurm.as_ref()?.limiting_qos(core, spec, section).each().any(Qos::counts_nodes) {
            return None;
        }
        let Some(nodes) = chosen() else {
            return self.denied_beside(core, (spec, section), requested(spec), &NodesCounted::All);
        };
        let asked = Requested { nodes: nodes.len() as u64, ..requested(spec) };
        self.denied_beside(core, (spec, section), asked, &NodesCounted::ExceptOf(&nodes))
    }

    fn denied_beside(
        &self,
        core: &Core,
        (spec, section): (&JobSpec, usize),
        asked: Requested,
        counted: &NodesCounted<'_>,
    ) -> Option<Reason> {
        let slurm = self.slurm.as_ref()?;
        let usage = |qos: &Qos| slurm.usage.get(&qos.name);
        let held = |qos: &Qos| usage(qos).map(|usage| usage.held_of(spec, qos, counted)).unwrap_or_default();
        slurm.limiting_qos(core, spec, section).denies(asked, limit_of_spec(spec), held)
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
        let nodes: SmallVec<[NodeId; 4]> = placement.claims().iter().map(|claim| claim.node).collect();
        let limiting = self.limiting_qos(core, spec, self.section_of(core, index));
        for qos in limiting.each() {
            let nodes = if qos.counts_nodes() { &nodes[..] } else { &[] };
            self.usage.entry(Arc::clone(&qos.name)).or_default().add(spec, held, nodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile_tests::with;
    use dryrack_fleet::{NodeClaim, Placement};
    use dryrack_ids::JobId;
    use dryrack_scheduler::Grouping;
    use dryrack_units::MilliCpu;
    use dryrack_workload::{Demand, Gang, SlurmTerms, TaskDemand};

    /// A job of two nodes with one core on each.
    fn job_of(qos: &str) -> JobSpec {
        let task = TaskDemand::cpu_only(MilliCpu::from_cores(1));
        let demand = Demand { tasks: 2, gang: Gang::Spread, ..Demand::of(task) };
        let slurm =
            SlurmTerms { partition: None, account: None, qos: Some(qos.into()), reservation: None, requeue: true };
        JobSpec { slurm: Some(slurm.into()), ..JobSpec::of("j".into(), demand) }
    }

    fn on(nodes: &[usize]) -> Placement {
        let claim = |node: &usize| NodeClaim {
            tasks: 1,
            cpu: MilliCpu::from_cores(1),
            ..NodeClaim::of_nothing(NodeId::new(*node))
        };
        Placement::new(nodes.iter().map(claim).collect())
    }

    #[test]
    fn a_job_is_denied_by_the_nodes_that_it_does_not_share_with_the_running_jobs_of_its_qos() {
        let qos = json!({"qos": [
            {"name": "nodes", "grp_tres": {"node": 3}},
            {"name": "cores", "grp_tres": {"cpu": 3}},
        ]});
        let mut core = Core::new(Arc::new(with(&[("slurm", qos)])), 1, Grouping::Classes);
        let mut queue = Queue::new(&mut core);
        // A job of each QOS runs on nodes 0 and 1.
        for (job, qos) in ["nodes", "cores"].into_iter().enumerate() {
            core.add_job(&Arc::new(job_of(qos)), 0);
            let index = core.add_replica(JobId::new(job), 0);
            core.store[index].placement = Some(on(&[0, 1]));
            queue.note_started(&core, index);
        }
        let denied = |qos: &str, chosen: Option<&[usize]>| {
            queue.denied_by_nodes(&core, (&job_of(qos), 0), || Some(on(chosen?).nodes().collect()))
        };
        let full = Some(Reason::QosGrpTres);
        assert_eq!(denied("nodes", Some(&[0, 1])), None);
        assert_eq!(denied("nodes", Some(&[1, 2])), None);
        assert_eq!(denied("nodes", Some(&[2, 3])), full);
        // The nodes that were chosen count, and not those that the job asks for.
        assert_eq!(denied("nodes", Some(&[2])), None);
        assert_eq!(denied("nodes", Some(&[0, 2, 3])), full);
        assert_eq!(denied("nodes", None), full);
        // Other limits do not depend on nodes, and are checked before nodes are chosen.
        assert_eq!(denied("cores", Some(&[0, 1])), None);
        assert_eq!(denied("cores", None), None);
        assert_eq!(queue.denied_by_qos(&core, &job_of("cores"), 0), full);
        assert_eq!(queue.denied_by_qos(&core, &job_of("nodes"), 0), None);
    }
}
