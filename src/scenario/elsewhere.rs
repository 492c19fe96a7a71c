//! Names of Slurm, Kubernetes and other programs for keys of a scenario, and keys in the wrong place. Messages about
//! unknown keys suggest the scenario's key, or the place of the key.

use super::schema_table::SHAPES;

/// The scenario's key for a word of another program, with text about how to write it; `None` for any other word.
/// `what` names the kind of map in which the word was used as a key.
pub(super) fn elsewhere(what: &str, key: &str) -> Option<(&'static str, &'static str)> {
    let words: &[(&str, &[&str], &str)] = match what {
        "a job" => &JOB,
        "a node" => &NODE,
        "a scenario file" => &FILE,
        "a fault" => &FAULT,
        _ if what.starts_with("an expectation") => &EXPECTATION,
        _ => return None,
    };
    let plain = key.to_ascii_lowercase().replace(['-', '_'], "");
    let found = words.iter().find(|(_, words, _)| words.contains(&plain.as_str()))?;
    Some((found.0, found.2))
}

/// Kinds of maps, and where a file has them. A key that several kinds have is that of the first.
const PLACES: [(&str, &str); 13] = [
    ("a job", "in an entry of `jobs:`"),
    ("a node", "in an entry of `nodes:`"),
    ("a scenario file", "at the beginning of a line, outside of all entries"),
    ("an expectation", "in an entry of `expect:`"),
    ("a fault", "in an entry of `faults:`"),
    ("a failure", "in an entry of `failures:`"),
    ("a trace", "under `trace:`"),
    ("a reproduction", "in an entry of `reproduces:`"),
    ("a model", "under `model:` of a job"),
    ("a retry policy", "under `retry:` of a job"),
    ("dependencies", "under `after:` of a job"),
    ("a group of GPUs", "in an entry of `gpus:` of a node"),
    ("a live run", "under `live:`"),
];

/// Says where a key belongs that is unknown in a map of the kind `what`, but known in another kind.
pub(super) fn home(what: &str, key: &str) -> Option<String> {
    let has_key = |called: &str| {
        let shape = SHAPES.iter().find(|shape| shape.called.contains(&called));
        shape.is_some_and(|shape| shape.all_fields().any(|(known, ..)| *known == key))
    };
    // A key of another form of the same map is not in the wrong place, and a small map is better told by its own keys.
    let is_large = what == "an included file" || PLACES.iter().any(|(called, _)| what.starts_with(called));
    if has_key(what) || !is_large {
        return None;
    }
    let is_same = |called: &str| called == "a scenario file" && what == "an included file";
    let mut others = PLACES.iter().filter(|(called, _)| !is_same(called) && has_key(called));
    let (called, place) = others.next()?;
    // A key such as `name` that several kinds have says nothing, except at the top, where most entries are jobs.
    if others.next().is_some() && what != "a scenario file" {
        return None;
    }
    Some(format!("`{key}` is a key of {called}; write it {place}"))
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

const FILE: [Synonyms; 10] = [
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

const FAULT: [Synonyms; 3] = [
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

const EXPECTATION: [Synonyms; 6] = [
    ("is", &["state", "status", "becomes", "equals", "phase"], "write the expected state as `is: running`"),
    ("by", &["deadline", "latest"], "write the latest time as `by: 5m`"),
    ("from", &["since", "start"], "write the first time as `from: 5m`"),
    ("because", &["reason", "why", "cause"], "write the reason as `because: node_not_ready`"),
    ("on", &["host", "worker", "placedon", "where"], "write the node as `on: alpha`, or a GPU as `on: alpha/0`"),
    ("never", &["not", "isnot", "forbid"], "write the state that must not occur as `never: placed`"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_synonym_is_a_key_itself_and_each_suggests_a_key_that_exists() {
        let kinds = [
            ("a job", &JOB[..]),
            ("a node", &NODE),
            ("a scenario file", &FILE),
            ("a fault", &FAULT),
            ("an expectation", &EXPECTATION),
        ];
        for (what, synonyms) in kinds {
            let shape = SHAPES.iter().find(|shape| shape.called.contains(&what)).expect("it has a shape");
            let keys = shape.keys();
            let has = |word: &str| keys.binary_search(&word).is_ok();
            for (key, words, _) in synonyms {
                assert!(has(key), "`{key}` of {what}");
                words.iter().for_each(|word| assert!(!has(word), "`{word}` of {what} is a key"));
            }
        }
    }

    #[test]
    fn a_key_in_the_wrong_place_is_told_its_place() {
        let rows = [
            ("a scenario file", "arrivals", Some("`arrivals` is a key of a job; write it in an entry of `jobs:`")),
            ("a scenario file", "becomes", Some("`becomes` is a key of a fault; write it in an entry of `faults:`")),
            ("a node", "duration", Some("`duration` is a key of a job; write it in an entry of `jobs:`")),
            ("a job", "rack", Some("`rack` is a key of a node; write it in an entry of `nodes:`")),
            ("an evaluation", "never", None),
            ("a job", "wibble", None),
        ];
        for (what, key, expected) in rows {
            assert_eq!(home(what, key).as_deref(), expected, "`{key}` of {what}");
        }
    }
}
