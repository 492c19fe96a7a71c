//! `NodePorts`: refuses nodes on which a requested port is in use.

use crate::cluster::{NodeInfo, PodInfo};
use crate::cycle::{Objection, Plugin, Reason, Refusal};

pub fn filter(pod: &PodInfo, node: &NodeInfo) -> Result<(), Objection> {
    if pod.ports.iter().any(|port| node.ports.iter().any(|used| port.conflicts_with(used))) {
        return Err(Refusal::for_now(Plugin::NodePorts, Reason::Ports).into());
    }
    Ok(())
}
