//! The objects of Kueue.

use super::meta::{LABEL_SELECTOR, METADATA, RESOURCES, TAINT, TOLERATION};
use super::pod::TEMPLATE;
use crate::refused;
use crate::shape::{Fields, Named, Shape};

pub const CLUSTER_QUEUE: Fields =
    Fields::of("a cluster queue", &[("metadata", METADATA), ("spec", Shape::Fields(&CLUSTER_QUEUE_SPEC))])
        .refuses(refused::cluster_queue)
        .unused("status");

const CLUSTER_QUEUE_SPEC: Fields = Fields::of(
    "the spec of a cluster queue",
    &[
        ("cohort", Shape::Name(Named::Cohort)),
        ("cohortName", Shape::Name(Named::Cohort)),
        ("queueingStrategy", Shape::Word(&["StrictFIFO", "BestEffortFIFO"])),
        ("stopPolicy", STOP),
        ("fairSharing", FAIR_SHARING),
        ("preemption", Shape::Fields(&PREEMPTION)),
        ("flavorFungibility", Shape::Fields(&FUNGIBILITY)),
        ("resourceGroups", RESOURCE_GROUPS),
        ("namespaceSelector", LABEL_SELECTOR),
    ],
)
.unfollowed("admissionChecks admissionChecksStrategy admissionScope concurrentAdmissionPolicy");

/// The configuration of Kueue's manager.
pub const CONFIGURATION: Fields = Fields::of(
    "the configuration of Kueue",
    &[("metadata", METADATA), ("fairSharing", Shape::Fields(&CONFIGURED_SHARING))],
)
.unused(
    "clientConnection controller health integrations internalCertManagement leaderElection metrics namespace \
     objectRetentionPolicies queueVisibility tls visibilityOnDemand webhook",
)
.unfollowed(
    "admissionFairSharing featureGates manageJobsWithoutQueueName managedJobsNamespaceSelector multiKueue resources \
     waitForPodsReady",
);

const CONFIGURED_SHARING: Fields = Fields::of(
    "the fair sharing of Kueue",
    &[
        ("enable", Shape::Bool),
        ("preemptionStrategies", Shape::List(&Shape::Word(&["LessThanOrEqualToFinalShare", "LessThanInitialShare"]))),
    ],
);

const STOP: Shape = Shape::Word(&["None", "Hold", "HoldAndDrain"]);

const FAIR_SHARING: Shape = Shape::Fields(&Fields::of("the fair sharing of a queue", &[("weight", Shape::Quantity)]));

const PREEMPTION: Fields = Fields::of(
    "the preemption of a cluster queue",
    &[
        ("withinClusterQueue", Shape::Word(&["Never", "LowerPriority", "LowerOrNewerEqualPriority"])),
        ("reclaimWithinCohort", Shape::Word(&["Never", "LowerPriority", "Any"])),
        ("borrowWithinCohort", Shape::Fields(&BORROW)),
    ],
);

const BORROW: Fields = Fields::of(
    "the preemption of a borrowing queue",
    &[("policy", Shape::Word(&["Never", "LowerPriority"])), ("maxPriorityThreshold", Shape::INTEGER)],
);

const FUNGIBILITY: Fields = Fields::of(
    "the flavor fungibility of a cluster queue",
    &[
        ("whenCanBorrow", Shape::Word(&["MayStopSearch", "TryNextFlavor", "Borrow"])),
        ("whenCanPreempt", Shape::Word(&["MayStopSearch", "TryNextFlavor", "Preempt"])),
        ("preference", Shape::Word(&["BorrowingOverPreemption", "PreemptionOverBorrowing"])),
    ],
);

const RESOURCE_GROUPS: Shape = Shape::List(&Shape::Fields(&RESOURCE_GROUP));

const RESOURCE_GROUP: Fields = Fields::of(
    "a resource group",
    &[
        ("coveredResources", Shape::List(&Shape::Name(Named::Resource))),
        ("flavors", Shape::List(&Shape::Fields(&FLAVOR_QUOTAS))),
    ],
)
.requires(&["coveredResources", "flavors"]);

const FLAVOR_QUOTAS: Fields = Fields::of(
    "the quotas of a flavor",
    &[("name", Shape::Name(Named::Flavor)), ("resources", Shape::List(&Shape::Fields(&QUOTA)))],
)
.requires(&["name", "resources"]);

const QUOTA: Fields = Fields::of(
    "a quota",
    &[
        ("name", Shape::Name(Named::Resource)),
        ("nominalQuota", Shape::Quantity),
        ("borrowingLimit", Shape::Quantity),
        ("lendingLimit", Shape::Quantity),
    ],
)
.requires(&["name", "nominalQuota"]);

pub const COHORT: Fields = Fields::of("a cohort", &[("metadata", METADATA), ("spec", Shape::Fields(&COHORT_SPEC))])
    .refuses(refused::cohort)
    .unused("status");

const COHORT_SPEC: Fields = Fields::of(
    "the spec of a cohort",
    &[
        ("parent", Shape::Name(Named::Cohort)),
        ("parentName", Shape::Name(Named::Cohort)),
        ("fairSharing", FAIR_SHARING),
        ("resourceGroups", RESOURCE_GROUPS),
    ],
);

pub const LOCAL_QUEUE: Fields =
    Fields::of("a local queue", &[("metadata", METADATA), ("spec", Shape::Fields(&LOCAL_QUEUE_SPEC))])
        .requires(&["spec"])
        .unused("status");

const LOCAL_QUEUE_SPEC: Fields = Fields::of(
    "the spec of a local queue",
    &[("clusterQueue", Shape::Name(Named::ClusterQueue)), ("stopPolicy", STOP)],
)
.requires(&["clusterQueue"])
.unfollowed("fairSharing");

pub const RESOURCE_FLAVOR: Fields =
    Fields::of("a resource flavor", &[("metadata", METADATA), ("spec", Shape::Fields(&RESOURCE_FLAVOR_SPEC))])
        .unused("status");

const RESOURCE_FLAVOR_SPEC: Fields = Fields::of(
    "the spec of a resource flavor",
    &[
        ("nodeLabels", Shape::Labels),
        ("nodeTaints", Shape::List(&Shape::Fields(&TAINT))),
        ("tolerations", Shape::List(&Shape::Fields(&TOLERATION))),
        ("topologyName", Shape::Name(Named::Topology)),
    ],
)
.refuses(refused::resource_flavor);

pub const TOPOLOGY: Fields =
    Fields::of("a topology", &[("metadata", METADATA), ("spec", Shape::Fields(&TOPOLOGY_SPEC))])
        .requires(&["spec"])
        .unused("status");

const TOPOLOGY_SPEC: Fields = Fields::of("the spec of a topology", &[("levels", Shape::List(&Shape::Fields(&LEVEL)))])
    .requires(&["levels"])
    .refuses(refused::topology);

const LEVEL: Fields =
    Fields::of("a level of a topology", &[("nodeLabel", Shape::Name(Named::LabelKey))]).requires(&["nodeLabel"]);

pub const WORKLOAD_PRIORITY_CLASS: Fields =
    Fields::of("a workload priority class", &[("metadata", METADATA), ("value", Shape::INTEGER)])
        .requires(&["value"])
        .unused("description");

/// A workload of Kueue: the pods of one job.
pub const KUEUE_WORKLOAD: Fields = Fields::of(
    "a workload of Kueue",
    &[("metadata", METADATA), ("spec", Shape::Fields(&WORKLOAD_SPEC)), ("status", Shape::Fields(&WORKLOAD_STATUS))],
)
.requires(&["spec"]);

const WORKLOAD_SPEC: Fields = Fields::of(
    "the spec of a workload of Kueue",
    &[
        ("podSets", Shape::List(&Shape::Fields(&POD_SET))),
        ("queueName", Shape::Name(Named::LocalQueue)),
        ("priority", Shape::INTEGER),
        ("priorityClassName", Shape::Name(Named::WorkloadPriority)),
        ("active", Shape::Bool),
    ],
)
.requires(&["podSets"])
.unused("priorityClassRef priorityClassSource")
.unfollowed("maximumExecutionTimeSeconds");

const POD_SET: Fields = Fields::of(
    "a pod set",
    &[
        ("name", Shape::Name(Named::Part)),
        ("count", Shape::COUNT),
        ("minCount", Shape::COUNT),
        ("template", TEMPLATE),
        ("topologyRequest", Shape::Fields(&TOPOLOGY_REQUEST)),
    ],
)
.requires(&["template"]);

const TOPOLOGY_REQUEST: Fields = Fields::of(
    "a topology request",
    &[
        ("required", Shape::Name(Named::LabelKey)),
        ("preferred", Shape::Name(Named::LabelKey)),
        ("unconstrained", Shape::Bool),
    ],
)
.unused("podIndexLabel subGroupIndexLabel subGroupCount")
.unfollowed("podSetGroupName podSetSliceRequiredTopology podSetSliceSize podsetSliceRequiredTopologyConstraints");

const WORKLOAD_STATUS: Fields = Fields::of(
    "the status of a workload of Kueue",
    &[
        ("conditions", Shape::List(&Shape::Fields(&CONDITION))),
        ("admission", Shape::Fields(&ADMISSION)),
        ("reclaimablePods", Shape::List(&Shape::Fields(&RECLAIMABLE))),
    ],
)
.open();

const RECLAIMABLE: Fields =
    Fields::of("the pods of a set that have ended", &[("name", Shape::Name(Named::Part)), ("count", Shape::COUNT)]);

const CONDITION: Fields = Fields::of(
    "a condition of a workload",
    &[
        ("type", Shape::Text),
        ("status", Shape::Word(&["True", "False", "Unknown"])),
        ("lastTransitionTime", Shape::Time),
    ],
)
.open();

const ADMISSION: Fields = Fields::of(
    "the admission of a workload",
    &[
        ("clusterQueue", Shape::Name(Named::ClusterQueue)),
        ("podSetAssignments", Shape::List(&Shape::Fields(&ASSIGNMENT))),
    ],
)
.open();

const ASSIGNMENT: Fields = Fields::of(
    "the assignment of a pod set",
    &[
        ("name", Shape::Name(Named::Part)),
        ("flavors", Shape::Map(Some(Named::Resource), &Shape::Name(Named::Flavor))),
        ("resourceUsage", RESOURCES),
        ("count", Shape::COUNT),
    ],
)
.open();
