//! Processes as procfs shows them: their identities, parents and CPU times.
//!
//! A number (PID) is given to another process once its owner is gone. A [`ProcessKey`] also holds the start time, in
//! ticks since the machine started, so that one process is never taken for another.

use std::fs;
use std::path::Path;

use super::probe::Missing;
use dryrack_units::SimDuration;

/// The identity of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessKey {
    pub pid: u32,
    /// The start time, in ticks after the machine started.
    pub started: u64,
}

/// What `/proc/PID/stat` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    pub key: ProcessKey,
    pub parent: u32,
    pub group: u32,
    /// Ended, but not yet reaped by its parent.
    pub is_zombie: bool,
    /// CPU time in user and kernel mode, of all its threads.
    pub cpu: SimDuration,
    /// CPU time of its children that ended and were reaped, and of theirs.
    pub cpu_of_reaped: SimDuration,
}

/// Ticks in a second: fixed for programs since Linux 2.6 on every machine that Rust runs on (`USER_HZ`).
const TICKS: u64 = 100;

fn ticks(count: u64) -> SimDuration {
    SimDuration::from_nanos(count.saturating_mul(1_000_000_000 / TICKS))
}

impl ProcessKey {
    /// The process that has this number at the moment.
    pub fn of(pid: u32) -> Result<ProcessKey, Missing> {
        stat(pid).map(|stat| stat.key)
    }

    /// Whether this very process is there, and has not ended.
    pub fn is_alive(self) -> bool {
        self.stat().is_ok_and(|stat| !stat.is_zombie)
    }

    /// The figures of the process; an error if the number has gone to another process.
    pub fn stat(self) -> Result<ProcessStat, Missing> {
        let stat = stat(self.pid)?;
        if stat.key == self { Ok(stat) } else { Err(Missing::ProcessReused { pid: self.pid }) }
    }
}

#[cfg(target_os = "linux")]
impl ProcessKey {
    /// Sends a signal through a handle that stays with its process, so that a later process of the same number is not
    /// hit. If the process is gone, that is what was wanted.
    pub fn signal(self, signal: rustix::process::Signal) {
        use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(Ok(handle)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
        if self.is_alive() {
            let _unheard = pidfd_send_signal(&handle, signal);
        }
    }
}

/// The figures of the process that has this number at the moment.
pub fn stat(pid: u32) -> Result<ProcessStat, Missing> {
    let path = format!("/proc/{pid}/stat");
    // The name of a process may be any bytes.
    let bytes = fs::read(&path).map_err(|error| match error.kind() {
        // ESRCH: it ended between opening and reading.
        std::io::ErrorKind::NotFound => Missing::ProcessGone { pid },
        _ if error.raw_os_error() == Some(3) => Missing::ProcessGone { pid },
        _ => Missing::of_file(Path::new(&path), &error),
    })?;
    parse_stat(&String::from_utf8_lossy(&bytes))
        .ok_or_else(|| Missing::malformed(&path, 1, "the figures of a process", &String::from_utf8_lossy(&bytes)))
}

/// Parses the fields as `man 5 proc` numbers them. The second is the name in parentheses, which may hold parentheses
/// and spaces itself.
fn parse_stat(text: &str) -> Option<ProcessStat> {
    let (pid, rest) = text.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let small = |field: usize| u32::try_from(number(field)?).ok();
    Some(ProcessStat {
        key: ProcessKey { pid: pid.trim().parse().ok()?, started: number(22)? },
        parent: small(4)?,
        group: small(5)?,
        is_zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
        cpu: ticks(number(14)?.checked_add(number(15)?)?),
        cpu_of_reaped: ticks(number(16)?.checked_add(number(17)?)?),
    })
}

/// All processes, by number. Those that end meanwhile are left out; empty if there is no procfs.
pub fn processes() -> Vec<ProcessStat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<ProcessStat> = pids.filter_map(|pid| stat(pid).ok()).collect();
    found.sort_by_key(|stat| stat.key);
    found
}

/// The children of a process, their children, and so on, by number; not the process itself. A process whose parent
/// has ended has another parent by then.
pub fn descendants(pid: u32) -> Vec<ProcessKey> {
    let all = processes();
    let mut family = vec![pid];
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        for stat in all.iter().filter(|stat| stat.parent == parent && !family.contains(&stat.key.pid)) {
            found.push(stat.key);
        }
        family.extend(found.iter().map(|key| key.pid).skip(family.len() - 1));
        next += 1;
    }
    found.sort_unstable();
    found
}

/// Living processes, but for `but`, that started at that tick or later and have `entry`, `NAME=value`, in their
/// environment. Processes of other users are left out, because their environment cannot be read.
pub fn marked(entry: &str, since: u64, but: u32) -> Vec<ProcessKey> {
    let has = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
    };
    let all = processes().into_iter().filter(|stat| stat.key.started >= since && !stat.is_zombie);
    all.map(|stat| stat.key).filter(|key| key.pid != but && has(key.pid)).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_hides_no_figure() {
        // The form is that of `man 5 proc`; the figures are of a `cat` on Linux 6.18, under another name.
        let text = "32053 (a) R (b) S 31 32051 26654 0 -1 4194304 100 0 0 0 7 5 3 1 20 0 1 0 4774490 3133440 407 1844";
        let stat = parse_stat(text).expect("it is one");
        assert_eq!(stat.key, ProcessKey { pid: 32053, started: 4_774_490 });
        assert_eq!((stat.parent, stat.group, stat.is_zombie), (31, 32051, false));
        assert_eq!((stat.cpu, stat.cpu_of_reaped), (SimDuration::from_millis(120), SimDuration::from_millis(40)));
        for broken in ["", "1", "1 (a", "1 (a) S", "1 (a) S 2 3 4 5 x", "x (a) S 31 32051 26654"] {
            assert_eq!(parse_stat(broken), None, "{broken}");
        }
    }

    #[test]
    fn another_process_of_the_same_number_is_not_taken_for_the_first() {
        let own = ProcessKey::of(std::process::id()).expect("we are there");
        assert!(own.is_alive());
        let earlier = ProcessKey { started: own.started - 1, ..own };
        assert!(!earlier.is_alive());
        assert_eq!(earlier.stat().unwrap_err().name(), "process_reused");
        let mut child = Command::new("true").spawn().expect("it starts");
        let key = ProcessKey::of(child.id()).expect("not reaped, so there");
        child.wait().expect("it ends");
        assert_eq!(key.stat().unwrap_err().name(), "process_gone");
    }

    #[test]
    fn a_family_is_found_however_deep() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60; true' & sleep 60; true"])
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let pid = shell.id();
        let deadline = super::super::clock::Deadline::within(std::time::Duration::from_secs(10));
        let mut family = Vec::new();
        // The inner shell and both sleeps, as soon as they have started.
        while family.len() < 3 && !deadline.has_passed() {
            family = descendants(pid);
        }
        for key in &family {
            assert!(key.is_alive());
            let pid = rustix::process::Pid::from_raw(key.pid as i32).expect("a number");
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is ours");
        }
        shell.kill().expect("it is ours");
        shell.wait().expect("it ends");
        assert_eq!(family.len(), 3);
    }
}
