//! The commands as they are typed: exit codes, and the exact output on stdout and stderr.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::assert::OutputAssertExt;
use tempfile::TempDir;

use crate::small_world;

trials! {
    Nothing: [
        help_and_version_are_data,
        a_wrong_flag_and_a_wrong_file_are_bad_input,
        a_run_of_too_many_records_is_stopped_and_says_what_grew,
        a_folder_without_scenarios_selects_nothing,
        the_catalog_is_listed_for_people_and_programs,
        a_log_is_printed_one_transition_to_a_line,
        a_log_is_filtered_by_job_node_reason_and_time,
        a_wrong_name_is_answered_with_the_nearest,
        a_replay_of_an_honest_log_is_silent,
        a_flipped_byte_in_an_event_is_found_and_named,
        an_event_that_is_no_record_any_more_is_named_with_what_belongs_there,
        a_changed_input_is_found_by_the_digest,
        a_log_that_is_cut_off_is_refused,
        equal_logs_do_not_differ,
        the_first_difference_of_two_logs_is_shown,
        the_first_decision_in_which_two_logs_differ_is_told_with_its_reason,
        a_waiting_job_is_told_why_not,
        a_placed_job_is_told_why_here,
        a_reader_that_goes_away_is_no_failure,
        waits_are_plotted_the_same_twice,
        a_scenario_that_holds_is_ok_and_its_report_is_reproduced,
        the_cause_of_a_report_of_dstack_is_the_option_that_its_fix_changed,
        the_cause_of_a_report_is_found_and_an_option_that_nothing_tells_apart_is_an_error,
        a_failure_says_where_what_and_how_to_see_it_again,
        a_broken_file_does_not_hide_the_others,
        a_run_leaves_its_files_and_they_agree_with_what_it_says,
        the_states_that_runs_reached_are_listed,
        traces_are_listed_and_a_wrong_name_is_answered,
        colours_are_where_they_are_wanted,
        a_scenario_whose_trace_is_not_here_is_not_run,
        what_was_not_run_for_want_of_data_is_told_in_one_line,
        no_scenario_of_ours_is_warned_of,
        a_trace_that_should_be_here_and_is_not_is_a_failure,
        what_was_odd_in_a_trace_is_said,
        a_start_of_a_log_that_is_no_date_is_not_shown,
        two_profiles_are_compared_option_by_option,
        a_profile_of_kubernetes_is_shown_without_stages_that_it_does_not_use,
    ]
}

pub fn dryrack(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dryrack"));
    command.args(args).current_dir(dir).env_remove("DRYRACK_DATA").env("NO_COLOR", "1");
    command
}

/// Checks exit code, stdout and stderr.
fn check(dir: &Path, args: &[&str], code: i32, stdout: &str, stderr: &str) {
    dryrack(dir, args).assert().code(code).stdout(stdout.to_string()).stderr(stderr.to_string());
}

pub fn stdout(dir: &Path, args: &[&str], code: i32) -> String {
    let output = dryrack(dir, args).assert().code(code).get_output().stdout.clone();
    String::from_utf8(output).expect("text")
}

/// Runs a command that must exit with `code`, and returns its stderr.
pub fn stderr(dir: &Path, args: &[&str], code: i32) -> String {
    let output = dryrack(dir, args).assert().code(code).get_output().stderr.clone();
    String::from_utf8(output).expect("text")
}

/// A folder with these files, each given by its name and text.
pub fn written(files: &[(&str, &str)]) -> TempDir {
    let dir = empty();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    }
    dir
}

/// Writes a script and makes it a program. A child process writes it: a file that is open for writing cannot be executed,
/// and a process that another thread starts meanwhile has a copy of every open file for a moment.
pub fn write_program(path: &Path, text: &str) {
    let write = "cat >\"$0\" && chmod 755 \"$0\"";
    let mut shell = Command::new("sh").args(["-c", write]).arg(path).stdin(Stdio::piped()).spawn().expect("a shell");
    shell.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    assert!(shell.wait().expect("it ends").success(), "{} was not written", path.display());
}

pub fn empty() -> TempDir {
    TempDir::new().expect("a folder of our own")
}

/// A folder with the log of two jobs that want the same GPU.
fn recorded() -> TempDir {
    let dir = empty();
    small_world::write(dir.path(), 60);
    dir
}

fn log_lines(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("events.jsonl")).expect("recorded");
    text.lines().map(str::to_string).collect()
}

/// Edits the first line that contains `holds` and `from`; returns its number.
fn alter(dir: &Path, holds: &str, from: &str, to: &str) -> usize {
    let mut lines = log_lines(dir);
    let index = lines.iter().position(|line| line.contains(holds) && line.contains(from)).expect("such a line");
    lines[index] = lines[index].replacen(from, to, 1);
    std::fs::write(dir.join("events.jsonl"), lines.join("\n") + "\n").expect("a folder of our own");
    index + 1
}

fn help_and_version_are_data() {
    let dir = empty();
    assert!(stdout(dir.path(), &["--version"], 0).starts_with("dryrack "));
    let help = stdout(dir.path(), &["--help"], 0);
    for command in [
        "run", "test", "check", "log", "explain", "fit", "replay", "diff", "compare", "minimize", "conform", "catalog",
        "profile", "plot",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is in the help");
    }
}

fn a_wrong_flag_and_a_wrong_file_are_bad_input() {
    let dir = empty();
    for args in [&["run"][..], &["rum", "x.yaml"], &["log", "x", "--since", "5"], &["test", ".", "--threads", "0"]] {
        dryrack(dir.path(), args).assert().code(2).stdout("");
    }
    let missing = "error: none.jsonl: does not exist; expected a log that `dryrack run FILE --out DIR` wrote as \
                   DIR/events.jsonl\n";
    for command in ["log", "replay"] {
        check(dir.path(), &[command, "none.jsonl"], 2, "", missing);
    }
    let missing = "error: none: does not exist; expected a scenario file, or a folder of them\n";
    check(dir.path(), &["test", "none"], 2, "", missing);
    check(dir.path(), &["check", "none"], 2, "", missing);
    std::fs::write(dir.path().join("odd"), [0xff, 0xfe, 0x00]).expect("a folder of our own");
    let refused = String::from_utf8(dryrack(dir.path(), &["log", "odd"]).assert().code(2).get_output().stderr.clone());
    assert!(refused.expect("text").starts_with("error: odd: line 1: not valid text"));
    std::fs::write(dir.path().join("empty"), "").expect("a folder of our own");
    let empty = "error: empty: is empty; expected a log that `dryrack run FILE --out DIR` wrote as DIR/events.jsonl\n";
    check(dir.path(), &["log", "empty"], 2, "", empty);
}

fn a_folder_without_scenarios_selects_nothing() {
    let dir = empty();
    let said = "no scenario files found; in folders, *.yaml files are used\n";
    check(dir.path(), &["test", "."], 4, "", said);
    check(dir.path(), &["check", "."], 4, "", said);
}

fn the_catalog_is_listed_for_people_and_programs() {
    let dir = empty();
    for (what, name) in [("gpus", "h100-80g"), ("machines", "m2-ultra-192g")] {
        let text = stdout(dir.path(), &["catalog", what], 0);
        assert!(text.lines().any(|line| line.starts_with(&format!("{name} "))), "{name} begins a line");
        let json = stdout(dir.path(), &["catalog", what, "--format", "json"], 0);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json).expect("a list");
        // A long last column continues on lines that begin with spaces.
        let lines = text.lines().filter(|line| !line.starts_with(' ')).count();
        assert_eq!(rows.len() + 1, lines, "a line for each row, and a header");
        assert!(rows.iter().any(|row| row["name"] == name));
    }
}

/// Worked out by hand: chat takes the only GPU for its minute, and late waits for it.
const TRANSITIONS: &str = "          0s  alpha                declared       ready
         10s  chat                 submitted
         10s  chat                 placed         on alpha/0, score 0.000
         10s  chat                 running        was scheduled
         20s  late                 submitted
         20s  late                 held           1 insufficient_gpus
       1m10s  chat                 completed      was running; completed
       1m10s  chat                 job ended      completed; completed
       1m10s  late                 placed         on alpha/0, score 0.000
       1m10s  late                 running        was scheduled
       2m10s  late                 completed      was running; completed
       2m10s  late                 job ended      completed; completed
";

fn a_log_is_printed_one_transition_to_a_line() {
    check(recorded().path(), &["log", "events.jsonl"], 0, TRANSITIONS, "");
}

fn a_log_is_filtered_by_job_node_reason_and_time() {
    let dir = recorded();
    let lines = |wanted: &[usize]| {
        let all: Vec<&str> = TRANSITIONS.lines().collect();
        wanted.iter().map(|index| format!("{}\n", all[*index])).collect::<String>()
    };
    let rows: [(&[&str], &[usize]); 5] = [
        (&["--job", "chat"], &[1, 2, 3, 6, 7]),
        (&["--node", "alpha"], &[0, 2, 8]),
        (&["--reason", "insufficient_gpus"], &[5]),
        (&["--since", "1m11s"], &[10, 11]),
        (&["--job", "late", "--since", "1m10s", "--node", "alpha"], &[8]),
    ];
    for (flags, wanted) in rows {
        check(dir.path(), &[&["log", "events.jsonl"], flags].concat(), 0, &lines(wanted), "");
    }
}

fn a_wrong_name_is_answered_with_the_nearest() {
    let dir = recorded();
    let rows = [
        ("--job", "chta", "error: the log has no job named `chta`; did you mean `chat`?\n"),
        ("--node", "alhpa", "error: the log has no node named `alhpa`; did you mean `alpha`?\n"),
        ("--reason", "node_not_redy", "error: there is no reason `node_not_redy`; did you mean `node_not_ready`?\n"),
    ];
    for (flag, name, said) in rows {
        check(dir.path(), &["log", "events.jsonl", flag, name], 2, "", said);
    }
}

fn a_replay_of_an_honest_log_is_silent() {
    let dir = recorded();
    check(dir.path(), &["replay", "events.jsonl"], 0, "", "");
    is_equal(dir.path(), &["replay", "events.jsonl", "--format", "json"]);
}

/// The answer in JSON is that both are equal, with the digest of the log.
fn is_equal(dir: &Path, args: &[&str]) {
    let value: serde_json::Value = serde_json::from_str(&stdout(dir, args, 0)).expect("JSON");
    let lines = log_lines(dir);
    assert_eq!(value["equal"], true, "{value}");
    assert!(lines[lines.len() - 1].contains(value["digest"].as_str().expect("a digest")), "{value}");
}

fn a_flipped_byte_in_an_event_is_found_and_named() {
    let dir = recorded();
    let honest = log_lines(dir.path());
    let line = alter(dir.path(), "\"placed\"", "\"cpu\":1000", "\"cpu\":1001");
    let altered = log_lines(dir.path());
    let said = format!(
        "events.jsonl: line {line}: the same inputs gave a different event\n  recorded  {}\n  replayed  {}\n",
        altered[line - 1],
        honest[line - 1],
    );
    check(dir.path(), &["replay", "events.jsonl"], 1, &said, "");
}

fn an_event_that_is_no_record_any_more_is_named_with_what_belongs_there() {
    let dir = recorded();
    let honest = log_lines(dir.path());
    let line = alter(dir.path(), "\"ended\"", "ended", "endee");
    let said = stdout(dir.path(), &["replay", "events.jsonl"], 1);
    assert!(said.starts_with(&format!("events.jsonl: line {line}: not a record: ")), "{said}");
    assert!(said.ends_with(&format!("  replayed  {}\n", honest[line - 1])), "{said}");
    // The other commands refuse the log, and name the line.
    let refused = dryrack(dir.path(), &["log", "events.jsonl"]).assert().code(2).get_output().stderr.clone();
    let refused = String::from_utf8(refused).expect("text");
    assert!(refused.starts_with(&format!("error: events.jsonl: line {line}: not a record")), "{refused}");
}

fn a_changed_input_is_found_by_the_digest() {
    let dir = recorded();
    alter(dir.path(), "\"submit\"", "\"queue\":\"default\"", "\"queue\":\"defaulu\"");
    let said = stdout(dir.path(), &["replay", "events.jsonl"], 1);
    assert!(said.contains("an input or the footer was changed"), "{said}");
}

fn a_log_that_is_cut_off_is_refused() {
    let dir = recorded();
    let lines = log_lines(dir.path());
    let kept = lines.len() - 2;
    std::fs::write(dir.path().join("events.jsonl"), lines[..kept].join("\n") + "\n").expect("a folder of our own");
    let said = format!("error: events.jsonl: is incomplete: it has no footer after line {kept}\n");
    for command in
        [&["log", "events.jsonl"][..], &["replay", "events.jsonl"], &["diff", "events.jsonl", "events.jsonl"]]
    {
        dryrack(dir.path(), command).assert().code(2).stderr(said.clone());
    }
}

fn equal_logs_do_not_differ() {
    let (left, right) = (recorded(), recorded());
    let right = right.path().join("events.jsonl");
    check(left.path(), &["diff", "events.jsonl", &right.display().to_string()], 0, "", "");
    is_equal(left.path(), &["diff", "events.jsonl", &right.display().to_string(), "--format", "json"]);
}

fn the_first_difference_of_two_logs_is_shown() {
    let dir = recorded();
    let line = log_lines(dir.path()).iter().position(|line| line.contains("130000000000")).expect("late ends") + 1;
    std::fs::rename(dir.path().join("events.jsonl"), dir.path().join("a.jsonl")).expect("a folder of our own");
    // `late` runs for longer. That is no decision, and nothing else changes.
    small_world::write(dir.path(), 90);
    let wanted = format!(
        "\
every decision is the same
the first record that differs is in line {line}
  a.jsonl
    2m10s an input of the world
  events.jsonl
    2m40s an input of the world
0 of 2 jobs placed at another time, or on one side only
"
    );
    check(dir.path(), &["diff", "a.jsonl", "events.jsonl"], 1, &wanted, "");
}

fn the_first_decision_in_which_two_logs_differ_is_told_with_its_reason() {
    let dir = empty();
    let text = "\
scenario: A small job behind a wide one
nodes: [{name: a, gpus: 2, gpu: l4}]
jobs:
  - {name: long, gpus: 1, duration: 1h, time_limit: 1h}
  - {name: wide, at: 1m, gpus: 2, duration: 10m, time_limit: 10m}
  - {name: small, at: 2m, gpus: 1, duration: 10m, time_limit: 10m}
";
    std::fs::write(dir.path().join("behind.yaml"), text).expect("a folder of our own");
    for profile in ["fifo", "first-fit"] {
        stdout(dir.path(), &["run", "behind.yaml", "--profile", profile, "--out", profile], 0);
    }
    let said = stdout(dir.path(), &["diff", "fifo/events.jsonl", "first-fit/events.jsonl"], 1);
    for part in [
        "profile: fifo and first-fit\n",
        "the first decision that differs: small at 2m\n",
        "2m small placed on a/1",
        "why here  placed on a/1 at 2m; 1 of 1 nodes were suitable",
        "1 of 3 jobs placed at another time, or on one side only\n",
    ] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

fn a_waiting_job_is_told_why_not() {
    let dir = recorded();
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "late", "--at", "30s"], 0);
    for part in [
        "late at 30s\n",
        "why not now\n",
        "      1 node   insufficient_gpus        too few GPUs are free\n",
        "smallest change: alpha would fit with 1 GPU free instead of 0\n",
    ] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
}

fn a_placed_job_is_told_why_here() {
    let dir = recorded();
    let said = stdout(dir.path(), &["explain", "events.jsonl", "--job", "late", "--at", "2m"], 0);
    assert!(said.contains("why here: placed on alpha/0 at 1m10s\n"), "{said}");
}

fn a_reader_that_goes_away_is_no_failure() {
    let dir = recorded();
    let mut child = dryrack(dir.path(), &["catalog", "machines", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

fn waits_are_plotted_the_same_twice() {
    let dir = recorded();
    for out in ["a.svg", "b.svg"] {
        check(dir.path(), &["plot", "waits", "FIFO=.", "--out", out, "--caption", "one GPU"], 0, "", "");
    }
    let read = |name| std::fs::read_to_string(dir.path().join(name)).expect("written");
    assert_eq!(read("a.svg"), read("b.svg"));
    for text in ["FIFO", "recorded", "default (2 jobs)", "one GPU"] {
        assert!(read("a.svg").contains(text), "{text} is on the plot");
    }
    let said = "error: no run has a queue named `defalt`; did you mean `default`?\n";
    check(dir.path(), &["plot", "waits", ".", "--out", "c.svg", "--queues", "defalt"], 2, "", said);
}

/// Two nodes of two GPUs; chat wants one GPU of each, and alpha is not ready until 5 minutes.
pub const NOT_READY: &str = "\
scenario: A worker that is not ready is never chosen, by hand or automatically
seed: 7
until: 20m
nodes:
  - {name: alpha, machine: a100-80g-x2, state: not_ready}
  - {name: beta, machine: a100-80g-x2}
jobs:
  - {name: chat, at: 10s, gpus: [alpha/0, beta/0]}
faults:
  - {at: 5m, node: alpha, becomes: ready}
expect:
  - {name: never_on_alpha, job: chat, never: placed, on: alpha, until: 5m}
  - {name: says_why, job: chat, at: 1m, is: pending, because: node_not_ready}
  - {name: recovers, job: chat, is: running, by: 8m}
reproduces:
  - profile: gpustack-0.5-dev
    fails: [never_on_alpha]
    and: [{job: chat, is: placed, on: alpha, from: 20s, for: 4m}]
";

pub fn scenario() -> TempDir {
    let dir = empty();
    std::fs::write(dir.path().join("not_ready.yaml"), NOT_READY).expect("a folder of our own");
    dir
}

/// The text without wall times, which are in brackets.
fn without_times(text: &str) -> String {
    let mut kept = String::new();
    for part in text.split_inclusive('[') {
        let rest = match kept.ends_with('[') {
            true => part.split_once(']').map_or(part, |(_, rest)| rest),
            false => part,
        };
        let is_time = rest.len() < part.len();
        if is_time {
            kept.push(']');
        }
        kept.push_str(rest);
    }
    kept
}

fn a_scenario_that_holds_is_ok_and_its_report_is_reproduced() {
    let dir = scenario();
    let wanted = "      ok [] ./not_ready.yaml  A worker that is not ready is never chosen, by hand or automatically
      ok [] ./not_ready.yaml  reproduced under gpustack-0.5-dev, because of scheduler.filters.ready.unless

1 scenario, 2 runs: 2 passed []
";
    assert_eq!(without_times(&stdout(dir.path(), &["test", "."], 0)), wanted);
    assert_eq!(without_times(&stdout(dir.path(), &["test", ".", "--threads", "1"], 0)), wanted);
}

fn the_cause_of_a_report_of_dstack_is_the_option_that_its_fix_changed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/dstack");
    let told = stdout(&folder, &["test", "multinode-on-split-hosts.yaml"], 0);
    let cause = "reproduced under dstack-0.19.9, because of scheduler.offers.split_hosts_for_multinode\n";
    assert!(told.contains(cause), "{told}");
}

fn the_cause_of_a_report_is_found_and_an_option_that_nothing_tells_apart_is_an_error() {
    let dir = scenario();
    // With this one option reset to its value in the base, no expectation fails. The run can be repeated with these
    // flags.
    let option = ["--profile", "gpustack-0.5-dev", "--as-in-base", "scheduler.filters.ready.unless"];
    stdout(dir.path(), &[&["run", "not_ready.yaml"][..], &option].concat(), 0);
    let said = stdout(dir.path(), &["test", ".", "--options"], 1);
    // These scenarios do not test the options of other profiles.
    assert!(
        said.contains("2 passed") && !said.contains("filters.ready.unless of gpustack-0.5-dev from its base"),
        "{said}"
    );
    let other = "scenario: Nothing is reproduced\nnodes: [{name: a, machine: l4-x1}]\njobs: [{name: j, gpus: 1}]
expect: [{job: j, is: running}]\n";
    std::fs::write(dir.path().join("other.yaml"), other).expect("a folder of our own");
    let said = stdout(dir.path(), &["test", "other.yaml", "--options"], 1);
    let untold = "    FAIL no scenario and no record distinguishes scheduler.filters.ready.unless of gpustack-0.5-dev from its base: ";
    assert!(said.contains(untold), "{said}");
    stdout(dir.path(), &["test", "other.yaml"], 0);
    let wrong = ["run", "not_ready.yaml", "--profile", "gpustack-0.5-dev", "--as-in-base", "scheduler.filters.redy"];
    let wanted = "error: the profile `gpustack-0.5-dev` does not differ from its base in `scheduler.filters.redy`
 --> command line:1:14
  |
1 | --as-in-base scheduler.filters.redy
  |              ^^^^^^^^^^^^^^^^^^^^^^
  = help: known are scheduler.filters.ready.unless, scheduler.deployments.filters

";
    dryrack(dir.path(), &wrong).assert().code(2).stderr(wanted);
}

fn a_failure_says_where_what_and_how_to_see_it_again() {
    let dir = scenario();
    let wanted = "    FAIL [] not_ready.yaml  A worker that is not ready is never chosen, by hand or automatically

not_ready.yaml  A worker that is not ready is never chosen, by hand or automatically
  not_ready.yaml:12  never_on_alpha
    expected  chat is never placed on alpha before 5m
    happened  chat was placed on alpha at 10s: 10s running on alpha, beta
    why here  placed on alpha/0 beta/0 at 10s; 2 of 2 nodes were suitable
  not_ready.yaml:13  says_why
    expected  chat is pending because node_not_ready at 1m
    happened  10s running on alpha, beta
    why here  placed on alpha/0 beta/0 at 10s; 2 of 2 nodes were suitable
  repeat with: dryrack run not_ready.yaml --seed 7 --profile gpustack-0.5-dev

1 scenario: 1 failed []
";
    let args = ["test", "not_ready.yaml", "--profile", "gpustack-0.5-dev"];
    assert_eq!(without_times(&stdout(dir.path(), &args, 1)), wanted);
    let repeat = ["run", "not_ready.yaml", "--seed", "7", "--profile", "gpustack-0.5-dev"];
    assert!(stdout(dir.path(), &repeat, 1).contains("FAIL  never_on_alpha"));
}

fn a_broken_file_does_not_hide_the_others() {
    let dir = scenario();
    std::fs::write(dir.path().join("broken.yaml"), "scenario: x\nnodse: []\n").expect("a folder of our own");
    let said = stdout(dir.path(), &["test", "."], 2);
    assert!(said.contains(" INVALID [") && said.contains("      ok ["), "{said}");
    assert!(said.contains("did you mean `nodes`?"), "{said}");
    dryrack(dir.path(), &["check", "."]).assert().code(2).stdout("2 files, 1 invalid\n");
    dryrack(dir.path(), &["check", "not_ready.yaml"]).assert().code(0).stdout("1 file, 0 invalid\n").stderr("");
}

fn a_run_leaves_its_files_and_they_agree_with_what_it_says() {
    let dir = scenario();
    let text = stdout(dir.path(), &["run", "not_ready.yaml", "--out", "out", "--format", "json"], 0);
    let said: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for key in ["scenario", "seed", "profile", "digest", "events", "sim_seconds", "wall_seconds"] {
        assert!(!said[key].is_null(), "{key} is said");
    }
    // chat waits for alpha and runs until the end: 1200 s.
    assert_eq!((said["sim_seconds"].as_f64(), said["expectations"].as_array().map(Vec::len)), (Some(1200.0), Some(3)));
    assert!(said["expectations"][0]["passed"].as_bool().expect("a verdict"));
    let mut left: Vec<_> = std::fs::read_dir(dir.path().join("out")).expect("made").collect();
    left.sort_by_key(|entry| entry.as_ref().expect("readable").file_name());
    let left: Vec<_> = left.into_iter().map(|entry| entry.expect("readable").file_name()).collect();
    assert_eq!(left, ["events.jsonl", "jobs.csv", "metrics.json", "nodes.csv"]);
    let metrics = std::fs::read_to_string(dir.path().join("out/metrics.json")).expect("written");
    let metrics: serde_json::Value = serde_json::from_str(&metrics).expect("JSON");
    assert_eq!(metrics, said["metrics"]);
    let log = std::fs::read_to_string(dir.path().join("out/events.jsonl")).expect("written");
    let footer: serde_json::Value = serde_json::from_str(log.lines().last().expect("a footer")).expect("JSON");
    assert_eq!(footer["footer"]["digest"], said["digest"]);
    check(dir.path(), &["replay", "out/events.jsonl"], 0, "", "");
    // A second run with the same seed on the command line writes the same bytes.
    stdout(dir.path(), &["run", "not_ready.yaml", "--out", "again", "--seed", "7"], 0);
    for file in ["jobs.csv", "nodes.csv", "metrics.json"] {
        let read = |folder: &str| std::fs::read(dir.path().join(folder).join(file)).expect("written");
        assert_eq!(read("out"), read("again"), "{file}");
    }
}

fn the_states_that_runs_reached_are_listed() {
    let dir = scenario();
    let said = stderr(dir.path(), &["test", "not_ready.yaml", "-q", "--marks", "marks.txt"], 0);
    assert!(said.contains(" marks reached; see marks.txt\n"), "{said}");
    let text = std::fs::read_to_string(dir.path().join("marks.txt")).expect("written");
    // The scenario's own run, its reproduction, and the runs that look for the cause.
    for (mark, is_reached) in [("event placed", true), ("reason node_not_ready", true), ("event evicted", false)] {
        let count = text.lines().find_map(|line| line.strip_suffix(&format!("\t{mark}")));
        assert_eq!(count.map(|count| count != "0"), Some(is_reached), "{mark}\n{text}");
    }
}

fn traces_are_listed_and_a_wrong_name_is_answered() {
    let dir = empty();
    let said = stdout(dir.path(), &["trace", "list"], 0);
    assert!(said.contains("openb ("), "{said}");
    let refused = dryrack(dir.path(), &["trace", "get", "opneb"]).assert().code(2).get_output().stderr.clone();
    assert!(String::from_utf8(refused).expect("text").starts_with("error: unknown trace `opneb`"));
}

fn colours_are_where_they_are_wanted() {
    let dir = scenario();
    // The output is not a terminal, so the default is no colour.
    let rows: [(&[&str], Option<&str>, bool); 6] = [
        (&[], None, false),
        (&["--color", "always"], None, true),
        (&["--color", "never"], None, false),
        (&[], Some("1"), false),
        (&["--color", "always"], Some("1"), true),
        (&["--color", "never"], Some("1"), false),
    ];
    for (flags, no_color, wanted) in rows {
        for command in ["run", "test"] {
            let mut asked = dryrack(dir.path(), &[&[command, "not_ready.yaml"], flags].concat());
            asked.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
            no_color.map(|value| asked.env("NO_COLOR", value));
            let said = asked.assert().code(0).get_output().stdout.clone();
            assert_eq!(said.contains(&0x1b), wanted, "{command} {flags:?} NO_COLOR={no_color:?}");
        }
    }
}

/// The text is a profile with the same options.
fn a_profile_of_kubernetes_is_shown_without_stages_that_it_does_not_use() {
    let dir = empty();
    for name in ["kubernetes-1.35", "kubernetes-1.35-most-allocated", "kubernetes-1.20"] {
        let text = stdout(dir.path(), &["profile", "show", name], 0);
        assert!(text.contains("- NodeResourcesFit\n") && !text.contains("{stage: resources}"), "{text}");
        std::fs::write(dir.path().join("shown.profile.yaml"), text).expect("a folder of our own");
        check(dir.path(), &["profile", "diff", "shown.profile.yaml", name], 0, "", "");
    }
}

fn two_profiles_are_compared_option_by_option() {
    let dir = empty();
    let wanted = "option                fifo           first-fit
scheduler.order       [\"submitted\"]  [\"priority\",\"submitted\"]
scheduler.discipline  strict         skipping
";
    check(dir.path(), &["profile", "diff", "fifo", "first-fit"], 1, wanted, "");
    check(dir.path(), &["profile", "diff", "fifo", "fifo"], 0, "", "");
    // A different notation of the same value is not a difference, but a stage that only one profile has is one.
    let mine =
        "base: pack\nname: mine\ntitle: Pack\nheartbeat: {every: 10000ms, grace: 90s}\nscheduler: {scorers: []}\n";
    std::fs::write(dir.path().join("mine.yaml"), mine).expect("a folder of our own");
    let said = stdout(dir.path(), &["profile", "diff", "mine.yaml", "pack", "--format", "json"], 1);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let wanted = serde_json::json!({"left": "mine", "right": "pack", "options": [
        {"option": "scheduler.scorers.pack", "left": null, "right": {"stage": "pack", "weight": 1.0}},
        {"option": "heartbeat.grace", "left": "1m30s", "right": "40s"},
    ]});
    assert_eq!(said, wanted);
    let refused = dryrack(dir.path(), &["profile", "diff", "fifi", "mine.yaml"]).assert().code(2).get_output().clone();
    assert!(String::from_utf8(refused.stderr).expect("text").contains("did you mean `fifo`?"));
}

/// Runs a command beside a scenario on a trace. Neither the carried traces nor a cache can be found.
fn on_a_trace(dir: &Path, args: &[&str], data: Option<&Path>) -> Command {
    std::fs::write(dir.join("openb.yaml"), "scenario: On openb\ntrace: openb\n").expect("a folder of our own");
    let mut command = dryrack(dir, args);
    command.env("DRYRACK_CACHE", dir.join("cache"));
    data.map(|folder| command.env("DRYRACK_DATA", folder));
    command
}

fn a_scenario_whose_trace_is_not_here_is_not_run() {
    let dir = scenario();
    let output = on_a_trace(dir.path(), &["test", "openb.yaml"], None).assert().code(4).get_output().stdout.clone();
    let said = without_times(&String::from_utf8(output).expect("text"));
    for part in [" not run [] openb.yaml", "get it with `dryrack trace get openb`", "1 scenario: 1 not run []"] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
    // If another scenario did run, this one is not a failure, and counts as not run.
    let output = on_a_trace(dir.path(), &["test", "."], None).assert().code(0).get_output().stdout.clone();
    let said = without_times(&String::from_utf8(output).expect("text"));
    assert!(said.ends_with("2 scenarios, 3 runs: 2 passed, 1 not run []\n"), "{said}");
    let json = on_a_trace(dir.path(), &["check", "openb.yaml", "--format", "json"], None).assert().code(0);
    let said: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).expect("JSON");
    assert_eq!(said[0]["status"], "trace_missing");
    assert_eq!(said[0]["diagnostics"][0]["kind"], "trace_missing");
}

/// All missing data is reported in one line; with `--verbose`, in one line for each scenario.
fn what_was_not_run_for_want_of_data_is_told_in_one_line() {
    let dir = scenario();
    let file = "{format: swf, file: lists/x.swf}\nnodes: [{name: a, cpus: 256}]";
    for (number, trace) in ["openb", file, "openb"].into_iter().enumerate() {
        let text = format!("scenario: On a trace\ntrace: {trace}\n");
        std::fs::write(dir.path().join(format!("t{number}.yaml")), text).expect("a folder of our own");
    }
    let said = |args: &[&str]| {
        let output = on_a_trace(dir.path(), args, None).assert().code(0).get_output().stdout.clone();
        without_times(&String::from_utf8(output).expect("text"))
    };
    let line = "4 scenarios not run: openb, lists/x.swf are missing; get openb with `dryrack trace get openb`, or set \
                DRYRACK_DATA to a folder that contains them; --verbose shows which scenario needs which\n";
    let brief = said(&["test", "."]);
    assert!(brief.contains(line) && brief.matches("are missing").count() == 1, "{brief}");
    let verbose = said(&["test", ".", "--verbose"]);
    assert!(verbose.contains(line) && verbose.matches("is missing").count() == 4, "{verbose}");
    let json: serde_json::Value = serde_json::from_str(&said(&["test", ".", "--format", "json"])).expect("JSON");
    assert_eq!(json.to_string().matches(" is missing").count(), 4, "{json:#}");
}

/// Scenarios of objects that are left out, and the warnings that say so.
const LEFT_OUT: [(&str, &[&str]); 3] = [
    (
        "job-with-parallelism-0-makes-no-pods.yaml",
        &["the `parallelism` of the Job is 0, so it makes no pods: 1 object"],
    ),
    ("kueue-deactivated-workload-is-not-admitted.yaml", &["are each deactivated, so Kueue does not admit it"]),
    (
        "pod-being-deleted-keeps-its-gpus-for-its-grace-period.yaml",
        &["a pod on no node is being deleted: 1 object", "it is being deleted, so it makes no pods: 1 object"],
    ),
];

/// The committed scenarios cause no other warnings.
fn no_scenario_of_ours_is_warned_of() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut folders = vec![folder];
    let mut checked = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("it is there").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            // Scenarios on a whole trace take seconds, and have no fields that the others lack. Manifests are no scenarios.
            let is_left_out = matches!(name.as_str(), "traces" | "literature" | "theory" | "files" | "manifests");
            if path.is_dir() && !is_left_out {
                folders.push(path);
            } else if name.ends_with(".yaml") && !name.ends_with(".profile.yaml") && !name.ends_with(".part.yaml") {
                let said = dryrack_scenario::check(&path, &dryrack_scenario::Options::default());
                let known = LEFT_OUT.iter().find(|(file, _)| *file == name).map_or(&[][..], |(_, known)| known);
                let text = said.to_string();
                assert_eq!(text.matches("warning: ").count(), known.len(), "{text}");
                assert!(
                    known.iter().all(|known| text.contains(known)) && text.is_empty() == known.is_empty(),
                    "{text}"
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "{checked} were found");
}

fn a_trace_that_should_be_here_and_is_not_is_a_failure() {
    let dir = scenario();
    let data = empty();
    let output = on_a_trace(dir.path(), &["test", "."], Some(data.path())).assert().code(1).get_output().stdout.clone();
    let said = without_times(&String::from_utf8(output).expect("text"));
    assert!(said.contains("    FAIL [] ./openb.yaml"), "{said}");
    assert!(said.ends_with("2 scenarios, 3 runs: 2 passed, 1 failed []\n"), "{said}");
}

/// The counts are those of the trace's own notice: 51,987 rows, of which 28 have a negative run time and 100 a run time
/// of zero; 1,500 ran longer than they asked for. The dates are those of `UnixStartTime` and of the submissions of the
/// first and the twentieth row that is not left out, by `date -u -d @SECONDS`.
fn what_was_odd_in_a_trace_is_said() {
    let dir = empty();
    let text = "scenario: A day of Gaia\nnodes: [{name: wide, cpus: 4000}]\ntrace: {name: gaia, limit: 20}\n";
    std::fs::write(dir.path().join("gaia.yaml"), text).expect("a folder of our own");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = dir.path().join("gaia.yaml").display().to_string();
    let said = stdout(root, &["run", &file], 0);
    let wanted = "trace      gaia: 20 jobs of it are in this run; 51987 rows
           submitted from 2014-05-22 08:57:59 to 2014-05-26 16:18:51
           left out: 28 run time negative
           kept, but odd: 100 run for no time, 1500 ran longer than requested
";
    assert!(said.contains(wanted), "{wanted} in\n{said}");
    let said = stdout(root, &["run", &file, "--format", "json"], 0);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let wanted = serde_json::json!({
        "name": "gaia", "tasks": 20, "nodes": 0, "rows": 51_987, "kept": 51_959,
        "dates": {"first": "2014-05-22 08:57:59", "last": "2014-05-26 16:18:51"},
        "left_out": {"negative_run": 28}, "odd": {"zero_run": 100, "longer_than_requested": 1_500},
    });
    assert_eq!(said["trace"], wanted);
}

/// A log states that it began more than 500 years after 1970.
fn a_start_of_a_log_that_is_no_date_is_not_shown() {
    let dir = empty();
    let job = "1 0 -1 10 1 -1 -1 1 10 -1 1 1 1 1 1 -1 -1 -1\n";
    let dated = |start: &str| {
        let log = format!("; UnixStartTime: {start}\n; MaxProcs: 8\n{job}");
        std::fs::write(dir.path().join("h.swf"), log).expect("a folder of our own");
        let text = "scenario: One job\nnodes: [{name: a, cpus: 8}]\ntrace: {file: h.swf, format: swf}\n";
        std::fs::write(dir.path().join("h.yaml"), text).expect("a folder of our own");
        stdout(dir.path(), &["run", "h.yaml"], 0).contains("submitted from 2014-05-22 08:57:59")
    };
    assert!(dated("1400749079") && !dated("99999999999999999"));
    assert!(!stdout(dir.path(), &["run", "h.yaml"], 0).contains("submitted"));
}

/// A job runs for a second and starts again a second later, for an hour: far more than the 1,000 records that each job
/// may have.
const AGAIN: &str = "\
scenario: One that is started again and again
nodes: [{name: n, gpus: 1, gpu: l4}]
until: 1h
jobs:
  - {name: again, gpus: 1, duration: 1s, restart: always, retry: {first: 1s, max: 1s}}
expect: [{job: again, is: running, by: 1m}]
";

fn a_run_of_too_many_records_is_stopped_and_says_what_grew() {
    let dir = empty();
    std::fs::write(dir.path().join("again.yaml"), AGAIN).expect("a folder of our own");
    stdout(dir.path(), &["run", "again.yaml"], 0);
    let said = stderr(dir.path(), &["run", "again.yaml", "--max-records", "100", "--out", "out"], 2);
    assert!(said.starts_with("error: the run was stopped because it does not end: 11"), "{said}");
    for part in [" records by ", " are about `again`\n", "or type `--max-records 11"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert!(!dir.path().join("out/events.jsonl").exists(), "a log that is not whole was left");
    // The other files are still tested.
    std::fs::write(dir.path().join("fine.yaml"), AGAIN.replace("always", "never")).expect("a folder of our own");
    let said = stdout(dir.path(), &["test", ".", "--max-records", "100"], 2);
    assert!(said.contains("1 passed") && said.contains("does not end"), "{said}");
}
