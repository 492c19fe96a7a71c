//! Reservations for all waiting replicas, in queue order. The plan stops as soon as it is known which replicas start
//! now.
//!
//! A replica that starts now fits on the current fleet for its whole estimated run. So if no demand fits on the current
//! fleet, nothing is reserved. The plan also stops once no remaining replica is short enough for the time that is free
//! before the existing reservations begin. Two kinds of replicas are skipped: replicas that can use none of the nodes
//! on which a replica might start, and replicas that are not affected by an event since the last pass. Only events move
//! reservations.
//!
//! The search tries only times at which a reservation can begin. On a node, a reservation can begin only when a claim
//! on the node ends, because a replica that fits at another time also fits earlier. If a replica has the same demand as
//! an earlier one and is not shorter, it cannot begin before the earlier one. All this is true only if fewer claims on
//! a node never mean less room, and if single nodes decide about the demand. About any other demand, the scheduler's
//! stages are asked ([`judged`](super::judged)), but only where single nodes do not rule it out. Such a demand is planned
//! again in each pass in which it may start.
//!
//! A replica far behind is planned before those ahead of it if they cannot come in its way ([`jump`]).
//!
//! If the order of the queue changes with time, every pass plans all replicas, because all reservations may move.

mod jump;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use smallvec::SmallVec;

use super::bookings::{MayHold, end};
use super::calendar::Part;
use super::ends::MOMENT;
use super::judged::{Trial, gap_judged};
use super::kept::{Backfilling, fits_now_kept, update_calendar, update_outlooks};
use super::reservations::{Planned, most_of_node};
use super::room::{Asked, Gap, room_in};
use super::shelves::{ENDLESS, Position, Shelves, Waiting};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use dryrack_fleet::{Fleet, NodeStatus, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::{Candidate, asks_no_more, decide_among, may_ever_do};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Demand;
use jump::Jumps;

/// If there are more demands than this, the plan does not compare them with each other.
const MOST_COMPARED: usize = 64;

/// A demand with a replica that might start now.
struct StartableDemand {
    demand: u32,
    /// For each node that has room for the demand now: until when it has room, and for how many tasks.
    rooms: BTreeMap<NodeId, (SimTime, u32)>,
    /// A replica that would end after this time does not start now.
    until: SimTime,
    /// A replica of at least this length does not start now. The reason is that a replica that asks for at most as
    /// much, and is at most as long, did not start.
    refused: Option<SimDuration>,
    /// The next replica in the queue that might start.
    next: Option<Waiting>,
}

fn meet(one: &[bool], other: &[bool]) -> bool {
    one.iter().zip(other).any(|(one, other)| *one && *other)
}

/// Adds the shapes that are connected to these shapes. Two shapes are connected if a demand may use both.
fn spread(shapes: &mut [bool], demands: &[u32], doing: &MayHold) {
    loop {
        let mut grew = false;
        for own in demands.iter().map(|demand| &doing[demand]) {
            if !meet(own, shapes) {
                continue;
            }
            for (shape, own) in shapes.iter_mut().zip(own) {
                grew |= *own && !*shape;
                *shape |= *own;
            }
        }
        if !grew {
            return;
        }
    }
}

impl StartableDemand {
    /// The latest time until which there is room for this many tasks.
    fn longest(&self, tasks: u32) -> SimTime {
        let mut rooms: SmallVec<[(SimTime, u32); 16]> = self.rooms.values().copied().collect();
        rooms.sort_unstable_by_key(|(until, _)| Reverse(*until));
        let mut left = tasks;
        for (until, room) in rooms {
            left = left.saturating_sub(room);
            if left == 0 {
                return until;
            }
        }
        SimTime::ZERO
    }
}

impl Backfilling {
    /// All claims on a node with their beginnings and ends: those of attempts and those of reservations.
    pub fn spans(&self, node: NodeId, now: SimTime) -> impl Iterator<Item = (SimTime, SimTime, &Part)> + Clone {
        let soon = now.saturating_add(MOMENT);
        let held = self.calendar.held_on(node).map(move |held| (now, held.until.max(soon), &held.part));
        held.chain(self.bookings.on(node).iter().map(|booking| (booking.from, booking.until, &booking.part)))
    }

    /// The ends from this time on, each with its node, in order. Two equal ends may be listed once or twice.
    pub fn ends_from(&self, from: SimTime) -> impl Iterator<Item = (SimTime, NodeId)> + '_ {
        let mut held = self.calendar.ends_from(from).peekable();
        let mut reservations = self.bookings.ends.range((from, NodeId::new(0))..).copied().peekable();
        std::iter::from_fn(move || match (held.peek(), reservations.peek()) {
            (Some(one), Some(other)) if one == other => {
                reservations.next();
                held.next()
            }
            (Some(one), Some(other)) if one < other => held.next(),
            (_, Some(_)) => reservations.next(),
            (_, None) => held.next(),
        })
    }

    /// The next time after `at` at which a claim on the node ends, or at which a span of this length would begin to
    /// overlap a further claim.
    pub fn next_change(&self, node: NodeId, (now, at): (SimTime, SimTime), length: SimDuration) -> Option<SimTime> {
        let until = end(at, length);
        let times = self.spans(node, now).flat_map(|(begins, ends, _)| {
            let comes = (begins >= until).then(|| at.saturating_add(begins.since(until)).saturating_add(MOMENT));
            let goes = (ends > at && ends < SimTime::MAX).then_some(ends);
            [comes, goes]
        });
        times.flatten().min()
    }
}

/// The replicas that start now, with their places, in queue order. If the order changes with time, `moved` has all
/// waiting replicas in their order at this moment. If `plain` is given, the result is compared with these reservations
/// of the plain computation.
pub(in crate::queue) fn plan_reservations(
    core: &mut Core,
    kept: &mut Backfilling,
    moved: Option<Shelves>,
    plain: Option<&[Planned]>,
) -> Vec<Planned> {
    let mut starts = Vec::new();
    update_calendar(core, &mut kept.calendar);
    let demands: Vec<u32> = kept.shelves.demands().collect();
    for demand in demands.iter().chain(&kept.since.disturbed) {
        learn_doing(core, &mut kept.doing, *demand);
    }
    let moves = moved.is_some();
    let own = moved.map(|moved| std::mem::replace(&mut kept.shelves, moved));
    let hopes = startable_demands(core, kept, &demands, moves);
    if !hopes.is_empty() {
        starts = plan_for(core, kept, &demands, hopes, plain);
    }
    own.into_iter().for_each(|own| kept.shelves = own);
    if let Some(plain) = plain {
        let starts: Vec<_> = starts.iter().map(|start: &Planned| start.replica).collect();
        let starts_plainly = plain.iter().filter(|planned| planned.from == core.now);
        let starts_plainly: Vec<_> = starts_plainly.map(|planned| planned.replica).collect();
        assert_eq!(starts, starts_plainly, "others start than by the plain computation");
    }
    starts
}

fn learn_doing(core: &Core, doing: &mut MayHold, number: u32) {
    let own = doing.entry(number).or_default();
    if own.len() < core.fleet.shapes().len() {
        let (options, demand) = (&core.profile.scheduler, core.store.demand(number));
        own.extend(core.fleet.shapes()[own.len()..].iter().map(|group| may_ever_do(options, demand, group)));
    }
}

/// The demands with a replica that may start now. For each of them, the position in the queue at which to begin.
fn startable_demands(core: &mut Core, kept: &mut Backfilling, demands: &[u32], moves: bool) -> BTreeMap<u32, Position> {
    let mut changed = vec![moves; core.fleet.shapes().len()];
    let calendar = &kept.calendar;
    let of_nodes = core.fleet.changed_nodes(kept.since.read).chain(calendar.overdue(core.now));
    of_nodes.chain(calendar.floating.iter().copied()).for_each(|node| changed[core.fleet.shape_index(node)] = true);
    let judged = judged_demands(core, kept, demands);
    let may_start = judged.iter().filter(|demand| kept.may_fit_now(core, **demand));
    for demand in kept.since.disturbed.iter().chain(may_start) {
        changed.iter_mut().zip(&kept.doing[demand]).for_each(|(changed, own)| *changed |= own);
    }
    spread(&mut changed, demands, &kept.doing);
    let mut hopes = BTreeMap::new();
    for (demand, key) in std::mem::take(&mut kept.since.came_last) {
        if !moves && demands.binary_search(&demand).is_ok() {
            hopes.entry(demand).or_insert(Position::At(key));
        }
    }
    let meets = |demand: &&u32| meet(&kept.doing[*demand], &changed);
    hopes.extend(demands.iter().filter(meets).map(|demand| (*demand, Position::Start)));
    hopes.retain(|demand, from| {
        let first = kept.shelves.of(*demand).first(*from, ENDLESS);
        first.is_some_and(|first| match judged.binary_search(demand) {
            Ok(_) => kept.may_fit_now(core, *demand),
            Err(_) => fits_now_kept(core, kept, first.key.replica()).is_some(),
        })
    });
    hopes
}

/// Those of the demands about which single nodes do not decide. Updates what single nodes say about them.
fn judged_demands(core: &mut Core, kept: &mut Backfilling, demands: &[u32]) -> Vec<u32> {
    let new: Vec<u32> = demands.iter().filter(|demand| !kept.bounds.contains_key(demand)).copied().collect();
    update_outlooks(core, kept, new);
    let judged: Vec<u32> = demands.iter().filter(|demand| kept.is_judged(**demand)).copied().collect();
    update_outlooks(core, kept, judged.iter().copied());
    judged
}

/// Makes reservations in queue order for as long as a later replica may start.
fn plan_for(
    core: &mut Core,
    kept: &mut Backfilling,
    demands: &[u32],
    hopes: BTreeMap<u32, Position>,
    plain: Option<&[Planned]>,
) -> Vec<Planned> {
    let mut shapes = vec![false; core.fleet.shapes().len()];
    for demand in hopes.keys() {
        shapes.iter_mut().zip(&kept.doing[demand]).for_each(|(shape, own)| *shape |= *own);
    }
    spread(&mut shapes, demands, &kept.doing);
    let concerned: Vec<u32> = demands.iter().filter(|demand| meet(&kept.doing[*demand], &shapes)).copied().collect();
    update_outlooks(core, kept, concerned.iter().copied());
    kept.bookings.begin(core.fleet.len());
    compare(core, kept, &concerned);
    let soon = core.now.saturating_add(MOMENT);
    kept.bookings.ends.extend(kept.calendar.overdue(core.now).map(|node| (soon, node)));
    let first = |demand: &u32| {
        let first = kept.shelves.of(*demand).first(Position::Start, ENDLESS)?;
        Some(Reverse((first.key, *demand, first.length)))
    };
    let mut line: BinaryHeap<_> = concerned.iter().filter_map(first).collect();
    let hopes: Vec<StartableDemand> =
        hopes.into_iter().map(|(demand, from)| startable_demand(core, kept, demand, from)).collect();
    let mut pass = PlannedPass { hopes, starts: Vec::new(), trial: None, plain };
    let (mut jumps, mut behind) = (Jumps::new(), None);
    let may_jump = concerned.len() <= MOST_COMPARED && !concerned.iter().any(|demand| kept.is_judged(*demand));
    while pass.hopes.iter().any(|hope| hope.next.is_some()) {
        if let Some(behind) = behind.filter(|_| may_jump && jumps.are_due()) {
            match jump::safe_start(core, kept, &concerned, &pass.hopes, (behind, &jumps)) {
                Some(safe) if pass.starts_now(core, kept, safe) => jumps.note(safe.1.key.replica()),
                Some(_) | None => jumps.fail(),
            }
            if jumps.are_due() {
                continue;
            }
        }
        let Some(Reverse((key, demand, length))) = line.pop() else { break };
        let next = kept.shelves.of(demand).first(Position::Behind(key), ENDLESS);
        line.extend(next.map(|next| Reverse((next.key, demand, next.length))));
        behind = Some(key);
        if !jumps.is_done(key.replica()) {
            jumps.count();
            pass.plan(core, kept, (demand, Waiting { key, length }));
        }
    }
    pass.starts
}

/// The plan of a pass as far as it has been made.
struct PlannedPass<'a> {
    hopes: Vec<StartableDemand>,
    starts: Vec<Planned>,
    trial: Option<Trial>,
    plain: Option<&'a [Planned]>,
}

impl PlannedPass<'_> {
    /// Makes the reservation of a replica.
    fn plan(&mut self, core: &Core, kept: &mut Backfilling, (demand, waiting): (u32, Waiting)) {
        let Waiting { key, length } = waiting;
        let gap = match kept.is_judged(demand) {
            true => gap_judged(core, kept, &mut self.trial, key.replica(), (demand, length)),
            false => gap_by_node(core, kept, key.replica(), (demand, length)),
        };
        self.reserve(core, kept, (demand, waiting), gap);
    }

    /// Makes the reservation of a replica if it starts now. Returns whether it does.
    fn starts_now(&mut self, core: &Core, kept: &mut Backfilling, (demand, waiting): (u32, Waiting)) -> bool {
        let gap = gap_by_node(core, kept, waiting.key.replica(), (demand, waiting.length));
        let starts = gap.not_before == core.now;
        if starts {
            self.reserve(core, kept, (demand, waiting), gap);
        }
        starts
    }

    fn reserve(&mut self, core: &Core, kept: &mut Backfilling, (demand, waiting): (u32, Waiting), gap: Gap) {
        let (Waiting { key, length }, Gap { found, not_before }) = (waiting, gap);
        let (index, hopes) = (key.replica(), &mut self.hopes);
        if let Some(plain) = self.plain {
            let own = plain.iter().find(|planned| planned.replica == index);
            let own = own.map(|planned| (planned.from, planned.candidate.clone()));
            assert_eq!(found, own, "what is reserved is not what is computed");
        }
        let is_seen = found.as_ref().is_some_and(|(from, _)| *from == core.now) && core.is_watched(index);
        let sees = is_seen.then(|| fleet_beside(core, kept, (core.now, end(core.now, length))));
        kept.bookings.learn(kept.alike(demand), length, not_before);
        if let Some((from, candidate)) = &found {
            kept.bookings.book(*from, end(*from, length), &candidate.placement);
            let touched = || candidate.placement.claims().iter().map(|claim| claim.node);
            hopes.iter_mut().for_each(|hope| dim(core, kept, hope, touched()));
        }
        if not_before > core.now {
            hopes.iter_mut().for_each(|hope| refuse(core, kept, hope, demand, length));
        }
        let own = hopes.iter_mut().find(|hope| hope.demand == demand);
        if let Some(hope) = own.filter(|hope| hope.next.is_some_and(|next| next.key <= key)) {
            hope.next = next_hope(core, kept, hope, Position::Behind(key));
        }
        let start = found.filter(|(from, _)| *from == core.now);
        self.starts.extend(start.map(|(from, candidate)| Planned { replica: index, from, candidate, sees }));
    }
}

/// Finds, for each of these demands, which others ask for at most as much of every node. Demands about which single
/// nodes say the same count as one. Does nothing if there are too many.
fn compare(core: &Core, kept: &mut Backfilling, demands: &[u32]) {
    let mut demands: Vec<u32> = demands.iter().map(|demand| kept.alike(*demand)).collect();
    demands.sort_unstable();
    demands.dedup();
    kept.bookings.no_more.clear();
    let mut compared = std::mem::take(&mut kept.compared);
    if compared.len() > 16 * MOST_COMPARED * MOST_COMPARED {
        compared.clear();
    }
    let options = &core.profile.scheduler;
    // A task with fewer GPUs needs more cores that are not restricted to GPUs, if it needs as many cores.
    let is_restricted = core.fleet.shapes().iter().any(|group| group.shape.restricted_cores_per_gpu() > 0);
    for demand in &demands {
        let mut is_no_more = |number: &u32| {
            if *number == *demand || demands.len() > MOST_COMPARED {
                return *number == *demand;
            }
            let Some((one, other)) = kept.by_node(core, *number).zip(kept.by_node(core, *demand)) else { return false };
            let is_alike = !is_restricted || one.gpus() == other.gpus();
            is_alike && *compared.entry((*number, *demand)).or_insert_with(|| asks_no_more(options, one, other))
        };
        let own = demands.iter().copied().filter(|number| is_no_more(number)).collect();
        kept.bookings.no_more.insert(*demand, own);
    }
    kept.compared = compared;
}

/// The fleet without all claims that exist at some time in this span.
fn fleet_beside(core: &Core, kept: &Backfilling, (from, until): (SimTime, SimTime)) -> Fleet {
    let mut fleet = core.fleet.clone();
    let mut claims = SmallVec::new();
    for (node, _) in core.fleet.iter() {
        kept.calendar.held_on(node).for_each(|held| fleet.release(held.claim()));
        let spans = kept.spans(node, core.now).filter(|(begins, ends, _)| *begins < until && *ends > from);
        let spans = spans.map(|(begins, ends, part)| (begins, ends, part.claim())).collect();
        claims.extend(most_of_node(spans, from, core.fleet.node(node).shape.restricted_cores_per_gpu()));
    }
    fleet.take(&Placement::new(claims));
    fleet
}

fn startable_demand(core: &Core, kept: &Backfilling, demand: u32, from: Position) -> StartableDemand {
    let mut hope = StartableDemand { demand, rooms: BTreeMap::new(), until: SimTime::MAX, refused: None, next: None };
    if let Some(by_node) = kept.by_node(core, demand) {
        let outlook = kept.outlook(demand);
        hope.rooms = outlook.open.iter().map(|node| (*node, (SimTime::MAX, outlook.room_now(*node)))).collect();
        hope.until = hope.longest(by_node.tasks);
    }
    hope.next = next_hope(core, kept, &hope, from);
    hope
}

/// The next replica, from this position on, that is short enough for the free time.
fn next_hope(core: &Core, kept: &Backfilling, hope: &StartableDemand, from: Position) -> Option<Waiting> {
    let free = match hope.until {
        SimTime::MAX => ENDLESS,
        until => until.checked_since(core.now).filter(|most| !most.is_zero())?,
    };
    let shorter =
        hope.refused.map_or(Some(ENDLESS), |refused| (!refused.is_zero()).then(|| refused.saturating_sub(MOMENT)));
    kept.shelves.of(hope.demand).first(from, free.min(shorter?))
}

/// Notes that a replica of this demand and length does not start now.
fn refuse(core: &Core, kept: &Backfilling, hope: &mut StartableDemand, demand: u32, length: SimDuration) {
    let Some(next) = hope.next else { return };
    let is_news = hope.refused.is_none_or(|refused| length < refused);
    if is_news && kept.bookings.no_more[&kept.alike(hope.demand)].contains(&kept.alike(demand)) {
        hope.refused = Some(length);
        if next.length >= length {
            hope.next = next_hope(core, kept, hope, Position::At(next.key));
        }
    }
}

/// Updates the room of a hope after new reservations on these nodes.
fn dim(core: &Core, kept: &Backfilling, hope: &mut StartableDemand, touched: impl Iterator<Item = NodeId>) {
    let Some((next, demand)) = hope.next.zip(kept.by_node(core, hope.demand)) else { return };
    let mut is_dimmed = false;
    for node in touched {
        let Some((until, _)) = hope.rooms.get_mut(&node) else { continue };
        is_dimmed = true;
        match free_until(core, kept, (hope.demand, demand), node, core.now) {
            Some(free_until) => *until = free_until,
            None => drop(hope.rooms.remove(&node)),
        }
    }
    if is_dimmed {
        hope.until = hope.longest(demand.tasks);
        hope.next = next_hope(core, kept, hope, Position::At(next.key));
    }
}

/// The time until which a node has room for a task that begins at this time. `None` if it has no room then.
fn free_until(
    core: &Core,
    kept: &Backfilling,
    (number, demand): (u32, &Demand),
    node: NodeId,
    from: SimTime,
) -> Option<SimTime> {
    let asked = Asked { demand, outlook: kept.outlook(number), length: MOMENT };
    let has_room = |until: SimTime| room_in(core, kept, asked, node, (from, until.saturating_add(MOMENT))).is_some();
    if !has_room(from) {
        return None;
    }
    let begins = kept.bookings.on(node).iter().map(|booking| booking.from).filter(|begins| *begins > from);
    let mut begins: SmallVec<[SimTime; 16]> = begins.collect();
    begins.sort_unstable();
    begins.dedup();
    // In a longer time, there is never more room.
    let most = begins.partition_point(|begins| has_room(*begins));
    Some(begins.get(most).copied().unwrap_or(SimTime::MAX))
}

/// The gap for a demand that is decided node by node.
fn gap_by_node(core: &Core, kept: &Backfilling, index: ReplicaIndex, (number, length): (u32, SimDuration)) -> Gap {
    let asked = Asked { demand: core.store.demand(number), outlook: kept.outlook(number), length };
    let found = first_gap(core, kept, asked, index, kept.bookings.earliest(number, length));
    Gap { not_before: found.as_ref().map_or(SimTime::MAX, |(from, _)| *from), found }
}

/// The first time, not before `earliest`, at which there is room on single nodes, and the place there.
fn first_gap(
    core: &Core,
    kept: &Backfilling,
    asked: Asked,
    index: ReplicaIndex,
    earliest: SimTime,
) -> Option<(SimTime, Candidate)> {
    let Asked { demand, outlook, .. } = asked;
    if earliest == SimTime::MAX {
        return None;
    }
    if earliest <= core.now && outlook.fits_now(demand.tasks) {
        let nodes: Vec<_> = with_room(core, kept, asked, core.now, outlook.open.iter().copied()).collect();
        if let Some(candidate) = choose(core, index, demand, nodes) {
            return Some((core.now, candidate));
        }
    }
    let soon = core.now.saturating_add(MOMENT);
    let of_what_runs =
        if outlook.fits_now(demand.tasks) { soon } else { outlook.fits_at(demand.tasks, &kept.calendar)? };
    let from = earliest.max(of_what_runs).max(soon);
    match demand.tasks {
        1 => gap_on_one(core, kept, asked, index, from),
        _ => gap_on_several(core, kept, asked, index, from),
    }
}

/// The gap for a demand with one task. On each node, a gap begins only at an end of a claim.
fn gap_on_one(
    core: &Core,
    kept: &Backfilling,
    asked: Asked,
    index: ReplicaIndex,
    from: SimTime,
) -> Option<(SimTime, Candidate)> {
    let is_first_best = core.profile.scheduler.scorers.is_empty();
    let mut ends = kept.ends_from(from).peekable();
    let mut nodes: Vec<(NodeId, NodeStatus)> = Vec::new();
    while let Some((at, node)) = ends.next() {
        if !is_first_best || nodes.is_empty() {
            nodes.extend(with_room(core, kept, asked, at, [node]).map(|(node, status, _)| (node, status)));
        }
        let is_last = ends.peek().is_none_or(|(next, _)| *next > at);
        if is_last && !nodes.is_empty() {
            let candidate = decide_on(core, index, asked.demand, &nodes).expect("a node has room");
            return Some((at, candidate));
        }
    }
    None
}

/// The gap for a demand with several tasks: the first time at which enough nodes have room. A node is examined again
/// only when a claim on it begins or ends.
fn gap_on_several(
    core: &Core,
    kept: &Backfilling,
    asked: Asked,
    index: ReplicaIndex,
    from: SimTime,
) -> Option<(SimTime, Candidate)> {
    let (mut at, _) = kept.ends_from(from).next()?;
    let mut rooms = vec![0_u32; core.fleet.len()];
    let mut room: u64 = 0;
    let mut due: BinaryHeap<Reverse<(SimTime, NodeId)>> = BinaryHeap::new();
    let is_one = |node: &NodeId| asked.outlook.may_do[core.fleet.shape_index(*node)];
    due.extend(core.fleet.iter().map(|(node, _)| node).filter(is_one).map(|node| Reverse((at, node))));
    while let Some(Reverse((next, _))) = due.peek() {
        at = *next;
        while let Some(Reverse((_, node))) = due.peek().copied().filter(|Reverse((when, _))| *when == at) {
            due.pop();
            let found = room_in(core, kept, asked, node, (at, end(at, asked.length))).map_or(0, |(_, room)| room);
            let before = std::mem::replace(&mut rooms[node.index()], found);
            room = room + u64::from(found) - u64::from(before);
            due.extend(kept.next_change(node, (core.now, at), asked.length).map(|when| Reverse((when, node))));
        }
        if room >= u64::from(asked.demand.tasks) {
            let open = rooms.iter().enumerate().filter(|(_, room)| **room > 0).map(|(node, _)| NodeId::new(node));
            let nodes = with_room(core, kept, asked, at, open.collect::<Vec<_>>()).collect();
            return choose(core, index, asked.demand, nodes).map(|candidate| (at, candidate));
        }
    }
    None
}

/// The best places on these nodes, if the nodes have room for all tasks together.
fn choose(
    core: &Core,
    index: ReplicaIndex,
    demand: &Demand,
    nodes: Vec<(NodeId, NodeStatus, u32)>,
) -> Option<Candidate> {
    let room: u64 = nodes.iter().map(|(.., room)| u64::from(*room)).sum();
    let nodes: Vec<_> = nodes.into_iter().map(|(node, status, _)| (node, status)).collect();
    (room >= u64::from(demand.tasks)).then(|| decide_on(core, index, demand, &nodes)).flatten()
}

fn decide_on(core: &Core, index: ReplicaIndex, demand: &Demand, nodes: &[(NodeId, NodeStatus)]) -> Option<Candidate> {
    let context = core.context(core.store[index].attempt_id());
    decide_among(&core.profile.scheduler, demand, context, &core.fleet, nodes)
}

/// Those nodes that have room from this time on for the whole length.
fn with_room<'a>(
    core: &'a Core,
    kept: &'a Backfilling,
    asked: Asked<'a>,
    from: SimTime,
    nodes: impl IntoIterator<Item = NodeId> + 'a,
) -> impl Iterator<Item = (NodeId, NodeStatus, u32)> + 'a {
    let within = (from, end(from, asked.length));
    nodes.into_iter().filter_map(move |node| {
        let (status, room) = room_in(core, kept, asked, node, within)?;
        Some((node, status, room))
    })
}
