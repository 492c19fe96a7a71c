//! Tracks which nodes changed since a reader last asked, and lists each node once. The nodes form a linked list,
//! ordered by their latest changes.

use dryrack_ids::NodeId;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct NodeChanges {
    count: u64,
    newest: u32,
    links: Vec<Link>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// The number of the node's latest change.
    changed: u64,
    before: u32,
    after: u32,
}

impl NodeChanges {
    /// A list in which each of these nodes counts as changed.
    pub fn of(nodes: usize) -> NodeChanges {
        let mut changes = NodeChanges { count: 0, newest: NONE, links: Vec::new() };
        (0..nodes).for_each(|node| changes.note(NodeId::new(node)));
        changes
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Records a change of a node and moves the node to the front of the list. New nodes must come in order of ids.
    pub fn note(&mut self, node: NodeId) {
        let index = node.index();
        if index == self.links.len() {
            self.links.push(Link { changed: 0, before: NONE, after: NONE });
        }
        self.links[index].changed = self.count;
        self.count += 1;
        if self.newest == index as u32 {
            return;
        }
        let Link { before, after, .. } = self.links[index];
        if after != NONE {
            self.links[after as usize].before = before;
            if before != NONE {
                self.links[before as usize].after = after;
            }
        }
        let newest = std::mem::replace(&mut self.newest, index as u32);
        if newest != NONE {
            self.links[newest as usize].after = index as u32;
        }
        (self.links[index].before, self.links[index].after) = (newest, NONE);
    }

    /// The nodes that changed after the first `read` changes, latest change first.
    pub fn since(&self, read: u64) -> impl Iterator<Item = NodeId> + '_ {
        let known = |index: u32| (index != NONE).then_some(index);
        let by_change =
            std::iter::successors(known(self.newest), move |index| known(self.links[*index as usize].before));
        by_change
            .take_while(move |index| self.links[*index as usize].changed >= read)
            .map(|index| NodeId::new(index as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dryrack_rng::Stream;

    #[test]
    fn each_node_that_changed_since_comes_once_and_the_last_first() {
        let mut draws = Stream::new(3, "node changes test", 0);
        let mut changes = NodeChanges::of(5);
        let mut all: Vec<usize> = (0..5).collect();
        for _ in 0..500 {
            let node = draws.index(5);
            changes.note(NodeId::new(node));
            all.push(node);
            let read = draws.index(all.len() + 1);
            let mut expected: Vec<usize> = Vec::new();
            for node in all[read..].iter().rev() {
                if !expected.contains(node) {
                    expected.push(*node);
                }
            }
            assert_eq!(changes.count(), all.len() as u64);
            assert_eq!(changes.since(read as u64).map(|node| node.index()).collect::<Vec<_>>(), expected);
        }
    }
}
