//! The future room for one demand, if all attempts end as estimated: for each node, how many tasks of the demand it
//! could hold now and after each end. The outlook is kept between passes, and updated when a node changes.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::calendar::Calendar;
use dryrack_fleet::{Fleet, NodeClaim, NodeStatus};
use dryrack_ids::NodeId;
use dryrack_scheduler::{SchedulerOptions, may_ever_do, room as room_of};
use dryrack_units::SimTime;
use dryrack_workload::Demand;

#[derive(Clone, Debug, Default)]
pub struct Outlook {
    read: u64,
    /// For each shape of nodes, whether a node of this shape could ever hold a task.
    pub may_do: Vec<bool>,
    nodes: Vec<Rooms>,
    /// Number of tasks that all nodes together have room for now.
    room: i64,
    /// By how many tasks this number changes at each end.
    changes: BTreeMap<SimTime, i64>,
    /// Nodes that have room for a task now.
    pub open: BTreeSet<NodeId>,
}

/// The room of a node now, and after each end at which the room changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rooms {
    now: u32,
    then: SmallVec<[(SimTime, u32); 2]>,
}

impl Rooms {
    fn at(&self, at: SimTime) -> u32 {
        self.then.iter().rev().find(|(from, _)| *from <= at).map_or(self.now, |(_, room)| *room)
    }
}

impl Outlook {
    /// Applies the changes since the last update.
    pub fn update(&mut self, options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, calendar: &Calendar) {
        let known = self.may_do.len();
        self.may_do.extend(fleet.shapes()[known..].iter().map(|group| may_ever_do(options, demand, group)));
        self.nodes.resize_with(fleet.len(), Rooms::default);
        let read = std::mem::replace(&mut self.read, fleet.node_change_count());
        for node in fleet.changed_nodes(read) {
            if !self.may_do[fleet.shape_index(node)] {
                continue;
            }
            let rooms = rooms(options, demand, fleet, calendar, node);
            self.replace(node, rooms);
        }
    }

    fn replace(&mut self, node: NodeId, new: Rooms) {
        let old = std::mem::take(&mut self.nodes[node.index()]);
        if old == new {
            self.nodes[node.index()] = new;
            return;
        }
        for (rooms, sign) in [(&old, -1), (&new, 1)] {
            self.room += sign * i64::from(rooms.now);
            let mut before = rooms.now;
            for (at, room) in &rooms.then {
                let sum = self.changes.entry(*at).or_default();
                *sum += sign * (i64::from(*room) - i64::from(before));
                if *sum == 0 {
                    self.changes.remove(at);
                }
                before = *room;
            }
        }
        match new.now {
            0 => self.open.remove(&node),
            _ => self.open.insert(node),
        };
        self.nodes[node.index()] = new;
    }

    /// The number of tasks for which the node has room now.
    pub fn room_now(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].now
    }

    /// Whether the nodes together have room for this many tasks now.
    pub fn fits_now(&self, tasks: u32) -> bool {
        self.room >= i64::from(tasks)
    }

    /// The first end of an attempt after which this many tasks fit.
    pub fn fits_at(&self, tasks: u32, calendar: &Calendar) -> Option<SimTime> {
        let (first, tasks) = (calendar.first_end()?, i64::from(tasks));
        let mut room = self.room + self.changes.range(..=first).map(|(_, change)| change).sum::<i64>();
        if room >= tasks {
            return Some(first);
        }
        self.changes.iter().filter(|(at, _)| **at > first).find_map(|(at, change)| {
            room += change;
            (room >= tasks).then_some(*at)
        })
    }

    /// Whether all tasks fit at this time, if another replica holds these claims from now on.
    pub fn fits_beside(
        &self,
        (options, demand): (&SchedulerOptions, &Demand),
        (fleet, calendar): (&Fleet, &Calendar),
        at: SimTime,
        claims: &[NodeClaim],
    ) -> bool {
        let mut room = self.room + self.changes.range(..=at).map(|(_, change)| change).sum::<i64>();
        for claim in claims.iter().filter(|claim| self.may_do[fleet.shape_index(claim.node)]) {
            let mut status = fleet.node(claim.node).status.clone();
            calendar.held_on(claim.node).filter(|held| held.until <= at).for_each(|held| {
                fleet.without_claim(&mut status, held.claim());
            });
            fleet.with_claim(&mut status, claim);
            room += i64::from(room_of(options, demand, fleet, claim.node, &status));
            room -= i64::from(self.nodes[claim.node.index()].at(at));
        }
        room >= i64::from(demand.tasks)
    }
}

/// How many tasks of a demand one node has room for, now and after each end.
fn rooms(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, calendar: &Calendar, node: NodeId) -> Rooms {
    let mut status: NodeStatus = fleet.node(node).status.clone();
    let now = room_of(options, demand, fleet, node, &status);
    let mut rooms = Rooms { now, then: SmallVec::new() };
    let mut before = now;
    let mut held = calendar.held_on(node).take_while(|held| held.until < SimTime::MAX).peekable();
    while let Some(next) = held.next() {
        fleet.without_claim(&mut status, next.claim());
        if held.peek().is_some_and(|after| after.until == next.until) {
            continue;
        }
        let room = room_of(options, demand, fleet, node, &status);
        if room != before {
            rooms.then.push((next.until, room));
            before = room;
        }
    }
    rooms
}
