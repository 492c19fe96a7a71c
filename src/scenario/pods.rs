//! Jobs as pods, for profiles in which kube-scheduler decides.

use dryrack_control::Profile;
use dryrack_workload::{Demand, DemandKind, Gang, GpuTake, Pick};
use dryrack_yaml::{Fields, Report};

/// Makes each task of a job a pod of its own, because kube-scheduler places pods one by one. Returns the number of
/// replicas. Reports demands that a pod cannot have.
pub(super) fn each_task_alone(
    fields: &Fields<'_>,
    demand: &mut Demand,
    replicas: u32,
    profile: &Profile,
    report: &mut Report,
) -> u32 {
    if profile.flow.kubernetes().is_none() {
        return replicas;
    }
    let place = |key: &str| fields.get(key).map_or(fields.place(), |tree| tree.span);
    match &demand.kind {
        DemandKind::Tasks(task) => {
            let is_part = task.gpus.as_ref().is_some_and(|gpus| gpus.take != GpuTake::Whole);
            if is_part {
                let help = "ask for whole GPUs, or for a resource of the nodes such as `nvidia.com/mig-1g.10gb`";
                report.error_with_help(place("gpus"), "a pod requests whole GPUs, not parts of them", help);
            }
            if demand.pick.as_ref().is_some_and(Pick::is_of_gpus) {
                let help = "pick nodes, or leave the choice to the kubelet";
                report.error_with_help(place("gpus"), "a pod cannot choose its GPUs by number", help);
            }
        }
        DemandKind::Model(_) | DemandKind::Requirements(_) | DemandKind::Sets(_) => {
            let help = "state `gpus`, `cpus` and `ram` of each task, or another profile";
            report.error_with_help(
                fields.place(),
                "a pod cannot ask for this; kube-scheduler places plain tasks",
                help,
            );
            return replicas;
        }
    }
    if demand.tasks == 1 {
        return replicas;
    }
    if demand.gang != Gang::Anywhere {
        let help = "use a manifest with pod anti-affinity or topology spread constraints";
        report.error_with_help(place("gang"), "kube-scheduler knows no rule for the nodes of a gang", help);
    }
    let pods = replicas.saturating_mul(demand.tasks);
    demand.tasks = 1;
    pods
}
