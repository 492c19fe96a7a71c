//! What the program did: its decisions, and what it asked for in vain.

use std::sync::Arc;

use serde_json::Value;

use super::key::ObjectKey;

/// A write of the program, in the order in which the server accepted them.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// A pod is bound to a node.
    Bound { pod: ObjectKey, node: Arc<str> },
    /// An attempt to schedule a pod found no node.
    Unschedulable { pod: ObjectKey, attempt: Attempt },
    /// A pod got a nominated node, or lost it, without an attempt of its own.
    Nominated { pod: ObjectKey, node: Option<Arc<str>> },
    /// The program deletes or evicts a pod. The pod remains until the world removes it.
    Evicted { pod: ObjectKey },
    /// Another object changed, such as the status of a resource claim.
    Wrote { kind: Arc<str>, key: ObjectKey, object: Arc<Value> },
}

/// An attempt that found no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// `Unschedulable`, `SchedulerError` or another reason of the program.
    pub reason: Arc<str>,
    pub message: Arc<str>,
    /// The node that preemption is to free for the pod.
    pub nominated: Option<Arc<str>>,
}

/// A path that is not served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unserved {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub times: u64,
}
