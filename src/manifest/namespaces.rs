//! Namespaces and their labels.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::api::{Namespace, ObjectMeta};
use crate::kinds::Kind;
use crate::read::Manifests;

/// Kubernetes labels each namespace with its name.
const NAME: &str = "kubernetes.io/metadata.name";

/// The namespaces of the files. If anything selects namespaces, those that are only named are included.
pub fn completed(manifests: &Manifests, stated: Vec<Namespace>) -> Vec<Namespace> {
    let mut namespaces = stated;
    let selects = |object: &crate::Object| object.kind != Kind::ClusterQueue && mentions_selector(&object.value);
    if manifests.objects.iter().any(selects) {
        let known: BTreeSet<&str> = namespaces.iter().map(|namespace| &*namespace.metadata.name).collect();
        let named: BTreeSet<&str> = manifests.objects.iter().map(|object| object.namespace()).collect();
        let missing: Vec<Arc<str>> =
            named.difference(&known).filter(|name| !name.is_empty()).map(|name| Arc::from(*name)).collect();
        namespaces.extend(
            missing.into_iter().map(|name| Namespace { metadata: ObjectMeta { name, ..ObjectMeta::default() } }),
        );
    }
    for Namespace { metadata } in &mut namespaces {
        metadata.labels.entry(Arc::from(NAME)).or_insert_with(|| Arc::clone(&metadata.name));
    }
    namespaces
}

fn mentions_selector<'v>(fields: impl IntoIterator<Item = (&'v String, &'v Value)>) -> bool {
    fields.into_iter().any(|(key, value)| key == "namespaceSelector" || in_value(value))
}

fn in_value(value: &Value) -> bool {
    match value {
        Value::Object(map) => mentions_selector(map),
        Value::Array(items) => items.iter().any(in_value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
