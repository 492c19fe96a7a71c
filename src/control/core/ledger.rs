//! The ledger records which attempt holds which resources. Only this file enters placements into the ledger. It also
//! charges them to the user's share and to the project's quota.

use super::Core;
use super::parts::accounts::{Accounts, holding};
use super::store::ReplicaIndex;
use crate::profile::Profile;
use crate::safety;
use dryrack_event::{Event, Safety};
use dryrack_fleet::{NodeClaim, NodeState, Placement};
use dryrack_ids::{AttemptId, NodeId};
use dryrack_policy::{Holding, Quotas};
use dryrack_scheduler::{Candidate, PlacementContext};
use dryrack_workload::{Demand, Deployment};

impl Core {
    /// Binds a replica to a place: checks that the placement is safe, enters it into the ledger, and logs it. `part` is
    /// the demand that was placed, if it differs from the replica's own. `is_torn` says that the nodes of the gang are
    /// placed one by one.
    pub(crate) fn bind(&mut self, index: ReplicaIndex, candidate: Candidate, part: Option<&Demand>, is_torn: bool) {
        let Candidate { placement, score } = candidate;
        let replica = &self.store[index];
        let attempt = replica.attempt_id();
        let demand = part.unwrap_or(self.store.demand(replica.demand));
        let mut broken = self.broken_by(index, demand, &placement);
        if is_torn {
            broken.push((placement.claims()[0].node, Safety::GangTorn));
        }
        for (node, what) in broken {
            assert!(
                self.profile.historic || self.is_decided_outside(),
                "{attempt} on {} would break safety: {what:?}, under the profile {}",
                self.fleet.node(node).name,
                self.profile.name
            );
            self.emit(Event::SafetyBroken { attempt, node, what });
        }
        self.enter_ledger(index, &placement);
        self.emit(Event::Placed { attempt, score, placement: placement.clone() });
        placement.claims().iter().for_each(|claim| self.instance_taken(claim.node));
        self.store[index].placement = Some(placement);
    }

    /// The safety rules that a placement of a replica would break. Kubernetes binds a pod to a node whose taints it
    /// tolerates, whether the node is ready or not.
    pub(crate) fn broken_by(
        &self,
        index: ReplicaIndex,
        demand: &Demand,
        placement: &Placement,
    ) -> Vec<(NodeId, Safety)> {
        let spec = &self.store.job_of(index).spec;
        let tolerates = |state: NodeState| {
            let of_admission = self.admission.tolerations(index);
            let tolerations = safety::stated_tolerations(spec).iter().chain(&of_admission);
            self.profile.flow.treats_states_as_taints() && safety::tolerate_state(tolerations, state)
        };
        let mut broken = safety::broken_by(&self.fleet, demand, placement, tolerates);
        if !safety::has_its_devices(&self.fleet, spec, placement) {
            broken.extend(placement.claims().first().map(|claim| (claim.node, Safety::RequirementUnmet)));
        }
        broken
    }

    /// Enters a placement into the ledger, and charges it to shares and quotas.
    fn enter_ledger(&mut self, index: ReplicaIndex, placement: &Placement) {
        let replica = &self.store[index];
        let (attempt, deployment) = (replica.attempt_id(), self.store.demand(replica.demand).model().cloned());
        self.hold_placement(attempt, deployment.as_deref(), placement);
        if self.may_placement_move_gangs() {
            self.fleet.ask_again();
        }
        let job = &self.store[attempt.job];
        self.accounts.take(&self.fleet, (job.user, job.spec.project.as_deref()), self.now, placement);
        for claim in placement.claims() {
            let replicas = &mut self.nodes[claim.node.index()].replicas;
            if let Err(place) = replicas.binary_search(&index) {
                replicas.insert(place, index);
            }
        }
    }

    /// Enters a placement into the ledger.
    pub(crate) fn hold_placement(
        &mut self,
        attempt: AttemptId,
        deployment: Option<&Deployment>,
        placement: &Placement,
    ) {
        let Some(deployment) = deployment else { return self.fleet.take(placement) };
        self.fleet.host(attempt, placement, &PlacementContext::hosting(attempt.job, deployment));
    }

    /// Frees an attempt's claim on a node.
    pub(super) fn release_claim(&mut self, attempt: AttemptId, claim: &NodeClaim) {
        self.fleet.release_of(attempt, claim);
        let project = self.store[attempt.job].spec.project.as_deref();
        self.accounts.give_back_claim(&self.fleet, project, claim);
    }

    /// Whether the quota of the replica's project allows this much more.
    pub(crate) fn is_within_quota(&self, index: ReplicaIndex, wanted: Holding) -> bool {
        let job = self.store.job_of(index);
        self.accounts.quotas.admits(job.spec.project.as_deref(), wanted)
    }

    /// The amounts of a placement, as quotas count them.
    pub(crate) fn holding(&self, placement: &Placement) -> Holding {
        holding(&self.fleet, placement)
    }

    /// Charges what all users and projects hold by the rules of a new profile. Shares are kept if the old profile had
    /// the same rules for them. Otherwise every account starts at zero, and counts the user's current holdings from now
    /// on.
    pub(super) fn follow_accounts(&mut self, before: &Profile) {
        let options = &self.profile.scheduler;
        let accounts = Accounts::new(options, Quotas::new(&self.profile.policies.quotas));
        let has_same_rules = before.scheduler.fair_share == options.fair_share;
        let old = std::mem::replace(&mut self.accounts, accounts);
        match self.accounts.has_shares() && old.has_shares() && has_same_rules {
            true => self.accounts.keep_shares_of(old),
            false => self.begin_shares(),
        }
        let live = self.store.replicas.values().filter_map(|replica| Some((replica.job, replica.placement.as_ref()?)));
        let kept = self.kept.claims.iter().map(|(attempt, placement)| (attempt.job, placement));
        for (job, placement) in live.chain(kept) {
            let project = self.store[job].spec.project.as_deref();
            self.accounts.quotas.take(project, holding(&self.fleet, placement));
        }
    }

    /// Opens the accounts of all users.
    fn begin_shares(&mut self) {
        if !self.accounts.has_shares() {
            return;
        }
        let options = &self.profile.scheduler.fair_share;
        for job in self.store.jobs.numbers() {
            let job = &mut self.store.jobs[job];
            job.user = self.accounts.user(job.spec.user.as_ref(), options, self.now);
        }
        for replica in self.store.replicas.values() {
            if let Some(placement) = &replica.placement {
                self.accounts.take_share(self.store[replica.job].user, self.now, placement);
            }
        }
    }

    /// Asserts that the quotas count exactly what the attempts of each project hold.
    pub(super) fn assert_quotas(&self) {
        let live = self.store.replicas.values().filter_map(|replica| Some((replica.job, replica.placement.as_ref()?)));
        let kept = self.kept.claims.iter().map(|(attempt, placement)| (attempt.job, placement));
        let all: Vec<_> = live.chain(kept).collect();
        for (project, said) in self.accounts.quotas.held() {
            let own = all.iter().filter(|(job, _)| self.store[*job].spec.project.as_deref() == Some(project));
            let held = own.fold(Holding::default(), |sum, (_, placement)| sum.and(self.holding(placement)));
            assert_eq!(said, held, "{project} holds something else than is counted");
        }
    }
}
