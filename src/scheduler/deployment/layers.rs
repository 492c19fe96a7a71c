//! Layers of a GGUF model. All are on GPUs of one node, or some are on GPUs and the rest in RAM, or all are in RAM.
//!
//! The required RAM decreases linearly with the number of layers on GPUs. Several GPUs share the layers in proportion
//! to their free memory, as llama.cpp does by default.

use smallvec::SmallVec;

use super::candidate::{Candidate, Generated};
use super::options::{LayerStage, ShortOfRam};
use super::request::{Picks, whole_offload};
use super::search::{Pass, Search};
use dryrack_fleet::GpuKind;
use dryrack_workload::GgufEstimate;

/// One way to place the model on one node.
#[derive(Clone, Debug)]
struct NodeLayout {
    node: u32,
    kind: Option<GpuKind>,
    /// The number of layers on GPUs.
    layers: u32,
    /// The GPUs by index in the columns, each with its claimed bytes.
    gpus: SmallVec<[(usize, u64); 8]>,
    /// Claimed RAM, in bytes.
    ram: u64,
}

/// The candidates of the first stage that finds at least one.
pub fn find(search: &Search, estimate: &GgufEstimate) -> Generated {
    let asked = search.plan.gpu_layers.map(|layers| layers.min(estimate.layers));
    let is_asked_for = |stage: &LayerStage| match (stage, asked) {
        (_, None) => true,
        (LayerStage::WholeOnGpu | LayerStage::WholeOnGpus, Some(layers)) => layers == estimate.layers && layers > 0,
        (LayerStage::PartOnGpus, Some(layers)) => layers > 0 && layers < estimate.layers,
        (LayerStage::InRam, Some(layers)) => layers == 0,
    };
    for stage in search.options.layers.stages.iter().filter(|stage| is_asked_for(stage)) {
        let laid = match stage {
            LayerStage::WholeOnGpu => whole_on_gpu(search, estimate),
            LayerStage::WholeOnGpus => whole_on_gpus(search, estimate),
            LayerStage::PartOnGpus => part_on_gpus(search, estimate, asked),
            LayerStage::InRam => in_ram(search, estimate),
        };
        if !laid.is_empty() {
            return Generated::Written(laid.into_iter().map(|laid| candidate(search, laid)).collect());
        }
    }
    Generated::Written(Vec::new())
}

fn candidate(search: &Search, laid: NodeLayout) -> Candidate {
    let claim = |at: usize| laid.gpus.iter().find(|(known, _)| *known == at).map_or(0, |(_, bytes)| *bytes);
    let mut main = search.share(laid.node, laid.gpus.iter().map(|(at, _)| *at), claim);
    main.ram = laid.ram;
    Candidate { main, kind: laid.kind, ..Candidate::default() }
}

/// The RAM in bytes with this many layers on GPUs, rounded up.
pub fn ram_with(estimate: &GgufEstimate, layers: u32) -> u64 {
    let (all, none) = (estimate.ram_offloaded.get(), estimate.ram_unoffloaded.get());
    let saved = u128::from(none.saturating_sub(all)) * u128::from(layers) / u128::from(estimate.layers.max(1));
    none.max(all) - saved as u64
}

/// Whether the rest fits in RAM. If GPU memory is part of RAM, the memory for layers on GPUs counts too.
fn is_in_ram(search: &Search, node: u32, ram: u64, on_gpus: u64) -> bool {
    let host = search.host(node);
    let pooled = if host.unified { on_gpus } else { 0 };
    host.ram_free >= ram.saturating_add(pooled)
}

/// The usable GPUs of a node, or only the picked ones if GPUs were picked; most free memory first.
fn usable(search: &Search, node: u32, kind: Option<GpuKind>) -> SmallVec<[usize; 8]> {
    let picked = match search.request.picks {
        Picks::Gpus(_) => Some(search.picked_on(node, kind)),
        Picks::Free | Picks::Nodes(_) | Picks::Unreadable => None,
    };
    let index = &search.columns().index;
    let listed = search.listed(node, kind).filter(|at| picked.as_ref().is_none_or(|list| list.contains(&index[*at])));
    let mut gpus: SmallVec<[usize; 8]> = listed.filter(|at| search.free(*at, kind) > 0).collect();
    gpus.sort_by_key(|at| std::cmp::Reverse(search.free(*at, kind)));
    gpus
}

/// Lists every node once for each usable kind of its GPUs, together with these GPUs.
fn hosts(search: &Search) -> Vec<(u32, Option<GpuKind>, SmallVec<[usize; 8]>)> {
    let groups = search.groups(Pass::Later);
    let each = groups.iter().flat_map(|group| group.nodes.iter().map(|node| (*node, group.kind)));
    each.map(|(node, kind)| (node, kind, usable(search, node, kind))).collect()
}

fn whole_on_gpu(search: &Search, estimate: &GgufEstimate) -> Vec<NodeLayout> {
    if search.plan.count.is_some_and(|count| count != 1) {
        return Vec::new();
    }
    let takes = whole_offload(estimate);
    let ram = ram_with(estimate, estimate.layers);
    let mut gpus: Vec<(u32, Option<GpuKind>, usize)> = Vec::new();
    for (node, kind, usable) in hosts(search) {
        gpus.extend(usable.into_iter().map(|at| (node, kind, at)));
    }
    gpus.sort_by_key(|(_, kind, at)| std::cmp::Reverse(search.free(*at, *kind)));
    let mut found = Vec::new();
    for (node, kind, at) in gpus.into_iter().filter(|(_, kind, at)| search.free(*at, *kind) >= takes) {
        match (is_in_ram(search, node, ram, takes), search.options.layers.short_of_ram) {
            (true, _) => {
                let gpus = [(at, takes)].into_iter().collect();
                found.push(NodeLayout { node, kind, layers: estimate.layers, gpus, ram });
            }
            (false, ShortOfRam::PassedOver) => {}
            (false, ShortOfRam::EndsTheStage) => break,
        }
    }
    found
}

/// The candidates that need the fewest GPUs.
fn whole_on_gpus(search: &Search, estimate: &GgufEstimate) -> Vec<NodeLayout> {
    let each = hosts(search).into_iter().filter_map(|(node, kind, gpus)| {
        let mut several = counts(search, gpus.len()).filter(|count| *count > 1);
        several.find_map(|count| laid_on(search, estimate, (node, kind), &gpus[..count], estimate.layers))
    });
    let mut found: Vec<NodeLayout> = each.collect();
    let fewest = found.iter().map(|laid| laid.gpus.len()).min();
    found.retain(|laid| Some(laid.gpus.len()) == fewest);
    found
}

/// The candidates with the most layers on GPUs, or with the requested number of layers. Among them, only those with the
/// fewest GPUs.
fn part_on_gpus(search: &Search, estimate: &GgufEstimate, asked: Option<u32>) -> Vec<NodeLayout> {
    let mut found: Vec<NodeLayout> = Vec::new();
    for (node, kind, gpus) in hosts(search) {
        // Skip results that are worse than the best so far.
        let least = asked.unwrap_or_else(|| found.first().map_or(1, |best| best.layers));
        let most = asked.unwrap_or(estimate.layers.saturating_sub(1));
        let of_count = |count| {
            let on_first = |layers| laid_on(search, estimate, (node, kind), &gpus[..count], layers);
            (least..=most).rev().find_map(on_first)
        };
        let rank = |laid: &NodeLayout| (laid.layers, std::cmp::Reverse(laid.gpus.len()));
        let Some(best) = counts(search, gpus.len()).filter_map(of_count).max_by_key(rank) else { continue };
        match found.first().map(|known| rank(&best).cmp(&rank(known))) {
            Some(std::cmp::Ordering::Less) => continue,
            Some(std::cmp::Ordering::Greater) => found.clear(),
            Some(std::cmp::Ordering::Equal) | None => {}
        }
        found.push(best);
    }
    found
}

fn in_ram(search: &Search, estimate: &GgufEstimate) -> Vec<NodeLayout> {
    if matches!(search.request.picks, Picks::Gpus(_)) {
        return Vec::new();
    }
    let ram = ram_with(estimate, 0);
    let fits = search.nodes.iter().filter(|node| is_in_ram(search, **node, ram, 0));
    fits.map(|node| NodeLayout { node: *node, kind: None, layers: 0, gpus: SmallVec::new(), ram }).collect()
}

/// The numbers of GPUs to try: only the requested number, or all numbers in ascending order.
fn counts(search: &Search, gpus: usize) -> impl Iterator<Item = usize> + use<> {
    let asked = search.plan.count;
    (1..=gpus).filter(move |count| asked.is_none_or(|asked| i64::try_from(*count) == Ok(asked)))
}

/// Places this many layers on exactly these GPUs. `None` if they do not fit, or if the rest does not fit in RAM.
fn laid_on(
    search: &Search,
    estimate: &GgufEstimate,
    (node, kind): (u32, Option<GpuKind>),
    gpus: &[usize],
    layers: u32,
) -> Option<NodeLayout> {
    let free = |at: usize| u128::from(search.free(at, kind));
    let total: u128 = gpus.iter().map(|at| free(*at)).sum();
    let (mut before, mut sum) = (0u64, 0u128);
    let mut laid = NodeLayout { node, kind, layers, gpus: SmallVec::new(), ram: ram_with(estimate, layers) };
    let mut claimed = 0u64;
    for at in gpus {
        sum += free(*at);
        let upto = (u128::from(layers) * sum / total.max(1)) as u64;
        let own = upto - before;
        before = upto;
        let takes = estimate.fixed_memory.get().saturating_add(estimate.layer_memory.get().saturating_mul(own));
        if own == 0 || u128::from(takes) > free(*at) {
            return None;
        }
        claimed = claimed.saturating_add(takes);
        laid.gpus.push((*at, takes));
    }
    is_in_ram(search, node, laid.ram, claimed).then_some(laid)
}

/// Whether this GPU has enough free memory for layers of the model. `Some(true)` means that the GPU can hold layers
/// alone, `Some(false)` only together with other GPUs of its node, and `None` not at all.
pub fn could_hold(search: &Search, estimate: &GgufEstimate, node: u32, at: usize) -> Option<bool> {
    let kind = (search.options.pool != super::Pool::One).then(|| search.columns().kind[at]);
    let (least, most) = match search.plan.gpu_layers.map(|layers| layers.min(estimate.layers)) {
        Some(0) => return None,
        Some(layers) => (layers, layers),
        None => (1, estimate.layers),
    };
    let fits = |gpus: &[usize]| {
        (least..=most).rev().any(|layers| laid_on(search, estimate, (node, kind), gpus, layers).is_some())
    };
    if fits(&[at]) {
        return Some(true);
    }
    let mut with_others: SmallVec<[usize; 8]> = [at].into_iter().collect();
    for other in usable(search, node, kind).into_iter().filter(|other| *other != at) {
        with_others.push(other);
        if fits(&with_others) {
            return Some(false);
        }
    }
    None
}
