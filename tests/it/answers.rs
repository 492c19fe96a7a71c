//! What the answer of a plan says, and what it must not say.

use crate::cli::{stderr, stdout, written};
use crate::plans::{PLAN, files, planned};

trials! {
    Nothing: [
        a_command_that_repeats_a_break_runs_although_the_scenario_expects_the_same,
        more_load_that_changes_nothing_is_said,
        more_requests_are_tried_on_a_service,
        the_price_of_a_fleet_that_scales_is_measured,
        rented_machines_are_shown_beside_own_ones,
        the_interval_of_a_percentile_is_the_range_of_its_seeds,
        a_mix_names_the_end_of_a_range_that_may_be_cheaper,
        a_fleet_that_no_job_can_use_is_named,
        a_removed_node_stays_away_and_lost_jobs_are_counted,
        a_factor_that_changes_nothing_is_named,
        a_search_that_goes_on_with_more_seeds_answers_as_a_fresh_one,
        a_budget_that_is_used_up_is_said,
        a_sweep_and_a_search_count_what_was_partly_run_alike,
    ]
}

/// One job an hour that takes an hour, and another one.
const HOURLY: &str = "\
scenario: Two jobs an hour, one node each
params: {workers: 2}
profile: fifo
nodes: [{name: worker, machine: l4-x1, count: \"${workers}\"}]
jobs: [{name: one, count: 2, gpus: 1, duration: 1h, arrivals: {every: 1h}, until: 15h}]
expect: [max(queue_wait) <= 0s]
";
const WORKERS: &str = "\
plan: How few workers?
scenario: base.yaml
factors: {workers: [1, 2, 3]}
minimize: nodes
constraints: [max(queue_wait) <= 0s]
";

fn a_command_that_repeats_a_break_runs_although_the_scenario_expects_the_same() {
    let two = HOURLY
        .replace("count: 2, ", "")
        .replace("until: 15h}]", "until: 15h}, {name: two, gpus: 1, duration: 1h, arrivals: {every: 1h}, until: 15h}]");
    let dir = written(&[("base.yaml", &two), ("plan.yaml", WORKERS)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(said.contains("Without worker-1 (one of 2 nodes with 1 l4), max(queue_wait) <= 0s fails"), "{said}");
    let json = std::fs::read_to_string(dir.path().join("out/plan.json")).expect("it was written");
    let plan: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let command = plan["breaks"][1]["command"].as_str().expect("a command");
    assert!(command.contains("load=110") && !command.contains("expect"), "{command}");
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let said = stdout(dir.path(), &words, 1);
    assert!(said.contains("FAIL  max(queue_wait) <= 0s"), "{said}");
}

fn more_load_that_changes_nothing_is_said() {
    let stated = HOURLY.replace("arrivals: {every: 1h}, until: 15h", "at: 0s");
    let dir = written(&[("base.yaml", &stated), ("plan.yaml", WORKERS)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    let sentence = "With 10% more load, nothing changes, because `load` leaves jobs with stated times as they are. It was not run.";
    assert!(said.contains("workers=2 (2 x l4-x1, 2 GPUs) is enough") && said.contains(sentence), "{said}");
}

fn more_requests_are_tried_on_a_service() {
    let service = "\
scenario: A service
params: {workers: 1}
nodes: [{name: worker, machine: a100-80g-x1, count: \"${workers}\"}]
jobs:
  - name: chat
    gpus: 1
    replicas: \"${workers}\"
    serving:
      prefill: 10000 tokens/s
      step: {base: 10ms, per_sequence: 300us}
      batching: chunked
      kv_cache_tokens: 100000
      max_sequences: 64
      max_batched_tokens: 2048
      requests: {rps: 2, for: 2m, input_tokens: 500, output_tokens: 100}
expect: [requests_unserved == 0]
";
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {workers: [1, 2]}\nminimize: gpus\n\
                constraints: [p99(ttft) <= 10s]\n";
    let dir = written(&[("base.yaml", service), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(said.contains("With 10% more load, it still meets everything"), "{said}");
}

/// One job of an hour runs on an instance that is created for it.
const BURST: &str = "\
scenario: A job on an instance
profile: easy
until: 4h
currency: USD
params: {most: 1}
fleets:
  burst:
    nodes: \"0..${most}\"
    offers: [{name: l4, machine: l4-x1, price_per_hour: 0.80, provisioning: 3m}]
jobs: [{name: one, duration: 1h, resources: {gpu: 1}}]
expect: [jobs_completed == 1]
";

fn the_price_of_a_fleet_that_scales_is_measured() {
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {most: [1, 2]}\nminimize: price_per_hour\n\
                constraints: [jobs_completed == 1, max(start_wait) <= 10m]\n";
    let dir = written(&[("base.yaml", BURST), ("plan.yaml", plan)]);
    let said = stderr(dir.path(), &["plan", "plan.yaml"], 2);
    assert!(said.contains("`price_per_hour` leaves out the instances of the fleet `burst`"), "{said}");
    assert!(said.contains("plan.yaml:4:11") && said.contains("minimize `cost_per_month`"), "{said}");
    let measured = plan.replace("price_per_hour", "cost_per_month");
    std::fs::write(dir.path().join("plan.yaml"), measured).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(said.contains("USD a month") && !said.contains("price/h") && !said.contains(" 0.00 USD"), "{said}");
}

/// Three jobs come at once, and two more when the instances of the first are gone: five instances, at most three at a time.
/// The node of its own stands idle, because jobs with `resources` run on fleets only.
fn rented_machines_are_shown_beside_own_ones() {
    let five = BURST
        .replace("jobs: [{name: one,", "nodes: [{name: own, machine: l4-x1}]\njobs: [{name: two, at: 3h, count: 2, duration: 1h, resources: {gpu: 1}}, {name: one, count: 3,")
        .replace("nodes: \"0..${most}\"", "nodes: \"0..${most}\"\n    idle_duration: 10m")
        .replace("until: 4h", "until: 6h\nunplaced: ignore")
        .replace("jobs_completed == 1", "jobs_completed == 5");
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {most: [2, 8]}\nminimize: gpus\n\
                constraints: [jobs_completed == 5, max(start_wait) <= 10m]\n";
    let dir = written(&[("base.yaml", &five), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(said.contains(" (1 x l4-x1, up to 3 x l4-x1 rented at a time) is enough: "), "{said}");
    assert!(said.contains("own GPUs") && said.contains("3 with 3 GPUs"), "{said}");
    let file = |name: &str| std::fs::read_to_string(dir.path().join("out").join(name)).expect("it was written");
    let json: serde_json::Value = serde_json::from_str(&file("plan.json")).expect("JSON");
    let (rented, metrics) = (&json["alternatives"][1]["rented"], &json["alternatives"][1]["metrics"]);
    assert_eq!((&rented["most_at_once"], &rented["gpus"]), (&3.into(), &3.into()), "{json}");
    assert_eq!(metrics["instances_made"]["mean"], 5.0, "{json}");
    assert!(
        file("report.html").contains("<b>3 with 3 GPUs</b><span>rented at a time at most, "),
        "on the first screen"
    );
    // The instances that exist when the warm-up ends count, those that are gone do not.
    for (warm_up, made) in [("30m", "5, at most 3 at a time"), ("2h", "2, at most 2 at a time")] {
        let run = stdout(
            dir.path(),
            &["run", "base.yaml", "--set", "params.most=8", "--set", &format!("warm_up={warm_up}")],
            1,
        );
        assert!(run.contains(&format!("instances  {made}, ")), "{warm_up}: {run}");
    }
}

/// Jobs of random lengths on few machines: waits differ by orders of magnitude from seed to seed.
const RANDOM: &str = "\
scenario: Jobs of random lengths
params: {workers: 2}
until: 12h
nodes: [{name: w, machine: l4-x1, count: \"${workers}\", price_per_hour: 2}]
jobs: [{name: one, gpus: 1, duration: {exponential: 1h}, arrivals: {poisson: 1.2/h}}]
";

fn the_interval_of_a_percentile_is_the_range_of_its_seeds() {
    let plan = "plan: How many?\nscenario: base.yaml\nfactors: {workers: [2, 3]}\nseeds: 1..5\nminimize: gpus\n\
                constraints: [p95(queue_wait) <= 24h]\n";
    let dir = written(&[("base.yaml", RANDOM), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(said.contains("in parentheses, for a percentile or a maximum, the range of the seeds;"), "{said}");
    let file = |name: &str| std::fs::read_to_string(dir.path().join("out").join(name)).expect("it was written");
    let of_seeds = |metric: &str| -> Vec<f64> {
        let runs = file("runs.jsonl");
        let runs = runs.lines().skip(1).map(|run| serde_json::from_str::<serde_json::Value>(run).expect("JSON"));
        runs.filter(|run| run["cell"] == 0).map(|run| run["metrics"][metric].as_f64().expect("a number")).collect()
    };
    let json: serde_json::Value = serde_json::from_str(&file("plan.json")).expect("JSON");
    let csv = file("alternatives.csv");
    let cells = |line: usize| csv.lines().nth(line).expect("a row").split(',').map(str::to_string).collect::<Vec<_>>();
    let in_csv = |name: &str| {
        let at = cells(0).iter().position(|column| column == name).expect("a column");
        cells(1)[at].parse::<f64>().expect("a number")
    };
    for metric in ["queue_wait_p95_seconds", "queue_wait_max_seconds", "bounded_slowdown_p95"] {
        let values = of_seeds(metric);
        let ends = [values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(0.0, f64::max)];
        assert!(ends[0] < ends[1] && values.len() == 5, "{metric}: {values:?}");
        let found = &json["alternatives"][0]["metrics"][metric];
        assert_eq!([found["low"].as_f64(), found["high"].as_f64()], ends.map(Some), "{metric}");
        let stated = ["low", "high"].map(|end| Some(in_csv(&format!("{metric}_{end}"))));
        assert_eq!(stated, ends.map(Some), "{metric}");
    }
    assert!(in_csv("bounded_slowdown_mean_low") >= 1.0, "no slowdown is less than 1");
}

/// Four GPUs are needed. `a` has one for 3, and at most 2 of `h` have one each for 1.
fn a_mix_names_the_end_of_a_range_that_may_be_cheaper() {
    let scenario = "\
scenario: Four jobs at once
params: {a: 1, h: 1}
profile: fifo
nodes:
  - {name: a, machine: l4-x1, count: \"${a}\", price_per_hour: 3}
  - {name: h, machine: l4-x1, count: \"${h}\", price_per_hour: 1}
jobs: [{name: one, count: 4, gpus: 1, duration: 1h}]
expect: [jobs_completed == 4]
";
    let plan = "plan: Which?\nscenario: base.yaml\nfactors: {a: 0..4, h: [0, 1, 2]}\nminimize: price_per_hour\n\
                constraints: [max(queue_wait) <= 0s]\n";
    for method in ["sweep", "search"] {
        let dir = written(&[("base.yaml", scenario), ("plan.yaml", &format!("{plan}method: {method}\n"))]);
        let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
        assert!(said.contains("a=2, h=2 (4 x l4-x1, 4 GPUs) is enough: 8.00 an hour"), "{said}");
        assert!(said.contains("a=0, h=2 is the largest `h` tried alone and "), "{said}");
        assert!(!said.contains("largest `a`"), "four of `a` are enough: {said}");
    }
}

/// With two seeds, the search runs other alternatives than with six.
fn a_search_that_goes_on_with_more_seeds_answers_as_a_fresh_one() {
    let dir = planned(&format!("{PLAN}method: search\n"));
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "two", "--seeds", "1..2"], 0);
    let few = files(&dir.path().join("two"));
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "two", "--seeds", "1..6", "--resume"], 0);
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "six", "--seeds", "1..6"], 0);
    let (resumed, fresh) = (files(&dir.path().join("two")), files(&dir.path().join("six")));
    for ((name, resumed), (_, fresh)) in resumed.iter().zip(&fresh).filter(|((name, _), _)| name != "runs.jsonl") {
        assert_eq!(String::from_utf8_lossy(resumed), String::from_utf8_lossy(fresh), "{name}");
    }
    let lines = |files: &[(String, Vec<u8>)]| -> Vec<String> {
        let (_, runs) = files.iter().find(|(name, _)| name == "runs.jsonl").expect("it was written");
        String::from_utf8_lossy(runs).lines().map(str::to_string).collect()
    };
    assert!(lines(&few).iter().all(|run| lines(&resumed).contains(run)), "no finished run is lost");
    assert!(lines(&resumed).len() > lines(&fresh).len(), "some of which the fresh search has no use");
}

/// Two nodes are enough. The search runs five of nine first, and then three; the sweep begins with one.
fn a_budget_that_is_used_up_is_said() {
    let of = |workers: &str, end: &str| {
        let plan = WORKERS.replace("[1, 2, 3]", workers) + end;
        let at_once = HOURLY.replace("arrivals: {every: 1h}, until: 15h", "at: 0s");
        written(&[("base.yaml", &at_once), ("plan.yaml", &plan)])
    };
    let dir = of("1..9", "method: search\nbudget: {runs: 1}\n");
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    let tile = "<b>workers=5</b>is the cheapest that was run, and has these figures; a cheaper one may be enough";
    assert!(page.replace("<span>", "").contains(tile), "the figures of the page say whose they are");
    assert!(
        said.contains("\nworkers=5 may not be the cheapest: without worker-")
            && said.contains(
                "it still meets everything with 1 seed, and the budget ended before all cheaper alternatives were run. Of \
                 those that were run, workers=5 (5 "
            ),
        "{said}"
    );
    let dir = of("1..9", "budget: {runs: 1}\n");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
    assert!(
        said.contains(
            "The one alternative that was run does not meet the constraint. max(queue_wait) <= 0s fails. The budget is used \
             up: the result for 8 other alternatives is unknown."
        ),
        "{said}"
    );
    let dir = of("2..9", "budget: {runs: 1}\n");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(said.contains("1 of 8 alternatives was run, because the budget is used up."), "{said}");
}

/// One alternative was run with some of four seeds, too few to decide about a part of them.
fn a_sweep_and_a_search_count_what_was_partly_run_alike() {
    let said = |end: &str| {
        let plan = PLAN.replace("1..12", "11..12").replace("minimize", "budget: {runs: 1}\nminimize") + end;
        let dir = planned(&plan);
        let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
        said.lines().nth(1).expect("the answer").to_string()
    };
    let (sweep, search) = (said(""), said("method: search\n"));
    let wanted = "because none was run with enough seeds. The budget is used up: the result for 4 alternatives is unknown. 0 of \
                  4 alternatives were run, and 1 with too few seeds.";
    assert!(sweep.contains(wanted), "{sweep}");
    assert!(search.contains(wanted), "{search}");
}

/// The jobs of a list run on `nodes:` only, so the fleet is of no use. Two jobs at once need two machines.
fn a_factor_that_changes_nothing_is_named() {
    let scenario = BURST.replace("most: 1", "most: 1, own: 1").replace(
        "jobs: [{name: one, duration: 1h, resources: {gpu: 1}}]",
        "nodes: [{name: n, machine: l4-x1, count: \"${own}\", price_per_hour: 2}]\ntrace: {format: csv, file: t.csv}",
    );
    let plan = "plan: Which?\nscenario: base.yaml\nfactors: {own: [0, 1, 2], most: [0, 4]}\nminimize: cost\n\
                constraints: [max(start_wait) <= 0s]\n";
    let list = "job,submit_s,duration_s,gpus,cpu_milli\n1,0,3600,1,2000\n2,0,3600,1,2000\n";
    let dir = written(&[("base.yaml", &scenario), ("plan.yaml", plan), ("t.csv", list)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let sentence = "`most` changed nothing: every run is the same with each of its values.";
    assert!(said.contains("own=2, most=0 (2 x l4-x1, 2 GPUs) is enough") && said.contains(sentence), "{said}");
    assert!(!said.contains("larger values were not tried"), "{said}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    assert!(page.contains("changed nothing: every run is the same"), "on the page too");
    // Jobs of eight GPUs never run, so the runs show nothing of a factor.
    let never = list.replace(",3600,1,", ",3600,8,");
    let dir = written(&[("base.yaml", &scenario), ("plan.yaml", plan), ("t.csv", &never)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
    assert!(said.contains("can never run") && !said.contains("changed nothing"), "{said}");
}

/// Without its only node, no job runs: the node does not come back because one of its random failures would be repaired. With
/// the node, most jobs of a day are lost, because it fails every twelve hours.
fn a_removed_node_stays_away_and_lost_jobs_are_counted() {
    let scenario = "\
scenario: Jobs of a day on nodes that fail every twelve hours
profile: dstack
params: {n: 1}
until: 30d
unplaced: ignore
fleets: {own: {hosts: [{name: a, machine: l4-x1, count: \"${n}\", disk: 200GiB}]}}
failures: [{nodes: a-*, time_to_failure: {exponential: 12h}, repair: 2h}]
jobs: [{name: train, resources: {gpu: 1}, duration: 1d, arrivals: {every: 1d}}]
";
    let plan = "plan: How many are enough?\nscenario: base.yaml\nfactors: {n: 1..2}\nseeds: 1..2\nminimize: gpus\n\
                constraints: [p95(queue_wait) <= 1h]\n";
    let dir = written(&[("base.yaml", scenario), ("plan.yaml", plan)]);
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let missing = "Without a-0 (the only node with 1 l4), p95(queue_wait) <= 1h fails with 2 of 2 seeds";
    assert!(said.contains(missing), "{said}");
    let part = |name: &str| -> f64 {
        let csv = std::fs::read_to_string(dir.path().join("out/alternatives.csv")).expect("it was written");
        let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        let at = rows[0].iter().position(|column| *column == name).expect("a column");
        rows[1][at].parse().expect("a number")
    };
    let never = (1.0 - part("placed")) * 100.0;
    let [lost, failed] = ["jobs_lost", "jobs_failed"].map(|jobs| part(jobs) / part("jobs_submitted") * 100.0);
    assert!(lost > 10.0 && failed > 1.0, "{lost} {failed}");
    let undone = format!(
        " {never:.2}% of the replicas were never placed, and {lost:.2}% of the jobs were lost with a node or \
         GPU, and {failed:.2}% of the jobs failed (means over the seeds). "
    );
    assert!(said.contains(&undone), "{undone} in {said}");
}

fn a_fleet_that_no_job_can_use_is_named() {
    let jobs = "jobs: [{name: one, duration: 1h, resources: {gpu: 1}}]";
    let own = "nodes: [{name: n, machine: l4-x1}]";
    let list = "job,submit_s,duration_s,gpus\n1,0,60,1\n";
    let of_trace = BURST.replace(jobs, &format!("{own}\ntrace: {{format: csv, file: t.csv}}"));
    let of_jobs = BURST.replace(jobs, &format!("{own}\njobs: [{{name: one, duration: 1h, gpus: 1}}]"));
    for (text, help) in [(of_trace, "write `run_on: instances` in `trace:`"), (of_jobs, "write `resources: {gpu: 8}`")]
    {
        let dir = written(&[("base.yaml", &text), ("t.csv", list)]);
        let said = stderr(dir.path(), &["check", "base.yaml"], 0);
        assert!(said.contains("no job can use the fleet `burst`, because none has `resources`"), "{said}");
        assert!(said.contains(help), "{said}");
    }
    let dir = written(&[("base.yaml", BURST)]);
    assert!(!stderr(dir.path(), &["check", "base.yaml"], 0).contains("no job can use"));
}
