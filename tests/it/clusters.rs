//! Plans that a cluster runs in parts: on a real Slurm of four virtual nodes, and as a Job of Kubernetes, which is
//! checked against the published schema.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use assert_cmd::assert::OutputAssertExt;
use serde_json::Value;

use crate::cli::{dryrack, stderr, stdout};
use crate::plans::{PLAN, files, planned};

trials! {
    Slurm: [
        a_slurm_job_array_leaves_what_one_process_leaves,
    ]
    Nothing: [
        a_job_array_is_printed_before_it_is_submitted,
        an_indexed_job_is_as_the_schema_of_kubernetes_has_it,
    ]
}

/// The programs of Debian's packages slurm-wlm and munge. They start jobs as their users, so they need root.
pub fn slurm_is_here() -> bool {
    let runs = |program: &str| Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success());
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    is_root && ["slurmctld", "slurmd", "munged"].into_iter().all(runs)
}

/// A Slurm for one test, which ends with the test.
pub struct Slurm {
    dir: tempfile::TempDir,
}

/// A node with two GPUs, for [`Slurm::start_with`].
pub const TWO_GPUS: &str = "CPUs=8 RealMemory=4000 Gres=gpu:2";

impl Slurm {
    fn start() -> Slurm {
        Slurm::start_with("CPUs=1 RealMemory=1000")
    }

    /// Starts a Slurm of four such nodes.
    pub fn start_with(node: &str) -> Slurm {
        let dir = tempfile::TempDir::new().expect("a folder of our own");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm/start");
        let slurm = Slurm { dir };
        let port = free_ports(5).to_string();
        let output = Command::new(script)
            .arg(slurm.dir.path())
            .arg(port)
            .env("SLURM_NODE", node)
            .output()
            .expect("a script of ours");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        slurm
    }

    pub fn conf(&self) -> PathBuf {
        self.dir.path().join("slurm.conf")
    }

    /// The file in which it records ended jobs.
    pub fn completed(&self) -> PathBuf {
        self.dir.path().join("jobcomp.txt")
    }

    pub fn run(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program).args(args).env("SLURM_CONF", self.conf()).output().expect("it is installed");
        assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm/stop");
        let _ended = Command::new(script).arg(self.dir.path()).status();
    }
}

/// Returns the first of `count` consecutive free ports. Each trial gets different ports, because its programs do not
/// listen on them at once.
fn free_ports(count: u16) -> u16 {
    static GIVEN: Mutex<u16> = Mutex::new(0);
    let mut given = GIVEN.lock().expect("nobody fails while it is held");
    let is_free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    // These are below the ports that the system assigns (32768 and up). Another process may search at the same time.
    let from = given.max(20_000 + (std::process::id() % 400) as u16 * 25);
    let all_free = |first: &u16| (*first..first + count).all(is_free);
    let first = (from..32_000).step_by(usize::from(count)).find(all_free).expect("five free ports");
    *given = first + count;
    first
}

/// Polls until the condition holds, for at most five minutes.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "another program is waited for, and no run depends on it")]
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(300), "not within five minutes: {what}");
        std::thread::yield_now();
    }
}

/// The job array of a real Slurm produces the same as one process, even if a task is killed before its end and
/// requeued.
fn a_slurm_job_array_leaves_what_one_process_leaves() {
    let slurm = Slurm::start();
    // The plan takes long enough to kill a task before its end.
    let dir = planned(&PLAN.replace("1..12", "1..30").replace("seeds: 1..4", "seeds: 1..20"));
    stdout(dir.path(), &["plan", "plan.yaml", "--out", "whole"], 0);
    let submit =
        ["plan", "submit", "plan.yaml", "--on", "slurm", "--shards", "6", "--out", "parts", "--format", "json"];
    let output = dryrack(dir.path(), &submit).env("SLURM_CONF", slurm.conf()).assert().code(0).get_output().clone();
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let job = said["job"].as_str().expect("a number").to_string();
    assert_eq!((&said["parts"], &said["runs"]), (&6.into(), &1200.into()));

    let journal = dir.path().join("parts/part-1/runs.jsonl");
    let lines = || std::fs::read(&journal).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count());
    until("task 1 has run something", || lines() > 3);
    slurm.run("scontrol", &["requeue", &format!("{job}_1")]);
    let after = lines();
    assert!(after < 200, "{after} lines: it was over before it was killed");
    until("all tasks are over", || slurm.run("squeue", &["--noheader", &format!("--jobs={job}")]).trim().is_empty());
    let log = std::fs::read_to_string(dir.path().join("parts/part-1.log")).expect("Slurm wrote it");
    assert!(log.contains("DUE TO JOB REQUEUE"), "{log}");
    assert_eq!(log.matches("part 1/6: 200 runs").count(), 1, "{log}");

    let parts: Vec<String> = (0..6).map(|part| format!("parts/part-{part}")).collect();
    let mut merge = vec!["plan", "merge", "plan.yaml", "--out", "merged"];
    merge.extend(parts.iter().map(String::as_str));
    stdout(dir.path(), &merge, 0);
    assert_eq!(files(&dir.path().join("whole")), files(&dir.path().join("merged")));
}

/// The printed script is what is submitted, and names with characters that are special to a shell are preserved.
fn a_job_array_is_printed_before_it_is_submitted() {
    let dir = planned(PLAN);
    std::fs::create_dir(dir.path().join("two words")).expect("ours");
    for name in ["plan.yaml", "base.yaml"] {
        std::fs::rename(dir.path().join(name), dir.path().join("two words").join(name)).expect("ours");
    }
    let file = "two words/plan.yaml";
    let args = ["plan", "submit", file, "--on", "slurm", "--out", "it's", "--shards", "3", "--dry-run"];
    let script = stdout(dir.path(), &args, 0);
    assert!(
        script.starts_with("#!/bin/bash\n# How few workers keep the waiting short?: 96 runs in 3 parts\n"),
        "{script}"
    );
    assert!(script.contains("\n#SBATCH --array=0-2\n"), "{script}");
    // Run the script here in the same way as a task.
    for index in ["0", "1", "2"] {
        let mut shell = Command::new("bash");
        shell.current_dir(dir.path()).args(["-c", &script]).env("SLURM_ARRAY_TASK_ID", index).assert().code(0);
    }
    let merge = ["plan", "merge", file, "it's/part-0", "it's/part-1", "it's/part-2", "--out", "merged"];
    stdout(dir.path(), &merge, 0);
    stdout(dir.path(), &["plan", file, "--out", "whole"], 0);
    assert_eq!(files(&dir.path().join("whole")), files(&dir.path().join("merged")));
    let searched = std::fs::read_to_string(dir.path().join(file)).expect("ours") + "method: search\n";
    std::fs::write(dir.path().join(file), searched).expect("ours");
    let said = stderr(dir.path(), &args, 2);
    assert!(said.contains("only a sweep can run in parts"), "{said}");
}

fn manifest(dir: &Path, more: &[&str]) -> Value {
    let args =
        ["plan", "submit", "plan.yaml", "--on", "kubernetes", "--image", "registry.example/dryrack:1", "--claim"];
    let args: Vec<&str> =
        args.into_iter().chain(["plans", "--out", "parts", "--dry-run"]).chain(more.iter().copied()).collect();
    serde_json::from_str(&stdout(dir, &args, 0)).expect("JSON")
}

/// Checked against the published schema of batch/v1 of Kubernetes 1.32.0, in which unknown fields are rejected.
fn an_indexed_job_is_as_the_schema_of_kubernetes_has_it() {
    let dir = planned(PLAN);
    let schema = include_str!("../data/kubernetes/job-v1.32.0.json");
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let job = manifest(dir.path(), &["--shards", "8", "--cores", "2"]);
    let faults: Vec<String> = validator.iter_errors(&job).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{faults:?}");
    // Check that the validation can fail: with an unknown field, and with a field of the wrong type.
    for (pointer, key, value) in
        [("/spec", "completionmode", "Indexed".into()), ("/spec", "completions", Value::from("8"))]
    {
        let mut wrong = job.clone();
        wrong.pointer_mut(pointer).expect("it is there")[key] = value;
        assert!(!validator.is_valid(&wrong), "{key}");
    }
    let spec = &job["spec"];
    assert_eq!((&spec["completionMode"], &spec["completions"]), (&"Indexed".into(), &8.into()));
    let words = &spec["template"]["spec"]["containers"][0]["command"];
    let words: Vec<&str> = words.as_array().expect("a list").iter().map(|word| word.as_str().expect("text")).collect();
    let index = "$(JOB_COMPLETION_INDEX)";
    let (part, shard) = (format!("parts/part-{index}"), format!("{index}/8"));
    assert_eq!(
        words,
        ["dryrack", "plan", "plan.yaml", "--out", &part, "--resume", "--shard", &shard, "--threads", "2"]
    );
    // After Kubernetes has inserted the index, these arguments run one part.
    let words: Vec<String> = words[1..].iter().map(|word| word.replace(index, "5")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(stdout(dir.path(), &words, 0), "part 5/8: 12 runs\n");
    let lost =
        ["plan", "submit", "plan.yaml", "--on", "kubernetes", "--image", "one", "--claim", "one", "--out", "../parts"];
    let said = stderr(dir.path(), &lost, 2);
    assert!(said.contains("../parts: is not a path inside the claim"), "{said}");
}
