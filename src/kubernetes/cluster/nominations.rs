//! Nodes that are reserved for pods which have preempted other pods there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::PodInfo;

#[derive(Debug, Default)]
pub struct Nominations {
    by_pod: BTreeMap<Arc<str>, Arc<str>>,
    /// In order of nomination.
    by_node: BTreeMap<Arc<str>, Vec<Arc<PodInfo>>>,
    /// The nodes whose nominations changed since this was last read.
    touched: BTreeSet<Arc<str>>,
}

impl Nominations {
    /// Nominates a node to a pod, in place of an earlier one.
    pub fn nominate(&mut self, pod: &Arc<PodInfo>, node: &Arc<str>) {
        self.clear(&pod.key);
        self.by_pod.insert(Arc::clone(&pod.key), Arc::clone(node));
        self.by_node.entry(Arc::clone(node)).or_default().push(Arc::clone(pod));
        self.touched.insert(Arc::clone(node));
    }

    /// Withdraws the nomination of a pod, if it has one.
    pub fn clear(&mut self, key: &str) {
        if let Some(node) = self.by_pod.remove(key)
            && let Some(pods) = self.by_node.get_mut(&node)
        {
            pods.retain(|pod| *pod.key != *key);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
            self.touched.insert(node);
        }
    }

    pub(super) fn take_touched(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.touched)
    }

    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    pub fn node_of(&self, key: &str) -> Option<&Arc<str>> {
        self.by_pod.get(key)
    }

    /// The pods to which a node is nominated.
    pub fn on(&self, node: &str) -> &[Arc<PodInfo>] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }
}
