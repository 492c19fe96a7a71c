//! A single GPU. Every GPU of every node that could hold the model alone is a candidate.

use super::candidate::Generated;
use super::options::{Left, SingleNeed};
use super::request::{Picks, whole_bytes};
use super::search::{Pass, Search, UpstreamException};
use dryrack_fleet::GpuKind;

pub fn find(search: &Search, need: SingleNeed, left: Left, pass: &mut Pass) -> Result<Generated, UpstreamException> {
    let plan = search.plan;
    if plan.count.is_some_and(|count| count > 1) {
        return Ok(Generated::Written(Vec::new()));
    }
    let groups = search.groups(*pass);
    *pass = Pass::Later;
    let columns = search.columns();
    let is_picked = matches!(search.request.picks, Picks::Gpus(_));
    let sizes = Sizes::new(search, need);
    let mut found = Vec::new();
    for group in &groups {
        for node in &group.nodes {
            search.check_unified(*node, group.kind)?;
            if !is_picked && search.lists_all(*node) {
                let fits = |at: &usize| sizes.fits(search, need, left, *at);
                found.extend(search.host(*node).gpus.clone().filter(fits).map(|at| (*node, at as u32)));
                continue;
            }
            let picked = if is_picked { search.picked_on(*node, group.kind) } else { Default::default() };
            for at in search.listed(*node, group.kind) {
                let free = search.free(at, group.kind);
                let (gpu, total) = (columns.kind[at], columns.total[at]);
                if (!is_picked || picked.contains(&columns.index[at]))
                    && holds(search, need, gpu, total, free)
                    && is_left(search, left, gpu, total, free, search.ratio(at, group.kind))
                {
                    found.push((*node, at as u32));
                }
            }
        }
    }
    Ok(Generated::Singles(found))
}

/// Results that depend only on the size of a GPU. They are computed once for each size, because a fleet has few sizes.
struct Sizes {
    /// For each kind and size in bytes of a GPU of which a part is reserved: the reserved bytes, or `None` if the GPU is
    /// too small.
    known: Vec<((GpuKind, u64), Option<u64>)>,
}

impl Sizes {
    /// Computes the reservation for each size of GPU that can hold the need.
    fn new(search: &Search, need: SingleNeed) -> Sizes {
        let plan = search.plan;
        let mut known: Vec<((GpuKind, u64), Option<u64>)> = Vec::new();
        for gpu in search.columns().kind.iter().copied().zip(search.columns().total.iter().copied()) {
            let is_new =
                known.last().is_none_or(|(last, _)| *last != gpu) && known.iter().all(|(size, _)| *size != gpu);
            let (kind, total) = gpu;
            if is_new && plan.reserves(kind) {
                let can_hold = need == SingleNeed::Free || plan.need <= total as f64 * plan.utilization(kind);
                known.push((gpu, can_hold.then(|| plan.reservation(kind, total))));
            }
        }
        Sizes { known }
    }

    /// Combines [`holds`] and [`is_left`], for a GPU that its own pool sees.
    #[inline]
    fn fits(&self, search: &Search, need: SingleNeed, left: Left, at: usize) -> bool {
        let plan = search.plan;
        let of = search.left();
        if !search.reserves(at) {
            return plan.need <= of.free[at] as f64;
        }
        let gpu = (search.columns().kind[at], search.columns().total[at]);
        let Some(reservation) = self.known.iter().find(|(size, _)| *size == gpu).and_then(|(_, of)| *of) else {
            return false;
        };
        let holds = need == SingleNeed::Reservation || plan.need <= of.free[at] as f64;
        holds
            && match left {
                Left::Ratio => of.ratio[at] >= search.utilization(at),
                Left::Claim => reservation <= of.free[at],
            }
    }
}

/// Whether a GPU of this kind and size, with this much free memory, can hold the need.
#[inline]
pub fn holds(search: &Search, need: SingleNeed, kind: GpuKind, total: u64, free: u64) -> bool {
    let plan = search.plan;
    match need {
        SingleNeed::Reservation if plan.reserves(kind) => plan.need <= total as f64 * plan.utilization(kind),
        SingleNeed::Reservation | SingleNeed::Free => plan.need <= free as f64,
    }
}

/// Whether a GPU has enough free memory to reserve part of it. Always true if nothing is reserved.
#[inline]
pub fn is_left(search: &Search, left: Left, kind: GpuKind, total: u64, free: u64, ratio: f64) -> bool {
    let plan = search.plan;
    match left {
        _ if !plan.reserves(kind) => true,
        Left::Ratio => ratio >= plan.utilization(kind),
        Left::Claim => plan.reservation(kind, total) <= free,
    }
}

/// The claim on a single GPU of this kind and size, in bytes.
pub fn claim(search: &Search, kind: GpuKind, total: u64) -> u64 {
    if search.plan.reserves(kind) { search.plan.reservation(kind, total) } else { whole_bytes(search.plan.need) }
}
