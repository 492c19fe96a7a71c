//! Pods and their templates.

use super::meta::{LABEL_SELECTOR, METADATA, NODE_SELECTOR, NODE_SELECTOR_TERM, RESOURCES, TOLERATION};
use crate::refused;
use crate::shape::{Fields, Named, Shape};

pub const POD: Fields =
    Fields::of("a pod", &[("metadata", METADATA), ("spec", Shape::Fields(&SPEC)), ("status", Shape::Fields(&STATUS))])
        .requires(&["spec"]);

/// The template of the pods that a controller makes.
pub const TEMPLATE: Shape = Shape::Fields(&POD_TEMPLATE);

const POD_TEMPLATE: Fields =
    Fields::of("a pod template", &[("metadata", METADATA), ("spec", Shape::Fields(&SPEC))]).requires(&["spec"]);

const SPEC: Fields = Fields::of(
    "the spec of a pod",
    &[
        ("activeDeadlineSeconds", Shape::LONG),
        ("affinity", Shape::Fields(&AFFINITY)),
        ("containers", Shape::List(&Shape::Fields(&CONTAINER))),
        ("initContainers", Shape::List(&Shape::Fields(&CONTAINER))),
        ("hostNetwork", Shape::Bool),
        ("nodeName", Shape::Name(Named::Node)),
        ("nodeSelector", Shape::Labels),
        ("overhead", RESOURCES),
        ("preemptionPolicy", PREEMPTION),
        ("priority", Shape::INTEGER),
        ("priorityClassName", Shape::Name(Named::PriorityClass)),
        ("resourceClaims", Shape::List(&Shape::Fields(&CLAIM))),
        ("resources", Shape::Fields(&REQUIREMENTS)),
        ("restartPolicy", RESTART),
        ("runtimeClassName", Shape::Name(Named::RuntimeClass)),
        ("schedulerName", Shape::Name(Named::Scheduler)),
        ("schedulingGates", Shape::List(&Shape::Fields(&GATE))),
        ("terminationGracePeriodSeconds", Shape::LONG),
        ("tolerations", Shape::List(&Shape::Fields(&TOLERATION))),
        ("topologySpreadConstraints", Shape::List(&Shape::Fields(&SPREAD))),
        ("volumes", Shape::Examined(&Shape::List(&Shape::Fields(&VOLUME)))),
        ("workloadRef", Shape::Fields(&WORKLOAD)),
    ],
)
.requires(&["containers"])
.refuses(refused::pod)
.unused(
    "automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks ephemeralContainers hostAliases hostIPC \
     hostPID hostUsers hostname hostnameOverride imagePullSecrets os readinessGates securityContext serviceAccount \
     serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain",
)
// Kubernetes 1.36 has it.
.unfollowed("schedulingGroup");

pub const PREEMPTION: Shape = Shape::Word(&["PreemptLowerPriority", "Never"]);
const RESTART: Shape = Shape::Word(&["Always", "OnFailure", "Never"]);

const CONTAINER: Fields = Fields::of(
    "a container",
    &[
        ("name", Shape::Name(Named::Part)),
        ("image", Shape::Name(Named::Image)),
        ("resources", Shape::Fields(&REQUIREMENTS)),
        ("ports", Shape::List(&Shape::Fields(&PORT))),
        ("restartPolicy", RESTART),
    ],
)
.refuses(refused::container)
.unused(
    "args command env envFrom imagePullPolicy lifecycle livenessProbe readinessProbe resizePolicy restartPolicyRules \
     securityContext startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices \
     volumeMounts workingDir",
);

const REQUIREMENTS: Fields =
    Fields::of("the resources of a container", &[("requests", RESOURCES), ("limits", RESOURCES)])
        .refuses(refused::resources)
        .unused("claims");

const PORT: Fields = Fields::of(
    "a port of a container",
    &[
        ("containerPort", PORT_NUMBER),
        ("hostPort", PORT_NUMBER),
        ("hostIP", Shape::Name(Named::Address)),
        ("protocol", Shape::Word(&["TCP", "UDP", "SCTP"])),
    ],
)
.unused("name");

const PORT_NUMBER: Shape = Shape::Whole { least: 0, most: 65_535 };

const CLAIM: Fields = Fields::of(
    "a resource claim of a pod",
    &[
        ("name", Shape::Name(Named::Part)),
        ("resourceClaimName", Shape::Name(Named::Claim)),
        ("resourceClaimTemplateName", Shape::Name(Named::ClaimTemplate)),
    ],
)
.requires(&["name"]);

const GATE: Fields = Fields::of("a scheduling gate", &[("name", Shape::Name(Named::Gate))]).requires(&["name"]);

const WORKLOAD: Fields = Fields::of(
    "a workload reference",
    &[
        ("name", Shape::Name(Named::Workload)),
        ("podGroup", Shape::Name(Named::Part)),
        ("podGroupReplicaKey", Shape::Text),
    ],
)
.requires(&["name", "podGroup"]);

/// A volume is examined only for the kinds that bind a pod to nodes.
const VOLUME: Fields = Fields::of("a volume", &[])
    .unused(
        "name azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir fc flexVolume flocker gitRepo \
         glusterfs hostPath image nfs photonPersistentDisk portworxVolume projected quobyte scaleIO secret storageos \
         vsphereVolume",
    )
    .unfollowed("persistentVolumeClaim ephemeral awsElasticBlockStore gcePersistentDisk iscsi rbd")
    .open();

const AFFINITY: Fields = Fields::of(
    "an affinity",
    &[
        ("nodeAffinity", Shape::Fields(&NODE_AFFINITY)),
        ("podAffinity", Shape::Fields(&POD_AFFINITY)),
        ("podAntiAffinity", Shape::Fields(&POD_AFFINITY)),
    ],
);

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const NODE_AFFINITY: Fields = Fields::of(
    "a node affinity",
    &[(REQUIRED, NODE_SELECTOR), (PREFERRED, Shape::List(&Shape::Fields(&PREFERRED_NODES)))],
);

const PREFERRED_NODES: Fields = Fields::of(
    "a preference of nodes",
    &[("weight", Shape::WEIGHT), ("preference", Shape::Fields(&NODE_SELECTOR_TERM))],
)
.requires(&["weight", "preference"]);

const POD_AFFINITY: Fields = Fields::of(
    "a pod affinity",
    &[
        (REQUIRED, Shape::List(&Shape::Fields(&AFFINITY_TERM))),
        (PREFERRED, Shape::List(&Shape::Fields(&WEIGHTED_TERM))),
    ],
);

const AFFINITY_TERM: Fields = Fields::of(
    "a term of a pod affinity",
    &[
        ("labelSelector", LABEL_SELECTOR),
        ("namespaces", Shape::List(&Shape::Name(Named::Namespace))),
        ("namespaceSelector", LABEL_SELECTOR),
        ("topologyKey", Shape::Name(Named::LabelKey)),
        ("matchLabelKeys", LABEL_KEYS),
        ("mismatchLabelKeys", LABEL_KEYS),
    ],
)
.requires(&["topologyKey"])
.refuses(refused::affinity_term);

const LABEL_KEYS: Shape = Shape::List(&Shape::Name(Named::LabelKey));

const WEIGHTED_TERM: Fields = Fields::of(
    "a preference of a pod affinity",
    &[("weight", Shape::WEIGHT), ("podAffinityTerm", Shape::Fields(&AFFINITY_TERM))],
)
.requires(&["weight", "podAffinityTerm"]);

const SPREAD: Fields = Fields::of(
    "a topology spread constraint",
    &[
        ("maxSkew", Shape::Whole { least: 1, most: i32::MAX as i64 }),
        ("topologyKey", Shape::Name(Named::LabelKey)),
        ("whenUnsatisfiable", Shape::Word(&["DoNotSchedule", "ScheduleAnyway"])),
        ("labelSelector", LABEL_SELECTOR),
        ("minDomains", Shape::Whole { least: 1, most: i32::MAX as i64 }),
        ("nodeAffinityPolicy", INCLUSION),
        ("nodeTaintsPolicy", INCLUSION),
        ("matchLabelKeys", LABEL_KEYS),
    ],
)
.requires(&["maxSkew", "topologyKey", "whenUnsatisfiable"])
.refuses(refused::spread);

const INCLUSION: Shape = Shape::Word(&["Honor", "Ignore"]);

const STATUS: Fields = Fields::of(
    "the status of a pod",
    &[
        ("phase", Shape::Word(&["Pending", "Running", "Succeeded", "Failed", "Unknown", ""])),
        ("startTime", Shape::Time),
        ("nominatedNodeName", Shape::Name(Named::Node)),
        ("resourceClaimStatuses", Shape::List(&Shape::Fields(&CLAIM_STATUS))),
    ],
)
.unused(
    "conditions containerStatuses ephemeralContainerStatuses hostIP hostIPs initContainerStatuses message podIP \
     podIPs qosClass reason resize observedGeneration allocatedResources resources",
)
.open();

const CLAIM_STATUS: Fields = Fields::of(
    "a claim that was made for a pod",
    &[("name", Shape::Name(Named::Part)), ("resourceClaimName", Shape::Name(Named::Claim))],
)
.requires(&["name"]);
