//! What a run or a plan leaves out or changes of what was recorded, and says so: jobs after its end, GPUs that do not divide.

use crate::cli::{stdout, written};

trials! {
    Nothing: [
        jobs_of_a_log_after_the_end_are_counted,
        requests_after_the_end_are_counted,
        a_job_that_comes_when_the_run_stops_was_not_refused_a_place,
        gpus_that_do_not_divide_among_nodes_are_told,
        spot_instances_that_are_never_interrupted_are_told,
        the_command_that_repeats_a_plan_has_its_flags,
    ]
}

const HEADER: &str =
    "JobID|JobName|User|Partition|Submit|Start|End|Elapsed|Timelimit|State|NNodes|NCPUS|ReqMem|AllocTRES|ReqTRES\n";

/// A job of one hour that is submitted at an hour of the day and starts at another one.
fn row(submit: u32, start: u32, (nodes, gpus): (u32, u32)) -> String {
    format!(
        "{submit}|j|u|gpu|2026-09-07T{submit:02}:00:00|2026-09-07T{start:02}:00:00|2026-09-07T{:02}:00:00|01:00:00|02:00:00|\
         COMPLETED|{nodes}|8|64G|gres/gpu={gpus}|gres/gpu={gpus}\n",
        start + 1
    )
}

const CUT: &str = "\
scenario: The first hours of a log
profile: slurm-22.05
until: 2h
nodes: [{name: w, count: 4, machine: a100-80g-x8}]
trace: {format: sacct, file: jobs.txt}
";

const PLAN: &str = "\
plan: How many?
scenario: s.yaml
factors: {n: {set: nodes.w.count, values: [1, 4]}}
minimize: gpus
constraints: [max(queue_wait) <= 1h]
";

/// Of four jobs, two are submitted within two hours. The log's waits of the others, four and five hours, are not compared.
fn jobs_of_a_log_after_the_end_are_counted() {
    let jobs = [row(0, 0, (1, 1)), row(1, 1, (1, 1)), row(3, 7, (1, 1)), row(4, 9, (1, 1))].concat();
    let dir = written(&[("s.yaml", CUT), ("plan.yaml", PLAN), ("jobs.txt", &format!("{HEADER}{jobs}"))]);
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    let cut = "2 of 4 jobs of jobs.txt are submitted after `until` (2h), so they are not in the run";
    assert!(said.contains("jobs.txt: 2 jobs of it are in this run; 4 rows\n"), "{said}");
    assert!(said.contains(cut), "{said}");
    assert!(said.contains("in the log 0s on average, half 0s or less, 95% 0s or less, at most 0s;"), "{said}");
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(said.contains(&format!(" {cut}.")), "{said}");
    for file in ["report.html", "plan.json"] {
        let text = std::fs::read_to_string(dir.path().join("out").join(file)).expect("it was written");
        assert!(text.replace("<code>", "`").replace("</code>", "`").contains(cut), "{file}");
    }
    let whole = stdout(dir.path(), &["run", "s.yaml", "--until", "1d"], 0);
    assert!(
        whole.contains("jobs.txt: 4 jobs of it are in this run; 4 rows\n") && !whole.contains("after `until`"),
        "{whole}"
    );
    assert!(whole.contains("at most 5h00m; since submission"), "{whole}");
}

fn requests_after_the_end_are_counted() {
    let scenario = "\
scenario: A recorded curve
until: 10s
nodes: [{name: h200, machine: h200-141g-x8}]
jobs:
  - name: chat
    gpus: 8
    serving:
      prefill: 11000 tokens/s
      step: {base: 10ms, per_sequence: 300us}
      batching: chunked
      kv_cache_tokens: 500000
      max_sequences: 128
      max_batched_tokens: 8192
      requests: {trace: req.csv}
";
    let requests = "at_s,input_tokens,output_tokens\n0,100,10\n10,100,10\n11,100,10\n";
    let dir = written(&[("s.yaml", scenario), ("req.csv", requests)]);
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    assert!(said.contains("1 of 3 requests of `chat` comes after `until` (10s), so it is not in the run"), "{said}");
    let said = stdout(dir.path(), &["run", "s.yaml", "--until", "11s"], 0);
    assert!(!said.contains("after `until`"), "{said}");
}

/// Slurm decides a moment after the submission, when the run has stopped.
fn a_job_that_comes_when_the_run_stops_was_not_refused_a_place() {
    let jobs = [row(0, 0, (1, 1)), row(2, 2, (1, 1))].concat();
    let scenario = format!("{CUT}expect: [\"placed >= 99.9%\"]\n");
    let dir = written(&[("s.yaml", &scenario), ("jobs.txt", &format!("{HEADER}{jobs}"))]);
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    assert!(said.contains("1 still waiting"), "it came in time, but was not decided about\n{said}");
}

/// Four GPUs on three nodes are two on each, and one on two nodes is one on each.
fn gpus_that_do_not_divide_among_nodes_are_told() {
    let jobs = [row(0, 0, (3, 4)), row(1, 1, (2, 1)), row(2, 2, (2, 4))].concat();
    let dir = written(&[("s.yaml", CUT), ("jobs.txt", &format!("{HEADER}{jobs}"))]);
    let told = "2 jobs of jobs.txt had 5 GPUs on several nodes, not the same number on each, and take 8 in the run: each node \
                gets the same number, rounded up";
    for command in [&["run", "s.yaml"][..], &["trace", "check", "s.yaml"]] {
        let said = stdout(dir.path(), command, 0);
        assert!(said.contains(told), "{command:?}\n{said}");
    }
    let even = format!("{HEADER}{}", row(0, 0, (2, 4)));
    std::fs::write(dir.path().join("jobs.txt"), even).expect("a folder of our own");
    assert!(!stdout(dir.path(), &["run", "s.yaml"], 0).contains("rounded up"));
}

fn spot_instances_that_are_never_interrupted_are_told() {
    let scenario = "\
scenario: Spot instances
profile: dstack
until: 1d
fleets:
  burst:
    nodes: 0..1
    blocks: 8
    idle_duration: 10m
    offers: [{name: spot, machine: a100-80g-x8, spot: true, price_per_hour: 5.1, provisioning: 4m}]
jobs: [{name: x, duration: 1h, resources: {gpu: 2}, spot_policy: auto}]
";
    let dir = written(&[("s.yaml", scenario)]);
    let told = "spot instances of the offer `spot` of `burst` are never interrupted, because it has no `interrupted`";
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    assert!(said.contains(told), "{said}");
    let interrupted = scenario.replace("spot: true,", "spot: true, interrupted: {exponential: 6h},");
    std::fs::write(dir.path().join("s.yaml"), interrupted).expect("a folder of our own");
    assert!(!stdout(dir.path(), &["run", "s.yaml"], 0).contains("never interrupted"));
}

fn the_command_that_repeats_a_plan_has_its_flags() {
    let jobs = [row(0, 0, (1, 1)), row(1, 1, (1, 1))].concat();
    let dir = written(&[("s.yaml", CUT), ("plan.yaml", PLAN), ("jobs.txt", &format!("{HEADER}{jobs}"))]);
    let plan =
        ["plan", "plan.yaml", "--set", "load=110%", "--set", "scenario=two words", "--seeds", "1..2", "--out", "out"];
    stdout(dir.path(), &plan, 0);
    let text = |file: &str| std::fs::read_to_string(dir.path().join("out").join(file)).expect("it was written");
    let command = "dryrack plan plan.yaml --set load=110% --set 'scenario=two words' --seeds 1..2 --out DIR";
    let page = text("report.html").replace("<span class=\"flag\">", "").replace("</span>", "").replace("&#39;", "'");
    assert!(page.contains(command), "the page has the command");
    let json: serde_json::Value = serde_json::from_str(&text("plan.json")).expect("it is JSON");
    assert_eq!(
        (&json["set"], &json["seeds"]),
        (&serde_json::json!(["load=110%", "scenario=two words"]), &serde_json::json!([1, 2]))
    );
}
