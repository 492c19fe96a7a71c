//! A real kube-scheduler decides in scenarios. `.ci/kube-scheduler` builds the program; without it, the trials that need
//! it are reported as not run.

#[path = "../../src/apiserver/tests/kube_scheduler/program.rs"]
mod program;

pub use program::find as program;
use std::path::{Path, PathBuf};

use assert_cmd::assert::OutputAssertExt;
use serde_json::Value;

use crate::cli::{dryrack, empty, stdout, write_program};

trials! {
    Nothing: [
        a_kube_scheduler_that_is_not_here_is_said,
        a_kube_scheduler_decides_under_a_profile_of_kubernetes_alone,
        a_kube_scheduler_that_refuses_its_flags_is_said,
        kueue_beside_a_kube_scheduler_is_refused_where_it_is_stated,
        a_report_of_a_kube_scheduler_that_is_not_here_is_not_run,
    ]
    KubeScheduler: [
        kube_scheduler_for_real_decides_as_its_profile,
        kube_scheduler_for_real_needs_no_second_run_to_be_replayed,
        kube_scheduler_for_real_examines_the_same_of_many_nodes_in_one_thread,
        kube_scheduler_for_real_sees_annotations_and_priority_classes,
        kube_scheduler_for_real_takes_a_configuration_of_its_own,
        kube_scheduler_for_real_ends_with_a_named_fault,
        kube_scheduler_for_real_says_which_flag_it_refuses,
        kube_scheduler_for_real_has_ten_seconds_for_its_version,
    ]
}

fn outside() -> String {
    format!("kube-scheduler={}", program().expect("it is here").display())
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/kubernetes")
}

const SMALL: &str = "\
scenario: A pod waits for the other
nodes: [{name: alpha, machine: a100-80g-x1}]
jobs:
  - {name: first, at: 10s, gpus: 1, duration: 10m}
  - {name: second, at: 20s, gpus: 1, duration: 10m}
expect:
  - {name: says_why, job: second, at: 1m, is: pending, because: insufficient_gpus}
  - {name: follows, job: second, is: running, on: alpha, by: 11m}
";

fn small(dir: &Path) {
    std::fs::write(dir.join("small.yaml"), SMALL).expect("a folder of our own");
}

fn a_kube_scheduler_that_is_not_here_is_said() {
    let dir = empty();
    small(dir.path());
    script(dir.path(), "endless", "yes Kubernetes");
    for (typed, why) in [
        ("kube-scheduler=./none", "./none: there is no such file"),
        ("kube-scheduler=./endles", "./endles: there is no such file; did you mean `./endless`?"),
        ("kube-scheduler=./", "./: is a folder"),
        ("kube-scheduler=./endless", "./endless: --version prints more than 64 KiB"),
        ("kube-scheduler=/bin/true", "/bin/true: --version says \"true"),
        ("kube-scheduler=/bin/true --config none.yaml", "none.yaml: this configuration cannot be read"),
    ] {
        let output = dryrack(dir.path(), &["run", "small.yaml", "--outside", typed]).assert().code(2);
        let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        let wanted = format!("error: the scheduler in another process could not be started: {why}");
        assert!(said.starts_with(&wanted), "{typed}: {said}");
    }
    let output = dryrack(dir.path(), &["run", "small.yaml", "--outside", "kube-scheduler="]).assert().code(2);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(said.starts_with("error: --outside: `kube-scheduler=` names no program"), "{said}");
    let output = dryrack(dir.path(), &["run", "small.yaml", "--outside", "kube-schedular=./none"]).assert().code(2);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(said.contains("did you mean `kube-scheduler=./none`?"), "{said}");
}

/// An executable script in a folder.
fn script(dir: &Path, name: &str, body: &str) {
    write_program(&dir.join(name), &format!("#!/bin/sh\n{body}\n"));
}

fn a_kube_scheduler_that_refuses_its_flags_is_said() {
    let dir = empty();
    small(dir.path());
    let body = "[ \"$1\" = --version ] && exec echo Kubernetes v1.35.4\n\
                echo 'Error: unknown flag: --bad' >&2; echo >&2; seq 100 >&2; exit 1";
    script(dir.path(), "refuses", body);
    let program = "kube-scheduler=./refuses --bad";
    for args in [vec!["run", "small.yaml", "--outside", program], vec!["test", "small.yaml", "--outside", program]] {
        let output = dryrack(dir.path(), &args).assert().code(2);
        let (out, err) = (&output.get_output().stdout, &output.get_output().stderr);
        let said = String::from_utf8_lossy(&[&out[..], &err[..]].concat()).replace("\n  ", "\n");
        let wanted = "refuses: it exited with code 1 before it answered\nError: unknown flag: --bad\n1\n2\n3\n4\n";
        assert!(said.contains(wanted) && !said.contains("\n5\n"), "{said}");
    }
}

fn kueue_beside_a_kube_scheduler_is_refused_where_it_is_stated() {
    let dir = empty();
    let queue = "apiVersion: v1\nkind: Namespace\nmetadata: {name: ml}\n---\n\
                 apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: cq}\nspec: {}\n";
    std::fs::write(dir.path().join("queue.yaml"), queue).expect("a folder of our own");
    std::fs::write(dir.path().join("pods.yaml"), queue.split_once("---\n").expect("two objects").0).expect("written");
    let scenario = "scenario: A queue\nfiles: [pods.yaml, queue.yaml]\nnodes: [{name: a, cpus: 1}]\nuntil: 1h\n";
    std::fs::write(dir.path().join("small.yaml"), scenario).expect("a folder of our own");
    let output = dryrack(dir.path(), &["run", "small.yaml", "--outside", "kube-scheduler=/bin/true"]).assert().code(2);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    let wanted = "error: under a scheduler in another process, jobs cannot wait for Kueue\n --> queue.yaml:5:1";
    assert!(said.contains(wanted), "{said}");
}

fn kube_scheduler_for_real_has_ten_seconds_for_its_version() {
    let dir = empty();
    small(dir.path());
    script(dir.path(), "hangs", "sleep 600");
    let output = dryrack(dir.path(), &["run", "small.yaml", "--outside", "kube-scheduler=./hangs"]).assert().code(2);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(said.contains("hangs: --version does not end within 10 s"), "{said}");
}

fn kube_scheduler_for_real_says_which_flag_it_refuses() {
    let dir = empty();
    small(dir.path());
    std::fs::write(dir.path().join("wrong.yaml"), "profiles: [{plugins: {score: {enabled: [{name: None}]}}}]\n")
        .expect("a folder of our own");
    for (flags, why) in [("--no-such-flag", "unknown flag: --no-such-flag"), ("--config wrong.yaml", "None")] {
        let program = format!("{} {flags}", outside());
        let output = dryrack(dir.path(), &["run", "small.yaml", "--outside", &program]).assert().code(2);
        let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(said.contains("exited with code 1 before it answered") && said.contains(why), "{said}");
    }
}

fn a_kube_scheduler_decides_under_a_profile_of_kubernetes_alone() {
    let dir = empty();
    std::fs::write(dir.path().join("small.yaml"), format!("profile: pack\n{SMALL}")).expect("a folder of our own");
    let output = dryrack(dir.path(), &["run", "small.yaml", "--outside", "kube-scheduler=./none"]).assert().code(2);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    let wanted =
        "error: kube-scheduler cannot decide under `pack`, which is no profile of Kubernetes\n --> small.yaml:1:10";
    assert!(said.starts_with(wanted), "{said}");
    let keys = "outside: {kube-scheduler: ./none, command: ./other, thinking: measured}\n";
    std::fs::write(dir.path().join("small.yaml"), format!("{keys}{SMALL}")).expect("a folder of our own");
    let output = dryrack(dir.path(), &["check", "small.yaml"]).assert().code(2);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(said.contains("`command` and `kube-scheduler`"), "{said}");
}

fn a_report_of_a_kube_scheduler_that_is_not_here_is_not_run() {
    let dir = empty();
    let reproduces = "\
reproduces:
  - outside: kube-scheduler=./none
    fails: [follows]
    and: [{name: waits, job: second, is: pending, from: 1m, for: 20m}]
";
    std::fs::write(dir.path().join("small.yaml"), format!("profile: kubernetes-1.35\n{SMALL}{reproduces}"))
        .expect("a folder of our own");
    let said = stdout(dir.path(), &["test", "small.yaml"], 0);
    assert!(
        said.contains("not run")
            && said.contains("1 reproduction not run; there is no file at the path of kube-scheduler=./none"),
        "{said}"
    );
}

/// Scenarios in which a verdict differs from that under the profile of the release, because of what the release has not.
const DIFFERENT: [&str; 3] = [
    // `matchLabelKeys`.
    "rollout-is-spread-by-revision.yaml",
    // `nodeTaintsPolicy`.
    "tainted-node-counts-as-an-empty-domain.yaml",
    // `minDomains`.
    "waits-for-a-zone-without-nodes.yaml",
];

/// Whether a scenario has a profile of its own. The control plane of the program follows it, and the program does not. So
/// the program may meet all expectations, or decide as the profile of the release.
fn has_own_profile(scenario: &Value) -> bool {
    let text = std::fs::read_to_string(scenario.as_str().expect("a path")).expect("a scenario");
    text.lines().any(|line| line.starts_with("profile: ") && line.ends_with(".yaml"))
}

/// The expectations of one side of a comparison, and whether they passed.
fn verdicts(compared: &Value, side: usize) -> Vec<(String, bool)> {
    let side = &compared["sides"][side];
    assert!(side["not_run"].is_null(), "{}: {side}", compared["scenario"]);
    let verdict = |one: &Value| (one["name"].to_string(), one["passed"] == true);
    side["expectations"].as_array().expect("a list").iter().map(verdict).collect()
}

/// Each expectation has the same verdict as under the profile of the release.
fn kube_scheduler_for_real_decides_as_its_profile() {
    let folder = scenarios();
    let outside = outside();
    let args =
        ["compare", &folder.to_string_lossy(), "--with", "kubernetes-1.20", "--with", &outside, "--format", "json"];
    // A difference is no failure here: both may draw one of several best nodes.
    let output = dryrack(Path::new("."), &args).output().expect("dryrack starts");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = all.as_array().expect("a list");
    let mut judged = 0;
    for compared in all {
        let name = &compared["scenario"];
        // A scheduler in another process cannot decide where jobs wait for Kueue.
        let refusal = compared["sides"][1]["not_run"].as_str().unwrap_or_default();
        if refusal.contains("jobs cannot wait for Kueue") {
            continue;
        }
        let verdicts = |side| verdicts(compared, side);
        let is_known = DIFFERENT.iter().any(|file| name.as_str().is_some_and(|name| name.ends_with(file)));
        let is_met = has_own_profile(name) && verdicts(1).iter().all(|(_, passed)| *passed);
        let is_same = is_met || verdicts(0) == verdicts(1);
        assert!(is_same || is_known, "{name}: {:#}", compared["sides"][1]["expectations"]);
        assert!(!is_same || !is_known, "{name} differs no more");
        judged += verdicts(1).len();
    }
    println!("{} scenarios, {judged} expectations", all.len());
    assert!(all.len() >= 10 && judged >= 20, "{} scenarios, {judged} expectations", all.len());
}

fn kube_scheduler_for_real_needs_no_second_run_to_be_replayed() {
    let dir = empty();
    let file = scenarios().join("preemption-takes-the-least-important-pods.yaml").display().to_string();
    let run = ["run", &file, "--outside", &outside(), "--out", "out", "--transcript", "said.txt", "--timings"];
    let output = dryrack(dir.path(), &run).assert().code(0);
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(said.contains("note: kube-scheduler ") && said.contains("outside: "), "{said}");
    let log = std::fs::read_to_string(dir.path().join("out/events.jsonl")).expect("a log");
    for part in ["\"joined\":{\"name\":\"kube-scheduler\"", "\"preempts\"", "nodes are available: "] {
        assert!(log.contains(part), "{part}");
    }
    let transcript = std::fs::read_to_string(dir.path().join("said.txt")).expect("a transcript");
    assert!(transcript.contains("> {") && transcript.contains("< {\"bound\""), "{transcript}");
    assert_eq!(stdout(dir.path(), &["replay", "out/events.jsonl"], 0), "");
    let happened = stdout(dir.path(), &["log", "out/events.jsonl", "--job", "batch"], 0);
    assert!(happened.contains("preempted"), "{happened}");
}

/// A cluster of 150 nodes, of which an attempt needs 100 feasible ones, and 40 pods that each prefer one node. A pod of
/// `cpu` fits on no node of the zone b if it is 2.
fn many_nodes(cpu: &str) -> String {
    let (mut nodes, mut pods, mut expect) = (String::new(), String::new(), String::new());
    // The zone that is stated first is not the first by name.
    for (zone, count, cpus) in [("x", 60, 8), ("b", 40, 1), ("c", 50, 8)] {
        let labels = format!("{{topology.kubernetes.io/zone: {zone}}}");
        nodes += &format!("  - {{name: {zone}, count: {count}, cpus: {cpus}, ram: 64GiB, labels: {labels}}}\n");
    }
    for pod in 0..40 {
        let node = match pod * 71 % 110 {
            number @ 0..60 => format!("x-{number:02}"),
            number => format!("c-{:02}", number - 60),
        };
        let preference = format!("{{matchFields: [{{key: metadata.name, operator: In, values: [{node}]}}]}}");
        pods += &format!(
            "  - apiVersion: v1
    kind: Pod
    metadata: {{name: p{pod}, annotations: {{dryrack/at: {pod}m, dryrack/duration: 30s}}}}
    spec:
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 100, preference: {preference}}}]
      containers: [{{name: main, resources: {{requests: {{cpu: {cpu}}}}}}}]\n"
        );
        expect += &format!("  - {{name: p{pod}, job: p{pod}, is: running, on: {node}, at: {pod}m}}\n");
    }
    format!(
        "scenario: Many nodes\nprofile: kubernetes-1.20\nuntil: 1h\nnodes:\n{nodes}manifests:\n{pods}expect:\n{expect}"
    )
}

/// Which of many nodes are examined depends on the threads of the program. With one thread, a pod gets the node that it
/// prefers exactly if it does under the profile.
fn kube_scheduler_for_real_examines_the_same_of_many_nodes_in_one_thread() {
    let dir = empty();
    std::fs::write(dir.path().join("one.yaml"), "parallelism: 1\n").expect("a folder of our own");
    let outside = format!("{} --config one.yaml", outside());
    for cpu in ["10m", "2"] {
        std::fs::write(dir.path().join("many.yaml"), many_nodes(cpu)).expect("a folder of our own");
        let args = ["compare", "many.yaml", "--with", "kubernetes-1.20", "--with", &outside, "--format", "json"];
        // Both draw one of several best nodes, so decisions differ.
        let output = dryrack(dir.path(), &args).output().expect("dryrack starts");
        let compared: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let (native, real) = (verdicts(&compared[0], 0), verdicts(&compared[0], 1));
        let examined = native.iter().filter(|(_, passed)| *passed).count();
        assert!((20..40).contains(&examined), "{examined} of 40 pods get the node that they prefer");
        assert_eq!(native, real, "{cpu}");
    }
}

/// A program of 1.20 keeps pods of the named controller off a node with this annotation. Without it, the pods would go to
/// the large node.
const ANNOTATED: &str = r#"
scenario: A node with an annotation gets no pod of a controller
profile: kubernetes-1.20
until: 1h
manifests:
  - apiVersion: v1
    kind: Node
    metadata:
      name: large
      annotations:
        scheduler.alpha.kubernetes.io/preferAvoidPods: |
          {"preferAvoidPods": [{"podSignature": {"podController": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}}}]}
    status: {allocatable: {cpu: 64, memory: 256Gi, pods: 110}}
  - apiVersion: v1
    kind: Node
    metadata: {name: small}
    status: {allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
  - apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata: {name: research, annotations: {example.com/team: vision}}
    value: 1000
    preemptionPolicy: Never
  - apiVersion: apps/v1
    kind: ReplicaSet
    metadata: {name: web}
    spec:
      replicas: 1
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}, annotations: {dryrack/duration: 10m, example.com/note: kept}}
        spec: {priorityClassName: research, containers: [{name: main, resources: {requests: {cpu: 1}}}]}
expect:
  - {name: by_the_annotation, job: web, is: running, on: small, by: 1m}
"#;

fn kube_scheduler_for_real_sees_annotations_and_priority_classes() {
    let dir = empty();
    std::fs::write(dir.path().join("annotated.yaml"), ANNOTATED).expect("a folder of our own");
    assert!(stdout(dir.path(), &["test", "annotated.yaml"], 1).contains("web is running on small"));
    let run = ["run", "annotated.yaml", "--outside", &outside(), "--out", "out", "--transcript", "said.txt"];
    dryrack(dir.path(), &run).assert().code(0);
    stdout(dir.path(), &["replay", "out/events.jsonl"], 0);
    let transcript = std::fs::read_to_string(dir.path().join("said.txt")).expect("a transcript");
    let shown: Vec<Value> = transcript
        .lines()
        .filter_map(|line| line.strip_prefix("> "))
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let of = |kind: &str, name: &str| {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        shown.iter().find(is_it).unwrap_or_else(|| panic!("{kind} {name}: {transcript}"))
    };
    let class = of("PriorityClass", "research");
    assert_eq!((&class["value"], &class["preemptionPolicy"]), (&Value::from(1000), &Value::from("Never")));
    assert_eq!(class["metadata"]["annotations"], serde_json::json!({"example.com/team": "vision"}));
    of("PriorityClass", "system-node-critical");
    let pod = of("Pod", "web");
    assert_eq!(pod["metadata"]["annotations"], serde_json::json!({"example.com/note": "kept"}));
    let spec = ["priority", "priorityClassName", "preemptionPolicy"].map(|field| &pod["spec"][field]);
    assert_eq!(spec, [&Value::from(1000), &Value::from("research"), &Value::from("Never")]);
}

/// Packing is a configuration of the program, which the profile does not set.
fn kube_scheduler_for_real_takes_a_configuration_of_its_own() {
    let dir = empty();
    let most_allocated = "\
profiles:
  - schedulerName: packs
    plugins:
      score:
        disabled: [{name: NodeResourcesLeastAllocated}, {name: NodeResourcesBalancedAllocation}]
        enabled: [{name: NodeResourcesMostAllocated, weight: 5}]
    pluginConfig:
      - name: NodeResourcesMostAllocated
        args: {resources: [{name: nvidia.com/gpu, weight: 5}, {name: cpu, weight: 1}, {name: memory, weight: 1}]}
";
    std::fs::write(dir.path().join("packs.yaml"), most_allocated).expect("a folder of our own");
    let file = scenarios().join("packs-under-most-allocated.yaml").display().to_string();
    let without = ["test", &file, "--outside", &outside()];
    assert!(stdout(dir.path(), &without, 1).contains("fits_at_once"));
    let with = format!("{} --config packs.yaml", outside());
    stdout(dir.path(), &["test", &file, "--outside", &with], 0);
}

fn kube_scheduler_for_real_ends_with_a_named_fault() {
    let dir = empty();
    let program = program().expect("it is here").display().to_string();
    let script = |name: &str, body: &str| {
        script(dir.path(), name, &format!("[ \"$1\" = --version ] && exec {program} --version\n{body}"));
    };
    script("silent", "exec sleep 60");
    script("dies", &format!("exec timeout -s KILL 5 {program} \"$@\""));
    script("leaves", &format!("{program} \"$@\" &\nsleep 5\nkill -KILL $$"));
    let rows = [
        // The program goes on, and the shell that runs it ends.
        ("{kube-scheduler: ./leaves}".to_string(), "process_died", "it was ended by signal 9"),
        ("{kube-scheduler: ./silent, start: 2s}".to_string(), "deadline_missed", "within 2 s"),
        ("{kube-scheduler: ./dies, restarts: 1}".to_string(), "process_died", "it "),
    ];
    // A queue that keeps the program busy for longer than it lives.
    let jobs: String =
        (0..40).map(|job| format!("  - {{name: job{job}, at: {}m, gpus: 1, duration: 70s}}\n", job + 1)).collect();
    for (outside, fault, text) in rows {
        let scenario = format!(
            "scenario: It fails\noutside: {outside}\nuntil: 2h\nnodes: [{{name: alpha, machine: a100-80g-x1}}]\njobs:\n{jobs}"
        );
        std::fs::write(dir.path().join("fails.yaml"), scenario).expect("a folder of our own");
        let output = dryrack(dir.path(), &["run", "fails.yaml", "--out", "out"]).assert().code(1);
        let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(said.contains(&format!("{fault}: the outside scheduler ")) && said.contains(text), "{said}");
        let log = std::fs::read_to_string(dir.path().join("out/events.jsonl")).expect("a log");
        assert!(log.contains(&format!("\"fault\":\"{fault}\"")), "{log}");
        assert_eq!(stdout(dir.path(), &["replay", "out/events.jsonl"], 0), "");
    }
}
