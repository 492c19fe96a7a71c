//! The reasons for refusals, transitions and ends. The list is closed, so a misspelt reason in a file is an error.

use std::cmp::Ordering;
use std::fmt;

use super::own_reason::OwnReason;
use serde::{Deserialize, Serialize, Serializer};
use smallvec::SmallVec;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $text:literal;)*) => {
        /// Why something was refused, moved or ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
        pub enum Reason {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
            /// A reason that a profile or an outside program defines for its own filter.
            #[serde(rename = "own")]
            Own(OwnReason),
        }

        /// The reasons of the table in its order, so that each reason has an index.
        enum Listed {
            $($variant,)*
        }

        impl Reason {
            /// All reasons of the table.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant,)*];

            /// The name of the reason in files, such as `node_not_ready`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Reason::$variant => $name,)*
                    Reason::Own(own) => own.name(),
                }
            }

            /// The index in [`Reason::ALL`]. All reasons that are not in the table share the index after the last one.
            #[inline]
            pub fn place(self) -> usize {
                match self {
                    $(Reason::$variant => Listed::$variant as usize,)*
                    Reason::Own(_) => Reason::ALL.len(),
                }
            }

            /// Whether the reason explains why an attempt waits. Most such reasons are at the beginning of the table.
            pub fn is_of_waiting(self) -> bool {
                self <= Reason::StaleRead
                    || matches!(
                        self,
                        Reason::DecidedOutside
                            | Reason::OtherFleet
                            | Reason::Dependency
                            | Reason::DependencyNeverSatisfied
                            | Reason::ArrayTaskLimit
                            | Reason::CoresRestricted
                            | Reason::PartitionMismatch
                            | Reason::PartitionTimeLimit
                            | Reason::PartitionNodeLimit
                            | Reason::PartitionConfig
                            | Reason::AccountNotAllowed
                            | Reason::QosNotAllowed
                            | Reason::HeldForPriority
                            | Reason::InReservation
                            | Reason::OutsideReservation
                            | Reason::Reservation
                            | Reason::QosGrpJobs
                            | Reason::QosMaxJobsPerUser
                            | Reason::QosMaxJobsPerAccount
                            | Reason::QosMaxWall
                            | Reason::QosMaxTresPerJob
                            | Reason::QosGrpTres
                            | Reason::QosMaxTresPerUser
                            | Reason::QosMaxTresPerAccount
                            | Reason::WaitsOnPermit
                            | Reason::PermitTimeout
                            | Reason::Own(_)
                    ) || (Reason::SchedulingGated..=Reason::NotAPod).contains(&self)
                    || self.is_of_admission()
            }

            /// Whether Kueue has not admitted the workload of the pod, or admitted it without the pod.
            pub fn is_of_admission(self) -> bool {
                (Reason::LocalQueueMissing..=Reason::PartiallyAdmitted).contains(&self)
            }

            /// Whether the reason depends only on the demand and on fixed properties of the node. Such a node refuses
            /// the demand forever.
            pub fn is_for_ever(self) -> bool {
                matches!(
                    self,
                    Reason::NotPicked
                        | Reason::PickedGpuMissing
                        | Reason::LabelMissing
                        | Reason::LabelMismatch
                        | Reason::OsMismatch
                        | Reason::ArchMismatch
                        | Reason::GpuTypeMismatch
                        | Reason::GpuMemoryTooSmall
                        | Reason::TooFewGpus
                        | Reason::ModelArchitectureUnsupported
                        | Reason::BackendOsMismatch
                        | Reason::BackendArchMismatch
                        | Reason::BackendVendorMismatch
                        | Reason::ComputeCapabilityTooLow
                        | Reason::GpuArchitectureUnsupported
                        | Reason::DriverTooOld
                        | Reason::RuntimeTooOld
                        | Reason::QuantizationUnsupported
                        | Reason::InFleet
                        | Reason::NotInFleet
                        | Reason::FleetNotNamed
                        | Reason::FleetNotCluster
                        | Reason::CannotSplit
                        | Reason::CpuOutOfRange
                        | Reason::MemoryOutOfRange
                        | Reason::DiskOutOfRange
                        | Reason::GpuCountOutOfRange
                        | Reason::GpuMemoryOutOfRange
                        | Reason::NoSliceMatches
                        | Reason::SpotMismatch
                        | Reason::BackendMismatch
                        | Reason::RegionMismatch
                        | Reason::TooDear
                        | Reason::HostIsSplit
                        | Reason::NoRunner
                        | Reason::NotDistributable
                        | Reason::PartitionMismatch
                        | Reason::OutsideReservation
                )
            }

            /// Whether the reason is about a hand pick or about the node's state, which may change.
            pub fn is_of_state_or_pick(self) -> bool {
                matches!(
                    self,
                    Reason::NotPicked
                        | Reason::NodeJoining
                        | Reason::NodeNotReady
                        | Reason::NodeUnreachable
                        | Reason::NodeMaintenance
                        | Reason::NodeGone
                )
            }

            /// Whether this reason to wait would remain even if the nodes had more free resources.
            pub fn lies_not_in_nodes(self) -> bool {
                matches!(
                    self,
                    Reason::QuotaExceeded
                        | Reason::QueueOrder
                        | Reason::BackingOff
                        | Reason::PodTerminating
                        | Reason::DecidedOutside
                        | Reason::Dependency
                        | Reason::DependencyNeverSatisfied
                        | Reason::ArrayTaskLimit
                        | Reason::QosNotAllowed
                ) || (Reason::PartitionMismatch..=Reason::QosMaxTresPerAccount).contains(&self)
                    || self.is_of_admission()
            }

            /// Whether this is a limit on what runs at the same time, so that a single job may exceed it too.
            pub fn counts_what_runs(self) -> bool {
                matches!(
                    self,
                    Reason::QuotaExceeded
                        | Reason::QosGrpJobs
                        | Reason::QosMaxJobsPerUser
                        | Reason::QosMaxJobsPerAccount
                        | Reason::QosGrpTres
                        | Reason::QosMaxTresPerUser
                        | Reason::QosMaxTresPerAccount
                )
            }

            /// Whether a limit or a quota lets the job wait, so that more nodes do not help.
            pub fn is_of_limit(self) -> bool {
                self.counts_what_runs()
                    || matches!(
                        self,
                        Reason::ArrayTaskLimit
                            | Reason::PartitionTimeLimit
                            | Reason::PartitionNodeLimit
                            | Reason::PartitionConfig
                            | Reason::QosMaxWall
                            | Reason::QosMaxTresPerJob
                            | Reason::WaitingForQuota
                            | Reason::PodTerminating
                            | Reason::ExceedsMaxQuota
                    )
            }

            /// Whether a pod that waits alone on empty nodes may wait no longer if a node changes or another pod comes.
            pub fn may_end_for_a_pod_alone(self) -> bool {
                self.is_of_state_or_pick()
                    || matches!(
                        self,
                        Reason::NodeUnschedulable
                            | Reason::PodAffinityUnmet
                            | Reason::TopologySpread
                            | Reason::GangPodsMissing
                            | Reason::ClaimUnavailable
                            | Reason::OtherScheduler
                    )
            }

            /// Whether a pod waits for objects of its cluster, which do not change during a rehearsal.
            pub fn is_of_declared_objects(self) -> bool {
                matches!(
                    self,
                    Reason::SchedulingGated
                        | Reason::ResourceClaimMissing
                        | Reason::DeviceClassMissing
                        | Reason::PodGroupMissing
                )
            }

            /// Whether a node that is refused for this reason might take one task if it were ready and empty.
            pub fn may_have_room(self) -> bool {
                matches!(
                    self,
                    Reason::NodeJoining
                        | Reason::NodeNotReady
                        | Reason::NodeUnreachable
                        | Reason::NodeMaintenance
                        | Reason::NodeGone
                        | Reason::GpuNotUsable
                        | Reason::GpuBusyElsewhere
                        | Reason::InsufficientCpu
                        | Reason::InsufficientRam
                        | Reason::InsufficientGpus
                        | Reason::InsufficientGpuShare
                        | Reason::InsufficientGpuMemory
                        | Reason::GangIncomplete
                        | Reason::TooManyPods
                        | Reason::HostPortTaken
                        | Reason::InsufficientResource
                )
            }

            /// The text after a count, as in "3 nodes: …".
            pub fn text(self) -> &'static str {
                match self {
                    $(Reason::$variant => $text,)*
                    Reason::Own(own) => own.text(),
                }
            }
        }
    };
}

/// The number of all reasons that are not in the table, in the digest. New reasons of the table do not change it. It fits
/// in two bytes of a varint.
pub(super) const OWN_REASON: u32 = 0x3fff;
const _: () = assert!(NUMBERS[Reason::ALL.len() - 1] < OWN_REASON);

/// The numbers of reasons that were removed from the table, because nothing gave them. No other reason gets them, so that
/// digests stay the same.
const REMOVED: [u32; 3] = [55, 62, 153];

/// The number of each reason of the table in the digest.
const NUMBERS: [u32; Reason::ALL.len()] = {
    let mut numbers = [0; Reason::ALL.len()];
    let (mut place, mut removed) = (0, 0);
    while place < numbers.len() {
        while removed < REMOVED.len() && REMOVED[removed] == (place + removed) as u32 {
            removed += 1;
        }
        numbers[place] = (place + removed) as u32;
        place += 1;
    }
    numbers
};

impl Reason {
    /// The number in the digest, which stays the same in later versions.
    #[inline]
    pub(super) fn number(self) -> u32 {
        NUMBERS.get(self.place()).copied().unwrap_or(OWN_REASON)
    }

    /// A number for this reason, which is valid only in this process.
    pub fn code(self) -> u32 {
        match self {
            Reason::Own(own) => Reason::ALL.len() as u32 + u32::from(own.number()),
            known => known.place() as u32,
        }
    }

    /// The reason with this number from [`Reason::code`].
    pub fn of_code(code: u32) -> Option<Reason> {
        let own = || OwnReason::of_number(u16::try_from(code as usize - Reason::ALL.len()).ok()?);
        Reason::ALL.get(code as usize).copied().or_else(|| own().map(Reason::Own))
    }
}

/// As derived, except for the fixed number of other reasons.
impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Reason::Own(own) => serializer.serialize_newtype_variant("Reason", OWN_REASON, "own", own),
            known => serializer.serialize_unit_variant("Reason", known.number(), known.name()),
        }
    }
}

impl PartialOrd for Reason {
    fn partial_cmp(&self, other: &Reason) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Orders the reasons of the table by their index. All other reasons follow, ordered by name.
impl Ord for Reason {
    #[inline]
    fn cmp(&self, other: &Reason) -> Ordering {
        match (self, other) {
            (Reason::Own(one), Reason::Own(other)) => one.name().cmp(other.name()),
            _ => self.place().cmp(&other.place()),
        }
    }
}

reasons! {
    // Reasons why a node is not chosen:
    NotPicked => "not_picked", "not among the nodes picked by hand";
    PickedGpuMissing => "picked_gpu_missing", "has no GPU with the index picked by hand";
    LabelMissing => "label_missing", "lacks a required label";
    LabelMismatch => "label_mismatch", "has a different value of a required label";
    NodeJoining => "node_joining", "has not joined yet";
    NodeNotReady => "node_not_ready", "not ready";
    NodeUnreachable => "node_unreachable", "unreachable";
    NodeMaintenance => "node_maintenance", "in maintenance";
    NodeGone => "node_gone", "gone";
    OsMismatch => "os_mismatch", "has a different operating system";
    ArchMismatch => "arch_mismatch", "has a different CPU architecture";
    GpuTypeMismatch => "gpu_type_mismatch", "has no GPU of an accepted type";
    GpuMemoryTooSmall => "gpu_memory_too_small", "its GPUs have too little memory";
    TooFewGpus => "too_few_gpus", "has fewer GPUs than requested";
    GpuNotUsable => "gpu_not_usable", "too few GPUs are usable";
    GpuBusyElsewhere => "gpu_busy_elsewhere", "too few GPUs are free of use by others";
    InsufficientCpu => "insufficient_cpu", "too little CPU is free";
    InsufficientRam => "insufficient_ram", "too little RAM is free";
    InsufficientGpus => "insufficient_gpus", "too few GPUs are free";
    InsufficientGpuShare => "insufficient_gpu_share", "too few GPUs have enough of their share free";
    InsufficientGpuMemory => "insufficient_gpu_memory", "too few GPUs have enough memory free";
    GangIncomplete => "gang_incomplete", "has room, but other tasks of the gang do not fit";
    ModelArchitectureUnsupported => "model_architecture_unsupported",
        "the backend does not support the model's architecture";
    BackendOsMismatch => "backend_os_mismatch", "the backend has no build for its operating system";
    BackendArchMismatch => "backend_arch_mismatch", "the backend has no build for its CPU architecture";
    BackendVendorMismatch => "backend_vendor_mismatch", "the backend has no build for its GPU vendor";
    ComputeCapabilityTooLow => "compute_capability_too_low", "its GPUs are too old for the backend";
    GpuArchitectureUnsupported => "gpu_architecture_unsupported", "the backend has no build for its GPU architecture";
    DriverTooOld => "driver_too_old", "its driver is too old for the backend";
    RuntimeTooOld => "runtime_too_old", "its driver supports only an older major version than the backend needs";
    QuantizationUnsupported => "quantization_unsupported", "its GPUs do not support this quantization";
    InFleet => "in_fleet", "an instance of a fleet, which only jobs with `resources` use";
    // Reasons why an instance is not offered:
    NotInFleet => "not_in_fleet", "not an instance of a fleet";
    FleetNotNamed => "fleet_not_named", "in a fleet that the job does not name";
    FleetNotCluster => "fleet_not_cluster", "in a fleet whose placement is not cluster";
    FleetTooSmall => "fleet_too_small", "in a fleet with too little left for all nodes of the job";
    CannotSplit => "cannot_split", "cannot be split into blocks as its fleet requires";
    CpuOutOfRange => "cpu_out_of_range", "the CPUs of any number of its blocks are out of range";
    MemoryOutOfRange => "memory_out_of_range", "the memory of any number of its blocks is out of range";
    DiskOutOfRange => "disk_out_of_range", "its disk size is out of range";
    GpuCountOutOfRange => "gpu_count_out_of_range", "the GPUs of any number of its blocks are out of range";
    GpuMemoryOutOfRange => "gpu_memory_out_of_range", "the memory of its GPUs is out of range";
    NoSliceMatches => "no_slice_matches", "no number of its blocks meets all ranges at once";
    SpotMismatch => "spot_mismatch", "of the wrong kind, spot or on demand";
    BackendMismatch => "backend_mismatch", "of a backend that the job does not accept";
    RegionMismatch => "region_mismatch", "in a region that the job does not accept";
    TooDear => "too_dear", "costs more than the job's maximum price";
    HostIsSplit => "host_is_split", "split into blocks, which jobs with several nodes do not use";
    HostInUse => "host_in_use", "partly in use, but a job with several nodes needs whole hosts";
    BlockBusy => "block_busy", "too few of its blocks are idle";
    FleetFull => "fleet_full", "does not exist, and its fleet already has its maximum of instances";
    CapacityTaken => "capacity_taken", "does not exist, and its cloud has no capacity";
    ReuseOnly => "reuse_only", "does not exist, and the job uses only existing instances";
    NoRunner => "no_runner", "has no GPU that an image of the backend supports";
    BelowUtilization => "below_utilization", "too few of its GPUs have the share free that the backend reserves";
    NotDistributable => "not_distributable", "can hold a part of the model, but the model may not span several nodes";
    AlreadyDistributed => "already_distributed", "already holds a part of a model that spans several nodes";
    // Reasons why a deployment fits nowhere:
    BadArgument => "bad_argument", "a parameter of the backend is not valid";
    ParallelismMismatch => "parallelism_mismatch", "the parallel sizes do not match the number of picked GPUs";
    Indivisible => "indivisible", "attention heads or vocabulary cannot be divided by the number of GPUs";
    PicksOfSeveralKinds => "picks_of_several_kinds", "GPUs of several types were picked for one replica";
    OvercommitOfReplicas => "overcommit_of_replicas", "the picked GPUs are too small, and there are several replicas";
    PortStated => "port_stated", "the parameters set the port, which the scheduler must choose";
    UpstreamValueError => "upstream_value_error", "the upstream program ends this decision with a ValueError";
    UpstreamKeyError => "upstream_key_error", "the upstream program ends this decision with a KeyError";
    UpstreamZeroDivisionError => "upstream_zero_division_error", "the upstream program ends this decision with a ZeroDivisionError";
    UpstreamTypeError => "upstream_type_error", "the upstream program ends this decision with a TypeError";
    // Reasons why a job waits:
    QueueOrder => "queue_order", "waits behind the head of the queue";
    QuotaExceeded => "quota_exceeded", "would exceed the quota of its project";
    BackingOff => "backing_off", "waits for its next attempt";
    // Reasons why a commit is refused:
    StaleRead => "stale_read", "the fleet changed after the decision was computed";
    // Reasons why something moved or ended:
    Completed => "completed", "ran to its end";
    Failed => "failed", "failed";
    Cancelled => "cancelled", "cancelled";
    NeverFits => "never_fits", "fits no node of this fleet, even when it is empty";
    StartFailed => "start_failed", "failed to start";
    AnalysisFailed => "analysis_failed", "its analysis failed";
    NodeLost => "node_lost", "its node was lost";
    Preempted => "preempted", "was preempted";
    GpuLost => "gpu_lost", "its GPU failed";
    NotPickedUp => "not_picked_up", "its node did not acknowledge it, so it is analysed again";
    WrittenOver => "written_over", "another decision overwrote it";
    ScaledUp => "scaled_up", "its job needs more replicas";
    ScaledDown => "scaled_down", "its job needs fewer replicas";
    NoRoom => "no_room", "did not fit when it was examined, and does not wait";
    PickRefused => "pick_refused", "its hand pick could not be selected at submission";
    UtilizationPolicy => "utilization_policy", "its GPUs were idle for the time window of its utilization policy";
    TimeLimit => "time_limit", "reached its time limit";
    DeadlineExpired => "deadline_expired", "stayed too long in one state";
    RetryLimit => "retry_limit", "reached the limit of retries";
    HeartbeatLost => "heartbeat_lost", "its heartbeat stopped for longer than the grace period";
    HeartbeatBack => "heartbeat_back", "its heartbeat came back";
    Reported => "reported", "reported so";
    InstanceWanted => "instance_wanted", "a job wanted an instance";
    FleetMinimum => "fleet_minimum", "its fleet needs more instances";
    Provisioned => "provisioned", "it is ready";
    TakenAway => "taken_away", "its cloud took it away, or it was lost";
    IdleTooLong => "idle_too_long", "was idle for longer than its fleet allows";
    NotNeeded => "not_needed", "the job for which it was created is over";
    NoCapacity => "no_capacity", "its cloud had no capacity";
    RunOver => "run_over", "its run ended or is tried again as a whole";
    RetryTimeOver => "retry_time_over", "its time for retries is over";
    // Reasons that involve an external scheduler:
    DecidedOutside => "decided_outside", "an outside scheduler decides";
    NotWaiting => "not_waiting", "an outside scheduler decided about it, but it does not wait";
    RefusedOutside => "refused_outside", "an outside scheduler refuses it";
    // A reason why an instance is not offered. All further reasons must be added at the end, because the number of a
    // reason is part of the digest. The number of a removed reason goes to `REMOVED`.
    OtherFleet => "other_fleet", "in another fleet than the rest of the job";
    // Reasons why a decision of an external scheduler is not carried out:
    DoesNotFit => "does_not_fit", "was given a place that is partly in use";
    PlaceNotReady => "place_not_ready", "was given a place that does not accept work";
    Unmet => "unmet", "was given a place that does not meet its request";
    GangTorn => "gang_torn", "was given places for only a part of it";
    NotRunning => "not_running", "was to be stopped, but has no place";
    // More reasons why a job waits:
    Dependency => "dependency", "waits for another job";
    DependencyNeverSatisfied => "dependency_never_satisfied", "waits for a dependency that can no longer be satisfied";
    ArrayTaskLimit => "job_array_task_limit", "waits because its array has reached its limit of running tasks";
    // More reasons why a node does not fit now:
    CoresRestricted => "cores_restricted", "its free cores are restricted to its GPUs";
    // Reasons of Slurm, with its own names for them:
    PartitionMismatch => "partition_mismatch", "outside the partition in which the job was tried";
    PartitionTimeLimit => "partition_time_limit", "PartitionTimeLimit: its time limit exceeds that of its partition";
    PartitionNodeLimit => "partition_node_limit", "PartitionNodeLimit: asks for more or fewer nodes than its partition allows or has";
    AccountNotAllowed => "account_not_allowed", "AccountNotAllowed: its partition does not allow its account";
    HeldForPriority => "held_for_priority",
        "ReqNodeNotAvail: kept for a job ahead of it in another partition";
    InReservation => "in_reservation", "ReqNodeNotAvail: reserved for another job within the time limit";
    OutsideReservation => "outside_reservation", "not in the job's reservation";
    Reservation => "reservation", "Reservation: its reservation has not begun, or is over";
    QosGrpJobs => "qos_grp_jobs", "QOSGrpJobsLimit: its QOS, or that of its partition, has reached its limit of running jobs";
    QosMaxJobsPerUser => "qos_max_jobs_per_user", "QOSMaxJobsPerUserLimit: its user has reached the limit of running jobs of its QOS or its partition's";
    QosMaxJobsPerAccount => "qos_max_jobs_per_account", "its account has reached the limit of running jobs of its QOS or its partition's";
    QosMaxWall => "qos_max_wall", "QOSMaxWallDurationPerJobLimit: its time limit exceeds that of its QOS or its partition's";
    QosMaxTresPerJob => "qos_max_tres_per_job", "asks for more than its QOS or its partition's allows for one job";
    QosGrpTres => "qos_grp_tres", "QOSGrpGRES, QOSGrpCpuLimit or QOSGrpNodeLimit: all jobs of its QOS or its partition's together would exceed the limit";
    QosMaxTresPerUser => "qos_max_tres_per_user",
        "QOSMaxGRESPerUser, QOSMaxCpuPerUserLimit or QOSMaxNodePerUserLimit: its user would exceed the limit of its QOS or its partition's";
    QosMaxTresPerAccount => "qos_max_tres_per_account", "its account would exceed the limit of its QOS or its partition's";
    // Reasons of the plugins of kube-scheduler, with the texts of the plugins where they are the same for every node:
    SchedulingGated => "scheduling_gated", "waiting for scheduling gates";
    OtherScheduler => "other_scheduler", "another scheduler decides about the pod";
    ResourceClaimMissing => "resource_claim_missing", "could not find a ResourceClaim of the pod";
    PodGroupMissing => "pod_group_missing", "the pod's workload or pod group does not exist";
    GangPodsMissing => "gang_pods_missing", "waiting for minCount pods from a gang to appear in scheduling queue";
    DeviceClassMissing => "device_class_missing", "a device class does not exist";
    NodeUnschedulable => "node_unschedulable", "node(s) were unschedulable";
    NodeNameMismatch => "node_name_mismatch", "node(s) didn't match the requested node name";
    UntoleratedTaint => "untolerated_taint", "node(s) had untolerated taint(s)";
    NodeAffinityMismatch => "node_affinity_mismatch", "node(s) didn't match Pod's node affinity/selector";
    HostPortTaken => "host_port_taken", "node(s) didn't have free ports for the requested pod ports";
    TooManyPods => "too_many_pods", "Too many pods";
    InsufficientResource => "insufficient_resource", "Insufficient amount of an extended resource or of ephemeral storage";
    TopologyLabelMissing => "topology_label_missing",
        "node(s) didn't match pod topology spread constraints (missing required label)";
    TopologySpread => "topology_spread", "node(s) didn't match pod topology spread constraints";
    PodAffinityUnmet => "pod_affinity_unmet", "node(s) didn't match pod affinity rules";
    PodAntiAffinity => "pod_anti_affinity", "node(s) didn't match pod anti-affinity rules";
    ExistingPodAntiAffinity => "existing_pod_anti_affinity",
        "node(s) didn't satisfy existing pods anti-affinity rules";
    ClaimsUnallocatable => "claims_unallocatable", "cannot allocate all claims";
    ClaimUnavailable => "claim_unavailable", "resourceclaim not available on the node";
    PluginFailed => "plugin_failed", "a plugin failed, which ends the attempt";
    NoNodes => "no_nodes", "the cluster has no node";
    NotAPod => "not_a_pod", "asks for what a pod cannot request";
    // A further reason of Slurm:
    QosNotAllowed => "qos_not_allowed", "its partition does not allow its QOS";
    // Reasons in an explanation alone:
    NotExamined => "not_examined", "not examined, because enough other nodes were feasible";
    // Reasons of gang scheduling in kube-scheduler:
    WaitsOnPermit => "waits_on_permit", "has a node, and waits for other pods of its gang";
    PermitTimeout => "permit_timeout", "had a node, and too few pods of its gang got one in time";
    // Reasons of Kueue, with the names of the conditions and events that it writes:
    LocalQueueMissing => "local_queue_missing", "Inadmissible: its LocalQueue does not exist";
    ClusterQueueMissing => "cluster_queue_missing", "Inadmissible: the ClusterQueue of its LocalQueue does not exist";
    QueueInactive => "queue_inactive", "Inadmissible: its LocalQueue or ClusterQueue is stopped";
    NamespaceMismatch => "namespace_mismatch",
        "NamespaceMismatch: the namespaceSelector of its ClusterQueue does not match its namespace";
    PendingEvaluation => "pending_evaluation", "PendingEvaluation: Kueue has not judged it since it was queued";
    WaitingForPreemptedWorkloads => "waiting_for_preempted_workloads",
        "WaitingForPreemptedWorkloads: other workloads must first release their quota";
    TopologyPlacementFailed => "topology_placement_failed", "TopologyPlacementFailed: no domain has room for its pods";
    WaitingForQuota => "waiting_for_quota", "WaitingForQuota: too little quota is unused";
    ExceedsMaxQuota => "exceeds_max_quota", "ExceedsMaxQuota: it asks for more than its queue can ever have";
    NoMatchingFlavor => "no_matching_flavor", "NoMatchingFlavor: no flavor suits it";
    PartiallyAdmitted => "partially_admitted", "beyond the number of pods with which Kueue admitted its workload";
    InClusterQueue => "in_cluster_queue", "InClusterQueue: Kueue preempted it for a workload of its ClusterQueue";
    InCohortReclamation => "in_cohort_reclamation",
        "InCohortReclamation: Kueue preempted it, because it borrowed quota of another queue";
    InCohortFairSharing => "in_cohort_fair_sharing", "InCohortFairSharing: Kueue preempted it for a fairer share";
    InCohortReclaimWhileBorrowing => "in_cohort_reclaim_while_borrowing",
        "InCohortReclaimWhileBorrowing: Kueue preempted it for a workload that borrows too";
    QueueStopped => "queue_stopped", "its LocalQueue or ClusterQueue is drained";
    // A further reason of the controller of Jobs in Kubernetes:
    DeadlineExceeded => "deadline_exceeded",
        "DeadlineExceeded: its Job was active for longer than its activeDeadlineSeconds";
    PartitionConfig => "partition_config", "PartitionConfig: asks for more cores than its partition has";
    // Another reason of the controller of Jobs:
    BackoffLimitExceeded => "backoff_limit_exceeded",
        "BackoffLimitExceeded: more pods of its Job failed than its backoffLimit allows";
    // No pod is made while another one has its name.
    PodTerminating => "pod_terminating", "another pod is still terminating, and must be gone first";
    // The controllers of LeaderWorkerSets and JobSets make all pods of a group again.
    GroupRestarted => "group_restarted", "another pod of its group ended, or a Job of its JobSet failed, so all start again";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The number of nodes refused for each reason, largest number first. [`Reason::NotPicked`] comes last, because it only
/// repeats what the user requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram(SmallVec<[(Reason, u32); 2]>);

impl Histogram {
    pub fn of(reason: Reason, count: u32) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.add(reason, count);
        histogram
    }

    pub fn add(&mut self, reason: Reason, count: u32) {
        if count == 0 {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += count,
            None => self.0.push((reason, count)),
        }
        // The key ends with the reason, so that ties have a fixed order.
        self.0.sort_by_key(|(reason, count)| (*reason == Reason::NotPicked, std::cmp::Reverse(*count), *reason));
    }

    /// These reasons, where one node counts with another reason for each of the given pairs `(before, after)`. Without a
    /// node that counts with the reason before, a pair changes nothing.
    pub fn with_moved(&self, moved: impl Iterator<Item = (Reason, Reason)>) -> Histogram {
        let (mut left, mut added) = (self.clone(), Histogram::default());
        for (before, after) in moved {
            if let Some((_, count)) = left.0.iter_mut().find(|(reason, count)| *reason == before && *count > 0) {
                *count -= 1;
                added.add(after, 1);
            }
        }
        left.iter().chain(added.iter()).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Reason, u32)> + '_ {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn total(&self) -> u32 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    pub fn contains(&self, reason: Reason) -> bool {
        self.0.iter().any(|(known, _)| *known == reason)
    }

    /// Whether both histograms have the same reasons. The counts may differ.
    pub fn has_same_reasons(&self, other: &Histogram) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|(reason, _)| other.contains(*reason))
    }
}

impl FromIterator<(Reason, u32)> for Histogram {
    fn from_iter<T: IntoIterator<Item = (Reason, u32)>>(counts: T) -> Histogram {
        let mut histogram = Histogram::default();
        counts.into_iter().for_each(|(reason, count)| histogram.add(reason, count));
        histogram
    }
}

impl fmt::Display for Histogram {
    /// Formats the counts, as in `3 node_not_ready, 2 insufficient_gpus`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        f.pad(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests of earlier versions hold these numbers.
    #[test]
    fn no_reason_has_the_number_of_one_that_was_removed() {
        let numbers: Vec<u32> = Reason::ALL.iter().map(|reason| reason.number()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(REMOVED.iter().all(|removed| !numbers.contains(removed)));
        let known = [(Reason::NotDistributable, 56), (Reason::OvercommitOfReplicas, 63), (Reason::PluginFailed, 154)];
        assert!(known.iter().all(|(reason, number)| reason.number() == *number));
    }

    #[test]
    fn a_histogram_lists_the_most_frequent_reason_first_and_breaks_ties_by_the_reason() {
        let mut histogram = Histogram::default();
        for reason in [Reason::InsufficientGpus, Reason::NodeNotReady, Reason::InsufficientGpus, Reason::LabelMissing] {
            histogram.add(reason, 1);
        }
        assert_eq!(histogram.to_string(), "2 insufficient_gpus, 1 label_missing, 1 node_not_ready");
    }

    #[test]
    fn what_the_asker_said_himself_drowns_no_reason() {
        let mut histogram = Histogram::default();
        for (reason, count) in [(Reason::NotPicked, 999), (Reason::DriverTooOld, 1)] {
            histogram.add(reason, count);
        }
        assert_eq!(histogram.to_string(), "1 driver_too_old, 999 not_picked");
    }
}
