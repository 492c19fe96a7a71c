//! What one node of a job asks for.

use crate::PlacementContext;
use dryrack_ids::{FleetId, NodeId};
use dryrack_workload::{Demand, JobFields, Requirements};

/// The request of one node of a job, and what is known about the places of the other nodes.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub requirements: &'a Requirements,
    /// The fields of the job that filters read.
    pub fields: Option<&'a JobFields>,
    /// The number of nodes of the whole job.
    pub nodes: u32,
    /// The number of nodes for which a fleet must have room. For a service, this is one node for each of its minimum
    /// replicas; for other jobs, all nodes of the job.
    pub room_for: u32,
    /// The fleet of the job, if it already has one.
    pub fleet: Option<FleetId>,
    /// The place of the job's first node, if it is already placed. Later nodes may have to be near it.
    pub master: Option<NodeId>,
}

impl<'a> Ask<'a> {
    /// The request for all nodes of one replica together.
    pub fn of_whole(demand: &'a Demand, context: PlacementContext) -> Ask<'a> {
        let requirements = demand.requirements().expect("offers are for a demand with requirements");
        let room_for = if demand.tasks == 1 { context.least } else { demand.tasks };
        let fields = demand.fields.as_deref();
        Ask { requirements, fields, nodes: demand.tasks, room_for, fleet: context.fleet, master: None }
    }
}
