//! A keeper process: whichever process is killed, nothing is left of what was started.
//!
//! ```text
//!  who was started: the keeper ──> the same program again: the kept one, who does the work ──> tasks and programs
//! ```
//!
//! The keeper is the parent of last resort of everything below it. If the kept process is killed, whatever it has
//! started, however deep, in whatever session and with whatever environment, becomes a child of the keeper and is
//! killed. If the keeper is killed, the kernel tells the kept process with SIGTERM, and the kept process ends
//! everything politely. If both are killed at the same moment, what they started goes on, as with any program. The
//! kept process has another name, so that a kill by name (`pkill -9 dryrack`) does not do that.
//!
//! The kernel sends that signal only to a process that has asked for it, and a signal is lost while nobody listens.
//! So the kept process checks twice whether its keeper is still its parent: after it has asked, and after it has
//! begun to listen ([`lost_keeper`]). A process that was started to be kept, but has another parent, ends at once; it
//! never becomes a keeper itself.
//!
//! The kept process has a process group of its own, so that a terminal and `kill -- -PGID` reach only the keeper,
//! which passes on what it is told.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, set_child_subreaper, set_parent_process_death_signal,
};
use rustix::thread::set_name;

use crate::clock::{Deadline, pause};
use crate::procfs;
use crate::signals::Signals;
use dryrack_units::SimDuration;

/// The variable that tells the kept process who keeps it.
pub(super) const KEEPER: &str = "DRYRACK_KEEPER";

/// The name of the kept process. The name of the program must not occur in it.
const KEPT: &CStr = c"kept-work";

/// In the kept process: who keeps it.
static KEPT_BY: OnceLock<Pid> = OnceLock::new();

/// How the kept process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Ended { code: i32 },
    Killed { signal: i32, left: usize },
}

/// Starts this program again with the same arguments, and returns how that ended. Returns `None` in that second
/// process, which is to do the work.
pub fn keep() -> io::Result<Option<Kept>> {
    let me = getpid();
    if let Some(keeper) = named_keeper() {
        KEPT_BY.get_or_init(|| keeper);
        set_parent_process_death_signal(Some(Signal::TERM))?;
        set_name(KEPT)?;
        // From now on, the keeper's death sends the signal.
        if lost_keeper() {
            return Err(io::Error::other("the process that keeps it was killed"));
        }
        // It is also to end whatever is left below it when it ends by itself.
        set_child_subreaper(Some(me))?;
        return Ok(None);
    }
    // Before anything is started, so that no end is missed.
    let mut signals = Signals::new()?;
    set_child_subreaper(Some(me))?;
    let mut kept = again()?;
    let pid = Pid::from_child(&kept);
    let status = loop {
        if let Some(status) = kept.try_wait()? {
            break status;
        }
        let heard = signals.wait(SimDuration::from_secs(1))?;
        for _ in 0..heard.ends {
            // The process is not reaped, so the number is still its own.
            let _unheard = kill_process(pid, Signal::TERM);
        }
    };
    let left = end_all();
    Ok(Some(match status.code() {
        Some(code) => Kept::Ended { code },
        None => Kept::Killed { signal: status.signal().unwrap_or(0), left },
    }))
}

/// Whether this process was to be kept and its keeper is gone. Whoever begins to listen to signals asks this
/// afterwards, and treats a yes like a signal that came before.
pub fn lost_keeper() -> bool {
    KEPT_BY.get().is_some_and(|keeper| getppid() != Some(*keeper))
}

/// The keeper of this process, if the process was started to be kept; the keeper may be dead by now. The variable
/// alone does not prove it, because the programs that the kept process starts inherit it. Only the kept process
/// itself is started with the name.
fn named_keeper() -> Option<Pid> {
    let keeper = std::env::var(KEEPER).ok().and_then(|pid| Pid::from_raw(pid.parse().ok()?))?;
    let has_name = || std::env::args_os().next().is_some_and(|name| name.as_bytes() == KEPT.to_bytes());
    (getppid() == Some(keeper) || has_name()).then_some(keeper)
}

fn again() -> io::Result<Child> {
    let args = std::env::args_os().skip(1);
    // If the program file was replaced since, it is still there under this name.
    let program = std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or("/proc/self/exe".into());
    let mut command = Command::new(program);
    command
        .arg0(OsStr::from_bytes(KEPT.to_bytes()))
        .args(args)
        .env(KEEPER, getpid().as_raw_nonzero().to_string())
        .process_group(0);
    command.spawn()
}

/// Kills all descendants of this process until none is left, for at most ten seconds; returns how many there were.
pub fn end_all() -> usize {
    let me = getpid().as_raw_nonzero().get().unsigned_abs();
    let mut killed = std::collections::BTreeSet::new();
    let deadline = Deadline::within(Duration::from_secs(10));
    loop {
        let living: Vec<_> = procfs::descendants(me).into_iter().filter(|key| key.is_alive()).collect();
        if living.is_empty() || deadline.has_passed() {
            return killed.len();
        }
        for key in living {
            key.signal(Signal::KILL);
            killed.insert(key);
        }
        pause(Duration::from_millis(2));
    }
}
