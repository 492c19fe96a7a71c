//! The state of a cluster on which decisions depend. It is updated for each pod.

mod affinity_term;
mod changes;
mod gangs;
mod images;
mod node_info;
mod nominations;
mod owners;
mod pod_classes;
mod pod_info;
mod port;
mod resources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use affinity_term::Term;
pub use gangs::{Gangs, GroupKey, Policy};
pub use images::Images;
pub use node_info::{NodeInfo, NodeShape, Placed};
pub use nominations::Nominations;
pub use owners::Owners;
pub use pod_classes::{ClassId, PodClass, PodClasses};
pub use pod_info::{PodInfo, Spread, Terms};
pub use port::HostPort;
pub use resources::{Amounts, Requests, Resource};

use changes::Changes;

use crate::cycle::by_zone_in_turn;
use crate::devices::Devices;
use crate::object::{DisruptionBudget, Labels, Namespace, Node, Seconds, Selector};

/// A cluster: nodes with their pods, and the objects that decisions depend on.
#[derive(Debug, Default)]
pub struct Cluster {
    /// Sorted by name, which is the order in which decisions examine them.
    pub(crate) nodes: Vec<NodeInfo>,
    pub(crate) by_name: BTreeMap<Arc<str>, usize>,
    /// The order in which nodes are examined.
    pub(crate) by_zone: Vec<usize>,
    /// Nodes with at least one pod that has terms of affinity, and that requires anti-affinity.
    with_affinity: BTreeSet<usize>,
    with_required_anti_affinity: BTreeSet<usize>,
    pub(crate) namespaces: BTreeMap<Arc<str>, Labels>,
    /// The services and the controllers of pods.
    pub owners: Owners,
    pub(crate) classes: PodClasses,
    pub budgets: Vec<Budget>,
    pub images: Images,
    pub nominations: Nominations,
    pub devices: Devices,
    pub gangs: Gangs,
    changes: Changes,
}

/// A disruption budget.
#[derive(Debug)]
pub struct Budget {
    pub namespace: Arc<str>,
    pub selector: Selector,
    pub disruptions_allowed: i32,
    /// Names of pods that are counted already.
    pub disrupted: BTreeSet<Arc<str>>,
}

/// Why a cluster is invalid: two objects have the same name, or a pod is on a node that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    #[error("two nodes have the name `{0}`")]
    SameNode(Arc<str>),
    #[error("pod `{pod}` is on `{node}`, but there is no such node")]
    NoNode { pod: Arc<str>, node: Arc<str> },
}

impl Cluster {
    /// A cluster of these nodes without pods.
    ///
    /// # Errors
    /// If two nodes have the same name.
    pub fn new(nodes: Vec<Node>) -> Result<Cluster, ClusterError> {
        let mut nodes: Vec<NodeInfo> = nodes.into_iter().map(NodeInfo::new).collect();
        nodes.sort_by(|one, other| one.name().cmp(other.name()));
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].name() == pair[1].name()) {
            return Err(ClusterError::SameNode(Arc::clone(pair[0].name())));
        }
        let mut cluster = Cluster { nodes, ..Cluster::default() };
        cluster.index_nodes();
        Ok(cluster)
    }

    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    pub fn node(&self, index: usize) -> &NodeInfo {
        &self.nodes[index]
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The version of the nodes. It increases with every change that a filter can see on a node alone.
    pub fn node_version(&mut self) -> u64 {
        for name in self.nominations.take_touched() {
            if let Some(index) = self.find(&name) {
                self.changes.note(index);
            }
        }
        self.changes.last()
    }

    /// The nodes that changed after a version, each once. `None` if the nodes themselves are others, or their indices.
    /// Call [`Cluster::node_version`] first.
    pub fn changed_since(&self, version: u64) -> Option<impl Iterator<Item = usize> + '_> {
        self.changes.since(version)
    }

    pub fn add_namespace(&mut self, namespace: Namespace) {
        self.namespaces.insert(namespace.metadata.name, namespace.metadata.labels);
    }

    pub fn add_budget(&mut self, budget: DisruptionBudget) {
        self.budgets.push(Budget {
            namespace: budget.metadata.namespace(),
            selector: Selector::new(budget.spec.selector.as_ref()),
            disruptions_allowed: budget.status.disruptions_allowed,
            disrupted: budget.status.disrupted_pods.into_keys().collect(),
        });
    }

    pub fn namespace_labels(&self, namespace: &str) -> Option<&Labels> {
        self.namespaces.get(namespace)
    }

    /// Places a pod on a node.
    ///
    /// # Errors
    /// If there is no node of this name.
    pub fn place(&mut self, pod: Arc<PodInfo>, node: &str, start: Option<Seconds>) -> Result<(), ClusterError> {
        let Some(index) = self.find(node) else {
            return Err(ClusterError::NoNode { pod: Arc::clone(&pod.key), node: Arc::from(node) });
        };
        let class = Some(self.classes.enter(&pod));
        self.nodes[index].add(Placed { pod, start, class, is_preempted: false });
        self.changes.note(index);
        self.note_affinity(index);
        Ok(())
    }

    /// Removes a pod from its node. Returns the pod; `None` if it is not on the node.
    pub fn remove(&mut self, node: usize, key: &str) -> Option<Placed> {
        let removed = self.nodes[node].remove(key)?;
        if let Some(class) = removed.class {
            self.classes.leave(class);
        }
        self.changes.note(node);
        self.note_affinity(node);
        Some(removed)
    }

    /// Marks a pod on a node as being deleted, for preemption or for another reason. The pod keeps its resources until
    /// it is removed.
    pub fn begin_deletion(&mut self, node: usize, key: &str, at: Seconds, is_preempted: bool) {
        let Some(place) = self.nodes[node].pods.iter().position(|placed| *placed.pod.key == *key) else { return };
        let placed = &mut self.nodes[node].pods[place];
        placed.is_preempted |= is_preempted;
        if placed.pod.is_being_deleted() {
            return;
        }
        let mut pod = placed.pod.pod.clone();
        pod.metadata.deletion_timestamp = Some(at);
        let pod = Arc::new(PodInfo::new(pod));
        let before = placed.class.replace(self.classes.enter(&pod));
        placed.pod = pod;
        let now = placed.class;
        if let Some(class) = before {
            self.classes.leave(class);
        }
        self.nodes[node].change_class(before, now);
        self.changes.note(node);
    }

    /// Adds nodes. Indices of nodes change.
    ///
    /// # Errors
    /// If a node of this name exists. Nothing is added then.
    pub fn add_nodes(&mut self, nodes: Vec<Node>) -> Result<(), ClusterError> {
        if nodes.is_empty() {
            return Ok(());
        }
        let mut names = BTreeSet::new();
        for node in &nodes {
            let name = &node.metadata.name;
            if self.by_name.contains_key(name) || !names.insert(Arc::clone(name)) {
                return Err(ClusterError::SameNode(Arc::clone(name)));
            }
        }
        self.nodes.extend(nodes.into_iter().map(NodeInfo::new));
        self.nodes.sort_by(|one, other| one.name().cmp(other.name()));
        self.index_nodes();
        Ok(())
    }

    /// Removes a node with its pods. Indices of nodes change. Returns the pods that were on the node.
    pub fn remove_node(&mut self, name: &str) -> Vec<Placed> {
        let Some(index) = self.find(name) else { return Vec::new() };
        let node = self.nodes.remove(index);
        for class in node.pods.iter().filter_map(|placed| placed.class) {
            self.classes.leave(class);
        }
        self.index_nodes();
        node.pods
    }

    /// Replaces the properties of a node. Its pods stay. Returns whether anything changed.
    pub fn update_node(&mut self, index: usize, node: Node) -> bool {
        let shape = NodeInfo::new(node).shape;
        let before = &self.nodes[index].shape;
        if *before == shape {
            return false;
        }
        let has_other_images = before.images != shape.images;
        let has_other_labels = before.labels != shape.labels;
        self.nodes[index].shape = shape;
        self.changes.note(index);
        if has_other_images {
            self.images = Images::of(&self.nodes);
        }
        if has_other_labels {
            self.order_by_zone();
        }
        true
    }

    /// Computes everything that depends on the indices of nodes.
    fn index_nodes(&mut self) {
        let names = self.nodes.iter().enumerate().map(|(index, node)| (Arc::clone(node.name()), index));
        self.by_name = names.collect();
        self.order_by_zone();
        self.images = Images::of(&self.nodes);
        self.changes.reindex(self.nodes.len());
        self.with_affinity.clear();
        self.with_required_anti_affinity.clear();
        (0..self.nodes.len()).for_each(|index| self.note_affinity(index));
    }

    fn order_by_zone(&mut self) {
        let labels = self.nodes.iter().enumerate().map(|(index, node)| (index, node.labels()));
        self.by_zone = by_zone_in_turn(labels);
    }

    fn note_affinity(&mut self, index: usize) {
        let node = &self.nodes[index];
        note(&mut self.with_affinity, index, node.with_affinity > 0);
        note(&mut self.with_required_anti_affinity, index, node.with_required_anti_affinity > 0);
    }

    /// The nodes with a pod that has terms of affinity.
    pub fn with_affinity(&self) -> impl Iterator<Item = &NodeInfo> {
        self.with_affinity.iter().map(|index| &self.nodes[*index])
    }

    /// The nodes with a pod that requires anti-affinity.
    pub fn with_required_anti_affinity(&self) -> impl Iterator<Item = &NodeInfo> {
        self.with_required_anti_affinity.iter().map(|index| &self.nodes[*index])
    }
}

fn note(set: &mut BTreeSet<usize>, index: usize, is_in: bool) {
    if is_in {
        set.insert(index);
    } else {
        set.remove(&index);
    }
}
