//! Figures of a plan that a reader compares: they agree, or say why they do not.

use crate::cli::{stdout, written};

trials! {
    Nothing: [
        a_month_that_fails_with_less_load_is_explained,
        a_month_that_is_enough_with_more_load_is_explained,
        an_answer_at_the_lowest_value_says_so,
        of_two_kinds_only_the_one_with_a_node_to_spare_is_said,
        an_answer_at_the_highest_value_says_so,
    ]
}

const ONE_GPU: &str = "\
scenario: A job each hour
nodes: [{name: w, machine: l4-x1, count: 1}]
trace: {format: csv, file: jobs.csv}
";
const GROWING: &str = "\
plan: When is it no longer enough?
scenario: base.yaml
factors: {n: {set: nodes.w.count, values: [1]}}
minimize: gpus
constraints: [max(queue_wait) <= 30m]
horizon: {months: 1, growth: 7%/month, from: 2026-11}
";

/// A job of one GPU each hour, for ten minutes. One of them, counted from 1, takes 50 minutes.
fn a_job_an_hour(long: usize) -> String {
    let job = |number: usize| {
        let minutes = if number == long { 50 } else { 10 };
        format!("j{number},{},{},1\n", (number - 1) * 3600, minutes * 60)
    };
    "job,submit_s,duration_s,gpus\n".to_string() + &(1..=20).map(job).collect::<String>()
}

fn said(plan: &str, long: usize) -> String {
    let dir = written(&[("base.yaml", ONE_GPU), ("jobs.csv", &a_job_an_hour(long)), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(page.contains("But in month 1 (2026-12), "), "the page says it too");
    said
}

/// Job i is submitted twice where the whole part of i times the load rises by 2. With 107 %, this is job 15 (15.05 after
/// 14.98), which takes 50 minutes: its copy comes 30 minutes later and waits for 20, and so job 16 waits for 40. With 110 %,
/// these are the short jobs 10 and 20.
fn a_month_that_fails_with_less_load_is_explained() {
    let said = said(GROWING, 15);
    let wanted = "With 10% more load, it still meets everything with 1 seed. But in month 1 (2026-12), with 7% more load, it \
                  does not. Each load submits other jobs, or the same jobs at other times, so at about these loads it is \
                  partly chance whether the constraints hold.\n";
    assert!(said.contains(wanted), "{wanted:?} in\n{said}");
    assert!(said.contains("it is no longer enough in month 1 (2026-12), with 7% more load."), "{said}");
    assert!(
        said.contains("In month 1 (2026-12), with 7% more load, max(queue_wait) <= 30m fails: max(queue_wait) was 40m"),
        "{said}"
    );
}

/// With 110 %, job 10 is submitted twice, and so job 11 waits for 40 minutes. With 114 %, these are job 8 (9.12 after 7.98) and
/// job 15 (17.1 after 15.96), which are short.
fn a_month_that_is_enough_with_more_load_is_explained() {
    let said = said(&GROWING.replace("7%", "14%"), 10);
    let wanted = "With 10% more load, max(queue_wait) <= 30m fails: max(queue_wait) was 40m over 22 replicas. But in month 1 \
                  (2026-12), with 14% more load, it meets everything. Each load submits other jobs";
    assert!(said.contains(wanted), "{wanted:?} in\n{said}");
    // At the load that was tried, there is nothing to explain.
    let same = GROWING.replace("7%", "10%");
    let dir = written(&[("base.yaml", ONE_GPU), ("jobs.csv", &a_job_an_hour(10)), ("plan.yaml", &same)]);
    assert!(!stdout(dir.path(), &["plan", "plan.yaml"], 0).contains("But in month"));
}

/// One GPU is enough for a job each hour of ten minutes, and two for two such jobs at once.
fn an_answer_at_the_lowest_value_says_so() {
    let of = |jobs: u32, values: &str| {
        let scenario = format!(
            "scenario: Short jobs\nnodes: [{{name: w, machine: l4-x1}}]\n\
             jobs: [{{name: train, gpus: 1, duration: 10m, count: {jobs}}}]\n"
        );
        let plan = format!(
            "plan: How few?\nscenario: base.yaml\nfactors: {{n: {{set: nodes.w.count, values: {values}}}}}\n\
             minimize: gpus\nconstraints: [max(queue_wait) <= 0s]\n"
        );
        let dir = written(&[("base.yaml", &scenario), ("plan.yaml", &plan)]);
        let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
        let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
        assert_eq!(said.contains("that was tried;"), page.contains("that was tried;"), "{said}");
        said
    };
    let wanted = " 2 is the lowest value of `n` that was tried; a lower one may meet the constraints too: without w-1 (one of 2 nodes with 1 \
                  l4), it still meets everything with 1 seed.";
    for values in ["[2, 3]", "[3, 2, 4]"] {
        assert!(of(1, values).contains(wanted), "{values}");
    }
    for (jobs, values, why) in [
        (1, "[1, 2]", "there is none below 1"),
        (1, "[2]", "nothing was varied"),
        (2, "[1, 2, 3]", "one was run"),
        (2, "[2, 3]", "a node less was run, and is not enough"),
    ] {
        assert!(!of(jobs, values).contains("that was tried;"), "{values}: {why}");
    }
}

/// Two jobs take an L4 each, and one an A100. So of two A100, one is too much.
fn of_two_kinds_only_the_one_with_a_node_to_spare_is_said() {
    let scenario = "\
scenario: Two kinds of GPUs
nodes:
  - {name: l, machine: l4-x1}
  - {name: a, cpus: 8, ram: 64GiB, gpus: 1, gpu: a100-80g}
jobs:
  - {name: small, gpus: 1, gpu: l4, duration: 1h, count: 2}
  - {name: large, gpus: 1, gpu: a100-80g, duration: 1h}
";
    let plan = "plan: How few?\nscenario: base.yaml\nfactors:\n  l: {set: nodes.l.count, values: 2..3}\n  \
                a: {set: nodes.a.count, values: 2..3}\nminimize: gpus\nconstraints: [max(queue_wait) <= 0s]\n";
    let dir = written(&[("base.yaml", scenario), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    let wanted = " 2 is the lowest value of `a` that was tried; a lower one may meet the constraints too: without a-1 (one of 2 nodes with 1 \
                  a100-80g), it still meets everything with 1 seed.";
    assert!(said.contains(wanted) && !said.contains("value of `l`"), "{said}");
}

/// Jobs of an hour come every half hour, so two machines are always busy. A machine of one's own costs 6 an hour, and one on
/// demand 20. With 0, 1, 2 and 3 of one's own, that is about 40, 26, 12 and 18 an hour.
fn an_answer_at_the_highest_value_says_so() {
    let scenario = "\
scenario: Own machines or a cloud
until: 2d
params: {own: 0}
fleets:
  own: {hosts: [{name: h, machine: a100-80g-x8, count: \"${own}\", price_per_hour: 6}]}
  cloud:
    nodes: 0..20
    idle_duration: 10m
    offers: [{name: od, machine: a100-80g-x8, price_per_hour: 20, provisioning: 5m}]
jobs: [{name: train, arrivals: {every: 30m}, duration: 1h, resources: {gpu: 8}}]
";
    let of = |values: &str| {
        let plan = format!(
            "plan: Own or cloud?\nscenario: base.yaml\nfactors: {{own: {values}}}\nminimize: cost_per_month\n\
             constraints: [p95(queue_wait) <= 30m]\n"
        );
        let dir = written(&[("base.yaml", scenario), ("plan.yaml", &plan)]);
        stdout(dir.path(), &["plan", "plan.yaml"], 0)
    };
    let said = of("0..1");
    assert!(said.contains(" 1 is the highest value of `own` that was tried; a higher one may cost less."), "{said}");
    for values in ["0..2", "1..3"] {
        let said = of(values);
        assert_eq!(said.contains(" 2 is the highest value of `own`"), values == "0..2", "{said}");
        assert_eq!(said.contains("that was tried;"), values == "0..2", "{said}");
    }
}
