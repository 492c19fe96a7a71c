//! The schema of Kueue's objects in short words, and of changes during the run.

use super::schema_shape::{Field, Kind, Shape};

const TIME: Kind = Kind::Amount("90s, 1h30m or 250ms");
const NAMES: Kind = Kind::Some(&Kind::Text);
const QUOTA: Kind = Kind::Named(&Kind::Named(&Kind::Either(&[Kind::Amount("8 or 64GiB"), Kind::Map("kueue_quota")])));
const STRATEGY: Kind = Kind::Words(|| vec!["StrictFIFO", "BestEffortFIFO"]);
const STOP: Kind = Kind::Words(|| vec!["None", "Hold", "HoldAndDrain"]);
const WITHIN: Kind = Kind::Words(|| vec!["Never", "LowerPriority", "LowerOrNewerEqualPriority"]);
const RECLAIM: Kind = Kind::Words(|| vec!["Never", "LowerPriority", "Any"]);
const SEARCH: Kind = Kind::Words(|| vec!["MayStopSearch", "TryNextFlavor"]);
const FAIR: Kind = Kind::Either(&[Kind::Flag, Kind::ListOf(&STRATEGIES)]);
const STRATEGIES: Kind = Kind::Words(|| vec!["LessThanOrEqualToFinalShare", "LessThanInitialShare"]);

/// The entries of `changes`.
pub(super) const CHANGES: Kind = Kind::ListOf(&CHANGE);
const CHANGE: Kind = Kind::Either(&[
    Kind::Map("change"),
    Kind::Map("cluster_queue_change"),
    Kind::Map("local_queue_change"),
    Kind::Map("cohort_change"),
]);

/// The settings of a cluster queue, in the queue itself and in a change of it.
const OF_CLUSTER_QUEUES: &[Field] = &[
    ("strategy", STRATEGY, "Whether the first workload blocks the others; default: BestEffortFIFO"),
    ("stop", STOP, "Whether the queue admits nothing, or also gives its quota back; default: None"),
    ("weight", Kind::Amount("1 or 0.5"), "Weight in fair sharing; default: 1"),
    ("quota", QUOTA, "Quota of each resource of each flavor; `gpus`, `cpus` and `ram` are short for the usual names"),
    ("preemption", Kind::Map("kueue_preemption"), "Whose quota a workload of the queue may take"),
    ("fungibility", Kind::Map("kueue_fungibility"), "When the search for a flavor goes on"),
];

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "kueue",
        called: &["the section `kueue`"],
        required: &[],
        fields: &[
            ("fair_sharing", FAIR, "Fair sharing between queues, or its preemption strategies; default: false"),
            (
                "flavors",
                Kind::ListOf(&Kind::Map("kueue_flavor")),
                "Flavors; default: those of the quotas, without labels",
            ),
            ("topologies", Kind::ListOf(&Kind::Map("kueue_topology")), "Topologies, which flavors name"),
            ("cohorts", Kind::ListOf(&Kind::Map("kueue_cohort")), "Cohorts with a parent, a weight or a quota"),
            ("cluster_queues", Kind::ListOf(&Kind::Map("cluster_queue")), "ClusterQueues, which hold the quota"),
            (
                "local_queues",
                Kind::ListOf(&Kind::Map("local_queue")),
                "LocalQueues, which jobs name; default: one for each cluster queue, with its name",
            ),
        ],
    },
    Shape {
        name: "kueue_flavor",
        called: &["a flavor in short words"],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Name of the flavor"),
            ("labels", Kind::Named(&Kind::Text), "Labels of its nodes, which admitted pods must select"),
            ("taints", Kind::ListOf(&Kind::Any), "Taints of its nodes, as in a manifest"),
            ("tolerations", Kind::ListOf(&Kind::Any), "Tolerations that admitted pods get, as in a manifest"),
            ("topology", Kind::Text, "Topology of its nodes"),
        ],
    },
    Shape {
        name: "kueue_topology",
        called: &["a topology in short words"],
        required: &["name", "levels"],
        fields: &[
            ("name", Kind::Text, "Name of the topology"),
            ("levels", NAMES, "Keys of node labels, from the widest domain to the narrowest"),
        ],
    },
    Shape {
        name: "kueue_cohort",
        called: &["a cohort"],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Name of the cohort"),
            ("parent", Kind::Text, "Cohort above it"),
            ("weight", Kind::Amount("1 or 0.5"), "Weight in fair sharing; default: 1"),
            ("quota", QUOTA, "Quota of the cohort itself, beside that of its queues"),
        ],
    },
    Shape {
        name: "cluster_queue",
        called: &["a cluster queue in short words"],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Name of the queue"),
            ("cohort", Kind::Text, "Cohort whose queues lend each other unused quota"),
            ("", Kind::Also(OF_CLUSTER_QUEUES), ""),
        ],
    },
    Shape {
        name: "kueue_quota",
        called: &["a quota in short words"],
        required: &["nominal"],
        fields: &[
            ("nominal", Kind::Amount("8 or 64GiB"), "Quota of the queue"),
            ("borrow", Kind::Amount("8 or 64GiB"), "Most quota that it may borrow; default: no limit"),
            ("lend", Kind::Amount("8 or 64GiB"), "Most quota that it lends; default: all"),
        ],
    },
    Shape {
        name: "kueue_preemption",
        called: &["the preemption of a queue"],
        required: &[],
        fields: &[
            ("within", WITHIN, "Workloads of the same queue that may be preempted; default: Never"),
            ("reclaim", RECLAIM, "Borrowing workloads of the cohort that may be preempted; default: Never"),
            ("borrow", Kind::Map("kueue_borrow"), "Whether a workload may preempt others while it borrows"),
        ],
    },
    Shape {
        name: "kueue_borrow",
        called: &["the preemption while borrowing"],
        required: &[],
        fields: &[
            ("policy", Kind::Words(|| vec!["Never", "LowerPriority"]), "Who may be preempted; default: Never"),
            ("max_priority", Kind::Whole, "Highest priority of workloads that may be preempted"),
        ],
    },
    Shape {
        name: "kueue_fungibility",
        called: &["the fungibility of a queue"],
        required: &[],
        fields: &[
            ("borrow", SEARCH, "Whether a flavor that needs borrowing ends the search; default: MayStopSearch"),
            ("preempt", SEARCH, "Whether a flavor that needs preemption ends the search; default: TryNextFlavor"),
            (
                "preference",
                Kind::Words(|| vec!["BorrowingOverPreemption", "PreemptionOverBorrowing"]),
                "Which of two flavors is better; default: BorrowingOverPreemption",
            ),
        ],
    },
    Shape {
        name: "local_queue",
        called: &["a local queue in short words"],
        required: &["name", "cluster_queue"],
        fields: &[
            ("name", Kind::Text, "Name of the queue, which jobs state as `queue`"),
            ("namespace", Kind::Text, "Namespace; default: `default`"),
            ("cluster_queue", Kind::Text, "ClusterQueue whose quota its workloads use"),
            ("stop", STOP, "Whether the queue admits nothing, or also gives its quota back; default: None"),
        ],
    },
    Shape {
        name: "change",
        called: &["a change"],
        required: &["at", "job", "replicas"],
        fields: &[
            ("at", TIME, "Time of the change"),
            ("job", Kind::Some(&Kind::Text), "Jobs by name or pattern"),
            ("replicas", Kind::Whole, "Number of replicas from then on"),
        ],
    },
    Shape {
        name: "cluster_queue_change",
        called: &["a change of a cluster queue"],
        required: &["at", "cluster_queue"],
        fields: &[
            ("at", TIME, "Time of the change"),
            ("cluster_queue", Kind::Text, "Queue that changes; other settings stay as they are"),
            ("cohort", Kind::Text, "Cohort from then on"),
            ("", Kind::Also(OF_CLUSTER_QUEUES), ""),
        ],
    },
    Shape {
        name: "local_queue_change",
        called: &["a change of a local queue"],
        required: &["at", "local_queue"],
        fields: &[
            ("at", TIME, "Time of the change"),
            ("local_queue", Kind::Text, "Queue that changes"),
            ("namespace", Kind::Text, "Its namespace; default: `default`"),
            ("stop", STOP, "Whether the queue admits nothing, or also gives its quota back"),
        ],
    },
    Shape {
        name: "cohort_change",
        called: &["a change of a cohort"],
        required: &["at", "cohort"],
        fields: &[
            ("at", TIME, "Time of the change"),
            ("cohort", Kind::Text, "Cohort that changes; other settings stay as they are"),
            ("parent", Kind::Text, "Cohort above it from then on"),
            ("weight", Kind::Amount("1 or 0.5"), "Weight in fair sharing"),
            ("quota", QUOTA, "Quota of the cohort itself"),
        ],
    },
    Shape {
        name: "job_topology",
        called: &["the topology of a job"],
        required: &[],
        fields: &[
            ("required", Kind::Text, "Key of a label: one domain must hold all pods"),
            ("preferred", Kind::Text, "Key of a label: one domain should hold all pods"),
            ("unconstrained", Kind::Flag, "Any domains with room"),
        ],
    },
];
