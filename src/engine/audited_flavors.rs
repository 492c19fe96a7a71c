//! The tolerations that Kueue adds to the pods it admits, as the audit reads them: from the manifests of the flavors and
//! from the events of admission alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dryrack_event::AdmittedPodSet;
use dryrack_objects::Toleration;
use dryrack_workload::JobSpec;
use serde_json::Value;

/// The namespace and the name of a workload.
type Key = (Arc<str>, Arc<str>);

/// A field that is null is absent, as in the API.
fn toleration(stated: &Value) -> Toleration {
    let fields = stated.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let fields = fields.map(|(key, value)| (key.clone(), value.clone())).collect();
    serde_json::from_value(Value::Object(fields)).expect("the control plane has read it")
}

#[derive(Default)]
pub struct Flavors {
    tolerations: BTreeMap<String, Vec<Toleration>>,
    /// The tolerations of each pod set of the workloads that were admitted.
    admitted: BTreeMap<Key, Vec<Vec<Toleration>>>,
}

impl Flavors {
    /// Reads the flavors of a JSON list of manifests.
    pub fn apply(&mut self, objects: &str) {
        let objects: Vec<Value> = serde_json::from_str(objects).expect("the control plane has read it");
        for flavor in objects.iter().filter(|object| object["kind"] == "ResourceFlavor") {
            let name = flavor["metadata"]["name"].as_str().unwrap_or_default().to_string();
            let stated = flavor["spec"]["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
            self.tolerations.insert(name, stated.iter().map(toleration).collect());
        }
    }

    /// Notes the flavors of a workload that is admitted. Flavors that change later do not change its pods.
    pub fn admit(&mut self, spec: &JobSpec, pod_sets: &[AdmittedPodSet]) {
        let Some(part) = &spec.queued else { return };
        let of_set = |set: &AdmittedPodSet| {
            let flavors: BTreeSet<&str> = set.flavors.values().map(|flavor| &**flavor).collect();
            flavors.into_iter().filter_map(|flavor| self.tolerations.get(flavor)).flatten().cloned().collect()
        };
        let key = (Arc::clone(&part.workload.namespace), Arc::clone(&part.workload.name));
        self.admitted.insert(key, pod_sets.iter().map(of_set).collect());
    }

    /// What the last admission of its workload has added to the pods of a job.
    pub fn tolerations(&self, spec: &JobSpec) -> impl Iterator<Item = &Toleration> {
        let part = spec.queued.as_ref();
        let sets = part.and_then(|part| {
            let key = (Arc::clone(&part.workload.namespace), Arc::clone(&part.workload.name));
            Some((self.admitted.get(&key)?, part.pod_set))
        });
        sets.into_iter().flat_map(|(sets, own)| {
            let is_own = move |place: usize| own.is_none_or(|own| own as usize == place);
            sets.iter().enumerate().filter(move |(place, _)| is_own(*place)).flat_map(|(_, set)| set)
        })
    }
}
