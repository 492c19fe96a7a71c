//! Places that are booked for a time, by what runs and by what is reserved: how much of each node is taken at most at one
//! moment of a span. What comes one after the other in the same place is not added up.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::fleet::{GpuClaim, NodeClaim, Placement};
use crate::ids::NodeId;
use crate::units::{Bytes, GpuShare, MilliCpu, SimTime};

/// A placement from a time until another, which is no longer a part of it.
#[derive(Clone, Debug)]
pub(super) struct Booked {
    pub(super) from: SimTime,
    pub(super) until: SimTime,
    pub(super) placement: Placement,
}

/// What is taken of one node.
#[derive(Clone, Default)]
struct Taken {
    cpu: MilliCpu,
    ram: Bytes,
    gpus: BTreeMap<u16, (GpuShare, Bytes)>,
    blocks: BTreeSet<u16>,
}

impl Taken {
    fn add(&mut self, claim: &NodeClaim) {
        self.cpu = self.cpu + claim.cpu;
        self.ram = self.ram + claim.ram;
        for part in &claim.gpus {
            let (share, memory) = self.gpus.entry(part.index).or_default();
            (*share, *memory) = (*share + part.share, *memory + part.memory);
        }
        self.blocks.extend(&claim.blocks);
    }

    fn raise_to(&mut self, other: &Taken) {
        self.cpu = self.cpu.max(other.cpu);
        self.ram = self.ram.max(other.ram);
        for (index, (share, memory)) in &other.gpus {
            let known = self.gpus.entry(*index).or_default();
            *known = (known.0.max(*share), known.1.max(*memory));
        }
        self.blocks.extend(&other.blocks);
    }

    fn claim(self, node: NodeId) -> NodeClaim {
        let gpus = self.gpus.into_iter().map(|(index, (share, memory))| GpuClaim { index, share, memory });
        let (gpus, blocks) = (gpus.collect(), self.blocks.into_iter().collect::<SmallVec<_>>());
        NodeClaim { node, tasks: 1, cpu: self.cpu, ram: self.ram, gpus, blocks }
    }
}

/// Of each node and each thing on it what is taken at most at one moment from `from` until just before `until`: what fits
/// beside that fits all the time, and what does not does not at some moment.
pub(super) fn most_taken(booked: &[Booked], from: SimTime, until: SimTime) -> Placement {
    let within: Vec<&Booked> = booked.iter().filter(|one| one.from < until && one.until > from).collect();
    // More is taken only where something begins.
    let mut moments: Vec<SimTime> = within.iter().map(|one| one.from.max(from)).collect();
    moments.sort_unstable();
    moments.dedup();
    let mut most: BTreeMap<NodeId, Taken> = BTreeMap::new();
    for moment in moments {
        let mut now: BTreeMap<NodeId, Taken> = BTreeMap::new();
        for one in within.iter().filter(|one| one.from <= moment && one.until > moment) {
            one.placement.claims().iter().for_each(|claim| now.entry(claim.node).or_default().add(claim));
        }
        now.iter().for_each(|(node, taken)| most.entry(*node).or_default().raise_to(taken));
    }
    Placement::new(most.into_iter().map(|(node, taken)| taken.claim(node)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cores from 0 to 10, one GPU and one core from 5 to 20, three cores from 20 to 30.
    #[test]
    fn what_follows_is_not_added_to_what_went_before() {
        let at = SimTime::from_secs;
        let booked = |from: u64, until: u64, cores: u64, gpus: &[u16]| {
            let part = |index: &u16| GpuClaim { index: *index, share: GpuShare::WHOLE, memory: Bytes::new(1) };
            let claim = NodeClaim {
                node: NodeId::new(0),
                tasks: 1,
                cpu: MilliCpu::from_cores(cores),
                ram: Bytes::ZERO,
                gpus: gpus.iter().map(part).collect(),
                blocks: SmallVec::new(),
            };
            Booked { from: at(from), until: at(until), placement: Placement::new([claim].into()) }
        };
        let all = [booked(0, 10, 2, &[]), booked(5, 20, 1, &[3]), booked(20, 30, 3, &[3])];
        let most = |from: u64, until: u64| {
            let placement = most_taken(&all, at(from), at(until));
            let claim = placement.claims().first().cloned();
            claim.map(|claim| (claim.cpu.get() / 1000, claim.gpus.iter().map(|part| part.index).collect::<Vec<_>>()))
        };
        assert_eq!(most(0, 5), Some((2, vec![])));
        assert_eq!(most(0, 6), Some((3, vec![3])));
        assert_eq!(most(10, 20), Some((1, vec![3])));
        assert_eq!(most(0, 30), Some((3, vec![3])));
        assert_eq!(most(30, 40), None);
    }
}
