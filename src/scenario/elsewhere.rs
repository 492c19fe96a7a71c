//! Names of Slurm, Kubernetes and other programs for keys of a scenario. Messages about unknown keys suggest the
//! scenario's key.

/// The scenario's key for a word of another program, with text about how to write it; `None` for any other word.
/// `what` names the kind of map in which the word was used as a key.
pub(super) fn elsewhere(what: &str, key: &str) -> Option<(&'static str, &'static str)> {
    let words: &[(&str, &[&str], &str)] = match what {
        "a job" => &JOB,
        "a node" => &NODE,
        "a scenario file" => &FILE,
        "a fault" => &FAULT,
        "a group of GPUs" => &GROUP,
        _ if what.starts_with("an expectation") => &EXPECTATION,
        _ => return None,
    };
    let plain = key.to_ascii_lowercase().replace(['-', '_'], "");
    let found = words.iter().find(|(_, words, _)| words.contains(&plain.as_str()))?;
    Some((found.0, found.2))
}

/// The scenario's key, the words of other systems in lower case without hyphens, and the text to show.
pub(super) type Synonyms = (&'static str, &'static [&'static str], &'static str);

pub(super) const JOB: [Synonyms; 13] = [
    (
        "after",
        &["dependency", "dependencies", "dependson", "depends", "needs", "afterok", "afterany", "afternotok"],
        "write `after: {ok: NAME}`; `any`, `notok` and `start` are the other conditions",
    ),
    (
        "priority",
        &["priorityclass", "priorityclassname"],
        "write the priority as `priority: 100`; a higher priority goes first",
    ),
    ("user", &["namespace", "tenant"], "write `user: NAME`, or `project: NAME` if it is for a quota"),
    (
        "time_limit",
        &["time", "timelimit", "walltime", "activedeadlineseconds"],
        "write `time_limit: 2h`; the real duration is `duration`",
    ),
    ("duration", &["runtime", "length", "elapsed"], "write `duration: 2h`"),
    (
        "at",
        &["submit", "submittime", "submitted", "arrival", "begin", "start"],
        "write the submission time as `at: 10m`",
    ),
    (
        "tasks",
        &["ntasks", "parallelism", "workers"],
        "write `tasks: 4`; the resources beside it are those of each task",
    ),
    ("nodes", &["numnodes", "nodecount"], "write `nodes: 2`; the resources beside it are those on each node"),
    ("cpus", &["cpuspertask", "ncpus", "cores", "mincpus"], "write `cpus: 8`, the number for each task"),
    (
        "ram",
        &["mem", "memory", "memorymb", "mempernode"],
        "write `ram: 64GiB`, the amount for each task; GPU memory is `gpu_memory: 40GiB`",
    ),
    (
        "gpus",
        &["gres", "tres", "tresperjob", "gpuspertask", "gpuspernode", "numgpus", "ngpus", "limits"],
        "write `gpus: 2`, the number for each task, and `gpu: a100-80g` for their type",
    ),
    (
        "labels",
        &["constraint", "features", "nodeselector", "affinity", "nodeaffinity"],
        "write `labels: {zone: west}`; the job then runs only on nodes with these labels",
    ),
    (
        "on",
        &["nodelist", "nodename", "hostname", "worker", "host"],
        "write `on: alpha`, or `gpus: [alpha/0]` for its first GPU",
    ),
];

pub(super) const NODE: [Synonyms; 5] = [
    (
        "labels",
        &["partition", "partitions", "features", "feature", "taints"],
        "write `labels: {partition: gpu}` on the job and on the nodes; the job then runs only on these nodes",
    ),
    (
        "gpus",
        &["gres", "numgpus", "ngpus", "accelerators"],
        "write `gpus: [{type: a100-80g, count: 4}]`, or a `machine`",
    ),
    ("cpus", &["cores", "ncpus", "numcpus", "vcpus"], "write `cpus: 64`"),
    ("ram", &["mem", "memory", "realmemory"], "write `ram: 512GiB`"),
    ("name", &["nodename", "hostname", "host"], "write `name: alpha`"),
];

pub(super) const GROUP: [Synonyms; 2] = [
    ("type", &["gpu", "model", "name", "kind"], "write the type of the GPUs as `type: a100-80g`"),
    ("count", &["gpus", "number", "num", "n"], "write the number of GPUs as `count: 4`"),
];

pub(super) const FILE: [Synonyms; 10] = [
    (
        "scenario",
        &["title", "name", "description", "summary"],
        "write the title as `scenario: A sentence that must be true`",
    ),
    (
        "nodes",
        &["cluster", "workers", "hosts", "servers", "hardware", "resources"],
        "write the machines as `nodes:` with entries such as `- {name: alpha, machine: a100-80g-x8}`",
    ),
    (
        "jobs",
        &["job", "workload", "workloads", "pods", "tasks", "deployments", "apps", "services"],
        "write what is submitted as `jobs:` with entries such as `- {name: chat, gpus: 1, duration: 1h}`",
    ),
    (
        "expect",
        &["expectations", "expected", "assert", "asserts", "assertions", "checks", "tests", "then", "slo"],
        "write what must hold as `expect:` with entries such as `- {job: chat, is: running, by: 5m}`",
    ),
    (
        "faults",
        &["events", "chaos", "incidents", "outages", "disruptions", "actions"],
        "write what goes wrong as `faults:` with entries such as `- {at: 5m, node: alpha, becomes: not_ready}`",
    ),
    (
        "profile",
        &["scheduler", "schedulername", "strategy", "algorithm"],
        "write `profile: NAME`; see `dryrack profile list`",
    ),
    (
        "until",
        &["duration", "horizon", "end", "stop", "length", "simulationtime", "maxtime"],
        "write the time at which the run stops as `until: 2h`",
    ),
    ("seed", &["randomseed", "rng"], "write `seed: 7`, or `seeds: 1..100` for many runs"),
    (
        "params",
        &["vars", "variables", "parameters", "values", "env"],
        "write `params: {gpus: 4}`, and use it as `\"${gpus}\"`",
    ),
    ("include", &["imports", "import", "includes", "extends", "base"], "write `include: lab.part.yaml`"),
];

pub(super) const FAULT: [Synonyms; 3] = [
    ("at", &["time", "when", "after", "start"], "write the time of the fault as `at: 5m`"),
    (
        "becomes",
        &["state", "is", "status", "event", "action", "kind", "type", "fault"],
        "write what the node becomes, such as `becomes: not_ready`, `silent` or `crashed`",
    ),
    (
        "node",
        &["host", "worker", "target", "machine", "gpu"],
        "write `node: alpha`, or `node: alpha/0` for its first GPU",
    ),
];

pub(super) const EXPECTATION: [Synonyms; 6] = [
    ("is", &["state", "status", "becomes", "equals", "phase"], "write the expected state as `is: running`"),
    ("by", &["deadline", "latest"], "write the latest time as `by: 5m`"),
    ("from", &["since", "start"], "write the first time as `from: 5m`"),
    ("because", &["why", "cause"], "write the reason as `because: node_not_ready`"),
    ("on", &["host", "worker", "placedon", "where"], "write the node as `on: alpha`, or a GPU as `on: alpha/0`"),
    ("never", &["not", "isnot", "forbid"], "write the state that must not occur as `never: placed`"),
];
