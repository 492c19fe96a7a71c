//! Fleets of instances: the fleet itself, and what makes a node an instance of one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::blocks::Blocks;
use super::cloud::Cloud;
use super::node::NodeShape;
use dryrack_ids::FleetId;
use dryrack_units::Bytes;

/// A named group of instances, as declared. Fleets are ordered by declaration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSpec {
    pub name: Arc<str>,
    pub kind: FleetKind,
    pub placement: FleetPlacement,
    /// How its instances are split, unless they say so themselves.
    pub blocks: Blocks,
    /// How many instances a cloud fleet has. For machines reached by SSH, the listed machines are counted.
    pub nodes: Option<FleetNodes>,
    /// Set if its instances are made on demand.
    pub cloud: Option<Cloud>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetKind {
    /// Existing machines that are reached by SSH.
    Ssh,
    /// Machines that a cloud provides.
    Cloud,
}

/// Whether its instances are close to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetPlacement {
    #[default]
    Any,
    Cluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetNodes {
    pub min: u32,
    pub target: u32,
    /// No limit if absent.
    pub max: Option<u32>,
}

/// What makes a node an instance of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    pub fleet: FleetId,
    pub blocks: Blocks,
    /// The number of blocks it was split into; `None`: it could not be split, and is never used.
    pub total_blocks: Option<u32>,
    /// Zero if unknown; then it is not compared.
    pub disk: Bytes,
    /// The provider: `remote` for machines reached by SSH.
    pub backend: Arc<str>,
    pub region: Arc<str>,
    pub spot: bool,
    /// The offer of its fleet that it is made from, if it is made on demand.
    pub offer: Option<u32>,
}

impl NodeShape {
    /// Turns the machine into an instance, split if possible.
    pub fn into_instance(mut self, instance: Instance) -> NodeShape {
        let cpus = self.cpu_capacity().get() / 1000;
        let total_blocks = instance.blocks.split(cpus, self.gpus.len() as u32);
        self.instance = Some(Arc::new(Instance { total_blocks, ..instance }));
        self
    }
}
