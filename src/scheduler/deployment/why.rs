//! Why a replica has no place. A reason is computed for every node, and only on request.

use super::filter::{self, Verdicts};
use super::hardware::HardwareVerdicts;
use super::options::DeploymentOptions;
use super::request::{Picks, Request};
use super::search::Search;
use super::single_gpu;
use dryrack_event::{Histogram, Reason};
use dryrack_fleet::{Accounting, Serving};
use dryrack_workload::{Backend, GgufEstimate};

/// Reasons, each with its number of nodes. A request without any nodes gets [`Reason::NoNodes`].
pub fn reasons(
    options: &DeploymentOptions,
    request: &Request,
    serving: &Serving,
    hardware: &HardwareVerdicts,
    search: Option<&Search>,
) -> Histogram {
    let mut histogram = Histogram::default();
    for reason in each(options, request, serving, hardware, search) {
        histogram.add(reason.expect("without a search, a filter refuses each node"), 1);
    }
    if histogram.is_empty() {
        histogram.add(Reason::NoNodes, 1);
    }
    histogram
}

/// The reason of each node, in the order of nodes. `None` if the node could be used, or if it is not known yet whether
/// it could.
pub fn each<'s>(
    options: &'s DeploymentOptions,
    request: &'s Request<'s>,
    serving: &'s Serving,
    hardware: &'s HardwareVerdicts,
    search: Option<&'s Search<'s>>,
) -> impl Iterator<Item = Option<Reason>> + 's {
    let mut verdicts = Verdicts::new(request, serving, hardware);
    (0..serving.hosts().len() as u32).map(move |node| {
        let refusal = filter::refusal(options, request, serving, node, &mut verdicts);
        refusal.or_else(|| search.map(|search| lacking(search, node)))
    })
}

/// What is missing on a node that passed the filters.
fn lacking(search: &Search, node: u32) -> Reason {
    let plan = search.plan;
    let host = search.host(node);
    let columns = search.columns();
    if let Picks::Gpus(picks) = &search.request.picks {
        let here = picks.iter().filter(|pick| pick.node == host.name);
        let refused = here.clone().find_map(|pick| {
            let at = search.find(node, pick.index, Some(pick.kind))?;
            search.hardware.of_gpu(search.serving, node, at)
        });
        if let Some(reason) = refused {
            return reason;
        }
        // Layers are placed in RAM alone only without a pick, however much RAM is free.
        if here.clone().next().is_none() && matches!(search.request.deployment.backend, Backend::LlamaBox(_)) {
            return Reason::NotPicked;
        }
        if here.into_iter().any(|pick| search.find(node, pick.index, Some(pick.kind)).is_none()) {
            return Reason::PickedGpuMissing;
        }
    }
    if let Backend::LlamaBox(estimate) = &search.request.deployment.backend {
        return lacking_for_layers(search, node, estimate);
    }
    let count = plan.count.unwrap_or(1).max(1) as usize;
    if host.gpus.is_empty() {
        return Reason::TooFewGpus;
    }
    // Free memory according to the ledger, under every accounting of the profile.
    let left = columns.left(Accounting::Ledger);
    let free = |at: &usize| left.free[*at];
    let usable: Vec<usize> =
        host.gpus.clone().filter(|at| !search.reserves(*at) || search.reservation(*at) <= free(at)).collect();
    if usable.is_empty() {
        let need = super::options::SingleNeed::Reservation;
        let fits_alone = |at: usize| single_gpu::holds(search, need, columns.kind[at], columns.total[at], u64::MAX);
        let fits = host.gpus.clone().any(fits_alone);
        return if fits { Reason::BelowUtilization } else { Reason::InsufficientGpuMemory };
    }
    if host.gpus.len() < count {
        return spread_out(search, node, Reason::TooFewGpus);
    }
    if usable.len() < count {
        return Reason::BelowUtilization;
    }
    spread_out(search, node, Reason::InsufficientGpuMemory)
}

/// The reason for a GGUF model: RAM if the layers would fit on GPUs, otherwise GPU memory.
fn lacking_for_layers(search: &Search, node: u32, estimate: &GgufEstimate) -> Reason {
    let host = search.host(node);
    let wanted = search.plan.gpu_layers.unwrap_or(estimate.layers).min(estimate.layers);
    let left = search.columns().left(Accounting::Ledger);
    let layer = estimate.layer_memory.get().max(1);
    let rooms = host.gpus.clone().map(|at| left.free[at].saturating_sub(estimate.fixed_memory.get()) / layer);
    match rooms.fold(0u64, u64::saturating_add) >= u64::from(wanted) || host.gpus.is_empty() {
        true => Reason::InsufficientRam,
        false => Reason::InsufficientGpuMemory,
    }
}

/// For a node that could hold a part: the reason why it does not, or else `alone`, the reason why it cannot hold
/// everything.
fn spread_out(search: &Search, node: u32, alone: Reason) -> Reason {
    let deployment = search.request.deployment;
    if search.nodes.len() < 2 {
        return alone;
    }
    if !deployment.distributable {
        return Reason::NotDistributable;
    }
    if search.serving.is_part_of_distributed(node as usize, deployment.backend.name()) {
        return Reason::AlreadyDistributed;
    }
    alone
}
