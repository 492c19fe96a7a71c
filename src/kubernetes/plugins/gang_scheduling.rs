//! `GangScheduling`: the pods of a gang enter the queue once there are enough of them, and are bound once enough of
//! them hold a node.

use std::sync::Arc;

use crate::cluster::{Gangs, GroupKey, PodInfo, Policy};
use crate::cycle::{Plugin, Reason, Refusal};

pub fn pre_enqueue(pod: &PodInfo, gangs: &Gangs) -> Result<(), Refusal> {
    let Some(key) = GroupKey::of(pod).filter(|_| gangs.is_enabled) else { return Ok(()) };
    let reason = match gangs.policy(&key) {
        Policy::NoWorkload => Reason::NoWorkload(key.workload),
        Policy::NoGroup => Reason::NoPodGroup { group: key.group, workload: key.workload },
        Policy::Gang { min_count } if gangs.known(&key) < min_count => Reason::GangIncomplete,
        Policy::Gang { .. } | Policy::Single => return Ok(()),
    };
    Err(Refusal::for_good(Plugin::GangScheduling, reason))
}

/// Whether a pod that holds a node is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The pod is bound, and so are these pods, which waited for it.
    Allowed { released: Vec<Arc<str>> },
    /// The pod waits for other pods of its gang.
    Waits,
}

/// Returns the permit of a pod that has got a node, and records that it holds the node.
pub fn permit(pod: &PodInfo, gangs: &mut Gangs) -> Permit {
    let Some(key) = GroupKey::of(pod).filter(|_| gangs.is_enabled) else {
        return Permit::Allowed { released: Vec::new() };
    };
    let least = match gangs.policy(&key) {
        Policy::Gang { min_count } => min_count,
        Policy::NoWorkload | Policy::NoGroup | Policy::Single => 0,
    };
    let waits = gangs.holding(&key) + 1 < least;
    gangs.hold(&key, &pod.key, waits);
    if waits { Permit::Waits } else { Permit::Allowed { released: gangs.release(&key) } }
}
