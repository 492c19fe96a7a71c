//! Disruption budgets: how many disruptions each allows follows the pods, as the disruption controller computes it.
//!
//! A pod counts as expected from its creation until its job needs it no longer, and as healthy while it runs. The numbers
//! are brought up to date between the attempts of different instants. Two preemptions at one instant see the same number,
//! because kube-scheduler does not wait for the controller either.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Kubernetes;
use crate::core::store::ReplicaIndex;
use dryrack_kubernetes::cluster::PodInfo;
use dryrack_kubernetes::object::DisruptionBudgetSpec;
use dryrack_units::SimTime;

/// The index of a budget in the cluster.
type BudgetIndex = usize;

#[derive(Debug, Default)]
pub(super) struct Budgets {
    limits: Vec<Limit>,
    expected: BTreeMap<ReplicaIndex, Vec<BudgetIndex>>,
    /// The running pods by key.
    healthy: BTreeMap<Arc<str>, Vec<BudgetIndex>>,
    /// The budgets whose pods have changed.
    changed: BTreeSet<BudgetIndex>,
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

    fn expect(&mut self, replica: ReplicaIndex, budgets: Vec<BudgetIndex>) {
        self.no_longer_expect(replica);
        budgets.iter().for_each(|budget| self.limits[*budget].expected += 1);
        self.changed.extend(&budgets);
        if !budgets.is_empty() {
            self.expected.insert(replica, budgets);
        }
    }

    pub fn no_longer_expect(&mut self, replica: ReplicaIndex) {
        for budget in self.expected.remove(&replica).unwrap_or_default() {
            self.limits[budget].expected -= 1;
            self.changed.insert(budget);
        }
    }

    fn is_healthy(&mut self, pod: &Arc<str>, budgets: Vec<BudgetIndex>) {
        self.no_longer_healthy(pod);
        budgets.iter().for_each(|budget| self.limits[*budget].healthy += 1);
        self.changed.extend(&budgets);
        if !budgets.is_empty() {
            self.healthy.insert(Arc::clone(pod), budgets);
        }
    }

    pub fn no_longer_healthy(&mut self, pod: &str) {
        for budget in self.healthy.remove(pod).unwrap_or_default() {
            self.limits[budget].healthy -= 1;
            self.changed.insert(budget);
        }
    }
}

impl Kubernetes {
    fn budgets_of(&self, pod: &PodInfo) -> Vec<BudgetIndex> {
        let budgets = self.cluster.budgets.iter().enumerate();
        let of_pod = budgets.filter(|(_, budget)| budget.namespace == pod.namespace);
        of_pod.filter(|(_, budget)| budget.selector.matches(pod.labels())).map(|(index, _)| index).collect()
    }

    pub(super) fn expect_in_budgets(&mut self, replica: ReplicaIndex, pod: &PodInfo) {
        let budgets = self.budgets_of(pod);
        self.budgets.expect(replica, budgets);
    }

    pub(super) fn count_as_healthy(&mut self, pod: &PodInfo) {
        let budgets = self.budgets_of(pod);
        self.budgets.is_healthy(&pod.key, budgets);
    }

    /// Brings the budgets up to date, once at each instant.
    pub(super) fn follow_budgets(&mut self, now: SimTime) {
        if self.budgets.updated_at.replace(now) == Some(now) {
            return;
        }
        for index in std::mem::take(&mut self.budgets.changed) {
            let Limit { spec, expected, healthy } = &self.budgets.limits[index];
            let Some(allowed) = spec.allows(*healthy, *expected) else { continue };
            let budget = &mut self.cluster.budgets[index];
            let allowed = i32::try_from(allowed).unwrap_or(i32::MAX);
            if std::mem::replace(&mut budget.disruptions_allowed, allowed) != allowed {
                self.version += 1;
            }
        }
    }
}
