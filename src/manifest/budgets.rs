//! How many disruptions each budget allows at the beginning.

use crate::api::{DisruptionBudget, Labels, Selector};
use crate::cluster::{Budget, Cluster};

impl Cluster {
    /// The budgets with the disruptions that they allow. Without a status, all pods of the files count as healthy.
    pub fn disruption_budgets(&self) -> Vec<DisruptionBudget> {
        self.budgets.iter().map(|budget| self.with_status(budget)).collect()
    }

    fn with_status(&self, stated: &Budget) -> DisruptionBudget {
        let mut budget = stated.budget.clone();
        if stated.has_status {
            return budget;
        }
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
        let Some(allowed) = budget.spec.allows(expected, expected) else { return budget };
        budget.status.disruptions_allowed = i32::try_from(allowed).unwrap_or(i32::MAX);
        budget
    }
}
