//! Reports about nodes and GPUs, and their consequences for the attempts on them.

use super::Core;
use super::timer::Timer;
use dryrack_event::{Event, Reason};
use dryrack_fleet::{GpuState, NodeSpec, NodeState, Reliance, SILENT_STATES};
use dryrack_ids::{GpuId, NodeId};
use dryrack_lifecycle::is_node_edge;
use dryrack_planted::planted;
use dryrack_units::{SimDuration, SimTime};

impl Core {
    pub(crate) fn declare_node(&mut self, node: NodeId, state: NodeState, spec: &NodeSpec) {
        let declared = self.fleet.declare(spec, state);
        assert_eq!(declared, node, "nodes are declared in order of their ids");
        self.nodes.add(state);
        self.declare_instance(node, state, spec);
        // A demand that did not fit anywhere may fit on the new node.
        for demand in self.store.demands.iter_mut() {
            demand.held = None;
        }
    }

    /// Sets the reported state as if the node itself had reported it.
    pub(super) fn set_reported(&mut self, node: NodeId, state: NodeState, because: Reason) {
        self.nodes[node.index()].reported = state;
        self.update_node(node, because);
    }

    pub(crate) fn heartbeat_missed(&mut self, node: NodeId, last: SimTime) {
        let options = self.profile.heartbeat;
        let record = &mut self.nodes[node.index()];
        if record.silent_since.is_some() {
            return;
        }
        record.silent_since = Some(last);
        record.epoch += 1;
        let epoch = record.epoch;
        self.update_reliance(node, false);
        let from = if planted!(GraceFromTheMiss) { self.now } else { last };
        let after = |length, every| noticed(from.saturating_add(length), every).max(self.now);
        let lost = after(options.grace, options.checked_every);
        let evict = after(options.evict_after, options.evicted_every);
        self.timers.set(lost, Timer::SilenceExpired { node, epoch });
        self.timers.set(evict, Timer::Evict { node, epoch });
    }

    pub(crate) fn heartbeat_back(&mut self, node: NodeId) {
        let record = &mut self.nodes[node.index()];
        if record.silent_since.take().is_none() {
            return;
        }
        record.presumed_lost = record.presumed_lost && planted!(LostForEver);
        record.epoch += 1;
        self.update_node(node, Reason::HeartbeatBack);
    }

    pub(crate) fn silence_expired(&mut self, node: NodeId) {
        self.nodes[node.index()].presumed_lost = true;
        self.update_node(node, Reason::HeartbeatLost);
        self.await_report_of(node);
    }

    /// Whether no heartbeat of the node is overdue.
    pub(crate) fn has_heartbeats(&self, node: NodeId) -> bool {
        self.nodes[node.index()].silent_since.is_none()
    }

    pub(crate) fn gpu_reported(&mut self, gpu: GpuId, to: GpuState) {
        let from = self.fleet.node(gpu.node).status.gpus[usize::from(gpu.index)].state;
        if from != to {
            self.fleet.set_gpu_state(gpu, to);
            self.emit(Event::GpuChanged { gpu, from, to });
        }
    }

    pub(crate) fn update_node(&mut self, node: NodeId, because: Reason) {
        let record = &self.nodes[node.index()];
        // A node that has not joined yet, or is gone, sends no heartbeats, so its silence means nothing.
        let unheard = record.presumed_lost && !matches!(record.reported, NodeState::Gone | NodeState::Joining);
        let to = if unheard { self.profile.heartbeat.becomes.into() } else { record.reported };
        let from = self.fleet.node(node).status.state;
        self.update_reliance(node, from == NodeState::Ready && SILENT_STATES.contains(&to));
        if from != to {
            assert!(is_node_edge(from, to), "a node cannot go from {from:?} to {to:?}");
            self.fleet.set_node_state(node, to);
            self.emit(Event::NodeChanged { node, from, to, because });
            if to == NodeState::Ready {
                self.expect_stops_on(node);
            }
        }
    }

    /// Updates the node's reliability in the fleet, if the profile uses it.
    fn update_reliance(&mut self, node: NodeId, has_flapped: bool) {
        if !self.profile.scheduler.asks_for_reliance() {
            return;
        }
        let mut reliance = self.fleet.node(node).status.reliance;
        reliance.overdue = self.nodes[node.index()].silent_since.is_some();
        if has_flapped {
            reliance.flaps += 1;
            self.nodes.note_flap(node, self.now.saturating_add(self.profile.heartbeat.flap_window));
        }
        self.fleet.set_reliance(node, reliance);
    }

    /// Forgets losses of readiness that are too old to count. The count only affects preferences, so waiting replicas
    /// are not judged again.
    pub(crate) fn forget_flaps(&mut self) {
        while let Some(node) = self.nodes.take_old_flap(self.now) {
            let reliance = self.fleet.node(node).status.reliance;
            self.fleet.set_reliance(node, Reliance { flaps: reliance.flaps - 1, ..reliance });
        }
    }
}

/// When the control plane notices that a silence has lasted until `end`: at the next multiple of `every` after `end`,
/// or at `end` if `every` is absent.
pub(crate) fn noticed(end: SimTime, every: Option<SimDuration>) -> SimTime {
    let Some(every) = every else { return end };
    let ticks = match planted!(CheckAtTheExactTick) {
        true => end.as_nanos().div_ceil(every.as_nanos()),
        false => end.as_nanos() / every.as_nanos() + 1,
    };
    SimTime::ZERO.saturating_add(every.saturating_mul(ticks))
}
