//! Amounts of resources, and what a pod requests.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::object::{Container, Pod, ResourceList};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const PODS: &str = "pods";
/// Requests that scoring assumes for a container without its own: 100 m and 200 MiB
/// (`pkg/scheduler/util/pod_resources.go` of Kubernetes 1.35).
const DEFAULT_MILLI_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 << 20;

/// A resource by name. The order is the order in which shortages are listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    Cpu,
    Memory,
    EphemeralStorage,
    /// Any other resource, such as `nvidia.com/gpu`.
    Extended(Arc<str>),
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Resource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Resource, D::Error> {
        String::deserialize(deserializer).map(|name| Resource::of(&Arc::from(name)))
    }
}

impl JsonSchema for Resource {
    fn schema_name() -> Cow<'static, str> {
        "Resource".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl Resource {
    pub fn of(name: &Arc<str>) -> Resource {
        match &**name {
            CPU => Resource::Cpu,
            MEMORY => Resource::Memory,
            EPHEMERAL_STORAGE => Resource::EphemeralStorage,
            _ => Resource::Extended(Arc::clone(name)),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Resource::Cpu => CPU,
            Resource::Memory => MEMORY,
            Resource::EphemeralStorage => EPHEMERAL_STORAGE,
            Resource::Extended(name) => name,
        }
    }
}

/// Amounts of resources: CPU in thousandths of a core, all others in whole units, rounded up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// Sorted by name.
    extended: Vec<(Arc<str>, i64)>,
}

impl Amounts {
    /// The amounts of a list, without the number of pods.
    pub fn of(list: &ResourceList) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, quantity) in list.iter().filter(|(name, _)| &***name != PODS) {
            let resource = Resource::of(name);
            let amount = match resource {
                Resource::Cpu => quantity.milli_value(),
                _ => quantity.value(),
            };
            *amounts.entry(&resource) = amount;
        }
        amounts
    }

    pub fn get(&self, resource: &Resource) -> i64 {
        match resource {
            Resource::Cpu => self.milli_cpu,
            Resource::Memory => self.memory,
            Resource::EphemeralStorage => self.ephemeral_storage,
            Resource::Extended(name) => self.extended(name),
        }
    }

    pub fn extended(&self, name: &str) -> i64 {
        let found = self.extended.binary_search_by(|(known, _)| (**known).cmp(name));
        found.map_or(0, |index| self.extended[index].1)
    }

    /// The extended resources that are stated, even with an amount of zero.
    pub fn all_extended(&self) -> impl Iterator<Item = (&Arc<str>, i64)> {
        self.extended.iter().map(|(name, amount)| (name, *amount))
    }

    fn entry(&mut self, resource: &Resource) -> &mut i64 {
        match resource {
            Resource::Cpu => &mut self.milli_cpu,
            Resource::Memory => &mut self.memory,
            Resource::EphemeralStorage => &mut self.ephemeral_storage,
            Resource::Extended(name) => {
                let found = self.extended.binary_search_by(|(known, _)| known.cmp(name));
                let index = found.unwrap_or_else(|index| {
                    self.extended.insert(index, (Arc::clone(name), 0));
                    index
                });
                &mut self.extended[index].1
            }
        }
    }

    pub fn set(&mut self, resource: &Resource, amount: i64) {
        *self.entry(resource) = amount;
    }

    /// Adds the amounts. The sums are limited to 64 bits.
    pub fn add(&mut self, other: &Amounts) {
        self.combine(other, i64::saturating_add);
    }

    pub fn subtract(&mut self, other: &Amounts) {
        self.combine(other, i64::saturating_sub);
    }

    /// The larger amount of each resource.
    fn raise_to(&mut self, other: &Amounts) {
        self.combine(other, Ord::max);
    }

    fn combine(&mut self, other: &Amounts, by: fn(i64, i64) -> i64) {
        self.milli_cpu = by(self.milli_cpu, other.milli_cpu);
        self.memory = by(self.memory, other.memory);
        self.ephemeral_storage = by(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.extended {
            let entry = self.entry(&Resource::Extended(Arc::clone(name)));
            *entry = by(*entry, *amount);
        }
    }

    /// Whether no resource is requested. An extended resource counts even with an amount of zero.
    pub fn is_empty(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.extended.is_empty()
    }
}

/// The number of pods in a list of resources.
pub fn pods_of(list: &ResourceList) -> i64 {
    list.get(PODS).map_or(0, |pods| pods.value())
}

/// What a pod requests, in the three ways in which the scheduler counts it.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// The requests themselves: filters and balance.
    pub exact: Amounts,
    /// With the defaults for containers that request no CPU or memory: the score of pods on a node.
    pub with_defaults: Amounts,
    /// Like `with_defaults`, but without requests of the pod as a whole: the score of the incoming pod.
    pub of_containers: Amounts,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Nothing,
    Defaults,
}

impl Requests {
    pub fn of(pod: &Pod) -> Requests {
        let overhead = Amounts::of(&pod.spec.overhead);
        let sum = |missing| {
            let mut sum = of_containers(pod, missing);
            replace_by_pod(&mut sum, pod);
            sum.add(&overhead);
            sum
        };
        let mut containers = of_containers(pod, Missing::Defaults);
        containers.add(&overhead);
        Requests { exact: sum(Missing::Nothing), with_defaults: sum(Missing::Defaults), of_containers: containers }
    }
}

/// Containers run at the same time. Init containers run before them, one after the other. A sidecar runs together with
/// all containers after it.
fn of_containers(pod: &Pod, missing: Missing) -> Amounts {
    let mut running = Amounts::default();
    for container in &pod.spec.containers {
        running.add(&of_container(container, missing));
    }
    let mut sidecars = Amounts::default();
    let mut most_at_start = Amounts::default();
    for container in &pod.spec.init_containers {
        let own = of_container(container, missing);
        let mut at_once = sidecars.clone();
        at_once.add(&own);
        if container.is_sidecar() {
            running.add(&own);
            sidecars = at_once.clone();
        }
        most_at_start.raise_to(&at_once);
    }
    running.raise_to(&most_at_start);
    running
}

fn of_container(container: &Container, missing: Missing) -> Amounts {
    let requests = &container.resources.requests;
    let mut amounts = Amounts::of(requests);
    if missing == Missing::Defaults {
        if !requests.contains_key(CPU) {
            amounts.milli_cpu = DEFAULT_MILLI_CPU;
        }
        if !requests.contains_key(MEMORY) {
            amounts.memory = DEFAULT_MEMORY;
        }
    }
    amounts
}

/// CPU, memory and huge pages that are requested for the pod as a whole replace the sum of the containers.
fn replace_by_pod(sum: &mut Amounts, pod: &Pod) {
    let requests = &pod.spec.resources.requests;
    let of_pod = Amounts::of(requests);
    for name in requests.keys() {
        let resource = Resource::of(name);
        let replaces = match &resource {
            Resource::Cpu | Resource::Memory => true,
            Resource::Extended(name) => name.starts_with("hugepages-"),
            Resource::EphemeralStorage => false,
        };
        if replaces {
            sum.set(&resource, of_pod.get(&resource));
        }
    }
}
