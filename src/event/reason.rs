//! The reasons for refusals, transitions and ends. The list is closed, so a misspelt reason in a file is an error.

use std::cmp::Ordering;
use std::fmt;

use super::own_reason::OwnReason;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $text:literal;)*) => {
        /// Why something was refused, moved or ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
                            | Reason::AccountNotAllowed
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
                            | Reason::Own(_)
                    ) || (Reason::SchedulingGated..=Reason::NotAPod).contains(&self)
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

impl Reason {
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
    PickedGpuMissing => "picked_gpu_missing", "has no GPU of the index picked by hand";
    LabelMissing => "label_missing", "lacks a label that is asked for";
    LabelMismatch => "label_mismatch", "has another value for a label that is asked for";
    NodeJoining => "node_joining", "has not joined yet";
    NodeNotReady => "node_not_ready", "not ready";
    NodeUnreachable => "node_unreachable", "unreachable";
    NodeMaintenance => "node_maintenance", "in maintenance";
    NodeGone => "node_gone", "gone";
    OsMismatch => "os_mismatch", "runs another operating system";
    ArchMismatch => "arch_mismatch", "has another CPU architecture";
    GpuTypeMismatch => "gpu_type_mismatch", "has no GPU of a type that is asked for";
    GpuMemoryTooSmall => "gpu_memory_too_small", "has GPUs of too little memory";
    TooFewGpus => "too_few_gpus", "has fewer GPUs than are asked for";
    GpuNotUsable => "gpu_not_usable", "too few GPUs are in a usable state";
    GpuBusyElsewhere => "gpu_busy_elsewhere", "too few GPUs are free of foreign use";
    InsufficientCpu => "insufficient_cpu", "too little CPU is free";
    InsufficientRam => "insufficient_ram", "too little RAM is free";
    InsufficientGpus => "insufficient_gpus", "too few GPUs are free";
    InsufficientGpuShare => "insufficient_gpu_share", "too few GPUs have a large enough share free";
    InsufficientGpuMemory => "insufficient_gpu_memory", "too few GPUs have enough memory free";
    GangIncomplete => "gang_incomplete", "has room, but not all tasks of the gang have";
    ModelArchitectureUnsupported => "model_architecture_unsupported",
        "its backend does not know the model's architecture";
    BackendOsMismatch => "backend_os_mismatch", "the backend has no build for its operating system";
    BackendArchMismatch => "backend_arch_mismatch", "the backend has no build for its CPU architecture";
    BackendVendorMismatch => "backend_vendor_mismatch", "the backend has no build for its GPUs";
    ComputeCapabilityTooLow => "compute_capability_too_low", "has GPUs that are too old for the backend";
    GpuArchitectureUnsupported => "gpu_architecture_unsupported", "the backend is not built for its GPUs' architecture";
    DriverTooOld => "driver_too_old", "has a driver that is too old for the backend";
    RuntimeTooOld => "runtime_too_old", "its driver runs an older major version than the backend is built for";
    QuantizationUnsupported => "quantization_unsupported", "its GPUs cannot serve such quantized weights";
    InFleet => "in_fleet", "an instance of a fleet, which is for jobs with `resources`";
    // Reasons why an instance is not offered:
    NotInFleet => "not_in_fleet", "no instance of a fleet";
    FleetNotNamed => "fleet_not_named", "of a fleet that the job does not name";
    FleetNotCluster => "fleet_not_cluster", "of a fleet whose placement is not cluster";
    FleetTooSmall => "fleet_too_small", "of a fleet that has not enough left for all nodes";
    CannotSplit => "cannot_split", "cannot be split into its blocks";
    CpuOutOfRange => "cpu_out_of_range", "no number of its blocks has CPUs within the range";
    MemoryOutOfRange => "memory_out_of_range", "no number of its blocks has memory within the range";
    DiskOutOfRange => "disk_out_of_range", "its disk is not within the range";
    GpuCountOutOfRange => "gpu_count_out_of_range", "no number of its blocks has GPUs within the range";
    GpuMemoryOutOfRange => "gpu_memory_out_of_range", "the memory of its GPUs is not within the range";
    NoSliceMatches => "no_slice_matches", "no number of its blocks is within all ranges at once";
    SpotMismatch => "spot_mismatch", "of the other kind, spot or on demand";
    BackendMismatch => "backend_mismatch", "of a backend that is not asked for";
    RegionMismatch => "region_mismatch", "in a region that is not asked for";
    TooDear => "too_dear", "costs more than the maximum price";
    HostIsSplit => "host_is_split", "split into blocks, which jobs of several nodes do not use";
    HostInUse => "host_in_use", "partly in use, and each of several nodes takes a whole host";
    BlockBusy => "block_busy", "too few of its blocks are idle";
    FleetFull => "fleet_full", "not there, and its fleet has as many instances as it may";
    CapacityTaken => "capacity_taken", "not there, and its cloud has no capacity for it";
    ReuseOnly => "reuse_only", "not there, and the job only reuses what is";
    NoRunner => "no_runner", "has no GPU for whose kind there is an image of the backend";
    BelowUtilization => "below_utilization", "has too few GPUs of which the part to be reserved is free";
    TooFewNodes => "too_few_nodes", "could hold a part, but too few other nodes could hold the rest";
    NotDistributable => "not_distributable", "could hold a part, but the model may not lie on several nodes";
    AlreadyDistributed => "already_distributed", "already holds a part of a model that lies on several nodes";
    // Reasons why a deployment fits nowhere:
    BadArgument => "bad_argument", "an argument of the backend cannot be used";
    ParallelismMismatch => "parallelism_mismatch", "the parallel sizes are not the number of GPUs picked";
    Indivisible => "indivisible", "heads or vocabulary cannot be divided by the number of GPUs";
    PicksOfSeveralKinds => "picks_of_several_kinds", "GPUs of several kinds were picked for one replica";
    PickUnreadable => "pick_unreadable", "a pick is no node, kind and index of a GPU";
    OvercommitOfReplicas => "overcommit_of_replicas", "what was picked is too small, and there are several replicas";
    PortStated => "port_stated", "the port is the scheduler's to choose";
    UpstreamValueError => "upstream_value_error", "the upstream program ends this decision with a ValueError";
    UpstreamKeyError => "upstream_key_error", "the upstream program ends this decision with a KeyError";
    UpstreamZeroDivisionError => "upstream_zero_division_error", "the upstream program ends this decision with a ZeroDivisionError";
    UpstreamTypeError => "upstream_type_error", "the upstream program ends this decision with a TypeError";
    // Reasons why a job waits:
    QueueOrder => "queue_order", "waits behind the head of the queue";
    QuotaExceeded => "quota_exceeded", "would hold more than its project may";
    BackingOff => "backing_off", "waits before the next attempt";
    // Reasons why a commit is refused:
    StaleRead => "stale_read", "the fleet changed after it was read";
    // Reasons why something moved or ended:
    Completed => "completed", "ran to its end";
    Failed => "failed", "failed";
    Cancelled => "cancelled", "cancelled";
    NeverFits => "never_fits", "fits no node of this fleet, however empty";
    StartFailed => "start_failed", "failed to start";
    AnalysisFailed => "analysis_failed", "its analysis failed";
    NodeLost => "node_lost", "its node was lost";
    Preempted => "preempted", "was stopped for another";
    GpuLost => "gpu_lost", "its GPU failed";
    NotPickedUp => "not_picked_up", "its node did not take it up, and it is analysed again";
    WrittenOver => "written_over", "another decision was written over it";
    ScaledUp => "scaled_up", "its job needs more replicas";
    ScaledDown => "scaled_down", "its job needs fewer replicas";
    NoRoom => "no_room", "fitted nowhere when it was looked at, and does not wait";
    PickRefused => "pick_refused", "what it picks could not be selected when it was submitted";
    UtilizationPolicy => "utilization_policy", "its GPUs were idle for as long as its utilization policy allows";
    TimeLimit => "time_limit", "reached its time limit";
    DeadlineExpired => "deadline_expired", "stayed too long in one state";
    RetryLimit => "retry_limit", "failed as often as is allowed";
    HeartbeatLost => "heartbeat_lost", "its heartbeat stopped for longer than the grace period";
    HeartbeatBack => "heartbeat_back", "its heartbeat came back";
    Reported => "reported", "reported so";
    InstanceWanted => "instance_wanted", "an instance was wanted";
    FleetMinimum => "fleet_minimum", "its fleet is to have more instances";
    Provisioned => "provisioned", "it is up";
    TakenAway => "taken_away", "its cloud took it away, or it was lost";
    IdleTooLong => "idle_too_long", "nothing was on it for as long as its fleet allows";
    NotNeeded => "not_needed", "what it was made for is over";
    NoCapacity => "no_capacity", "found no capacity";
    RunOver => "run_over", "its run as a whole ended or is tried again";
    RetryTimeOver => "retry_time_over", "the time for which it is tried again is over";
    // Reasons that involve an external scheduler:
    DecidedOutside => "decided_outside", "a scheduler outside decides on it";
    NotWaiting => "not_waiting", "was decided on outside, and does not wait to be";
    RefusedOutside => "refused_outside", "a scheduler outside does not take it";
    // A reason why an instance is not offered. All further reasons must be added at the end, because the index of a
    // reason is part of the digest.
    OtherFleet => "other_fleet", "of another fleet than the job's";
    // Reasons why a decision of an external scheduler is not carried out:
    DoesNotFit => "does_not_fit", "was given a place of which a part is taken";
    PlaceNotReady => "place_not_ready", "was given a place that takes no work";
    Unmet => "unmet", "was given a place that does not meet what it asks for";
    GangTorn => "gang_torn", "was given a place for a part of it";
    NotRunning => "not_running", "was to be stopped, and holds no place";
    // More reasons why a job waits:
    Dependency => "dependency", "waits for another job";
    DependencyNeverSatisfied => "dependency_never_satisfied", "waits for what can no longer become of another job";
    ArrayTaskLimit => "job_array_task_limit", "waits because as many tasks of its array run as may run at a time";
    // More reasons why a node does not fit now:
    CoresRestricted => "cores_restricted", "the cores that are free are restricted to its GPUs";
    // Reasons of Slurm, with its own names for them:
    PartitionMismatch => "partition_mismatch", "no node of its partition";
    PartitionTimeLimit => "partition_time_limit", "PartitionTimeLimit: its time limit exceeds that of its partition";
    PartitionNodeLimit => "partition_node_limit", "PartitionNodeLimit: asks for more or fewer nodes than its partition allows";
    AccountNotAllowed => "account_not_allowed", "AccountNotAllowed: its account may not use its partition";
    HeldForPriority => "held_for_priority",
        "ReqNodeNotAvail: kept for a job ahead of it in another partition";
    InReservation => "in_reservation", "ReqNodeNotAvail: may be reserved for another job within its time limit";
    OutsideReservation => "outside_reservation", "no node of its reservation";
    Reservation => "reservation", "Reservation: its reservation has not begun, or is over";
    QosGrpJobs => "qos_grp_jobs", "QOSGrpJobsLimit: as many jobs of its QOS run as may";
    QosMaxJobsPerUser => "qos_max_jobs_per_user", "QOSMaxJobsPerUserLimit: its user runs as many jobs as the QOS allows";
    QosMaxJobsPerAccount => "qos_max_jobs_per_account", "its account runs as many jobs as the QOS allows";
    QosMaxWall => "qos_max_wall", "QOSMaxWallDurationPerJobLimit: its time limit exceeds that of its QOS";
    QosMaxTresPerJob => "qos_max_tres_per_job", "asks for more than its QOS allows to one job";
    QosGrpTres => "qos_grp_tres", "QOSGrpGRES, QOSGrpCpuLimit or QOSGrpNodeLimit: all jobs of its QOS would hold too much";
    QosMaxTresPerUser => "qos_max_tres_per_user",
        "QOSMaxGRESPerUser, QOSMaxCpuPerUserLimit or QOSMaxNodePerUserLimit: its user would hold too much";
    QosMaxTresPerAccount => "qos_max_tres_per_account", "its account would hold more than the QOS allows";
    // Reasons of the plugins of kube-scheduler, with the texts of the plugins where they are the same for every node:
    SchedulingGated => "scheduling_gated", "waiting for scheduling gates";
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
    PreemptionNotHelpful => "preemption_not_helpful", "Preemption is not helpful for scheduling";
    PluginFailed => "plugin_failed", "a plugin failed, which ends the attempt";
    NoNodes => "no_nodes", "the cluster has no node";
    NotAPod => "not_a_pod", "asks for what a pod cannot request";
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
