//! The causes of waits.

use std::fmt;

use dryrack_event::Reason;
use dryrack_workload::Demand;

/// The cause of a wait: one reason, or several resources that were short at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blame {
    One(Reason),
    Together(Shortages),
}

/// A set of resources that were short, or that are treated as unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shortages {
    pub cpu: bool,
    pub ram: bool,
    /// The reason for a shortage of GPUs. It depends on how the demand takes GPUs.
    pub gpus: Option<Reason>,
}

impl Shortages {
    /// GPUs come first. If both are short, more CPUs change nothing until GPUs are free, and whoever reads only the first
    /// name must not buy CPUs.
    fn reasons(self) -> impl Iterator<Item = Reason> {
        let cpu = self.cpu.then_some(Reason::InsufficientCpu);
        let ram = self.ram.then_some(Reason::InsufficientRam);
        [self.gpus, cpu, ram].into_iter().flatten()
    }
}

impl Blame {
    /// The name, such as `insufficient_cpu` or `insufficient_gpus+insufficient_cpu`.
    pub fn name(self) -> String {
        self.joined("+", Reason::name)
    }

    /// The text after a count, as in "3 nodes: …".
    pub fn text(self) -> String {
        self.joined(", and ", Reason::text)
    }

    fn joined(self, between: &str, say: fn(Reason) -> &'static str) -> String {
        match self {
            Blame::One(reason) => say(reason).to_string(),
            Blame::Together(shortages) => shortages.reasons().map(say).collect::<Vec<_>>().join(between),
        }
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

/// Whether resources other than the one that the leading reason names may have been short too. This is possible if CPU or
/// RAM leads, because they are checked first. It is also possible for a gang, because its nodes may be short of different
/// resources.
pub(super) fn hides_others(demand: &Demand, led: Reason) -> bool {
    let Some(task) = demand.task() else { return false };
    let has_gpus = task.gpus.as_ref().is_some_and(|gpus| gpus.count > 0);
    let (has_cpu, has_ram) = (task.cpu.get() > 0, task.ram.get() > 0);
    let is_gang = demand.tasks > 1;
    match led {
        Reason::InsufficientCpu => has_ram || has_gpus,
        Reason::InsufficientRam => has_gpus || (is_gang && has_cpu),
        Reason::InsufficientGpus | Reason::InsufficientGpuShare | Reason::InsufficientGpuMemory => {
            is_gang && (has_cpu || has_ram)
        }
        // There is room for some of its tasks, so it says nothing about the others.
        Reason::GangIncomplete => true,
        _ => is_of_state(led),
    }
}

/// Whether the reason is the state of a node. It is given whatever else the node lacks.
pub(super) fn is_of_state(reason: Reason) -> bool {
    let of_state = [Reason::NodeJoining, Reason::NodeNotReady, Reason::NodeUnreachable, Reason::NodeMaintenance];
    of_state.contains(&reason)
}
