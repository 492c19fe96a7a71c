//! The process of the program. It ends with this process, however this process ends.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;

use super::config::{Config, Release};
use super::server::Server;

/// How many of the last bytes of stderr are kept.
const KEPT_ERRORS: usize = 64 << 10;
/// The limits of the answer to `--version`.
const MOST_OF_VERSION: usize = 64 << 10;
const VERSION_WITHIN: Duration = Duration::from_secs(10);

/// Starts the program beside a process that waits for the end of its input, which is open as long as dryrack runs.
const WATCHED: &str = r#"exec 3<&0
"$0" "$@" </dev/null 3<&- &
program=$!
{ cat <&3 >/dev/null; kill -KILL "$program"; } 2>/dev/null >&2 &
exec 3<&-
wait "$program""#;

/// The error for a program that could not be started.
#[derive(Debug, Error)]
#[error("{program}: {why}")]
pub struct NotStarted {
    pub program: String,
    pub why: String,
}

/// A running kube-scheduler.
pub struct Program {
    process: Child,
    group: Pid,
    errors: Arc<Mutex<VecDeque<u8>>>,
    reader: Option<JoinHandle<()>>,
    pub release: Release,
    /// Holds the kubeconfig file and the configuration.
    folder: tempfile::TempDir,
}

impl Program {
    /// The release that the program states.
    ///
    /// # Errors
    /// If the program cannot be run or states no release within the limits.
    pub fn release_of(path: &Path) -> Result<Release, NotStarted> {
        let fault = |why: String| NotStarted { program: path.display().to_string(), why };
        let said = version(path).map_err(|error| fault(error.to_string()))?;
        let text = match said {
            None => return Err(fault(format!("--version does not end within {} s", VERSION_WITHIN.as_secs()))),
            Some(said) if said.len() > MOST_OF_VERSION => {
                return Err(fault(format!("--version prints more than {} KiB", MOST_OF_VERSION >> 10)));
            }
            Some(said) => String::from_utf8_lossy(&said).into_owned(),
        };
        Release::parse(&text).ok_or_else(|| {
            let said = text.lines().next().unwrap_or_default();
            fault(format!("--version says {said:?}; `Kubernetes v1.35.4` or the like was expected"))
        })
    }

    /// Starts the program as a client of a server.
    ///
    /// # Errors
    /// If the program or one of its files cannot be made.
    pub fn start(path: &Path, release: Release, config: &Config, server: &Server) -> Result<Program, NotStarted> {
        let fault = |error: io::Error| NotStarted { program: path.display().to_string(), why: error.to_string() };
        let folder = tempfile::Builder::new().prefix("dryrack-kube-scheduler-").tempdir().map_err(fault)?;
        let (access, file): (PathBuf, PathBuf) = (folder.path().join("kubeconfig"), folder.path().join("config.json"));
        std::fs::write(&access, server.kubeconfig()).map_err(fault)?;
        std::fs::write(&file, config.file(&release, &access, own_loopback(server.token()))).map_err(fault)?;
        let mut command = Command::new("sh");
        command.args(["-c", WATCHED]).arg(path).args(config.all_flags(&file));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut process = command.spawn().map_err(fault)?;
        let group = Pid::from_child(&process);
        let errors = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&errors);
        let reader = process.stderr.take().map(|output| std::thread::spawn(move || keep_errors(output, &kept)));
        Ok(Program { process, group, errors, reader, release, folder })
    }

    /// The folder with its configuration.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How the program ended, if it has ended.
    pub fn ending(&mut self) -> Option<String> {
        let status = self.process.try_wait().ok().flatten()?;
        Some(match status.code() {
            Some(code @ 129..) => format!("was ended by signal {}", code - 128),
            Some(code) => format!("exited with code {code}"),
            None => "was ended by a signal".to_owned(),
        })
    }

    /// The last part of its stderr.
    pub fn errors(&self) -> String {
        let kept = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The leader has not been reaped, unless all of the group but the watcher has ended.
        let _gone = kill_process_group(self.group, Signal::KILL);
        let _reaped = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let _panicked = reader.join();
        }
    }
}

/// What the program prints for `--version`, up to one byte more than allowed. `None` if it takes too long.
fn version(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut process = command.spawn()?;
    let group = Pid::from_child(&process);
    let (sender, receiver) = mpsc::channel();
    let output = process.stdout.take();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let read = output.map(|output| output.take(MOST_OF_VERSION as u64 + 1).read_to_end(&mut said));
        // Nobody listens after the limit.
        let _too_late = sender.send(read.unwrap_or(Ok(0)).map(|_| said));
    });
    let said = receiver.recv_timeout(VERSION_WITHIN);
    let _gone = kill_process_group(group, Signal::KILL);
    process.wait()?;
    said.ok().transpose()
}

/// An address of loopback that no other program of the machine is likely to use.
fn own_loopback(token: &str) -> Ipv4Addr {
    let bits = u32::from_str_radix(&token[..6], 16).unwrap_or_default();
    let [_, high, middle, low] = bits.to_be_bytes();
    Ipv4Addr::new(127, high, middle, low.clamp(2, 254))
}

fn keep_errors(mut errors: impl Read, kept: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = errors.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&buffer[..count]);
        let beyond = kept.len().saturating_sub(KEPT_ERRORS);
        kept.drain(..beyond);
    }
}
