//! A rehearsal: the complete input of a simulated run.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::cloud_models::CloudModels;
use dryrack_control::Profile;
use dryrack_event::{FleetFact, Input};
use dryrack_fleet::{Electricity, FleetSpec, Foreign, GpuState, NodeSpec, NodeState};
use dryrack_ids::{FleetId, GpuId, JobId, NodeId};
use dryrack_objects::ClusterObjects;
use dryrack_units::{Bytes, SimTime};
use dryrack_workload::Arrival;

/// The input of a run. Ids are indexes into these lists. For example, node id 3 is the entry at index 3 of `nodes`.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    pub title: String,
    /// The text of the scenario file after overrides were applied. The text is also written to the log.
    pub source: String,
    pub seed: u64,
    pub profile: Arc<Profile>,
    /// Fleets of instances, in order of declaration.
    pub fleets: Vec<Arc<FleetSpec>>,
    pub clouds: CloudModels,
    /// The objects of a Kubernetes cluster, besides its nodes and pods.
    pub objects: Option<Arc<ClusterObjects>>,
    /// Objects of Kueue: a JSON list of manifests, and when they are created or changed. Sorted by time.
    pub kueue: Vec<(SimTime, Arc<str>)>,
    pub nodes: Vec<InitialNode>,
    /// Arrivals in order of time. Arrivals of the same time are in the order of the file.
    pub arrivals: Vec<Arrival>,
    pub cancellations: Vec<(SimTime, JobId)>,
    /// Changes to the number of replicas of a job.
    pub scalings: Vec<(SimTime, JobId, u32)>,
    pub faults: Vec<(SimTime, Fault)>,
    /// Jobs to be evaluated without placing them, by their index in `arrivals`. A job may be evaluated before it
    /// arrives.
    pub evaluations: Vec<(SimTime, JobId)>,
    /// The run stops before the first instant later than this time. If `None`, it ends when nothing is left to happen.
    pub until: Option<SimTime>,
    /// The changes at the time of the branch, if this run branches off another run.
    pub branch: Option<Branch>,
    /// Metrics ignore everything before this time. They also ignore jobs that were submitted before it.
    pub warm_up: Option<SimTime>,
    /// The name of the currency of all prices, if the scenario states it. It is never converted.
    pub currency: Option<Arc<str>>,
    /// What electricity costs and emits, if the scenario states it.
    pub electricity: Option<Arc<Electricity>>,
}

/// The changes to a run at a given time.
#[derive(Clone, Debug)]
pub struct Branch {
    pub at: SimTime,
    pub profile: Option<Arc<Profile>>,
    /// The first node that joins at the time of the branch. All nodes with higher ids join too.
    pub joining: NodeId,
    /// Nodes that accept no new work after the branch. Each leaves the fleet as soon as nothing runs on it.
    pub leaving: BTreeSet<NodeId>,
}

impl Rehearsal {
    /// The number of jobs that are submitted in the run, and of those before the end of the warm-up.
    pub fn jobs_and_early(&self) -> (usize, usize) {
        let jobs = self.arrivals.iter().map(|arrival| arrival.at);
        self.and_early(jobs)
    }

    /// The number of requests that arrive in the run, and of those before the end of the warm-up. Both are 0 if a service has a
    /// closed loop of clients: its requests have no times before the run.
    pub fn requests_and_early(&self) -> (usize, usize) {
        let services =
            || self.arrivals.iter().filter_map(|arrival| Some((arrival.at, arrival.behavior.serving.as_ref()?)));
        if services().any(|(_, serving)| serving.clients.is_some()) {
            return (0, 0);
        }
        self.and_early(
            services().flat_map(|(from, serving)| {
                serving.requests.iter().map(move |request| from.saturating_add(request.at))
            }),
        )
    }

    /// How many of these times are in the run, and how many of them are before the end of the warm-up.
    fn and_early(&self, times: impl Iterator<Item = SimTime>) -> (usize, usize) {
        let (until, warm_up) = (self.until.unwrap_or(SimTime::MAX), self.warm_up.unwrap_or(SimTime::ZERO));
        times.filter(|at| *at <= until).fold((0, 0), |(all, early), at| (all + 1, early + usize::from(at < warm_up)))
    }

    /// The inputs that declare fleets and nodes to the control plane before the run begins.
    pub fn declarations(&self) -> Vec<Input> {
        let mut inputs = Vec::with_capacity(self.nodes.len());
        inputs.extend(
            self.objects
                .as_ref()
                .map(|objects| Input::Fleet(FleetFact::ObjectsDeclared { objects: Arc::clone(objects) })),
        );
        let first = self.kueue.iter().filter(|(at, _)| *at == SimTime::ZERO);
        inputs.extend(first.map(|(_, objects)| Input::Fleet(FleetFact::KueueApplied { objects: Arc::clone(objects) })));
        for (index, spec) in self.fleets.iter().enumerate() {
            inputs.push(Input::Fleet(FleetFact::FleetDeclared { fleet: FleetId::new(index), spec: Arc::clone(spec) }));
        }
        let later = self.branch.as_ref().map_or(self.nodes.len(), |branch| branch.joining.index());
        (0..later).for_each(|index| self.declare(NodeId::new(index), &mut inputs));
        inputs
    }

    /// The changes of Kueue's objects after the beginning, each with its index.
    pub(crate) fn later_kueue(&self) -> impl Iterator<Item = (SimTime, u32)> {
        let changes = self.kueue.iter().enumerate().map(|(index, (at, _))| (*at, index as u32));
        changes.filter(|(at, _)| *at > SimTime::ZERO)
    }

    /// The change of Kueue's objects with this index.
    pub(crate) fn kueue_input(&self, index: u32) -> Input {
        Input::Fleet(FleetFact::KueueApplied { objects: Arc::clone(&self.kueue[index as usize].1) })
    }

    /// The change of a cloud's capacity with this index.
    pub(crate) fn capacity_input(&self, index: u32) -> Input {
        let (_, fleet, offer, available) = self.clouds.capacity[index as usize];
        Input::Fleet(FleetFact::CapacityReported { fleet, offer, available })
    }

    /// Adds the inputs that declare a node.
    pub fn declare(&self, node: NodeId, inputs: &mut Vec<Input>) {
        let initial = &self.nodes[node.index()];
        inputs.push(Input::Fleet(FleetFact::NodeDeclared { node, state: initial.state, spec: initial.spec.clone() }));
        for (index, state, foreign) in &initial.gpus {
            let gpu = GpuId { node, index: *index };
            if *state != GpuState::Ready {
                inputs.push(Input::Fleet(FleetFact::GpuReported { gpu, state: *state }));
            }
            if !foreign.is_none() {
                inputs.push(Input::Fleet(FleetFact::ForeignUse { gpu, foreign: *foreign }));
            }
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct InitialNode {
    pub spec: NodeSpec,
    pub state: NodeState,
    /// The GPUs that are not ready, or in foreign use, when the run begins.
    pub gpus: Vec<(u16, GpuState, Foreign)>,
    pub files: ModelFiles,
}

/// The models that are on a node, and the bandwidth at which the node downloads more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModelFiles {
    /// The full names of the models whose weights are on the node.
    pub cached: Vec<Arc<str>>,
    /// The download bandwidth in bytes per second. `None` means that a download takes no time.
    pub bandwidth: Option<Bytes>,
}

/// A fault or a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fault {
    Node {
        node: NodeId,
        becomes: NodeTurn,
    },
    Gpu {
        gpu: GpuId,
        becomes: GpuState,
    },
    /// Foreign use of a GPU starts or stops.
    Foreign {
        gpu: GpuId,
        foreign: Foreign,
    },
}

/// A change of a node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum NodeTurn {
    /// The node works and reports that it is ready. This ends every other turn.
    Ready,
    /// The node reports that it is not ready. Its attempts continue.
    NotReady,
    /// An operator takes the node out of service. Its attempts continue.
    Maintenance,
    /// The node's heartbeats no longer arrive, and commands no longer reach it. Its attempts continue.
    Silent,
    /// The node stops without notice. It is silent, and its attempts are dead.
    Crashed,
    /// The node is removed, and the control plane is told so.
    Gone,
}
