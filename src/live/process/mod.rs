//! Real processes. Each task starts in its own process group. Its processes are tracked even if they leave the group,
//! their CPU time is measured, and all of them are ended.

pub mod cores;
mod family;
mod keeper;
mod task;

pub use keeper::{ProcessEnd, end_all, keep, lost_keeper};
pub use task::TaskEnd;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, set_child_subreaper};

use super::clock::{Deadline, pause};
use super::procfs::{self, ProcessKey};
use dryrack_units::SimDuration;
use dryrack_workload::Launch;
use task::Task;

/// The number of a task. Tasks are numbered in the order of their starts.
pub type TaskId = u32;

/// An environment variable that identifies a process even after it has left its group and lost its parents.
const TOKEN: &str = "DRYRACK_TOKEN";

/// The settings of a task besides its command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub environment: BTreeMap<String, String>,
    /// Indexes into the list of cores that dryrack may use. Empty means any core.
    pub cores: Vec<u16>,
    /// The file for the task's output; `None` discards the output.
    pub output: Option<PathBuf>,
}

/// All started tasks. Dropping this value kills their remaining processes.
pub struct Runner {
    me: u32,
    tasks: BTreeMap<TaskId, Task>,
    started: TaskId,
}

impl Runner {
    /// Makes this process a subreaper: orphaned processes of tasks become its children.
    pub fn new() -> io::Result<Runner> {
        let own = rustix::process::getpid();
        set_child_subreaper(Some(own))?;
        Ok(Runner { me: own.as_raw_nonzero().get().unsigned_abs(), tasks: BTreeMap::new(), started: 0 })
    }

    /// Starts a task. Returns an error if the program cannot be run.
    pub fn start(&mut self, launch: &Launch, place: &Place) -> io::Result<TaskId> {
        let id = self.started;
        let since = ProcessKey::of(self.me).map_or(0, |key| key.started);
        let token = format!("{}-{since}-{id}", self.me);
        let (program, arguments) = launch.arguments.split_first().expect("a command is never empty");
        let mut command = Command::new(&**program);
        command.args(arguments.iter().map(|argument| &**argument)).process_group(0).stdin(Stdio::null());
        command.envs(&place.environment).envs(launch.environment.iter().map(|(key, value)| (&**key, &**value)));
        command.env(TOKEN, &token).env_remove(keeper::KEEPER);
        match &place.output {
            Some(path) => {
                let file = File::create(path)?;
                command.stdout(file.try_clone()?).stderr(file);
            }
            None => {
                command.stdout(Stdio::null()).stderr(Stdio::null());
            }
        }
        // `Task` reaps the child itself. The handle is not used for that, because it would free the process number too
        // early.
        let child = cores::pinned(&place.cores, || command.spawn())?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        self.started += 1;
        self.tasks.insert(id, Task::new(pid.ok_or_else(|| io::Error::other("a process without a number"))?, token));
        Ok(id)
    }

    /// Takes a snapshot of all processes: which are alive, which must be reaped, and how much CPU time they used.
    pub fn poll(&mut self) {
        if self.tasks.values().all(|task| task.end().is_some()) {
            return;
        }
        let all = procfs::processes();
        let me = self.me;
        let is_known = |key| self.tasks.values().any(|task| task.knows(key));
        let lost: Vec<ProcessKey> =
            all.iter().filter(|stat| stat.parent == me && !is_known(stat.key)).map(|stat| stat.key).collect();
        for key in lost {
            let token = token_of(key);
            let owner =
                self.tasks.values_mut().find(|task| task.end().is_none() && token.as_deref() == Some(task.token()));
            if let Some(task) = owner {
                task.adopt(key);
            }
        }
        for task in self.tasks.values_mut() {
            task.poll(&all, me);
        }
    }

    pub fn end(&self, id: TaskId) -> Option<TaskEnd> {
        self.tasks[&id].end()
    }

    /// The CPU time of the task as of the last poll.
    pub fn cpu(&self, id: TaskId) -> SimDuration {
        self.tasks[&id].cpu()
    }

    /// Whether the leader of one of these tasks has ended while other processes of the task still exist.
    pub fn is_draining(&self, ids: &[TaskId]) -> bool {
        ids.iter().any(|id| self.tasks[id].is_draining())
    }

    pub fn terminate(&self, id: TaskId) {
        self.tasks[&id].signal(Signal::TERM);
    }

    pub fn kill(&self, id: TaskId) {
        self.tasks[&id].signal(Signal::KILL);
    }

    /// Whether no process of any task is left.
    pub fn is_empty(&self) -> bool {
        self.tasks.values().all(|task| task.end().is_some())
    }

    /// Kills all remaining processes repeatedly, until none is left or the deadline has passed.
    pub fn end_all(&mut self, deadline: Deadline) {
        self.poll();
        while !self.is_empty() && !deadline.has_passed() {
            self.tasks.keys().for_each(|id| self.kill(*id));
            pause(std::time::Duration::from_millis(2));
            self.poll();
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.end_all(Deadline::within(std::time::Duration::from_secs(10)));
    }
}

/// The token in the environment of the process; `None` if it cannot be read or the process has ended.
fn token_of(key: ProcessKey) -> Option<String> {
    let environment = fs::read(format!("/proc/{}/environ", key.pid)).ok()?;
    let found = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| String::from_utf8_lossy(entry).strip_prefix(TOKEN)?.strip_prefix('=').map(str::to_string));
    found.filter(|_| key.is_alive())
}
