//! Nodes.

use super::meta::{METADATA, RESOURCES, TAINT};
use crate::refused;
use crate::shape::{Fields, Named, Shape};

pub const NODE: Fields =
    Fields::of("a node", &[("metadata", METADATA), ("spec", Shape::Fields(&SPEC)), ("status", Shape::Fields(&STATUS))]);

const SPEC: Fields = Fields::of(
    "the spec of a node",
    &[("taints", Shape::List(&Shape::Fields(&TAINT))), ("unschedulable", Shape::Bool)],
)
.unused("podCIDR podCIDRs providerID configSource externalID");

const STATUS: Fields = Fields::of(
    "the status of a node",
    &[
        ("allocatable", RESOURCES),
        ("capacity", RESOURCES),
        ("conditions", Shape::List(&Shape::Fields(&CONDITION))),
        ("images", Shape::List(&Shape::Fields(&IMAGE))),
    ],
)
.refuses(refused::node)
.unused(
    "addresses config daemonEndpoints declaredFeatures features nodeInfo phase runtimeHandlers volumesAttached \
     volumesInUse",
)
.open();

/// A condition is read because the taints of a node follow from it.
const CONDITION: Fields = Fields::of(
    "a condition of a node",
    &[("type", Shape::Text), ("status", Shape::Word(&["True", "False", "Unknown"]))],
)
.unused("lastHeartbeatTime lastTransitionTime message reason")
.open();

const IMAGE: Fields =
    Fields::of("an image of a node", &[("names", Shape::List(&Shape::Name(Named::Image))), ("sizeBytes", Shape::LONG)])
        .open();
