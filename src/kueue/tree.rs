//! The quota tree: cluster queues below cohorts below cohorts, with the quota and the usage of each.
//!
//! A change of usage updates only the path to the root. Every change is recorded, so a simulated change can be undone
//! back to a [`TreeMark`]. The tree is never copied. A change of quota recomputes one tree.
//!
//! The rules are those of Kueue's `pkg/cache/scheduler/resource_node.go`.

use std::sync::Arc;

use super::names::{FlavorResource, ResourceId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// The quota of one resource of one flavor at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    pub nominal: i64,
    /// The most that the node may borrow.
    pub borrowing_limit: Option<i64>,
    /// The most of its quota that the node lends.
    pub lending_limit: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    quota: Quota,
    /// The quota of the subtree, without what its children do not lend.
    subtree: i64,
    /// Whether the subtree states a quota for it, even a quota of 0.
    has_quota: bool,
    /// Whether the node itself states a quota for it.
    has_own_quota: bool,
    /// The part of `subtree` that is never lent.
    local: i64,
    usage: i64,
}

impl Cell {
    fn local_available(&self) -> i64 {
        (self.local - self.usage).max(0)
    }
}

#[derive(Debug)]
struct Node {
    name: Arc<str>,
    parent: Option<NodeId>,
    /// In the order of their names.
    cohorts: Vec<NodeId>,
    queues: Vec<NodeId>,
    is_queue: bool,
    /// Whether the node is a stopped queue. A stopped queue has no candidates, and does not count in heights.
    is_stopped: bool,
    weight: f64,
    height: u32,
    /// Sorted by the pair.
    cells: Vec<(FlavorResource, Cell)>,
    /// For a cohort: the largest amount of each resource that a child could get, over all flavors. Sorted by the
    /// resource.
    lendable: Vec<(ResourceId, i64)>,
}

impl Node {
    fn cell(&self, pair: FlavorResource) -> Cell {
        self.cells.binary_search_by_key(&pair, |(pair, _)| *pair).map_or(Cell::default(), |at| self.cells[at].1)
    }

    fn cell_mut(&mut self, pair: FlavorResource) -> &mut Cell {
        let at = self.cells.binary_search_by_key(&pair, |(pair, _)| *pair).unwrap_or_else(|at| {
            self.cells.insert(at, (pair, Cell::default()));
            at
        });
        &mut self.cells[at].1
    }
}

/// A point to which changes of usage can be undone.
#[derive(Clone, Copy, Debug)]
pub struct TreeMark(usize);

#[derive(Debug, Default)]
pub struct QuotaTree {
    nodes: Vec<Node>,
    /// The resource of each pair.
    resources: Vec<ResourceId>,
    journal: Vec<(NodeId, FlavorResource, i64)>,
}

impl QuotaTree {
    pub(crate) fn know_pair(&mut self, pair: FlavorResource, resource: ResourceId) {
        if pair.0 as usize == self.resources.len() {
            self.resources.push(resource);
        }
    }

    pub(crate) fn add_node(&mut self, name: Arc<str>, is_queue: bool) -> NodeId {
        self.nodes.push(Node {
            name,
            parent: None,
            cohorts: Vec::new(),
            queues: Vec::new(),
            is_queue,
            is_stopped: false,
            weight: 1.0,
            height: 0,
            cells: Vec::new(),
            lendable: Vec::new(),
        });
        NodeId(self.nodes.len() as u32 - 1)
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    pub fn name(&self, id: NodeId) -> &Arc<str> {
        &self.node(id).name
    }

    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.node(id).parent
    }

    pub(crate) fn weight(&self, id: NodeId) -> f64 {
        self.node(id).weight
    }

    pub(crate) fn child_cohorts(&self, id: NodeId) -> &[NodeId] {
        &self.node(id).cohorts
    }

    /// The queues directly below the cohort that are not stopped.
    pub(crate) fn child_queues(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.node(id).queues.iter().copied().filter(|queue| !self.node(*queue).is_stopped)
    }

    pub(crate) fn root(&self, id: NodeId) -> NodeId {
        self.path(id).last().unwrap_or(id)
    }

    /// The cohorts above the node, the nearest first.
    pub(crate) fn path(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.parent(id), |above| self.parent(*above))
    }

    /// All queues below the root of the node, including stopped ones, in the order of the tree.
    pub(crate) fn all_queues(&self, id: NodeId) -> Vec<NodeId> {
        let (mut found, mut open) = (Vec::new(), vec![self.root(id)]);
        while let Some(next) = open.pop() {
            match self.node(next).is_queue {
                true => found.push(next),
                false => open.extend(self.node(next).queues.iter().chain(&self.node(next).cohorts)),
            }
        }
        found
    }

    // Quota

    /// Moves a node below a cohort, or to the top. If the cohort is below the node, returns false and changes nothing.
    pub(crate) fn set_parent(&mut self, id: NodeId, parent: Option<NodeId>) -> bool {
        let makes_cycle = parent.is_some_and(|parent| parent == id || self.path(parent).any(|above| above == id));
        if makes_cycle {
            return false;
        }
        let is_queue = self.node(id).is_queue;
        if let Some(before) = self.node(id).parent {
            let before = self.node_mut(before);
            let children = if is_queue { &mut before.queues } else { &mut before.cohorts };
            children.retain(|child| *child != id);
        }
        if let Some(parent) = parent {
            let name = Arc::clone(self.name(id));
            let children = |tree: &QuotaTree| match is_queue {
                true => tree.node(parent).queues.partition_point(|child| *tree.name(*child) < name),
                false => tree.node(parent).cohorts.partition_point(|child| *tree.name(*child) < name),
            };
            let at = children(self);
            let parent = self.node_mut(parent);
            if is_queue { &mut parent.queues } else { &mut parent.cohorts }.insert(at, id);
        }
        self.node_mut(id).parent = parent;
        true
    }

    /// Replaces the quotas of a node. [`QuotaTree::rebuild`] must follow.
    pub(crate) fn set_quotas(&mut self, id: NodeId, quotas: &[(FlavorResource, Quota)]) {
        let node = self.node_mut(id);
        for (_, cell) in &mut node.cells {
            *cell = Cell { usage: cell.usage, ..Cell::default() };
        }
        for (pair, quota) in quotas {
            let cell = node.cell_mut(*pair);
            (cell.quota, cell.has_quota, cell.has_own_quota) = (*quota, true, true);
        }
    }

    pub(crate) fn set_weight(&mut self, id: NodeId, weight: f64) {
        self.node_mut(id).weight = weight;
    }

    pub(crate) fn set_stopped(&mut self, id: NodeId, is_stopped: bool) {
        self.node_mut(id).is_stopped = is_stopped;
    }

    /// Computes subtree quotas, usage of cohorts, heights and lendable amounts of the tree of this node.
    pub(crate) fn rebuild(&mut self, id: NodeId) {
        assert!(self.journal.is_empty(), "quota does not change while usage is simulated");
        let root = self.root(id);
        self.accumulate(root);
        self.lend(root);
    }

    fn accumulate(&mut self, id: NodeId) {
        if !self.node(id).is_queue {
            for (_, cell) in &mut self.node_mut(id).cells {
                cell.subtree = cell.quota.nominal;
                cell.has_quota = cell.has_own_quota;
                cell.usage = 0;
            }
        }
        let children: Vec<NodeId> = self.node(id).cohorts.iter().chain(&self.node(id).queues).copied().collect();
        let mut height = 0;
        for child in children {
            self.accumulate(child);
            let counts = !self.node(child).is_stopped;
            height = height.max(if counts { self.node(child).height + 1 } else { 0 });
            for index in 0..self.node(child).cells.len() {
                let (pair, below) = self.node(child).cells[index];
                let cell = self.node_mut(id).cell_mut(pair);
                cell.subtree = cell.subtree.saturating_add(below.subtree - below.local);
                cell.has_quota |= below.has_quota;
                cell.usage = cell.usage.saturating_add((below.usage - below.local).max(0));
            }
        }
        let node = self.node_mut(id);
        node.height = height;
        for (_, cell) in &mut node.cells {
            if node.is_queue {
                cell.subtree = cell.quota.nominal;
            }
            cell.local = cell.quota.lending_limit.map_or(0, |limit| (cell.subtree - limit).max(0));
        }
    }

    fn lend(&mut self, root: NodeId) {
        let pairs: Vec<FlavorResource> =
            self.node(root).cells.iter().filter(|(_, cell)| cell.has_quota).map(|(pair, _)| *pair).collect();
        let mut open = vec![root];
        while let Some(cohort) = open.pop() {
            let mut lendable: Vec<(ResourceId, i64)> = Vec::new();
            for pair in &pairs {
                let (resource, amount) = (self.resources[pair.0 as usize], self.potential(cohort, *pair));
                match lendable.iter_mut().find(|(known, _)| *known == resource) {
                    Some((_, sum)) => *sum = sum.saturating_add(amount),
                    None => lendable.push((resource, amount)),
                }
            }
            lendable.sort_unstable();
            self.node_mut(cohort).lendable = lendable;
            open.extend(self.node(cohort).cohorts.iter().copied());
        }
    }

    pub(crate) fn quota(&self, id: NodeId, pair: FlavorResource) -> Quota {
        self.node(id).cell(pair).quota
    }

    pub fn usage(&self, id: NodeId, pair: FlavorResource) -> i64 {
        self.node(id).cell(pair).usage
    }

    /// Each pair that is in use at the node, with its usage.
    pub fn used(&self, id: NodeId) -> impl Iterator<Item = (FlavorResource, i64)> {
        self.node(id).cells.iter().map(|(pair, cell)| (*pair, cell.usage)).filter(|(_, usage)| *usage != 0)
    }

    /// For each pair with quota whose usage exceeds the quota of the subtree: the excess.
    pub(crate) fn borrowed(&self, id: NodeId) -> impl Iterator<Item = (FlavorResource, i64)> {
        let with_quota = self.node(id).cells.iter().filter(|(_, cell)| cell.has_quota);
        with_quota.map(|(pair, cell)| (*pair, cell.usage - cell.subtree)).filter(|(_, above)| *above > 0)
    }

    /// The most that a child of this cohort could get of each resource.
    pub(crate) fn lendable(&self, id: NodeId, resource: ResourceId) -> i64 {
        let lendable = &self.node(id).lendable;
        lendable.binary_search_by_key(&resource, |(known, _)| *known).map_or(0, |at| lendable[at].1)
    }

    pub(crate) fn resource(&self, pair: FlavorResource) -> ResourceId {
        self.resources[pair.0 as usize]
    }

    // Usage

    /// The amount that is left for the node; negative if the usage exceeds the quota.
    fn left(&self, id: NodeId, pair: FlavorResource) -> i64 {
        let cell = self.node(id).cell(pair);
        let Some(parent) = self.parent(id) else { return cell.subtree - cell.usage };
        let above = self.left(parent, pair);
        let above = match cell.quota.borrowing_limit {
            None => above,
            Some(limit) => {
                let stored = cell.subtree - cell.local;
                let used = (cell.usage - cell.local).max(0);
                above.min((stored - used).saturating_add(limit))
            }
        };
        cell.local_available().saturating_add(above)
    }

    /// The amount that is left for the node, at least 0.
    pub(crate) fn available(&self, id: NodeId, pair: FlavorResource) -> i64 {
        self.left(id, pair).max(0)
    }

    /// The largest request of the node that could ever fit.
    pub(crate) fn potential(&self, id: NodeId, pair: FlavorResource) -> i64 {
        let cell = self.node(id).cell(pair);
        let Some(parent) = self.parent(id) else { return cell.subtree };
        let most = cell.local.saturating_add(self.potential(parent, pair));
        match cell.quota.borrowing_limit {
            None => most,
            Some(limit) => most.min(cell.subtree.saturating_add(limit)),
        }
    }

    pub(crate) fn local_available(&self, id: NodeId, pair: FlavorResource) -> i64 {
        self.node(id).cell(pair).local_available()
    }

    /// Whether the node would use more than its subtree's quota if this amount were added.
    pub(crate) fn borrows_with(&self, id: NodeId, pair: FlavorResource, amount: i64) -> bool {
        let cell = self.node(id).cell(pair);
        cell.usage.saturating_add(amount) > cell.subtree
    }

    /// Whether the node uses more than its subtree's quota of one of these.
    pub(crate) fn exceeds_quota(&self, id: NodeId, pairs: &[FlavorResource]) -> bool {
        pairs.iter().any(|pair| self.borrows_with(id, *pair, 0))
    }

    /// The height of the lowest subtree above the queue whose quota has room for the amount, or the height of the whole
    /// tree if none has. Also returns whether that subtree is below the root.
    pub(crate) fn lowest_fit(&self, queue: NodeId, pair: FlavorResource, amount: i64) -> (u32, bool) {
        let Some(first) = self.parent(queue) else { return (0, false) };
        if !self.borrows_with(queue, pair, amount) {
            return (0, true);
        }
        let mut left = amount - self.local_available(queue, pair);
        let mut last = first;
        for above in self.path(queue) {
            last = above;
            if !self.borrows_with(above, pair, left) {
                break;
            }
            left -= self.local_available(above, pair);
        }
        (self.node(last).height, self.parent(last).is_some())
    }

    fn change(&mut self, id: NodeId, pair: FlavorResource, by: i64) {
        self.node_mut(id).cell_mut(pair).usage += by;
        self.journal.push((id, pair, by));
    }

    pub(crate) fn add_usage(&mut self, id: NodeId, pair: FlavorResource, amount: i64) {
        let (mut at, mut amount) = (Some(id), amount);
        while let Some(node) = at {
            let local = self.local_available(node, pair);
            self.change(node, pair, amount);
            at = if amount > local { self.parent(node) } else { None };
            amount -= local;
        }
    }

    pub(crate) fn remove_usage(&mut self, id: NodeId, pair: FlavorResource, amount: i64) {
        let (mut at, mut amount) = (Some(id), amount);
        while let Some(node) = at {
            let cell = self.node(node).cell(pair);
            let stored_above = cell.usage - cell.local;
            self.change(node, pair, -amount);
            at = if stored_above > 0 { self.parent(node) } else { None };
            amount = amount.min(stored_above);
        }
    }

    pub(crate) fn mark(&self) -> TreeMark {
        TreeMark(self.journal.len())
    }

    pub(crate) fn undo_to(&mut self, mark: TreeMark) {
        while self.journal.len() > mark.0 {
            if let Some((id, pair, by)) = self.journal.pop() {
                self.node_mut(id).cell_mut(pair).usage -= by;
            }
        }
    }

    /// Makes all changes since the first mark final.
    pub(crate) fn commit(&mut self) {
        self.journal.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: FlavorResource = FlavorResource(0);

    /// A root with two cohorts, and two queues below each. Some lend only a part.
    fn tree() -> (QuotaTree, Vec<NodeId>) {
        let mut tree = QuotaTree::default();
        tree.know_pair(PAIR, ResourceId(0));
        let root = tree.add_node(Arc::from("root"), false);
        let mut queues = Vec::new();
        for (index, lending_limit) in [Some(3), None].into_iter().enumerate() {
            let cohort = tree.add_node(Arc::from(format!("cohort-{index}")), false);
            assert!(tree.set_parent(cohort, Some(root)));
            tree.set_quotas(cohort, &[(PAIR, Quota { nominal: 2, borrowing_limit: Some(5), lending_limit })]);
            for (below, lending_limit) in [None, Some(1)].into_iter().enumerate() {
                let queue = tree.add_node(Arc::from(format!("queue-{index}-{below}")), true);
                assert!(tree.set_parent(queue, Some(cohort)));
                tree.set_quotas(queue, &[(PAIR, Quota { nominal: 4, borrowing_limit: None, lending_limit })]);
                queues.push(queue);
            }
        }
        tree.rebuild(root);
        (tree, queues)
    }

    fn usages(tree: &QuotaTree) -> Vec<i64> {
        (0..tree.nodes.len() as u32).map(|node| tree.usage(NodeId(node), PAIR)).collect()
    }

    /// The plain computation sums the usage of the children again, from the leaves to the root.
    #[test]
    fn usage_after_any_changes_is_that_of_the_plain_computation() {
        let (mut tree, queues) = tree();
        let mut held = vec![0i64; queues.len()];
        let mut state = 7u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (at, amount) = ((state >> 33) as usize % queues.len(), (state >> 40) as i64 % 5 + 1);
            let mark = tree.mark();
            let before = usages(&tree);
            if held[at] >= amount && state >> 63 == 0 {
                tree.remove_usage(queues[at], PAIR, amount);
                held[at] -= amount;
            } else {
                tree.add_usage(queues[at], PAIR, amount);
                held[at] += amount;
            }
            let incremental = usages(&tree);
            tree.undo_to(mark);
            assert_eq!(usages(&tree), before, "an undone change leaves no trace");
            let by = incremental[queues[at].0 as usize] - before[queues[at].0 as usize];
            if by > 0 {
                tree.add_usage(queues[at], PAIR, by)
            } else {
                tree.remove_usage(queues[at], PAIR, -by)
            }
            tree.commit();
            tree.rebuild(queues[0]);
            assert_eq!(usages(&tree), incremental);
        }
    }

    /// By hand: queue 0-0 lends all 4, queue 0-1 lends 1 of 4, so cohort 0 has 2 + 4 + 1 = 7, of which it lends 3 and
    /// keeps 4. Cohort 1 has 7 and lends all. The root has 3 + 7 = 10. Queue 0-0 can get its cohort's 4 and, of the
    /// root's 10, all, but its cohort may borrow only 5: at most 7 + 5 = 12. Queue 0-1 keeps 3 besides: 15.
    #[test]
    fn what_a_queue_could_ever_get_follows_from_the_limits() {
        let (tree, queues) = tree();
        let most: Vec<i64> = queues.iter().map(|queue| tree.potential(*queue, PAIR)).collect();
        assert_eq!(most, [12, 15, 10, 13]);
        let left: Vec<i64> = queues.iter().map(|queue| tree.available(*queue, PAIR)).collect();
        assert_eq!(left, most, "nothing is in use");
    }
}
