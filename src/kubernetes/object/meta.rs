//! The metadata that all objects have.

use std::sync::Arc;

use serde::Deserialize;

use super::{Labels, Seconds};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    pub name: Arc<str>,
    /// Empty if the object has no namespace or does not state it.
    pub namespace: Arc<str>,
    pub uid: Arc<str>,
    pub labels: Labels,
    pub owner_references: Vec<OwnerReference>,
    /// Set once the object is being deleted.
    pub deletion_timestamp: Option<Seconds>,
}

impl ObjectMeta {
    /// The namespace, which is `default` if none is stated.
    pub fn namespace(&self) -> Arc<str> {
        if self.namespace.is_empty() { Arc::from("default") } else { Arc::clone(&self.namespace) }
    }

    /// `namespace/name`, by which an object is named in messages.
    pub fn key(&self) -> Arc<str> {
        Arc::from(format!("{}/{}", self.namespace(), self.name))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub controller: bool,
}
