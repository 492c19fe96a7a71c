//! Instances for replicas that wait for room. Such a replica is tried on instances that a cloud could make. If it fits
//! there, these instances are requested. Once they are up, the flow finds them like any other node.
//!
//! Waiting replicas are tried in the order of the flow, on a copy of the fleet. In the copy, every instance that is on
//! its way is up, and holds the replicas that it was requested for. A replica that still fits nowhere gets the cheapest
//! offer on which it fits, with as many instances as it needs. The search ends as soon as no fleet can get another
//! instance, because of its maximum or because its cloud has none. So a long queue costs nothing then.

use std::collections::{BTreeMap, BTreeSet};

use super::Core;
use super::store::ReplicaIndex;
use super::timer::Timer;
use dryrack_event::Phase;
use dryrack_fleet::{Fleet, NodeState, Placement};
use dryrack_ids::{FleetId, NodeId};
use dryrack_scheduler::{Candidate, Decision, decide_for};
use dryrack_units::{SimDuration, SimTime};

/// How long an offer is paused after one of its instances has failed to come up, and the longest such pause. Each
/// further failure doubles the pause.
///
/// Source: Kubernetes cluster-autoscaler 1.31, defaults of `--initial-node-group-backoff-duration` and
/// `--max-node-group-backoff-duration`.
const FIRST_PAUSE: SimDuration = SimDuration::from_secs(5 * 60);
const LONGEST_PAUSE: SimDuration = SimDuration::from_secs(30 * 60);

/// The waiting replicas for which instances are on their way, and the offers that are paused.
#[derive(Default)]
pub(super) struct Growing {
    /// Where each of these replicas goes once its instances are up.
    coming_for: BTreeMap<ReplicaIndex, Placement>,
    /// Demands that no instance of any cloud would hold.
    hopeless: BTreeSet<u32>,
    /// Offers whose instances have failed to come up, with the end and the length of their pause.
    pauses: BTreeMap<(FleetId, u32), (SimTime, SimDuration)>,
    /// The fleet's growth, and the waiting replicas, at the last search.
    seen: Option<(u64, Vec<ReplicaIndex>)>,
}

impl Core {
    /// Whether a cloud could make another instance for a waiting replica.
    pub(crate) fn may_grow(&self) -> bool {
        self.grows_for_waiting && self.clouds().any(|fleet| self.fleet.instances_left(fleet) > 0)
    }

    /// Requests instances for the replicas of `waiting` that find no room. `waiting` is in the order in which the flow
    /// would place them.
    pub(crate) fn request_instances(&mut self, waiting: Vec<ReplicaIndex>) {
        let seen = Some((self.fleet.growth(), waiting));
        if self.growing.seen == seen {
            return;
        }
        let Some((_, waiting)) = &seen else { return };
        self.forget_who_is_served();
        let is_open = |index: &ReplicaIndex| {
            let demand = self.replicas[*index as usize].demand;
            !self.growing.coming_for.contains_key(index) && !self.growing.hopeless.contains(&demand)
        };
        let open: Vec<ReplicaIndex> = waiting.iter().copied().filter(is_open).collect();
        if !open.is_empty() {
            let mut trial = self.fleet_to_come();
            for index in open {
                if !self.may_grow() {
                    break;
                }
                self.request_for(index, &mut trial);
            }
        }
        self.growing.seen = seen;
    }

    /// Forgets replicas that no longer wait, and those whose instances have been given up.
    fn forget_who_is_served(&mut self) {
        let mut coming_for = std::mem::take(&mut self.growing.coming_for);
        coming_for.retain(|index, placement| {
            let waits = |phase| matches!(phase, Phase::Pending | Phase::Analysing);
            let is_there =
                |node: NodeId| self.is_coming(node) || self.fleet.node(node).status.state == NodeState::Ready;
            let replica = self.replicas.get(*index as usize);
            replica.is_some_and(|replica| waits(replica.phase))
                && placement.claims().iter().all(|claim| is_there(claim.node))
        });
        self.growing.coming_for = coming_for;
    }

    /// The fleet once all instances that are on their way are up and hold the replicas that they were requested for.
    fn fleet_to_come(&self) -> Fleet {
        let mut fleet = self.fleet.clone();
        for node in self.coming_instances() {
            fleet.set_node_state(node, NodeState::Ready);
        }
        for placement in self.growing.coming_for.values() {
            fleet.promise(placement);
        }
        fleet
    }

    /// Tries one waiting replica, and requests instances if it fits on them.
    fn request_for(&mut self, index: ReplicaIndex, trial: &mut Fleet) {
        if let Some(found) = self.place_on(index, trial) {
            trial.promise(&found.placement);
            let comes_later = |node: NodeId| self.is_coming(node);
            if found.placement.claims().iter().any(|claim| comes_later(claim.node)) {
                self.growing.coming_for.insert(index, found.placement);
            }
            return;
        }
        let tasks = self.demand_of(index).nodes_apart().max(self.demand_of(index).tasks);
        let mut was_tried_whole = self.growing.pauses.is_empty();
        for (places, is_enough) in self.places_to_make(tasks) {
            was_tried_whole &= is_enough;
            places.iter().for_each(|node| trial.set_node_state(*node, NodeState::Ready));
            let found = self.place_on(index, trial);
            let is_used = |node: &NodeId| found.as_ref().is_some_and(|found| found.placement.touches(*node));
            places.iter().filter(|node| !is_used(node)).for_each(|node| trial.set_node_state(*node, NodeState::Gone));
            if let Some(found) = found {
                if !self.may_take_then(index, &found.placement) {
                    places.iter().for_each(|node| trial.set_node_state(*node, NodeState::Gone));
                    was_tried_whole = false;
                    continue;
                }
                trial.promise(&found.placement);
                self.make_for(&found.placement, None);
                self.growing.coming_for.insert(index, found.placement);
                return;
            }
        }
        if was_tried_whole {
            let demand = self.replicas[index as usize].demand;
            self.growing.hopeless.insert(demand);
        }
    }

    /// Whether its project may take this place beside all that it holds and all that is on its way for it.
    fn may_take_then(&self, index: ReplicaIndex, placement: &Placement) -> bool {
        let project_of =
            |index: ReplicaIndex| self.jobs[self.replicas[index as usize].job.index()].spec.project.as_ref();
        let own = project_of(index);
        let others = self.growing.coming_for.iter().filter(|(other, _)| project_of(**other) == own);
        let wanted = others.fold(self.holding(placement), |sum, (_, place)| sum.and(self.holding(place)));
        own.is_none() || self.is_within_quota(index, wanted)
    }

    /// Whether an instance is kept for somebody who still waits.
    pub(super) fn is_awaited(&self, node: NodeId) -> bool {
        self.growing.coming_for.iter().any(|(index, placement)| {
            let replica = self.replicas.get(*index as usize);
            let waits = replica.is_some_and(|replica| matches!(replica.phase, Phase::Pending | Phase::Analysing));
            waits && placement.touches(node)
        })
    }

    fn place_on(&self, index: ReplicaIndex, fleet: &Fleet) -> Option<Candidate> {
        let context = self.context(self.replicas[index as usize].run());
        match decide_for(&self.profile.scheduler, self.demand_of(index), context, fleet, self.grouping, 1) {
            Decision::Place(mut candidates) => Some(candidates.swap_remove(0)),
            Decision::Refuse { .. } => None,
        }
    }

    /// For each offer, cheapest first: the places of up to `count` instances that the cloud could make, and whether it
    /// could make all of them.
    fn places_to_make(&self, count: u32) -> Vec<(Vec<NodeId>, bool)> {
        let mut offers = Vec::new();
        for fleet in self.clouds() {
            for (offer, price, places) in self.unmade_by_offer(fleet, count) {
                if self.growing.pauses.get(&(fleet, offer)).is_some_and(|(until, _)| *until > self.now) {
                    continue;
                }
                let is_enough = places.len() as u32 == count;
                offers.push((price, places, is_enough));
            }
        }
        offers.sort_by_key(|(price, places, _)| (*price, places.first().copied()));
        offers.into_iter().map(|(_, places, is_enough)| (places, is_enough)).collect()
    }

    /// Sets how many instances of an offer a cloud has.
    pub(crate) fn set_capacity(&mut self, fleet: FleetId, offer: u32, available: u32) {
        self.fleet.set_capacity(fleet, offer, available);
        self.hope_again();
    }

    /// Pauses the offer of an instance that has failed to come up.
    pub(crate) fn offer_failed(&mut self, node: NodeId) {
        let Some((offer, fleet)) = self.offer_of(node).filter(|_| self.grows_for_waiting) else { return };
        let before = self.growing.pauses.get(&(fleet, offer)).map(|(_, pause)| pause.saturating_mul(2));
        let pause = before.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE);
        let until = self.now.saturating_add(pause);
        self.growing.pauses.insert((fleet, offer), (until, pause));
        self.timers.set(until, Timer::OfferAgain { fleet, offer, at: until });
    }

    /// Ends the count of failures of an offer, because one of its instances is up.
    pub(super) fn offer_holds(&mut self, node: NodeId) {
        if let Some((offer, fleet)) = self.offer_of(node) {
            self.growing.pauses.remove(&(fleet, offer));
        }
    }

    pub(super) fn is_paused_until(&self, fleet: FleetId, offer: u32, at: SimTime) -> bool {
        self.growing.pauses.get(&(fleet, offer)).is_some_and(|(until, _)| *until == at)
    }

    fn offer_of(&self, node: NodeId) -> Option<(u32, FleetId)> {
        let shape = &self.fleet.node(node).shape;
        Some((dryrack_fleet::offer_of(shape)?, shape.instance.as_ref()?.fleet))
    }

    /// Lets all waiting replicas be tried again, because fleets or their clouds have changed.
    pub(crate) fn hope_again(&mut self) {
        self.growing.hopeless.clear();
        self.growing.seen = None;
    }

    /// The fleets whose instances a cloud makes.
    fn clouds(&self) -> impl Iterator<Item = FleetId> {
        self.fleet.fleets().filter(|(_, spec)| spec.cloud.is_some()).map(|(fleet, _)| fleet)
    }
}
