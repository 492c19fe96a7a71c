//! The nodes that a job may use at a time: those of its partition, without those that advance reservations keep from it.

use std::borrow::Cow;

use super::section::{ReservedNodes, Section};
use crate::queue::slots::bits::{contains, nodes_of};
use dryrack_event::Reason;
use dryrack_ids::NodeId;
use dryrack_units::{SimDuration, SimTime};

/// What decides which nodes a job may use.
#[derive(Clone, Copy)]
pub struct Ground<'s> {
    pub section: &'s Section,
    pub reservations: &'s [ReservedNodes],
    /// The index of the job's own reservation.
    pub own: Option<usize>,
}

impl Ground<'_> {
    /// The nodes of the job's partition and of its own reservation.
    fn widest(&self) -> Cow<'_, [u64]> {
        let mut bits = Cow::Borrowed(&*self.section.bits);
        if let Some(own) = self.own {
            bits.to_mut().iter_mut().zip(&self.reservations[own].bits).for_each(|(bits, own)| *bits &= own);
        }
        bits
    }

    /// The nodes that the job may use from this time on for this long.
    pub fn bits(&self, from: SimTime, length: SimDuration) -> Cow<'_, [u64]> {
        let mut bits = self.widest();
        for reserved in self.closed(from, length) {
            bits.to_mut().iter_mut().zip(&reserved.bits).for_each(|(bits, taken)| *bits &= !taken);
        }
        bits
    }

    /// The reservations that keep nodes from the job, if it starts at this time and lasts this long.
    fn closed(&self, from: SimTime, length: SimDuration) -> impl Iterator<Item = &ReservedNodes> {
        let (until, own) = (from.saturating_add(length), self.own);
        let is_in_the_way = move |(place, reserved): &(usize, &ReservedNodes)| {
            Some(*place) != own && reserved.from < until && reserved.until > from
        };
        self.reservations.iter().enumerate().filter(is_in_the_way).map(|(_, reserved)| reserved)
    }

    /// How many reservations keep nodes from the job. Of two jobs that start at the same time, the longer one meets all
    /// reservations that the shorter one meets, so equal numbers mean the same reservations.
    pub fn closed_by(&self, from: SimTime, length: SimDuration) -> usize {
        self.closed(from, length).count()
    }

    /// The nodes of [`Ground::bits`] in ascending order.
    pub fn nodes(&self, from: SimTime, length: SimDuration) -> Vec<NodeId> {
        nodes_of(&self.bits(from, length)).collect()
    }

    /// Whether the job's own reservation is over at this time, so that the job cannot start any more.
    pub fn is_over(&self, at: SimTime) -> bool {
        self.own.is_some_and(|own| at > self.reservations[own].until)
    }

    /// How many nodes reservations keep from the job, if it starts at this time and lasts this long.
    pub fn reserved(&self, from: SimTime, length: SimDuration) -> u32 {
        if self.closed_by(from, length) == 0 {
            return 0;
        }
        let count = |bits: &[u64]| bits.iter().map(|word| word.count_ones()).sum::<u32>();
        count(&self.widest()) - count(&self.bits(from, length))
    }

    /// The nodes that reservations keep from the job, if it starts at this time and lasts this long.
    pub fn reserved_nodes(&self, from: SimTime, length: SimDuration) -> Vec<NodeId> {
        let mut bits = self.widest().into_owned();
        bits.iter_mut().zip(&*self.bits(from, length)).for_each(|(bits, open)| *bits &= !open);
        nodes_of(&bits).collect()
    }

    /// Why the job may not use a node, if it starts at this time and lasts this long. A node that neither the partition nor a
    /// reservation closes to it is kept for jobs ahead of it.
    pub fn why_closed(&self, node: NodeId, from: SimTime, length: SimDuration) -> Reason {
        if !contains(&self.section.bits, node) {
            Reason::PartitionMismatch
        } else if contains(&self.bits(from, length), node) {
            Reason::HeldForPriority
        } else {
            Reason::InReservation
        }
    }

    /// When the next reservation ends, if reservations keep nodes from the job that starts at this time: other nodes may
    /// be usable then. Like Slurm's backfilling, this is rounded up to a multiple of the resolution, plus a second. Like
    /// there, it is the end of any reservation, and not necessarily of one that keeps nodes from the job.
    pub fn opens(&self, from: SimTime, length: SimDuration, resolution: SimDuration) -> Option<SimTime> {
        if self.reserved(from, length) == 0 {
            return None;
        }
        let end = self.reservations.iter().map(|reserved| reserved.until).filter(|until| *until >= from).min()?;
        let unit = resolution.as_nanos().max(1);
        Some(SimTime::from_nanos(end.as_nanos().div_ceil(unit).checked_mul(unit)?.checked_add(1_000_000_000)?))
    }
}
