//! The refusals of a pod by all nodes, kept so that the next attempt examines only the nodes that changed since.
//!
//! This needs verdicts that depend on each node alone. The verdicts of spread constraints, of required affinity and of
//! device claims depend on other nodes, so the refusals of such pods are not kept.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::decision::{Decision, Outcome};
use super::profile::Profile;
use super::state::{CycleState, Sight};
use super::verdict::{Code, Objection, Plugin, Reason, Refusal};
use crate::cluster::{Cluster, PodInfo};
use crate::object::Labels;
use crate::plugins::{default_preemption, inter_pod_affinity};

type Number = u16;

/// Numbers for refusals. Equal refusals of all pods have the same number.
#[derive(Debug, Default)]
pub struct KnownRefusals {
    numbers: HashMap<Arc<Refusal>, Number, FixedState>,
    refusals: Vec<Arc<Refusal>>,
}

impl KnownRefusals {
    /// `None` if there are too many different refusals.
    fn number(&mut self, refusal: &Refusal) -> Option<Number> {
        if let Some(number) = self.numbers.get(refusal) {
            return Some(*number);
        }
        let number = Number::try_from(self.refusals.len()).ok()?;
        let refusal = Arc::new(refusal.clone());
        self.refusals.push(Arc::clone(&refusal));
        self.numbers.insert(refusal, number);
        Some(number)
    }

    fn get(&self, number: Number) -> &Refusal {
        &self.refusals[usize::from(number)]
    }
}

/// The refusals of one pod.
#[derive(Debug)]
pub struct RefusedByAll {
    /// The version of the nodes when the pod was refused.
    version: u64,
    by_node: Vec<Number>,
    /// The number of nodes with each refusal. None is zero.
    counts: Vec<(Number, u32)>,
}

impl RefusedByAll {
    /// Keeps the refusals of an attempt. `None` if the pod might get a node although no node changes in its favor, or if
    /// the verdicts depend on more than each node alone.
    pub fn of(decision: &Decision, cluster: &mut Cluster, known: &mut KnownRefusals) -> Option<RefusedByAll> {
        let Outcome::Unschedulable { post_filter, .. } = &decision.outcome else { return None };
        let preempts = post_filter.preemption.as_ref().is_some_and(|preemption| !preemption.best.is_empty());
        let is_of_all_nodes = decision.rejected.len() == cluster.nodes.len()
            && decision.only_nodes.is_none()
            && !cluster.nodes.is_empty();
        if preempts || !is_of_all_nodes || decision.nominated.is_some() || !is_by_node_alone(&decision.pod, cluster) {
            return None;
        }
        let mut kept = RefusedByAll { version: cluster.node_version(), by_node: Vec::new(), counts: Vec::new() };
        for (_, refusal) in &decision.rejected {
            let number = known.number(refusal)?;
            kept.by_node.push(number);
            kept.count(number);
        }
        Some(kept)
    }

    /// Examines the nodes that changed. Returns true if an attempt would have the outcome that all nodes refuse the pod
    /// and preemption helps on none. Otherwise, an attempt must be made.
    pub fn renew(
        &mut self,
        pod: &Arc<PodInfo>,
        cluster: &mut Cluster,
        profile: &Profile,
        known: &mut KnownRefusals,
    ) -> bool {
        let version = cluster.node_version();
        let Some(changed) = cluster.changed_since(self.version) else { return false };
        let changed: Vec<usize> = changed.collect();
        if !changed.is_empty() && cluster.nominations.node_of(&pod.key).is_some() {
            return false;
        }
        let mut state = CycleState::without_plugins(pod);
        let (nodes, budgets) = (&cluster.nodes, &cluster.budgets);
        let no_labels = Labels::new();
        let own_labels = cluster.namespaces.get(&pod.namespace).unwrap_or(&no_labels);
        let mut sight = Sight {
            profile,
            nominations: &cluster.nominations,
            namespaces: &cluster.namespaces,
            devices: &mut cluster.devices,
        };
        for index in changed {
            let node = &nodes[index];
            if inter_pod_affinity::is_repelled_by(node, pod, own_labels) {
                return false;
            }
            let Err(Objection::Refused(refusal)) = state.filter_with_nominated(&mut sight, node) else { return false };
            let is_for_now = refusal.code == Code::Unschedulable;
            if is_for_now && default_preemption::helps_on(&mut state, &mut sight, node, budgets) {
                return false;
            }
            let Some(number) = known.number(&refusal) else { return false };
            self.replace(index, number);
        }
        self.version = version;
        true
    }

    /// The reasons with the number of nodes that have them. A reason may be listed more than once.
    pub fn reasons<'k>(&'k self, known: &'k KnownRefusals) -> impl Iterator<Item = (&'k Reason, u32)> {
        let refusals = self.counts.iter().map(|(number, nodes)| (known.get(*number), *nodes));
        refusals.flat_map(|(refusal, nodes)| refusal.reasons.iter().map(move |reason| (reason, nodes)))
    }

    pub fn plugins<'k>(&'k self, known: &'k KnownRefusals) -> impl Iterator<Item = Plugin> {
        self.counts.iter().map(|(number, _)| known.get(*number).plugin)
    }

    fn replace(&mut self, node: usize, number: Number) {
        let before = std::mem::replace(&mut self.by_node[node], number);
        if before == number {
            return;
        }
        if let Some(place) = self.counts.iter().position(|(counted, _)| *counted == before) {
            self.counts[place].1 -= 1;
            if self.counts[place].1 == 0 {
                self.counts.swap_remove(place);
            }
        }
        self.count(number);
    }

    fn count(&mut self, number: Number) {
        match self.counts.iter_mut().find(|(counted, _)| *counted == number) {
            Some((_, nodes)) => *nodes += 1,
            None => self.counts.push((number, 1)),
        }
    }
}

fn is_by_node_alone(pod: &PodInfo, cluster: &Cluster) -> bool {
    !pod.depends_on_other_nodes() && inter_pod_affinity::pre_filter(pod, cluster).is_none()
}
