//! Namespaces, services, priority and runtime classes, disruption budgets and workloads.

use super::meta::{LABEL_SELECTOR, METADATA, RESOURCES, TOLERATION};
use super::pod::PREEMPTION;
use crate::refused;
use crate::shape::{Fields, Named, Shape};

pub const NAMESPACE: Fields = Fields::of("a namespace", &[("metadata", METADATA)]).unused("spec status");

pub const SERVICE: Fields =
    Fields::of("a service", &[("metadata", METADATA), ("spec", Shape::Fields(&SERVICE_SPEC))]).unused("status");

const SERVICE_SPEC: Fields = Fields::of("the spec of a service", &[("selector", Shape::Labels)]).unused(
    "allocateLoadBalancerNodePorts clusterIP clusterIPs externalIPs externalName externalTrafficPolicy \
     healthCheckNodePort internalTrafficPolicy ipFamilies ipFamilyPolicy loadBalancerClass loadBalancerIP \
     loadBalancerSourceRanges ports publishNotReadyAddresses sessionAffinity sessionAffinityConfig \
     trafficDistribution type",
);

pub const PRIORITY_CLASS: Fields = Fields::of(
    "a priority class",
    &[
        ("metadata", METADATA),
        ("value", Shape::INTEGER),
        ("globalDefault", Shape::Bool),
        ("preemptionPolicy", PREEMPTION),
    ],
)
.requires(&["value"])
.refuses(refused::priority_class)
.unused("description");

pub const RUNTIME_CLASS: Fields = Fields::of(
    "a runtime class",
    &[
        ("metadata", METADATA),
        // The API server requires it, so it is no field to warn about.
        ("handler", Shape::Name(Named::RuntimeClass)),
        ("overhead", Shape::Fields(&Fields::of("the overhead of a runtime class", &[("podFixed", RESOURCES)]))),
        ("scheduling", Shape::Fields(&RUNTIME_SCHEDULING)),
    ],
);

const RUNTIME_SCHEDULING: Fields = Fields::of(
    "the scheduling of a runtime class",
    &[("nodeSelector", Shape::Labels), ("tolerations", Shape::List(&Shape::Fields(&TOLERATION)))],
);

pub const BUDGET: Fields = Fields::of(
    "a pod disruption budget",
    &[("metadata", METADATA), ("spec", Shape::Fields(&BUDGET_SPEC)), ("status", Shape::Fields(&BUDGET_STATUS))],
);

const BUDGET_SPEC: Fields = Fields::of(
    "the spec of a pod disruption budget",
    &[("selector", LABEL_SELECTOR), ("minAvailable", Shape::CountOrPercent), ("maxUnavailable", Shape::CountOrPercent)],
)
.refuses(refused::budget)
.unused("unhealthyPodEvictionPolicy");

const BUDGET_STATUS: Fields = Fields::of(
    "the status of a pod disruption budget",
    &[("disruptionsAllowed", Shape::INTEGER), ("disruptedPods", Shape::Map(Some(Named::Workload), &Shape::Time))],
)
.unused("conditions currentHealthy desiredHealthy expectedPods observedGeneration")
.open();

/// A workload of the scheduling API: groups of pods that are scheduled together.
pub const WORKLOAD: Fields =
    Fields::of("a workload", &[("metadata", METADATA), ("spec", Shape::Fields(&WORKLOAD_SPEC))])
        .requires(&["spec"])
        .unused("status");

const WORKLOAD_SPEC: Fields =
    Fields::of("the spec of a workload", &[("podGroups", Shape::List(&Shape::Fields(&POD_GROUP)))])
        .requires(&["podGroups"])
        .unused("controllerRef");

const POD_GROUP: Fields =
    Fields::of("a pod group", &[("name", Shape::Name(Named::Part)), ("policy", Shape::Fields(&POD_GROUP_POLICY))])
        .requires(&["name"]);

const POD_GROUP_POLICY: Fields =
    Fields::of("the policy of a pod group", &[("gang", Shape::Fields(&GANG))]).unused("basic");

const GANG: Fields = Fields::of("a gang policy", &[("minCount", Shape::COUNT)]).requires(&["minCount"]);
