//! The order in which rows of a scanned flow go when a job is scaled down.

use std::collections::BTreeMap;

use super::options::PackedScaleDown;
use super::{Control, ReplicaIndex, main_node};
use dryrack_event::Phase;
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::deployment::placement_scores;
use dryrack_units::Score;
use dryrack_workload::Strategy;

/// How well a row is (GPUStack 0.6.0 and 2.3.0, `StatusScorer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wellness {
    /// It has no node, or one that is not ready, or it is in error.
    Unwell,
    OnTheWay,
    Runs,
}

impl Control {
    /// Sorts by how well a row is, then by how crowded its node is, then by row. The program adds up three scores
    /// with the weights 100, 10 and 1. The second is the score of layers that do not lie on a GPU. The latter two
    /// never outweigh the first.
    pub(crate) fn sort_most_crowded_first(&self, replicas: &mut Vec<ReplicaIndex>) {
        let scores = self.places_scored(replicas);
        let key = |index: &ReplicaIndex| (self.scan.as_ref().and_then(|scan| scan.row_of.get(index).copied()), *index);
        let mut keyed: Vec<_> =
            replicas.iter().map(|index| (self.wellness(*index), scores[index], key(index))).collect();
        keyed.sort();
        *replicas = keyed.into_iter().map(|(.., (_, index))| index).collect();
    }

    /// Whether scaling down these replicas of one job fails.
    pub(crate) fn packed_scale_down_fails(&self, replicas: &[ReplicaIndex]) -> bool {
        let fails = self.profile.scan.is_some_and(|options| options.packed_scale_down == PackedScaleDown::Fails);
        let is_packed = |index: &ReplicaIndex| {
            let demand = &self.demands[self.replicas[*index as usize].demand as usize].demand;
            demand.deployment.as_ref().is_some_and(|deployment| deployment.strategy == Strategy::Binpack)
        };
        fails && replicas.iter().any(|index| is_packed(index) && self.node_of(*index).is_some())
    }

    /// Where a row is, or is recorded to be.
    fn place_of(&self, index: ReplicaIndex) -> Option<Placement> {
        let placement = self.replicas[index as usize].placement.clone();
        placement.or_else(|| self.carried(index).map(|carried| carried.placement.clone()))
    }

    /// The node that a row names.
    fn node_of(&self, index: ReplicaIndex) -> Option<NodeId> {
        self.place_of(index).and_then(|placement| main_node(&placement))
    }

    fn wellness(&self, index: ReplicaIndex) -> Wellness {
        let replica = &self.replicas[index as usize];
        let Some(node) = self.node_of(index) else { return Wellness::Unwell };
        let state = self.fleet.node(node).status.state;
        let in_error = replica.phase == Phase::Pending && replica.wait == crate::store::Wait::BackOff;
        match (state, replica.phase) {
            (NodeState::NotReady, _) => Wellness::Unwell,
            _ if in_error => Wellness::Unwell,
            (NodeState::Ready, Phase::Running) => Wellness::Runs,
            (_, _) => Wellness::OnTheWay,
        }
    }

    /// Scores of the places of these replicas of one job. Zero for a replica that has no place or is not of a model.
    fn places_scored(&self, replicas: &[ReplicaIndex]) -> BTreeMap<ReplicaIndex, Score> {
        let mut scores: BTreeMap<ReplicaIndex, Score> = replicas.iter().map(|index| (*index, Score::ZERO)).collect();
        let placed: Vec<(ReplicaIndex, Placement)> =
            replicas.iter().filter_map(|index| Some((*index, self.place_of(*index)?))).collect();
        let Some((first, _)) = placed.first() else { return scores };
        let replica = &self.replicas[*first as usize];
        let demand = &self.demands[replica.demand as usize].demand;
        let Some(deployment) = &demand.deployment else { return scores };
        let options = &self.profile.scheduler.deployments;
        let places: Vec<&Placement> = placed.iter().map(|(_, placement)| placement).collect();
        let found = placement_scores(options, demand, deployment, &self.fleet, self.context(replica.run()), &places);
        scores.extend(placed.iter().map(|(index, _)| *index).zip(found));
        scores
    }
}
