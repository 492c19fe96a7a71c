//! What every demand reads of a class, computed once for the class instead of once for each demand.

use smallvec::SmallVec;

use super::filter::ready;
use dryrack_event::Reason;
use dryrack_fleet::{Class, ClassId, Fleet, NodeShape, NodeStatus};
use dryrack_units::{Bytes, GpuShare, MilliCpu};

/// The most GPUs of one node that are examined together.
pub const MOST_GPUS: usize = 8;

/// The classes of a fleet, as of the last call for each.
#[derive(Default)]
pub struct States {
    /// Each with the generation of its class.
    classes: Vec<(Option<u32>, ClassState)>,
}

/// What is free on a node of a class.
#[derive(Clone, Debug, Default)]
pub struct ClassState {
    /// Why its nodes are not ready, if they are not.
    pub unready: Option<Reason>,
    pub cpu: MilliCpu,
    pub ram: Bytes,
    /// `None` if room on a GPU does not depend on shares alone.
    pub shares: Option<Shares>,
}

/// What is free on GPUs that are all alike, have memory of their own and no foreign use, and have no larger part of
/// their memory taken than of their time. A GPU with a free share then has room for that share.
#[derive(Clone, Debug)]
pub struct Shares {
    /// In thousandths, ascending; zero for a GPU that is not usable.
    pub ascending: SmallVec<[u32; MOST_GPUS]>,
    pub usable: u32,
}

impl States {
    /// Updates what is known of the class to its current state.
    #[inline]
    pub fn know(&mut self, fleet: &Fleet, id: ClassId) {
        let generation = fleet.class_head(id).generation();
        let known = self.classes.get(id.index()).is_some_and(|(known, _)| *known == Some(generation));
        if !known {
            self.work_out(fleet, id, generation);
        }
    }

    /// The class as of its last [`States::know`].
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

    /// Whether this many GPUs have this share free, which must be above zero.
    pub fn has(&self, count: u32, share: GpuShare) -> bool {
        let behind = self.ascending.len().checked_sub(count as usize);
        behind.is_some_and(|least| self.ascending.get(least).is_none_or(|free| *free >= share.get()))
    }

    /// How many GPUs have this share free, which must be above zero.
    pub fn with(&self, share: GpuShare) -> u32 {
        self.ascending.iter().map(|free| u32::from(*free >= share.get())).sum()
    }
}

pub fn ascending(mut free: SmallVec<[u32; MOST_GPUS]>) -> SmallVec<[u32; MOST_GPUS]> {
    // Usually all but one are in order already.
    for end in 1..free.len() {
        let mut at = end;
        while at > 0 && free[at - 1] > free[at] {
            free.swap(at - 1, at);
            at -= 1;
        }
    }
    free
}
