//! Takes as many of the manually picked GPUs as one replica needs. This is the rule of GPUStack 2.3.

use smallvec::SmallVec;

use super::candidate::{Candidate, CandidatePart, Generated};
use super::request::whole_bytes;
use super::search::Search;
use dryrack_event::Reason;
use dryrack_fleet::GpuKind;

/// A node on which GPUs of one kind were picked.
struct PickedNode {
    node: u32,
    /// The picked indexes in ascending order. They may include missing GPUs and duplicates.
    picked: SmallVec<[u32; 8]>,
    /// The existing GPUs by index in the columns, most free memory first.
    there: SmallVec<[usize; 8]>,
}

/// Finds candidates, or returns the reason of a refusal.
pub fn find(search: &Search) -> Result<Generated, Reason> {
    let plan = search.plan;
    let kinds = kinds(search);
    let count = plan.count.unwrap_or(0);
    if count == search.request.picked().len() as i64 && kinds.len() > 1 {
        return Err(Reason::PicksOfSeveralKinds);
    }
    let nodes: Vec<(GpuKind, Vec<PickedNode>)> =
        kinds.iter().map(|kind| (*kind, picked_nodes(search, *kind))).collect();
    let mut candidates = Vec::new();
    for (kind, nodes) in &nodes {
        for node in nodes {
            match count {
                1 => candidates.extend(node.there.iter().map(|at| on_one_node(search, *kind, node, &[*at], 1))),
                _ if node.there.len() as i64 >= count => {
                    candidates.push(on_one_node(search, *kind, node, &node.there, count as usize));
                }
                _ => {}
            }
        }
    }
    if candidates.is_empty() && count > 1 {
        candidates = nodes.iter().filter_map(|(kind, nodes)| on_several_nodes(search, *kind, nodes)).collect();
    }
    let mut best: Option<(f64, usize)> = None;
    for (at, candidate) in candidates.iter_mut().enumerate() {
        candidate.overcommit = is_overcommitted(search, candidate);
        let value = effective(search, candidate);
        if candidate.overcommit && best.map_or(0.0, |(best, _)| best) <= value {
            best = Some((value, at));
        }
    }
    if candidates.iter().any(|candidate| !candidate.overcommit) {
        candidates.retain(|candidate| !candidate.overcommit);
        return Ok(Generated::Written(candidates));
    }
    match best {
        Some(_) if search.request.replicas > 1 => Err(Reason::OvercommitOfReplicas),
        best => Ok(Generated::Written(best.map(|(_, at)| candidates.swap_remove(at)).into_iter().collect())),
    }
}

/// The picked kinds in the order of the picks, without duplicates.
fn kinds(search: &Search) -> SmallVec<[GpuKind; 2]> {
    let mut kinds = SmallVec::new();
    for pick in search.request.picked() {
        if !kinds.contains(&pick.kind) {
            kinds.push(pick.kind);
        }
    }
    kinds
}

/// The picked nodes, most GPUs first. On a tie, they are in the order of nodes.
fn picked_nodes(search: &Search, kind: GpuKind) -> Vec<PickedNode> {
    let columns = search.columns();
    let mut nodes: Vec<PickedNode> = Vec::new();
    for node in search.nodes {
        let mut picked = search.picked_on(*node, Some(kind));
        if picked.is_empty() || search.host(*node).gpus.is_empty() {
            continue;
        }
        picked.sort_unstable();
        let all = search.shown(*node);
        let wanted = |at: &usize| picked.contains(&columns.index[*at]) && columns.kind[*at] == kind;
        let mut there: SmallVec<[usize; 8]> = all.filter(wanted).collect();
        let ratio = |at: usize| search.ratio(at, Some(kind));
        there.sort_by(|one, other| ratio(*other).total_cmp(&ratio(*one)));
        nodes.push(PickedNode { node: *node, picked, there });
    }
    nodes.sort_by_key(|node| std::cmp::Reverse(node.there.len()));
    nodes
}

fn is_satisfied(search: &Search, kind: GpuKind, at: usize) -> bool {
    !search.reserves(at) || (search.columns().total[at] > 0 && search.ratio(at, Some(kind)) >= search.utilization(at))
}

/// A candidate of the first GPUs with enough free memory. If these are too few, the first other GPUs are added.
fn on_one_node(search: &Search, kind: GpuKind, node: &PickedNode, gpus: &[usize], count: usize) -> Candidate {
    let (mut used, mut others): (SmallVec<[usize; 8]>, SmallVec<[usize; 8]>) = Default::default();
    for at in gpus {
        let list = if is_satisfied(search, kind, *at) { &mut used } else { &mut others };
        list.push(*at);
        if used.len() >= count {
            break;
        }
    }
    let missing = count - used.len();
    used.extend(others.into_iter().take(missing));
    let indexes = used.iter().map(|at| search.columns().index[*at]).collect();
    let main = share(search, kind, node, indexes);
    Candidate { main, kind: Some(kind), known: Some(node.there.clone()), ..Candidate::default() }
}

/// The part of a candidate on one node, with these GPU indexes. Only GPUs that exist get claims. If the model reserves
/// nothing, each claim is the whole need divided by the number of indexes on this node.
fn share(search: &Search, kind: GpuKind, node: &PickedNode, indexes: SmallVec<[u32; 8]>) -> CandidatePart {
    let plan = search.plan;
    let columns = search.columns();
    let part = whole_bytes(plan.need / indexes.len().max(1) as f64);
    let all = search.shown(node.node);
    let there = all.filter(|at| columns.kind[*at] == kind && indexes.contains(&columns.index[*at]));
    let claim = |at: usize| if search.reserves(at) { search.reservation(at) } else { part };
    let claims = there.map(|at| (columns.index[at], claim(at))).collect();
    CandidatePart { node: node.node as usize, indexes, claims, ram: 0 }
}

fn on_several_nodes(search: &Search, kind: GpuKind, nodes: &[PickedNode]) -> Option<Candidate> {
    let (first, rest) = nodes.split_first()?;
    let count = search.plan.count.unwrap_or(0) as usize;
    let main = share(search, kind, first, first.picked.clone());
    let mut gpus = main.indexes.len();
    let mut subordinates = Vec::new();
    let backend = search.request.deployment.backend.name();
    for node in rest {
        if search.serving.is_part_of_distributed(node.node as usize, backend) {
            continue;
        }
        let take = node.picked.len().min(count.saturating_sub(gpus));
        let mut order = by_claim(search, node);
        order.truncate(take);
        gpus += order.len();
        subordinates.push(share(search, kind, node, order));
        if gpus >= count {
            break;
        }
    }
    let known = Some(first.there.clone());
    (!subordinates.is_empty()).then_some(Candidate { main, subordinates, kind: Some(kind), overcommit: false, known })
}

/// The existing GPUs of a node, sorted by the fraction of their memory that would be claimed, largest first.
fn by_claim(search: &Search, node: &PickedNode) -> SmallVec<[u32; 8]> {
    let plan = search.plan;
    let columns = search.columns();
    let part = whole_bytes(plan.need / node.picked.len().max(1) as f64);
    let rate = |at: usize| {
        let total = columns.total[at];
        let claim = if search.reserves(at) { search.reservation(at) } else { part };
        if total == 0 { 0.0 } else { claim as f64 / total as f64 }
    };
    let mut order = node.there.clone();
    order.sort_by(|one, other| rate(*other).total_cmp(&rate(*one)));
    order.into_iter().map(|at| columns.index[at]).collect()
}

/// Whether the claims are less than the need, or a GPU has too little free memory. If the model reserves nothing, every
/// picked GPU counts as having enough.
fn is_overcommitted(search: &Search, candidate: &Candidate) -> bool {
    let kind = candidate.kind.expect("picked by kind");
    let is_enough = |node: usize, index: u32| {
        let node = node as u32;
        if !search.picked_on(node, Some(kind)).contains(&index) {
            return false;
        }
        !search.plan.reserves(kind)
            || search.find(node, index, Some(kind)).is_some_and(|at| is_satisfied(search, kind, at))
    };
    let lacking = candidate.shares().any(|share| share.indexes.iter().any(|index| !is_enough(share.node, *index)));
    lacking || (candidate.claimed() as f64) < search.plan.need
}

/// The free memory of the GPUs that are used. If all picked GPUs are used, the free memory of all picks. If the model
/// reserves memory, the sum is multiplied by the utilization.
fn effective(search: &Search, candidate: &Candidate) -> f64 {
    let kind = candidate.kind.expect("picked by kind");
    let free_of = |node: u32, index: u32, kind: GpuKind| {
        search.find(node, index, Some(kind)).map_or(0, |at| search.free(at, Some(kind)))
    };
    let free: u64 = if candidate.gpus() < search.request.picked().len() {
        let used = candidate.shares().flat_map(|share| share.indexes.iter().map(|index| (share.node as u32, *index)));
        used.map(|(node, index)| free_of(node, index, kind)).fold(0, u64::saturating_add)
    } else {
        let node_of = |name: &str| search.nodes.iter().copied().find(|node| &*search.host(*node).name == name);
        let picked = search.request.picked().iter();
        let free = picked.filter_map(|pick| Some(free_of(node_of(&pick.node)?, pick.index, pick.kind)));
        free.fold(0, u64::saturating_add)
    };
    if search.plan.reserves(kind) { free as f64 * search.plan.utilization(kind) } else { free as f64 }
}
