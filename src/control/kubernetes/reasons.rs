//! The reasons of kube-scheduler's plugins, as the event log states them.

use dryrack_event::{Histogram, Reason};
use dryrack_kubernetes::cluster::Resource;
use dryrack_kubernetes::cycle::{Decision, Reason as Stated};

use super::pods::is_gpu;

/// How many nodes were refused for each reason. A node that lacks several resources counts for each of them.
pub(super) fn histogram(decision: &Decision, nodes: usize) -> Histogram {
    let mut histogram = Histogram::default();
    if let Some(refusal) = &decision.pre_filter {
        refusal.reasons.iter().for_each(|reason| histogram.add(of_refusal(reason), nodes.max(1) as u32));
        return histogram;
    }
    for (_, refusal) in &decision.rejected {
        refusal.reasons.iter().for_each(|reason| histogram.add(of_refusal(reason), 1));
    }
    if decision.only_nodes.is_some() {
        histogram.add(Reason::NodeAffinityMismatch, (nodes - decision.rejected.len()) as u32);
    }
    if histogram.is_empty() {
        histogram.add(Reason::NoNodes, 1);
    }
    histogram
}

pub(super) fn of_refusal(reason: &Stated) -> Reason {
    match reason {
        Stated::Gates(_) => Reason::SchedulingGated,
        Stated::NoClaim(_) => Reason::ResourceClaimMissing,
        Stated::NoWorkload(_) | Stated::NoPodGroup { .. } => Reason::PodGroupMissing,
        Stated::GangIncomplete => Reason::GangPodsMissing,
        Stated::NoDeviceClass { .. } => Reason::DeviceClassMissing,
        Stated::AffinityTermsConflict => Reason::NodeAffinityMismatch,
        Stated::OutsidePreFilter(_) => Reason::NodeAffinityMismatch,
        Stated::Unschedulable => Reason::NodeUnschedulable,
        Stated::NodeName => Reason::NodeNameMismatch,
        Stated::Taints => Reason::UntoleratedTaint,
        Stated::NodeAffinity => Reason::NodeAffinityMismatch,
        Stated::Ports => Reason::HostPortTaken,
        Stated::TooManyPods => Reason::TooManyPods,
        Stated::Insufficient(Resource::Cpu) => Reason::InsufficientCpu,
        Stated::Insufficient(Resource::Memory) => Reason::InsufficientRam,
        Stated::Insufficient(Resource::Extended(name)) if is_gpu(name) => Reason::InsufficientGpus,
        Stated::Insufficient(Resource::EphemeralStorage | Resource::Extended(_)) => Reason::InsufficientResource,
        Stated::SpreadLabelMissing => Reason::TopologyLabelMissing,
        Stated::Spread => Reason::TopologySpread,
        Stated::PodAffinity => Reason::PodAffinityUnmet,
        Stated::PodAntiAffinity => Reason::PodAntiAffinity,
        Stated::ExistingAntiAffinity => Reason::ExistingPodAntiAffinity,
        Stated::ClaimsUnallocatable | Stated::InvalidDevices(_) | Stated::AllocatorTimedOut => {
            Reason::ClaimsUnallocatable
        }
        Stated::ClaimUnavailable => Reason::ClaimUnavailable,
        Stated::NoVictims | Stated::PreemptionNotHelpful => Reason::PreemptionNotHelpful,
    }
}
