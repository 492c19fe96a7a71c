//! The nodes of several classes in order of rank.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use smallvec::SmallVec;

use super::node_class::NodeClass;
use dryrack_ids::NodeId;

/// The nodes of these classes with their ranks, highest rank first. On a tie, the lowest id is first. Each class comes
/// with a number, which is returned with each of its nodes.
///
/// All nodes of a class have the same rank, so only the next node of each class is in the heap. To take k nodes of c
/// classes costs c + k log c, however many nodes there are.
pub fn by_rank<'a, 'f: 'a, K: Ord + Copy + 'a>(
    classes: impl Iterator<Item = (usize, &'a NodeClass<'f>, K)>,
) -> impl Iterator<Item = (K, NodeId, usize)> {
    let classes: SmallVec<[(usize, &NodeClass, K); 16]> = classes.collect();
    let first = |(place, (_, class, rank)): (usize, &(usize, &NodeClass, K))| (*rank, Reverse(class.first()), place);
    let mut heap: BinaryHeap<(K, Reverse<NodeId>, usize)> = classes.iter().enumerate().map(first).collect();
    std::iter::from_fn(move || {
        let mut top = heap.peek_mut()?;
        let (rank, Reverse(node), place) = *top;
        let (number, class, _) = classes[place];
        match class.after(node) {
            Some(next) => top.1 = Reverse(next),
            None => drop(PeekMut::pop(top)),
        }
        Some((rank, node, number))
    })
}
