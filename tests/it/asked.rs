//! When a scheduler in another process is asked again, and what a user reads of its mistakes.

use std::path::Path;

use crate::cli::{dryrack, empty, stderr, stdout};

trials! {
    Python: [
        a_program_is_asked_again_until_the_end_that_the_file_states,
        refused_decisions_are_named_by_run_and_explain,
    ]
}

/// A scheduler in Python that sets `answer["decisions"]` in these lines, which may read `message`.
pub fn answering(lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("        {line}\n")).collect();
    format!(
        r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        print('{{"type":"hello","protocol":1,"name":"test","version":"1"}}', flush=True)
    elif message["type"] == "decide":
        answer = {{"type": "decisions", "id": message["id"]}}
{lines}        print(json.dumps(answer), flush=True)
"#
    )
}

/// Asks to be called every hour, and places the job at the thirtieth.
const HOURLY: &str = r#"
now, hour = message["now"], 3600 * 10**9
place = {"do": "place", "run": "job/0/1", "parts": [{"node": "alpha", "gpus": [0]}]}
answer["decisions"] = [place] if now == 30 * hour and message["waiting"] else []
answer["wake_at"] = now + hour
"#;

/// Places the job on a node that does not exist, then where it fits.
const MISTAKEN: &str = r#"
node = "alpha" if message["id"] > 2 else "nowhere"
place = {"do": "place", "run": "job/0/1", "parts": [{"node": node, "gpus": [0]}]}
answer["decisions"] = [place] if message["waiting"] else []
"#;

fn write(dir: &Path, program: &str, until: &str) {
    let text = format!(
        "scenario: One job\nuntil: {until}\noutside: {{command: [python3, program.py]}}\n\
         nodes: [{{name: alpha, cpus: 16, ram: 64GiB, gpus: [{{type: gpu, count: 4, memory: 16GiB}}]}}]\n\
         jobs: [{{name: job, gpus: 1, duration: 1h}}]\n"
    );
    let text = if until.is_empty() { text.replace("until: \n", "") } else { text };
    std::fs::write(dir.join("it.yaml"), text).expect("a folder of our own");
    std::fs::write(dir.join("program.py"), answering(program)).expect("a folder of our own");
}

fn a_program_is_asked_again_until_the_end_that_the_file_states() {
    let dir = empty();
    write(dir.path(), HOURLY, "48h");
    let said = stdout(dir.path(), &["run", "it.yaml", "--out", "log"], 0);
    assert!(said.contains("1 completed"), "{said}");
    let log = stdout(dir.path(), &["log", "log/events.jsonl", "--job", "job"], 0);
    assert!(log.lines().any(|line| line.contains("1d6h") && line.contains("placed")), "{log}");
    stdout(dir.path(), &["replay", "log/events.jsonl"], 0);

    // Without an end, the run would go on for ever.
    write(dir.path(), HOURLY, "");
    let output = dryrack(dir.path(), &["run", "it.yaml"]).output().expect("built");
    let (said, noted) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // It was asked once an hour until the 25th, and the job waited all the time.
    assert!(said.contains("1d01h simulated"), "{said}");
    assert!(said.contains("1 still waiting"), "{said}");
    assert!(said.contains("job still waits after 1d01h"), "{said}");
    assert!(noted.contains("the scheduler asked to be called at 1d2h"), "{noted}");
    assert!(noted.contains("`until:`"), "{noted}");
}

fn refused_decisions_are_named_by_run_and_explain() {
    let dir = empty();
    write(dir.path(), MISTAKEN, "48h");
    let said = stdout(dir.path(), &["run", "it.yaml", "--out", "log"], 0);
    let refused = said.lines().find(|line| line.starts_with("refused")).unwrap_or_else(|| panic!("{said}"));
    assert!(refused.contains("2 decisions (unknown_node 2); first at 0s, job: "), "{refused}");
    assert!(refused.contains("`nowhere`"), "{refused}");
    let explained = stdout(dir.path(), &["explain", "log/events.jsonl", "--job", "job"], 0);
    assert!(explained.contains("2 decisions about it refused:"), "{explained}");
    assert!(explained.contains("unknown_node"), "{explained}");
    let explained = stdout(dir.path(), &["explain", "log/events.jsonl", "--job", "job", "--format", "json"], 0);
    let value: serde_json::Value = serde_json::from_str(&explained).expect("JSON");
    assert_eq!(value["refused_decisions"][1]["fault"], "unknown_node");
    let replayed = stderr(dir.path(), &["replay", "log/events.jsonl"], 0);
    assert!(!replayed.contains("differs"), "{replayed}");
}
