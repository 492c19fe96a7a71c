//! The queue of pods that wait for a node.
//!
//! ```text
//!   added ──> active ──attempt──> bound
//!               ^         │
//!               │         └── refused ──> unschedulable ──an event that may help──┐
//!               └──────────────── back-off is over <─────────────────────────────┘
//! ```
//!
//! Pods with equal specifications form a group, and are interchangeable apart from their order. If one of them is
//! refused, all are refused, so an event costs one attempt for each group and not one for each pod. A pod whose attempt
//! depends on the pod itself (because of claims, a gang or a nomination) is a group of its own.
//!
//! Pods are tried in order of priority. Pods of equal priority are tried in order of their last refusal, and then in
//! order of arrival. The time of a refusal is counted for a whole group, not for each pod as in kube-scheduler.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::hints::Event;
use super::options::QueueOptions;
use super::plugins::Plugins;
use crate::core::store::ReplicaIndex;
use crate::flow::Held;
use dryrack_kubernetes::cycle::{Plugin, RefusedByAll};
use dryrack_units::{SimDuration, SimTime};

pub(super) type GroupId = u32;

/// How often upstream looks for pods that were refused long ago (`flushUnschedulablePodsLeftover` in
/// `pkg/scheduler/backend/queue/scheduling_queue.go`).
const FLUSH_NANOS: u64 = 30_000_000_000;

/// How often a group is tried at one instant before it waits for its back-off, even if the queue is empty otherwise. An
/// attempt takes no time here, and a pod may be replaced at the instant at which it ends. So a pod that preempts others
/// for a place could take turns with their replacements for ever without any time passing.
const MOST_ATTEMPTS_AT_ONCE: u32 = 10;

/// The state of a group of waiting pods.
#[derive(Debug)]
struct Group {
    priority: i32,
    /// The number of GPUs that each pod requests. Zero if events are considered whatever GPUs are free.
    gpus: u64,
    /// Increases with each round in which the group was refused.
    refused_in: u64,
    /// The waiting pods in order of arrival.
    pods: BTreeSet<(u64, ReplicaIndex)>,
    state: State,
    refusal: Option<Refusal>,
    /// Pods that were added after the last refusal.
    untold: Vec<ReplicaIndex>,
    /// Number of attempts since a pod of the group was last bound.
    attempts: u32,
    /// Number of these attempts at the instant of the last one.
    attempts_at_once: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Active,
    /// Waits for the end of its back-off, and then becomes active.
    BackOff {
        until: SimTime,
    },
    /// Was refused, and waits for an event.
    Unschedulable,
}

/// The last refusal of a group.
#[derive(Debug)]
pub(super) struct Refusal {
    pub plugins: Plugins,
    pub since: SimTime,
    /// The version of the cluster. Later refusals have the same version or a higher one.
    pub version: u64,
    pub held: Held,
    /// `None` if the next attempt examines all nodes.
    pub by_node: Option<RefusedByAll>,
}

/// The order of active groups, each represented by its first pod.
type ActiveKey = (Reverse<i32>, u64, u64, GroupId);
/// The version and the time of a refusal. Both increase together.
type RefusalKey = (u64, SimTime, GroupId);

#[derive(Debug, Default)]
pub(super) struct Queue {
    groups: BTreeMap<GroupId, Group>,
    active: BTreeSet<ActiveKey>,
    back_off: BTreeSet<(SimTime, GroupId)>,
    /// The groups in the state `Unschedulable`, by the plugins that refused them and by the number of GPUs that each pod
    /// requests, and in order of their refusals.
    unschedulable: BTreeMap<Plugins, BTreeSet<(u64, GroupId)>>,
    by_refusal: BTreeSet<RefusalKey>,
    /// The number of groups with each priority.
    priorities: BTreeMap<i32, usize>,
    /// The group and the number of each waiting pod.
    waiting: BTreeMap<ReplicaIndex, (GroupId, u64)>,
    added: u64,
    rounds: u64,
    /// Increases whenever the list of waiting pods changes.
    pub changes: u64,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The highest priority of a waiting pod.
    pub fn highest_priority(&self) -> Option<i32> {
        self.priorities.last_key_value().map(|(priority, _)| *priority)
    }

    /// Adds a pod that requests this number of GPUs, and makes its group active.
    pub fn add(&mut self, pod: ReplicaIndex, group: GroupId, (priority, gpus): (i32, u64)) {
        self.added += 1;
        self.changes += 1;
        self.waiting.insert(pod, (group, self.added));
        self.leave_state(group);
        if !self.groups.contains_key(&group) {
            *self.priorities.entry(priority).or_default() += 1;
        }
        let entry = self.groups.entry(group).or_insert_with(|| Group {
            priority,
            gpus,
            refused_in: 0,
            pods: BTreeSet::new(),
            state: State::Active,
            refusal: None,
            untold: Vec::new(),
            attempts: 0,
            attempts_at_once: 0,
        });
        entry.pods.insert((self.added, pod));
        entry.untold.push(pod);
        entry.state = State::Active;
        self.enter_state(group);
    }

    /// Removes a pod, because it is bound or no longer exists.
    pub fn remove(&mut self, pod: ReplicaIndex) {
        let Some((group, number)) = self.waiting.remove(&pod) else { return };
        self.changes += 1;
        self.leave_state(group);
        let entry = self.groups.get_mut(&group).expect("a waiting pod has a group");
        entry.pods.remove(&(number, pod));
        if entry.pods.is_empty() {
            let of_priority = self.priorities.get_mut(&entry.priority).expect("a group with this priority");
            *of_priority -= 1;
            if *of_priority == 0 {
                self.priorities.remove(&entry.priority);
            }
            self.groups.remove(&group);
        } else {
            self.enter_state(group);
        }
    }

    /// The first pod to try. It stays in the queue.
    pub fn next(&self) -> Option<(ReplicaIndex, GroupId)> {
        let (_, _, number, group) = self.active.first()?;
        let pods = &self.groups[group].pods;
        pods.first().filter(|(first, _)| first == number).map(|(_, pod)| (*pod, *group))
    }

    /// Records that the pods of a group are refused for now.
    pub fn refuse(&mut self, group: GroupId, refusal: Refusal) {
        self.rounds += 1;
        self.leave_state(group);
        let Some(entry) = self.groups.get_mut(&group) else { return };
        let is_at_once = entry.refusal.as_ref().is_some_and(|last| last.since == refusal.since);
        entry.attempts_at_once = if is_at_once { entry.attempts_at_once.saturating_add(1) } else { 1 };
        entry.attempts = entry.attempts.saturating_add(1);
        entry.refused_in = self.rounds;
        entry.refusal = Some(refusal);
        entry.state = State::Unschedulable;
        self.enter_state(group);
    }

    /// The last refusal of a group.
    pub fn refusal(&self, group: GroupId) -> Option<&Refusal> {
        self.groups.get(&group)?.refusal.as_ref()
    }

    /// The refusals of a group by all nodes, which are kept for its next attempt.
    pub fn by_node_mut(&mut self, group: GroupId) -> &mut Option<RefusedByAll> {
        let refusal = self.groups.get_mut(&group).and_then(|group| group.refusal.as_mut());
        &mut refusal.expect("a refused group").by_node
    }

    /// Takes the pods of a group that were added after its last refusal.
    pub fn take_untold(&mut self, group: GroupId) -> Vec<ReplicaIndex> {
        let untold = self.groups.get_mut(&group).map(|group| std::mem::take(&mut group.untold)).unwrap_or_default();
        untold.into_iter().filter(|pod| self.waiting.get(pod).is_some_and(|(of, _)| *of == group)).collect()
    }

    /// Moves a pod to a group of its own, which is refused. The attempts of the pod count on.
    pub fn set_apart(&mut self, pod: ReplicaIndex, group: GroupId, priority: i32, refusal: Refusal) {
        let before = self.waiting.get(&pod).and_then(|(group, _)| self.groups.get(group));
        let before = before.map(|of| (of.attempts, of.attempts_at_once, of.refusal.as_ref().map(|last| last.since)));
        self.remove(pod);
        // A pod that gets a nomination may be helped whatever GPUs are free.
        self.add(pod, group, (priority, 0));
        self.take_untold(group);
        let since = refusal.since;
        self.refuse(group, refusal);
        if let (Some((attempts, at_once, last)), Some(entry)) = (before, self.groups.get_mut(&group)) {
            entry.attempts = entry.attempts.saturating_add(attempts);
            entry.attempts_at_once += if last == Some(since) { at_once } else { 0 };
        }
    }

    /// Records that an attempt failed with an error. It is repeated after the back-off.
    pub fn fail(&mut self, group: GroupId, now: SimTime, options: QueueOptions) {
        let Some(entry) = self.groups.get_mut(&group) else { return };
        entry.attempts = entry.attempts.saturating_add(1);
        let until = now.saturating_add(back_off(options, entry.attempts));
        self.set_state(group, State::BackOff { until });
    }

    /// Records that a pod of the group was bound.
    pub fn succeeded(&mut self, group: GroupId) {
        if let Some(entry) = self.groups.get_mut(&group) {
            entry.attempts = 0;
        }
    }

    /// Returns the groups that this event may help to the queue. `helps` says whether it may help a pod that these
    /// plugins refused. `most_gpus` is the largest number of GPUs that a pod may request if the event helps it only because
    /// a node has room.
    pub fn happened(
        &mut self,
        event: &Event<'_>,
        (now, most_gpus): (SimTime, u64),
        options: QueueOptions,
        mut helps: impl FnMut(ReplicaIndex, Plugins, &Event<'_>) -> bool,
    ) {
        // The releases without hints do not look at their queue when a node is removed.
        if !options.hints && matches!(event, Event::NodeRemoved) {
            return;
        }
        let mut returning = Vec::new();
        let affected = event.plugins();
        for (plugins, groups) in &self.unschedulable {
            // No plugin has refused a pod for which there was no node at all.
            let lacked_nodes = plugins.is_empty() && matches!(event, Event::NodeAdded(_));
            if options.hints && !plugins.meets(affected) && !lacked_nodes {
                continue;
            }
            let is_for_room = options.hints && plugins.meets_only(affected, Plugin::NodeResourcesFit);
            let most = if is_for_room { most_gpus } else { u64::MAX };
            for (_, group) in groups.range(..=(most, GroupId::MAX)) {
                let entry = &self.groups[group];
                let (Some(refusal), Some((_, first))) = (&entry.refusal, entry.pods.first()) else { continue };
                if !options.hints || lacked_nodes || helps(*first, *plugins, event) {
                    let pops_early = options.pop_from_backoff
                        && (refusal.since < now || entry.attempts_at_once < MOST_ATTEMPTS_AT_ONCE);
                    returning.push((*group, refusal.since, entry.attempts, pops_early));
                }
            }
        }
        for (group, since, attempts, pops_early) in returning {
            let until = since.saturating_add(back_off(options, attempts));
            let state = if pops_early || until <= now { State::Active } else { State::BackOff { until } };
            self.set_state(group, state);
        }
    }

    /// Makes the group of a pod active, without waiting for its back-off.
    pub fn activate(&mut self, pod: ReplicaIndex, now: SimTime) {
        let Some((group, _)) = self.waiting.get(&pod).copied() else { return };
        let entry = &self.groups[&group];
        let is_at_once = entry.refusal.as_ref().is_some_and(|last| last.since == now);
        if !matches!(entry.state, State::Active) && (!is_at_once || entry.attempts_at_once < MOST_ATTEMPTS_AT_ONCE) {
            self.set_state(group, State::Active);
        }
    }

    /// Makes the groups active whose back-off is over, and those that were refused long ago and before the last change
    /// of the cluster.
    pub fn advance(&mut self, now: SimTime, options: QueueOptions, version: u64) {
        while let Some((until, group)) = self.back_off.first().copied()
            && until <= now
        {
            self.set_state(group, State::Active);
        }
        while let Some((at, group)) = self.next_flush(options, version)
            && at <= now
        {
            self.set_state(group, State::Active);
        }
    }

    /// The next refused group that is tried again without an event, and when. If nothing has changed since the refusal
    /// of a group, it would be refused again, so it is not tried.
    fn next_flush(&self, options: QueueOptions, version: u64) -> Option<(SimTime, GroupId)> {
        let (_, since, group) = self.by_refusal.first().filter(|(refused_at, _, _)| *refused_at != version)?;
        // Upstream looks every 30 s for pods that have waited for longer.
        let late = since.saturating_add(options.max_unschedulable).as_nanos() / FLUSH_NANOS;
        Some((SimTime::from_nanos((late + 1).saturating_mul(FLUSH_NANOS)), *group))
    }

    /// When a group becomes active without an event.
    pub fn due(&self, options: QueueOptions, version: u64) -> Option<SimTime> {
        let back_off = self.back_off.first().map(|(until, _)| *until);
        let flushed = self.next_flush(options, version).map(|(at, _)| at);
        back_off.into_iter().chain(flushed).min()
    }

    /// The pods of a group.
    pub fn pods_of(&self, group: GroupId) -> Vec<ReplicaIndex> {
        self.groups.get(&group).map_or_else(Vec::new, |group| group.pods.iter().map(|(_, pod)| *pod).collect())
    }

    /// All waiting pods, in the order in which they are tried.
    pub fn in_order(&self) -> Vec<ReplicaIndex> {
        let mut pods: Vec<_> = (self.groups.values())
            .flat_map(|group| {
                let key = move |number: u64| (Reverse(group.priority), group.refused_in, number);
                group.pods.iter().map(move |(number, pod)| (key(*number), *pod))
            })
            .collect();
        pods.sort_unstable();
        pods.into_iter().map(|(_, pod)| pod).collect()
    }

    fn set_state(&mut self, group: GroupId, state: State) {
        self.leave_state(group);
        if let Some(entry) = self.groups.get_mut(&group) {
            entry.state = state;
            self.enter_state(group);
        }
    }

    fn active_key(&self, group: GroupId) -> Option<ActiveKey> {
        let entry = &self.groups[&group];
        let (number, _) = entry.pods.first()?;
        Some((Reverse(entry.priority), entry.refused_in, *number, group))
    }

    fn enter_state(&mut self, group: GroupId) {
        match self.groups[&group].state {
            State::Active => self.active.extend(self.active_key(group)),
            State::BackOff { until } => drop(self.back_off.insert((until, group))),
            State::Unschedulable => {
                let (plugins, key) = self.refusal_keys(group);
                self.unschedulable.entry(plugins).or_default().insert((self.groups[&group].gpus, group));
                self.by_refusal.insert(key);
            }
        }
    }

    fn leave_state(&mut self, group: GroupId) {
        let Some(entry) = self.groups.get(&group) else { return };
        match entry.state {
            State::Active => {
                if let Some(key) = self.active_key(group) {
                    self.active.remove(&key);
                }
            }
            State::BackOff { until } => drop(self.back_off.remove(&(until, group))),
            State::Unschedulable => {
                let (plugins, key) = self.refusal_keys(group);
                let groups = self.unschedulable.get_mut(&plugins).expect("the group is unschedulable");
                groups.remove(&(self.groups[&group].gpus, group));
                self.by_refusal.remove(&key);
            }
        }
    }

    fn refusal_keys(&self, group: GroupId) -> (Plugins, RefusalKey) {
        let refusal = self.groups[&group].refusal.as_ref().expect("an unschedulable group was refused");
        (refusal.plugins, (refusal.version, refusal.since, group))
    }

    /// Asserts that each waiting pod is in exactly one group, and each group in exactly one state.
    pub fn check(&self) {
        let pods: usize = self.groups.values().map(|group| group.pods.len()).sum();
        assert_eq!(pods, self.waiting.len(), "a pod waits twice");
        let refused: usize = self.unschedulable.values().map(BTreeSet::len).sum();
        assert_eq!(refused, self.by_refusal.len(), "a refused group is in one index alone");
        let states = self.active.len() + self.back_off.len() + refused;
        assert_eq!(states, self.groups.len(), "a group of pods is in no state, or in two");
    }
}

/// The back-off after this many attempts.
fn back_off(options: QueueOptions, attempts: u32) -> SimDuration {
    let doublings = attempts.saturating_sub(1).min(40);
    options.initial_backoff.saturating_mul(1 << doublings).min(options.max_backoff)
}
