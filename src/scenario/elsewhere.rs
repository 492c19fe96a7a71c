//! Names of Slurm and Kubernetes for keys of a scenario. Messages about unknown keys suggest the scenario's key.

/// The scenario's key for a word of Slurm or Kubernetes, with text about how to write it; `None` for any other word.
/// `what` names the kind of map in which the word was used as a key.
pub(super) fn elsewhere(what: &str, key: &str) -> Option<(&'static str, &'static str)> {
    let words: &[(&str, &[&str], &str)] = match what {
        "a job" => &JOB,
        "a node" => &NODE,
        _ => return None,
    };
    let plain = key.to_ascii_lowercase().replace(['-', '_'], "");
    let found = words.iter().find(|(_, words, _)| words.contains(&plain.as_str()))?;
    Some((found.0, found.2))
}

/// The scenario's key, the words of other systems in lower case without hyphens, and the text to show.
type Synonyms = (&'static str, &'static [&'static str], &'static str);

const JOB: [Synonyms; 13] = [
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

const NODE: [Synonyms; 5] = [
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
