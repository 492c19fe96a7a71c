//! The fleet and its jobs at one instant, folded from the records up to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_event::{Event, FleetFact, Input, Outcome, Phase, Record, RecordBody};
use dryrack_fleet::{GpuState, NodeClaim, NodeShape, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_metrics::gpu_parts;
use dryrack_units::SimTime;

/// A replica of a job.
pub type ReplicaKey = (JobId, u32);

/// What is true at an instant. A placement or a refusal is kept as the number of its record, so a copy is small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub nodes: Vec<NodeView>,
    pub waiting: BTreeMap<ReplicaKey, Waiting>,
    pub placed: BTreeMap<ReplicaKey, Placed>,
    /// Attempts that have ended and whose claims are kept on some nodes, with the record of their placement.
    pub kept: BTreeMap<AttemptId, (u32, BTreeSet<NodeId>)>,
    pub failed_gpus: BTreeMap<GpuId, GpuState>,
    pub submitted: u64,
    pub completed: u64,
    /// Jobs that ended in another way.
    pub unsuccessful: u64,
    /// GPUs in use, in thousandths.
    pub gpus_taken: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub state: NodeState,
    pub shape: Option<Arc<NodeShape>>,
    /// The state of a cloud instance, which says more than the state of its node.
    pub instance: Option<&'static str>,
}

impl NodeView {
    fn undeclared() -> NodeView {
        NodeView { state: NodeState::Gone, shape: None, instance: None }
    }

    pub fn gpus(&self) -> usize {
        self.shape.as_ref().map_or(0, |shape| shape.gpus.len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub since: SimTime,
    pub number: u32,
    pub phase: Phase,
    /// The record of the last refusal since it began to wait.
    pub held: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub since: SimTime,
    pub number: u32,
    pub phase: Phase,
    /// The record of the placement.
    pub record: u32,
}

impl State {
    /// Takes record number `number`.
    pub fn take(&mut self, records: &[Record], number: usize) {
        let record = &records[number];
        match &record.said {
            RecordBody::Input(input) => self.input(record.at, input),
            RecordBody::Event(event) => self.event(records, number, (record.at, event)),
        }
    }

    /// How much a copy of this state holds, counted in entries.
    pub fn size(&self) -> usize {
        self.nodes.len() + self.waiting.len() + self.placed.len() + self.kept.len() + self.failed_gpus.len()
    }

    /// The numbers of nodes that are ready, and that exist.
    pub fn ready_nodes(&self) -> (usize, usize) {
        let exist = || self.nodes.iter().filter(|node| node.state != NodeState::Gone);
        (exist().filter(|node| node.state == NodeState::Ready).count(), exist().count())
    }

    pub fn gpus(&self) -> usize {
        self.nodes.iter().filter(|node| node.state != NodeState::Gone).map(NodeView::gpus).sum()
    }

    /// Every claim that is held now, with the replica that holds it.
    pub fn claims<'r>(&self, records: &'r [Record]) -> Vec<(ReplicaKey, &'r NodeClaim)> {
        let mut claims = Vec::new();
        for (key, placed) in &self.placed {
            claims.extend(placement(records, placed.record).claims().iter().map(|claim| (*key, claim)));
        }
        for (attempt, (record, nodes)) in &self.kept {
            let here = placement(records, *record).claims().iter().filter(|claim| nodes.contains(&claim.node));
            claims.extend(here.map(|claim| ((attempt.job, attempt.replica), claim)));
        }
        claims
    }

    fn input(&mut self, at: SimTime, input: &Input) {
        match input {
            Input::Fleet(FleetFact::NodeDeclared { node, state, spec }) => {
                *self.node(*node) =
                    NodeView { state: *state, shape: Some(Arc::clone(&spec.shape)), ..NodeView::undeclared() };
            }
            Input::Submit { job, spec } => {
                self.submitted += 1;
                (0..spec.replicas).for_each(|replica| self.wait((*job, replica), 1, at));
            }
            _ => {}
        }
    }

    fn event(&mut self, records: &[Record], number: usize, (at, event): (SimTime, &Event)) {
        match event {
            Event::NodeChanged { node, to, .. } => self.node(*node).state = *to,
            Event::InstanceChanged { node, to, .. } => self.node(*node).instance = Some(to.name()),
            Event::GpuChanged { gpu, to, .. } => {
                self.failed_gpus.remove(gpu);
                self.failed_gpus.extend((*to != GpuState::Ready).then_some((*gpu, *to)));
            }
            Event::Held { attempt, .. } => {
                if let Some(waiting) = self.waiting.get_mut(&key(*attempt)) {
                    waiting.held = Some(number as u32);
                }
            }
            Event::Placed { attempt, placement, .. } => {
                self.waiting.remove(&key(*attempt));
                let placed =
                    Placed { since: at, number: attempt.number, phase: Phase::Scheduled, record: number as u32 };
                self.placed.insert(key(*attempt), placed);
                self.gpus_taken += placement.claims().iter().map(|claim| self.gpus_of(claim)).sum::<u64>();
            }
            Event::Moved { attempt, to, .. } => self.moved(records, *attempt, *to, at),
            Event::Ended { attempt, kept, .. } => {
                self.waiting.remove(&key(*attempt));
                if let Some(placed) = self.placed.remove(&key(*attempt)) {
                    self.release(records, placed.record, |node| !kept.contains(&node));
                    if !kept.is_empty() {
                        self.kept.insert(*attempt, (placed.record, kept.iter().copied().collect()));
                    }
                }
            }
            Event::ClaimFreed { attempt, node } => {
                let Some((record, nodes)) = self.kept.get_mut(attempt) else { return };
                let record = *record;
                let (was_kept, is_empty) = (nodes.remove(node), nodes.is_empty());
                if is_empty {
                    self.kept.remove(attempt);
                }
                if was_kept {
                    self.release(records, record, |other| other == *node);
                }
            }
            Event::Retry { attempt, .. } | Event::ReplicaAdded { attempt } => {
                self.wait(key(*attempt), attempt.number, at)
            }
            Event::JobEnded { outcome: Outcome::Completed, .. } => self.completed += 1,
            Event::JobEnded { .. } => self.unsuccessful += 1,
            _ => {}
        }
    }

    fn moved(&mut self, records: &[Record], attempt: AttemptId, to: Phase, at: SimTime) {
        if to.holds_claim() {
            if let Some(placed) = self.placed.get_mut(&key(attempt)) {
                placed.phase = to;
            }
            return;
        }
        if let Some(placed) = self.placed.remove(&key(attempt)) {
            self.release(records, placed.record, |_| true);
        }
        if to != Phase::Ended {
            if !self.waiting.contains_key(&key(attempt)) {
                self.wait(key(attempt), attempt.number, at);
            }
            self.waiting.entry(key(attempt)).and_modify(|waiting| waiting.phase = to);
        }
    }

    fn wait(&mut self, key: ReplicaKey, number: u32, since: SimTime) {
        self.waiting.insert(key, Waiting { since, number, phase: Phase::Pending, held: None });
    }

    fn node(&mut self, node: NodeId) -> &mut NodeView {
        if self.nodes.len() <= node.index() {
            self.nodes.resize(node.index() + 1, NodeView::undeclared());
        }
        &mut self.nodes[node.index()]
    }

    fn gpus_of(&self, claim: &NodeClaim) -> u64 {
        let shape = self.nodes.get(claim.node.index()).and_then(|node| node.shape.as_ref());
        shape.map_or(0, |shape| gpu_parts(claim, shape).sum())
    }

    /// Takes the GPUs of a placement out of the sum, on the nodes that `is_there` names.
    fn release(&mut self, records: &[Record], record: u32, is_there: impl Fn(NodeId) -> bool) {
        let claims = placement(records, record).claims().iter().filter(|claim| is_there(claim.node));
        let freed: u64 = claims.map(|claim| self.gpus_of(claim)).sum();
        self.gpus_taken -= freed;
    }
}

pub fn key(attempt: AttemptId) -> ReplicaKey {
    (attempt.job, attempt.replica)
}

/// The placement that a record states.
pub fn placement(records: &[Record], number: u32) -> &Placement {
    match &records[number as usize].said {
        RecordBody::Event(Event::Placed { placement, .. }) => placement,
        other => unreachable!("{other:?} is kept as a placement"),
    }
}
