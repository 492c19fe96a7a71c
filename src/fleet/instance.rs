//! Fleets of instances, and the properties that make a node an instance of a fleet.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::blocks::Blocks;
use dryrack_ids::FleetId;
use dryrack_units::{Bytes, SimDuration};

/// A named group of instances, as declared. Fleets are numbered in order of declaration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSpec {
    pub name: Arc<str>,
    pub kind: FleetKind,
    pub placement: FleetPlacement,
    /// How instances are split into blocks. An instance may override it.
    pub blocks: Blocks,
    /// The number of instances of a cloud fleet. For machines reached by SSH, `None`, because the machines are listed.
    pub nodes: Option<FleetNodes>,
    /// Set if the fleet creates its instances on demand.
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

/// Whether the instances of a fleet are close to each other.
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
    /// The largest number of instances. `None` if there is no limit.
    pub max: Option<u32>,
}

/// The properties that make a node an instance of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    pub fleet: FleetId,
    pub blocks: Blocks,
    /// The number of blocks of this instance. `None` if it could not be split as configured. Such an instance is never
    /// used.
    pub total_blocks: Option<u32>,
    /// The disk size. Zero if unknown, and then not compared with requirements.
    pub disk: Bytes,
    /// The provider. `remote` for machines reached by SSH.
    pub backend: Arc<str>,
    pub region: Arc<str>,
    pub spot: bool,
    /// The index of the offer from which an on-demand instance is created. `None` for other instances.
    pub offer: Option<u32>,
}

/// How a cloud fleet creates and terminates instances.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cloud {
    /// The capacity of each offer, in order of the offers: how many instances of it can exist at the same time.
    pub capacity: Vec<u32>,
    /// An instance is terminated after it has been idle for this long, if the fleet has more instances than its
    /// minimum.
    pub idle_duration: IdleDuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleDuration {
    /// 5 minutes for an instance that was created for a run, 72 hours for one that was created for the fleet.
    ///
    /// Source: dstack 0.22.5, default idle durations of runs and of fleets.
    Usual,
    After(SimDuration),
    Off,
}
