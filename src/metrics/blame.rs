//! Finds the cause of a wait: the resources that were short. With more of them, the wait would have ended.
//!
//! A hold names for each node only the first resource that was short. If CPU or RAM leads the reasons of a hold, other
//! resources may have been short on the same nodes. In that case, more CPU alone would not have helped. So the nodes
//! are evaluated again in their state at that time. The wait is blamed on the smallest set of resources that would have
//! made room if these resources were unlimited.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::behind::{BehindOthers, Charges};
pub use super::cause::{Blame, Shortages};
use super::cause::{hides_others, is_of_state};
use super::node_account::NodeAccount;
use super::task_room::{Room, kinds_of_tasks};
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_ids::NodeId;
use dryrack_units::SimTime;
use dryrack_workload::{Demand, DemandKind, JobSpec};

/// The total wait in nanoseconds, by cause, of all replicas but those that can never run: whatever they wait for, it is not what
/// the others wait for, and their waits last as long as the run does.
#[derive(Default)]
pub struct WaitAccount {
    waited: BTreeMap<Blame, u128>,
    /// Of these waits, those for a limit or a quota, with what has it, such as a QOS.
    limited: BTreeMap<(Reason, Option<String>), u128>,
    /// The time before a decision gave a reason.
    pub unexplained: u128,
    /// The total wait of the replicas that can never run, which is in no other sum.
    pub never_run: u128,
    /// The part of the waits that came after a first place: replicas that were preempted or lost, and waited again.
    pub again: WaitsAgain,
    /// The replicas whose last hold says only that they are behind others. Their waits are charged as time passes.
    behind: BehindOthers,
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

    /// Adds a wait of a replica of this job, in nanoseconds.
    pub(super) fn charge(&mut self, job: &JobSpec, blame: Option<Blame>, length: u64) {
        let length = u128::from(length);
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

    /// Adds a replica behind others. Returns what `leave` needs. `None` if its wait is not charged as time passes.
    pub(super) fn join(&mut self, job: &JobSpec) -> Option<Charges> {
        self.behind.join(&job.demand)
    }

    /// Removes a replica behind others, and tells what was charged to it.
    pub(super) fn leave(&mut self, job: &JobSpec, before: &Charges) -> Charges {
        self.behind.leave(&job.demand, before)
    }

    /// Lets the replicas behind others wait from `since` until `until`, a time in which no node changed.
    pub(super) fn pass(&mut self, nodes: &[NodeAccount], since: SimTime, until: SimTime) {
        let length = until.since(since).as_nanos();
        if length > 0 {
            self.behind.pass(nodes, length);
        }
    }

    /// Tells that a node is about to change, so that earlier results are out of date. `before` is its account until now,
    /// or `None` if the node is new.
    pub(super) fn touch(&mut self, node: NodeId, before: Option<&NodeAccount>) {
        self.changes += 1;
        self.behind.touch(node, before);
    }

    /// Resets the sums.
    pub(super) fn forget(&mut self) {
        self.waited.clear();
        self.limited.clear();
        (self.unexplained, self.never_run) = (0, 0);
        self.again = WaitsAgain::default();
    }

    /// The cause of a job's wait. `led` is the leading reason of its hold, and `nodes` are in their state at the time
    /// of the hold.
    pub(super) fn blame(&mut self, of: &Arc<JobSpec>, led: Reason, nodes: &[NodeAccount]) -> Blame {
        if of.demand.pick.is_some() || !hides_others(&of.demand, led) {
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
/// that can never serve the job do not matter, even if there are more of them. Nor do nodes outside the partition in which
/// the job was tried, unless there are no others.
pub(super) fn ended_by(of: &JobSpec, refusal: Refusal, reasons: &Histogram) -> Option<Reason> {
    let led = reasons.iter().next().map(|(reason, _)| reason);
    if refusal != Refusal::Unfit {
        return reasons.iter().map(|(reason, _)| reason).find(|reason| *reason != Reason::PartitionMismatch).or(led);
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

/// Whose limit a job waits for: that of a QOS, a partition, a project or a queue of Kueue.
fn limited_by(job: &JobSpec, reason: Reason) -> Option<String> {
    let slurm = job.slurm.as_deref();
    let named = |what: &str, name: Option<&Arc<str>>| name.map(|name| format!("{what} `{name}`"));
    match reason {
        Reason::QuotaExceeded => named("project", job.project.as_ref()),
        Reason::PartitionTimeLimit | Reason::PartitionNodeLimit | Reason::PartitionConfig => {
            named("partition", slurm?.partition.as_ref())
        }
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

/// The cause of a wait if the leading reason is ambiguous. Evaluates every node.
fn blame(demand: &Demand, led: Reason, nodes: &[NodeAccount]) -> Blame {
    let Some(tasks) = kinds_of_tasks(demand).next() else { return Blame::One(led) };
    let room = Room::of(tasks, nodes, NodeAccount::is_ready);
    // If there is room, something other than these resources is in the way.
    let is_led =
        room.is_enough(tasks.tasks) || (is_of_state(led) && Room::of(tasks, nodes, |_| true).is_enough(tasks.tasks));
    room.lacks(tasks).filter(|_| !is_led).unwrap_or(Blame::One(led))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use dryrack_fleet::{Fleet, GpuClaim, GpuShape, NodeClaim, NodeShape, NodeSpec, NodeState, Placement};
    use dryrack_ids::NodeId;
    use dryrack_rng::Stream;
    use dryrack_scheduler::{Decision, Grouping, SchedulerOptions, decide};
    use dryrack_units::{Bytes, GpuShare, MilliCpu, SimTime};
    use dryrack_workload::{GpuDemand, GpuTake, TaskDemand};

    pub const GIB: u64 = 8;

    /// A node's cores, GiB of RAM and GPUs, how much of each is taken, and its state.
    #[derive(Clone, Copy, Debug)]
    pub struct NodeUse {
        pub all: (u64, u64, u64),
        pub taken: (u64, u64, u64),
        pub state: NodeState,
    }

    pub fn draw_node(draws: &mut Stream) -> NodeUse {
        let all = (draws.between(1, 8), draws.between(1, 8), draws.between(0, 3));
        NodeUse { all, taken: draw_taken(all, draws), state: NodeState::Ready }
    }

    pub fn draw_taken(all: (u64, u64, u64), draws: &mut Stream) -> (u64, u64, u64) {
        (draws.between(0, all.0), draws.between(0, all.1), draws.between(0, all.2))
    }

    pub fn draw_demand(draws: &mut Stream) -> Demand {
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

    pub fn claim(node: usize, (cpu, ram, gpus): (u64, u64, u64)) -> NodeClaim {
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

    pub fn spec(node: usize, (cpu, ram, gpus): (u64, u64, u64)) -> NodeSpec {
        let gpus = vec![GpuShape::of("a", Bytes::from_gib(GIB)); gpus as usize];
        let shape = NodeShape::of(MilliCpu::from_cores(cpu), Bytes::from_gib(ram), gpus);
        NodeSpec { name: format!("n{node}").into(), shape: shape.into() }
    }

    pub fn accounts(nodes: &[NodeUse]) -> Vec<NodeAccount> {
        let account = |(index, node): (usize, &NodeUse)| {
            let mut account = NodeAccount::new(&spec(index, node.all), NodeState::Ready, SimTime::ZERO);
            account.take(SimTime::ZERO, &claim(index, node.taken));
            account.set_state(SimTime::ZERO, node.state);
            account
        };
        nodes.iter().enumerate().map(account).collect()
    }

    /// The decision of the real scheduler on a fleet with the same claims. Nodes have a thousand times the CPU or RAM,
    /// or all of their GPUs are free, if `endless` includes the resource.
    pub fn decision(options: &SchedulerOptions, demand: &Demand, nodes: &[NodeUse], endless: Shortages) -> Decision {
        let mut fleet = Fleet::default();
        for (index, node) in nodes.iter().enumerate() {
            let (mut all, mut taken) = (node.all, node.taken);
            all.0 *= if endless.cpu { 1000 } else { 1 };
            all.1 *= if endless.ram { 1000 } else { 1 };
            taken.2 = if endless.gpus.is_some() { 0 } else { taken.2 };
            fleet.declare(&spec(index, all), NodeState::Ready);
            fleet.take(&Placement::new([claim(index, taken)].into()));
            fleet.set_node_state(NodeId::new(index), node.state);
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
            let others = [Reason::InsufficientCpu, Reason::InsufficientRam, Reason::GangIncomplete];
            if !others.contains(&led) && !of_gpus.contains(&led) {
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
