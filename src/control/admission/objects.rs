//! The objects of Kueue, as the input `KueueApplied` states them.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use dryrack_kueue::FairStrategy;
use dryrack_kueue::objects::{ClusterQueueSpec, CohortSpec, Named, ResourceFlavorSpec, StopPolicy, TopologySpec};
use dryrack_objects::{LabelSelector, Labels, Selector};

/// A list of objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub flavors: Vec<Named<ResourceFlavorSpec>>,
    pub topologies: Vec<Named<TopologySpec>>,
    pub cohorts: Vec<Named<CohortSpec>>,
    pub cluster_queues: Vec<Named<ClusterQueueSpec>>,
    pub local_queues: Vec<LocalQueue>,
    /// The labels of namespaces that have some, by name.
    pub namespaces: Vec<Named<Labels>>,
    /// The namespaces that each ClusterQueue admits.
    pub selectors: Vec<Named<Selector>>,
    /// From the configuration of Kueue's manager.
    pub fair_sharing: Option<FairSharing>,
}

#[derive(Clone, Debug)]
pub(crate) struct LocalQueue {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub cluster_queue: Arc<str>,
    pub stop: StopPolicy,
}

#[derive(Deserialize)]
struct Stated {
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Value>,
    #[serde(default, rename = "fairSharing")]
    fair_sharing: Option<FairSharing>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: Arc<str>,
    #[serde(default)]
    namespace: Option<Arc<str>>,
    #[serde(default)]
    labels: Labels,
}

/// Fair sharing in the configuration of Kueue's manager. Absent means that it is off.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FairSharing {
    #[serde(default = "yes")]
    pub enable: bool,
    #[serde(default)]
    pub preemption_strategies: Vec<FairStrategy>,
}

fn yes() -> bool {
    true
}

impl FairSharing {
    /// The strategies of preemption; `None` without fair sharing.
    pub fn strategies(&self) -> Option<Vec<FairStrategy>> {
        let stated = self.preemption_strategies.clone();
        let default = || vec![FairStrategy::LessThanOrEqualToFinalShare, FairStrategy::LessThanInitialShare];
        self.enable.then(|| if stated.is_empty() { default() } else { stated })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LocalQueueSpec {
    cluster_queue: Arc<str>,
    #[serde(default)]
    stop_policy: StopPolicy,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamespacesOfQueue {
    #[serde(default = "every_namespace")]
    namespace_selector: Option<LabelSelector>,
}

/// Earlier logs state no selector, and their queues admitted every namespace. `null` is that of a manifest without one.
fn every_namespace() -> Option<LabelSelector> {
    Some(LabelSelector::default())
}

/// The namespaces that a ClusterQueue admits: none if the selector is `null`, and all with an empty one.
fn selector(stated: &Stated) -> Option<Named<Selector>> {
    let of_queue = NamespacesOfQueue::deserialize(stated.spec.as_ref()?).ok()?;
    let spec = Selector::new(of_queue.namespace_selector.as_ref());
    Some(Named { name: Arc::clone(&stated.metadata.name), spec })
}

fn named<S: DeserializeOwned>(stated: Stated) -> Option<Named<S>> {
    let spec = stated.spec.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    Some(Named { name: stated.metadata.name, spec: serde_json::from_value(spec).ok()? })
}

impl Objects {
    /// Reads a JSON list of manifests. `None` if it cannot be read.
    pub fn read(text: &str) -> Option<Objects> {
        let mut objects = Objects::default();
        for stated in serde_json::from_str::<Vec<Stated>>(text).ok()? {
            match stated.kind.as_str() {
                "ResourceFlavor" => objects.flavors.push(named(stated)?),
                "Topology" => objects.topologies.push(named(stated)?),
                "Cohort" => objects.cohorts.push(named(stated)?),
                "Namespace" => {
                    let Metadata { name, labels, .. } = stated.metadata;
                    objects.namespaces.push(Named { name, spec: labels });
                }
                "ClusterQueue" => {
                    objects.selectors.push(selector(&stated)?);
                    objects.cluster_queues.push(named(stated)?);
                }
                "LocalQueue" => {
                    let namespace = stated.metadata.namespace.clone().unwrap_or_else(|| Arc::from("default"));
                    let Named { name, spec: LocalQueueSpec { cluster_queue, stop_policy: stop } } = named(stated)?;
                    objects.local_queues.push(LocalQueue { namespace, name, cluster_queue, stop });
                }
                "Configuration" => objects.fair_sharing = stated.fair_sharing,
                _ => return None,
            }
        }
        Some(objects)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_queue_that_states_no_selector_admits_every_namespace_and_one_that_states_null_admits_none() {
        let admits = |spec: serde_json::Value| {
            let of_queue = NamespacesOfQueue::deserialize(&spec).expect("a specification");
            of_queue.namespace_selector.map(|selector| selector == LabelSelector::default())
        };
        assert_eq!(admits(json!({})), Some(true));
        assert_eq!(admits(json!({"namespaceSelector": {}})), Some(true));
        assert_eq!(admits(json!({"namespaceSelector": null})), None);
        assert_eq!(admits(json!({"namespaceSelector": {"matchLabels": {"team": "a"}}})), Some(false));
    }
}
