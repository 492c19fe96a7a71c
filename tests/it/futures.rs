//! What-if runs: a branch that leaves another run at a given time, and two alternatives compared job by job.

use std::path::Path;
use std::sync::Arc;

use assert_cmd::assert::OutputAssertExt;
use dryrack_control::{Profile, can_become};
use dryrack_engine::{Audit, Checks, Records, Rehearsal, RunOptions, branch, draw_world, replay, run};
use dryrack_event::{Digester, Record};
use dryrack_profile::{load_profile, profile_names};
use dryrack_rng::Stream;
use dryrack_scheduler::{Caching, Grouping};
use dryrack_units::SimTime;
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{dryrack, empty, stderr, stdout};

trials! {
    Nothing: [
        another_node_from_a_time_on_is_what_it_would_be_on_paper,
        costs_are_compared_from_the_change_on,
        another_profile_judges_anew_who_waits,
        a_quota_from_a_time_on_counts_what_its_project_holds_then,
        fair_shares_from_a_time_on_count_what_users_hold_then,
        fair_shares_go_on_under_a_profile_with_the_same_rules,
        what_slurm_knows_of_running_jobs_goes_on,
        a_difference_is_told_by_the_exit_code_if_it_is_asked_for,
        a_node_that_leaves_ends_what_it_has_begun,
        a_node_has_another_state_from_a_time_on,
        a_state_of_the_command_line_replaces_that_of_a_fault,
        what_cannot_be_otherwise_is_told_so,
        a_branch_keeps_the_partitions_of_its_nodes,
        a_difference_of_half_a_second_is_not_a_longer_wait,
        passes_go_on_at_their_times_in_a_branch,
        random_worlds_branch_and_replay,
        two_alternatives_are_paired_by_seed_and_job,
        an_alternative_that_the_plan_does_not_have_is_told,
    ]
    Time: [
        slow_many_random_worlds_branch_and_replay,
    ]
}

/// `long` has one of two GPUs for an hour, `wide` wants both, and `small` waits behind it: 59 and 68 minutes.
const SCENARIO: &str = "\
scenario: Three jobs and too few GPUs
profile: fifo
params: {workers: 2}
until: 3h
nodes:
  - {name: worker, count: \"${workers}\", cpus: 8, gpus: 1, gpu: l4}
jobs:
  - {name: long, at: 0s, gpus: 1, duration: 1h}
  - {name: wide, at: 1m, gpus: 1, tasks: 2, gang: spread, duration: 10m}
  - {name: small, at: 2m, gpus: 1, duration: 5m}
expect:
  - jobs_submitted >= 1
";

fn folder(text: &str) -> TempDir {
    let dir = empty();
    std::fs::write(dir.path().join("base.yaml"), text).expect("a folder of our own");
    dir
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let output = dryrack(dir, args).args(["--format", "json"]).assert().code(0).get_output().clone();
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Ten jobs of two hours on two nodes for 10 EUR an hour each take ten hours. With six nodes from 5h on, the six jobs that are
/// left end at 7h. From 5h on, the former cost 5 * 20 and the latter 2 * 60 EUR.
fn costs_are_compared_from_the_change_on() {
    let dir = empty();
    let text = "scenario: Ten jobs on priced nodes\nparams: {workers: 2}\ncurrency: EUR\n\
                nodes: [{name: w, machine: l4-x1, count: \"${workers}\", price_per_hour: 10}]\n\
                jobs: [{name: train, count: 10, gpus: 1, duration: 2h}]\n";
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    let args = ["what-if", "s.yaml", "--at", "5h", "--set", "params.workers=6"];
    let said = stdout(dir.path(), &args, 0);
    assert!(said.contains("cost from 5h on") && said.contains("cost_per_month from 5h on"), "{said}");
    assert!(said.contains("are up to the end of each run: 10h with base, 7h with branch."), "{said}");
    let metrics = &json(dir.path(), &args)["metrics"];
    for (name, base, branch) in [("cost", 100.0, 120.0), ("cost_per_month", 14_600.0, 43_800.0)] {
        let found = &metrics[name];
        assert_eq!((found["base"].as_f64(), found["branch"].as_f64()), (Some(base), Some(branch)), "{name}");
        assert_eq!(found["from_seconds"].as_f64(), Some(18_000.0), "{name}");
    }
    assert!(metrics["makespan_seconds"].get("from_seconds").is_none());
}

fn records_of(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains("\"at_ns\":")).collect()
}

fn at_of(line: &str) -> u64 {
    let value: Value = serde_json::from_str(line).expect("JSON");
    value["at_ns"].as_u64().expect("a time")
}

/// On paper: with a third node from 30m on, `wide` is placed at that moment, and `small` when it ends at 40m.
fn another_node_from_a_time_on_is_what_it_would_be_on_paper() {
    let dir = folder(SCENARIO);
    let args = ["what-if", "base.yaml", "--at", "30m", "--set", "params.workers=3", "--out", "out"];
    let said = json(dir.path(), &args);
    let changed = said["changed_most"].as_array().expect("a list");
    for (name, base, branch) in [("wide", 59.0, 29.0), ("small", 68.0, 38.0)] {
        let job = changed.iter().find(|job| job["job"] == name).expect("it changed");
        let wait = |side: &str| job[side]["wait_seconds"].as_f64().expect("a number") / 60.0;
        assert!((wait("base") - base).abs() < 1e-9 && (wait("branch") - branch).abs() < 1e-9, "{job:#}");
        assert!(job["because"][0].as_str().expect("a line").starts_with("why not   at "), "{job:#}");
    }
    assert_eq!(changed.len(), 2);
    assert_eq!((&said["queue_wait"]["less"], &said["queue_wait"]["same"]), (&2.into(), &0.into()), "{said:#}");

    // The branch is a log like any other, names its base, and equals it up to the branching time.
    for log in ["out/base.jsonl", "out/branch.jsonl"] {
        assert_eq!(stdout(dir.path(), &["replay", log], 0), "");
    }
    let read = |name: &str| std::fs::read_to_string(dir.path().join("out").join(name)).expect("it was written");
    let (base, branch) = (read("base.jsonl"), read("branch.jsonl"));
    let header: Value = serde_json::from_str(branch.lines().next().expect("a header")).expect("JSON");
    let text = header.to_string();
    let parent = said["digests"][0]["base"].as_str().expect("a digest");
    assert!(text.contains(&format!("\"parent\":\"{parent}\"")), "{text}");
    let half_past = 30 * 60 * 1_000_000_000;
    let before = |log: &str| -> Vec<String> {
        records_of(log).into_iter().filter(|line| at_of(line) < half_past).map(str::to_string).collect()
    };
    assert!(before(&base).len() > 5);
    assert_eq!(before(&base), before(&branch));
    assert!(records_of(&branch).iter().any(|line| at_of(line) == half_past && line.contains("node_declared")));
    // If the base is run separately, it equals the scenario.
    let own = json(dir.path(), &["run", "base.yaml"]);
    assert_eq!(own["digest"], parent);
}

/// On paper: with the queue skipped from 30m on, `small` is placed at that moment, 28m after its arrival; `wide` is
/// unchanged.
fn another_profile_judges_anew_who_waits() {
    let dir = folder(SCENARIO);
    let args = ["what-if", "base.yaml", "--at", "30m", "--profile", "fifo-skipping", "--out", "out"];
    let said = json(dir.path(), &args);
    let changed = said["changed_most"].as_array().expect("a list");
    assert_eq!(changed.len(), 1, "{said:#}");
    assert_eq!((&changed[0]["job"], &changed[0]["branch"]["wait_seconds"]), (&"small".into(), &1680.0.into()));
    assert_eq!(stdout(dir.path(), &["replay", "out/branch.jsonl"], 0), "");
    let log = stdout(dir.path(), &["log", "out/branch.jsonl"], 0);
    assert!(log.contains("profile              changes        to fifo-skipping"), "{log}");
}

/// The jobs whose waits differ, with their seconds in the base and in the branch.
fn changed_waits(dir: &Path, args: &[&str]) -> Vec<(String, u64, u64)> {
    let said = json(dir, &[&["what-if", "base.yaml", "--at", "30m"], args].concat());
    let seconds = |job: &Value, of: &str| job[of]["wait_seconds"].as_f64().expect("a wait") as u64;
    let changed = said["changed_most"].as_array().expect("a list").iter();
    let name = |job: &Value| job["job"].as_str().expect("a name").to_string();
    let mut waits: Vec<_> = changed.map(|job| (name(job), seconds(job, "base"), seconds(job, "branch"))).collect();
    waits.sort();
    waits
}

/// With a quota of four GPUs, `late` waits from 40m until `long` ends at 2h, which holds three.
fn a_quota_from_a_time_on_counts_what_its_project_holds_then() {
    let dir = folder(
        "\
scenario: Two jobs of one project
profile: fifo
policies: {quotas: {research: {gpus: 8}}}
nodes:
  - {name: worker, cpus: 8, gpus: 8, gpu: l4}
jobs:
  - {name: long, project: research, gpus: 3, duration: 2h}
  - {name: late, at: 40m, project: research, gpus: 2, duration: 10m}
",
    );
    let waits = changed_waits(dir.path(), &["--set", "policies.quotas.research.gpus=4"]);
    assert_eq!(waits, [("late".into(), 0, 4800)]);
}

/// A GPU is free from 1h on. In order of submission, `second` is placed then. By shares, `third` is the first, because the
/// user of `second` has held a GPU since the branch began.
fn fair_shares_from_a_time_on_count_what_users_hold_then() {
    let dir = folder(
        "\
scenario: Three users and two GPUs
profile: fifo
nodes:
  - {name: worker, cpus: 8, gpus: 2, gpu: l4}
jobs:
  - {name: first, user: ann, gpus: 1, duration: 3h}
  - {name: other, user: cat, gpus: 1, duration: 1h}
  - {name: second, at: 40m, user: ann, gpus: 1, duration: 10m}
  - {name: third, at: 41m, user: bob, gpus: 1, duration: 10m}
",
    );
    let waits = changed_waits(dir.path(), &["--profile", "fair-share"]);
    assert_eq!(waits, [("second".into(), 1200, 1800), ("third".into(), 1740, 1140)]);
}

/// The GPU is free at 1h. The user of `second` has used it before the branch and the user of `third` has not, so `third` is
/// placed first in both. Accounts that began anew would be equal, and `second` was submitted first.
fn fair_shares_go_on_under_a_profile_with_the_same_rules() {
    let dir = folder(
        "\
scenario: Three users and one GPU
profile: fair-share
policies: {quotas: {research: {gpus: 8}}}
nodes:
  - {name: worker, cpus: 8, gpus: 1, gpu: l4}
jobs:
  - {name: first, user: ann, gpus: 1, duration: 20m}
  - {name: other, at: 25m, user: cat, gpus: 1, duration: 35m}
  - {name: second, at: 40m, user: ann, gpus: 1, duration: 10m}
  - {name: third, at: 41m, user: bob, gpus: 1, duration: 10m}
",
    );
    let run = json(dir.path(), &["what-if", "base.yaml", "--at", "30m", "--profile", "fifo"]);
    assert_eq!(run["changed_most"].as_array().map(Vec::len), Some(2), "{run:#}");
    let waits = changed_waits(dir.path(), &["--set", "policies.quotas.research.gpus=4"]);
    assert_eq!(waits, []);
}

/// `both` runs in its partition of the higher tier, so nobody preempts it. `scavenger` is preempted at 25m and may run until
/// 45m. An exempt time that is long over changes neither.
fn what_slurm_knows_of_running_jobs_goes_on() {
    for (name, slurm, jobs) in [
        (
            "the partition in which a job runs",
            "preempt_type: partition_prio
  partitions: [{name: low, default: true, priority_tier: 1}, {name: high, priority_tier: 2}]",
            "both, partition: 'low,high', cpus: 1, estimate: 3h, duration: 2h}
  - {name: urgent, at: 40m, partition: high, cpus: 1, estimate: 10m, duration: 5m}",
        ),
        (
            "a grace time",
            "preempt_type: qos
  qos: [{name: low, grace_time: 20m}, {name: high, preempt: [low]}]",
            "scavenger, qos: low, cpus: 1, estimate: 3h, duration: 2h}
  - {name: urgent, at: 25m, qos: high, cpus: 1, estimate: 10m, duration: 5m}",
        ),
    ] {
        let dir = folder(&format!(
            "scenario: {name}\nprofile: slurm-22.05\nslurm:\n  {slurm}\nnodes: [{{name: n, cpus: 1}}]\n\
             jobs:\n  - {{name: {jobs}\n"
        ));
        // The clocks of the branch begin anew, so a wait may differ by a part of a second.
        for (job, base, branch) in changed_waits(dir.path(), &["--set", "slurm.preempt_exempt_time=1m"]) {
            assert_eq!(base, branch, "{name}: {job}");
        }
    }
}

/// The third node changes waits, and a parameter set to the value that it has changes nothing.
fn a_difference_is_told_by_the_exit_code_if_it_is_asked_for() {
    let dir = folder(SCENARIO);
    let args = |workers: &str| {
        let set = format!("params.workers={workers}");
        ["what-if", "base.yaml", "--at", "30m", "--exit-code", "--set", &set].map(str::to_string)
    };
    for (workers, code) in [("3", 1), ("2", 0)] {
        let args = args(workers);
        stdout(dir.path(), &args.each_ref().map(String::as_str), code);
    }
}

/// On paper: one of two nodes leaves at 10m. It still runs `long` until 1h, and is then gone. `other` waits for the
/// remaining node, which is free at 2h.
fn a_node_that_leaves_ends_what_it_has_begun() {
    let dir = folder(
        "scenario: Two nodes, of which one is taken away\nprofile: first-fit\nparams: {workers: 2}\nuntil: 4h\n\
         nodes: [{name: worker, count: \"${workers}\", cpus: 8, gpus: 1, gpu: l4}]\n\
         jobs:\n  - {name: first, at: 0s, gpus: 1, duration: 2h}\n  - {name: long, at: 1m, gpus: 1, duration: 1h}\n  \
         - {name: other, at: 20m, gpus: 1, duration: 5m}\nexpect: [jobs_submitted >= 1]\n",
    );
    let args = ["what-if", "base.yaml", "--at", "10m", "--set", "params.workers=1", "--out", "out"];
    let said = json(dir.path(), &args);
    let changed = said["changed_most"].as_array().expect("a list");
    assert_eq!(changed.len(), 1, "{said:#}");
    // 1h01m less 20m in the base, 2h less 20m in the branch.
    let waits = |side: &str| changed[0][side]["wait_seconds"].as_f64().expect("a number");
    assert_eq!(changed[0]["job"], "other");
    assert!((waits("base") - 41.0 * 60.0).abs() < 1e-9 && (waits("branch") - 100.0 * 60.0).abs() < 1e-9, "{said:#}");
    let log = stdout(dir.path(), &["log", "out/branch.jsonl", "--node", "worker-1"], 0);
    let last = log.lines().last().expect("it speaks of the node");
    assert!(last.trim_start().starts_with("1h1m") && last.contains("gone"), "{log}");
    assert_eq!(stdout(dir.path(), &["replay", "out/branch.jsonl"], 0), "");
}

/// On paper: both nodes are in maintenance from 30m on. `long` still ends at 1h, and `wide` and `small` are never placed.
fn a_node_has_another_state_from_a_time_on() {
    let dir = folder(SCENARIO);
    let set = |state: &str| format!("nodes.worker.state={state}");
    let args = ["what-if", "base.yaml", "--at", "30m", "--set", &set("maintenance"), "--out", "out"];
    let said = json(dir.path(), &args);
    let changed = said["changed_most"].as_array().expect("a list");
    let mut jobs: Vec<&str> = changed.iter().filter_map(|job| job["job"].as_str()).collect();
    jobs.sort_unstable();
    assert_eq!(jobs, ["small", "wide"], "{said:#}");
    let log = stdout(dir.path(), &["log", "out/branch.jsonl", "--node", "worker-1"], 0);
    assert!(log.lines().any(|line| line.contains("30m ") && line.contains("maintenance")), "{log}");
    let log = stdout(dir.path(), &["log", "out/branch.jsonl"], 0);
    assert!(log.lines().any(|line| line.contains("1h ") && line.contains("long") && line.contains("ended")), "{log}");
    assert_eq!(stdout(dir.path(), &["replay", "out/branch.jsonl"], 0), "");
}

/// On paper: nothing can use the node or its second GPU from 10m on, so `two` and `three` wait from 20m on. A state for 1h
/// ends that, even if the file states the same for the beginning, and even if it leaves the state out. The fault at 2h
/// remains.
fn a_state_of_the_command_line_replaces_that_of_a_fault() {
    let text = |node: &str, faults: &str| {
        format!(
            "scenario: A fault, then a change\nprofile: first-fit\nuntil: 4h\nnodes:\n  - {{name: a, gpu: l4, gpus: 2, cpus: 8, \
             ram: 32GiB{node}}}\njobs:\n  - {{name: two, at: 20m, count: 2, gpus: 1, duration: 10m}}\n  \
             - {{name: late, at: 150m, gpus: 1, duration: 10m}}\nfaults: [{faults}]\n\
             expect: [jobs_submitted >= 1]\n"
        )
    };
    let (down, again) = ("{at: 10m, node: a, becomes: not_ready}", "{at: 2h, node: a, becomes: not_ready}");
    let gpu = "{at: 10m, node: a/1, becomes: failed}";
    let crash = "{at: 10m, node: a, becomes: crashed}";
    // The jobs that wait, with the minutes from their submission to their place in the branch.
    let both: &[(&str, f64)] = &[("two-0", 40.0), ("two-1", 40.0)];
    for (node, faults, set, expected) in [
        (", state: ready", format!("{down}, {again}"), "nodes.a.state=ready", both),
        ("", format!("{crash}, {again}"), "nodes.a.state=ready", both),
        (
            "",
            format!("{gpu}, {{at: 15m, node: a/0, becomes: failed}}"),
            "nodes.a.gpu_states.1=ready",
            &[("two-0", 40.0)],
        ),
    ] {
        let dir = folder(&text(node, &faults));
        let said = json(dir.path(), &["what-if", "base.yaml", "--at", "1h", "--set", set, "--out", "out"]);
        let changed = said["changed_most"].as_array().expect("a list");
        for (name, minutes) in expected {
            let job = changed.iter().find(|job| job["job"] == *name).unwrap_or_else(|| panic!("{set}: {said:#}"));
            let wait = job["branch"]["wait_seconds"].as_f64().expect("a number");
            assert!((wait - minutes * 60.0).abs() < 1e-9, "{set}: {job:#}");
        }
        assert_eq!(stdout(dir.path(), &["replay", "out/branch.jsonl"], 0), "");
        if faults.contains(again) {
            let late = stdout(dir.path(), &["explain", "out/branch.jsonl", "--job", "late"], 0);
            assert!(late.contains("node_not_ready"), "{late}");
        }
    }
    // A state that is not ready takes a node out of service again that a fault has made ready.
    let dir =
        folder(&text(", state: maintenance", "{at: 10m, node: a, becomes: ready}").replace("at: 150m", "at: 61m"));
    let args = ["what-if", "base.yaml", "--at", "1h", "--set", "nodes.a.state=maintenance", "--out", "out"];
    stdout(dir.path(), &args, 0);
    let late = stdout(dir.path(), &["explain", "out/branch.jsonl", "--job", "late"], 0);
    assert!(late.contains("node_maintenance"), "{late}");
}

fn what_cannot_be_otherwise_is_told_so() {
    let dir = folder(SCENARIO);
    for (args, wanted) in [
        (&["--at", "1h"][..], "nothing would change: give --profile or --set"),
        (
            &["--at", "1h", "--profile", "gpustack-2.3.0"],
            "the profile `gpustack-2.3.0` cannot take over: its loops differ",
        ),
        (&["--at", "1h", "--profile", "fifo-skiping"], "did you mean `fifo-skipping`?"),
        (
            &["--at", "1h", "--set", "nodes.worker.state=joining"],
            "the node `worker-0` begins as joining in the branch, and only time makes a node so",
        ),
        (&["--at", "1h", "--set", "warm_up=10m"], "`warm_up` differs; a branch keeps it from before"),
        (&["--at", "1h", "--set", "nodes.worker.cpus=4"], "the node `worker-0` is a different machine in the branch"),
        (
            &["--at", "3h", "--until", "2h", "--profile", "fifo"],
            "the run stops at 2h, so nothing can change from 3h on",
        ),
        // The last job ends at 1h15m, and only the branch would last until 2h.
        (
            &["--at", "2h", "--profile", "fifo-skipping"],
            "error: the run ends at 1h15m, so nothing can change from 2h on\n",
        ),
        (
            &["--at", "2h", "--seeds", "1..2", "--profile", "fifo-skipping"],
            "error: with seed 1, the run ends at 1h15m, so nothing can change from 2h on\n",
        ),
        (&["--at", "1x", "--profile", "fifo"], "invalid value '1x' for '--at <TIME>'"),
    ] {
        let args: Vec<&str> = ["what-if", "base.yaml"].iter().chain(args).copied().collect();
        let said = stderr(dir.path(), &args, 2);
        assert!(said.contains(wanted), "{args:?}: {wanted:?} in\n{said}");
        stderr(dir.path(), &[&args[..], &["--out", "new/out"]].concat(), 2);
        assert!(!dir.path().join("new").exists(), "{args:?}: it leaves no folder behind");
    }
}

fn a_branch_keeps_the_partitions_of_its_nodes() {
    let dir = folder(
        "\
scenario: Two partitions
profile: slurm-22.05
slurm: {partitions: [{name: main, default: true}, {name: debug, nodes: [n-1]}]}
nodes: [{name: n, count: 2, cpus: 8}]
jobs: [{name: long, cpus: 8, estimate: 3h, duration: 3h}]
expect: [jobs_submitted >= 1]
",
    );
    for (set, change) in [
        ("slurm.partitions.debug.nodes=[n-0, n-1]", "the node `n-0` is in the partition debug in the branch"),
        ("slurm.partitions.debug.nodes=[n-0]", "the node `n-0` is in the partition debug in the branch"),
        ("slurm.partitions.+={name: new, nodes: [n-1]}", "the node `n-1` is in the partition new in the branch"),
        (
            "slurm.reservations=[{name: course, start: 2h, duration: 1h, nodes: [n-1], users: [ann]}]",
            "the node `n-1` is in the reservation course in the branch",
        ),
        ("nodes.n.labels={zone: north}", "the node `n-0` has the label zone=north in the branch"),
    ] {
        let said = stderr(dir.path(), &["what-if", "base.yaml", "--at", "1h", "--set", set], 2);
        assert!(said.contains(change), "{change:?} in\n{said}");
        assert!(said.contains("compare two whole runs: `dryrack run` with and without the change"), "{said}");
        // That is possible.
        stdout(dir.path(), &["run", "base.yaml", "--set", set], 0);
    }
}

/// `small` waits for `wide`, which takes half a second more in the branch.
fn a_difference_of_half_a_second_is_not_a_longer_wait() {
    let dir = folder(SCENARIO);
    let args = ["what-if", "base.yaml", "--at", "30s", "--set", "jobs.wide.duration=600500ms"];
    let text = stdout(dir.path(), &args, 0);
    let wanted = "Of 2 jobs placed with both, 0 wait longer with branch, 0 shorter, 1 equally long; 1 wait differs by less than \
                  1 s. Mean wait";
    assert!(text.contains(wanted), "{text}");
    assert!(!text.contains("small (seed"), "{text}");
    assert_eq!(json(dir.path(), &args)["queue_wait"]["below_a_second"], 1);
}

/// Passes of Slurm take time, so the next one is not at a multiple of the period. A user more changes nothing.
fn passes_go_on_at_their_times_in_a_branch() {
    let dir = folder(
        "\
scenario: Jobs arrive while others run
profile: slurm-22.05
slurm: {accounts: [{name: lab, users: {ann: 1}}]}
nodes: [{name: n, cpus: 8}]
jobs:
  - {name: first, count: 20, every: 97s, user: ann, cpus: 8, estimate: 1h, duration: 10m}
expect: [jobs_submitted >= 1]
",
    );
    let args = ["what-if", "base.yaml", "--at", "31m7s", "--set", "slurm.accounts.lab.users.bob=1"];
    let waits = &json(dir.path(), &args)["queue_wait"];
    assert_eq!(["longer", "less", "below_a_second"].map(|name| waits[name].as_u64()), [Some(0); 3], "{waits:#}");
}

/// Random worlds continue under another profile, with one node more or fewer: every invariant holds after every step,
/// the branch equals its base up to the branching time, and its log replays.
fn random_worlds_branch_and_replay() {
    branch_worlds(20);
}

fn slow_many_random_worlds_branch_and_replay() {
    branch_worlds(100);
}

fn branch_worlds(worlds: u64) {
    let load = |name| load_profile(name, Path::new("")).unwrap_or_else(|faults| panic!("{faults}"));
    let all: Vec<Arc<Profile>> = profile_names().map(load).collect();
    let queued: Vec<Arc<Profile>> = all.into_iter().filter(|profile| profile.flow.is_queue()).collect();
    let (mut changed, mut joined, mut left) = (0u64, 0u64, 0u64);
    for seed in 1..=worlds {
        let base = draw_world(seed, &queued);
        let mut draws = Stream::new(seed, "branch test", 0);
        let mut other = base.clone();
        let profile = &queued[draws.index(queued.len())];
        if can_become(&base.profile, profile).is_ok() {
            changed += u64::from(base.profile.name != profile.name);
            other.profile = Arc::clone(profile);
        }
        let is_instance = base.nodes.iter().any(|node| node.spec.shape.instance.is_some());
        if draws.chance(500) && !is_instance {
            let mut node = base.nodes[draws.index(base.nodes.len())].clone();
            node.spec.name = "one-more".into();
            other.nodes.push(node);
            joined += 1;
        }
        if draws.chance(300) && other.nodes.len() > 1 && !is_instance {
            let node = other.nodes.len() - 2;
            let name = other.nodes[node].spec.name.clone();
            // The faults of the node are removed with it.
            let faults = other.faults.iter().filter(|(_, fault)| base.nodes[of(fault)].spec.name != name).copied();
            other.faults = faults.collect();
            other.nodes.remove(node);
            left += 1;
            // The indices in the list have changed.
            if node < base.nodes.len() - 1 {
                other.faults.clear();
            }
        }
        let at = SimTime::from_secs(draws.between(0, 5400));
        check(seed, &base, &other, at);
    }
    let enough = [(changed, 3), (joined, 4), (left, 8)].map(|(count, one_in)| count * one_in >= worlds);
    assert_eq!(enough, [true; 3], "{changed} profiles changed, {joined} joined, {left} left");
}

fn of(fault: &dryrack_engine::Fault) -> usize {
    use dryrack_engine::Fault;
    match fault {
        Fault::Node { node, .. } => node.index(),
        Fault::Gpu { gpu, .. } | Fault::Foreign { gpu, .. } => gpu.node.index(),
    }
}

fn check(seed: u64, base: &Rehearsal, other: &Rehearsal, at: SimTime) {
    let branched = branch(base, other, at).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let of_run = |rehearsal: &Rehearsal, grouping, caching| {
        let (mut digester, mut audit, mut records) =
            (Digester::default(), Audit::new(&rehearsal.profile), Records::default());
        let options = RunOptions { grouping, caching, checks: Checks::EveryStep, ..RunOptions::default() };
        run(rehearsal, options, &mut [&mut digester, &mut audit, &mut records]);
        audit.finish();
        (digester.finish(), records.0)
    };
    let (_, own) = of_run(base, Grouping::Classes, Caching::On);
    let (digest, records) = of_run(&branched, Grouping::Classes, Caching::Paranoid);
    let (plain, _) = of_run(&branched, Grouping::EachNode, Caching::Off);
    assert_eq!(digest, plain, "seed {seed}");
    let before = |records: &[Record]| records.iter().filter(|record| record.at < at).cloned().collect::<Vec<_>>();
    // One of the two may end before that.
    let end = [base, other].iter().filter_map(|rehearsal| rehearsal.until).min().unwrap_or(SimTime::MAX);
    if end >= at {
        assert_eq!(before(&own), before(&records), "seed {seed}");
    }
    if let Err(difference) = replay(Arc::clone(&base.profile), seed, records) {
        panic!("seed {seed}: the replay differs: {difference:?}");
    }
}

const PLAN: &str = "\
plan: Does it help to let small jobs pass?
scenario: load.yaml
factors:
  workers: [4, 6]
  profile: [fifo, fifo-skipping]
seeds: 1..8
";

const LOAD: &str = "\
scenario: A morning
params: {workers: 4}
until: 4h
nodes: [{name: worker, count: \"${workers}\", machine: a100-80g-x8}]
jobs:
  - {name: train, gpus: 8, duration: {exponential: 1h}, arrivals: {poisson: 3/h}}
  - {name: small, gpus: 1, duration: {exponential: 30m}, arrivals: {poisson: 20/h}}
expect: [jobs_submitted >= 1]
";

fn paired() -> TempDir {
    let dir = empty();
    std::fs::write(dir.path().join("load.yaml"), LOAD).expect("a folder of our own");
    std::fs::write(dir.path().join("plan.yaml"), PLAN).expect("a folder of our own");
    dir
}

/// The mean and its interval, from the table of all jobs that the command writes: t(7) = 2.365 (NIST).
fn two_alternatives_are_paired_by_seed_and_job() {
    let dir = paired();
    let (one, other) = ("workers=4, profile=fifo", "profile=fifo-skipping,workers=4");
    let args = ["plan", "pair", "plan.yaml", one, other, "--out", "out"];
    let said = json(dir.path(), &args);
    let mut reader = csv::Reader::from_path(dir.path().join("out/jobs.csv")).expect("it was written");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    let (mut means, mut counts) = (Vec::new(), [0u64; 4]);
    for seed in 1..=8 {
        let mut differences = Vec::new();
        for row in rows.iter().filter(|row| row[0] == *seed.to_string() && &row[3] == "true" && &row[5] == "true") {
            let [first, second]: [f64; 2] = [2, 4].map(|column| row[column].parse().expect("a number"));
            let change = second - first;
            match change {
                change if change >= 1.0 => counts[0] += 1,
                change if change <= -1.0 => counts[1] += 1,
                _ => counts[if change == 0.0 { 2 } else { 3 }] += 1,
            }
            differences.push(second - first);
        }
        means.push(differences.iter().sum::<f64>() / differences.len() as f64);
    }
    let mean = means.iter().sum::<f64>() / 8.0;
    let variance = means.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / 7.0;
    let half_width = 2.365 * (variance / 8.0).sqrt();
    let found = &said["queue_wait"];
    let number = |name: &str| found["difference_seconds"][name].as_f64().expect("a number");
    assert!((number("mean") - mean).abs() < 1e-6, "{mean}: {found:#}");
    assert!((number("half_width") - half_width).abs() < 1e-6, "{half_width}: {found:#}");
    let counted = ["longer", "less", "same", "below_a_second"].map(|name| found[name].as_u64().expect("a count"));
    assert_eq!(counted, counts);
    assert!(counts[1] > 0, "passing helps somebody: {counts:?}");
    // Each of the jobs that changed most states why it had to wait.
    let changed = said["changed_most"].as_array().expect("a list");
    assert_eq!(changed.len(), 5);
    for job in changed {
        assert!(job["because"][0].as_str().is_some_and(|line| line.contains("why not")), "{job:#}");
    }
    // In reverse order, the result has the opposite sign.
    let turned = json(dir.path(), &["plan", "pair", "plan.yaml", other, one]);
    let turned = turned["queue_wait"]["difference_seconds"]["mean"].as_f64().expect("a number");
    assert!((turned + mean).abs() < 1e-6);
    let alone = stdout(dir.path(), &["plan", "pair", "plan.yaml", one, one], 0);
    assert!(alone.contains("0 wait longer with B, 0 shorter,") && alone.contains("No metric differs."), "{alone}");
    let one_thread = stdout(dir.path(), &["plan", "pair", "plan.yaml", one, other, "--threads", "1"], 0);
    assert_eq!(stdout(dir.path(), &["plan", "pair", "plan.yaml", one, other, "--threads", "3"], 0), one_thread);
}

fn an_alternative_that_the_plan_does_not_have_is_told() {
    let dir = paired();
    for (typed, wanted) in [
        ("workers=5,profile=fifo", "`workers` has no value `5`"),
        ("wrokers=4,profile=fifo", "the plan has no factor `wrokers`; did you mean `workers`?"),
        ("workers=4", "`profile` is missing"),
        ("workers=4,profile=fifo,workers=5", "`workers` has no value `5`"),
        ("workers=4,profile=fifo,workers=4", "`workers` is given twice"),
        ("four", "`four` is not of the form `factor=value`"),
    ] {
        let said = stderr(dir.path(), &["plan", "pair", "plan.yaml", typed, "workers=4,profile=fifo"], 2);
        assert!(said.contains(wanted), "{typed}: {wanted:?} in\n{said}");
    }
}
