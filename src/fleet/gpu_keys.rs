//! Encodes the status of each GPU of a node as one number, for the lookup of the node's class. If the GPUs of a shape
//! are interchangeable, the numbers are sorted, so that they do not show which GPU is in which state.

use smallvec::SmallVec;

use super::node::{GpuStatus, NodeShape, NodeStatus};

/// One key for each GPU. The keys are in order of the GPUs, or sorted if the GPUs are interchangeable.
pub(super) type GpuKeys = SmallVec<[u64; 8]>;

/// The keys of a node's GPUs. `None` if the status of a GPU does not fit in one number, for example because of foreign
/// use.
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

/// The status of a GPU as one number: 44 bits of memory, 10 bits of share, 7 bits of holders, and the state. `None` if
/// it does not fit.
pub(super) fn key_of(gpu: &GpuStatus) -> Option<u64> {
    let GpuStatus { state, taken, holders, memory_taken, foreign } = gpu;
    let (memory, taken, holders) = (memory_taken.get(), u64::from(taken.get()), u64::from(*holders));
    let goes_in = memory < 1 << 44 && taken < 1 << 10 && holders < 1 << 7 && foreign.is_none();
    goes_in.then_some(memory << 20 | taken << 10 | holders << 3 | *state as u64)
}

/// Sorts with Batcher's odd-even merge sort (*Sorting networks and their applications*, AFIPS 1968). The keys are in
/// practically random order, so other sorts would mispredict many branches. A sorting network has no branches.
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

/// Whether the GPUs of the shape are interchangeable. They are alike, each has its own memory, they form one island,
/// and the node is not split into blocks.
pub(super) fn is_symmetric(shape: &NodeShape) -> bool {
    let is_alike = shape.gpus.windows(2).all(|pair| pair[0] == pair[1]);
    is_alike && !shape.has_unified_gpus() && shape.instance.is_none() && shape.islands().len() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Foreign, GpuShape, GpuState, NodeState};
    use dryrack_units::{Bytes, GpuShare, MilliCpu};

    /// The status of a GPU of which others hold these thousandths and these bytes.
    fn held(taken: u32, holders: u32, memory: u64) -> GpuStatus {
        let (taken, memory_taken) = (GpuShare::new(taken), Bytes::new(memory));
        GpuStatus { state: GpuState::Ready, taken, holders, memory_taken, foreign: Foreign::NONE }
    }

    #[test]
    fn a_key_is_made_of_memory_share_holders_and_state_as_far_as_they_fit() {
        // 5 * 2^20 + 500 * 2^10 + 2 * 2^3
        assert_eq!(key_of(&held(500, 2, 5)), Some(5_754_896));
        assert_eq!(key_of(&GpuStatus { state: GpuState::Failed, ..held(500, 2, 5) }), Some(5_754_899));
        assert_eq!(key_of(&held(1023, 127, (1 << 44) - 1)), Some(u64::MAX - 7));
        for too_large in [held(1024, 0, 0), held(0, 128, 0), held(0, 0, 1 << 44)] {
            assert_eq!(key_of(&too_large), None, "{too_large:?}");
        }
        let foreign = Foreign { share: GpuShare::ZERO, memory: Bytes::new(1) };
        assert_eq!(key_of(&GpuStatus { foreign, ..held(0, 0, 0) }), None);
    }

    #[test]
    fn keys_are_in_the_order_of_the_gpus_or_sorted() {
        for count in [0, 1, 7, 8, 9, 12] {
            let shape = NodeShape::of(MilliCpu::ZERO, Bytes::ZERO, vec![GpuShape::of("a", Bytes::ZERO); count]);
            let mut status = NodeStatus::idle(NodeState::Ready, &shape);
            let taken: Vec<u32> = (0..count as u32).map(|index| index * 5 % 7).collect();
            for (gpu, taken) in status.gpus.iter_mut().zip(&taken) {
                *gpu = held(*taken, 0, 0);
            }
            let keys = |sorted| {
                let mut taken = taken.clone();
                if sorted {
                    taken.sort_unstable();
                }
                Some(taken.into_iter().map(|taken| u64::from(taken) << 10).collect::<GpuKeys>())
            };
            assert_eq!((gpu_keys(&status, false), gpu_keys(&status, true)), (keys(false), keys(true)), "{count} GPUs");
            if let Some(last) = status.gpus.last_mut() {
                *last = held(0, 200, 0);
                assert_eq!((gpu_keys(&status, false), gpu_keys(&status, true)), (None, None), "{count} GPUs");
            }
        }
    }

    /// By the 0-1 principle, a network sorts all inputs if it sorts all inputs of zeros and ones (Knuth, *The Art of
    /// Computer Programming* 3, 5.3.4).
    #[test]
    fn the_network_sorts_all_zeros_and_ones() {
        for bits in 0..256_u64 {
            let keys: [u64; 8] = std::array::from_fn(|place| bits >> place & 1);
            assert!(sort_eight(keys).is_sorted(), "{keys:?}");
        }
    }
}
