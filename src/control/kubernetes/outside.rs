//! Decisions of a real kube-scheduler. It receives the waiting pods, and its decisions are inputs.
//!
//! The rest of the control plane of Kubernetes stays here: pods that state their node, evictions by taints, and the GPUs
//! that a pod gets on its node. A pod that the node cannot hold is not bound, as the kubelet would refuse it.

use std::sync::Arc;

use super::Kubernetes;
use super::attempt::{Chosen, gated};
use super::examine::keep;
use super::hints::gpus_of;
use super::pods;
use crate::attempts::Attempts;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::Flow;
use crate::outside::{DecidedOutside, not_possible, refused, waiting};
use dryrack_event::{Command, Outcome, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_ids::AttemptId;
use dryrack_kubernetes::cycle;

impl Kubernetes {
    /// Hands all new pods over. The program says nothing about a pod that a plugin keeps out of the queue, so our rules
    /// say why it waits.
    pub(super) fn hand_over(&mut self, core: &mut Core) {
        let nodes = core.fleet.len().max(1) as u32;
        for index in self.gates.take_all() {
            let record = &self.pods[&index];
            self.queue.add(index, record.group, (record.info.priority, gpus_of(&record.info)));
            let attempt = core.store[index].attempt_id();
            core.command(Command::Submit { attempt });
            if let Err(refusal) = cycle::pre_enqueue(&record.info, &self.cluster, &self.options.scheduler) {
                core.hold(index, (Refusal::Unfit, gated(&refusal, nodes)));
            }
        }
    }

    /// Binds a pod to the node of the placement. The node's device plugin chooses the GPUs.
    pub(super) fn decided_outside(&mut self, core: &mut Core, attempt: AttemptId, placement: Option<&Placement>) {
        let Some(index) = waiting(core, attempt) else {
            return core.emit(not_possible(attempt, Reason::NotWaiting));
        };
        self.follow_fleet(core);
        let Some(node) = placement.and_then(|placement| placement.claims().first()).map(|claim| claim.node) else {
            self.withdraw(core, index);
            return self.end(core, index, Outcome::Refused, Reason::RefusedOutside);
        };
        let task = Arc::clone(core.store.demand_of(index));
        let Some(in_cluster) = self.cluster.find(&core.fleet.node(node).name) else {
            return core.emit(not_possible(attempt, Reason::PlaceNotReady));
        };
        let held = self.devices_of(&self.pods[&index].info, None);
        let placed = task.task().and_then(|task| pods::placement_on(node, core.fleet.node(node), task, &held));
        let because = match (placed, core.profile.program) {
            (None, _) => Some(Reason::DoesNotFit),
            (Some(placement), Some(program)) => refused(core, index, &placement, program),
            (Some(_), None) => None,
        };
        if let Some(because) = because {
            return core.emit(not_possible(attempt, because));
        }
        self.keep_finding(core, index, None);
        let record = &self.pods[&index];
        let (info, group) = (Arc::clone(&record.info), record.group);
        let chosen = Chosen { node: in_cluster, devices: None, total: 0, decision: None };
        if !self.bind_to(core, (index, group), &info, chosen) {
            core.emit(not_possible(attempt, Reason::DoesNotFit));
        }
    }

    /// Keeps what our rules say about each node, if somebody wants the decision explained. The message is that of the
    /// program.
    fn keep_finding(&mut self, core: &mut Core, index: ReplicaIndex, message: Option<&Arc<str>>) {
        if !core.is_watched(index) {
            return;
        }
        let info = Arc::clone(&self.pods[&index].info);
        let mut examination = self.examine_pod(core, index, &info);
        if message.is_some() {
            examination.message = message.cloned();
        }
        keep(core, index, examination);
    }
}

impl DecidedOutside for Kubernetes {
    fn waits(&mut self, core: &mut Core, index: ReplicaIndex, text: Option<&Arc<str>>) {
        self.keep_finding(core, index, text);
    }

    fn preempt_outside(&mut self, core: &mut Core, index: ReplicaIndex) {
        let attempt = core.store[index].attempt_id();
        self.begin_deletion(core, attempt, true);
        self.stop(core, index, Outcome::Lost, Reason::Preempted);
    }
}
