//! Controllers: objects that make pods.

use super::meta::{LABEL_SELECTOR, METADATA};
use super::pod::TEMPLATE;
use crate::refused;
use crate::shape::{Fields, Named, Shape};

pub const JOB: Fields = Fields::of(
    "a job",
    &[("metadata", METADATA), ("spec", Shape::Fields(&JOB_SPEC)), ("status", Shape::Fields(&JOB_STATUS))],
)
.requires(&["spec"])
.refuses(refused::job);

const JOB_SPEC: Fields = Fields::of(
    "the spec of a job",
    &[
        ("parallelism", Shape::COUNT),
        ("completions", Shape::COUNT),
        ("completionMode", Shape::Word(&["NonIndexed", "Indexed"])),
        ("suspend", Shape::Bool),
        ("backoffLimit", Shape::COUNT),
        ("backoffLimitPerIndex", Shape::COUNT),
        ("activeDeadlineSeconds", Shape::LONG),
        ("template", TEMPLATE),
    ],
)
.requires(&["template"])
.unused("manualSelector podReplacementPolicy selector ttlSecondsAfterFinished")
.unfollowed("managedBy maxFailedIndexes podFailurePolicy successPolicy");

const JOB_STATUS: Fields = Fields::of(
    "the status of a job",
    &[
        ("succeeded", Shape::COUNT),
        ("failed", Shape::COUNT),
        ("completedIndexes", Shape::Text),
        ("failedIndexes", Shape::Text),
        ("completionTime", Shape::Time),
        ("startTime", Shape::Time),
        ("conditions", Shape::List(&Shape::Fields(&CONDITION))),
    ],
)
.unused("active ready terminating uncountedTerminatedPods")
.open();

/// A condition is read because it says whether the work is done.
const CONDITION: Fields =
    Fields::of("a condition", &[("type", Shape::Text), ("status", Shape::Word(&["True", "False", "Unknown"]))])
        .unused("lastProbeTime lastTransitionTime lastUpdateTime message reason observedGeneration")
        .open();

pub const DEPLOYMENT: Fields =
    Fields::of("a deployment", &[("metadata", METADATA), ("spec", Shape::Fields(&DEPLOYMENT_SPEC))])
        .requires(&["spec"])
        .unused("status");

const DEPLOYMENT_SPEC: Fields = Fields::of(
    "the spec of a deployment",
    &[
        ("replicas", Shape::COUNT),
        ("selector", LABEL_SELECTOR),
        ("template", TEMPLATE),
        // Without a ReplicaSet, a paused Deployment makes none.
        ("paused", Shape::Bool),
    ],
)
.requires(&["template"])
.refuses(refused::controller)
.unused("minReadySeconds progressDeadlineSeconds revisionHistoryLimit strategy");

pub const REPLICA_SET: Fields =
    Fields::of("a replica set", &[("metadata", METADATA), ("spec", Shape::Fields(&REPLICA_SET_SPEC))])
        .requires(&["spec"])
        .unused("status");

const REPLICA_SET_SPEC: Fields = Fields::of(
    "the spec of a replica set",
    &[("replicas", Shape::COUNT), ("selector", LABEL_SELECTOR), ("template", TEMPLATE)],
)
.requires(&["template"])
.refuses(refused::controller)
.unused("minReadySeconds");

pub const REPLICATION_CONTROLLER: Fields = Fields::of(
    "a replication controller",
    &[("metadata", METADATA), ("spec", Shape::Fields(&REPLICATION_CONTROLLER_SPEC))],
)
.requires(&["spec"])
.unused("status");

const REPLICATION_CONTROLLER_SPEC: Fields = Fields::of(
    "the spec of a replication controller",
    &[("replicas", Shape::COUNT), ("selector", Shape::Labels), ("template", TEMPLATE)],
)
.requires(&["template"])
.refuses(refused::replication_controller)
.unused("minReadySeconds");

pub const STATEFUL_SET: Fields =
    Fields::of("a stateful set", &[("metadata", METADATA), ("spec", Shape::Fields(&STATEFUL_SET_SPEC))])
        .requires(&["spec"])
        .unused("status");

const STATEFUL_SET_SPEC: Fields = Fields::of(
    "the spec of a stateful set",
    &[
        ("replicas", Shape::COUNT),
        ("selector", LABEL_SELECTOR),
        ("template", TEMPLATE),
        ("podManagementPolicy", Shape::Word(&["OrderedReady", "Parallel"])),
        ("ordinals", Shape::Fields(&Fields::of("the ordinals of a stateful set", &[("start", Shape::COUNT)]))),
    ],
)
.requires(&["template"])
.refuses(refused::controller)
.unused("minReadySeconds persistentVolumeClaimRetentionPolicy revisionHistoryLimit serviceName updateStrategy")
.unfollowed("volumeClaimTemplates");

pub const DAEMON_SET: Fields =
    Fields::of("a daemon set", &[("metadata", METADATA), ("spec", Shape::Fields(&DAEMON_SET_SPEC))])
        .requires(&["spec"])
        .unused("status");

const DAEMON_SET_SPEC: Fields =
    Fields::of("the spec of a daemon set", &[("selector", LABEL_SELECTOR), ("template", TEMPLATE)])
        .requires(&["template"])
        .refuses(refused::controller)
        .unused("minReadySeconds revisionHistoryLimit updateStrategy");

pub const JOB_SET: Fields = Fields::of(
    "a job set",
    &[("metadata", METADATA), ("spec", Shape::Fields(&JOB_SET_SPEC)), ("status", Shape::Fields(&JOB_SET_STATUS))],
)
.requires(&["spec"]);

const JOB_SET_SPEC: Fields = Fields::of(
    "the spec of a job set",
    &[
        ("replicatedJobs", Shape::List(&Shape::Fields(&REPLICATED_JOB))),
        ("suspend", Shape::Bool),
        ("failurePolicy", Shape::Fields(&FAILURE_POLICY)),
        ("successPolicy", Shape::Fields(&SUCCESS_POLICY)),
    ],
)
.unused("network coordinator managedBy ttlSecondsAfterFinished volumeClaimPolicies")
.unfollowed("startupPolicy");

const FAILURE_POLICY: Fields = Fields::of(
    "a failure policy",
    &[
        ("maxRestarts", Shape::COUNT),
        ("restartStrategy", Shape::Word(&["Recreate", "BlockingRecreate", "InPlaceRestart"])),
    ],
)
.refuses(refused::failure_policy)
.unfollowed("rules");

/// By default, a JobSet succeeds when all its Jobs have.
const SUCCESS_POLICY: Fields = Fields::of("a success policy", &[("operator", Shape::Word(&["All", "Any"]))])
    .refuses(refused::success_policy)
    .unfollowed("targetReplicatedJobs");

const REPLICATED_JOB: Fields = Fields::of(
    "a replicated job",
    &[("name", Shape::Name(Named::Part)), ("replicas", Shape::COUNT), ("template", Shape::Fields(&JOB_TEMPLATE))],
)
.requires(&["name", "template"])
.refuses(refused::replicated_job)
.unused("groupName")
.unfollowed("dependsOn");

const JOB_TEMPLATE: Fields =
    Fields::of("a job template", &[("metadata", METADATA), ("spec", Shape::Fields(&JOB_SPEC))]).requires(&["spec"]);

const JOB_SET_STATUS: Fields = Fields::of(
    "the status of a job set",
    &[
        ("conditions", Shape::List(&Shape::Fields(&CONDITION))),
        ("restarts", Shape::COUNT),
        ("restartsCountTowardsMax", Shape::COUNT),
    ],
)
.open();

pub const LEADER_WORKER_SET: Fields =
    Fields::of("a leader worker set", &[("metadata", METADATA), ("spec", Shape::Fields(&LEADER_WORKER_SET_SPEC))])
        .requires(&["spec"])
        .unused("status");

const LEADER_WORKER_SET_SPEC: Fields = Fields::of(
    "the spec of a leader worker set",
    &[("replicas", Shape::COUNT), ("leaderWorkerTemplate", Shape::Fields(&LEADER_WORKER_TEMPLATE))],
)
.requires(&["leaderWorkerTemplate"])
.unused("rolloutStrategy networkConfig")
.unfollowed("startupPolicy");

const LEADER_WORKER_TEMPLATE: Fields = Fields::of(
    "a leader worker template",
    &[
        ("leaderTemplate", TEMPLATE),
        ("workerTemplate", TEMPLATE),
        ("size", Shape::COUNT),
        ("restartPolicy", Shape::Word(&["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None", "Default"])),
    ],
)
.requires(&["workerTemplate"])
.unfollowed("subGroupPolicy volumeClaimTemplates persistentVolumeClaimRetentionPolicy");
