//! Services and controllers of pods, whose selectors say which pods are spread by default.
//!
//! The rule is that of `pkg/scheduler/framework/plugins/helper/spread.go` of Kubernetes 1.35: the selectors of all
//! services that select the pod, and the selector of the ReplicationController, ReplicaSet or StatefulSet that is named
//! as the controller of the pod and exists. In 1.20, the controllers are all those whose selectors match the pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PodInfo;
use crate::cycle::SpreadControllers;
use crate::object::{Labels, PodController, ReplicationController, Selector, Service};

/// Controllers by namespace and name.
type ByName<T> = BTreeMap<(Arc<str>, Arc<str>), T>;

#[derive(Debug, Default)]
pub struct Owners {
    services: Vec<(Arc<str>, Labels)>,
    replication_controllers: ByName<Labels>,
    replica_sets: ByName<Selector>,
    stateful_sets: ByName<Selector>,
}

impl Owners {
    pub fn add_service(&mut self, service: Service) {
        if let Some(selector) = service.spec.selector {
            self.services.push((service.metadata.namespace(), selector));
        }
    }

    pub fn add_replication_controller(&mut self, controller: ReplicationController) {
        let key = (controller.metadata.namespace(), controller.metadata.name);
        self.replication_controllers.insert(key, controller.spec.selector);
    }

    pub fn add_replica_set(&mut self, set: PodController) {
        let selector = Selector::new(set.spec.selector.as_ref());
        self.replica_sets.insert((set.metadata.namespace(), set.metadata.name), selector);
    }

    pub fn add_stateful_set(&mut self, set: PodController) {
        let selector = Selector::new(set.spec.selector.as_ref());
        self.stateful_sets.insert((set.metadata.namespace(), set.metadata.name), selector);
    }

    /// The selector of the pods among which a pod is spread by default. Without requirements, it is not spread.
    pub fn default_selector(&self, pod: &PodInfo, controllers: SpreadControllers) -> Selector {
        match controllers {
            SpreadControllers::Owner => self.selector_of_owner(pod),
            SpreadControllers::AllThatSelect => self.selector_of_all(pod),
        }
    }

    fn selector_of_owner(&self, pod: &PodInfo) -> Selector {
        let mut labels = self.service_labels(pod);
        let Some(owner) = pod.pod.metadata.owner_references.iter().find(|owner| owner.controller) else {
            return Selector::of_labels(&labels);
        };
        let key = (Arc::clone(&pod.namespace), Arc::clone(&owner.name));
        let own = match (&*owner.api_version, &*owner.kind) {
            ("v1", "ReplicationController") => {
                labels.extend(self.replication_controllers.get(&key).cloned().unwrap_or_default());
                None
            }
            ("apps/v1", "ReplicaSet") => self.replica_sets.get(&key),
            ("apps/v1", "StatefulSet") => self.stateful_sets.get(&key),
            _ => None,
        };
        let mut selector = Selector::of_labels(&labels);
        own.iter().for_each(|own| require_all(&mut selector, own));
        selector
    }

    /// The rule of 1.20, which asks no pod for its owner.
    fn selector_of_all(&self, pod: &PodInfo) -> Selector {
        let mut labels = self.service_labels(pod);
        let is_near = |(namespace, _): &(Arc<str>, Arc<str>)| *namespace == pod.namespace;
        for (_, own) in self.replication_controllers.iter().filter(|(key, _)| is_near(key)) {
            if !own.is_empty() && Selector::of_labels(own).matches(pod.labels()) {
                labels.extend(own.clone());
            }
        }
        let mut selector = Selector::of_labels(&labels);
        for (_, own) in self.replica_sets.iter().chain(&self.stateful_sets).filter(|(key, _)| is_near(key)) {
            if own.matches(pod.labels()) {
                require_all(&mut selector, own);
            }
        }
        selector
    }

    /// The labels by which the services of a pod select it, merged.
    fn service_labels(&self, pod: &PodInfo) -> Labels {
        let selects = |(namespace, selector): &&(Arc<str>, Labels)| {
            *namespace == pod.namespace && selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value))
        };
        self.services.iter().filter(selects).flat_map(|(_, selector)| selector.clone()).collect()
    }
}

/// Adds the requirements of another selector. A controller without a selector adds nothing.
fn require_all(selector: &mut Selector, other: &Selector) {
    if let Selector::All(requirements) = other {
        requirements.iter().for_each(|requirement| selector.and(requirement.clone()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    fn named(name: &str, selector: Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"selector": selector}})
    }

    fn owners() -> Owners {
        let mut owners = Owners::default();
        owners.add_service(object(named("tier", json!({"tier": "front"}))));
        owners.add_service(object(named("none", Value::Null)));
        let hash = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "hash", "operator": "Exists"}]});
        owners.add_replica_set(object(named("web", hash)));
        owners.add_replica_set(object(named("nothing", Value::Null)));
        owners.add_stateful_set(object(named("web", json!({"matchLabels": {"app": "store"}}))));
        owners.add_replication_controller(object(named("web", json!({"app": "old"}))));
        owners
    }

    /// The rule of `helper.DefaultSelector` of Kubernetes, worked out by hand: requirements as `key=value`, and `key` for
    /// one that any value meets.
    #[test]
    fn services_and_the_controller_of_a_pod_select_the_pods_among_which_it_is_spread() {
        let owner = |version: &str, kind: &str, name: &str, controller: bool| json!([{"apiVersion": version, "kind": kind, "name": name, "controller": controller}]);
        for (title, owner, tier, wanted) in [
            ("no owner and no service", json!([]), "back", ""),
            ("a service alone", json!([]), "front", "tier=front"),
            ("a ReplicaSet", owner("apps/v1", "ReplicaSet", "web", true), "back", "app=web hash"),
            (
                "a service and a ReplicaSet",
                owner("apps/v1", "ReplicaSet", "web", true),
                "front",
                "tier=front app=web hash",
            ),
            ("a StatefulSet", owner("apps/v1", "StatefulSet", "web", true), "back", "app=store"),
            (
                "a ReplicationController",
                owner("v1", "ReplicationController", "web", true),
                "front",
                "app=old tier=front",
            ),
            ("a ReplicaSet of another group", owner("other/v1", "ReplicaSet", "web", true), "back", ""),
            ("a ReplicaSet that does not exist", owner("apps/v1", "ReplicaSet", "gone", true), "front", "tier=front"),
            ("a ReplicaSet without a selector", owner("apps/v1", "ReplicaSet", "nothing", true), "front", "tier=front"),
            ("an owner that is not the controller", owner("apps/v1", "ReplicaSet", "web", false), "back", ""),
            ("a Job", owner("batch/v1", "Job", "web", true), "back", ""),
        ] {
            let pod = json!({"metadata": {"name": "p", "labels": {"tier": tier}, "ownerReferences": owner}});
            let Selector::All(found) = owners().default_selector(&PodInfo::new(object(pod)), SpreadControllers::Owner)
            else {
                panic!("{title}")
            };
            let text = |one: &crate::object::Requirement| match one.values.first() {
                Some(value) => format!("{}={value}", one.key),
                None => one.key.to_string(),
            };
            assert_eq!(found.iter().map(text).collect::<Vec<_>>().join(" "), wanted, "{title}");
        }
    }

    /// The rule of 1.20: no pod here names an owner.
    #[test]
    fn controllers_that_select_a_pod_spread_it_although_they_do_not_own_it() {
        for (labels, wanted) in [
            (json!({"app": "web"}), vec![]),
            (json!({"app": "web", "hash": "1", "tier": "front"}), vec!["tier", "app", "hash"]),
            (json!({"app": "store"}), vec!["app"]),
            (json!({"app": "old", "tier": "front"}), vec!["app", "tier"]),
        ] {
            let pod = PodInfo::new(object(json!({"metadata": {"name": "p", "labels": labels}})));
            let found = owners().default_selector(&pod, SpreadControllers::AllThatSelect);
            let Selector::All(found) = found else { panic!("{labels}") };
            assert_eq!(found.iter().map(|one| &*one.key).collect::<Vec<_>>(), wanted, "{labels}");
        }
    }
}
