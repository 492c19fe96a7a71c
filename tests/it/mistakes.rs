//! Mistakes on the command line: each answer says what was expected and what to type instead.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::assert::OutputAssertExt;

use crate::cli::{dryrack, empty, scenario, stderr, stdout};
use crate::small_world;

trials! {
    Nothing: [
        a_path_that_is_not_there_is_answered_with_the_nearest_that_is,
        a_profile_or_a_part_is_not_taken_for_a_scenario,
        a_profile_file_is_found_where_it_was_typed,
        a_negative_value_is_told_what_was_expected,
        a_name_like_no_other_is_answered_with_those_there_are,
        a_plot_has_a_curve_for_each_name_and_is_an_svg,
        the_files_of_a_run_are_replaced_together,
        what_finds_no_room_is_told_with_the_name_of_the_file,
        a_file_whose_lines_end_in_carriage_returns_has_lines,
        a_release_without_a_profile_is_answered_with_those_beside_it,
        what_is_typed_at_length_is_answered_briefly,
        what_is_no_file_of_its_own_is_not_replaced_by_one,
        a_carried_trace_is_found_from_any_folder,
    ]
}

/// Checks rows of a command line and the beginning of its answer.
fn each_is_told(dir: &Path, rows: &[(&[&str], &str)]) {
    for (args, wanted) in rows {
        let said = stderr(dir, args, 2);
        assert!(said.starts_with(wanted), "{args:?} said\n{said}instead of\n{wanted}");
    }
}

fn a_path_that_is_not_there_is_answered_with_the_nearest_that_is() {
    let dir = scenario();
    std::fs::create_dir(dir.path().join("nightly")).expect("a folder of our own");
    std::fs::create_dir(dir.path().join("out")).expect("a folder of our own");
    small_world::write(&dir.path().join("out"), 60);
    let log = "a log that `dryrack run FILE --out DIR` wrote as DIR/events.jsonl";
    each_is_told(
        dir.path(),
        &[
            (&["test", "nigthly"], "error: nigthly: does not exist; did you mean `nightly`?\n"),
            (
                &["test", "nightly/x.yaml"],
                "error: nightly/x.yaml: does not exist; expected a scenario file, or a folder",
            ),
            (&["check", "not_raedy.yaml"], "error: not_raedy.yaml: does not exist; did you mean `not_ready.yaml`?\n"),
            (&["run", "not_raedy.yaml"], "error: cannot read `not_raedy.yaml`: no such file\n"),
            (&["log", "out/event.jsonl"], "error: out/event.jsonl: does not exist; did you mean `out/events.jsonl`?\n"),
            (&["log", "out"], &format!("error: out: is a folder; expected {log}; did you mean `out/events.jsonl`?\n")),
            (&["replay", "nightly"], &format!("error: nightly: is a folder; expected {log}\n")),
            (
                &["plot", "waits", "night", "--out", "x.svg"],
                "error: night/jobs.csv: does not exist; did you mean `nightly`?",
            ),
        ],
    );
    assert!(stderr(dir.path(), &["run", "not_raedy.yaml"], 2).contains("= help: did you mean `not_ready.yaml`?\n"));
}

fn a_profile_or_a_part_is_not_taken_for_a_scenario() {
    let dir = empty();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    write("a.profile.yaml", "base: first-fit\nname: a\ntitle: Mine\n");
    write("b.profile.yaml", "base: first-fit\nname: b\ntitle: Mine\nheartbeat: {grase: 90s}\n");
    write("c.part.yaml", "nodes: [{name: alpha, cpus: 2}]\n");
    each_is_told(
        dir.path(),
        &[
            (
                &["test", "a.profile.yaml"],
                "error: a.profile.yaml: is a profile, not a scenario; run a scenario under it with `dryrack test SCENARIO --profile a.profile.yaml`\n",
            ),
            (&["test", "c.part.yaml"], "error: c.part.yaml: is a part for `include:`; name a scenario"),
            (&["check", "c.part.yaml"], "error: c.part.yaml: is a part for `include:`; name a scenario"),
        ],
    );
    assert_eq!(stdout(dir.path(), &["check", "a.profile.yaml"], 0), "1 file, 0 invalid\n");
    assert!(stderr(dir.path(), &["check", "b.profile.yaml"], 2).contains("did you mean `grace`?"));
}

/// A path on the command line is relative to the working directory, not to the scenario, so the command that repeats a
/// failure can be pasted there.
fn a_profile_file_is_found_where_it_was_typed() {
    let dir = empty();
    std::fs::create_dir(dir.path().join("nightly")).expect("a folder of our own");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    let profile =
        |name: &str| format!("base: spread\nname: {name}\ntitle: {name}\nhistoric: true\ncommit: {{recheck: false}}\n");
    write("here.profile.yaml", &profile("here"));
    write("nightly/beside.profile.yaml", &profile("beside"));
    let text = "scenario: One job\nnodes: [{name: alpha, cpus: 2}]\njobs: [{name: one, cpus: 1, duration: 1m}]\n\
                expect: [{name: ends, job: one, is: completed}]\n\
                reproduces: [{profile: beside.profile.yaml, fails: [ends], and: [{job: one, is: running, at: 30s}]}]\n";
    write("nightly/one.yaml", text);
    let said =
        stdout(dir.path(), &["run", "nightly/one.yaml", "--profile", "here.profile.yaml", "--format", "json"], 0);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["profile"], "here");
    let said = stdout(dir.path(), &["test", "nightly"], 1);
    let repeat = "  repeat with: dryrack test nightly/one.yaml\n";
    assert!(
        said.contains(repeat) && said.contains("its witness also holds under the scenario's own profile"),
        "{said}"
    );
    let args: Vec<&str> = repeat.split_whitespace().skip(3).collect();
    stdout(dir.path(), &args, 1);
    each_is_told(
        dir.path(),
        &[(
            &["run", "nightly/one.yaml", "--profile", "beside.profile.yaml"],
            "error: cannot read `beside.profile.yaml`: no such file\n --> command line:1:11\n",
        )],
    );
}

fn a_negative_value_is_told_what_was_expected() {
    let dir = scenario();
    small_world::write(dir.path(), 60);
    for (args, wanted) in [
        (&["run", "not_ready.yaml", "--until", "-5s"][..], "`-5s` is negative\n"),
        (&["run", "not_ready.yaml", "--seed", "-1"], "`-1` is negative\n"),
        (&["log", "events.jsonl", "--since", "-5s"], "`-5s` is negative; expected a duration"),
        (&["explain", "events.jsonl", "--job", "chat", "--at", "-5s"], "`-5s` is negative; expected a duration"),
        (&["swarm", "--seeds", "-1..4"], "expected two numbers such as 1..2000"),
        (&["test", ".", "--threads", "-1"], "-1 is not in 1..=256"),
    ] {
        let said = stderr(dir.path(), args, 2);
        assert!(said.contains(wanted) && !said.contains("unexpected argument"), "{args:?} said\n{said}");
    }
}

fn a_name_like_no_other_is_answered_with_those_there_are() {
    let dir = scenario();
    small_world::write(dir.path(), 60);
    each_is_told(
        dir.path(),
        &[
            (&["log", "events.jsonl", "--job", "xyz"], "error: the log has no job named `xyz`; known are chat, late\n"),
            (
                &["explain", "events.jsonl", "--job", "xyz"],
                "error: the log has no job named `xyz`; known are chat, late\n",
            ),
            (
                &["log", "events.jsonl", "--node", "xyz"],
                "error: the log has no node named `xyz`; there is only `alpha`\n",
            ),
            (&["select", "not_ready.yaml", "--job", "xyz"], "error: no job is named `xyz`; there is only `chat`\n"),
        ],
    );
}

fn a_plot_has_a_curve_for_each_name_and_is_an_svg() {
    let dir = empty();
    small_world::write(dir.path(), 60);
    let plot = |runs: &[&str], out: &str| stderr(dir.path(), &[&["plot", "waits", "--out", out], runs].concat(), 2);
    assert_eq!(plot(&["=."], "a.svg"), "error: there is no name for the curve of `=.`; write `NAME=.`\n");
    assert_eq!(plot(&["A=.", "A=."], "a.svg"), "error: two curves are named `A`; write `OTHER=.` for one of them\n");
    assert_eq!(plot(&["A=."], "a.png"), "error: a.png: would become an SVG file; write `--out a.svg`\n");
    assert!(!dir.path().join("a.png").exists() && !dir.path().join("a.svg").exists());
}

/// If a second run cannot write all of its files, those of the first stay as they were.
fn the_files_of_a_run_are_replaced_together() {
    let dir = scenario();
    stdout(dir.path(), &["run", "not_ready.yaml", "--out", "out"], 0);
    let files = ["events.jsonl", "jobs.csv", "metrics.json", "nodes.csv"];
    let read = || files.map(|file| std::fs::read(dir.path().join("out").join(file)).expect("written"));
    let before = read();
    // Prevents the last file from being written: its temporary name is a folder.
    std::fs::create_dir(dir.path().join("out/.metrics.json.partial")).expect("a folder of our own");
    let said = stderr(dir.path(), &["run", "not_ready.yaml", "--until", "4m", "--out", "out"], 2);
    assert!(said.contains("error: out/metrics.json: cannot be written: "), "{said}");
    assert_eq!(read(), before);
}

/// `/dev/full` rejects each write as a full disk does. Help is output too, so an error in writing it is reported.
fn what_finds_no_room_is_told_with_the_name_of_the_file() {
    let dir = scenario();
    std::fs::write(dir.path().join("list.csv"), "job,submit_s,duration_s,gpus\na,0,60,1\n")
        .expect("a folder of our own");
    for out in ["full", "full.gz", "full.zst"] {
        std::os::unix::fs::symlink("/dev/full", dir.path().join(out)).expect("a folder of our own");
        let said = stderr(dir.path(), &["trace", "convert", "list.csv", "--out", out], 2);
        assert_eq!(said, format!("error: {out}: cannot be written: No space left on device (os error 28)\n"));
    }
    for args in [&["--help"][..], &["run", "--help"], &["--version"], &["trace", "convert", "list.csv"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = dryrack(dir.path(), args).stdout(full).output().expect("it is built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said, "error: standard output cannot be written: No space left on device (os error 28)\n");
    }
}

/// A release without a profile is not a typo: the message names the nearest releases that have a profile, and no other
/// profile.
fn a_release_without_a_profile_is_answered_with_those_beside_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in
        ["cheapest-instance-is-made", "service-scales-with-its-requests", "files-of-a-cloud", "idle-fleet-overnight"]
    {
        let file = root.join(format!("scenarios/dstack/{file}.yaml")).display().to_string();
        let said = stderr(root, &["run", &file, "--profile", "dstack-0.19.29"], 2);
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
        assert!(said.starts_with("error: no profile is named `dstack-0.19.29`\n"), "{said}");
        let help = "the nearest releases with a profile are `dstack-0.19.10` (older) and `dstack-0.21.0` (newer)";
        assert!(said.contains(help), "{said}");
    }
}

/// No line of an answer is long, even if the command line is long.
fn what_is_typed_at_length_is_answered_briefly() {
    let dir = scenario();
    let long = "x".repeat(20_000);
    let path = format!("{long}.yaml");
    let set = format!("nodes.{long}.state=ready");
    let text = format!(
        "scenario: Long\nnodes: [{{name: a, machine: {long}}}]\njobs: [{{name: j, gpus: {long}, {long}: 1}}]\n"
    );
    std::fs::write(dir.path().join("long.yaml"), text).expect("a folder of our own");
    let rows: [&[&str]; 8] = [
        &["run", "not_ready.yaml", "--profile", &long],
        &["run", "not_ready.yaml", "--set", &set],
        &["run", "not_ready.yaml", "--seed", &long],
        &["run", "not_ready.yaml", "--stream", &long],
        &["check", "long.yaml"],
        &["probe", "--from", &long],
        &["trace", "get", &long],
        &["run", &path],
    ];
    for args in rows {
        let said = stderr(dir.path(), args, 2);
        let longest = said.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest < 1100 && said.len() < 6000, "{} of {}: {said:.2000}", longest, said.len());
    }
}

/// Old editors end lines with carriage returns. The first line is a comment, and the rest must be read too.
fn a_file_whose_lines_end_in_carriage_returns_has_lines() {
    let dir = empty();
    let text =
        "# An old file\rscenario: Old\rnodes: [{name: a, machine: a100-80g-x2}]\rjobs:\r  - {name: j, gpu: 1, at: x}\r";
    std::fs::write(dir.path().join("old.yaml"), text).expect("a folder of our own");
    let said = stderr(dir.path(), &["check", "old.yaml"], 2);
    assert!(said.contains(" --> old.yaml:5:"), "{said}");
    assert!(said.contains("5 |   - {name: j, gpu: 1, at: x}\n"), "{said}");
    std::fs::write(dir.path().join("old.yaml"), text.replace(", gpu: 1, at: x", ", gpus: 1")).expect("as before");
    stdout(dir.path(), &["check", "old.yaml"], 0);
}

/// Renaming a file over a pipe, a device or a link would remove it. If two processes wrote one file at the same time,
/// neither output would be complete.
fn what_is_no_file_of_its_own_is_not_replaced_by_one() {
    let dir = empty();
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status().expect("every Unix has it");
    assert!(made.success());
    let read = Command::new("cat").arg(dir.path().join("pipe")).stdout(Stdio::piped()).spawn().expect("it starts");
    stdout(dir.path(), &["probe", "--gpus", "none", "--out", "pipe"], 0);
    let read = read.wait_with_output().expect("it ends with the writer").stdout;
    assert!(String::from_utf8_lossy(&read).contains("nodes:"), "{}", String::from_utf8_lossy(&read));
    let kind = |name: &str| std::fs::symlink_metadata(dir.path().join(name)).expect("it is there").file_type();
    assert!(kind("pipe").is_fifo());

    std::fs::write(dir.path().join("target.yaml"), "").expect("a folder of our own");
    std::os::unix::fs::symlink("target.yaml", dir.path().join("link.yaml")).expect("a folder of our own");
    stdout(dir.path(), &["probe", "--gpus", "none", "--out", "link.yaml"], 0);
    let through = std::fs::read_to_string(dir.path().join("target.yaml")).expect("it is there");
    assert!(kind("link.yaml").is_symlink() && through.contains("nodes:"), "{through}");

    std::fs::create_dir(dir.path().join("folder")).expect("a folder of our own");
    let said = stderr(dir.path(), &["probe", "--gpus", "none", "--out", "folder"], 2);
    assert_eq!(said, "error: folder: is a folder; name a file in it\n");
    let first = std::fs::File::create(dir.path().join(".it.yaml.partial")).expect("a folder of our own");
    first.lock().expect("nobody else has it");
    let said = stderr(dir.path(), &["probe", "--gpus", "none", "--out", "it.yaml"], 2);
    assert_eq!(said, "error: it.yaml: is being written by another dryrack; name another file\n");
    drop(first);
    stdout(dir.path(), &["probe", "--gpus", "none", "--out", "it.yaml"], 0);
    assert!(!dir.path().join(".it.yaml.partial").exists());
}

/// The carried log is found from the scenario's own folder, even from another working directory.
fn a_carried_trace_is_found_from_any_folder() {
    let dir = empty();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join("scenarios/traces/gaia.yaml").display().to_string();
    let mut command = dryrack(dir.path(), &["check", &file]);
    command.env("DRYRACK_CACHE", dir.path());
    command.assert().code(0).stdout("1 file, 0 invalid\n");
    let text = "scenario: On openb\ntrace: openb\n";
    std::fs::write(dir.path().join("openb.yaml"), text).expect("a folder of our own");
    let mut command = dryrack(dir.path(), &["check", "openb.yaml"]);
    command.env("DRYRACK_CACHE", dir.path());
    command.assert().code(0).stdout("1 file, 0 invalid, 1 not fully checked because a trace is missing\n");
}
