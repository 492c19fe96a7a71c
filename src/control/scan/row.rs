//! One row of a replica.

use crate::core::store::ReplicaIndex;
use dryrack_event::Phase;
use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, NodeId};
use dryrack_units::SimTime;

/// A row of the store. Its state is the phase of its replica.
pub struct Row {
    pub id: u64,
    pub replica: ReplicaIndex,
    /// Unique among all rows that were ever created.
    pub serial: u64,
    pub created: SimTime,
    pub updated: SimTime,
    /// Increases with every change of the row.
    pub version: u64,
    pub carried: Option<Carried>,
}

/// The data of an earlier attempt that a row keeps.
#[derive(Clone)]
pub struct Carried {
    pub attempt: AttemptId,
    /// The main node of the placement.
    pub node: NodeId,
    /// The claims of the earlier attempt. If `claims` is set, the resources are still taken.
    pub placement: Placement,
    pub claims: bool,
}

/// A row as a caller may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowView {
    pub id: u64,
    pub attempt: AttemptId,
    pub phase: Phase,
    /// Whether the row has failed and will start again.
    pub failed: bool,
    /// The place of the row, or the place that it carries from an earlier attempt.
    pub placement: Option<Placement>,
}
