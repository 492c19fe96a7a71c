//! Processes as procfs shows them: their identities, parents and CPU times.
//!
//! Linux reuses the number (PID) of a process after the process is gone. A [`ProcessKey`] therefore also contains the
//! start time, in ticks since the machine started. So a new process is never mistaken for an old one.

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

/// The content of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    pub key: ProcessKey,
    pub parent: u32,
    pub group: u32,
    /// Whether the process has ended but has not been reaped by its parent.
    pub is_zombie: bool,
    /// CPU time in user mode and kernel mode, of all threads of the process.
    pub cpu: SimDuration,
    /// CPU time of its ended and reaped children, and of their reaped children.
    pub cpu_of_reaped: SimDuration,
}

/// Ticks in a second (`USER_HZ`). Linux has reported 100 to programs since 2.6, on every machine for which Rust
/// compiles.
const TICKS: u64 = 100;

fn ticks(count: u64) -> SimDuration {
    SimDuration::from_nanos(count.saturating_mul(1_000_000_000 / TICKS))
}

impl ProcessKey {
    /// The key of the process that has this number now.
    pub fn of(pid: u32) -> Result<ProcessKey, Missing> {
        stat(pid).map(|stat| stat.key)
    }

    /// Whether exactly this process still exists and has not ended.
    pub fn is_alive(self) -> bool {
        self.stat().is_ok_and(|stat| !stat.is_zombie)
    }

    /// The figures of the process; an error if its number now belongs to another process.
    pub fn stat(self) -> Result<ProcessStat, Missing> {
        let stat = stat(self.pid)?;
        if stat.key == self { Ok(stat) } else { Err(Missing::ProcessReused { pid: self.pid }) }
    }
}

#[cfg(target_os = "linux")]
impl ProcessKey {
    /// Sends a signal through a handle of this process. So a later process with the same number is never hit. A process
    /// that is already gone is not an error.
    pub fn signal(self, signal: rustix::process::Signal) {
        use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(Ok(handle)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
        if self.is_alive() {
            let _unheard = pidfd_send_signal(&handle, signal);
        }
    }
}

/// The figures of the process that has this number now.
pub fn stat(pid: u32) -> Result<ProcessStat, Missing> {
    let path = format!("/proc/{pid}/stat");
    // Read bytes, because the name of a process may not be valid text.
    let bytes = fs::read(&path).map_err(|error| match error.kind() {
        // ESRCH means that the process ended between opening and reading the file.
        std::io::ErrorKind::NotFound => Missing::ProcessGone { pid },
        _ if error.raw_os_error() == Some(3) => Missing::ProcessGone { pid },
        _ => Missing::of_file(Path::new(&path), &error),
    })?;
    parse_stat(&String::from_utf8_lossy(&bytes))
        .ok_or_else(|| Missing::malformed(&path, 1, "the figures of a process", &String::from_utf8_lossy(&bytes)))
}

/// Parses the fields in the order of `man 5 proc`. The second field is the name in parentheses. The name itself may
/// contain parentheses and spaces.
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

/// All processes, sorted by number. Processes that end during this call are left out. Empty without procfs.
pub fn processes() -> Vec<ProcessStat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<ProcessStat> = pids.filter_map(|pid| stat(pid).ok()).collect();
    found.sort_by_key(|stat| stat.key);
    found
}

/// The children of a process, their children and so on, sorted by number; without the process itself. A process whose
/// parent has ended counts as a child of its new parent.
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

/// Living processes that started at tick `since` or later and have `entry` (`NAME=value`) in their environment. Leaves
/// out the process `but`, and processes of other users, whose environment cannot be read.
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
        // The form follows `man 5 proc`. The figures are those of a `cat` on Linux 6.18, with a changed name.
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
        // The inner shell and both sleeps; wait until all of them have started.
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
