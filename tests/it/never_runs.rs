//! Jobs that can never run: they fail upper bounds on waiting, and are named above all figures with what is missing.

use std::path::Path;

use crate::cli::{empty, stderr, stdout};

trials! {
    Nothing: [
        what_is_missing_is_named,
        only_what_bounds_waiting_fails,
        what_can_never_run_is_named_although_it_came_in_the_warm_up,
        what_waits_or_was_given_up_could_run,
        what_still_waits_at_the_end_breaks_a_bound_that_it_has_waited_beyond,
        what_has_not_ended_breaks_a_bound_on_its_end,
        what_still_waits_breaks_a_bound_on_slowdown,
        what_ended_for_lack_of_capacity_breaks_a_bound_on_waiting,
        a_node_that_is_gone_for_good_cannot_return,
        a_list_of_nothing_but_gpus_asks_for_their_type,
        sizes_that_differ_are_told_apart,
        a_file_that_expects_nothing_fails_if_a_job_can_never_run,
        a_trace_is_held_against_the_nodes_of_a_scenario_before_it_runs,
        without_estimates_a_profile_says_what_it_decides_as,
        where_instances_are_made_the_wait_for_a_start_is_told,
        a_wait_is_blamed_on_what_is_short_where_it_can_end,
        what_draws_is_random_even_where_all_seeds_give_the_same_run,
        what_a_filter_holds_back_is_tried_at_every_time_of_a_week,
        jobs_that_a_limit_keeps_out_can_never_run,
        a_bound_on_waiting_fails_if_a_limit_keeps_out_a_job_for_good,
        a_bound_on_waiting_fails_if_a_pod_waits_for_an_object_that_never_comes,
        pods_that_no_node_takes_can_never_run,
        a_workload_that_kueue_may_admit_is_not_said_to_never_run,
        pods_sets_and_jobs_behind_a_head_that_can_never_run_are_found_at_the_end,
        what_an_own_filter_refuses_on_empty_nodes_is_told,
    ]
}

pub const TWO_NODES: &str = "\
scenario: Two nodes of two GPUs
nodes:
  - {name: a, machine: a100-80g-x2, labels: {pool: train}}
  - {name: b, cpus: 64, ram: 512GiB, gpus: [{type: h100-80g, count: 2}], labels: {pool: serve}}
";

fn write(dir: &Path, jobs: &str, rest: &str) {
    let text = format!("{TWO_NODES}jobs:\n  - {{name: fits, gpus: 1, duration: 10m}}\n  - {jobs}\n{rest}");
    std::fs::write(dir.join("s.yaml"), text).expect("a folder of our own");
}

/// The reason that an expectation on waiting gives for a job that can never run.
fn what_is_missing_is_named() {
    let rows = [
        ("{name: x, gpus: 3}", "no node has 3 GPUs, which one task asks for (at most 2)"),
        ("{name: x, gpus: 1, gpu: l4}", "no node has GPU `l4` (known are a100-80g, h100-80g)"),
        ("{name: x, gpus: 1, gpu: a100-40g}", "no node has GPU `a100-40g` (did you mean `a100-80g`?)"),
        ("{name: x, cpus: 1, labels: {vc: ee}}", "no node has the label `vc` (there is only `pool`)"),
        ("{name: x, cpus: 1, labels: {pool: trian}}", "no node has the label `pool: trian` (did you mean `train`?)"),
        ("{name: x, cpus: 1, os: darwin}", "no node runs the operating system `darwin`"),
        ("{name: x, cpus: 1000}", "no node has 1000 cores, which one task asks for"),
        ("{name: x, ram: 100TiB}", "no node has 100TiB of RAM, which one task asks for"),
        ("{name: x, tasks: 3, gpus: 2}", "the suitable nodes have no room for 3 tasks at once, even when empty"),
        (
            "{name: x, gpus: 1, gpu: h100-80g, labels: {pool: train}}",
            "no node has everything that the job asks for (most often: ",
        ),
        (
            "{name: x, tasks: 2, gpus: 1, gpu: h100-80g, labels: {pool: train}}",
            "no node has everything that the job asks for (most often: has a different value of a required label)",
        ),
        (
            "{name: x, tasks: 3, gpus: 1, labels: {pool: train}}",
            "the suitable nodes have no room for 3 tasks at once, even when empty (other nodes are not suitable, most often: \
             has a different value of a required label)",
        ),
    ];
    let dir = empty();
    for (job, missing) in rows {
        write(dir.path(), job, "expect: [p95(queue_wait) <= 1h]\n");
        let said = stdout(dir.path(), &["run", "s.yaml"], 1);
        let sentence = format!("1 of 2 jobs can never run: {missing}");
        let headline = said.lines().find(|line| !line.is_empty() && line.starts_with("1 of 2 jobs"));
        assert!(headline.is_some_and(|line| line.starts_with(&sentence)), "{job}\n{said}");
        assert!(said.contains(&format!("happened  {sentence}")), "{job}\n{said}");
    }
}

/// Because of such a job, only upper bounds on waiting that include it fail, unless the file states otherwise.
fn only_what_bounds_waiting_fails() {
    let job = "{name: x, gpus: 3, queue: other}";
    let rows = [
        ("p95(queue_wait) <= 1h", "", 1),
        ("max(start_wait) < 1h", "", 1),
        ("queue_wait_p95 <= 1h", "", 1),
        ("start_wait_p95 <= 1h", "", 1),
        ("mean(queue_wait) == 0s", "", 1),
        ("min(queue_wait) <= 1h", "", 0),
        ("p95(queue_wait) >= 0s", "", 0),
        ("p95(run_time) <= 1h", "", 0),
        ("jobs_never_fits == 1", "", 0),
        ("\"p95(queue_wait{queue: other}) <= 1h\"", "", 1),
        ("{metric: p95(queue_wait) <= 1h, of: fits}", "", 0),
        ("p95(queue_wait) <= 1h", "unplaced: fail\n", 1),
        ("p95(queue_wait) <= 1h", "unplaced: ignore\n", 0),
    ];
    let dir = empty();
    for (expected, rest, code) in rows {
        write(dir.path(), job, &format!("{rest}expect:\n  - {expected}\n"));
        for command in ["run", "test"] {
            let said = stdout(dir.path(), &[command, "s.yaml"], code);
            assert_eq!(said.contains("can never run"), code == 1 || command == "run", "{command} {expected}\n{said}");
        }
    }
}

/// `fits` and `x` come in the warm-up, and `late` after it.
fn what_can_never_run_is_named_although_it_came_in_the_warm_up() {
    let rows = [
        ("p95(queue_wait) <= 1h", "", 1),
        ("queue_wait_p95 <= 1h", "", 1),
        ("\"p95(queue_wait{queue: other}) <= 1h\"", "", 1),
        ("\"p95(queue_wait{queue: default}) <= 1h\"", "", 0),
        ("makespan <= 1h", "", 0),
        ("p95(queue_wait) <= 1h", "unplaced: ignore\n", 0),
    ];
    let dir = empty();
    let late = "  - {name: late, at: 10m, gpus: 1, duration: 1m, queue: default}\n";
    for (expected, rest, code) in rows {
        let rest = format!("{late}warm_up: 5m\n{rest}expect:\n  - {expected}\n");
        write(dir.path(), "{name: x, gpus: 3, queue: other}", &rest);
        let said = stdout(dir.path(), &["run", "s.yaml"], code);
        assert!(said.contains("1 of 3 jobs (1 submitted in the warm-up) can never run: no node has 3 GPUs"), "{said}");
    }
}

/// A job that waits for a node that is not ready, or that was given up, could run.
fn what_waits_or_was_given_up_could_run() {
    let rows =
        ["{name: x, gpus: 2, at: 1m, cancel_at: 2m}", "{name: x, gpus: 1, gpu: h100-80g, count: 4, duration: 1d}"];
    let dir = empty();
    for job in rows {
        write(
            dir.path(),
            job,
            "until: 10m\nfaults: [{at: 0s, node: a, becomes: not_ready}]\nexpect: [jobs_failed == 0]\n",
        );
        let said = stdout(dir.path(), &["run", "s.yaml"], 0);
        assert!(!said.contains("can never run"), "{job}\n{said}");
    }
}

/// `late` waits for a node that is not ready from the 11th minute on; the run ends after 10 hours.
fn what_still_waits_at_the_end_breaks_a_bound_that_it_has_waited_beyond() {
    let waits = "at least 9h48m over 2 replicas: 1 of them still waited at the end";
    let rows = [
        ("max(queue_wait) <= 1h", "", 1, waits),
        ("queue_wait_max < 1h", "", 1, waits),
        ("max(start_wait) <= 1h", "", 1, waits),
        ("start_wait_p95 <= 1h", "", 1, waits),
        ("max(queue_wait) == 0s", "", 1, waits),
        ("mean(queue_wait) <= 1h", "", 1, "at least 4h54m over 2 replicas"),
        (
            "max(queue_wait) <= 10h",
            "",
            1,
            "is at least 9h48m, and not decided: 1 of 2 replicas still waited at the end",
        ),
        ("mean(start_wait) <= 10h", "", 1, "is at least 4h54m, and not decided: 1 of 2 replicas still waited at"),
        ("p50(queue_wait) <= 1h", "", 0, ""),
        ("max(queue_wait) <= 1h", "unplaced: ignore\n", 0, ""),
        ("{metric: max(queue_wait) <= 1h, of: fits}", "", 0, ""),
    ];
    let dir = empty();
    for (expected, rest, code, happened) in rows {
        let end = "until: 10h\nfaults: [{at: 11m, node: a, becomes: not_ready}]\n";
        write(
            dir.path(),
            "{name: late, gpus: 2, gpu: a100-80g, at: 12m, duration: 1m}",
            &format!("{end}{rest}expect:\n  - {expected}\n"),
        );
        let said = stdout(dir.path(), &["run", "s.yaml"], code);
        assert!(said.contains(happened), "{expected}\n{said}");
    }
}

/// `late` runs from the 12th minute on, and the run ends after 10 hours.
fn what_has_not_ended_breaks_a_bound_on_its_end() {
    let at_least = |value: &str| format!("at least {value} over 2 replicas: 1 of them had not ended at the end");
    let undecided =
        |value: &str| format!("is at least {value}, and not decided: 1 of 2 replicas had not ended at the end");
    let rows = [
        ("max(turnaround) <= 1h", "20h", 1, at_least("20h")),
        ("turnaround_p95 <= 1h", "20h", 1, at_least("20h")),
        ("max(turnaround) <= 10h", "20h", 1, at_least("20h")),
        ("max(turnaround) <= 20h", "20h", 1, undecided("20h")),
        ("p50(turnaround) <= 1h", "20h", 0, String::new()),
        ("max(run_time) <= 1h", "20h", 1, at_least("20h")),
        ("p50(run_time) <= 1h", "20h", 0, String::new()),
        ("max(run_time) <= 20h", "20h", 1, undecided("20h")),
        ("max(bounded_slowdown) <= 2", "20h", 1, undecided("1.000")),
        ("{metric: max(turnaround) <= 1h, of: fits}", "20h", 0, String::new()),
        ("max(turnaround) <= 1h", "30m", 0, String::new()),
        ("makespan <= 12h", "20h", 1, "makespan is not decided: 1 of 2 replicas had not ended at the end".to_string()),
        ("makespan <= 12h", "30m", 0, String::new()),
        ("makespan >= 1s", "20h", 0, String::new()),
    ];
    let dir = empty();
    for (expected, duration, code, happened) in rows {
        let job = format!("{{name: late, gpus: 2, gpu: a100-80g, at: 12m, duration: {duration}}}");
        write(dir.path(), &job, &format!("until: 10h\nexpect:\n  - {expected}\n"));
        let said = stdout(dir.path(), &["run", "s.yaml"], code);
        assert!(said.contains(&happened), "{expected}\n{said}");
    }
    // A service runs until it is stopped, and so has no turnaround.
    write(
        dir.path(),
        "{name: late, gpus: 2}",
        "until: 10h\nexpect: [max(turnaround) <= 1h, max(run_time) <= 1h, makespan <= 1h]\n",
    );
    stdout(dir.path(), &["run", "s.yaml"], 0);
    // A job that can never run never ends.
    write(dir.path(), "{name: late, gpus: 3}", "expect: [max(turnaround) <= 1h]\n");
    assert!(stdout(dir.path(), &["run", "s.yaml"], 1).contains("1 of 2 jobs can never run"));
}

/// `late` needs a node that is not ready from the 11th minute on. At the end, it has waited 9 h 48 min. If it runs for an hour, its
/// slowdown is at least (9.8 h + 1 h) / 1 h. A job with checkpoints may resume and then run for less than an hour, and for no
/// more than an hour and its restart: 9.8 h / 1.1 h.
fn what_still_waits_breaks_a_bound_on_slowdown() {
    let rows = [
        (
            "max(bounded_slowdown) <= 10",
            "duration: 1h",
            "",
            1,
            "is at least 10.800 over 2 replicas: 1 of them had not ended",
        ),
        (
            "bounded_slowdown_p95 < 10.8",
            "duration: 1h",
            "",
            1,
            "is at least 10.800 over 2 replicas: 1 of them had not ended",
        ),
        ("bounded_slowdown_mean <= 5", "duration: 1h", "", 1, "is at least 5.900 over 2 replicas"),
        ("max(bounded_slowdown) <= 11", "duration: 1h", "", 1, "is at least 10.800, and not decided: 1 of 2 replicas"),
        ("p50(bounded_slowdown) <= 1", "duration: 1h", "", 0, ""),
        ("max(bounded_slowdown) <= 10", "duration: 1h", "unplaced: ignore\n", 0, ""),
        (
            "max(bounded_slowdown) <= 8",
            "duration: 1h, checkpoint: {every: 10m, restart: 6m}",
            "",
            1,
            "is at least 8.909",
        ),
        (
            "max(bounded_slowdown) <= 9",
            "duration: 1h, checkpoint: {every: 10m, restart: 6m}",
            "",
            1,
            "is at least 8.909, and not decided",
        ),
        // Nobody has told for how long a service runs.
        ("max(bounded_slowdown) <= 1", "replicas: 1", "", 0, ""),
    ];
    let dir = empty();
    for (expected, job, rest, code, happened) in rows {
        let end = "until: 10h\nfaults: [{at: 11m, node: a, becomes: not_ready}]\n";
        let job = format!("{{name: late, gpus: 2, gpu: a100-80g, at: 12m, {job}}}");
        write(dir.path(), &job, &format!("{end}{rest}expect:\n  - {expected}\n"));
        let said = stdout(dir.path(), &["run", "s.yaml"], code);
        assert!(said.contains(happened), "{expected}\n{said}");
    }
}

/// Without a retry policy, dstack ends a job that finds no capacity. One of the three finds some.
fn what_ended_for_lack_of_capacity_breaks_a_bound_on_waiting() {
    let scenario = "\
scenario: dstack without retry
profile: dstack
until: 1d
fleets:
  lab: {blocks: 8, hosts: [{name: w, machine: a100-80g-x8}]}
jobs: [{name: x, count: 3, resources: {gpu: 8}, duration: 3h}]
";
    let over = |of: &str| format!("{of} was infinite over 3 replicas: 2 of them ended without ever being placed");
    let rows = [
        ("p95(queue_wait) <= 30m", "", 1, over("p95(queue_wait)")),
        ("mean(queue_wait) <= 30m", "", 1, over("mean(queue_wait)")),
        ("queue_wait_mean <= 30m", "", 1, over("queue_wait_mean")),
        ("start_wait_p95 <= 30m", "", 1, over("start_wait_p95")),
        ("min(queue_wait) <= 30m", "", 0, String::new()),
        ("p25(queue_wait) <= 30m", "", 0, String::new()),
        ("p95(queue_wait) <= 30m", "unplaced: ignore\n", 0, String::new()),
    ];
    let dir = empty();
    for (expected, rest, code, happened) in rows {
        let text = format!("{scenario}{rest}expect: [{expected}]\n");
        std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
        let said = stdout(dir.path(), &["run", "s.yaml"], code);
        assert!(said.contains(&happened), "{expected}\n{said}");
    }
}

/// `both` needs the two nodes at once.
fn a_node_that_is_gone_for_good_cannot_return() {
    let gone = "{at: 5m, node: b, becomes: gone}";
    let never = "1 of 2 jobs can never run: the suitable nodes have no room for 2 tasks at once, even when empty";
    let undecided = "is at least 1h50m, and not decided: 1 of 2 replicas still waited at the end";
    let rows = [
        (format!("[{gone}]"), 1, never),
        (format!("[{gone}, {{at: 3h, node: b, becomes: ready}}]"), 1, undecided),
        (format!("[{gone}, {{at: 6m, node: b, becomes: not_ready}}]"), 1, never),
        ("[{at: 5m, node: b, becomes: not_ready}]".to_string(), 1, undecided),
        ("[{at: 3h, node: b, becomes: gone}]".to_string(), 0, ""),
    ];
    let dir = empty();
    for (faults, code, happened) in rows {
        let rest = format!("until: 2h\nfaults: {faults}\nexpect: [max(queue_wait) <= 3h]\n");
        write(dir.path(), "{name: both, at: 10m, tasks: 2, gpus: 2, duration: 1m}", &rest);
        let said = stdout(dir.path(), &["run", "s.yaml"], code);
        assert_eq!(said.contains("can never run"), happened == never, "{faults}\n{said}");
        assert!(said.contains(happened), "{faults}\n{said}");
    }
}

fn a_list_of_nothing_but_gpus_asks_for_their_type() {
    let dir = empty();
    let rows = "job,submit_s,duration_s,gpus,gpu_models\n1,0,60,1,a100-80g\n2,1,60,1,v100-16g\n";
    std::fs::write(dir.path().join("t.csv"), rows).expect("a folder of our own");
    let text = format!("{TWO_NODES}trace: {{file: t.csv, format: csv}}\nexpect: [max(queue_wait) <= 1h]\n");
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    let said = stdout(dir.path(), &["run", "s.yaml"], 1);
    assert!(said.contains("1 of 2 jobs can never run: no node has GPU `v100-16g`"), "{said}");
}

fn sizes_that_differ_are_told_apart() {
    let dir = empty();
    let text = "scenario: One node\nnodes: [{name: a, cpus: 4, ram: 16GiB}]\njobs: [{name: x, ram: 16385MiB}]\n";
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    let said = stdout(dir.path(), &["run", "s.yaml"], 1);
    assert!(said.contains("no node has 17180917760B of RAM, which one task asks for (at most 17179869184B)"), "{said}");
}

fn a_file_that_expects_nothing_fails_if_a_job_can_never_run() {
    let dir = empty();
    write(dir.path(), "{name: x, gpus: 3}", "");
    assert!(stdout(dir.path(), &["run", "s.yaml"], 1).contains("FAIL  every job can run"));
    assert!(stderr(dir.path(), &["check", "s.yaml"], 0).contains("it fails only if a job can never run"));
    write(dir.path(), "{name: x, gpus: 2}", "");
    assert!(stdout(dir.path(), &["run", "s.yaml"], 0).contains("ok    every job can run"));
    write(dir.path(), "{name: x, gpus: 3}", "unplaced: ignore\n");
    assert!(stdout(dir.path(), &["run", "s.yaml"], 0).contains("1 of 2 jobs can never run"));
    assert!(stderr(dir.path(), &["check", "s.yaml"], 0).contains("so it cannot fail"));
}

fn a_trace_is_held_against_the_nodes_of_a_scenario_before_it_runs() {
    let dir = empty();
    // Jobs and expectations of the scenario itself are not about the trace.
    write(dir.path(), "{name: x, gpus: 2}", "expect: [{name: runs, job: x, is: running, by: 5m}]\n");
    let rows = "job,submit_s,duration_s,gpus,nodes,gpu_models\n1,0,60,1,1,a100-80g\n2,1,60,1,1,l4\n3,2,60,3,1,\n4,3,60,1,1,l4\n";
    std::fs::write(dir.path().join("t.csv"), rows).expect("a folder of our own");
    let args = ["trace", "check", "t.csv", "--nodes", "s.yaml"];
    let said = stdout(dir.path(), &args, 1);
    let sentence = "3 of 4 jobs can never run: for 2, no node has GPU `l4` (known are a100-80g, h100-80g); \
                    for 1, no node has 3 GPUs, which one task asks for (at most 2)";
    assert!(said.contains(sentence), "{said}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout(dir.path(), &[&args[..], &["--format", "json"]].concat(), 1)).expect("JSON");
    assert_eq!(json["never_run"]["jobs"], 3, "{json}");
    std::fs::write(dir.path().join("t.csv"), "job,submit_s,duration_s,gpus\n1,0,60,2\n").expect("a folder of our own");
    let said = stdout(dir.path(), &args, 0);
    assert!(said.contains("each job can run if they are empty"), "{said}");
}

/// If a profile decides by estimates and no job has one, the warning states how it decides instead.
fn without_estimates_a_profile_says_what_it_decides_as() {
    let dir = empty();
    let jobs = "\
        - {name: large, gpus: 2, gpu: a100-80g, duration: 10m}\n  \
        - {name: head, at: 1s, tasks: 2, gpus: 2, duration: 10m}\n  \
        - {name: small, at: 2s, gpus: 1, duration: 5m}";
    let text = format!("{TWO_NODES}jobs:\n  {jobs}\nexpect: [jobs_failed == 0]\n");
    std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
    let run = |profile: &str| {
        let args = ["run", "s.yaml", "--profile", profile, "--out", profile];
        let warned = stderr(dir.path(), &args, 0);
        (std::fs::read_to_string(dir.path().join(profile).join("jobs.csv")).expect("it was written"), warned)
    };
    for (profile, as_if) in [("easy", "fifo"), ("conservative", "fifo-skipping")] {
        let (jobs, warned) = run(profile);
        assert!(warned.contains(&format!("it decides like `{as_if}`")), "{profile}: {warned}");
        assert_eq!(jobs, run(as_if).0, "{profile} as {as_if}");
    }
    assert_ne!(run("fifo").0, run("fifo-skipping").0, "else the two were not told apart");
    assert!(run("sjf").1.contains("the estimates do not change the order"));
    let text = text.replace("gpus: 1, duration: 5m", "gpus: 1, duration: 5m, estimate: 5m");
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    assert!(!run("easy").1.contains("no job has an estimate"), "one has");
}

/// A job on an instance counts as placed long before it runs.
fn where_instances_are_made_the_wait_for_a_start_is_told() {
    let dir = empty();
    let text = "\
scenario: An instance is made
until: 1h
profile: dstack
fleets:
  cloud: {nodes: 0..1, offers: [{name: od, machine: a100-80g-x1, disk: 500GiB, price_per_hour: 2, provisioning: 4m}]}
jobs: [{name: task, resources: {gpu: 1}, duration: 10m}]
expect: [p95(start_wait) <= 10m]
";
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    let started = said.lines().find(|line| line.starts_with("started")).unwrap_or_else(|| panic!("{said}"));
    assert!(started.contains("4m"), "{started}");
    let plan = "plan: How many\nscenario: s.yaml\nfactors: {fleet: {set: fleets.cloud.nodes, values: [\"0..1\"]}}\nminimize: cost\n\
                constraints: [p95(start_wait) <= 10m]\n";
    std::fs::write(dir.path().join("plan.yaml"), plan).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    // The wait for the placement, which takes seconds, and the one that is limited.
    assert!(said.contains("p95(start_wait)") && said.contains("4m"), "{said}");
    // Two an hour, for less than half an hour.
    let cost: f64 = said
        .split("a cost of ")
        .nth(1)
        .and_then(|rest| rest.split(". ").next())
        .expect("it is said")
        .parse()
        .expect("a number");
    assert!((0.4..1.0).contains(&cost), "{said}");
}

/// The wait is explained by a node that can serve the job, even if many nodes never can.
fn a_wait_is_blamed_on_what_is_short_where_it_can_end() {
    let dir = empty();
    let text = "\
scenario: A GPU is free, and the cores of its node are not
nodes:
  - {name: a, cpus: 16, ram: 64GiB, gpus: [{type: l4, count: 1}]}
  - {name: b, cpus: 16, ram: 64GiB}
  - {name: c, cpus: 16, ram: 64GiB}
jobs:
  - {name: hog, cpus: 16, duration: 10m, on: a}
  - {name: late, at: 1m, cpus: 4, gpus: 1, duration: 1m}
expect: [jobs_completed == 2]
";
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    assert!(said.contains("because    100% insufficient_cpu\n"), "{said}");
}

/// Even if none of five seeds draws a failure in time, a sixth seed may.
fn what_draws_is_random_even_where_all_seeds_give_the_same_run() {
    let dir = empty();
    let text = "\
scenario: Failures are rare
params: {workers: 2}
until: 3h
nodes: [{name: a, count: \"${workers}\", machine: l4-x1, price_per_hour: 1}]
jobs: [{name: j, count: 6, gpus: 1, duration: 10m}]
failures: [{name: f, nodes: \"*\", time_to_failure: {exponential: 300000h}, repair: {exponential: 1h}}]
expect: [jobs_completed == 6]
";
    std::fs::write(dir.path().join("s.yaml"), text).expect("a folder of our own");
    let plan = "plan: Enough?\nscenario: s.yaml\nfactors: {workers: [2, 3]}\nseeds: 1..5\nminimize: price_per_hour\n\
                constraints: [max(queue_wait) <= 1h]\n";
    std::fs::write(dir.path().join("p.yaml"), plan).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "p.yaml", "--out", "out"], 0);
    assert!(said.contains("at least 54% of all seeds") && !said.contains("nothing in it is random"), "{said}");
}

/// A filter can read only the hour and the weekday, so after a week without a change every answer is known. The job arrives
/// half a minute after 9:00, and the clock moves in whole minutes.
fn what_a_filter_holds_back_is_tried_at_every_time_of_a_week() {
    let profile = "\
base: fifo-skipping
title: Never at any hour
name: never
scheduler:
  filters:
    - {stage: picked}
    - {stage: labels}
    - {stage: ready}
    - {stage: compatible}
    - {filter: at_no_hour, unless: time.weekday < 7, because: wrong_hour}
    - {stage: resources}
";
    let dir = empty();
    std::fs::write(dir.path().join("p.yaml"), profile).expect("a folder of our own");
    write(
        dir.path(),
        "{name: x, at: 9h30s, gpus: 1, duration: 10m}",
        "expect: [{job: x, is: pending, because: wrong_hour, at: 20h}]\n",
    );
    let said = stdout(dir.path(), &["run", "s.yaml", "--profile", "p.yaml"], 0);
    assert!(said.contains("profile never, seed 1, 7d09h simulated"), "{said}");
}

/// `long` exceeds the limit of its partition, and would fit on the nodes.
fn jobs_that_a_limit_keeps_out_can_never_run() {
    let scenario = "\
scenario: A limit, a job without nodes, and one behind it
profile: slurm-22.05-builtin
slurm: {partitions: [{name: main, nodes: [n-0, n-1], default: true, max_time: 1h}]}
nodes: [{name: n, count: 2, gpu: l4, gpus: 4, cpus: 16, ram: 64GiB}]
jobs:
  - {name: long, gpus: 1, duration: 2h, time_limit: 2h}
  - {name: huge, gpus: 8, duration: 10m, estimate: 10m}
  - {name: gang, tasks: 3, cpus: 16, duration: 10m, estimate: 10m}
until: 1h
expect:
  - {evaluate: long, is: incompatible}
  - {evaluate: huge, is: incompatible}
  - {evaluate: gang, is: incompatible}
";
    let dir = empty();
    std::fs::write(dir.path().join("s.yaml"), scenario).expect("a folder of our own");
    let sentence = "3 of 3 jobs can never run: for 1, PartitionTimeLimit: its time limit exceeds that of its partition; \
                    for 1, no node has 8 GPUs, which one task asks for (at most 4); for 1, the suitable nodes have no \
                    room for 3 tasks at once, even when empty\n";
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    assert!(said.contains(sentence), "{said}");
    let said = stdout(dir.path(), &["trace", "check", "s.yaml"], 1);
    assert!(said.contains(sentence), "{said}");
}

/// In each world, all jobs but `x` run at once, and the nodes have room for `x` too. A bound on waiting that ignores it
/// would hold.
fn a_bound_on_waiting_fails_if_a_limit_keeps_out_a_job_for_good() {
    let kueue = |queues: &str, job: &str| {
        format!(
            "kueue: {{cohorts: [{{name: all}}], cluster_queues: [{queues}]}}\njobs:\n  \
             - {{name: ok, queue: a, count: 30, gpus: 1, duration: 10m, every: 20m}}\n  - {{name: x, {job}}}\n"
        )
    };
    let slurm = |limits: &str, job: &str| {
        format!(
            "profile: slurm-22.05\nslurm: {{partitions: [{{name: p, default: true, max_time: 30m}}], \
             qos: [{{name: lab{limits}}}, {{name: free}}]}}\njobs:\n  \
             - {{name: ok, count: 30, qos: free, gpus: 1, duration: 5m, time_limit: 10m, every: 20m}}\n  - {{name: x, {job}}}\n"
        )
    };
    let both = "{name: a, cohort: all, quota: {h100: {gpus: 8, cpus: 100}}}, \
                {name: b, cohort: all, quota: {h100: {gpus: 8, cpus: 100}}}";
    let rows = [
        (kueue(both, "queue: a, gpus: 8, tasks: 3, duration: 10m"), "ExceedsMaxQuota: it asks for more than its queue can"),
        (slurm("", "gpus: 8, duration: 10m, time_limit: 2h"), "PartitionTimeLimit: its time limit exceeds"),
        (slurm(", max_wall: 5m", "qos: lab, gpus: 8, duration: 10m, time_limit: 20m"), "its time limit exceeds that of its QOS"),
        (
            slurm(", grp_tres: {gres/gpu: 4}", "qos: lab, gpus: 8, duration: 10m, time_limit: 20m"),
            "all jobs of its QOS or its partition's together would exceed the limit even if nothing else runs",
        ),
        (
            "policies: {quotas: {lab: {gpus: 4}}}\njobs:\n  - {name: ok, count: 30, project: lab, gpus: 1, duration: 10m, \
             every: 20m}\n  - {name: x, project: lab, gpus: 8, duration: 10m}\n"
                .to_string(),
            "would exceed the quota of its project even if nothing else runs",
        ),
    ];
    let dir = empty();
    for (text, because) in rows {
        let text = format!(
            "scenario: One job is kept out for good\nnodes: [{{name: n, count: 4, machine: h100-80g-x8}}]\n{text}until: 12h\n\
             expect: [mean(queue_wait) <= 2h]\n"
        );
        std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
        let said = stdout(dir.path(), &["test", "s.yaml"], 1);
        let sentence = "1 of 31 jobs can never run: ";
        assert!(said.contains(sentence) && said.contains(because), "{text}{said}");
        let said = stdout(dir.path(), &["trace", "check", "s.yaml"], 1);
        assert!(said.contains(sentence) && said.contains(because), "{text}{said}");
        let ignoring = text.clone() + "unplaced: ignore\n";
        std::fs::write(dir.path().join("s.yaml"), &ignoring).expect("a folder of our own");
        stdout(dir.path(), &["test", "s.yaml"], 0);
    }
}

fn a_bound_on_waiting_fails_if_a_pod_waits_for_an_object_that_never_comes() {
    let rows = [
        ("schedulingGates: [{name: example.com/quota}]", "nothing removes its scheduling gates"),
        ("resourceClaims: [{name: g, resourceClaimName: gone}]", "could not find a ResourceClaim of the pod"),
        ("workloadRef: {name: gone, podGroup: workers}", "the pod's workload or pod group does not exist"),
    ];
    let dir = empty();
    for (of_pod, because) in rows {
        let text = format!(
            "scenario: One pod waits for ever\nprofile: kubernetes-1.35-gang-scheduling\nuntil: 12h\n\
             nodes: [{{name: n, cpus: 8, ram: 64GiB}}]\njobs: [{{name: ok, count: 30, cpus: 1, duration: 10m, every: 20m}}]\n\
             manifests:\n  - apiVersion: v1\n    kind: Pod\n    metadata: {{name: x}}\n    spec:\n      {of_pod}\n      \
             containers: [{{name: main, resources: {{requests: {{cpu: 1}}}}}}]\n\
             expect: [mean(queue_wait) <= 2h]\n"
        );
        std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
        let said = stdout(dir.path(), &["test", "s.yaml"], 1);
        assert!(said.contains(&format!("1 of 31 jobs can never run: {because}")), "{text}{said}");
    }
}

/// The node has a taint, the zone `a`, two devices of a kind that CPUs and GPUs are not, and no claimed device.
const TAINTED: &str = "\
scenario: A pod that runs, and one that no node takes
until: 1h
manifests:
  - apiVersion: v1
    kind: Node
    metadata: {name: n, labels: {zone: a}}
    spec: {taints: [{key: gpu, effect: NoSchedule}]}
    status: {allocatable: {cpu: 8, memory: 64Gi, pods: 10, example.com/nic: 2}}
  - {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
  - apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: one}
    spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
  - apiVersion: v1
    kind: Pod
    metadata: {name: ok, annotations: {dryrack/duration: 10m}}
    spec: {tolerations: [{operator: Exists}], containers: [{name: c, resources: {requests: {cpu: 1}}}]}
  - apiVersion: v1
    kind: Pod
    metadata: {name: x}
    spec: {SPEC, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
";

fn pods_that_no_node_takes_can_never_run() {
    let term = "{matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}";
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let affinity = format!("affinity: {{nodeAffinity: {{{required}: {{nodeSelectorTerms: [{term}]}}}}}}");
    let to_pod = "{labelSelector: {matchLabels: {app: later}}, topologyKey: zone}";
    let pod_affinity = format!("affinity: {{podAffinity: {{{required}: [{to_pod}]}}}}");
    let nic = "initContainers: [{name: i, resources: {limits: {example.com/nic: 3}}}]";
    let tolerating = |spec: &str| format!("tolerations: [{{operator: Exists}}], {spec}");
    let rows = [
        ("hostNetwork: false".to_string(), Some("node(s) had untolerated taint(s)")),
        (tolerating(&affinity), Some("node(s) didn't match Pod's node affinity/selector")),
        (tolerating(nic), Some("Insufficient amount of an extended resource")),
        (tolerating("resourceClaims: [{name: g, resourceClaimName: one}]"), Some("cannot allocate all claims")),
        // No pod with this label comes.
        (tolerating(&pod_affinity), Some("there is no pod beside which it may run")),
    ];
    let dir = empty();
    for (spec, because) in rows {
        let text = TAINTED.replace("SPEC", &spec);
        std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
        for command in [&["run", "s.yaml"][..], &["trace", "check", "s.yaml"]] {
            let said = stdout(dir.path(), command, i32::from(because.is_some()));
            assert_eq!(said.contains("1 of 2 jobs can never run: "), because.is_some(), "{text}{said}");
            assert!(because.is_none_or(|because| said.contains(because)), "{text}{said}");
        }
    }
}

/// The first is admitted in the second cycle, because the flavor that it tries first does not do for both pod sets. The
/// quota of the others is large enough at first, or later.
fn a_workload_that_kueue_may_admit_is_not_said_to_never_run() {
    let job = |name: &str, pods: u32| {
        format!(
            "    - {{name: {name}, template: {{spec: {{parallelism: {pods}, completions: {pods}, template: {{spec: \
             {{restartPolicy: Never, containers: [{{name: c, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}}}}}}}}}\n"
        )
    };
    let sets = format!(
        "kueue: {{cluster_queues: [{{name: q, quota: {{a100: {{gpus: 8}}, h100: {{gpus: 4}}}}}}]}}\n\
         jobs: [{{name: first, queue: q, gpus: 1, duration: 2h}}]\nuntil: 1h\nmanifests:\n\
         - apiVersion: jobset.x-k8s.io/v1alpha2\n  kind: JobSet\n  metadata: {{name: js, labels: \
         {{kueue.x-k8s.io/queue-name: q}}}}\n  spec:\n    suspend: true\n    replicatedJobs:\n{}{}",
        job("a", 4),
        job("b", 8)
    );
    let changed = |first: u32, then: u32, until: &str| {
        format!(
            "kueue: {{cluster_queues: [{{name: q, quota: {{h100: {{gpus: {first}}}}}}}]}}\n\
             changes: [{{at: 2h, cluster_queue: q, quota: {{h100: {{gpus: {then}}}}}}}]\n\
             jobs: [{{name: big, queue: q, gpus: 8, duration: 30m}}]\n{until}"
        )
    };
    let dir = empty();
    for text in [sets, changed(8, 4, ""), changed(4, 8, "until: 1h\n")] {
        let text =
            format!("scenario: Kueue may admit it\nnodes: [{{name: n, count: 2, machine: h100-80g-x8}}]\n{text}");
        std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
        for command in [&["run", "s.yaml"][..], &["trace", "check", "s.yaml"]] {
            let said = stdout(dir.path(), command, 0);
            assert!(!said.contains("can never run"), "{text}{said}");
        }
    }
}

fn pods_sets_and_jobs_behind_a_head_that_can_never_run_are_found_at_the_end() {
    let one = |profile: &str, gpu: &str, jobs: &str| {
        format!(
            "scenario: One node\nprofile: {profile}\nuntil: 1h\n\
             nodes: [{{name: n, cpus: 64, ram: 64GiB, gpus: [{gpu}]}}]\njobs:\n{jobs}"
        )
    };
    let a100 = "{type: a100-80g, count: 1, memory: 80GiB}";
    let sets = |one: &str, other: &str| {
        format!("  - {{name: x, tasks: [{{name: a, {one}}}, {{name: b, {other}}}], duration: 10m}}\n")
    };
    let rows = [
        one("kubernetes-1.35", a100, "  - {name: x, gpus: 2, duration: 10m}\n"),
        one("first-fit", a100, &sets("gpus: 0.6", "gpus: 0.6")),
        one("first-fit", a100, &sets("gpus: 1, gpu_memory: 50GiB", "gpus: 1, gpu_memory: 40GiB")),
        one(
            "fifo",
            a100,
            "  - {name: head, gpus: 1, duration: 3h}\n  - {name: next, gpus: 1, duration: 3h}\n  - {name: x, gpus: 2, duration: 10m}\n",
        ),
    ];
    for text in rows {
        let dir = empty();
        std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
        let said = stdout(dir.path(), &["run", "s.yaml"], 1);
        assert!(said.contains(" can never run: "), "{text}{said}");
        assert!(said.contains("FAIL  every job can run if all nodes are ready and empty"), "{text}{said}");
    }
}

/// A filter that reads free GPUs may let a job run on other nodes than empty ones, so this is no job that can never run.
fn what_an_own_filter_refuses_on_empty_nodes_is_told() {
    let dir = empty();
    let profile = "name: mine\ntitle: Keeps eight GPUs free\nbase: first-fit\nscheduler:\n  filters: [{stage: picked}, \
                   {stage: labels}, {stage: ready}, {stage: compatible}, {stage: resources}, \
                   {filter: eight, unless: \"gpus.free < 8\", because: my_rule}]\n";
    std::fs::write(dir.path().join("mine.yaml"), profile).expect("a folder of our own");
    let text = format!("{TWO_NODES}profile: ./mine.yaml\nuntil: 1h\njobs: [{{name: x, gpus: 1, duration: 10m}}]\n");
    std::fs::write(dir.path().join("s.yaml"), &text).expect("a folder of our own");
    let said = stdout(dir.path(), &["run", "s.yaml"], 1);
    let told = "1 waiting job is refused as my_rule by an expression filter of the profile even if all nodes are ready and empty";
    assert!(said.contains(told), "{said}");
    assert!(said.contains("FAIL  every job can run if all nodes are ready and empty"), "{said}");

    // The node that is not ready might pass the filter, so nothing is said about empty nodes.
    let third = "  - {name: c, cpus: 64, ram: 512GiB, gpus: [{type: h100-80g, count: 8}], state: not_ready}\n";
    std::fs::write(dir.path().join("s.yaml"), text.replace("profile:", &format!("{third}profile:"))).expect("as above");
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    assert!(!said.contains("even if all nodes are ready and empty\n"), "{said}");
}
