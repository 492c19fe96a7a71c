//! GPUs with similar free memory: the least is at least 0.9 of the most. SGLang refuses to run on others. These are the
//! rules of GPUStack 2.3.0 (`sglang_resource_fit_selector.py`).

use smallvec::SmallVec;

use super::candidate::Generated;
use super::largest_gpus::{candidate, until_enough};
use super::node_prefix::{self, Rules};
use super::options::CountRule;
use super::search::{Group, Pass, Search, UpstreamException};
use dryrack_fleet::GpuKind;

/// The least free memory of similar GPUs, as a part of the most.
const SIMILAR: f64 = 0.9;

/// Finds GPUs of one node. Each node has at most one candidate: of the GPUs with the least free memory that are enough.
pub fn find_gpus(search: &Search, rule: CountRule, pass: &mut Pass) -> Result<Generated, UpstreamException> {
    let groups = search.groups(*pass);
    *pass = Pass::Later;
    let mut found = Vec::new();
    for group in &groups {
        for node in &group.nodes {
            if search.listed_count(*node, group.kind) < 2 {
                continue;
            }
            search.check_unified(*node, group.kind)?;
            let sets = similar(search, search.listed(*node, group.kind), group.kind);
            let enough = |gpus: &SmallVec<[usize; 8]>| enough_of(search, rule, gpus, group.kind);
            found.extend(sets.iter().find_map(enough).map(|gpus| candidate(search, *node, group.kind, gpus)));
        }
    }
    Ok(Generated::Written(found))
}

/// Finds all GPUs of several nodes.
pub fn find_nodes(search: &Search, rules: Rules, pass: &mut Pass) -> Result<Generated, UpstreamException> {
    if !search.request.deployment.distributable {
        return Ok(Generated::Written(Vec::new()));
    }
    let groups = search.groups(*pass);
    *pass = Pass::Later;
    let mut found = Vec::new();
    for group in groups.iter().filter(|group| group.nodes.len() >= 2) {
        if has_balanced_set(search, group) {
            found.extend(node_prefix::find_in(search, rules, group)?);
        }
    }
    Ok(Generated::Written(found))
}

/// Sets of similar GPUs, those with the least free memory first. A GPU without free memory is in none.
fn similar(search: &Search, gpus: impl Iterator<Item = usize>, kind: Option<GpuKind>) -> Vec<SmallVec<[usize; 8]>> {
    let mut order: Vec<usize> = gpus.filter(|at| search.free(*at, kind) > 0).collect();
    order.sort_by_key(|at| search.free(*at, kind));
    let mut sets: Vec<SmallVec<[usize; 8]>> = Vec::new();
    for at in order {
        let is_near = |set: &&mut SmallVec<[usize; 8]>| {
            search.free(set[0], kind) as f64 >= search.free(at, kind) as f64 * SIMILAR
        };
        match sets.last_mut().filter(is_near) {
            Some(set) => set.push(at),
            None => sets.push(SmallVec::from_slice(&[at])),
        }
    }
    sets
}

/// Whether each of these GPUs has enough free memory to reserve its part. There are at least two.
fn all_reserve(search: &Search, gpus: &[usize], kind: Option<GpuKind>) -> bool {
    gpus.len() >= 2 && gpus.iter().all(|at| search.ratio(*at, kind) >= search.utilization(*at))
}

fn enough_of(search: &Search, rule: CountRule, gpus: &[usize], kind: Option<GpuKind>) -> Option<SmallVec<[usize; 8]>> {
    if !all_reserve(search, gpus, kind) {
        return None;
    }
    let free = gpus.iter().map(|at| search.free(*at, kind)).fold(0u64, u64::saturating_add);
    let is_enough = free as f64 >= search.plan.need / search.utilization(gpus[0]);
    is_enough.then(|| until_enough(search, rule, gpus.into(), kind, usize::MAX)).flatten()
}

/// Whether some similar GPUs could all reserve their part, with equal numbers of them on each of their nodes.
fn has_balanced_set(search: &Search, group: &Group) -> bool {
    // The GPUs of a node are next to each other in the columns.
    let mut hosts: Vec<(usize, u32)> = group.nodes.iter().map(|node| (search.host(*node).gpus.start, *node)).collect();
    hosts.sort_unstable();
    let host_of = |at: usize| hosts.partition_point(|(start, _)| *start <= at);
    let is_balanced = |gpus: &[usize]| {
        let mut hosts: Vec<usize> = gpus.iter().map(|at| host_of(*at)).collect();
        hosts.sort_unstable();
        let mut counts = hosts.chunk_by(|one, other| one == other).map(<[usize]>::len);
        let first = counts.next();
        counts.all(|count| Some(count) == first)
    };
    let listed = group.nodes.iter().flat_map(|node| search.listed(*node, group.kind));
    similar(search, listed, group.kind).iter().any(|gpus| all_reserve(search, gpus, group.kind) && is_balanced(gpus))
}
