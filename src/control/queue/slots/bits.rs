//! Sets of nodes as bits.

use dryrack_ids::NodeId;

/// The number of `u64` words of a set of nodes that has one bit for each node.
pub fn word_count(nodes: usize) -> usize {
    nodes.div_ceil(BITS)
}

pub fn insert(set: &mut [u64], node: NodeId) {
    set[node.index() / BITS] |= 1 << (node.index() % BITS);
}

pub fn remove(set: &mut [u64], node: NodeId) {
    set[node.index() / BITS] &= !(1 << (node.index() % BITS));
}

pub fn contains(set: &[u64], node: NodeId) -> bool {
    set[node.index() / BITS] >> (node.index() % BITS) & 1 == 1
}

/// The nodes of a set, in ascending order.
pub fn nodes_of(set: &[u64]) -> impl Iterator<Item = NodeId> + '_ {
    set.iter().enumerate().flat_map(|(place, word)| {
        let rest = |left: &u64| Some(left & (left - 1)).filter(|left| *left != 0);
        let lefts = std::iter::successors(Some(*word).filter(|word| *word != 0), rest);
        lefts.map(move |left| NodeId::new(place * BITS + left.trailing_zeros() as usize))
    })
}

/// How many nodes are in both sets. Counting stops once `enough` is reached.
pub fn common(one: &[u64], other: &[u64], enough: u32) -> u32 {
    let mut count = 0;
    for (one, other) in one.iter().zip(other) {
        count += (one & other).count_ones();
        if count >= enough {
            break;
        }
    }
    count
}

const BITS: usize = u64::BITS as usize;
