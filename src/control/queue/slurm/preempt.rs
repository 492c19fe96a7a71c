//! Preemption for a job that does not fit: preempt/qos and preempt/partition_prio. The main scheduler preempts for the first
//! such job of each partition, and backfilling for each job that could begin now.
//!
//! Running jobs that may be stopped for it are taken away one by one, the least valuable first, until it would fit. Then
//! each one that is not needed is spared, the last first. Jobs are requeued or cancelled at once, or after their grace
//! time. The waiting job gets no promise: it starts in a later pass, like any job. What stops counts as gone, so nobody is
//! preempted for room that is about to become free.
//!
//! The trial fleet is a copy. It is made once in a pass for each partition that has a job waiting and a job that it may
//! stop.

use super::InPartition;
use super::cluster::{Slurm, held_by};
use super::preemptor::Preemptor;
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::core::timer::Timer;
use crate::flow::Flow;
use crate::queue::Queue;
use crate::queue::backfill::plain::judge_on;
use crate::queue::slots::bits::contains;
use crate::queue::slots::plain::{Nodes, fleet_of};
use crate::queue::slots::time::{SECOND, down_to, limit_of};
use dryrack_event::{Event, Outcome, Phase, Reason};
use dryrack_fleet::{Fleet, Placement};
use dryrack_scheduler::slurm::{PreemptMode, PreemptType, Ranked, SlurmOptions};
use dryrack_units::{SimDuration, SimTime};

/// Jobs to preempt, each with how.
pub(super) type Victims = Vec<(ReplicaIndex, PreemptMode)>;

impl Slurm {
    /// A job that is or would be in this partition.
    fn ranked<'s>(&'s self, options: &'s SlurmOptions, core: &Core, index: ReplicaIndex, section: usize) -> Ranked<'s> {
        let spec = &core.store.job_of(index).spec;
        let name = spec.slurm.as_ref().and_then(|terms| terms.qos.as_deref());
        let qos = name.and_then(|name| options.qos(name));
        Ranked { partition: &self.partitions[section].options, qos }
    }

    fn ranked_running<'s>(&'s self, options: &'s SlurmOptions, core: &Core, index: ReplicaIndex) -> Ranked<'s> {
        self.ranked(options, core, index, self.section_of(core, index))
    }
}

/// Since when a job has held its nodes, in whole seconds.
fn began(core: &Core, index: ReplicaIndex) -> SimTime {
    down_to(core.store[index].since, SECOND)
}

fn holds(core: &Core, index: ReplicaIndex) -> bool {
    matches!(core.store[index].phase, Phase::Scheduled | Phase::Preparing | Phase::Running)
}

fn release(fleet: &mut Fleet, placement: &Placement) {
    placement.claims().iter().for_each(|claim| fleet.release(claim));
}

impl Queue {
    /// What decides which jobs this one may preempt. `None` if it preempts nobody.
    pub(in crate::queue) fn preemptor(&self, core: &Core, own: InPartition) -> Option<Preemptor> {
        let (slurm, options) = (self.slurm.as_ref()?, core.profile.slurm.as_ref()?);
        match options.preempt_type? {
            PreemptType::PartitionPrio => Some(Preemptor::Partition(own.section)),
            PreemptType::Qos => {
                let qos = slurm.ranked(options, core, own.replica, own.section).qos?;
                let number = options.qos.iter().position(|other| other.name == qos.name)?;
                (!qos.preempt.is_empty()).then_some(Preemptor::Qos(number))
            }
        }
    }

    /// Whether a waiting job may preempt this running one now, or already has.
    pub(in crate::queue) fn preempts(&self, core: &Core, own: InPartition, running: ReplicaIndex) -> bool {
        self.mode_of(core, own, running).is_some()
    }

    /// How a waiting job preempts this running one. `None` if it may not.
    fn mode_of(&self, core: &Core, own: InPartition, running: ReplicaIndex) -> Option<PreemptMode> {
        let (slurm, options) = (self.slurm.as_ref()?, core.profile.slurm.as_ref()?);
        if !holds(core, running) {
            return None;
        }
        let own = slurm.ranked(options, core, own.replica, own.section);
        let ran = core.now.checked_since(began(core, running)).unwrap_or_default();
        options.preempts(own, slurm.ranked_running(options, core, running), ran)
    }

    /// The running jobs that a waiting job may preempt now or already has, in order of their numbers.
    pub(in crate::queue) fn preemptible_by(&self, core: &Core, own: InPartition) -> Vec<ReplicaIndex> {
        if self.preemptor(core, own).is_none() {
            return Vec::new();
        }
        core.holders().into_iter().filter(|index| self.preempts(core, own, *index)).collect()
    }

    /// Preempts jobs so that a replica that does not fit can start later. `blocked` are the nodes that are kept for other
    /// jobs.
    pub(in crate::queue) fn preempt_for(&mut self, core: &mut Core, head: InPartition, blocked: &[u64]) {
        if let Some(Ok(victims)) = self.victims_in_slurm(core, head, blocked) {
            self.preempt_these(core, head, victims);
        }
    }

    pub(super) fn preempt_these(&mut self, core: &mut Core, head: InPartition, victims: Victims) {
        for (victim, mode) in victims {
            self.preempt_in_slurm(core, victim, head.replica, mode);
        }
    }

    /// The jobs to preempt for a replica. The error is the limit that denies the nodes that it would then take: Slurm
    /// compares them with the limits before it preempts. `None` if nobody is preempted.
    pub(super) fn victims_in_slurm(
        &self,
        core: &Core,
        head: InPartition,
        blocked: &[u64],
    ) -> Option<Result<Victims, Reason>> {
        let (slurm, options) = (self.slurm.as_ref()?, core.profile.slurm.as_ref()?);
        options.preempt_type?;
        let may_stop = |index: ReplicaIndex| {
            let mode = self.mode_of(core, head, index).filter(|_| !slurm.graced.contains_key(&index))?;
            let nodes = held_by(core.store.placement_of(index).claims()).nodes;
            Some((options.worth(slurm.ranked_running(options, core, index), nodes), index, mode))
        };
        let holders = core.holders();
        let mut candidates: Vec<_> = holders.iter().filter_map(|index| may_stop(*index)).collect();
        if candidates.is_empty() {
            return None;
        }
        candidates.sort_unstable_by_key(|(worth, index, _)| (*worth, *index));
        let ground = self.ground_of(core, head)?;
        let (head, section) = (head.replica, head.section);
        let open = ground.nodes(down_to(core.now, SECOND), limit_of(core, head)).into_iter();
        let open = Nodes::of(open.filter(|node| !contains(blocked, *node)), core.fleet.len());
        let mut fleet = fleet_of(core, &open);
        let is_going = |index: &&ReplicaIndex| slurm.graced.contains_key(*index);
        holders.iter().filter(is_going).for_each(|index| release(&mut fleet, core.store.placement_of(*index)));
        if judge_on(core, head, &fleet).is_some() {
            return None;
        }
        let mut chosen = Vec::new();
        let mut rest = candidates.into_iter();
        while judge_on(core, head, &fleet).is_none() {
            let (_, index, mode) = rest.next()?;
            release(&mut fleet, core.store.placement_of(index));
            chosen.push((index, mode));
        }
        for place in (0..chosen.len()).rev() {
            let spared = core.store.placement_of(chosen[place].0);
            fleet.take(spared);
            match judge_on(core, head, &fleet) {
                Some(_) => drop(chosen.remove(place)),
                None => release(&mut fleet, spared),
            }
        }
        let nodes = || Some(judge_on(core, head, &fleet)?.placement.nodes().collect());
        let denied = self.denied_by_nodes(core, (&core.store.job_of(head).spec, section), nodes);
        Some(denied.map_or(Ok(chosen), Err))
    }

    fn preempt_in_slurm(&mut self, core: &mut Core, index: ReplicaIndex, head: ReplicaIndex, mode: PreemptMode) {
        let [attempt, by] = [index, head].map(|index| core.store[index].attempt_id());
        core.emit(Event::Preempted { attempt, by });
        let options = core.profile.slurm.as_ref().expect("it preempts");
        let slurm = self.slurm.as_mut().expect("it preempts");
        let grace = options.grace_of(slurm.ranked_running(options, core, index));
        if grace.is_zero() {
            return self.stop_preempted(core, index, mode);
        }
        slurm.graced.insert(index, mode);
        let version = core.store[index].version;
        core.timers.set(core.now.saturating_add(grace), Timer::GraceOver { replica: index, version });
    }

    fn stop_preempted(&mut self, core: &mut Core, index: ReplicaIndex, mode: PreemptMode) {
        let outcome = match mode {
            PreemptMode::Requeue => Outcome::Lost,
            PreemptMode::Cancel | PreemptMode::Off => Outcome::Cancelled,
        };
        self.stop(core, index, outcome, Reason::Preempted);
    }

    /// Stops a job whose grace time is over.
    pub(in crate::queue) fn grace_is_over(&mut self, core: &mut Core, index: ReplicaIndex) {
        let mode = self.slurm.as_mut().and_then(|slurm| slurm.graced.remove(&index));
        if let Some(mode) = mode {
            self.stop_preempted(core, index, mode);
        }
    }

    /// Forgets the grace time and the partition of a job that no longer runs.
    pub(in crate::queue) fn forget_run(&mut self, core: &Core, index: ReplicaIndex) {
        if let Some(slurm) = self.slurm.as_mut().filter(|_| !holds(core, index)) {
            slurm.graced.remove(&index);
            slurm.chosen.remove(&index);
        }
    }

    /// How long a job that was lost for this reason waits before it is in the queue again: for as long as a credential
    /// lives, because Slurm otherwise would take the old job for the new one.
    pub(in crate::queue) fn requeue_delay(&self, core: &Core, because: Reason) -> SimDuration {
        let is_requeued = matches!(because, Reason::Preempted | Reason::NodeLost);
        let options = core.profile.slurm.as_ref().filter(|_| is_requeued);
        options.map_or(SimDuration::ZERO, |options| options.cred_expire.saturating_add(SECOND))
    }

    /// When each running job can first be preempted, if jobs are exempt for some time.
    fn exempt_until<'a>(&'a self, core: &'a Core) -> impl Iterator<Item = SimTime> + 'a {
        let options = core.profile.slurm.as_ref();
        let options = options.filter(|options| options.preempt_type.is_some() && options.exempts());
        options.zip(self.slurm.as_ref()).into_iter().flat_map(move |(options, slurm)| {
            let until = move |index: ReplicaIndex| {
                let own = slurm.ranked_running(options, core, index).qos.and_then(|qos| qos.preempt_exempt_time);
                began(core, index).saturating_add(own.unwrap_or(options.preempt_exempt_time))
            };
            core.holders().into_iter().filter(|index| holds(core, *index)).map(until)
        })
    }

    /// How many running jobs are not exempt from preemption.
    pub(super) fn preemptible(&self, core: &Core) -> u64 {
        self.exempt_until(core).filter(|until| *until <= core.now).count() as u64
    }

    /// When the next running job is no longer exempt from preemption.
    pub(super) fn next_preemptible(&self, core: &Core) -> Option<SimTime> {
        self.exempt_until(core).filter(|until| *until > core.now).min()
    }
}
