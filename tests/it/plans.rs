//! `dryrack plan` as it is typed: sweeps that are killed, resumed and split into parts, searches compared with the
//! whole grid, and the diagnostics of a wrong plan.

use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::assert::OutputAssertExt;
use tempfile::TempDir;

use crate::cli::{dryrack, empty, stderr, stdout};

trials! {
    Nothing: [
        a_sweep_is_the_same_however_it_was_run,
        a_sweep_goes_on_from_wherever_it_was_cut,
        a_search_finds_what_the_whole_grid_has,
        a_search_says_what_it_proved,
        an_answer_says_how_it_would_break,
        a_plan_sets_the_scenario_of_every_alternative,
        what_helps_most_is_what_a_run_with_it_saves,
        what_can_never_run_saves_no_hours,
        waits_after_a_loss_are_saved_too,
        an_answer_stays_if_a_change_cannot_be_run,
        the_alternatives_are_shown_with_the_cheapest_that_will_do_first,
        a_plan_of_picked_nodes_runs_and_its_hash_depends_on_the_pick,
        a_plan_that_is_wrong_is_told_where,
        all_values_that_are_wrong_are_told,
        a_fleet_without_prices_has_no_cheapest,
        what_runs_show_is_made_small,
        a_mix_may_do_without_a_machine,
        what_was_run_under_another_profile_is_not_gone_on_with,
        runs_that_the_plan_does_not_have_are_refused,
        a_budget_of_time_ends_a_plan_that_goes_on_later,
        twelve_kills_change_nothing,
    ]
    Time: [
        slow_fifty_kills_change_nothing,
        slow_searches_find_what_the_whole_grid_has_in_twenty_plans,
    ]
}

const SCENARIO: &str = "\
scenario: A morning on a small fleet
params: {workers: 4, load: 20/h, first: 4}
until: 4h
nodes:
  - {name: old, machine: a100-80g-x8, count: \"${first}\", price_per_hour: 9}
  - {name: worker, machine: a100-80g-x8, count: \"${workers}\", price_per_hour: 12}
jobs:
  - {name: train, gpus: 4, duration: {exponential: 1h}, arrivals: {poisson: \"${load}\"}}
  - {name: small, gpus: 1, duration: {exponential: 30m}, arrivals: {poisson: \"${load}\"}}
expect:
  - jobs_submitted >= 1
";

pub const PLAN: &str = "\
plan: How few workers keep the waiting short?
scenario: base.yaml
factors:
  workers: 1..12
  profile: [fifo, first-fit]
seeds: 1..4
minimize: gpus
constraints:
  - p95(queue_wait) <= 20m
  - {metric: gpu_allocated >= 10%, in: \">= 50%\"}
";

pub fn planned(plan: &str) -> TempDir {
    let dir = empty();
    for (name, text) in [("base.yaml", SCENARIO), ("plan.yaml", plan)] {
        std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    }
    dir
}

/// All files of a folder, by name.
pub fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = std::fs::read_dir(dir)
        .expect("it was made")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("a file")))
        .collect();
    found.sort();
    found
}

/// The output of a sweep does not depend on the number of threads, on how often it was killed, or on how it was split.
fn a_sweep_is_the_same_however_it_was_run() {
    let dir = planned(PLAN);
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "whole"], 0);
    let whole = files(&dir.path().join("whole"));
    let names: Vec<&str> = whole.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["alternatives.csv", "plan.json", "report.html", "runs.jsonl"]);
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "one", "--threads", "1"], 0);
    assert_eq!(whole, files(&dir.path().join("one")));
    // Existing runs are not overwritten, but can be resumed.
    let said = stderr(dir.path(), &["plan", "plan.yaml", "--out", "one"], 2);
    assert!(said.contains("one/runs.jsonl: already exists; continue with --resume"), "{said}");
    let parts = ["0/3", "1/3", "2/3"].map(|shard| (shard, format!("part-{}", &shard[..1])));
    for (shard, out) in &parts {
        let _ended = dryrack(dir.path(), &["plan", "plan.yaml", "--out", out, "--shard", shard]).assert();
    }
    let merge = ["plan", "merge", "plan.yaml", "part-2", "part-0", "part-1", "--out", "merged"];
    stdout(dir.path(), &merge, 0);
    assert_eq!(whole, files(&dir.path().join("merged")));
    let said = stderr(dir.path(), &["plan", "merge", "plan.yaml", "part-2", "part-0", "--out", "lacking"], 2);
    assert!(
        said.contains("32 runs are missing in all parts; the first is workers=1, profile=fifo with seed 2"),
        "{said}"
    );
}

/// A journal that is cut off at any byte, as by a kill while a line is written, can be resumed with the same result.
fn a_sweep_goes_on_from_wherever_it_was_cut() {
    let dir = planned(PLAN);
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "whole"], 0);
    let whole = files(&dir.path().join("whole"));
    let (_, journal) = whole.iter().find(|(name, _)| name.ends_with("runs.jsonl")).expect("it was written");
    for cut in [0, 1, 57, journal.len() / 3, journal.len() / 2, journal.len() - 1, journal.len()] {
        let out = format!("cut-{cut}");
        std::fs::create_dir(dir.path().join(&out)).expect("a folder of our own");
        std::fs::write(dir.path().join(&out).join("runs.jsonl"), &journal[..cut]).expect("a folder of our own");
        stdout(dir.path(), &["plan", "plan.yaml", "--out", &out, "--resume"], 0);
        assert_eq!(whole, files(&dir.path().join(&out)), "cut at {cut}");
    }
    // A wrong line before the end, or a line of another plan, is not the result of a cut. Both are errors.
    let broken = String::from_utf8_lossy(journal).replacen("\"cell\":1,", "\"cell\":x,", 1);
    std::fs::write(dir.path().join("cut-0/runs.jsonl"), broken).expect("a folder of our own");
    let said = stderr(dir.path(), &["plan", "plan.yaml", "--out", "cut-0", "--resume"], 2);
    assert!(said.contains("cut-0/runs.jsonl:6: not a run of a plan: "), "{said}");
    std::fs::write(dir.path().join("plan.yaml"), PLAN.replace("20m", "21m")).expect("a folder of our own");
    let said = stderr(dir.path(), &["plan", "plan.yaml", "--out", "cut-1", "--resume"], 2);
    assert!(said.contains("contains runs of another plan"), "{said}");
}

/// Two nodes of one GPU, and two jobs of an hour at each hour for 15 hours: nobody waits. At a load of 110 %, the tenth
/// job of each entry is submitted again at 9h30m. Both nodes are then taken until 10h, so the copies delay each later
/// job by an hour.
fn an_answer_says_how_it_would_break() {
    let scenario = "\
scenario: Two jobs an hour, one node each
params: {workers: 2}
profile: fifo
nodes:
  - {name: worker, machine: l4-x1, count: \"${workers}\"}
jobs:
  - {name: one, gpus: 1, duration: 1h, arrivals: {every: 1h}, until: 15h}
  - {name: two, gpus: 1, duration: 1h, arrivals: {every: 1h}, until: 15h}
";
    let plan = "\
plan: How few workers?
scenario: base.yaml
factors: {workers: [1, 2, 3]}
seeds: 1..3
minimize: nodes
constraints: [max(queue_wait) <= 0s]
";
    let dir = empty();
    std::fs::write(dir.path().join("base.yaml"), scenario).expect("a folder of our own");
    std::fs::write(dir.path().join("plan.yaml"), plan).expect("a folder of our own");
    let text = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(text.contains("workers=2 (2 x l4-x1, 2 GPUs) is enough"), "{text}");
    // The exit code tells whether an earlier answer still holds: two jobs an hour need two workers, three need three.
    dryrack(dir.path(), &["plan", "plan.yaml", "--against", "out/plan.json"]).assert().code(0).stderr("");
    // A search does not run all alternatives, and says so, but its answer is the same.
    std::fs::write(dir.path().join("search.yaml"), format!("{plan}method: search\n")).expect("a folder of our own");
    dryrack(dir.path(), &["plan", "search.yaml", "--against", "out/plan.json"]).assert().code(0).stderr("");
    let more = format!("{scenario}  - {{name: three, gpus: 1, duration: 1h, arrivals: {{every: 1h}}, until: 15h}}\n");
    std::fs::write(dir.path().join("base.yaml"), more).expect("a folder of our own");
    let said = stderr(dir.path(), &["plan", "plan.yaml", "--against", "out/plan.json"], 1);
    assert!(
        said.starts_with("the answer has changed\n  was  workers=2 (2 x l4-x1, 2 GPUs) is enough")
            && said.contains("now  workers=3"),
        "{said}"
    );
    std::fs::write(dir.path().join("base.yaml"), scenario).expect("a folder of our own");
    assert!(text.contains("Without worker-1 (one of 2 nodes with 1 l4), max(queue_wait) <= 0s fails: "), "{text}");
    assert!(text.contains("With 10% more load, max(queue_wait) <= 0s fails: max(queue_wait) was 1h over 32"), "{text}");
    assert!(!text.contains("of all seeds") && !text.contains('±'), "nothing is random: {text}");
    // The command in the result repeats the run.
    let plan: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("out/plan.json")).expect("it was written"))
            .expect("JSON");
    let command = plan["breaks"][1]["command"].as_str().expect("a command");
    let words = command.replace("'expect.+=max(queue_wait) <= 0s'", "MORE");
    let words: Vec<&str> = words.split_whitespace().skip(1).collect();
    let words: Vec<&str> =
        words.iter().map(|word| if *word == "MORE" { "expect.+=max(queue_wait) <= 0s" } else { word }).collect();
    let text = stdout(dir.path(), &words, 1);
    assert!(text.contains("32 = 32 completed") && text.contains("at most 1h"), "{text}");
    assert!(text.contains("FAIL  max(queue_wait) <= 0s"), "the run also judges the constraint: {text}");
}

/// A plan changes the scenario in every alternative by `set:`, and for once by `--set`; seeds of the command line replace
/// those of the file.
fn a_plan_sets_the_scenario_of_every_alternative() {
    let dir = empty();
    let scenario = "\
scenario: Jobs for a few workers
params: {workers: 1, jobs: 1}
profile: fifo
nodes: [{name: worker, count: \"${workers}\", machine: l4-x1}]
jobs: [{name: job, count: \"${jobs}\", gpus: 1, duration: 1h}]
";
    let plan = "\
plan: How few workers?
scenario: base.yaml
set: {params.jobs: 2, nodes.0.labels: {kind: a}}
factors: {workers: 1..4}
minimize: nodes
constraints: [max(queue_wait) <= 0s]
";
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    write("base.yaml", scenario);
    write("plan.yaml", plan);
    let text = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(text.contains("workers=2 (2 x l4-x1, 2 GPUs) is enough"), "{text}");
    let text = stdout(dir.path(), &["plan", "plan.yaml", "--set", "params.jobs=3", "--seeds", "4..5"], 0);
    assert!(text.contains("workers=2 (2 x l4-x1, 2 GPUs) is enough"), "the file is set last: {text}");
    assert!(text.contains("with 2 seeds, which all give the same run"), "{text}");
    write("plan.yaml", &plan.replace("set: {params.jobs: 2, ", "set: {"));
    let text = stdout(dir.path(), &["plan", "plan.yaml", "--set", "params.jobs=3", "--out", "three"], 0);
    assert!(text.contains("workers=3 (3 x l4-x1, 3 GPUs) is enough"), "{text}");
    // More seeds continue from what was run; another scenario does not.
    let more = ["plan", "plan.yaml", "--set", "params.jobs=3", "--out", "three", "--resume", "--seeds", "1..3"];
    assert!(stdout(dir.path(), &more, 0).contains("with 3 seeds"), "more seeds");
    let said = stderr(dir.path(), &["plan", "plan.yaml", "--set", "params.jobs=2", "--out", "three", "--resume"], 2);
    assert!(said.contains("three/runs.jsonl"), "{said}");
    let said = stderr(dir.path(), &["plan", "plan.yaml", "--set", "params.job=3"], 2);
    assert!(said.contains("command line:1:"), "a mistake in --set is shown there: {said}");
    write("plan.yaml", &plan.replace("params.jobs: 2", "params.job: 2"));
    let said = stderr(dir.path(), &["plan", "plan.yaml"], 2);
    assert!(said.contains("plan.yaml:3:"), "a mistake in `set` is shown there: {said}");
    let said = stderr(dir.path(), &["plan", "base.yaml"], 2);
    assert!(said.starts_with("error: this is a scenario, not a plan") && said.matches("error").count() == 1, "{said}");
}

/// One node of one GPU and many cores, and three jobs of an hour that arrive together: they wait 0, 1 and 2 hours. With
/// one more node, or one more GPU in the node, they wait 0, 0 and 1 hours, which saves 2 of 3. More cores save nothing.
fn what_helps_most_is_what_a_run_with_it_saves() {
    let dir = empty();
    let scenario = "\
scenario: Three jobs for one GPU
profile: fifo
nodes: [{name: worker, machine: l4-x1}]
jobs: [{name: job, count: 3, gpus: 1, duration: 1h, estimate: 1h}]
";
    std::fs::write(dir.path().join("three.yaml"), scenario).expect("a folder of our own");
    let text = stdout(dir.path(), &["what-helps", "three.yaml", "--out", "out"], 0);
    assert!(text.contains("All replicas together wait 3.0 h with 1 seed."), "{text}");
    assert!(text.contains("Most would be saved by one more node like worker (1 l4): 2.0 h, or 67%."), "{text}");
    let found: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("out/what-helps.json")).expect("it was written"))
            .expect("JSON");
    let saved = |what: &str| {
        let changes = found["changes"].as_array().expect("a list").iter();
        let change =
            changes.clone().find(|change| change["change"].as_str().is_some_and(|text| text.starts_with(what)));
        change.and_then(|change| change["hours_saved"].as_f64()).unwrap_or_else(|| panic!("{what}: {text}"))
    };
    for (what, hours) in [("one more GPU", 2.0), ("twice the cores", 0.0), ("the profile easy", 0.0)] {
        assert!((saved(what) - hours).abs() < 1e-9, "{what}: {}", saved(what));
    }
    // The reason on which the waiting hours hang is one whose removal ends the wait: GPUs, and not cores. Nor is it the order
    // of the queue: the third job would not fit without the second.
    let text = stdout(dir.path(), &["run", "three.yaml"], 0);
    assert!(text.contains("because    100% insufficient_gpus\n"), "{text}");
    // The command in the result repeats the run: the third job waits an hour.
    let command = found["changes"][0]["command"].as_str().expect("a command");
    assert_eq!(command, "dryrack run three.yaml --seed 1 --set 'nodes.+={name: worker-more, machine: l4-x1}'");
    let run = ["run", "three.yaml", "--seed", "1", "--set", "nodes.+={name: worker-more, machine: l4-x1}"];
    let text = stdout(dir.path(), &run, 0);
    assert!(text.contains("at most 1h00m"), "{text}");
}

/// Ten jobs of an hour take the whole node: they wait 0 to 9 hours, 45 together. On two nodes they wait 0, 0, 1, 1 to 4,
/// 4, 20 together. A job of 64 GPUs fits on no node. Its hours until the end of the run, 10 or 5, do not count.
fn what_can_never_run_saves_no_hours() {
    let dir = empty();
    let scenario = "\
scenario: Ten jobs for one node, and one that fits nowhere
profile: fifo
params: {gpus: 4}
nodes: [{name: worker, machine: a100-80g-x8}]
jobs:
  - {name: job, count: 10, gpus: \"${gpus}\", duration: 1h, estimate: 1h}
  - {name: huge, gpus: 64, duration: 1h, estimate: 1h}
";
    std::fs::write(dir.path().join("ten.yaml"), scenario).expect("a folder of our own");
    let line = ["what-helps", "ten.yaml", "--set", "params.gpus=8", "--seeds", "1..2", "--out", "out"];
    let text = stdout(dir.path(), &line, 0);
    assert!(
        text.contains(
            "wait 45.0 h with each of 2 seeds, because nothing is random. 1 replica can never run, and is not counted."
        ),
        "{text}"
    );
    assert!(text.contains("saved by one more node like worker (8 a100-80g): 25.0 h, or 56%."), "{text}");
    assert!(text.contains("never run") && text.contains("\nunchanged  "), "{text}");
    // The flags of each change keep those of the user, and so does the command that repeats all.
    assert!(text.contains("--set params.gpus=8 --set 'nodes.+="), "{text}");
    let html = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
    let command = "dryrack what-helps ten.yaml --set params.gpus=8 --seeds 1..2 --out DIR";
    let html = html.replace("<span class=\"flag\">", "").replace("</span>", "");
    assert!(html.contains(command), "{html}");
}

/// Both nodes are full until 30h. At 1h, one of them is lost for good, so its job waits again until the other is free.
fn waits_after_a_loss_are_saved_too() {
    let dir = empty();
    let scenario = "\
scenario: A lost job waits
profile: fifo
nodes: [{name: n, count: 2, cpus: 8}]
jobs: [{name: lost, cpus: 8, duration: 2h}, {name: long, cpus: 8, duration: 30h}]
faults: [{at: 1h, node: n-0, becomes: gone}]
";
    std::fs::write(dir.path().join("lost.yaml"), scenario).expect("a folder of our own");
    let text = stdout(dir.path(), &["run", "lost.yaml"], 0);
    assert!(text.contains("again      1d05h in all, after preemptions or losses\n"), "{text}");
    let text = stdout(dir.path(), &["what-helps", "lost.yaml"], 0);
    assert!(text.contains("All replicas together wait 29.0 h with 1 seed."), "{text}");
    assert!(text.contains("one more node like n (8 cores and no GPU): 29.0 h, or 100%"), "{text}");
}

/// An answer stays if a change of it cannot be run, and a node whose name needs quotes can be lost.
fn an_answer_stays_if_a_change_cannot_be_run() {
    let dir = empty();
    let scenario = "\
scenario: Two nodes with odd names
params: {gpus: 1}
profile: fifo
load: 100000%
nodes:
  - {name: \"#1\", machine: l4-x1}
  - {name: \"#2\", machine: l4-x1}
jobs: [{name: one, gpus: \"${gpus}\", duration: 1m, arrivals: {every: 100h}, until: 200h}]
";
    let plan = "\
plan: Does it do?
scenario: base.yaml
factors: {gpus: [1, 2]}
minimize: nodes
constraints: [max(queue_wait) <= 100h]
";
    std::fs::write(dir.path().join("base.yaml"), scenario).expect("a folder of our own");
    std::fs::write(dir.path().join("plan.yaml"), plan).expect("a folder of our own");
    let text = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    assert!(text.contains("Without #2 (one of 2 nodes with 1 l4), "), "{text}");
    assert!(!text.contains("Without #2 (one of 2 nodes with 1 l4), it could not be run"), "{text}");
    assert!(text.contains("With 10% more load, it could not be run: "), "{text}");
}

/// The sweep gives the same result even if it is killed fifty times.
fn twelve_kills_change_nothing() {
    kills_change_nothing(12, &PLAN.replace("1..12", "1..20").replace("seeds: 1..4", "seeds: 1..12"));
}

fn slow_fifty_kills_change_nothing() {
    kills_change_nothing(50, &PLAN.replace("1..12", "1..40").replace("seeds: 1..4", "seeds: 1..25"));
}

/// Kills a sweep so often, each time later, and goes on with it.
fn kills_change_nothing(kills: u64, plan: &str) {
    let dir = planned(plan);
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "whole"], 0);
    let length = std::fs::metadata(dir.path().join("whole/runs.jsonl")).expect("it was written").len();
    let journal = dir.path().join("killed/runs.jsonl");
    for kill in 1..=kills {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dryrack"))
            .args(["plan", "plan.yaml", "--out", "killed", "--resume"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        // Each kill comes during the sweep, and later than the previous one.
        let far_enough = length * kill / (kills + 2);
        let come = || std::fs::metadata(&journal).map_or(0, |found| found.len());
        while come() < far_enough {
            assert!(child.try_wait().expect("it can be asked").is_none(), "ended before the kill {kill}");
            std::thread::yield_now();
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "killed", "--resume"], 0);
    assert_eq!(files(&dir.path().join("whole")), files(&dir.path().join("killed")));
}

fn a_search_finds_what_the_whole_grid_has() {
    searches_find_what_the_whole_grid_has(10);
}

fn slow_searches_find_what_the_whole_grid_has_in_twenty_plans() {
    searches_find_what_the_whole_grid_has(20);
}

/// Over so many plans, a search finds the same cheapest alternative as the whole grid, and runs at most a quarter of it.
fn searches_find_what_the_whole_grid_has(plans: usize) {
    let mut shares = Vec::new();
    for (index, (factors, minimize, wait, load)) in [
        ("workers: 1..60, profile: [fifo, first-fit]", "gpus", "20m", "20/h"),
        ("workers: 1..80", "gpus", "5m", "30/h"),
        ("workers: 1..80", "nodes", "1h", "10/h"),
        ("workers: 1..12, first: 1..12", "price_per_hour", "10m", "20/h"),
        ("workers: 1..12, first: 1..12", "price_per_hour", "40m", "40/h"),
    ]
    .iter()
    .cycle()
    .take(plans)
    .enumerate()
    {
        let seeds = 1 + index as u64 / 5 * 10;
        let plan = format!(
            "plan: Which is the cheapest?\nscenario: base.yaml\nfactors: {{{factors}}}\nseeds: {seeds}..{}\n\
             minimize: {minimize}\nconstraints: [p95(queue_wait) <= {wait}, placed >= 95%]\n",
            seeds + 2
        );
        let dir = planned(&plan);
        let base = SCENARIO.replace("20/h", load).replace("until: 4h", "until: 90m");
        std::fs::write(dir.path().join("base.yaml"), base).expect("a folder of our own");
        let best = |method: &str| {
            std::fs::write(dir.path().join("plan.yaml"), format!("{plan}method: {method}\n")).expect("ours");
            let output = dryrack(dir.path(), &["plan", "plan.yaml", "--format", "json"]).assert().get_output().clone();
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let all = report["alternatives"].as_array().expect("a list").clone();
            let key = if *minimize == "gpus" { "gpus" } else { minimize };
            // Prices are compared in hundredths.
            let number = |row: &serde_json::Value| match &row[key] {
                serde_json::Value::String(price) => price.replace('.', "").parse::<u64>().expect("a price"),
                other => other.as_u64().expect("a number"),
            };
            let keeping = all.iter().filter(|row| row["keeps"] == true).map(number);
            (keeping.min(), all.len())
        };
        let ((by_search, run), (by_sweep, cells)) = (best("search"), best("sweep"));
        assert_eq!(by_search, by_sweep, "{factors} at {load}, seeds from {seeds}: {run} of {cells}");
        assert!(run * 4 <= cells, "{factors} at {load}, seeds from {seeds}: {run} of {cells} were run");
        shares.push(run * 100 / cells);
    }
    println!("per cent of the grid that were run: {shares:?}");
}

/// The table for people starts with the alternatives that satisfy the constraints, cheapest first, and shows waits in
/// minutes and hours.
fn the_alternatives_are_shown_with_the_cheapest_that_will_do_first() {
    // The plan lists the most expensive first, and an insufficient one in between.
    let plan = PLAN.replace("1..12", "[12, 1, 10, 11]").replace("profile: [fifo, first-fit]", "first: [4]");
    let dir = planned(&plan);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    let table = said.lines().skip_while(|line| !line.starts_with("workers ")).take_while(|line| !line.is_empty());
    let rows: Vec<Vec<&str>> = table.map(|line| line.split_whitespace().collect()).collect();
    let header = &rows[0];
    let keeps = header.iter().position(|cell| *cell == "meets").expect("a column");
    let order: Vec<(&str, bool)> = rows[1..].iter().map(|row| (row[0], row[keeps] == "yes")).collect();
    assert_eq!(order, [("10", true), ("11", true), ("12", true), ("1", false)], "{said}");
    // With one worker, jobs wait for more than a minute.
    let wait = said.lines().find(|line| line.trim_start().starts_with("1 ")).expect("a row");
    let is_length = |word: &str| word.contains('m') && word.chars().all(|letter| "0123456789dhms.".contains(letter));
    assert!(wait.split_whitespace().any(is_length), "{said}");
}

/// The answer says what was run, what was assumed, and how the assumption was tested.
fn a_search_says_what_it_proved() {
    let dir = planned(&format!("{PLAN}method: search\n"));
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 0);
    let answer = said.lines().nth(1).expect("a line of its own");
    for part in [
        " is enough: ",
        // The fourth root of 0.05 is 0.473.
        " GPUs. It meets both constraints with 4 seeds, and therefore with at least 47% of all seeds (95% confidence, Clopper and \
         Pearson). 0.18% of the replicas were never placed (means over the seeds). Of ",
        " were run and fail; ",
        " were not run. They are presumed to fail, because ",
    ] {
        assert!(answer.contains(part), "{part:?} in\n{said}");
    }
    let few = PLAN.replace("minimize", "budget: {runs: 4}\nmethod: search\nminimize");
    std::fs::write(dir.path().join("plan.yaml"), few).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
    assert!(said.contains("The budget is used up: "), "{said}");
    // A budget that is smaller than the number of parallel runs is still used up, and the answer claims nothing beyond
    // its results.
    let unknown = "It is unknown whether any alternative meets both constraints, because none was run with enough seeds. \
                   The budget is used up: the result for 24 alternatives is unknown. 0 of 24 alternatives were run, and 1 with too few seeds.\n";
    let failing = "The one alternative that was run does not meet both constraints. p95(queue_wait) <= 0s fails. The budget is used up: the result for 16 other alternatives is unknown. Of 8 alternatives, 1 was run and fails; ";
    for (longest, wanted) in [("20m", unknown), ("0s", failing)] {
        let few = PLAN.replace("minimize", "budget: {runs: 1}\nmethod: search\nminimize").replace("20m", longest);
        std::fs::write(dir.path().join("plan.yaml"), few).expect("a folder of our own");
        let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
        assert!(said.contains(wanted), "{said}");
    }
    let never = PLAN.replace("20m", "0s").replace("1..12", "1..3");
    std::fs::write(dir.path().join("plan.yaml"), never).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
    assert!(said.contains("None of the 6 alternatives that were run meets both constraints. p95(queue_wait) <= 0s fails with each of them. Each of 6"), "{said}");
}

/// The inputs of a plan name nodes and jobs: a pick, a cancellation and a fault.
fn a_plan_of_picked_nodes_runs_and_its_hash_depends_on_the_pick() {
    let scenario = "\
scenario: A job stays on the node that its user picked
nodes:
  - {name: a, machine: a100-80g-x2}
  - {name: b, machine: a100-80g-x2}
jobs:
  - {name: picked, gpus: [b/0], duration: 10s}
  - {name: stopped, gpus: 1, duration: 10s, cancel_at: 5s}
faults:
  - {at: 5m, node: b, becomes: not_ready}
";
    let plan = "\
plan: Does the order matter?
scenario: base.yaml
factors:
  profile: [fifo, first-fit]
minimize: gpus
constraints:
  - p95(queue_wait) <= 20m
";
    let dir = planned(plan);
    let hash = |text: &str| {
        std::fs::write(dir.path().join("base.yaml"), text).expect("a folder of our own");
        stdout(dir.path(), &["plan", "plan.yaml", "--out", "found"], 0);
        let written = std::fs::read_to_string(dir.path().join("found/plan.json")).expect("it was written");
        let read: serde_json::Value = serde_json::from_str(&written).expect("it is JSON");
        std::fs::remove_dir_all(dir.path().join("found")).expect("it is there");
        read["input"].as_str().expect("a hash").to_string()
    };
    assert_ne!(hash(scenario), hash(&scenario.replace("b/0", "b/1")));
}

fn a_plan_that_is_wrong_is_told_where() {
    let dir = planned(PLAN);
    for (was, is, wanted) in [
        (
            "scenario: base.yaml",
            "scenario: bsae.yaml",
            "error: cannot read `bsae.yaml`: no such file\n --> plan.yaml:2:11\n",
        ),
        ("workers: 1..12", "wrokers: 1..12", "error: no parameter is named `wrokers`\n --> plan.yaml:4:3\n"),
        (
            "workers: 1..12",
            "workers: 12..1",
            "error: `12..1` is not a list of values for a factor\n --> plan.yaml:4:12\n",
        ),
        ("workers: 1..12", "workers: []", "error: the factor has no values\n --> plan.yaml:4:12\n"),
        ("[fifo, first-fit]", "[fifo, frist-fit]", "error: no profile is named `frist-fit`\n --> plan.yaml:5:19\n"),
        ("workers: 1..12", "workers: [4, -1]", "error: `-1` is negative\n --> plan.yaml:4:16\n"),
        (
            "workers: 1..12",
            "w: {set: nodes.wroker.count, values: [4]}",
            "error: no entry of `nodes` is named `wroker`\n --> plan.yaml:4:12\n",
        ),
        (
            "workers: 1..12",
            "workers: [1]\n  w: {set: params.workers, values: [4]}",
            "error: `w` sets `params.workers`, as `workers` already does\n --> plan.yaml:5:12\n",
        ),
        ("minimize: gpus", "minimize: gpus\nbudget: {}", "error: the budget is empty\n --> plan.yaml:8:9\n"),
        (
            "minimize: gpus",
            "minimize: gpus\nbudget: {time: 0s}",
            "error: the budget allows no run\n --> plan.yaml:8:16\n",
        ),
        ("minimize: gpus", "minimize: gups", "error: `gups` is not an objective\n --> plan.yaml:7:11\n"),
        ("p95(queue_wait)", "p95(queue_wiat)", "error: no series is named `queue_wiat`\n --> plan.yaml:9:9\n"),
        ("minimize: gpus", "method: search", "error: a search needs `minimize`\n --> plan.yaml:7:1\n"),
        (
            "minimize: gpus",
            "method: search\nminimize: energy",
            "error: the objective of a search must be known before a run, but `energy` is measured by runs\n --> plan.yaml:8:11\n",
        ),
        (
            "minimize: gpus",
            "minimize: energy",
            "error: the node `old-0` states no power, so its energy would count as 0\n --> plan.yaml:7:11\n",
        ),
        ("seeds: 1..4", "seeds: 4..1", "error: `4..1` contains no seed\n --> plan.yaml:6:8\n"),
        ("plan: How", "paln: How", "error: unknown key `paln` of a plan\n --> plan.yaml:1:1\n"),
    ] {
        std::fs::write(dir.path().join("plan.yaml"), PLAN.replacen(was, is, 1)).expect("a folder of our own");
        let said = stderr(dir.path(), &["plan", "plan.yaml", "--out", "out"], 2);
        assert!(said.contains(wanted), "{is}: {wanted:?} in\n{said}");
        assert!(!dir.path().join("out").exists(), "{is}: nothing is half done");
    }
}

/// All wrong values are reported at once, each at its place.
fn all_values_that_are_wrong_are_told() {
    let dir = planned(&PLAN.replace("1..12", "[-1, 2, 1.5]").replace("first-fit", "frist-fit"));
    let said = stderr(dir.path(), &["plan", "plan.yaml"], 2);
    let places: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix(" --> ")).collect();
    // Alternatives are checked from the last factor on.
    assert_eq!(places, ["plan.yaml:4:13", "plan.yaml:5:19", "plan.yaml:4:20"], "{said}");
}

/// Each node draws 0.1 kW idle for the hour that the job runs, and the one with the job draws 0.2 kW more. Each costs 2
/// currency units an hour.
fn what_runs_show_is_made_small() {
    const SCENARIO: &str = "\
scenario: One job for an hour
params: {workers: 1}
nodes:
  - {name: n, cpus: 1, gpus: [{type: l4, count: 1}], count: \"${workers}\", power: {idle: 100W, busy: 300W}, price_per_hour: 2}
jobs: [{name: train, gpus: 1, duration: 1h}]
expect: [jobs_completed == 1]
";
    for (objective, wanted) in [("energy", "is enough: 0.4 kWh. "), ("cost", "is enough: a cost of 4.00. ")] {
        let plan = "plan: What draws least?\nscenario: base.yaml\nfactors: {workers: [3, 2, 4]}\nconstraints: [placed >= 100%]\n";
        let dir = planned(&format!("{plan}minimize: {objective}\n"));
        std::fs::write(dir.path().join("base.yaml"), SCENARIO).expect("a folder of our own");
        let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
        assert!(said.contains(&format!("workers=2 (2 nodes with 1 l4, 2 GPUs) {wanted}")), "{said}");
        let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("it was written");
        let column = if objective == "energy" { "energy in kWh" } else { "cost of the run" };
        assert_eq!(page.matches(&format!(">{column}</th>")).count(), 1, "one column for it");
    }
}

/// Either machine suffices for the one job; the first is cheaper.
fn a_mix_may_do_without_a_machine() {
    const SCENARIO: &str = "\
scenario: One job for an hour
params: {cheap: 1, dear: 1}
nodes:
  - {name: cheap, cpus: 1, gpus: [{type: l4, count: 1}], count: \"${cheap}\", price_per_hour: 2}
  - {name: dear, cpus: 1, gpus: [{type: l4, count: 1}], count: \"${dear}\", price_per_hour: 3}
jobs: [{name: train, gpus: 1, duration: 1h}]
expect: [jobs_completed == 1]
";
    let plan = "plan: Which?\nscenario: base.yaml\nfactors: {cheap: 0..1, dear: 0..1}\nminimize: price_per_hour\n\
                constraints: [placed >= 100%]\n";
    for method in ["sweep", "search"] {
        let dir = planned(&format!("{plan}method: {method}\n"));
        std::fs::write(dir.path().join("base.yaml"), SCENARIO).expect("a folder of our own");
        let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
        assert!(
            said.contains("cheap=1, dear=0 (1 node with 1 l4, 1 GPU) is enough: 2.00 an hour, 1,460.00 a month. "),
            "{said}"
        );
    }
}

/// A node without a price would seem to be the cheapest of all.
fn a_fleet_without_prices_has_no_cheapest() {
    let dir = planned(&PLAN.replace("minimize: gpus", "minimize: price_per_hour"));
    let unpriced = SCENARIO.replace(", price_per_hour: 12", "");
    std::fs::write(dir.path().join("base.yaml"), &unpriced).expect("a folder of our own");
    let said = stderr(dir.path(), &["plan", "plan.yaml"], 2);
    let wanted = "error: the node `worker-0` has no price, so its cost would count as 0\n --> plan.yaml:7:11\n";
    assert!(said.contains(wanted), "{said}");
    // A quantity that is not asked for may be unknown, and is then not shown.
    std::fs::write(dir.path().join("plan.yaml"), PLAN.replace("1..12", "[11, 12]")).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    assert!(!said.contains("price"), "{said}");
    let rows = std::fs::read_to_string(dir.path().join("out/alternatives.csv")).expect("it was written");
    assert!(rows.lines().nth(1).is_some_and(|row| row.starts_with("11,fifo,120,15,,4,")), "{rows}");
}

/// A profile of the user's own is a file beside the plan. If it changes, runs under the old one cannot be resumed.
fn what_was_run_under_another_profile_is_not_gone_on_with() {
    let dir = empty();
    let folder = dir.path().join("plans");
    std::fs::create_dir(&folder).expect("a folder of our own");
    let plan = PLAN.replace("1..12", "[11, 12]").replace("first-fit", "own.profile.yaml");
    for (name, text) in [("base.yaml", SCENARIO), ("plan.yaml", &plan)] {
        std::fs::write(folder.join(name), text).expect("a folder of our own");
    }
    let own = |name: &str| {
        let text = stdout(dir.path(), &["profile", "show", name], 0);
        std::fs::write(folder.join("own.profile.yaml"), text).expect("a folder of our own");
    };
    own("easy");
    stdout(dir.path(), &["plan", "plans/plan.yaml", "--out", "out"], 0);
    stdout(dir.path(), &["plan", "plans/plan.yaml", "--out", "out", "--resume"], 0);
    own("fifo");
    let said = stderr(dir.path(), &["plan", "plans/plan.yaml", "--out", "out", "--resume"], 2);
    assert!(said.contains("out/runs.jsonl contains runs of another plan"), "{said}");
}

/// A journal that was edited by hand is reported as an error of the input, not of dryrack.
fn runs_that_the_plan_does_not_have_are_refused() {
    let dir = planned(&PLAN.replace("1..12", "[11, 12]"));
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "out"], 0);
    let journal = dir.path().join("out/runs.jsonl");
    let text = std::fs::read_to_string(&journal).expect("it was written");
    for (was, is, wanted) in [
        ("\"cell\":1,", "\"cell\":99,", ":6: not a run of this plan: alternative 99, counted from 0, of 4"),
        ("\"seed\":1,", "\"seed\":77,", ":2: not a run of this plan: seed 77"),
        (
            "\"constraints\":[{",
            "\"constraints\":[{\"name\":\"x\",\"held\":true,\"happened\":\"\"},{",
            ":2: not a run of this plan: 3 constraints instead of 2",
        ),
    ] {
        std::fs::write(&journal, text.replacen(was, is, 1)).expect("a folder of our own");
        for command in [
            vec!["plan", "plan.yaml", "--out", "out", "--resume"],
            vec!["plan", "merge", "plan.yaml", "out", "--out", "more"],
        ] {
            let said = stderr(dir.path(), &command, 2);
            assert!(said.contains(&format!("out/runs.jsonl{wanted}")), "{wanted:?} in\n{said}");
        }
    }
}

/// No run starts after the time is over. Completed runs are kept, and a process with more time produces the same
/// result.
fn a_budget_of_time_ends_a_plan_that_goes_on_later() {
    let plan = PLAN.replace("minimize", "budget: {time: 1ns}\nminimize");
    let dir = planned(&plan);
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
    assert!(said.contains("0 of 24 alternatives were run."), "{said}");
    let search = format!("{plan}method: search\n");
    std::fs::write(dir.path().join("plan.yaml"), search).expect("a folder of our own");
    let said = stdout(dir.path(), &["plan", "plan.yaml"], 1);
    assert!(said.contains("The budget is used up: the result for 24 alternatives is unknown."), "{said}");
    for (name, time) in [("one", "1h"), ("two", "2h")] {
        std::fs::write(dir.path().join("plan.yaml"), plan.replace("1ns", time)).expect("a folder of our own");
        stdout(dir.path(), &["plan", "plan.yaml", "--out", name], 0);
    }
    let rows = |name: &str| std::fs::read(dir.path().join(name).join("alternatives.csv")).expect("it was written");
    assert_eq!(rows("one"), rows("two"));
}
