//! A node with the pods on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::pod_classes::ClassId;
use super::pod_info::PodInfo;
use super::port::HostPort;
use super::resources::{Amounts, pods_of};
use crate::object::{Image, Labels, Node, Seconds, Taint};

/// The properties of a node that pods do not change.
#[derive(Debug, PartialEq, Eq)]
pub struct NodeShape {
    pub name: Arc<str>,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub allocatable: Amounts,
    pub allowed_pods: i64,
    pub images: Vec<Image>,
}

/// A pod on a node.
#[derive(Clone, Debug)]
pub struct Placed {
    pub pod: Arc<PodInfo>,
    /// `None` if the pod has not started.
    pub start: Option<Seconds>,
    /// `None` if the pod is only assumed, on a copy of the node.
    pub class: Option<ClassId>,
    /// Whether the pod is being deleted to make room for another pod.
    pub is_preempted: bool,
}

/// The state of a node. A copy shares the shape.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    pub shape: Arc<NodeShape>,
    /// In order of arrival.
    pub pods: Vec<Placed>,
    /// The classes of the pods, each with its number of pods.
    pub classes: Vec<(ClassId, u32)>,
    pub requested: Amounts,
    /// The sum of the requests with defaults.
    pub assumed: Amounts,
    /// Each port only once, as in kube-scheduler: if two pods use the same port and one is removed, the port becomes
    /// free.
    pub ports: BTreeSet<HostPort>,
    /// The number of pods that have terms of affinity, and of these that require anti-affinity.
    pub with_affinity: usize,
    pub with_required_anti_affinity: usize,
}

impl NodeInfo {
    pub fn new(node: Node) -> NodeInfo {
        let shape = NodeShape {
            allowed_pods: pods_of(&node.status.allocatable),
            allocatable: Amounts::of(&node.status.allocatable),
            name: node.metadata.name,
            labels: node.metadata.labels,
            taints: node.spec.taints,
            unschedulable: node.spec.unschedulable,
            images: node.status.images,
        };
        NodeInfo {
            shape: Arc::new(shape),
            pods: Vec::new(),
            classes: Vec::new(),
            requested: Amounts::default(),
            assumed: Amounts::default(),
            ports: BTreeSet::new(),
            with_affinity: 0,
            with_required_anti_affinity: 0,
        }
    }

    pub fn name(&self) -> &Arc<str> {
        &self.shape.name
    }

    pub fn labels(&self) -> &Labels {
        &self.shape.labels
    }

    pub fn add(&mut self, placed: Placed) {
        let pod = &placed.pod;
        self.requested.add(&pod.requests.exact);
        self.assumed.add(&pod.requests.with_defaults);
        self.ports.extend(pod.ports.iter().cloned());
        self.with_affinity += usize::from(pod.has_affinity());
        self.with_required_anti_affinity += usize::from(!pod.anti_affinity.required.is_empty());
        self.change_class(None, placed.class);
        self.pods.push(placed);
    }

    /// The number of pods of these classes.
    pub fn count_of(&self, is_counted: &[bool]) -> i64 {
        let counted = self.classes.iter().filter(|(class, _)| is_counted[*class as usize]);
        counted.map(|(_, pods)| i64::from(*pods)).sum()
    }

    /// Counts a pod in another class than before.
    pub(super) fn change_class(&mut self, before: Option<ClassId>, now: Option<ClassId>) {
        if let Some(place) = self.classes.iter().position(|(class, _)| Some(*class) == before) {
            self.classes[place].1 -= 1;
            if self.classes[place].1 == 0 {
                self.classes.remove(place);
            }
        }
        match now.and_then(|now| self.classes.iter_mut().find(|(class, _)| *class == now)) {
            Some((_, pods)) => *pods += 1,
            None => self.classes.extend(now.map(|class| (class, 1))),
        }
    }

    /// Removes the pod with this key and returns it; `None` if it is not on the node.
    pub fn remove(&mut self, key: &str) -> Option<Placed> {
        let index = self.pods.iter().position(|placed| *placed.pod.key == *key)?;
        let placed = self.pods.remove(index);
        let pod = &placed.pod;
        self.requested.subtract(&pod.requests.exact);
        self.assumed.subtract(&pod.requests.with_defaults);
        for port in &pod.ports {
            self.ports.remove(port);
        }
        self.change_class(placed.class, None);
        self.with_affinity -= usize::from(pod.has_affinity());
        self.with_required_anti_affinity -= usize::from(!pod.anti_affinity.required.is_empty());
        Some(placed)
    }
}
