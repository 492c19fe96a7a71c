//! What is handed on: records of tests, failures that are run again, and reviews of changed decisions.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use assert_cmd::assert::OutputAssertExt;
use tempfile::TempDir;

use crate::cli::{dryrack, empty, stderr, stdout};

trials! {
    Nothing: [
        a_record_is_replayed_where_its_files_are_not,
        a_record_with_another_log_is_found_out,
        equal_tests_give_equal_records,
        what_is_no_record_is_refused,
        only_what_failed_is_run_again,
        changed_decisions_are_accepted_one_after_the_other,
        changed_decisions_are_rejected_or_accepted_without_a_question,
    ]
}

const PROFILE: &str = "name: ours\ntitle: Ours\nbase: first-fit\nscheduler: {ties: first}\n";

/// A scenario that passes and one that fails, which share a part and a profile.
fn scenarios() -> TempDir {
    let dir = empty();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    write("lab.part.yaml", "nodes: [{name: alpha, machine: l4-x1}, {name: beta, machine: l4-x1}]\n");
    write("ours.profile.yaml", PROFILE);
    let head = "profile: ours.profile.yaml\ninclude: lab.part.yaml\njobs: [{name: chat, gpus: 1, duration: 1h}]\n";
    write("good.yaml", &format!("scenario: It runs\n{head}expect: [{{name: runs, job: chat, is: running, by: 1m}}]\n"));
    write(
        "bad.yaml",
        &format!("scenario: It never runs\n{head}expect: [{{name: rests, job: chat, never: running}}]\n"),
    );
    dir
}

fn record(dir: &Path) -> Vec<u8> {
    stdout(dir, &["test", ".", "--record", "run.zip"], 1);
    std::fs::read(dir.join("run.zip")).expect("it was written")
}

fn a_record_is_replayed_where_its_files_are_not() {
    let elsewhere = empty();
    std::fs::write(elsewhere.path().join("run.zip"), record(scenarios().path())).expect("a folder of our own");
    let said = stdout(elsewhere.path(), &["replay", "run.zip"], 0);
    let version = env!("CARGO_PKG_VERSION");
    let wanted = format!(
        "    same  ./bad.yaml  It never runs  (failed: rests)
    same  ./good.yaml  It runs

2 runs replayed, all as recorded by dryrack {version}; this is {version}
"
    );
    assert_eq!(said, wanted);
    let json = stdout(elsewhere.path(), &["replay", "run.zip", "--format", "json"], 0);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["runs"][0]["failed"][0], &json["runs"][1]["difference"]),
        (&"rests".into(), &serde_json::Value::Null)
    );
    // Any program reads what is in it.
    let mut zip = zip::ZipArchive::new(std::fs::File::open(elsewhere.path().join("run.zip")).expect("it is there"))
        .expect("a zip file");
    let names: Vec<String> = (0..zip.len()).map(|file| name(&zip.by_index(file).expect("a file"))).collect();
    let of_run = |run: &str| ["scenario.yaml", "profile.json", "events.jsonl"].map(|file| format!("runs/{run}/{file}"));
    let wanted: Vec<String> =
        std::iter::once("record.json".to_string()).chain(of_run("0001")).chain(of_run("0002")).collect();
    assert_eq!(names, wanted);
    let scenario = std::io::read_to_string(zip.by_name("runs/0001/scenario.yaml").expect("it is there")).expect("text");
    assert!(scenario.contains("alpha") && !scenario.contains("include"), "{scenario}");
}

fn name<R: std::io::Read>(file: &zip::read::ZipFile<'_, R>) -> String {
    file.name().expect("text").into_owned()
}

fn a_record_with_another_log_is_found_out() {
    let dir = empty();
    let bytes = record(scenarios().path());
    // The same files, but the log of one run says that the job ran on the other node.
    let mut from = zip::ZipArchive::new(std::io::Cursor::new(bytes)).expect("a zip file");
    let mut to = zip::ZipWriter::new(std::fs::File::create(dir.path().join("run.zip")).expect("a folder of our own"));
    for number in 0..from.len() {
        let file = from.by_index(number).expect("a file");
        let name = name(&file);
        let text = std::io::read_to_string(file).expect("text");
        let text = if name == "runs/0002/events.jsonl" { text.replace("\"alpha\"", "\"alphi\"") } else { text };
        to.start_file(name, zip::write::SimpleFileOptions::default()).expect("a folder of our own");
        to.write_all(text.as_bytes()).expect("a folder of our own");
    }
    to.finish().expect("a folder of our own");
    let said = stdout(dir.path(), &["replay", "run.zip"], 1);
    assert!(said.contains("    same  ./bad.yaml") && said.contains(" differs  ./good.yaml"), "{said}");
    assert!(said.contains("2 runs replayed, 1 differ"), "{said}");
}

fn equal_tests_give_equal_records() {
    assert!(record(scenarios().path()) == record(scenarios().path()), "the bytes are the same");
}

fn what_is_no_record_is_refused() {
    let dir = empty();
    let mut zip =
        zip::ZipWriter::new(std::fs::File::create(dir.path().join("other.zip")).expect("a folder of our own"));
    zip.start_file("a.txt", zip::write::SimpleFileOptions::default()).expect("a folder of our own");
    zip.finish().expect("a folder of our own");
    let why = "error: other.zip: is not a record that `dryrack test --record` wrote: it has no record.json\n";
    assert_eq!(stderr(dir.path(), &["replay", "other.zip"], 2), why);
    std::fs::write(dir.path().join("cut.zip"), b"PK\x03\x04 and no more").expect("a folder of our own");
    let why = stderr(dir.path(), &["replay", "cut.zip"], 2);
    assert!(why.starts_with("error: cut.zip: is not a complete record: "), "{why}");
}

fn only_what_failed_is_run_again() {
    let dir = scenarios();
    let cache = empty();
    let test = |args: &[&str]| {
        let mut command = dryrack(dir.path(), args);
        command.env("DRYRACK_CACHE", cache.path());
        command.output().expect("it runs")
    };
    let nothing = test(&["test", "--rerun", "failed"]);
    assert_eq!(nothing.status.code(), Some(4));
    assert_eq!(String::from_utf8_lossy(&nothing.stderr), "nothing failed in the last test in this folder\n");
    assert_eq!(test(&["test", "."]).status.code(), Some(1));
    let again = test(&["test", "--rerun", "failed"]);
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(said.contains("./bad.yaml") && !said.contains("good.yaml"), "{said}");
    // Once it passes, there is nothing left to run again.
    let text = std::fs::read_to_string(dir.path().join("bad.yaml")).expect("it is there");
    std::fs::write(dir.path().join("bad.yaml"), text.replace("never: running", "is: running, by: 1m")).expect("ours");
    assert_eq!(test(&["test", "--rerun", "failed"]).status.code(), Some(0));
    assert_eq!(test(&["test", "--rerun", "failed"]).status.code(), Some(4));
}

/// Two scenarios whose decisions are stored, and a profile that has since changed.
fn changed() -> TempDir {
    let dir = scenarios();
    std::fs::remove_file(dir.path().join("bad.yaml")).expect("ours");
    let text = std::fs::read_to_string(dir.path().join("good.yaml")).expect("it is there");
    std::fs::write(dir.path().join("other.yaml"), text.replace("chat", "talk")).expect("ours");
    stdout(dir.path(), &["test", ".", "--baseline", "base", "--update-baseline"], 0);
    let random = PROFILE.replace("{ties: first}", "{ties: random}");
    std::fs::write(dir.path().join("ours.profile.yaml"), random).expect("ours");
    stdout(dir.path(), &["test", ".", "--baseline", "base"], 1);
    dir
}

fn review(dir: &Path, args: &[&str], typed: &str) -> (Option<i32>, String) {
    let all = [&["review", ".", "--baseline", "base"], args].concat();
    let mut child = dryrack(dir, &all).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("piped").write_all(typed.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

fn changed_decisions_are_accepted_one_after_the_other() {
    let dir = changed();
    let (code, said) = review(dir.path(), &[], "maybe\na\nr\n");
    for part in [
        "1 of 2  ./good.yaml\n  decision 1\n    was  0s chat placed on alpha/0",
        "    now  0s chat placed on beta/0",
        "    why here  placed on beta/0 at 0s; 2 of 2 nodes were suitable\n",
        "expected a, r, s, all or q\n",
        "2 of 2  ./other.yaml\n",
        "2 changes: 1 accepted and stored, 1 rejected, 0 undecided\n",
    ] {
        assert!(said.contains(part), "{part:?} in\n{said}");
    }
    assert_eq!(code, Some(1));
    // What was accepted is stored, and the other is still asked about. The end of the input decides nothing.
    let (code, said) = review(dir.path(), &[], "");
    assert!(said.contains("1 of 1  ./other.yaml\n") && said.contains("1 undecided\n"), "{said}");
    assert_eq!(code, Some(1));
    assert_eq!(review(dir.path(), &[], "all\n").0, Some(0));
    let (code, said) = review(dir.path(), &[], "");
    assert_eq!((code, said.as_str()), (Some(0), "every run decides as the baseline says\n"));
}

fn changed_decisions_are_rejected_or_accepted_without_a_question() {
    let dir = changed();
    let (code, said) = review(dir.path(), &["--reject"], "");
    assert!(said.contains("./good.yaml\n  decision 1\n"), "{said}");
    assert!(said.ends_with("2 changes: 0 accepted and stored, 2 rejected, 0 undecided\n"), "{said}");
    assert_eq!(code, Some(1));
    let (code, said) = review(dir.path(), &["--accept", "--filter", "good"], "");
    assert_eq!((code, said.as_str()), (Some(0), "1 change: 1 accepted and stored, 0 rejected, 0 undecided\n"));
    dryrack(dir.path(), &["test", "good.yaml", "--baseline", "base"]).assert().code(0);
    dryrack(dir.path(), &["test", "other.yaml", "--baseline", "base"]).assert().code(1);
}
