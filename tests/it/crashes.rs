//! Crashes: commands that are killed at drawn moments, and files of commands that were cut or damaged. What is left is
//! whole or absent, and a command that reads a damaged file refuses it by name, reports the difference, or gives the
//! same answer as before. The journal of a plan, whose runs are kept one by one, continues from a whole prefix.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use dryrack_rng::Stream;
use tempfile::TempDir;

use crate::cli::{dryrack, empty};
use crate::plans::{PLAN, planned};

trials! {
    Nothing: [
        a_killed_run_leaves_whole_files_or_none,
        a_killed_test_leaves_a_whole_record_or_none,
        a_killed_plan_goes_on_to_the_same_end,
        a_damaged_log_is_refused_by_name,
        a_damaged_journal_is_refused_by_name,
        a_damaged_record_is_refused_by_name,
        a_damaged_baseline_never_hides_a_change,
    ]
    Time: [
        slow_500_kills_leave_whole_files_or_none,
        slow_2000_damages_are_never_hidden,
    ]
}

/// Kills and damages of each kind in the quick trials.
const FEW: usize = 6;

const SCENARIO: &str = "\
scenario: Many short jobs
nodes: [{name: alpha, machine: a100-80g-x8, count: 4}]
jobs: [{name: train, at: 1s, every: 7s, count: 400, gpus: 2, duration: {exponential: 40s}}]
expect: [jobs_submitted >= 5]
";

fn write(dir: &TempDir, name: &str, text: impl AsRef<[u8]>) {
    std::fs::write(dir.path().join(name), text).expect("a folder of our own");
}

fn ran(dir: &Path, args: &[&str]) -> Output {
    dryrack(dir, args).output().expect("it is built")
}

/// The files of a folder, sorted, without the partial files that a killed command leaves.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(read) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = read.map(|entry| entry.expect("it can be listed").path()).filter(|path| path.is_file());
    let name = |path: &PathBuf| path.file_name().expect("a file").to_string_lossy().into_owned();
    let mut files: Vec<(String, Vec<u8>)> = (paths.map(|path| (name(&path), path)))
        .filter(|(name, _)| !(name.starts_with('.') && name.ends_with(".partial")))
        .map(|(name, path)| (name, std::fs::read(path).expect("it is there")))
        .collect();
    files.sort();
    files
}

/// Kills the command `kills` times, each time at a moment drawn from the time that it takes, and calls `check` after
/// each kill. Returns how often it was killed before its end.
#[expect(clippy::disallowed_methods, reason = "another program is waited for, and no run depends on it")]
fn killed(dir: &Path, args: &[&str], kills: usize, mut check: impl FnMut(usize)) -> usize {
    let timed = |_| {
        let begun = Instant::now();
        let _whole = ran(dir, args);
        begun.elapsed()
    };
    // The shortest time of three, because other work on the machine makes a run longer.
    let takes = (0..3).map(timed).min().expect("three runs");
    let mut draws = Stream::new(1, "moments to kill", 0);
    let mut early = 0;
    for number in 0..kills {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dryrack"))
            .args(args)
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        // Beyond the end too, because the machine may be slower now.
        let moment = takes.mul_f64(draws.index(1_100) as f64 / 1_000.0);
        let until = Instant::now() + moment;
        while Instant::now() < until && child.try_wait().expect("it can be asked").is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        early += usize::from(child.try_wait().expect("it can be asked").is_none());
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        check(number);
    }
    early
}

fn a_killed_run_leaves_whole_files_or_none() {
    killed_runs(FEW);
}

fn killed_runs(kills: usize) {
    let dir = empty();
    write(&dir, "many.yaml", SCENARIO);
    assert!(ran(dir.path(), &["run", "many.yaml", "--out", "whole"]).status.success());
    let whole = files(&dir.path().join("whole"));
    assert!(whole.iter().any(|(name, _)| name == "events.jsonl"), "{}", whole.len());
    let out = dir.path().join("out");
    let early = killed(dir.path(), &["run", "many.yaml", "--out", "out"], kills, |number| {
        for file in files(&out) {
            assert!(whole.contains(&file), "kill {number}: {} is neither whole nor absent", file.0);
        }
        std::fs::remove_dir_all(&out).unwrap_or(());
    });
    assert!(early > 0, "no kill came before the end");
    // What a killed run leaves does not disturb the next one.
    std::fs::create_dir_all(&out).expect("a folder of our own");
    std::fs::write(out.join(".events.jsonl.partial"), b"{\"half").expect("a folder of our own");
    assert!(ran(dir.path(), &["run", "many.yaml", "--out", "out"]).status.success());
    assert_eq!(files(&out), whole);
}

fn a_killed_test_leaves_a_whole_record_or_none() {
    killed_tests(FEW);
}

fn killed_tests(kills: usize) {
    let dir = empty();
    write(&dir, "many.yaml", SCENARIO);
    let _ended = ran(dir.path(), &["test", "many.yaml", "--record", "whole.zip"]);
    let whole = std::fs::read(dir.path().join("whole.zip")).expect("it was written");
    let args = ["test", "many.yaml", "--record", "run.zip", "--baseline", "stored", "--update-baseline"];
    let _ended = ran(dir.path(), &args);
    let stored = files(&dir.path().join("stored"));
    assert_eq!(stored.len(), 1);
    std::fs::remove_dir_all(dir.path().join("stored")).expect("it was written");
    std::fs::remove_file(dir.path().join("run.zip")).expect("it was written");
    let early = killed(dir.path(), &args, kills, |number| {
        let record = dir.path().join("run.zip");
        if let Ok(bytes) = std::fs::read(&record) {
            assert!(bytes == whole, "kill {number}: the record is neither whole nor absent");
            std::fs::remove_file(&record).expect("it is there");
        }
        for file in files(&dir.path().join("stored")) {
            assert!(stored.contains(&file), "kill {number}: {} is neither whole nor absent", file.0);
        }
        std::fs::remove_dir_all(dir.path().join("stored")).unwrap_or(());
    });
    assert!(early > 0, "no kill came before the end");
}

fn a_killed_plan_goes_on_to_the_same_end() {
    killed_plans(FEW);
}

fn killed_plans(kills: usize) {
    let dir = planned(&PLAN.replace("1..12", "1..4"));
    let said = ran(dir.path(), &["plan", "plan.yaml", "--out", "whole"]);
    assert!(matches!(said.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&said.stderr));
    let whole = files(&dir.path().join("whole"));
    let early = killed(dir.path(), &["plan", "plan.yaml", "--out", "out", "--resume"], kills, |_| {
        // What ended is kept; it continues from there.
        if draws_an_end(&dir) {
            std::fs::remove_dir_all(dir.path().join("out")).unwrap_or(());
        }
    });
    assert!(early > 0, "no kill came before the end");
    let _ended = ran(dir.path(), &["plan", "plan.yaml", "--out", "out", "--resume"]);
    assert_eq!(files(&dir.path().join("out")), whole);
}

/// Whether the plan has ended, so that the next kill must begin anew.
fn draws_an_end(dir: &TempDir) -> bool {
    dir.path().join("out/plan.json").exists()
}

/// Damages a file in drawn ways: a flipped bit, a cut end, a removed or doubled piece, or zeros as after a crash of the
/// machine. Each command must refuse the file by name, with exit status 2, or say that it differs, with 1, or do the
/// same as with the whole file.
fn damaged(dir: &TempDir, file: &str, damages: usize, answer: impl Fn() -> (Output, Vec<(String, Vec<u8>)>)) {
    let path = dir.path().join(file);
    let whole = std::fs::read(&path).expect("it was written");
    let (honest, kept) = answer();
    let mut draws = Stream::new(2, "damages", file.len() as u64);
    for number in 0..damages {
        let mut bytes = whole.clone();
        let at = draws.index(bytes.len());
        let length = 1 + draws.index(64).min(bytes.len() - at - 1);
        let end = (at + length).min(bytes.len());
        let how = match number % 6 {
            0..=2 => {
                bytes[at] ^= 1 << draws.index(8);
                "flipped bit"
            }
            3 => {
                bytes.truncate(at);
                "cut"
            }
            4 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
                "doubled piece"
            }
            _ => {
                bytes[at..end].fill(0);
                "zeros"
            }
        };
        std::fs::write(&path, &bytes).expect("a folder of our own");
        let (output, files) = answer();
        let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        let said = String::from_utf8_lossy(&said);
        let name = Path::new(file).file_name().expect("a file").to_string_lossy();
        let context = format!("{how} at {at} of {file}: {:?}\n{said}", output.status);
        match output.status.code() {
            Some(code) if Some(code) == honest.status.code() && output.stdout == honest.stdout => {
                assert_eq!(files, kept, "{context}");
            }
            Some(1) => assert!(["differ", "baseline", &name].iter().any(|word| said.contains(word)), "{context}"),
            Some(2) => assert!(said.contains(&*name), "{context}"),
            _ => panic!("{context}"),
        }
    }
    std::fs::write(&path, &whole).expect("a folder of our own");
}

fn a_damaged_log_is_refused_by_name() {
    damaged_logs(FEW);
}

fn damaged_logs(damages: usize) {
    let dir = empty();
    write(&dir, "many.yaml", SCENARIO.replace("count: 400", "count: 5"));
    assert!(ran(dir.path(), &["run", "many.yaml", "--out", "out"]).status.success());
    for args in [
        &["replay", "out/events.jsonl"][..],
        &["log", "out/events.jsonl"],
        &["explain", "out/events.jsonl", "--job", "train-0"],
    ] {
        damaged(&dir, "out/events.jsonl", damages, || (ran(dir.path(), args), Vec::new()));
    }
}

fn a_damaged_journal_is_refused_by_name() {
    damaged_journals(FEW);
}

fn damaged_journals(damages: usize) {
    let dir = planned(&PLAN.replace("1..12", "1..2").replace("seeds: 1..4", "seeds: 1..2"));
    let _ended = ran(dir.path(), &["plan", "plan.yaml", "--out", "out"]);
    let journal = std::fs::read(dir.path().join("out/runs.jsonl")).expect("it was written");
    damaged(&dir, "out/runs.jsonl", damages, || {
        let output = ran(dir.path(), &["plan", "plan.yaml", "--out", "out", "--resume"]);
        let mut kept = files(&dir.path().join("out"));
        if output.status.code() == Some(2) {
            kept.clear();
        } else {
            assert!(kept.iter().any(|(name, bytes)| name == "runs.jsonl" && *bytes == journal), "the journal differs");
        }
        (output, kept)
    });
}

fn a_damaged_record_is_refused_by_name() {
    damaged_records(FEW);
}

fn damaged_records(damages: usize) {
    let dir = empty();
    write(&dir, "many.yaml", SCENARIO.replace("count: 400", "count: 5"));
    let _ended = ran(dir.path(), &["test", "many.yaml", "--record", "run.zip"]);
    damaged(&dir, "run.zip", damages, || (ran(dir.path(), &["replay", "run.zip"]), Vec::new()));
}

/// A baseline is text that people merge, so it has no checksum. Damage to it may look like a change, and never hides
/// one: a run whose decisions differ from the stored ones is reported with each damage.
fn a_damaged_baseline_never_hides_a_change() {
    damaged_baselines(FEW);
}

fn damaged_baselines(damages: usize) {
    let dir = empty();
    write(&dir, "many.yaml", SCENARIO.replace("count: 400", "count: 5"));
    let _ended = ran(dir.path(), &["test", "many.yaml", "--baseline", "kept", "--update-baseline"]);
    let name = files(&dir.path().join("kept"))[0].0.clone();
    let test = || {
        let output = ran(dir.path(), &["test", "many.yaml", "--baseline", "kept", "--format", "tap"]);
        (output, Vec::new())
    };
    damaged(&dir, &format!("kept/{name}"), damages, test);
    write(&dir, "many.yaml", SCENARIO.replace("count: 400", "count: 5").replace("gpus: 2", "gpus: 3"));
    let path = dir.path().join("kept").join(&name);
    let whole = std::fs::read(&path).expect("it was written");
    let mut draws = Stream::new(3, "damages", 0);
    for _ in 0..damages {
        let mut bytes = whole.clone();
        let at = draws.index(bytes.len());
        bytes[at] ^= 1 << draws.index(8);
        std::fs::write(&path, &bytes).expect("a folder of our own");
        let output = ran(dir.path(), &["test", "many.yaml", "--baseline", "kept"]);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

fn slow_500_kills_leave_whole_files_or_none() {
    killed_runs(200);
    killed_tests(150);
    killed_plans(150);
}

fn slow_2000_damages_are_never_hidden() {
    damaged_logs(400);
    damaged_journals(400);
    damaged_records(400);
    damaged_baselines(200);
}
