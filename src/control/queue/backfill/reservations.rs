//! Resources that attempts and reservations take in a span of time: for each node, the highest amount that is taken at
//! any one moment of the span. Two claims that use the same place one after the other are not added up.
//!
//! On nodes with restricted cores, the highest amount of unrestricted cores counts. The restricted cores of a GPU count
//! as taken with the GPU, because no other job can use them.
//!
//! [`most_taken`] is the plain computation over all nodes. [`most_of_node`] computes the same for one node in a single
//! sweep.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::core::store::ReplicaIndex;
use dryrack_fleet::{Fleet, GpuClaim, NodeClaim, Placement, restricted};
use dryrack_ids::NodeId;
use dryrack_scheduler::Candidate;
use dryrack_units::{Bytes, GpuShare, MilliCpu, SimTime};

/// A reservation of a waiting replica.
pub(super) struct Planned {
    pub replica: ReplicaIndex,
    pub from: SimTime,
    pub candidate: Candidate,
    /// The fleet on which the replica was judged, if the replica starts now and is watched.
    pub sees: Option<Fleet>,
}

/// A placement that is held from one time until just before another.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub from: SimTime,
    pub until: SimTime,
    pub placement: Placement,
}

/// The resources that are taken on one node.
#[derive(Clone, Default)]
struct Taken {
    cpu: MilliCpu,
    unrestricted: MilliCpu,
    ram: Bytes,
    gpus: BTreeMap<u16, (GpuShare, Bytes)>,
    blocks: BTreeSet<u16>,
}

impl Taken {
    fn add(&mut self, claim: &NodeClaim, each: u32) {
        self.cpu = self.cpu + claim.cpu;
        self.unrestricted = self.unrestricted + claim.unrestricted_cpu(each);
        self.ram = self.ram + claim.ram;
        for part in &claim.gpus {
            let (share, memory) = self.gpus.entry(part.index).or_default();
            (*share, *memory) = (*share + part.share, *memory + part.memory);
        }
        self.blocks.extend(&claim.blocks);
    }

    fn raise_to(&mut self, other: &Taken) {
        self.cpu = self.cpu.max(other.cpu);
        self.unrestricted = self.unrestricted.max(other.unrestricted);
        self.ram = self.ram.max(other.ram);
        for (index, (share, memory)) in &other.gpus {
            let known = self.gpus.entry(*index).or_default();
            *known = (known.0.max(*share), known.1.max(*memory));
        }
        self.blocks.extend(&other.blocks);
    }

    fn claim(self, node: NodeId, each: u32) -> NodeClaim {
        let gpus = self.gpus.into_iter().map(|(index, (share, memory))| GpuClaim { index, share, memory });
        let (gpus, blocks) = (gpus.collect(), self.blocks.into_iter().collect::<SmallVec<_>>());
        let claim = NodeClaim { node, tasks: 1, cpu: self.cpu, ram: self.ram, gpus, blocks, sets: None };
        with_restricted(claim, each, self.unrestricted)
    }
}

/// The claim with its unrestricted cores and all restricted cores of its GPUs, if the node has any.
fn with_restricted(claim: NodeClaim, each: u32, unrestricted: MilliCpu) -> NodeClaim {
    if each == 0 {
        return claim;
    }
    let shares = claim.gpus.iter().map(|part| u64::from(part.share.get())).sum();
    NodeClaim { cpu: unrestricted + restricted(each, shares), ..claim }
}

/// For each node and each resource on it, the most that is taken at any one moment from `from` until just before
/// `until`. A task that fits beside these amounts fits during the whole span. A task that does not fit lacks room at
/// some moment.
///
/// `restricted_on` is the number of restricted cores of each GPU of a node.
pub(super) fn most_taken(
    reservations: &[Reservation],
    (from, until): (SimTime, SimTime),
    restricted_on: impl Fn(NodeId) -> u32,
) -> Placement {
    let within: Vec<&Reservation> = reservations.iter().filter(|one| one.from < until && one.until > from).collect();
    // The taken amount rises only at times when something begins.
    let mut moments: Vec<SimTime> = within.iter().map(|one| one.from.max(from)).collect();
    moments.sort_unstable();
    moments.dedup();
    let mut most: BTreeMap<NodeId, Taken> = BTreeMap::new();
    for moment in moments {
        let mut now: BTreeMap<NodeId, Taken> = BTreeMap::new();
        for one in within.iter().filter(|one| one.from <= moment && one.until > moment) {
            for claim in one.placement.claims() {
                now.entry(claim.node).or_default().add(claim, restricted_on(claim.node));
            }
        }
        now.iter().for_each(|(node, taken)| most.entry(*node).or_default().raise_to(taken));
    }
    Placement::new(most.into_iter().map(|(node, taken)| taken.claim(node, restricted_on(node))).collect())
}

/// A claim on a node, with its beginning and its end.
pub(super) type Span<'a> = (SimTime, SimTime, &'a NodeClaim);

/// Computes [`most_taken`] for one node. The input is the spans of all claims that overlap the requested time. `None`
/// if there are no spans.
pub(super) fn most_of_node(mut spans: SmallVec<[Span; 16]>, from: SimTime, each: u32) -> Option<NodeClaim> {
    let node = spans.first()?.2.node;
    spans.iter_mut().for_each(|span| span.0 = span.0.max(from));
    spans.sort_unstable_by_key(|span| span.0);
    let mut by_end: SmallVec<[usize; 16]> = (0..spans.len()).collect();
    by_end.sort_unstable_by_key(|place| spans[*place].1);
    let mut ending = by_end.into_iter().peekable();
    let (mut now, mut most) = (Sum::default(), Sum::default());
    for (place, (begins, _, claim)) in spans.iter().enumerate() {
        now.add(claim, each);
        if spans.get(place + 1).is_some_and(|next| next.0 == *begins) {
            continue;
        }
        // Every claim that has ended by then began earlier, so it has already been added.
        while let Some(gone) = ending.next_if(|place| spans[*place].1 <= *begins) {
            now.subtract(spans[gone].2, each);
        }
        most.raise_to(&now);
    }
    let mut blocks: SmallVec<[u16; 4]> = spans.iter().flat_map(|(_, _, claim)| claim.blocks.iter().copied()).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let gpus =
        most.gpus.into_iter().map(|(index, share, memory)| GpuClaim { index, share: GpuShare::new(share), memory });
    let claim = NodeClaim { node, tasks: 1, cpu: most.cpu, ram: most.ram, gpus: gpus.collect(), blocks, sets: None };
    Some(with_restricted(claim, each, most.unrestricted))
}

/// The resources that are taken on a node, except blocks. The list of GPUs is sorted, and keeps a GPU even when its
/// amount has dropped to zero.
#[derive(Default)]
struct Sum {
    cpu: MilliCpu,
    unrestricted: MilliCpu,
    ram: Bytes,
    gpus: SmallVec<[(u16, u32, Bytes); 8]>,
}

impl Sum {
    fn add(&mut self, claim: &NodeClaim, each: u32) {
        self.cpu = self.cpu + claim.cpu;
        self.unrestricted = self.unrestricted + claim.unrestricted_cpu(each);
        self.ram = self.ram + claim.ram;
        for part in &claim.gpus {
            let (_, share, memory) = self.gpu(part.index);
            (*share, *memory) = (*share + part.share.get(), *memory + part.memory);
        }
    }

    fn subtract(&mut self, claim: &NodeClaim, each: u32) {
        self.cpu = self.cpu - claim.cpu;
        self.unrestricted = self.unrestricted - claim.unrestricted_cpu(each);
        self.ram = self.ram - claim.ram;
        for part in &claim.gpus {
            let (_, share, memory) = self.gpu(part.index);
            (*share, *memory) = (*share - part.share.get(), *memory - part.memory);
        }
    }

    fn raise_to(&mut self, other: &Sum) {
        self.cpu = self.cpu.max(other.cpu);
        self.unrestricted = self.unrestricted.max(other.unrestricted);
        self.ram = self.ram.max(other.ram);
        for (index, share, memory) in &other.gpus {
            let (_, own, own_memory) = self.gpu(*index);
            (*own, *own_memory) = ((*own).max(*share), (*own_memory).max(*memory));
        }
    }

    fn gpu(&mut self, index: u16) -> &mut (u16, u32, Bytes) {
        let place = self.gpus.binary_search_by_key(&index, |(index, ..)| *index).unwrap_or_else(|place| {
            self.gpus.insert(place, (index, 0, Bytes::ZERO));
            place
        });
        &mut self.gpus[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_rng::Stream;

    /// Two cores from 0 to 10, one GPU and one core from 5 to 20, three cores from 20 to 30.
    #[test]
    fn what_follows_is_not_added_to_what_went_before() {
        let at = SimTime::from_secs;
        let reservations = |from: u64, until: u64, cores: u64, gpus: &[u16]| {
            let part = |index: &u16| GpuClaim { index: *index, share: GpuShare::WHOLE, memory: Bytes::new(1) };
            let claim = NodeClaim {
                node: NodeId::new(0),
                tasks: 1,
                cpu: MilliCpu::from_cores(cores),
                ram: Bytes::ZERO,
                gpus: gpus.iter().map(part).collect(),
                blocks: SmallVec::new(),
                sets: None,
            };
            Reservation { from: at(from), until: at(until), placement: Placement::new([claim].into()) }
        };
        let all = [reservations(0, 10, 2, &[]), reservations(5, 20, 1, &[3]), reservations(20, 30, 3, &[3])];
        let most = |from: u64, until: u64| {
            let placement = most_taken(&all, (at(from), at(until)), |_| 0);
            let claim = placement.claims().first().cloned();
            claim.map(|claim| (claim.cpu.get() / 1000, claim.gpus.iter().map(|part| part.index).collect::<Vec<_>>()))
        };
        assert_eq!(most(0, 5), Some((2, vec![])));
        assert_eq!(most(0, 6), Some((3, vec![3])));
        assert_eq!(most(10, 20), Some((1, vec![3])));
        assert_eq!(most(0, 30), Some((3, vec![3])));
        assert_eq!(most(30, 40), None);
    }

    /// A task with one core and GPU 0, then one with two cores and GPU 1, where each GPU has one restricted core. At
    /// most one unrestricted core is taken at a time.
    #[test]
    fn restricted_cores_are_taken_with_their_gpus() {
        let at = SimTime::from_secs;
        let taken = |from: u64, cores: u64, index: u16| {
            let gpus = [GpuClaim { index, share: GpuShare::WHOLE, memory: Bytes::new(1) }];
            let (node, cpu) = (NodeId::new(0), MilliCpu::from_cores(cores));
            let (gpus, blocks) = (gpus.into_iter().collect(), SmallVec::new());
            let claim = NodeClaim { node, tasks: 1, cpu, ram: Bytes::ZERO, gpus, blocks, sets: None };
            Reservation { from: at(from), until: at(from + 10), placement: Placement::new([claim].into()) }
        };
        let placement = most_taken(&[taken(0, 1, 0), taken(10, 2, 1)], (at(0), at(20)), |_| 1);
        let claim = &placement.claims()[0];
        assert_eq!((claim.cpu, claim.unrestricted_cpu(1)), (MilliCpu::from_cores(3), MilliCpu::from_cores(1)));
    }

    /// Compares with the plain computation on random claims: shares of GPUs, memory, and blocks that follow each other.
    #[test]
    fn one_node_in_one_sweep_is_as_all_nodes_at_each_moment() {
        let mut draws = Stream::new(9, "booked test", 0);
        for _ in 0..2000 {
            let mut all = Vec::new();
            for _ in 0..draws.between(0, 9) {
                let gpus = (0..4).filter(|_| draws.chance(400)).collect::<Vec<u16>>();
                let mut part = |index| GpuClaim {
                    index,
                    share: GpuShare::new(*draws.pick(&[0, 100, 300])),
                    memory: Bytes::new(draws.between(0, 3)),
                };
                let gpus = gpus.into_iter().map(&mut part).collect();
                let (cpu, ram) = (MilliCpu::new(draws.between(0, 5)), Bytes::new(draws.between(0, 5)));
                let blocks = (0..3).filter(|_| draws.chance(300)).collect();
                let claim = NodeClaim { node: NodeId::new(0), tasks: 1, cpu, ram, gpus, blocks, sets: None };
                let from = draws.between(0, 10);
                let [from, until] = [from, from + draws.between(1, 10)].map(SimTime::from_nanos);
                all.push(Reservation { from, until, placement: Placement::new([claim].into()) });
            }
            let from = draws.between(0, 12);
            let [from, until] = [from, from + draws.between(0, 10)].map(SimTime::from_nanos);
            let within = all.iter().filter(|one| one.from < until && one.until > from);
            let spans = within.map(|one| (one.from, one.until, &one.placement.claims()[0])).collect();
            let each = *draws.pick(&[0, 0, 2]);
            let plain = most_taken(&all, (from, until), |_| each);
            let swept = most_of_node(spans, from, each);
            assert_eq!(swept.as_ref(), plain.claims().first(), "{all:?} from {from} to {until}");
        }
    }
}
