//! `hunt`, with schedulers of our own that break a property or none.

use std::path::Path;

use serde_json::Value;

use crate::cli::{dryrack, empty, stderr, stdout};

trials! {
    Python: [
        a_node_that_is_not_ready_is_found_and_written_to_a_file,
        a_program_that_keeps_to_a_property_is_left_alone,
        what_cannot_be_hunted_is_said,
        a_job_that_ends_in_its_world_is_one_that_was_placed,
        a_report_is_reproduced_under_a_program,
        a_failure_of_a_program_is_minimized_under_that_program,
        the_world_of_a_seed_is_minimized_by_itself,
        profiles_are_asked_what_a_program_decides_in_random_worlds,
    ]
}

/// Places each job of one task on the first node that has enough GPUs, and asks for nothing else.
const CARELESS: &str = "\
import sys
sys.path.insert(0, 'FOLDER')
import dryrack_outside as outside

def decide(world):
    for run in world.waiting():
        job = world.job(run)
        count = job['task']['gpus']['count'] if job['tasks'] == 1 and job['task']['gpus'] else 0
        nodes = [node for node in world.nodes.values() if READY and len(node['gpus']) >= count > 0]
        if nodes:
            yield outside.place(run, [{'node': nodes[0]['name'], 'gpus': list(range(count))}])
        else:
            yield outside.wait(run)

outside.serve('careless', '1', decide)
";

/// Hunts with one property, and returns the exit code and the answer.
fn hunted(dir: &Path, ready: &str, property: &str) -> (Option<i32>, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/outside").display().to_string();
    let program = CARELESS.replace("FOLDER", &folder).replace("READY", ready);
    std::fs::write(dir.join("careless.py"), program).expect("a folder of our own");
    let args = ["hunt", "--outside", "python3 careless.py", "--seeds", "1..25", "--property", property, "--jobs", "1"];
    let output = dryrack(dir, &args).args(["-o", "found", "--max-runs", "60", "--format", "json"]).output();
    let output = output.expect("built");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), said)
}

fn a_node_that_is_not_ready_is_found_and_written_to_a_file() {
    let dir = empty();
    let (code, said) = hunted(dir.path(), "True", "ready");
    assert_eq!(code, Some(1), "{said}");
    let finding = &said["findings"][0];
    assert_eq!(finding["property"], "ready", "{said}");
    let file = finding["file"].as_str().unwrap_or_else(|| panic!("{said}")).to_string();
    let text = std::fs::read_to_string(dir.path().join(&file)).expect("it was written");
    assert!(text.contains("not_ready") && text.contains("/careless.py\""), "{text}");
    // The job may have ended when the run does.
    assert!(text.contains("is: placed, by: 10m, on: n"), "{text}");
    assert_eq!(text.matches("- {name: n").count(), 1, "one node is enough:\n{text}");
    // Where it is, the file passes under its profile, and shows the finding again under the program.
    let out = stdout(dir.path(), &["test", &file], 0);
    assert!(out.contains("reproduced under python3 /") && out.contains("1 scenario, 2 runs: 2 passed"), "{out}");
}

/// A job that ends before its world does is placed, although it has no place at the end.
fn a_job_that_ends_in_its_world_is_one_that_was_placed() {
    let dir = empty();
    let (code, said) = hunted(dir.path(), "False", "fits");
    assert_eq!(code, Some(1), "{said}");
    let files: Vec<&str> =
        said["findings"].as_array().expect("a list").iter().filter_map(|it| it["file"].as_str()).collect();
    for file in files {
        let text = std::fs::read_to_string(dir.path().join(file)).expect("it was written");
        assert!(
            text.contains("is: placed, by: 10m") && !text.contains("does not meet the expectation either"),
            "{text}"
        );
        let out = stdout(dir.path(), &["test", file], 0);
        assert!(out.contains("1 scenario, 2 runs: 2 passed"), "{out}");
    }
}

const REPORT: &str = "\
scenario: Nothing is placed on a node that is not ready
nodes:
  - {name: alpha, gpus: [{type: gpu, memory: 16GiB}], state: not_ready}
  - {name: beta, gpus: [{type: gpu, memory: 16GiB}]}
jobs: [{name: train, gpus: 1, duration: 1m}]
expect: [{name: never_on_alpha, job: train, never: placed, on: alpha}]
reproduces: [{outside: PROGRAM, fails: [never_on_alpha], and: [{job: train, is: placed, on: NODE, at: 30s}]}]
";

fn a_report_is_reproduced_under_a_program() {
    let dir = empty();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/outside").display().to_string();
    std::fs::write(dir.path().join("careless.py"), CARELESS.replace("FOLDER", &folder).replace("READY", "True"))
        .expect("a folder of our own");
    let tested = |program: &str, node: &str, code: i32| {
        let text = REPORT.replace("PROGRAM", program).replace("NODE", node);
        std::fs::write(dir.path().join("it.yaml"), text).expect("a folder of our own");
        let mut command = dryrack(dir.path(), &["test", "it.yaml"]);
        let output = command.env("DRYRACK_CACHE", dir.path().join("cache")).output().expect("built");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    };
    assert!(tested("python3 careless.py", "alpha", 0).contains("2 passed"));
    // This witness is not the one that the program shows.
    assert!(tested("python3 careless.py", "beta", 1).contains("the witness witness-1 did not hold"));
    // If the program fails, the finding is not shown.
    assert!(tested("\"false\"", "alpha", 1).contains("1 failed"));
    let said = tested("gpustack==2.3.0", "alpha", 0);
    assert!(
        said.contains("1 reproduction not run; install the released programs with `dryrack outside install"),
        "{said}"
    );
    let said = tested("gpustack==2.3.9", "alpha", 2);
    assert!(said.contains("it.yaml:7:") && said.contains("the nearest is gpustack==2.3.0"), "{said}");
    let said = tested("a, profile: first-fit", "alpha", 2);
    assert!(said.contains("`profile` and `outside` cannot be given together"), "{said}");
}

fn a_program_that_keeps_to_a_property_is_left_alone() {
    let dir = empty();
    let (code, said) = hunted(dir.path(), "node['state'] == 'ready'", "ready");
    assert_eq!((code, said["findings"].as_array().map(Vec::len)), (Some(0), Some(0)), "{said}");
}

fn what_cannot_be_hunted_is_said() {
    let dir = empty();
    let hunt = |args: &[&str]| stderr(dir.path(), &[&["hunt", "--outside", "false", "--seeds", "1"], args].concat(), 2);
    assert!(hunt(&["--property", "redy"]).contains("did you mean `ready`?"));
    assert!(hunt(&["--world", "model"]).contains("did you mean `models`?"));
    assert!(hunt(&[]).contains("error: no world could be run; the first: "));
}

/// A report with jobs and nodes that have nothing to do with it.
const NOISY: &str = "\
scenario: Nothing is placed on a node that is not ready
nodes:
  - {name: alpha, gpus: [{type: gpu, memory: 16GiB}], state: not_ready}
  - {name: beta, count: 3, gpus: [{type: gpu, count: 2, memory: 16GiB}]}
jobs:
  - {name: noise, count: 5, every: 10s, cpus: 1, duration: 1m}
  - {name: train, at: 30s, gpus: 1, duration: 1m}
expect:
  - {name: noise_ends, job: noise-0, is: completed}
  - {name: never_on_alpha, job: train, never: placed, on: alpha}
";

/// The careless program beside the file, in a folder of our own.
fn careless(dir: &Path) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/outside").display().to_string();
    let program = CARELESS.replace("FOLDER", &folder).replace("READY", "True");
    std::fs::write(dir.join("careless.py"), program).expect("a folder of our own");
}

/// By hand: the job and its node are needed. `noise` is never placed by this program, and its expectation goes too.
fn a_failure_of_a_program_is_minimized_under_that_program() {
    let dir = empty();
    careless(dir.path());
    std::fs::write(dir.path().join("it.yaml"), NOISY).expect("a folder of our own");
    let args = ["minimize", "it.yaml", "--outside", "python3 careless.py", "--expect", "never_on_alpha", "-o"];
    let said = stdout(dir.path(), &[&args[..], &["one.yaml"]].concat(), 0);
    assert!(said.starts_with("never_on_alpha still fails, and still holds under first-fit\n"), "{said}");
    let one = std::fs::read_to_string(dir.path().join("one.yaml")).expect("it was written");
    assert!(one.contains("outside: python3 careless.py") && one.contains("state: not_ready"), "{one}");
    assert!(!one.contains("noise") && !one.contains("beta"), "{one}");
    stdout(dir.path(), &["test", "one.yaml"], 1);
    stdout(dir.path(), &["test", "one.yaml", "--profile", "first-fit"], 0);
    // The program of a file decides without being typed, and no more runs are made than are allowed.
    let again = ["minimize", "one.yaml", "-o", "two.yaml", "--max-runs", "3", "--format", "json"];
    let again: Value = serde_json::from_str(&stdout(dir.path(), &again, 0)).expect("JSON");
    assert!(again["runs"].as_u64().is_some_and(|runs| runs <= 3), "{again}");
    // A program that fails is a failure too.
    let died = ["minimize", "it.yaml", "--outside", "false", "--expect", "process_died", "-o", "three.yaml"];
    let said = stdout(dir.path(), &died, 0);
    assert!(said.starts_with("process_died still fails, and still holds under first-fit\n"), "{said}");
}

fn the_world_of_a_seed_is_minimized_by_itself() {
    let dir = empty();
    let (_, said) = hunted(dir.path(), "True", "ready");
    let seed = said["findings"][0]["smallest_of_seed"].to_string();
    let args = ["minimize", &seed, "--outside", "python3 careless.py", "--property", "ready", "-o", "it.yaml"];
    let told = stdout(dir.path(), &[&args[..], &["--max-runs", "60"]].concat(), 0);
    assert!(told.starts_with("ready is still broken: "), "{told}");
    let out = stdout(dir.path(), &["test", "it.yaml"], 0);
    assert!(out.contains("reproduced under python3 careless.py"), "{out}");
    let (_, held) = hunted(dir.path(), "node['state'] == 'ready'", "ready");
    assert_eq!(held["findings"].as_array().map(Vec::len), Some(0), "{held}");
    let none = stderr(dir.path(), &args[..args.len() - 1].iter().copied().chain(["no.yaml"]).collect::<Vec<_>>(), 4);
    assert!(none.contains("breaks no property; nothing was written"), "{none}");
    assert!(!dir.path().join("no.yaml").exists());
}

/// The example decides as the profile does; the careless program does where a node is not ready.
fn profiles_are_asked_what_a_program_decides_in_random_worlds() {
    let dir = empty();
    careless(dir.path());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/outside/first_fit.py");
    let compared = |program: &str, code: i32| -> Value {
        let with = format!("outside:{program}");
        let args = ["compare", "--seeds", "1..12", "--world", "tasks", "--with", "first-fit", "--with", &with];
        let text = stdout(dir.path(), &[&args[..], &["--format", "json", "--threads", "1"]].concat(), code);
        serde_json::from_str(&text).expect("JSON")
    };
    let same = compared(&format!("python3 {}", example.display()), 0);
    let of_first_fit = &same["profiles"][0];
    assert!(of_first_fit["decisions"].as_u64().is_some_and(|decisions| decisions > 20), "{same}");
    assert_eq!(of_first_fit["decisions"], of_first_fit["identical"], "{same}");
    let other = compared("python3 careless.py", 1);
    let ways: Vec<&str> = (other["profiles"][0]["differences"].as_array().into_iter().flatten())
        .filter_map(|group| group["difference"].as_str())
        .collect();
    assert!(ways.contains(&"only the program places it"), "{other}");
    let two = ["compare", "--seeds", "1..2", "--with", "fifo", "--with", "first-fit"];
    let said = stderr(dir.path(), &two, 2);
    assert!(said.contains("expected one program"), "{said}");
}
