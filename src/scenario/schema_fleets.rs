//! The schema of fleets of instances, and of the resources of their jobs.

use super::schema_shape::{Field, Kind, Shape};
use super::schema_table::{ALSO_OF_MACHINES, ALSO_OF_NODES, LENGTH, MEMORY, REQUESTS};
use super::schema_usage::USAGE;

const BLOCKS: Kind = Kind::Either(&[Kind::Amount("auto, or a number"), Kind::Map("gpu_parts")]);
const RANGE: Kind = Kind::Either(&[Kind::Amount("2..8, 16GB.. or a single value"), Kind::Map("range")]);
const DISK: Kind = Kind::Either(&[Kind::Amount("100GB.."), Kind::Map("range"), Kind::Map("disk_range")]);
const CPUS: Kind = Kind::Either(&[Kind::Amount("2..8 or arm:4.."), Kind::Map("range"), Kind::Map("cpu_range")]);
const GPUS: Kind = Kind::Either(&[Kind::Amount("1..8 or A100:80GB:2"), Kind::Map("gpu_range")]);
const FLEET_NODES: Kind = Kind::Either(&[Kind::Amount("4 or 0..4"), Kind::Map("fleet_nodes")]);

/// The additional fields of hosts and offers.
const ALSO_OF_INSTANCES: Field = ("", Kind::Also(INSTANCE), "");
const INSTANCE: &[Field] = &[
    ("blocks", BLOCKS, "Number of blocks or kind of split; default: that of the fleet"),
    ("backend", Kind::Text, "Provider of the instance"),
    ("region", Kind::Text, "Region of the instance"),
    ("disk", MEMORY, "Disk size; if absent, the disk is not compared"),
    ("spot", Kind::Flag, "Whether the instance is a spot instance, which the cloud can take away"),
];

/// Kinds of maps in addition to those of the main table.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "instances",
        called: &["a fleet of instances"],
        required: &[],
        fields: &[
            (
                "kind",
                Kind::Words(|| vec!["ssh", "cloud"]),
                "Hosts that are reached by SSH (ssh), or instances of a cloud (cloud)",
            ),
            (
                "placement",
                Kind::Words(|| vec!["any", "cluster"]),
                "Whether the instances are close to each other (cluster)",
            ),
            ("blocks", BLOCKS, "Number of blocks of each instance, or kind of split; default: 1"),
            ("hosts", Kind::ListOf(&Kind::Map("host")), "Instances that exist at the start"),
            ("nodes", FLEET_NODES, "Number of instances of a cloud fleet"),
            ("backend", Kind::Text, "Provider of the instances"),
            ("region", Kind::Text, "Region of the instances"),
            ("price_per_hour", Kind::Amount("2.49"), "Price of each instance per hour, in the currency of the file"),
            ("disk", MEMORY, "Disk size of each instance"),
            ("spot", Kind::Flag, "Whether the instances are spot instances, which the cloud can take away"),
            ("machine", Kind::Text, "Machine of hosts and offers that state none"),
            ("offers", Kind::ListOf(&Kind::Map("offer")), "Offers from which a cloud fleet creates instances"),
            ("capacity", Kind::ListOf(&Kind::Map("capacity")), "Times at which the cloud's capacity changes"),
            ("idle_duration", Kind::Amount("10m or off"), "Time after which an idle instance is terminated"),
        ],
    },
    Shape {
        name: "offer",
        called: &["an offer of a cloud"],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Name of the offer; it follows the fleet's name in the names of instances"),
            ("available", Kind::Whole, "Most instances at a time; default: the maximum of the fleet"),
            ("provisioning", LENGTH, "Time from the request until an instance is ready; default: 0s"),
            ("termination", Kind::Amount("30s"), "Time from the decision to terminate an instance until it is gone"),
            ("interrupted", LENGTH, "Time after which the cloud takes a spot instance away; default: never"),
            ("refused", Kind::Amount("5%"), "Probability that a request for an instance is refused"),
            ("failed", Kind::Amount("2%"), "Probability that a requested instance is never ready"),
            ALSO_OF_MACHINES,
            ALSO_OF_INSTANCES,
        ],
    },
    Shape {
        name: "capacity",
        called: &["a change of capacity"],
        required: &["at", "available"],
        fields: &[
            ("at", Kind::Amount("2h"), "Time of the change"),
            ("offer", Kind::Text, "Name of the offer; default: all offers"),
            ("available", Kind::Whole, "Most instances at a time from then on"),
        ],
    },
    Shape {
        name: "host",
        called: &["a host"],
        required: &["name"],
        fields: &[ALSO_OF_NODES, ALSO_OF_MACHINES, ALSO_OF_INSTANCES],
    },
    Shape {
        name: "manifest_file",
        called: &["a manifest file"],
        required: &["path"],
        fields: &[
            ("path", Kind::Text, "Its path from this file's folder, a folder, or a pattern such as jobs/*.yaml"),
            ("at", Kind::Amount("5m, or created"), "When its pods arrive, or `created`: when they were created"),
            ("duration", Kind::Amount("30m"), "How long its pods and the pods of its jobs run"),
        ],
    },
    Shape {
        name: "dstack_file",
        called: &["a file of dstack"],
        required: &["file"],
        fields: &[
            ("file", Kind::Text, "Path of the file, relative to the folder of this file"),
            ("name", Kind::Text, "Name that replaces the name in the file"),
            ("profile", Kind::Text, "Name of a profile in a listed `profiles.yml`; default: its default profile"),
            ("at", Kind::Amount("90s, 1h30m or 250ms"), "Submission time"),
            ("count", Kind::Whole, "Number of identical runs"),
            ("duration", Kind::Amount("1h"), "Duration of a run"),
            ("master_duration", Kind::Amount("1h"), "Duration of a run's master; default: that of its workers"),
            ("ends", Kind::Words(|| vec!["completed", "failed"]), "Outcome of a run that ends by itself"),
            ("prepare", Kind::Amount("2m"), "Time for downloads and other preparation"),
            ("stop", Kind::Amount("30s"), "Time that stopping takes"),
            ("cancel_at", Kind::Amount("1h"), "Time at which the user cancels the run"),
            ("usage", USAGE, "GPU usage while a run executes"),
            ("sampling", Kind::Map("sampling"), "Sampling of the GPU usage"),
            ("requests", REQUESTS, "Requests per second to a service"),
            ("project", Kind::Text, "Project whose quota a run counts against"),
            ("machine", Kind::Text, "Machine of the fleet's hosts, which dstack's file does not state"),
            ("offers", Kind::ListOf(&Kind::Map("offer")), "Offers from which a cloud fleet creates instances"),
            ("price_per_hour", Kind::Amount("2.49"), "Price per hour of hosts and offers that state none"),
        ],
    },
    Shape {
        name: "fleet_nodes",
        called: &["a number of nodes"],
        required: &[],
        fields: &[
            ("min", Kind::Whole, "Least number of instances"),
            ("target", Kind::Whole, "Number of instances at the start"),
            ("max", Kind::Whole, "Largest number of instances"),
        ],
    },
    Shape {
        name: "gpu_parts",
        called: &["parts of GPUs"],
        required: &[],
        fields: &[
            ("mig", Kind::Text, "MIG profile, such as 1g.10gb"),
            ("time_slices", Kind::Whole, "Number of jobs that share one GPU"),
        ],
    },
    Shape {
        name: "resources",
        called: &["resources"],
        required: &[],
        fields: &[
            ("cpu", CPUS, "Range of CPUs; default: 2.."),
            ("memory", RANGE, "Range of memory; default: 8GB.."),
            ("shm_size", Kind::Text, "Size of shared memory; it has no effect in a rehearsal"),
            ("gpu", GPUS, "Range of GPUs, with names and memory; default: 0.."),
            ("disk", DISK, "Range of disk sizes; default: 100GB.."),
        ],
    },
    Shape {
        name: "cpu_range",
        called: &["CPUs"],
        required: &[],
        fields: &[
            ("arch", Kind::Words(|| vec!["x86", "amd64", "arm", "arm64"]), "CPU architecture"),
            ("count", RANGE, "Range of the number of CPUs"),
        ],
    },
    Shape {
        name: "gpu_range",
        called: &["GPUs"],
        required: &[],
        fields: &[
            ("vendor", Kind::Text, "Vendor of the GPUs"),
            ("name", Kind::Some(&Kind::Text), "GPU name or names as in dstack, such as A100"),
            ("count", RANGE, "Range of the number of GPUs; default: 1.."),
            ("memory", RANGE, "Range of the memory of each GPU"),
            ("total_memory", RANGE, "Range of the memory of all GPUs together"),
            ("compute_capability", Kind::Amount("8.0"), "Lowest compute capability"),
        ],
    },
    Shape {
        name: "disk_range",
        called: &["a disk"],
        required: &["size"],
        fields: &[("size", RANGE, "Range of disk sizes")],
    },
    Shape {
        name: "range",
        called: &["a range"],
        required: &[],
        fields: &[("min", Kind::Text, "Lower end"), ("max", Kind::Text, "Upper end")],
    },
];
