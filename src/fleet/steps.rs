//! Caches how claims move nodes from class to class. Most claims take or release the same amounts as earlier claims, on
//! nodes in the same state.

use super::claim::NodeClaim;
use super::classes::ClassId;
use super::gpu_keys::key_of;
use super::node::NodeStatus;
use dryrack_units::{Bytes, MilliCpu};

/// The effect of a claim on a node with interchangeable GPUs: how many GPUs change from which state to which, and how
/// much CPU and RAM is taken afterwards. All other parts of the new status come from the node's old class. So the old
/// class and the step together determine the new class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub gpus: u32,
    /// The key of each claimed GPU before and after the claim, from [`key_of`].
    pub before: u64,
    pub after: u64,
    pub cpu: MilliCpu,
    pub ram: Bytes,
}

/// The key that all claimed GPUs share. 0 if no GPU is claimed. `None` if the GPUs have different keys, if one of them
/// is claimed twice, or if its state has no key.
pub(super) fn common_key(status: &NodeStatus, claim: &NodeClaim) -> Option<u64> {
    let Some((first, others)) = claim.gpus.split_first() else { return Some(0) };
    let key = key_of(&status.gpus[usize::from(first.index)])?;
    let mut last = first.index;
    for part in others {
        if part.index <= last || key_of(&status.gpus[usize::from(part.index)]) != Some(key) {
            return None;
        }
        last = part.index;
    }
    Some(key)
}

/// Known steps. The hash of a step determines its slot. A new step replaces the step that was in its slot.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<Option<Known>>);

#[derive(Clone, Copy, Debug)]
struct Known {
    step: Step,
    /// The old and the new class of the node, each with its generation.
    from: (ClassId, u32),
    to: (ClassId, u32),
}

const PLACES: usize = 1024;

impl Clone for Steps {
    /// A clone starts with an empty cache, because a copy of a fleet answers only a few queries.
    fn clone(&self) -> Steps {
        Steps::default()
    }
}

impl Steps {
    /// The class that this step leads to, with its generation. `None` if the step is not known.
    #[inline]
    pub fn get(&self, from: (ClassId, u32), step: &Step) -> Option<(ClassId, u32)> {
        let known = self.0.get(place(from.0, step))?.as_ref()?;
        (known.from == from && known.step == *step).then_some(known.to)
    }

    pub fn keep(&mut self, from: (ClassId, u32), step: Step, to: (ClassId, u32)) {
        if self.0.is_empty() {
            self.0.resize(PLACES, None);
        }
        self.0[place(from.0, &step)] = Some(Known { step, from, to });
    }
}

fn place(from: ClassId, step: &Step) -> usize {
    let Step { gpus, before, after, cpu, ram } = *step;
    let parts = [from.index() as u64, u64::from(gpus), before, after, cpu.get(), ram.get()];
    // The multiplier is from Steele and Vigna (Computationally easy, spectrally good multipliers, 2021).
    let mixed =
        parts.iter().fold(0_u64, |mixed, part| (mixed ^ part).wrapping_mul(0xd134_2543_de82_ef95).rotate_left(29));
    mixed as usize % PLACES
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use smallvec::SmallVec;

    use crate::{
        Fleet, Foreign, GpuClaim, GpuShape, GpuState, ISLANDS_LABEL, NodeClaim, NodeShape, NodeSpec, NodeState,
        Placement,
    };
    use dryrack_ids::{GpuId, NodeId};
    use dryrack_rng::Stream;
    use dryrack_units::{Bytes, GpuShare, MilliCpu};

    const NODES: usize = 12;

    fn fleet(gpus: usize, islands: Option<&str>) -> Fleet {
        let gpus = vec![GpuShape::of("a", Bytes::from_gib(80)); gpus];
        let mut shape = NodeShape::of(MilliCpu::from_cores(64), Bytes::from_gib(64), gpus);
        if let Some(islands) = islands {
            shape.labels.insert(ISLANDS_LABEL.into(), islands.into());
        }
        let (shape, mut fleet) = (Arc::new(shape), Fleet::default());
        for index in 0..NODES {
            fleet.declare(&NodeSpec { name: format!("n{index}").into(), shape: Arc::clone(&shape) }, NodeState::Ready);
        }
        fleet
    }

    /// A claim may list a GPU twice or take more than there is, because the ledger does not check capacity.
    fn claim(draws: &mut Stream, gpus: usize) -> NodeClaim {
        let share = *draws.pick(&[250, 500, 1000, 1000]);
        let mut indexes: Vec<u16> = (0..draws.between(0, 4)).map(|_| draws.index(gpus) as u16).collect();
        indexes.sort_unstable();
        if draws.chance(800) {
            indexes.dedup();
        }
        let part =
            |index| GpuClaim { index, share: GpuShare::new(share), memory: Bytes::from_gib(u64::from(share) / 250) };
        NodeClaim {
            node: NodeId::new(draws.index(NODES)),
            tasks: 1,
            cpu: MilliCpu::from_cores(draws.between(0, 2)),
            ram: Bytes::from_gib(draws.between(0, 1)),
            gpus: indexes.into_iter().map(part).collect(),
            blocks: SmallVec::new(),
            sets: None,
        }
    }

    /// Checks that each node is in the class of its state, and that the claims add up to the ledger.
    #[test]
    fn a_step_that_is_remembered_leads_where_it_led() {
        for (gpus, islands) in [(3, None), (8, None), (10, None), (4, Some("2+2"))] {
            let (mut fleet, mut held) = (fleet(gpus, islands), Vec::new());
            let mut draws = Stream::new(gpus as u64, "steps test", 0);
            for _ in 0..4000 {
                let gpu = GpuId { node: NodeId::new(draws.index(NODES)), index: draws.index(gpus) as u16 };
                match draws.between(0, 99) {
                    0 => {
                        fleet.set_gpu_state(gpu, *draws.pick(&[GpuState::Ready, GpuState::Degraded, GpuState::Failed]))
                    }
                    1 => {
                        let share = GpuShare::new(if draws.chance(300) { 100 } else { 0 });
                        fleet.set_foreign(gpu, Foreign { share, ..Foreign::NONE });
                    }
                    2 => fleet.set_node_state(gpu.node, *draws.pick(&[NodeState::Ready, NodeState::NotReady])),
                    _ if held.len() > draws.index(4 * NODES) => {
                        let placement: Placement = held.swap_remove(draws.index(held.len()));
                        placement.claims().iter().for_each(|claim| fleet.release(claim));
                    }
                    _ => {
                        let placement = Placement::new([claim(&mut draws, gpus)].into());
                        fleet.take(&placement);
                        held.push(placement);
                    }
                }
                fleet.assert_adds_up(held.iter());
            }
        }
    }
}
