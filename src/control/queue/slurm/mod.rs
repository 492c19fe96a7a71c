//! What Slurm's main scheduler and sched/backfill know of a job besides its resources: its partition ([`ground`]), its
//! priority ([`priority`]), what its user and account have used ([`fair`]), its advance reservation, and the limits of
//! its QOS ([`limits`]).
//!
//! The main scheduler ([`pass`]) visits all waiting jobs in order of the partition's tier and the job's priority. A job
//! that its partition, QOS or reservation does not allow is passed over. A job that does not fit ends the pass for its partition, and the
//! nodes of that partition are kept from the jobs behind it. Backfilling asks [`Queue::denied`] too.

mod fair;
mod ground;
mod limits;
mod pass;
mod preempt;
mod priority;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use crate::queue::passes::SeenByPass;
use crate::queue::slots::SECOND;
use crate::queue::slots::bits::{insert, word_count};
use dryrack_event::Reason;
use dryrack_fleet::NodeClaim;
use dryrack_ids::NodeId;
use dryrack_scheduler::slurm::{
    Multifactor, Partition, PreemptMode, Requested, Reservation, SlurmOptions, partition_label, reservation_label,
};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Gang, JobSpec};
use ground::Booked;
pub(super) use ground::Ground;
use limits::Usage;

/// The state of a Slurm cluster beside the queue.
pub(super) struct Slurm {
    partitions: Vec<Section>,
    booked: Vec<Booked>,
    usage: Usage,
    /// Number of nodes that the partitions were told of.
    known: usize,
    cluster: Requested,
    /// When priorities were last computed.
    calculated: SimTime,
    /// A computation of priorities at this time or later is the last that changes an order, unless another job comes,
    /// begins or ends.
    settled: SimTime,
    /// What accounts and their users have used, if the cluster has accounts.
    fair: Option<fair::FairShares>,
    /// Jobs that are to be preempted, and still run for their grace time.
    graced: BTreeMap<ReplicaIndex, PreemptMode>,
    /// The state that the last pass of the main scheduler saw. If it has not changed, the next pass is skipped.
    placed: Option<SeenByPass>,
}

/// A partition with its nodes.
struct Section {
    options: Partition,
    nodes: Vec<NodeId>,
    /// The same nodes as bits.
    bits: Vec<u64>,
    has: Requested,
    /// The priority factor of the partition, relative to the largest factor of all partitions.
    factor: f64,
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
        };
        let partitions = match options.partitions.is_empty() {
            true => vec![section(Partition::of_all_nodes())],
            false => options.partitions.iter().cloned().map(section).collect(),
        };
        let booked = |one: &Reservation| Booked { from: one.start, until: one.end(), bits: Vec::new() };
        let booked = options.reservations.iter().map(booked).collect();
        Some(Box::new(Slurm {
            partitions,
            booked,
            usage: Usage::new(),
            known: 0,
            cluster: Requested::default(),
            calculated: SimTime::ZERO,
            settled: SimTime::ZERO,
            fair: fair::FairShares::of(options),
            graced: BTreeMap::new(),
            placed: None,
        }))
    }

    /// Reads which nodes are in which partition. Nodes are only ever added, and all of them before the first job.
    fn follow_fleet(&mut self, core: &Core) {
        if self.known == core.fleet.len() {
            return;
        }
        self.known = core.fleet.len();
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
        }
        let reservations = core.profile.slurm.iter().flat_map(|slurm| &slurm.reservations);
        for (booked, options) in self.booked.iter_mut().zip(reservations) {
            let label = reservation_label(&options.name);
            booked.bits = vec![0; word_count(self.known)];
            let is_of_it = |node: &NodeId| core.fleet.node(*node).shape.labels.contains_key(&label);
            let nodes = (0..self.known).map(NodeId::new).filter(is_of_it);
            nodes.for_each(|node| insert(&mut booked.bits, node));
        }
    }

    /// The index of a job's partition.
    fn section_of(&self, spec: &JobSpec) -> usize {
        let name = spec.slurm.as_ref().and_then(|terms| terms.partition.as_deref());
        let found = name.and_then(|name| self.partitions.iter().position(|one| &*one.options.name == name));
        found.unwrap_or(0)
    }

    /// The index of a job's advance reservation.
    fn reservation_of(&self, core: &Core, spec: &JobSpec) -> Option<usize> {
        let name = spec.slurm.as_ref()?.reservation.as_deref()?;
        core.profile.slurm.as_ref()?.reservations.iter().position(|one| &*one.name == name)
    }
}

fn add(sum: &mut Requested, core: &Core, node: NodeId) {
    let shape = &core.fleet.node(node).shape;
    sum.nodes += 1;
    sum.cpus += shape.cpu_capacity().get() / 1000;
    sum.gpus += shape.gpus.len() as u64;
}

/// What a job holds.
fn held_by(claims: &[NodeClaim]) -> Requested {
    Requested {
        nodes: claims.len() as u64,
        cpus: claims.iter().map(|claim| claim.cpu.get().div_ceil(1000)).sum(),
        gpus: claims.iter().map(|claim| claim.gpus.len() as u64).sum(),
    }
}

/// What a job asks for, as Slurm counts it before the job has nodes.
fn requested(spec: &JobSpec) -> Requested {
    let Some(group) = spec.demand.task_group() else { return Requested::default() };
    let tasks = u64::from(group.tasks);
    Requested {
        nodes: if group.gang == Gang::Spread { tasks } else { 1 },
        cpus: tasks * group.task.cpu.get().div_ceil(1000).max(1),
        gpus: tasks * group.task.gpus.as_ref().map_or(0, |gpus| u64::from(gpus.count)),
    }
}

/// Whether priorities change with time. All other factors are known when a job comes.
fn change_with_time(weights: &Multifactor) -> bool {
    weights.weight_age > 0 || weights.weight_fairshare > 0
}

/// The settings of priority/multifactor. `None` if the profile has none.
fn weights(core: &Core) -> Option<&Multifactor> {
    core.profile.slurm.as_ref()?.priority.as_ref()
}

impl Queue {
    /// The number of time-dependent changes in the Slurm cluster so far: computations of priorities, and beginnings and
    /// ends of advance reservations, and jobs that are no longer exempt from preemption.
    pub(in crate::queue) fn epoch(&self, core: &Core) -> u64 {
        let weights = weights(core).filter(|weights| change_with_time(weights));
        let calculations = weights.map_or(0, |weights| weights.calculations(core.now));
        calculations + self.slurm.as_ref().map_or(0, |slurm| slurm.boundaries(core.now)) + self.preemptible(core)
    }

    /// When the next such change comes. `None` if none comes. A computation of priorities that changes no order does not
    /// count, so that a run with a job that never starts can end.
    pub(in crate::queue) fn next_epoch(&self, core: &Core) -> Option<SimTime> {
        let is_due = self.slurm.as_ref().is_some_and(|slurm| slurm.calculated < slurm.settled);
        let weights = weights(core).filter(|weights| is_due && change_with_time(weights));
        let calculated = weights.and_then(|weights| weights.calculated_after(weights.calculations(core.now)));
        let boundary = self.slurm.as_ref().and_then(|slurm| slurm.next_boundary(core.now));
        calculated.into_iter().chain(boundary).chain(self.next_preemptible(core)).min()
    }

    /// Why a replica may not start now, whatever is free. `None` if it may.
    pub(in crate::queue) fn denied(&self, core: &Core, index: ReplicaIndex) -> Option<Reason> {
        let slurm = self.slurm.as_ref()?;
        let spec = &core.jobs[core.replicas[index as usize].job.index()].spec;
        let partition = &slurm.partitions[slurm.section_of(spec)].options;
        let nodes = requested(spec).nodes;
        let limit = spec.estimate.unwrap_or(SimDuration::MAX);
        if partition.max_time.is_some_and(|most| limit > most) {
            return Some(Reason::PartitionTimeLimit);
        }
        let is_outside = partition.max_nodes.is_some_and(|most| nodes > u64::from(most))
            || partition.min_nodes.is_some_and(|least| nodes < u64::from(least));
        if is_outside {
            return Some(Reason::PartitionNodeLimit);
        }
        let qos = spec.slurm.as_ref().and_then(|terms| terms.qos.as_deref());
        if !partition.allow_qos.is_empty() && !partition.allow_qos.iter().any(|known| Some(known.as_str()) == qos) {
            return Some(Reason::QosNotAllowed);
        }
        let account = spec.slurm.as_ref().and_then(|terms| terms.account.as_deref());
        let allowed = &partition.allow_accounts;
        if !allowed.is_empty() && !allowed.iter().any(|known| Some(known.as_str()) == account) {
            return Some(Reason::AccountNotAllowed);
        }
        if let Some(own) = slurm.reservation_of(core, spec) {
            let Booked { from, until, .. } = &slurm.booked[own];
            if core.now < *from || core.now >= *until {
                return Some(Reason::Reservation);
            }
        }
        self.denied_by_qos(core, spec)
    }

    /// The tier of the partition and the priority of a replica. Both are 0 if the profile has no configuration of Slurm.
    pub(in crate::queue) fn standing(&self, core: &Core, index: ReplicaIndex) -> (u16, u32) {
        let Some(slurm) = &self.slurm else { return (0, 0) };
        let spec = Arc::clone(&core.jobs[core.replicas[index as usize].job.index()].spec);
        let section = &slurm.partitions[slurm.section_of(&spec)];
        (section.options.priority_tier, slurm.priority_of(core, index, section))
    }

    /// Prepares for a replica that enters the queue: learns the fleet, and makes the replica's key.
    pub(in crate::queue) fn rank_in_slurm(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(slurm) = &mut self.slurm else { return };
        slurm.follow_fleet(core);
        if let (Some(weights), Some(fair)) = (weights(core), &mut slurm.fair) {
            fair.catch_up(weights, core.now);
        }
        if let Some(weights) = weights(core).filter(|weights| weights.weight_age > 0) {
            let is_old = core.replicas[index as usize].wanted.saturating_add(weights.max_age);
            // Slurm counts whole seconds.
            slurm.settled = slurm.settled.max(is_old.saturating_add(SECOND));
        }
        core.replicas[index as usize].key = self.key_of(core, index);
    }
}
