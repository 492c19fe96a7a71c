//! `NodeName`: a pod that names a node fits only on this node.

use crate::cluster::{NodeInfo, PodInfo};
use crate::cycle::{Objection, Plugin, Reason, Refusal};

pub fn filter(pod: &PodInfo, node: &NodeInfo) -> Result<(), Objection> {
    let wanted = pod.pod.spec.node_name.as_ref().filter(|name| !name.is_empty());
    if wanted.is_none_or(|name| name == node.name()) {
        return Ok(());
    }
    Err(Refusal::for_good(Plugin::NodeName, Reason::NodeName).into())
}
