//! The other process. Each line of its output has a deadline. It is a child process in its own process group, which is
//! killed with its group, or a process that runs already and listens at a Unix socket.
//!
//! One thread reads its output, one reads its stderr and one writes its input. So a process that does not read or write
//! can delay the run only until the deadline for an answer.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child as Process, Command as Line, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;

use super::setup::Command;

/// The longest accepted line of output, in bytes.
pub const LONGEST_LINE: usize = 16 << 20;

/// How many of the last bytes of stderr are kept.
const KEPT_ERRORS: usize = 64 << 10;

/// The number of lines that are read ahead. A process that writes more lines than this must wait.
const LINES_AHEAD: usize = 16;

/// How long to wait for a process that is ending by itself.
const FAREWELL: Duration = Duration::from_secs(1);

/// The result of reading stdout.
#[derive(Debug)]
pub enum ReadResult {
    Line(Vec<u8>),
    /// The output has ended. `left` is the number of bytes of an incomplete last line.
    End {
        left: usize,
    },
    TooLong,
    /// No line arrived in time. `left` is the number of bytes of a line without its end.
    Silence {
        left: usize,
    },
}

/// The error for a program that could not be started or reached.
#[derive(Debug, Error)]
#[error("the scheduler in another process could not be started: {program}: {why}")]
pub struct NotStarted {
    pub program: String,
    pub why: String,
}

/// What the lines go to.
enum Peer {
    /// A child process, which leads this process group.
    Process {
        process: Process,
        group: Pid,
    },
    Socket(UnixStream),
}

pub struct Child {
    peer: Peer,
    to_write: Option<Sender<Vec<u8>>>,
    lines: Receiver<ReadResult>,
    /// The number of bytes of a line whose end has not come yet.
    left: Arc<AtomicUsize>,
    errors: Arc<Mutex<VecDeque<u8>>>,
    errors_over: Receiver<()>,
    is_over: bool,
}

impl Child {
    /// Starts the command, or connects to its socket. Paths are relative to `folder`; a program without `/` is looked
    /// up in `PATH`.
    pub fn of(command: &Command, folder: &Path) -> Result<Child, NotStarted> {
        match command {
            Command::Lines(words) => Child::start(words, folder).map_err(|error| {
                let program = words.first().cloned().unwrap_or_default();
                NotStarted { program, why: error.to_string() }
            }),
            Command::Socket(path) => Child::connect(&folder.join(path)).map_err(|error| {
                let why = match error.kind() {
                    io::ErrorKind::NotFound => "there is no such socket; start the program first".to_string(),
                    io::ErrorKind::ConnectionRefused => "no program listens there; start it first".to_string(),
                    _ => error.to_string(),
                };
                NotStarted { program: command.to_string(), why }
            }),
            Command::KubeScheduler { .. } => {
                let why =
                    "it speaks the API of Kubernetes, and this command drives programs of the protocol of JSON lines";
                Err(NotStarted { program: command.to_string(), why: why.to_string() })
            }
        }
    }

    fn connect(path: &Path) -> io::Result<Child> {
        let socket = UnixStream::connect(path)?;
        let (input, output) = (socket.try_clone()?, socket.try_clone()?);
        Ok(Child::with(Peer::Socket(socket), input, output, io::empty()))
    }

    fn start(command: &[String], folder: &Path) -> io::Result<Child> {
        let (program, arguments) = command.split_first().ok_or_else(|| io::Error::other("an empty command"))?;
        let mut line = Line::new(program);
        line.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Give the process its own group, so that its children can be killed with it.
        line.process_group(0);
        if !folder.as_os_str().is_empty() {
            line.current_dir(folder);
        }
        let mut process = line.spawn()?;
        let group = Pid::from_child(&process);
        let input = process.stdin.take().expect("it is piped");
        let output = process.stdout.take().expect("it is piped");
        let errors = process.stderr.take().expect("it is piped");
        Ok(Child::with(Peer::Process { process, group }, input, output, errors))
    }

    fn with(
        peer: Peer,
        input: impl Write + Send + 'static,
        output: impl Read + Send + 'static,
        errors: impl Read + Send + 'static,
    ) -> Child {
        let (to_write, what) = mpsc::channel();
        thread::spawn(move || write_all(input, &what));
        let (say, lines) = mpsc::sync_channel(LINES_AHEAD);
        let left = Arc::new(AtomicUsize::new(0));
        let unfinished = Arc::clone(&left);
        thread::spawn(move || read_lines(BufReader::new(output), &say, &unfinished));
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (over, errors_over) = mpsc::channel();
        let keep = Arc::clone(&kept);
        thread::spawn(move || keep_errors(errors, &keep, &over));
        Child { peer, to_write: Some(to_write), lines, left, errors: kept, errors_over, is_over: false }
    }

    /// Sends a line. Only the answer shows whether the process has read the line.
    pub fn send(&mut self, line: Vec<u8>) {
        if let Some(to_write) = &self.to_write {
            // Sending fails if the process has closed its input, which is ignored here.
            let _unread = to_write.send(line);
        }
    }

    pub fn read_next(&mut self, within: Duration) -> ReadResult {
        match self.lines.recv_timeout(within) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => ReadResult::Silence { left: self.left.load(Ordering::Relaxed) },
            Err(RecvTimeoutError::Disconnected) => ReadResult::End { left: 0 },
        }
    }

    /// How the process ended, such as `exited with code 3` or `was killed by signal 9`. Kills a process that has not
    /// ended.
    pub fn ending(&mut self) -> String {
        if let Peer::Socket(_) = self.peer {
            self.kill();
            return "closed the connection".to_string();
        }
        match self.await_end() {
            Some(status) => ending(status),
            None => {
                self.kill();
                "closed its output".to_string()
            }
        }
    }

    /// Waits briefly for the process to end by itself, then kills its group. A socket is closed when the process has
    /// closed it, or after the same time.
    pub fn dismiss(&mut self) {
        self.to_write = None;
        match self.peer {
            Peer::Process { .. } => drop(self.await_end()),
            Peer::Socket(_) => while let ReadResult::Line(_) = self.read_next(FAREWELL) {},
        }
        self.kill();
    }

    /// The last part of its stderr. Kills the process first.
    pub fn errors(&mut self) -> String {
        self.kill();
        // Another process may still hold stderr open, so wait only for a limited time.
        let _late = self.errors_over.recv_timeout(FAREWELL);
        let kept = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Kills the process and its group. A process behind a socket lives on, and only the connection ends.
    pub fn kill(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        match &mut self.peer {
            Peer::Process { process, group } => {
                // The leader has not been reaped, so the group number still belongs to it.
                let _gone = kill_process_group(*group, Signal::KILL);
                let _reaped = process.wait();
            }
            Peer::Socket(socket) => {
                let _closed = socket.shutdown(Shutdown::Both);
            }
        }
    }

    /// Waits briefly for the process to end. Does not reap it, because its group must be killed first.
    fn await_end(&mut self) -> Option<ExitStatus> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let Peer::Process { group, .. } = &self.peer else { return None };
        let (never, pause) = mpsc::channel::<()>();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let mut waited = Duration::ZERO;
        let mut step = Duration::from_micros(500);
        let status = loop {
            match waitid(WaitId::Pid(*group), options) {
                Ok(Some(status)) => break Some(status),
                Ok(None) if waited < FAREWELL => {
                    let _nobody = pause.recv_timeout(step);
                    waited += step;
                    step = (step * 2).min(Duration::from_millis(20));
                }
                Ok(None) | Err(_) => break None,
            }
        };
        drop(never);
        let status = status?;
        let raw = status.exit_status().map(|code| code << 8).or(status.terminating_signal());
        raw.map(ExitStatus::from_raw)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Why no answer came in time. `left` is the number of bytes of a line without its end.
pub fn silence(asked: &str, within: Duration, left: usize) -> String {
    let why = match left {
        0 => "does it flush its output?".to_string(),
        left => format!("{left} bytes of a line have come, but not its end"),
    };
    format!("no answer to `{asked}` within {within:?}; {why}")
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "exited with code 0, but a scheduler must answer until `bye`".to_string(),
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_string(),
    }
}

fn write_all(mut input: impl Write, what: &Receiver<Vec<u8>>) {
    while let Ok(line) = what.recv() {
        if input.write_all(&line).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

/// Passes on each line of stdout without its line break. `left` gets the length of the line that has no end yet.
fn read_lines(mut output: impl BufRead, say: &SyncSender<ReadResult>, left: &AtomicUsize) {
    let mut line = Vec::new();
    loop {
        let Ok(found) = output.fill_buf() else {
            let _unheard = say.send(ReadResult::End { left: line.len() });
            return;
        };
        if found.is_empty() {
            let _unheard = say.send(ReadResult::End { left: line.len() });
            return;
        }
        let end = found.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(found.len(), |end| end + 1);
        line.extend_from_slice(&found[..end.unwrap_or(found.len())]);
        output.consume(taken);
        if line.len() > LONGEST_LINE {
            let _unheard = say.send(ReadResult::TooLong);
            return;
        }
        left.store(if end.is_some() { 0 } else { line.len() }, Ordering::Relaxed);
        if end.is_some() && say.send(ReadResult::Line(std::mem::take(&mut line))).is_err() {
            return;
        }
    }
}

fn keep_errors(mut errors: impl Read, kept: &Mutex<VecDeque<u8>>, over: &Sender<()>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = errors.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&buffer[..count]);
        let beyond = kept.len().saturating_sub(KEPT_ERRORS);
        kept.drain(..beyond);
    }
    let _nobody = over.send(());
}
