//! Backfilling as in Slurm's sched/backfill: a table of time slots, in which waiting jobs reserve whole nodes.
//!
//! Jobs are planned in the order of the queue, from now on. A job is considered for the nodes that no job before it
//! has reserved at any time up to its limit, at the first time at which enough of them is free, if what runs ends at
//! its limit. A job that can begin now begins. Every other job reserves all of each node that it would have, from the
//! start of the slot in which it would begin. If that runs into another job's reservation, the job is planned again
//! from the end of that slot. So a job waits beside an idle node when its limit, not its run time, reaches into a
//! reservation, even by less than a slot. Nodes on which a run is completing are planned with, from the next second
//! on.
//!
//! This follows slurm.conf(5) and what Slurm 22.05.8 logs (`DebugFlags=Backfill`). Time is counted in whole seconds,
//! and slots from time zero, which stands for a whole minute of the day. Not modelled: reservations by hand,
//! licenses, limits of users, job arrays as one, a pass that yields its locks.
//!
//! A pass goes down the queue only to the last job that could begin now beside what is reserved by then, because a
//! reservation behind it would bind nobody. What is ahead of each node is kept from pass to pass ([`ahead`]), and the
//! fleet is never copied. [`plain`] is the same without any of that.

mod ahead;
pub(super) mod plain;
mod table;

use std::collections::BTreeMap;

use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::Queue;
use crate::queue::slots::plain::{fleet_of, plan_plainly};
pub use ahead::Ahead;
use dryrack_fleet::{NodeStatus, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::{
    Caching, Candidate, GangPlaces, Grouping, QueueKey, asks_for_readiness, is_by_room, nodes_among_neighbours,
    place_among_neighbours,
};
use dryrack_units::{SimDuration, SimTime};
use table::{Look, Table};

/// Ends of what runs are counted as one end, at the last of them, if they lie within this distance of a reference
/// time: the first multiple of the distance that comes after the first of them. With each further look the distance
/// doubles, and it keeps doubling until it reaches the next end.
const CLOSE: SimDuration = SimDuration::from_secs(30);
/// By demand, the time until which enough nodes with room for it now have no reservation, with the number of changes
/// in the pass for which this holds.
type Open = BTreeMap<u32, (u32, SimTime)>;

/// The limit of a job that states none.
const YEAR: SimDuration = SimDuration::from_secs(365 * 86_400);
const SECOND: SimDuration = SimDuration::from_secs(1);

/// The result of a look at a waiting replica.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// It begins now. With the nodes that it could have taken.
    Start(Candidate, Vec<NodeId>),
    /// It reserves these nodes from this time on.
    Reserve(SimTime, Vec<NodeId>),
    Nothing,
}

fn down_to(at: SimTime, unit: SimDuration) -> SimTime {
    SimTime::from_nanos(at.as_nanos() / unit.as_nanos() * unit.as_nanos())
}

impl Queue {
    pub(in crate::queue) fn backfill_slots(&mut self, core: &mut Core) {
        let options = core.profile.scheduler.slots;
        let waiting: Vec<QueueKey> = self.queue.iter(core.now).take(options.depth as usize).collect();
        let scheduler = &core.profile.scheduler;
        let is_counted = scheduler.gangs == GangPlaces::Neighbours && asks_for_readiness(scheduler);
        match (core.caching, core.grouping) {
            (Caching::On | Caching::Paranoid, Grouping::Classes) if is_counted => self.backfill_counted(core, &waiting),
            _ => self.backfill_plainly(core, &waiting),
        }
    }

    fn backfill_plainly(&mut self, core: &mut Core, waiting: &[QueueKey]) {
        let now = down_to(core.now, SECOND);
        let mut table = plain::Table::new(now, core.profile.scheduler.slots, core.fleet.len());
        for key in waiting {
            let index = key.replica();
            if !core.waits_in_queue(index) {
                continue;
            }
            match plan_plainly(core, index, &table) {
                Plan::Start(candidate, free) => self.start_in_slots(core, index, candidate, &free),
                Plan::Reserve(start, nodes) => table.reserve(start, limit_of(core, index), &nodes),
                Plan::Nothing => {}
            }
        }
    }

    fn backfill_counted(&mut self, core: &mut Core, waiting: &[QueueKey]) {
        let now = down_to(core.now, SECOND);
        let mut table = Table::new(now, core.profile.scheduler.slots, core.fleet.len());
        let mut plain = (core.caching == Caching::Paranoid)
            .then(|| plain::Table::new(now, core.profile.scheduler.slots, core.fleet.len()));
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.begin(core);
        // Demands and limits for which nothing was found, with the number of changes in the pass at that time.
        let mut in_vain: BTreeMap<(u32, SimDuration), u32> = BTreeMap::new();
        let mut open = Open::new();
        let mut changes = 0;
        let mut left = waiting;
        loop {
            while let Some((last, before)) = left.split_last()
                && !(core.waits_in_queue(last.replica())
                    && may_start(core, &mut ahead, (&table, changes), &mut open, last.replica()))
            {
                if let Some(plain) = plain.as_ref().filter(|_| core.waits_in_queue(last.replica())) {
                    let run = core.replicas[last.replica() as usize].run();
                    let starts = matches!(plan_plainly(core, last.replica(), plain), Plan::Start(..));
                    assert!(!starts, "{run} is left out, and would start");
                }
                left = before;
            }
            let Some((key, behind)) = left.split_first() else { break };
            let index = key.replica();
            let (demand, length) = (core.replicas[index as usize].demand, limit_of(core, index));
            left = behind;
            if !core.waits_in_queue(index) {
                continue;
            }
            let plan = match in_vain.get(&(demand, length)) {
                Some(then) if *then == changes => Plan::Nothing,
                _ => plan(core, index, &mut ahead, &table),
            };
            if let Some(plain) = &plain {
                let run = core.replicas[index as usize].run();
                assert_eq!(plan, plan_plainly(core, index, plain), "{run}: the plan is not the plain one");
            }
            changes += u32::from(plan != Plan::Nothing);
            match plan {
                Plan::Start(candidate, free) => {
                    self.start_in_slots(core, index, candidate, &free);
                    if core.replicas[index as usize].placement.is_some() {
                        ahead.enter(core, index);
                    }
                }
                Plan::Reserve(start, nodes) => {
                    let mut set = vec![0; table.words()];
                    nodes.iter().for_each(|node| table::insert(&mut set, *node));
                    table.reserve(start, length, &set);
                    plain.iter_mut().for_each(|plain| plain.reserve(start, length, &nodes));
                }
                Plan::Nothing if is_by_room(&core.profile.scheduler, &core.demands[demand as usize].demand) => {
                    in_vain.insert((demand, length), changes);
                }
                Plan::Nothing => {}
            }
        }
        self.ahead = ahead;
    }

    fn start_in_slots(&mut self, core: &mut Core, index: ReplicaIndex, candidate: Candidate, free: &[NodeId]) {
        let nodes = plain::Nodes::of(free.iter().copied(), core.fleet.len());
        core.examine_if_watched(index, |core| Some(fleet_of(core, &nodes)));
        self.start_past_head(core, index, candidate);
    }
}

fn in_order(mut nodes: Vec<NodeId>) -> Vec<NodeId> {
    nodes.sort_unstable();
    nodes
}

fn limit_of(core: &Core, index: ReplicaIndex) -> SimDuration {
    let job = core.replicas[index as usize].job;
    core.jobs[job.index()].spec.estimate.unwrap_or(YEAR)
}

/// Whether it fits now beside what is reserved. A replica that does not fit will not fit for the rest of the
/// pass, in which more is taken and reserved. `changes` counts both.
fn may_start(
    core: &Core,
    ahead: &mut Ahead,
    (table, changes): (&Table, u32),
    open: &mut Open,
    index: ReplicaIndex,
) -> bool {
    let number = core.replicas[index as usize].demand;
    let demand = &core.demands[number as usize].demand;
    if !is_by_room(&core.profile.scheduler, demand) {
        return true;
    }
    ahead.rooms(core, number);
    let (rooms, tasks) = (ahead.known(number), demand.tasks);
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

fn plan(core: &Core, index: ReplicaIndex, ahead: &mut Ahead, table: &Table) -> Plan {
    let number = core.replicas[index as usize].demand;
    let demand = &core.demands[number as usize].demand;
    if !is_by_room(&core.profile.scheduler, demand) {
        return plan_plainly(core, index, &table.plainly());
    }
    ahead.rooms(core, number);
    let (ahead, rooms, length) = (&*ahead, ahead.known(number), limit_of(core, index));
    if rooms.most == 0 {
        return Plan::Nothing;
    }
    let needed = (demand.tasks, demand.tasks.div_ceil(rooms.most));
    let (mut free, mut nodes) = (vec![0; table.words()], vec![0; table.words()]);
    let end_of_window = table.now.saturating_add(table.options.window);
    let mut from = table.now;
    while from <= end_of_window {
        let mut later = match table.look(from, length, &mut free, needed.1, |at| rooms.ready_by(at)) {
            Look::Free(later) => later,
            Look::TooEarly(later) => {
                from = later;
                continue;
            }
        };
        let Some((start, by)) = ahead.first_start(rooms, &free, needed, table.now) else {
            let Some(later) = later else { return Plan::Nothing };
            from = later;
            continue;
        };
        let mut start = start.max(from);
        let taken = || nodes_among_neighbours(demand, ahead.standing(rooms, &free, by)).expect("there is room");
        if start <= table.now && !is_completing_on(core, &taken()) {
            return Plan::Start(place_now(core, index, ahead, rooms, &free), table::nodes_of(&free).collect());
        }
        if start <= table.now {
            (start, later) = (table.now.saturating_add(SECOND), None);
        }
        if let Some(later) = later.filter(|later| start > *later) {
            from = later;
            continue;
        }
        if start > end_of_window {
            return Plan::Nothing;
        }
        let taken = taken();
        nodes.fill(0);
        taken.iter().for_each(|node| table::insert(&mut nodes, *node));
        if !table.is_taken(start, length, &nodes) {
            return Plan::Reserve(start, in_order(taken));
        }
        // Planning again from there would give the same result.
        if start == from {
            return Plan::Nothing;
        }
        from = start;
    }
    Plan::Nothing
}

/// Where it begins now on these nodes, which have room for it.
fn place_now(core: &Core, index: ReplicaIndex, ahead: &Ahead, rooms: &ahead::Rooms, free: &[u64]) -> Candidate {
    let replica = &core.replicas[index as usize];
    let demand = &core.demands[replica.demand as usize].demand;
    let with_room = ahead.standing(rooms, free, None).filter(|(_, room, _)| *room > 0);
    let nodes: Vec<(NodeId, NodeStatus)> = with_room.map(|(node, ..)| (node, ahead.status_now(core, node))).collect();
    let context = core.context(replica.run());
    let found = place_among_neighbours(&core.profile.scheduler, demand, context, &core.fleet, &nodes);
    found.expect("there is room")
}

/// Whether something on these nodes is about to be free.
fn is_completing_on(core: &Core, nodes: &[NodeId]) -> bool {
    let touched = |kept: &Placement| nodes.iter().any(|node| kept.touches(*node));
    core.kept_claims.values().any(touched)
}
