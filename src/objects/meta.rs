//! The metadata that all objects have.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Labels, Seconds, is_default};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    #[serde(skip_serializing_if = "is_default")]
    pub name: Arc<str>,
    /// Empty if the object has no namespace or does not state it.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: Arc<str>,
    #[serde(skip_serializing_if = "is_default")]
    pub uid: Arc<str>,
    #[serde(skip_serializing_if = "is_default")]
    pub labels: Labels,
    /// Only a scheduler in another process reads them.
    #[serde(skip_serializing_if = "is_default")]
    pub annotations: Labels,
    #[serde(skip_serializing_if = "is_default")]
    pub owner_references: Vec<OwnerReference>,
    /// Set once the object is being deleted.
    #[serde(skip_serializing_if = "is_default")]
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

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The group and the version of the owner, such as `apps/v1`.
    #[serde(skip_serializing_if = "is_default")]
    pub api_version: Arc<str>,
    #[serde(skip_serializing_if = "is_default")]
    pub kind: Arc<str>,
    #[serde(skip_serializing_if = "is_default")]
    pub name: Arc<str>,
    #[serde(skip_serializing_if = "is_default")]
    pub controller: bool,
}
