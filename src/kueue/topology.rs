//! Topology-aware placement: which domains of a topology hold the pods of a pod set.
//!
//! The rules are those of Kueue's `pkg/cache/scheduler/tas_flavor_snapshot.go`, without slices, leaders, preferred
//! affinity and node failures. If a pod set requires or prefers a single domain, it gets the domain with the least room
//! that holds it. An unconstrained pod set fills the domains with the least room first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::names::{Names, ResourceId};
use super::objects::{Effect, NodeSelectorTerm, Taint, Toleration, TopologyNode, TopologyRequest};
use super::quantity::amount_of;

/// The label of a node's name. If this is the narrowest level of a topology, each leaf has one node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The resource for the number of pods; every pod takes one.
pub(crate) const PODS: &str = "pods";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainId(u32);

/// Amounts of resources, sorted by the resource's name.
pub(crate) type Requests = Vec<(ResourceId, i64)>;

#[derive(Debug)]
struct Domain {
    /// The values of the labels from the widest level to this one.
    values: Vec<Arc<str>>,
    children: Vec<DomainId>,
    /// For a leaf: its nodes.
    nodes: Vec<usize>,
    free: BTreeMap<ResourceId, i64>,
    used: BTreeMap<ResourceId, i64>,
}

/// The domains of one flavor.
#[derive(Debug)]
pub struct Topology {
    name: Arc<str>,
    levels: Vec<Arc<str>>,
    domains: Vec<Domain>,
    /// The domains of each level, in the order of their values.
    per_level: Vec<Vec<DomainId>>,
    nodes: Vec<TopologyNode>,
    tolerations: Vec<Toleration>,
    journal: Vec<(DomainId, ResourceId, i64)>,
}

/// The pods to place, and their conditions.
#[derive(Clone, Debug)]
pub(crate) struct PlaceRequest<'a> {
    pub pods: i64,
    pub per_pod: &'a Requests,
    pub request: TopologyRequest,
    pub node_selector: &'a BTreeMap<Arc<str>, Arc<str>>,
    pub affinity: &'a [NodeSelectorTerm],
    pub tolerations: &'a [Toleration],
}

/// Which usage of the domains counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occupancy {
    AsUsed,
    /// As if no workload were there.
    Empty,
}

/// The pods in each domain of the narrowest level, in the order of their values.
pub type TopologyPlacement = Vec<(DomainId, i64)>;

/// Why the pods do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlacement {
    topology: Arc<str>,
    fit: i64,
    wanted: i64,
    leaves: usize,
    /// The reasons why leaves were excluded, each with the number of leaves, in the order of the message.
    excluded: Vec<(String, usize)>,
}

impl fmt::Display for NoPlacement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let NoPlacement { topology, fit, wanted, leaves, excluded } = self;
        match fit {
            0 => write!(f, "topology \"{topology}\" doesn't allow to fit any of {wanted} pod(s)")?,
            _ => write!(f, "topology \"{topology}\" allows to fit only {fit} out of {wanted} pod(s)")?,
        }
        if !excluded.is_empty() {
            let excluded: Vec<String> = excluded.iter().map(|(what, count)| format!("{what}: {count}")).collect();
            write!(f, ". Total nodes: {leaves}; excluded: {}", excluded.join(", "))?;
        }
        Ok(())
    }
}

/// How many pods fit in each domain.
type Room = Vec<i64>;

impl Topology {
    /// The domains of the nodes that have all labels of the flavor and of the levels.
    pub(crate) fn new(
        name: Arc<str>,
        levels: Vec<Arc<str>>,
        labels: &BTreeMap<Arc<str>, Arc<str>>,
        tolerations: Vec<Toleration>,
        nodes: &[TopologyNode],
        names: &mut Names,
    ) -> Topology {
        let belongs = |node: &&TopologyNode| {
            labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
                && levels.iter().all(|level| node.labels.contains_key(level))
        };
        let nodes: Vec<TopologyNode> = nodes.iter().filter(belongs).cloned().collect();
        let mut topology = Topology {
            name,
            per_level: vec![Vec::new(); levels.len()],
            levels,
            domains: Vec::new(),
            nodes: Vec::new(),
            tolerations,
            journal: Vec::new(),
        };
        let mut known: BTreeMap<Vec<Arc<str>>, DomainId> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            let values: Vec<Arc<str>> = topology.levels.iter().map(|level| Arc::clone(&node.labels[level])).collect();
            let mut above: Option<DomainId> = None;
            for depth in 1..=values.len() {
                let id = *known.entry(values[..depth].to_vec()).or_insert_with(|| {
                    let id = topology.add_domain(values[..depth].to_vec());
                    if let Some(above) = above {
                        topology.domains[above.0 as usize].children.push(id);
                    }
                    id
                });
                above = Some(id);
            }
            if let Some(leaf) = above {
                let leaf = &mut topology.domains[leaf.0 as usize];
                leaf.nodes.push(index);
                for (resource, quantity) in &node.capacity {
                    let free = leaf.free.entry(names.add_resource(resource)).or_default();
                    *free = free.saturating_add(amount_of(resource, *quantity));
                }
            }
        }
        topology.nodes = nodes;
        for level in 0..topology.levels.len() {
            let mut ids = std::mem::take(&mut topology.per_level[level]);
            ids.sort_by(|a, b| topology.values(*a).cmp(topology.values(*b)));
            topology.per_level[level] = ids;
        }
        topology
    }

    fn add_domain(&mut self, values: Vec<Arc<str>>) -> DomainId {
        let id = DomainId(self.domains.len() as u32);
        self.per_level[values.len() - 1].push(id);
        let (free, used) = (BTreeMap::new(), BTreeMap::new());
        self.domains.push(Domain { values, children: Vec::new(), nodes: Vec::new(), free, used });
        id
    }

    fn domain(&self, id: DomainId) -> &Domain {
        &self.domains[id.0 as usize]
    }

    fn values(&self, id: DomainId) -> &[Arc<str>] {
        &self.domain(id).values
    }

    fn leaves_are_nodes(&self) -> bool {
        self.levels.last().is_some_and(|level| **level == *HOSTNAME)
    }

    /// The values by which Kueue names a leaf: the name of the node, or the values of all levels.
    pub fn named_values(&self, leaf: DomainId) -> &[Arc<str>] {
        let values = self.values(leaf);
        if self.leaves_are_nodes() { &values[values.len() - 1..] } else { values }
    }

    /// The labels by which Kueue binds a pod to a leaf.
    pub fn labels(&self, leaf: DomainId) -> Vec<(Arc<str>, Arc<str>)> {
        let values = self.named_values(leaf);
        let keys = &self.levels[self.levels.len() - values.len()..];
        keys.iter().cloned().zip(values.iter().cloned()).collect()
    }

    /// The leaf of a node, by the name of the node.
    pub(crate) fn leaf_of(&self, node: &str) -> Option<DomainId> {
        let node = self.nodes.iter().position(|known| *known.name == *node)?;
        self.per_level.last()?.iter().copied().find(|leaf| self.domain(*leaf).nodes.contains(&node))
    }

    pub(crate) fn has_level(&self, request: &TopologyRequest) -> bool {
        match request {
            TopologyRequest::Required(level) | TopologyRequest::Preferred(level) => self.levels.contains(level),
            TopologyRequest::Unconstrained => true,
        }
    }

    // Usage

    fn change(&mut self, leaf: DomainId, resource: ResourceId, by: i64) {
        *self.domains[leaf.0 as usize].used.entry(resource).or_default() += by;
        self.journal.push((leaf, resource, by));
    }

    /// Adds pods to a leaf, or removes them if `pods` is negative.
    pub(crate) fn add_pods(&mut self, leaf: DomainId, per_pod: &Requests, pods: i64) {
        for (resource, amount) in per_pod {
            self.change(leaf, *resource, amount * pods);
        }
    }

    pub(crate) fn mark(&self) -> usize {
        self.journal.len()
    }

    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            if let Some((leaf, resource, by)) = self.journal.pop() {
                *self.domains[leaf.0 as usize].used.entry(resource).or_default() -= by;
            }
        }
    }

    pub(crate) fn commit(&mut self) {
        self.journal.clear();
    }

    /// Whether the leaf has room for these pods. `without` is not counted.
    pub(crate) fn has_room(&self, leaf: DomainId, per_pod: &Requests, pods: i64, without: ResourceId) -> bool {
        let leaf = self.domain(leaf);
        per_pod.iter().filter(|(resource, amount)| *resource != without && *amount > 0).all(|(resource, amount)| {
            let free = leaf.free.get(resource).copied().unwrap_or(0) - leaf.used.get(resource).copied().unwrap_or(0);
            free / amount >= pods
        })
    }

    // Placement

    /// Places the pods. `assumed` are pods of the same workload that are placed already.
    pub(crate) fn place(
        &self,
        names: &Names,
        ask: &PlaceRequest<'_>,
        assumed: &[(DomainId, &Requests, i64)],
        occupancy: Occupancy,
    ) -> Result<TopologyPlacement, NoPlacement> {
        let (mut room, excluded) = self.count_room(names, ask, assumed, occupancy);
        let lowest = self.levels.len() - 1;
        let level = match &ask.request {
            TopologyRequest::Required(key) | TopologyRequest::Preferred(key) => {
                self.levels.iter().position(|level| level == key).unwrap_or(lowest)
            }
            TopologyRequest::Unconstrained => lowest,
        };
        let found = self.fitting_domains(level, ask, &room);
        let (level, domains) = found.map_err(|fit| NoPlacement {
            topology: Arc::clone(&self.name),
            fit,
            wanted: ask.pods,
            leaves: self.per_level[lowest].len(),
            excluded,
        })?;
        let tightest = ask.request != TopologyRequest::Unconstrained;
        let mut chosen = take(domains, ask.pods, tightest, &mut room);
        for _ in level..lowest {
            let below = chosen.iter().flat_map(|domain| self.domain(*domain).children.iter().copied()).collect();
            chosen = take(self.sorted(below, tightest, &room), ask.pods, tightest, &mut room);
        }
        chosen.sort_by(|a, b| self.values(*a).cmp(self.values(*b)));
        let placed = chosen.into_iter().map(|leaf| (leaf, room[leaf.0 as usize]));
        Ok(placed.filter(|(_, pods)| *pods > 0).collect())
    }

    fn count_room(
        &self,
        names: &Names,
        ask: &PlaceRequest<'_>,
        assumed: &[(DomainId, &Requests, i64)],
        occupancy: Occupancy,
    ) -> (Room, Vec<(String, usize)>) {
        let mut room = vec![0; self.domains.len()];
        let mut excluded: BTreeMap<String, usize> = BTreeMap::new();
        for leaf in self.per_level.last().into_iter().flatten() {
            let found = match self.excludes(*leaf, ask) {
                Some(why) => Err(why),
                None => self
                    .leaf_room(*leaf, ask, assumed, occupancy)
                    .map_err(|limiting| format!("resource \"{}\"", names.resource(limiting))),
            };
            match found {
                Ok(pods) => room[leaf.0 as usize] = pods,
                Err(why) => *excluded.entry(why).or_default() += 1,
            }
        }
        for level in (0..self.per_level.len().saturating_sub(1)).rev() {
            for id in &self.per_level[level] {
                room[id.0 as usize] = self.domain(*id).children.iter().map(|child| room[child.0 as usize]).sum();
            }
        }
        // Sort them in the order of the message.
        let mut excluded: Vec<(String, usize)> = excluded.into_iter().collect();
        excluded.sort_by_key(|(what, count)| format!("{what}: {count}"));
        (room, excluded)
    }

    /// Why a node does not accept the pods, independent of its free room. Only leaves that are nodes are examined.
    fn excludes(&self, leaf: DomainId, ask: &PlaceRequest<'_>) -> Option<String> {
        if !self.leaves_are_nodes() {
            return None;
        }
        let node = &self.nodes[*self.domain(leaf).nodes.first()?];
        let blocks = |taint: &&Taint| {
            taint.effect != Effect::PreferNoSchedule
                && !ask.tolerations.iter().chain(&self.tolerations).any(|toleration| toleration.tolerates(taint))
        };
        if let Some(Taint { key, value, effect }) = node.taints.iter().find(blocks) {
            let value = if value.is_empty() { String::new() } else { format!("={value}") };
            return Some(format!("taint \"{key}{value}:{effect:?}\""));
        }
        let matches = ask.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
        if !matches {
            return Some("nodeSelector".to_string());
        }
        let suits = ask.affinity.is_empty() || ask.affinity.iter().any(|term| term.matches(&node.name, &node.labels));
        (!suits).then(|| "affinity".to_string())
    }

    /// How many pods the leaf has room for, or the resource for which it has none.
    fn leaf_room(
        &self,
        leaf: DomainId,
        ask: &PlaceRequest<'_>,
        assumed: &[(DomainId, &Requests, i64)],
        occupancy: Occupancy,
    ) -> Result<i64, ResourceId> {
        let domain = self.domain(leaf);
        let mut least: Option<(i64, ResourceId)> = None;
        for (resource, amount) in ask.per_pod.iter().filter(|(_, amount)| *amount > 0) {
            let mut free = domain.free.get(resource).copied().unwrap_or(0);
            if occupancy == Occupancy::AsUsed {
                free -= domain.used.get(resource).copied().unwrap_or(0);
            }
            for (at, per_pod, pods) in assumed {
                let taken = per_pod.iter().find(|(known, _)| at == &leaf && known == resource);
                free -= taken.map_or(0, |(_, amount)| amount * pods);
            }
            let fits = (free / amount).max(0);
            if least.is_none_or(|(least, _)| fits < least) {
                least = Some((fits, *resource));
            }
        }
        match least {
            Some((0, limiting)) => Err(limiting),
            Some((fits, _)) => Ok(fits),
            None => Ok(ask.pods),
        }
    }

    /// The domains that together hold all pods, and their level; or else the number of pods that fit.
    fn fitting_domains(
        &self,
        level: usize,
        ask: &PlaceRequest<'_>,
        room: &Room,
    ) -> Result<(usize, Vec<DomainId>), i64> {
        let is_unconstrained = ask.request == TopologyRequest::Unconstrained;
        let sorted = self.sorted(self.per_level[level].clone(), !is_unconstrained, room);
        let holds = |domain: &DomainId, pods: i64| room[domain.0 as usize] >= pods;
        let Some(first) = sorted.first() else { return Err(0) };
        if is_unconstrained {
            if let Some(found) = sorted.iter().find(|domain| holds(domain, ask.pods)) {
                return Ok((level, vec![*found]));
            }
        } else if holds(first, ask.pods) {
            return Ok((level, vec![tightest_of(&sorted, ask.pods, room)]));
        } else if matches!(ask.request, TopologyRequest::Required(_)) {
            return Err(room[first.0 as usize]);
        } else if level > 0 {
            return self.fitting_domains(level - 1, ask, room);
        }
        let (mut chosen, mut left) = (Vec::new(), ask.pods);
        for (index, domain) in sorted.iter().enumerate() {
            if left <= 0 {
                break;
            }
            let is_last = !is_unconstrained && holds(domain, left);
            let domain = if is_last { tightest_of(&sorted[index..], left, room) } else { *domain };
            chosen.push(domain);
            left -= room[domain.0 as usize];
        }
        if left > 0 { Err(ask.pods - left) } else { Ok((level, chosen)) }
    }

    /// Most room first, or least room first.
    fn sorted(&self, mut domains: Vec<DomainId>, most_first: bool, room: &Room) -> Vec<DomainId> {
        domains.sort_by(|a, b| {
            let (room_a, room_b) = (room[a.0 as usize], room[b.0 as usize]);
            let by_room = if most_first { Reverse(room_a).cmp(&Reverse(room_b)) } else { room_a.cmp(&room_b) };
            by_room.then_with(|| self.values(*a).cmp(self.values(*b)))
        });
        domains
    }
}

/// The first domain with the least room that holds the pods.
fn tightest_of(sorted: &[DomainId], pods: i64, room: &Room) -> DomainId {
    let holding = sorted.iter().filter(|domain| room[domain.0 as usize] >= pods);
    holding.min_by_key(|domain| room[domain.0 as usize]).copied().unwrap_or(sorted[0])
}

/// Takes domains in order until they hold the pods, and writes into `room` how many pods each gets.
fn take(domains: Vec<DomainId>, pods: i64, tightest: bool, room: &mut Room) -> Vec<DomainId> {
    let (mut taken, mut left) = (Vec::new(), pods);
    for (index, domain) in domains.iter().enumerate() {
        let is_last = room[domain.0 as usize] >= left;
        let domain = if is_last && tightest { tightest_of(&domains[index..], left, room) } else { *domain };
        taken.push(domain);
        if is_last {
            room[domain.0 as usize] = left;
            return taken;
        }
        left -= room[domain.0 as usize];
    }
    taken
}
