//! Which rows of a scanned flow go first when there are to be fewer.

use super::options::PackedScaleDown;
use super::{Control, ReplicaIndex};
use crate::event::Phase;
use crate::fleet::NodeState;
use crate::ids::NodeId;
use crate::workload::Strategy;

/// How well a row is (GPUStack 0.6.0 and 2.3.0, `StatusScorer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wellness {
    /// It has no node, or one that is not ready, or it is in error.
    Unwell,
    OnTheWay,
    Runs,
}

impl Control {
    /// First how well it is, then how crowded its node is, then its row. The program adds up 100, 10 and 1 times three
    /// scores, of which the second is that of layers that do not lie on a GPU; no sum of the latter outweighs the first.
    pub(in crate::control) fn sort_most_crowded_first(&self, replicas: &mut Vec<ReplicaIndex>) {
        let mut keyed: Vec<(Wellness, f64, Option<u64>, ReplicaIndex)> = Vec::new();
        for index in replicas.iter() {
            let row = self.scan.as_ref().and_then(|scan| scan.row_of.get(index).copied());
            keyed.push((self.wellness(*index), self.placement_score(*index), row, *index));
        }
        keyed.sort_by(|one, two| {
            let by_score = one.1.total_cmp(&two.1);
            one.0.cmp(&two.0).then(by_score).then((one.2, one.3).cmp(&(two.2, two.3)))
        });
        *replicas = keyed.into_iter().map(|(.., index)| index).collect();
    }

    /// Whether these replicas of one job cannot be made fewer.
    pub(in crate::control) fn packed_scale_down_fails(&self, replicas: &[ReplicaIndex]) -> bool {
        let fails = self.profile.scan.is_some_and(|options| options.packed_scale_down == PackedScaleDown::Fails);
        let is_packed = |index: &ReplicaIndex| {
            let demand = &self.demands[self.replicas[*index as usize].demand as usize].demand;
            demand.deployment.as_ref().is_some_and(|deployment| deployment.strategy == Strategy::Binpack)
        };
        fails && replicas.iter().any(|index| is_packed(index) && self.node_of(*index).is_some())
    }

    /// The node that a row names.
    fn node_of(&self, index: ReplicaIndex) -> Option<NodeId> {
        let placement = self.replicas[index as usize].placement.as_ref();
        let placed = placement.and_then(|placement| placement.claims().first()).map(|claim| claim.node);
        placed.or(self.carried(index).map(|carried| carried.node))
    }

    fn wellness(&self, index: ReplicaIndex) -> Wellness {
        let replica = &self.replicas[index as usize];
        let Some(node) = self.node_of(index) else { return Wellness::Unwell };
        let state = self.fleet.node(node).status.state;
        let in_error = replica.phase == Phase::Pending && replica.wait == crate::control::store::Wait::BackOff;
        match (state, replica.phase) {
            (NodeState::NotReady, _) => Wellness::Unwell,
            _ if in_error => Wellness::Unwell,
            (NodeState::Ready, Phase::Running) => Wellness::Runs,
            (_, _) => Wellness::OnTheWay,
        }
    }

    fn placement_score(&self, _index: ReplicaIndex) -> f64 {
        0.0
    }
}
