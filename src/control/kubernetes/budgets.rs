//! Disruption budgets: how many disruptions each allows follows the pods, as the disruption controller computes it.
//!
//! A pod counts as expected from its creation until its job needs it no longer, and as healthy while it runs. The
//! numbers are brought up to date between the attempts of different instants. Two preemptions at one instant see the
//! same number, because kube-scheduler does not wait for the controller either. At the first instant, the numbers are
//! those that the objects state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::core::store::ReplicaIndex;
use dryrack_kubernetes::cluster::{Cluster, PodInfo};
use dryrack_kubernetes::object::{DisruptionBudgetSpec, Labels};
use dryrack_units::SimTime;

/// The index of a budget in the cluster.
type BudgetIndex = usize;

/// The budgets that select a pod.
type Selecting = Arc<[BudgetIndex]>;

#[derive(Debug, Default)]
pub(super) struct Budgets {
    limits: Vec<Limit>,
    /// The budgets that select the pods with a namespace and labels.
    of_labels: HashMap<(Arc<str>, Labels), Selecting, FixedState>,
    expected: BTreeMap<ReplicaIndex, Selecting>,
    /// The running pods by key.
    healthy: BTreeMap<Arc<str>, Selecting>,
    /// The budgets whose pods have changed.
    changed: BTreeSet<BudgetIndex>,
    begun_at: Option<SimTime>,
    updated_at: Option<SimTime>,
}

#[derive(Debug)]
struct Limit {
    spec: DisruptionBudgetSpec,
    expected: u64,
    healthy: u64,
}

impl Budgets {
    pub fn new(specs: impl Iterator<Item = DisruptionBudgetSpec>) -> Budgets {
        let limits = specs.map(|spec| Limit { spec, expected: 0, healthy: 0 }).collect();
        Budgets { limits, ..Budgets::default() }
    }

    /// Counts the pod of a replica as expected.
    pub fn expect(&mut self, replica: ReplicaIndex, pod: &PodInfo, cluster: &Cluster) {
        self.no_longer_expect(replica);
        if self.limits.is_empty() {
            return;
        }
        let key = (Arc::clone(&pod.namespace), pod.labels().clone());
        let budgets = Arc::clone(self.of_labels.entry(key).or_insert_with(|| budgets_of(pod, cluster)));
        budgets.iter().for_each(|budget| self.limits[*budget].expected += 1);
        self.changed.extend(budgets.iter());
        if !budgets.is_empty() {
            self.expected.insert(replica, budgets);
        }
    }

    pub fn no_longer_expect(&mut self, replica: ReplicaIndex) {
        for budget in self.expected.remove(&replica).iter().flat_map(|budgets| &**budgets) {
            self.limits[*budget].expected -= 1;
            self.changed.insert(*budget);
        }
    }

    /// Counts the pod of a replica as healthy, because it runs.
    pub fn count_as_healthy(&mut self, replica: ReplicaIndex, pod: &PodInfo) {
        self.no_longer_healthy(&pod.key);
        let Some(budgets) = self.expected.get(&replica).map(Arc::clone) else { return };
        budgets.iter().for_each(|budget| self.limits[*budget].healthy += 1);
        self.changed.extend(budgets.iter());
        self.healthy.insert(Arc::clone(&pod.key), budgets);
    }

    pub fn no_longer_healthy(&mut self, pod: &str) {
        for budget in self.healthy.remove(pod).iter().flat_map(|budgets| &**budgets) {
            self.limits[*budget].healthy -= 1;
            self.changed.insert(*budget);
        }
    }

    /// Brings the budgets of the cluster up to date, once at each instant after the first. Returns how many have changed.
    pub fn follow(&mut self, now: SimTime, cluster: &mut Cluster) -> u64 {
        let is_first = *self.begun_at.get_or_insert(now) == now;
        if is_first || self.updated_at.replace(now) == Some(now) {
            return 0;
        }
        let mut changes = 0;
        for index in std::mem::take(&mut self.changed) {
            let Limit { spec, expected, healthy } = &self.limits[index];
            let Some(allowed) = spec.allows(*healthy, *expected) else { continue };
            let allowed = i32::try_from(allowed).unwrap_or(i32::MAX);
            let before = std::mem::replace(&mut cluster.budgets[index].disruptions_allowed, allowed);
            changes += u64::from(before != allowed);
        }
        changes
    }
}

/// The budgets of the cluster that select a pod.
fn budgets_of(pod: &PodInfo, cluster: &Cluster) -> Selecting {
    let budgets = cluster.budgets.iter().enumerate();
    let of_pod = budgets.filter(|(_, budget)| budget.namespace == pod.namespace);
    of_pod.filter(|(_, budget)| budget.selector.matches(pod.labels())).map(|(index, _)| index).collect()
}
