//! Writes that fail and writers that meet: full disks, closed pipes, and several processes that write the same files.
//! Each command leaves its whole result or the earlier one, or the whole lines of a journal. Otherwise it says which
//! file could not be written, and why.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dryrack_rng::Stream;
use tempfile::TempDir;

use crate::cli::{dryrack, empty};
use crate::plans::{PLAN, planned};

trials! {
    Nothing: [
        a_full_disk_leaves_the_earlier_result,
        a_journal_on_a_full_disk_is_whole_and_goes_on,
        a_live_run_on_a_full_disk_keeps_the_part_of_its_log,
        a_full_stdout_loses_no_file,
        a_full_stderr_changes_nothing,
        a_reader_that_leaves_does_not_change_the_exit_code,
        a_file_that_another_process_writes_is_refused_by_name,
        runs_into_one_folder_never_mix,
        tests_of_one_baseline_never_mix,
        plans_with_one_journal_never_mix,
    ]
    Python: [
        a_transcript_on_a_full_disk_ends_with_a_note,
    ]
    Time: [
        slow_full_disks_of_every_size_leave_the_earlier_result,
        slow_1000_meetings_never_mix,
    ]
}

/// Meetings of each kind in the quick trials.
const FEW: usize = 8;

const SCENARIO: &str = "\
scenario: Many short jobs
nodes: [{name: alpha, machine: a100-80g-x8, count: 2}]
jobs: [{name: train, at: 1s, every: 7s, count: 40, gpus: 2, duration: {exponential: 40s}}]
expect: [jobs_submitted >= 5]
";

/// Every file of a folder and of those in it, partial files too, by its path.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(read) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for path in read.map(|entry| entry.expect("it can be listed").path()) {
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        match path.is_dir() {
            true => {
                files.extend(self::files(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)))
            }
            false => files.push((name, std::fs::read(&path).expect("it is there"))),
        }
    }
    files.sort();
    files
}

/// A folder with a scenario, another version of it, a log, and a list of jobs.
fn folder() -> TempDir {
    let dir = empty();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a folder of our own");
    write("new.yaml", SCENARIO);
    write("old.yaml", &SCENARIO.replace("count: 40", "count: 41"));
    for name in ["old", "new"] {
        assert!(command(&dir, &["run", &format!("{name}.yaml"), "--out", &format!("log-{name}")]).status.success());
        let list = (0..900).map(|job| format!("{name}-{job},{job},{},1\n", 10 + job % 7)).collect::<String>();
        write(&format!("{name}.csv"), &format!("job,submit_s,duration_s,gpus\n{list}"));
    }
    dir
}

fn dryrack_in(dir: &Path, args: &[&str]) -> Command {
    let mut command = dryrack(dir, args);
    // What failed in a test is stored there.
    command.env("DRYRACK_CACHE", dir.join("cache"));
    command
}

fn command(dir: &TempDir, args: &[&str]) -> Output {
    dryrack_in(dir.path(), args).output().expect("it is built")
}

/// Runs the command with a limit on the size of a file, in KiB. A write beyond it fails, as on a full disk.
fn limited(dir: &TempDir, kibibytes: u32, args: &[&str]) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"", &kibibytes.to_string()]);
    shell.arg(env!("CARGO_BIN_EXE_dryrack")).args(args).current_dir(dir.path());
    shell.env_remove("DRYRACK_DATA").env("NO_COLOR", "1").env("DRYRACK_CACHE", dir.path().join("cache"));
    shell.output().expect("bash is there")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Commands that write files below `out`. `NAME` is `old` for the earlier result, and `new` for the one that fails.
const WRITERS: &[&str] = &[
    "run NAME.yaml --out out",
    "run NAME.yaml --report out",
    "run NAME.yaml --timeline out/t.json",
    "test NAME.yaml --record out/r.zip",
    "test NAME.yaml --junit out/j.xml",
    "test NAME.yaml --json out/j.json",
    "test NAME.yaml --marks out/m",
    "test NAME.yaml --baseline out --update-baseline",
    "what-if NAME.yaml --at 1m --set nodes.alpha.count=3 --out out",
    "trace convert NAME.csv --out out/t.csv",
    "trace convert NAME.csv --out out/t.csv.gz",
    "trace convert NAME.csv --out out/t.csv.zst",
    "swarm --seeds 1..1 --log out/w.jsonl",
    "swarm --seeds 1..1 --digests out/d",
];

fn a_full_disk_leaves_the_earlier_result() {
    full_disks(&[1, 8]);
}

fn slow_full_disks_of_every_size_leave_the_earlier_result() {
    full_disks(&[0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256]);
}

fn full_disks(sizes: &[u32]) {
    let dir = folder();
    let out = dir.path().join("out");
    let mut refused = 0;
    for writer in WRITERS {
        let typed = |name: &str| writer.replace("NAME", name);
        let result = |name: &str| {
            std::fs::remove_dir_all(&out).unwrap_or(());
            std::fs::create_dir(&out).expect("a folder of our own");
            let typed = typed(name);
            let output = command(&dir, &typed.split(' ').collect::<Vec<_>>());
            assert!(output.status.success(), "{typed}: {}", text(&output.stderr));
            files(&out)
        };
        let (new, old) = (result("new"), result("old"));
        for kibibytes in sizes {
            std::fs::remove_dir_all(&out).expect("it was written");
            std::fs::create_dir(&out).expect("a folder of our own");
            for (name, bytes) in &old {
                std::fs::write(out.join(name), bytes).expect("a folder of our own");
            }
            let typed = typed("new");
            let output = limited(&dir, *kibibytes, &typed.split(' ').collect::<Vec<_>>());
            let context = format!("{typed} with {kibibytes} KiB: {}{}", text(&output.stdout), text(&output.stderr));
            let both = [names(&old), names(&new)].concat();
            match output.status.code() {
                // Updating a baseline keeps the files of other scenarios. Test results hold times.
                Some(0) if writer.starts_with("test") => {
                    assert!(names(&files(&out)).iter().all(|name| both.contains(name)), "{context}");
                }
                Some(0) => assert!(files(&out) == new, "{context}"),
                Some(2) => {
                    refused += 1;
                    let said = text(&output.stderr);
                    assert!(said.contains("error: out") && said.contains("File too large"), "{context}");
                    assert!(files(&out) == old, "{context}");
                }
                _ => panic!("{:?}: {context}", output.status),
            }
        }
    }
    assert!(refused >= WRITERS.len() / 2, "only {refused} commands met the full disk");
}

fn a_journal_on_a_full_disk_is_whole_and_goes_on() {
    let dir = planned(&PLAN.replace("1..12", "1..2"));
    let _ended = command(&dir, &["plan", "plan.yaml", "--out", "whole"]);
    let whole = files(&dir.path().join("whole"));
    let sorted = text(&std::fs::read(dir.path().join("whole/runs.jsonl")).expect("it was written"));
    for kibibytes in [1, 3, 7, 20] {
        let output = limited(&dir, kibibytes, &["plan", "plan.yaml", "--out", "out"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{kibibytes}: {said}");
        assert!(said.contains("error: out/runs.jsonl: cannot be") && said.contains("File too large"), "{said}");
        let journal = text(&std::fs::read(dir.path().join("out/runs.jsonl")).expect("it was begun"));
        // The runs are in the order in which they ended.
        assert!(journal.ends_with('\n'), "{kibibytes}: the last line is cut: {journal}");
        assert!(journal.lines().all(|line| sorted.lines().any(|known| known == line)), "{kibibytes}: {journal}");
        assert_eq!(files(&dir.path().join("out")).len(), 1, "{kibibytes}: more than the journal");
        let output = command(&dir, &["plan", "plan.yaml", "--out", "out", "--resume"]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{kibibytes}: {}", text(&output.stderr));
        assert!(files(&dir.path().join("out")) == whole, "{kibibytes}: the plan that went on differs");
        std::fs::remove_dir_all(dir.path().join("out")).expect("it was written");
    }
}

fn a_live_run_on_a_full_disk_keeps_the_part_of_its_log() {
    let dir = empty();
    let scenario = "\
scenario: Many short commands
nodes: [{name: here, cpus: 4}]
jobs: [{name: job, at: 0s, every: 20ms, count: 40, cpus: 1, duration: 20ms, command: [sleep, \"0.02\"]}]
expect: [jobs_submitted >= 5]
";
    std::fs::write(dir.path().join("live.yaml"), scenario).expect("a folder of our own");
    let output = limited(&dir, 24, &["live", "live.yaml", "--log", "live.jsonl"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("error: live.jsonl: cannot be written: File too large"), "{said}");
    assert!(said.contains("; the run was ended; its log up to then is .live.jsonl.partial\n"), "{said}");
    assert!(!dir.path().join("live.jsonl").exists());
    let part = std::fs::read(dir.path().join(".live.jsonl.partial")).expect("it was left");
    assert_eq!(part.len(), 24 * 1024);
    assert!(text(&part).starts_with("{\"header\":") && text(&part).lines().count() > 10, "{}", text(&part));
    // Nothing takes it for a whole log.
    let output = command(&dir, &["log", ".live.jsonl.partial"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{}", text(&output.stderr));
}

fn a_transcript_on_a_full_disk_ends_with_a_note() {
    let dir = folder();
    let program = format!("python3 {}/examples/outside/first_fit.py", env!("CARGO_MANIFEST_DIR"));
    let args = ["run", "new.yaml", "--outside", &program, "--transcript", "talk.jsonl"];
    let output = limited(&dir, 8, &args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let note = "note: talk.jsonl: cannot be written: File too large (os error 27); it lacks the last messages\n";
    assert_eq!(text(&output.stderr).matches("talk.jsonl").count(), 1, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(note), "{}", text(&output.stderr));
    let whole = command(&dir, &args);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    assert_eq!(text(&whole.stdout).lines().next(), text(&output.stdout).lines().next());
}

const FILES_OF_TEST: [&str; 9] =
    ["test", "fails.yaml", "--junit", "out/j.xml", "--json", "out/j.json", "--record", "out/r.zip", "-q"];

/// A folder with a scenario that fails, and the files that its test writes, without times.
fn failing() -> TempDir {
    let dir = folder();
    std::fs::write(dir.path().join("fails.yaml"), SCENARIO.replace(">= 5", ">= 500")).expect("a folder of our own");
    std::fs::create_dir(dir.path().join("out")).expect("a folder of our own");
    dir
}

fn names(files: &[(String, Vec<u8>)]) -> Vec<&str> {
    files.iter().map(|(name, _)| name.as_str()).collect()
}

fn a_full_stdout_loses_no_file() {
    let dir = failing();
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let output = dryrack_in(dir.path(), &FILES_OF_TEST).stdout(full()).output().expect("it is built");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("standard output cannot be written: No space left"), "{said}");
    assert_eq!(names(&files(&dir.path().join("out"))), ["j.json", "j.xml", "r.zip"]);
    // One file that cannot be written does not lose the others, or the printed result.
    std::fs::remove_dir_all(dir.path().join("out")).expect("it was written");
    std::fs::create_dir_all(dir.path().join("out/j.xml")).expect("a folder of our own");
    let output = command(&dir, &FILES_OF_TEST);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("error: out/j.xml: is a folder"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("1 failed"), "{}", text(&output.stdout));
    assert_eq!(names(&files(&dir.path().join("out"))), ["j.json", "r.zip"]);
}

fn a_full_stderr_changes_nothing() {
    let dir = failing();
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    for args in [&["test", "fails.yaml"][..], &["run", "none.yaml"], &["run", "new.yaml", "--out", "out"]] {
        let whole = command(&dir, args);
        let output = dryrack_in(dir.path(), args).stderr(full()).output().expect("it is built");
        assert_eq!(output.status.code(), whole.status.code(), "{args:?}");
        assert_eq!(output.stdout.len(), whole.stdout.len(), "{args:?}");
    }
}

fn a_reader_that_leaves_does_not_change_the_exit_code() {
    let dir = failing();
    for (code, args) in [
        (1, &FILES_OF_TEST[..]),
        (1, &["test", "fails.yaml", "--format", "json"]),
        (1, &["run", "fails.yaml", "--out", "out"]),
        (1, &["diff", "log-old/events.jsonl", "log-new/events.jsonl"]),
        (0, &["run", "new.yaml"]),
        (0, &["log", "log-new/events.jsonl"]),
        (0, &["schema"]),
        (0, &["help"]),
        (0, &["trace", "convert", "new.csv"]),
        (0, &["swarm", "--seeds", "1..1"]),
    ] {
        let (reader, writer) = std::io::pipe().expect("pipes are left");
        drop(reader);
        let output = dryrack_in(dir.path(), args).stdout(writer).output().expect("it is built");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("error"), "{args:?}: {}", text(&output.stderr));
    }
    let written = files(&dir.path().join("out"));
    let expected = ["events.jsonl", "j.json", "j.xml", "jobs.csv", "metrics.json", "nodes.csv", "r.zip"];
    assert_eq!(names(&written), expected);
}

fn a_file_that_another_process_writes_is_refused_by_name() {
    let dir = planned(&PLAN.replace("1..12", "1..2").replace("seeds: 1..4", "seeds: 1..2"));
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("new.yaml"), SCENARIO).expect("a folder of our own");
    let _ended = command(&dir, &["plan", "plan.yaml", "--out", "plan"]);
    std::fs::create_dir(path("out")).expect("a folder of our own");
    let plan = files(&path("plan"));
    for (held, named, args) in [
        ("out/.events.jsonl.partial", "out/events.jsonl", &["run", "new.yaml", "--out", "out"][..]),
        ("out/.r.zip.partial", "out/r.zip", &["test", "new.yaml", "--record", "out/r.zip"]),
        ("plan/runs.jsonl", "plan/runs.jsonl", &["plan", "plan.yaml", "--out", "plan", "--resume"]),
        ("plan/runs.jsonl", "plan/runs.jsonl", &["plan", "merge", "plan.yaml", "plan", "--out", "plan"]),
    ] {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path(held)).expect("it is ours");
        file.lock().expect("nobody else has it");
        let output = command(&dir, args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(&format!("error: {named}")) && said.contains("is being written by another"), "{said}");
        // The lock ends with the process, and the file that it leaves does not disturb.
        drop(file);
        let output = command(&dir, args);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {}", text(&output.stderr));
    }
    assert!(files(&path("plan")) == plan);
}

/// Starts the commands at drawn moments, close to each other, and waits for all. Each succeeds, or says that another
/// process writes the same file.
#[expect(clippy::disallowed_methods, reason = "other programs are waited for, and no run depends on it")]
fn meet(dir: &TempDir, commands: &[Vec<String>], draws: &mut Stream) {
    let mut started = Vec::new();
    for args in commands {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = dryrack_in(dir.path(), &args);
        started.push(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts"));
        std::thread::sleep(Duration::from_micros(draws.index(10_000) as u64));
    }
    let mut done = 0;
    for child in started {
        let output = child.wait_with_output().expect("it ends");
        let said = text(&output.stderr);
        match output.status.code() {
            Some(0 | 1) => done += 1,
            Some(2) => assert!(said.contains("is being written by another"), "{said}"),
            _ => panic!("{:?}: {said}", output.status),
        }
    }
    assert!(done > 0, "each process left the files to another one");
}

fn typed(commands: &[&str]) -> Vec<Vec<String>> {
    commands.iter().map(|command| command.split(' ').map(str::to_string).collect()).collect()
}

fn runs_into_one_folder_never_mix() {
    runs_meet(2 * FEW);
}

fn runs_meet(meetings: usize) {
    let dir = empty();
    let mut wholes = Vec::new();
    for number in 0..4 {
        let text = SCENARIO.replace("count: 40", &format!("count: {}", 20 + 10 * number));
        std::fs::write(dir.path().join(format!("{number}.yaml")), text).expect("a folder of our own");
        let out = format!("whole-{number}");
        assert!(command(&dir, &["run", &format!("{number}.yaml"), "--out", &out]).status.success());
        wholes.push(files(&dir.path().join(out)));
    }
    let commands: Vec<String> = (0..4).map(|number| format!("run {number}.yaml --out out")).collect();
    let commands = typed(&commands.iter().map(String::as_str).collect::<Vec<_>>());
    let mut draws = Stream::new(4, "meetings", 0);
    for number in 0..meetings {
        meet(&dir, &commands, &mut draws);
        let found = files(&dir.path().join("out"));
        assert!(wholes.contains(&found), "meeting {number}: the files are not those of one run: {:?}", names(&found));
    }
}

fn tests_of_one_baseline_never_mix() {
    tests_meet(FEW);
}

fn tests_meet(meetings: usize) {
    let dir = folder();
    let update = "test new.yaml old.yaml --baseline kept --update-baseline";
    let _ended = command(&dir, &update.split(' ').collect::<Vec<_>>());
    let whole = files(&dir.path().join("kept"));
    assert_eq!(whole.len(), 2);
    let review = "review new.yaml old.yaml --baseline kept --accept";
    let compare = "test old.yaml new.yaml --baseline kept";
    let commands = typed(&[update, review, compare, update]);
    let mut draws = Stream::new(4, "meetings", 1);
    for number in 0..meetings {
        std::fs::remove_file(dir.path().join("kept/old.yaml.baseline")).unwrap_or(());
        meet(&dir, &commands, &mut draws);
        assert!(files(&dir.path().join("kept")) == whole, "meeting {number}: the baseline differs");
    }
}

fn plans_with_one_journal_never_mix() {
    plans_meet(FEW / 2);
}

fn plans_meet(meetings: usize) {
    let dir = planned(&PLAN.replace("1..12", "1..2").replace("seeds: 1..4", "seeds: 1..2"));
    let _ended = command(&dir, &["plan", "plan.yaml", "--out", "whole"]);
    let whole = files(&dir.path().join("whole"));
    let commands = typed(&["plan plan.yaml --out out --resume"; 3]);
    let mut draws = Stream::new(4, "meetings", 2);
    for number in 0..meetings {
        std::fs::remove_dir_all(dir.path().join("out")).unwrap_or(());
        meet(&dir, &commands, &mut draws);
        assert!(files(&dir.path().join("out")) == whole, "meeting {number}: the result differs");
    }
}

fn slow_1000_meetings_never_mix() {
    runs_meet(500);
    tests_meet(250);
    plans_meet(250);
}
