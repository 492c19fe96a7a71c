//! The properties of a class that every demand reads. They are computed once for each class, not once for each demand.

use smallvec::SmallVec;

use super::filter::ready;
use dryrack_event::Reason;
use dryrack_fleet::{Class, ClassId, Fleet, NodeShape, NodeStatus};
use dryrack_units::{Bytes, GpuShare, MilliCpu};

/// Maximum number of GPUs of a node for which shares are computed.
pub const MOST_GPUS: usize = 8;

/// What is known about the classes of a fleet. Each entry is as old as the last call of [`States::know`] for its class.
#[derive(Default)]
pub struct States {
    /// The state of each class, with the generation for which it was computed.
    classes: Vec<(Option<u32>, ClassState)>,
}

/// Free resources on a node of a class.
#[derive(Clone, Debug, Default)]
pub struct ClassState {
    /// Why nodes of the class are not ready; `None` if they are ready.
    pub unready: Option<Reason>,
    pub cpu: MilliCpu,
    pub ram: Bytes,
    /// Free shares of GPUs. `None` if room on a GPU does not depend on shares alone.
    pub shares: Option<Shares>,
}

/// The free shares of the GPUs of a node. They exist only if all GPUs are alike, have their own memory and no foreign use,
/// and no GPU has a larger part of its memory taken than of its time. A GPU with a free share then also has the memory for
/// it.
#[derive(Clone, Debug)]
pub struct Shares {
    /// Free thousandths of each GPU in ascending order; zero for a GPU that is not usable.
    pub ascending: SmallVec<[u32; MOST_GPUS]>,
    pub usable: u32,
}

impl States {
    /// Updates the state that is stored for the class.
    #[inline]
    pub fn know(&mut self, fleet: &Fleet, id: ClassId) {
        let generation = fleet.class_head(id).generation();
        let known = self.classes.get(id.index()).is_some_and(|(known, _)| *known == Some(generation));
        if !known {
            self.work_out(fleet, id, generation);
        }
    }

    /// The state of the class as the last call of [`States::know`] for it stored it.
    #[inline]
    pub fn of(&self, id: ClassId) -> &ClassState {
        &self.classes[id.index()].1
    }

    #[inline(never)]
    fn work_out(&mut self, fleet: &Fleet, id: ClassId, generation: u32) {
        if self.classes.len() <= id.index() {
            self.classes.resize_with(fleet.class_slots(), Default::default);
        }
        self.classes[id.index()] = (Some(generation), ClassState::of(fleet.class(id)));
    }
}

impl ClassState {
    pub fn of(class: &Class) -> ClassState {
        let (shape, status) = (&*class.shape, &class.status);
        let ram = shape.ram_capacity().saturating_sub(status.ram_taken);
        let unready = ready::judge(status.state).reason();
        ClassState { unready, cpu: status.cpu_free(shape), ram, shares: Shares::of(shape, status) }
    }
}

impl Shares {
    fn of(shape: &NodeShape, status: &NodeStatus) -> Option<Shares> {
        let first = shape.gpus.first();
        let is_alike = shape.gpus.iter().all(|gpu| !gpu.unified && Some(gpu) == first);
        if !is_alike || shape.gpus.len() > MOST_GPUS {
            return None;
        }
        let capacity = if first.is_some() { shape.gpu_memory_capacity(0) } else { Bytes::ZERO };
        let (mut free, mut usable) = (SmallVec::new(), 0);
        for (index, gpu) in status.gpus.iter().enumerate() {
            let is_by_share =
                gpu.memory_taken <= gpu.taken.of(capacity) && (gpu.holders > 0) == (gpu.taken > GpuShare::ZERO);
            if !is_by_share || !gpu.foreign.is_none() {
                return None;
            }
            let is_usable = gpu.state.is_usable();
            usable += u32::from(is_usable);
            free.push(if is_usable { status.gpu_share_free(index).get() } else { 0 });
        }
        Some(Shares { ascending: ascending(free), usable })
    }

    /// Whether this many GPUs have at least this share free. The share must be above zero.
    pub fn has(&self, count: u32, share: GpuShare) -> bool {
        let behind = self.ascending.len().checked_sub(count as usize);
        behind.is_some_and(|least| self.ascending.get(least).is_none_or(|free| *free >= share.get()))
    }

    /// How many GPUs have at least this share free. The share must be above zero.
    pub fn with(&self, share: GpuShare) -> u32 {
        self.ascending.iter().map(|free| u32::from(*free >= share.get())).sum()
    }
}

pub fn ascending(mut free: SmallVec<[u32; MOST_GPUS]>) -> SmallVec<[u32; MOST_GPUS]> {
    // At most one value is usually out of order, so an insertion sort is fast.
    for end in 1..free.len() {
        let mut at = end;
        while at > 0 && free[at - 1] > free[at] {
            free.swap(at - 1, at);
            at -= 1;
        }
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_world::{fleet, node, with_gpus};
    use dryrack_fleet::{Foreign, GpuClaim, GpuState, NodeClaim, Placement};
    use dryrack_ids::{GpuId, NodeId};

    fn gpu(index: u16) -> GpuId {
        GpuId { node: NodeId::new(0), index }
    }

    /// Lets a job hold this share and these GiB of a GPU of the only node.
    fn hold(fleet: &mut Fleet, index: u16, share: u32, gib: u64) {
        let part = GpuClaim { index, share: GpuShare::new(share), memory: Bytes::from_gib(gib) };
        let claim = NodeClaim { tasks: 1, gpus: [part].into_iter().collect(), ..NodeClaim::of_nothing(NodeId::new(0)) };
        fleet.take(&Placement::new([claim].into()));
    }

    /// The free shares of the only node in ascending order, and the number of its usable GPUs.
    fn shares(fleet: &Fleet) -> Option<(Vec<u32>, u32)> {
        let (_, class) = fleet.classes().next().expect("one node");
        ClassState::of(class).shares.map(|shares| (shares.ascending.to_vec(), shares.usable))
    }

    #[test]
    fn free_shares_are_known_if_they_alone_say_how_much_room_a_gpu_has() {
        for (shape, expected) in [
            (with_gpus(0), Some((vec![], 0))),
            (with_gpus(2), Some((vec![1000; 2], 2))),
            (with_gpus(8), Some((vec![1000; 8], 8))),
            (with_gpus(9), None),
            (node(&["a", "b"]), None),
        ] {
            assert_eq!(shares(&fleet([shape.clone()])), expected, "{shape:?}");
        }
        let mut unified = with_gpus(1);
        unified.gpus[0].unified = true;
        assert_eq!(shares(&fleet([unified])), None);
        // A GPU of 80 GiB of which a part of the memory is taken: at most as much as of its time, or more.
        for (share, gib, expected) in [
            (500, 40, Some((vec![500, 1000], 2))),
            (500, 30, Some((vec![500, 1000], 2))),
            (1000, 80, Some((vec![0, 1000], 2))),
            (500, 41, None),
            (0, 8, None),
            (0, 0, None),
        ] {
            let mut fleet = fleet([with_gpus(2)]);
            hold(&mut fleet, 1, share, gib);
            assert_eq!(shares(&fleet), expected, "{share} and {gib} GiB are taken");
        }
        let mut used = fleet([with_gpus(3)]);
        hold(&mut used, 0, 250, 20);
        used.set_gpu_state(gpu(2), GpuState::Failed);
        assert_eq!(shares(&used), Some((vec![0, 750, 1000], 2)));
        used.set_foreign(gpu(1), Foreign { share: GpuShare::new(1), memory: Bytes::ZERO });
        assert_eq!(shares(&used), None);
    }
}
