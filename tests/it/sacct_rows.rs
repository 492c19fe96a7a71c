//! Rows of `sacct` that are not plain jobs, from the list to the run.

use crate::cli::{stderr, stdout, written};

trials! {
    Nothing: [
        a_job_that_was_eligible_later_waits_from_then_on,
        waits_since_submission_are_called_so,
        components_of_a_heterogeneous_job_are_counted,
        parts_of_gpus_are_counted,
        unlikely_rows_are_counted,
        tasks_of_an_array_that_wait_are_counted,
        a_running_job_counts_for_as_long_as_it_is_replayed,
        a_short_log_gets_no_plan_and_is_told_so,
        a_job_whose_reservation_is_over_is_found_before_the_run,
        the_default_time_of_a_partition_is_no_limit_of_a_job_without_limit,
        a_job_that_states_no_limit_runs_under_the_longest_time_of_its_qos,
        a_limit_on_nodes_counts_each_node_once,
    ]
}

const SCENARIO: &str = "\
scenario: Rows of sacct
profile: slurm-22.05
nodes: [{name: n, count: 2, cpus: 8}]
trace: {format: sacct, file: jobs.txt}
";

const JOBS: &str = "\
JobID|Submit|Eligible|Start|End|Elapsed|Timelimit|State|AllocCPUS|NNodes
1|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|01:00:00|02:00:00|COMPLETED|8|1
2|2026-01-01T00:00:02|2026-01-01T02:00:00|2026-01-01T02:00:03|2026-01-01T03:00:03|01:00:00|02:00:00|COMPLETED|8|1
3|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:01:10|00:01:00|02:00:00|COMPLETED|8|1
";

/// The first three columns of each job in `jobs.csv`.
fn begins(text: &str) -> Vec<String> {
    text.lines().skip(1).map(|line| line.split(',').take(3).collect::<Vec<_>>().join(",")).collect()
}

/// Job 2 was submitted two seconds after job 1 to begin at two o'clock. It waited three seconds.
fn a_job_that_was_eligible_later_waits_from_then_on() {
    let dir = written(&[("jobs.txt", JOBS), ("jobs.yaml", SCENARIO)]);
    let info = stdout(dir.path(), &["trace", "info", "jobs.txt"], 0);
    assert!(info.contains("kept, but odd: 1 eligible later than submitted, taken as submitted then\n"), "{info}");
    assert!(info.contains("waited      mean 1s, half 0s or less, 95 % 3s or less, longest 3s\n"), "{info}");
    let said = stdout(dir.path(), &["run", "jobs.yaml", "--out", "out"], 0);
    let jobs = std::fs::read_to_string(dir.path().join("out/jobs.csv")).expect("it was written");
    assert_eq!(begins(&jobs), ["1,0,0", "3,0,10", "2,0,7200"], "{said}");
    assert!(said.contains("in the log 1.00s on average") && said.contains("at most 3.00s\n"), "{said}");
    // Job 2 is read before job 3, and submitted after it.
    let digest = |said: &str| said.split_once("digest ").map(|(_, rest)| rest[..12].to_string());
    let streamed = stdout(dir.path(), &["run", "jobs.yaml", "--stream"], 0);
    assert_eq!(digest(&streamed), digest(&said), "{streamed}");
}

fn waits_since_submission_are_called_so() {
    let without: String = JOBS
        .lines()
        .map(|line| line.split('|').enumerate().filter(|(place, _)| *place != 2).map(|(_, field)| field))
        .map(|fields| fields.collect::<Vec<_>>().join("|") + "\n")
        .collect();
    let dir = written(&[("jobs.txt", &without), ("jobs.yaml", SCENARIO)]);
    let info = stdout(dir.path(), &["trace", "info", "jobs.txt"], 0);
    assert!(info.contains("kept, but odd: 3 not known when eligible, taken as eligible when submitted\n"), "{info}");
    assert!(info.contains("longest 2h1s, all since their submission\n"), "{info}");
    let said = stdout(dir.path(), &["run", "jobs.yaml"], 0);
    assert!(said.contains("at most 2h00m; since submission, as it does not say when jobs became eligible\n"), "{said}");
}

/// Slurm names the components of the heterogeneous job 2 `2+0` and `2+1`, and starts them together.
fn components_of_a_heterogeneous_job_are_counted() {
    let jobs = JOBS.replace("\n2|", "\n2+0|").replace("\n3|", "\n2+1|") + "2+1.batch|||||||COMPLETED|8|1\n";
    let dir = written(&[("jobs.txt", &jobs), ("jobs.yaml", SCENARIO)]);
    let info = stdout(dir.path(), &["trace", "info", "jobs.txt"], 0);
    assert!(info.contains("2 component of a heterogeneous job, taken as a job of its own\n"), "{info}");
    let told = stderr(dir.path(), &["run", "jobs.yaml"], 0);
    let wanted = "the trace jobs.txt has 2 components of heterogeneous jobs; each is rehearsed as a job of its own";
    assert!(told.contains(wanted), "{told}");
}

const PARTS: &str = "\
JobID|Submit|Eligible|Start|End|Elapsed|Timelimit|State|NNodes|AllocTRES|ReqGRES
1|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|01:00:00|02:00:00|COMPLETED|1|cpu=1,gres/shard=4|
2|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|01:00:00|02:00:00|COMPLETED|1|cpu=1,gres/mps:a100=50|
3|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|01:00:00|02:00:00|COMPLETED|1|cpu=1|mps:50
4|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|01:00:00|02:00:00|COMPLETED|1|cpu=1,gres/gpu=1,gres/shard=8|
5|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|01:00:00|02:00:00|COMPLETED|1|cpu=1|
";

/// Jobs 1 to 3 had parts of a GPU, job 4 a whole GPU, and job 5 none.
fn parts_of_gpus_are_counted() {
    let dir = written(&[("jobs.txt", PARTS), ("jobs.yaml", &SCENARIO.replace("cpus: 8", "machine: a100-80g-x8"))]);
    let info = stdout(dir.path(), &["trace", "info", "jobs.txt"], 0);
    assert!(info.contains("kept, but odd: 3 shards or MPS of a GPU, of unknown size, taken as no GPU\n"), "{info}");
    assert!(info.contains("GPUs        0: 1, 1: 1\n"), "{info}");
    let told = stderr(dir.path(), &["run", "jobs.yaml"], 0);
    assert!(told.contains("the trace jobs.txt has 3 jobs with shards or MPS of GPUs"), "{told}");
}

/// Job 2 has a state that Slurm does not have, and job 3 started before it was submitted.
fn unlikely_rows_are_counted() {
    let jobs = JOBS.replacen("COMPLETED|8|1\n3|", "FOO|8|1\n3|", 1);
    let jobs = jobs.replace("3|2026-01-01T00:00:10|2026-01-01T00:00:10", "3|2026-01-01T00:00:20|2026-01-01T00:00:20");
    let dir = written(&[("jobs.txt", &jobs)]);
    let info = stdout(dir.path(), &["trace", "info", "jobs.txt"], 0);
    assert!(info.contains("1 status not defined by the format, taken as unknown"), "{info}");
    assert!(info.contains("1 started before submission, wait unknown"), "{info}");
    assert!(info.contains("how it ended 66.6 %") && info.contains("how long it waited 66.6 %"), "{info}");
}

/// Job 2 runs since ten past midnight on another node than job 1, which ends at two o'clock the next day.
const RUNNING: &str = "\
JobID|State|Submit|Eligible|Start|End|Elapsed|Timelimit|NNodes|AllocTRES
1|COMPLETED|2026-10-05T00:00:00|2026-10-05T00:00:00|2026-10-05T00:00:00|2026-10-06T02:00:00|1-02:00:00|2-00:00:00|1|gres/gpu=8
2|RUNNING|2026-10-05T00:10:00|2026-10-05T00:10:00|2026-10-05T00:10:00|Unknown|00:00:00|04:00:00|1|gres/gpu=8
";

/// 26 hours of job 1 and 25 h 50 min of job 2, which is longer than its limit, on 8 GPUs each.
fn a_running_job_counts_for_as_long_as_it_is_replayed() {
    let dir = written(&[("jobs.txt", RUNNING)]);
    let info = stdout(dir.path(), &["trace", "info", "jobs.txt"], 0);
    assert!(info.contains("in use      at most 16 GPUs at once"), "{info}");
    assert!(info.contains("GPU time 414.66 hours"), "{info}");
    let told = stderr(dir.path(), &["init", "new.yaml", "--trace", "jobs.txt"], 0);
    assert!(told.contains("note: at most 16 GPUs were in use at once in the log, so there are 2 nodes"), "{told}");
    assert!(told.contains("(207 GPU hours so far, 207 as replayed)"), "{told}");
    // If job 1 ends at one o'clock and nothing is known after it, job 2 goes on until its limit.
    let early = RUNNING.replace("2026-10-06T02:00:00|1-02:00:00", "2026-10-05T01:00:00|01:00:00");
    let dir = written(&[("jobs.txt", &early)]);
    let info = stdout(dir.path(), &["trace", "info", "jobs.txt"], 0);
    assert!(info.contains("GPU time 40.00 hours"), "{info}");
    assert!(info.contains("running     1 of those that still ran count until their time limits"), "{info}");
}

fn a_short_log_gets_no_plan_and_is_told_so() {
    let dir = written(&[("jobs.txt", JOBS)]);
    let told = stderr(dir.path(), &["init", "new.yaml", "--trace", "jobs.txt"], 0);
    assert!(told.contains("note: no plan is written, because fewer than 10 hours lie between"), "{told}");
    assert!(!dir.path().join("new.plan.yaml").exists());
}

const OVER: &str = "\
scenario: A reservation
profile: slurm-22.05
slurm:
  reservations: [{name: maint, start: 1h, duration: 1h, nodes: [n-0], users: [root]}]
nodes: [{name: n, count: 2, cpus: 8}]
jobs:
  - {name: early, cpus: 8, duration: 30m, user: root, reservation: maint}
  - {name: late, at: 3h, cpus: 8, duration: 10m, user: root, reservation: maint}
until: 5h
";

fn a_job_whose_reservation_is_over_is_found_before_the_run() {
    let dir = written(&[("s.yaml", OVER)]);
    let check = stdout(dir.path(), &["trace", "check", "s.yaml"], 1);
    assert!(check.contains("1 of 2 jobs can never run"), "{check}");
    let run = stdout(dir.path(), &["run", "s.yaml"], 1);
    assert!(run.contains("1 of 2 jobs can never run"), "{run}");
}

/// All jobs run in a partition that gives half an hour to jobs that ask for no time. Job 2 asked for no limit, and ran an hour.
fn the_default_time_of_a_partition_is_no_limit_of_a_job_without_limit() {
    let jobs = JOBS.replace("|NNodes\n", "|NNodes|Partition\n").replace("|8|1\n", "|8|1|batch\n");
    let jobs = jobs.replacen("03:00:03|01:00:00|02:00:00", "03:00:03|01:00:00|UNLIMITED", 1);
    let partition = "slurm: {partitions: [{name: batch, nodes: [\"*\"], default_time: 30m}]}\n";
    let dir = written(&[("jobs.txt", &jobs), ("jobs.yaml", &format!("{SCENARIO}{partition}"))]);
    let info = stdout(dir.path(), &["trace", "info", "jobs.txt"], 0);
    assert!(info.contains("1 no time limit (UNLIMITED)\n"), "{info}");
    let told = stderr(dir.path(), &["trace", "convert", "jobs.txt", "--to", "csv"], 0);
    assert!(told.contains("not written of 1 task: the fact that it had no time limit\n"), "{told}");
    stdout(dir.path(), &["run", "jobs.yaml", "--out", "out"], 0);
    let log = std::fs::read_to_string(dir.path().join("out/events.jsonl")).expect("it was written");
    let limits = log.split("\"estimate\":").skip(1).map(|rest| rest.split_once(',').map_or(rest, |(limit, _)| limit));
    // Two hours, none (job 2 is submitted last), in nanoseconds.
    assert_eq!(limits.collect::<Vec<_>>(), ["7200000000000", "7200000000000", "null"]);
}

/// One row states all tasks of an array that did not start: ten that wait, and four that were cancelled.
fn tasks_of_an_array_that_wait_are_counted() {
    let rows = "\
        4_[7-16]|2026-01-01T00:00:20|2026-01-01T00:00:20|Unknown|Unknown|00:00:00|02:00:00|PENDING|0|1\n\
        5_[1,3-5%2]|2026-01-01T00:00:30|2026-01-01T00:00:30|None|2026-01-01T01:00:00|00:00:00|02:00:00|CANCELLED by 0|0|1\n";
    let jobs = format!("{JOBS}{rows}");
    let dir = written(&[("jobs.txt", &jobs), ("jobs.yaml", SCENARIO)]);
    let warned = stderr(dir.path(), &["run", "jobs.yaml"], 0);
    assert!(warned.contains("was written with 10 pending jobs, left out because no run time is known"), "{warned}");
    let said = stdout(dir.path(), &["run", "jobs.yaml"], 0);
    let left_out = "left out: 1 never started, length unknown (4 tasks), 1 still pending, length unknown (10 \
                    tasks)\n";
    assert!(said.contains(left_out), "{said}");
}

/// Slurm gives jobs that state no limit that of their QOS, as measured with Slurm 22.05.8. `wide` could start when `first` has run
/// for its ten minutes, and `late` starts before it because it has only five.
const UNSTATED: &str = "\
scenario: MaxWall of a QOS
profile: slurm-22.05
slurm:
  partitions: [{name: batch, default: true}]
  qos: [{name: normal}, {name: wall, max_wall: 10m}, {name: brief, max_wall: 5m}]
nodes: [{name: n, count: 2, cpus: 8}]
jobs:
  - {name: first, cpus: 8, qos: wall, duration: 5m}
  - {name: wide, at: 1s, tasks: 2, gang: spread, cpus: 8, estimate: 20m, duration: 5m}
  - {name: late, at: 2s, cpus: 1, qos: brief, duration: 1m}
  - {name: next, at: 1h, cpus: 1, qos: wall, duration: 1m}
  - {name: long, at: 1h, cpus: 1, qos: wall, estimate: 11m, duration: 1m}
unplaced: ignore
until: 2h
expect:
  - {job: first, is: completed}
  - {job: late, is: completed, at: 3m}
  - {job: next, is: completed}
  - {job: long, is: pending, because: qos_max_wall}
  - {evaluate: next, at: 1h1m, is: fits}
";

fn a_job_that_states_no_limit_runs_under_the_longest_time_of_its_qos() {
    let dir = written(&[("s.yaml", UNSTATED)]);
    stdout(dir.path(), &["run", "s.yaml"], 0);
    // A job of a log that had no limit is over that of its QOS, also in Slurm.
    let jobs = JOBS.replacen("03:00:03|01:00:00|02:00:00", "03:00:03|01:00:00|UNLIMITED", 1);
    let jobs = jobs.replacen("00:01:10|00:01:00|02:00:00", "00:01:10|00:01:00|", 1);
    let wall = "slurm: {qos: [{name: normal, max_wall: 3h}]}\n";
    let dir = written(&[("jobs.txt", &jobs), ("jobs.yaml", &format!("{SCENARIO}{wall}"))]);
    stdout(dir.path(), &["run", "jobs.yaml", "--out", "out"], 1);
    let log = std::fs::read_to_string(dir.path().join("out/events.jsonl")).expect("it was written");
    let limits = log.split("\"estimate\":").skip(1).map(|rest| rest.split_once(',').map_or(rest, |(limit, _)| limit));
    // Two hours, that of the QOS, none (job 2 is submitted last), in nanoseconds.
    assert_eq!(limits.collect::<Vec<_>>(), ["7200000000000", "10800000000000", "null"]);
}

/// The rules were measured with Slurm 22.05.8: `a`, `b` and `c2` share nodes, `c3` would get a third one, `back` is started by
/// backfilling, and `full` waits for the limit though nothing is free.
const NODES: &str = "\
scenario: Limits on nodes
profile: slurm-22.05
slurm:
  partitions: [{name: main, default: true}]
  qos: [{name: normal}, {name: user, max_tres_per_user: {node: 2}}, {name: group, grp_tres: {node: 2}}]
nodes: [{name: n, count: 4, cpus: 8}]
jobs:
  - {name: a, count: 4, user: u, qos: user, cpus: 1, estimate: 5m, duration: 5m}
  - {name: b, at: 10m, user: u, qos: group, cpus: 1, estimate: 5m, duration: 5m}
  - {name: b2, at: 10m1s, count: 2, user: v, tasks: 2, gang: spread, qos: group, cpus: 1, estimate: 5m, duration: 5m}
  - {name: c1, at: 20m, user: u, qos: user, cpus: 8, estimate: 5m, duration: 5m}
  - {name: c2, at: 20m1s, user: u, qos: user, cpus: 5, estimate: 5m, duration: 5m}
  - {name: c3, at: 20m2s, user: u, qos: user, cpus: 5, estimate: 5m, duration: 5m}
  - {name: c4, at: 20m3s, user: u, qos: user, cpus: 1, estimate: 5m, duration: 5m}
  - {name: c5, at: 20m4s, user: u, qos: user, tasks: 3, gang: spread, cpus: 1, estimate: 5m, duration: 5m}
  - {name: c6, at: 20m5s, user: v, qos: user, tasks: 2, gang: spread, cpus: 8, estimate: 5m, duration: 5m}
  - {name: head, at: 20m6s, tasks: 4, gang: spread, cpus: 8, estimate: 5m, duration: 5m}
  - {name: back, at: 20m7s, user: u, qos: user, cpus: 1, estimate: 1m, duration: 1m}
  - {name: d1, at: 40m, user: u, qos: user, tasks: 2, gang: spread, cpus: 8, estimate: 5m, duration: 5m}
  - {name: d2, at: 40m1s, tasks: 2, gang: spread, cpus: 8, estimate: 5m, duration: 5m}
  - {name: full, at: 40m2s, user: u, qos: user, cpus: 1, estimate: 5m, duration: 5m}
  - {name: free, at: 40m3s, cpus: 1, estimate: 5m, duration: 5m}
unplaced: ignore
expect:
  - {job: a-3, is: running, at: 30s}
  - {job: b2-1, is: running, at: 10m30s}
  - {job: c2, is: running, at: 21m30s}
  - {job: c3, is: pending, because: qos_max_tres_per_user, at: 20m4500ms}
  - {job: c4, is: running, at: 20m4500ms}
  - {job: c5, is: pending, because: qos_max_tres_per_user, at: 20m4500ms}
  - {job: c6, is: running, at: 20m30s}
  - {job: head, is: pending, at: 21m}
  - {job: back, is: completed, at: 23m}
  - {job: full, is: pending, because: qos_max_tres_per_user, at: 41m}
  - {job: free, is: pending, because: insufficient_cpu, at: 41m}
  - {job: full, is: completed}
  - {evaluate: c4, at: 20m4500ms, is: fits}
  - {evaluate: c3, at: 20m4500ms, is: unfit, because: qos_max_tres_per_user}
";

fn a_limit_on_nodes_counts_each_node_once() {
    let dir = written(&[("s.yaml", NODES)]);
    stdout(dir.path(), &["run", "s.yaml"], 0);
}
