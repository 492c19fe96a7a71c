//! A command that starts other programs does its work in a separate process under a keeper. These tests kill the keeper
//! around the time at which that process is created, again and again, each time a little later.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dryrack_live::clock::{Deadline, pause};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cli::dryrack;

trials! {
    Nothing: [
        a_keeper_killed_as_its_child_is_born_leaves_nobody,
    ]
    Time: [
        slow_500_keepers_killed_as_their_children_are_born_leave_nobody,
    ]
}

/// How much later each kill comes than the previous one. After `STEPS` kills, the delay starts again at zero.
const STEP: Duration = Duration::from_micros(150);
const STEPS: u32 = 40;

fn a_keeper_killed_as_its_child_is_born_leaves_nobody() {
    leaves_nobody(Work::Record, 20);
    leaves_nobody(Work::Live, 20);
}

fn slow_500_keepers_killed_as_their_children_are_born_leave_nobody() {
    leaves_nobody(Work::Record, 250);
    leaves_nobody(Work::Live, 250);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Record,
    Live,
}

const SCENARIO: &str = "\
scenario: A job that lasts
profile: fifo
live: {accelerators: {here: [{cores: [0], cpu: 500m}]}}
nodes: [{name: here, cpus: 2, ram: 1GiB, gpus: [{type: cpu-share, memory: 1GiB}]}]
jobs: [{name: a, gpus: 1, duration: 1h, command: [sleep, \"3600\"]}]
";

/// Kills this many keepers, and waits until everything that they started is gone.
fn leaves_nobody(work: Work, kills: u32) {
    let dir = TempDir::new().expect("a folder of our own");
    fs::write(dir.path().join("it.yaml"), SCENARIO).expect("a folder of our own");
    let tag = format!("kept-{work:?}-{}", std::process::id());
    let mut born = 0;
    for number in 0..kills {
        born += u32::from(kill_at_birth(dir.path(), work, &format!("{tag}-{number}"), STEP * (number % STEPS)));
    }
    let deadline = Deadline::within(Duration::from_secs(60));
    while !with_argument(&tag).is_empty() {
        if deadline.has_passed() {
            let left = with_argument(&tag);
            for (pid, _) in &left {
                let _gone = kill_process(*pid, Signal::KILL);
            }
            panic!("{} of {kills} kept ones go on without their keeper: {left:?}", left.len());
        }
        pause(Duration::from_millis(50));
    }
    // Otherwise too few kills came after the child was created.
    assert!(born * 2 > kills, "{born} of {kills} had a child when they were killed");
}

/// Returns whether the keeper had a child when it was killed.
fn kill_at_birth(dir: &Path, work: Work, tag: &str, later: Duration) -> bool {
    let out = format!("{tag}.out");
    let args: &[&str] = match work {
        Work::Record => &["record", "--for", "1h", "--every", "100ms", "--gpus", "none", "--out", &out],
        Work::Live => &["live", "it.yaml", "--log", &out],
    };
    let mut command = dryrack(dir, args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut keeper = command.spawn().expect("it is built");
    let children = format!("/proc/{0}/task/{0}/children", keeper.id());
    let deadline = Deadline::within(Duration::from_secs(60));
    let is_born = || fs::read_to_string(&children).is_ok_and(|text| !text.trim().is_empty());
    while !is_born() {
        let ended = keeper.try_wait().expect("it is ours");
        assert!(ended.is_none() && !deadline.has_passed(), "{args:?} starts nothing: {ended:?}");
    }
    let moment = Deadline::within(later);
    while !moment.has_passed() {}
    let was_there = is_born();
    keeper.kill().expect("it is not reaped");
    keeper.wait().expect("it ends");
    was_there
}

/// Living processes with any name that have `tag` in an argument.
fn with_argument(tag: &str) -> Vec<(Pid, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("Linux").flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some((pid, line)) = pid.zip(fs::read(entry.path().join("cmdline")).ok()) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(tag) {
            found.push((pid, line));
        }
    }
    found
}
