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
