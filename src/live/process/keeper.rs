//! A keeper process. If the keeper or the kept process is killed, all started processes are ended too.
//!
//! ```text
//!  the keeper (started by the user) ──> the kept process (the same program, does the work) ──> tasks and programs
//! ```
//!
//! The keeper is a subreaper: orphans below it become its children. If the kept process is killed, everything that it
//! has started becomes a child of the keeper, which kills it. This works at any depth, in any session and with any
//! environment. If the keeper is killed, the kernel sends SIGTERM to the kept process, which then ends all tasks in
//! order. If both are killed at the same moment, the started processes continue, as with any program. The kept process
//! has a different name, so a kill by name (`pkill -9 dryrack`) does not kill both.
//!
//! The kernel sends this signal only to a process that has asked for it, and a signal is lost if no handler is
//! installed. So the kept process checks twice whether its keeper is still its parent: after it has asked for the
//! signal, and after it has installed the handler ([`lost_keeper`]). If a process was started as the kept one but has
//! another parent, it ends at once. It never becomes a keeper itself.
//!
//! The kept process has its own process group. A terminal and `kill -- -PGID` therefore reach only the keeper, which
//! passes the signals on.

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

/// The variable that tells the kept process the process number of its keeper.
pub(super) const KEEPER: &str = "DRYRACK_KEEPER";

/// The name of the kept process. It must not contain the name of the program, so that a kill by name misses it.
const KEPT: &CStr = c"kept-work";

/// In the kept process: its keeper.
static KEPT_BY: OnceLock<Pid> = OnceLock::new();

/// How the kept process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    Ended { code: i32 },
    Killed { signal: i32, left: usize },
}

/// Starts this program again with the same arguments, waits for it, and returns how it ended. Returns `None` in the
/// second process, which then does the work.
pub fn keep() -> io::Result<Option<ProcessEnd>> {
    let me = getpid();
    if let Some(keeper) = named_keeper() {
        KEPT_BY.get_or_init(|| keeper);
        set_parent_process_death_signal(Some(Signal::TERM))?;
        set_name(KEPT)?;
        // From now on, the death of the keeper sends the signal. But the keeper may have died before this point.
        if lost_keeper() {
            return Err(io::Error::other("the process that keeps it was killed"));
        }
        // This process also becomes a subreaper, so that it can end its own leftover processes when it ends normally.
        set_child_subreaper(Some(me))?;
        return Ok(None);
    }
    // Install the handlers before anything starts, so that no end of a child is missed.
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
            // The process is not reaped yet, so the number still belongs to it.
            let _unheard = kill_process(pid, Signal::TERM);
        }
    };
    let left = end_all();
    Ok(Some(match status.code() {
        Some(code) => ProcessEnd::Ended { code },
        None => ProcessEnd::Killed { signal: status.signal().unwrap_or(0), left },
    }))
}

/// Whether this process was started by a keeper that is now gone. Code that installs signal handlers must call this
/// afterwards, and must treat `true` like a signal that came earlier.
pub fn lost_keeper() -> bool {
    KEPT_BY.get().is_some_and(|keeper| getppid() != Some(*keeper))
}

/// The keeper of this process, if this is a kept process. The keeper may be dead already. The variable alone proves
/// nothing, because programs started by the kept process inherit it. The name of the process is the proof.
fn named_keeper() -> Option<Pid> {
    let keeper = std::env::var(KEEPER).ok().and_then(|pid| Pid::from_raw(pid.parse().ok()?))?;
    let has_name = || std::env::args_os().next().is_some_and(|name| name.as_bytes() == KEPT.to_bytes());
    (getppid() == Some(keeper) || has_name()).then_some(keeper)
}

fn again() -> io::Result<Child> {
    let args = std::env::args_os().skip(1);
    // If the program file has been replaced since the start, the running one can still be found under `/proc/self/exe`.
    let program = std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or("/proc/self/exe".into());
    let mut command = Command::new(program);
    command
        .arg0(OsStr::from_bytes(KEPT.to_bytes()))
        .args(args)
        .env(KEEPER, getpid().as_raw_nonzero().to_string())
        .process_group(0);
    command.spawn()
}

/// Kills all descendants of this process repeatedly until none is left, for at most ten seconds. Returns their number.
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
