//! A rehearsal: the complete input of a simulated run.

use std::sync::Arc;

use super::branch::Branch;
use super::clouds::CloudModels;
use dryrack_control::Profile;
use dryrack_event::Input;
use dryrack_fleet::{FleetSpec, Foreign, GpuState, NodeSpec, NodeState};
use dryrack_ids::{FleetId, GpuId, JobId, NodeId};
use dryrack_units::{Bytes, SimTime};
use dryrack_workload::Arrival;

/// The input of a run. Ids are indexes in these lists: the n-th node, the n-th arrival.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    pub title: String,
    /// The text of the scenario file with overrides applied; it is also written to the log.
    pub source: String,
    pub seed: u64,
    pub profile: Arc<Profile>,
    /// Fleets of instances, in order of declaration.
    pub fleets: Vec<Arc<FleetSpec>>,
    pub clouds: CloudModels,
    pub nodes: Vec<InitialNode>,
    /// Arrivals in order of time; on a tie, in the order of the file.
    pub arrivals: Vec<Arrival>,
    pub cancellations: Vec<(SimTime, JobId)>,
    /// Changes of the number of replicas that a job shall have.
    pub scalings: Vec<(SimTime, JobId, u32)>,
    pub faults: Vec<(SimTime, Fault)>,
    /// Jobs to be evaluated without being placed, by their index in `arrivals`, whether or not they have arrived by
    /// then.
    pub evaluations: Vec<(SimTime, JobId)>,
    /// The run stops before the first instant after this; if `None`, when nothing is left to happen.
    pub until: Option<SimTime>,
    /// The changes in the middle of the run, if it branches off another.
    pub branch: Option<Branch>,
    /// Metrics ignore everything before this time, and jobs submitted before it.
    pub warm_up: Option<SimTime>,
}

impl Rehearsal {
    /// The inputs that the control plane gets before anything happens.
    pub fn declarations(&self) -> Vec<Input> {
        let mut inputs = Vec::with_capacity(self.nodes.len());
        for (index, spec) in self.fleets.iter().enumerate() {
            inputs.push(Input::FleetDeclared { fleet: FleetId::new(index), spec: Arc::clone(spec) });
        }
        let later = self.branch.as_ref().map_or(self.nodes.len(), |branch| branch.joining.index());
        (0..later).for_each(|index| self.declare(NodeId::new(index), &mut inputs));
        inputs
    }

    /// Adds the inputs that declare a node.
    pub fn declare(&self, node: NodeId, inputs: &mut Vec<Input>) {
        let initial = &self.nodes[node.index()];
        inputs.push(Input::NodeDeclared { node, state: initial.state, spec: initial.spec.clone() });
        for (index, state, foreign) in &initial.gpus {
            let gpu = GpuId { node, index: *index };
            if *state != GpuState::Ready {
                inputs.push(Input::GpuReported { gpu, state: *state });
            }
            if !foreign.is_none() {
                inputs.push(Input::ForeignUse { gpu, foreign: *foreign });
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct InitialNode {
    pub spec: NodeSpec,
    pub state: NodeState,
    /// GPUs that do not start as ready and free of foreign use.
    pub gpus: Vec<(u16, GpuState, Foreign)>,
    pub files: ModelFiles,
}

/// The models that a node has, and how fast it downloads more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFiles {
    /// The full names of the models whose weights are on the node.
    pub cached: Vec<Arc<str>>,
    /// Bytes per second; `None` means that a download takes no time.
    pub bandwidth: Option<Bytes>,
}

/// A fault, or a recovery from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Node {
        node: NodeId,
        becomes: NodeTurn,
    },
    Gpu {
        gpu: GpuId,
        becomes: GpuState,
    },
    /// Foreign use of a GPU begins or ends.
    Foreign {
        gpu: GpuId,
        foreign: Foreign,
    },
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeTurn {
    /// It works and reports so: the end of every other turn.
    Ready,
    /// It reports itself as not ready; runs on it continue.
    NotReady,
    /// An operator takes it out of service; runs on it continue.
    Maintenance,
    /// Its heartbeats and the commands to it no longer arrive; runs on it continue.
    Silent,
    /// It stops without notice: it is silent, and the runs on it are dead.
    Crashed,
    /// It is removed, and the control plane is told.
    Gone,
}
