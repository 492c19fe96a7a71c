//! What a user is told of the texts of a scheduler in another process.

use crate::cli::{dryrack, written};

trials! {
    Python: [
        texts_of_a_program_cannot_control_a_terminal,
    ]
}

const SCENARIO: &str = "\
scenario: A gang of two tasks, and two jobs
outside: {command: [python3, program.py], unsafe: allowed}
nodes: [{name: alpha, cpus: 16, ram: 64GiB, gpus: [{type: gpu, count: 2, memory: 16GiB}]}]
jobs:
  - {name: gang, tasks: 2, gpus: 1, duration: 1h}
  - {name: one, at: 1m, gpus: 1, duration: 1h}
  - {name: two, at: 2m, gpus: 1, duration: 1h}
";

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
