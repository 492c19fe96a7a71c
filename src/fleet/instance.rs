//! Fleets of instances: what a fleet is, and what makes a node an instance of one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::blocks::Blocks;
use super::cloud::Cloud;
use super::node::NodeShape;
use dryrack_ids::FleetId;
use dryrack_units::Bytes;

/// A named group of instances, as it is declared. Fleets are ordered by their declaration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSpec {
    pub name: Arc<str>,
    pub kind: FleetKind,
    pub placement: FleetPlacement,
    /// How its instances are split where they do not say so themselves.
    pub blocks: Blocks,
    /// How many instances a cloud fleet has; machines reached by SSH are as many as are listed.
    pub nodes: Option<FleetNodes>,
    /// Where its instances are made when they are wanted.
    pub cloud: Option<Cloud>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetKind {
    /// Machines that are there and are reached by SSH.
    Ssh,
    /// Machines that a cloud provides.
    Cloud,
}

/// Whether its instances are near each other.
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
    /// Without limit if absent.
    pub max: Option<u32>,
}

/// What makes a node an instance of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    pub fleet: FleetId,
    pub blocks: Blocks,
    /// What it was split into; `None`: it could not be, and is never used.
    pub total_blocks: Option<u32>,
    /// Zero where it is not known; then it is not compared.
    pub disk: Bytes,
    /// Who provides it: `remote` for machines reached by SSH.
    pub backend: Arc<str>,
    pub region: Arc<str>,
    pub spot: bool,
    /// Of which of its fleet's offers it is made, where it is made when it is wanted.
    pub offer: Option<u32>,
}

impl NodeShape {
    /// Makes the machine an instance: split, if it can be.
    pub fn into_instance(mut self, instance: Instance) -> NodeShape {
        let cpus = self.cpu_capacity().get() / 1000;
        let total_blocks = instance.blocks.split(cpus, self.gpus.len() as u32);
        self.instance = Some(Arc::new(Instance { total_blocks, ..instance }));
        self
    }
}
