//! GPUs of one node, added in order of free memory (most first) until they are enough.

use smallvec::SmallVec;

use super::candidate::{Candidate, Generated};
use super::options::CountRule;
use super::search::{Pass, Search, UpstreamException};
use dryrack_fleet::GpuKind;

pub fn find(search: &Search, rule: CountRule, pass: &mut Pass) -> Result<Generated, UpstreamException> {
    if search.plan.count == Some(1) {
        return Ok(Generated::Written(Vec::new()));
    }
    let groups = search.groups(*pass);
    *pass = Pass::Later;
    let mut found: Vec<(u32, Option<GpuKind>, SmallVec<[usize; 8]>)> = Vec::new();
    for group in &groups {
        for node in &group.nodes {
            if search.listed_count(*node, group.kind) < 2 {
                continue;
            }
            search.check_unified(*node, group.kind)?;
            // Skip nodes that need more GPUs than the best candidate so far.
            let most = found.first().map_or(usize::MAX, |(_, _, gpus)| gpus.len());
            let Some(gpus) = enough_of(search, rule, *node, group.kind, most) else { continue };
            if gpus.len() < most {
                found.clear();
            }
            found.push((*node, group.kind, gpus));
        }
    }
    Ok(Generated::Written(found.into_iter().map(|(node, kind, gpus)| candidate(search, node, kind, gpus)).collect()))
}

/// A candidate of these GPUs of one node.
pub fn candidate(search: &Search, node: u32, kind: Option<GpuKind>, gpus: SmallVec<[usize; 8]>) -> Candidate {
    let main = search.share(node, gpus.into_iter(), |at| claim(search, at, kind));
    Candidate { main, kind, known: known(search, node, kind), ..Candidate::default() }
}

/// The claim on one of several GPUs: the reservation, or else all its free memory.
fn claim(search: &Search, at: usize, kind: Option<GpuKind>) -> u64 {
    match search.reserves(at) {
        true => search.reservation(at),
        false => search.free(at, kind),
    }
}

/// The GPUs in the order in which they are added, until they are enough. At most `most` GPUs are added.
fn enough_of(
    search: &Search,
    rule: CountRule,
    node: u32,
    kind: Option<GpuKind>,
    most: usize,
) -> Option<SmallVec<[usize; 8]>> {
    let order = search.listed(node, kind).filter(|at| search.ratio(*at, kind) > search.utilization(*at)).collect();
    until_enough(search, rule, order, kind, most)
}

/// The first of these GPUs, those with the most free memory first, until they are enough. At most `most` GPUs are added.
pub fn until_enough(
    search: &Search,
    rule: CountRule,
    mut order: SmallVec<[usize; 8]>,
    kind: Option<GpuKind>,
    most: usize,
) -> Option<SmallVec<[usize; 8]>> {
    let plan = search.plan;
    order.sort_by_key(|at| std::cmp::Reverse(search.free(*at, kind)));
    let mut sum = 0u64;
    for taken in 1..=order.len().min(most) {
        sum = sum.saturating_add(claim(search, order[taken - 1], kind));
        if !plan.divides(taken as i64) {
            continue;
        }
        let is_enough = sum as f64 >= plan.need;
        let accepted = match plan.count.filter(|count| *count != 0) {
            Some(count) if (taken as i64) < count => continue,
            Some(_) if rule == CountRule::Reached || is_enough => true,
            // The requested number is reached, but the GPUs are not enough.
            Some(_) => return None,
            // A request for zero GPUs is never satisfied.
            None => plan.count.is_none() && is_enough,
        };
        if accepted {
            order.truncate(taken);
            return Some(order);
        }
    }
    None
}

/// The GPUs that the score considers. All copies of a node have the list of one kind, so only GPUs of that kind count.
pub fn known(search: &Search, node: u32, kind: Option<GpuKind>) -> Option<SmallVec<[usize; 8]>> {
    let is_mixed = search.host(node).kinds.len() > 1 && kind.is_some();
    is_mixed.then(|| search.listed(node, kind).collect())
}
