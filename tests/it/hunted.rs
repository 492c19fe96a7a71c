//! `hunt`, with schedulers of our own that break a property or none.

use std::path::Path;

use serde_json::Value;

use crate::cli::{dryrack, empty, stderr, stdout};

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
fn hunted(dir: &Path, ready: &str) -> (Option<i32>, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/outside").display().to_string();
    let program = CARELESS.replace("FOLDER", &folder).replace("READY", ready);
    std::fs::write(dir.join("careless.py"), program).expect("a folder of our own");
    let args = ["hunt", "--outside", "python3 careless.py", "--seeds", "1..25", "--property", "ready", "--jobs", "1"];
    let output = dryrack(dir, &args).args(["-o", "found", "--max-runs", "60", "--format", "json"]).output();
    let output = output.expect("built");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), said)
}

pub fn a_node_that_is_not_ready_is_found_and_written_to_a_file() {
    let dir = empty();
    let (code, said) = hunted(dir.path(), "True");
    assert_eq!(code, Some(1), "{said}");
    let finding = &said["findings"][0];
    assert_eq!(finding["property"], "ready", "{said}");
    let file = finding["file"].as_str().unwrap_or_else(|| panic!("{said}")).to_string();
    let text = std::fs::read_to_string(dir.path().join(&file)).expect("it was written");
    assert!(text.contains("not_ready") && text.contains("- outside: \"python3 careless.py\""), "{text}");
    assert_eq!(text.matches("- {name: n").count(), 1, "one node is enough:\n{text}");
    // The file passes under its profile, and shows the finding again under the program.
    let path = dir.path().join(&file);
    std::fs::copy(&path, dir.path().join("it.yaml")).expect("beside the program");
    let out = stdout(dir.path(), &["test", "it.yaml"], 0);
    assert!(
        out.contains("reproduced under python3 careless.py") && out.contains("1 scenario, 2 runs: 2 passed"),
        "{out}"
    );
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

pub fn a_report_is_reproduced_under_a_program() {
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
    assert!(said.contains("both a profile and a program outside decide here"), "{said}");
}

pub fn a_program_that_keeps_to_a_property_is_left_alone() {
    let dir = empty();
    let (code, said) = hunted(dir.path(), "node['state'] == 'ready'");
    assert_eq!((code, said["findings"].as_array().map(Vec::len)), (Some(0), Some(0)), "{said}");
}

pub fn what_cannot_be_hunted_is_said() {
    let dir = empty();
    let hunt = |args: &[&str]| stderr(dir.path(), &[&["hunt", "--outside", "false", "--seeds", "1"], args].concat(), 2);
    assert!(hunt(&["--property", "redy"]).contains("did you mean `ready`?"));
    assert!(hunt(&["--world", "model"]).contains("did you mean `models`?"));
    assert!(hunt(&[]).contains("error: no world could be run; the first: "));
}
