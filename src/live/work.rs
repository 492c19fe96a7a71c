//! The work of a live run: the jobs of a scenario with their commands, and the profile.

use std::path::PathBuf;
use std::sync::Arc;

use super::shares::Shares;
use dryrack_control::Profile;
use dryrack_event::{FleetFact, Input};
use dryrack_fleet::NodeSpec;
use dryrack_ids::{JobId, NodeId};
use dryrack_units::SimTime;
use dryrack_workload::Arrival;

/// A run that has not started yet. Ids are indexes into these lists, as in a rehearsal.
#[derive(Clone, Debug)]
pub struct PendingRun {
    pub seed: u64,
    pub profile: Arc<Profile>,
    /// The inputs that the control plane gets before everything else.
    pub declarations: Vec<Input>,
    pub nodes: Vec<NodeSpec>,
    /// Sorted by time.
    pub arrivals: Vec<Arrival>,
    /// Sorted by time, like `scalings`.
    pub cancellations: Vec<(SimTime, JobId)>,
    pub scalings: Vec<(SimTime, JobId, u32)>,
    pub evaluations: Vec<(SimTime, JobId)>,
    /// The time at which all remaining work is ended.
    pub until: Option<SimTime>,
    pub shares: Shares,
    /// The folder for the output of the tasks; `None` discards the output.
    pub outputs: Option<PathBuf>,
}

impl PendingRun {
    /// Whether a node uses real GPUs of this machine, not CPU shares.
    pub fn has_real_gpus(&self) -> bool {
        let is_real =
            |(index, node): (usize, &NodeSpec)| !node.shape.gpus.is_empty() && !self.shares.has(NodeId::new(index));
        self.nodes.iter().enumerate().any(is_real)
    }

    /// Why the work cannot be run, one sentence for each reason. `cores` is the number of cores that this process may
    /// use, if the work runs on this machine.
    pub fn faults(&self, cores: Option<usize>) -> Vec<String> {
        let mut faults = Vec::new();
        for arrival in &self.arrivals {
            let name = &arrival.spec.name;
            if arrival.behavior.launch.is_none() {
                faults.push(format!("job `{name}` has no `command`; add `command: [python3, train.py]`"));
            }
            if !arrival.spec.demand.sets().is_empty() {
                faults.push(format!("job `{name}` has unequal tasks, which can only be rehearsed; write `tasks: 4`"));
            }
            if arrival.spec.analyse {
                faults.push(format!("job `{name}` has an `analysis`, which can only be rehearsed; leave it out"));
            }
            if arrival.behavior.serving.is_some() {
                faults.push(format!("job `{name}` has `serving`, which can only be rehearsed; leave it out"));
            }
        }
        let is_cloud = |input: &&Input| matches!(input, Input::Fleet(FleetFact::FleetDeclared { spec, .. }) if spec.cloud.is_some());
        if self.declarations.iter().any(|input| is_cloud(&input)) {
            faults.push("a fleet creates instances in a cloud, which a live run cannot do".to_string());
        }
        faults.extend(cores.into_iter().flat_map(|cores| self.faults_here(cores)));
        faults
    }

    fn faults_here(&self, cores: usize) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(core) = self.shares.last_core().filter(|core| usize::from(*core) >= cores) {
            faults.push(format!("a CPU share uses core {core}, but this process can use {cores}, counted from 0"));
        }
        let mut real = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(index, node)| !node.shape.gpus.is_empty() && !self.shares.has(NodeId::new(*index)));
        if let (Some((_, one)), Some((_, two))) = (real.next(), real.next()) {
            let (one, two) = (&one.name, &two.name);
            faults.push(format!(
                "nodes `{one}` and `{two}` both have GPUs of this machine; give CPU shares to all but one of them \
                 (`live: {{accelerators: ...}}`)"
            ));
        }
        faults
    }
}
