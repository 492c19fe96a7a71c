//! The fields of the objects, with the fields of the API in release 1.35, of Kueue's API in `v1beta1` and `v1beta2`, of
//! JobSet in `v1alpha2` and of LeaderWorkerSet in `v1`.

mod claims;
mod cluster;
mod controllers;
mod kueue;
mod meta;
mod node;
mod pod;

pub use claims::{CLAIM, CLAIM_TEMPLATE, DEVICE_CLASS, SLICE};
pub use cluster::{BUDGET, NAMESPACE, PRIORITY_CLASS, RUNTIME_CLASS, SERVICE, WORKLOAD};
pub use controllers::{
    DAEMON_SET, DEPLOYMENT, JOB, JOB_SET, LEADER_WORKER_SET, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET,
};
pub use kueue::{
    CLUSTER_QUEUE, COHORT, CONFIGURATION, KUEUE_WORKLOAD, LOCAL_QUEUE, RESOURCE_FLAVOR, TOPOLOGY,
    WORKLOAD_PRIORITY_CLASS,
};
pub use meta::{ANNOTATIONS, META_QUIET, QUIET_ANNOTATIONS, UNFOLLOWED_ANNOTATIONS, UNFOLLOWED_LABELS};
pub use node::NODE;
pub use pod::POD;
