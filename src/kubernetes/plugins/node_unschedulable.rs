//! `NodeUnschedulable`: refuses cordoned nodes.

use std::sync::Arc;

use crate::cluster::{NodeInfo, PodInfo};
use crate::cycle::{Objection, Plugin, Reason, Refusal};
use crate::object::{Effect, Taint};

pub fn filter(pod: &PodInfo, node: &NodeInfo) -> Result<(), Objection> {
    if !node.shape.unschedulable {
        return Ok(());
    }
    let taint =
        Taint { key: Arc::from("node.kubernetes.io/unschedulable"), value: Arc::from(""), effect: Effect::NoSchedule };
    if pod.tolerates(&taint) {
        return Ok(());
    }
    Err(Refusal::for_good(Plugin::NodeUnschedulable, Reason::Unschedulable).into())
}
