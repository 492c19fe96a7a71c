//! Instances for replicas that wait for room. The core tries such a replica on instances that a cloud could make. If
//! the replica fits there, the core requests these instances. Once they are up, the flow uses them like any other node.
//!
//! ```text
//!   waits ──fits on upcoming instances────────────────────> upcoming ──instances are up──> placed by the flow
//!     │ └── fits on an offer ──> instances requested ─────────^  │
//!     │                                                          └─ an instance is gone or taken: search again
//!     └── no instance found: skip its demand in this search, and in all searches if no offer could ever hold it
//! ```
//!
//! Waiting replicas are tried in the order of the flow, on a copy of the fleet. In the copy, every upcoming instance is
//! up, and holds the replicas for which it was requested. If a replica still fits nowhere, the core requests the
//! instances that it needs from the cheapest offer on which it fits and which its project's quota allows.
//!
//! A long queue costs little. One search covers all waiting replicas. It tries a demand that finds no instance only
//! once, and it ends as soon as no cloud can make another instance. No search runs while neither the fleet nor the
//! queue changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Core;
use super::parts::clouds::offer_of;
use super::store::ReplicaIndex;
use super::timer::Timer;
use crate::flow::{Flow, Visit};
use dryrack_fleet::{Fleet, NodeState, Placement};
use dryrack_ids::{FleetId, NodeId};
use dryrack_policy::Holding;
use dryrack_scheduler::{Candidate, Decision, decide_for};

/// Why no instance is requested for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoInstance {
    /// The replica fits on no instance that a cloud could make now.
    NoOffer,
    /// The replica fits, but its project's quota does not allow the place in addition to the project's upcoming places.
    OverQuota,
}

/// One search for all waiting replicas.
struct Search {
    /// The fleet as it will be once all upcoming instances are up and hold the replicas for which they were requested.
    fleet: Fleet,
    /// The upcoming holdings of each project with a quota.
    upcoming: BTreeMap<Arc<str>, Holding>,
    /// Demands for which the quota of the project does not allow the place that was found.
    over_quota: BTreeSet<(Arc<str>, u32)>,
}

impl Core {
    /// Requests instances for waiting replicas that find no room.
    pub(crate) fn scale_up(&mut self, flow: &dyn Flow) {
        if !self.clouds.may_scale_up(&self.fleet, self.now) {
            return;
        }
        let waiting = flow.waiting_changes(self);
        if self.clouds.scale_up.searched == Some((self.fleet.growth(), waiting)) {
            return;
        }
        self.clouds.forget_served(&self.fleet, |index| self.store.waits_for_room(index));
        let mut search = None;
        flow.each_waiting(self, &mut |core, index| core.search_for(index, &mut search));
        self.clouds.scale_up.searched = Some((self.fleet.growth(), waiting));
    }

    /// Looks for instances for one waiting replica.
    fn search_for(&mut self, index: ReplicaIndex, search: &mut Option<Search>) -> Visit {
        let replica = &self.store[index];
        let demand = replica.demand;
        if self.clouds.scale_up.never_fit.contains(&demand) {
            return Visit::LeaveOutDemand;
        }
        if self.clouds.scale_up.upcoming.contains_key(&index) {
            return Visit::GoOn;
        }
        let search = search.get_or_insert_with(|| self.begin_search());
        let of_project = self.project_with_quota(index).map(|project| (project, demand));
        if of_project.as_ref().is_some_and(|key| search.over_quota.contains(key)) {
            return Visit::GoOn;
        }
        match self.request_for(index, search) {
            Ok(()) if self.clouds.may_scale_up(&self.fleet, self.now) => Visit::GoOn,
            Ok(()) => Visit::Stop,
            Err(NoInstance::NoOffer) => Visit::LeaveOutDemand,
            Err(NoInstance::OverQuota) => {
                search.over_quota.extend(of_project);
                Visit::GoOn
            }
        }
    }

    fn begin_search(&self) -> Search {
        let mut fleet = self.fleet.clone();
        for node in self.clouds.instances.coming() {
            fleet.set_node_state(node, NodeState::Ready);
        }
        let mut upcoming: BTreeMap<Arc<str>, Holding> = BTreeMap::new();
        for (index, placement) in &self.clouds.scale_up.upcoming {
            fleet.take_in_advance(placement);
            if let Some(project) = self.project_with_quota(*index) {
                let sum = upcoming.entry(project).or_default();
                *sum = sum.and(self.holding(placement));
            }
        }
        Search { fleet, upcoming, over_quota: BTreeSet::new() }
    }

    /// Tries one waiting replica on existing and upcoming instances, then on each offer. Requests the instances of the
    /// first offer on which the replica fits.
    fn request_for(&mut self, index: ReplicaIndex, search: &mut Search) -> Result<(), NoInstance> {
        if let Some(found) = self.place_on(index, &search.fleet) {
            return self.plan_for(index, found.placement, search);
        }
        let tasks = self.store.demand_of(index).nodes_apart().max(self.store.demand_of(index).tasks);
        let (offers, was_tried_whole) = self.clouds.places_to_make(&self.fleet, self.now, tasks);
        let mut why = NoInstance::NoOffer;
        for places in offers {
            places.iter().for_each(|node| search.fleet.set_node_state(*node, NodeState::Ready));
            let found = self.place_on(index, &search.fleet);
            let is_used = |node: &NodeId| found.as_ref().is_some_and(|found| found.placement.touches(*node));
            let unused = places.iter().filter(|node| !is_used(node));
            unused.for_each(|node| search.fleet.set_node_state(*node, NodeState::Gone));
            let Some(found) = &found else { continue };
            match self.plan_for(index, found.placement.clone(), search) {
                Ok(()) => return Ok(()),
                Err(refused) => why = refused,
            }
            let used = places.iter().filter(|node| is_used(node));
            used.for_each(|node| search.fleet.set_node_state(*node, NodeState::Gone));
        }
        if was_tried_whole && why == NoInstance::NoOffer {
            let demand = self.store[index].demand;
            self.clouds.scale_up.never_fit.insert(demand);
        }
        Err(why)
    }

    /// Reserves a place for a replica in this search, and requests the instances that do not exist yet. Does nothing if
    /// the project's quota does not allow the place in addition to the project's upcoming places.
    fn plan_for(&mut self, index: ReplicaIndex, placement: Placement, search: &mut Search) -> Result<(), NoInstance> {
        let project = self.project_with_quota(index);
        let before = project.as_ref().and_then(|project| search.upcoming.get(project)).copied().unwrap_or_default();
        let wanted = before.and(self.holding(&placement));
        if !self.is_within_quota(index, wanted) {
            return Err(NoInstance::OverQuota);
        }
        search.fleet.take_in_advance(&placement);
        self.make_for(&placement, None);
        if placement.claims().iter().any(|claim| self.clouds.instances.is_coming(claim.node)) {
            search.upcoming.extend(project.map(|project| (project, wanted)));
            self.clouds.scale_up.upcoming.insert(index, placement);
        }
        Ok(())
    }

    /// The project of a replica, if it has a quota.
    fn project_with_quota(&self, index: ReplicaIndex) -> Option<Arc<str>> {
        let job = self.store.job_of(index);
        job.spec.project.as_ref().filter(|project| self.accounts.quotas.counts(Some(project))).cloned()
    }

    fn place_on(&self, index: ReplicaIndex, fleet: &Fleet) -> Option<Candidate> {
        let context = self.context(self.store[index].attempt_id());
        match decide_for(
            &self.profile.scheduler,
            self.store.demand_of(index),
            context,
            fleet,
            self.deciding.grouping,
            1,
        ) {
            Decision::Place(mut candidates) => Some(candidates.swap_remove(0)),
            Decision::Refuse { .. } => None,
        }
    }

    /// Sets how many instances of an offer a cloud can make.
    pub(crate) fn set_capacity(&mut self, fleet: FleetId, offer: u32, available: u32) {
        self.fleet.set_capacity(fleet, offer, available);
        self.clouds.scale_up.search_again();
    }

    /// Starts the back-off of an offer whose instance has failed to come up.
    pub(crate) fn offer_failed(&mut self, node: NodeId) {
        let Some(offer) = offer_of(&self.fleet, node).filter(|_| self.clouds.scale_up.is_enabled) else { return };
        let until = self.clouds.scale_up.back_off(offer, self.now);
        let (fleet, offer) = offer;
        self.timers.set(until, Timer::BackoffOver { fleet, offer, at: until });
    }

    /// Clears the failures of an offer, because one of its instances is up.
    pub(super) fn offer_holds(&mut self, node: NodeId) {
        if let Some(offer) = offer_of(&self.fleet, node) {
            self.clouds.scale_up.forget_failures(offer);
        }
    }
}
