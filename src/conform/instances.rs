//! Parts that the kinds `matching` and `regions` share: instances as hosts reported them, the plan of a run, and the
//! node to which each part of the run was assigned.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::kind::Difference;
use dryrack_catalog::{KnownGpus, Vendor, dstack_gpu_memory, dstack_gpu_name};
use dryrack_fleet::{
    Blocks, Fleet, FleetSpec, GpuShape, Instance, MOST_BLOCKS, NodeClaim, NodeShape, NodeSpec, NodeState, Placement,
};
use dryrack_ids::{FleetId, NodeId};
use dryrack_scenario::read_resources;
use dryrack_scheduler::Grouping;
use dryrack_scheduler::offers::{Ask, Assigned, NoOffer, OfferOptions, assign};
use dryrack_units::{Bytes, MilliCpu, Money};
use dryrack_workload::{CreationPolicy, Requirements};

/// The recorded request of a run.
#[derive(Deserialize)]
pub struct RecordedRun {
    pub nodes: u32,
    pub resources: Value,
    pub creation_policy: String,
    #[serde(default)]
    pub fleets: Option<Vec<Arc<str>>>,
}

impl RecordedRun {
    pub fn requirements(&self) -> Result<Requirements, String> {
        if self.creation_policy != "reuse" {
            return Err(format!("a creation policy of `{}`; only `reuse` is recorded", self.creation_policy));
        }
        if self.nodes == 0 || self.nodes > 10_000 {
            return Err(format!("a run of {} nodes", self.nodes));
        }
        let text = self.resources.to_string();
        let mut requirements = read_resources("resources", &text).map_err(|faults| faults.to_string())?;
        requirements.creation = CreationPolicy::Reuse;
        requirements.fleets = self.fleets.clone().unwrap_or_default();
        Ok(requirements)
    }
}

/// A host or an instance, as described in a record.
pub struct RecordedHost {
    pub name: Arc<str>,
    pub fleet: FleetId,
    pub cpus: u64,
    pub memory_mib: u64,
    pub disk_mib: u64,
    pub gpus: u32,
    pub gpu_name: Option<String>,
    pub gpu_memory_mib: u64,
    pub blocks: Blocks,
    /// The number of blocks. The record wrote this number into the database, so the host counts as split this way even
    /// if the split was not possible.
    pub total_blocks: Option<u32>,
    pub backend: Arc<str>,
    pub region: Arc<str>,
    pub price: Option<Money>,
}

/// A limit for the figures of a machine, which no real machine exceeds.
const MOST: u64 = 1 << 32;

impl RecordedHost {
    pub fn shape(&self, known: KnownGpus) -> Result<NodeShape, String> {
        let figures = [self.cpus, self.memory_mib, self.disk_mib, self.gpu_memory_mib];
        if figures.iter().any(|figure| *figure > MOST) || self.gpus > 1024 || self.cpus > 1_000_000 {
            return Err(format!("`{}` is larger than any machine", self.name));
        }
        let gpu_name = dstack_gpu_name(self.gpu_name.as_deref().unwrap_or(""));
        let memory = dstack_gpu_memory(known, &gpu_name, Bytes::from_mib(self.gpu_memory_mib));
        let gpu = GpuShape {
            model: Arc::from(gpu_name),
            vendor: Some(Vendor::Nvidia),
            memory,
            unified: false,
            compute_capability: None,
            architecture: None,
        };
        let shape = NodeShape {
            price_per_hour: self.price,
            ..NodeShape::of(
                MilliCpu::from_cores(self.cpus),
                Bytes::from_mib(self.memory_mib),
                vec![gpu; self.gpus as usize],
            )
        };
        let shape = shape.into_instance(Instance {
            fleet: self.fleet,
            blocks: self.blocks.clone(),
            total_blocks: None,
            disk: Bytes::from_mib(self.disk_mib),
            backend: Arc::clone(&self.backend),
            region: Arc::clone(&self.region),
            spot: false,
            offer: None,
        });
        Ok(match (self.total_blocks, shape.instance.as_deref()) {
            (Some(0), _) => return Err(format!("`{}` is split into no blocks", self.name)),
            (Some(total), _) if total > MOST_BLOCKS => return Err(format!("`{}` has {total} blocks", self.name)),
            (Some(total), Some(instance)) => {
                let instance = Instance { total_blocks: Some(total), ..instance.clone() };
                NodeShape { instance: Some(Arc::new(instance)), ..shape }
            }
            (None, _) | (_, None) => shape,
        })
    }
}

/// Builds the fleets and their instances. `busy` returns how many blocks of an instance are already held.
pub fn build(
    fleets: Vec<FleetSpec>,
    recorded_hosts: &[RecordedHost],
    known: KnownGpus,
    busy: impl Fn(usize, u32) -> u32,
) -> Result<Fleet, String> {
    let mut fleet = Fleet::default();
    for spec in fleets {
        fleet.declare_fleet(Arc::new(spec));
    }
    for (index, instance) in recorded_hosts.iter().enumerate() {
        let shape = Arc::new(instance.shape(known)?);
        let node = fleet.declare(&NodeSpec { name: Arc::clone(&instance.name), shape }, NodeState::Ready);
        let total = fleet.node(node).shape.total_blocks().unwrap_or(0);
        let held = busy(index, total);
        if held > total {
            return Err(format!("`{}` has {held} of {total} blocks busy", instance.name));
        }
        let blocks: Vec<u16> = (0..held as u16).collect();
        if let Some(cut) = fleet.node(node).shape.cut(&blocks).filter(|_| held > 0) {
            let claim = NodeClaim {
                node,
                tasks: 1,
                cpu: cut.cpu,
                ram: cut.ram,
                gpus: cut.gpus,
                blocks: blocks.into(),
                sets: None,
            };
            fleet.take(&Placement::new([claim].into()));
        }
    }
    Ok(fleet)
}

/// The result of assigning each node of a run. Each node is decided separately, after the nodes before it.
pub struct Outcome {
    /// The assigned nodes, by number, in order of assignment.
    pub assigned: Vec<(u32, Assigned)>,
    /// The nodes that were not assigned, by number, each with the reason.
    pub refused: Vec<(u32, NoOffer)>,
}

/// Assigns the first node and, if that succeeds, each of the other nodes.
pub fn assign_all(options: &OfferOptions, requirements: &Requirements, nodes: u32, fleet: &mut Fleet) -> Outcome {
    let mut outcome = Outcome { assigned: Vec::new(), refused: Vec::new() };
    let mut first: Option<(FleetId, NodeId)> = None;
    for number in 0..nodes {
        let (own, master) = first.unzip();
        let ask = Ask { requirements, fields: None, nodes, room_for: nodes, fleet: own, master };
        match assign(options, &ask, fleet, Grouping::Classes) {
            Ok(assigned) => {
                fleet.take(&Placement::new([assigned.claim.clone()].into()));
                first = first.or(Some((assigned.offer.fleet, assigned.offer.node)));
                outcome.assigned.push((number, assigned));
            }
            Err(why) => {
                outcome.refused.push((number, why));
                if first.is_none() {
                    break;
                }
            }
        }
    }
    outcome
}

/// Compares two values in their serialized form. Returns their difference, or `None` if they are equal.
pub fn compare<T: serde::Serialize>(kind: &'static str, recorded: &T, found: &T) -> Option<Difference> {
    let text = |value: &T| serde_json::to_value(value).expect("plain records").to_string();
    let (recorded, found) = (text(recorded), text(found));
    (recorded != found).then(|| Difference { kind, text: format!("recorded: {recorded}; found: {found}") })
}
