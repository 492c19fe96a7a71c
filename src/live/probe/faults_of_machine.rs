//! Tests of faults of the machine itself: a full disk, a clock that is set, and process numbers that are reused. A
//! probe must report a named reason for each.
//!
//! Tests with small file systems that really fill up are in `tests/it/probes.rs`.

use std::fs::{self, OpenOptions};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use super::faults::write_program;
use super::{GpuSnapshot, Guarded, Missing, NodeSnapshot, Probe, Smi, SmiKind, Snapshot};
use crate::clock::{Clock, Deadline, Wall, pause, sim_duration};
use crate::procfs::ProcessKey;
use crate::recorder::{RecordError, RecordingOptions, record, why_path};
use crate::stop::Stop;
use crate::watch::{GpuGrouping, Watch};
use dryrack_units::{Permille, SimDuration};
use dryrack_workload::{AtMinimum, Gaps, IdleGpus, PolicyMode, UtilizationPolicy, UtilizationRule};

/// A case: its name, the function that provokes the fault, and the reason that the function must report.
pub(super) type Case = (&'static str, fn() -> String, &'static str);

const HOUR: i64 = 3_600_000_000_000;

pub(super) const CASES: [Case; 18] = [
    ("a recording on a disk that is full", || unwritten("/dev/full"), "storage_full"),
    ("a recording in a folder that is not there", || begun("no/such/folder/u.csv"), "not_found"),
    ("a recording over another", over_another, "exists"),
    ("a recording whose reasons would replace others", over_reasons, "exists"),
    ("a recording while the clock is set an hour ahead", || recorded_while(HOUR), "clock_set: ahead by 1h"),
    ("a recording while the clock is set an hour back", || recorded_while(-HOUR), "clock_set: back by 1h"),
    ("a recording while the clock is set to the end of time", || recorded_while(i64::MAX / 2), "clock_set: ahead"),
    ("a policy on watch while the clock is set an hour ahead", || watched_while(HOUR), "fired after 3s"),
    ("a policy on watch while the clock is set an hour back", || watched_while(-HOUR), "fired after 3s"),
    ("a program that hangs while the clock is set an hour ahead", || hung_while(HOUR), "timed_out"),
    ("a program that hangs while the clock is set an hour back", || hung_while(-HOUR), "timed_out"),
    ("a process that has ended", ended, "process_gone"),
    ("a number that another process was given", reused, "process_reused"),
    ("a signal to a number that another process was given", signalled, "the other one lives"),
    ("a process that ended and was not reaped", zombie, "not alive"),
    ("a process that cannot be", || named(ProcessKey { pid: u32::MAX, started: 0 }), "process_gone"),
    ("the number of no process", || named(ProcessKey { pid: 0, started: 0 }), "process_gone"),
    ("a process of an earlier start of the machine", earlier, "process_reused"),
];

fn named(key: ProcessKey) -> String {
    key.stat().map_or_else(|missing| missing.name().to_string(), |_| "alive".to_string())
}

/// A probe that finds one GPU at 5 %. It sets the machine's clock at the third poll.
struct Set {
    polls: u32,
    wall: Arc<AtomicI64>,
    by: i64,
}

impl Probe for Set {
    fn source(&self) -> String {
        "a machine whose clock is set".to_string()
    }

    fn poll(&mut self, clock: &Clock, _: Deadline) -> Result<Snapshot, Missing> {
        self.polls += 1;
        if self.polls == 3 {
            self.wall.store(self.by, Ordering::Relaxed);
        }
        let mut node = NodeSnapshot::named("a", clock.now(), "it");
        let mut gpu = GpuSnapshot::numbered(0, clock.now(), "it");
        gpu.utilization = Ok(Permille::new(50));
        node.gpus.push(gpu);
        Ok(Snapshot { nodes: vec![node], notes: Vec::new() })
    }
}

/// A clock with an adjustable offset of its wall time, and the variable that sets this offset.
fn clock_that_is_set() -> (Arc<Clock>, Arc<AtomicI64>) {
    let wall = Arc::new(AtomicI64::new(0));
    let shown = Arc::clone(&wall);
    let own = Clock::start();
    let source = move || Wall((own.now().since_start.as_nanos() as i64).saturating_add(shown.load(Ordering::Relaxed)));
    (Arc::new(Clock::with_wall(Box::new(source))), wall)
}

fn millis(count: u64) -> SimDuration {
    SimDuration::from_millis(count)
}

fn probe_at(by: i64) -> (Guarded, Arc<Clock>) {
    let (clock, wall) = clock_that_is_set();
    (Guarded::new(Box::new(Set { polls: 0, wall, by }), Arc::clone(&clock)), clock)
}

fn written(out: &std::path::Path, by: i64) -> Result<(), RecordError> {
    let (mut probe, clock) = probe_at(by);
    let pace = RecordingOptions { length: millis(300), every: millis(50), within: SimDuration::from_secs(20) };
    record(&mut probe, &clock, pace, out, &Stop::default(), &mut |_, _| {}).map(|_| ())
}

fn reason(error: &RecordError) -> String {
    match error {
        RecordError::Nothing(missing) => missing.name().to_string(),
        RecordError::Exists { .. } => "exists".to_string(),
        RecordError::Unwritten { source, .. } => match source.kind() {
            std::io::ErrorKind::StorageFull => "storage_full".to_string(),
            std::io::ErrorKind::NotFound => "not_found".to_string(),
            other => format!("{other:?}"),
        },
    }
}

/// Writes to a file of the kernel that never has room, such as `/dev/full`.
fn unwritten(path: &str) -> String {
    let file = OpenOptions::new().append(true).open(path).expect("every Linux has it");
    let mut lines = crate::recorder::WholeLines::of(path.into(), file);
    reason(&lines.line("0,97", 7).expect_err("it cannot be written"))
}

fn begun(path: &str) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    reason(&written(&dir.path().join(path), 0).expect_err("it cannot be written"))
}

fn over_another() -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("u.csv");
    fs::write(&out, "mine").expect("written");
    let why = reason(&written(&out, 0).expect_err("it cannot be written"));
    assert_eq!(fs::read_to_string(&out).expect("it is there"), "mine");
    why
}

fn over_reasons() -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("u.csv");
    fs::write(why_path(&out), "mine").expect("written");
    let why = reason(&written(&out, 0).expect_err("it cannot be written"));
    assert_eq!(fs::read_to_string(why_path(&out)).expect("it is there"), "mine");
    why
}

/// The lines about the clock in the file of reasons. The rows of the recording continue normally.
fn recorded_while(by: i64) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("u.csv");
    written(&out, by).expect("it is recorded");
    let text = fs::read_to_string(&out).expect("it is there");
    let times = text.lines().skip(1).map(|line| line.split(',').next().unwrap_or("").parse().expect("seconds"));
    let times: Vec<f64> = times.collect();
    assert!(times.len() > 3 && times.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
    assert!(times.last().expect("some") < &60.0, "{text}");
    let why = fs::read_to_string(why_path(&out)).expect("it is there");
    let said: Vec<&str> = why.lines().filter_map(|line| line.split_once("was set ")).map(|(_, by)| by).collect();
    assert_eq!(said.len(), 1, "{why}");
    format!("clock_set: {}", said[0].trim_end_matches('"'))
}

/// Watches samples that are a second apart, idle from the first one on, with a window of three seconds.
fn watched_while(by: i64) -> String {
    let policy = UtilizationPolicy {
        rule: UtilizationRule::Covered,
        mode: PolicyMode::Observe,
        min_gpu_utilization: Permille::new(300),
        time_window: SimDuration::from_secs(3),
        gpus: IdleGpus::Any,
        at_minimum: AtMinimum::Busy,
        interval: SimDuration::from_secs(1),
        longest_gap: SimDuration::from_secs(2),
        gaps: Gaps::Void,
        grace: SimDuration::ZERO,
    };
    let (clock, wall) = clock_that_is_set();
    let mut probe = Set { polls: 0, wall, by };
    let mut stamp = clock.now();
    let first = probe.poll(&clock, Deadline::within(Duration::from_secs(5))).expect("it answers");
    let mut watch = Watch::begin(policy, GpuGrouping::Gpu, &first, stamp);
    let began = stamp;
    for second in 0..10 {
        let snapshot = probe.poll(&clock, Deadline::within(Duration::from_secs(5)));
        stamp.since_start = began.since_start.saturating_add(SimDuration::from_secs(second));
        stamp.wall = clock.now().wall;
        if let Some(fired) = watch.take_snapshot(&snapshot, stamp, stamp).first() {
            return format!("fired after {}", fired.at.since_start.saturating_sub(began.since_start));
        }
    }
    "never fired".to_string()
}

fn hung_while(by: i64) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("nvidia-smi");
    write_program(&program, "#!/bin/bash\nsleep 300\n");
    let (clock, wall) = clock_that_is_set();
    let own = Clock::start();
    let setter = std::thread::spawn(move || {
        pause(Duration::from_millis(100));
        wall.store(by, Ordering::Relaxed);
    });
    let snapshot = Smi::at(SmiKind::Nvidia, program).poll(&clock, Deadline::within(Duration::from_millis(400)));
    setter.join().expect("it sets the clock");
    assert!(own.now().since_start < sim_duration(Duration::from_secs(10)), "took {}", own.now().since_start);
    snapshot.map_or_else(|missing| missing.name().to_string(), |_| "an answer".to_string())
}

fn sleeper() -> Child {
    Command::new("sleep").arg("300").stdout(Stdio::null()).spawn().expect("it starts")
}

fn killed(mut child: Child) {
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

fn ended() -> String {
    let child = sleeper();
    let key = ProcessKey::of(child.id()).expect("it is there");
    killed(child);
    named(key)
}

/// A process that has ended, and another process with the same number. The test asks the kernel to continue numbering
/// at that point, which only a privileged test may do. Otherwise it changes the start time in the key instead.
fn a_number_given_again() -> (ProcessKey, Child) {
    let first = sleeper();
    let key = ProcessKey::of(first.id()).expect("it is there");
    killed(first);
    // Wait longer than a tick, which is a hundredth of a second. Processes born in the same tick have equal keys.
    pause(Duration::from_millis(30));
    for _ in 0..50 {
        if fs::write("/proc/sys/kernel/ns_last_pid", (key.pid - 1).to_string()).is_err() {
            break;
        }
        let next = sleeper();
        if next.id() == key.pid {
            return (key, next);
        }
        killed(next);
    }
    let other = sleeper();
    let own = ProcessKey::of(other.id()).expect("it is there");
    (ProcessKey { started: own.started - 1, ..own }, other)
}

fn reused() -> String {
    let (key, other) = a_number_given_again();
    let said = named(key);
    killed(other);
    said
}

fn signalled() -> String {
    let (key, mut other) = a_number_given_again();
    key.signal(Signal::KILL);
    pause(Duration::from_millis(100));
    let lives = other.try_wait().expect("it is ours").is_none();
    killed(other);
    if lives { "the other one lives" } else { "the other one was killed" }.to_string()
}

fn zombie() -> String {
    let mut child = Command::new("true").spawn().expect("it starts");
    let key = ProcessKey::of(child.id()).expect("it is not reaped");
    let deadline = Deadline::within(Duration::from_secs(20));
    while key.is_alive() && !deadline.has_passed() {
        pause(Duration::from_millis(2));
    }
    let said = if key.is_alive() { "alive" } else { "not alive" };
    child.wait().expect("it ends");
    said.to_string()
}

fn earlier() -> String {
    let own = ProcessKey::of(std::process::id()).expect("we are there");
    named(ProcessKey { started: own.started - 1, ..own })
}
