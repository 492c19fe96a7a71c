//! Replicas whose projects hold as much as their quotas allow. They wait beside the queue, so that they hold up no
//! replica in it.
//!
//! ```text
//!   wants its place ──its project may take as much──> in the queue ──> placed
//!          │  ^                                           │
//!          │  └─ the project gives something back ─┐      │ its project holds too much by now,
//!          └──────────> waits beside the queue <───┴──────┘ or the place found is too dear
//! ```
//!
//! Replicas of one project with the same demand take the same amount, so they form one group. When the project gives
//! something back, as many replicas of each group enter the queue as the project may take, in the order of the queue.
//! So the end of a replica costs a look at each group of its project, and not at each waiting replica.
//!
//! The number of GPUs that a demand takes is known before a place is found. The price is known only with the place. If
//! the place is too expensive, the group's next replicas are assumed to cost that price too, until the fleet grows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::queue::Queue;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::Placement;
use dryrack_policy::Holding;
use dryrack_scheduler::QueueKey;

/// The groups of all projects that have a quota.
#[derive(Default)]
pub(super) struct Projects {
    groups: BTreeMap<(Arc<str>, u32), Group>,
    /// Whether a replica has left the queue for its quota since the last call of `take_left`.
    has_left: bool,
}

impl Projects {
    /// Whether a replica has left the queue for its quota since the last call.
    pub fn take_left(&mut self) -> bool {
        std::mem::take(&mut self.has_left)
    }
}

/// The waiting replicas of one project with one demand.
struct Group {
    /// The least that one of them takes.
    least: Holding,
    /// What one of them would have taken at the place that was found for it, if the quota did not allow it.
    too_dear: Option<TooDear>,
    in_queue: BTreeSet<QueueKey>,
    beside: BTreeSet<QueueKey>,
}

/// What a replica would take at the place that was found for it, which was too much, and the fleet's version at that time.
#[derive(Clone, Copy)]
struct TooDear {
    wanted: Holding,
    version: u64,
}

impl Group {
    fn wanted(&self) -> Holding {
        self.too_dear.map_or(self.least, |found| found.wanted)
    }
}

type GroupKey = (Arc<str>, u32);

impl Queue {
    /// The group of a replica; `None` if its project has no quota.
    fn group_of(&self, core: &Core, index: ReplicaIndex) -> Option<GroupKey> {
        let replica = &core.replicas[index as usize];
        let project = core.jobs[replica.job.index()].spec.project.as_ref()?;
        core.quotas.counts(Some(project)).then(|| (Arc::clone(project), replica.demand))
    }

    /// Makes a replica wait beside the queue if its project's quota does not allow it now. Returns whether the replica
    /// waits there.
    pub(super) fn wait_for_quota(&mut self, core: &mut Core, index: ReplicaIndex) -> bool {
        let Some(group) = self.group_of(core, index) else { return false };
        let key = core.replicas[index as usize].key;
        let own = self.group(core, &group);
        if core.quotas.admits(Some(&group.0), own.wanted()) {
            own.in_queue.insert(key);
            return false;
        }
        own.beside.insert(key);
        core.replicas[index as usize].wait = Wait::Quota;
        let reasons = Histogram::of(Reason::QuotaExceeded, core.fleet.len() as u32);
        core.hold(index, (Refusal::Unfit, reasons));
        true
    }

    /// Takes a replica out of its group, because it leaves the queue or ceases to wait beside it. Once everything about
    /// this instant is known, the project's other replicas are checked again.
    pub(super) fn leave_group(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(group) = self.group_of(core, index) else { return };
        let key = core.replicas[index as usize].key;
        let Some(own) = self.projects.groups.get_mut(&group) else { return };
        own.beside.remove(&key);
        if own.in_queue.remove(&key) {
            core.quotas.look_again(&group.0);
        }
        if own.in_queue.is_empty() && own.beside.is_empty() {
            self.projects.groups.remove(&group);
        }
    }

    /// Whether the place that was found for a replica exceeds its project's quota. If so, makes the replica wait beside
    /// the queue.
    pub(super) fn is_over_quota(&mut self, core: &mut Core, index: ReplicaIndex, placement: &Placement) -> bool {
        let Some(group) = self.group_of(core, index) else { return false };
        let wanted = core.holding(placement);
        if core.quotas.admits(Some(&group.0), wanted) {
            return false;
        }
        self.leave_queue(core, index, Wait::Nothing);
        self.group(core, &group).too_dear = Some(TooDear { wanted, version: core.fleet.version() });
        self.set_beside(core, index);
        true
    }

    /// Puts a replica that was let in although the last place was too dear back beside the queue. Returns whether it was
    /// such a one.
    pub(super) fn goes_back_beside(&mut self, core: &mut Core, index: ReplicaIndex) -> bool {
        let Some(group) = self.group_of(core, index) else { return false };
        let known = self.projects.groups.get(&group).and_then(|group| group.too_dear);
        let is_over = known.is_some_and(|found| !core.quotas.admits(Some(&group.0), found.wanted));
        if is_over {
            self.set_beside(core, index);
        }
        is_over
    }

    fn group(&mut self, core: &Core, group: &GroupKey) -> &mut Group {
        let least = || Holding::least_of(&core.demands[group.1 as usize].demand);
        let new = || Group { least: least(), too_dear: None, in_queue: BTreeSet::new(), beside: BTreeSet::new() };
        self.projects.groups.entry(group.clone()).or_insert_with(new)
    }

    fn set_beside(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(group) = self.group_of(core, index) else { return };
        let known = self.projects.groups.get(&group).and_then(|group| group.too_dear);
        self.leave_queue(core, index, Wait::Nothing);
        // The last of a group takes the group with it.
        self.group(core, &group).too_dear = known;
        self.projects.has_left = true;
        let waits = self.wait_for_quota(core, index);
        assert!(waits, "a replica that leaves the queue for its quota waits for it");
    }

    /// After a project has taken something, removes those of its replicas from the queue that its quota no longer
    /// allows.
    pub(super) fn project_took(&mut self, core: &mut Core, index: ReplicaIndex) {
        let Some(group) = self.group_of(core, index) else { return };
        if let Some(own) = self.projects.groups.get_mut(&group)
            && own.too_dear.take().is_some()
        {
            // Others of the group may find a place that is not too dear.
            self.projects.has_left = true;
            core.quotas.look_again(&group.0);
        }
        let project = group.0;
        let of_project = (Arc::clone(&project), 0)..=(Arc::clone(&project), u32::MAX);
        let is_over = |(_, group): &(&GroupKey, &Group)| !core.quotas.admits(Some(&project), group.wanted());
        let groups = self.projects.groups.range(of_project).filter(is_over);
        let over: Vec<ReplicaIndex> =
            groups.flat_map(|(_, group)| group.in_queue.iter().map(|key| key.replica())).collect();
        over.into_iter().for_each(|index| self.set_beside(core, index));
    }

    /// Lets the replicas enter the queue that their projects' quotas allow now.
    pub(super) fn admit_by_quota(&mut self, core: &mut Core) {
        if core.quotas.is_empty() {
            return;
        }
        self.try_dear_again(core);
        let projects = core.quotas.take_freed();
        for project in projects {
            let project: Arc<str> = Arc::from(project);
            let of_project = (Arc::clone(&project), 0)..=(Arc::clone(&project), u32::MAX);
            let mut admitted = Vec::new();
            for (_, group) in self.projects.groups.range(of_project).filter(|(_, group)| !group.beside.is_empty()) {
                let most = (group.in_queue.len() + group.beside.len()) as u64;
                let may = core.quotas.admits_times(Some(&project), group.wanted(), most) as usize;
                let more = may.saturating_sub(group.in_queue.len());
                admitted.extend(group.beside.iter().take(more).map(|key| key.replica()));
            }
            for index in admitted {
                self.leave_group(core, index);
                self.enter_queue(core, index);
            }
        }
    }

    /// Lets the first replica of each group whose place was too dear look for another place, once the fleet has changed.
    fn try_dear_again(&mut self, core: &mut Core) {
        let version = core.fleet.version();
        let is_open = |group: &Group| group.too_dear.is_some_and(|found| found.version != version);
        let groups = self.projects.groups.iter_mut().filter(|(_, group)| is_open(group));
        let mut first = Vec::new();
        for (key, group) in groups {
            let known = group.too_dear.take();
            first.extend(group.beside.first().map(|first| (key.clone(), first.replica(), known)));
        }
        for (key, index, known) in first {
            self.leave_group(core, index);
            self.enter_queue(core, index);
            // The others wait until it is known what the first finds.
            if let Some(group) = self.projects.groups.get_mut(&key) {
                group.too_dear = known.map(|found| TooDear { version, ..found });
            }
        }
    }

    /// Whether the fleet has changed since a place was too dear for somebody who waits beside the queue.
    pub(super) fn may_find_cheaper(&self, core: &Core) -> bool {
        let version = core.fleet.version();
        let is_open = |group: &Group| group.too_dear.is_some_and(|found| found.version != version);
        self.projects.groups.values().any(|group| is_open(group) && !group.beside.is_empty())
    }

    /// Empties all groups and returns the replicas that wait beside the queue, because the quotas may have changed.
    pub(super) fn beside_the_queue(&mut self) -> Vec<ReplicaIndex> {
        let groups = std::mem::take(&mut self.projects.groups);
        groups.values().flat_map(|group| group.beside.iter().map(|key| key.replica())).collect()
    }

    /// Asserts that the groups hold exactly the replicas that wait, and that no replica waits beside the queue that its
    /// project's quota allows.
    pub(super) fn check_quotas(&self, core: &Core) {
        let waits = core.replicas.values().filter(|replica| replica.wait == Wait::Quota).count();
        let beside: usize = self.projects.groups.values().map(|group| group.beside.len()).sum();
        assert_eq!(waits, beside, "somebody waits for a quota and is not found");
        for ((project, _), group) in &self.projects.groups {
            for key in &group.in_queue {
                let replica = &core.replicas[key.replica() as usize];
                assert_eq!(replica.wait, Wait::Queue, "{} is not in the queue", replica.run());
            }
            let is_idle = !group.beside.is_empty() && group.in_queue.is_empty() && !core.quotas.has_freed(project);
            let may = is_idle && core.quotas.admits(Some(project), group.wanted());
            assert!(!may, "{project} could take what waits for its quota");
        }
    }
}
