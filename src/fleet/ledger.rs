//! The ledger: claims on nodes, and the arithmetic that adds and removes claims.

use super::claim::{NodeClaim, Placement};
use super::node::{NodeShape, NodeStatus};
use dryrack_ids::NodeId;
use dryrack_planted::planted;
use dryrack_units::{Bytes, GpuShare};

impl Placement {
    /// The types of all GPUs of the placement. `shape_of` returns the shape of a node.
    pub fn gpu_models<'a>(&'a self, shape_of: impl Fn(NodeId) -> &'a NodeShape + 'a) -> impl Iterator<Item = &'a str> {
        self.claims().iter().flat_map(move |claim| {
            let shape = shape_of(claim.node);
            claim.gpus.iter().map(move |gpu| &*shape.gpus[usize::from(gpu.index)].model)
        })
    }
}

/// Adds a claim. Does not check capacity, because safety is checked at commit. Panics if a block is already held.
pub(super) fn take(shape: &NodeShape, status: &mut NodeStatus, claim: &NodeClaim) {
    let held = add_claim(shape, status, claim);
    assert!(held.is_none(), "block {held:?} is held already: blocks never overlap");
}

/// Adds a claim on resources that another attempt may still hold. Returns the number of a block that is already held,
/// if any.
pub(super) fn add_claim(shape: &NodeShape, status: &mut NodeStatus, claim: &NodeClaim) -> Option<u16> {
    let restricted = claim.restricted_cpu(shape.restricted_cores_per_gpu());
    status.cpu_taken = status.cpu_taken + claim.cpu;
    status.cpu_restricted_taken = status.cpu_restricted_taken + restricted;
    status.ram_taken = status.ram_taken + claim.ram;
    for part in &claim.gpus {
        let gpu = &mut status.gpus[usize::from(part.index)];
        gpu.taken = gpu.taken + part.share;
        gpu.memory_taken = gpu.memory_taken + part.memory;
        gpu.holders += 1;
    }
    let mut held = None;
    for block in &claim.blocks {
        held = if status.blocks.insert(*block) { held } else { Some(*block) };
    }
    held
}

/// The kind of tasks in this claim (see [`NodeStatus::kinds`]). `None` if the claim holds no GPUs.
fn kind_of(claim: &NodeClaim) -> Option<u16> {
    let whole = claim.gpus.iter().all(|part| part.share == GpuShare::WHOLE);
    match (claim.gpus.len(), whole) {
        (0, _) => None,
        (_, false) => Some(NodeStatus::PARTS),
        (gpus, true) => Some((gpus / (claim.tasks as usize).max(1)) as u16),
    }
}

/// Adds the tasks of a claim to the node's count for their kind.
pub(super) fn count_in(status: &mut NodeStatus, claim: &NodeClaim) {
    let Some(kind) = kind_of(claim) else { return };
    match status.kinds.binary_search_by_key(&kind, |(known, _)| *known) {
        Ok(at) => status.kinds[at].1 += claim.tasks,
        Err(at) => status.kinds.insert(at, (kind, claim.tasks)),
    }
}

/// Removes the tasks of a claim from the node's count. Panics if they were not counted.
pub(super) fn count_out(status: &mut NodeStatus, claim: &NodeClaim) {
    let Some(kind) = kind_of(claim) else { return };
    let at = status.kinds.binary_search_by_key(&kind, |(known, _)| *known);
    let at = at.unwrap_or_else(|_| panic!("tasks of {kind} GPUs leave a node that holds none"));
    assert!(status.kinds[at].1 >= claim.tasks, "more tasks of {kind} GPUs leave a node than it holds");
    status.kinds[at].1 -= claim.tasks;
    if status.kinds[at].1 == 0 {
        status.kinds.remove(at);
    }
}

/// Removes a claim. Panics if it was never taken or was already released, because the subtraction would go below zero.
pub(super) fn release(shape: &NodeShape, status: &mut NodeStatus, claim: &NodeClaim) {
    if !planted!(CpuIsNeverReleased) {
        status.cpu_taken = status.cpu_taken - claim.cpu;
    }
    let restricted = claim.restricted_cpu(shape.restricted_cores_per_gpu());
    status.cpu_restricted_taken = status.cpu_restricted_taken - restricted;
    status.ram_taken = status.ram_taken - claim.ram;
    for part in &claim.gpus {
        let gpu = &mut status.gpus[usize::from(part.index)];
        assert!(gpu.holders > 0, "released GPU {} of {:?}, which nobody holds", part.index, shape.machine);
        gpu.taken = gpu.taken - part.share;
        gpu.memory_taken = gpu.memory_taken - part.memory;
        gpu.holders -= 1;
        let empty = gpu.taken == GpuShare::ZERO && gpu.memory_taken == Bytes::ZERO;
        assert!(gpu.holders > 0 || empty, "GPU {} has no holder and is not free", part.index);
    }
    let kept = usize::from(planted!(BlockIsNeverReleased));
    for block in claim.blocks.iter().skip(kept) {
        assert!(status.blocks.remove(*block), "released block {block} of {:?}, which nobody holds", shape.machine);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::claim::GpuClaim;
    use crate::{GpuShape, GpuStatus, NodeState, RESTRICTED_CORES_LABEL};
    use dryrack_units::MilliCpu;

    /// A node with 16 cores, 64 GiB of RAM and four GPUs, of which each restricts two cores.
    fn node() -> (NodeShape, NodeStatus) {
        let gpus = vec![GpuShape::of("a", Bytes::from_gib(80)); 4];
        let mut shape = NodeShape::of(MilliCpu::from_cores(16), Bytes::from_gib(64), gpus);
        shape.labels.insert(RESTRICTED_CORES_LABEL.into(), "2".into());
        let status = NodeStatus::idle(NodeState::Ready, &shape);
        (shape, status)
    }

    /// `gpus` are the index, the share in thousandths and the memory in GiB of each.
    fn claim(tasks: u32, cores: u64, gib: u64, gpus: &[(u16, u32, u64)], blocks: &[u16]) -> NodeClaim {
        let part = |(index, share, gib): &(u16, u32, u64)| GpuClaim {
            index: *index,
            share: GpuShare::new(*share),
            memory: Bytes::from_gib(*gib),
        };
        NodeClaim {
            tasks,
            cpu: MilliCpu::from_cores(cores),
            ram: Bytes::from_gib(gib),
            gpus: gpus.iter().map(part).collect(),
            blocks: blocks.iter().copied().collect(),
            ..NodeClaim::of_nothing(NodeId::new(0))
        }
    }

    /// Cores, restricted cores and RAM that are taken; for each GPU the share, the memory and the holders.
    fn taken(status: &NodeStatus) -> (u64, u64, u64, Vec<(u32, u64, u32)>) {
        let gpu = |gpu: &GpuStatus| (gpu.taken.get(), gpu.memory_taken.get() >> 30, gpu.holders);
        let cores = |cpu: MilliCpu| cpu.get() / 1000;
        let gpus = status.gpus.iter().map(gpu).collect();
        (cores(status.cpu_taken), cores(status.cpu_restricted_taken), status.ram_taken.get() >> 30, gpus)
    }

    #[test]
    fn what_claims_take_adds_up_until_they_are_released() {
        let (shape, mut status) = node();
        // A half and a whole GPU restrict three cores, of which the claim has four. Another half restricts one.
        let one = claim(1, 4, 8, &[(0, 500, 30), (1, 1000, 80)], &[1, 2]);
        let other = claim(1, 3, 16, &[(0, 500, 20)], &[70]);
        take(&shape, &mut status, &one);
        assert_eq!(taken(&status), (4, 3, 8, vec![(500, 30, 1), (1000, 80, 1), (0, 0, 0), (0, 0, 0)]));
        take(&shape, &mut status, &other);
        assert_eq!(taken(&status), (7, 4, 24, vec![(1000, 50, 2), (1000, 80, 1), (0, 0, 0), (0, 0, 0)]));
        assert_eq!([1, 2, 3, 6, 70].map(|block| status.blocks.contains(block)), [true, true, false, false, true]);
        release(&shape, &mut status, &one);
        assert_eq!(taken(&status), (3, 1, 16, vec![(500, 20, 1), (0, 0, 0), (0, 0, 0), (0, 0, 0)]));
        release(&shape, &mut status, &other);
        assert_eq!(status, NodeStatus::idle(NodeState::Ready, &shape));
    }

    #[test]
    fn a_block_that_is_held_already_is_named() {
        let (shape, mut status) = node();
        assert_eq!(add_claim(&shape, &mut status, &claim(1, 0, 0, &[], &[1, 2])), None);
        assert_eq!(add_claim(&shape, &mut status, &claim(1, 0, 0, &[], &[2, 3])), Some(2));
    }

    #[test]
    #[should_panic(expected = "block Some(2) is held already")]
    fn a_block_is_not_taken_twice() {
        let (shape, mut status) = node();
        take(&shape, &mut status, &claim(1, 0, 0, &[], &[2]));
        take(&shape, &mut status, &claim(1, 0, 0, &[], &[2]));
    }

    #[test]
    #[should_panic(expected = "which nobody holds")]
    fn a_gpu_that_nobody_holds_is_not_released() {
        let (shape, mut status) = node();
        release(&shape, &mut status, &claim(1, 0, 0, &[(0, 0, 0)], &[]));
    }

    #[test]
    #[should_panic(expected = "GPU 0 has no holder and is not free")]
    fn no_memory_stays_behind_on_a_gpu_without_a_holder() {
        let (shape, mut status) = node();
        take(&shape, &mut status, &claim(1, 0, 0, &[(0, 500, 30)], &[]));
        release(&shape, &mut status, &claim(1, 0, 0, &[(0, 500, 20)], &[]));
    }

    #[test]
    #[should_panic(expected = "GPU 0 has no holder and is not free")]
    fn no_share_stays_behind_on_a_gpu_without_a_holder() {
        let (shape, mut status) = node();
        take(&shape, &mut status, &claim(1, 0, 0, &[(0, 500, 30)], &[]));
        release(&shape, &mut status, &claim(1, 0, 0, &[(0, 400, 30)], &[]));
    }

    #[test]
    fn tasks_are_counted_by_the_number_of_their_gpus() {
        let (_, mut status) = node();
        let whole = |gpus: u16| (0..gpus).map(|index| (index, 1000, 80)).collect::<Vec<_>>();
        let pairs = claim(2, 0, 0, &whole(4), &[]);
        let single = claim(3, 0, 0, &whole(3), &[]);
        let parts = claim(4, 0, 0, &[(0, 1000, 80), (1, 500, 40)], &[]);
        for claim in [&pairs, &parts, &single, &pairs, &claim(1, 4, 8, &[], &[])] {
            count_in(&mut status, claim);
        }
        assert_eq!(status.kinds.to_vec(), [(NodeStatus::PARTS, 4), (1, 3), (2, 4)]);
        count_out(&mut status, &pairs);
        count_out(&mut status, &parts);
        count_out(&mut status, &claim(2, 0, 0, &whole(2), &[]));
        count_out(&mut status, &claim(1, 4, 8, &[], &[]));
        assert_eq!(status.kinds.to_vec(), [(1, 1), (2, 2)]);
    }

    #[test]
    #[should_panic(expected = "more tasks of 1 GPUs leave a node than it holds")]
    fn no_more_tasks_leave_a_node_than_it_holds() {
        let (_, mut status) = node();
        count_in(&mut status, &claim(1, 0, 0, &[(0, 1000, 80)], &[]));
        count_out(&mut status, &claim(2, 0, 0, &[(0, 1000, 80), (1, 1000, 80)], &[]));
    }

    #[test]
    fn a_placement_names_the_gpus_of_all_its_claims() {
        let (mut first, _) = node();
        first.gpus[1].model = Arc::from("b");
        let (second, _) = node();
        let claims = [claim(1, 0, 0, &[(1, 1000, 80)], &[]), {
            NodeClaim { node: NodeId::new(1), ..claim(1, 0, 0, &[(1, 1000, 80), (2, 1000, 80)], &[]) }
        }];
        let placement = Placement::new(claims.into_iter().collect());
        let shapes = [first, second];
        assert!(placement.gpu_models(|node| &shapes[node.index()]).eq(["b", "a", "a"]));
    }
}
