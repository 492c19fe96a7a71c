//! Replicas whose projects have used up their quotas. These replicas are set aside from the queue, so they do not hold
//! up other replicas.
//!
//! ```text
//!   wants a place ──quota of its project allows it──> in the queue ──> placed
//!          │  ^                                            │
//!          │  └─ the project gives something back ─┐       │ project now holds too much,
//!          └───────────────> set aside <───────────┴───────┘ or the place is too expensive
//! ```
//!
//! Replicas of one project with the same demand take the same amount, so they form one group. When resources of the
//! project are released, replicas of each group enter the queue, in queue order, as far as the quota allows. So when a
//! replica ends, only each group of its project is checked, and not each waiting replica.
//!
//! The number of GPUs that a demand takes is known before a place is found. The price is known only with the place. If
//! a place is too expensive, all other replicas of the group are assumed to cost the same. Once the fleet has changed,
//! the first replica of the group looks for a cheaper place. If it finds one, the price of that place is assumed for
//! the others.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::queue::Queue;
use crate::queue::projects::{Group, GroupKey, TooExpensive};
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_policy::Holding;

impl Queue {
    /// The group of a replica; `None` if its project has no quota.
    fn group_of(&self, core: &Core, index: ReplicaIndex) -> Option<GroupKey> {
        if core.accounts.quotas.is_empty() {
            return None;
        }
        let replica = &core.store[index];
        let project = core.store[replica.job].spec.project.as_ref()?;
        core.accounts.quotas.counts(Some(project)).then(|| (Arc::clone(project), replica.demand))
    }

    /// Sets a replica aside if its project's quota does not allow it now. Returns whether the replica was set aside.
    pub(super) fn wait_for_quota(&mut self, core: &mut Core, index: ReplicaIndex) -> bool {
        let Some(group) = self.group_of(core, index) else { return false };
        let key = core.store[index].key;
        let own = self.group(core, &group);
        if core.accounts.quotas.admits(Some(&group.0), own.wanted()) {
            own.in_queue.insert(key);
            return false;
        }
        own.set_aside.insert(key);
        core.store[index].wait = Wait::Quota;
        let reasons = Histogram::of(Reason::QuotaExceeded, core.fleet.len() as u32);
        core.hold(index, (Refusal::Unfit, reasons));
        true
    }

    /// Removes a replica from its group, because it leaves the queue or is no longer set aside. The project's other
    /// replicas are checked again when all inputs of this instant are applied.
    pub(super) fn leave_group(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(group) = self.group_of(core, index) else { return };
        let key = core.store[index].key;
        let Some(own) = self.projects.groups.get_mut(&group) else { return };
        own.set_aside.remove(&key);
        if own.in_queue.remove(&key) {
            core.accounts.quotas.recheck(&group.0);
        }
        if own.in_queue.is_empty() && own.set_aside.is_empty() {
            self.projects.groups.remove(&group);
        }
    }

    /// Whether the place that was found for a replica exceeds its project's quota. If so, sets the replica aside.
    pub(super) fn is_over_quota(&mut self, core: &mut Core, index: ReplicaIndex, placement: &Placement) -> bool {
        let Some(group) = self.group_of(core, index) else { return false };
        let wanted = core.holding(placement);
        if core.accounts.quotas.admits(Some(&group.0), wanted) {
            return false;
        }
        self.leave_queue(core, index, Wait::Nothing);
        self.group(core, &group).too_expensive = Some(TooExpensive { wanted, version: core.fleet.version() });
        self.set_aside(core, index);
        true
    }

    /// Sets a replica aside again if the last place found for its group was too expensive for the quota, and still is.
    /// Returns whether the replica was set aside.
    pub(super) fn is_set_aside_again(&mut self, core: &mut Core, index: ReplicaIndex) -> bool {
        let Some(group) = self.group_of(core, index) else { return false };
        let known = self.projects.groups.get(&group).and_then(|group| group.too_expensive);
        let is_over = known.is_some_and(|found| !core.accounts.quotas.admits(Some(&group.0), found.wanted));
        if is_over {
            self.set_aside(core, index);
        }
        is_over
    }

    fn group(&mut self, core: &Core, group: &GroupKey) -> &mut Group {
        let least = || Holding::least_of(core.store.demand(group.1));
        let new =
            || Group { least: least(), too_expensive: None, in_queue: BTreeSet::new(), set_aside: BTreeSet::new() };
        self.projects.groups.entry(group.clone()).or_insert_with(new)
    }

    fn set_aside(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(group) = self.group_of(core, index) else { return };
        let known = self.projects.groups.get(&group).and_then(|group| group.too_expensive);
        self.leave_queue(core, index, Wait::Nothing);
        // If this was the last replica of the group, the group was removed when it left the queue. So the known price
        // is stored again.
        self.group(core, &group).too_expensive = known;
        self.projects.has_left = true;
        let waits = self.wait_for_quota(core, index);
        assert!(waits, "a replica that leaves the queue for its quota waits for it");
    }

    /// Handles a placement that adds to what a project holds. Removes those replicas of the project from the queue that
    /// its quota no longer allows.
    pub(super) fn project_took(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(group) = self.group_of(core, index) else { return };
        if let Some(own) = self.projects.groups.get_mut(&group)
            && let Some(found) = &mut own.too_expensive
        {
            // Other replicas of the group may find a place at the same price.
            found.wanted = core.holding(core.store.placement_of(index));
            self.projects.has_left = true;
            core.accounts.quotas.recheck(&group.0);
        }
        let project = group.0;
        let of_project = (Arc::clone(&project), 0)..=(Arc::clone(&project), u32::MAX);
        let is_over = |(_, group): &(&GroupKey, &Group)| !core.accounts.quotas.admits(Some(&project), group.wanted());
        let groups = self.projects.groups.range(of_project).filter(is_over);
        let over: Vec<ReplicaIndex> =
            groups.flat_map(|(_, group)| group.in_queue.iter().map(|key| key.replica())).collect();
        over.into_iter().for_each(|index| self.set_aside(core, index));
    }

    /// Moves replicas into the queue if their projects' quotas now allow them.
    pub(super) fn admit_by_quota(&mut self, core: &mut Core) {
        if core.accounts.quotas.is_empty() {
            return;
        }
        self.retry_expensive(core);
        let projects = core.accounts.quotas.take_freed();
        for project in projects {
            let project: Arc<str> = Arc::from(project);
            let of_project = (Arc::clone(&project), 0)..=(Arc::clone(&project), u32::MAX);
            let mut admitted = Vec::new();
            for (_, group) in self.projects.groups.range(of_project).filter(|(_, group)| !group.set_aside.is_empty()) {
                let most = (group.in_queue.len() + group.set_aside.len()) as u64;
                let may = core.accounts.quotas.admits_times(Some(&project), group.wanted(), most) as usize;
                let more = may.saturating_sub(group.in_queue.len());
                admitted.extend(group.set_aside.iter().take(more).map(|key| key.replica()));
            }
            for index in admitted {
                self.leave_group(core, index);
                self.enter_queue(core, index);
            }
        }
    }

    /// Handles groups whose last place was too expensive. Once the fleet has changed, the first replica of each such
    /// group may look for another place.
    fn retry_expensive(&mut self, core: &mut Core) {
        let version = core.fleet.version();
        let is_open = |group: &Group| group.too_expensive.is_some_and(|found| found.version != version);
        let groups = self.projects.groups.iter_mut().filter(|(_, group)| is_open(group));
        let mut first = Vec::new();
        for (key, group) in groups {
            let known = group.too_expensive.take();
            first.extend(group.set_aside.first().map(|first| (key.clone(), first.replica(), known)));
        }
        for (key, index, known) in first {
            self.leave_group(core, index);
            self.enter_queue(core, index);
            // The other replicas of the group wait until this one has found a place or was refused.
            if let Some(group) = self.projects.groups.get_mut(&key) {
                group.too_expensive = known.map(|found| TooExpensive { version, ..found });
            }
        }
    }

    /// Whether a replica that was set aside because of a too expensive place may look for another one, because the
    /// fleet has changed.
    pub(super) fn may_find_cheaper(&self, core: &Core) -> bool {
        let version = core.fleet.version();
        let is_open = |group: &Group| group.too_expensive.is_some_and(|found| found.version != version);
        self.projects.groups.values().any(|group| is_open(group) && !group.set_aside.is_empty())
    }

    /// Empties all groups and returns the replicas that were set aside. Call this when the quotas may have changed.
    pub(super) fn take_set_aside(&mut self) -> Vec<ReplicaIndex> {
        let groups = std::mem::take(&mut self.projects.groups);
        groups.values().flat_map(|group| group.set_aside.iter().map(|key| key.replica())).collect()
    }

    /// Asserts that the groups hold exactly the waiting replicas, and that every replica that is set aside exceeds its
    /// project's quota.
    pub(super) fn check_quotas(&self, core: &Core) {
        let waits = core.store.replicas.values().filter(|replica| replica.wait == Wait::Quota).count();
        let set_aside: usize = self.projects.groups.values().map(|group| group.set_aside.len()).sum();
        assert_eq!(waits, set_aside, "the index of jobs that wait for a quota is incomplete");
        for ((project, _), group) in &self.projects.groups {
            for key in &group.in_queue {
                let replica = &core.store[key.replica()];
                assert_eq!(replica.wait, Wait::Queue, "{} is not in the queue", replica.attempt_id());
            }
            let is_idle =
                !group.set_aside.is_empty() && group.in_queue.is_empty() && !core.accounts.quotas.has_freed(project);
            let may = is_idle && core.accounts.quotas.admits(Some(project), group.wanted());
            assert!(!may, "{project} could take what waits for its quota");
        }
    }
}
