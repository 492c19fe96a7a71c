//! Jobs as pods, for profiles in which kube-scheduler decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use dryrack_control::Profile;
use dryrack_objects::{
    ClusterObjects, GangPolicy, ObjectMeta, Pod, PodGroup, PodGroupPolicy, Workload, WorkloadReference, WorkloadSpec,
};
use dryrack_workload::{Arrival, Demand, DemandKind, Gang, GpuTake, Pick};
use dryrack_yaml::{Fields, Report};

/// The name of the only group of a job's pods.
const GROUP: &str = "tasks";

/// The pods of a job.
pub(super) struct Pods {
    pub replicas: u32,
    /// States the gang of each pod. `None` if the pods are scheduled one by one.
    pub template: Option<Arc<Pod>>,
}

/// Makes each task of a job a pod of its own, because kube-scheduler places pods one by one. With gang
/// scheduling, they are a gang. Reports demands that a pod cannot have.
pub(super) fn each_task_alone(
    fields: &Fields<'_>,
    demand: &mut Demand,
    replicas: u32,
    profile: &Profile,
    report: &mut Report,
) -> Pods {
    let alone = Pods { replicas, template: None };
    let Some(options) = profile.flow.kubernetes() else { return alone };
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
            return alone;
        }
    }
    if demand.tasks == 1 {
        return alone;
    }
    if demand.gang != Gang::Anywhere {
        let help = "use a manifest with pod anti-affinity or topology spread constraints";
        report.error_with_help(place("gang"), "kube-scheduler knows no rule for the nodes of a gang", help);
    }
    let is_gang = options.gang_scheduling.is_some();
    if replicas > 1 && (is_gang || fields.has("rendezvous")) {
        let message = "the pods of a job are one gang, so it cannot have replicas of several tasks";
        report.error_with_help(place("replicas"), message, "use `count:` for separate jobs");
    }
    let replicas = replicas.saturating_mul(demand.tasks);
    demand.tasks = 1;
    let mut template = Pod::default();
    template.spec.workload_ref = Some(WorkloadReference { name: Arc::from(""), pod_group: Arc::from(GROUP) });
    Pods { replicas, template: is_gang.then(|| Arc::new(template)) }
}

/// The number of tasks that wait for each other. `None` if each task works by itself, and if all tasks are one attempt,
/// which begins as a whole.
pub(super) fn together(fields: &Fields<'_>, replicas: u32, profile: &Profile, report: &mut Report) -> Option<u32> {
    let waits = fields.value::<bool>("rendezvous", report)?;
    if waits && !fields.has("tasks") {
        report.error_with_help(fields.key_span("rendezvous"), "a single task waits for no other", "add `tasks: 8`");
    }
    (waits && profile.flow.places_pods()).then_some(replicas)
}

/// The template of the pods of the job with this name.
pub(super) fn named(template: Option<&Arc<Pod>>, name: &Arc<str>) -> Option<Arc<Pod>> {
    let mut pod = Pod::clone(template?);
    if let Some(gang) = &mut pod.spec.workload_ref {
        gang.name = Arc::clone(name);
    }
    Some(Arc::new(pod))
}

/// Adds a workload for each job whose pods are a gang.
pub(super) fn with_gangs(objects: Option<Arc<ClusterObjects>>, arrivals: &[Arrival]) -> Option<Arc<ClusterObjects>> {
    let is_made_here = |pod: &Pod| pod.spec.containers.is_empty();
    let gangs = arrivals.iter().filter_map(|arrival| {
        let pod = arrival.spec.pod.as_deref().filter(|pod| is_made_here(pod))?;
        Some((Arc::clone(&pod.spec.workload_ref.as_ref()?.name), arrival.spec.replicas))
    });
    let gangs: BTreeSet<(Arc<str>, u32)> = gangs.collect();
    if gangs.is_empty() {
        return objects;
    }
    let mut objects = objects.map(Arc::unwrap_or_clone).unwrap_or_default();
    objects.workloads.extend(gangs.into_iter().map(|(name, pods)| {
        let gang = GangPolicy { min_count: i32::try_from(pods).unwrap_or(i32::MAX) };
        let group = PodGroup { name: Arc::from(GROUP), policy: PodGroupPolicy { gang: Some(gang) } };
        let metadata = ObjectMeta { name, ..ObjectMeta::default() };
        Workload { metadata, spec: WorkloadSpec { pod_groups: vec![group] } }
    }));
    Some(Arc::new(objects))
}
