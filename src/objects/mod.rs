//! Floor 0. Objects of the Kubernetes API on which scheduling depends, with the fields that a scheduler reads.
//!
//! Every type reads and writes the JSON form of its object. Unknown fields are ignored, and a field with its default
//! value is not written. This room must never decide anything about the objects, apart from whether a selector or a
//! toleration matches.

#![warn(clippy::unwrap_used)]

mod claim;
mod cluster;
mod labels;
mod meta;
mod node;
mod pod;
mod quantity;
mod selector;
mod slice;
mod time;

pub use claim::{
    AllocatedDevices, Allocation, AllocationMode, ClaimDevices, ClaimSpec, ClaimStatus, Constraint, Consumer,
    DeviceRequest, DeviceResult, ExactRequest, ResourceClaim,
};
pub use cluster::{
    ClusterObjects, CountOrPercent, DisruptionBudget, DisruptionBudgetSpec, DisruptionBudgetStatus, GangPolicy,
    Namespace, PodController, PodControllerSpec, PodGroup, PodGroupPolicy, PriorityClass, ReplicationController,
    ReplicationControllerSpec, Service, ServiceSpec, Workload, WorkloadSpec,
};
pub use labels::{LabelSelector, Labels, Requirement, RequirementOperator, Selector};
pub use meta::{ObjectMeta, OwnerReference};
pub use node::{Effect, Image, Node, NodeSpec, NodeStatus, ResourceList, Taint};
pub use pod::{
    Affinity, AffinityTerm, Container, ContainerPort, InclusionPolicy, NodeAffinity, Pod, PodAffinity, PodClaim,
    PodSpec, PodStatus, PreemptionPolicy, PreferredNodes, ResourceRequirements, RestartPolicy, SchedulingGate,
    SpreadConstraint, Toleration, TolerationOperator, WeightedAffinityTerm, WhenUnsatisfiable, WorkloadReference,
};
pub use quantity::{Quantity, QuantityError};
pub use selector::{NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};
pub use slice::{
    Attribute, Capacity, CelSelector, Device, DeviceClass, DeviceClassSpec, DeviceSelector, Pool, ResourceSlice,
    SliceSpec,
};
pub use time::{Seconds, TimeError};

/// Whether a field has the value that it gets if it is absent.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
