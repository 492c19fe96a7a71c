//! Results of backfilling that are kept from pass to pass, and how they are brought up to date.

use std::collections::{BTreeMap, BTreeSet};

use super::bookings::{Bookings, MayHold};
use super::calendar::{Calendar, NodeEnd, Part};
use super::ends::{is_timed, said_end};
use super::outlook::Outlook;
use super::plain::{fits_beside_plainly, judge_on};
use super::shelves::{Shelves, Waiting};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::profile::Profile;
use dryrack_fleet::NodeClaim;
use dryrack_scheduler::{Backfill, Caching, Candidate, Decision, Grouping, QueueKey, is_by_node};
use dryrack_units::SimTime;

/// Limit on the number of kept outlooks, counted as demands times nodes.
const MOST_OUTLOOKS: usize = 4_000_000;

/// A head of the queue with its reservation, and what was known when the reservation was made.
#[derive(Clone, Copy, Debug)]
pub struct HeadReservation {
    pub head: ReplicaIndex,
    /// When the head is expected to fit.
    pub reserved: SimTime,
    /// The number of replicas that existed when the reservation was made.
    pub came_before: usize,
}

/// Results of backfilling that are kept from pass to pass.
#[derive(Default)]
pub struct Backfilling {
    pub shelves: Shelves,
    pub calendar: Calendar,
    /// Outlook of each demand.
    pub outlooks: BTreeMap<u32, Outlook>,
    /// For each demand, the place that a replica would get now, and the version of the fleet for which this is true.
    pub now: Vec<Option<(u64, Option<Candidate>)>>,
    /// For each demand and each shape of nodes, whether a node of this shape could ever hold a task.
    pub doing: MayHold,
    /// For a pair of demands, whether the first asks for at most as much as the second.
    pub compared: BTreeMap<(u32, u32), bool>,
    pub bookings: Bookings,
    pub since: ChangesSince,
}

/// Changes since the last pass in which all replicas got reservations.
#[derive(Default)]
pub struct ChangesSince {
    /// Number of node changes at the time of that pass.
    pub read: u64,
    /// Replicas that queued up at the very end of the queue.
    pub came_last: Vec<(u32, QueueKey)>,
    /// Demands with any other change: a replica came to another place in the queue, or left it.
    pub disturbed: BTreeSet<u32>,
    /// The last of all keys that were ever in the queue.
    pub last: Option<QueueKey>,
}

impl Backfilling {
    /// `None` if no results are kept. This is so if the profile's kind of backfilling keeps none, or if the plain
    /// computation is in use.
    pub fn of(profile: &Profile, grouping: Grouping, caching: Caching) -> Option<Box<Backfilling>> {
        let keeps = match profile.scheduler.backfill {
            Backfill::Easy | Backfill::Conservative | Backfill::Rlscheduler => true,
            Backfill::None | Backfill::Slots => false,
        };
        let is_plain = caching == Caching::Off || grouping == Grouping::EachNode;
        (keeps && !is_plain).then(Box::default)
    }

    /// Notes that a replica begins to wait in the queue.
    pub fn insert(&mut self, demand: u32, new: Waiting) {
        self.shelves.insert(demand, new);
        let is_last = self.since.last.is_none_or(|last| last < new.key);
        if is_last {
            self.since.last = Some(new.key);
            self.since.came_last.push((demand, new.key));
        } else {
            self.since.disturbed.insert(demand);
        }
    }

    /// Notes that a replica no longer waits in the queue.
    pub fn remove(&mut self, demand: u32, key: QueueKey) {
        self.shelves.remove(demand, key);
        self.since.disturbed.insert(demand);
    }
}

/// The place that a replica would get now. All replicas of its demand get one answer until the fleet changes.
pub fn fits_now_kept(core: &mut Core, kept: &mut Backfilling, index: ReplicaIndex) -> Option<Candidate> {
    let number = core.store[index].demand;
    if kept.now.len() <= number as usize {
        kept.now.resize_with(core.store.demands.len(), || None);
    }
    let version = core.fleet.version();
    let known = kept.now[number as usize].as_ref().filter(|(of, _)| *of == version);
    let found = match known {
        Some((_, known)) => known.clone(),
        None => {
            let found = match core.decide_now(index, 1) {
                Decision::Place(mut candidates) => Some(candidates.swap_remove(0)),
                Decision::Refuse { .. } => None,
            };
            kept.now[number as usize] = Some((version, found.clone()));
            found
        }
    };
    if core.deciding.caching == Caching::Paranoid {
        assert_eq!(found, judge_on(core, index, &core.fleet), "what is kept is not what is computed");
    }
    found
}

/// Whether a replica fits at this time, if another replica holds these claims from now on.
pub fn fits_beside(
    core: &mut Core,
    kept: &mut Backfilling,
    index: ReplicaIndex,
    at: SimTime,
    claims: &[NodeClaim],
) -> bool {
    let (number, _) = asked_for(core, index);
    let demand = core.store.demand(number);
    if !is_by_node(&core.profile.scheduler, demand) {
        return fits_beside_plainly(core, index, at, claims);
    }
    update_outlooks(core, kept, [number]);
    let (scheduler, demand) = (&core.profile.scheduler, core.store.demand(number));
    let outlook = &kept.outlooks[&number];
    let found = outlook.fits_beside((scheduler, demand), (&core.fleet, &kept.calendar), at, claims);
    if core.deciding.caching == Caching::Paranoid {
        assert_eq!(found, fits_beside_plainly(core, index, at, claims), "the head is put off, or is not");
    }
    found
}

pub fn asked_for(core: &Core, index: ReplicaIndex) -> (u32, u32) {
    let number = core.store[index].demand;
    (number, core.store.demand(number).tasks)
}

/// Applies the changes of nodes, and updates the outlooks of these demands.
pub fn update_outlooks(core: &mut Core, kept: &mut Backfilling, demands: impl IntoIterator<Item = u32>) {
    update_calendar(core, &mut kept.calendar);
    if kept.outlooks.len() * core.fleet.len() > MOST_OUTLOOKS {
        kept.outlooks.clear();
    }
    for number in demands {
        let demand = core.store.demand(number);
        let outlook = kept.outlooks.entry(number).or_default();
        outlook.update(&core.profile.scheduler, demand, &core.fleet, &kept.calendar);
    }
}

pub fn update_calendar(core: &mut Core, calendar: &mut Calendar) {
    if calendar.at != core.now {
        calendar.at = core.now;
        calendar.floating.iter().for_each(|node| core.fleet.note_change(*node));
    }
    let read = std::mem::replace(&mut calendar.read, core.fleet.node_change_count());
    for node in core.fleet.changed_nodes(read) {
        let (mut held, mut floats) = (Vec::new(), false);
        for index in &core.nodes[node.index()].replicas {
            let replica = &core.store[*index];
            let part = replica.placement.as_ref().and_then(|placement| Part::on(placement, node));
            floats |= !is_timed(replica.phase);
            held.extend(part.map(|part| NodeEnd { until: said_end(core, *index), part }));
        }
        calendar.replace(&core.fleet, node, held, floats);
    }
}
