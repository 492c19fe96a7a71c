//! The schema of each key. Editors suggest the keys in this order.

use super::demand::GANGS;
use super::deployment::{BACKENDS, CATEGORIES, STRATEGIES};
use super::expectation_words::HOLDING;
use super::faults::NODE_TURNS;
use super::machines::{ARCH_WORDS, OS_WORDS, VENDOR_WORDS};
use super::nodes::{GPU_STATES, NODE_STATES};
use super::schema_kueue::CHANGES;
use super::schema_shape::{Field, Kind, Shape};
use dryrack_catalog::models;
use dryrack_event::{Outcome, Phase, Reason};
use dryrack_expect::{EventName, Judgement};
use dryrack_fleet::InstanceState;
use dryrack_profile::profile_names;

pub(super) const TIME: Kind = Kind::Amount("90s, 1h30m or 250ms");
pub(super) const MEMORY: Kind = Kind::Amount("80GiB");
const BANDWIDTH: Kind = Kind::Amount("10Gbit/s or 1GiB/s");
const MODEL: Kind = Kind::Either(&[Kind::Offered(model_names), Kind::Map("model")]);
pub(super) const PERCENT: Kind = Kind::Amount("95%");
pub(super) const RATE: Kind = Kind::Amount("10/h");
pub(super) const NUMBER: Kind = Kind::Amount("0.8");
pub(super) const LENGTH: Kind = Kind::Either(&[TIME, Kind::Map("distribution")]);
pub(super) const BATCH: Kind = Kind::Either(&[Kind::Whole, Kind::Map("batch")]);
const INSTANT: Kind = Kind::Either(&[Kind::Text, Kind::Map("landmark")]);
const NODES: Kind = Kind::Either(&[Kind::Map("fleet"), Kind::ListOf(&NODE)]);
const NODE: Kind = Kind::Either(&[Kind::Map("fleet"), Kind::Map("node")]);
const DSTACK_FILE: Kind = Kind::Either(&[Kind::Text, Kind::Map("dstack_file")]);
const MANIFEST_FILE: Kind = Kind::Either(&[Kind::Text, Kind::Map("manifest_file")]);
const FLEET: Kind = Kind::Either(&[Kind::ListOf(&NODE), Kind::Map("instances")]);
const EXPECTATION: Kind = Kind::Either(&[Kind::Text, Kind::Map("expectation")]);
const OUTSIDE: Kind = Kind::Either(&[Kind::Text, Kind::Map("outside")]);
const TRACE: Kind = Kind::Either(&[Kind::Text, Kind::Map("trace")]);
const SEEDS: Kind = Kind::Either(&[Kind::Text, Kind::ListOf(&Kind::Whole)]);
const GPUS_OF_MACHINE: Kind = Kind::Either(&[Kind::Whole, Kind::ListOf(&GPU_GROUP)]);
const GPU_GROUP: Kind = Kind::Either(&[Kind::Text, Kind::Map("gpu_group")]);
const GPUS_OF_JOB: Kind = Kind::Either(&[Kind::Amount("2, 0.5 or 50%"), Kind::ListOf(&Kind::Text)]);
const FOREIGN: Kind = Kind::Either(&[Kind::Words(|| vec!["none"]), Kind::Map("foreign_use")]);
const COMPARED: Kind = Kind::Either(&[Kind::Amount("\">= 2\", or a state"), Kind::Offered(states)]);
const COUNT: Kind = Kind::Amount("2, or \"<= 2\"");
const BLOCK_COUNT: Kind = Kind::Either(&[Kind::Amount("\">= 2\""), Kind::Words(|| vec!["all"])]);
const REPLICAS: Kind = Kind::Either(&[Kind::Whole, Kind::Text, Kind::Map("replica_range")]);
pub(super) const REQUESTS: Kind = Kind::Either(&[Kind::Amount("20 or 0.5"), Kind::ListOf(&Kind::Map("requests"))]);
const TASKS: Kind = Kind::Either(&[Kind::Whole, Kind::ListOf(&Kind::Map("task_set"))]);
const TURNS: Kind = Kind::Words(|| both(NODE_TURNS.map(|(name, _)| name), GPU_STATES.map(|(name, _)| name)));

fn both(one: impl IntoIterator<Item = &'static str>, two: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
    let mut words: Vec<&str> = one.into_iter().chain(two).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// The states of jobs, nodes and GPUs, and the other states that an expectation can name.
fn states() -> Vec<&'static str> {
    let of_jobs = Phase::ALL.map(Phase::name).into_iter().chain(Outcome::ALL.map(Outcome::name)).chain(["placed"]);
    let instances = InstanceState::ALL.map(InstanceState::name).into_iter().chain([HOLDING]);
    let of_nodes = both(NODE_STATES.map(|(name, _)| name), instances);
    let of_hardware = both(of_nodes, GPU_STATES.map(|(name, _)| name));
    let judged = Judgement::ALL.map(|(_, name)| name).into_iter().chain(["given"]);
    both(of_jobs, both(of_hardware, judged))
}

/// The names of models: their short names and their names on the model hub.
fn model_names() -> Vec<&'static str> {
    models().iter().flat_map(|model| [model.short_name(), model.name]).collect()
}

fn words<W>(table: &'static [(&'static str, W)]) -> Vec<&'static str> {
    table.iter().map(|(name, _)| *name).collect()
}

fn reasons() -> Vec<&'static str> {
    Reason::ALL.iter().map(|reason| reason.name()).collect()
}

fn events() -> Vec<&'static str> {
    EventName::ALL.iter().map(|(_, name)| *name).collect()
}

/// The fields that nodes, machines in the file, hosts of a fleet and offers of a cloud share.
pub(super) const ALSO_OF_MACHINES: Field = ("", Kind::Also(MACHINE), "");
const MACHINE: &[Field] = &[
    ("machine", Kind::Text, "Machine of the catalog (`dryrack catalog machines`) or of `machines` in this file"),
    ("cpus", Kind::Amount("2, 0.5 or 500m"), "Number of CPU cores"),
    ("ram", MEMORY, "Host memory"),
    ("gpus", GPUS_OF_MACHINE, "Number of GPUs, or a list of groups of GPUs"),
    ("gpu", Kind::Text, "Type of all GPUs (`dryrack catalog gpus`)"),
    ("os", Kind::Words(|| OS_WORDS.map(|(name, _)| name).to_vec()), "Operating system"),
    ("arch", Kind::Words(|| ARCH_WORDS.map(|(name, _)| name).to_vec()), "CPU architecture"),
    ("driver", Kind::Text, "Version of the GPU driver"),
    ("runtime", Kind::Text, "Version of CUDA, ROCm or CANN that the driver supports"),
    ("labels", Kind::Named(&Kind::Text), "Labels, which jobs can ask for"),
    ("reserved", Kind::Map("reservation"), "Resources that jobs cannot use"),
    ("price_per_hour", Kind::Amount("2.49"), "Price per hour, in the currency of the file"),
    (
        "commitment",
        Kind::Map("commitment"),
        "Price of a node that is reserved for a term; it is due whether or not the node is used",
    ),
    ("purchase", Kind::Map("purchase"), "Price of a node that was bought; its electricity costs extra"),
    ("power", Kind::Map("power"), "Power draw, for the metric `energy`"),
    ("rack", Kind::Text, "Rack of the node; the nodes of a rack can fail together"),
    ("switch", Kind::Text, "Switch of the node; nodes at the same switch are close to each other"),
    ("islands", Kind::ListOf(&Kind::Whole), "Number of GPUs in each NVLink island, in the order of the GPU indexes"),
    ("restricted_cores_per_gpu", Kind::Whole, "Number of cores for each GPU that only jobs with this GPU can use"),
];

/// The additional fields of nodes and of the hosts of a fleet.
pub(super) const ALSO_OF_NODES: Field = ("", Kind::Also(PLACE), "");
const PLACE: &[Field] = &[
    ("name", Kind::Text, "Name of the node; with `count`, the prefix of the names"),
    ("count", Kind::Whole, "Number of identical nodes"),
    ("state", Kind::Words(|| NODE_STATES.map(|(name, _)| name).to_vec()), "State at the start; default: ready"),
    ("foreign", Kind::Named(&Kind::Map("foreign_use")), "Use by programs outside the cluster, for each GPU index"),
    ("cached", Kind::Some(&Kind::Text), "Models whose weights are already on the node"),
    ("bandwidth", BANDWIDTH, "Speed at which the node downloads weights"),
    (
        "gpu_states",
        Kind::Named(&Kind::Words(|| GPU_STATES.map(|(name, _)| name).to_vec())),
        "State at the start for each GPU index; default: ready",
    ),
];

/// Every kind of map that a scenario file has.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "scenario",
        called: &["a scenario file"],
        required: &["scenario"],
        fields: &[
            ("scenario", Kind::Text, "Title of the scenario: a sentence that must be true"),
            ("report", Kind::Text, "Bug report that the scenario repeats, such as gpustack#1548"),
            ("seed", Kind::Whole, "Seed of all random draws; default: 1"),
            ("seeds", SEEDS, "Seeds such as 1..100, both ends included; the expectations must hold for each seed"),
            ("profile", Kind::Offered(|| profile_names().collect()), "Scheduling profile, by name or path"),
            ("outside", OUTSIDE, "Scheduler in another process that decides in place of the profile"),
            ("policies", Kind::Map("policies"), "Changes to the policies of the profile"),
            ("slurm", Kind::Map("slurm"), "Configuration of the Slurm cluster; only under a Slurm profile"),
            ("sampling", Kind::Map("sampling"), "Sampling of the GPU usage of all jobs"),
            ("until", TIME, "Time at which the run stops; what happens at this time still counts"),
            (
                "warm_up",
                TIME,
                "Time before which nothing counts in metrics; jobs that were submitted before it do not count either",
            ),
            (
                "unplaced",
                Kind::Words(|| vec!["fail", "ignore"]),
                "Whether jobs that can never run or still wait at the end fail upper bounds on waiting times; \
                 default: fail",
            ),
            ("tags", Kind::Some(&Kind::Text), "Tags for `dryrack test --tag`"),
            (
                "include",
                Kind::Some(&Kind::Text),
                "Files whose nodes, jobs and other entries are added before those of this file",
            ),
            ("params", Kind::Named(&Kind::Any), "Parameters; `${name}` stands for the value"),
            ("matrix", Kind::Named(&Kind::Some(&Kind::Text)), "Values of parameters; each combination is a test"),
            ("dstack", Kind::ListOf(&DSTACK_FILE), "Files of dstack: runs, fleets and profiles"),
            (
                "files",
                Kind::Some(&MANIFEST_FILE),
                "Kubernetes manifests: files, folders, and patterns such as jobs/*.yaml",
            ),
            ("manifests", Kind::ListOf(&Kind::Any), "Kubernetes objects, as in a manifest"),
            ("kueue", Kind::Map("kueue"), "Queues and quotas of Kueue, which admits jobs before they are placed"),
            (
                "fleets",
                Kind::Named(&FLEET),
                "Fleets of instances, or named lists of nodes for `{fleet: name}` in `nodes`",
            ),
            ("machines", Kind::Named(&Kind::Map("machine")), "Machines that the catalog does not have"),
            ("currency", Kind::Text, "Name of the currency of all prices, such as EUR; amounts are never converted"),
            ("electricity", Kind::Map("electricity"), "Price and emissions of electricity, for nodes with `power`"),
            (
                "bandwidth",
                BANDWIDTH,
                "Speed at which nodes download the weights of models; if absent, the download takes no time",
            ),
            ("live", Kind::Map("live"), "CPU shares that stand in for the GPUs of nodes in a run on a real machine"),
            ("nodes", NODES, "Nodes of the cluster"),
            ("jobs", Kind::ListOf(&Kind::Map("job")), "Jobs that are submitted"),
            ("speed", Kind::Map("speed"), "How fast different GPUs do the same work"),
            ("trace", TRACE, "Recorded workload, by name (`dryrack trace list`)"),
            ("load", PERCENT, "Load in proportion to what random arrivals and the trace say"),
            ("growth", Kind::Amount("20%/month"), "Growth of this load, compounded: per day, week, month or year"),
            ("changes", CHANGES, "Changes of the number of replicas, and of queues of Kueue"),
            ("faults", Kind::ListOf(&Kind::Map("fault")), "Faults at stated times"),
            ("failures", Kind::ListOf(&Kind::Map("failure")), "Random or repeated failures"),
            ("expect", Kind::ListOf(&EXPECTATION), "Expectations that must hold"),
            (
                "reproduces",
                Kind::ListOf(&Kind::Map("reproduction")),
                "Profiles or programs under which the reported bug is visible",
            ),
        ],
    },
    Shape {
        name: "included",
        called: &["an included file"],
        required: &[],
        fields: &[
            ("include", Kind::Some(&Kind::Text), "Files that this file includes"),
            ("params", Kind::Named(&Kind::Any), "Parameters and their values; the including file can override them"),
            ("fleets", Kind::Named(&FLEET), "Fleets of instances, or named lists of nodes"),
            ("machines", Kind::Named(&Kind::Map("machine")), "Machines that the catalog does not have"),
            ("nodes", NODES, "Nodes of the cluster"),
            ("jobs", Kind::ListOf(&Kind::Map("job")), "Jobs that are submitted"),
            ("changes", CHANGES, "Changes of the number of replicas, and of queues of Kueue"),
            ("faults", Kind::ListOf(&Kind::Map("fault")), "Faults at stated times"),
            ("failures", Kind::ListOf(&Kind::Map("failure")), "Random or repeated failures"),
        ],
    },
    Shape {
        name: "fleet",
        called: &["a fleet by name"],
        required: &["fleet"],
        fields: &[("fleet", Kind::Some(&Kind::Text), "Name or names of fleets in `fleets`")],
    },
    Shape { name: "machine", called: &["a machine"], required: &[], fields: &[ALSO_OF_MACHINES] },
    Shape { name: "node", called: &["a node"], required: &["name"], fields: &[ALSO_OF_NODES, ALSO_OF_MACHINES] },
    Shape {
        name: "gpu_group",
        called: &["a group of GPUs"],
        required: &["type"],
        fields: &[
            ("type", Kind::Text, "GPU type of the catalog, or with `memory` a type of this file"),
            ("count", Kind::Whole, "Number of GPUs; default: 1"),
            ("memory", MEMORY, "Memory of each GPU"),
            ("vendor", Kind::Words(|| VENDOR_WORDS.map(|(name, _)| name).to_vec()), "Vendor of the GPUs"),
            ("unified", Kind::Flag, "Whether the GPU memory is a part of the RAM"),
            ("compute_capability", NUMBER, "Compute capability of an NVIDIA GPU, such as 8.9"),
            ("architecture", Kind::Text, "GPU architecture, such as Hopper or gfx1101"),
        ],
    },
    Shape {
        name: "reservation",
        called: &["a reservation"],
        required: &[],
        fields: &[
            ("cpu", Kind::Amount("500m"), "Number of CPU cores"),
            ("ram", MEMORY, "Host memory"),
            ("gpu_memory", MEMORY, "Memory of each GPU"),
        ],
    },
    Shape {
        name: "power",
        called: &["a power"],
        required: &["idle", "busy"],
        fields: &[
            ("idle", Kind::Amount("350W"), "Power draw when idle"),
            (
                "busy",
                Kind::Amount("6.5kW"),
                "Power draw with all GPUs busy; on a node without GPUs, with all cores allocated",
            ),
        ],
    },
    Shape {
        name: "foreign_use",
        called: &["foreign use"],
        required: &[],
        fields: &[
            ("memory", MEMORY, "GPU memory that others hold"),
            ("share", Kind::Amount("80%"), "Part of the GPU that others use"),
        ],
    },
    Shape {
        name: "job",
        called: &["a job"],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Name of the job; with `count`, the prefix of the names"),
            ("at", TIME, "Submission time; default: 0s"),
            (
                "after",
                Kind::Map("dependencies"),
                "Other jobs that must have started or ended before this job can start",
            ),
            (
                "array",
                Kind::Amount("1-10%3"),
                "Task numbers of a job array and, after %, how many tasks run at a time (Slurm's --array)",
            ),
            ("count", Kind::Whole, "Number of identical jobs"),
            ("every", TIME, "Time between the submissions of these jobs"),
            ("arrivals", Kind::Map("arrivals"), "Random submission times"),
            ("until", TIME, "Time after which no job is submitted"),
            ("duration", LENGTH, "Duration on the reference GPU; default: the job runs until it is stopped"),
            ("speed", Kind::Map("speed"), "Speeds of GPUs for this job, which override those of the file"),
            ("ends", Kind::Words(|| vec!["completed", "failed"]), "Outcome of a job that ends by itself"),
            ("cancel_at", TIME, "Time at which the user cancels the job"),
            ("master_duration", TIME, "Duration of the master of a run of several nodes; default: that of its workers"),
            ("prepare", LENGTH, "Time for downloads and other preparation"),
            ("analysis", Kind::Text, "Time for the analysis before placement, `never` (it hangs) or `fails`"),
            ("failing_starts", Kind::Whole, "Number of starts that fail first"),
            ("stop", LENGTH, "Time that stopping takes"),
            ("stop_duration", Kind::Amount("5m or off"), "Time after which a job that is still stopping is killed"),
            ("checkpoint", Kind::Map("checkpoint"), "Checkpoints, from which a stopped or lost job continues"),
            ("rendezvous", Kind::Flag, "Whether no task works before all tasks run, as in distributed training"),
            (
                "command",
                Kind::Some(&Kind::Text),
                "Command that `dryrack live` runs: a list of words, or a line for /bin/sh",
            ),
            ("env", Kind::Named(&Kind::Text), "Environment variables of the command"),
            ("priority", Kind::Whole, "Priority; a larger number goes first if the profile uses priorities"),
            ("queue", Kind::Text, "Name of the queue; with Kueue, of the LocalQueue"),
            ("topology", Kind::Map("job_topology"), "Topology that Kueue observes for the pods of the job"),
            ("user", Kind::Text, "Name of the user"),
            ("project", Kind::Text, "Project whose quota (`policies.quotas`) the job counts against"),
            ("partition", Kind::Text, "Partition of the Slurm cluster (`slurm.partitions`), or several: `a,b`"),
            ("account", Kind::Text, "Account in the Slurm cluster"),
            ("qos", Kind::Text, "QOS in the Slurm cluster (`slurm.qos`); default: `normal`, if it exists"),
            ("reservation", Kind::Text, "Advance reservation in which the job runs (`slurm.reservations`)"),
            (
                "requeue",
                Kind::Flag,
                "Whether the job waits again after a preemption or a failure of its node; only under a Slurm profile",
            ),
            ("nice", Kind::Whole, "Number that is subtracted from the priority; only under a Slurm profile"),
            ("estimate", TIME, "Duration that the user estimates; default under a Slurm profile: time_limit"),
            ("time_limit", TIME, "Time after which the job is ended"),
            (
                "restart",
                Kind::Words(|| vec!["never", "on_failure", "always"]),
                "Whether the job is restarted after it ends",
            ),
            ("retry", Kind::Map("retry"), "Number of retries and pauses between attempts"),
            ("replicas", REPLICAS, "Number of replicas; for a service that scales, a range such as 1..4"),
            ("scaling", Kind::Map("scaling"), "Rule by which a service scales"),
            ("requests", REQUESTS, "Requests per second to the service"),
            ("serving", Kind::Map("serving"), "Serving of a language model: requests, and how replicas serve them"),
            (
                "unselectable",
                Kind::Words(|| vec!["wait", "refuse"]),
                "Whether a job waits or is refused if the nodes or GPUs picked by hand cannot be selected at \
                 submission",
            ),
            (
                "startup_order",
                Kind::Words(|| vec!["any", "master_first", "workers_first"]),
                "Nodes of a run that begin first; only under profiles with dstack's runs",
            ),
            (
                "stop_criteria",
                Kind::Words(|| vec!["all_done", "master_done"]),
                "Condition under which a run of several nodes is done; only under profiles with dstack's runs",
            ),
            (
                "idle_duration",
                Kind::Amount("10m or off"),
                "Time after which an idle instance that was created for this job is terminated",
            ),
            (
                "usage",
                super::schema_usage::USAGE,
                "GPU usage while the job runs, for all GPUs or one entry for each GPU",
            ),
            ("sampling", Kind::Map("sampling"), "Sampling of the GPU usage"),
            (
                "utilization_policy",
                Kind::Map("utilization_policy"),
                "Changes to the utilization policy of the profile for this job",
            ),
            ("tasks", TASKS, "Number of tasks, each with the resources below, or a list of unequal tasks"),
            ("min_tasks", Kind::Whole, "Least number of tasks with which the gang starts if not all of them fit"),
            ("nodes", Kind::Whole, "Number of tasks, each on a separate node"),
            ("gang", Kind::Words(|| words(&GANGS)), "Placement of the tasks relative to each other"),
            (
                "gpus",
                GPUS_OF_JOB,
                "Number of GPUs, a part of one GPU, or a list of exact GPUs such as [alpha/0, beta/0]",
            ),
            ("gpu", Kind::Some(&Kind::Text), "Accepted GPU types"),
            ("gpu_memory", MEMORY, "Memory that the job takes of each GPU"),
            ("min_gpu_memory", MEMORY, "Least memory of an accepted GPU"),
            ("cpus", Kind::Amount("2, 0.5 or 500m"), "Number of CPU cores"),
            ("ram", MEMORY, "Host memory"),
            ("labels", Kind::Named(&Kind::Text), "Labels that the node must have"),
            ("os", Kind::Words(|| OS_WORDS.map(|(name, _)| name).to_vec()), "Operating system that the node must have"),
            (
                "arch",
                Kind::Words(|| ARCH_WORDS.map(|(name, _)| name).to_vec()),
                "CPU architecture that the node must have",
            ),
            ("on", Kind::Some(&Kind::Text), "Nodes picked by hand"),
            ("pick_gpus", Kind::ListOf(&Kind::Text), "GPUs picked by hand, from which the scheduler chooses"),
            ("resources", Kind::Map("resources"), "Resources of each node of the run, in dstack's syntax"),
            ("max_price", Kind::Amount("2.49"), "Highest price per hour of an instance"),
            (
                "spot_policy",
                Kind::Words(|| vec!["spot", "on-demand", "auto"]),
                "Kind of instances: spot, on-demand or either",
            ),
            ("backends", Kind::Some(&Kind::Text), "Accepted backends of instances"),
            ("regions", Kind::Some(&Kind::Text), "Accepted regions of instances"),
            ("fleets", Kind::Some(&Kind::Text), "Accepted fleets of instances"),
            (
                "creation_policy",
                Kind::Words(|| vec!["reuse", "reuse-or-create"]),
                "Whether instances may be created for the job",
            ),
            ("model", MODEL, "Model to be served: a name of the catalog (`dryrack catalog models`) or its figures"),
            ("backend", Kind::Words(|| words(&BACKENDS)), "Backend that serves the model; default: vllm"),
            ("placement", Kind::Words(|| words(&STRATEGIES)), "Placement of replicas; default: spread"),
            (
                "distributed",
                Kind::Flag,
                "Whether a replica may span several nodes; default: only if GPUs of several nodes were picked",
            ),
            ("selector", Kind::Named(&Kind::Text), "Labels that the node must have"),
            ("gpus_per_replica", Kind::Whole, "Number of the picked GPUs for each replica; default: all"),
            ("parameters", Kind::ListOf(&Kind::Text), "Parameters of the backend, such as --tensor-parallel-size=4"),
            ("environment", Kind::Named(&Kind::Text), "Environment variables of the backend"),
        ],
    },
    Shape {
        name: "task_set",
        called: &["tasks of a gang"],
        required: &[],
        fields: &[
            ("name", Kind::Text, "Name of this kind of task, such as launcher or worker"),
            ("tasks", Kind::Whole, "Number of identical tasks; default: 1"),
            ("min_tasks", Kind::Whole, "Least number of these tasks with which the gang starts; default: all"),
            ("gpus", GPUS_OF_JOB, "Number of GPUs of each task, or a part of one GPU"),
            ("gpu", Kind::Some(&Kind::Text), "Accepted GPU types"),
            ("gpu_memory", MEMORY, "Memory that a task takes of each GPU"),
            ("min_gpu_memory", MEMORY, "Least memory of an accepted GPU"),
            ("cpus", Kind::Amount("2, 0.5 or 500m"), "Number of CPU cores"),
            ("ram", MEMORY, "Host memory"),
            ("labels", Kind::Named(&Kind::Text), "Labels that the node must have"),
            ("os", Kind::Words(|| OS_WORDS.map(|(name, _)| name).to_vec()), "Operating system"),
            ("arch", Kind::Words(|| ARCH_WORDS.map(|(name, _)| name).to_vec()), "CPU architecture"),
        ],
    },
    Shape {
        name: "dependencies",
        called: &["dependencies"],
        required: &[],
        fields: &[
            ("ok", Kind::Some(&Kind::Text), "Jobs that must have completed, by name or pattern (Slurm's afterok)"),
            ("any", Kind::Some(&Kind::Text), "Jobs that must have ended in any way (Slurm's afterany)"),
            ("notok", Kind::Some(&Kind::Text), "Jobs that must have ended without completing (Slurm's afternotok)"),
            (
                "start",
                Kind::Some(&Kind::Text),
                "Jobs that must have started, or ended without starting (Slurm's after)",
            ),
            (
                "corr",
                Kind::Some(&Kind::Text),
                "Arrays whose task with the same number must have completed (Slurm's aftercorr)",
            ),
            (
                "singleton",
                Kind::Flag,
                "Whether all earlier jobs of this entry and user must have ended (Slurm's singleton)",
            ),
        ],
    },
    Shape {
        name: "live",
        called: &["a live run"],
        required: &[],
        fields: &[
            (
                "accelerators",
                Kind::Named(&Kind::ListOf(&Kind::Map("cpu_share"))),
                "For each node, a list of CPU shares that stand in for its GPUs",
            ),
            ("oversubscribe", Kind::Amount("150%"), "Largest total of the shares of a core; default: 100%"),
        ],
    },
    Shape {
        name: "cpu_share",
        called: &["a CPU share"],
        required: &["cores"],
        fields: &[
            ("cores", Kind::Some(&Kind::Whole), "Indexes, from 0, of the cores that dryrack can use"),
            (
                "cpu",
                Kind::Amount("1 or 500m"),
                "Amount of CPU that counts as 100% utilization; default: all of its cores",
            ),
        ],
    },
    Shape {
        name: "model",
        called: &["a model"],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Name of the model; a catalog name supplies all figures that are not given"),
            ("category", Kind::Some(&Kind::Words(|| words(&CATEGORIES))), "Category of the model; default: llm"),
            ("architecture", Kind::Text, "First entry of `architectures` in the model's config"),
            ("weights", MEMORY, "Total size of the weight files"),
            ("heads", Kind::Whole, "Number of attention heads"),
            ("vision_heads", Kind::Whole, "Number of attention heads of the vision part"),
            ("vocabulary", Kind::Whole, "Number of tokens in the vocabulary"),
            ("quantization", Kind::Text, "Quantization of the weights, such as fp8, awq or gptq"),
            ("gguf", Kind::Map("gguf"), "Memory that the GGUF file takes under llama-box"),
        ],
    },
    Shape {
        name: "gguf",
        called: &["an estimate of a GGUF file"],
        required: &["layers", "layer_memory", "fixed_memory", "ram_offloaded", "ram_unoffloaded"],
        fields: &[
            ("layers", Kind::Whole, "Number of layers that GPUs can hold"),
            ("layer_memory", MEMORY, "GPU memory of each layer"),
            ("fixed_memory", MEMORY, "Additional GPU memory on each GPU in use"),
            ("ram_offloaded", MEMORY, "RAM if all layers are on GPUs"),
            ("ram_unoffloaded", MEMORY, "RAM if no layer is on a GPU"),
        ],
    },
    Shape {
        name: "retry",
        called: &["a retry policy"],
        required: &[],
        fields: &[
            ("limit", Kind::Amount("3 or none"), "Most retries"),
            ("first", TIME, "First pause"),
            ("factor", Kind::Amount("200%"), "Factor by which pauses grow"),
            ("max", TIME, "Longest pause"),
            (
                "on",
                Kind::Some(&Kind::Words(|| vec!["no_capacity", "interruption", "error"])),
                "Events after which all nodes of the run are tried again; only under profiles with dstack's runs",
            ),
            ("for", TIME, "Time during which the run is tried again"),
        ],
    },
    Shape {
        name: "checkpoint",
        called: &["a checkpoint"],
        required: &[],
        fields: &[
            (
                "every",
                TIME,
                "Work between two checkpoints; if absent, the only checkpoint is made when the job is told to stop",
            ),
            ("restart", TIME, "Time to restart from a checkpoint"),
        ],
    },
    Shape {
        name: "fault",
        called: &["a fault"],
        required: &["at", "node"],
        fields: &[
            ("at", TIME, "Time of the fault"),
            ("node", Kind::Some(&Kind::Text), "Node such as alpha, GPU such as alpha/0, or a pattern"),
            ("becomes", TURNS, "New state"),
            ("foreign", FOREIGN, "Use of the GPU by others from then on"),
        ],
    },
    Shape {
        name: "failure",
        called: &["a failure"],
        required: &[],
        fields: &[
            ("name", Kind::Text, "Name for overrides such as `--set failures.NAME.active=false`"),
            ("active", Kind::Flag, "Whether these failures happen; default: true"),
            ("nodes", Kind::Some(&Kind::Text), "Nodes that fail"),
            ("gpus", Kind::Some(&Kind::Text), "GPUs that fail"),
            ("racks", Kind::Some(&Kind::Text), "Racks whose nodes fail together"),
            ("flapping", Kind::Some(&Kind::Text), "Nodes that go down and come back at regular intervals"),
            ("starts", Kind::Some(&Kind::Text), "Jobs whose starts fail or are slow"),
            ("analyses", Kind::Some(&Kind::Text), "Jobs whose analyses fail, hang or are slow"),
            ("acks", Kind::Some(&Kind::Text), "Jobs whose acknowledgements are lost, late or repeated"),
            ("time_to_failure", LENGTH, "Time until a failure"),
            ("repair", LENGTH, "Time until it works again"),
            ("becomes", TURNS, "State during the failure"),
            ("from", TIME, "Time before which nothing fails"),
            ("until", TIME, "Time after which nothing fails"),
            ("every", TIME, "Time from one failure to the next"),
            ("down", TIME, "Length of each failure"),
            ("fail", PERCENT, "Probability of a failure"),
            ("hang", PERCENT, "Probability of a hang"),
            ("slow", PERCENT, "Probability of slowness"),
            ("slow_by", LENGTH, "Delay if it is slow"),
            ("lost", PERCENT, "Probability that an acknowledgement is lost"),
            ("late", PERCENT, "Probability that an acknowledgement is late"),
            ("repeated", PERCENT, "Probability that an acknowledgement is repeated"),
            ("late_by", LENGTH, "Delay of late and repeated acknowledgements"),
        ],
    },
    Shape {
        name: "expectation",
        called: &[
            "an expectation",
            "an expectation on a count",
            "an expectation on a reason",
            "an expectation on a preemption",
            "an evaluation",
            "an expectation on a metric",
        ],
        required: &[],
        fields: &[
            ("name", Kind::Text, "Name in reports"),
            ("job", Kind::Text, "Jobs by name or pattern"),
            ("node", Kind::Text, "Nodes by name or pattern"),
            ("gpu", Kind::Text, "GPUs by name or pattern, such as alpha/0"),
            ("is", COMPARED, "State that must be reached, or the expected number"),
            ("never", Kind::Offered(states), "State that must not occur at any time"),
            ("always", Kind::Offered(states), "State that must hold at all times"),
            ("on", Kind::Text, "Node on which the job has a claim"),
            ("blocks", BLOCK_COUNT, "Number of blocks of the node in `on`"),
            ("because", Kind::Offered(reasons), "Reason that must be given"),
            (
                "replicas",
                COUNT,
                "Least number of replicas; with `is: holding`, an exact number or a bound such as \"<= 2\"",
            ),
            ("count", Kind::Words(events), "Name of the events to count"),
            ("reason", Kind::Offered(reasons), "Reason that must or must not be given"),
            ("evaluate", Kind::Text, "Job to evaluate before its deployment"),
            ("metric", Kind::Text, "Metric and bound, such as p95(queue_wait) <= 10m"),
            ("of", Kind::Text, "Jobs that the metric covers; with `is: holding`, jobs whose replicas count"),
            ("preempted_by", Kind::Text, "Jobs for which others were preempted, by name or pattern"),
            ("in", Kind::Text, "Share of the seeds for which it must hold, such as \">= 95%\""),
            ("at", TIME, "At exactly this time"),
            ("by", TIME, "At or before this time"),
            ("until", TIME, "Before this time"),
            ("before", INSTANT, "Before this time, or before another job or state"),
            ("after", INSTANT, "From this time on, or from another job or state on"),
            ("within", TIME, "Within this time after the job's submission"),
            ("from", TIME, "With `for`: start of the period"),
            (
                "for",
                Kind::Text,
                "With `from`: length of the period; with `count`: `cancelled` counts only cancelled jobs",
            ),
        ],
    },
    Shape {
        name: "landmark",
        called: &["another's state"],
        required: &["is"],
        fields: &[
            ("job", Kind::Text, "A job"),
            ("node", Kind::Text, "A node"),
            ("gpu", Kind::Text, "A GPU"),
            ("is", Kind::Offered(states), "State that is reached"),
            ("on", Kind::Text, "Node on which the job has a claim"),
            ("because", Kind::Offered(reasons), "Reason that must be given"),
        ],
    },
    Shape {
        name: "reproduction",
        called: &["a reproduction"],
        required: &[],
        fields: &[
            ("profile", Kind::Offered(|| profile_names().collect()), "Profile that has the bug"),
            ("outside", Kind::Text, "Released program that has the bug, such as gpustack==2.3.0; excludes `profile`"),
            ("fails", Kind::Some(&Kind::Text), "Expectations that fail under it"),
            ("and", Kind::ListOf(&EXPECTATION), "Witnesses: expectations that hold under it, as in the report"),
        ],
    },
];
