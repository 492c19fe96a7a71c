//! Kueue in a scenario, held against recorded cycles of the real program: the recorded worlds are rehearsed as
//! manifests, through the reader, the control plane and the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::cli::{dryrack, stderr, stdout};

trials! {
    Nothing: [
        recorded_worlds_are_admitted_alike_in_a_scenario,
        one_more_workload_is_simulated,
        a_misspelt_queue_is_an_error_with_the_nearest_name,
    ]
}

const RECORDS: &str = "tests/data/kueue/cycles.jsonl.gz";
/// The beginning of each rehearsal in the times of the API.
const EPOCH: i64 = 1_767_225_600;

fn worlds() -> Vec<Value> {
    let file = std::fs::File::open(RECORDS).expect("the records are committed");
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A step before the first one in which the real program preempts, or in which a workload is deleted: a scenario takes
/// more time for an eviction, and manifests cannot be deleted.
fn comparable(world: &Value) -> Vec<&Value> {
    let steps = list(&world["out"]["steps"]).iter();
    let is_plain = |step: &&Value| {
        let preempts = list(&step["cycles"]).iter().any(|cycle| !list(&cycle["preempted"]).is_empty());
        !preempts && !list(&step["ops"]).iter().any(|op| op["op"] == "delete")
    };
    steps.take_while(is_plain).collect()
}

fn groups(groups: &Value) -> Value {
    let quota = |(name, quota): (&String, &Value)| {
        let mut made = json!({"name": name, "nominalQuota": quota["nominal"]});
        for (short, long) in [("borrow", "borrowingLimit"), ("lend", "lendingLimit")] {
            if !quota[short].is_null() {
                made[long] = quota[short].clone();
            }
        }
        made
    };
    let flavor = |flavor: &Value| {
        let quotas = flavor["quota"].as_object().expect("quotas");
        json!({"name": flavor["name"], "resources": quotas.iter().map(quota).collect::<Vec<_>>()})
    };
    let group = |group: &Value| {
        json!({
            "coveredResources": group["resources"],
            "flavors": list(&group["flavors"]).iter().map(flavor).collect::<Vec<_>>(),
        })
    };
    list(groups).iter().map(group).collect()
}

fn object(kind: &str, name: &Value, at: Option<i64>, spec: Value) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(at) = at {
        metadata["annotations"] = json!({"dryrack/at": format!("{at}s")});
    }
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec})
}

fn cohort(cohort: &Value, at: Option<i64>) -> Value {
    let mut spec = json!({"resourceGroups": groups(&cohort["groups"])});
    if !text(&cohort["parent"]).is_empty() {
        spec["parentName"] = cohort["parent"].clone();
    }
    if !cohort["weight"].is_null() {
        spec["fairSharing"] = json!({"weight": cohort["weight"]});
    }
    object("Cohort", &cohort["name"], at, spec)
}

fn queue(queue: &Value, at: Option<i64>) -> Value {
    let (preempt, search) = (&queue["preempt"], &queue["fung"]);
    let mut preemption = json!({"withinClusterQueue": preempt["within"], "reclaimWithinCohort": preempt["reclaim"]});
    if !preempt["borrow"].is_null() {
        preemption["borrowWithinCohort"] = json!({"policy": preempt["borrow"]["policy"]});
        if !preempt["borrow"]["max"].is_null() {
            preemption["borrowWithinCohort"]["maxPriorityThreshold"] = preempt["borrow"]["max"].clone();
        }
    }
    let mut fungibility = json!({"whenCanBorrow": search["borrow"], "whenCanPreempt": search["preempt"]});
    if !search["pref"].is_null() {
        fungibility["preference"] = search["pref"].clone();
    }
    let mut spec = json!({
        "namespaceSelector": {},
        "queueingStrategy": queue["strategy"],
        "stopPolicy": queue["stop"],
        "preemption": preemption,
        "flavorFungibility": fungibility,
        "resourceGroups": groups(&queue["groups"]),
    });
    if !text(&queue["cohort"]).is_empty() {
        spec["cohortName"] = queue["cohort"].clone();
    }
    if !queue["weight"].is_null() {
        spec["fairSharing"] = json!({"weight": queue["weight"]});
    }
    object("ClusterQueue", &queue["name"], at, spec)
}

fn time_of(seconds: i64) -> String {
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // All times are within three days of the epoch, which is the first of January 2026.
    let date = match day - EPOCH / 86_400 {
        -1 => "2025-12-31",
        0 => "2026-01-01",
        1 => "2026-01-02",
        other => panic!("day {other}"),
    };
    format!("{date}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

fn workload(workload: &Value, at: i64, duration: Option<i64>) -> Value {
    let pod_set = |set: &Value| {
        let container = json!({"name": "main", "resources": {"requests": set["req"]}});
        let mut pod = json!({"containers": [container]});
        if !set["sel"].is_null() {
            pod["nodeSelector"] = set["sel"].clone();
        }
        if !set["tol"].is_null() {
            pod["tolerations"] = set["tol"].clone();
        }
        let mut made = json!({"name": set["ps"], "count": set["count"], "template": {"spec": pod}});
        made["name"] = set["name"].clone();
        if !set["min"].is_null() {
            made["minCount"] = set["min"].clone();
        }
        match text(&set["topo"]["mode"]) {
            "" => {}
            "unconstrained" => made["topologyRequest"] = json!({"unconstrained": true}),
            mode => made["topologyRequest"] = json!({mode: set["topo"]["level"]}),
        }
        made
    };
    let mut annotations = json!({"dryrack/at": format!("{at}s")});
    if let Some(duration) = duration {
        annotations["dryrack/duration"] = json!(format!("{duration}s"));
    }
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": workload["name"],
            "uid": workload["uid"],
            "creationTimestamp": time_of(EPOCH + workload["created"].as_i64().expect("a time")),
            "annotations": annotations,
        },
        "spec": {
            "queueName": workload["cq"],
            "priority": workload["prio"],
            "podSets": list(&workload["podsets"]).iter().map(pod_set).collect::<Vec<_>>(),
        },
    })
}

/// How long each workload holds its quota that finishes in these steps. A workload that was drained before has no
/// duration: its pods would have run as long already.
fn durations(steps: &[&Value]) -> BTreeMap<String, i64> {
    let (mut since, mut durations): (BTreeMap<String, Option<i64>>, _) = (BTreeMap::new(), BTreeMap::new());
    for step in steps {
        let t = step["t"].as_i64().expect("a time");
        for op in list(&step["ops"]).iter().filter(|op| op["op"] == "finish" && op["applied"] == true) {
            let name = text(&op["wl"]).to_string();
            durations.extend(since[&name].map(|since| (name, t - since)));
        }
        let admitted: BTreeSet<&str> = list(&step["end"]["admitted"]).iter().map(text).collect();
        since
            .iter_mut()
            .filter(|(name, _): &(&String, _)| !admitted.contains(name.as_str()))
            .for_each(|(_, at)| *at = None);
        for name in admitted {
            since.entry(name.to_string()).or_insert(Some(t));
        }
    }
    durations
}

/// The world as a scenario that ends after these steps.
fn scenario(world: &Value, steps: &[&Value], until: i64) -> Value {
    let mut manifests = Vec::new();
    let flavor = |flavor: &Value| {
        let mut spec = json!({"nodeLabels": flavor["labels"]});
        if !flavor["taints"].is_null() {
            spec["nodeTaints"] = flavor["taints"].clone();
        }
        if !flavor["topology"].is_null() {
            spec["topologyName"] = flavor["topology"].clone();
        }
        object("ResourceFlavor", &flavor["name"], None, spec)
    };
    if !world["topology"].is_null() {
        let levels: Vec<Value> =
            list(&world["topology"]["levels"]).iter().map(|label| json!({"nodeLabel": label})).collect();
        manifests.push(object("Topology", &world["topology"]["name"], None, json!({"levels": levels})));
    }
    manifests.extend(list(&world["flavors"]).iter().map(flavor));
    manifests.extend(list(&world["cohorts"]).iter().map(|own| cohort(own, None)));
    for own in list(&world["cqs"]) {
        manifests.push(queue(own, None));
        manifests.push(object("LocalQueue", &own["name"], None, json!({"clusterQueue": own["name"]})));
    }
    let durations = durations(steps);
    for op in list(&world["timeline"]).iter().filter(|op| op["t"].as_i64() < Some(until)) {
        let t = op["t"].as_i64().expect("a time");
        match text(&op["op"]) {
            "arrive" => {
                for name in list(&op["wl"]) {
                    let known = list(&world["workloads"]).iter().find(|known| known["name"] == *name);
                    let duration = durations.get(text(name)).copied();
                    manifests.push(workload(known.expect("it is in the world"), t, duration));
                }
            }
            "set_cq" => manifests.push(queue(&op["cq"], Some(t))),
            "set_cohort" => manifests.push(cohort(&op["cohort"], Some(t))),
            _ => {}
        }
    }
    let nodes = list(&world["nodes"]);
    let node = |name: &Value, labels: &Value, amounts: &Value| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": amounts},
        })
    };
    manifests.extend(nodes.iter().map(|own| node(&own["name"], &own["labels"], &own["capacity"])));
    if nodes.is_empty() {
        // Nodes have room for everything, because only quota is compared.
        let amounts = json!({"cpu": "9000", "memory": "9000Gi", "nvidia.com/gpu": "500", "pods": "9000"});
        for flavor in list(&world["flavors"]) {
            manifests.push(node(&json!(format!("node-{}", text(&flavor["name"]))), &flavor["labels"], &amounts));
        }
    }
    let mut scenario = json!({
        "scenario": text(&world["id"]), "profile": "kubernetes-1.35", "until": format!("{until}s"), "manifests": manifests,
    });
    if !world["fair"].is_null() {
        scenario["kueue"] = json!({"fair_sharing": world["fair"]});
    }
    scenario
}

/// The workloads that hold quota at the end of each second, by the times at which that changes; and the workloads that
/// have run at some time.
fn held(log: &Path) -> (BTreeMap<i64, BTreeSet<String>>, BTreeSet<String>) {
    let (mut now, mut held, mut ran) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    let workload_of = |job: &Value| text(job).split('-').next().unwrap_or_default().to_string();
    for line in std::fs::read_to_string(log).expect("a log").lines().skip(1) {
        let record: Value = serde_json::from_str(line).expect("JSON");
        // The last line is the footer.
        let Some(at) = record["at_ns"].as_i64().map(|at| at / 1_000_000_000) else { continue };
        let event = &record["event"];
        if !event["admitted"].is_null() {
            now.insert(workload_of(&event["admitted"]["job"]));
        } else if !event["evicted"].is_null() {
            now.remove(&workload_of(&event["evicted"]["job"]));
        } else if event["moved"]["to"] == "running" {
            ran.insert(workload_of(&event["moved"]["run"]["job"]));
        } else if !event["job_ended"].is_null() {
            now.remove(&workload_of(&event["job_ended"]["job"]));
        }
        held.insert(at, now.clone());
    }
    (held, ran)
}

fn recorded_worlds_are_admitted_alike_in_a_scenario() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut compared, mut admissions, mut classes) = (0, 0, BTreeSet::new());
    for world in worlds() {
        let steps = comparable(&world);
        let Some(last) = steps.last() else { continue };
        let until = last["t"].as_i64().expect("a time") + 59;
        let text_of_world = scenario(&world, &steps, until).to_string();
        std::fs::write(folder.path().join("world.yaml"), text_of_world).expect("written");
        // Some recorded workloads can never run on the nodes of their world, whatever Kueue admits, so the run fails.
        let output = dryrack(folder.path(), &["run", "world.yaml", "--out", "out"]).output().expect("built");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
        let (held, ran) = held(&folder.path().join("out/events.jsonl"));
        let durations = durations(&steps);
        for step in &steps {
            let t = step["t"].as_i64().expect("a time");
            // A workload with flavors of different nodes holds quota, and its pods never run, so it cannot finish.
            let mut ends = list(&step["ops"]).iter().filter(|op| op["op"] == "finish" && op["applied"] == true);
            if !ends.all(|op| ran.contains(text(&op["wl"])) && durations.contains_key(text(&op["wl"]))) {
                break;
            }
            let found = held.range(..t + 59).next_back().map(|(_, held)| held.clone()).unwrap_or_default();
            let expected: BTreeSet<String> =
                list(&step["end"]["admitted"]).iter().map(|name| text(name).to_string()).collect();
            assert_eq!(found, expected, "{} at {t}", text(&world["id"]));
            compared += 1;
            admissions += expected.len();
        }
        classes.insert(text(&world["class"]).to_string());
    }
    assert!(compared >= 322 && admissions >= 888, "{compared} steps with {admissions} admitted workloads");
    assert!(classes.len() >= 14, "{classes:?}");
}

const CLUSTER: &str = "
scenario: A team with four GPUs
kueue:
  cluster_queues:
    - {name: small, cohort: all, quota: {h100: {gpus: {nominal: 4, borrow: 1}}}}
    - {name: large, cohort: all, quota: {h100: {gpus: 8}}, preemption: {within: LowerPriority}}
nodes: [{name: n, count: 2, machine: h100-80g-x8}]
jobs:
  - {name: old, queue: large, gpus: 3, duration: 10m}
";

/// 12 GPUs of quota in all. `small` may have 5 of them. 7 of the 12 fit beside `old`.
fn one_more_workload_is_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("cluster.yaml"), CLUSTER).expect("written");
    let ask = |job: &str| {
        std::fs::write(folder.path().join("job.yaml"), job).expect("written");
        ["simulate", "cluster.yaml", "--with", "job.yaml"]
    };
    let said = stdout(folder.path(), &ask("{name: new, queue: small, replicas: 7, gpus: 1, duration: 5m}"), 1);
    for line in [
        "exceeds_max_quota",
        "preempts   nobody",
        "a quota of 6 nvidia.com/gpu of h100 in ClusterQueue small, instead of 4",
        "no borrowing limit of nvidia.com/gpu of h100 in ClusterQueue small; it is 1",
        "LocalQueue large (ClusterQueue large)",
        "5 pods instead of 7",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let said = stdout(folder.path(), &ask("{name: new, queue: small, gpus: 5, duration: 5m}"), 0);
    assert!(said.contains("admitted   at once, by ClusterQueue small"), "{said}");
    // Six of twelve GPUs are free, and the quota of the queue itself holds all eight.
    let job = "{name: new, queue: large, priority: 5, replicas: 8, gpus: 1, duration: 5m}";
    ask(job);
    let larger = "jobs.old.gpus=6";
    let args = ["simulate", "cluster.yaml", "--with", "job.yaml", "--at", "1m", "--set", larger];
    let said = stdout(folder.path(), &args, 0);
    assert!(said.contains("preempts   old at 1m (in_cluster_queue)"), "{said}");
    let said = stdout(folder.path(), &ask("{name: new, gpus: 1}"), 0);
    assert!(said.contains("without Kueue: it names no queue") && said.contains("all pods at 0s"), "{said}");
}

fn a_misspelt_queue_is_an_error_with_the_nearest_name() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("cluster.yaml"), CLUSTER.replace("queue: large,", "queue: lage,"))
        .expect("written");
    let said = stderr(folder.path(), &["run", "cluster.yaml"], 2);
    assert!(said.contains("no local queue is named `lage`") && said.contains("did you mean `large`?"), "{said}");
}
