//! Claims of devices, their templates, classes of devices, and slices of devices.

use super::meta::{METADATA, NODE_SELECTOR};
use crate::refused;
use crate::shape::{Fields, Named, Shape};

pub const CLAIM: Fields = Fields::of(
    "a resource claim",
    &[("metadata", METADATA), ("spec", Shape::Fields(&SPEC)), ("status", Shape::Fields(&STATUS))],
)
.requires(&["spec"]);

pub const CLAIM_TEMPLATE: Fields =
    Fields::of("a resource claim template", &[("metadata", METADATA), ("spec", Shape::Fields(&TEMPLATE_SPEC))])
        .requires(&["spec"]);

const TEMPLATE_SPEC: Fields =
    Fields::of("the spec of a resource claim template", &[("metadata", METADATA), ("spec", Shape::Fields(&SPEC))])
        .requires(&["spec"]);

const SPEC: Fields = Fields::of("the spec of a resource claim", &[("devices", Shape::Fields(&DEVICES))]);

const DEVICES: Fields = Fields::of(
    "the devices of a claim",
    &[("requests", Shape::List(&Shape::Fields(&REQUEST))), ("constraints", Shape::List(&Shape::Fields(&CONSTRAINT)))],
)
.unused("config");

const REQUEST: Fields = Fields::of(
    "a request for devices",
    &[
        ("name", Shape::Name(Named::Part)),
        ("exactly", Shape::Fields(&EXACT)),
        ("firstAvailable", Shape::List(&Shape::Fields(&ALTERNATIVE))),
        ("deviceClassName", DEVICE_CLASS_NAME),
        ("selectors", SELECTORS),
        ("allocationMode", MODE),
        ("count", Shape::LONG),
        ("adminAccess", Shape::Bool),
    ],
)
.requires(&["name"])
.unfollowed("tolerations capacity");

const EXACT: Fields = Fields::of(
    "an exact request for devices",
    &[
        ("deviceClassName", DEVICE_CLASS_NAME),
        ("selectors", SELECTORS),
        ("allocationMode", MODE),
        ("count", Shape::LONG),
        ("adminAccess", Shape::Bool),
    ],
)
.requires(&["deviceClassName"])
.unfollowed("tolerations capacity");

const ALTERNATIVE: Fields = Fields::of(
    "an alternative of a request for devices",
    &[
        ("name", Shape::Name(Named::Part)),
        ("deviceClassName", DEVICE_CLASS_NAME),
        ("selectors", SELECTORS),
        ("allocationMode", MODE),
        ("count", Shape::LONG),
    ],
)
.requires(&["name", "deviceClassName"])
.unfollowed("tolerations capacity");

const DEVICE_CLASS_NAME: Shape = Shape::Name(Named::DeviceClass);
const MODE: Shape = Shape::Word(&["ExactCount", "All"]);

const SELECTORS: Shape = Shape::List(&Shape::Fields(&SELECTOR));
const SELECTOR: Fields = Fields::of("a selector of devices", &[("cel", Shape::Fields(&CEL))]).requires(&["cel"]);
const CEL: Fields = Fields::of("a CEL selector", &[("expression", Shape::Expression)]).requires(&["expression"]);

const CONSTRAINT: Fields = Fields::of(
    "a constraint of devices",
    &[("requests", Shape::List(&Shape::Parts)), ("matchAttribute", Shape::Qualified)],
)
.refuses(refused::device_constraint)
.unfollowed("distinctAttribute");

const STATUS: Fields = Fields::of(
    "the status of a resource claim",
    &[("allocation", Shape::Fields(&ALLOCATION)), ("reservedFor", Shape::List(&Shape::Fields(&CONSUMER)))],
)
.unused("devices")
.open();

const ALLOCATION: Fields = Fields::of(
    "the allocation of a resource claim",
    &[("devices", Shape::Fields(&ALLOCATED)), ("nodeSelector", NODE_SELECTOR)],
)
.unused("allocationTimestamp controller")
.open();

const ALLOCATED: Fields =
    Fields::of("allocated devices", &[("results", Shape::List(&Shape::Fields(&RESULT)))]).unused("config");

const RESULT: Fields = Fields::of(
    "an allocated device",
    &[
        ("request", Shape::Parts),
        ("driver", Shape::Name(Named::Driver)),
        ("pool", Shape::Name(Named::Pool)),
        ("device", Shape::Name(Named::Device)),
        ("adminAccess", Shape::Bool),
    ],
)
.requires(&["request", "driver", "pool", "device"])
.unfollowed("consumedCapacity shareID")
.open();

const CONSUMER: Fields =
    Fields::of("a consumer of a claim", &[("name", Shape::Name(Named::Workload)), ("uid", Shape::Name(Named::Uid))])
        .requires(&["name"])
        .unused("apiGroup resource");

pub const DEVICE_CLASS: Fields =
    Fields::of("a device class", &[("metadata", METADATA), ("spec", Shape::Fields(&DEVICE_CLASS_SPEC))]);

const DEVICE_CLASS_SPEC: Fields = Fields::of("the spec of a device class", &[("selectors", SELECTORS)])
    .unused("config suitableNodes")
    .unfollowed("extendedResourceName");

pub const SLICE: Fields =
    Fields::of("a resource slice", &[("metadata", METADATA), ("spec", Shape::Fields(&SLICE_SPEC))]).requires(&["spec"]);

const SLICE_SPEC: Fields = Fields::of(
    "the spec of a resource slice",
    &[
        ("driver", Shape::Name(Named::Driver)),
        ("pool", Shape::Fields(&POOL)),
        ("nodeName", Shape::Name(Named::Node)),
        ("allNodes", Shape::Bool),
        ("nodeSelector", NODE_SELECTOR),
        ("devices", Shape::List(&Shape::Fields(&DEVICE))),
    ],
)
.requires(&["driver", "pool"])
.unfollowed("perDeviceNodeSelection sharedCounters");

const POOL: Fields = Fields::of(
    "a pool of devices",
    &[("name", Shape::Name(Named::Pool)), ("generation", Shape::LONG), ("resourceSliceCount", Shape::LONG)],
)
.requires(&["name"]);

const DEVICE: Fields = Fields::of(
    "a device",
    &[
        ("name", Shape::Name(Named::Device)),
        ("attributes", Shape::Map(Some(Named::Attribute), &Shape::Fields(&ATTRIBUTE))),
        ("capacity", Shape::Map(Some(Named::Attribute), &Shape::Fields(&CAPACITY))),
        ("basic", Shape::Fields(&BASIC)),
    ],
)
.requires(&["name"])
.unfollowed(DEVICE_UNFOLLOWED);

const DEVICE_UNFOLLOWED: &str = "allNodes allowMultipleAllocations bindingConditions bindingFailureConditions \
                                 bindsToNode consumesCounters nodeName nodeSelector taints";

/// The attributes of a device in `v1beta1` and `v1alpha3`, which have one more level.
const BASIC: Fields = Fields::of(
    "the basic part of a device",
    &[
        ("attributes", Shape::Map(Some(Named::Attribute), &Shape::Fields(&ATTRIBUTE))),
        ("capacity", Shape::Map(Some(Named::Attribute), &Shape::Fields(&CAPACITY))),
    ],
)
.unfollowed(DEVICE_UNFOLLOWED);

const ATTRIBUTE: Fields = Fields::of(
    "an attribute of a device",
    &[
        ("int", Shape::Whole { least: i64::MIN, most: i64::MAX }),
        ("bool", Shape::Bool),
        ("string", Shape::Name(Named::AttributeText)),
        ("version", Shape::Text),
    ],
);

const CAPACITY: Fields = Fields::of("a capacity of a device", &[("value", Shape::Quantity)])
    .requires(&["value"])
    .unfollowed("requestPolicy");
