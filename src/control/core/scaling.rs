//! The order in which scaling down removes replicas.

use std::cmp::Reverse;

use super::Core;
use super::store::ReplicaIndex;
use dryrack_event::Phase;
use dryrack_fleet::{GpuState, NodeState};
use dryrack_planted::planted;

impl Core {
    /// Sorts replicas so that the first to remove comes first: by health, then the latest change of phase, then the
    /// highest index.
    pub(crate) fn sort_least_healthy_first(&self, replicas: &mut [ReplicaIndex]) {
        replicas.sort_by_key(|index| {
            let replica = &self.store[*index];
            (self.health(*index), Reverse(replica.since), Reverse(*index))
        });
        if planted!(OldestIsScaledDown) {
            replicas.sort_by_key(|index| (self.health(*index), *index));
        }
    }

    /// How healthy a replica is, in ascending order: stopping, waiting, about to run, running on a node or GPU that is
    /// not ready, running on ready nodes and GPUs.
    fn health(&self, index: ReplicaIndex) -> u8 {
        let replica = &self.store[index];
        match replica.phase {
            Phase::Ended | Phase::Stopping => 0,
            Phase::Pending | Phase::Analysing => 1,
            Phase::Scheduled | Phase::Preparing => 2,
            Phase::Running => 3 + u8::from(self.is_on_ready_nodes(index)),
        }
    }

    fn is_on_ready_nodes(&self, index: ReplicaIndex) -> bool {
        let placement = self.store[index].placement.as_ref().expect("what runs has a placement");
        placement.claims().iter().all(|claim| {
            let status = &self.fleet.node(claim.node).status;
            status.state == NodeState::Ready
                && claim.gpus.iter().all(|part| status.gpus[usize::from(part.index)].state == GpuState::Ready)
        })
    }
}
