//! What a plan says of jobs that no larger fleet helps: those that wait for a limit, can never run, or are lost.

use serde_json::Value;

use crate::cli::{stderr, stdout, written};

trials! {
    Nothing: [
        a_limit_for_which_jobs_wait_is_named_instead_of_larger_values,
        a_limit_that_only_keeps_jobs_out_for_ever_is_no_reason_against_more_nodes,
        an_answer_whose_work_is_interrupted_says_how_often,
        times_that_leave_out_what_is_open_are_called_so,
        what_helps_says_what_a_warm_up_leaves_out,
        jobs_that_can_never_run_are_named_first_although_the_constraints_allow_them,
        jobs_that_fail_or_reach_a_limit_have_a_column,
        a_spot_fleet_that_no_job_may_use_is_named,
    ]
}

/// Eight jobs of an hour, one at a time because of the QOS, the last of which waits for 7 hours.
const LIMITED: &str = "\
scenario: Eight jobs of a QOS with two GPUs
params: {workers: 1}
until: 1d
profile: slurm-22.05
slurm:
  partitions: [{name: main, default: true}]
  qos: [{name: small, grp_tres: {gres/gpu: 2}}]
nodes: [{name: w, machine: a100-80g-x2, count: \"${workers}\"}]
jobs: [{name: train, count: 8, gpus: 2, duration: 1h, time_limit: 1h, qos: small}]
";

fn a_limit_for_which_jobs_wait_is_named_instead_of_larger_values() {
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {workers: [1, 2, 4]}\nminimize: gpus\n\
                constraints: [p95(queue_wait) <= 30m]\n";
    let arriving = LIMITED.replace("count: 8", "arrivals: {every: 1h}");
    let growing = format!("{plan}horizon: {{months: 2, growth: 20%/month}}\n");
    let dir = written(&[("base.yaml", LIMITED), ("plan.yaml", plan), ("growing.yaml", &growing)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
    let limit = "100% of the waiting time is due to a limit: jobs of QOS `small` in partition `main`: QOSGrpGRES";
    assert!(said.contains(&format!("More nodes do not help: with workers=4, {limit}")), "{said}");
    std::fs::write(dir.path().join("base.yaml"), &arriving).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "growing.yaml"], 0);
    assert!(
        said.contains("Larger values do not help, because jobs wait for a limit: jobs of QOS `small` in partition `main`: QOSGrpGRES"),
        "{said}"
    );
    assert!(said.contains("With 10% more load, p95(queue_wait) <= 30m fails") && said.contains(limit), "{said}");
    assert!(!said.contains("Add larger values"), "{said}");
    // Without the limit, jobs wait for nodes.
    let unlimited = arriving.replace("gres/gpu: 2}", "gres/gpu: 64}");
    std::fs::write(dir.path().join("base.yaml"), unlimited).expect("a folder of our own");
    let few = growing.replace("[1, 2, 4]", "[1]");
    std::fs::write(dir.path().join("growing.yaml"), few).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "growing.yaml"], 0);
    assert!(said.contains("Add larger values to its factors.") && !said.contains("due to a limit"), "{said}");
}

/// The waits of `long`, which exceeds the limit of its partition, last as long as the run: 8 * 24 h. The jobs that come every
/// half an hour and take one need two nodes, and three with 20% more load.
fn a_limit_that_only_keeps_jobs_out_for_ever_is_no_reason_against_more_nodes() {
    let base = "\
scenario: Jobs of an hour, and eight that can never run
params: {workers: 1}
until: 1d
unplaced: ignore
profile: slurm-22.05
slurm: {partitions: [{name: main, default: true, max_time: 2h}]}
nodes: [{name: w, machine: a100-80g-x2, count: \"${workers}\"}]
jobs:
  - {name: train, arrivals: {every: 30m}, gpus: 2, duration: 1h, time_limit: 1h}
  - {name: long, count: 8, gpus: 2, duration: 1h, time_limit: 3h}
";
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {workers: [2]}\nminimize: gpus\n\
                constraints: [p95(queue_wait) <= 30m]\nhorizon: {months: 2, growth: 20%/month}\n";
    let few = "plan: How many?\nscenario: base.yaml\nfactors: {workers: [1]}\nset: {load: 55%}\nminimize: gpus\n\
               constraints: [p95(queue_wait) <= 30m]\n";
    let dir = written(&[("base.yaml", base), ("plan.yaml", plan), ("few.yaml", few)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(said.contains("With 10% more load, p95(queue_wait) <= 30m fails"), "{said}");
    assert!(said.contains("In month 1, with 20% more load, p95(queue_wait) <= 30m fails"), "{said}");
    assert!(said.contains("Add larger values to its factors."), "{said}");
    assert!(!said.contains("do not help") && !said.contains("due to a limit"), "{said}");
    let said = stdout(dir.path(), &["plan", "few.yaml"], 1);
    assert!(said.contains("p95(queue_wait) <= 30m fails. Each of"), "{said}");
    assert!(!said.contains("do not help") && !said.contains("due to a limit"), "{said}");
}

/// `train` starts on the first spot instance, half an hour before it is taken away, and starts again on the second. An instance
/// on demand has room for both jobs.
fn an_answer_whose_work_is_interrupted_says_how_often() {
    let base = "\
scenario: A spot instance is taken away
profile: dstack
until: 12h
currency: USD
fleets:
  spot:
    nodes: 0..2
    offers: [{name: a100, machine: a100-80g-x8, disk: 500GiB, price_per_hour: 25, provisioning: 2m}]
jobs:
  - {name: prepare, duration: 1h, resources: {gpu: 8}, spot_policy: auto}
  - {name: train, at: 63m, duration: 1h, resources: {gpu: 8}, spot_policy: auto, retry: {on: interruption, for: 4h}}
";
    let offer = "name: a100, machine: a100-80g-x8, disk: 500GiB, provisioning: 2m";
    let plan = format!(
        "plan: Spot?\nscenario: base.yaml\nfactors:\n  kind:\n    values:\n      \
         od: {{fleets.spot.offers.a100: {{{offer}, price_per_hour: 25}}}}\n      \
         spot: {{fleets.spot.offers.a100: {{{offer}, price_per_hour: 5, spot: true, interrupted: 90m}}}}\n\
         minimize: cost_per_month\nconstraints: [p95(start_wait) <= 45m]\n"
    );
    let dir =
        written(&[("base.yaml", base), ("plan.yaml", &plan), ("dear.yaml", &plan.replace("hour: 5,", "hour: 50,"))]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let lost = "In a run, 1 running instance is lost, and jobs start again 1 time. Without interruptions, the cheapest that meets \
                the constraint is kind=od.";
    assert!(said.contains(lost), "{said}");
    let json = std::fs::read_to_string(dir.path().join("out/plan.json")).expect("it was written");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert!(json["short_answer"].as_str().is_some_and(|answer| answer.contains(lost)), "{json}");
    let said = stdout(dir.path(), &["plan", "dear.yaml"], 0);
    assert!(said.contains("kind=od (") && !said.contains("start again"), "{said}");
}

/// 10 jobs come at once and take an hour each on one node: 0 + 1 + ... + 9 = 45 h. Those of the first hour are not counted.
fn what_helps_says_what_a_warm_up_leaves_out() {
    let base = "\
scenario: Ten jobs at once, and one before
profile: fifo
warm_up: 1h
nodes: [{name: n, machine: a100-80g-x1}]
jobs:
  - {name: early, gpus: 1, duration: 1h}
  - {name: job, at: 2h, count: 10, gpus: 1, duration: 1h}
";
    let dir = written(&[("base.yaml", base)]);
    let said = stdout(dir.path(), &["what-helps", "base.yaml", "--out", "out"], 0);
    assert!(said.contains("All replicas together wait 45.0 h with 1 seed."), "{said}");
    let left_out =
        "The figures leave out the first 1h (`warm_up`), and what is submitted or arrives then: 1 of 11 jobs.";
    assert!(said.contains(left_out), "{said}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(page.contains("leave out the first 1h"), "the page says so too");
}

/// One of 20 jobs asks for a GPU that no node has.
/// A job that still runs at the end has no turnaround yet, so the table leaves it out. The constraint counts what it took so far.
fn times_that_leave_out_what_is_open_are_called_so() {
    let plan =
        "plan: How many?\nscenario: base.yaml\nfactors: {workers: [1, 2]}\nconstraints: [p95(turnaround) <= 30m]\n";
    for (duration, leaves_out) in [("3h", true), ("10m", false)] {
        let scenario = format!(
            "scenario: Two jobs\nparams: {{workers: 1}}\nuntil: 1h\nnodes: [{{name: w, cpus: 4, count: \"${{workers}}\"}}]\n\
             jobs:\n  - {{name: short, cpus: 1, duration: 1m}}\n  - {{name: other, cpus: 1, duration: {duration}}}\n"
        );
        let dir = written(&[("base.yaml", &scenario), ("plan.yaml", plan)]);
        let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], i32::from(leaves_out));
        let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
        for text in [said, page] {
            assert_eq!(text.contains("The times shown leave out replicas"), leaves_out, "{duration}: {text}");
        }
    }
}

fn jobs_that_can_never_run_are_named_first_although_the_constraints_allow_them() {
    let scenario = "\
scenario: One job of twenty asks for another GPU
params: {workers: 1}
until: 12h
nodes: [{name: w, machine: l4-x1, count: \"${workers}\"}]
jobs:
  - {name: train, count: 19, gpus: 1, duration: 1h}
  - {name: big, gpus: 1, gpu: h100-80g, duration: 1h}
";
    let plan = |minimize: &str, least: &str| {
        format!(
            "plan: How many?\nscenario: base.yaml\nfactors: {{workers: [1, 2]}}\n{minimize}constraints: [{least}]\n"
        )
    };
    let why = "1 of 20 jobs can never run with workers=2: no node has GPU `h100-80g` (there is only `l4`).";
    let rows = [
        ("minimize: gpus\n", "placed >= 95%", 0, format!("{why} workers=2 (2 x l4-x1) is the cheapest: 2 GPUs.")),
        (
            "minimize: gpus\n",
            "jobs_completed >= 19",
            0,
            format!("{why} workers=2 (2 x l4-x1) is the cheapest: 2 GPUs."),
        ),
        ("", "placed >= 95%", 0, format!("{why} 1 of 2 alternatives meets the constraint.")),
        (
            "minimize: gpus\n",
            "placed >= 99%",
            1,
            why.replace("workers=2", "workers=1") + " None of the 2 alternatives that were run meets the constraint.",
        ),
    ];
    let dir = written(&[("base.yaml", scenario)]);
    for (minimize, least, code, expected) in rows {
        std::fs::write(dir.path().join("plan.yaml"), plan(minimize, least)).expect("a folder of our own");
        let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], code);
        assert_eq!(said.lines().nth(1).map(|answer| answer.starts_with(&expected)), Some(true), "{least}\n{said}");
        let read = |name: &str| std::fs::read_to_string(dir.path().join("out").join(name)).expect("it was written");
        let json: Value = serde_json::from_str(&read("plan.json")).expect("JSON");
        assert!(json["short_answer"].as_str().is_some_and(|short| short.starts_with(&expected)), "{json}");
        let page = read("report.html");
        assert!(page.contains("1 of 20 jobs can never run with"), "the page has it");
        std::fs::remove_dir_all(dir.path().join("out")).expect("it was written");
    }
}

/// With one node, the job of two hours is ended at its limit after an hour.
fn jobs_that_fail_or_reach_a_limit_have_a_column() {
    let scenario = "\
scenario: A job that reaches its time limit, and one that fails
params: {workers: 1}
nodes: [{name: w, machine: l4-x1, count: \"${workers}\"}]
jobs:
  - {name: long, gpus: 1, duration: 2h, time_limit: 1h}
  - {name: bad, gpus: 1, duration: 10m, ends: failed}
";
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {workers: [1, 2]}\nminimize: gpus\n\
                constraints: [p95(queue_wait) <= 2h]\n";
    let dir = written(&[("base.yaml", scenario), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(
        said.contains(
            "workers=1 (1 x l4-x1) is the cheapest: 1 GPU. 50.00% of the jobs failed, and 50.00% of the jobs were"
        ),
        "{said}"
    );
    let header = said.lines().find(|line| line.starts_with("workers ")).expect("the table");
    assert!(header.contains("jobs failed  jobs expired") && !header.contains("lost"), "{said}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(page.contains(">jobs failed</th>") && page.contains(">jobs expired</th>"), "the page has the columns");
    assert!(page.contains("is the cheapest") && !page.contains("is enough"), "the page says the same");
    let growing = format!("{plan}horizon: {{months: 1, growth: 100%/month}}\n");
    let again = scenario.replace("ends: failed}", "ends: failed, arrivals: {every: 1h}}") + "until: 5h\n";
    std::fs::write(dir.path().join("plan.yaml"), growing).expect("a folder of our own");
    std::fs::write(dir.path().join("base.yaml"), again).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "growing"], 0);
    let until = "(1 GPU) meets the constraints, until the end of the horizon, month 1.";
    assert!(said.contains(until) && !said.contains("is enough"), "{said}");
    std::fs::write(dir.path().join("plan.yaml"), plan).expect("a folder of our own");
    let clean = scenario.replace(", ends: failed", "").replace("time_limit: 1h", "time_limit: 3h");
    std::fs::write(dir.path().join("base.yaml"), clean).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "again"], 0);
    assert!(said.contains("workers=1 (1 x l4-x1) is enough: 1 GPU.") && !said.contains("jobs failed"), "{said}");
}

/// The jobs have no `spot_policy`, so they ask for on-demand instances, as in dstack.
fn a_spot_fleet_that_no_job_may_use_is_named() {
    let scenario = "\
scenario: Jobs with a machine of their own and a fleet of spot instances
profile: dstack
until: 8h
currency: USD
params: {burst: 2}
fleets:
  own: {hosts: [{name: h, machine: l4-x1, price_per_hour: 0.5, disk: 200GiB}]}
  burst:
    nodes: \"0..${burst}\"
    offers: [{name: l4, machine: l4-x1, price_per_hour: 0.3, provisioning: 3m, spot: true}]
jobs: [{name: one, at: 10s, duration: 1h, resources: {gpu: 1}}]
expect: [jobs_completed == 1]
";
    let plan = "plan: Spot instances?\nscenario: base.yaml\nfactors: {burst: [1, 2]}\nminimize: cost_per_month\n\
                constraints: [p95(start_wait) <= 2h]\n";
    let said_of = |text: &str, command: &[&str]| {
        let dir = written(&[("base.yaml", text), ("plan.yaml", plan)]);
        (stderr(dir.path(), command, 0), stdout(dir.path(), command, 0))
    };
    let why = "no job can use the fleet `burst`, because jobs ask for the other kind of instances, spot or on demand";
    let (warned, said) = said_of(scenario, &["plan", "plan.yaml"]);
    assert!(warned.contains(why) && warned.contains("`spot_policy: auto`") && said.contains(why), "{warned}\n{said}");
    assert!(said_of(scenario, &["check", "base.yaml"]).0.contains(why));
    for mended in
        [scenario.replace("resources:", "spot_policy: auto, resources:"), scenario.replace("spot: true", "spot: false")]
    {
        let (warned, said) = said_of(&mended, &["plan", "plan.yaml"]);
        assert!(!warned.contains("no job can use") && !said.contains("no job can use"), "{warned}\n{said}");
    }
    let other = scenario.replace("resources: {gpu: 1}", "resources: {gpu: A100}, spot_policy: auto");
    let dir = written(&[("base.yaml", &other.replace("{name: h, machine: l4-x1", "{name: h, machine: a100-80g-x1"))]);
    let why = "no job can use the fleet `burst`, because its instances do not suit them (";
    assert!(stderr(dir.path(), &["check", "base.yaml"], 0).contains(why));
}
