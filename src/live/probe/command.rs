//! Runs the programs that a probe needs, with a deadline and a limit on their output. No process is left behind.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use super::missing::{Missing, shown};
use crate::clock::{Deadline, pause};
use crate::procfs::{self, marked};
use dryrack_units::SimDuration;

/// The limits on running a program.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub deadline: Deadline,
    pub most_bytes: usize,
}

impl Limits {
    /// A limit on the output in bytes. Even a list of ten thousand GPUs is shorter.
    pub const MOST_BYTES: usize = 4 << 20;

    pub fn until(deadline: Deadline) -> Limits {
        Limits { deadline, most_bytes: Limits::MOST_BYTES }
    }
}

/// A program with its arguments.
#[derive(Clone, Debug)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    stdin: Vec<u8>,
    environment: Vec<(OsString, OsString)>,
    /// Whether the program passes its environment on to other processes that must outlive it.
    hands_on: bool,
}

/// An environment variable that all processes of the program inherit. It still identifies a process that has left the
/// program's group, its session and its parents.
const MARK: &str = "DRYRACK_LOOK";

/// A value of [`MARK`] that is unique to this poll of this process.
fn mark() -> String {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    format!("{}.{}", std::process::id(), LOOKS.fetch_add(1, Ordering::Relaxed))
}

/// How often to check whether a program has ended while another process keeps its pipes open.
const TICK: Duration = Duration::from_millis(20);
/// How long to wait for a killed program to disappear. After that it is left alone.
const LAST_BREATH: Duration = Duration::from_secs(1);
/// The number of bytes of stderr that are kept.
const COMPLAINT: usize = 4096;

impl Command {
    pub fn new(program: impl Into<OsString>) -> Command {
        let (program, args, stdin, environment) = (program.into(), Vec::new(), Vec::new(), Vec::new());
        Command { program, args, stdin, environment, hands_on: false }
    }

    /// Runs the program with the unchanged environment of dryrack. This is for a program that passes its environment on
    /// to processes that must outlive it.
    pub fn as_we_are(self) -> Command {
        Command { hands_on: true, ..self }
    }

    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Command {
        self.environment.push((key.into(), value.into()));
        self
    }

    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Command {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the input, which must fit into a pipe, because it is written before the program reads.
    pub fn stdin(mut self, bytes: Vec<u8>) -> Command {
        assert!(bytes.len() <= 4096, "more than a pipe is sure to hold");
        self.stdin = bytes;
        self
    }

    pub fn what(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Runs the program, and returns its stdout if it ends by itself and successfully.
    pub fn output(&self, limits: Limits) -> Result<String, Missing> {
        let what = self.what();
        let mark = mark();
        let mut child = self.spawn(&mark)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A failed write is ignored: a program may end without reading its input.
            let _unread = stdin.write_all(&self.stdin);
        }
        let heard = listen(&mut child, limits, &what);
        // Kill leftover processes before the child is reaped, while its process number still belongs to it.
        let heard = match end(child, &what, &mark) {
            Some(status) => heard.and_then(|heard| judged(heard, status, &what)),
            None => Err(heard.err().unwrap_or(Missing::StillHangs { what: what.clone() })),
        }?;
        String::from_utf8(heard).map_err(|fault| Missing::NotText { what, at: fault.utf8_error().valid_up_to() })
    }

    fn spawn(&self, mark: &str) -> Result<Child, Missing> {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if self.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.process_group(0);
        if !self.hands_on {
            // Use the C locale: in another language, the program may print numbers and words differently.
            command.env("LC_ALL", "C").env(MARK, mark);
        }
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Missing::NotInstalled { what: self.what() },
            std::io::ErrorKind::PermissionDenied => Missing::NotPermitted { what: self.what() },
            _ => Missing::Unreadable { what: self.what(), said: error.to_string() },
        })
    }
}

struct Notifications {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Reads both pipes until the program has ended, including everything written before its end.
fn listen(child: &mut Child, limits: Limits, what: &str) -> Result<Notifications, Missing> {
    let pid = Pid::from_child(child);
    let mut stdout = child.stdout.take();
    let mut stderr = child.stderr.take();
    let mut heard = Notifications { stdout: Vec::new(), stderr: Vec::new() };
    let began = limits.deadline.left();
    let mut has_ended = false;
    loop {
        let left = limits.deadline.left();
        if left.is_zero() && !has_ended {
            // A part of the time may have been used up before this program started. So the message states the time that
            // was left for it, rounded up to a tenth of a second.
            let tenths = began.as_millis().div_ceil(100) as u64;
            return Err(Missing::TimedOut { what: what.to_string(), within: SimDuration::from_millis(100 * tenths) });
        }
        // After the program has ended, any remaining output is available at once, so do not wait.
        let wait = if has_ended { Duration::ZERO } else { left.min(TICK) };
        let [from_out, from_err] = is_ready(&stdout, &stderr, wait);
        if from_out && read(&mut stdout, &mut heard.stdout) && heard.stdout.len() > limits.most_bytes {
            return Err(Missing::TooMuch { what: what.to_string(), most: limits.most_bytes });
        }
        if from_err {
            read(&mut stderr, &mut heard.stderr);
            // Keep the first bytes of stderr, which name the reason.
            heard.stderr.truncate(COMPLAINT);
        }
        if has_ended && !from_out && !from_err {
            return Ok(heard);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        has_ended = has_ended || !matches!(waitid(WaitId::Pid(pid), options), Ok(None));
        if stdout.is_none() && stderr.is_none() && !has_ended {
            pause(left.min(TICK / 10));
        }
    }
}

fn is_ready(
    stdout: &Option<std::process::ChildStdout>,
    stderr: &Option<std::process::ChildStderr>,
    wait: Duration,
) -> [bool; 2] {
    let flags = PollFlags::IN;
    let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(2);
    fds.extend(stdout.as_ref().map(|pipe| PollFd::new(pipe, flags)));
    fds.extend(stderr.as_ref().map(|pipe| PollFd::new(pipe, flags)));
    if fds.is_empty() {
        return [false; 2];
    }
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
    if poll(&mut fds, Some(&wait)).is_err() {
        return [false; 2];
    }
    let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
    [stdout.is_some() && ready.next() == Some(true), stderr.is_some() && ready.next() == Some(true)]
}

/// Reads once from a pipe that has data or has ended, so this does not block. Closes the pipe at its end. Returns
/// whether any data came.
fn read(pipe: &mut Option<impl Read>, into: &mut Vec<u8>) -> bool {
    let Some(open) = pipe else { return false };
    let mut chunk = [0; 1 << 16];
    match open.read(&mut chunk) {
        Ok(0) => *pipe = None,
        Ok(count) => {
            into.extend_from_slice(&chunk[..count]);
            return true;
        }
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
        Err(_) => *pipe = None,
    }
    false
}

/// Kills the remaining processes of the program: its group, and processes that left the group, which are found by their
/// mark. Then reaps the program. Returns `None` if the program hangs in the kernel; a thread then waits for it.
fn end(mut child: Child, what: &str, mark: &str) -> Option<ExitStatus> {
    let pid = Pid::from_child(&child);
    let since = procfs::stat(child.id()).map_or(0, |stat| stat.key.started);
    let _none_left: Result<(), Errno> = kill_process_group(pid, Signal::KILL);
    // Repeat, because new processes may start while others are being killed.
    for _ in 0..3 {
        let strays = marked(&format!("{MARK}={mark}"), since, child.id());
        if strays.is_empty() {
            break;
        }
        for stray in strays {
            if let (true, Some(pid)) = (stray.is_alive(), Pid::from_raw(stray.pid as i32)) {
                let _none_left: Result<(), Errno> = kill_process(pid, Signal::KILL);
            }
        }
    }
    let deadline = Deadline::within(LAST_BREATH);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if !deadline.has_passed() => pause(Duration::from_millis(2)),
            Ok(None) => break,
            // The child was reaped by other code, so the program has ended.
            Err(_) => return Some(ExitStatus::from_raw(0)),
        }
    }
    let name = format!("waits for {what}");
    let _it_waits_or_not = std::thread::Builder::new().name(name).spawn(move || child.wait());
    None
}

fn judged(heard: Notifications, status: ExitStatus, what: &str) -> Result<Vec<u8>, Missing> {
    let what = what.to_string();
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(heard.stdout),
        (Some(code), _) => {
            // nvidia-smi prints its error messages on stdout.
            let of = |bytes: &[u8]| {
                let text = String::from_utf8_lossy(bytes).into_owned();
                text.lines().find(|line| !line.trim().is_empty()).map(shown).unwrap_or_default()
            };
            let said = match of(&heard.stderr) {
                complaint if !complaint.is_empty() => complaint,
                _ => of(&heard.stdout),
            };
            Err(Missing::Exited { what, code, said })
        }
        (None, signal) => Err(Missing::Killed { what, signal: signal.unwrap_or(0) }),
    }
}
