//! What the jobs of each user and account have used, for the factor of fair share.
//!
//! Slurm charges usage when a job ends, and at each computation of priorities for the time since the last one. Only the
//! computation decays what was used before, and only then do factors change. A charge for some seconds decays as if all
//! of it were as old as its beginning. Time counts in whole seconds.

use std::collections::BTreeMap;

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use crate::queue::slots::{SECOND, down_to, limit_of};
use dryrack_event::Phase;
use dryrack_scheduler::slurm::{Associations, Multifactor, SlurmOptions, kept};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::JobSpec;

use super::{Slurm, held_by, weights};

/// The use of the cluster by all associations.
pub(super) struct FairShares {
    associations: Associations,
    /// The number of computations of priorities that have been charged.
    calculations: u64,
    /// When the last of them was. Everything up to then is charged.
    charged: SimTime,
    half_life: SimDuration,
    running: BTreeMap<ReplicaIndex, Charge>,
    /// Running jobs that began after the last computation.
    fresh: Vec<ReplicaIndex>,
    /// What other running jobs use per second, for each association, in thousandths.
    holds: Vec<u64>,
}

/// The usage of a running job.
#[derive(Clone, Copy)]
struct Charge {
    association: usize,
    /// Per second, in thousandths.
    rate: u64,
    since: SimTime,
}

impl FairShares {
    /// `None` if the cluster has no accounts, or if priorities are never computed.
    pub fn of(options: &SlurmOptions) -> Option<FairShares> {
        let weights = options.priority.as_ref()?;
        if options.accounts.is_empty() {
            return None;
        }
        let mut associations = Associations::of(&options.accounts);
        associations.compute(weights.share_algorithm());
        let holds = vec![0; associations.count()];
        Some(FairShares {
            associations,
            calculations: 0,
            charged: SimTime::ZERO,
            half_life: weights.decay_half_life,
            running: BTreeMap::new(),
            fresh: Vec::new(),
            holds,
        })
    }

    fn association_of(&self, spec: &JobSpec) -> Option<usize> {
        let account = spec.slurm.as_ref()?.account.as_deref()?;
        self.associations.find(spec.user.as_deref()?, account)
    }

    /// The factor of a job. 0 if its user has no association, as in Slurm.
    pub fn factor_of(&self, spec: &JobSpec) -> f64 {
        self.association_of(spec).map_or(0.0, |association| self.associations.factor(association))
    }

    /// Charges what was used up to each computation of priorities until now, and computes the factors.
    pub fn catch_up(&mut self, weights: &Multifactor, now: SimTime) {
        let due = weights.calculations(now);
        if self.calculations == due {
            return;
        }
        while self.calculations < due {
            let at = down_to(weights.calculated_after(self.calculations).expect("it is due"), SECOND);
            self.calculations += 1;
            let seconds = at.checked_since(self.charged).unwrap_or_default().as_nanos() / SECOND.as_nanos();
            self.associations.decay(kept(self.half_life, seconds));
            let weight = seconds as f64 * kept(self.half_life, seconds);
            for (association, rate) in self.holds.iter().enumerate().filter(|(_, rate)| **rate > 0) {
                self.associations.charge(association, *rate as f64 / 1000.0 * weight);
            }
            for index in std::mem::take(&mut self.fresh) {
                let charge = self.running[&index];
                self.charge(charge, at);
                self.holds[charge.association] += charge.rate;
            }
            self.charged = at;
        }
        self.associations.compute(weights.share_algorithm());
    }

    /// Charges what a job has used since it began, or since the last computation.
    fn charge(&mut self, charge: Charge, until: SimTime) {
        let since = charge.since.max(self.charged);
        let seconds = until.checked_since(since).unwrap_or_default().as_nanos() / SECOND.as_nanos();
        let usage = charge.rate as f64 / 1000.0 * seconds as f64 * kept(self.half_life, seconds);
        self.associations.charge(charge.association, usage);
    }

    fn begin(&mut self, index: ReplicaIndex, charge: Charge) {
        if self.running.insert(index, charge).is_none() {
            self.fresh.push(index);
        }
    }

    fn end(&mut self, index: ReplicaIndex, now: SimTime) {
        let Some(charge) = self.running.remove(&index) else { return };
        self.charge(charge, down_to(now, SECOND));
        match self.fresh.iter().position(|fresh| *fresh == index) {
            Some(place) => drop(self.fresh.remove(place)),
            None => self.holds[charge.association] -= charge.rate,
        }
    }
}

impl Slurm {
    /// What a job uses per second.
    fn charge_of(&self, core: &Core, index: ReplicaIndex) -> Option<Charge> {
        let replica = &core.replicas[index as usize];
        let spec = &core.jobs[replica.job.index()].spec;
        let association = self.fair.as_ref()?.association_of(spec)?;
        let claims = replica.placement.as_ref()?.claims();
        let held = held_by(claims);
        let rate = self.partitions[self.section_of(spec)].options.billing(held);
        Some(Charge { association, rate: (rate * 1000.0) as u64, since: down_to(core.now, SECOND) })
    }
}

impl Queue {
    pub(super) fn fair_shares(&mut self) -> Option<&mut FairShares> {
        self.slurm.as_mut()?.fair.as_mut()
    }

    /// Follows a job that begins to hold its nodes, or that ends.
    pub(in crate::queue) fn note_usage(&mut self, core: &Core, index: ReplicaIndex, before: Phase) {
        let holds = |phase| matches!(phase, Phase::Scheduled | Phase::Preparing | Phase::Running);
        let phase = core.replicas[index as usize].phase;
        if holds(before) == holds(phase) {
            return;
        }
        let Some(weights) = weights(core) else { return };
        let Some(fair) = self.fair_shares() else { return };
        fair.catch_up(weights, core.now);
        if holds(before) {
            fair.end(index, core.now);
            self.expect_usage(weights, core.now);
            return;
        }
        self.begin_usage(core, index, weights);
    }

    /// Charges a job from now on. Its usage changes the factors until it ends, at its time limit at the latest.
    fn begin_usage(&mut self, core: &Core, index: ReplicaIndex, weights: &Multifactor) {
        let charge = self.slurm.as_ref().and_then(|slurm| slurm.charge_of(core, index));
        if let (Some(charge), Some(fair)) = (charge, self.fair_shares()) {
            fair.begin(index, charge);
            self.expect_usage(weights, core.now.saturating_add(limit_of(core, index)));
        }
    }

    /// Notes that usage changes the order until then.
    fn expect_usage(&mut self, weights: &Multifactor, until: SimTime) {
        if let Some(slurm) = self.slurm.as_mut().filter(|_| weights.weight_fairshare > 0) {
            slurm.settled = slurm.settled.max(until);
        }
    }

    /// Takes over what was used under another configuration. Jobs that run are charged anew from now on.
    pub(in crate::queue) fn take_usage_of(&mut self, before: Option<Box<Slurm>>, core: &Core) {
        let Some(mut before) = before.and_then(|before| before.fair) else { return };
        let running: Vec<ReplicaIndex> = before.running.keys().copied().collect();
        running.iter().for_each(|index| before.end(*index, core.now));
        let Some(weights) = weights(core) else { return };
        let Some(fair) = self.fair_shares() else { return };
        fair.catch_up(weights, core.now);
        fair.associations.take_usage_of(&before.associations);
        self.expect_usage(weights, core.now);
        running.into_iter().for_each(|index| self.begin_usage(core, index, weights));
    }
}
