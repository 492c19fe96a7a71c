//! The names of plugins, and their verdicts about a pod and a node.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::Resource;

/// A plugin of kube-scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Plugin {
    SchedulingGates,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    GangScheduling,
}

impl Plugin {
    pub const ALL: [Plugin; 14] = [
        Plugin::SchedulingGates,
        Plugin::NodeUnschedulable,
        Plugin::NodeName,
        Plugin::TaintToleration,
        Plugin::NodeAffinity,
        Plugin::NodePorts,
        Plugin::NodeResourcesFit,
        Plugin::PodTopologySpread,
        Plugin::InterPodAffinity,
        Plugin::DynamicResources,
        Plugin::DefaultPreemption,
        Plugin::NodeResourcesBalancedAllocation,
        Plugin::ImageLocality,
        Plugin::GangScheduling,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Plugin::SchedulingGates => "SchedulingGates",
            Plugin::NodeUnschedulable => "NodeUnschedulable",
            Plugin::NodeName => "NodeName",
            Plugin::TaintToleration => "TaintToleration",
            Plugin::NodeAffinity => "NodeAffinity",
            Plugin::NodePorts => "NodePorts",
            Plugin::NodeResourcesFit => "NodeResourcesFit",
            Plugin::PodTopologySpread => "PodTopologySpread",
            Plugin::InterPodAffinity => "InterPodAffinity",
            Plugin::DynamicResources => "DynamicResources",
            Plugin::DefaultPreemption => "DefaultPreemption",
            Plugin::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Plugin::ImageLocality => "ImageLocality",
            Plugin::GangScheduling => "GangScheduling",
        }
    }
}

/// Whether removing pods from the node could help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    Unschedulable,
    UnschedulableAndUnresolvable,
}

impl Code {
    pub fn name(self) -> &'static str {
        match self {
            Code::Unschedulable => "Unschedulable",
            Code::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        }
    }
}

/// Why a plugin refuses. The text is that of kube-scheduler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    Gates(Vec<Arc<str>>),
    NoClaim(Arc<str>),
    NoWorkload(Arc<str>),
    NoPodGroup { group: Arc<str>, workload: Arc<str> },
    GangIncomplete,
    NoDeviceClass { request: String, class: Arc<str> },
    AffinityTermsConflict,
    OutsidePreFilter(Plugin),
    Unschedulable,
    NodeName,
    Taints,
    NodeAffinity,
    Ports,
    TooManyPods,
    Insufficient(Resource),
    SpreadLabelMissing,
    Spread,
    PodAffinity,
    PodAntiAffinity,
    ExistingAntiAffinity,
    ClaimsUnallocatable,
    ClaimUnavailable,
    InvalidDevices(String),
    AllocatorTimedOut,
    NoVictims,
    PreemptionNotHelpful,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Reason::Gates(gates) => return write!(f, "waiting for scheduling gates: [{}]", gates.join(" ")),
            Reason::NoClaim(key) => return write!(f, "could not find ResourceClaim \"{key}\""),
            Reason::NoWorkload(name) => {
                return write!(f, "waiting for pods's workload \"{name}\" to appear in scheduling queue");
            }
            Reason::NoPodGroup { group, workload } => {
                return write!(f, "pod group \"{group}\" doesn't exist for a workload \"{workload}\"");
            }
            Reason::NoDeviceClass { request, class } => {
                return write!(f, "request {request}: device class {class} does not exist");
            }
            Reason::OutsidePreFilter(plugin) => {
                return write!(f, "node(s) didn't satisfy plugin(s) [{}]", plugin.name());
            }
            Reason::Insufficient(resource) => return write!(f, "Insufficient {}", resource.name()),
            Reason::InvalidDevices(fault) => fault,
            Reason::GangIncomplete => "waiting for minCount pods from a gang to appear in scheduling queue",
            Reason::AffinityTermsConflict => "pod affinity terms conflict",
            Reason::Unschedulable => "node(s) were unschedulable",
            Reason::NodeName => "node(s) didn't match the requested node name",
            Reason::Taints => "node(s) had untolerated taint(s)",
            Reason::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Reason::Ports => "node(s) didn't have free ports for the requested pod ports",
            Reason::TooManyPods => "Too many pods",
            Reason::SpreadLabelMissing => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Reason::Spread => "node(s) didn't match pod topology spread constraints",
            Reason::PodAffinity => "node(s) didn't match pod affinity rules",
            Reason::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Reason::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Reason::ClaimsUnallocatable => "cannot allocate all claims",
            Reason::ClaimUnavailable => "resourceclaim not available on the node",
            Reason::AllocatorTimedOut => "timed out trying to allocate devices",
            Reason::NoVictims => "No preemption victims found for incoming pod",
            Reason::PreemptionNotHelpful => "Preemption is not helpful for scheduling",
        };
        f.write_str(text)
    }
}

/// A refusal by a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    pub plugin: Plugin,
    pub code: Code,
    pub reasons: Vec<Reason>,
}

impl Refusal {
    /// Removing pods could help.
    pub fn for_now(plugin: Plugin, reason: Reason) -> Refusal {
        Refusal { plugin, code: Code::Unschedulable, reasons: vec![reason] }
    }

    /// Removing pods does not help.
    pub fn for_good(plugin: Plugin, reason: Reason) -> Refusal {
        Refusal { plugin, code: Code::UnschedulableAndUnresolvable, reasons: vec![reason] }
    }
}

/// Why a plugin does not let a pod pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    Refused(Refusal),
    /// The plugin itself failed, which ends the attempt.
    Failed {
        plugin: Plugin,
        fault: String,
    },
}

impl From<Refusal> for Objection {
    fn from(refusal: Refusal) -> Objection {
        Objection::Refused(refusal)
    }
}
