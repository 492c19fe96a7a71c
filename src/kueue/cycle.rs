//! A scheduling cycle: the head of each queue is nominated. Then each head is admitted, preempts others or is put back,
//! one after the other.
//!
//! The rules are those of Kueue's `pkg/scheduler/scheduler.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::assigner::{Asking, Nomination};
use super::assignment::{Assignment, Mode};
use super::cluster::Cluster;
use super::names::FlavorResource;
use super::nominate::{Nominated, nominate};
use super::objects::{ReclaimWithinCohort, StopPolicy};
use super::preemption::Target;
use super::queue::{QueueId, Requeue};
use super::reason::QuotaReason;
use super::tournament::{Contender, Tournament};
use super::tree::NodeId;
use super::workload::{Admission, Condition, Eviction, WorkloadId, WorkloadState};

/// The outcome of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Admitted,
    /// Other workloads must release quota, and the head waits for this.
    Preempting,
    /// It would have to preempt, but there is no workload that it may preempt.
    NoCandidates,
    /// It lost to another head of the cycle.
    Skipped,
    /// It fits once the preemptions of another head are complete.
    Deferred,
    NoFit,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Admitted => "admitted",
            Verdict::Preempting => "preempting",
            Verdict::NoCandidates => "no_candidates",
            Verdict::Skipped => "skipped",
            Verdict::Deferred => "deferred",
            Verdict::NoFit => "nofit",
        }
    }
}

/// A head and its outcome.
#[derive(Clone, Debug)]
pub struct Head {
    pub workload: WorkloadId,
    pub verdict: Verdict,
    pub assignment: Assignment,
    pub targets: Vec<Target>,
    /// The message that Kueue writes about it; empty if it is admitted.
    pub message: String,
    /// The first assignment and targets of the cycle, if they were computed again.
    pub nominated: Option<(Assignment, Vec<Target>)>,
}

#[derive(Clone, Debug, Default)]
pub struct Cycle {
    /// In the order in which they were processed.
    pub heads: Vec<Head>,
    /// The workloads that were not evicted before, in the order of the decisions.
    pub evicted: Vec<Target>,
}

const NO_LONGER_FITS: &str = "Workload no longer fits after processing another workload";
const OVERLAPS: &str = "Workload has overlapping preemption targets with another workload";
const FITS_LATER: &str =
    "Workload has overlapping preemption targets with another workload, but will fit after these preemptions complete";

struct Entry {
    id: WorkloadId,
    queue: QueueId,
    now: Nominated,
    first: Option<Nominated>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fits {
    Yes,
    NoQuota,
    NoRoom,
}

/// Runs a cycle. `order` is the order of the queues whose heads are taken.
pub(crate) fn run(cluster: &mut Cluster, order: impl Iterator<Item = QueueId>, now: i64) -> Cycle {
    let mut heads = Vec::new();
    for queue in order {
        let Cluster { queues, workloads, .. } = cluster;
        let at = &mut queues[queue.0 as usize];
        if at.stop == StopPolicy::None {
            heads.extend(at.pending.pop(workloads).map(|id| (queue, id)));
        }
    }
    if heads.is_empty() {
        return Cycle::default();
    }
    cluster.cycle += 1;
    let mark = cluster.mark();
    let mut entries: Vec<Entry> = Vec::new();
    for (queue, id) in heads {
        let scan = take_valid_scan(cluster, id);
        let nominated = nominate(cluster, &Asking { id, now, scan: scan.as_ref(), nomination: None });
        entries.push(Entry { id, queue, now: nominated, first: None });
    }
    let mut cycle = Cycle::default();
    let mut preempted: BTreeSet<WorkloadId> = BTreeSet::new();
    let mut process = |cluster: &mut Cluster, entry: Entry| {
        let head = process(cluster, entry, now, &mut preempted);
        cycle.heads.push(head);
    };
    if cluster.fair.is_some() {
        in_fair_order(cluster, entries, &mut process);
    } else {
        entries.sort_by_key(|entry| {
            let workload = cluster.workload(entry.id);
            (entry.now.assignment.borrow, Reverse(workload.priority), workload.created)
        });
        entries.into_iter().for_each(|entry| process(cluster, entry));
    }
    cluster.undo_to(&mark);
    conclude(cluster, &mut cycle, now);
    cycle
}

/// The point at which the last scan of flavors stopped. It is valid in the next cycle, and later only if no quota was
/// released in the meantime.
fn take_valid_scan(cluster: &mut Cluster, id: WorkloadId) -> Option<super::workload::FlavorScan> {
    let generation = cluster.queue(cluster.workload(id).queue).generation;
    let cycle = cluster.cycle;
    let scan = cluster.workload_mut(id).scan.take();
    scan.filter(|scan| scan.generation == generation || scan.cycle + 1 == cycle)
}

/// Processes the entries tree by tree: the trees of cohorts in the order of the roots' names, then the queues without a
/// cohort.
fn in_fair_order(cluster: &mut Cluster, entries: Vec<Entry>, process: &mut impl FnMut(&mut Cluster, Entry)) {
    let mut trees: BTreeMap<(bool, Arc<str>, NodeId), Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        let node = cluster.queue(entry.queue).node;
        let root = cluster.tree.root(node);
        let name = Arc::clone(cluster.tree.name(root));
        trees.entry((root == node, name, root)).or_default().push(entry);
    }
    for ((_, _, root), entries) in trees {
        let contender = |entry: &Entry| {
            let usage = entry.now.assignment.usage.clone();
            Contender { id: entry.id, node: cluster.queue(entry.queue).node, usage }
        };
        let contenders = entries.iter().map(contender).collect();
        let mut waiting: BTreeMap<WorkloadId, Entry> = entries.into_iter().map(|entry| (entry.id, entry)).collect();
        let mut tournament = Tournament::new(cluster, root, contenders);
        while let Some(entry) = tournament.next().and_then(|next| waiting.remove(&next)) {
            let node = cluster.queue(entry.queue).node;
            process(cluster, entry);
            tournament.processed(cluster, node);
        }
    }
}

fn process(cluster: &mut Cluster, mut entry: Entry, now: i64, preempted: &mut BTreeSet<WorkloadId>) -> Head {
    let overlaps = |entry: &Entry, preempted: &BTreeSet<WorkloadId>| {
        entry.now.targets.iter().any(|target| preempted.contains(&target.workload))
    };
    if overlaps(&entry, preempted) {
        compute_again(cluster, &mut entry, now, preempted);
        if entry.now.assignment.mode() == Mode::Fit {
            entry.now.assignment.set_mode(Mode::DeferredFit);
        }
    }
    let mut fits = fits(cluster, &entry, preempted);
    if fits == Fits::NoRoom {
        compute_again(cluster, &mut entry, now, &BTreeSet::new());
        fits = self::fits(cluster, &entry, preempted);
    }
    let mode = entry.now.assignment.mode();
    let message = entry.now.assignment.message();
    if mode == Mode::NoFit {
        return entry.ends(Verdict::NoFit, message);
    }
    if mode == Mode::Preempt && entry.now.targets.is_empty() {
        reserve(cluster, &entry);
        return entry.ends(Verdict::NoCandidates, message);
    }
    if overlaps(&entry, preempted) {
        return entry.ends(Verdict::Skipped, OVERLAPS.to_string());
    }
    if fits != Fits::Yes {
        return entry.ends(Verdict::Skipped, NO_LONGER_FITS.to_string());
    }
    preempted.extend(entry.now.targets.iter().map(|target| target.workload));
    let node = cluster.queue(entry.queue).node;
    cluster.add_usage(node, &entry.now.assignment.usage);
    cluster.add_pods(entry.id, &entry.now.assignment.placed);
    match mode {
        Mode::Preempt => {
            let count = entry.now.targets.len();
            entry.ends(Verdict::Preempting, format!("{message}. Pending the preemption of {count} workload(s)"))
        }
        Mode::DeferredFit => entry.ends(Verdict::Deferred, FITS_LATER.to_string()),
        Mode::Fit | Mode::NoFit => entry.ends(Verdict::Admitted, String::new()),
    }
}

impl Entry {
    fn ends(self, verdict: Verdict, message: String) -> Head {
        let Nominated { assignment, targets } = self.now;
        let nominated = self.first.map(|first| (first.assignment, first.targets));
        Head { workload: self.id, verdict, assignment, targets, message, nominated }
    }
}

/// Nominates the head again with the flavors of the first nomination, as if these workloads were gone.
fn compute_again(cluster: &mut Cluster, entry: &mut Entry, now: i64, gone: &BTreeSet<WorkloadId>) {
    let of_pod_set = |pod_set: &super::assignment::PodSetAssignment| {
        pod_set.flavors.iter().map(|(resource, choice)| (*resource, choice.flavor)).collect()
    };
    let nomination: Nomination = entry.now.assignment.pod_sets.iter().map(of_pod_set).collect();
    let mark = cluster.mark();
    for id in gone {
        cluster.take_away(*id);
        cluster.workload_mut(*id).is_gone = true;
    }
    let asking = Asking { id: entry.id, now, scan: None, nomination: Some(&nomination) };
    let again = nominate(cluster, &asking);
    for id in gone {
        cluster.workload_mut(*id).is_gone = false;
    }
    cluster.undo_to(&mark);
    let before = std::mem::replace(&mut entry.now, again);
    entry.first.get_or_insert(before);
}

/// Whether the entry still fits after all workloads that are preempted in this cycle are gone.
fn fits(cluster: &mut Cluster, entry: &Entry, preempted: &BTreeSet<WorkloadId>) -> Fits {
    let node = cluster.queue(entry.queue).node;
    let assignment = &entry.now.assignment;
    let mark = cluster.mark();
    let own = entry.now.targets.iter().map(|target| target.workload);
    let gone: BTreeSet<WorkloadId> = own.chain(preempted.iter().copied()).collect();
    gone.into_iter().for_each(|id| cluster.take_away(id));
    let has_quota = assignment.usage.iter().all(|(pair, amount)| *amount <= cluster.tree.available(node, *pair));
    let fits = match has_quota {
        false => Fits::NoQuota,
        true if cluster.has_room(entry.id, &assignment.placed) => Fits::Yes,
        true => Fits::NoRoom,
    };
    cluster.undo_to(&mark);
    fits
}

/// Reserves quota for a head that may not preempt now, so that later heads do not take this quota. A queue that can
/// always reclaim its quota needs no reservation.
fn reserve(cluster: &mut Cluster, entry: &Entry) {
    let queue = cluster.queue(entry.queue);
    let node = queue.node;
    if queue.preemption.reclaim_within_cohort == ReclaimWithinCohort::Any {
        return;
    }
    let assignment = &entry.now.assignment;
    let to_reserve = |(pair, amount): &(FlavorResource, i64)| {
        let (quota, used) = (cluster.tree.quota(node, *pair), cluster.tree.usage(node, *pair));
        let most = match quota.borrowing_limit {
            _ if assignment.borrow == 0 => (*amount).min(quota.nominal - used).max(0),
            None => *amount,
            Some(limit) => (*amount).min(quota.nominal.saturating_add(limit) - used),
        };
        (*pair, most)
    };
    let reserved: Vec<(FlavorResource, i64)> = assignment.usage.iter().map(to_reserve).collect();
    cluster.add_usage(node, &reserved);
    cluster.add_pods(entry.id, &assignment.placed);
}

/// Applies the decisions of the cycle.
fn conclude(cluster: &mut Cluster, cycle: &mut Cycle, now: i64) {
    for head in &cycle.heads {
        let id = head.workload;
        let queue = cluster.workload(id).queue;
        if head.verdict == Verdict::Admitted {
            admit(cluster, head, now);
            continue;
        }
        if head.verdict == Verdict::Preempting {
            for target in &head.targets {
                if evict(cluster, target.workload, Eviction::Preempted { by: id, reason: target.reason }) {
                    cycle.evicted.push(*target);
                }
            }
        }
        let (why, reason) = match head.verdict {
            Verdict::NoFit => (Requeue::Unfit, head.assignment.no_fit),
            Verdict::NoCandidates => (Requeue::Unfit, Some(QuotaReason::WaitingForQuota)),
            Verdict::Preempting => (Requeue::Preempting, Some(QuotaReason::WaitingForPreemptedWorkloads)),
            Verdict::Deferred => (Requeue::Skipped, Some(QuotaReason::WaitingForPreemptedWorkloads)),
            Verdict::Skipped | Verdict::Admitted => (Requeue::Skipped, Some(QuotaReason::WaitingForQuota)),
        };
        let workload = cluster.workload_mut(id);
        // While preemptions are under way, the next scan begins at the first flavor.
        let waits = matches!(head.verdict, Verdict::Preempting | Verdict::Deferred);
        workload.scan = (!waits).then(|| head.assignment.scan.clone());
        workload.condition = Some(Condition { reason, message: head.message.clone() });
        let Cluster { queues, workloads, .. } = cluster;
        let queue = &mut queues[queue.0 as usize];
        queue.pending.requeue(id, workloads, queue.strategy, why);
    }
    cluster.commit();
}

fn admit(cluster: &mut Cluster, head: &Head, now: i64) {
    let id = head.workload;
    let Assignment { usage, placed, .. } = &head.assignment;
    let usage: Vec<(FlavorResource, i64)> = usage.iter().copied().filter(|(_, amount)| *amount != 0).collect();
    let (node, queue) = (cluster.node_of(id), cluster.workload(id).queue);
    cluster.add_usage(node, &usage);
    cluster.add_pods(id, placed);
    let Cluster { queues, workloads, .. } = cluster;
    let queue = &mut queues[queue.0 as usize];
    queue.pending.remove(id, &workloads[id.0 as usize]);
    queue.admitted.insert(id);
    queue.generation += 1;
    let workload = &mut workloads[id.0 as usize];
    (workload.scan, workload.condition) = (None, None);
    let admission = Admission { reserved_at: now, eviction: None, usage, placed: placed.clone() };
    workload.state = WorkloadState::Reserved(admission);
}

/// Decides that a workload must release its quota. Returns whether this is a new decision.
pub(crate) fn evict(cluster: &mut Cluster, id: WorkloadId, why: Eviction) -> bool {
    let queue = cluster.workload(id).queue;
    let WorkloadState::Reserved(admission) = &mut cluster.workload_mut(id).state else { return false };
    if admission.eviction.is_some() {
        return false;
    }
    admission.eviction = Some(why);
    cluster.queue_mut(queue).generation += 1;
    true
}
