//! What is rehearsed: the whole input of a simulated run.

use std::sync::Arc;

use super::branch::Branch;
use super::clouds::CloudModels;
use dryrack_control::Profile;
use dryrack_event::Input;
use dryrack_fleet::{FleetSpec, Foreign, GpuState, NodeSpec, NodeState};
use dryrack_ids::{FleetId, GpuId, JobId, NodeId};
use dryrack_units::{Bytes, SimTime};
use dryrack_workload::Arrival;

/// A run before it runs. Ids are places in these lists: the n-th node, the n-th arrival.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    pub title: String,
    /// The scenario file's text, overrides applied; travels in the log.
    pub source: String,
    pub seed: u64,
    pub profile: Arc<Profile>,
    /// Fleets of instances, in order of declaration.
    pub fleets: Vec<Arc<FleetSpec>>,
    pub clouds: CloudModels,
    pub nodes: Vec<InitialNode>,
    /// In order of time; of equal times, in the order of the file.
    pub arrivals: Vec<Arrival>,
    pub cancellations: Vec<(SimTime, JobId)>,
    /// From then on the job is to have so many replicas.
    pub scalings: Vec<(SimTime, JobId, u32)>,
    pub faults: Vec<(SimTime, Fault)>,
    /// Jobs to be judged without being placed, by their place in `arrivals`, whether they have come by then or not.
    pub evaluations: Vec<(SimTime, JobId)>,
    /// The run stops before the first instant after this; without it, when nothing is left to happen.
    pub until: Option<SimTime>,
    /// What changes in its midst, of a run that leaves another.
    pub branch: Option<Branch>,
    /// No metric takes account of what was before this, nor of jobs that came before it.
    pub warm_up: Option<SimTime>,
}

impl Rehearsal {
    /// What the control plane is told before anything happens.
    pub fn declarations(&self) -> Vec<Input> {
        let mut inputs = Vec::with_capacity(self.nodes.len());
        for (index, spec) in self.fleets.iter().enumerate() {
            inputs.push(Input::FleetDeclared { fleet: FleetId::new(index), spec: Arc::clone(spec) });
        }
        let later = self.branch.as_ref().map_or(self.nodes.len(), |branch| branch.joining.index());
        (0..later).for_each(|index| self.declare(NodeId::new(index), &mut inputs));
        inputs
    }

    /// What the control plane is told of a node when it comes.
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
    /// GPUs that do not begin as ready and free of foreign use.
    pub gpus: Vec<(u16, GpuState, Foreign)>,
    pub files: ModelFiles,
}

/// What a node has of models, and how fast it gets more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFiles {
    /// Models whose weights lie there, by their full names.
    pub cached: Vec<Arc<str>>,
    /// Per second; none: a download takes no time.
    pub bandwidth: Option<Bytes>,
}

/// What goes wrong, or right again.
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
    /// Others begin to use a GPU, or cease to.
    Foreign {
        gpu: GpuId,
        foreign: Foreign,
    },
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeTurn {
    /// Works and says so: the end of every other turn.
    Ready,
    /// Says of itself that it is not ready; what runs there runs on.
    NotReady,
    /// An operator takes it out; what runs there runs on.
    Maintenance,
    /// Its heartbeats no longer arrive, nor do commands to it; what runs there runs on.
    Silent,
    /// It stops without a word: silent, and what ran there is dead.
    Crashed,
    /// Removed, and the control plane is told.
    Gone,
}
