//! The status of disruption budgets, as the disruption controller keeps it while pods come and go.
//!
//! At the first instant, budgets allow what they state. Later, they allow what `minAvailable` or `maxUnavailable` leaves of
//! the pods that run. A budget without a limit keeps what it states. This repeats the rule of the Kubernetes flow, because
//! the program learns of budgets only from these objects.

use std::collections::{BTreeMap, BTreeSet};

use dryrack_ids::{AttemptId, JobId};
use dryrack_objects::{DisruptionBudget, Selector};
use dryrack_units::SimTime;
use dryrack_workload::JobSpec;
use serde_json::Value;

use super::objects;

/// A replica of a job.
type Replica = (JobId, u32);

fn replica_of(attempt: AttemptId) -> Replica {
    (attempt.job, attempt.replica)
}

#[derive(Debug, Default)]
pub struct Budgets {
    budgets: Vec<Followed>,
    /// The budgets that select the pods of a replica that should exist.
    expected: BTreeMap<Replica, Vec<usize>>,
    healthy: BTreeSet<Replica>,
    /// Replicas whose attempt has ended. They are no longer expected, unless they are tried again.
    ended: BTreeSet<Replica>,
    changed: BTreeSet<usize>,
}

#[derive(Debug)]
struct Followed {
    object: DisruptionBudget,
    selector: Selector,
    /// How many disruptions the program believes to be allowed.
    shown: i32,
    expected: u64,
    healthy: u64,
}

impl Budgets {
    pub fn declare(&mut self, budgets: &[DisruptionBudget]) {
        self.budgets.extend(budgets.iter().map(|object| Followed {
            selector: Selector::new(object.spec.selector.as_ref()),
            object: object.clone(),
            shown: object.status.disruptions_allowed,
            expected: 0,
            healthy: 0,
        }));
    }

    /// Counts the pod of an attempt as one that should exist.
    pub fn expect(&mut self, attempt: AttemptId, spec: &JobSpec) {
        let replica = replica_of(attempt);
        self.ended.remove(&replica);
        if self.budgets.is_empty() || self.expected.contains_key(&replica) {
            return;
        }
        let Some(pod) = &spec.pod else { return };
        let namespace = pod.metadata.namespace();
        let selects = |(_, budget): &(usize, &Followed)| {
            budget.object.metadata.namespace() == namespace && budget.selector.matches(&pod.metadata.labels)
        };
        let of_pod: Vec<usize> = self.budgets.iter().enumerate().filter(selects).map(|(index, _)| index).collect();
        for index in &of_pod {
            self.budgets[*index].expected += 1;
            self.changed.insert(*index);
        }
        self.expected.insert(replica, of_pod);
    }

    pub fn runs(&mut self, attempt: AttemptId) {
        let replica = replica_of(attempt);
        let Some(of_pod) = self.expected.get(&replica) else { return };
        if self.healthy.insert(replica) {
            of_pod.iter().for_each(|index| self.budgets[*index].healthy += 1);
            self.changed.extend(of_pod);
        }
    }

    /// The pod of an attempt stops or is lost.
    pub fn stops(&mut self, attempt: AttemptId) {
        let replica = replica_of(attempt);
        let Some(of_pod) = self.expected.get(&replica).filter(|_| self.healthy.remove(&replica)) else { return };
        of_pod.iter().for_each(|index| self.budgets[*index].healthy -= 1);
        self.changed.extend(of_pod);
    }

    pub fn ends(&mut self, attempt: AttemptId) {
        self.stops(attempt);
        self.ended.insert(replica_of(attempt));
    }

    /// The replica of an attempt that has ended is tried again.
    pub fn is_tried_again(&mut self, attempt: AttemptId) {
        self.ended.remove(&replica_of(attempt));
    }

    /// The budgets that allow another number of disruptions than was last shown.
    pub fn follow(&mut self, now: SimTime) -> Vec<Value> {
        for replica in std::mem::take(&mut self.ended) {
            let of_pod = self.expected.remove(&replica).unwrap_or_default();
            of_pod.iter().for_each(|index| self.budgets[*index].expected -= 1);
            self.changed.extend(of_pod);
        }
        if now == SimTime::ZERO {
            return Vec::new();
        }
        let mut described = Vec::new();
        for index in std::mem::take(&mut self.changed) {
            let Followed { object, shown, expected, healthy, .. } = &mut self.budgets[index];
            let Some(allowed) = object.spec.allows(*healthy, *expected) else { continue };
            let allowed = i32::try_from(allowed).unwrap_or(i32::MAX);
            if std::mem::replace(shown, allowed) != allowed {
                let mut value = objects::budget(object);
                value["status"]["disruptionsAllowed"] = Value::from(allowed);
                value["status"]["currentHealthy"] = Value::from(*healthy);
                value["status"]["desiredHealthy"] = Value::from(healthy.saturating_sub(allowed.unsigned_abs().into()));
                value["status"]["expectedPods"] = Value::from(*expected);
                described.push(value);
            }
        }
        described
    }

    /// Shows all budgets again to a program that was started again. It sees what they state first.
    pub fn forget_shown(&mut self) {
        self.budgets.iter_mut().for_each(|budget| budget.shown = budget.object.status.disruptions_allowed);
        self.changed.extend(0..self.budgets.len());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use dryrack_workload::{Demand, JobSpec, TaskDemand};

    fn spec() -> JobSpec {
        let pod = serde_json::from_value(json!({"metadata": {"labels": {"app": "web"}}})).expect("a pod");
        let demand = Demand::of(TaskDemand::cpu_only(dryrack_units::MilliCpu::from_cores(1)));
        JobSpec { pod: Some(Arc::new(pod)), ..JobSpec::of("web".into(), demand) }
    }

    fn attempt(replica: u32, number: u32) -> AttemptId {
        AttemptId { job: JobId::new(0), replica, number }
    }

    /// Three pods of which two must be available. By hand: nothing is shown at the first instant; with three running pods,
    /// one may be disrupted; with two, none; and when the third is done for good, still none of two. With a limit of one
    /// unavailable pod, one of the two may then be disrupted.
    #[test]
    fn a_budget_allows_what_the_running_pods_leave() {
        let budget = |name: &str, limit: &str, pods: u32| {
            let spec = json!({"selector": {"matchLabels": {"app": "web"}}, limit: pods});
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a budget")
        };
        let mut budgets = Budgets::default();
        budgets.declare(&[budget("least", "minAvailable", 2), budget("most", "maxUnavailable", 1)]);
        let spec = spec();
        let allowed = |shown: Vec<Value>| -> Vec<(String, i64, i64)> {
            let one = |value: &Value| {
                let name = value["metadata"]["name"].as_str().unwrap_or_default().to_string();
                let count = |key: &str| value["status"][key].as_i64().unwrap_or(-1);
                (name, count("disruptionsAllowed"), count("expectedPods"))
            };
            shown.iter().map(one).collect()
        };
        let at = SimTime::from_secs;
        (0..3).for_each(|replica| budgets.expect(attempt(replica, 1), &spec));
        (0..3).for_each(|replica| budgets.runs(attempt(replica, 1)));
        assert!(budgets.follow(at(0)).is_empty(), "the first instant");
        let least = |allowed, expected| ("least".to_string(), allowed, expected);
        let most = |allowed, expected| ("most".to_string(), allowed, expected);
        assert_eq!(allowed(budgets.follow(at(1))), [least(1, 3), most(1, 3)]);
        budgets.ends(attempt(2, 1));
        budgets.is_tried_again(attempt(2, 2));
        assert_eq!(allowed(budgets.follow(at(2))), [least(0, 3), most(0, 3)]);
        budgets.ends(attempt(2, 2));
        assert_eq!(allowed(budgets.follow(at(3))), [most(1, 2)]);
        assert!(budgets.follow(at(4)).is_empty(), "nothing has changed");
    }
}
