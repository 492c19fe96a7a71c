//! Names as small numbers: flavors, resources, and pairs of both.

use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlavorId(pub(crate) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub(crate) u32);

impl FlavorId {
    /// The number of the flavor, in the order in which names were seen.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A resource of a flavor. Quota and usage are counted for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlavorResource(pub(crate) u32);

/// Every name that was seen.
#[derive(Debug, Default)]
pub struct Names {
    flavors: Interned,
    resources: Interned,
    pairs: Vec<(FlavorId, ResourceId)>,
    pair_of: BTreeMap<(FlavorId, ResourceId), FlavorResource>,
}

#[derive(Debug, Default)]
struct Interned {
    names: Vec<Arc<str>>,
    by_name: BTreeMap<Arc<str>, u32>,
}

impl Interned {
    fn add(&mut self, name: &str) -> u32 {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let (id, name): (u32, Arc<str>) = (self.names.len() as u32, Arc::from(name));
        self.names.push(Arc::clone(&name));
        self.by_name.insert(name, id);
        id
    }
}

impl Names {
    pub(crate) fn add_flavor(&mut self, name: &str) -> FlavorId {
        FlavorId(self.flavors.add(name))
    }

    pub(crate) fn add_resource(&mut self, name: &str) -> ResourceId {
        ResourceId(self.resources.add(name))
    }

    pub(crate) fn add_pair(&mut self, flavor: FlavorId, resource: ResourceId) -> FlavorResource {
        let next = FlavorResource(self.pairs.len() as u32);
        let pair = *self.pair_of.entry((flavor, resource)).or_insert(next);
        if pair == next {
            self.pairs.push((flavor, resource));
        }
        pair
    }

    pub fn flavor(&self, id: FlavorId) -> &Arc<str> {
        &self.flavors.names[id.0 as usize]
    }

    pub fn resource(&self, id: ResourceId) -> &Arc<str> {
        &self.resources.names[id.0 as usize]
    }

    /// The flavor and the resource of a pair.
    pub fn parts(&self, pair: FlavorResource) -> (FlavorId, ResourceId) {
        self.pairs[pair.0 as usize]
    }

    /// The pair, if a quota or a request named it.
    pub(crate) fn pair(&self, flavor: FlavorId, resource: ResourceId) -> Option<FlavorResource> {
        self.pair_of.get(&(flavor, resource)).copied()
    }
}
