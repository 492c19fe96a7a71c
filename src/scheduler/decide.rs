//! The pipeline: filters in their order, then a generator of candidates, ranked by score and node id.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::consolidate::{Share, consolidate};
use super::deployment::{PlacementContext, decide_deployment, ever_fits_deployment, still_fits_deployment};
use super::draw::Draw;
use super::filter::{self, Verdict};
use super::fit::{self, GpuChoice, Load};
use super::neighbours::neighbours;
use super::offers;
use super::options::{GangPlaces, SchedulerOptions, Ties};
use super::racks;
use super::row::{Grouping, Row, ideal_rows, rows};
use super::scorer;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{Fleet, NodeClaim, NodeShape, Placement};
use dryrack_ids::NodeId;
use dryrack_units::Score;
use dryrack_workload::{Demand, Gang, Pick};

/// A possible placement and its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub placement: Placement,
    pub score: Score,
}

/// The scheduler's answer for one demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Best first; never empty.
    Place(SmallVec<[Candidate; 1]>),
    /// Reasons with their number of nodes; together they cover every node.
    Refuse { refusal: Refusal, reasons: Histogram },
}

/// Decides for one demand. `keep` is the number of candidates wanted; a gang gets one.
pub fn decide(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, grouping: Grouping, keep: usize) -> Decision {
    decide_for(options, demand, PlacementContext::UNSUBMITTED, fleet, grouping, keep)
}

/// Decides for one demand of a job. The context matters to a model, whose replica is spread among the job's own
/// instances.
pub fn decide_for(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
    grouping: Grouping,
    keep: usize,
) -> Decision {
    if demand.requirements.is_some() {
        return offers::decide(&options.offers, demand, context, fleet, grouping, keep);
    }
    if let Some(deployment) = &demand.deployment {
        return decide_deployment(&options.deployments, demand, deployment, fleet, context, keep);
    }
    let rows = rows(fleet, demand, grouping);
    let verdicts = judge(options, demand, &rows);
    let candidates = candidates(options, demand, fleet, (&rows, &verdicts), context, keep);
    if !candidates.is_empty() {
        return Decision::Place(candidates);
    }
    let refusal = if ever_fits(options, demand, fleet) { Refusal::Unfit } else { Refusal::Never };
    Decision::Refuse { refusal, reasons: histogram(&rows, &verdicts) }
}

/// The best candidates of rows with their verdicts, best first; none if the rows do not suffice.
pub(super) fn candidates(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    (rows, verdicts): (&[Row], &[Verdict]),
    context: PlacementContext,
    keep: usize,
) -> SmallVec<[Candidate; 1]> {
    let choice = GpuChoice::new(options, context.draw);
    match &demand.pick {
        Some(pick @ Pick::AllGpus(_)) => {
            picked_gpus(options, demand, fleet, pick, (rows, verdicts), choice).into_iter().collect()
        }
        _ if options.gangs == GangPlaces::Consolidate && demand.gang != Gang::Spread => {
            consolidated(options, demand, fleet, (rows, verdicts), choice).into_iter().collect()
        }
        _ if options.gangs == GangPlaces::Neighbours => {
            let fit: Vec<usize> = fit_rows(rows, verdicts).map(|(index, _)| index).collect();
            let shares = neighbours(demand, options.gpus, rows, &fit);
            shares.map(|shares| shared(demand, fleet, rows, shares, choice)).into_iter().collect()
        }
        _ if demand.tasks == 1 => {
            let ranked = match (options.ties, keep) {
                (Ties::Random, 1) => {
                    drawn(options, demand, fleet, (rows, verdicts), context.draw).into_iter().collect()
                }
                (Ties::First | Ties::Random, _) => ranked(options, demand, fleet, (rows, verdicts), keep),
            };
            let candidate = |(score, Reverse(node), index): (Score, Reverse<NodeId>, usize)| {
                let load = fit::fill(demand, choice, &rows[index].on(fleet, node), 1);
                Candidate { placement: Placement::new([claim(node, load)].into()), score }
            };
            ranked.into_iter().map(candidate).collect()
        }
        _ if options.gangs == GangPlaces::Racks => {
            let within = racks::within(demand, options.gpus, rows, verdicts);
            gang(options, demand, fleet, (rows, &within), choice).into_iter().collect()
        }
        _ => gang(options, demand, fleet, (rows, verdicts), choice).into_iter().collect(),
    }
}

/// Whether the demand would fit if every node were ready, healthy and empty.
pub fn ever_fits(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> bool {
    if demand.requirements.is_some() {
        return offers::ever_fits(&options.offers, demand, fleet);
    }
    if let Some(deployment) = &demand.deployment {
        return ever_fits_deployment(&options.deployments, demand, deployment, fleet);
    }
    let rows = ideal_rows(fleet, demand);
    let verdicts = judge(options, demand, &rows);
    let fit = || rows.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_fit()).map(|(row, _)| row);
    match (&demand.pick, demand.gang) {
        (Some(pick @ Pick::AllGpus(_)), _) => fit().count() == pick.nodes().len(),
        (_, Gang::Spread) => fit().map(|row| u64::from(row.count)).sum::<u64>() >= u64::from(demand.tasks),
        (_, Gang::Anywhere | Gang::Packed) => {
            let room =
                |row: &Row| u64::from(fit::capacity(demand, options.gpus, row, demand.tasks)) * u64::from(row.count);
            fit().map(room).sum::<u64>() >= u64::from(demand.tasks)
        }
    }
}

/// Whether a placement decided earlier still passes every filter and still has its room.
pub fn still_fits(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, placement: &Placement) -> bool {
    if demand.requirements.is_some() {
        return offers::still_fits(&options.offers, demand, fleet, placement);
    }
    if let Some(deployment) = &demand.deployment {
        return still_fits_deployment(&options.deployments, demand, deployment, fleet, placement);
    }
    let rows = rows(fleet, demand, Grouping::EachNode);
    placement.claims().iter().all(|claim| {
        let row = std::slice::from_ref(&rows[claim.node.index()]);
        let passes = judge(options, demand, row)[0].is_fit();
        passes && has_room(&row[0], claim)
    })
}

fn has_room(row: &Row, claim: &NodeClaim) -> bool {
    let (shape, status) = (row.shape, row.status);
    let unified = |index: u16| shape.gpus[usize::from(index)].unified;
    let pooled = claim.gpus.iter().filter(|part| unified(part.index)).map(|part| part.memory).sum();
    status.cpu_free(shape) >= claim.cpu
        && status.ram_free(shape) >= claim.ram + pooled
        && claim.gpus.iter().all(|part| {
            let index = usize::from(part.index);
            status.gpus[index].state.is_usable()
                && status.gpu_share_free(index) >= part.share
                && status.gpu_memory_free(shape, index) >= part.memory
        })
}

/// Each row's verdict after all filters.
pub(super) fn judge(options: &SchedulerOptions, demand: &Demand, rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = rows.iter().map(|row| before_filters(row.shape)).collect();
    for stage in &options.filters {
        filter::apply(stage, options.gpus, demand, rows, &mut verdicts);
    }
    verdicts
}

/// Instances of fleets are given out only in blocks, to jobs that require them.
pub(super) fn before_filters(shape: &NodeShape) -> Verdict {
    if shape.instance.is_none() { Verdict::Fit } else { Verdict::Never(Reason::InFleet) }
}

/// Counts the reasons. A node that would fit, but cannot take the whole gang, counts as [`Reason::GangIncomplete`].
fn histogram(rows: &[Row], verdicts: &[Verdict]) -> Histogram {
    let mut histogram = Histogram::default();
    for (row, verdict) in rows.iter().zip(verdicts) {
        histogram.add(verdict.reason().unwrap_or(Reason::GangIncomplete), row.count);
    }
    histogram
}

pub(super) fn claim(node: NodeId, load: Load) -> NodeClaim {
    NodeClaim { node, tasks: load.tasks, cpu: load.cpu, ram: load.ram, gpus: load.gpus, blocks: SmallVec::new() }
}

/// The best nodes for one task, best first, and the indexes of their rows.
fn ranked(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    (rows, verdicts): (&[Row], &[Verdict]),
    keep: usize,
) -> Vec<(Score, Reverse<NodeId>, usize)> {
    let mut ranked: Vec<(Score, Reverse<NodeId>, usize)> = Vec::new();
    for (index, row) in fit_rows(rows, verdicts) {
        let score = scorer::total(options, fleet.largest(), demand, row);
        match keep {
            1 => {
                let entry = (score, Reverse(row.first()), index);
                match ranked.first_mut() {
                    Some(best) => *best = (*best).max(entry),
                    None => ranked.push(entry),
                }
            }
            _ => ranked.extend(row.nodes().take(keep).map(|node| (score, Reverse(node), index))),
        }
    }
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    ranked.truncate(keep);
    ranked
}

/// One of the nodes with the highest score, chosen uniformly.
fn drawn(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    (rows, verdicts): (&[Row], &[Verdict]),
    draw: Draw,
) -> Option<(Score, Reverse<NodeId>, usize)> {
    let mut best: Vec<(NodeId, usize)> = Vec::new();
    let mut highest: Option<Score> = None;
    for (index, row) in fit_rows(rows, verdicts) {
        let score = scorer::total(options, fleet.largest(), demand, row);
        if highest.is_some_and(|highest| score < highest) {
            continue;
        }
        if highest != Some(score) {
            best.clear();
            highest = Some(score);
        }
        best.extend(row.nodes().map(|node| (node, index)));
    }
    let highest = highest?;
    // Sorted by id, so that the grouping of nodes has no effect.
    best.sort_unstable();
    let (node, index) = *draw.stream("choice of a node").pick(&best);
    Some((highest, Reverse(node), index))
}

fn fit_rows<'r, 'f>(rows: &'r [Row<'f>], verdicts: &'r [Verdict]) -> impl Iterator<Item = (usize, &'r Row<'f>)> {
    rows.iter().enumerate().zip(verdicts).filter(|(_, verdict)| verdict.is_fit()).map(|(row, _)| row)
}

/// Exactly the picked GPUs, or nothing.
fn picked_gpus(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    pick: &Pick,
    (rows, verdicts): (&[Row], &[Verdict]),
    choice: GpuChoice<'_>,
) -> Option<Candidate> {
    let mut claims: SmallVec<[NodeClaim; 1]> = SmallVec::new();
    let mut score = Score::ZERO;
    for (_, row) in fit_rows(rows, verdicts) {
        score = score + scorer::total(options, fleet.largest(), demand, row);
        claims.push(claim(row.first(), fit::fill(demand, choice, row, 1)));
    }
    (claims.len() == pick.nodes().len()).then(|| Candidate { placement: Placement::new(claims), score })
}

fn consolidated(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    (rows, verdicts): (&[Row], &[Verdict]),
    choice: GpuChoice<'_>,
) -> Option<Candidate> {
    let fit: Vec<usize> = fit_rows(rows, verdicts).map(|(index, _)| index).collect();
    let shares = consolidate(demand, options.gpus, rows, &fit)?;
    Some(shared(demand, fleet, rows, shares, choice))
}

/// Makes a candidate of nodes and how many of the tasks each takes.
pub(super) fn shared(
    demand: &Demand,
    fleet: &Fleet,
    rows: &[Row],
    shares: Vec<Share>,
    choice: GpuChoice<'_>,
) -> Candidate {
    let claim =
        |(node, index, tasks): Share| claim(node, fit::fill(demand, choice, &rows[index].on(fleet, node), tasks));
    Candidate { placement: Placement::new(shares.into_iter().map(claim).collect()), score: Score::ZERO }
}

/// The rank of a node for a gang: capacity first (only for packed gangs), then score, then the lowest id.
type Ranked = (u32, Score, Reverse<NodeId>, usize);

/// Places a gang. Tasks are identical, so counting is exact: if there is room for all of them, this finds it.
fn gang(
    options: &SchedulerOptions,
    demand: &Demand,
    fleet: &Fleet,
    (rows, verdicts): (&[Row], &[Verdict]),
    choice: GpuChoice<'_>,
) -> Option<Candidate> {
    let limit = if demand.gang == Gang::Spread { 1 } else { demand.tasks };
    let mut room: u64 = 0;
    let mut ranked: Vec<Ranked> = Vec::new();
    for (index, row) in fit_rows(rows, verdicts) {
        let capacity = fit::capacity(demand, options.gpus, row, limit);
        room += u64::from(capacity) * u64::from(row.count);
        let score = scorer::total(options, fleet.largest(), demand, row);
        let first = if demand.gang == Gang::Packed { capacity } else { 0 };
        ranked.extend(row.nodes().map(|node| (first, score, Reverse(node), index)));
    }
    if room < u64::from(demand.tasks) {
        return None;
    }
    // Often far fewer nodes are needed than would fit, and a heap sorts only those.
    let mut ranked = BinaryHeap::from(ranked);
    let mut claims: SmallVec<[NodeClaim; 1]> = SmallVec::new();
    let (mut left, mut best) = (demand.tasks, Score::ZERO);
    while left > 0 {
        let (_, score, Reverse(node), index) = ranked.pop().expect("there is room for every task");
        if claims.is_empty() {
            best = score;
        }
        let load = fit::fill(demand, choice, &rows[index].on(fleet, node), left.min(limit));
        left -= load.tasks;
        claims.push(claim(node, load));
    }
    Some(Candidate { placement: Placement::new(claims), score: best })
}
