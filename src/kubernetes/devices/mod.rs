//! Devices that drivers publish, claims on them, and the allocated devices.

mod allocator;
mod selector;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use allocator::{Allocations, AllocatorError, Claimed};

use crate::cluster::NodeInfo;
use crate::object::{Consumer, Device, DeviceClass, DeviceResult, NodeSelector, ResourceClaim, ResourceSlice};
use selector::Selectors;

/// A device by driver, pool and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    pub driver: Arc<str>,
    pub pool: Arc<str>,
    pub device: Arc<str>,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

impl DeviceId {
    fn of(result: &DeviceResult) -> DeviceId {
        DeviceId {
            driver: Arc::clone(&result.driver),
            pool: Arc::clone(&result.pool),
            device: Arc::clone(&result.device),
        }
    }
}

/// The devices of a cluster.
#[derive(Debug, Default)]
pub struct Devices {
    classes: BTreeMap<Arc<str>, DeviceClass>,
    /// In order of driver and pool.
    pools: Vec<PoolState>,
    /// In order of pool and name.
    slices: Vec<Slice>,
    devices: Vec<Known>,
    by_id: BTreeMap<DeviceId, usize>,
    /// The slices that only one node reaches, by node, and all other slices.
    of_node: BTreeMap<Arc<str>, Vec<usize>>,
    elsewhere: Vec<usize>,
    claims: BTreeMap<Arc<str>, ResourceClaim>,
    /// For each device, whether a claim holds it.
    is_taken: Vec<bool>,
    /// For each device, whether its driver has stopped publishing it.
    is_withdrawn: Vec<bool>,
    selectors: Selectors,
}

#[derive(Debug)]
struct PoolState {
    driver: Arc<str>,
    name: Arc<str>,
    /// Whether all slices of the pool exist.
    is_complete: bool,
    /// Whether all devices have different names.
    is_valid: bool,
}

#[derive(Debug)]
struct Slice {
    pool: usize,
    reach: Reach,
    devices: Range<usize>,
}

/// The nodes that can reach the devices of a slice.
#[derive(Debug)]
enum Reach {
    Node(Arc<str>),
    AllNodes,
    Selected(NodeSelector),
    Nothing,
}

#[derive(Debug)]
struct Known {
    id: DeviceId,
    slice: usize,
    device: Device,
}

impl Devices {
    pub fn new(classes: Vec<DeviceClass>, slices: Vec<ResourceSlice>, claims: Vec<ResourceClaim>) -> Devices {
        let classes = classes.into_iter().map(|class| (Arc::clone(&class.metadata.name), class)).collect();
        let mut known = Devices { classes, ..Devices::default() };
        known.add_slices(slices);
        known.is_taken = vec![false; known.devices.len()];
        known.is_withdrawn = vec![false; known.devices.len()];
        for claim in claims {
            known.add_claim(claim);
        }
        known
    }

    fn add_slices(&mut self, slices: Vec<ResourceSlice>) {
        type OfPool = Vec<ResourceSlice>;
        let mut pools: BTreeMap<(Arc<str>, Arc<str>), OfPool> = BTreeMap::new();
        for slice in slices {
            let key = (Arc::clone(&slice.spec.driver), Arc::clone(&slice.spec.pool.name));
            pools.entry(key).or_default().push(slice);
        }
        for ((driver, name), mut slices) in pools {
            let newest = slices.iter().map(|slice| slice.spec.pool.generation).max().unwrap_or(0);
            slices.retain(|slice| slice.spec.pool.generation == newest);
            slices.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
            let mut names = BTreeSet::new();
            let stated = slices.iter().flat_map(|slice| &slice.spec.devices);
            let is_valid = stated.map(|device| Arc::clone(&device.name)).all(|name| names.insert(name));
            let wanted = slices.first().map_or(0, |slice| slice.spec.pool.resource_slice_count);
            let pool = self.pools.len();
            self.pools.push(PoolState {
                driver,
                name,
                is_complete: usize::try_from(wanted) == Ok(slices.len()),
                is_valid,
            });
            for slice in slices {
                self.add_slice(pool, slice);
            }
        }
    }

    fn add_slice(&mut self, pool: usize, slice: ResourceSlice) {
        let spec = slice.spec;
        let index = self.slices.len();
        let reach = match (spec.node_name, spec.all_nodes, spec.node_selector) {
            (Some(node), ..) => Reach::Node(node),
            (None, true, _) => Reach::AllNodes,
            (None, false, Some(selector)) => Reach::Selected(selector),
            (None, false, None) => Reach::Nothing,
        };
        match &reach {
            Reach::Node(node) => self.of_node.entry(Arc::clone(node)).or_default().push(index),
            Reach::AllNodes | Reach::Selected(_) => self.elsewhere.push(index),
            Reach::Nothing => {}
        }
        let first = self.devices.len();
        for device in spec.devices {
            let id = DeviceId {
                driver: Arc::clone(&self.pools[pool].driver),
                pool: Arc::clone(&self.pools[pool].name),
                device: Arc::clone(&device.name),
            };
            self.by_id.insert(id.clone(), self.devices.len());
            self.devices.push(Known { id, slice: index, device });
        }
        self.slices.push(Slice { pool, reach, devices: first..self.devices.len() });
    }

    pub fn add_claim(&mut self, claim: ResourceClaim) {
        if let Some(allocation) = &claim.status.allocation {
            for result in allocation.devices.results.iter().filter(|result| !result.admin_access) {
                self.mark(&DeviceId::of(result), true);
            }
        }
        self.claims.insert(claim.metadata.key(), claim);
    }

    pub fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(name)
    }

    /// The claim with this key: `namespace/name`.
    pub fn claim(&self, key: &str) -> Option<&ResourceClaim> {
        self.claims.get(key)
    }

    fn mark(&mut self, id: &DeviceId, is_taken: bool) {
        if let Some(index) = self.by_id.get(id) {
            self.is_taken[*index] = is_taken;
        }
    }

    /// Records a binding in a claim: the new allocation, if there is one, and the pod as a consumer.
    pub fn bind(&mut self, key: &str, allocation: Option<crate::object::Allocation>, consumer: Consumer) {
        if let Some(allocation) = &allocation {
            for result in allocation.devices.results.iter().filter(|result| !result.admin_access) {
                self.mark(&DeviceId::of(result), true);
            }
        }
        if let Some(claim) = self.claims.get_mut(key) {
            if allocation.is_some() {
                claim.status.allocation = allocation;
            }
            if !claim.status.reserved_for.contains(&consumer) {
                claim.status.reserved_for.push(consumer);
            }
        }
    }

    /// Publishes a device, or stops publishing it. A claim that holds it keeps it.
    pub fn publish(&mut self, id: &DeviceId, is_published: bool) {
        if let Some(index) = self.by_id.get(id) {
            self.is_withdrawn[*index] = !is_published;
        }
    }

    /// Removes a claim. Its devices are free then.
    pub fn remove_claim(&mut self, key: &str) {
        self.deallocate(key);
        self.claims.remove(key);
    }

    /// Ends the use of a claim by a pod. A claim without users loses its devices, as the claim controller of Kubernetes
    /// takes them away.
    pub fn release(&mut self, key: &str, pod: &str) {
        let Some(claim) = self.claims.get_mut(key) else { return };
        claim.status.reserved_for.retain(|consumer| *consumer.name != *pod);
        if claim.status.reserved_for.is_empty() {
            self.deallocate(key);
        }
    }

    /// Frees the devices of a claim.
    pub fn deallocate(&mut self, key: &str) {
        let Some(claim) = self.claims.get_mut(key) else { return };
        claim.status.reserved_for.clear();
        let freed = claim.status.allocation.take();
        for result in freed.into_iter().flat_map(|allocation| allocation.devices.results) {
            if !result.admin_access {
                self.mark(&DeviceId::of(&result), false);
            }
        }
    }

    /// The slices whose devices a node reaches, in order of pool.
    fn slices_at(&self, node: &NodeInfo) -> Vec<usize> {
        let reaches = |slice: &&usize| match &self.slices[**slice].reach {
            Reach::Node(name) => name == node.name(),
            Reach::AllNodes => true,
            Reach::Selected(selector) => selector.matches(node.name(), node.labels()),
            Reach::Nothing => false,
        };
        let own = self.of_node.get(node.name()).into_iter().flatten();
        let mut slices: Vec<usize> = own.chain(self.elsewhere.iter().filter(reaches)).copied().collect();
        slices.sort_unstable();
        slices
    }
}
