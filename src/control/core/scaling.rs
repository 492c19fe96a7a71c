//! Which replicas of a job count, and the order in which scaling down removes replicas.

use std::cmp::Reverse;

use super::Core;
use super::store::ReplicaIndex;
use dryrack_event::Phase;
use dryrack_fleet::{GpuState, NodeState};
use dryrack_ids::JobId;

impl Core {
    pub(crate) fn counted(&self, job: JobId) -> Vec<ReplicaIndex> {
        self.jobs[job.index()].replicas().filter(|index| self.counts(*index)).collect()
    }

    /// Whether a lost replica needs no replacement, because scaling down would have removed a replica of the job
    /// anyway.
    pub(crate) fn is_surplus(&self, index: ReplicaIndex) -> bool {
        let job = self.replicas[index as usize].job;
        let unmet = self.jobs[job.index()].unmet;
        unmet.is_some_and(|wanted| self.counts(index) && self.counted(job).len() as u32 > wanted)
    }

    /// Whether a replica counts. A replica that has another attempt never counts as ended, because that attempt becomes
    /// pending at once.
    pub(super) fn counts(&self, index: ReplicaIndex) -> bool {
        let replica = &self.replicas[index as usize];
        replica.phase != Phase::Ended && !replica.dismissed
    }

    /// Sorts replicas so that the first to remove comes first: by health, then the latest change of phase, then the
    /// highest index.
    pub(crate) fn sort_least_healthy_first(&self, replicas: &mut [ReplicaIndex]) {
        replicas.sort_by_key(|index| {
            let replica = &self.replicas[*index as usize];
            (self.health(*index), Reverse(replica.since), Reverse(*index))
        });
    }

    /// How healthy a replica is, in ascending order: stopping, waiting, about to run, running on a node or GPU that is
    /// not ready, running on ready nodes and GPUs.
    fn health(&self, index: ReplicaIndex) -> u8 {
        let replica = &self.replicas[index as usize];
        match replica.phase {
            Phase::Ended | Phase::Stopping => 0,
            Phase::Pending | Phase::Analysing => 1,
            Phase::Scheduled | Phase::Preparing => 2,
            Phase::Running => 3 + u8::from(self.is_on_ready_nodes(index)),
        }
    }

    fn is_on_ready_nodes(&self, index: ReplicaIndex) -> bool {
        let placement = self.replicas[index as usize].placement.as_ref().expect("what runs has a placement");
        placement.claims().iter().all(|claim| {
            let status = &self.fleet.node(claim.node).status;
            status.state == NodeState::Ready
                && claim.gpus.iter().all(|part| status.gpus[usize::from(part.index)].state == GpuState::Ready)
        })
    }
}
