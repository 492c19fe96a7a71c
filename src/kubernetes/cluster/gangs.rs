//! Gangs: the groups of workloads, the pods that belong to them, and the pods that already hold a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::PodInfo;
use crate::object::Workload;

/// A group of a workload: namespace, workload and group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    pub namespace: Arc<str>,
    pub workload: Arc<str>,
    pub group: Arc<str>,
}

impl GroupKey {
    /// The group that a pod names as its own.
    pub fn of(pod: &PodInfo) -> Option<GroupKey> {
        let reference = pod.pod.spec.workload_ref.as_ref()?;
        Some(GroupKey {
            namespace: Arc::clone(&pod.namespace),
            workload: Arc::clone(&reference.name),
            group: Arc::clone(&reference.pod_group),
        })
    }
}

#[derive(Debug, Default)]
pub struct Gangs {
    /// Whether the scheduler considers groups. If not, every pod is scheduled by itself.
    pub is_enabled: bool,
    workloads: BTreeMap<(Arc<str>, Arc<str>), Workload>,
    members: BTreeMap<GroupKey, Members>,
    /// Pods that hold a node and wait for others of their group, in order.
    waiting: Vec<(GroupKey, Arc<str>)>,
}

#[derive(Debug, Default)]
struct Members {
    known: BTreeSet<Arc<str>>,
    /// Members that are bound, or that hold a node and wait.
    holding: BTreeSet<Arc<str>>,
}

/// The policy of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    NoWorkload,
    NoGroup,
    /// The pods are scheduled one by one.
    Single,
    Gang {
        min_count: usize,
    },
}

impl Gangs {
    pub fn add_workload(&mut self, workload: Workload) {
        let key = (workload.metadata.namespace(), Arc::clone(&workload.metadata.name));
        self.workloads.insert(key, workload);
    }

    /// Registers a pod, with or without a node.
    pub fn know(&mut self, pod: &PodInfo) {
        if let Some(key) = GroupKey::of(pod) {
            self.members.entry(key).or_default().known.insert(Arc::clone(&pod.key));
        }
    }

    pub fn policy(&self, key: &GroupKey) -> Policy {
        let Some(workload) = self.workloads.get(&(Arc::clone(&key.namespace), Arc::clone(&key.workload))) else {
            return Policy::NoWorkload;
        };
        match workload.spec.pod_groups.iter().find(|group| group.name == key.group) {
            None => Policy::NoGroup,
            Some(group) => match &group.policy.gang {
                None => Policy::Single,
                Some(gang) => Policy::Gang { min_count: usize::try_from(gang.min_count).unwrap_or(0) },
            },
        }
    }

    pub fn known(&self, key: &GroupKey) -> usize {
        self.members.get(key).map_or(0, |members| members.known.len())
    }

    /// The number of members that are bound or hold a node.
    pub fn holding(&self, key: &GroupKey) -> usize {
        self.members.get(key).map_or(0, |members| members.holding.len())
    }

    /// The members that neither are bound nor hold a node, in order of their keys.
    pub fn without_node(&self, key: &GroupKey) -> impl Iterator<Item = &Arc<str>> {
        self.members.get(key).into_iter().flat_map(|members| members.known.difference(&members.holding))
    }

    /// Records that a member has got a node. The member is bound, or it waits.
    pub fn hold(&mut self, key: &GroupKey, pod: &Arc<str>, waits: bool) {
        self.members.entry(key.clone()).or_default().holding.insert(Arc::clone(pod));
        if waits {
            self.waiting.push((key.clone(), Arc::clone(pod)));
        }
    }

    /// Ends the waiting of the members of a group, which are then bound. Returns them in the order in which they began
    /// to wait.
    pub fn release(&mut self, key: &GroupKey) -> Vec<Arc<str>> {
        let of_group = self.waiting.extract_if(.., |(group, _)| group == key);
        of_group.map(|(_, pod)| pod).collect()
    }

    /// Takes the nodes from the members of a group that wait. Returns them in the order in which they began to wait.
    pub fn reject(&mut self, key: &GroupKey) -> Vec<Arc<str>> {
        let rejected = self.release(key);
        rejected.iter().for_each(|pod| self.let_go(key, pod));
        rejected
    }

    /// Records that a member has lost its node before it was bound.
    pub fn let_go(&mut self, key: &GroupKey, pod: &Arc<str>) {
        if let Some(members) = self.members.get_mut(key) {
            members.holding.remove(pod);
        }
    }

    /// Forgets a pod that no longer exists.
    pub fn forget(&mut self, pod: &PodInfo) {
        let Some(key) = GroupKey::of(pod) else { return };
        if let Some(members) = self.members.get_mut(&key) {
            members.known.remove(&pod.key);
            members.holding.remove(&pod.key);
        }
        self.waiting.retain(|(group, waiting)| *group != key || *waiting != pod.key);
    }

    /// Takes the nodes from all pods that still wait. Returns the pods in the order in which they began to wait.
    pub fn give_up(&mut self) -> Vec<Arc<str>> {
        let waiting = self.waiting.clone();
        waiting.iter().for_each(|(group, _)| drop(self.reject(group)));
        waiting.into_iter().map(|(_, pod)| pod).collect()
    }
}
