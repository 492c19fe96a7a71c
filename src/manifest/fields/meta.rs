//! Metadata, labels and selectors of labels.

use crate::refused;
use crate::shape::{Fields, Named, Shape};

/// The annotations that matter to a rehearsal.
pub const ANNOTATIONS: [&str; 12] = [
    "dryrack/at",
    "dryrack/duration",
    "dryrack/patch",
    "dryrack/rendezvous",
    "dryrack/stop",
    "kueue.x-k8s.io/job-min-parallelism",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-unconstrained-topology",
    "kueue.x-k8s.io/pod-group-total-count",
    "kueue.x-k8s.io/queue-name",
    "leaderworkerset.sigs.k8s.io/size",
];

/// Annotations by which controllers decide and that dryrack does not follow.
pub const UNFOLLOWED_ANNOTATIONS: [&str; 10] = [
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "kueue.x-k8s.io/elastic-job",
    "kueue.x-k8s.io/job-completions-equal-parallelism",
    "kueue.x-k8s.io/podset-group-name",
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-slice-required-topology-constraints",
    "kueue.x-k8s.io/podset-slice-size",
    "kueue.x-k8s.io/preemption-config-name",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
];

/// Labels by which controllers decide and that dryrack does not follow.
pub const UNFOLLOWED_LABELS: [&str; 2] =
    ["kueue.x-k8s.io/max-exec-time-seconds", "kueue.x-k8s.io/prebuilt-workload-name"];

/// Annotations that tools keep for themselves. They are not counted.
pub const QUIET_ANNOTATIONS: [&str; 3] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
];

/// Fields that the API server keeps for itself. They are not counted.
pub const META_QUIET: [&str; 7] = [
    "resourceVersion",
    "generation",
    "managedFields",
    "selfLink",
    "blockOwnerDeletion",
    "apiVersion",
    "creationTimestamp",
];

pub const META: Fields = Fields::of(
    "metadata",
    &[
        ("name", Shape::OwnName),
        ("generateName", Shape::OwnName),
        ("namespace", Shape::Name(Named::Namespace)),
        ("uid", Shape::Name(Named::Uid)),
        ("labels", Shape::Labels),
        ("annotations", Shape::Annotations),
        ("ownerReferences", Shape::List(&Shape::Fields(&OWNER))),
        ("creationTimestamp", Shape::Time),
        ("deletionTimestamp", Shape::Time),
        ("deletionGracePeriodSeconds", Shape::LONG),
    ],
)
.unused("resourceVersion generation managedFields selfLink finalizers clusterName");

pub const METADATA: Shape = Shape::Fields(&META);

const OWNER: Fields = Fields::of(
    "an owner reference",
    &[
        ("apiVersion", Shape::GroupVersion),
        ("kind", Shape::Name(Named::OwnerKind)),
        ("name", Shape::NameOfKind("kind")),
        ("uid", Shape::Name(Named::Uid)),
        ("controller", Shape::Bool),
    ],
)
.requires(&["kind", "name"])
.unused("blockOwnerDeletion");

pub const SELECTOR: Fields = Fields::of(
    "a label selector",
    &[("matchLabels", Shape::Labels), ("matchExpressions", Shape::List(&Shape::Fields(&REQUIREMENT)))],
);

const REQUIREMENT: Fields = Fields::of(
    "a requirement",
    &[
        ("key", Shape::Name(Named::LabelKey)),
        ("operator", Shape::Word(&["In", "NotIn", "Exists", "DoesNotExist"])),
        ("values", Shape::List(&Shape::LabelValue("key"))),
    ],
)
.requires(&["key", "operator"])
.refuses(refused::requirement);

pub const LABEL_SELECTOR: Shape = Shape::Fields(&SELECTOR);

pub const NODE_SELECTOR: Shape = Shape::Fields(
    &Fields::of("a node selector", &[("nodeSelectorTerms", Shape::List(&Shape::Fields(&NODE_SELECTOR_TERM)))])
        .refuses(refused::node_selector),
);

pub const NODE_SELECTOR_TERM: Fields = Fields::of(
    "a node selector term",
    &[
        ("matchExpressions", Shape::List(&Shape::Fields(&NODE_REQUIREMENT))),
        ("matchFields", Shape::List(&Shape::Fields(&NODE_FIELD_REQUIREMENT))),
    ],
);

const NODE_OPERATORS: Shape = Shape::Word(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);

const NODE_REQUIREMENT: Fields = Fields::of(
    "a requirement on nodes",
    &[
        ("key", Shape::Name(Named::LabelKey)),
        ("operator", NODE_OPERATORS),
        ("values", Shape::List(&Shape::LabelValue("key"))),
    ],
)
.requires(&["key", "operator"])
.refuses(refused::node_requirement);

const NODE_FIELD_REQUIREMENT: Fields = Fields::of(
    "a requirement on the fields of nodes",
    &[
        ("key", Shape::Word(&["metadata.name"])),
        ("operator", NODE_OPERATORS),
        ("values", Shape::List(&Shape::Name(Named::Node))),
    ],
)
.requires(&["key", "operator"])
.refuses(refused::node_field_requirement);

pub const TAINT: Fields = Fields::of(
    "a taint",
    &[
        ("key", Shape::Name(Named::LabelKey)),
        ("value", Shape::LabelValue("key")),
        ("effect", Shape::Word(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
        ("timeAdded", Shape::Time),
    ],
)
.requires(&["key", "effect"]);

pub const TOLERATION: Fields = Fields::of(
    "a toleration",
    &[
        ("key", Shape::Name(Named::LabelKey)),
        ("operator", Shape::Word(&["Equal", "Exists", ""])),
        ("value", Shape::LabelValue("key")),
        ("effect", Shape::Word(&["NoSchedule", "PreferNoSchedule", "NoExecute", ""])),
        ("tolerationSeconds", Shape::Whole { least: i64::MIN, most: i64::MAX }),
    ],
)
.refuses(refused::toleration);

/// Amounts of resources, by name.
pub const RESOURCES: Shape = Shape::Map(Some(Named::Resource), &Shape::Quantity);
