//! Reservations made in a pass.

use std::collections::{BTreeMap, BTreeSet};

use super::calendar::Part;
use super::ends::MOMENT;
use dryrack_fleet::Placement;
use dryrack_ids::NodeId;
use dryrack_units::{SimDuration, SimTime};

/// Reservations made in a pass.
#[derive(Default)]
pub struct Bookings {
    /// For each node, its reservations.
    pub spans: Vec<Vec<Booking>>,
    /// Nodes that have reservations.
    pub touched: Vec<NodeId>,
    /// When and where reservations end. A job that is past its expected end is assumed to end in the next moment.
    pub ends: BTreeSet<(SimTime, NodeId)>,
    /// For each demand and length, a time before which no replica of at least that length starts. A longer length never
    /// has an earlier time. `MAX` means never.
    pub earliest: BTreeMap<u32, BTreeMap<SimDuration, SimTime>>,
    /// For each demand, the demands that ask for at most as much, including the demand itself.
    pub no_more: BTreeMap<u32, Vec<u32>>,
}

pub struct Booking {
    pub from: SimTime,
    pub until: SimTime,
    pub part: Part,
}

impl Bookings {
    pub fn begin(&mut self, nodes: usize) {
        self.spans.resize_with(nodes, Vec::new);
        for node in self.touched.drain(..) {
            self.spans[node.index()].clear();
        }
        self.ends.clear();
        self.earliest.clear();
    }

    pub fn book(&mut self, from: SimTime, until: SimTime, placement: &Placement) {
        for part in Part::all(placement) {
            let node = part.claim().node;
            self.touched.push(node);
            if until < SimTime::MAX {
                self.ends.insert((until, node));
            }
            self.spans[node.index()].push(Booking { from, until, part });
        }
    }

    pub fn on(&self, node: NodeId) -> &[Booking] {
        &self.spans[node.index()]
    }

    /// A time before which no replica of this demand and length starts. It comes from replicas that ask for at most as
    /// much and are at most as long, because none of them started earlier.
    pub fn earliest(&self, demand: u32, length: SimDuration) -> SimTime {
        let of = |demand: &u32| {
            let by_length = self.earliest.get(demand);
            by_length.and_then(|known| known.range(..=length).next_back()).map_or(SimTime::ZERO, |(_, at)| *at)
        };
        self.no_more[&demand].iter().map(of).max().unwrap_or(SimTime::ZERO)
    }

    pub fn learn(&mut self, demand: u32, length: SimDuration, at: SimTime) {
        let known = self.earliest.entry(demand).or_default();
        let is_less = |(_, known): (&SimDuration, &SimTime)| *known <= at;
        while let Some(length) = known.range(length..).next().filter(|entry| is_less(*entry)).map(|(length, _)| *length)
        {
            known.remove(&length);
        }
        known.insert(length, at);
    }
}

/// For each demand and each shape, whether nodes of this shape may ever hold a task.
pub type MayHold = BTreeMap<u32, Vec<bool>>;

/// When a reservation of this length ends.
pub fn end(from: SimTime, length: SimDuration) -> SimTime {
    from.saturating_add(length.max(MOMENT))
}
