//! The schema of each key. Editors suggest the keys in this order.

use super::demand::GANGS;
use super::deployment::{BACKENDS, CATEGORIES, STRATEGIES};
use super::expectations::HOLDING;
use super::faults::NODE_TURNS;
use super::machines::{ARCH_WORDS, OS_WORDS, VENDOR_WORDS};
use super::nodes::{GPU_STATES, NODE_STATES};
use super::schema::{Field, Kind, Shape};
use super::trace_source::formats;
use dryrack_catalog::models;
use dryrack_event::{Outcome, Phase, Reason};
use dryrack_expect::{EventName, Judgement};
use dryrack_fleet::InstanceState;
use dryrack_profile::profile_names;

const TIME: Kind = Kind::Amount("90s, 1h30m or 250ms");
pub(super) const MEMORY: Kind = Kind::Amount("80GiB");
const BANDWIDTH: Kind = Kind::Amount("10Gbit/s or 1GiB/s");
const MODEL: Kind = Kind::Either(&[Kind::Offered(model_names), Kind::Map("model")]);
const PERCENT: Kind = Kind::Amount("95%");
const RATE: Kind = Kind::Amount("10/h");
const NUMBER: Kind = Kind::Amount("0.8");
pub(super) const LENGTH: Kind = Kind::Either(&[TIME, Kind::Map("distribution")]);
const BATCH: Kind = Kind::Either(&[Kind::Whole, Kind::Map("batch")]);
const INSTANT: Kind = Kind::Either(&[Kind::Text, Kind::Map("landmark")]);
const NODES: Kind = Kind::Either(&[Kind::Map("fleet"), Kind::ListOf(&NODE)]);
const NODE: Kind = Kind::Either(&[Kind::Map("fleet"), Kind::Map("node")]);
const DSTACK_FILE: Kind = Kind::Either(&[Kind::Text, Kind::Map("dstack_file")]);
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
    ("machine", Kind::Text, "A machine of the catalog (`dryrack catalog machines`), or of this file's `machines`"),
    ("cpus", Kind::Amount("2, 0.5 or 500m"), "Cores"),
    ("ram", MEMORY, "Memory of the host"),
    ("gpus", GPUS_OF_MACHINE, "How many GPUs, or a list of groups of them"),
    ("gpu", Kind::Text, "The type of all of them (`dryrack catalog gpus`)"),
    ("os", Kind::Words(|| OS_WORDS.map(|(name, _)| name).to_vec()), "Operating system"),
    ("arch", Kind::Words(|| ARCH_WORDS.map(|(name, _)| name).to_vec()), "CPU architecture"),
    ("driver", Kind::Text, "Version of the GPU driver"),
    ("runtime", Kind::Text, "Version of CUDA, ROCm or CANN that the driver runs"),
    ("labels", Kind::Named(&Kind::Text), "What jobs can ask for"),
    ("reserved", Kind::Map("reservation"), "What is kept from jobs"),
    ("price_per_hour", Kind::Amount("2.49"), "In whatever currency the file is in"),
    ("power", Kind::Map("power"), "What it draws, for the metric `energy`"),
    ("rack", Kind::Text, "What fails together"),
    ("switch", Kind::Text, "What is near together"),
    ("islands", Kind::ListOf(&Kind::Whole), "How many GPUs each NVLink island has, in the order of their indexes"),
    ("restricted_cores_per_gpu", Kind::Whole, "Cores for each GPU that only a job with this GPU may use"),
];

/// The additional fields of nodes and of the hosts of a fleet.
pub(super) const ALSO_OF_NODES: Field = ("", Kind::Also(PLACE), "");
const PLACE: &[Field] = &[
    ("name", Kind::Text, "Of the node, or with `count` the beginning of the names"),
    ("count", Kind::Whole, "So many that are alike"),
    ("state", Kind::Words(|| NODE_STATES.map(|(name, _)| name).to_vec()), "At the beginning; ready if not given"),
    ("foreign", Kind::Named(&Kind::Map("foreign_use")), "What others hold of each GPU, from its index"),
    ("cached", Kind::Some(&Kind::Text), "Models whose weights lie there already"),
    ("bandwidth", BANDWIDTH, "How fast it gets the weights of others"),
    (
        "gpu_states",
        Kind::Named(&Kind::Words(|| GPU_STATES.map(|(name, _)| name).to_vec())),
        "Of GPUs that do not begin as ready, from their index",
    ),
];

/// Every kind of map that a scenario file has.
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        name: "scenario",
        called: &["a scenario file"],
        required: &["scenario"],
        fields: &[
            ("scenario", Kind::Text, "A sentence that says what must be so"),
            ("report", Kind::Text, "The report that is repeated, such as gpustack#1548"),
            ("seed", Kind::Whole, "The seed of every draw; 1 if not given"),
            ("seeds", SEEDS, "Seeds such as 1..100, both included: what is expected must hold for each of them"),
            ("profile", Kind::Offered(|| profile_names().collect()), "The scheduling profile, by name or path"),
            ("outside", OUTSIDE, "A scheduler in another process that decides in place of the profile"),
            ("policies", Kind::Map("policies"), "What is otherwise than in the profile's policies"),
            ("slurm", Kind::Map("slurm"), "The configuration of the Slurm cluster, under a profile of Slurm"),
            ("sampling", Kind::Map("sampling"), "How samples of GPU usage are taken of all jobs"),
            ("until", TIME, "The run stops before the first instant after this"),
            ("warm_up", TIME, "No metric counts what was before this, nor jobs that came before it"),
            (
                "unplaced",
                Kind::Words(|| vec!["fail", "ignore"]),
                "Whether jobs that can never run, or still wait at the end, fail upper bounds on waiting: `fail` if not given",
            ),
            ("tags", Kind::Some(&Kind::Text), "For `dryrack test --tag`"),
            ("include", Kind::Some(&Kind::Text), "Files whose nodes, jobs and the like come before those of this one"),
            ("params", Kind::Named(&Kind::Any), "What `${name}` stands for"),
            ("matrix", Kind::Named(&Kind::Some(&Kind::Text)), "A test for each combination of these values"),
            ("dstack", Kind::ListOf(&DSTACK_FILE), "dstack's own files: runs, fleets and profiles"),
            (
                "fleets",
                Kind::Named(&FLEET),
                "Fleets of instances, or lists of nodes under a name, for `{fleet: name}` in `nodes`",
            ),
            ("machines", Kind::Named(&Kind::Map("machine")), "Machines that the catalog does not have"),
            ("bandwidth", BANDWIDTH, "How fast nodes get the weights of models; no time if not given"),
            ("live", Kind::Map("live"), "What stands for the accelerators of nodes in a run on a real machine"),
            ("nodes", NODES, "What there is"),
            ("jobs", Kind::ListOf(&Kind::Map("job")), "What is asked of it"),
            ("trace", TRACE, "A recorded workload by name (`dryrack trace list`)"),
            ("changes", Kind::ListOf(&Kind::Map("change")), "What is asked otherwise later"),
            ("faults", Kind::ListOf(&Kind::Map("fault")), "What goes wrong, and right again"),
            ("failures", Kind::ListOf(&Kind::Map("failure")), "What fails by chance, or over and over"),
            ("expect", Kind::ListOf(&EXPECTATION), "What must be so"),
            (
                "reproduces",
                Kind::ListOf(&Kind::Map("reproduction")),
                "Under which profile or program the report is visible again",
            ),
        ],
    },
    Shape {
        name: "included",
        called: &["an included file"],
        required: &[],
        fields: &[
            ("include", Kind::Some(&Kind::Text), "Files that this one includes"),
            (
                "params",
                Kind::Named(&Kind::Any),
                "What `${name}` stands for, if the file that includes this does not say",
            ),
            ("fleets", Kind::Named(&FLEET), "Fleets of instances, or lists of nodes under a name"),
            ("machines", Kind::Named(&Kind::Map("machine")), "Machines that the catalog does not have"),
            ("nodes", NODES, "What there is"),
            ("jobs", Kind::ListOf(&Kind::Map("job")), "What is asked of it"),
            ("changes", Kind::ListOf(&Kind::Map("change")), "What is asked otherwise later"),
            ("faults", Kind::ListOf(&Kind::Map("fault")), "What goes wrong, and right again"),
            ("failures", Kind::ListOf(&Kind::Map("failure")), "What fails by chance, or over and over"),
        ],
    },
    Shape {
        name: "fleet",
        called: &["a fleet by name"],
        required: &["fleet"],
        fields: &[("fleet", Kind::Some(&Kind::Text), "Fleets of `fleets`")],
    },
    Shape { name: "machine", called: &["a machine"], required: &[], fields: &[ALSO_OF_MACHINES] },
    Shape { name: "node", called: &["a node"], required: &["name"], fields: &[ALSO_OF_NODES, ALSO_OF_MACHINES] },
    Shape {
        name: "gpu_group",
        called: &["a group of GPUs"],
        required: &["type"],
        fields: &[
            ("type", Kind::Text, "A type of the catalog, or with `memory` one of the file's own"),
            ("count", Kind::Whole, "How many; 1 if not given"),
            ("memory", MEMORY, "Of each"),
            ("vendor", Kind::Words(|| VENDOR_WORDS.map(|(name, _)| name).to_vec()), "Who made it"),
            ("unified", Kind::Flag, "Its memory is a part of RAM"),
            ("compute_capability", NUMBER, "Of NVIDIA, such as 8.9"),
            ("architecture", Kind::Text, "Such as Hopper, or gfx1101"),
        ],
    },
    Shape {
        name: "reservation",
        called: &["a reservation"],
        required: &[],
        fields: &[
            ("cpu", Kind::Amount("500m"), "Cores"),
            ("ram", MEMORY, "Memory of the host"),
            ("gpu_memory", MEMORY, "Of each GPU"),
        ],
    },
    Shape {
        name: "power",
        called: &["a power"],
        required: &["idle", "busy"],
        fields: &[
            ("idle", Kind::Amount("350W"), "At rest"),
            ("busy", Kind::Amount("6.5kW"), "With all of its GPUs at work; without GPUs, with all of its CPU taken"),
        ],
    },
    Shape {
        name: "foreign_use",
        called: &["foreign use"],
        required: &[],
        fields: &[("memory", MEMORY, "What others hold"), ("share", Kind::Amount("80%"), "What others use")],
    },
    Shape {
        name: "job",
        called: &["a job"],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Of the job, or with `count` the beginning of the names"),
            ("at", TIME, "When it comes; 0s if not given"),
            ("after", Kind::Map("dependencies"), "What must have become of other jobs before it may start"),
            (
                "array",
                Kind::Amount("1-10%3"),
                "The tasks of a job array, and after % how many run at a time (Slurm's --array)",
            ),
            ("count", Kind::Whole, "So many that are alike"),
            ("every", TIME, "Between those"),
            ("arrivals", Kind::Map("arrivals"), "When they come, drawn"),
            ("until", TIME, "None comes after this"),
            ("duration", LENGTH, "How long it runs; for ever if not given"),
            ("ends", Kind::Words(|| vec!["completed", "failed"]), "How it ends by itself"),
            ("cancel_at", TIME, "When its user gives it up"),
            (
                "master_duration",
                TIME,
                "Of a run of several nodes: how long its master runs, if not as long as its workers",
            ),
            ("prepare", LENGTH, "How long a download or the like takes"),
            ("analysis", Kind::Text, "How long it is analysed before it is placed, `never` (it hangs) or `fails`"),
            ("failing_starts", Kind::Whole, "So many starts fail first"),
            ("stop", LENGTH, "How long stopping takes"),
            ("stop_duration", Kind::Amount("5m or off"), "Then it is killed, if it has not stopped by itself"),
            ("checkpoint", Kind::Map("checkpoint"), "What of its work outlives a run that is stopped or lost"),
            ("command", Kind::Some(&Kind::Text), "What `dryrack live` runs: words, or a line for /bin/sh"),
            ("env", Kind::Named(&Kind::Text), "Variables of the command"),
            ("priority", Kind::Whole, "The larger goes first, where the profile looks at it"),
            ("queue", Kind::Text, "Name of its queue"),
            ("user", Kind::Text, "Whose it is"),
            ("project", Kind::Text, "Whose quota (`policies.quotas`) it counts against"),
            ("partition", Kind::Text, "Its partition of the Slurm cluster (`slurm.partitions`)"),
            ("account", Kind::Text, "Its account in the Slurm cluster"),
            ("qos", Kind::Text, "Its QOS in the Slurm cluster (`slurm.qos`); `normal` if there is one"),
            ("reservation", Kind::Text, "The advance reservation that it runs in (`slurm.reservations`)"),
            ("nice", Kind::Whole, "What is taken off its priority, under a profile of Slurm"),
            ("estimate", TIME, "What its user says it will take"),
            ("time_limit", TIME, "It is ended after so long"),
            ("restart", Kind::Words(|| vec!["never", "on_failure", "always"]), "What happens when it ends"),
            ("retry", Kind::Map("retry"), "Pauses between attempts"),
            ("replicas", REPLICAS, "So many runs at a time; a range such as 1..4 of a service that scales"),
            ("scaling", Kind::Map("scaling"), "What the replicas of a service go by"),
            ("requests", REQUESTS, "That come to it, per second"),
            (
                "unselectable",
                Kind::Words(|| vec!["wait", "refuse"]),
                "What becomes of a pick that is not selectable when it comes",
            ),
            (
                "startup_order",
                Kind::Words(|| vec!["any", "master_first", "workers_first"]),
                "Which nodes of a run begin first, where the profile has runs",
            ),
            (
                "stop_criteria",
                Kind::Words(|| vec!["all_done", "master_done"]),
                "When a run of several nodes is done, where the profile has runs",
            ),
            ("idle_duration", Kind::Amount("10m or off"), "Of an instance that is made for it"),
            ("usage", super::schema_usage::USAGE, "What its GPUs do while it runs, or one entry for each of them"),
            ("sampling", Kind::Map("sampling"), "How samples of its GPU usage are taken"),
            ("utilization_policy", Kind::Map("utilization_policy"), "What is said over the profile's policy"),
            ("tasks", TASKS, "So many parts, each with what follows, or a list of unequal ones"),
            ("min_tasks", Kind::Whole, "It starts with fewer tasks, but at least so many, if not all fit"),
            ("nodes", Kind::Whole, "So many parts, each on a node of its own"),
            ("gang", Kind::Words(|| words(&GANGS)), "How the tasks lie"),
            ("gpus", GPUS_OF_JOB, "How many GPUs, a part of one, or exactly these: [alpha/0, beta/0]"),
            ("gpu", Kind::Some(&Kind::Text), "Types that will do"),
            ("gpu_memory", MEMORY, "So much of each GPU"),
            ("min_gpu_memory", MEMORY, "Only GPUs with so much"),
            ("cpus", Kind::Amount("2, 0.5 or 500m"), "Cores"),
            ("ram", MEMORY, "Memory of the host"),
            ("labels", Kind::Named(&Kind::Text), "Only nodes with these"),
            ("os", Kind::Words(|| OS_WORDS.map(|(name, _)| name).to_vec()), "Only nodes with this"),
            ("arch", Kind::Words(|| ARCH_WORDS.map(|(name, _)| name).to_vec()), "Only nodes with this"),
            ("on", Kind::Some(&Kind::Text), "Only these nodes, picked by hand"),
            ("pick_gpus", Kind::ListOf(&Kind::Text), "Only these GPUs, picked by hand"),
            ("resources", Kind::Map("resources"), "What each node of it must have, in dstack's words"),
            ("max_price", Kind::Amount("2.49"), "Only instances that cost no more"),
            ("spot_policy", Kind::Words(|| vec!["spot", "on-demand", "auto"]), "Which kind of instances"),
            ("backends", Kind::Some(&Kind::Text), "Only instances of these"),
            ("regions", Kind::Some(&Kind::Text), "Only instances there"),
            ("fleets", Kind::Some(&Kind::Text), "Only instances of these fleets"),
            ("creation_policy", Kind::Words(|| vec!["reuse", "reuse-or-create"]), "Whether instances may be created"),
            ("model", MODEL, "A model to be served, of the catalog (`dryrack catalog models`) or by its figures"),
            ("backend", Kind::Words(|| words(&BACKENDS)), "What serves it; vllm if not given"),
            ("placement", Kind::Words(|| words(&STRATEGIES)), "How replicas lie; spread if not given"),
            (
                "distributed",
                Kind::Flag,
                "Whether a replica may lie on several nodes; if not given, where GPUs of several are picked",
            ),
            ("selector", Kind::Named(&Kind::Text), "Only nodes with these labels"),
            ("gpus_per_replica", Kind::Whole, "So many of the picked GPUs for each replica; all if not given"),
            ("parameters", Kind::ListOf(&Kind::Text), "Of the backend, such as --tensor-parallel-size=4"),
            ("environment", Kind::Named(&Kind::Text), "Variables of the backend"),
        ],
    },
    Shape {
        name: "task_set",
        called: &["tasks of a gang"],
        required: &[],
        fields: &[
            ("name", Kind::Text, "What these tasks are, such as launcher or worker"),
            ("tasks", Kind::Whole, "So many that are alike; 1 if not given"),
            ("min_tasks", Kind::Whole, "The gang starts with at least so many of them; all if not given"),
            ("gpus", GPUS_OF_JOB, "How many GPUs of each, or a part of one"),
            ("gpu", Kind::Some(&Kind::Text), "Types of GPUs that would do"),
            ("gpu_memory", MEMORY, "This much of each GPU's memory, and no more of it"),
            ("min_gpu_memory", MEMORY, "GPUs with at least this much in all"),
            ("cpus", Kind::Amount("2, 0.5 or 500m"), "Cores"),
            ("ram", MEMORY, "Memory of the host"),
            ("labels", Kind::Named(&Kind::Text), "What the node must be labelled with"),
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
            ("any", Kind::Some(&Kind::Text), "Jobs that must have ended in any way (afterany)"),
            ("notok", Kind::Some(&Kind::Text), "Jobs that must have ended without completing (afternotok)"),
            ("start", Kind::Some(&Kind::Text), "Jobs that must have started, or ended without it (after)"),
            (
                "corr",
                Kind::Some(&Kind::Text),
                "Arrays of which the task with the same number must have completed (aftercorr)",
            ),
            ("singleton", Kind::Flag, "All earlier jobs of this entry and the same user must have ended (singleton)"),
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
                "By node, CPU shares in the place of its GPUs, one for each",
            ),
            ("oversubscribe", Kind::Amount("150%"), "How much of the cores may be promised; 100% if not given"),
        ],
    },
    Shape {
        name: "cpu_share",
        called: &["a CPU share"],
        required: &["cores"],
        fields: &[
            ("cores", Kind::Some(&Kind::Whole), "Places among the cores that dryrack may use, from 0"),
            ("cpu", Kind::Amount("1 or 500m"), "What 100% utilization is; all of its cores if not given"),
        ],
    },
    Shape {
        name: "model",
        called: &["a model"],
        required: &["name"],
        fields: &[
            ("name", Kind::Text, "Its own, or that of a model of the catalog of which only some figures differ"),
            ("category", Kind::Some(&Kind::Words(|| words(&CATEGORIES))), "What it is for; llm if not given"),
            ("architecture", Kind::Text, "The first of `architectures` in its config"),
            ("weights", MEMORY, "The sum of its weight files"),
            ("heads", Kind::Whole, "Attention heads"),
            ("vision_heads", Kind::Whole, "Attention heads of its vision part"),
            ("vocabulary", Kind::Whole, "Tokens"),
            ("quantization", Kind::Text, "Of its weights, such as fp8, awq or gptq"),
            ("gguf", Kind::Map("gguf"), "What its GGUF file takes, for llama-box"),
        ],
    },
    Shape {
        name: "gguf",
        called: &["an estimate of a GGUF file"],
        required: &["layers", "layer_memory", "fixed_memory", "ram_offloaded", "ram_unoffloaded"],
        fields: &[
            ("layers", Kind::Whole, "That can lie on GPUs"),
            ("layer_memory", MEMORY, "GPU memory of each layer there"),
            ("fixed_memory", MEMORY, "GPU memory besides, on each GPU used"),
            ("ram_offloaded", MEMORY, "RAM with every layer on a GPU"),
            ("ram_unoffloaded", MEMORY, "RAM with none"),
        ],
    },
    Shape {
        name: "retry",
        called: &["a retry policy"],
        required: &[],
        fields: &[
            ("limit", Kind::Amount("3 or none"), "So many further attempts"),
            ("first", TIME, "The first pause"),
            ("factor", Kind::Amount("200%"), "How pauses grow"),
            ("max", TIME, "The longest pause"),
            (
                "on",
                Kind::Some(&Kind::Words(|| vec!["no_capacity", "interruption", "error"])),
                "Events after which all nodes are tried again, where the profile has runs",
            ),
            ("for", TIME, "It is tried again for so long"),
        ],
    },
    Shape {
        name: "arrivals",
        called: &[],
        required: &[],
        fields: &[
            ("every", TIME, "At equal distances"),
            ("poisson", RATE, "At a mean rate, without memory"),
            ("bursty", Kind::Map("bursty"), "Quiet and busy spells"),
            ("daily", Kind::Map("daily"), "More by day than by night"),
            ("hourly", Kind::Map("hourly"), "A weight for each hour of a day or a week"),
            ("batch", BATCH, "So many together each time; the rate is that of the times"),
        ],
    },
    Shape {
        name: "batch",
        called: &[],
        required: &[],
        fields: &[
            ("uniform", Kind::Map("uniform_batch"), "Each size as likely"),
            ("geometric", Kind::Whole, "With this mean; after each another comes with the same chance"),
        ],
    },
    Shape {
        name: "uniform_batch",
        called: &["a uniform size of a batch"],
        required: &["from", "to"],
        fields: &[("from", Kind::Whole, "The smallest"), ("to", Kind::Whole, "The largest")],
    },
    Shape {
        name: "hourly",
        called: &["hourly arrivals"],
        required: &["mean", "weights"],
        fields: &[
            ("mean", RATE, "The mean rate of the whole day or week"),
            ("weights", Kind::ListOf(&NUMBER), "24 or 168 of them, the first from midnight; their proportions count"),
        ],
    },
    Shape {
        name: "bursty",
        called: &["bursty arrivals"],
        required: &["quiet", "quiet_for", "busy", "busy_for"],
        fields: &[
            ("quiet", RATE, "The rate of quiet spells"),
            ("quiet_for", TIME, "Their mean length"),
            ("busy", RATE, "The rate of busy spells"),
            ("busy_for", TIME, "Their mean length"),
        ],
    },
    Shape {
        name: "daily",
        called: &["daily arrivals"],
        required: &["mean"],
        fields: &[
            ("mean", RATE, "The mean rate"),
            ("peak", TIME, "The time of day with most; 14h if not given"),
            ("swing", PERCENT, "How far it goes up and down; 50% if not given"),
        ],
    },
    Shape {
        name: "distribution",
        called: &[],
        required: &[],
        fields: &[
            ("exponential", TIME, "With this mean"),
            ("weibull", Kind::Map("weibull"), "Weibull"),
            ("lognormal", Kind::Map("lognormal"), "Lognormal"),
            ("uniform", Kind::Map("uniform"), "Uniform"),
        ],
    },
    Shape {
        name: "weibull",
        called: &["a Weibull distribution"],
        required: &["shape", "scale"],
        fields: &[("shape", NUMBER, "Below 1 the young fail most"), ("scale", TIME, "By then 63% have")],
    },
    Shape {
        name: "lognormal",
        called: &["a lognormal distribution"],
        required: &["median", "sigma"],
        fields: &[("median", TIME, "Half are shorter"), ("sigma", NUMBER, "Of the logarithm")],
    },
    Shape {
        name: "uniform",
        called: &["a uniform distribution"],
        required: &["from", "to"],
        fields: &[("from", TIME, "The shortest"), ("to", TIME, "The longest")],
    },
    Shape {
        name: "trace",
        called: &["a trace"],
        required: &[],
        fields: &[
            ("name", Kind::Text, "As `dryrack trace list` has it"),
            (
                "format",
                Kind::Words(|| formats().into_iter().map(|(name, _)| name).collect()),
                "Of a file without a name among the known traces",
            ),
            ("list", Kind::Text, "One of its lists"),
            ("file", Kind::Text, "A list of tasks beside the scenario or in the folder that DRYRACK_DATA names"),
            ("nodes", Kind::Words(|| vec!["all", "gpu", "none"]), "Which of its nodes are taken"),
            ("node_list", Kind::Text, "One of its lists of nodes"),
            ("node_file", Kind::Text, "A list of nodes, likewise found"),
            ("queue", Kind::Some(&Kind::Text), "Only these queues"),
            ("limit", Kind::Whole, "So many tasks at most"),
            ("offset", TIME, "What came before is left out"),
            ("skip", Kind::Whole, "So many of the first tasks are left out"),
            ("order", Kind::Text, "A file that names tasks in the order in which they come, one a second, to stay"),
            ("ranks", Kind::Text, "A file of `RANK NODE`: the order in which ties between nodes are broken"),
            (
                "from",
                Kind::Text,
                "A date: what came before is left out, and the run starts with the first task from then on",
            ),
            ("to", Kind::Text, "A date: what came later is left out"),
            ("estimates", Kind::Words(|| vec!["recorded", "exact"]), "What a task is said to run"),
            ("durations", Kind::Named(&TIME), "How long tasks run of which the trace does not say it, by application"),
            ("tune", PERCENT, "Tasks come in random order, and are copied until they ask for so much of all GPUs"),
        ],
    },
    Shape {
        name: "checkpoint",
        called: &["a checkpoint"],
        required: &[],
        fields: &[
            ("every", TIME, "After so much work each time; when it is told to stop if not given, and then alone"),
            ("restart", TIME, "What going on from one takes"),
        ],
    },
    Shape {
        name: "change",
        called: &["a change"],
        required: &["at", "job", "replicas"],
        fields: &[
            ("at", TIME, "When"),
            ("job", Kind::Some(&Kind::Text), "Jobs by name or pattern"),
            ("replicas", Kind::Whole, "So many from then on"),
        ],
    },
    Shape {
        name: "fault",
        called: &["a fault"],
        required: &["at", "node"],
        fields: &[
            ("at", TIME, "When"),
            ("node", Kind::Some(&Kind::Text), "A node such as alpha, a GPU such as alpha/0, or a pattern"),
            ("becomes", TURNS, "What it becomes"),
            ("foreign", FOREIGN, "What others hold of a GPU from then on"),
        ],
    },
    Shape {
        name: "failure",
        called: &["a failure"],
        required: &[],
        fields: &[
            ("name", Kind::Text, "For `--set failures.NAME.active=false`"),
            ("active", Kind::Flag, "Whether it happens; true if not given"),
            ("nodes", Kind::Some(&Kind::Text), "Nodes that fail"),
            ("gpus", Kind::Some(&Kind::Text), "GPUs that fail"),
            ("racks", Kind::Some(&Kind::Text), "Racks that fail as one"),
            ("flapping", Kind::Some(&Kind::Text), "Nodes that come and go"),
            ("starts", Kind::Some(&Kind::Text), "Jobs whose starts fail or are slow"),
            ("analyses", Kind::Some(&Kind::Text), "Jobs whose analyses fail, hang or are slow"),
            ("acks", Kind::Some(&Kind::Text), "Jobs of which acknowledgements go astray"),
            ("time_to_failure", LENGTH, "How long it works"),
            ("repair", LENGTH, "How long it does not"),
            ("becomes", TURNS, "What it becomes meanwhile"),
            ("from", TIME, "Not before"),
            ("until", TIME, "Not after"),
            ("every", TIME, "From one time down to the next"),
            ("down", TIME, "So long each time"),
            ("fail", PERCENT, "So many fail"),
            ("hang", PERCENT, "So many hang"),
            ("slow", PERCENT, "So many are slow"),
            ("slow_by", LENGTH, "By so much"),
            ("lost", PERCENT, "So many are lost"),
            ("late", PERCENT, "So many are late"),
            ("repeated", PERCENT, "So many come twice"),
            ("late_by", LENGTH, "By so much"),
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
            ("name", Kind::Text, "By which reports speak of it"),
            ("job", Kind::Text, "Jobs by name or pattern"),
            ("node", Kind::Text, "Nodes by name or pattern"),
            ("gpu", Kind::Text, "GPUs by name or pattern, such as alpha/0"),
            ("is", COMPARED, "The state it is in, or the number there are"),
            ("never", Kind::Offered(states), "A state it is in at no instant"),
            ("always", Kind::Offered(states), "A state it is in at every instant"),
            ("on", Kind::Text, "With a claim on this node"),
            ("blocks", BLOCK_COUNT, "With `on`: so many blocks of that node"),
            ("because", Kind::Offered(reasons), "The reason that is given"),
            ("replicas", COUNT, "So many replicas at least; of a node that is `holding` them, a number or \"<= 2\""),
            ("count", Kind::Words(events), "The number of these events"),
            ("reason", Kind::Offered(reasons), "Whether this reason is given"),
            ("evaluate", Kind::Text, "A job that is judged before deployment"),
            ("metric", Kind::Text, "A metric and a bound, such as p95(queue_wait) <= 10m"),
            ("of", Kind::Text, "With `metric`: of these jobs; with `holding`: replicas of these jobs"),
            ("preempted_by", Kind::Text, "Jobs by name or pattern that others were stopped for"),
            ("in", Kind::Text, "With `seeds`: the part of them in which it must hold, such as \">= 95%\""),
            ("at", TIME, "At this instant"),
            ("by", TIME, "At or before this instant"),
            ("until", TIME, "Before this instant"),
            ("before", INSTANT, "Before this instant, job or state"),
            ("after", INSTANT, "From this instant, job or state on"),
            ("within", TIME, "So long after the job came"),
            ("from", TIME, "With `for`: from this instant"),
            ("for", Kind::Text, "With `from`: for so long; with `count`: `cancelled`, of cancelled jobs"),
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
            ("is", Kind::Offered(states), "The state it comes to"),
            ("on", Kind::Text, "With a claim on this node"),
            ("because", Kind::Offered(reasons), "The reason that is given"),
        ],
    },
    Shape {
        name: "reproduction",
        called: &["a reproduction"],
        required: &[],
        fields: &[
            ("profile", Kind::Offered(|| profile_names().collect()), "The profile that has the fault"),
            ("outside", Kind::Text, "Instead of a profile: a released program such as gpustack==2.3.0"),
            ("fails", Kind::Some(&Kind::Text), "Expectations that fail under it"),
            ("and", Kind::ListOf(&EXPECTATION), "Witnesses: what is so under it, as reported"),
        ],
    },
];
