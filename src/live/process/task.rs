//! One task: a process that leads a group, and all processes that it starts.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::super::procfs::{ProcessKey, ProcessStat};
use super::family::members;
use dryrack_units::SimDuration;

/// How the leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    Status(i32),
    Signal(i32),
}

impl TaskEnd {
    pub fn is_success(self) -> bool {
        self == TaskEnd::Status(0)
    }
}

/// A task. Its leader is reaped only after all of its other processes are gone. Until then, the numbers of the leader
/// and of its group cannot be reused, so signals reach no foreign process.
pub struct Task {
    leader: Pid,
    /// The token in the environment of each process of the task, unless a process cleared its environment.
    token: String,
    known: BTreeSet<ProcessKey>,
    /// The CPU time of ended processes that no process of the task reaped.
    cpu_of_gone: SimDuration,
    cpu: SimDuration,
    is_leader_over: bool,
    end: Option<TaskEnd>,
}

impl Task {
    pub fn new(leader: Pid, token: String) -> Task {
        Task {
            leader,
            token,
            known: BTreeSet::new(),
            cpu_of_gone: SimDuration::ZERO,
            cpu: SimDuration::ZERO,
            is_leader_over: false,
            end: None,
        }
    }

    /// How the leader ended; `None` until no process of the task is left.
    pub fn end(&self) -> Option<TaskEnd> {
        self.end
    }

    /// The total CPU time of all processes of the task, including ended ones. It never decreases.
    pub fn cpu(&self) -> SimDuration {
        self.cpu
    }

    /// Whether the leader has ended while other processes of the task still exist.
    pub fn is_draining(&self) -> bool {
        self.end.is_none() && self.is_leader_over
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    fn leader_pid(&self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Adds a process that was found by its token instead of its parents.
    pub fn adopt(&mut self, key: ProcessKey) {
        self.known.insert(key);
    }

    pub fn knows(&self, key: ProcessKey) -> bool {
        self.known.contains(&key)
    }

    /// Finds the processes of the task in a snapshot of all processes, and reaps those whose parent is now `me`. If the
    /// leader has ended, the other processes are killed, as in a container.
    pub fn poll(&mut self, all: &[ProcessStat], me: u32) {
        if self.end.is_some() {
            return;
        }
        let family = members(all, self.leader_pid(), &self.known);
        let total = |stat: &ProcessStat| stat.cpu.saturating_add(stat.cpu_of_reaped);
        let living = family.values().map(total).fold(SimDuration::ZERO, SimDuration::saturating_add);
        self.cpu = self.cpu.max(self.cpu_of_gone.saturating_add(living));
        self.known = family.keys().copied().collect();
        self.is_leader_over = family.values().any(|stat| stat.key.pid == self.leader_pid() && stat.is_zombie);
        let orphans = |stat: &&ProcessStat| stat.key.pid != self.leader_pid() && stat.parent == me && stat.is_zombie;
        let reaped: BTreeMap<ProcessKey, SimDuration> = family
            .values()
            .filter(orphans)
            .filter(|stat| reap(stat.key.pid))
            .map(|stat| (stat.key, total(stat)))
            .collect();
        for (key, cpu) in &reaped {
            self.known.remove(key);
            self.cpu_of_gone = self.cpu_of_gone.saturating_add(*cpu);
        }
        let others = family.keys().filter(|key| key.pid != self.leader_pid() && !reaped.contains_key(key));
        let are_others_left = others.count() > 0;
        match (self.is_leader_over, are_others_left) {
            (true, true) => self.signal(Signal::KILL),
            (true, false) => self.finish(),
            (false, _) => {}
        }
    }

    fn finish(&mut self) {
        let status = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        let Ok(Some(status)) = status else { return };
        let code = status.exit_status().map(TaskEnd::Status);
        self.end = code.or(status.terminating_signal().map(TaskEnd::Signal)).or(Some(TaskEnd::Status(-1)));
    }

    /// Sends a signal to the whole group, and to each known process outside the group.
    pub fn signal(&self, signal: Signal) {
        if self.end.is_some() {
            return;
        }
        // An error means that the process is already gone, which is fine.
        let _unheard = kill_process_group(self.leader, signal);
        let others = self.known.iter().filter(|key| key.pid != self.leader_pid());
        others.for_each(|key| key.signal(signal));
    }
}

fn reap(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| {
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).is_ok_and(|status| status.is_some())
    })
}
