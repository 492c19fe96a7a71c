//! What is reported of nodes and GPUs, and what follows for what runs there.

use smallvec::SmallVec;

use super::Control;
use super::store::ReplicaIndex;
use super::timer::Timer;
use dryrack_event::{Command, Event, Outcome, Phase, Reason};
use dryrack_fleet::{GpuState, NodeSpec, NodeState, Placement, Reliance, SILENT_STATES};
use dryrack_ids::{GpuId, NodeId, RunId};
use dryrack_lifecycle::is_node_edge;
use dryrack_units::{SimDuration, SimTime};

/// What is known of a node besides its status in the fleet.
pub struct NodeRecord {
    /// The state that it last reported, or that was set on its behalf.
    reported: NodeState,
    /// The time of its last heartbeat, while one is overdue.
    pub silent_since: Option<SimTime>,
    /// Its silence has outlasted the grace period.
    presumed_lost: bool,
    /// Increases whenever its timers become void.
    pub epoch: u64,
    /// Replicas with a claim here, in order of their numbers.
    pub runs: SmallVec<[ReplicaIndex; 4]>,
}

impl Control {
    pub(super) fn declare_node(&mut self, node: NodeId, state: NodeState, spec: &NodeSpec) {
        let declared = self.fleet.declare(spec, state);
        assert_eq!(declared, node, "nodes are declared in order of their ids");
        self.nodes.push(NodeRecord {
            reported: state,
            silent_since: None,
            presumed_lost: false,
            epoch: 0,
            runs: SmallVec::new(),
        });
        self.declare_instance(node, state, spec);
        // A demand that fits nowhere may fit here.
        for demand in &mut self.demands {
            demand.held = None;
        }
    }

    pub(super) fn node_reported(&mut self, node: NodeId, state: NodeState) {
        if self.is_moot(node, state) {
            return;
        }
        let record = &mut self.nodes[node.index()];
        record.reported = state;
        if record.silent_since.is_none() {
            record.epoch += 1;
            if state == NodeState::NotReady {
                let (epoch, options) = (record.epoch, self.profile.heartbeat);
                let evict = noticed(self.now.saturating_add(options.evict_after), options.evicted_every);
                self.timers.set(evict, Timer::Evict { node, epoch });
            }
        }
        self.update_node(node, Reason::Reported);
        if state == NodeState::Gone {
            self.evict(node);
            self.forget_kept_claims(node);
        }
        self.instance_reported(node, state);
    }

    /// Sets the reported state as if the node had reported it itself.
    pub(super) fn set_reported(&mut self, node: NodeId, state: NodeState, because: Reason) {
        self.nodes[node.index()].reported = state;
        self.update_node(node, because);
    }

    pub(super) fn heartbeat_missed(&mut self, node: NodeId, last: SimTime) {
        let options = self.profile.heartbeat;
        let record = &mut self.nodes[node.index()];
        if record.silent_since.is_some() {
            return;
        }
        record.silent_since = Some(last);
        record.epoch += 1;
        let epoch = record.epoch;
        self.update_reliance(node, false);
        let after = |length, every| noticed(last.saturating_add(length), every).max(self.now);
        let lost = after(options.grace, options.checked_every);
        let evict = after(options.evict_after, options.evicted_every);
        self.timers.set(lost, Timer::SilenceExpired { node, epoch });
        self.timers.set(evict, Timer::Evict { node, epoch });
    }

    pub(super) fn heartbeat_back(&mut self, node: NodeId) {
        let record = &mut self.nodes[node.index()];
        if record.silent_since.take().is_none() {
            return;
        }
        record.presumed_lost = false;
        record.epoch += 1;
        self.update_node(node, Reason::HeartbeatBack);
    }

    pub(super) fn silence_expired(&mut self, node: NodeId) {
        self.nodes[node.index()].presumed_lost = true;
        self.update_node(node, Reason::HeartbeatLost);
        self.expect_sign_of(node);
    }

    /// Whether no heartbeat of the node is overdue.
    pub(super) fn is_heard(&self, node: NodeId) -> bool {
        self.nodes[node.index()].silent_since.is_none()
    }

    /// Gives up everything that runs on the node.
    pub(super) fn evict(&mut self, node: NodeId) {
        for replica in self.on_node_in_order(node) {
            if self.is_one_too_many(replica) {
                self.replicas[replica as usize].dismissed = true;
            }
            match self.nodes[node.index()].runs.contains(&replica) {
                true => self.lose(replica, node),
                false => self.end(replica, Outcome::Lost, Reason::NodeLost),
            }
        }
        self.scale_unmet();
        // The timer is spent. Another silence sets another timer.
        self.nodes[node.index()].epoch += 1;
        let record = &self.nodes[node.index()];
        if let (Some(last), false) = (record.silent_since, record.presumed_lost) {
            let options = self.profile.heartbeat;
            let at = noticed(last.saturating_add(options.grace), options.checked_every).max(self.now);
            self.timers.set(at, Timer::SilenceExpired { node, epoch: record.epoch });
        }
    }

    pub(super) fn gpu_reported(&mut self, gpu: GpuId, to: GpuState) {
        let from = self.fleet.node(gpu.node).status.gpus[usize::from(gpu.index)].state;
        if from != to {
            self.fleet.set_gpu_state(gpu, to);
            self.emit(Event::GpuChanged { gpu, from, to });
        }
    }

    fn update_node(&mut self, node: NodeId, because: Reason) {
        let record = &self.nodes[node.index()];
        // A node that has not joined, or is gone, is not missed.
        let unheard = record.presumed_lost && !matches!(record.reported, NodeState::Gone | NodeState::Joining);
        let to = if unheard { self.profile.heartbeat.becomes } else { record.reported };
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

    /// Updates in the fleet how far the node can be relied on, if the profile asks for it.
    fn update_reliance(&mut self, node: NodeId, has_flapped: bool) {
        if !self.profile.scheduler.asks_for_reliance() {
            return;
        }
        let mut reliance = self.fleet.node(node).status.reliance;
        reliance.overdue = self.nodes[node.index()].silent_since.is_some();
        if has_flapped {
            reliance.flaps += 1;
            self.flaps.push_back((self.now.saturating_add(self.profile.heartbeat.flap_window), node));
        }
        self.fleet.set_reliance(node, reliance);
    }

    /// Forgets losses of readiness that are too old to count. They affect only preferences, so nobody is woken.
    pub(super) fn forget_flaps(&mut self) {
        while let Some((_, node)) = self.flaps.pop_front_if(|(until, _)| *until <= self.now) {
            let reliance = self.fleet.node(node).status.reliance;
            self.fleet.set_reliance(node, Reliance { flaps: reliance.flaps - 1, ..reliance });
        }
    }

    /// Ends the attempt of a replica whose node is lost. What it holds on nodes that may still run it stays taken
    /// until they confirm that it has stopped.
    fn lose(&mut self, index: ReplicaIndex, lost: NodeId) {
        if self.runs.is_some() {
            return self.member_lost(index);
        }
        let replica = &self.replicas[index as usize];
        let (run, from) = (replica.run(), replica.phase);
        let (outcome, because) = replica.stopping.unwrap_or(match replica.dismissed {
            true => (Outcome::Cancelled, Reason::ScaledDown),
            false => (Outcome::Lost, Reason::NodeLost),
        });
        let gone = self.fleet.node(lost).status.state == NodeState::Gone;
        let placement = replica.placement.clone().expect("a replica on a node has a placement");
        let stopped = replica.stopped_on.clone();
        let (kept, _) = placement.split(|node| !(stopped.contains(&node) || gone && node == lost));
        if from != Phase::Stopping && !kept.is_empty() {
            self.command(Command::Stop { run });
        }
        self.end_keeping(index, outcome, because, kept);
    }

    /// Asks runs with kept claims on a node to stop, once the node can be heard again.
    fn expect_stops_on(&mut self, node: NodeId) {
        let touches = |(_, kept): &(&RunId, &Placement)| kept.touches(node);
        let kept: Vec<RunId> = self.kept_claims.iter().filter(touches).map(|(run, _)| *run).collect();
        kept.into_iter().for_each(|run| self.expect_stop(run, super::runs::STOPS_ASKED_FOR));
    }

    /// Frees all kept claims on a node that is gone.
    fn forget_kept_claims(&mut self, node: NodeId) {
        let touches = |(_, kept): &(&RunId, &Placement)| kept.touches(node);
        let touching: Vec<RunId> = self.kept_claims.iter().filter(touches).map(|(run, _)| *run).collect();
        for run in touching {
            self.free_kept(run, |other| other == node);
        }
    }

    /// Frees what a run that is over still holds on these nodes.
    pub(super) fn free_kept(&mut self, run: RunId, is_free: impl Fn(NodeId) -> bool) {
        let Some(kept) = self.kept_claims.remove(&run) else { return };
        let (free, remains) = kept.split(is_free);
        for claim in free.claims() {
            self.release_claim(run, claim);
            self.emit(Event::ClaimFreed { run, node: claim.node });
            self.instance_released(claim.node);
        }
        match remains.is_empty() {
            true => {
                self.note_asking(run, true);
                self.job_is_over(run.job);
            }
            false => drop(self.kept_claims.insert(run, remains)),
        }
    }
}

/// When it is noticed that a silence has lasted beyond `end`: at the next multiple of `every`, or at `end` without
/// one.
fn noticed(end: SimTime, every: Option<SimDuration>) -> SimTime {
    let Some(every) = every else { return end };
    let ticks = end.as_nanos() / every.as_nanos() + 1;
    SimTime::ZERO.saturating_add(every.saturating_mul(ticks))
}
