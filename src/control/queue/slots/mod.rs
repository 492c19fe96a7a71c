//! Backfilling as in Slurm's sched/backfill: waiting jobs reserve whole nodes in a table of time slots.
//!
//! Jobs are planned in queue order. A job may use only nodes that no earlier job has reserved at any time up to its
//! limit. It is planned for the first time at which enough of these nodes are free, if all attempts end at their
//! limits. A job that can begin now begins. Every other job reserves all its nodes completely, from the start of the
//! slot in which it would begin. If its own reservation overlaps the reservation of another job, the job is planned
//! again from the end of that slot.
//!
//! So a job waits although a node is idle, if the job's limit reaches into a reservation of that node. This is true
//! even if the overlap is shorter than a slot, and even if the job would in fact end earlier. The nodes of a completing
//! run can be planned from the next second on.
//!
//! This follows slurm.conf(5) and the logs of Slurm 22.05.8 (`DebugFlags=Backfill`). Time is counted in whole seconds.
//! Slots begin at time zero, which stands for a whole minute of the day. Not modelled: licenses, user limits, job
//! arrays that are planned as one, and passes that release their locks for a time.
//!
//! A job that may preempt running ones is planned as if they were gone ([`futures`]). If it could then begin now, they are
//! preempted, and the job reserves its nodes from now on. It begins in a later pass.
//!
//! A pass stops after the last job that could begin now beside the reservations made so far. A later reservation would
//! hold back no other job. The future of each node is kept from pass to pass ([`ahead`]), so the fleet need not be
//! copied. Only a demand about which single nodes do not decide, such as a gang of unequal tasks, is judged on a copy of
//! the fleet ([`trial`]), of which there is one for each pass. [`plain`] computes the same results without these
//! shortcuts.

mod ahead;
pub(super) mod bits;
mod futures;
pub(super) mod plain;
mod planned;
mod search;
pub(super) mod table;
pub(super) mod time;
mod trial;

use std::collections::{BTreeMap, BTreeSet};

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use crate::queue::slurm::{InPartition, Preemptor};
use bits::{insert, word_count};
use dryrack_event::Reason;
use dryrack_ids::NodeId;
use dryrack_scheduler::{Caching, Candidate, GangPlaces, Grouping, asks_for_itself, asks_for_readiness};
use dryrack_units::{SimDuration, SimTime};
use futures::Future;
pub use futures::Futures;
use plain::{fleet_of, plan_plainly};
use planned::Plan;
use search::plan;
use table::Table;
use time::{SECOND, down_to, limit_of};

/// The jobs that have a reservation, if each job may have only one.
#[derive(Default)]
struct Reserved(BTreeSet<ReplicaIndex>);

impl Reserved {
    /// Whether the plan is no further reservation of a job that may have only one.
    fn admits(&mut self, core: &Core, index: ReplicaIndex, plan: &Plan) -> bool {
        let mut is_first = || self.0.insert(index);
        !core.profile.scheduler.slots.one_reservation_per_job || !matches!(plan, Plan::Reserve(..)) || is_first()
    }
}

impl Queue {
    pub(in crate::queue) fn backfill_slots(&mut self, core: &mut Core) {
        self.calculate_priorities(core);
        self.count_usage(core);
        let options = core.profile.scheduler.slots;
        let mut waiting = self.in_partitions(core, options.depth as usize);
        waiting.retain(|own| self.denied(core, *own).is_none());
        let scheduler = &core.profile.scheduler;
        let is_steady = asks_for_readiness(scheduler) && !core.deciding.has_unsteady_stages;
        let is_counted = scheduler.gangs == GangPlaces::Neighbours && is_steady;
        match (core.deciding.caching, core.deciding.grouping) {
            (Caching::On | Caching::Paranoid, Grouping::Classes) if is_counted => self.backfill_counted(core, &waiting),
            _ => self.backfill_plainly(core, &waiting),
        }
    }

    fn backfill_plainly(&mut self, core: &mut Core, waiting: &[InPartition]) {
        let now = down_to(core.now, SECOND);
        let mut table = plain::Table::new(now, core.profile.scheduler.slots, core.fleet.len());
        let mut reserved = Reserved::default();
        for own in waiting {
            let index = own.replica;
            if !core.store.waits_in_queue(index) || self.denied(core, *own).is_some() {
                continue;
            }
            let preemptible = self.preemptible_by(core, *own);
            let plan = plan_plainly(core, index, &table, self.ground_of(core, *own), &preemptible);
            if self.is_plan_denied(core, *own, &plan) || !reserved.admits(core, index, &plan) {
                continue;
            }
            match plan {
                Plan::Start(candidate, free) => self.start_in_slots(core, *own, candidate, &free),
                Plan::Preempt(nodes, free) => {
                    self.preempt_on(core, *own, &free);
                    table.reserve(now, limit_of(core, index), &nodes);
                }
                Plan::Reserve(start, nodes) => table.reserve(start, limit_of(core, index), &nodes),
                Plan::Nothing => {}
            }
        }
    }

    fn backfill_counted(&mut self, core: &mut Core, waiting: &[InPartition]) {
        let now = down_to(core.now, SECOND);
        let mut table = Table::new(now, core.profile.scheduler.slots, core.fleet.len());
        let mut plain = (core.deciding.caching == Caching::Paranoid)
            .then(|| plain::Table::new(now, core.profile.scheduler.slots, core.fleet.len()));
        let mut futures = std::mem::take(&mut self.futures);
        futures.begin(core);
        // Demands, limits, partitions and preemptors for which no plan was found, with the number of changes in the pass at
        // that time.
        let mut in_vain: BTreeMap<(u32, SimDuration, usize, Option<Preemptor>), u32> = BTreeMap::new();
        let mut reserved = Reserved::default();
        let mut changes = 0;
        let mut left = waiting;
        loop {
            while let Some((last, before)) = left.split_last()
                && !(core.store.waits_in_queue(last.replica)
                    && may_start(core, self.futures_of(&mut futures, core, *last), (&table, changes), last.replica))
            {
                if let Some(plain) = plain.as_ref().filter(|_| core.store.waits_in_queue(last.replica)) {
                    let attempt = core.store[last.replica].attempt_id();
                    let ground = self.ground_of(core, *last);
                    let preemptible = self.preemptible_by(core, *last);
                    let plan = plan_plainly(core, last.replica, plain, ground, &preemptible);
                    let starts = matches!(plan, Plan::Start(..) | Plan::Preempt(..));
                    assert!(!starts, "{attempt} is left out, and would start");
                }
                left = before;
            }
            let Some((own, behind)) = left.split_first() else { break };
            let index = own.replica;
            let (demand, length) = (core.store[index].demand, limit_of(core, index));
            left = behind;
            if !core.store.waits_in_queue(index) || self.denied(core, *own).is_some() {
                continue;
            }
            let alike = (demand, length, own.section, self.preemptor(core, *own));
            let plan = match in_vain.get(&alike) {
                Some(then) if *then == changes => Plan::Nothing,
                _ => plan(core, index, self.futures_of(&mut futures, core, *own), &table, self.ground_of(core, *own)),
            };
            if let Some(plain) = &plain {
                let attempt = core.store[index].attempt_id();
                let preemptible = self.preemptible_by(core, *own);
                let plainly = plan_plainly(core, index, plain, self.ground_of(core, *own), &preemptible);
                assert_eq!(plan, plainly, "{attempt}: the plan is not the plain one");
            }
            if self.is_plan_denied(core, *own, &plan) || !reserved.admits(core, index, &plan) {
                continue;
            }
            changes += u32::from(plan != Plan::Nothing);
            match plan {
                Plan::Start(candidate, free) => {
                    self.start_in_slots(core, *own, candidate, &free);
                    if core.store[index].placement.is_some() {
                        futures.enter(core, index, |own| self.preempts(core, own, index));
                    }
                }
                Plan::Preempt(nodes, free) => {
                    self.preempt_on(core, *own, &free);
                    futures.after_preemption(core);
                    reserve((&mut table, plain.as_mut()), (now, length), &nodes);
                }
                Plan::Reserve(start, nodes) => reserve((&mut table, plain.as_mut()), (start, length), &nodes),
                Plan::Nothing if !asks_for_itself(&core.profile.scheduler, core.store.demand(demand)) => {
                    in_vain.insert(alike, changes);
                }
                Plan::Nothing => {}
            }
        }
        self.futures = futures;
    }

    /// Whether a limit on nodes denies what was planned for a job. It then reserves nothing.
    fn is_plan_denied(&self, core: &Core, own: InPartition, plan: &Plan) -> bool {
        if matches!(plan, Plan::Nothing) {
            return false;
        }
        let chosen = || match plan {
            Plan::Start(candidate, _) => Some(candidate.placement.nodes().collect()),
            Plan::Preempt(nodes, _) => Some(nodes.iter().copied().collect()),
            Plan::Reserve(..) | Plan::Nothing => None,
        };
        let spec = &core.store.job_of(own.replica).spec;
        self.denied_by_nodes(core, (spec, own.section), chosen).is_some()
    }

    fn futures_of<'f>(
        &self,
        futures: &'f mut Futures,
        core: &Core,
        own: InPartition,
    ) -> (&'f mut Future, Option<&'f mut Future>) {
        futures.of(core, (own, self.preemptor(core, own)), || self.preemptible_by(core, own))
    }

    /// Preempts jobs so that a replica can start on some of these nodes later.
    fn preempt_on(&mut self, core: &mut Core, own: InPartition, free: &[NodeId]) {
        let mut blocked = vec![u64::MAX; word_count(core.fleet.len())];
        free.iter().for_each(|node| bits::remove(&mut blocked, *node));
        self.preempt_for(core, own, &blocked);
    }

    fn start_in_slots(&mut self, core: &mut Core, own: InPartition, candidate: Candidate, free: &[NodeId]) {
        let index = own.replica;
        let nodes = plain::Nodes::of(free.iter().copied(), core.fleet.len());
        let (now, length) = (down_to(core.now, SECOND), limit_of(core, index));
        let ground = self.ground_of(core, own);
        let why_kept = |node| match &ground {
            Some(ground) => ground.why_closed(node, now, length),
            None => Reason::HeldForPriority,
        };
        let why_closed = |node| (!nodes.has(node)).then(|| why_kept(node));
        core.examine_within_if_watched(index, |core| fleet_of(core, &nodes), why_closed);
        self.choose(own);
        self.start(core, index, candidate);
    }
}

fn reserve(
    (table, plain): (&mut Table, Option<&mut plain::Table>),
    (start, length): (SimTime, SimDuration),
    nodes: &[NodeId],
) {
    let mut set = vec![0; table.words()];
    nodes.iter().for_each(|node| insert(&mut set, *node));
    table.reserve(start, length, &set);
    plain.into_iter().for_each(|plain| plain.reserve(start, length, nodes));
}

/// Whether a replica may fit now beside all reservations, by the room of single nodes, or if it preempts jobs. A replica that does not fit now will not fit later in the pass
/// either, because the pass only takes and reserves more. `changes` is the number of placements and reservations that
/// the pass has made so far.
fn may_start(
    core: &Core,
    (plain, preempting): (&mut Future, Option<&mut Future>),
    (table, changes): (&Table, u32),
    index: ReplicaIndex,
) -> bool {
    let number = core.store[index].demand;
    let Future { ends: ahead, open, .. } = preempting.unwrap_or(plain);
    if !ahead.count_room(core, number) {
        return true;
    }
    let tasks = ahead.by_node(core, number).map_or(0, |demand| demand.tasks);
    let rooms = ahead.known(number);
    if rooms.total < u64::from(tasks) {
        return false;
    }
    let (known, until) = open.entry(number).or_insert((u32::MAX, SimTime::ZERO));
    if *known != changes {
        let with_room = rooms.ready_by(SimTime::ZERO);
        *until = table.free_until(with_room, |free| ahead.has_room(rooms, free, None, tasks));
        *known = changes;
    }
    table.now.saturating_add(limit_of(core, index)) < *until
}
