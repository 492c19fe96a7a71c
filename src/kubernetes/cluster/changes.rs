//! When each node last changed, so that what is known of unchanged nodes need not be computed again.

use std::collections::BTreeMap;

/// The version of each node. Versions are given in order of the changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    last: u64,
    /// The version at which the indices of all nodes last changed.
    reindexed: u64,
    /// The version of each node, 0 if it is unchanged since then.
    versions: Vec<u64>,
    by_version: BTreeMap<u64, usize>,
}

impl Changes {
    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn note(&mut self, node: usize) {
        self.last += 1;
        let before = std::mem::replace(&mut self.versions[node], self.last);
        self.by_version.remove(&before);
        self.by_version.insert(self.last, node);
    }

    /// Records that each index may stand for another node than before.
    pub fn reindex(&mut self, nodes: usize) {
        self.last += 1;
        self.reindexed = self.last;
        self.versions = vec![0; nodes];
        self.by_version.clear();
    }

    /// The nodes that changed after a version, each once, in order of their last change. `None` if indices changed.
    pub fn since(&self, version: u64) -> Option<impl Iterator<Item = usize> + '_> {
        let changed = move || self.by_version.range(version + 1..).map(|(_, node)| *node);
        (version >= self.reindexed).then(changed)
    }
}
