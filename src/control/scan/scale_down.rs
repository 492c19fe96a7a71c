//! The order in which scaling down removes rows of a scanned flow.

use std::collections::BTreeMap;

use super::options::PackedScaleDown;
use super::{ReplicaIndex, Scanned, main_node};
use crate::core::Core;
use crate::core::store::Wait;
use dryrack_event::Phase;
use dryrack_fleet::{NodeState, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::placement_scores;
use dryrack_units::Score;
use dryrack_workload::Strategy;

/// How close a row is to running well (GPUStack 0.6.0 and 2.3.0, `StatusScorer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    /// The row has no node, its node is not ready, or the row is in error.
    Unwell,
    OnTheWay,
    Runs,
}

impl Scanned {
    /// Sorts rows by how well they are, then by how crowded their nodes are, then by row. GPUStack adds up three scores
    /// with the weights 100, 10 and 1. The second score counts the layers that are not on a GPU. The second and third
    /// score together never outweigh the first.
    pub(super) fn sort_most_crowded_first(&self, core: &Core, replicas: &mut Vec<ReplicaIndex>) {
        let scores = self.places_scored(core, replicas);
        let key = |index: &ReplicaIndex| (self.row_of.get(index).copied(), *index);
        let mut keyed: Vec<_> =
            replicas.iter().map(|index| (self.health(core, *index), scores[index], key(index))).collect();
        keyed.sort();
        *replicas = keyed.into_iter().map(|(.., (_, index))| index).collect();
    }

    /// Whether scaling down these replicas of one job fails.
    pub(super) fn packed_scale_down_fails(&self, core: &Core, replicas: &[ReplicaIndex]) -> bool {
        let fails = self.options.packed_scale_down == PackedScaleDown::Fails;
        let is_packed = |index: &ReplicaIndex| {
            let demand = core.store.demand_of(*index);
            demand.model().is_some_and(|deployment| deployment.strategy == Strategy::Binpack)
        };
        fails && replicas.iter().any(|index| is_packed(index) && self.node_of(core, *index).is_some())
    }

    /// The place of a row, or the place that it carries from an earlier attempt.
    pub(crate) fn place_of(&self, core: &Core, index: ReplicaIndex) -> Option<Placement> {
        let placement = core.store[index].placement.clone();
        placement.or_else(|| self.carried(index).map(|carried| carried.placement.clone()))
    }

    /// The main node of a row's place.
    fn node_of(&self, core: &Core, index: ReplicaIndex) -> Option<NodeId> {
        self.place_of(core, index).and_then(|placement| main_node(&placement))
    }

    fn health(&self, core: &Core, index: ReplicaIndex) -> Health {
        let replica = &core.store[index];
        let Some(node) = self.node_of(core, index) else { return Health::Unwell };
        let state = core.fleet.node(node).status.state;
        let in_error = replica.phase == Phase::Pending && replica.wait == Wait::BackOff;
        match (state, replica.phase) {
            (NodeState::NotReady, _) => Health::Unwell,
            _ if in_error => Health::Unwell,
            (NodeState::Ready, Phase::Running) => Health::Runs,
            (_, _) => Health::OnTheWay,
        }
    }

    /// The scores of the places of these replicas of one job. Zero for a replica that has no place or serves no model.
    fn places_scored(&self, core: &Core, replicas: &[ReplicaIndex]) -> BTreeMap<ReplicaIndex, Score> {
        let mut scores: BTreeMap<ReplicaIndex, Score> = replicas.iter().map(|index| (*index, Score::ZERO)).collect();
        let placed: Vec<(ReplicaIndex, Placement)> =
            replicas.iter().filter_map(|index| Some((*index, self.place_of(core, *index)?))).collect();
        let Some((first, _)) = placed.first() else { return scores };
        let replica = &core.store[*first];
        let demand = core.store.demand(replica.demand);
        let options = &core.profile.scheduler;
        let places: Vec<&Placement> = placed.iter().map(|(_, placement)| placement).collect();
        let found = placement_scores(options, demand, core.context(replica.attempt_id()), &core.fleet, &places);
        scores.extend(placed.iter().map(|(index, _)| *index).zip(found));
        scores
    }
}
