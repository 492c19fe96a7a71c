//! Random properties of nodes that are drawn after the rest of a world.

use std::sync::Arc;

use super::rehearsal::Rehearsal;
use dryrack_fleet::{NodeShape, RESTRICTED_CORES_LABEL};
use dryrack_rng::Stream;

/// Restricts some cores of some nodes to GPUs. Uses its own random stream, so other draws do not change.
pub(super) fn restrict_cores(seed: u64, world: &mut Rehearsal) {
    let mut draws = Stream::new(seed, "swarm restricted cores", 0);
    if !draws.chance(200) {
        return;
    }
    for node in &mut world.nodes {
        let shape = &node.spec.shape;
        let (cores, gpus) = (shape.cpu_capacity().get() / 1000, shape.gpus.len() as u64);
        if shape.instance.is_some() || gpus == 0 || cores < gpus || !draws.chance(700) {
            continue;
        }
        let each = draws.between(1, (cores / gpus).min(4));
        let mut shape = NodeShape::clone(shape);
        shape.labels.insert(Arc::from(RESTRICTED_CORES_LABEL), Arc::from(each.to_string()));
        node.spec.shape = Arc::new(shape);
    }
}
