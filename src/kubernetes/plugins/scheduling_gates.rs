//! `SchedulingGates`: a pod with gates does not enter the queue.

use std::sync::Arc;

use crate::cluster::PodInfo;
use crate::cycle::{Plugin, Reason, Refusal};

pub fn pre_enqueue(pod: &PodInfo) -> Result<(), Refusal> {
    let gates = &pod.pod.spec.scheduling_gates;
    if gates.is_empty() {
        return Ok(());
    }
    let names = gates.iter().map(|gate| Arc::clone(&gate.name)).collect();
    Err(Refusal::for_good(Plugin::SchedulingGates, Reason::Gates(names)))
}
