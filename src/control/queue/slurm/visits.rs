//! The waiting jobs as a pass visits them: each once for each of its partitions, at its place in the order of that
//! partition. Slurm makes this list in each pass (`build_job_queue` in `src/slurmctld/job_scheduler.c`). Here it is kept
//! from pass to pass, and a pass walks only over the visits that can do something.
//!
//! Visits that are blocked together are in one group. Once a group is blocked, a pass leaves out the rest of it. A blocked
//! visit only says that the job waits for others, which is news for two kinds of jobs: jobs that have not been told yet
//! why they wait, and jobs that were told a reason of their own. These are visited in all of their partitions. So is each
//! job that is visited in any of them, because the most telling reason counts. A partition that is always too small for a
//! job is left out, because that is the least telling reason.
//!
//! Jobs of one partition that a QOS or a reservation denies for the same reason are in one group too, if they always get
//! equal answers ([`DeniedAs`]). While the first of them is denied for that reason, a pass leaves out the rest of the
//! group. It looks at the group again after a job has started, or a partition was blocked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

use smallvec::SmallVec;

use super::denied_as::DeniedAs;
use crate::core::store::ReplicaIndex;
use dryrack_event::Reason;
use dryrack_ids::OrderedSet;
use dryrack_scheduler::QueueKey;

/// A job in one of its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPartition {
    pub replica: ReplicaIndex,
    /// The index of the partition. 0 if the profile has no configuration of Slurm.
    pub section: usize,
    /// Whether the job is in other partitions too, so that its demand allows more nodes than this one has.
    pub is_one_of_several: bool,
}

/// A job in one of its partitions, with its place in the order. Of equal partitions of a job, the one that it names first
/// comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Visit {
    key: QueueKey,
    /// The place of the partition in the list of the job's partitions.
    named: u32,
    group: u32,
}

impl Visit {
    pub fn replica(self) -> ReplicaIndex {
        self.key.replica()
    }
}

/// What decides whether a visit is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grounds {
    pub section: usize,
    pub reservation: Option<usize>,
    /// Why the partition never allows the job. `None` if it does.
    pub not_allowed: Option<Reason>,
    /// Whether the partition allows the job but never has enough nodes for it, and another partition allows it and has
    /// enough, and nothing else can deny the job. What is said of the other partition then counts, whatever it is.
    pub is_in_vain: bool,
}

/// What the visits of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Common {
    grounds: Grounds,
    /// How the jobs are denied. `None` if they get different answers, or are never denied.
    denied_as: Option<DeniedAs>,
    /// The reason of the last denial, if no other reason was told since.
    told: Option<Reason>,
}

struct Group {
    common: Common,
    waiting: OrderedSet<Visit>,
}

/// All visits of the jobs that wait.
#[derive(Default)]
pub struct Visits {
    groups: Vec<Group>,
    numbers: BTreeMap<Common, u32>,
    of_job: BTreeMap<ReplicaIndex, SmallVec<[Visit; 1]>>,
    /// Jobs that came since the last pass began.
    came: BTreeSet<ReplicaIndex>,
    /// Number of jobs that none of their partitions allows.
    hopeless: usize,
    /// What this pass told jobs, for those that change their group.
    telling: Vec<(ReplicaIndex, Option<Reason>)>,
    /// [`Queue::room_changes`](crate::queue::Queue::room_changes) when the last pass began, and when this one began.
    told_at: u64,
    room_changes: u64,
    /// Whether this pass keeps denied jobs in groups.
    keeps_denied: bool,
}

impl Visits {
    /// Adds a job that begins to wait, with its key in each of its partitions, in the order in which it names them.
    /// `denied_as` is `None` for a job in several partitions.
    pub fn insert(&mut self, replica: ReplicaIndex, places: &[(QueueKey, Grounds)], denied_as: Option<&DeniedAs>) {
        self.came.insert(replica);
        let mut visits: SmallVec<[Visit; 1]> = SmallVec::new();
        for (named, (key, grounds)) in (0..).zip(places.iter().copied()) {
            let group = self.group_of(Common { grounds, denied_as: denied_as.cloned(), told: None });
            let visit = Visit { key, named, group };
            self.groups[group as usize].waiting.insert(visit);
            visits.push(visit);
        }
        self.hopeless += usize::from(self.are_hopeless(&visits));
        self.of_job.insert(replica, visits);
    }

    fn group_of(&mut self, common: Common) -> u32 {
        if let Some(number) = self.numbers.get(&common) {
            return *number;
        }
        let number = self.groups.len() as u32;
        self.numbers.insert(common.clone(), number);
        self.groups.push(Group { common, waiting: OrderedSet::default() });
        number
    }

    /// Notes that a job was denied for this reason, or that it was told another reason. Returns whether it is in a group of
    /// jobs that are denied alike.
    pub fn tell(&mut self, replica: ReplicaIndex, denied: Option<Reason>) -> bool {
        let [visit] = self.of(replica) else { return false };
        let common = &self.groups[visit.group as usize].common;
        if common.denied_as.is_none() || !self.keeps_denied {
            return false;
        }
        if common.told != denied {
            self.telling.push((replica, denied));
        }
        true
    }

    /// Whether a job was denied in an earlier pass, and there may be more room now.
    pub fn was_denied_before(&self, replica: ReplicaIndex) -> bool {
        let is_told = |visit: &Visit| self.groups[visit.group as usize].common.told.is_some();
        self.has_more_room() && self.of(replica).first().is_some_and(is_told)
    }

    /// Whether there may be more room than at the last pass.
    pub fn has_more_room(&self) -> bool {
        self.told_at != self.room_changes
    }

    /// Begins a pass. If it does not keep denied jobs in groups, returns the jobs that were denied, each with
    /// [`Queue::room_changes`](crate::queue::Queue::room_changes) at the last pass.
    pub fn begin_pass(&mut self, keeps_denied: bool, room_changes: u64) -> Vec<(ReplicaIndex, u64)> {
        (self.keeps_denied, self.room_changes) = (keeps_denied, room_changes);
        if keeps_denied {
            return Vec::new();
        }
        let told = self.groups.iter().filter(|group| group.common.told.is_some());
        let denied: Vec<ReplicaIndex> =
            told.flat_map(|group| group.waiting.iter()).map(|visit| visit.replica()).collect();
        self.telling.extend(denied.iter().map(|replica| (*replica, None)));
        self.move_told();
        denied.into_iter().map(|replica| (replica, self.told_at)).collect()
    }

    /// Ends a pass: puts each job in the group of those that were told the same.
    pub fn end_pass(&mut self) {
        self.told_at = self.room_changes;
        self.move_told();
    }

    fn move_told(&mut self) {
        for (replica, told) in std::mem::take(&mut self.telling) {
            let [visit] = *self.of(replica) else { continue };
            let group = &mut self.groups[visit.group as usize];
            group.waiting.remove(&visit);
            let common = Common { told, ..group.common.clone() };
            let moved = Visit { group: self.group_of(common), ..visit };
            self.groups[moved.group as usize].waiting.insert(moved);
            self.of_job.insert(replica, SmallVec::from([moved]));
        }
    }

    /// Removes a job that no longer waits.
    pub fn remove(&mut self, replica: ReplicaIndex) {
        self.came.remove(&replica);
        let Some(visits) = self.of_job.remove(&replica) else { return };
        self.hopeless -= usize::from(self.are_hopeless(&visits));
        for visit in visits {
            self.groups[visit.group as usize].waiting.remove(&visit);
        }
    }

    /// Gives a waiting job another key in each of its partitions.
    pub fn move_to(&mut self, replica: ReplicaIndex, key_in: impl Fn(usize) -> QueueKey) {
        let Some(visits) = self.of_job.get_mut(&replica) else { return };
        for visit in visits {
            let Group { common, waiting } = &mut self.groups[visit.group as usize];
            let moved = Visit { key: key_in(common.grounds.section), ..*visit };
            if moved != *visit {
                waiting.remove(visit);
                waiting.insert(moved);
                *visit = moved;
            }
        }
    }

    /// The visits of a job, in the order in which it names its partitions. None if it does not wait.
    fn of(&self, replica: ReplicaIndex) -> &[Visit] {
        self.of_job.get(&replica).map_or(&[], |visits| visits)
    }

    /// Number of jobs that wait.
    pub fn count(&self) -> usize {
        self.of_job.len()
    }

    /// All jobs that wait.
    pub fn jobs(&self) -> impl Iterator<Item = ReplicaIndex> {
        self.of_job.keys().copied()
    }

    fn are_hopeless(&self, visits: &[Visit]) -> bool {
        visits.iter().all(|visit| self.grounds(*visit).not_allowed.is_some())
    }

    pub fn grounds(&self, visit: Visit) -> Grounds {
        self.groups[visit.group as usize].common.grounds
    }

    pub fn place_of(&self, visit: Visit) -> InPartition {
        let (replica, section) = (visit.replica(), self.grounds(visit).section);
        InPartition { replica, section, is_one_of_several: self.of(replica).len() > 1 }
    }

    /// Whether a job is visited in vain in this partition.
    pub fn is_in_vain(&self, place: InPartition) -> bool {
        let grounds = self.of(place.replica).iter().map(|visit| self.grounds(*visit));
        grounds.into_iter().any(|grounds| grounds.section == place.section && grounds.is_in_vain)
    }

    /// All visits in order.
    pub fn in_order(&self) -> impl Iterator<Item = Visit> {
        let mut groups: Vec<_> = self.groups.iter().map(|group| group.waiting.iter()).collect();
        let first = groups.iter_mut().filter_map(Iterator::next);
        let mut next: BinaryHeap<Reverse<Visit>> = first.map(Reverse).collect();
        std::iter::from_fn(move || {
            let Reverse(visit) = next.pop()?;
            next.extend(groups[visit.group as usize].next().map(Reverse));
            Some(visit)
        })
    }

    /// Takes the jobs that came since the last call.
    pub fn take_new(&mut self) -> BTreeSet<ReplicaIndex> {
        std::mem::take(&mut self.came)
    }

    /// Whether a job waits that none of its partitions allows.
    pub fn has_hopeless(&self) -> bool {
        self.hopeless > 0
    }
}

/// A walk over visits, in order.
pub struct Walk {
    /// The next visits. Of each group that is not blocked, the next one is in turn. The others are of jobs that are visited
    /// in all of their partitions.
    next: BinaryHeap<Reverse<(Visit, Turn)>>,
    /// Some visits of each group that follow the one in turn.
    batches: Vec<std::vec::IntoIter<Visit>>,
    /// The jobs that are visited in all of their partitions, and their visits by group.
    whole: BTreeSet<ReplicaIndex>,
    of_whole: Vec<Vec<Visit>>,
    /// Groups whose jobs are denied as they were told.
    passed_over: Vec<u32>,
    /// Whether a job was passed over because of that.
    has_passed_over: bool,
    /// The last visit.
    last: Option<Visit>,
    /// [`Outlook::changes`] when the groups that are passed over were last looked at.
    changes: Option<u32>,
}

/// What a walk asks of the pass.
pub struct Outlook<'p> {
    pub is_blocked: &'p dyn Fn(Grounds) -> bool,
    /// Why a job is denied, if it is.
    pub why_denied: &'p dyn Fn(InPartition) -> Option<Reason>,
    /// Whether jobs that were denied and are blocked now must be told so.
    pub tells_blocked: bool,
    /// How many jobs have started and how many times something was blocked since the pass began.
    pub changes: u32,
}

/// Visits are read from a group in batches of this size.
const BATCH: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    OfGroup,
    OfJob,
}

impl Walk {
    /// Begins a walk. These jobs are visited in all of their partitions, also where they are blocked.
    pub fn new(visits: &Visits, whole: BTreeSet<ReplicaIndex>) -> Walk {
        let (told, untold): (Vec<_>, Vec<_>) =
            (0..).zip(&visits.groups).partition(|(_, group)| group.common.told.is_some());
        let passed_over = told.into_iter().map(|(number, _)| number).collect();
        let first = untold.into_iter().filter_map(|(_, group)| group.waiting.first());
        let next = first.map(|visit| Reverse((visit, Turn::OfGroup))).collect();
        let batches = visits.groups.iter().map(|_| Vec::new().into_iter()).collect();
        let mut of_whole = vec![Vec::new(); visits.groups.len()];
        for visit in whole.iter().flat_map(|replica| visits.of(*replica)) {
            of_whole[visit.group as usize].push(*visit);
        }
        Walk { next, batches, whole, of_whole, passed_over, has_passed_over: false, last: None, changes: None }
    }

    /// The next visit that is not blocked, or of a job that is visited in all of its partitions. Jobs that have come since
    /// the walk began are left out. `passed` is given the blocked visits of the job that the walk has left out.
    pub fn next(&mut self, visits: &Visits, outlook: &Outlook<'_>, mut passed: impl FnMut(Visit)) -> Option<Visit> {
        self.look_again(visits, outlook);
        loop {
            let Some(Reverse((visit, turn))) = self.next.pop() else {
                self.has_passed_over |= !self.passed_over.is_empty();
                return None;
            };
            self.last = Some(visit);
            if turn == Turn::OfJob {
                return Some(visit);
            }
            let told = visits.groups[visit.group as usize].common.told;
            if (outlook.is_blocked)(visits.grounds(visit)) {
                if told.is_some() && outlook.tells_blocked {
                    self.push_after(visits, visit);
                    return Some(visit);
                }
                let whole = std::mem::take(&mut self.of_whole[visit.group as usize]).into_iter();
                self.next.extend(whole.filter(|other| *other >= visit).map(|other| Reverse((other, Turn::OfJob))));
                continue;
            }
            if told.is_some() && (outlook.why_denied)(visits.place_of(visit)) == told {
                self.batches[visit.group as usize] = Vec::new().into_iter();
                self.passed_over.push(visit.group);
                continue;
            }
            self.push_after(visits, visit);
            let is_next_again = self.next.peek() == Some(&Reverse((visit, Turn::OfJob)));
            if is_next_again || visits.came.contains(&visit.replica()) {
                continue;
            }
            let of_job = visits.of(visit.replica());
            if of_job.len() > 1 && self.whole.insert(visit.replica()) {
                let mut before: SmallVec<[Visit; 4]> = of_job.iter().filter(|other| **other < visit).copied().collect();
                before.sort_unstable();
                before.into_iter().for_each(&mut passed);
                let behind = of_job.iter().filter(|other| **other > visit && !visits.grounds(**other).is_in_vain);
                self.next.extend(behind.map(|other| Reverse((*other, Turn::OfJob))));
            }
            return Some(visit);
        }
    }

    /// Whether jobs were passed over because they are denied as they were told.
    pub fn has_passed_over(&self) -> bool {
        self.has_passed_over
    }

    /// Looks again at the groups that were passed over, if something has changed. A group for which the answer is another
    /// one is visited from here on.
    fn look_again(&mut self, visits: &Visits, outlook: &Outlook<'_>) {
        if self.changes == Some(outlook.changes) {
            return;
        }
        self.changes = Some(outlook.changes);
        let (next, from) = (&mut self.next, self.last.map_or(Bound::Unbounded, Bound::Excluded));
        let has_passed_over = &mut self.has_passed_over;
        self.passed_over.retain(|number| {
            let Group { common, waiting } = &visits.groups[*number as usize];
            let first = waiting.first();
            let visit = waiting.range((from, Bound::Unbounded)).next();
            *has_passed_over |= first != visit;
            let Some(visit) = visit else { return false };
            let is_blocked = (outlook.is_blocked)(common.grounds);
            if !is_blocked && (outlook.why_denied)(visits.place_of(visit)) == common.told {
                return true;
            }
            if !is_blocked || outlook.tells_blocked {
                next.push(Reverse((visit, Turn::OfGroup)));
            }
            false
        });
    }

    /// Puts the visit in turn that follows this one in its group.
    fn push_after(&mut self, visits: &Visits, visit: Visit) {
        let batch = &mut self.batches[visit.group as usize];
        let next = batch.next().or_else(|| {
            let waiting = &visits.groups[visit.group as usize].waiting;
            let some: Vec<Visit> = waiting.range((Bound::Excluded(visit), Bound::Unbounded)).take(BATCH).collect();
            *batch = some.into_iter();
            batch.next()
        });
        self.next.extend(next.map(|next| Reverse((next, Turn::OfGroup))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_scheduler::{Entry, OrderKey};

    fn key(replica: ReplicaIndex, submitted: u64) -> QueueKey {
        QueueKey::new(&[OrderKey::Submitted], &Entry { tasks: 1, submitted, replica, ..Entry::default() })
    }

    fn grounds(section: usize, not_allowed: Option<Reason>) -> Grounds {
        Grounds { section, reservation: None, not_allowed, is_in_vain: false }
    }

    fn order(visits: &Visits) -> Vec<(ReplicaIndex, usize)> {
        let places = visits.in_order().map(|visit| visits.place_of(visit));
        places.map(|place| (place.replica, place.section)).collect()
    }

    #[test]
    fn jobs_are_visited_in_order_in_each_of_their_partitions() {
        let mut visits = Visits::default();
        visits.insert(1, &[(key(1, 10), grounds(0, None)), (key(1, 10), grounds(1, None))], None);
        visits.insert(2, &[(key(2, 5), grounds(1, None))], None);
        visits.insert(3, &[(key(3, 20), grounds(0, None))], None);
        assert_eq!((visits.count(), order(&visits)), (3, vec![(2, 1), (1, 0), (1, 1), (3, 0)]));
        assert_eq!([visits.take_new(), visits.take_new()], [BTreeSet::from([1, 2, 3]), BTreeSet::new()]);
        visits.move_to(3, |section| key(3, section as u64));
        assert_eq!(order(&visits), [(3, 0), (2, 1), (1, 0), (1, 1)]);
        visits.remove(1);
        assert_eq!((visits.count(), order(&visits)), (2, vec![(3, 0), (2, 1)]));
    }

    #[test]
    fn a_job_is_visited_in_vain_only_where_a_better_partition_counts() {
        let mut visits = Visits::default();
        let in_vain = Grounds { is_in_vain: true, ..grounds(1, None) };
        visits.insert(1, &[(key(1, 1), grounds(0, None)), (key(1, 1), in_vain)], None);
        visits.insert(2, &[(key(2, 2), grounds(0, None))], None);
        let places: Vec<InPartition> = visits.in_order().map(|visit| visits.place_of(visit)).collect();
        let found: Vec<_> = places.iter().map(|place| (place.is_one_of_several, visits.is_in_vain(*place))).collect();
        assert_eq!(found, [(true, false), (true, true), (false, false)]);
    }

    #[test]
    fn a_job_is_hopeless_if_none_of_its_partitions_allows_it() {
        let mut visits = Visits::default();
        let not_allowed = Some(Reason::NoNodes);
        visits.insert(1, &[(key(1, 1), grounds(0, not_allowed)), (key(1, 1), grounds(1, None))], None);
        assert!(!visits.has_hopeless());
        visits.insert(2, &[(key(2, 2), grounds(0, not_allowed))], None);
        visits.insert(3, &[(key(3, 3), grounds(1, not_allowed))], None);
        assert!(visits.has_hopeless());
        visits.remove(2);
        assert!(visits.has_hopeless());
        visits.remove(3);
        assert!(!visits.has_hopeless());
    }

    #[test]
    fn jobs_are_denied_as_before_until_they_are_told_otherwise_or_a_pass_keeps_no_groups() {
        let (mut visits, alike, full) = (Visits::default(), DeniedAs::default(), Some(Reason::QosGrpTres));
        visits.insert(1, &[(key(1, 1), grounds(0, None))], Some(&alike));
        visits.insert(2, &[(key(2, 2), grounds(0, None))], Some(&alike));
        visits.insert(3, &[(key(3, 3), grounds(0, None))], None);
        let denied_before = |visits: &Visits| [1, 2, 3].map(|replica| visits.was_denied_before(replica));
        assert!(visits.begin_pass(true, 7).is_empty());
        assert_eq!([1, 2, 3].map(|replica| visits.tell(replica, full)), [true, true, false]);
        visits.end_pass();
        // Without more room than at the last pass, nothing is asked again.
        assert!(visits.begin_pass(true, 7).is_empty());
        assert_eq!((visits.has_more_room(), denied_before(&visits)), (false, [false, false, false]));
        assert!(visits.begin_pass(true, 8).is_empty());
        assert_eq!((visits.has_more_room(), denied_before(&visits)), (true, [true, true, false]));
        assert!(visits.tell(2, None));
        visits.end_pass();
        assert!(visits.begin_pass(true, 9).is_empty());
        assert_eq!(denied_before(&visits), [true, false, false]);
        // The last pass that ended had the eighth change of room.
        assert_eq!(visits.begin_pass(false, 10), [(1, 8)]);
        assert_eq!(denied_before(&visits), [false, false, false]);
        assert!(!visits.tell(1, full));
        assert_eq!(order(&visits), [(1, 0), (2, 0), (3, 0)]);
    }

    /// Walks over the visits of all jobs that have come so far, and returns each replica with its section. `blocked` says
    /// which sections are blocked after so many visits, and `denied` why jobs are denied then.
    fn walked(
        visits: &mut Visits,
        whole: &[ReplicaIndex],
        tells_blocked: bool,
        blocked: impl Fn(usize) -> Vec<usize>,
        denied: impl Fn(usize) -> Option<Reason>,
    ) -> (Vec<(ReplicaIndex, usize)>, bool) {
        visits.take_new();
        let mut walk = Walk::new(visits, whole.iter().copied().collect());
        let mut found = Vec::new();
        loop {
            let count = found.len();
            let (is_blocked, why_denied) = (|own: Grounds| blocked(count).contains(&own.section), |_| denied(count));
            let changes = count as u32;
            let outlook = Outlook { is_blocked: &is_blocked, why_denied: &why_denied, tells_blocked, changes };
            let Some(visit) = walk.next(visits, &outlook, |_| ()) else { return (found, walk.has_passed_over()) };
            let place = visits.place_of(visit);
            found.push((place.replica, place.section));
        }
    }

    /// Jobs of one partition each, in this order.
    fn in_sections(sections: &[usize]) -> Visits {
        let mut visits = Visits::default();
        for (replica, section) in (1..).zip(sections) {
            visits.insert(replica, &[(key(replica, u64::from(replica)), grounds(*section, None))], None);
        }
        visits
    }

    #[test]
    fn a_walk_leaves_out_what_is_blocked_except_for_jobs_that_must_be_told() {
        let mut visits = in_sections(&[0, 1, 0, 1, 0]);
        let never = |_| Vec::new();
        let after_one = |count| if count > 0 { vec![0] } else { Vec::new() };
        let none = |_| None;
        assert_eq!(walked(&mut visits, &[], false, never, none).0, [(1, 0), (2, 1), (3, 0), (4, 1), (5, 0)]);
        assert_eq!(walked(&mut visits, &[], false, after_one, none), (vec![(1, 0), (2, 1), (4, 1)], false));
        assert_eq!(walked(&mut visits, &[5], false, after_one, none).0, [(1, 0), (2, 1), (4, 1), (5, 0)]);
        assert_eq!(walked(&mut visits, &[1, 3], false, after_one, none).0, [(1, 0), (2, 1), (3, 0), (4, 1)]);
        assert_eq!(walked(&mut visits, &[1, 3], false, |_| vec![0], none).0, [(1, 0), (2, 1), (3, 0), (4, 1)]);
        assert_eq!(walked(&mut visits, &[3], false, |_| vec![0, 1], none).0, [(3, 0)]);
    }

    #[test]
    fn a_walk_reads_long_groups_to_their_end() {
        let mut visits = in_sections(&[0; 3 * BATCH + 1]);
        let found = walked(&mut visits, &[], false, |_| Vec::new(), |_| None).0;
        assert_eq!(found, (1..=3 * BATCH as u32 + 1).map(|replica| (replica, 0)).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_is_visited_in_one_partition_is_visited_in_the_others() {
        let in_vain = Grounds { is_in_vain: true, ..grounds(2, None) };
        let places = |replica: ReplicaIndex, first, second| {
            let own = key(replica, u64::from(replica));
            [(own, first), (own, second)]
        };
        let mut visits = Visits::default();
        visits.insert(1, &places(1, grounds(0, None), grounds(1, None)), None);
        visits.insert(2, &places(2, grounds(0, None), in_vain), None);
        visits.insert(3, &places(3, grounds(1, None), grounds(0, None)), None);
        let all = [(1, 0), (1, 1), (2, 0), (2, 2), (3, 1), (3, 0)];
        assert_eq!(walked(&mut visits, &[], false, |_| Vec::new(), |_| None).0, all);
        // Where a job would be in vain, it is not visited for the sake of the other partition.
        let found = walked(&mut visits, &[], false, |_| vec![1, 2], |_| None).0;
        assert_eq!(found, [(1, 0), (1, 1), (2, 0), (3, 0)]);
        assert_eq!(walked(&mut visits, &[], false, |_| vec![0, 1, 2], |_| None).0, []);
        assert_eq!(walked(&mut visits, &[2], false, |_| vec![0, 1, 2], |_| None).0, [(2, 0), (2, 2)]);
        // Each visit is made once, whatever the reasons for it are.
        assert_eq!(walked(&mut visits, &[1], false, |_| vec![1, 2], |_| None).0, [(1, 0), (1, 1), (2, 0), (3, 0)]);
    }

    #[test]
    fn a_walk_says_which_visits_of_a_job_it_has_left_out() {
        let mut visits = Visits::default();
        let own = key(1, 1);
        visits.insert(1, &[(own, grounds(1, None)), (own, grounds(2, None)), (own, grounds(0, None))], None);
        visits.insert(2, &[(key(2, 2), grounds(0, None))], None);
        visits.take_new();
        let mut walk = Walk::new(&visits, BTreeSet::new());
        let is_blocked = |own: Grounds| own.section > 0;
        let outlook = Outlook { is_blocked: &is_blocked, why_denied: &|_| None, tells_blocked: false, changes: 0 };
        let mut steps = Vec::new();
        loop {
            let mut left_out = Vec::new();
            let next = walk.next(&visits, &outlook, |visit| left_out.push(visits.grounds(visit).section));
            let Some(visit) = next else { break };
            steps.push((visit.replica(), visits.grounds(visit).section, left_out));
        }
        assert_eq!(steps, [(1, 0, vec![1, 2]), (2, 0, vec![])]);
    }

    #[test]
    fn jobs_that_come_during_a_walk_are_left_out() {
        let mut visits = in_sections(&[0, 0]);
        visits.take_new();
        let mut walk = Walk::new(&visits, BTreeSet::new());
        visits.insert(9, &[(key(9, 0), grounds(0, None))], None);
        visits.insert(8, &[(key(8, 8), grounds(0, None))], None);
        let outlook = Outlook { is_blocked: &|_| false, why_denied: &|_| None, tells_blocked: false, changes: 0 };
        let found = std::iter::from_fn(|| walk.next(&visits, &outlook, |_| ()).map(Visit::replica));
        assert_eq!(found.collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn jobs_that_are_denied_as_they_were_told_are_passed_over_until_something_changes() {
        let (alike, full) = (DeniedAs::default(), Some(Reason::QosGrpTres));
        let mut visits = Visits::default();
        for (replica, denied_as) in [(1, Some(&alike)), (2, None), (3, Some(&alike)), (4, None), (5, Some(&alike))] {
            visits.insert(replica, &[(key(replica, u64::from(replica)), grounds(0, None))], denied_as);
        }
        visits.begin_pass(true, 1);
        [1, 3, 5].into_iter().for_each(|replica| assert!(visits.tell(replica, full)));
        visits.end_pass();
        visits.begin_pass(true, 1);
        let never = |_| Vec::new();
        let others = vec![(2, 0), (4, 0)];
        let all = vec![(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)];
        assert_eq!(walked(&mut visits, &[], false, never, |_| full), (others.clone(), true));
        assert_eq!(walked(&mut visits, &[], false, never, |_| None), (all.clone(), false));
        // From the first start on, nothing denies them: those behind it are visited.
        let first = |count| if count == 0 { full } else { None };
        assert_eq!(walked(&mut visits, &[], false, never, first), (vec![(2, 0), (3, 0), (4, 0), (5, 0)], true));
        // Another reason is news.
        assert_eq!(walked(&mut visits, &[], false, never, |_| Some(Reason::QosGrpJobs)), (all.clone(), false));
        // Blocked jobs that were denied are visited only if they must be told so.
        assert_eq!(walked(&mut visits, &[], true, |_| vec![0], |_| full), (vec![(1, 0), (3, 0), (5, 0)], false));
        assert_eq!(walked(&mut visits, &[], false, |_| vec![0], |_| full), (vec![], false));
        let later = |count| if count > 0 { vec![0] } else { Vec::new() };
        assert_eq!(walked(&mut visits, &[], true, later, |_| full), (vec![(2, 0), (3, 0), (5, 0)], true));
        assert_eq!(walked(&mut visits, &[], false, later, |_| full), (vec![(2, 0)], true));
    }
}
