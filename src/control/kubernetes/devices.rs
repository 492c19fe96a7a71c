//! The devices that pods claim: as parts of the GPUs of a node in the ledger, and as what drivers publish.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Kubernetes;
use crate::core::Core;
use dryrack_fleet::DeviceName;
use dryrack_ids::NodeId;
use dryrack_kubernetes::cluster::PodInfo;
use dryrack_kubernetes::devices::{Allocations, DeviceId};
use dryrack_kubernetes::object::{ClaimStatus, DeviceResult, ObjectMeta, ResourceClaim};
use dryrack_kubernetes::plugins::dynamic_resources::claim_keys;

impl Kubernetes {
    /// The devices of a pod's claims: those that were `found` now, and those that its claims have already. Devices with
    /// admin access are not held.
    pub(super) fn devices_of(&self, pod: &PodInfo, found: Option<&Allocations>) -> Vec<DeviceName> {
        if pod.pod.spec.resource_claims.is_empty() {
            return Vec::new();
        }
        let mut held: BTreeSet<DeviceName> = BTreeSet::new();
        for key in claim_keys(pod) {
            let new = found.and_then(|found| found.claims.iter().find(|claimed| claimed.key == key));
            let known = || self.cluster.devices.claim(&key)?.status.allocation.as_ref();
            let Some(allocation) = new.map(|claimed| &claimed.allocation).or_else(known) else { continue };
            let results = allocation.devices.results.iter().filter(|result| !result.admin_access);
            held.extend(results.map(name_of));
        }
        held.into_iter().collect()
    }

    /// Makes the claims of a new pod from their templates. Those of the first pod of each job exist from the beginning.
    pub(super) fn make_claims(&mut self, pod: &PodInfo) {
        for (key, name, template) in made_claims(pod) {
            let of_template = (Arc::clone(&pod.namespace), template);
            match self.cluster.devices.claim(&key) {
                Some(known) => {
                    self.claim_templates.entry(of_template).or_insert_with(|| known.spec.clone());
                }
                None => {
                    let Some(spec) = self.claim_templates.get(&of_template).cloned() else { continue };
                    let namespace = Arc::clone(&pod.namespace);
                    let metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
                    self.cluster.devices.add_claim(ResourceClaim { metadata, spec, status: ClaimStatus::default() });
                }
            }
        }
    }

    /// Deletes the claims that were made for a pod.
    pub(super) fn delete_claims(&mut self, pod: &PodInfo) {
        made_claims(pod).for_each(|(key, ..)| self.cluster.devices.remove_claim(&key));
    }

    /// Takes back the devices of GPUs that do not work, as a driver no longer publishes them, and publishes those that
    /// work again. Returns whether anything changed.
    pub(super) fn follow_devices(&mut self, core: &Core, id: NodeId) -> bool {
        let node = core.fleet.node(id);
        if node.shape.devices.is_empty() {
            return false;
        }
        let now = super::pods::withdrawn_gpus(node);
        let before = std::mem::replace(&mut self.nodes[id.index()].withdrawn, now);
        let now = &self.nodes[id.index()].withdrawn;
        if before == *now {
            return false;
        }
        for device in &node.shape.devices {
            let name = &device.name;
            let id = DeviceId { driver: name.driver.clone(), pool: name.pool.clone(), device: name.device.clone() };
            self.cluster.devices.publish(&id, !now.contains(&device.gpu));
        }
        true
    }

    /// Asserts that the ledger counts each pod once on each GPU of which its claims have a device. A pod that states its node
    /// holds only the devices that its claims had when it was bound.
    pub(super) fn check_devices(&self, core: &Core) {
        for (_, node) in core.fleet.iter().filter(|(_, node)| !node.shape.devices.is_empty()) {
            let Some(index) = self.cluster.find(&node.name) else { continue };
            let bound = self.cluster.node(index).pods.iter().filter(|placed| !self.permits.is_of(&placed.pod.key));
            let (mut least, mut most) = (vec![0; node.shape.gpus.len()], vec![0; node.shape.gpus.len()]);
            for placed in bound {
                let is_decided = placed.pod.pod.spec.node_name.is_none();
                for part in node.shape.parts_of(&self.devices_of(&placed.pod, None)) {
                    least[usize::from(part.index)] += u32::from(is_decided);
                    most[usize::from(part.index)] += 1;
                }
            }
            for index in node.shape.gpus_without_devices()..node.shape.gpus.len() {
                let held = node.status.gpus[index].holders;
                let (least, most) = (least[index], most[index]);
                assert!(
                    (least..=most).contains(&held),
                    "{held} hold GPU {index} of {}, {least} to {most} claim it",
                    node.name
                );
            }
        }
    }
}

/// The claims that are made for this pod alone: their keys (`namespace/name`), names and templates.
fn made_claims(pod: &PodInfo) -> impl Iterator<Item = (Arc<str>, Arc<str>, Arc<str>)> {
    pod.pod.spec.resource_claims.iter().filter_map(|claim| {
        let template = Arc::clone(claim.resource_claim_template_name.as_ref()?);
        let name = Arc::clone(claim.resource_claim_name.as_ref()?);
        Some((Arc::from(format!("{}/{name}", pod.namespace)), name, template))
    })
}

fn name_of(result: &DeviceResult) -> DeviceName {
    DeviceName { driver: result.driver.clone(), pool: result.pool.clone(), device: result.device.clone() }
}
