//! Workloads that hold quota from the beginning, because Kueue admitted them before the run.

use std::sync::Arc;

use super::carry_out::admit;
use super::evict::evict_workload;
use super::workload::WorkloadNumber;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::flow::Flow;
use dryrack_kueue::objects::StopPolicy;
use dryrack_kueue::{Held, HeldPodSet};
use dryrack_workload::HeldQuota;

/// Gives such a workload its quota. Its pods that are on nodes come first, so that each of them keeps its place. Returns
/// false if its queue is gone.
pub(super) fn hold(core: &mut Core, flow: &mut dyn Flow, number: WorkloadNumber, held: &HeldQuota) -> bool {
    let queue = &held.cluster_queue;
    if !core.admission.kueue().has_queue(queue) {
        return false;
    }
    let mut lines = std::mem::take(&mut core.admission.workload_mut(number).lines);
    let mut pod_sets = Vec::new();
    for (set, stated) in held.pod_sets.iter().enumerate() {
        let mut nodes = Vec::new();
        if let Some(line) = lines.get_mut(set).filter(|_| flow.is_of_pods()) {
            line.replicas.sort_by_key(|index| node_of(core, *index).is_none());
            nodes.extend(line.replicas.iter().map_while(|index| node_of(core, *index)));
        }
        // More pods than were admitted can be on nodes while some of them stop.
        let count = stated.count.max(u32::try_from(nodes.len()).unwrap_or(u32::MAX));
        let (flavors, usage) = (stated.flavors.clone(), stated.usage.clone());
        pod_sets.push(HeldPodSet { count, flavors, usage, nodes });
    }
    let workload = core.admission.workload_mut(number);
    workload.lines = lines;
    let (spec, key) = (workload.spec_for(queue, number), workload.queue_key());
    let held = Held { since: held.since, pod_sets };
    let (id, sets) = core.admission.kueue().hold(&spec, &held).expect("the queue exists");
    core.admission.of_id.insert(id, number);
    admit(core, flow, (number, id), &sets);
    let local = core.admission.local_queues.get(&key);
    let is_local = local.is_some_and(|local| local.stop == StopPolicy::HoldAndDrain);
    let drains = is_local || core.admission.kueue().is_queue_drained(queue);
    if drains && core.admission.kueue().drain_workload(id) {
        evict_workload(core, flow, id, None);
    }
    true
}

/// The node that the pod of a replica states.
fn node_of(core: &Core, index: ReplicaIndex) -> Option<Arc<str>> {
    core.store[core.store[index].job].spec.pod.as_ref()?.spec.node_name.clone()
}
