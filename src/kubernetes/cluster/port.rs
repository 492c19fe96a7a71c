//! Ports of a node that pods use.

use std::sync::Arc;

use crate::object::Pod;

/// An address and a port of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub protocol: Arc<str>,
    pub port: i32,
    pub ip: Arc<str>,
}

const ANY_ADDRESS: &str = "0.0.0.0";

impl HostPort {
    /// The host ports of a pod's containers and sidecars.
    pub fn of(pod: &Pod) -> Vec<HostPort> {
        let sidecars = pod.spec.init_containers.iter().filter(|container| container.is_sidecar());
        let ports = pod.spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
        let used = ports.filter(|port| port.host_port > 0).map(|port| HostPort {
            protocol: if port.protocol.is_empty() { Arc::from("TCP") } else { Arc::clone(&port.protocol) },
            port: port.host_port,
            ip: if port.host_ip.is_empty() { Arc::from(ANY_ADDRESS) } else { Arc::clone(&port.host_ip) },
        });
        used.collect()
    }

    pub fn conflicts_with(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || &*self.ip == ANY_ADDRESS || &*other.ip == ANY_ADDRESS)
    }
}
