//! The Slurm cluster to which jobs are submitted, and the check that it matches the file.

use std::time::Duration;

use super::super::clock::std_duration;
use super::super::probe::Missing;
use super::super::work::PendingRun;
use super::ask::Ask;
use super::request;
use dryrack_nearest::nearest;
use dryrack_units::SimDuration;

/// The time limit of one Slurm command.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

/// The Slurm cluster in use.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(super) ask: Ask,
    /// The release of Slurm, such as `22.05.8`.
    pub release: String,
    /// Nodes of the cluster that the file does not have. Nothing may run there.
    pub(super) others: Vec<String>,
    /// How often Slurm is asked for the states of jobs.
    pub(super) every: SimDuration,
    /// How long Slurm may give no answer before the run ends.
    pub(super) patience: SimDuration,
}

impl Cluster {
    /// Checks that the cluster has the nodes of the file. The error lists everything that is wrong, one sentence each.
    pub fn find(work: &PendingRun, every: SimDuration, patience: SimDuration) -> Result<Cluster, Vec<String>> {
        let faults = request::faults(work);
        if !faults.is_empty() {
            return Err(faults);
        }
        let unheard = |why: Missing| vec![format!("Slurm did not return its nodes: {why}")];
        let ask = Ask { within: std_duration(patience).min(LONGEST_ANSWER) };
        let snapshot = ask.nodes().map_err(unheard)?;
        let release = ask.release().map_err(unheard)?;
        let mut faults = Vec::new();
        for node in &work.nodes {
            let names = || snapshot.nodes.iter().map(|found| found.name.as_str());
            let Some(found) = snapshot.nodes.iter().find(|found| *found.name == *node.name) else {
                let near = nearest(&node.name, names()).map(|near| format!("; did you mean `{near}`?"));
                let near =
                    near.unwrap_or_else(|| "; `dryrack probe --from slurm` writes the nodes of Slurm".to_string());
                faults.push(format!("Slurm has no node `{}`{near}", node.name));
                continue;
            };
            let (own, gpus) = (node.shape.gpus.len(), found.gpus.len());
            if own != gpus {
                faults.push(format!("node `{}` has {own} GPUs here, but {gpus} in Slurm", node.name));
            }
        }
        let is_other = |name: &&str| !work.nodes.iter().any(|node| &*node.name == *name);
        let others =
            snapshot.nodes.iter().map(|found| found.name.as_str()).filter(is_other).map(str::to_string).collect();
        if faults.is_empty() { Ok(Cluster { ask, release, others, every, patience }) } else { Err(faults) }
    }
}
