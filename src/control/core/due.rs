//! Which timer is due, and whether it is void.

use std::cmp::Reverse;

use super::Core;
use super::parts::clouds::Clouds;
use super::parts::groups::Groups;
use super::parts::kept::Kept;
use super::parts::nodes::Nodes;
use super::parts::services::Services;
use super::store::Store;
use super::timer::{Entry, Timer, Timers};
use crate::admission::Admission;
use dryrack_units::SimTime;

impl Core {
    pub(crate) fn pop_due_timer(&mut self) -> Option<Timer> {
        if !self.timers.may_be_due(self.now) {
            return None;
        }
        let Reverse((at, number, timer)) = self.next_timer()?;
        if at > self.now {
            return None;
        }
        self.timers.remove(number);
        Some(timer)
    }

    /// The next timer that is not void.
    pub(crate) fn peek_timer(&mut self) -> Option<(SimTime, &'static str)> {
        self.next_timer().map(|Reverse((at, _, timer))| (at, timer.reason()))
    }

    fn next_timer(&mut self) -> Option<Entry> {
        let (timers, validity) = self.timers_and_validity();
        timers.next(|timer| validity.holds(timer))
    }

    /// Sorts the timers of this instant among the later ones, because the instant is over.
    #[inline]
    pub(super) fn keep_timers(&mut self) {
        if self.timers.has_fresh() {
            let (timers, validity) = self.timers_and_validity();
            timers.keep(|timer| validity.holds(timer));
        }
    }

    #[inline]
    fn timers_and_validity(&mut self) -> (&mut Timers, Validity<'_>) {
        let Core { timers, store, nodes, clouds, services, admission, kept, groups, .. } = self;
        (timers, Validity { store, nodes, clouds, services, admission, kept, groups })
    }
}

/// The state that decides whether a timer is void.
struct Validity<'a> {
    store: &'a Store,
    nodes: &'a Nodes,
    clouds: &'a Clouds,
    services: &'a Services,
    admission: &'a Admission,
    kept: &'a Kept,
    groups: &'a Groups,
}

impl Validity<'_> {
    fn holds(&self, timer: Timer) -> bool {
        match timer {
            Timer::SilenceExpired { node, epoch } | Timer::Evict { node, epoch } => {
                self.nodes[node.index()].epoch == epoch
            }
            Timer::SilentForLong { node, since } => self.nodes[node.index()].silent_since == Some(since),
            Timer::BackoffOver { fleet, offer, at } => self.clouds.scale_up.is_backed_off_until((fleet, offer), at),
            Timer::Rescale { job, at } => self.services.is_checked_at(job, at),
            Timer::DependencyJudged { job } => self.store.judged(job).is_some(),
            Timer::QuotaReleased { workload, since } => self.admission.is_evicting_since(workload, since),
            Timer::SharedDeadline { group, since } => self.groups.runs_since(group, since),
            Timer::IdleTooLong { node, epoch } => self.clouds.instances.is_unchanged(node, epoch),
            Timer::NotProvisioned { node, asked } => self.clouds.instances.is_coming_since(node, asked),
            Timer::CheckMinimum { fleet, at } => self.clouds.instances.is_minimum_check_due(fleet, at),
            Timer::StopAgain { attempt, .. } => self.kept.is_asked_about(attempt),
            Timer::Completed { attempt } => self.kept.claims.contains_key(&attempt),
            // The timers know themselves whether a computation is over.
            Timer::ComputationExpired { .. } => true,
            Timer::Deadline { replica, version }
            | Timer::RetryDue { replica, version }
            | Timer::NextLevel { replica, version }
            | Timer::GraceOver { replica, version }
            | Timer::CommitDue { replica, version } => self.store.is_of_version(replica, version),
            Timer::PolicyCheck { replica, version, at } => {
                self.store.is_of_version(replica, version) && self.store[replica].is_policy_check_due(at)
            }
        }
    }
}
