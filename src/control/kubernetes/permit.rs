//! Pods that have a node and wait for others of their gang. They keep the node in the cluster of the scheduler alone: the
//! ledger holds nothing for them, because they are not bound.

use std::sync::Arc;

use super::Kubernetes;
use super::examine;
use super::hints::{Event as Change, gpus_of};
use super::permits::Reserved;
use super::plugins::Plugins;
use super::queue::Refusal;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_event::{Histogram, Reason, Refusal as Refused};
use dryrack_fleet::NodeState;
use dryrack_ids::NodeId;
use dryrack_kubernetes::cluster::{GroupKey, PodInfo};
use dryrack_kubernetes::cycle::Plugin;
use dryrack_kubernetes::plugins::dynamic_resources::claim_keys;
use dryrack_scheduler::{Decision, Examination, NodeFinding, Verdict};

impl Kubernetes {
    pub(super) fn wait_on_permit(
        &mut self,
        core: &mut Core,
        (index, pod): (ReplicaIndex, &Arc<PodInfo>),
        reserved: Reserved,
    ) {
        let options = self.options.gang_scheduling.expect("pods wait only with gang scheduling");
        let until = core.now.saturating_add(options.timeout);
        let node = Arc::clone(&reserved.node);
        self.permits.add(index, &pod.key, reserved, until);
        hold_without_node(core, index, &node, Reason::WaitsOnPermit);
        self.try_mates(core, pod);
    }

    /// Makes the other pods of a gang active, in case they wait for this pod to get a node (`Permit` in
    /// `pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go`).
    fn try_mates(&mut self, core: &Core, pod: &PodInfo) {
        let Some(gang) = GroupKey::of(pod) else { return };
        for mate in self.cluster.gangs.without_node(&gang).filter_map(|key| self.keys.get(key)) {
            self.queue.activate(*mate, core.now);
        }
    }

    /// Binds a pod whose gang is complete. If its node cannot take it any more, the pod returns to the queue.
    pub(super) fn release(&mut self, core: &mut Core, key: &str) {
        let Some((index, reserved)) = self.permits.take(key) else { return };
        let pod = Arc::clone(&self.pods[&index].info);
        let is_ready = core.fleet.node(self.ids[&reserved.node]).status.state == NodeState::Ready;
        let held = self.devices_of(&pod, None);
        match self.candidate(core, index, &reserved.node, (reserved.total, &held)).filter(|_| is_ready) {
            Some(candidate) => {
                core.change_candidate(index, &candidate);
                self.carry_out(core, index, &pod, (reserved.node, candidate));
            }
            None => self.return_to_queue(core, index, reserved),
        }
    }

    /// Takes the nodes from gangs whose first pod has waited long enough, and tries the pods for which there is room then.
    /// Upstream starts to count after an attempt, so attempts of the same instant come first.
    pub(super) fn end_permits(&mut self, core: &mut Core) {
        let before = self.permits.changes;
        while let Some(index) = self.permits.first_over(core.now) {
            let key = Arc::clone(&self.pods[&index].info.key);
            self.reject_gang_of(core, &key);
        }
        if self.permits.changes != before {
            self.try_active(core);
        }
    }

    /// Takes the nodes from all pods of a gang that wait, if this pod is one of them.
    pub(super) fn reject_gang_of(&mut self, core: &mut Core, key: &str) {
        let Some(index) = self.permits.replica_of(key) else { return };
        let gang = GroupKey::of(&self.pods[&index].info).expect("only pods of gangs wait");
        let rejected: Vec<_> =
            self.cluster.gangs.reject(&gang).iter().filter_map(|key| self.permits.take(key)).collect();
        for (index, reserved) in rejected {
            self.return_to_queue(core, index, reserved);
        }
    }

    /// Ends the waiting of a pod that no longer exists.
    pub(super) fn leave_permit(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(key) = self.pods.get(&index).map(|record| Arc::clone(&record.info.key)) else { return };
        if let Some((_, reserved)) = self.permits.take(&key) {
            self.leave_node(core, &key, &reserved.node);
        }
    }

    /// Takes the node that no longer exists from a pod.
    pub(super) fn lose_permit(&mut self, core: &mut Core, key: &str) {
        if let Some((index, reserved)) = self.permits.take(key) {
            self.return_to_queue(core, index, reserved);
        }
    }

    fn return_to_queue(&mut self, core: &mut Core, index: ReplicaIndex, reserved: Reserved) {
        let record = &self.pods[&index];
        let (pod, group) = (Arc::clone(&record.info), record.group);
        let held = hold_without_node(core, index, &reserved.node, Reason::PermitTimeout);
        let plugins = Plugins::of(&[Plugin::GangScheduling]);
        self.queue.add(index, group, (pod.priority, gpus_of(&pod)));
        self.queue.take_untold(group);
        let version = self.version;
        self.queue.refuse(group, Refusal { plugins, since: core.now, version, held, by_node: None });
        if let Some(gang) = GroupKey::of(&pod) {
            self.cluster.gangs.let_go(&gang, &pod.key);
        }
        self.leave_node(core, &pod.key, &reserved.node);
    }

    /// Removes a pod that is not bound from its node in the cluster.
    fn leave_node(&mut self, core: &mut Core, key: &str, node: &str) {
        let Some(place) = self.cluster.find(node) else { return };
        let Some(placed) = self.cluster.remove(place, key) else { return };
        for claim in claim_keys(&placed.pod) {
            self.cluster.devices.release(&claim, &placed.pod.pod.metadata.name);
        }
        self.cluster_changed();
        self.happened(core, &Change::PodRemoved(Some(place), &placed.pod));
        if !placed.pod.pod.spec.resource_claims.is_empty() {
            self.happened(core, &Change::ClaimChanged);
        }
    }

    /// The explanation of a pod that has a node and waits.
    pub(super) fn examine_permit(&self, core: &Core, index: ReplicaIndex) -> Examination {
        examination(core, self.permits.node_of(index), Reason::WaitsOnPermit)
    }
}

/// Holds a pod that has found this node and does not go there.
fn hold_without_node(core: &mut Core, index: ReplicaIndex, node: &str, because: Reason) -> (Refused, Histogram) {
    if core.is_watched(index) {
        let watched = examine::watched(core, index, examination(core, node, because));
        core.deciding.examined.keep_wait(watched);
    }
    let held = (Refused::Unfit, Histogram::of(because, 1));
    core.hold(index, held.clone());
    held
}

fn examination(core: &Core, node: &str, because: Reason) -> Examination {
    let finding = |id: NodeId| {
        let is_own = &*core.fleet.node(id).name == node;
        NodeFinding::of(id, Verdict::Unfit(if is_own { because } else { Reason::NotExamined }))
    };
    let decision = Decision::Refuse { refusal: Refused::Unfit, reasons: Histogram::of(because, 1) };
    let nodes = (0..core.fleet.len()).map(|node| finding(NodeId::new(node))).collect();
    Examination { decision, nodes, message: None }
}
