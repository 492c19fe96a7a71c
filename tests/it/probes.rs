//! `dryrack probe`, `record` and `watch` as they are typed, with real processes that answer, hang and vanish.
//!
//! The script prints figures of a GeForce RTX 2080 with driver 440.64, from GitHub Ricks-Lab/gpu-utils#83.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dryrack_live::clock::{Deadline, pause};

use crate::cli::{dryrack, empty, write_program};

trials! {
    Nothing: [
        what_is_found_is_ready_to_run_with_the_use_of_others,
        a_gpu_that_slurm_gave_to_nobody_is_shown_as_free,
        what_is_not_there_is_said_by_name,
        a_machine_is_found_beneath_another_root,
        a_recording_goes_on_while_a_probe_hangs_and_gpus_vanish,
        what_is_left_of_a_recording_that_was_killed_is_a_recording,
        a_recording_that_finds_no_room_ends_whole,
        a_policy_on_watch_says_when_it_would_fire_and_why,
        the_policies_of_a_scenario_are_watched_too,
        a_kubectl_that_hangs_is_said_to_have_had_the_whole_time,
    ]
    SmallDisks: [
        slow_a_disk_that_is_full_costs_what_had_no_room_and_no_more,
    ]
}

const LINE: &str = "0, GPU-22b2c6ac-2d49-4863-197c-9c469071178a, GeForce RTX 2080, 7979, 1000, 86, 440.64, 7.5";

/// A folder with an nvidia-smi script, which is found before any other.
fn with_smi(body: &str) -> tempfile::TempDir {
    let dir = empty();
    let path = dir.path().join("nvidia-smi");
    write_program(&path, &format!("#!/bin/bash\nLINE='{LINE}'\n{body}\n"));
    dir
}

fn typed(dir: &Path, args: &[&str]) -> Command {
    let mut command = dryrack(dir, args);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", dir.display()));
    command
}

fn run(dir: &Path, args: &[&str], code: i32) -> (String, String) {
    let Output { status, stdout, stderr } = typed(dir, args).output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned());
    assert_eq!(status.code(), Some(code), "{args:?}\n{out}\n{err}");
    (out, err)
}

/// The number of rows of a recording, according to its reader.
fn rows(dir: &Path, file: &str) -> usize {
    let recording = dryrack_trace::read_usage_csv(&dir.join(file)).expect("it is a recording");
    assert_eq!(recording.first_out_of_order(), None);
    recording.rows.len()
}

fn what_is_found_is_ready_to_run_with_the_use_of_others() {
    let dir = with_smi("echo \"$LINE\"");
    let (out, _) = run(dir.path(), &["probe", "--gpus", "nvidia-smi", "--out", "nodes.part.yaml"], 0);
    assert!(out.contains("GeForce RTX 2080") && out.contains("86% busy"), "{out}");
    let nodes = fs::read_to_string(dir.path().join("nodes.part.yaml")).expect("it was written");
    let wanted = [
        "gpus: [{type: geforce-rtx-2080, memory: 7979MiB, vendor: nvidia, compute_capability: \"7.5\"}]",
        "foreign: {0: {memory: 1000MiB, share: 0.86}}",
        "driver: \"440.64\"",
    ];
    for line in wanted {
        assert!(nodes.contains(line), "{line}\n{nodes}");
    }
    let scenario = "scenario: What was found\ninclude: nodes.part.yaml\njobs:\n  - {name: whole, gpus: 1, duration: 1m}\n  \
                    - {name: part, at: 1s, gpus: 0.1, duration: 1m}\nuntil: 5m\nexpect:\n  - {name: busy, job: whole, \
                    never: placed}\n  - {name: why, job: whole, is: pending, at: 1m, because: gpu_busy_elsewhere}\n  \
                    - {name: fits, job: part, is: completed}\n";
    fs::write(dir.path().join("found.yaml"), scenario).expect("written");
    run(dir.path(), &["check", "found.yaml"], 0);
    run(dir.path(), &["test", "found.yaml"], 0);
    run(dir.path(), &["probe", "--gpus", "nvidia-smi", "--without-use", "--out", "free.part.yaml"], 0);
    let free = fs::read_to_string(dir.path().join("free.part.yaml")).expect("it was written");
    assert!(!free.contains("foreign:") && !free.contains("reserved:"), "{free}");
}

/// The answers are those of a Slurm 22.05: `whole` has both GPUs of n1 and `single` the first of n2.
fn a_gpu_that_slurm_gave_to_nobody_is_shown_as_free() {
    let dir = empty();
    for (program, file) in [("sinfo", "slurm-22.05-sinfo.json"), ("squeue", "slurm-22.05-squeue.json")] {
        let answer = format!("{}/tests/data/probe/{file}", env!("CARGO_MANIFEST_DIR"));
        let path = dir.path().join(program);
        write_program(&path, &format!("#!/bin/sh\ncat {answer}\n"));
    }
    let (out, _) = run(dir.path(), &["probe", "--from", "slurm"], 0);
    let shown: Vec<&str> = out.lines().filter(|line| line.starts_with("  gpu")).collect();
    let free: Vec<bool> = shown.iter().map(|line| line.contains(" free ") && !line.contains("held")).collect();
    assert_eq!(free, [false, false, false, true, true, true, true, true], "{out}");
    assert!(shown[0].contains("held by 1 whole") && shown[2].contains("held by 2 single"), "{out}");
    assert!(!out.contains("busy"), "{out}");
}

fn what_is_not_there_is_said_by_name() {
    let dir = empty();
    let (_, err) = run(dir.path(), &["probe", "--from", "slrum"], 2);
    assert!(err.contains("did you mean `slurm`?"), "{err}");
    let (_, err) = run(dir.path(), &["probe", "--from", "gpustack"], 2);
    assert!(err.contains("GPUSTACK_SERVER_URL"), "{err}");
    let (_, err) = run(dir.path(), &["probe", "--from", "http://127.0.0.1:1"], 2);
    assert!(err.contains("(unreachable)"), "{err}");
    let (_, err) = run(dir.path(), &["probe", "--gpu", "a100-81g"], 2);
    assert!(err.contains("did you mean `a100-80g`?"), "{err}");
    let broken = with_smi("exit 9");
    let (_, err) = run(broken.path(), &["probe", "--gpus", "nvidia-smi"], 0);
    assert!(err.contains("nvidia-smi has no working driver"), "{err}");
}

/// The host's /proc and /sys as mounted in a container. The card's figures are those of an MI300X, from amd-smi in
/// GitHub dstackai/dstack runner/internal/runner/metrics/metrics_test.go @43fae1d09d2b.
fn a_machine_is_found_beneath_another_root() {
    let dir = empty();
    let device = dir.path().join("host/sys/class/drm/card2/device");
    fs::create_dir_all(&device).expect("made");
    let figures = [
        ("vendor", "0x1002\n"),
        ("mem_info_vram_total", "206141652992\n"),
        ("mem_info_vram_used", "296747008\n"),
        ("gpu_busy_percent", "10\n"),
    ];
    figures.into_iter().for_each(|(file, text)| fs::write(device.join(file), text).expect("written"));
    fs::create_dir(dir.path().join("host/proc")).expect("made");
    for file in ["stat", "meminfo"] {
        fs::copy(Path::new("/proc").join(file), dir.path().join("host/proc").join(file)).expect("Linux has it");
    }
    let (out, _) = run(dir.path(), &["probe", "--root", "host", "--gpus", "amd-sysfs", "--format", "json"], 0);
    let found: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let gpu = &found["nodes"][0]["gpus"][0];
    let value = |name: &str| gpu[name]["value"].as_u64();
    assert_eq!(
        (value("memory"), value("memory_used"), value("utilization")),
        (Some(206_141_652_992), Some(296_747_008), Some(100))
    );
    let (_, err) = run(dir.path(), &["probe", "--root", "hots"], 2);
    assert!(err.contains("--root: `hots` contains neither; expected a folder that contains `proc` or `sys`"), "{err}");
}

/// The second probe hangs; at the third the GPU is missing, and then it is back.
fn a_recording_goes_on_while_a_probe_hangs_and_gpus_vanish() {
    let dir = with_smi(
        "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n\ncase $n in 1) sleep 300;; 2) echo \"1${LINE:1}\" | sed \
         s/GPU-22b2/GPU-33c3/;; *) echo \"$LINE\";; esac",
    );
    let args =
        ["record", "--gpus", "nvidia-smi", "--for", "12s", "--every", "3s", "--within", "2500ms", "--out", "u.csv"];
    run(dir.path(), &args, 0);
    assert_eq!(rows(dir.path(), "u.csv"), 5);
    let text = fs::read_to_string(dir.path().join("u.csv")).expect("it is there");
    let cells: Vec<&str> = text.lines().map(|line| line.split(',').nth(1).expect("a column")).collect();
    assert_eq!(cells, ["gpu0", "86", "N/A", "N/A", "86", "86"]);
    let why = fs::read_to_string(dir.path().join("u.csv.why.csv")).expect("it is there");
    let reasons: Vec<&str> = why
        .lines()
        .filter(|line| line.contains(",gpu0,"))
        .map(|line| line.split(',').nth(3).expect("a reason"))
        .collect();
    assert_eq!(reasons, ["timed_out", "vanished", "read"], "{why}");
    // An existing recording is not overwritten.
    let (_, err) = run(dir.path(), &args, 2);
    assert!(err.contains("already exists"), "{err}");
}

/// The process that does the work for the keeper that was started.
pub fn kept_by(keeper: u32) -> rustix::process::Pid {
    let children = format!("/proc/{keeper}/task/{keeper}/children");
    let deadline = Deadline::within(Duration::from_secs(60));
    loop {
        let found = fs::read_to_string(&children).unwrap_or_default();
        if let Some(pid) = found.split_whitespace().next().and_then(|pid| pid.parse().ok()) {
            return rustix::process::Pid::from_raw(pid).expect("a number");
        }
        assert!(!deadline.has_passed(), "{keeper} keeps nobody");
        pause(Duration::from_millis(5));
    }
}

/// Whether the worker or its keeper is killed, while a program hangs.
fn what_is_left_of_a_recording_that_was_killed_is_a_recording() {
    for (millis, is_keeper) in [(500, false), (900, true), (1300, false)] {
        let sleep = format!("{}.{millis}", 5000 + std::process::id());
        let dir = with_smi(&format!(
            "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n\n[ $n -lt 6 ] || exec sleep {sleep}\necho \"$LINE\""
        ));
        let args =
            ["record", "--gpus", "nvidia-smi", "--for", "1h", "--every", "100ms", "--within", "1h", "--out", "u.csv"];
        let mut child =
            typed(dir.path(), &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let file = dir.path().join("u.csv");
        let worker = kept_by(child.id());
        // Waits until there are some rows and the program hangs, even on a slow machine.
        while fs::read_to_string(&file).map_or(0, |text| text.lines().count()) < 4 || asleep(&sleep).is_empty() {
            pause(Duration::from_millis(20));
        }
        pause(Duration::from_millis(millis));
        match is_keeper {
            true => child.kill().expect("it runs"),
            false => rustix::process::kill_process(worker, rustix::process::Signal::KILL).expect("it runs"),
        }
        child.wait().expect("it ends");
        let deadline = Deadline::within(Duration::from_secs(60));
        while !asleep(&sleep).is_empty() {
            assert!(!deadline.has_passed(), "left behind: {:?}", asleep(&sleep));
            pause(Duration::from_millis(10));
        }
        assert!(rows(dir.path(), "u.csv") >= 3);
        assert!(fs::read_to_string(&file).expect("there").ends_with('\n'));
    }
}

/// Processes with `argument`.
fn asleep(argument: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let texts = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    texts.filter(|line| line.starts_with("sleep") && line.contains(argument)).collect()
}

/// Whether this user can mount a file system for a program and its children.
pub fn small_disks_are_here() -> bool {
    let mut tried = Command::new("unshare");
    tried.args(["--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]);
    tried.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Runs a script on a disk of this many KiB, and returns its output and what is left on the disk.
fn on_a_disk_of(kibibytes: u32, script: &str) -> (Option<i32>, String, tempfile::TempDir) {
    // Many GPUs make a row large.
    let dir = with_smi("for i in $(seq 0 59); do echo \"$i, GPU-22b2c6ac-$i${LINE:43}\"; done");
    let exe = env!("CARGO_BIN_EXE_dryrack");
    let script = format!(
        "set -e; d=$1; mkdir $d/disk; mount -t tmpfs -o size={kibibytes}k none $d/disk; cd $d/disk; set +e\n\
         dryrack() {{ {exe} \"$@\"; }}\n{script}\ncode=$?; cp -r $d/disk $d/left; exit $code"
    );
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "bash", "-c", &script, "bash"]).arg(dir.path()).env("NO_COLOR", "1");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = command.env("PATH", format!("{}:{path}", dir.path().display())).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    (output.status.code(), said, dir)
}

const FULL: &str = "No space left on device";

const SMALL: &str = "\
scenario: Small
profile: fifo
live: {accelerators: {here: [{cores: [0]}]}}
nodes: [{name: here, cpus: 2, ram: 1GiB, gpus: [{type: cpu-share, count: 1, memory: 1GiB}]}]
sampling: {interval: 10ms}
jobs:
  - name: a
    gpus: 1
    duration: 1h
    usage: 50%
    command: setsid sleep 71234 & sleep 71234
    utilization_policy: {min_gpu_utilization: 1%, time_window: 10m}
";

/// On a file system of a few KiB, complete output stays, incomplete output does not, and each error gives the reason.
fn slow_a_disk_that_is_full_costs_what_had_no_room_and_no_more() {
    let script = "dryrack record --gpus nvidia-smi --for 1h --every 100ms --within 20s --out u.csv";
    let (code, said, dir) = on_a_disk_of(32, script);
    assert!(code == Some(2) && said.contains(FULL), "{code:?} {said}");
    let left = dir.path().join("left");
    let whole = rows(&left, "u.csv");
    assert!(whole > 10 && said.contains(&format!("{whole} rows are complete")), "{said}");
    assert!(fs::read_to_string(left.join("u.csv")).expect("there").ends_with('\n'));
    let fill = "head -c 40000 /dev/zero > filler 2>/dev/null\n";
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/probe/gpustack-2.3.0");
    let import = format!("dryrack import gpustack-rest {pages} --out .");
    let cases = [
        ("dryrack probe --gpus none --out nodes.yaml", "nodes.yaml"),
        ("dryrack record --gpus none --for 1s --every 100ms --out u.csv", "none.csv"),
        (import.as_str(), "scenario.yaml"),
        ("dryrack watch ../policy.yaml --gpus none --for 1s --every 1s > full", "none.csv"),
    ];
    for (script, absent) in cases {
        let policy = "echo 'utilization_policy: {min_gpu_utilization: 30%, time_window: 10m}' > ../policy.yaml\n";
        let (code, said, dir) = on_a_disk_of(32, &format!("{policy}{fill}{script}"));
        assert!(code == Some(2) && said.contains(FULL), "{script}: {code:?} {said}");
        assert!(!dir.path().join("left").join(absent).exists(), "{script}: {absent} is half there");
    }
    let live = format!("cat > ../it.yaml <<'END'\n{SMALL}END\ndryrack live ../it.yaml --log log.jsonl");
    let (code, said, dir) = on_a_disk_of(16, &live);
    assert!(code == Some(2) && said.contains("the run ended") && said.contains(FULL), "{code:?} {said}");
    assert!(!dir.path().join("left/log.jsonl").exists(), "{said}");
    assert_eq!(asleep("71234"), Vec::<String>::new());
}

/// The file must not grow beyond a kilobyte, as on a full disk.
fn a_recording_that_finds_no_room_ends_whole() {
    let dir = empty();
    let exe = env!("CARGO_BIN_EXE_dryrack");
    let script = format!("ulimit -f 1; exec {exe} record --gpus none --for 1h --every 100ms --out u.csv");
    let output = Command::new("bash").args(["-c", &script]).current_dir(dir.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let whole = rows(dir.path(), "u.csv");
    assert!(said.contains("cannot be written") && said.contains(&format!("{whole} rows are complete")), "{said}");
    assert!(fs::metadata(dir.path().join("u.csv")).expect("there").len() <= 1024);
}

fn a_policy_on_watch_says_when_it_would_fire_and_why() {
    let dir = with_smi("echo \"${LINE/ 86,/ 3,}\"");
    let policy = "utilization_policy: {min_gpu_utilization: 30%, time_window: 3s}\n";
    fs::write(dir.path().join("policy.yaml"), policy).expect("written");
    let args = ["watch", "policy.yaml", "--gpus", "nvidia-smi", "--for", "8s", "--every", "1s", "--within", "1s"];
    let (out, err) = run(dir.path(), &args, 0);
    assert!(err.contains("no job is touched"), "{err}");
    let fired: Vec<&str> = out.lines().filter(|line| line.contains("would have been ended")).collect();
    assert!(fired.len() == 1 && fired[0].contains("GPU 0 below 30% for 3s"), "{out}");
    assert!(out.contains("1 firing"), "{out}");
}

/// The policy of each of its jobs is watched on every GPU.
fn the_policies_of_a_scenario_are_watched_too() {
    let dir = with_smi("echo \"${LINE/ 86,/ 3,}\"");
    let scenario = "scenario: Two policies, and a job without\nnodes: [{name: a, \
                    machine: a100-80g-x2}]\njobs:\n  - {name: strict, gpus: 1, duration: 1h, usage: 50%, \
                    utilization_policy: {min_gpu_utilization: 30%, time_window: 2s}}\n  - {name: twin, gpus: 1, duration: \
                    1h, usage: 50%, utilization_policy: {min_gpu_utilization: 30%, time_window: 2s}}\n  - {name: mild, \
                    gpus: 1, duration: 1h, usage: 50%, utilization_policy: {min_gpu_utilization: 2%, time_window: 2s}}\n";
    fs::write(dir.path().join("it.yaml"), scenario).expect("written");
    let args = ["watch", "it.yaml", "--gpus", "nvidia-smi", "--for", "6s", "--every", "1s", "--within", "1s"];
    let (out, err) = run(dir.path(), &args, 0);
    assert!(err.contains("watching 1 subject under 2 policies"), "{err}");
    let fired: Vec<&str> = out.lines().filter(|line| line.contains("would have been ended")).collect();
    assert!(fired.len() == 1 && fired[0].contains("under the policy of strict and 1 other"), "{out}");
    fs::write(
        dir.path().join("none.yaml"),
        "scenario: None\nnodes: [{name: a, machine: a100-80g-x2}]\njobs: [{name: a, \
              gpus: 1, duration: 1h}]\n",
    )
    .expect("written");
    let (_, err) = run(dir.path(), &["watch", "none.yaml", "--gpus", "nvidia-smi"], 2);
    assert!(err.contains("has no utilization policy"), "{err}");
}

fn a_kubectl_that_hangs_is_said_to_have_had_the_whole_time() {
    let dir = empty();
    let path = dir.path().join("kubectl");
    write_program(&path, "#!/bin/sh\nexec sleep 60\n");
    let (_, err) = run(dir.path(), &["probe", "--from", "kubernetes", "--within", "1s", "--out", "cluster"], 2);
    assert!(err.contains("did not answer within 1s"), "{err}");
}
