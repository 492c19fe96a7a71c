//! The kinds of object that are served. A row has the type of `k8s-openapi` that checks the objects.

use std::sync::Arc;

use k8s_openapi::api::{apps, batch, coordination, core, events, policy, resource, scheduling, storage};
use k8s_openapi::{ClusterResourceScope, DeepMerge, ListableResource, NamespaceResourceScope};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One kind of object.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// The version in which objects are kept, and the others in which they are served. The fields of all are the same.
    pub versions: Vec<Arc<str>>,
    /// The name in paths, such as `pods`.
    pub plural: Arc<str>,
    pub kind: Arc<str>,
    pub is_namespaced: bool,
    pub(crate) typed: Option<Typed>,
}

/// The operations that need the type of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Typed {
    /// Reads an object as its type.
    pub check: fn(&Value) -> Result<(), serde_json::Error>,
    /// A strategic merge: lists of items with a key are merged by it.
    pub merge: fn(Value, Value) -> Result<Value, serde_json::Error>,
}

/// The scope of a type of `k8s-openapi`.
trait Scope {
    const IS_NAMESPACED: bool;
}

impl Scope for ClusterResourceScope {
    const IS_NAMESPACED: bool = false;
}

impl Scope for NamespaceResourceScope {
    const IS_NAMESPACED: bool = true;
}

impl Resource {
    fn of<T>(also: &[&str]) -> Resource
    where
        T: ListableResource + DeserializeOwned + Serialize + DeepMerge,
        T::Scope: Scope,
    {
        Resource {
            group: Arc::from(T::GROUP),
            versions: std::iter::once(T::VERSION).chain(also.iter().copied()).map(Arc::from).collect(),
            plural: Arc::from(T::URL_PATH_SEGMENT),
            kind: Arc::from(T::KIND),
            is_namespaced: T::Scope::IS_NAMESPACED,
            typed: Some(Typed { check: check::<T>, merge: merge::<T> }),
        }
    }

    /// A kind that a foreign scheduler brings, such as the `PodGroup` of Volcano. Its objects are kept as they come.
    pub fn custom(group: &str, version: &str, plural: &str, kind: &str, is_namespaced: bool) -> Resource {
        Resource {
            group: Arc::from(group),
            versions: vec![Arc::from(version)],
            plural: Arc::from(plural),
            kind: Arc::from(kind),
            is_namespaced,
            typed: None,
        }
    }

    /// `v1`, or `policy/v1`.
    pub(crate) fn api_version(&self, version: &str) -> String {
        match &*self.group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }

    /// `pods`, or `poddisruptionbudgets.policy`.
    pub(crate) fn full_name(&self) -> String {
        match &*self.group {
            "" => self.plural.to_string(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

fn check<T: DeserializeOwned>(value: &Value) -> Result<(), serde_json::Error> {
    T::deserialize(value).map(|_: T| ())
}

fn merge<T: DeserializeOwned + Serialize + DeepMerge>(base: Value, patch: Value) -> Result<Value, serde_json::Error> {
    let mut merged: T = serde_json::from_value(base)?;
    merged.merge_from(serde_json::from_value(patch)?);
    serde_json::to_value(merged)
}

/// The kinds that every server has.
pub(crate) fn builtin() -> Vec<Resource> {
    vec![
        Resource::of::<core::v1::Node>(&[]),
        Resource::of::<core::v1::Pod>(&[]),
        Resource::of::<core::v1::Namespace>(&[]),
        Resource::of::<core::v1::Service>(&[]),
        Resource::of::<core::v1::ReplicationController>(&[]),
        Resource::of::<core::v1::PersistentVolume>(&[]),
        Resource::of::<core::v1::PersistentVolumeClaim>(&[]),
        Resource::of::<core::v1::ConfigMap>(&[]),
        Resource::of::<core::v1::Event>(&[]),
        Resource::of::<core::v1::ResourceQuota>(&[]),
        Resource::of::<core::v1::LimitRange>(&[]),
        Resource::of::<apps::v1::Deployment>(&[]),
        Resource::of::<apps::v1::ReplicaSet>(&[]),
        Resource::of::<apps::v1::StatefulSet>(&[]),
        Resource::of::<apps::v1::DaemonSet>(&[]),
        Resource::of::<batch::v1::Job>(&[]),
        Resource::of::<coordination::v1::Lease>(&[]),
        Resource::of::<events::v1::Event>(&["v1beta1"]),
        Resource::of::<policy::v1::PodDisruptionBudget>(&["v1beta1"]),
        Resource::of::<scheduling::v1::PriorityClass>(&[]),
        Resource::of::<scheduling::v1alpha1::Workload>(&[]),
        Resource::of::<storage::v1::StorageClass>(&[]),
        Resource::of::<storage::v1::CSINode>(&[]),
        Resource::of::<storage::v1::CSIDriver>(&[]),
        Resource::of::<storage::v1::CSIStorageCapacity>(&["v1beta1"]),
        Resource::of::<storage::v1::VolumeAttachment>(&[]),
        Resource::of::<resource::v1::DeviceClass>(&[]),
        Resource::of::<resource::v1::ResourceClaim>(&[]),
        Resource::of::<resource::v1::ResourceClaimTemplate>(&[]),
        Resource::of::<resource::v1::ResourceSlice>(&[]),
    ]
}
