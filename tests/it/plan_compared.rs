//! Figures of a plan that a reader compares: they agree, or say why they do not.

use crate::cli::{stdout, written};

trials! {
    Nothing: [
        a_month_that_fails_with_less_load_is_explained,
        a_month_that_is_enough_with_more_load_is_explained,
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
