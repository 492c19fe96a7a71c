//! `minimize` and `compare`, as they are typed.

use std::path::{Path, PathBuf};

use assert_cmd::assert::OutputAssertExt;
use serde_json::Value;

use crate::cli::{dryrack, empty, stderr, stdout};

trials! {
    Nothing: [
        a_report_is_minimized_under_the_profile_that_shows_it,
        a_job_that_was_late_because_it_waited_still_waits,
        a_job_that_an_own_filter_refused_is_refused_by_it_still,
        what_cannot_be_minimized_is_said_and_nothing_is_written,
        profiles_are_compared_to_the_first_decision_that_differs,
        what_cannot_be_compared_is_said,
        a_table_of_reports_says_how_releases_are_installed,
    ]
    Python: [
        programs_are_compared_with_profiles,
        a_job_that_a_program_leaves_waiting_still_waits_for_others,
    ]
}

const REPORT: &str = "1548-picked-model-waits-for-both-nodes.yaml";

/// The path of a scenario of GPUStack's reports.
fn reported() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/gpustack").join(REPORT)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Worked out by hand: the model, the node that is not ready and the node beside it are needed. The Mac, the fault and
/// the other expectations are removed.
fn a_report_is_minimized_under_the_profile_that_shows_it() {
    let dir = empty();
    let file = reported().display().to_string();
    let args = ["minimize", &file, "--profile", "gpustack-0.5-dev", "--expect", "never_on_alpha", "-o"];
    let said = stdout(dir.path(), &[&args[..], &["one.yaml"]].concat(), 0);
    assert!(said.starts_with("never_on_alpha still fails, and still holds under gpustack\n"), "{said}");
    stdout(dir.path(), &[&args[..], &["two.yaml"]].concat(), 0);
    let (one, two) = (read(&dir.path().join("one.yaml")), read(&dir.path().join("two.yaml")));
    assert_eq!(one, two);
    assert!(one.len() < read(&reported()).len());
    for kept in
        ["report: gpustack#1548", "profile: gpustack-0.5-dev", "name: alpha", "state: not_ready", "never_on_alpha"]
    {
        assert!(one.contains(kept), "{kept} in\n{one}");
    }
    for gone in ["studio", "says_why", "recovers", "faults", "reproduces"] {
        assert!(!one.contains(gone), "{gone} in\n{one}");
    }
    let failed = stdout(dir.path(), &["run", "one.yaml", "--format", "json"], 1);
    let failed: Value = serde_json::from_str(&failed).expect("JSON");
    assert_eq!(failed["expectations"][0]["name"], "never_on_alpha");
    assert_eq!(failed["expectations"][0]["passed"], false);
    // Under the correct profile the expectation holds, as in the report's scenario.
    stdout(dir.path(), &["run", "one.yaml", "--profile", "gpustack"], 0);
}

/// Of the four GPUs, seven jobs of half an hour leave none for `late` for an hour. With six of them it would begin after half
/// an hour and end in time. A job that never ends would be late too, but not because it waited.
fn a_job_that_was_late_because_it_waited_still_waits() {
    let dir = empty();
    let text = "scenario: Jobs wait too long\nprofile: fifo\nnodes: [{name: n, count: 2, machine: a100-80g-x2}]\njobs:\n  \
                - {name: a, count: 8, gpus: 1, duration: 30m}\n  - {name: late, gpus: 2, duration: 1h}\nexpect: \
                [{name: in_time, job: late, is: completed, by: 90m}]\n";
    std::fs::write(dir.path().join("wait.yaml"), text).expect("a folder of our own");
    let said = stdout(dir.path(), &["minimize", "wait.yaml", "-o", "less.yaml"], 0);
    assert!(said.contains("  now     0s pending (queue_order), 30m pending (insufficient_gpus), 1h running"), "{said}");
    let less = read(&dir.path().join("less.yaml"));
    assert!(less.contains("count: 7, gpus: 1, duration: 30m") && less.contains("gpus: 2, duration: 1h"), "{less}");
}

/// The job fits on no node: one is full, the others are slow. Without the label it would wait for GPUs alone, which is not what was
/// reported.
fn a_job_that_an_own_filter_refused_is_refused_by_it_still() {
    let dir = empty();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    write(
        "slow.profile.yaml",
        "base: first-fit\nname: slow\ntitle: No jobs of two GPUs in the slow pool\nhistoric: true\nscheduler:\n  filters:\n    - \
         {stage: picked}\n    - {stage: labels}\n    - {stage: ready}\n    - {stage: compatible}\n    - {filter: of_pool, unless: 'node.labels.pool == \
         \"slow\" && job.gpus > 1', because: slow_pool}\n    - {stage: resources}\n",
    );
    write(
        "pool.yaml",
        "scenario: A job for two GPUs\nprofile: slow.profile.yaml\nnodes:\n  - {name: small, count: 3, gpus: [{type: l4, count: \
         2}], labels: {pool: slow, zone: z}}\n  - {name: big, gpus: [{type: l4, count: 4}]}\njobs:\n  - {name: fill, gpus: 4}\n  - \
         {name: one, count: 4, at: 5m, gpus: 1}\n  - {name: two, at: 7m, gpus: 2}\nexpect: [{name: runs, job: two, is: running, \
         by: 10m}]\n",
    );
    stdout(dir.path(), &["minimize", "pool.yaml", "-o", "less.yaml"], 0);
    let less = read(&dir.path().join("less.yaml"));
    assert!(less.contains("pool: slow") && !less.contains("zone"), "{less}");
    stdout(dir.path(), &["run", "less.yaml", "--out", "out"], 1);
    let why = stdout(dir.path(), &["explain", "out/events.jsonl", "--job", "two", "--at", "10m"], 0);
    assert!(why.contains("slow_pool"), "{why}");
}

fn what_cannot_be_minimized_is_said_and_nothing_is_written() {
    let dir = empty();
    let file = reported().display().to_string();
    let out = ["-o", "out.yaml"];
    let said = |args: &[&str], code: i32| stderr(dir.path(), &[&["minimize"], args, &out[..]].concat(), code);
    let held = said(&[&file], 4);
    assert!(held.contains("does not fail: every expectation holds; nothing was written"), "{held}");
    let held = said(&[&file, "--profile", "gpustack-0.5-dev", "--expect", "recovers"], 4);
    assert!(held.contains("recovers holds; what fails: never_on_alpha, says_why; nothing was written"), "{held}");
    let unknown = said(&[&file, "--expect", "never_on_alhpa"], 2);
    assert!(unknown.contains("no expectation is named `never_on_alhpa`; did you mean `never_on_alpha`?"), "{unknown}");
    let missing = said(&["none.yaml"], 2);
    assert!(missing.contains("none.yaml"), "{missing}");
    let seed = said(&["7"], 2);
    assert!(seed.contains("there is no file 7, and a world of `hunt` needs a program"), "{seed}");
    let flag = said(&["7", "--outside", "true", "--expect", "x"], 2);
    assert!(flag.contains("--expect: the world of a seed is random"), "{flag}");
    let flag = said(&[&file, "--outside", "true", "--property", "ready"], 2);
    assert!(flag.contains("--property: a scenario file has no random world"), "{flag}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("a folder of our own").collect();
    assert!(left.is_empty(), "{left:?}");
    // The only help is to write the result beside the scenario, because the path in the scenario is right.
    std::fs::create_dir(dir.path().join("in")).expect("a folder of our own");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    write("in/mine.profile.yaml", "base: fifo\nname: mine\ntitle: Mine\n");
    write(
        "in/one.yaml",
        "scenario: One\nprofile: mine.profile.yaml\nnodes: [{name: a, cpus: 1}]\njobs: [{name: b, cpus: 2}]\n\
         expect: [{job: b, is: running, at: 1m}]\n",
    );
    write("in/here.py", "");
    write(
        "in/two.yaml",
        "scenario: Two\noutside: python3 here.py\nnodes: [{name: a, cpus: 1}]\njobs: [{name: b, cpus: 1}]\n\
         expect: [{job: b, is: running, at: 1m}]\n",
    );
    let program = said(&["in/two.yaml"], 2);
    assert!(
        program.contains("its `outside` names `here.py`, which is looked up in the folder of the result")
            && program.contains("with `--out in/out.yaml`"),
        "{program}"
    );
    let beside = said(&["in/one.yaml"], 2);
    let helps: Vec<&str> = beside.lines().filter(|line| line.contains("= help: ") || line.contains("note: ")).collect();
    assert!(
        matches!(helps[..], [help] if help.contains("with `--out in/out.yaml`: files that it names are looked up")),
        "{beside}"
    );
}

fn profiles_are_compared_to_the_first_decision_that_differs() {
    let dir = empty();
    let file = reported().display().to_string();
    let args = ["compare", &file, "--with", "gpustack", "--with", "gpustack-0.5-dev"];
    let said = stdout(dir.path(), &args, 1);
    assert!(said.contains("the first decision that differs: chat at 10s"), "{said}");
    assert!(said.contains("node_not_ready"), "{said}");
    let json = dryrack(dir.path(), &args).args(["--format", "json"]).assert().code(1).get_output().clone();
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json[0]["differences"][0]["first"]["job"], "chat");
    assert_eq!(json[0]["sides"][0]["with"], "gpustack");
    let same = stdout(dir.path(), &["compare", &file, "--with", "gpustack", "--with", "gpustack"], 0);
    assert!(!same.contains("differs:"), "{same}");
}

fn what_cannot_be_compared_is_said() {
    let dir = empty();
    let file = reported().display().to_string();
    let one = stderr(dir.path(), &["compare", &file, "--with", "gpustack"], 2);
    assert!(one.contains("expected at least two"), "{one}");
    let unknown = stderr(dir.path(), &["compare", &file, "--with", "gpustack", "--with", "gpustak"], 2);
    assert!(unknown.contains("gpustack"), "{unknown}");
}

/// The example decides like `first-fit` but states no reasons, so it differs from `fifo` at the same decisions as
/// `first-fit`. A program that cannot decide is an error in the file's only run.
fn programs_are_compared_with_profiles() {
    let dir = empty();
    let text = "\
scenario: A small job behind a wide one
nodes: [{name: a, gpus: 2, gpu: l4}]
jobs:
  - {name: long, gpus: 1, duration: 1h, time_limit: 1h}
  - {name: wide, at: 1m, gpus: 2, duration: 10m, time_limit: 10m}
  - {name: small, at: 2m, gpus: 1, duration: 10m, time_limit: 10m}
";
    std::fs::write(dir.path().join("it.yaml"), text).expect("a folder of our own");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/outside/first_fit.py");
    let program = format!("outside:python3 {}", example.display());
    let same = stdout(dir.path(), &["compare", "it.yaml", "--with", "first-fit", "--with", &program], 1);
    assert!(same.contains("every decision is the same; the first with different reasons: wide at 1m"), "{same}");
    assert!(same.contains("No metric differs."), "{same}");
    let other = stdout(dir.path(), &["compare", "it.yaml", "--with", "fifo", "--with", &program], 1);
    assert!(other.contains("the first decision that differs: small at 2m"), "{other}");
    let fails = ["compare", "it.yaml", "--with", "fifo", "--with", "outside:false"];
    let said = stderr(dir.path(), &fails, 2);
    assert!(said.contains("ended") || said.contains("the outside scheduler"), "{said}");
    let unknown = stderr(dir.path(), &["compare", "it.yaml", "--with", "fifo", "--with", "gpustack==0.6.7"], 2);
    assert!(unknown.contains("the nearest is gpustack==0.6.2"), "{unknown}");
}

/// The program says only that it decides. An empty fleet, or one without GPUs, would keep the job waiting too, but no scheduler could
/// help it. By hand: four GPUs, of which another job has one.
fn a_job_that_a_program_leaves_waiting_still_waits_for_others() {
    let dir = empty();
    let text = "scenario: An urgent job waits\nprofile: fifo\nnodes: [{name: big, gpus: [{type: l4, count: 4}]}, {name: small, gpus: \
                [{type: l4, count: 2}]}]\njobs:\n  - {name: low, count: 3, gpus: 2, duration: 1h}\n  - {name: urgent, at: 10m, gpus: \
                4, duration: 30m}\nexpect: [{name: up, job: urgent, is: running, by: 15m}]\n";
    std::fs::write(dir.path().join("up.yaml"), text).expect("a folder of our own");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/outside/first_fit.py");
    let program = format!("python3 {}", example.display());
    stdout(dir.path(), &["minimize", "up.yaml", "--outside", &program, "-o", "less.yaml"], 0);
    let less = read(&dir.path().join("less.yaml"));
    assert!(less.contains("{name: low, gpus: 1}") && less.contains("{name: urgent, gpus: 4}"), "{less}");
    assert!(less.contains("{type: l4, count: 4}") && !less.contains("small"), "{less}");
}

/// The test uses a separate cache, in which nothing is installed.
fn a_table_of_reports_says_how_releases_are_installed() {
    let dir = empty();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/dstack").display().to_string();
    let args = ["bisect", &folder, "--outside", "dstack", "--reports", "--from", "0.19.9", "--to", "0.19.10"];
    let output = dryrack(dir.path(), &args).env("DRYRACK_CACHE", dir.path()).output().expect("built");
    let said = String::from_utf8(output.stderr).expect("text");
    let expected = "error: no release from dstack==0.19.9 to dstack==0.19.10 is installed\n  = help: install a release, \
                    for example with `dryrack outside install dstack==0.19.9`\n";
    assert_eq!((output.status.code(), said.as_str()), (Some(2), expected));
}
