//! The state of a Slurm cluster beside the queue.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::fair::FairShares;
use super::section::{ReservedNodes, Section};
use super::usage::Usage;
use super::visits::Visits;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::pass::SeenByPass;
use crate::queue::slots::bits::{insert, word_count};
use dryrack_event::Reason;
use dryrack_fleet::NodeClaim;
use dryrack_ids::NodeId;
use dryrack_scheduler::slurm::{
    Multifactor, Partition, PreemptMode, Preemptors, Requested, Reservation, SlurmOptions, partition_label,
    reservation_label,
};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Gang, JobSpec};

/// The state of a Slurm cluster beside the queue.
pub struct Slurm {
    pub partitions: Vec<Section>,
    pub reservations: Vec<ReservedNodes>,
    pub usage: Usage,
    /// The waiting jobs in each of their partitions.
    pub visits: Visits,
    /// Whether a demand fits on the nodes of a partition if nothing runs there, for each demand of jobs in several.
    pub ever_fits: BTreeMap<(u32, usize), bool>,
    /// Number of nodes that the partitions were told of.
    pub known: usize,
    pub cluster: Requested,
    /// When priorities were last computed.
    pub calculated: SimTime,
    /// A computation of priorities at this time or later is the last that changes an order, unless jobs run that change
    /// factors of fair share, or another job comes, begins or ends.
    pub settled: SimTime,
    /// How jobs come before those that they may preempt.
    pub preemptors: Preemptors,
    /// What accounts and their users have used, if the cluster has accounts.
    pub fair: Option<FairShares>,
    /// The partition in which each job of several partitions runs.
    pub chosen: BTreeMap<ReplicaIndex, usize>,
    /// Jobs that are to be preempted, and still run for their grace time.
    pub graced: BTreeMap<ReplicaIndex, PreemptMode>,
    /// The state that the last pass of the main scheduler saw. If it has not changed, the next pass is skipped.
    pub placed: Option<SeenByPass>,
}

impl Slurm {
    /// `None` if the profile has no configuration of Slurm.
    pub fn of(options: Option<&SlurmOptions>) -> Option<Box<Slurm>> {
        let options = options?;
        let most = options.partitions.iter().map(|partition| partition.priority_job_factor).max().unwrap_or(1).max(1);
        let section = |options: Partition| Section {
            factor: f64::from(options.priority_job_factor) / f64::from(most),
            options,
            nodes: Vec::new(),
            bits: Vec::new(),
            has: Requested::default(),
            cpu: 0,
        };
        let partitions = match options.partitions.is_empty() {
            true => vec![section(Partition::of_all_nodes())],
            false => options.partitions.iter().cloned().map(section).collect(),
        };
        let reserved = |one: &Reservation| ReservedNodes { from: one.start, until: one.end(), bits: Vec::new() };
        let reserved = options.reservations.iter().map(reserved).collect();
        Some(Box::new(Slurm {
            partitions,
            reservations: reserved,
            usage: Usage::new(),
            visits: Visits::default(),
            ever_fits: BTreeMap::new(),
            known: 0,
            cluster: Requested::default(),
            calculated: SimTime::ZERO,
            settled: SimTime::ZERO,
            preemptors: Preemptors::of(options),
            fair: FairShares::of(options),
            chosen: BTreeMap::new(),
            graced: BTreeMap::new(),
            placed: None,
        }))
    }

    /// Whether a further computation of priorities may change an order.
    pub fn is_unsettled(&self, weights: &Multifactor) -> bool {
        self.calculated < self.settled_from(weights)
    }

    /// Reads which nodes are in which partition. Nodes are only ever added, and all of them before the first job.
    pub fn follow_fleet(&mut self, core: &Core) {
        if self.known == core.fleet.len() {
            return;
        }
        self.known = core.fleet.len();
        self.ever_fits.clear();
        self.cluster = Requested::default();
        (0..self.known).for_each(|node| add(&mut self.cluster, core, NodeId::new(node)));
        for section in &mut self.partitions {
            let label = partition_label(&section.options.name);
            let is_of_it = |node: &NodeId| {
                section.options.name.is_empty() || core.fleet.node(*node).shape.labels.contains_key(&label)
            };
            section.nodes = (0..self.known).map(NodeId::new).filter(is_of_it).collect();
            section.bits = vec![0; word_count(self.known)];
            section.nodes.iter().for_each(|node| insert(&mut section.bits, *node));
            section.has = Requested::default();
            section.nodes.iter().for_each(|node| add(&mut section.has, core, *node));
            section.cpu = section.nodes.iter().map(|node| core.fleet.node(*node).shape.cpu_capacity().get()).sum();
        }
        let reservations = core.profile.slurm.iter().flat_map(|slurm| &slurm.reservations);
        for (reserved, options) in self.reservations.iter_mut().zip(reservations) {
            let label = reservation_label(&options.name);
            reserved.bits = vec![0; word_count(self.known)];
            let is_of_it = |node: &NodeId| core.fleet.node(*node).shape.labels.contains_key(&label);
            let nodes = (0..self.known).map(NodeId::new).filter(is_of_it);
            nodes.for_each(|node| insert(&mut reserved.bits, node));
        }
    }

    /// The indices of a job's partitions, in the order in which the job names them.
    pub fn sections_of(&self, spec: &JobSpec) -> SmallVec<[usize; 1]> {
        places_of(spec, |name| self.partitions.iter().position(|one| &*one.options.name == name))
    }

    /// The index of the partition in which a job runs.
    pub fn section_of(&self, core: &Core, index: ReplicaIndex) -> usize {
        let chosen = self.chosen.get(&index).copied();
        chosen.unwrap_or_else(|| self.sections_of(&core.store.job_of(index).spec)[0])
    }

    /// Why a partition does not allow a job. `None` if it does.
    pub fn why_not_allowed(&self, spec: &JobSpec, section: usize) -> Option<Reason> {
        let section = &self.partitions[section];
        why_not_allowed(&section.options, spec).or_else(|| why_too_large(section, spec))
    }

    /// The index of a job's advance reservation.
    pub fn reservation_of(&self, core: &Core, spec: &JobSpec) -> Option<usize> {
        let name = spec.slurm.as_ref()?.reservation.as_deref()?;
        core.profile.slurm.as_ref()?.reservations.iter().position(|one| &*one.name == name)
    }

    /// How many beginnings and ends of reservations have passed.
    pub fn boundaries(&self, now: SimTime) -> u64 {
        let passed = |at: SimTime| u64::from(at <= now);
        self.reservations.iter().map(|reserved| passed(reserved.from) + passed(reserved.until)).sum()
    }

    /// The next beginning or end of a reservation.
    pub fn next_boundary(&self, now: SimTime) -> Option<SimTime> {
        self.reservations.iter().flat_map(|reserved| [reserved.from, reserved.until]).filter(|at| *at > now).min()
    }
}

/// The places of a job's partitions: those that it names, or the first.
pub fn places_of(spec: &JobSpec, place_of: impl Fn(&str) -> Option<usize>) -> SmallVec<[usize; 1]> {
    let names = spec.slurm.as_ref().and_then(|terms| terms.partition.as_deref());
    let found: SmallVec<[usize; 1]> =
        names.into_iter().flat_map(|names| names.split(',')).filter_map(place_of).collect();
    if found.is_empty() { SmallVec::from([0]) } else { found }
}

/// Why a partition does not allow a job. `None` if it does.
pub fn why_not_allowed(partition: &Partition, spec: &JobSpec) -> Option<Reason> {
    let nodes = requested(spec).nodes;
    let limit = spec.estimate.unwrap_or(SimDuration::MAX);
    if partition.max_time.is_some_and(|most| limit > most) {
        return Some(Reason::PartitionTimeLimit);
    }
    if is_outside(partition, nodes) {
        return Some(Reason::PartitionNodeLimit);
    }
    let terms = spec.slurm.as_ref();
    let is_listed = |allowed: &[String], own: Option<&str>| {
        allowed.is_empty() || allowed.iter().any(|known| Some(known.as_str()) == own)
    };
    if !is_listed(&partition.allow_qos, terms.and_then(|terms| terms.qos.as_deref())) {
        return Some(Reason::QosNotAllowed);
    }
    if !is_listed(&partition.allow_accounts, terms.and_then(|terms| terms.account.as_deref())) {
        return Some(Reason::AccountNotAllowed);
    }
    None
}

/// Whether a partition does not allow this number of nodes.
pub fn is_outside(partition: &Partition, nodes: u64) -> bool {
    partition.max_nodes.is_some_and(|most| nodes > u64::from(most))
        || partition.min_nodes.is_some_and(|least| nodes < u64::from(least))
}

/// Why a partition is too small for a job that names no other. `None` if the numbers of its nodes and cores are
/// enough. Slurm keeps such a job waiting. If only the nodes are too small, it refuses the job.
fn why_too_large(section: &Section, spec: &JobSpec) -> Option<Reason> {
    let names = spec.slurm.as_ref().and_then(|terms| terms.partition.as_deref());
    if names.is_some_and(|names| names.contains(',')) {
        return None;
    }
    if requested(spec).nodes > section.has.nodes {
        return Some(Reason::PartitionNodeLimit);
    }
    let group = spec.demand.task_group()?;
    (u64::from(group.tasks).saturating_mul(group.task.cpu.get()) > section.cpu).then_some(Reason::PartitionConfig)
}

fn add(sum: &mut Requested, core: &Core, node: NodeId) {
    let shape = &core.fleet.node(node).shape;
    sum.nodes += 1;
    sum.cpus += shape.cpu_capacity().get() / 1000;
    sum.gpus += shape.gpus.len() as u64;
}

/// What a job holds.
pub fn held_by(claims: &[NodeClaim]) -> Requested {
    Requested {
        nodes: claims.len() as u64,
        cpus: claims.iter().map(|claim| claim.cpu.get().div_ceil(1000)).sum(),
        gpus: claims.iter().map(|claim| claim.gpus.len() as u64).sum(),
    }
}

/// What a job asks for, as Slurm counts it before the job has nodes.
pub fn requested(spec: &JobSpec) -> Requested {
    let Some(group) = spec.demand.task_group() else { return Requested::default() };
    let tasks = u64::from(group.tasks);
    Requested {
        nodes: if group.gang == Gang::Spread { tasks } else { 1 },
        cpus: tasks * group.task.cpu.get().div_ceil(1000).max(1),
        gpus: tasks * group.task.gpus.as_ref().map_or(0, |gpus| u64::from(gpus.count)),
    }
}

/// The settings of priority/multifactor. `None` if the profile has none.
pub fn weights(core: &Core) -> Option<&Multifactor> {
    core.profile.slurm.as_ref()?.priority.as_ref()
}
