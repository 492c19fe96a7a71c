//! What a pod of Kubernetes cannot request.

use super::demand::{Demand, DemandKind, GpuTake, Pick};

/// Why no pod can request what a job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeyondPods {
    /// Its tasks start together, and each would be a pod of its own.
    SeveralTasks,
    /// It asks for a part of a GPU. Device plugins give whole ones.
    PartOfGpu,
    /// It names its GPUs. The kubelet chooses them.
    NamedGpus,
    /// It asks for something else than plain tasks.
    OtherDemand,
}

impl BeyondPods {
    /// What a pod cannot request, and how to change that. Only jobs of a trace come this far: of other jobs, a scenario
    /// is not read.
    pub fn text(self) -> &'static str {
        match self {
            BeyondPods::SeveralTasks => {
                "the job takes several nodes or tasks at once, and a pod of Kubernetes is one task on one node (profiles \
                 such as `easy` or `slurm-22.05` place such jobs)"
            }
            BeyondPods::PartOfGpu => {
                "the job asks for a part of a GPU, and a pod requests whole GPUs (`gpu_shares: whole` in `trace:` gives it \
                 a whole one)"
            }
            BeyondPods::NamedGpus => "the job names its GPUs, and the kubelet chooses those of a pod",
            BeyondPods::OtherDemand => "the job asks for more than plain tasks, and kube-scheduler places no other",
        }
    }
}

impl Demand {
    /// Why no pod can request this. `None` if one can.
    pub fn beyond_pods(&self) -> Option<BeyondPods> {
        let DemandKind::Tasks(task) = &self.kind else { return Some(BeyondPods::OtherDemand) };
        if self.tasks != 1 {
            return Some(BeyondPods::SeveralTasks);
        }
        if task.gpus.as_ref().is_some_and(|gpus| gpus.take != GpuTake::Whole) {
            return Some(BeyondPods::PartOfGpu);
        }
        self.pick.as_ref().is_some_and(Pick::is_of_gpus).then_some(BeyondPods::NamedGpus)
    }
}
