//! The future of each node, if all attempts end at their time limits: the ends of its attempts, and how many tasks of a
//! demand would fit after each end. Both are kept from pass to pass. They are computed again only for nodes that have
//! changed.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::bits::{contains, insert, nodes_of, word_count};
use super::table::Table;
use super::time::{CLOSE, SECOND, down_to, is_stopping};
use crate::core::Core;
use crate::core::store::ReplicaIndex;
use crate::queue::backfill::kept::Bound;
use dryrack_event::Phase;
use dryrack_fleet::{NodeStatus, Placement};
use dryrack_ids::{AttemptId, NodeId};
use dryrack_scheduler::{Outlook, implied, is_by_room, room};
use dryrack_units::{MilliCpu, SimDuration, SimTime};
use dryrack_workload::Demand;

/// The end of an attempt. Ends are sorted by time. At equal times, the lower replica index comes first.
pub type AttemptEndTime = (SimTime, ReplicaIndex);

struct End {
    at: AttemptEndTime,
    placement: Placement,
}

/// The future ends of attempts on one node.
#[derive(Default)]
struct NodeEnds {
    /// The version of the node's status, and the ended attempts whose claims on the node are assumed to be free.
    version: u64,
    kept: SmallVec<[AttemptId; 1]>,
    /// The replicas on the node that are assumed to be gone.
    gone: SmallVec<[ReplicaIndex; 1]>,
    ends: SmallVec<[AttemptEndTime; 4]>,
    /// Changes to a new number whenever the line changes.
    generation: u64,
    /// Free cores now and after each end.
    cores: SmallVec<[MilliCpu; 4]>,
}

/// The room of one node for one demand.
#[derive(Default)]
struct NodeRooms {
    /// The generation of the line from which this room was computed.
    generation: u64,
    /// Room now and after each end.
    rooms: SmallVec<[u32; 6]>,
    /// When the node first has room for a task.
    ready: Option<SimTime>,
}

/// The room of all nodes for one demand.
#[derive(Default)]
pub struct Rooms {
    read: u64,
    nodes: Vec<NodeRooms>,
    /// The largest number of tasks that one node ever has room for.
    pub most: u32,
    /// Number of tasks that all nodes together have room for now.
    pub total: u64,
    /// Times at which more nodes get room for a task. For each time, `sets` holds all nodes that have had room by then,
    /// as bits.
    times: Vec<SimTime>,
    sets: Vec<u64>,
    nobody: Vec<u64>,
}

impl Rooms {
    /// The nodes that have had room for a task at some time until then.
    pub fn ready_by(&self, at: SimTime) -> &[u64] {
        let words = self.nobody.len();
        match self.times.partition_point(|time| *time <= at) {
            0 => &self.nobody,
            place => &self.sets[(place - 1) * words..place * words],
        }
    }

    /// The first time by which at least `least` of these nodes have had room for a task.
    fn ready_at(&self, free: &[u64], least: u32) -> Option<SimTime> {
        let words = self.nobody.len();
        let mut sets = self.sets.chunks_exact(words);
        let place = sets.position(|set| super::bits::common(set, free, least) >= least)?;
        Some(self.times[place])
    }

    fn gather(&mut self) {
        let words = self.nobody.len();
        self.most = self.nodes.iter().flat_map(|node| node.rooms.iter().copied()).max().unwrap_or(0);
        self.total = self.nodes.iter().map(|node| u64::from(node.rooms[0])).sum();
        let ready = self.nodes.iter().enumerate().filter_map(|(node, rooms)| Some((rooms.ready?, NodeId::new(node))));
        let mut ready: Vec<(SimTime, NodeId)> = ready.collect();
        ready.sort_unstable();
        self.times.clear();
        self.sets.clear();
        for (at, node) in ready {
            if self.times.last() != Some(&at) {
                self.times.push(at);
                let last = self.sets.len().saturating_sub(words);
                match self.sets.is_empty() {
                    true => self.sets.resize(words, 0),
                    false => self.sets.extend_from_within(last..),
                }
            }
            let last = self.sets.len() - words;
            insert(&mut self.sets[last..], node);
        }
    }
}

/// The futures of all nodes, and the room of each demand by its number. Running replicas that may be preempted can be
/// assumed to be gone.
#[derive(Default)]
pub struct FutureEnds {
    generation: u64,
    /// What single nodes say about each demand. An implied demand is no bound if a GPU uses part of the RAM.
    bounds: BTreeMap<u32, Bound>,
    has_pools: bool,
    lines: Vec<NodeEnds>,
    /// Ends in order, without attempts that never end.
    ends: Vec<End>,
    /// For each node, the attempts whose claims are assumed to be free already.
    kept: Vec<(NodeId, AttemptId)>,
    /// The running replicas that are assumed to be preempted, in order.
    preempted: Vec<ReplicaIndex>,
    /// The same and those that are stopping, in order. They are assumed to be gone.
    gone: Vec<ReplicaIndex>,
    rooms: Vec<Option<Box<Rooms>>>,
}

impl FutureEnds {
    /// Reads the current state of all nodes and attempts, as if the replicas in `preempted` were gone.
    pub fn begin(&mut self, core: &Core, preempted: Vec<ReplicaIndex>) {
        self.has_pools = core.fleet.has_unified_gpus();
        self.lines.resize_with(core.fleet.len(), NodeEnds::default);
        let mut running: Vec<ReplicaIndex> = core.nodes.iter().flat_map(|node| node.replicas.iter().copied()).collect();
        running.sort_unstable();
        running.dedup();
        self.gone.clear();
        self.gone.extend(running.iter().copied().filter(|index| is_stopping(core, *index)));
        self.gone.extend(&preempted);
        self.gone.sort_unstable();
        self.preempted = preempted;
        running.retain(|index| self.gone.binary_search(index).is_err());
        self.ends.clear();
        self.ends.extend(running.into_iter().filter_map(|index| end_of(core, index)));
        self.ends.sort_unstable_by_key(|end| end.at);
        let kept = |(attempt, kept): (&AttemptId, &Placement)| {
            kept.claims().iter().map(|it| (it.node, *attempt)).collect::<Vec<_>>()
        };
        self.kept = core.kept.claims.iter().flat_map(kept).collect();
        self.kept.sort_unstable();
        for node in 0..core.fleet.len() {
            self.update_node(core, NodeId::new(node));
        }
    }

    /// The running replicas that are assumed to be preempted.
    pub fn preempted(&self) -> &[ReplicaIndex] {
        &self.preempted
    }

    /// Adds a replica that has just begun.
    pub fn enter(&mut self, core: &Core, index: ReplicaIndex) {
        let end = end_of(core, index);
        if let Some(end) = end {
            let place = self.ends.partition_point(|other| other.at < end.at);
            self.ends.insert(place, end);
        }
        let placement = core.store[index].placement.as_ref();
        for claim in placement.iter().flat_map(|placement| placement.claims()) {
            self.update_node(core, claim.node);
        }
    }

    /// Updates the line of a node that may have changed.
    fn update_node(&mut self, core: &Core, node: NodeId) {
        let line = &mut self.lines[node.index()];
        let version = core.fleet.node(node).version;
        let kept = &self.kept[self.kept.partition_point(|(other, _)| *other < node)..];
        let kept: SmallVec<[AttemptId; 1]> =
            kept.iter().take_while(|(other, _)| *other == node).map(|(_, attempt)| *attempt).collect();
        let replicas = core.nodes[node.index()].replicas.iter().copied();
        let is_gone = |index: &ReplicaIndex| self.gone.binary_search(index).is_ok();
        let mut gone: SmallVec<[ReplicaIndex; 1]> = replicas.clone().filter(is_gone).collect();
        gone.sort_unstable();
        let stays = replicas.filter(|index| !is_gone(index));
        let mut ends: SmallVec<[AttemptEndTime; 4]> = stays.filter_map(|index| moment_of(core, index)).collect();
        ends.sort_unstable();
        let is_same = line.generation > 0
            && line.version == version
            && line.kept == kept
            && line.gone == gone
            && line.ends == ends;
        if is_same {
            return;
        }
        self.generation += 1;
        *line = NodeEnds { version, kept, gone, ends, generation: self.generation, cores: SmallVec::new() };
        let mut cores = SmallVec::new();
        let shape = &core.fleet.node(node).shape;
        each_status(core, node, line, |status| cores.push(status.cpu_free(shape)));
        line.cores = cores;
    }

    /// The demand that must have room on single nodes if this one fits: the demand itself if single nodes decide about it.
    /// `None` if no such demand is known.
    pub fn by_node<'a>(&'a self, core: &'a Core, number: u32) -> Option<&'a Demand> {
        match &self.bounds[&number] {
            Bound::Exact => Some(core.store.demand(number)),
            Bound::Implied(demand) => Some(demand).filter(|_| !self.has_pools),
            Bound::Nothing => None,
        }
    }

    /// Learns what single nodes say about a demand, and counts their room for it in their current state. Returns whether
    /// they say anything.
    pub fn count_room(&mut self, core: &Core, number: u32) -> bool {
        let options = &core.profile.scheduler;
        let demand = core.store.demand(number);
        self.bounds.entry(number).or_insert_with(|| match is_by_room(options, demand) {
            true => Bound::Exact,
            false => implied(options, demand).map_or(Bound::Nothing, Bound::Implied),
        });
        let Some(demand) = self.by_node(core, number) else { return false };
        let known = self.rooms.get(number as usize).and_then(Option::as_ref);
        if known.is_none_or(|rooms| rooms.read != self.generation) {
            let demand = demand.clone();
            self.rooms(core, number, &demand);
        }
        true
    }

    fn rooms(&mut self, core: &Core, number: u32, demand: &Demand) {
        let place = number as usize;
        if self.rooms.len() <= place {
            self.rooms.resize_with(place + 1, || None);
        }
        let rooms = self.rooms[place].get_or_insert_default();
        rooms.read = self.generation;
        rooms.nodes.resize_with(self.lines.len(), NodeRooms::default);
        rooms.nobody.resize(word_count(self.lines.len()), 0);
        let options = &core.profile.scheduler;
        for (number, (line, of_node)) in self.lines.iter().zip(&mut rooms.nodes).enumerate() {
            if of_node.generation == line.generation {
                continue;
            }
            let node = NodeId::new(number);
            of_node.generation = line.generation;
            of_node.rooms.clear();
            each_status(core, node, line, |status| {
                of_node.rooms.push(room(options, demand, &core.fleet, node, status));
            });
            let first = of_node.rooms.iter().position(|room| *room > 0);
            of_node.ready = first.map(|step| step.checked_sub(1).map_or(SimTime::ZERO, |end| line.ends[end].0));
        }
        rooms.gather();
    }

    /// Returns the result of the last [`FutureEnds::count_room`]. Nothing may have changed since that call.
    pub fn known(&self, demand: u32) -> &Rooms {
        self.rooms[demand as usize].as_deref().expect("it was asked for")
    }

    fn step(&self, node: NodeId, by: Option<AttemptEndTime>) -> usize {
        by.map_or(0, |by| self.lines[node.index()].ends.partition_point(|end| *end <= by))
    }

    /// Room and free cores of each of these nodes, once all attempts that end by this moment have ended.
    pub fn standing<'a>(
        &'a self,
        rooms: &'a Rooms,
        free: &'a [u64],
        by: Option<AttemptEndTime>,
    ) -> impl Iterator<Item = (NodeId, u32, MilliCpu)> + 'a {
        nodes_of(free).map(move |node| {
            let step = self.step(node, by);
            (node, rooms.nodes[node.index()].rooms[step], self.lines[node.index()].cores[step])
        })
    }

    /// Whether these nodes have room for this many tasks, once all attempts that end by this moment have ended.
    pub fn has_room(&self, rooms: &Rooms, free: &[u64], by: Option<AttemptEndTime>, tasks: u32) -> bool {
        let mut sum = 0;
        self.standing(rooms, free, by).any(|(_, room, _)| {
            sum += u64::from(room);
            sum >= u64::from(tasks)
        })
    }

    /// The generation of a node's line, and how many of its attempts have ended by this moment.
    pub fn state(&self, node: NodeId, by: Option<AttemptEndTime>) -> (u64, usize) {
        (self.lines[node.index()].generation, self.step(node, by))
    }

    /// The status of a node after this many of its attempts have ended. Claims that ended attempts still keep are assumed
    /// to be free already.
    pub fn status_after(&self, core: &Core, node: NodeId, ended: usize) -> NodeStatus {
        let line = &self.lines[node.index()];
        let mut status = status_now(core, node, line);
        for (_, replica) in &line.ends[..ended] {
            give_back(core, &mut status, (node, placement_of(core, *replica)));
        }
        status
    }

    /// The first time at which a replica that may begin from a time on fits on at least `least` of these nodes, if all
    /// attempts end at their time limits. `fits` says whether it fits once all attempts that end by a moment have ended.
    /// Also returns the end after which it fits; `None` if it fits now.
    pub fn first_start(
        &self,
        rooms: &Rooms,
        (free, least): (&[u64], u32),
        (from, table): (SimTime, &Table),
        mut fits: impl FnMut(Option<AttemptEndTime>) -> bool,
    ) -> Option<(SimTime, Option<AttemptEndTime>)> {
        let now = table.now;
        let (over, by) = self.over_by(from, table);
        if fits(by) {
            return Some((now, by));
        }
        // Before the time `ready`, too few nodes have room, so their room need not be added up.
        let ready = rooms.ready_at(free, least)?;
        let (mut next, mut reach, mut close) = (over, None, CLOSE);
        while next < self.ends.len() {
            let (last, after, from) = self.last_close_end(free, next, reach, close)?;
            (next, reach) = (after, Some(from));
            close = close.saturating_mul(2);
            while self.ends.get(next).is_some_and(|end| end.at.0 > from.saturating_add(close)) {
                close = close.saturating_mul(2);
            }
            let by = self.ends[last].at;
            if by.0 >= ready && fits(Some(by)) {
                // An attempt that is over its time limit is about to end.
                return Some((by.0.max(now.saturating_add(SECOND)), Some(by)));
            }
        }
        None
    }

    /// How many ends count as over for a replica that may begin from a time on, and the last of them.
    pub fn over_by(&self, from: SimTime, table: &Table) -> (usize, Option<AttemptEndTime>) {
        let over = match table.options.outlook {
            Outlook::FromStart if from > table.now => self.ends.partition_point(|end| end.at.0 <= from),
            Outlook::FromStart | Outlook::FromNow => 0,
        };
        (over, over.checked_sub(1).map(|last| self.ends[last].at))
    }

    /// Groups ends that are close together, starting with `next`. Only ends on these nodes count. A group ends before
    /// the first end that is too far away. Returns the last end of the group, the place where the next search begins,
    /// and the time from which distances are measured.
    fn last_close_end(
        &self,
        free: &[u64],
        next: usize,
        reach: Option<SimTime>,
        close: SimDuration,
    ) -> Option<(usize, usize, SimTime)> {
        let concerns = |place: &usize| self.ends[*place].placement.claims().iter().any(|it| contains(free, it.node));
        let first = match reach {
            Some(_) => next,
            None => (next..self.ends.len()).find(concerns)?,
        };
        let from = reach.unwrap_or_else(|| down_to(self.ends[first].at.0, CLOSE).saturating_add(CLOSE));
        let far = self.ends.partition_point(|end| end.at.0 <= from.saturating_add(close));
        // The search begins at the end just before the first one that is too far away.
        let least = far.saturating_sub(1).max(first);
        match (least..self.ends.len()).find(concerns) {
            Some(last) => Some((last, last + 1, from)),
            None => (first..least).rev().find(concerns).map(|last| (last, self.ends.len(), from)),
        }
    }
}

/// Calls `each` with the status of a node, now and after each of its future ends. Claims that ended attempts still keep
/// are assumed to be free already.
fn each_status(core: &Core, node: NodeId, line: &NodeEnds, mut each: impl FnMut(&NodeStatus)) {
    let mut status = status_now(core, node, line);
    each(&status);
    for (_, replica) in &line.ends {
        give_back(core, &mut status, (node, placement_of(core, *replica)));
        each(&status);
    }
}

fn placement_of(core: &Core, running: ReplicaIndex) -> &Placement {
    core.store[running].placement.as_ref().expect("what runs has a place")
}

fn status_now(core: &Core, node: NodeId, line: &NodeEnds) -> NodeStatus {
    let mut status = core.fleet.node(node).status.clone();
    line.kept.iter().for_each(|attempt| give_back(core, &mut status, (node, &core.kept.claims[attempt])));
    line.gone.iter().for_each(|replica| give_back(core, &mut status, (node, placement_of(core, *replica))));
    status
}

fn give_back(core: &Core, status: &mut NodeStatus, (node, placement): (NodeId, &Placement)) {
    let shape = &core.fleet.node(node).shape;
    let claims = placement.claims().iter().filter(|claim| claim.node == node);
    claims.for_each(|claim| status.give_back(shape, claim));
}

/// When an attempt ends at its time limit, in whole seconds. `None` if it has no limit.
fn moment_of(core: &Core, index: ReplicaIndex) -> Option<AttemptEndTime> {
    let replica = &core.store[index];
    let estimate = core.store[replica.job].spec.estimate?;
    let since = match replica.phase {
        Phase::Running | Phase::Scheduled => replica.since,
        Phase::Pending | Phase::Analysing | Phase::Preparing | Phase::Stopping | Phase::Ended => core.now,
    };
    let until = since.saturating_add(estimate);
    (until < SimTime::MAX).then(|| (down_to(until, SECOND), index))
}

fn end_of(core: &Core, index: ReplicaIndex) -> Option<End> {
    let at = moment_of(core, index)?;
    let placement = core.store[index].placement.clone().unwrap_or_default();
    Some(End { at, placement })
}
