//! The schema of fleets of instances, and of the resources of their jobs.

use super::schema::{Field, Kind, Shape};
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
    ("blocks", BLOCKS, "How it is split, if not as its fleet says"),
    ("backend", Kind::Text, "Who provides it"),
    ("region", Kind::Text, "Where it is"),
    ("disk", MEMORY, "Size of its disk; not compared if not given"),
    ("spot", Kind::Flag, "It may be taken away"),
];

/// Kinds of maps in addition to those of the main table.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "instances",
        called: &["a fleet of instances"],
        required: &[],
        fields: &[
            ("kind", Kind::Words(|| vec!["ssh", "cloud"]), "Hosts reached by SSH, or machines of a cloud"),
            ("placement", Kind::Words(|| vec!["any", "cluster"]), "Whether its instances are near each other"),
            ("blocks", BLOCKS, "How its instances are split; 1 if not given"),
            ("hosts", Kind::ListOf(&Kind::Map("host")), "The instances there are"),
            ("nodes", FLEET_NODES, "Of a cloud: how many instances it has"),
            ("backend", Kind::Text, "Who provides its instances"),
            ("region", Kind::Text, "Where they are"),
            ("price_per_hour", Kind::Amount("2.49"), "Of each, in whatever currency the file is in"),
            ("disk", MEMORY, "Size of each one's disk"),
            ("spot", Kind::Flag, "They may be taken away"),
            ("machine", Kind::Text, "The machine of hosts that do not say theirs"),
            ("offers", Kind::ListOf(&Kind::Map("offer")), "Of a cloud: what instances are made of"),
            ("capacity", Kind::ListOf(&Kind::Map("capacity")), "When a cloud has more or less of them"),
            ("idle_duration", Kind::Amount("10m or off"), "An instance that is idle for so long is given back"),
        ],
    },
    Shape {
        name: "offer",
        called: &["an offer of a cloud"],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Of the instances, behind that of the fleet"),
            ("available", Kind::Whole, "So many at a time; as many as the fleet may have if not given"),
            ("provisioning", LENGTH, "From the request until an instance is up; no time if not given"),
            ("termination", Kind::Amount("30s"), "From giving it back until it is gone"),
            ("interrupted", LENGTH, "How long a spot instance is up before it is taken away; never if not given"),
            ("refused", Kind::Amount("5%"), "How often a request comes to nothing"),
            ("failed", Kind::Amount("2%"), "How often an instance is gone when it should have been up"),
            ALSO_OF_MACHINES,
            ALSO_OF_INSTANCES,
        ],
    },
    Shape {
        name: "capacity",
        called: &["a change of capacity"],
        required: &["at", "available"],
        fields: &[
            ("at", Kind::Amount("2h"), "From when on"),
            ("offer", Kind::Text, "Of which offer; of all if not given"),
            ("available", Kind::Whole, "So many instances at a time"),
        ],
    },
    Shape {
        name: "host",
        called: &["a host"],
        required: &["name"],
        fields: &[ALSO_OF_NODES, ALSO_OF_MACHINES, ALSO_OF_INSTANCES],
    },
    Shape {
        name: "dstack_file",
        called: &["a file that is dstack's"],
        required: &["file"],
        fields: &[
            ("file", Kind::Text, "Its path, from this file's folder"),
            ("name", Kind::Text, "In the place of the name in the file"),
            ("profile", Kind::Text, "One of those in a `profiles.yml` that is named too; its default if not given"),
            ("at", Kind::Amount("90s, 1h30m or 250ms"), "When a run comes"),
            ("count", Kind::Whole, "So many runs that are alike"),
            ("duration", Kind::Amount("1h"), "How long a run takes"),
            ("master_duration", Kind::Amount("1h"), "How long its master runs, if not as long as its workers"),
            ("ends", Kind::Words(|| vec!["completed", "failed"]), "How a run ends by itself"),
            ("prepare", Kind::Amount("2m"), "How long a download or the like takes"),
            ("stop", Kind::Amount("30s"), "How long stopping takes"),
            ("cancel_at", Kind::Amount("1h"), "When its user gives it up"),
            ("usage", USAGE, "What the GPUs of a run do while it runs"),
            ("sampling", Kind::Map("sampling"), "How samples of them are taken"),
            ("requests", REQUESTS, "That come to a service, per second"),
            ("project", Kind::Text, "Whose quota a run counts against"),
            ("machine", Kind::Text, "What the hosts of a fleet have, which its file does not say"),
            ("offers", Kind::ListOf(&Kind::Map("offer")), "What the instances of a cloud's fleet are made of"),
            ("price_per_hour", Kind::Amount("2.49"), "Of hosts and offers that do not say theirs"),
        ],
    },
    Shape {
        name: "fleet_nodes",
        called: &["a number of nodes"],
        required: &[],
        fields: &[
            ("min", Kind::Whole, "Never fewer"),
            ("target", Kind::Whole, "At first"),
            ("max", Kind::Whole, "Never more"),
        ],
    },
    Shape {
        name: "gpu_parts",
        called: &["parts of GPUs"],
        required: &[],
        fields: &[
            ("mig", Kind::Text, "A MIG profile such as 1g.10gb"),
            ("time_slices", Kind::Whole, "So many jobs share one GPU"),
        ],
    },
    Shape {
        name: "resources",
        called: &["resources"],
        required: &[],
        fields: &[
            ("cpu", CPUS, "CPUs; 2.. if not given"),
            ("memory", RANGE, "Memory; 8GB.. if not given"),
            ("shm_size", Kind::Text, "Says nothing here"),
            ("gpu", GPUS, "GPUs; 0.. if not given"),
            ("disk", DISK, "Disk; 100GB.. if not given"),
        ],
    },
    Shape {
        name: "cpu_range",
        called: &["CPUs"],
        required: &[],
        fields: &[
            ("arch", Kind::Words(|| vec!["x86", "amd64", "arm", "arm64"]), "Only such processors"),
            ("count", RANGE, "How many"),
        ],
    },
    Shape {
        name: "gpu_range",
        called: &["GPUs"],
        required: &[],
        fields: &[
            ("vendor", Kind::Text, "Whose"),
            ("name", Kind::Some(&Kind::Text), "As dstack names them: A100, or several"),
            ("count", RANGE, "How many; 1.. if not given"),
            ("memory", RANGE, "Of each"),
            ("total_memory", RANGE, "Of all together"),
            ("compute_capability", Kind::Amount("8.0"), "At least"),
        ],
    },
    Shape { name: "disk_range", called: &["a disk"], required: &["size"], fields: &[("size", RANGE, "How large")] },
    Shape {
        name: "range",
        called: &["a range"],
        required: &[],
        fields: &[("min", Kind::Text, "At least"), ("max", Kind::Text, "At most")],
    },
];
