//! Jobs on a slower GPU than the one of their stated time: time limits stay as they are, which answers have to say.

use crate::cli::{stdout, written};

trials! {
    Nothing: [
        an_answer_names_jobs_that_a_time_limit_ended,
        jobs_that_outlast_the_limit_of_a_log_are_counted,
        a_change_with_which_more_jobs_end_early_is_not_recommended_silently,
    ]
}

/// Jobs of four hours on an H100, with a limit of five hours. An A100 takes longer than that.
const LIMITED: &str = "\
scenario: Jobs measured on an H100
speed: {reference: h100-80g, work: training}
nodes:
  - {name: fast, count: 1, machine: h100-80g-x8}
  - {name: slow, count: 1, machine: a100-80g-x8}
jobs: [{name: x, count: 8, gpus: 8, duration: 4h, time_limit: 5h}]
";

fn an_answer_names_jobs_that_a_time_limit_ended() {
    let plan = "\
plan: Which GPU?
scenario: s.yaml
factors: {gpu: {set: nodes.slow.machine, values: [a100-80g-x8, h100-80g-x8]}}
set: {nodes.fast.count: 0}
minimize: gpus
constraints: [max(queue_wait) <= 2d]
";
    let dir = written(&[("s.yaml", LIMITED), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let ended = "100.00% of the jobs were ended by a limit: of run time, of retries, or of waiting.";
    assert!(
        said.contains("a100-80g-x8 (1 x a100-80g-x8) is the cheapest: ") && !said.contains(") is enough"),
        "{said}"
    );
    assert!(said.contains(&format!("{ended} It meets the constraint with 1 seed.")), "{said}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(page.contains(ended), "the page says so too");
    let only = plan.replace("a100-80g-x8, h100-80g-x8", "h100-80g-x8");
    std::fs::write(dir.path().join("plan.yaml"), only).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(!said.contains("were ended by a limit"), "{said}");
}

/// A log of Slurm with a time limit of five hours. Its jobs ran for four hours on an H100.
fn jobs_that_outlast_the_limit_of_a_log_are_counted() {
    let row = |id: u32| {
        format!(
            "{id}|j|u|gpu|2026-09-07T0{id}:00:00|2026-09-07T0{id}:00:00|2026-09-07T0{}:00:00|04:00:00|05:00:00|COMPLETED|1|8|\
             64G|gres/gpu:h100=8|gres/gpu=8\n",
            id + 4
        )
    };
    let header =
        "JobID|JobName|User|Partition|Submit|Start|End|Elapsed|Timelimit|State|NNodes|NCPUS|ReqMem|AllocTRES|ReqTRES\n";
    let scenario = "\
scenario: A log of an H100
profile: slurm-22.05
nodes: [{name: w, count: 4, machine: a100-80g-x8}]
trace: {format: sacct, file: jobs.txt, gpu_names: {h100: [a100-80g, h100-80g]}}
speed: {reference: h100-80g, work: training}
";
    let plan = "\
plan: How many?
scenario: s.yaml
factors: {n: {set: nodes.w.count, values: [4]}}
minimize: gpus
constraints: [p95(queue_wait) <= 1h]
";
    let jobs = format!("{header}{}{}", row(0), row(1));
    let dir = written(&[("s.yaml", scenario), ("plan.yaml", plan), ("jobs.txt", &jobs)]);
    let said = stdout(dir.path(), &["run", "s.yaml"], 0);
    let late = "2 of 2 jobs ran longer than their estimate, because their GPU is slower than the one of their stated time; if \
                it is the time limit in a log of Slurm, Slurm would end them then";
    assert!(said.contains(&format!("jobs       2 = 2 completed\nlimits     {late}\n")), "{said}");
    // It is the same, whichever GPU the speeds refer to.
    let said = stdout(dir.path(), &["run", "s.yaml", "--set", "speed.reference=a100-80g"], 0);
    assert!(said.contains(&format!("limits     {late}\n")), "{said}");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(said.contains(" 100.00% of the jobs ran longer than their estimate, because"), "{said}");
    let said = stdout(dir.path(), &["run", "s.yaml", "--set", "nodes.w.machine=h100-80g-x8"], 0);
    assert!(!said.contains("longer than their estimate"), "{said}");
    // Without speeds, each command says that the jobs take as long as they took.
    let equal = scenario.replace("speed: {reference: h100-80g, work: training}\n", "");
    std::fs::write(dir.path().join("s.yaml"), equal).expect("a folder of our own");
    for args in [&["run", "s.yaml"][..], &["trace", "check", "s.yaml"], &["plan", "plan.yaml"]] {
        let said = crate::cli::stderr(dir.path(), args, 0);
        assert!(said.contains("that ask for `h100` take as long on a100-80g as they took"), "{args:?}: {said}");
    }
}

/// One more slow node shortens the waits because jobs on it are ended at their limit.
fn a_change_with_which_more_jobs_end_early_is_not_recommended_silently() {
    let dir = written(&[("s.yaml", LIMITED)]);
    let said = stdout(dir.path(), &["what-helps", "s.yaml"], 0);
    assert!(said.contains("jobs ended early"), "{said}");
    let sentence = said.lines().find(|line| line.contains("But more jobs fail, are lost, or reach a time limit:"));
    assert!(sentence.is_some_and(|line| line.contains(" with one more node like slow (8 a100-80g)")), "{said}");
}
