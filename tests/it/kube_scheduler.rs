//! A real kube-scheduler decides in scenarios. `.ci/kube-scheduler` builds the program; without it, the trials that need
//! it are reported as not run.

#[path = "../../src/apiserver/tests/kube_scheduler/program.rs"]
mod program;

pub use program::find as program;
use std::path::{Path, PathBuf};

use assert_cmd::assert::OutputAssertExt;
use serde_json::Value;

use crate::cli::{dryrack, empty, stdout};

trials! {
    Nothing: [
        a_kube_scheduler_that_is_not_here_is_said,
        a_kube_scheduler_decides_under_a_profile_of_kubernetes_alone,
        a_report_of_a_kube_scheduler_that_is_not_here_is_not_run,
    ]
    KubeScheduler: [
        kube_scheduler_for_real_decides_as_its_profile,
        kube_scheduler_for_real_needs_no_second_run_to_be_replayed,
        kube_scheduler_for_real_takes_a_configuration_of_its_own,
        kube_scheduler_for_real_ends_with_a_named_fault,
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
    for (typed, why) in [
        ("kube-scheduler=./none", "./none: there is no such file"),
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

/// Scenarios in which a verdict differs from that under the profile of the release.
const DIFFERENT: [&str; 9] = [
    // 1.20 has no scheduling gates, `matchLabelKeys`, `nodeTaintsPolicy` and `minDomains`.
    "gated-pod-is-not-tried.yaml",
    "rollout-is-spread-by-revision.yaml",
    "tainted-node-counts-as-an-empty-domain.yaml",
    "waits-for-a-zone-without-nodes.yaml",
    // 1.20 has no device claims, but the profile refuses a claim whose device class does not exist.
    "pod-waits-for-a-device-class.yaml",
    // The threads of the program decide which of more than 100 nodes are examined.
    "preferred-node-among-many.yaml",
    // Not tried since the program sees how budgets change.
    "budget-allows-less-after-a-preemption.yaml",
    // The cause is not known.
    "cordoned-node-still-counts-for-spreading.yaml",
    "nominated-node-is-taken-by-a-more-important-pod.yaml",
];

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
        let verdicts = |side: usize| -> Vec<(String, bool)> {
            let side = &compared["sides"][side];
            assert!(side["not_run"].is_null(), "{name}: {side}");
            let expectations = side["expectations"].as_array().expect("a list");
            let verdict = |one: &Value| (one["name"].to_string(), one["passed"] == true);
            expectations.iter().map(verdict).collect()
        };
        let is_known = DIFFERENT.iter().any(|file| name.as_str().is_some_and(|name| name.ends_with(file)));
        let is_same = verdicts(0) == verdicts(1);
        assert!(is_same || is_known, "{name}: {:#}", compared["sides"][1]["expectations"]);
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
    std::fs::write(dir.path().join("wrong.yaml"), "profiles: [{plugins: {score: {enabled: [{name: None}]}}}]\n")
        .expect("a folder of our own");
    let script = |name: &str, body: &str| {
        let path = dir.path().join(name);
        let text = format!("#!/bin/sh\n[ \"$1\" = --version ] && exec {program} --version\n{body}\n");
        std::fs::write(&path, text).expect("a folder of our own");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a script");
    };
    script("silent", "exec sleep 60");
    script("dies", &format!("exec timeout -s KILL 1 {program} \"$@\""));
    let rows = [
        (format!("{{kube-scheduler: [{program}, --config, wrong.yaml]}}"), "process_died", "exited with code 1"),
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
