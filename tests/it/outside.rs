//! Tests of real schedulers in other processes: each is a Python program that a run starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::cli::{dryrack, empty, stderr, stdout};
use dryrack_event::OutsideFault;

trials! {
    SlowPython: [
        slow_a_program_that_never_comes_to_rest_ends_the_run,
    ]
    Python: [
        a_question_does_not_take_the_place_of_a_decision,
        what_is_merely_refused_has_its_name_in_the_log_and_the_run_goes_on,
        a_place_that_is_not_safe_is_carried_out_and_reported_unless_the_file_says_otherwise,
        a_toleration_is_no_safety_under_a_profile_without_taints,
        every_command_carries_out_what_is_not_safe,
        a_failed_process_ends_the_run_with_a_named_fault,
        the_errors_of_a_failed_process_are_shown,
        a_program_that_cannot_be_started_is_bad_input,
        a_program_that_listens_at_a_socket_decides_as_one_that_is_started,
        a_connection_that_ends_is_a_named_fault,
        a_fresh_process_takes_over_as_often_as_is_allowed,
        a_process_killed_at_every_tenth_message_leaves_a_whole_log,
        two_runs_with_the_same_program_give_the_same_log,
        thinking_is_charged_to_the_clock_if_the_file_says_so,
        faults_in_the_file_are_pointed_at,
        commands_that_start_no_program_refuse_such_a_file,
        the_example_decides_as_the_profile_first_fit_does,
        every_message_is_as_the_schema_says,
        all_of_the_protocol_is_used,
        the_transcript_of_the_page_is_of_a_real_run,
        the_page_names_every_fault,
    ]
}

const FAULTY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/outside.py");
const FIRST_FIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/outside/first_fit.py");
const PROTOCOL: &str = include_str!("../../docs/src/protocol.md");

/// Twelve jobs for four usable GPUs. Beta lacks a label that the jobs ask for, and gamma is not ready.
const SCENARIO: &str = "\
scenario: Twelve jobs on four GPUs
outside: {command: [python3, FAULTY, MODE], deadline: 2s, start: 20s}
nodes:
  - {name: alpha, labels: {zone: a}, cpus: 16, ram: 64GiB, gpus: [{type: gpu, count: 4, memory: 16GiB}]}
  - {name: beta, cpus: 16, ram: 64GiB, gpus: [{type: gpu, count: 4, memory: 16GiB}], state: maintenance}
  - {name: gamma, labels: {zone: a}, cpus: 16, ram: 64GiB, gpus: [{type: gpu, count: 4, memory: 16GiB}], state: not_ready}
jobs:
  - {name: job, count: 12, every: 10s, gpus: 1, labels: {zone: a}, duration: 55s}
expect: [{job: job-01, is: completed}]
";

pub fn python_is_here() -> bool {
    std::process::Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn scenario(mode: &str) -> String {
    SCENARIO.replace("FAULTY, MODE", &format!("{FAULTY}, {mode}"))
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("a folder of our own");
}

fn run(dir: &Path, args: &[&str]) -> Output {
    dryrack(dir, &[&["run", "it.yaml"], args].concat()).output().expect("built")
}

fn records(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log.join("events.jsonl")).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The faults of the program in a log: those of one decision, of the whole process, and of the control plane.
fn faults(records: &[Value]) -> Vec<String> {
    let name = |record: &Value| {
        let said = &record["input"]["outside"];
        let of = [&said["mistaken"]["fault"], &said["failed"]["fault"], &record["event"]["commit_refused"]["because"]];
        of.into_iter().find_map(Value::as_str).map(str::to_string)
    };
    records.iter().filter_map(name).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Mistakes about one decision. The run continues, and all jobs complete.
fn what_is_merely_refused_has_its_name_in_the_log_and_the_run_goes_on() {
    let modes = [
        ("unknown_run", "unknown_run"),
        ("unknown_job", "unknown_job"),
        ("unknown_node", "unknown_node"),
        ("unknown_gpu", "unknown_gpu"),
        ("unknown_gpu_far", "unknown_gpu"),
        ("unknown_block", "misshapen"),
        ("unknown_reason", "unknown_reason"),
        ("decided_twice", "decided_twice"),
        ("misshapen", "misshapen"),
        ("misshapen_gpus", "misshapen"),
        ("misshapen_tasks", "misshapen"),
        ("place_not_ready", "place_not_ready"),
        ("not_running", "not_running"),
        ("not_waiting", "not_waiting"),
        ("in_the_past", "in_the_past"),
    ];
    for (mode, fault) in modes {
        let dir = empty();
        write(dir.path(), "it.yaml", &scenario(mode).replace("deadline:", "unsafe: refused, deadline:"));
        let output = run(dir.path(), &["--out", "log"]);
        assert_eq!(output.status.code(), Some(0), "{mode}: {}", text(&output.stderr));
        let records = records(&dir.path().join("log"));
        assert_eq!(faults(&records).first().map(String::as_str), Some(fault), "{mode}");
        stdout(dir.path(), &["replay", "log/events.jsonl"], 0);
    }
}

/// Two jobs are given one GPU, a job is given a node without its label, two tasks that must be spread are given one node, and
/// a job is given a node that is not ready.
fn a_place_that_is_not_safe_is_carried_out_and_reported_unless_the_file_says_otherwise() {
    let rows = [
        ("does_not_fit", "overcommit"),
        ("unmet", "requirement_unmet"),
        ("gang_torn", "gang_torn"),
        ("place_not_ready", "not_ready"),
    ];
    for (mode, broken) in rows {
        let demand = if mode == "gang_torn" { "gpus: 1, tasks: 2, gang: spread" } else { "gpus: 1" };
        for (setting, allowed) in [("", true), ("unsafe: allowed, ", true), ("unsafe: refused, ", false)] {
            let dir = empty();
            let text_of =
                scenario(mode).replace("every: 10s", "every: 0s").replace("state: maintenance", "state: ready");
            let text_of = text_of.replace("deadline:", &format!("{setting}deadline:")).replace("gpus: 1", demand);
            write(dir.path(), "it.yaml", &text_of);
            let output = run(dir.path(), &["--out", "log"]);
            let records = records(&dir.path().join("log"));
            let is_broken = records.iter().any(|record| record["event"]["safety_broken"]["what"] == broken);
            assert_eq!(is_broken, allowed, "{mode}: {}", text(&output.stderr));
            let is_refused = faults(&records).iter().any(|fault| fault == mode);
            assert_eq!(is_refused, !allowed, "{mode}: {:?}", faults(&records));
            if allowed && mode == "place_not_ready" {
                let placed = records.iter().find_map(|record| record["event"]["safety_broken"]["run"]["job"].as_str());
                let args = ["explain", "log/events.jsonl", "--job", placed.expect("a job"), "--at", "1s"];
                let said = stdout(dir.path(), &args, 0);
                assert!(said.contains("; not suitable: gamma (node_"), "{said}");
            }
            let tested = dryrack(dir.path(), &["test", "it.yaml"]).output().expect("built");
            let said = text(&tested.stdout) + &text(&tested.stderr);
            assert_eq!(said.contains("safety broken"), allowed, "{mode}: {said}");
            stdout(dir.path(), &["replay", "log/events.jsonl"], 0);
        }
    }
}

/// A state of a node is a taint only under a profile of kube-scheduler, so under others a pod that tolerates all taints is as
/// unsafe there as any job.
fn a_toleration_is_no_safety_under_a_profile_without_taints() {
    for tolerations in ["[]", "[{operator: Exists}]"] {
        let dir = empty();
        let pod = |name: &str| {
            let limits = "{limits: {nvidia.com/gpu: 1}}";
            format!(
                "  - apiVersion: v1\n    kind: Pod\n    metadata: {{name: {name}}}\n    spec:\n      \
                 tolerations: {tolerations}\n      containers: [{{name: main, resources: {limits}}}]\n"
            )
        };
        let fleet = scenario("place_not_ready").replace("deadline:", "unsafe: allowed, deadline:");
        let fleet = fleet.split("jobs:").next().expect("the fleet comes first").to_string();
        write(dir.path(), "it.yaml", &format!("{fleet}manifests:\n{}{}", pod("one"), pod("two")));
        let output = run(dir.path(), &["--out", "log"]);
        let records = records(&dir.path().join("log"));
        let broken = records.iter().filter_map(|record| record["event"]["safety_broken"]["what"].as_str());
        assert_eq!(broken.collect::<Vec<_>>(), ["not_ready"], "{tolerations}: {}", text(&output.stderr));
    }
}

/// The same program and the same rule, whichever command starts it: the expectation of safety fails.
fn every_command_carries_out_what_is_not_safe() {
    let dir = empty();
    let program = format!("python3 {FAULTY} does_not_fit");
    let own: String =
        scenario("good").lines().filter(|line| !line.starts_with("outside:")).fold(String::new(), |text, line| {
            match line.starts_with("expect:") {
                true => text + "expect: [{name: safe, count: safety_broken, is: 0}]\n",
                false => text + &line.replace("every: 10s", "every: 0s") + "\n",
            }
        });
    let reproduced = format!(
        "{own}reproduces: [{{outside: {program}, fails: [safe], and: [{{count: safety_broken, is: \">= 1\"}}]}}]\n"
    );
    write(dir.path(), "own.yaml", &own);
    write(dir.path(), "reproduced.yaml", &reproduced);
    stdout(dir.path(), &["test", "own.yaml"], 0);
    stdout(dir.path(), &["test", "reproduced.yaml"], 0);
    let tested = stdout(dir.path(), &["test", "own.yaml", "--outside", &program], 1);
    assert!(tested.contains("FAIL") && tested.contains("safe"), "{tested}");
    let ran = stdout(dir.path(), &["run", "own.yaml", "--outside", &program], 1);
    assert!(ran.contains("safety broken"), "{ran}");
    let with = format!("outside:{program}");
    let compared = stdout(dir.path(), &["compare", "own.yaml", "--with", "first-fit", "--with", &with], 1);
    let row = compared.lines().find(|line| line.starts_with("safe ")).expect("the expectation has a row");
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["safe", "holds", "fails"], "{compared}");
}

/// Mistakes of the whole process. The run ends with the fault's name, exit code 1 and a complete log.
fn a_failed_process_ends_the_run_with_a_named_fault() {
    let modes = [
        ("wrong_protocol", "wrong_protocol"),
        ("deadline_missed", "deadline_missed"),
        ("half_line", "half_line"),
        ("not_json", "not_json"),
        ("not_a_message", "not_a_message"),
        ("wrong_id", "wrong_id"),
        ("repeated_id", "repeated_id"),
        ("flood", "flood"),
        ("flood_of_decisions", "flood"),
        ("process_died", "process_died"),
        ("given_up", "given_up"),
    ];
    modes.iter().for_each(|(mode, fault)| ends_the_run(mode, fault));
    // Only a kube-scheduler, which speaks no lines, can ignore a selector.
    let of_lines = |fault: &&OutsideFault| fault.is_fatal() && **fault != OutsideFault::SelectorIgnored;
    let every: BTreeSet<&str> = OutsideFault::ALL.iter().filter(of_lines).map(|fault| fault.name()).collect();
    let tested: BTreeSet<&str> = modes.iter().map(|(_, fault)| *fault).chain(["not_started", "standstill"]).collect();
    assert_eq!(every, tested, "each fault has its row");
}

/// A program that stops and places the same jobs forever is asked ten thousand times.
fn slow_a_program_that_never_comes_to_rest_ends_the_run() {
    ends_the_run("standstill", "standstill");
}

fn ends_the_run(mode: &str, fault: &str) {
    let dir = empty();
    write(dir.path(), "it.yaml", &scenario(mode));
    let output = run(dir.path(), &["--out", "log"]);
    assert_eq!(output.status.code(), Some(1), "{mode}: {}", text(&output.stderr));
    assert!(text(&output.stderr).contains(&format!("{fault}: the outside scheduler")), "{}", text(&output.stderr));
    let records = records(&dir.path().join("log"));
    assert_eq!(faults(&records).last().map(String::as_str), Some(fault), "{mode}");
    assert!(records.last().is_some_and(|last| last.get("footer").is_some()), "{mode}: the log has no end");
    stdout(dir.path(), &["replay", "log/events.jsonl"], 0);
}

/// The program's standard error is shown, and a test in which the program fails is a failed test.
fn the_errors_of_a_failed_process_are_shown() {
    let dir = empty();
    write(dir.path(), "it.yaml", &scenario("process_died"));
    let said = stderr(dir.path(), &["run", "it.yaml"], 1);
    assert!(said.contains("it exited with code 3") && said.contains("| no more memory"), "{said}");
    let tested = stdout(dir.path(), &["test", "it.yaml"], 1);
    assert!(
        tested.contains("FAIL") && tested.contains("process_died") && tested.contains("no more memory"),
        "{tested}"
    );
}

fn a_program_that_cannot_be_started_is_bad_input() {
    let dir = empty();
    write(dir.path(), "it.yaml", &scenario("good").replace("python3", "no-such-program"));
    let said = stderr(dir.path(), &["run", "it.yaml"], 2);
    assert!(said.contains("could not be started: no-such-program"), "{said}");
    stdout(dir.path(), &["test", "it.yaml"], 2);
    let rows = [
        ("--outside=", "the command is empty"),
        ("--outside=python3 'x", "a quotation mark ' is not closed"),
        ("--outside=gpustack==0.0.1", "gpustack==0.0.1"),
        ("--outside=unix:", "`unix:` names no socket"),
        ("--outside=unix:a.sock --fast", "`unix:` names no socket"),
    ];
    for (typed, wanted) in rows {
        let said = stderr(dir.path(), &["run", "it.yaml", typed], 2);
        assert!(said.contains(wanted), "{said}");
    }
}

/// Starts first fit as a program that listens at the socket `it.sock`, and waits until it says so.
fn listening(dir: &Path, runs: u32) -> std::process::Child {
    let (example, ours) = (Path::new(FIRST_FIT).parent().expect("a folder"), dir.join("it.sock"));
    let code = format!(
        "import sys; sys.path.insert(0, {example:?}); import first_fit as it; \
         it.outside.listen({ours:?}, 'first-fit', '1.0', it.decide, runs={runs})"
    );
    let mut line = std::process::Command::new("python3");
    let mut program = line.args(["-B", "-c", &code]).stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut said = std::io::BufReader::new(program.stderr.take().expect("it is piped"));
    let mut first = String::new();
    std::io::BufRead::read_line(&mut said, &mut first).expect("a line");
    assert!(first.starts_with("first-fit 1.0 listens at ") && first.ends_with("it.sock\n"), "{first}");
    program
}

fn a_program_that_listens_at_a_socket_decides_as_one_that_is_started() {
    let dir = empty();
    write(dir.path(), "it.yaml", &scenario("good"));
    let command = format!("python3 -B {FIRST_FIT}");
    stdout(dir.path(), &["run", "it.yaml", "--outside", &command, "--out", "started"], 0);
    let mut program = listening(dir.path(), 3);
    stdout(dir.path(), &["run", "it.yaml", "--outside", "unix:it.sock", "--out", "listens"], 0);
    let own = scenario("good").replace(&format!("[python3, {FAULTY}, good]"), "\"unix:it.sock\"");
    assert!(own.contains("unix:it.sock"), "{own}");
    write(dir.path(), "own.yaml", &own);
    stdout(dir.path(), &["test", "own.yaml"], 0);
    stdout(dir.path(), &["run", "own.yaml", "--out", "named"], 0);
    assert!(program.wait().expect("it ends").success());
    // The headers hold the text of the scenario.
    let log = |folder: &str| {
        let mut records = records(&dir.path().join(folder));
        (records.pop().expect("a footer")["footer"]["digest"].clone(), records.split_off(1))
    };
    assert!(log("started") == log("listens") && log("started") == log("named"), "they decide otherwise");
    let said = stderr(dir.path(), &["run", "own.yaml"], 2);
    assert!(said.contains("could not be started: unix:it.sock: there is no such socket"), "{said}");
}

fn a_connection_that_ends_is_a_named_fault() {
    let dir = empty();
    write(dir.path(), "it.yaml", &scenario("good"));
    let listener = std::os::unix::net::UnixListener::bind(dir.path().join("it.sock")).expect("a socket");
    // It is closed at the first message, without an answer.
    let closing = std::thread::spawn(move || {
        let (connection, _) = listener.accept().expect("a connection");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(connection), &mut line).expect("a line");
        line
    });
    let output = run(dir.path(), &["--outside", "unix:it.sock", "--out", "log"]);
    assert!(closing.join().expect("it ends").contains("\"hello\""));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(said.contains("process_died") && said.contains("it closed the connection"), "{said}");
    std::fs::remove_file(dir.path().join("it.sock")).expect("removed");
    std::fs::write(dir.path().join("it.sock"), "").expect("written");
    let said = stderr(dir.path(), &["run", "it.yaml", "--outside", "unix:it.sock"], 2);
    assert!(said.contains("no program listens there"), "{said}");
}

/// A process that dies at any message is replaced, and the run completes.
fn a_fresh_process_takes_over_as_often_as_is_allowed() {
    let dir = empty();
    let text_of = scenario("killed, \"15\"").replace("deadline:", "restarts: 9, deadline:");
    write(dir.path(), "it.yaml", &text_of);
    let output = run(dir.path(), &["--out", "log"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let records = records(&dir.path().join("log"));
    let failed: Vec<&Value> =
        records.iter().map(|record| &record["input"]["outside"]["failed"]).filter(|it| !it.is_null()).collect();
    assert!(!failed.is_empty() && failed.iter().all(|failed| failed["restarted"] == true), "{failed:?}");
    stdout(dir.path(), &["replay", "log/events.jsonl"], 0);
}

/// The process is killed at every tenth message. The run ends with a named fault, and the log is complete and can be
/// replayed.
fn a_process_killed_at_every_tenth_message_leaves_a_whole_log() {
    let mut killed = 0;
    for at in (10..).step_by(10) {
        let dir = empty();
        write(dir.path(), "it.yaml", &scenario(&format!("killed, \"{at}\"")));
        let output = run(dir.path(), &["--out", "log"]);
        stdout(dir.path(), &["replay", "log/events.jsonl"], 0);
        let records = records(&dir.path().join("log"));
        if output.status.code() == Some(0) {
            break;
        }
        killed += 1;
        assert_eq!(output.status.code(), Some(1), "{at}: {}", text(&output.stderr));
        assert_eq!(faults(&records), ["process_died"], "{at}");
        let said = text(&output.stderr);
        assert!(said.contains("process_died: the outside scheduler died") && said.contains("signal 9"), "{said}");
    }
    assert!(killed >= 3, "it was killed {killed} times");
}

fn two_runs_with_the_same_program_give_the_same_log() {
    let dir = empty();
    write(dir.path(), "it.yaml", &scenario("good"));
    for log in ["one", "two"] {
        assert_eq!(run(dir.path(), &["--out", log]).status.code(), Some(0));
    }
    let read = |log: &str| std::fs::read(dir.path().join(log).join("events.jsonl")).expect("a log");
    assert!(read("one") == read("two"), "the logs differ");
    let shown = text(&run(dir.path(), &[]).stdout);
    assert!(shown.contains("decided by test 1"), "{shown}");
}

/// If thinking time is charged, decisions come later, and are the same in each run.
fn thinking_is_charged_to_the_clock_if_the_file_says_so() {
    let rows = [("none", 0), ("250ms", 250_000_000), ("stated", 0)];
    for (thinking, nanos) in rows {
        let dir = empty();
        write(
            dir.path(),
            "it.yaml",
            &scenario("good").replace("deadline:", &format!("thinking: {thinking}, deadline:")),
        );
        assert_eq!(run(dir.path(), &["--out", "log"]).status.code(), Some(0));
        let records = records(&dir.path().join("log"));
        let first = records.iter().find(|record| !record["event"]["placed"].is_null()).expect("a place");
        assert_eq!(first["at_ns"], nanos, "{thinking}");
        stdout(dir.path(), &["replay", "log/events.jsonl"], 0);
    }
    let dir = empty();
    write(dir.path(), "it.yaml", &scenario("good").replace("deadline:", "thinking: measured, deadline:"));
    assert_eq!(run(dir.path(), &["--out", "log"]).status.code(), Some(0));
    stdout(dir.path(), &["replay", "log/events.jsonl"], 0);
}

/// Faults in the file, each marked with a caret.
fn faults_in_the_file_are_pointed_at() {
    let rows = [
        ("outside: {command: \"python3 'x\"}", "a quotation mark"),
        ("outside: {}", "lacks `command`"),
        ("outside: {command: []}", "the command is empty"),
        ("outside: {comand: [x]}", "unknown key `comand`"),
        ("outside: {command: [x], deadline: 0s}", "with a `deadline` of 0, no answer is possible"),
        ("outside: {command: [x], deadline: soon}", "soon"),
        ("outside: {command: [x], thinking: hard}", "a value of `thinking`"),
        ("outside: {command: [x], unsafe: maybe}", "maybe"),
        ("outside: {command: [x], restarts: -1}", "-1"),
        ("outside: {command: [x], driver: 3}", "expected a map of settings"),
        ("outside: {command: \"gpustack==0.0.1\"}", "gpustack==0.0.1"),
    ];
    for (line, wanted) in rows {
        let dir = empty();
        let text_of: Vec<String> = scenario("good")
            .lines()
            .map(|found| if found.starts_with("outside:") { line.to_string() } else { found.to_string() })
            .collect();
        write(dir.path(), "it.yaml", &text_of.join("\n"));
        let said = stderr(dir.path(), &["run", "it.yaml"], 2);
        assert!(said.contains(wanted) && said.contains("it.yaml:2:") && said.contains('^'), "{line}: {said}");
    }
}

/// A command that starts no program refuses the file instead of deciding in place of the program.
fn commands_that_start_no_program_refuse_such_a_file() {
    let for_any = empty();
    let text_of = scenario("good").replace(&format!("command: [python3, {FAULTY}, good]"), "driver: {a: 1}");
    write(for_any.path(), "it.yaml", &text_of);
    // Data for programs that are named elsewhere: the profile decides.
    stdout(for_any.path(), &["select", "it.yaml", "--job", "job-01"], 0);
    stdout(for_any.path(), &["test", "it.yaml"], 0);
    stdout(for_any.path(), &["test", "it.yaml", "--outside", &format!("python3 {FAULTY} good")], 0);
    let dir = empty();
    write(dir.path(), "it.yaml", &scenario("good"));
    stdout(dir.path(), &["check", "it.yaml"], 0);
    for args in [&["bench", "it.yaml"][..], &["live", "it.yaml"], &["select", "it.yaml", "--job", "job-01"]] {
        let said = stderr(dir.path(), args, 2);
        assert!(said.contains("cannot start a scheduler in another process"), "{args:?}: {said}");
    }
    // If a profile is named, it decides.
    stdout(dir.path(), &["run", "it.yaml", "--profile", "first-fit"], 0);
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Scenarios with tasks only, in which the example decides like the profile.
const AGREE: [&str; 14] = [
    "basics/gang-loses-a-member.yaml",
    "basics/labels-missing-and-wrong.yaml",
    "basics/mac-beside-a100s.yaml",
    "basics/node-lost-with-its-replicas.yaml",
    "basics/one-bad-gpu-of-eight.yaml",
    "basics/shares-of-one-gpu.yaml",
    "operations/batch-start-and-stop-twice.yaml",
    "operations/degraded-gpu-is-taken-last.yaml",
    "operations/drain-for-maintenance.yaml",
    "operations/monday-morning-burst.yaml",
    "queues/first-fit.yaml",
    "queues/priority-preemption.yaml",
    "queues/quotas-under-fgd.yaml",
    "queues/tiresias-after-a-failure.yaml",
];

/// The time, the run and the place of each placement.
fn placed(log: &Path) -> Vec<(u64, Value, Value)> {
    let of = |record: &Value| {
        let placed = record["event"].get("placed")?;
        Some((record["at_ns"].as_u64()?, placed["run"].clone(), placed["placement"].clone()))
    };
    records(log).iter().filter_map(of).collect()
}

fn the_example_decides_as_the_profile_first_fit_does() {
    let example = format!("--outside=python3 {FIRST_FIT}");
    let mut placements = 0;
    for file in AGREE {
        let dir = empty();
        let file = root().join("scenarios").join(file).display().to_string();
        for (log, extra) in [("profile", None), ("example", Some(example.as_str()))] {
            let mut args = vec!["run", &file, "--profile", "first-fit", "--out", log];
            args.extend(extra);
            let output = dryrack(dir.path(), &args).output().expect("built");
            assert!(matches!(output.status.code(), Some(0 | 1)), "{file}: {}", text(&output.stderr));
            assert!(!text(&output.stderr).contains("the outside scheduler"), "{file}: {}", text(&output.stderr));
            stdout(dir.path(), &["replay", &format!("{log}/events.jsonl")], 0);
        }
        let [one, two] = ["profile", "example"].map(|log| placed(&dir.path().join(log)));
        assert_eq!(one, two, "{file}");
        placements += one.len();
    }
    assert!(placements > 100, "{placements}");
}

pub fn validator(part: &str) -> jsonschema::Validator {
    let mut schema: Value = serde_json::from_str(dryrack_outside::SCHEMA).expect("JSON");
    schema["anyOf"] = serde_json::json!([{"$ref": format!("#/$defs/{part}")}]);
    jsonschema::draft202012::new(&schema).expect("a schema")
}

/// Every message is valid in the transcripts of scenarios with tasks, models and instances. A job has the speeds of its
/// scenario, in millionths.
fn every_message_is_as_the_schema_says() {
    let (to, from) = (validator("to_program"), validator("from_program"));
    let mut kinds = BTreeSet::new();
    let files = ["basics/shares-of-one-gpu.yaml", "basics/mac-beside-a100s.yaml", "queues/room-on-its-way.yaml"];
    let mut speeds = BTreeSet::new();
    for file in files.into_iter().chain(["hardware/fastest-first.yaml"]) {
        let dir = empty();
        let file = root().join("scenarios").join(file).display().to_string();
        let example = format!("python3 {FIRST_FIT}");
        let args = ["run", &file, "--until", "1h", "--outside", &example, "--transcript", "transcript"];
        let output = dryrack(dir.path(), &args).output().expect("built");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{file}: {}", text(&output.stderr));
        let transcript = std::fs::read_to_string(dir.path().join("transcript")).expect("written");
        for line in transcript.lines() {
            let message: Value = serde_json::from_str(&line[2..]).expect("JSON");
            let validator = if line.starts_with('>') { &to } else { &from };
            let faults: Vec<String> = validator.iter_errors(&message).map(|fault| format!("{fault}")).collect();
            assert!(faults.is_empty(), "{file}: {faults:?}: {line}");
            let jobs = message["jobs"].as_array().into_iter().flatten();
            speeds.extend(jobs.map(|job| job["speeds"].to_string()));
            kinds.insert((line.starts_with('>'), message["type"].as_str().expect("a type").to_string()));
        }
    }
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    assert!(speeds.contains("null"), "{speeds:?}");
    assert!(speeds.contains(r#"{"a100-80g":1000000,"h100-80g":2000000,"l40s":500000}"#), "{speeds:?}");
}

const ALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/outside_all.py");
const COPIED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/outside");

/// Preemption, reasons to wait, cancellation by the program's choice and for idle GPUs, answers to questions, and a
/// requested time for the next question.
const TASKS: &str = "\
scenario: All that a program can say of tasks
profile: first-fit
until: 2h
policies: {utilization: {min_gpu_utilization: 50%, time_window: 10m, mode: observe}}
nodes: [{name: alpha, cpus: 16, ram: 64GiB, gpus: [{type: gpu, count: 2, memory: 16GiB}]}]
jobs:
  - {name: low, gpus: 2, duration: 30m, usage: 90%}
  - {name: unwanted, gpus: 2, at: 1s, duration: 1h}
  - {name: high, gpus: 2, at: 1m, priority: 5, duration: 1m, usage: 90%}
  - {name: idle, gpus: 1, at: 40m, duration: 1h, usage: 0%}
expect:
  - {job: unwanted, is: cancelled, by: 5s}
  - {job: high, is: running, within: 0s}
  - {job: high, is: completed, by: 2m1s}
  - {job: low, is: completed, by: 33m}
  - {job: idle, is: expired, because: utilization_policy, by: 42m}
  - {evaluate: idle, is: unfit, because: insufficient_gpus, at: 1s}
  - {evaluate: idle, is: fits, at: 39m}
";

/// Instances that are created for a placement, that are shared by blocks, and that are created for a job of several
/// nodes.
const INSTANCES: &str = "\
scenario: Instances are made for what a program places on them
until: 2h
fleets:
  burst:
    placement: cluster
    nodes: 0..6
    idle_duration: 5m
    disk: 500GiB
    backend: gcp
    region: us-1
    offers:
      - {name: l4, machine: l4-x1, price_per_hour: 0.80, available: 2, provisioning: 3m}
      - {name: a100, machine: a100-80g-x8, price_per_hour: 32, blocks: 8, provisioning: 5m}
jobs:
  - {name: many, count: 4, duration: 10m, resources: {gpu: 1}}
  - {name: gang, at: 1h, nodes: 2, duration: 10m, resources: {gpu: 8}}
expect:
  - {job: many-0, is: running, on: burst-l4-0, from: 3m, for: 9m}
  # Until an instance is up, it is for nothing else.
  - {job: many-3, is: running, on: burst-a100-1, from: 5m, for: 9m}
  - {job: gang, is: running, from: 1h5m, for: 9m}
  - {job: gang, is: completed, by: 1h16m}
";

const MODELS: &str = "\
scenario: Two models on one machine
profile: gpustack
until: 1h
nodes: [{name: server, machine: a100-80g-x2}]
jobs:
  - {name: one, model: qwen3-32b, at: 1s}
  - {name: two, model: qwen3-32b, at: 2s}
expect:
  - {job: one, is: running, by: 10m}
  - {job: two, is: running, by: 10m}
";

/// A program that uses `dryrack_outside.py` sends every message and every field of the protocol.
fn all_of_the_protocol_is_used() {
    let (to, from) = (validator("to_program"), validator("from_program"));
    for (name, scenario) in [("tasks", TASKS), ("instances", INSTANCES), ("models", MODELS)] {
        let dir = empty();
        write(dir.path(), "it.yaml", scenario);
        let all = format!("python3 {ALL} {COPIED}");
        let output = run(dir.path(), &["--outside", &all, "--out", "log", "--transcript", "transcript"]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{name}: {said}");
        stdout(dir.path(), &["replay", "log/events.jsonl"], 0);
        for line in std::fs::read_to_string(dir.path().join("transcript")).expect("written").lines() {
            let message: Value = serde_json::from_str(&line[2..]).expect("JSON");
            let validator = if line.starts_with('>') { &to } else { &from };
            let faults: Vec<String> = validator.iter_errors(&message).map(|fault| fault.to_string()).collect();
            assert!(faults.is_empty(), "{name}: {faults:?}: {line}");
        }
    }
}

/// The code block that follows a mark on the page.
fn block(mark: &str) -> String {
    let behind = PROTOCOL.split_once(mark).expect("the mark").1;
    let begun = behind.split_once("```").expect("a block").1.split_once('\n').expect("its lines").1;
    begun.split_once("```").expect("its end").0.to_string()
}

fn the_transcript_of_the_page_is_of_a_real_run() {
    let dir = empty();
    write(dir.path(), "it.yaml", &block("<!-- scenario -->"));
    let example = format!("python3 {FIRST_FIT}");
    stdout(dir.path(), &["run", "it.yaml", "--outside", &example, "--transcript", "transcript"], 0);
    let real = std::fs::read_to_string(dir.path().join("transcript")).expect("written");
    if std::env::var_os("DRYRACK_UPDATE").is_some() {
        let page = root().join("docs/src/protocol.md");
        let text_of = PROTOCOL.replace(&block("<!-- transcript -->"), &real);
        std::fs::write(page, text_of).expect("a working tree");
        return;
    }
    assert_eq!(block("<!-- transcript -->"), real);
}

/// The Python file and the schema have the version of the protocol, and the page names every fault.
fn the_page_names_every_fault() {
    for fault in OutsideFault::ALL {
        assert!(PROTOCOL.contains(&format!("`{}`", fault.name())), "{}", fault.name());
    }
}

/// If the scenario asks a question at the instant of a submission, the program learns of the job from this question.
/// The decision about the job is still requested.
fn a_question_does_not_take_the_place_of_a_decision() {
    let dir = empty();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scenario = "\
scenario: Asked whether it fits, and submitted, at one instant
outside: {command: [python3, PROGRAM], deadline: 5s, start: 20s}
nodes: [{name: a, gpus: 1, gpu: l4}]
jobs: [{name: now, gpus: 1, duration: 1m}, {name: later, at: 5m, gpus: 1, duration: 1m}]
expect:
  - {evaluate: now, is: fits}
  - {evaluate: later, is: fits, at: 5m}
  - {job: now, is: running, by: 1s}
  - {job: later, is: running, by: 5m1s}
";
    let program = "\
import sys
sys.path.insert(0, 'FOLDER')
import dryrack_outside as outside

def decide(world):
    return [outside.place(run, [{'node': 'a', 'gpus': [0]}]) for run in world.waiting()]

outside.serve('now', '1', decide, lambda world, job: {'fits': True})
";
    write(dir.path(), "program.py", &program.replace("FOLDER", &folder.join("src/outside").display().to_string()));
    write(dir.path(), "it.yaml", &scenario.replace("PROGRAM", &dir.path().join("program.py").display().to_string()));
    let output = run(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
}
