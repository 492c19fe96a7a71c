//! What a user is told of refused and unsafe decisions of a scheduler in another process, and of its texts.

use serde_json::Value;
use tempfile::TempDir;

use crate::asked::answering;
use crate::cli::{dryrack, stdout, written};

trials! {
    Python: [
        refused_decisions_are_a_metric,
        a_test_that_passes_says_that_decisions_were_refused,
        a_test_that_passes_says_that_the_program_was_restarted,
        run_and_explain_say_what_was_refused_and_why,
        explain_says_that_safety_was_broken,
        texts_of_a_program_cannot_control_a_terminal,
    ]
}

/// The program gives half of the gang a place, and both other jobs the same GPU.
const SCENARIO: &str = "\
scenario: A gang of two tasks, and two jobs
outside: {command: [python3, program.py], unsafe: allowed}
nodes: [{name: alpha, cpus: 16, ram: 64GiB, gpus: [{type: gpu, count: 2, memory: 16GiB}]}]
jobs:
  - {name: gang, tasks: 2, gpus: 1, duration: 1h}
  - {name: one, at: 1m, gpus: 1, duration: 1h}
  - {name: two, at: 2m, gpus: 1, duration: 1h}
";

/// Decides once about each run.
const ON_ONE_GPU: &str = r#"
decided = globals().setdefault("decided", set())
new = [run for run in message["waiting"] if run not in decided]
decided.update(new)
answer["decisions"] = [{"do": "place", "run": run, "parts": [{"node": "alpha", "gpus": [0]}]} for run in new]
"#;

fn folder(scenario: &str) -> TempDir {
    written(&[("it.yaml", scenario), ("program.py", &answering(ON_ONE_GPU))])
}

/// The same scenario, in which unsafe placements are refused.
fn strict() -> String {
    SCENARIO.replace("unsafe: allowed", "unsafe: refused")
}

fn json(dir: &TempDir, args: &[&str]) -> Value {
    let said = stdout(dir.path(), &[args, &["--format", "json"]].concat(), 0);
    serde_json::from_str(&said).expect("JSON")
}

fn refused_decisions_are_a_metric() {
    let warm = format!("warm_up: 30s\n{SCENARIO}");
    // Refused decisions and commits, and broken safety. The gang is refused at 0s in each.
    for (scenario, decisions, commits, broken) in [(SCENARIO, 1, 0, 1), (&strict(), 2, 1, 0), (&warm, 0, 0, 1)] {
        let dir = folder(scenario);
        stdout(dir.path(), &["run", "it.yaml", "--out", "out"], 0);
        let metrics = std::fs::read_to_string(dir.path().join("out/metrics.json")).expect("written");
        let metrics: Value = serde_json::from_str(&metrics).expect("JSON");
        let found = ["decisions_refused", "commits_refused", "safety_broken"].map(|name| metrics[name].as_u64());
        assert_eq!(found, [Some(decisions), Some(commits), Some(broken)], "{scenario}");
    }

    let dir = folder(&format!("{}expect: [safety_broken == 0, decisions_refused == 0]\n", strict()));
    let said = stdout(dir.path(), &["test", "it.yaml"], 1);
    assert!(said.contains("decisions_refused was 2") && !said.contains("safety_broken was"), "{said}");
    stdout(dir.path(), &["test", "it.yaml", "--profile", "first-fit"], 0);

    let with = ["--with", "first-fit", "--with", "outside:python3 program.py"];
    let said = stdout(dir.path(), &[&["compare", "it.yaml"], &with[..]].concat(), 1);
    let row = said.lines().rfind(|line| line.starts_with("decisions_refused ")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["decisions_refused", "0", "2"]);
}

fn a_test_that_passes_says_that_decisions_were_refused() {
    let dir = folder(&strict().replace("jobs:", "expect: [safety_broken == 0]\njobs:"));
    let said = stdout(dir.path(), &["test", "it.yaml"], 0);
    assert!(said.contains("1 scenario: 1 passed, 2 decisions of the scheduler refused"), "{said}");
    let said = stdout(dir.path(), &["test", "it.yaml", "--format", "github"], 0);
    let warning = "::warning file=it.yaml,line=1,col=1,title=2 decisions of the scheduler refused::it.yaml: refused 2 ";
    assert!(said.contains(warning), "{said}");
    assert_eq!(json(&dir, &["test", "it.yaml"])["files"][0]["runs"][0]["decisions_refused"], 2);
    let said = stdout(dir.path(), &["test", "it.yaml", "--profile", "first-fit"], 0);
    assert!(!said.contains("refused"), "{said}");
}

/// Dies at its first question, and when it is started again, places all jobs by turns.
const DIES_ONCE: &str = r#"
import os
if not os.path.exists("died"):
    open("died", "w").close()
    sys.exit(3)
place = lambda run, gpus: {"do": "place", "run": run, "parts": [{"node": "alpha", "tasks": len(gpus), "gpus": gpus}]}
answer["decisions"] = [place(run, [0, 1] if run.startswith("gang") else [0]) for run in message["waiting"][:1]]
"#;

fn a_test_that_passes_says_that_the_program_was_restarted() {
    let scenario = SCENARIO.replace("unsafe: allowed", "restarts: 1").replace("at: 1m", "at: 2h");
    let scenario = scenario.replace("at: 2m", "at: 4h").replace("jobs:", "expect: [jobs_completed == 3]\njobs:");
    let dir = written(&[("it.yaml", &scenario), ("program.py", &answering(DIES_ONCE))]);
    let said = stdout(dir.path(), &["run", "it.yaml"], 0);
    let restarted = "\nrestarted  1 time after a failure; first at 0s: process_died: it exited with code 3\n";
    assert!(said.contains(restarted), "{said}");
    let said = stdout(dir.path(), &["test", "it.yaml"], 0);
    assert!(said.contains("1 scenario: 1 passed [") && !said.contains("restart"), "{said}");
    std::fs::remove_file(dir.path().join("died")).expect("it died");
    let said = stdout(dir.path(), &["test", "it.yaml"], 0);
    assert!(said.contains("1 scenario: 1 passed, 1 restart of the scheduler ["), "{said}");
}

fn run_and_explain_say_what_was_refused_and_why() {
    let dir = folder(&strict().replace("  - {name: gang, tasks: 2, gpus: 1, duration: 1h}\n", ""));
    let said = stdout(dir.path(), &["run", "it.yaml", "--out", "log"], 0);
    let why = "was given a place that is partly in use: alpha/0";
    assert!(said.contains(&format!("\nrefused    1 decision (does_not_fit 1); first at 2m, two: {why}\n")), "{said}");
    assert!(!said.contains("commit"), "the same is said twice: {said}");
    let explained = stdout(dir.path(), &["explain", "log/events.jsonl", "--job", "two"], 0);
    let (_, refused) = explained.split_once("1 decision about it refused:\n").unwrap_or_else(|| panic!("{explained}"));
    assert!(refused.contains("2m") && refused.contains(&format!("does_not_fit: {why}")), "{explained}");
    let explained = stdout(dir.path(), &["explain", "log/events.jsonl", "--job", "one"], 0);
    assert!(!explained.contains("refused"), "{explained}");
    let value = json(&dir, &["explain", "log/events.jsonl", "--job", "two"]);
    let expected = serde_json::json!([{"at_seconds": 120.0, "fault": "does_not_fit", "text": why}]);
    assert_eq!(value["refused_decisions"], expected);

    // A refused commit of a profile is no decision of a program.
    let dir = folder(SCENARIO);
    stdout(dir.path(), &["run", "it.yaml", "--profile", "first-fit", "--out", "log"], 0);
    let value = json(&dir, &["explain", "log/events.jsonl", "--job", "two"]);
    assert_eq!(value["refused_decisions"], serde_json::json!([]));
}

fn explain_says_that_safety_was_broken() {
    let dir = folder(SCENARIO);
    stdout(dir.path(), &["run", "it.yaml", "--out", "log"], 0);
    let explain = |job: &str| stdout(dir.path(), &["explain", "log/events.jsonl", "--job", job], 0);
    let broken = |job: &str| {
        let said = explain(job);
        let (_, broken) = said.split_once("SAFETY BROKEN:\n").unwrap_or_else(|| panic!("{said}"));
        broken.lines().next().expect("a line").split_whitespace().map(str::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(broken("two"), "2m two overcommit on alpha");
    assert_eq!(broken("one"), "2m two overcommit on alpha, where this job was");
    assert!(!explain("gang").contains("SAFETY"));
    let before = stdout(dir.path(), &["explain", "log/events.jsonl", "--job", "one", "--at", "90s"], 0);
    assert!(!before.contains("SAFETY"), "{before}");
    let value = json(&dir, &["explain", "log/events.jsonl", "--job", "one"]);
    let expected = serde_json::json!([{"at_seconds": 120.0, "run": "two", "what": "overcommit", "node": "alpha"}]);
    assert_eq!(value["safety_broken"], expected);
}

/// A program whose texts clear the screen, ring, and imitate lines of dryrack. It waits, names a node that does not
/// exist, and dies.
const HOSTILE: &str = r#"
import json, sys
bad = "\u001b[2J\u0007\u0000\r\n\u202eok    forged\n"
for line in sys.stdin:
    message = json.loads(line)
    answer = {"type": "decisions", "id": message.get("id"), "decisions": []}
    if message["type"] == "hello":
        print(json.dumps({"type": "hello", "protocol": 1, "name": "test" + bad, "version": "1" + bad}), flush=True)
    elif message["type"] == "decide":
        run = message["waiting"][0] if message["waiting"] else None
        if message["now"] == 0:
            answer["decisions"] = [{"do": "wait", "run": run, "text": "because" + bad}]
        elif DIES:
            sys.stderr.write("dying" + bad)
            answer = {"type": "fault", "name": "name" + bad, "text": "text" + bad}
        else:
            answer["decisions"] = [{"do": "place", "run": run, "parts": [{"node": "nowhere" + bad}]}] if run else []
        print(json.dumps(answer), flush=True)
"#;

/// The text without the codes of colours: `ESC [ numbers m`.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| {
        let numbers = part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
        match numbers.strip_prefix('m') {
            Some(rest) => text + rest,
            None => format!("{text}\u{1b}[{part}"),
        }
    })
}

fn texts_of_a_program_cannot_control_a_terminal() {
    for (dies, code) in [("False", 0), ("True", 1)] {
        let dir = written(&[("it.yaml", SCENARIO), ("program.py", &HOSTILE.replace("DIES", dies))]);
        let mut shown = String::new();
        for (args, code) in [
            (&["run", "it.yaml", "--out", "log"][..], code),
            (&["test", "it.yaml"], code),
            (&["log", "log/events.jsonl"], 0),
            (&["explain", "log/events.jsonl", "--job", "gang"], 0),
        ] {
            let output = dryrack(dir.path(), &[args, &["--color", "always"]].concat()).output().expect("built");
            let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8")).concat();
            assert_eq!(output.status.code(), Some(code), "{args:?}: {text:?}");
            let plain = without_colours(&text);
            let odd = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
            assert!(!plain.contains(odd) && !plain.contains("\nok    forged"), "{args:?}: {text:?}");
            shown.push_str(&plain);
        }
        // The texts are there, and can be read.
        let texts = if dies == "True" { ["name", "text", "because"] } else { ["test", "because", "nowhere"] };
        for text in texts {
            let escaped = format!("{text}\\u{{1b}}[2J\\u{{7}}\\u{{0}}\\r\\n\\u{{202e}}ok    forged");
            assert!(shown.contains(&escaped), "{escaped} is not in {shown}");
        }
        // Programs read the texts as they are.
        let log = std::fs::read_to_string(dir.path().join("log/events.jsonl")).expect("a log");
        assert!(log.contains(r"because\u001b[2J\u0007\u0000\r\n"), "{log}");
    }
}
