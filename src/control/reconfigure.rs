//! A change of the profile in the midst of a run.
//!
//! Replicas that wait are put in the order of the new profile and judged anew. What began under the old profile goes
//! on as it began: a decision that is being made, a deadline or a pause, a policy that was bound to a run.

use std::sync::Arc;

use super::Control;
use super::clocks::Clocks;
use super::profile::Profile;
use super::sharing::Shares;
use super::slots::Ahead;
use super::store::ReplicaIndex;
use dryrack_event::Phase;
use dryrack_scheduler::{OrderKey, Rankings, Refusals, WaitQueue};
use dryrack_workload::JobSpec;

/// Checks whether a run can go on under another profile, and says why if it cannot.
pub fn can_become(from: &Profile, to: &Profile) -> Result<(), &'static str> {
    if from.scan != to.scan || from.runs != to.runs {
        return Err("its loops differ, and it could not continue with the rows that the other has begun");
    }
    if to.scheduler.needs_kinds() && !from.scheduler.needs_kinds() {
        return Err("it tells kinds of tasks apart, and the kinds of running tasks were not recorded");
    }
    Ok(())
}

impl Control {
    /// Reads the profile of an input that changes it, and checks that the control plane can go on with it.
    pub(super) fn read_profile(&self, text: &str) -> Result<Profile, &'static str> {
        let profile: Profile = serde_json::from_str(text).map_err(|_| "a profile that cannot be read")?;
        if !profile.faults().is_empty() {
            return Err("a profile that cannot be run");
        }
        let binds = |spec: &JobSpec| profile.policies.utilization.can_bind(&spec.utilization);
        if self.jobs.values().any(|job| job.live > 0 && !binds(&job.spec)) {
            return Err("a profile with a utilization policy of no time, or of more samples than are kept");
        }
        can_become(&self.profile, &profile).map(|()| profile)
    }

    pub(super) fn reconfigure(&mut self, profile: Profile) {
        // Lines and accounts are numbered in the order of all jobs there ever were.
        assert!(self.dropping.is_none(), "a profile changes where ended jobs are dropped");
        let waiting: Vec<ReplicaIndex> = self.queue.iter(self.now).map(|key| key.replica()).collect();
        self.rankings = Rankings::new(&profile.scheduler);
        self.refusals = Refusals::default();
        self.ahead = Ahead::default();
        self.preempting.begin_anew();
        self.queue = WaitQueue::new(profile.scheduler.discipline, &profile.scheduler.order);
        self.analyse_pass.follow(profile.passes.analyse);
        self.place_pass.follow(profile.passes.place);
        self.backfill_pass.follow(profile.passes.for_backfill());
        self.clocks = Clocks::new(&profile.passes, profile.ticks.as_ref());
        self.backfilled = None;
        let before = std::mem::replace(&mut self.profile, Arc::new(profile));
        self.keep_backfilling();
        self.reconfigured = Some(self.now);
        self.picked = None;
        self.lines.clear();
        for job in self.jobs.numbers() {
            let queue = self.jobs[job].spec.queue.clone();
            self.jobs[job].line = self.line_of(queue.as_ref());
        }
        for demand in &mut self.demands {
            (demand.held, demand.refused_at) = (None, None);
        }
        self.nominations.clear();
        self.fleet.ask_again();
        self.follow_shares(&before);
        for index in self.replicas.numbers() {
            if self.replicas[index].phase != Phase::Ended {
                self.replicas[index].key = self.key_of(index as ReplicaIndex);
            }
        }
        for index in waiting {
            self.forget_fresh(index);
            self.enter_queue(index);
        }
    }

    /// Sets up the users' shares. If they begin to count with this profile, nobody has had anything yet, but
    /// everybody holds what it holds.
    fn follow_shares(&mut self, before: &Profile) {
        let options = &self.profile.scheduler;
        let is_fair = options.order.contains(&OrderKey::FairShare);
        if is_fair && self.shares.is_some() && before.scheduler.fair_share == options.fair_share {
            return;
        }
        let Some(mut shares) = is_fair.then(|| Shares::new(&options.fair_share)) else {
            self.shares = None;
            return;
        };
        for job in self.jobs.numbers() {
            let job = &mut self.jobs[job];
            job.user = shares.number(job.spec.user.as_ref(), &options.fair_share, self.now);
        }
        for replica in self.replicas.values() {
            if let Some(placement) = &replica.placement {
                shares.take(self.jobs[replica.job.index()].user, self.now, placement);
            }
        }
        self.shares = Some(shares);
    }
}
