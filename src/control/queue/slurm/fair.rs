//! What the jobs of each user and account have used, for the factor of fair share.
//!
//! Slurm charges usage when a job ends, and at each computation of priorities for the time since the last one. Only the
//! computation decays what was used before, and only then do factors change. A charge for some seconds decays as if all
//! of it were as old as its beginning. Time counts in whole seconds.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::store::ReplicaIndex;
use crate::queue::slots::time::{SECOND, down_to};
use dryrack_scheduler::slurm::{Associations, Multifactor, SlurmOptions, kept};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::JobSpec;

/// The use of the cluster by all associations.
pub struct FairShares {
    associations: Associations,
    /// The number of computations of priorities that have been charged.
    calculations: u64,
    /// When the last of them was. Everything up to then is charged.
    charged: SimTime,
    half_life: SimDuration,
    running: BTreeMap<ReplicaIndex, Charge>,
    /// When each running job ends at the latest.
    ends: BTreeSet<(SimTime, ReplicaIndex)>,
    /// Running jobs that began after the last computation.
    fresh: Vec<ReplicaIndex>,
    /// What other running jobs use per second, for each association, in thousandths.
    holds: Vec<u64>,
}

/// The usage of a running job.
#[derive(Clone, Copy)]
pub struct Charge {
    pub association: usize,
    /// Per second, in thousandths.
    pub rate: u64,
    pub since: SimTime,
    /// The time limit of the job.
    pub until: SimTime,
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
            ends: BTreeSet::new(),
            fresh: Vec::new(),
            holds,
        })
    }

    /// The association of a job. `None` if its user has none.
    pub fn association_of(&self, spec: &JobSpec) -> Option<usize> {
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

    /// Charges a job from now on.
    pub fn begin(&mut self, index: ReplicaIndex, charge: Charge) {
        match self.running.insert(index, charge) {
            Some(before) => drop(self.ends.remove(&(before.until, index))),
            None => self.fresh.push(index),
        }
        self.ends.insert((charge.until, index));
    }

    /// Charges what a job has used until it ends.
    pub fn end(&mut self, index: ReplicaIndex, now: SimTime) {
        let Some(charge) = self.running.remove(&index) else { return };
        self.ends.remove(&(charge.until, index));
        self.charge(charge, down_to(now, SECOND));
        match self.fresh.iter().position(|fresh| *fresh == index) {
            Some(place) => drop(self.fresh.remove(place)),
            None => self.holds[charge.association] -= charge.rate,
        }
    }

    /// When the last of the running jobs ends at the latest. `None` if none runs.
    pub fn last_end(&self) -> Option<SimTime> {
        self.ends.last().map(|(until, _)| *until)
    }

    /// The running jobs, in order.
    pub fn running(&self) -> impl Iterator<Item = ReplicaIndex> {
        self.running.keys().copied()
    }

    /// Takes over what each association used under another configuration.
    pub fn take_usage_of(&mut self, before: &FairShares) {
        self.associations.take_usage_of(&before.associations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const fn at(seconds: u64) -> SimTime {
        SimTime::from_nanos(seconds * 1_000_000_000)
    }

    /// Two users of one account. Priorities are computed each minute.
    fn shares(half_life: u64) -> (FairShares, Multifactor, [usize; 2]) {
        let options: SlurmOptions = serde_json::from_value(json!({
            "accounts": [{"name": "a", "users": {"u": 1, "v": 1}}],
            "priority": {"calc_period": "1m", "decay_half_life": format!("{half_life}s")},
        }))
        .expect("options");
        let fair = FairShares::of(&options).expect("accounts and priorities");
        let users = ["u", "v"].map(|user| fair.associations.find(user, "a").expect("a user"));
        (fair, options.priority.expect("priorities"), users)
    }

    fn charge(association: usize, rate: u64, since: u64) -> Charge {
        Charge { association, rate, since: at(since), until: at(since + 3600) }
    }

    #[test]
    fn running_jobs_are_charged_up_to_each_computation_and_up_to_their_end() {
        let (mut fair, weights, [u, v]) = shares(0);
        let usage = |fair: &FairShares| [u, v].map(|user| fair.associations.usage(user));
        let check = |fair: &FairShares, expected: [f64; 2], when: &str| {
            for (found, expected) in usage(fair).into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "{when}: {found} instead of {expected}");
            }
        };
        fair.catch_up(&weights, at(10));
        // Two per second from 30 s on.
        fair.begin(0, charge(u, 2000, 30));
        fair.catch_up(&weights, at(59));
        check(&fair, [0.0, 0.0], "before the computation at 60 s");
        fair.catch_up(&weights, at(60));
        check(&fair, [60.0, 0.0], "30 s");
        // The other user has half of one per second, and the first a second job of one per second.
        fair.begin(1, charge(v, 500, 100));
        fair.begin(2, charge(u, 1000, 110));
        fair.catch_up(&weights, at(240));
        check(&fair, [60.0 + 2.0 * 180.0 + 130.0, 0.5 * 140.0], "after three computations");
        assert_eq!(fair.running().collect::<Vec<_>>(), [0, 1, 2]);
        // One ends 10 s after a computation, and one that is never there at a computation ends after 5 s.
        fair.end(0, at(250));
        fair.begin(3, charge(v, 1000, 251));
        fair.end(3, at(256));
        fair.end(3, at(299));
        check(&fair, [550.0 + 20.0, 70.0 + 5.0], "at once");
        fair.catch_up(&weights, at(300));
        check(&fair, [570.0 + 60.0, 75.0 + 30.0], "what goes on");
        // Of equal shares, the user that used less is first of three, behind nobody but the user root.
        let factors = [u, v].map(|user| fair.associations.factor(user));
        assert!(factors[0] < factors[1], "{factors:?}");
    }

    #[test]
    fn a_job_that_has_ended_is_no_longer_expected_to_run() {
        let (mut fair, _, [u, v]) = shares(0);
        fair.begin(0, charge(u, 1000, 10));
        fair.begin(1, charge(v, 1000, 30));
        assert_eq!(fair.last_end(), Some(at(3630)));
        fair.end(1, at(40));
        assert_eq!(fair.last_end(), Some(at(3610)), "the first one still runs");
        fair.end(0, at(50));
        assert_eq!(fair.last_end(), None);
    }

    #[test]
    fn usage_decays_as_if_it_were_as_old_as_its_beginning() {
        // With ln 2 = 0.693 as in Slurm, a thousandth is lost each second.
        let (mut fair, weights, [u, _]) = shares(693);
        let kept = |seconds| (0..seconds).fold(1.0, |kept, _| kept * 0.999);
        fair.catch_up(&weights, at(30));
        fair.begin(0, charge(u, 2000, 30));
        fair.catch_up(&weights, at(60));
        let first = 60.0 * kept(30);
        fair.catch_up(&weights, at(120));
        let second = first * kept(60) + 120.0 * kept(60);
        fair.end(0, at(130));
        let found = fair.associations.usage(u);
        let expected = second + 20.0 * kept(10);
        assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
    }
}
