//! A single GPU. Every GPU of every node that could hold the model alone is a candidate.

use super::candidate::Generated;
use super::options::{Left, SingleNeed};
use super::request::{Picks, whole_bytes};
use super::search::{Pass, Search, UpstreamException};

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
                if (!is_picked || picked.contains(&columns.index[at]))
                    && holds(search, need, columns.total[at], free)
                    && is_left(search, left, columns.total[at], free, search.ratio(at, group.kind))
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
    /// For each GPU size in bytes, the reserved bytes, or `None` if the GPU is too small. The list is empty if the plan
    /// reserves nothing.
    known: Vec<(u64, Option<u64>)>,
}

impl Sizes {
    /// Computes the reservation for each size of GPU that can hold the need.
    fn new(search: &Search, need: SingleNeed) -> Sizes {
        let plan = search.plan;
        let mut known: Vec<(u64, Option<u64>)> = Vec::new();
        if plan.reserves() {
            for total in &search.columns().total {
                if known.last().is_none_or(|(last, _)| last != total) && !known.iter().any(|(size, _)| size == total) {
                    let can_hold = need == SingleNeed::Free || plan.need <= *total as f64 * plan.utilization;
                    known.push((*total, can_hold.then(|| plan.reservation(*total))));
                }
            }
        }
        Sizes { known }
    }

    /// Combines [`holds`] and [`is_left`], for a GPU that its own pool sees.
    #[inline]
    fn fits(&self, search: &Search, need: SingleNeed, left: Left, at: usize) -> bool {
        let plan = search.plan;
        let of = search.left();
        if !plan.reserves() {
            return plan.need <= of.free[at] as f64;
        }
        let total = search.columns().total[at];
        let Some(reservation) = self.known.iter().find(|(size, _)| *size == total).and_then(|(_, of)| *of) else {
            return false;
        };
        let holds = need == SingleNeed::Reservation || plan.need <= of.free[at] as f64;
        holds
            && match left {
                Left::Ratio => of.ratio[at] >= plan.utilization,
                Left::Claim => reservation <= of.free[at],
            }
    }
}

/// Whether a GPU of this size, with this much free memory, can hold the need.
#[inline]
pub fn holds(search: &Search, need: SingleNeed, total: u64, free: u64) -> bool {
    let plan = search.plan;
    match need {
        SingleNeed::Reservation if plan.reserves() => plan.need <= total as f64 * plan.utilization,
        SingleNeed::Reservation | SingleNeed::Free => plan.need <= free as f64,
    }
}

/// Whether a GPU has enough free memory to reserve part of it. Always true if nothing is reserved.
#[inline]
pub fn is_left(search: &Search, left: Left, total: u64, free: u64, ratio: f64) -> bool {
    let plan = search.plan;
    match left {
        _ if !plan.reserves() => true,
        Left::Ratio => ratio >= plan.utilization,
        Left::Claim => plan.reservation(total) <= free,
    }
}

/// The claim on a single GPU of this size, in bytes.
pub fn claim(search: &Search, total: u64) -> u64 {
    if search.plan.reserves() { search.plan.reservation(total) } else { whole_bytes(search.plan.need) }
}
