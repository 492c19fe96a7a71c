//! GPUs that each hold an equal part of a model. The search takes the fewest GPUs of one node. If no node has enough,
//! it takes all GPUs of the fewest nodes that have the same number of GPUs.
//!
//! A backend divides a model evenly, so a GPU that is larger than the others helps only up to the equal part. More GPUs
//! mean smaller parts, and claims reduce what a GPU can hold. So with one more idle node, or with a smaller model, the
//! search never finds less.

use smallvec::SmallVec;

use super::candidate::{Candidate, Generated};
use super::request::Picks;
use super::score;
use super::search::{Group, Pass, Search, UpstreamException};
use dryrack_fleet::GpuKind;
use dryrack_planted::planted;

/// A usable GPU: the bytes that it can hold (its reservation, or else its free memory), and its index in the columns.
type Usable = (u64, usize);

pub fn find_gpus(search: &Search) -> Generated {
    if search.plan.count == Some(1) {
        return Generated::Written(Vec::new());
    }
    let mut fewest = usize::MAX;
    let mut found: Vec<(u32, Option<GpuKind>, SmallVec<[Usable; 8]>)> = Vec::new();
    for group in search.groups(Pass::Later) {
        for node in &group.nodes {
            let mut usable = usable(search, *node, group.kind);
            // On a tie, a healthy GPU comes first if readiness counts. Then comes the GPU with the most free memory,
            // then the first in order.
            let asks = search.options.readiness.weight > 0;
            let is_sound = |at: usize| !asks || search.columns().sound[at];
            let free = &search.left().free;
            let worth = |(holds, at): &Usable| (std::cmp::Reverse((*holds, is_sound(*at), free[*at])), *at);
            // Most nodes are skipped because of what their GPUs can hold. For this, the order does not matter.
            if search.host(*node).unified {
                usable.sort_unstable_by_key(worth);
            }
            let Some(count) = fewest_of(search, *node, &usable, fewest) else { continue };
            usable.sort_unstable_by_key(worth);
            if count < fewest {
                (fewest, _) = (count, found.clear());
            }
            usable.truncate(count);
            found.push((*node, group.kind, usable));
        }
    }
    let write = |(node, kind, gpus): (u32, Option<GpuKind>, SmallVec<[Usable; 8]>)| {
        let claim = claim(search, gpus.len());
        let main = search.share(node, gpus.iter().map(|(_, at)| *at), claim);
        Candidate { main, kind, ..Candidate::default() }
    };
    Generated::Written(found.into_iter().map(write).collect())
}

/// The smallest number of GPUs, from two up to `most`, that can hold the need.
fn fewest_of(search: &Search, node: u32, usable: &[Usable], most: usize) -> Option<usize> {
    let plan = search.plan;
    let numbers = match plan.count {
        Some(count) => usize::try_from(count).ok()?..=usize::try_from(count).ok()?,
        None => 2..=usable.len(),
    };
    let fits = |count: &usize| {
        let part = even_part(plan.need, *count);
        let divides = plan.count.is_some() || plan.divides(*count as i64);
        let holding = usable.iter().filter(|(holds, _)| *holds >= part).count();
        divides && holding >= *count && is_in_ram(search, node, &usable[..*count])
    };
    numbers.take_while(|count| *count <= usable.len().min(most)).find(fits)
}

/// Whether RAM is sufficient on a node whose GPU memory is part of RAM. All its GPUs take memory from the same pool.
fn is_in_ram(search: &Search, node: u32, gpus: &[Usable]) -> bool {
    let host = search.host(node);
    if !host.unified {
        return true;
    }
    let claim = claim(search, gpus.len());
    gpus.iter().map(|(_, at)| claim(*at)).fold(0u64, u64::saturating_add) <= host.ram_free
}

/// The equal part of each GPU, rounded up. Parts that are rounded down would add up to less than the whole.
pub(super) fn even_part(need: f64, count: usize) -> u64 {
    let need = need.max(0.0).ceil() as u64;
    if planted!(PartOfMemoryIsRoundedDown) { need / count as u64 } else { need.div_ceil(count as u64) }
}

/// The claim on each GPU if there are `count` of them.
fn claim<'s>(search: &'s Search, count: usize) -> impl Fn(usize) -> u64 + use<'s> {
    let part = even_part(search.plan.need, count);
    move |at| if search.reserves(at) { search.reservation(at) } else { part }
}

/// The listed GPUs of a node, or only the picked ones if GPUs were picked.
fn listed(search: &Search, node: u32, kind: Option<GpuKind>) -> SmallVec<[usize; 8]> {
    match search.request.picks {
        Picks::Gpus(_) => {
            let picked = search.picked_on(node, kind);
            let columns = search.columns();
            search.listed(node, kind).filter(|at| picked.contains(&columns.index[*at])).collect()
        }
        Picks::Free | Picks::Nodes(_) | Picks::Unreadable => search.listed(node, kind).collect(),
    }
}

fn usable(search: &Search, node: u32, kind: Option<GpuKind>) -> SmallVec<[Usable; 8]> {
    listed(search, node, kind).into_iter().filter_map(|at| Some((holds(search, at)?, at))).collect()
}

/// How many bytes a GPU can hold; `None` if it can hold nothing.
pub(super) fn holds(search: &Search, at: usize) -> Option<u64> {
    let free = search.left().free[at];
    if search.reserves(at) {
        let reservation = search.reservation(at);
        return (reservation <= free && reservation > 0).then_some(reservation);
    }
    (free > 0).then_some(free)
}

/// A node whose listed GPUs are all usable.
pub(super) struct Whole {
    pub node: u32,
    pub gpus: SmallVec<[usize; 8]>,
    /// The smallest amount that one of the GPUs can hold. If GPU memory is part of RAM, this is at most an equal part
    /// of the free RAM.
    pub holds: u64,
}

pub fn find_nodes(search: &Search) -> Result<Generated, UpstreamException> {
    if !search.request.deployment.distributable {
        return Ok(Generated::Written(Vec::new()));
    }
    let mut found: Vec<Candidate> = Vec::new();
    for group in search.groups(Pass::Later) {
        let wholes = wholes(search, &group);
        let mut candidates: Vec<Candidate> = uneven_picks(search, &wholes).into_iter().collect();
        if candidates.is_empty() {
            for equal in by_count(&wholes) {
                candidates.extend(fewest_nodes(search, &equal)?);
            }
        }
        found.extend(candidates.into_iter().map(|candidate| Candidate { kind: group.kind, ..candidate }));
    }
    let fewest = found.iter().map(Candidate::gpus).min();
    found.retain(|candidate| Some(candidate.gpus()) == fewest);
    Ok(Generated::Written(found))
}

pub(super) fn wholes(search: &Search, group: &Group) -> Vec<Whole> {
    let backend = search.request.deployment.backend.name();
    let free = group.nodes.iter().filter(|node| !search.serving.is_part_of_distributed(**node as usize, backend));
    free.filter_map(|node| whole(search, *node, group.kind)).collect()
}

fn whole(search: &Search, node: u32, kind: Option<GpuKind>) -> Option<Whole> {
    let gpus = listed(search, node, kind);
    let mut least = u64::MAX;
    for at in &gpus {
        least = least.min(holds(search, *at)?);
    }
    let host = search.host(node);
    if host.unified && !gpus.is_empty() {
        let claimed = |at: &usize| search.reservation(*at);
        if gpus.iter().map(claimed).fold(0u64, u64::saturating_add) > host.ram_free {
            return None;
        }
        least = least.min(host.ram_free / gpus.len() as u64);
    }
    (!gpus.is_empty()).then_some(Whole { node, gpus, holds: least })
}

/// Groups nodes by their number of GPUs, largest number first. Each group is in the order of nodes.
pub(super) fn by_count(wholes: &[Whole]) -> Vec<Vec<&Whole>> {
    let mut counts: Vec<usize> = wholes.iter().map(|whole| whole.gpus.len()).collect();
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    counts.dedup();
    counts.iter().map(|count| wholes.iter().filter(|whole| whole.gpus.len() == *count).collect()).collect()
}

/// The smallest number of nodes on which every GPU can hold an equal part. Among the suitable nodes, those with the
/// best scores are taken. On a tie, the node that was declared first is taken.
fn fewest_nodes(search: &Search, equal: &[&Whole]) -> Result<Option<Candidate>, UpstreamException> {
    let plan = search.plan;
    let Some(each) = equal.first().map(|whole| whole.gpus.len()).filter(|each| plan.divides(*each as i64)) else {
        return Ok(None);
    };
    let mut most: Vec<u64> = equal.iter().map(|whole| whole.holds).collect();
    most.sort_unstable_by_key(|holds| std::cmp::Reverse(*holds));
    let fits = |nodes: &usize| {
        let gpus = nodes * each;
        let counted = plan.count.is_none_or(|count| i64::try_from(gpus) == Ok(count));
        counted && most[nodes - 1] >= even_part(plan.need, gpus)
    };
    let Some(nodes) = (2..=equal.len()).find(fits) else { return Ok(None) };
    let part = even_part(plan.need, nodes * each);
    let able: Vec<&Whole> = equal.iter().copied().filter(|whole| whole.holds >= part).collect();
    Ok(Some(candidate(search, &best(search, able, nodes)?)))
}

/// The best `count` of these nodes, best first.
fn best<'w>(search: &Search, able: Vec<&'w Whole>, count: usize) -> Result<Vec<&'w Whole>, UpstreamException> {
    let alone = Generated::Written(able.iter().map(|whole| candidate(search, &[whole])).collect());
    let mut scores = score::scores(search, &alone)?;
    score::subtract_doubts(search, &alone, &mut scores);
    let mut order: Vec<usize> = (0..able.len()).collect();
    order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]).then(one.cmp(other)));
    Ok(order.into_iter().take(count).map(|at| able[at]).collect())
}

/// A candidate of all picked GPUs, if the picked nodes have different numbers of them and all picks are taken. The node
/// with the most GPUs is the main node.
fn uneven_picks(search: &Search, wholes: &[Whole]) -> Option<Candidate> {
    let picked = search.request.picked().len();
    let gpus: usize = wholes.iter().map(|whole| whole.gpus.len()).sum();
    let is_all = gpus == picked && search.plan.count == Some(picked as i64);
    if !is_all || wholes.len() < 2 || wholes.windows(2).all(|pair| pair[0].gpus.len() == pair[1].gpus.len()) {
        return None;
    }
    let part = even_part(search.plan.need, gpus);
    let mut order: Vec<&Whole> = wholes.iter().collect();
    order.sort_by_key(|whole| std::cmp::Reverse(whole.gpus.len()));
    order.iter().all(|whole| whole.holds >= part).then(|| candidate(search, &order))
}

fn candidate(search: &Search, taken: &[&Whole]) -> Candidate {
    let claim = claim(search, taken.iter().map(|whole| whole.gpus.len()).sum());
    let share = |whole: &&Whole| search.share(whole.node, whole.gpus.iter().copied(), &claim);
    Candidate { main: share(&taken[0]), subordinates: taken[1..].iter().map(share).collect(), ..Candidate::default() }
}
