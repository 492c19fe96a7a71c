//! The reasons of kube-scheduler's plugins, as the event log states them.

use dryrack_event::{Histogram, Reason};
use dryrack_kubernetes::cluster::Resource;
use dryrack_kubernetes::cycle::{Decision, Outcome, Reason as Stated, Refusal};

use super::pods::is_gpu;

/// How many nodes were refused for each reason. A node counts once for a reason, though it may lack several extended
/// resources.
pub(super) fn histogram(decision: &Decision, nodes: usize) -> Histogram {
    let mut histogram = Histogram::default();
    if matches!(decision.outcome, Outcome::Failed { .. }) {
        return Histogram::of(Reason::PluginFailed, nodes.max(1) as u32);
    }
    if let Some(refusal) = &decision.pre_filter {
        of_node(refusal).into_iter().for_each(|reason| histogram.add(reason, nodes.max(1) as u32));
        return histogram;
    }
    for (_, refusal) in &decision.rejected {
        of_node(refusal).into_iter().for_each(|reason| histogram.add(reason, 1));
    }
    if decision.only_nodes.is_some() {
        histogram.add(Reason::NodeAffinityMismatch, (nodes - decision.rejected.len()) as u32);
    }
    if histogram.is_empty() {
        histogram.add(Reason::NoNodes, 1);
    }
    histogram
}

/// The different reasons of a refusal, in order.
pub(super) fn of_node(refusal: &Refusal) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::with_capacity(1);
    for reason in refusal.reasons.iter().map(of_refusal) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
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
        Stated::NoVictims | Stated::PreemptionNotHelpful => unreachable!("only preemption says so, and no plugin"),
    }
}

/// How the texts of kube-scheduler's own plugins begin, in all releases since 1.20. The first that suits is meant.
const TEXTS: [(&str, Reason); 22] = [
    ("node(s) were unschedulable", Reason::NodeUnschedulable),
    ("node(s) didn't match the requested", Reason::NodeNameMismatch),
    ("node(s) had taint", Reason::UntoleratedTaint),
    ("node(s) had untolerated taint", Reason::UntoleratedTaint),
    ("node(s) didn't match Pod's node affinity", Reason::NodeAffinityMismatch),
    ("node(s) didn't match scheduler-enforced node affinity", Reason::NodeAffinityMismatch),
    ("node(s) didn't satisfy plugin(s)", Reason::NodeAffinityMismatch),
    ("pod affinity terms conflict", Reason::NodeAffinityMismatch),
    ("node(s) didn't have free ports", Reason::HostPortTaken),
    ("Too many pods", Reason::TooManyPods),
    ("node(s) didn't match pod topology spread constraints (missing", Reason::TopologyLabelMissing),
    ("node(s) didn't match pod topology spread constraints", Reason::TopologySpread),
    ("node(s) didn't match pod affinity rules", Reason::PodAffinityUnmet),
    ("node(s) didn't match pod anti-affinity rules", Reason::PodAntiAffinity),
    ("node(s) didn't satisfy existing pods anti-affinity rules", Reason::ExistingPodAntiAffinity),
    ("cannot allocate all claims", Reason::ClaimsUnallocatable),
    ("timed out trying to allocate devices", Reason::ClaimsUnallocatable),
    ("resourceclaim not available on the node", Reason::ClaimUnavailable),
    ("Insufficient cpu", Reason::InsufficientCpu),
    ("Insufficient memory", Reason::InsufficientRam),
    ("no nodes available to schedule pods", Reason::NoNodes),
    ("waiting for minCount pods from a gang", Reason::GangPodsMissing),
];

/// The reason that kube-scheduler states with this text for one or more nodes. `None` for the text of a plugin that is
/// not its own.
pub fn of_text(text: &str) -> Option<Reason> {
    if let Some((_, reason)) = TEXTS.iter().find(|(start, _)| text.starts_with(start)) {
        return Some(*reason);
    }
    let resource = text.strip_prefix("Insufficient ")?;
    Some(if is_gpu(resource) { Reason::InsufficientGpus } else { Reason::InsufficientResource })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_reason_is_read_as_this_reason() {
        let resources = [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage];
        let named = ["nvidia.com/gpu", "example.com/nic"].map(|name| Resource::Extended(name.into()));
        let insufficient = resources.into_iter().chain(named).map(Stated::Insufficient);
        let others = [
            Stated::Unschedulable,
            Stated::NodeName,
            Stated::Taints,
            Stated::NodeAffinity,
            Stated::AffinityTermsConflict,
            Stated::Ports,
            Stated::TooManyPods,
            Stated::SpreadLabelMissing,
            Stated::Spread,
            Stated::PodAffinity,
            Stated::PodAntiAffinity,
            Stated::ExistingAntiAffinity,
            Stated::ClaimsUnallocatable,
            Stated::ClaimUnavailable,
            Stated::AllocatorTimedOut,
            Stated::GangIncomplete,
        ];
        for stated in insufficient.chain(others) {
            assert_eq!(of_text(&stated.to_string()), Some(of_refusal(&stated)), "{stated}");
        }
    }

    /// From kube-scheduler 1.20.2.
    #[test]
    fn texts_of_earlier_releases_are_read() {
        for (text, reason) in [
            ("node(s) had taint {nvidia.com/gpu: present}, that the pod didn't tolerate", Reason::UntoleratedTaint),
            ("node(s) didn't match Pod's node affinity", Reason::NodeAffinityMismatch),
            ("node(s) didn't match the requested hostname", Reason::NodeNameMismatch),
        ] {
            assert_eq!(of_text(text), Some(reason), "{text}");
        }
        assert_eq!(of_text("node(s) had too little luck"), None);
    }
}
