//! What a status says of a node's GPUs, each in one number: how the class of a node is found. Where the GPUs of a shape can
//! stand in for each other the numbers are put in order, so that which of them is in which state does not show.

use smallvec::SmallVec;

use super::node::{GpuStatus, NodeShape, NodeStatus};

/// One for each GPU: in their order, or by size where GPUs can stand in for each other.
pub(super) type GpuKeys = SmallVec<[u64; 8]>;

/// `None` where a GPU does not go into one number, as what others use of it.
pub(super) fn gpu_keys(status: &NodeStatus, is_symmetric: bool) -> Option<GpuKeys> {
    const FEW: usize = 8;
    let gpus = status.gpus.as_slice();
    if gpus.len() > FEW {
        let mut keys = gpus.iter().map(key_of).collect::<Option<GpuKeys>>()?;
        if is_symmetric {
            keys.sort_unstable();
        }
        return Some(keys);
    }
    let mut keys = [u64::MAX; FEW];
    for (place, gpu) in keys.iter_mut().zip(gpus) {
        *place = key_of(gpu)?;
    }
    if is_symmetric {
        keys = sort_eight(keys);
    }
    Some(GpuKeys::from_slice(&keys[..gpus.len()]))
}

/// What the status of a GPU says in one number, if it goes into one: 44 bits of memory, 10 of time, 7 of holders, and its
/// state.
pub(super) fn key_of(gpu: &GpuStatus) -> Option<u64> {
    let GpuStatus { state, taken, holders, memory_taken, foreign } = gpu;
    let (memory, taken, holders) = (memory_taken.get(), u64::from(taken.get()), u64::from(*holders));
    let goes_in = memory < 1 << 44 && taken < 1 << 10 && holders < 1 << 7 && foreign.is_none();
    goes_in.then_some(memory << 20 | taken << 10 | holders << 3 | *state as u64)
}

/// By Batcher's odd-even merge sort (*Sorting networks and their applications*, AFIPS 1968): in which order they are is as good
/// as random, and it has nothing to guess.
fn sort_eight(keys: [u64; 8]) -> [u64; 8] {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = keys;
    let pair = |low: &mut u64, high: &mut u64| (*low, *high) = ((*low).min(*high), (*low).max(*high));
    pair(&mut a, &mut b);
    pair(&mut c, &mut d);
    pair(&mut e, &mut f);
    pair(&mut g, &mut h);
    pair(&mut a, &mut c);
    pair(&mut b, &mut d);
    pair(&mut e, &mut g);
    pair(&mut f, &mut h);
    pair(&mut b, &mut c);
    pair(&mut f, &mut g);
    pair(&mut a, &mut e);
    pair(&mut b, &mut f);
    pair(&mut c, &mut g);
    pair(&mut d, &mut h);
    pair(&mut c, &mut e);
    pair(&mut d, &mut f);
    pair(&mut b, &mut c);
    pair(&mut d, &mut e);
    pair(&mut f, &mut g);
    [a, b, c, d, e, f, g, h]
}

/// Whether GPUs of the shape can stand in for each other: all are alike, each has memory of its own, none lies nearer to
/// some of the others, and no block is made of some of them.
pub(super) fn is_symmetric(shape: &NodeShape) -> bool {
    let is_alike = shape.gpus.windows(2).all(|pair| pair[0] == pair[1]);
    is_alike && !shape.has_unified_gpus() && shape.instance.is_none() && shape.islands().len() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network sorts whatever it is given if it sorts all zeros and ones (Knuth, *The Art of Computer Programming* 3, 5.3.4).
    #[test]
    fn the_network_sorts_all_zeros_and_ones() {
        for bits in 0..256_u64 {
            let keys: [u64; 8] = std::array::from_fn(|place| bits >> place & 1);
            assert!(sort_eight(keys).is_sorted(), "{keys:?}");
        }
    }
}
