//! What the program has to see, built from records and commands, and what it sees already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_control::pods;
use dryrack_event::{Command, Event, FleetFact, Histogram, Input, Phase};
use dryrack_fleet::Fleet;
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_objects::Seconds;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::JobSpec;
use serde_json::Value;

use super::super::key::ObjectKey;
use super::budgets::Budgets;
use super::objects;

/// How often a pod whose binding was not carried out is created again without another change.
const MOST_REFUSED: u32 = 3;

/// What becomes of a pod in the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// The program has to find a node. The number gives the order in which pods arrived.
    Waiting(u64),
    Bound {
        node: NodeId,
        since: Seconds,
        /// When its deletion began.
        deleted: Option<Seconds>,
    },
    Gone,
}

/// A pod that exists in the world, or that the program knows.
#[derive(Debug)]
pub struct PodRecord {
    pub state: PodState,
    /// The key and the object without a node. `None` as long as the program has not seen the pod.
    pub served: Option<(ObjectKey, Value)>,
    /// Whether the program has bound the pod.
    pub is_bound: bool,
    /// How often its binding was not carried out.
    pub refused: u32,
    /// Why it waits, as last stated.
    pub stated: Option<(Histogram, Arc<str>)>,
    /// How often it was tried in vain, and the last time.
    pub tried: u32,
    pub tried_at: SimTime,
}

#[derive(Debug, Default)]
pub struct World {
    specs: BTreeMap<JobId, Arc<JobSpec>>,
    models: BTreeMap<Arc<str>, &'static str>,
    read_changes: u64,
    seen: Vec<pods::Seen>,
    pub node_ids: BTreeMap<Arc<str>, NodeId>,
    pub pods: BTreeMap<AttemptId, PodRecord>,
    pub keys: BTreeMap<Arc<str>, AttemptId>,
    pub waiting: BTreeSet<(u64, AttemptId)>,
    arrived: u64,
    /// What the program does not know yet.
    pub changed_pods: BTreeSet<AttemptId>,
    pub changed_nodes: BTreeSet<NodeId>,
    pub objects: Vec<Value>,
    /// All objects besides nodes and pods, as they were declared.
    declared: Vec<Value>,
    pub budgets: Budgets,
    /// Whether a change may help a pod that waits, or whether a pod arrived.
    pub is_cause: bool,
}

pub fn seconds(now: SimTime) -> Seconds {
    Seconds((now.as_nanos() / 1_000_000_000) as i64)
}

impl World {
    pub fn input(&mut self, input: &Input) {
        match input {
            Input::Submit { job, spec } => drop(self.specs.insert(*job, Arc::clone(spec))),
            Input::Fleet(FleetFact::ObjectsDeclared { objects }) => {
                self.declared.extend(objects::others(objects));
                self.objects.clone_from(&self.declared);
                self.budgets.declare(&objects.pod_disruption_budgets);
                self.is_cause = true;
            }
            Input::Fleet(_)
            | Input::Attempt { .. }
            | Input::Usage(_)
            | Input::User(_)
            | Input::External(_)
            | Input::Evaluate { .. }
            | Input::Wakeup => {}
        }
    }

    pub fn command(&mut self, command: &Command) {
        match command {
            Command::Submit { attempt } => {
                self.expect(*attempt);
                self.arrived += 1;
                self.waiting.insert((self.arrived, *attempt));
                self.enter(*attempt, PodState::Waiting(self.arrived));
                self.is_cause = true;
            }
            Command::Withdraw { attempt } => {
                let is_waiting = |record: &PodRecord| matches!(record.state, PodState::Waiting(_));
                if self.pods.get(attempt).is_some_and(is_waiting) {
                    self.enter(*attempt, PodState::Gone);
                }
            }
            Command::Analyse { .. }
            | Command::AbandonAnalysis { .. }
            | Command::Start { .. }
            | Command::Prepare { .. }
            | Command::Begin { .. }
            | Command::Stop { .. }
            | Command::Provision { .. }
            | Command::Terminate { .. }
            | Command::Sample { .. } => {}
        }
    }

    pub fn event(&mut self, at: SimTime, event: &Event) {
        match event {
            Event::Placed { attempt, placement, .. } => {
                self.expect(*attempt);
                let Some(claim) = placement.claims().first() else { return };
                let is_told = self.pods.get(attempt).is_some_and(|record| record.is_bound);
                self.enter(*attempt, PodState::Bound { node: claim.node, since: seconds(at), deleted: None });
                self.is_cause |= !is_told;
            }
            Event::Moved { attempt, to: Phase::Running, .. } => self.budgets.runs(*attempt),
            Event::Moved { attempt, to: Phase::Stopping, .. } => {
                self.budgets.stops(*attempt);
                self.delete(at, *attempt);
            }
            Event::Ended { attempt, kept, .. } => {
                self.budgets.ends(*attempt);
                match kept.is_empty() {
                    true => self.leave(*attempt),
                    false => self.delete(at, *attempt),
                }
            }
            Event::Retry { attempt, .. } => self.budgets.is_tried_again(*attempt),
            Event::ClaimFreed { attempt, .. } => self.leave(*attempt),
            Event::CommitRefused { attempt, .. } => self.refused(*attempt),
            _ => {}
        }
    }

    fn expect(&mut self, attempt: AttemptId) {
        if let Some(spec) = self.specs.get(&attempt.job) {
            self.budgets.expect(attempt, spec);
        }
    }

    fn enter(&mut self, attempt: AttemptId, state: PodState) {
        let record = self.pods.entry(attempt).or_insert_with(|| PodRecord {
            state: PodState::Gone,
            served: None,
            is_bound: false,
            refused: 0,
            stated: None,
            tried: 0,
            tried_at: SimTime::ZERO,
        });
        if let (PodState::Waiting(number), false) = (&record.state, matches!(state, PodState::Waiting(_))) {
            self.waiting.remove(&(*number, attempt));
        }
        record.state = state;
        self.changed_pods.insert(attempt);
    }

    fn delete(&mut self, at: SimTime, attempt: AttemptId) {
        if let Some(PodState::Bound { deleted: deleted @ None, .. }) =
            self.pods.get_mut(&attempt).map(|record| &mut record.state)
        {
            *deleted = Some(seconds(at));
            self.changed_pods.insert(attempt);
            self.is_cause = true;
        }
    }

    fn leave(&mut self, attempt: AttemptId) {
        if self.pods.contains_key(&attempt) {
            self.enter(attempt, PodState::Gone);
            self.is_cause = true;
        }
    }

    /// A binding that was not carried out: the pod must be created again.
    fn refused(&mut self, attempt: AttemptId) {
        let Some(record) = self.pods.get_mut(&attempt).filter(|record| record.is_bound) else { return };
        record.refused += 1;
        self.is_cause |= record.refused <= MOST_REFUSED;
        self.changed_pods.insert(attempt);
    }

    /// Notes which nodes changed in what the program sees of them.
    pub fn follow_nodes(&mut self, fleet: &Fleet) {
        let read = std::mem::replace(&mut self.read_changes, fleet.node_change_count());
        let mut changed: Vec<NodeId> = fleet.changed_nodes(read).collect();
        changed.sort_unstable();
        for id in changed {
            while self.seen.len() <= id.index() {
                let next = NodeId::new(self.seen.len());
                self.node_ids.insert(Arc::clone(&fleet.node(next).name), next);
                self.seen.push(None);
            }
            let now = pods::seen_of(fleet.node(id));
            if std::mem::replace(&mut self.seen[id.index()], now) != now {
                self.models.extend(pods::models_of(&fleet.node(id).shape));
                self.changed_nodes.insert(id);
                self.is_cause = true;
            }
        }
    }

    /// The object of a node. `None` if the node is not a part of the cluster now.
    pub fn node(fleet: &Fleet, id: NodeId) -> Option<Value> {
        let node = fleet.node(id);
        pods::node_of(node, pods::usable_gpus(node).count()).map(|node| objects::node(&node))
    }

    /// Makes the object of a pod that the program has not seen. Returns its key and the object without a node.
    pub fn make_pod(&mut self, fleet: &Fleet, attempt: AttemptId) -> Option<(ObjectKey, Value)> {
        let spec = self.specs.get(&attempt.job)?;
        let is_taken = |key: &Arc<str>| self.keys.contains_key(key);
        let pod = pods::pod_of_attempt(spec, attempt, &self.models, fleet, is_taken)?;
        self.keys.insert(pod.metadata.key(), attempt);
        Some((objects::key_of(&pod), objects::waiting_pod(&pod)))
    }

    /// Forgets a pod that is gone in the world and for the program.
    pub fn forget(&mut self, attempt: AttemptId) {
        if let Some((key, _)) = self.pods.remove(&attempt).and_then(|record| record.served) {
            self.keys.remove(&*key.to_string());
        }
    }

    /// Everything is news to a program that was started again.
    pub fn forget_served(&mut self, fleet: &Fleet) {
        self.keys.clear();
        self.pods.retain(|_, record| record.state != PodState::Gone);
        for (attempt, record) in &mut self.pods {
            (record.served, record.is_bound, record.stated, record.tried) = (None, false, None, 0);
            self.changed_pods.insert(*attempt);
        }
        self.changed_nodes.extend(fleet.iter().map(|(id, _)| id));
        self.objects.clone_from(&self.declared);
        self.budgets.forget_shown();
        self.is_cause = true;
    }

    /// The earliest end of a back-off of a waiting pod after this time.
    pub fn next_backoff_end(&self, now: SimTime, initial: u64, max: u64) -> Option<SimTime> {
        let end = |(_, attempt): &(u64, AttemptId)| {
            let record = self.pods.get(attempt).filter(|record| record.tried > 0)?;
            let doubled = initial.saturating_mul(1 << (record.tried - 1).min(40)).min(max);
            Some(record.tried_at.saturating_add(SimDuration::from_secs(doubled)))
        };
        self.waiting.iter().filter_map(end).filter(|at| *at > now).min()
    }
}
