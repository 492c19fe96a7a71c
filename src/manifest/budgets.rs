//! How many disruptions each budget allows.
//!
//! The rule is that of `pkg/controller/disruption` of Kubernetes 1.35: percentages of pods are rounded up.

use crate::api::{DisruptionBudget, Labels, Selector};
use crate::cluster::{Budget, BudgetLimit, Cluster, Share};

impl Cluster {
    /// The budgets with the disruptions that they allow. Without a status, all pods of the files count as healthy.
    pub fn disruption_budgets(&self) -> Vec<DisruptionBudget> {
        self.budgets.iter().map(|budget| self.with_status(budget)).collect()
    }

    fn with_status(&self, stated: &Budget) -> DisruptionBudget {
        let mut budget = stated.budget.clone();
        let Some(limit) = stated.limit.filter(|_| !stated.has_status) else { return budget };
        let namespace = budget.metadata.namespace();
        let selector = Selector::new(budget.spec.selector.as_ref());
        let is_of = |of: &str, labels: &Labels| of == &*namespace && selector.matches(labels);
        let existing =
            self.pods.iter().filter(|stated| is_of(&stated.pod.metadata.namespace(), &stated.pod.metadata.labels));
        let made = self.controllers.iter().filter(|controller| !controller.is_suspended).flat_map(|controller| {
            let sets = controller.sets.iter();
            sets.filter(|set| is_of(&controller.namespace, &set.template.metadata.labels)).map(|set| set.numbers.len())
        });
        let expected = existing.count() as u64 + made.map(|pods| pods as u64).sum::<u64>();
        let of = |share: Share| match share {
            Share::Count(count) => u64::from(count),
            Share::Percent(percent) => (expected * u64::from(percent)).div_ceil(100),
        };
        let allowed = match limit {
            BudgetLimit::MinAvailable(share) => expected.saturating_sub(of(share)),
            BudgetLimit::MaxUnavailable(share) => expected.min(of(share)),
        };
        budget.status.disruptions_allowed = i32::try_from(allowed).unwrap_or(i32::MAX);
        budget
    }
}
