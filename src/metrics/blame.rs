//! Finds the cause of a wait: the resources that were short. With more of them, the wait would have ended.
//!
//! A hold names for each node only the first resource that was short. If CPU or RAM leads the reasons of a hold, other
//! resources may have been short on the same nodes. In that case, more CPU alone would not have helped. So the nodes
//! are evaluated again in their state at that time. The wait is blamed on the smallest set of resources that would have
//! made room if these resources were unlimited.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::node_account::NodeAccount;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_units::SimDuration;
use dryrack_workload::{Demand, DemandKind, GpuTake, JobSpec, TaskDemand};

/// The total wait of all replicas in nanoseconds, by cause.
#[derive(Default)]
pub struct WaitAccount {
    waited: BTreeMap<Blame, u128>,
    /// Of these waits, those for a limit or a quota, with what has it, such as a QOS.
    limited: BTreeMap<(Reason, Option<String>), u128>,
    /// The time before a decision gave a reason.
    pub unexplained: u128,
    /// The part of the waits that came after a first place: replicas that were preempted or lost, and waited again.
    pub again: WaitsAgain,
    /// The number of changes to nodes so far.
    changes: u64,
    /// The last hold that was analysed. It is kept because many holds of the same instant have equal demands.
    last: Option<FoundCause>,
}

/// The waits of replicas that had a place before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitsAgain {
    /// The total of these waits, in nanoseconds.
    pub time: u128,
    /// The number of replicas that wait again at the end.
    pub open: u64,
}

/// The cause that was found for a demand's wait after `changes` changes of nodes.
struct FoundCause {
    of: Arc<JobSpec>,
    led: Reason,
    changes: u64,
    blame: Blame,
}

impl WaitAccount {
    /// The total wait for each cause, longest wait first.
    pub fn by_blame(&self) -> Vec<(Blame, u128)> {
        let known = self.waited.iter().filter(|(_, waited)| **waited > 0);
        let mut waits: Vec<(Blame, u128)> = known.map(|(blame, waited)| (*blame, *waited)).collect();
        waits.sort_by_key(|(blame, waited)| (std::cmp::Reverse(*waited), *blame));
        waits
    }

    /// The limit or quota for which most of the waiting time passed, such as `project one: …`, and the part of the time in which
    /// jobs waited for limits. Time behind another job does not count, because it says nothing about what that job waits for.
    /// `None` if less than half was for limits: more nodes may help then.
    pub fn limit(&self) -> Option<(String, f64)> {
        let behind = self.waited.get(&Blame::One(Reason::QueueOrder)).copied().unwrap_or_default();
        let all = self.waited.values().sum::<u128>() - behind;
        let limited: u128 = self.limited.values().sum();
        let ((reason, of), _) = self.limited.iter().max_by_key(|(key, waited)| (**waited, std::cmp::Reverse(*key)))?;
        let named = of.iter().map(|of| format!("{of}: ")).chain([reason.text().to_string()]).collect();
        (limited > 0 && limited * 2 >= all).then(|| (named, limited as f64 / all as f64))
    }

    pub(super) fn charge(&mut self, job: &JobSpec, blame: Option<Blame>, length: SimDuration) {
        let length = u128::from(length.as_nanos());
        if let Some(Blame::One(reason)) = blame.filter(|_| length > 0)
            && reason.is_of_limit()
        {
            *self.limited.entry((reason, limited_by(job, reason))).or_default() += length;
        }
        match blame {
            Some(blame) => *self.waited.entry(blame).or_default() += length,
            None => self.unexplained += length,
        }
    }

    /// Records that a node has changed, so earlier results are out of date.
    pub(super) fn touch(&mut self) {
        self.changes += 1;
    }

    /// Resets the sums.
    pub(super) fn forget(&mut self) {
        self.waited.clear();
        self.limited.clear();
        self.unexplained = 0;
        self.again = WaitsAgain::default();
    }

    /// The cause of a job's wait. `led` is the leading reason of its hold, and `nodes` are in their state at the time
    /// of the hold.
    pub(super) fn blame(&mut self, of: &Arc<JobSpec>, led: Reason, nodes: &[NodeAccount]) -> Blame {
        if !is_ambiguous(&of.demand, led) {
            return Blame::One(led);
        }
        let known = self.last.as_ref().filter(|known| known.changes == self.changes && known.led == led);
        if let Some(known) = known.filter(|known| known.of.demand == of.demand) {
            return known.blame;
        }
        let blame = blame(&of.demand, led, nodes);
        self.last = Some(FoundCause { of: Arc::clone(of), led, changes: self.changes, blame });
        blame
    }
}

/// The reason of a hold whose end ends the wait. If the job could be placed later, it is one that can change: the nodes
/// that can never serve the job do not matter, even if there are more of them.
pub(super) fn ended_by(of: &JobSpec, refusal: Refusal, reasons: &Histogram) -> Option<Reason> {
    let led = reasons.iter().next().map(|(reason, _)| reason);
    if refusal != Refusal::Unfit {
        return led;
    }
    let passing = || reasons.iter().map(|(reason, _)| reason).filter(|reason| !reason.is_for_ever());
    // An instance that does not exist yet is no lost node: the job waits for one that joins, or for one in use.
    let of_instances = || {
        let joins = passing().find(|reason| *reason == Reason::NodeJoining);
        joins.or_else(|| passing().find(|reason| *reason != Reason::NodeGone))
    };
    let wants_instance = matches!(of.demand.kind, DemandKind::Requirements(_));
    wants_instance.then(of_instances).flatten().or_else(|| passing().next()).or(led)
}

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
    fn reasons(self) -> impl Iterator<Item = Reason> {
        let cpu = self.cpu.then_some(Reason::InsufficientCpu);
        let ram = self.ram.then_some(Reason::InsufficientRam);
        [cpu, ram, self.gpus].into_iter().flatten()
    }
}

impl Blame {
    /// The name, such as `insufficient_cpu` or `insufficient_cpu+insufficient_gpus`.
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

/// Whose limit a job waits for: that of a QOS, a partition, a project or a queue of Kueue.
fn limited_by(job: &JobSpec, reason: Reason) -> Option<String> {
    let slurm = job.slurm.as_deref();
    let named = |what: &str, name: Option<&Arc<str>>| name.map(|name| format!("{what} `{name}`"));
    match reason {
        Reason::QuotaExceeded => named("project", job.project.as_ref()),
        Reason::PartitionTimeLimit | Reason::PartitionNodeLimit => named("partition", slurm?.partition.as_ref()),
        Reason::WaitingForQuota | Reason::ExceedsMaxQuota => {
            named("queue", job.queued.as_ref().map(|part| &part.workload.queue))
        }
        Reason::ArrayTaskLimit => None,
        // The limit may be that of the QOS of the partition.
        _ => {
            let of = [named("of QOS", slurm?.qos.as_ref()), named("in partition", slurm?.partition.as_ref())];
            let of: Vec<String> = of.into_iter().flatten().collect();
            (!of.is_empty()).then(|| format!("jobs {}", of.join(" ")))
        }
    }
}

/// Whether resources other than the one that the leading reason names may have been short too. This is possible if CPU or RAM leads,
/// because they are checked first. It is also possible for a gang, because its nodes may be short of different
/// resources.
fn is_ambiguous(demand: &Demand, led: Reason) -> bool {
    let Some(task) = demand.task() else { return false };
    let has_gpus = task.gpus.as_ref().is_some_and(|gpus| gpus.count > 0);
    let (has_cpu, has_ram) = (task.cpu.get() > 0, task.ram.get() > 0);
    let is_gang = demand.tasks > 1;
    demand.pick.is_none()
        && match led {
            Reason::InsufficientCpu => has_ram || has_gpus,
            Reason::InsufficientRam => has_gpus || (is_gang && has_cpu),
            Reason::InsufficientGpus | Reason::InsufficientGpuShare | Reason::InsufficientGpuMemory => {
                is_gang && (has_cpu || has_ram)
            }
            _ => false,
        }
}

/// The cause of a wait if the leading reason is ambiguous. Evaluates every node.
fn blame(demand: &Demand, led: Reason, nodes: &[NodeAccount]) -> Blame {
    let gpus = demand.gpus().filter(|gpus| gpus.count > 0).map(|gpus| match gpus.take {
        GpuTake::Whole => Reason::InsufficientGpus,
        GpuTake::Share(_) => Reason::InsufficientGpuShare,
        GpuTake::Memory(_) => Reason::InsufficientGpuMemory,
    });
    let none = Shortages::default();
    let (cpu, ram) = (Shortages { cpu: true, ..none }, Shortages { ram: true, ..none });
    let gpu = Shortages { gpus, ..none };
    let tried = [
        (Blame::One(Reason::InsufficientCpu), cpu),
        (Blame::One(Reason::InsufficientRam), ram),
        (gpus.map_or(Blame::One(led), Blame::One), gpu),
    ];
    let single = tried.into_iter().find(|(_, endless)| would_fit(demand, *endless, nodes));
    if let Some((blame, _)) = single {
        return blame;
    }
    let pairs = [
        Shortages { gpus, ..cpu },
        Shortages { gpus, ..ram },
        Shortages { ram: true, ..cpu },
        Shortages { ram: true, gpus, ..cpu },
    ];
    match pairs.into_iter().find(|endless| would_fit(demand, *endless, nodes)) {
        Some(endless) => Blame::Together(endless),
        None => Blame::One(led),
    }
}

/// Whether the nodes would have room for all tasks if the resources in `endless` were unlimited.
fn would_fit(demand: &Demand, endless: Shortages, nodes: &[NodeAccount]) -> bool {
    let Some(task) = demand.task() else { return false };
    let mut left = u64::from(demand.tasks);
    let most = if demand.gang == dryrack_workload::Gang::Spread { 1 } else { left };
    for node in nodes {
        left = left.saturating_sub(room(task, endless, node, most));
        if left == 0 {
            return true;
        }
    }
    false
}

/// The number of tasks for which the node would have room, up to `most`.
fn room(task: &TaskDemand, endless: Shortages, node: &NodeAccount, most: u64) -> u64 {
    let shape = &node.spec.shape;
    let is_of_kind = task.os.is_none_or(|os| os == shape.os)
        && task.arch.is_none_or(|arch| arch == shape.arch)
        && task.labels.iter().all(|(key, value)| shape.labels.get(key) == Some(value))
        && shape.instance.is_none();
    if !node.is_ready() || !is_of_kind {
        return 0;
    }
    let parts = |free: u64, asked: u64| free.checked_div(asked).unwrap_or(u64::MAX);
    let by_cpu = if endless.cpu { most } else { parts(node.cpu_free().get(), task.cpu.get()) };
    let by_ram = if endless.ram { most } else { parts(node.ram_free().get(), task.ram.get()) };
    let most = most.min(by_cpu).min(by_ram);
    match &task.gpus {
        Some(gpus) if gpus.count > 0 && most > 0 => node.gpu_room(gpus, endless.gpus.is_some(), most),
        _ => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_fleet::{Fleet, GpuClaim, GpuShape, NodeClaim, NodeShape, NodeSpec, NodeState, Placement};
    use dryrack_ids::NodeId;
    use dryrack_rng::Stream;
    use dryrack_scheduler::{Decision, Grouping, SchedulerOptions, decide};
    use dryrack_units::{Bytes, GpuShare, MilliCpu, SimTime};
    use dryrack_workload::GpuDemand;

    const GIB: u64 = 8;

    /// A node's cores, GiB of RAM and GPUs, and how much of each is taken.
    #[derive(Clone, Copy)]
    struct NodeUse {
        all: (u64, u64, u64),
        taken: (u64, u64, u64),
    }

    fn draw_node(draws: &mut Stream) -> NodeUse {
        let all = (draws.between(1, 8), draws.between(1, 8), draws.between(0, 3));
        let taken = (draws.between(0, all.0), draws.between(0, all.1), draws.between(0, all.2));
        NodeUse { all, taken }
    }

    fn draw_demand(draws: &mut Stream) -> Demand {
        let gpus = draws.between(0, 2) as u32;
        let take =
            *draws.pick(&[GpuTake::Whole, GpuTake::Share(GpuShare::new(500)), GpuTake::Memory(Bytes::from_gib(3))]);
        let gpus = GpuDemand { count: gpus, take, models: Vec::new(), min_memory: None };
        let cpu = MilliCpu::from_cores(draws.between(0, 8));
        let ram = Bytes::from_gib(draws.between(0, 8));
        let gpus = Some(gpus).filter(|gpus| gpus.count > 0);
        let task = TaskDemand { ram, gpus, ..TaskDemand::cpu_only(cpu) };
        Demand { tasks: draws.between(1, 3) as u32, ..Demand::of(task) }
    }

    fn claim(node: usize, (cpu, ram, gpus): (u64, u64, u64)) -> NodeClaim {
        let gpu = |index| GpuClaim { index: index as u16, share: GpuShare::WHOLE, memory: Bytes::from_gib(GIB) };
        NodeClaim {
            node: NodeId::new(node),
            tasks: 1,
            cpu: MilliCpu::from_cores(cpu),
            ram: Bytes::from_gib(ram),
            gpus: (0..gpus).map(gpu).collect(),
            blocks: Default::default(),
            sets: None,
        }
    }

    fn spec(node: usize, (cpu, ram, gpus): (u64, u64, u64)) -> NodeSpec {
        let gpus = vec![GpuShape::of("a", Bytes::from_gib(GIB)); gpus as usize];
        let shape = NodeShape::of(MilliCpu::from_cores(cpu), Bytes::from_gib(ram), gpus);
        NodeSpec { name: format!("n{node}").into(), shape: shape.into() }
    }

    fn accounts(nodes: &[NodeUse]) -> Vec<NodeAccount> {
        let account = |(index, node): (usize, &NodeUse)| {
            let mut account = NodeAccount::new(&spec(index, node.all), NodeState::Ready, SimTime::ZERO);
            account.take(SimTime::ZERO, &claim(index, node.taken));
            account
        };
        nodes.iter().enumerate().map(account).collect()
    }

    /// The decision of the real scheduler on a fleet with the same claims. Nodes have a thousand times the CPU or RAM,
    /// or all of their GPUs are free, if `endless` includes the resource.
    fn decision(options: &SchedulerOptions, demand: &Demand, nodes: &[NodeUse], endless: Shortages) -> Decision {
        let mut fleet = Fleet::default();
        for (index, node) in nodes.iter().enumerate() {
            let (mut all, mut taken) = (node.all, node.taken);
            all.0 *= if endless.cpu { 1000 } else { 1 };
            all.1 *= if endless.ram { 1000 } else { 1 };
            taken.2 = if endless.gpus.is_some() { 0 } else { taken.2 };
            fleet.declare(&spec(index, all), NodeState::Ready);
            fleet.take(&Placement::new([claim(index, taken)].into()));
        }
        decide(options, demand, &fleet, Grouping::EachNode, 1)
    }

    #[test]
    fn more_of_what_is_blamed_would_have_ended_the_wait_and_of_less_would_not() {
        let profile = dryrack_profile::load_profile("first-fit", std::path::Path::new("")).expect("one of ours");
        let options = &profile.scheduler;
        let (mut single, mut together, mut none) = (0, 0, 0);
        for seed in 0..20_000 {
            let mut draws = Stream::new(seed, "blame", 0);
            let nodes: Vec<NodeUse> = (0..draws.between(1, 4)).map(|_| draw_node(&mut draws)).collect();
            let demand = draw_demand(&mut draws);
            let fits = |endless| matches!(decision(options, &demand, &nodes, endless), Decision::Place(_));
            let Decision::Refuse { reasons, .. } = decision(options, &demand, &nodes, Shortages::default()) else {
                continue;
            };
            let led = reasons.iter().next().expect("a reason for each node").0;
            let of_gpus = [Reason::InsufficientGpus, Reason::InsufficientGpuShare, Reason::InsufficientGpuMemory];
            if !matches!(led, Reason::InsufficientCpu | Reason::InsufficientRam) && !of_gpus.contains(&led) {
                continue;
            }
            let gpus = demand.gpus().map(|_| Reason::InsufficientGpus);
            let alone = [
                Shortages { cpu: true, ..Shortages::default() },
                Shortages { ram: true, ..Shortages::default() },
                Shortages { gpus, ..Shortages::default() },
            ];
            let spec = Arc::new(JobSpec::of("job".into(), demand.clone()));
            let blame = WaitAccount::default().blame(&spec, led, &accounts(&nodes));
            let all = Shortages { cpu: true, ram: true, gpus };
            match blame {
                Blame::One(reason) if fits(all) => {
                    let more = match reason {
                        Reason::InsufficientCpu => alone[0],
                        Reason::InsufficientRam => alone[1],
                        _ => alone[2],
                    };
                    assert!(fits(more), "seed {seed}: {reason} would not have ended it");
                    single += 1;
                }
                Blame::One(_) => none += 1,
                Blame::Together(shortages) => {
                    assert!(fits(shortages), "seed {seed}: {blame} would not have ended it");
                    assert!(!alone.into_iter().any(fits), "seed {seed}: one of {blame} would have been enough");
                    together += 1;
                }
            }
        }
        assert!(single > 100 && together > 100 && none > 100, "{single} {together} {none}: each is seen");
    }
}
