//! `dryrack test` as it is typed: matrices and seeds, selection, each format of the report, baselines, and watching.

use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::assert::OutputAssertExt;
use tempfile::TempDir;

use crate::cli::{NOT_READY, dryrack, empty, scenario, stdout};

trials! {
    Nothing: [
        each_cell_of_a_matrix_is_a_test_of_its_own,
        scenarios_are_selected_by_tag_path_and_title,
        a_part_of_the_seeds_is_counted_and_the_first_otherwise_is_named,
        jobs_that_come_by_chance_are_judged_seed_by_seed,
        github_shows_each_failure_at_its_line,
        tap_has_a_point_for_each_run,
        junit_is_the_same_twice_and_has_every_verdict,
        a_baseline_names_the_first_decision_that_a_change_altered,
        a_baseline_tells_what_is_not_there_any_more,
        a_change_of_a_file_runs_it_again,
    ]
    Xmllint: [
        junit_is_accepted_by_the_schema_of_jenkins,
    ]
}

/// Two jobs that each take everything there is, under two profiles and with two lengths.
const MATRIX: &str = "\
scenario: A job of ${length} and the next one
tags: [queue, small]
params: {length: 10m}
matrix: {profile: [first-fit, fifo], wait: [5m, 20m]}
nodes:
  - {name: alpha, machine: l4-x1}
jobs:
  - {name: first, gpus: 1, duration: \"${length}\"}
  - {name: second, gpus: 1, duration: 1m}
expect:
  - {name: waits_its_turn, job: second, is: running, by: \"${wait}\"}
";

fn matrix() -> TempDir {
    let dir = empty();
    std::fs::write(dir.path().join("matrix.yaml"), MATRIX).expect("a folder of our own");
    dir
}

fn each_cell_of_a_matrix_is_a_test_of_its_own() {
    let dir = matrix();
    let said = stdout(dir.path(), &["test", "matrix.yaml"], 1);
    for part in [
        "] matrix.yaml [profile=first-fit, wait=20m]  A job of 10m and the next one\n",
        "    FAIL [",
        "    why not   at 5m: 1 insufficient_gpus\n    change    alpha would fit with 1 GPU free instead of 0\n",
        "  repeat with: dryrack run matrix.yaml --seed 1 --set matrix.profile=fifo --set matrix.wait=5m\n",
        "\n1 scenario, 4 runs: 2 passed, 2 failed [",
    ] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
    // The command that repeats it fails too, and an override of a parameter reaches every cell.
    let repeat = ["run", "matrix.yaml", "--seed", "1", "--set", "matrix.profile=fifo", "--set", "matrix.wait=5m"];
    assert!(stdout(dir.path(), &repeat, 1).contains("FAIL  waits_its_turn"));
    stdout(dir.path(), &["test", "matrix.yaml", "--set", "params.length=4m"], 0);
    let said = stdout(dir.path(), &["test", "matrix.yaml", "-q"], 1);
    assert!(!said.contains("  ok ["), "{said}");
    let said = stdout(dir.path(), &["test", "matrix.yaml", "--slowest", "1"], 1);
    assert!(said.contains("\nslowest\n  ["), "{said}");
    // A cell that was typed is named once.
    let said = stdout(dir.path(), &["test", "matrix.yaml", "--set", "matrix.profile=fifo"], 1);
    assert!(said.contains("run matrix.yaml --seed 1 --set matrix.profile=fifo --set matrix.wait=5m\n"), "{said}");
}

fn scenarios_are_selected_by_tag_path_and_title() {
    let dir = matrix();
    std::fs::write(dir.path().join("not_ready.yaml"), NOT_READY).expect("a folder of our own");
    let rows: [(&[&str], i32, &str); 7] = [
        (&["--tag", "queue", "--filter", "wait=20m"], 0, "1 scenario, 2 runs: 2 passed, 3 left out ["),
        (&["--filter", "*.yaml \\[*fifo*20m]"], 4, ""),
        (&["--filter", "*fifo, wait=20m]"], 0, "1 scenario: 1 passed, 4 left out ["),
        (&["--filter", "never chosen"], 0, "1 scenario, 2 runs: 2 passed, 4 left out ["),
        (
            &["--tag", "queu"],
            4,
            "nothing selected of 5 scenarios: no scenario has the tag `queu`; did you mean `queue`?\n",
        ),
        (&["--tag", "none"], 4, "no scenario has the tag `none`; there are queue, small\n"),
        (&["--filter", "nowhere"], 4, "no scenario has nowhere in its path or title\n"),
    ];
    for (args, code, part) in rows {
        let args: Vec<&str> = ["test", "."].into_iter().chain(args.iter().copied()).collect();
        let output = dryrack(dir.path(), &args).assert().code(code).get_output().clone();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        assert!(said.contains(part), "{args:?}: {part:?} in\n{said}");
    }
}

fn a_part_of_the_seeds_is_counted_and_the_first_otherwise_is_named() {
    let dir = empty();
    let text = "\
scenario: An even seed is as good as an odd one
seeds: 1..4
nodes: [{name: alpha, machine: l4-x1}]
jobs: [{name: job, gpus: 1, duration: 1m}]
expect:
  - {name: always, job: job, is: completed, by: 1m}
  - {name: never_in_time, job: job, is: completed, by: 30s, in: \"<= 25%\"}
  - {name: mostly, job: job, is: completed, by: 30s, in: \">= 75%\"}
";
    std::fs::write(dir.path().join("seeds.yaml"), text).expect("a folder of our own");
    let said = stdout(dir.path(), &["test", "seeds.yaml"], 1);
    for part in [
        "An even seed is as good as an odd one (4 seeds)\n",
        "    expected  job is completed by 30s, in at least 75% of the seeds\n",
        "    happened  held in 0 of 4 seeds (0.0%); the first that failed is seed 1: ",
        "    repeat with: dryrack run seeds.yaml --seed 1\n",
    ] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
    assert!(!said.contains("seeds.yaml:6") && !said.contains("seeds.yaml:7"), "{said}");
    let said = stdout(dir.path(), &["test", "seeds.yaml", "--format", "json"], 1);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let shares = said["files"][0]["runs"][0]["shares"].as_array().expect("shares");
    let held: Vec<_> = shares.iter().map(|share| share["held"].as_u64()).collect();
    assert_eq!(held, [Some(4), Some(0), Some(0)]);
}

/// The number of jobs is random, so expectations about them are counted once for each seed.
fn jobs_that_come_by_chance_are_judged_seed_by_seed() {
    let dir = empty();
    let text = "\
scenario: As many as come
seeds: SEEDS
until: 1h
nodes: [{name: alpha, machine: a100-80g-x8}]
jobs: [{name: chat, gpus: 1, duration: 5m, arrivals: {poisson: 2/h}}]
expect:
  - {name: starts, job: chat-*, is: running, within: 1m, in: \">= 50%\"}
  - {name: third, job: chat-0002, is: running, in: \"<= 60%\"}
  - {count: placed, job: chat-*, is: 1}
";
    std::fs::write(dir.path().join("chance.yaml"), text.replace("SEEDS", "1..40")).expect("a folder of our own");
    let said = stdout(dir.path(), &["test", "chance.yaml"], 1);
    // With e^-2 of the seeds, 13.5 %, no job arrives: the expectation then fails, but the file is still valid.
    let shares: Vec<&str> = said.lines().filter(|line| line.contains(" of 40 seeds")).collect();
    assert!(said.contains("As many as come (40 seeds)\n") && shares.len() == 3, "{said}");
    assert!(said.contains("happened  held in ") && said.contains("no job named `chat-*` was submitted"), "{said}");
    let held = |line: &str| -> u32 { line.trim().split(' ').find_map(|word| word.parse().ok()).expect("a number") };
    assert!((26..40).contains(&held(shares[0])), "{said}");
    // The results are the same if each seed is run separately.
    let runs = |seed: u32| {
        let text = text
            .replace("seeds: SEEDS", &format!("seed: {seed}"))
            .replace(", in: \">= 50%\"", "")
            .replace(", in: \"<= 60%\"", "");
        std::fs::write(dir.path().join("one.yaml"), text).expect("a folder of our own");
        let output = dryrack(dir.path(), &["test", "one.yaml", "--format", "json"]).assert().get_output().clone();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let failures = report["files"][0]["runs"][0]["failures"].as_array().expect("a list").clone();
        !failures.iter().any(|failure| failure["name"].as_str().is_some_and(|name| name.starts_with("starts")))
    };
    assert_eq!((1..=40).filter(|seed| runs(*seed)).count() as u32, held(shares[0]));
}

fn github_shows_each_failure_at_its_line() {
    let dir = matrix();
    std::fs::write(dir.path().join("broken.yaml"), "scenario: x\nnodse: []\n").expect("a folder of our own");
    let said = stdout(dir.path(), &["test", ".", "--format", "github"], 2);
    let annotations: Vec<&str> = said.lines().filter(|line| line.starts_with("::")).collect();
    assert_eq!(
        annotations[0],
        "::error file=broken.yaml,line=2,col=1,title=unknown key `nodse` of a scenario file::unknown key `nodse` of a scenario file%0Ahelp: did you mean `nodes`?"
    );
    let of_cell = "::error file=matrix.yaml,line=11,col=6,title=waits_its_turn [profile=fifo%2C wait=5m]::expected second is running by 5m%0A";
    assert!(annotations.iter().any(|line| line.starts_with(of_cell)), "{annotations:?}");
    // The line and column are those of the expectation.
    assert!(
        MATRIX.lines().nth(10).expect("so many lines").get(5..).is_some_and(|rest| rest.starts_with("name: waits"))
    );
}

fn tap_has_a_point_for_each_run() {
    let dir = matrix();
    let said = stdout(dir.path(), &["test", ".", "--format", "tap"], 1);
    assert!(
        said.starts_with("TAP version 14\n1..4\nnot ok 1 - ./matrix.yaml [profile=first-fit, wait=5m]: A job of 10m")
    );
    assert!(
        said.contains("\n  ---\n  failures:\n    - name: \"waits_its_turn\"\n      at: \"./matrix.yaml:11:6\"\n"),
        "{said}"
    );
    let points = said.lines().filter(|line| line.starts_with("ok ") || line.starts_with("not ok "));
    assert_eq!(points.count(), 4);
    dryrack(dir.path(), &["check", ".", "--format", "tap"]).assert().code(2);
}

/// A report with every status: passed, failed, a missing trace, and a broken file.
fn every_status() -> TempDir {
    let dir = matrix();
    std::fs::write(dir.path().join("broken.yaml"), "scenario: x\nnodse: []\n").expect("a folder of our own");
    std::fs::write(dir.path().join("not_ready.yaml"), NOT_READY).expect("a folder of our own");
    let lacking = "scenario: A trace & \"quotes\" <here>\ntrace: openb\nexpect: [{count: placed, is: \">= 1\"}]\n";
    std::fs::write(dir.path().join("lacking.yaml"), lacking).expect("a folder of our own");
    dir
}

fn junit_is_the_same_twice_and_has_every_verdict() {
    let dir = every_status();
    let said = stdout(dir.path(), &["test", ".", "--format", "junit", "--junit", "report.xml"], 2);
    let written = std::fs::read_to_string(dir.path().join("report.xml")).expect("written");
    assert_eq!(said, written);
    assert_eq!(said, stdout(dir.path(), &["test", ".", "--format", "junit", "--threads", "1"], 2));
    for part in [
        "<testsuites name=\"dryrack\" tests=\"10\" failures=\"2\" errors=\"1\">",
        "<testsuite name=\"./matrix.yaml [profile=fifo, wait=5m]\" tests=\"1\" skipped=\"0\" errors=\"0\" failures=\"1\">",
        "<skipped message=\"error: trace openb is missing",
        "<error message=\"error: unknown key `nodse` of a scenario file\" type=\"input\">",
    ] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
}

/// `junit-10.xsd` is the schema of Jenkins' xUnit plug-in (MIT), from the source package of pytest 8.3.5.
fn junit_is_accepted_by_the_schema_of_jenkins() {
    let dir = every_status();
    stdout(dir.path(), &["test", ".", "--junit", "report.xml", "-q"], 2);
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/junit-10.xsd");
    let mut lint = Command::new("xmllint");
    lint.args(["--nonet", "--noout", "--schema"]).arg(schema).arg("report.xml").current_dir(dir.path());
    lint.assert().code(0);
}

pub fn xmllint_is_here() -> bool {
    Command::new("xmllint").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn a_baseline_names_the_first_decision_that_a_change_altered() {
    let dir = empty();
    let text = "\
scenario: Two nodes that are alike
profile: ours.profile.yaml
nodes:
  - {name: alpha, machine: l4-x1}
  - {name: beta, machine: l4-x1}
jobs:
  - {name: first, gpus: 1, duration: 1h}
  - {name: second, at: 1m, gpus: 1, duration: 1h}
expect:
  - {name: both_run, job: second, is: running, by: 1m}
";
    std::fs::write(dir.path().join("alike.yaml"), text).expect("a folder of our own");
    let break_ties = |how: &str| {
        let profile = format!("name: ours\ntitle: Ours\nbase: first-fit\nscheduler: {{ties: {how}}}\n");
        std::fs::write(dir.path().join("ours.profile.yaml"), profile).expect("a folder of our own");
    };
    break_ties("first");
    dryrack(dir.path(), &["test", ".", "--baseline", "base"]).assert().code(2);
    let said = stdout(dir.path(), &["test", ".", "--baseline", "base", "--update-baseline"], 0);
    assert!(said.contains("\nbaseline: 1 run stored, 0 changed, 1 new\n"), "{said}");
    let stored = std::fs::read_to_string(dir.path().join("base/alike.yaml.baseline")).expect("stored");
    assert!(
        stored.starts_with("dryrack baseline 1\nrun - ") && stored.contains("\n  0s first placed on alpha/0"),
        "{stored}"
    );
    let said = stdout(dir.path(), &["test", ".", "--baseline", "base"], 0);
    assert!(said.contains("\nbaseline: 1 as stored, 0 changed\n"), "{said}");
    // Only the tie-breaking changes.
    break_ties("random");
    let said = stdout(dir.path(), &["test", ".", "--baseline", "base"], 1);
    let wanted = "
baseline: 0 as stored, 1 changed
  ./alike.yaml
    decision 1
      was  0s first placed on alpha/0, score 0.000
      now  0s first placed on beta/0, score 0.000
";
    assert!(said.contains(wanted), "{said}");
    // Every format for CI reports this.
    let title = "./alike.yaml differs from the baseline";
    let told = "decision 1%0A  was  0s first placed on alpha/0, score 0.000%0A  now  0s first placed on beta/0";
    let said = stdout(dir.path(), &["test", ".", "--baseline", "base", "--format", "github"], 1);
    assert!(said.contains(&format!("::warning file=alike.yaml,line=7,col=1,title={title}::{told}")), "{said}");
    let said = stdout(dir.path(), &["test", ".", "--baseline", "base", "--format", "tap"], 1);
    assert!(
        said.contains(
            "1..2\nok 1 - ./alike.yaml: Two nodes that are alike\nnot ok 2 - ./alike.yaml is as in the baseline\n"
        ),
        "{said}"
    );
    assert!(said.contains("    decision 1\n      was  0s first placed on alpha/0"), "{said}");
    let said = stdout(dir.path(), &["test", ".", "--baseline", "base", "--format", "junit"], 1);
    assert!(
        said.contains("<testsuite name=\"baseline\" tests=\"1\" skipped=\"0\" errors=\"0\" failures=\"1\">"),
        "{said}"
    );
    // Storing the baseline again accepts the change.
    stdout(dir.path(), &["test", ".", "--baseline", "base", "--update-baseline"], 0);
    stdout(dir.path(), &["test", ".", "--baseline", "base"], 0);
}

fn a_baseline_tells_what_is_not_there_any_more() {
    let dir = scenario();
    let text = "scenario: Two cells\nmatrix: {profile: [fifo, spread]}\nnodes: [{name: a, cpus: 2}]\n\
                jobs: [{name: j, cpus: 1, duration: 1m}]\nexpect: [{name: ends, job: j, is: completed}]\n";
    std::fs::create_dir(dir.path().join("more")).expect("a folder of our own");
    for name in ["more/cells.yaml", "more/moved.yaml"] {
        std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    }
    stdout(dir.path(), &["test", ".", "--baseline", "base", "--update-baseline"], 0);
    std::fs::rename(dir.path().join("more/moved.yaml"), dir.path().join("more/here.yaml"))
        .expect("a folder of our own");
    std::fs::write(dir.path().join("more/cells.yaml"), text.replace("fifo, ", "")).expect("a folder of our own");
    let wanted = "
baseline: 3 as stored, 0 changed, 2 new, 2 gone
  ./more/cells.yaml [profile=fifo]
    is stored but no longer exists
  ./more/moved.yaml
    is stored but no longer exists
";
    let said = stdout(dir.path(), &["test", ".", "--baseline", "base"], 1);
    assert!(said.contains(wanted), "{said}");
    // Runs that were not requested are not reported as missing.
    stdout(dir.path(), &["test", "not_ready.yaml", "--baseline", "base"], 0);
    stdout(dir.path(), &["test", ".", "--filter", "spread", "--baseline", "base"], 0);
    stdout(dir.path(), &["test", ".", "--baseline", "base", "--update-baseline"], 0);
    assert!(!dir.path().join("base/more/moved.yaml.baseline").exists());
    let said = stdout(dir.path(), &["test", ".", "--baseline", "base"], 0);
    assert!(said.contains("\nbaseline: 5 as stored, 0 changed\n"), "{said}");
}

fn a_change_of_a_file_runs_it_again() {
    use std::io::BufRead;
    let dir = scenario();
    let mut child = dryrack(dir.path(), &["test", ".", "--watch", "-q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it was built");
    let mut lines = std::io::BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut summary = || lines.by_ref().map(|line| line.expect("text")).find(|line| line.starts_with("1 scenario"));
    assert!(summary().is_some_and(|line| line.contains("2 passed")));
    let altered = NOT_READY.replace("by: 8m", "by: 4m");
    std::fs::write(dir.path().join("not_ready.yaml"), altered).expect("a folder of our own");
    let again = summary();
    child.kill().and_then(|()| child.wait()).expect("it was running");
    assert!(again.is_some_and(|line| line.contains("1 passed, 1 failed")));
}
