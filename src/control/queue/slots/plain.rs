//! The plain computation of slots. It keeps no results and examines everything in each pass. The results of [`super`]
//! are checked against it.

use super::planned::Plan;
use super::time::{CLOSE, SECOND, YEAR, down_to, earlier, is_stopping};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::backfill::ends::{HeldPlacement, held_until};
use crate::queue::backfill::plain::judge_on;
use crate::queue::slurm::Ground;
use dryrack_fleet::{Fleet, NodeState, Placement};
use dryrack_ids::NodeId;
use dryrack_scheduler::{Candidate, Outlook, SlotOptions};
use dryrack_units::{SimDuration, SimTime};

#[cfg(test)]
mod tests;

/// A set of nodes, by their index.
#[derive(Clone, Debug, PartialEq)]
pub struct Nodes(Vec<bool>);

impl Nodes {
    fn and(&self, other: &Nodes) -> Nodes {
        Nodes(self.0.iter().zip(&other.0).map(|(one, other)| *one && *other).collect())
    }

    fn is_within(&self, other: &Nodes) -> bool {
        self.0.iter().zip(&other.0).all(|(one, other)| !*one || *other)
    }

    pub fn of(nodes: impl Iterator<Item = NodeId>, len: usize) -> Nodes {
        let mut set = Nodes(vec![false; len]);
        nodes.for_each(|node| set.0[node.index()] = true);
        set
    }

    fn nodes(&self) -> Vec<NodeId> {
        (0..self.0.len()).map(NodeId::new).filter(|node| self.has(*node)).collect()
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.0[node.index()]
    }
}

#[derive(Clone, Debug)]
struct Slot {
    from: SimTime,
    until: SimTime,
    free: Nodes,
}

/// The table: slots in order, without gaps.
pub struct Table {
    now: SimTime,
    options: SlotOptions,
    slots: Vec<Slot>,
}

impl Table {
    pub fn new(now: SimTime, options: SlotOptions, nodes: usize) -> Table {
        let all = Slot { from: now, until: now.saturating_add(options.window), free: Nodes(vec![true; nodes]) };
        Table { now, options, slots: vec![all] }
    }

    pub fn of<N: Iterator<Item = NodeId>>(
        now: SimTime,
        options: SlotOptions,
        nodes: usize,
        slots: impl Iterator<Item = ((SimTime, SimTime), N)>,
    ) -> Table {
        let slot = |((from, until), free): ((SimTime, SimTime), N)| Slot { from, until, free: Nodes::of(free, nodes) };
        Table { now, options, slots: slots.map(slot).collect() }
    }

    /// The nodes of `usable` that are free from this time on for the whole length. Also returns the next time to try if
    /// these nodes
    /// are not enough: the end of the first slot after which other nodes are free.
    fn free_for(&self, from: SimTime, length: SimDuration, usable: &Nodes) -> (Nodes, Option<SimTime>) {
        let until = from.max(self.now).saturating_add(length);
        let mut free = usable.clone();
        let mut later = None;
        for (place, slot) in self.slots.iter().enumerate() {
            let next = self.slots.get(place + 1);
            if let (None, true, Some(next)) = (later, slot.until > from, next)
                && !next.free.and(usable).is_within(&free.and(&slot.free))
            {
                later = Some(slot.until);
            }
            if slot.until <= from {
                continue;
            }
            if slot.from > until {
                if later.is_none() && self.options.outlook == Outlook::FromStart {
                    continue;
                }
                break;
            }
            free = free.and(&slot.free);
        }
        (free, later)
    }

    fn is_taken(&self, from: SimTime, length: SimDuration, nodes: &Nodes) -> bool {
        let (from, until) = self.options.span(from, length);
        self.slots.iter().any(|slot| slot.until > from && slot.from < until && !nodes.is_within(&slot.free))
    }

    pub fn reserve(&mut self, from: SimTime, length: SimDuration, nodes: &[NodeId]) {
        let nodes = Nodes::of(nodes.iter().copied(), self.slots[0].free.0.len());
        let (from, until) = self.options.span(from, length);
        let from = from.max(self.now);
        let until = until.max(from.saturating_add(self.options.resolution));
        let before = self.cut(from);
        self.cut(until);
        let of_it = |slot: &Slot| slot.from >= from && slot.until <= until && slot.from < slot.until;
        for slot in self.slots.iter_mut().filter(|slot| of_it(slot)) {
            slot.free = Nodes(slot.free.0.iter().zip(&nodes.0).map(|(free, taken)| *free && !*taken).collect());
        }
        self.merge(before.saturating_sub(1), until);
    }

    /// Splits a slot so that one slot ends at this time. Returns the place of that slot.
    fn cut(&mut self, at: SimTime) -> usize {
        let past = self.slots.len() - 1;
        let place = self.slots.iter().position(|slot| slot.until >= at).unwrap_or(past);
        if self.slots[place].until > at {
            let after = Slot { from: at, ..self.slots[place].clone() };
            self.slots[place].until = at;
            self.slots.insert(place + 1, after);
        }
        place
    }

    /// Merges the first two neighbours with equal free nodes, among the slots from `from` to the first slot that begins
    /// at `until`. Only one pair is merged, so the table depends on the order of the reservations. This matters because
    /// a job is planned again at the end of a slot.
    fn merge(&mut self, from: usize, until: SimTime) {
        for place in from..self.slots.len() - 1 {
            if place > from && self.slots[place].from >= until {
                return;
            }
            if self.slots[place].free == self.slots[place + 1].free {
                self.slots[place].until = self.slots[place + 1].until;
                self.slots.remove(place + 1);
                return;
            }
        }
    }
}

fn in_seconds(held: HeldPlacement) -> (SimTime, ReplicaIndex, Placement) {
    let until = if held.until == SimTime::MAX { held.until } else { down_to(held.until, SECOND) };
    (until, held.replica, held.placement)
}

/// Plans a replica that may preempt the replicas in `preemptible`. Tries every time and every end from the beginning,
/// each on a copy of the fleet.
pub(super) fn plan_plainly(
    core: &Core,
    index: ReplicaIndex,
    table: &Table,
    ground: Option<Ground<'_>>,
    preemptible: &[ReplicaIndex],
) -> Plan {
    let job = core.store[index].job;
    let length = core.store[job].spec.estimate.unwrap_or(YEAR);
    let usable = |from: SimTime| match ground {
        Some(ground) => Nodes::of(ground.nodes(from, length).into_iter(), core.fleet.len()),
        None => Nodes(vec![true; core.fleet.len()]),
    };
    let mut from = table.now;
    loop {
        if ground.is_some_and(|ground| ground.is_over(from)) {
            return Plan::Nothing;
        }
        let (free, later) = table.free_for(from, length, &usable(from));
        let opens = ground.and_then(|ground| ground.opens(from, length, table.options.resolution));
        let later = earlier(later, opens.filter(|opens| *opens < table.now.saturating_add(table.options.window)));
        let first = first_start(core, index, &free, (from, table), preemptible);
        let Some(Found { start, candidate, preempts }) = first else {
            let Some(later) = later else { return Plan::Nothing };
            from = later;
            continue;
        };
        let mut start = start.max(from);
        let mut later = later;
        if start <= table.now && !is_completing(core, &candidate) {
            return match preempts {
                true => {
                    Plan::Preempt(candidate.placement.claims().iter().map(|claim| claim.node).collect(), free.nodes())
                }
                false => Plan::Start(candidate, free.nodes()),
            };
        }
        if start <= table.now {
            (start, later) = (table.now.saturating_add(SECOND), None);
        }
        if let Some(later) = later.filter(|later| start > *later) {
            from = later;
            continue;
        }
        if start > table.now.saturating_add(table.options.window) {
            return Plan::Nothing;
        }
        let nodes = Nodes::of(candidate.placement.claims().iter().map(|claim| claim.node), core.fleet.len());
        if !table.is_taken(start, length, &nodes) {
            let nodes = candidate.placement.claims().iter().map(|claim| claim.node).collect();
            return Plan::Reserve(start, nodes);
        }
        // Planning again from the same time would give the same result.
        if start == from {
            return Plan::Nothing;
        }
        from = start;
    }
}

/// Whether an attempt is completing on the nodes of the candidate, so that its resources are about to be free.
fn is_completing(core: &Core, candidate: &Candidate) -> bool {
    let touched = |kept: &Placement| candidate.placement.claims().iter().any(|claim| kept.touches(claim.node));
    let stops = |node: NodeId| core.nodes[node.index()].replicas.iter().any(|index| is_stopping(core, *index));
    core.kept.claims.values().any(touched) || candidate.placement.claims().iter().any(|claim| stops(claim.node))
}

/// The fleet with only these nodes, and without the claims of attempts that are completing or being stopped.
pub(in crate::queue) fn fleet_of(core: &Core, free: &Nodes) -> Fleet {
    let mut fleet = fleet_with_only(core, free);
    for kept in core.kept.claims.values().flat_map(|kept| kept.claims()) {
        fleet.release(kept);
    }
    for index in core.holders().into_iter().filter(|index| is_stopping(core, *index)) {
        core.store.placement_of(index).claims().iter().for_each(|claim| fleet.release(claim));
    }
    fleet
}

/// The fleet with only these nodes.
pub(in crate::queue) fn fleet_with_only(core: &Core, free: &Nodes) -> Fleet {
    let mut fleet = core.fleet.clone();
    for node in 0..free.0.len() {
        let node = NodeId::new(node);
        if !free.has(node) {
            fleet.set_node_state(node, NodeState::NotReady);
        }
    }
    fleet
}

/// When and where a replica fits.
struct Found {
    start: SimTime,
    candidate: Candidate,
    /// Whether it fits only if jobs are preempted.
    preempts: bool,
}

/// A fleet, and the attempts that will end on it, in order of their time limits.
type Future = (Fleet, Vec<(SimTime, ReplicaIndex, Placement)>);

/// The fleet for a replica that may begin from a time on, without the replicas in `gone`.
fn future(core: &Core, free: &Nodes, (from, table): (SimTime, &Table), gone: &[ReplicaIndex]) -> Future {
    let mut fleet = fleet_of(core, free);
    let held = held_until(core).into_iter().filter(|held| !is_stopping(core, held.replica));
    let (away, held) = held.map(in_seconds).partition(|(_, replica, _)| gone.contains(replica));
    let (away, mut held): (Vec<_>, Vec<_>) = (away, held);
    let mut release = |placement: Placement| placement.claims().iter().for_each(|claim| fleet.release(claim));
    away.into_iter().for_each(|(.., placement)| release(placement));
    held.sort_unstable_by_key(|(until, replica, _)| (*until, *replica));
    held.retain(|(until, ..)| *until < SimTime::MAX);
    if table.options.outlook == Outlook::FromStart && from > table.now {
        let over = held.partition_point(|(until, ..)| *until <= from);
        held.drain(..over).for_each(|(.., placement)| release(placement));
    }
    (fleet, held)
}

/// When and where a replica that may begin from a time on fits on these nodes, if all attempts end at their time
/// limits. It may preempt the replicas in `preemptible`.
fn first_start(
    core: &Core,
    index: ReplicaIndex,
    free: &Nodes,
    (from, table): (SimTime, &Table),
    preemptible: &[ReplicaIndex],
) -> Option<Found> {
    let now = table.now;
    let (mut fleet, mut held) = future(core, free, (from, table), &[]);
    if let Some(candidate) = judge_on(core, index, &fleet) {
        return Some(Found { start: now, candidate, preempts: false });
    }
    if !preemptible.is_empty() {
        (fleet, held) = future(core, free, (from, table), preemptible);
        if let Some(candidate) = judge_on(core, index, &fleet) {
            return Some(Found { start: now, candidate, preempts: true });
        }
    }
    let mut reach = None;
    let mut close = CLOSE;
    let mut rest = held.iter().peekable();
    while rest.peek().is_some() {
        let mut last = None;
        while let Some((until, _, placement)) = rest.next() {
            // Attempts that hold none of these nodes are skipped. For such an attempt, the distance to the next end is
            // not checked.
            if !placement.claims().iter().any(|claim| free.has(claim.node)) {
                continue;
            }
            placement.claims().iter().for_each(|claim| fleet.release(claim));
            last = Some(*until);
            let from = *reach.get_or_insert(down_to(*until, CLOSE).saturating_add(CLOSE));
            if rest.peek().is_some_and(|(next, ..)| *next > from.saturating_add(close)) {
                break;
            }
        }
        let (from, last) = (reach?, last?);
        close = close.saturating_mul(2);
        while rest.peek().is_some_and(|(next, ..)| *next > from.saturating_add(close)) {
            close = close.saturating_mul(2);
        }
        if let Some(candidate) = judge_on(core, index, &fleet) {
            // An attempt that is over its time limit is about to end.
            let start = last.max(now.saturating_add(SECOND));
            return Some(Found { start, candidate, preempts: false });
        }
    }
    None
}
