//! Results of backfilling that are kept from pass to pass, and how they are brought up to date.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;

use super::bookings::{Bookings, MayHold};
use super::calendar::{Calendar, NodeEnd, Part};
use super::ends::{is_timed, said_end};
use super::outlook::Outlook;
use super::plain::{first_fit_from, fits_beside_plainly, judge_on};
use super::shelves::{Shelves, Waiting};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::profile::Profile;
use dryrack_fleet::NodeClaim;
use dryrack_scheduler::{
    Backfill, Caching, Candidate, Decision, Grouping, QueueKey, SchedulerOptions, implied, is_by_node,
};
use dryrack_units::SimTime;
use dryrack_workload::Demand;

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
    /// What single nodes say about each demand.
    pub bounds: BTreeMap<u32, Bound>,
    /// For each demand, the first demand about which single nodes say the same.
    alike: BTreeMap<u32, u32>,
    /// For each implied demand, the first demand that implies it.
    implied_by: HashMap<Demand, u32, FixedState>,
    /// Outlook of each first demand about which single nodes say something.
    outlooks: BTreeMap<u32, Outlook>,
    /// Whether a GPU of the fleet uses part of the RAM. Then a node with fewer claims may have less room.
    pub has_pools: bool,
    /// For each demand, the place that a replica would get now, and the version of the fleet for which this is true.
    pub now: Vec<Option<(u64, Option<Candidate>)>>,
    /// For each demand and each shape of nodes, whether a node of this shape could ever hold a task.
    pub doing: MayHold,
    /// For a pair of demands, whether the first asks for at most as much as the second.
    pub compared: BTreeMap<(u32, u32), bool>,
    pub bookings: Bookings,
    pub since: ChangesSince,
}

/// What single nodes say about a demand.
pub enum Bound {
    /// Whether it fits.
    Exact,
    /// That it does not fit if this demand does not fit.
    Implied(Demand),
    Nothing,
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
    /// `None` if no results are kept. This is so if the profile's kind of backfilling keeps none, if a custom stage makes
    /// kept results wrong, or if the plain computation is in use.
    pub fn of(profile: &Profile, grouping: Grouping, caching: Caching) -> Option<Box<Backfilling>> {
        let keeps = match profile.scheduler.backfill {
            Backfill::Easy | Backfill::Conservative | Backfill::Rlscheduler => true,
            Backfill::None | Backfill::Slots => false,
        };
        let is_off = caching == Caching::Off || grouping == Grouping::EachNode;
        let is_plain = is_off || profile.scheduler.has_unsteady_stages();
        (keeps && !is_plain).then(Box::default)
    }

    /// Whether only the scheduler's stages can say whether the demand fits, on a whole fleet.
    pub fn is_judged(&self, number: u32) -> bool {
        self.has_pools || !matches!(self.bounds[&number], Bound::Exact)
    }

    /// The demand that must fit by single nodes if this one fits. `None` if no such demand is known.
    pub fn by_node<'a>(&'a self, core: &'a Core, number: u32) -> Option<&'a Demand> {
        match &self.bounds[&number] {
            _ if self.has_pools => None,
            Bound::Exact => Some(core.store.demand(number)),
            Bound::Implied(demand) => Some(demand),
            Bound::Nothing => None,
        }
    }

    /// The first demand about which single nodes say the same. What is known of one of them by single nodes is known of
    /// all.
    pub fn alike(&self, number: u32) -> u32 {
        self.alike[&number]
    }

    pub fn outlook(&self, number: u32) -> &Outlook {
        &self.outlooks[&self.alike[&number]]
    }

    /// Whether the demand may fit now. The outlook of the demand must be up to date.
    pub fn may_fit_now(&self, core: &Core, number: u32) -> bool {
        self.by_node(core, number).is_none_or(|demand| self.outlook(number).fits_now(demand.tasks))
    }

    fn learn_bound(&mut self, options: &SchedulerOptions, number: u32, demand: &Demand) {
        if self.bounds.contains_key(&number) {
            return;
        }
        let bound = match is_by_node(options, demand) {
            true => Bound::Exact,
            false => implied(options, demand).map_or(Bound::Nothing, Bound::Implied),
        };
        let alike = match &bound {
            Bound::Implied(implied) => *self.implied_by.entry(implied.clone()).or_insert(number),
            Bound::Exact | Bound::Nothing => number,
        };
        self.alike.insert(number, alike);
        self.bounds.insert(number, bound);
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
    let number = core.store[index].demand;
    update_outlooks(core, kept, [number]);
    let fits_by_node = |demand: &Demand| {
        let outlook = kept.outlook(number);
        outlook.fits_beside((&core.profile.scheduler, demand), (&core.fleet, &kept.calendar), at, claims)
    };
    let found = match &kept.bounds[&number] {
        Bound::Exact => fits_by_node(core.store.demand(number)),
        Bound::Implied(demand) if !kept.has_pools && !fits_by_node(demand) => false,
        Bound::Implied(_) | Bound::Nothing => fits_beside_plainly(core, index, at, claims),
    };
    if core.deciding.caching == Caching::Paranoid {
        assert_eq!(found, fits_beside_plainly(core, index, at, claims), "the head is put off, or is not");
    }
    found
}

/// The first time at which a replica fits, if all attempts end as estimated and no other replica starts.
pub fn first_fit_time_kept(core: &mut Core, kept: &mut Backfilling, index: ReplicaIndex) -> Option<SimTime> {
    let number = core.store[index].demand;
    update_outlooks(core, kept, [number]);
    let by_node = |demand: &Demand| kept.outlook(number).fits_at(demand.tasks, &kept.calendar);
    match &kept.bounds[&number] {
        Bound::Exact => by_node(core.store.demand(number)),
        Bound::Implied(demand) if !kept.has_pools => {
            let not_before = by_node(demand)?;
            first_fit_from(core, index, not_before)
        }
        Bound::Implied(_) | Bound::Nothing => first_fit_from(core, index, SimTime::ZERO),
    }
}

/// Applies the changes of nodes, and updates the bounds and outlooks of these demands.
pub fn update_outlooks(core: &mut Core, kept: &mut Backfilling, demands: impl IntoIterator<Item = u32>) {
    update_calendar(core, &mut kept.calendar);
    if kept.outlooks.len() * core.fleet.len() > MOST_OUTLOOKS {
        kept.outlooks.clear();
    }
    kept.has_pools = core.fleet.has_unified_gpus();
    for number in demands {
        let (options, demand) = (&core.profile.scheduler, core.store.demand(number));
        kept.learn_bound(options, number, demand);
        let by_node = match &kept.bounds[&number] {
            Bound::Exact => &**demand,
            Bound::Implied(implied) => implied,
            Bound::Nothing => continue,
        };
        let outlook = kept.outlooks.entry(kept.alike[&number]).or_default();
        outlook.update(options, by_node, &core.fleet, &kept.calendar);
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
