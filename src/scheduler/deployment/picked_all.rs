//! Takes all manually picked GPUs, even if they do not fit. This is the rule of GPUStack up to 0.7.

use smallvec::SmallVec;

use super::candidate::{Candidate, CandidatePart, Generated};
use super::options::{FreeMemory, Left, Short, SingleNeed};
use super::request::whole_bytes;
use super::search::{Search, UpstreamException};
use super::single_gpu;
use dryrack_event::Reason;

/// The rules of one profile.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub need: SingleNeed,
    pub several_nodes: FreeMemory,
    pub short: Short,
}

pub fn find(search: &Search, rules: Rules) -> Result<Generated, UpstreamException> {
    let found = match search.request.picked_nodes().len() {
        1 => on_one_node(search, rules)?,
        _ => on_several_nodes(search, rules)?,
    };
    Ok(Generated::Written(found.into_iter().collect()))
}

/// The indexes that were picked on a node. The picks are sorted as text, so 10 comes before 2.
fn indexes(search: &Search, node: u32) -> SmallVec<[u32; 8]> {
    let name = &search.host(node).name;
    let mut picks: Vec<(String, u32)> = (search.request.picked().iter())
        .filter(|pick| pick.node == *name)
        .map(|pick| (format!("{}:{}:{}", pick.node, pick.kind, pick.index), pick.index))
        .collect();
    picks.sort();
    picks.into_iter().map(|(_, index)| index).collect()
}

fn on_one_node(search: &Search, rules: Rules) -> Result<Option<Candidate>, UpstreamException> {
    let plan = search.plan;
    let Some(node) = search.nodes.first().copied() else { return Ok(None) };
    let host = search.host(node);
    let picked = indexes(search, node);
    if host.gpus.is_empty() || (picked.len() > 1 && host.gpus.len() < 2) {
        return Ok(None);
    }
    search.check_unified(node, None)?;
    if picked.len() == 1 {
        let Some(at) = search.find(node, picked[0], None) else { return Ok(None) };
        let (total, free, ratio) = (search.columns().total[at], search.free(at, None), search.ratio(at, None));
        let gpu = search.columns().kind[at];
        let fits = single_gpu::holds(search, rules.need, gpu, total, free)
            && single_gpu::is_left(search, Left::Ratio, gpu, total, free, ratio);
        let main = search.share(node, std::iter::once(at), |_| single_gpu::claim(search, gpu, total));
        return Ok(Some(Candidate { main, overcommit: !fits, ..Candidate::default() }));
    }
    let part = whole_bytes(plan.need / picked.len() as f64);
    let claim = |at: usize| if search.reserves(at) { search.reservation(at) } else { part };
    let main = share_of(search, node, picked, claim);
    let is_short = (main.claimed() as f64) < plan.need;
    if is_short && !existing(search, &main).any(|at| search.reserves(at)) && rules.short == Short::KeyError {
        return Err(UpstreamException(Reason::UpstreamKeyError));
    }
    let too_full = |at: usize| search.reserves(at) && search.ratio(at, None) < search.utilization(at);
    let overcommit = is_short || existing(search, &main).any(too_full);
    Ok(Some(Candidate { main, overcommit, ..Candidate::default() }))
}

/// A share of all GPUs that were picked on a node. Only GPUs that exist have claims, in the order of the node's GPUs.
fn share_of(search: &Search, node: u32, picked: SmallVec<[u32; 8]>, claim: impl Fn(usize) -> u64) -> CandidatePart {
    let columns = search.columns();
    let there = search.host(node).gpus.clone().filter(|at| picked.contains(&columns.index[*at]));
    let claims = there.map(|at| (columns.index[at], claim(at))).collect();
    CandidatePart { node: node as usize, indexes: picked, claims, ram: 0 }
}

/// The existing GPUs of a share, by index in the columns.
fn existing<'s>(search: &'s Search, share: &'s CandidatePart) -> impl Iterator<Item = usize> + use<'s> {
    share.claims.iter().filter_map(|(index, _)| search.find(share.node as u32, *index, None))
}

fn on_several_nodes(search: &Search, rules: Rules) -> Result<Option<Candidate>, UpstreamException> {
    let plan = search.plan;
    let mut nodes: SmallVec<[u32; 8]> = search.nodes.iter().copied().collect();
    if nodes.is_empty() {
        return Ok(None);
    }
    nodes.sort_by_key(|node| std::cmp::Reverse(search.host(*node).gpus.len()));
    let mut shares: Vec<CandidatePart> = Vec::new();
    for node in &nodes {
        search.check_unified(*node, None)?;
        let leads = |instance: &dryrack_fleet::ServedInstance| {
            instance.is_distributed && instance.main.as_ref().is_some_and(|part| part.node == Some(*node as usize))
        };
        if search.serving.instances_on(*node as usize).any(leads) {
            return Ok(None);
        }
        let claim = |at: usize| search.reservation(at);
        shares.push(share_of(search, *node, indexes(search, *node), claim));
    }
    let (mut free, mut satisfied) = (0u64, 0);
    for share in &shares {
        for (at, (_, claim)) in existing(search, share).zip(&share.claims) {
            free = free.saturating_add(search.free(at, None));
            satisfied += usize::from(*claim < search.free(at, None));
        }
    }
    let picked: usize = shares.iter().map(|share| share.indexes.len()).sum();
    let held = match rules.several_nodes {
        FreeMemory::Whole => free as f64,
        FreeMemory::Reserved => {
            free as f64 * existing(search, &shares[0]).next().map_or(0.0, |at| search.utilization(at))
        }
    };
    let overcommit = satisfied < picked || held < plan.need;
    let main = shares.remove(0);
    Ok(Some(Candidate { main, subordinates: shares, overcommit, ..Candidate::default() }))
}
