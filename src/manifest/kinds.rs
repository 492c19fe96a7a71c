//! The kinds of objects that matter to a rehearsal.

use crate::fields;
use crate::shape::{Fields, Named};

/// A kind of object that matters to a rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Node,
    Namespace,
    PriorityClass,
    RuntimeClass,
    Service,
    Budget,
    DeviceClass,
    Slice,
    Claim,
    ClaimTemplate,
    Workload,
    Topology,
    Flavor,
    Cohort,
    ClusterQueue,
    LocalQueue,
    WorkloadPriorityClass,
    /// The configuration of Kueue's manager, which is in a ConfigMap.
    Configuration,
    QueuedWorkload,
    DaemonSet,
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    LeaderWorkerSet,
    JobSet,
    Job,
    Pod,
}

/// What is known of a kind.
#[derive(Debug)]
pub struct Known {
    pub kind: Kind,
    /// The group of the API: the part of `apiVersion` before the slash.
    pub group: &'static str,
    /// The versions of the group that have the kind, separated by spaces. The first is the usual one.
    pub versions: &'static str,
    pub name: &'static str,
    pub fields: &'static Fields,
    /// What the name of such an object is in other objects.
    pub named: Named,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
}

const KUEUE: &str = "kueue.x-k8s.io";
const DEVICES: &str = "resource.k8s.io";

macro_rules! kinds {
    ($($kind:ident $group:expr, $versions:literal, $name:literal, $fields:ident, $named:ident, $namespaced:literal;)*) => {
        /// All kinds, in the order in which an import writes them.
        pub const KINDS: &[Known] = &[$(Known {
            kind: Kind::$kind,
            group: $group,
            versions: $versions,
            name: $name,
            fields: &fields::$fields,
            named: Named::$named,
            is_namespaced: $namespaced,
        }),*];
    };
}

kinds! {
    Node "", "v1", "Node", NODE, Node, false;
    Namespace "", "v1", "Namespace", NAMESPACE, Namespace, false;
    PriorityClass "scheduling.k8s.io", "v1", "PriorityClass", PRIORITY_CLASS, PriorityClass, false;
    RuntimeClass "node.k8s.io", "v1", "RuntimeClass", RUNTIME_CLASS, RuntimeClass, false;
    Service "", "v1", "Service", SERVICE, Service, true;
    Budget "policy", "v1", "PodDisruptionBudget", BUDGET, Budget, true;
    DeviceClass DEVICES, "v1 v1beta2 v1beta1 v1alpha3", "DeviceClass", DEVICE_CLASS, DeviceClass, false;
    Slice DEVICES, "v1 v1beta2 v1beta1 v1alpha3", "ResourceSlice", SLICE, Pool, false;
    Claim DEVICES, "v1 v1beta2 v1beta1 v1alpha3", "ResourceClaim", CLAIM, Claim, true;
    ClaimTemplate DEVICES, "v1 v1beta2 v1beta1 v1alpha3", "ResourceClaimTemplate", CLAIM_TEMPLATE, ClaimTemplate, true;
    Workload "scheduling.k8s.io", "v1alpha1", "Workload", WORKLOAD, Workload, true;
    Topology KUEUE, "v1beta2 v1beta1 v1alpha1", "Topology", TOPOLOGY, Topology, false;
    Flavor KUEUE, "v1beta2 v1beta1", "ResourceFlavor", RESOURCE_FLAVOR, Flavor, false;
    Cohort KUEUE, "v1beta2 v1beta1 v1alpha1", "Cohort", COHORT, Cohort, false;
    ClusterQueue KUEUE, "v1beta2 v1beta1", "ClusterQueue", CLUSTER_QUEUE, ClusterQueue, false;
    LocalQueue KUEUE, "v1beta2 v1beta1", "LocalQueue", LOCAL_QUEUE, LocalQueue, true;
    WorkloadPriorityClass KUEUE, "v1beta2 v1beta1", "WorkloadPriorityClass", WORKLOAD_PRIORITY_CLASS, WorkloadPriority, false;
    Configuration "config.kueue.x-k8s.io", "v1beta2 v1beta1", "Configuration", CONFIGURATION, ClusterQueue, false;
    QueuedWorkload KUEUE, "v1beta2 v1beta1", "Workload", KUEUE_WORKLOAD, Workload, true;
    DaemonSet "apps", "v1", "DaemonSet", DAEMON_SET, Workload, true;
    Deployment "apps", "v1", "Deployment", DEPLOYMENT, Workload, true;
    ReplicaSet "apps", "v1", "ReplicaSet", REPLICA_SET, Workload, true;
    ReplicationController "", "v1", "ReplicationController", REPLICATION_CONTROLLER, Workload, true;
    StatefulSet "apps", "v1", "StatefulSet", STATEFUL_SET, Workload, true;
    LeaderWorkerSet "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", LEADER_WORKER_SET, Workload, true;
    JobSet "jobset.x-k8s.io", "v1alpha2", "JobSet", JOB_SET, Workload, true;
    Job "batch", "v1", "Job", JOB, Workload, true;
    Pod "", "v1", "Pod", POD, Workload, true;
}

/// The kinds of other objects that no decision depends on, by group. `*` stands for all kinds of the group. Volumes are
/// reported where a pod uses them.
const WITHOUT_MEANING: &[(&str, &str)] = &[
    (
        "",
        "ComponentStatus ConfigMap Endpoints Event PersistentVolume PersistentVolumeClaim PodTemplate Secret \
         ServiceAccount",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    ),
    ("apiextensions.k8s.io", "*"),
    ("apiregistration.k8s.io", "*"),
    ("apps", "ControllerRevision"),
    ("bitnami.com", "SealedSecret"),
    ("cert-manager.io", "*"),
    ("certificates.k8s.io", "*"),
    ("cilium.io", "*"),
    ("coordination.k8s.io", "*"),
    ("crd.projectcalico.org", "*"),
    ("discovery.k8s.io", "*"),
    ("events.k8s.io", "*"),
    ("external-secrets.io", "*"),
    ("extensions", "Ingress NetworkPolicy"),
    ("flowcontrol.apiserver.k8s.io", "*"),
    ("gateway.networking.k8s.io", "*"),
    ("k8s.cni.cncf.io", "*"),
    ("metrics.k8s.io", "*"),
    ("monitoring.coreos.com", "AlertmanagerConfig PodMonitor Probe PrometheusRule ScrapeConfig ServiceMonitor"),
    ("networking.istio.io", "*"),
    ("networking.k8s.io", "*"),
    ("policy", "PodSecurityPolicy"),
    ("projectcalico.org", "*"),
    ("rbac.authorization.k8s.io", "*"),
    ("resource.k8s.io", "ResourcePoolStatusRequest"),
    ("security.istio.io", "*"),
    ("snapshot.storage.k8s.io", "*"),
    ("storage.k8s.io", "*"),
];

/// Kinds of the same groups that dryrack does not follow, though decisions depend on them.
const UNFOLLOWED: &str = "AdmissionCheck MultiKueueConfig MultiKueueCluster ProvisioningRequestConfig CronJob \
    DeviceTaintRule LimitRange ResourceQuota";

/// Whether no decision depends on objects of this kind.
pub fn is_without_meaning(group: &str, kind: &str) -> bool {
    let of_group = WITHOUT_MEANING.iter().find(|(known, _)| *known == group);
    of_group.is_some_and(|(_, kinds)| *kinds == "*" || kinds.split_ascii_whitespace().any(|known| known == kind))
}

/// Whether dryrack knows that the kind exists, and does not follow it.
pub fn is_unfollowed(kind: &str) -> bool {
    UNFOLLOWED.split_ascii_whitespace().any(|known| known == kind)
}

impl Kind {
    pub fn known(self) -> &'static Known {
        KINDS.iter().find(|known| known.kind == self).unwrap_or_else(|| panic!("the kind {self:?} has no row"))
    }

    pub fn name(self) -> &'static str {
        self.known().name
    }

    /// Whether the object is one of Kueue that decides about quota.
    pub fn is_of_quota(self) -> bool {
        matches!(self, Kind::Topology | Kind::Flavor | Kind::Cohort | Kind::ClusterQueue | Kind::LocalQueue)
    }

    /// Whether the object makes pods.
    pub fn is_controller(self) -> bool {
        matches!(
            self,
            Kind::DaemonSet
                | Kind::Deployment
                | Kind::ReplicaSet
                | Kind::ReplicationController
                | Kind::StatefulSet
                | Kind::LeaderWorkerSet
                | Kind::JobSet
                | Kind::Job
        )
    }
}

/// The group of an `apiVersion`: `apps` of `apps/v1`, and nothing of `v1`.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether dryrack knows kinds of this group.
pub fn is_group(group: &str) -> bool {
    KINDS.iter().any(|known| known.group == group)
}

pub fn known(group: &str, name: &str) -> Option<&'static Known> {
    KINDS.iter().find(|known| known.group == group && known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_row_and_each_row_another_name() {
        for (index, row) in KINDS.iter().enumerate() {
            assert_eq!(row.kind.known().name, row.name);
            assert_eq!(KINDS.iter().position(|other| (other.group, other.name) == (row.group, row.name)), Some(index));
        }
    }
}
