//! Which started attempts share a GPU. A probe reads the load of a whole GPU, so the reading of an attempt that holds a
//! part of a GPU includes the load of the others there.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use dryrack_fleet::Placement;
use dryrack_ids::{AttemptId, GpuId};
use dryrack_units::GpuShare;

/// An attempt, and the position of the shared GPU in its placement.
pub(super) type Sharer = (AttemptId, usize);

/// The started attempts that hold a part of each GPU.
#[derive(Default)]
pub(super) struct SharedGpus {
    sharers: BTreeMap<GpuId, SmallVec<[Sharer; 4]>>,
}

/// The GPUs of which the placement holds only a part, each with its position in the placement.
pub(super) fn shared(placement: &Placement) -> impl Iterator<Item = (usize, GpuId)> + '_ {
    let gpus = placement.claims().iter().flat_map(|claim| claim.gpus.iter().map(|part| (claim.node, part)));
    let parts = gpus.enumerate().filter(|(_, (_, part))| part.share < GpuShare::WHOLE);
    parts.map(|(position, (node, part))| (position, GpuId { node, index: part.index }))
}

impl SharedGpus {
    pub fn started(&mut self, attempt: AttemptId, placement: &Placement) {
        for (position, gpu) in shared(placement) {
            self.sharers.entry(gpu).or_default().push((attempt, position));
        }
    }

    pub fn ended(&mut self, attempt: AttemptId, placement: &Placement) {
        for (_, gpu) in shared(placement) {
            let Some(sharers) = self.sharers.get_mut(&gpu) else { continue };
            sharers.retain(|(sharer, _)| *sharer != attempt);
            if sharers.is_empty() {
                self.sharers.remove(&gpu);
            }
        }
    }

    /// The other attempts on this GPU.
    pub fn others(&self, gpu: GpuId, attempt: AttemptId) -> impl Iterator<Item = Sharer> + '_ {
        let sharers = self.sharers.get(&gpu).into_iter().flatten();
        sharers.copied().filter(move |(sharer, _)| *sharer != attempt)
    }
}
