//! `DynamicResources`: the device claims of a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::normalize;
use crate::cluster::{NodeInfo, PodInfo};
use crate::cycle::{Objection, Plugin, Reason, Refusal};
use crate::devices::{Allocations, AllocatorError, Devices};
use crate::object::{NodeSelector, ResourceClaim};

/// The claims of the pod.
#[derive(Debug, Default)]
pub struct ClaimState {
    /// Claims that have devices, with the nodes that reach them.
    allocated: Vec<(Arc<str>, Option<NodeSelector>)>,
    to_allocate: Vec<Arc<str>>,
    /// The devices that were found on each node.
    pub found: BTreeMap<Arc<str>, Allocations>,
    /// Allocated claims that some node does not reach.
    unavailable: BTreeSet<Arc<str>>,
}

/// The keys of the pod's claims.
pub fn claim_keys(pod: &PodInfo) -> impl Iterator<Item = Arc<str>> {
    let named = pod.pod.spec.resource_claims.iter().filter_map(|claim| claim.resource_claim_name.as_ref());
    named.map(|name| Arc::from(format!("{}/{name}", pod.namespace)))
}

pub fn pre_enqueue(pod: &PodInfo, devices: &Devices) -> Result<(), Refusal> {
    match claim_keys(pod).find(|key| devices.claim(key).is_none()) {
        None => Ok(()),
        Some(missing) => Err(Refusal::for_good(Plugin::DynamicResources, Reason::NoClaim(missing))),
    }
}

/// `None` for a pod without claims.
pub fn pre_filter(pod: &PodInfo, devices: &Devices) -> Result<Option<ClaimState>, Refusal> {
    pre_enqueue(pod, devices)?;
    let mut state = ClaimState::default();
    for key in claim_keys(pod) {
        let Some(claim) = devices.claim(&key) else { continue };
        match &claim.status.allocation {
            Some(allocation) => state.allocated.push((key, allocation.node_selector.clone())),
            None => {
                check_classes(claim, devices)?;
                state.to_allocate.push(key);
            }
        }
    }
    let has_claims = !state.allocated.is_empty() || !state.to_allocate.is_empty();
    Ok(has_claims.then_some(state))
}

fn check_classes(claim: &ResourceClaim, devices: &Devices) -> Result<(), Refusal> {
    for request in &claim.spec.devices.requests {
        for stated in request.exactly.iter().chain(&request.first_available) {
            let class = &stated.device_class_name;
            if !devices.has_class(class) {
                let request = match &stated.name {
                    Some(alternative) => format!("{}/{alternative}", request.name),
                    None => request.name.to_string(),
                };
                let reason = Reason::NoDeviceClass { request, class: Arc::clone(class) };
                return Err(Refusal::for_good(Plugin::DynamicResources, reason));
            }
        }
    }
    Ok(())
}

impl ClaimState {
    pub fn filter(&mut self, devices: &mut Devices, node: &NodeInfo) -> Result<(), Objection> {
        let reaches = |selector: &NodeSelector| selector.matches(node.name(), node.labels());
        let out_of_reach = self.allocated.iter().filter(|(_, nodes)| !nodes.as_ref().is_none_or(reaches));
        let unavailable: Vec<Arc<str>> = out_of_reach.map(|(key, _)| Arc::clone(key)).collect();
        let refuse = |reason| Err(Refusal::for_good(Plugin::DynamicResources, reason).into());
        let mut found = Allocations::default();
        if !self.to_allocate.is_empty() {
            found = match devices.allocate(node, &self.to_allocate) {
                Ok(Some(found)) => found,
                Ok(None) => return refuse(Reason::ClaimsUnallocatable),
                Err(AllocatorError::TimedOut) => return refuse(Reason::AllocatorTimedOut),
                Err(AllocatorError::Node(fault)) => return refuse(Reason::InvalidDevices(fault)),
                Err(AllocatorError::Claim(fault)) => {
                    return Err(Objection::Failed { plugin: Plugin::DynamicResources, fault });
                }
            };
        }
        if !unavailable.is_empty() {
            self.unavailable.extend(unavailable);
            return refuse(Reason::ClaimUnavailable);
        }
        self.found.insert(Arc::clone(node.name()), found);
        Ok(())
    }

    /// A claim that some node does not reach and that no other pod uses. Without its devices, the pod might fit.
    pub fn to_deallocate(&self, pod: &PodInfo, devices: &Devices) -> Option<Arc<str>> {
        let is_free = |key: &&Arc<str>| {
            let consumers = devices.claim(key).map_or(&[][..], |claim| &claim.status.reserved_for);
            consumers.iter().all(|consumer| consumer.uid == pod.pod.metadata.uid) && consumers.len() <= 1
        };
        self.unavailable.iter().find(is_free).cloned()
    }
}

/// Prefers nodes on which earlier alternatives of the requests are available.
///
/// # Errors
/// If some claims of the pod have devices already and others get theirs now. 1.35.0 to 1.35.5 fail then, and the pod
/// stays pending (<https://github.com/kubernetes/kubernetes/issues/139016>).
pub fn score(state: Option<&ClaimState>, names: impl Iterator<Item = Arc<str>>) -> Result<Vec<i64>, String> {
    if let Some(state) = state
        && !state.allocated.is_empty()
        && !state.to_allocate.is_empty()
    {
        return Err(format!("number of allocations {} is smaller than number of claims", state.to_allocate.len()));
    }
    let score = |name: Arc<str>| state.and_then(|state| state.found.get(&name)).map_or(0, |found| found.score);
    let mut scores: Vec<i64> = names.map(score).collect();
    normalize(&mut scores);
    Ok(scores)
}
