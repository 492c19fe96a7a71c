//! Answers of sources that were written down, read as the probe of the source reads them. No program is started.

use super::snapshot::{NodeSnapshot, Snapshot};
use super::{Missing, SmiKind, apple, completed, dstack, exporter, gpustack, json, kubernetes, slurm, smi};
use crate::clock::Stamp;

/// Whose answers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswersOf {
    /// The table of nvidia-smi, amd-smi or hl-smi.
    Smi(SmiKind),
    /// The page of a Prometheus exporter.
    Exporter,
    /// A page of workers.
    Gpustack,
    /// Fleets, runs, and the metrics of a job.
    Dstack,
    /// Nodes and pods.
    Kubernetes,
    /// `sinfo` and `squeue`, and the file of completed jobs.
    Slurm,
    /// `sysctl`, `ioreg` and `vm_stat`.
    Apple,
}

impl AnswersOf {
    pub const ALL: [AnswersOf; 9] = [
        AnswersOf::Smi(SmiKind::Nvidia),
        AnswersOf::Smi(SmiKind::Gaudi),
        AnswersOf::Smi(SmiKind::Amd),
        AnswersOf::Exporter,
        AnswersOf::Gpustack,
        AnswersOf::Dstack,
        AnswersOf::Kubernetes,
        AnswersOf::Slurm,
        AnswersOf::Apple,
    ];
}

/// Reads the answers of a source, in the order in which its probe asks for them. A missing answer is empty.
///
/// # Errors
/// Why they say nothing of any node.
pub fn read_answers(of: AnswersOf, answers: &[&str], at: Stamp) -> Result<Snapshot, Missing> {
    let [first, second, third] = [0, 1, 2].map(|index| answers.get(index).copied().unwrap_or_default());
    let alone = |node: NodeSnapshot| Snapshot { nodes: vec![node], notes: Vec::new() };
    match of {
        AnswersOf::Smi(kind) => {
            let mut node = NodeSnapshot::named("", at, "smi");
            (node.driver, node.gpus) = smi::read(kind, first, "smi", smi::COLUMNS, at)?;
            Ok(alone(node))
        }
        AnswersOf::Exporter => exporter::read(first, "exporter", at),
        AnswersOf::Gpustack => gpustack::read(&json::parse(first, "workers")?, "workers", at),
        AnswersOf::Dstack => {
            let (mut snapshot, _) = dstack::read(&json::parse(first, "fleets")?, "fleets", at)?;
            if !second.is_empty() {
                dstack::jobs(&json::parse(second, "runs")?, "runs")?;
            }
            if let (false, Some(node)) = (third.is_empty(), snapshot.nodes.first_mut()) {
                dstack::apply_usage(&json::parse(third, "metrics")?, node, "metrics")?;
            }
            Ok(snapshot)
        }
        AnswersOf::Kubernetes => kubernetes::read(&json::parse(first, "nodes")?, &json::parse(second, "pods")?, at),
        AnswersOf::Slurm => {
            completed(third, "jobs")?;
            slurm::read(&json::parse(first, "sinfo")?, &json::parse(second, "squeue")?, at)
        }
        AnswersOf::Apple => apple::read(first, second, third, at).map(alone),
    }
}
