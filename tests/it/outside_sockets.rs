//! Schedulers that run already and listen at a socket with the functions of `dryrack_outside.py`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use crate::cli::{stdout, written};

trials! {
    Python: [
        a_program_that_listens_survives_a_killed_one_and_a_broken_connection,
    ]
}

const SCENARIO: &str = "\
scenario: One job
nodes: [{name: alpha, cpus: 16, ram: 64GiB, gpus: [{type: gpu, count: 1, memory: 16GiB}]}]
jobs: [{name: job, gpus: 1, duration: 1h}]
expect: [{job: job, is: completed, by: 1h}]
";

/// Waits for a line on its standard input before its first answer, so that the connection is gone when it answers.
const PROGRAM: &str = r#"
import sys
sys.path.insert(0, FOLDER)
import dryrack_outside as outside

asked = False

def decide(world):
    global asked
    if not asked:
        asked = True
        sys.stdin.readline()
    return [outside.place(run, [outside.part("alpha", gpus=[0])]) for run in world.waiting()]

outside.listen("it.sock", "test", "1", decide, runs=2)
"#;

fn a_program_that_listens_survives_a_killed_one_and_a_broken_connection() {
    let folder = format!("{:?}", concat!(env!("CARGO_MANIFEST_DIR"), "/src/outside"));
    let dir = written(&[("it.yaml", SCENARIO), ("program.py", &PROGRAM.replace("FOLDER", &folder))]);
    let socket = dir.path().join("it.sock");
    // A killed program leaves its socket behind.
    drop(UnixListener::bind(&socket).expect("a socket"));
    assert!(socket.exists());
    let mut line = Command::new("python3");
    line.args(["-B", "program.py"]).current_dir(dir.path()).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut program = line.spawn().expect("it starts");
    let mut said = BufReader::new(program.stderr.take().expect("it is piped")).lines();
    let mut next = || said.next().expect("a line").expect("text");
    assert_eq!(next(), "test 1 listens at it.sock");

    let mut connection = UnixStream::connect(&socket).expect("it listens");
    let snapshot = r#"{"type":"snapshot","now":0,"nodes":[],"fleets":[],"jobs":[],"runs":[]}"#;
    for message in [r#"{"type":"hello","can":[]}"#, snapshot, r#"{"type":"decide","id":1,"now":0,"waiting":[]}"#] {
        writeln!(connection, "{message}").expect("it reads");
    }
    let mut hello = String::new();
    BufReader::new(&connection).read_line(&mut hello).expect("an answer");
    assert!(hello.contains("\"hello\""), "{hello}");
    drop(connection);
    writeln!(program.stdin.take().expect("it is piped"), "answer").expect("it waits");
    let broke = next();
    assert!(broke.starts_with("the connection broke: "), "{broke}");

    stdout(dir.path(), &["run", "it.yaml", "--outside", "unix:it.sock"], 0);
    assert!(program.wait().expect("it ends").success());
    assert!(!socket.exists());
}
