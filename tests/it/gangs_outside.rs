//! Gangs of unequal tasks, and of fewer tasks than stated, that a scheduler in another process places.

use serde_json::Value;

use crate::asked::answering;
use crate::cli::{dryrack, stdout, written};
use crate::outside::validator;

trials! {
    Python: [
        unequal_and_elastic_gangs_are_placed_by_an_outside_scheduler,
        wrong_parts_of_an_unequal_gang_are_refused_by_name,
        gpus_with_the_memory_of_their_node_leave_the_ram_of_other_tasks,
    ]
}

const SCENARIO: &str = "\
scenario: A launcher with two workers, and a gang that starts with fewer tasks
nodes:
  - {name: alpha, cpus: 16, ram: 64GiB, gpus: [{type: gpu, count: 4, memory: 16GiB}]}
  - {name: beta, cpus: 16, ram: 64GiB, gpus: [{type: gpu, count: 4, memory: 16GiB}]}
jobs:
  - name: train
    tasks: [{name: launcher, cpus: 2}, {name: worker, tasks: 2, cpus: 4, gpus: 3}]
    duration: 1h
  - {name: elastic, at: 1m, tasks: 4, min_tasks: 2, gpus: 1, cpus: 1, duration: 1h}
expect:
  - {job: train, is: running, at: 30s}
  - {job: train, is: completed, by: 1h}
  - {job: elastic, is: running, at: 2m}
  - {name: half_of_the_tasks_take_twice_as_long, job: elastic, is: completed, by: 2h2m}
  - {count: safety_broken, is: 0}
";

/// Answers each question about a run with its parts, given as a dict from the name of the run.
fn program(parts: &str) -> String {
    let place = r#"{"do": "place", "run": run, "parts": PARTS[run]}"#;
    let decisions = format!(r#"answer["decisions"] = [{place} for run in message["waiting"] if run in PARTS]"#);
    format!("PARTS = {parts}\n{}", answering(&decisions))
}

const RIGHT: &str = r#"{
    "train/0/1": [{"node": "alpha", "set": "worker", "gpus": [0, 1, 2]}, {"node": "alpha", "set": "launcher"},
                  {"node": "beta", "set": "worker", "tasks": 1, "gpus": [1, 2, 3]}],
    "elastic/0/1": [{"node": "alpha", "gpus": [3]}, {"node": "beta", "gpus": [0]}],
}"#;

fn unequal_and_elastic_gangs_are_placed_by_an_outside_scheduler() {
    let dir = written(&[("it.yaml", SCENARIO), ("program.py", &program(RIGHT))]);
    let typed = ["--outside", "python3 program.py", "--out", "log", "--transcript", "transcript"];
    let said = stdout(dir.path(), &[&["run", "it.yaml"], &typed[..]].concat(), 0);
    assert!(!said.contains("FAIL"), "{said}");
    stdout(dir.path(), &["replay", "log/events.jsonl"], 0);

    let (to, from) = (validator("to_program"), validator("from_program"));
    let mut sets = Vec::new();
    for line in std::fs::read_to_string(dir.path().join("transcript")).expect("written").lines() {
        let message: Value = serde_json::from_str(&line[2..]).expect("JSON");
        let validator = if line.starts_with('>') { &to } else { &from };
        let faults: Vec<String> = validator.iter_errors(&message).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{faults:?}: {line}");
        let runs = message["runs"].as_array().into_iter().flatten();
        sets.extend(
            runs.filter(|run| run["job"] == "train").flat_map(|run| run["parts"].as_array()).flatten().cloned(),
        );
    }
    let on = |node: &str| sets.iter().find(|part| part["node"] == node).expect("a part");
    assert_eq!(on("alpha")["sets"], serde_json::json!({"launcher": 1, "worker": 1}));
    assert_eq!((&on("alpha")["tasks"], &on("alpha")["cpu_milli"]), (&2.into(), &6000.into()));
    assert_eq!(on("beta")["sets"], serde_json::json!({"worker": 1}));
}

fn wrong_parts_of_an_unequal_gang_are_refused_by_name() {
    let worker = r#"{"node": "beta", "set": "worker", "gpus": [1, 2, 3]}"#;
    let launcher = r#"{"node": "alpha", "set": "launcher"}"#;
    let cases = [
        (
            r#"{"node": "alpha", "gpus": [0, 1, 2]}"#,
            "a part on `alpha` names no `set`; the job has `launcher`, `worker`",
        ),
        (r#"{"node": "alpha", "set": "main"}"#, "the job has no set `main`, only `launcher`, `worker`"),
        (launcher, "a place for 1 task of `worker`, but the job has 2"),
        (worker, "two parts for `worker` on `beta`"),
        (r#"{"node": "alpha", "set": "worker", "gpus": [0, 1]}"#, "2 GPUs of `alpha`, but its tasks there need 3"),
        (r#"{"node": "alpha", "set": "worker", "gpus": [0, 1, 2], "ram": 1}"#, "states what follows from the job"),
    ];
    for (part, why) in cases {
        let parts = match part == launcher {
            true => format!("{{'train/0/1': [{launcher}, {worker}]}}"),
            false => format!("{{'train/0/1': [{worker}, {part}]}}"),
        };
        let dir = written(&[("it.yaml", SCENARIO), ("program.py", &program(&parts))]);
        let output =
            dryrack(dir.path(), &["run", "it.yaml", "--outside", "python3 program.py"]).output().expect("built");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let refused = said.lines().find(|line| line.starts_with("refused")).unwrap_or_else(|| panic!("{part}: {said}"));
        assert!(refused.contains("misshapen") && refused.contains(why), "{refused}");
    }
}

/// As under `first-fit`: the whole GPU of a Mac takes the RAM that all tasks there leave.
fn gpus_with_the_memory_of_their_node_leave_the_ram_of_other_tasks() {
    let scenario = "scenario: Two kinds of tasks on a Mac\nprofile: first-fit\n\
         nodes: [{name: mac, machine: m2-ultra-128g}]\njobs:\n  - name: train\n    \
         tasks: [{name: a, gpus: 1, cpus: 1}, {name: b, cpus: 1, ram: 10GiB}]\n    duration: 1h\n\
         expect: [{job: train, is: completed, by: 1h}, {count: safety_broken, is: 0}]\n";
    let parts = r#"{"train/0/1": [{"node": "mac", "set": "a", "gpus": [0]}, {"node": "mac", "set": "b"}]}"#;
    let dir = written(&[("it.yaml", scenario), ("program.py", &program(parts))]);
    let memory = |folder: &str| {
        let text = std::fs::read_to_string(dir.path().join(folder).join("events.jsonl")).expect("a log");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
        let placed = lines.map(|line| line["event"]["placed"]["placement"][0]["gpus"][0]["memory"].clone());
        placed.filter_map(|memory| memory.as_u64()).next().expect("a GPU")
    };
    stdout(dir.path(), &["run", "it.yaml", "--out", "own"], 0);
    stdout(dir.path(), &["run", "it.yaml", "--outside", "python3 program.py", "--out", "outside"], 0);
    assert_eq!(memory("own"), memory("outside"));
}
