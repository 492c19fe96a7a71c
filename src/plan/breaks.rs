//! How the answer of a plan would break: runs of the answer with one node less of each kind, and with more load.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan_run::PlanRun;
use super::summary::Row;
use dryrack_engine::Rehearsal;
use dryrack_fleet::{NodeShape, NodeState, offer_of};
use dryrack_scenario::{Options, PlanFile};
use dryrack_units::counted;
use dryrack_yaml::Diagnostics;

/// The additional load, in percent.
const MORE_LOAD: u32 = 10;
/// The largest number of seeds with which each change is run.
pub const BREAK_SEEDS: usize = 20;
/// The largest number of kinds of nodes of which one is lost. The kinds with most nodes come first.
const MOST_KINDS: usize = 8;

/// A change of the answer that makes it harder to meet the constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The change in words: `10% more load`.
    pub what: String,
    /// The change in the form of `--set`.
    pub set: Vec<String>,
}

/// What happened with a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakResult {
    pub change: Break,
    /// The number of seeds that were run, and the number with which all constraints held.
    pub runs: usize,
    pub kept: usize,
    /// Whether all constraints still hold in their required shares of the seeds.
    pub keeps: bool,
    /// The constraint that fails with most seeds, and what happened with the first of them.
    pub first_broken: Option<(String, String)>,
}

/// The changes to try on an alternative: the loss of the last node of each kind from the start, and more load.
pub fn breaks(plan: &PlanFile, row: &Row, base: &Options) -> Result<Vec<Break>, Diagnostics> {
    let loaded = plan.load(row.cell, plan.seeds.first().copied(), base)?;
    let mut breaks: Vec<Break> = kinds(&loaded.rehearsal)
        .into_iter()
        .map(|kind| Break {
            what: format!("one node less ({}, one of {} with {})", kind.last, kind.count, kind.called),
            set: vec![format!("faults.+={{at: 0s, node: {}, becomes: gone}}", kind.last)],
        })
        .collect();
    let load = loaded.load * f64::from(100 + MORE_LOAD);
    let more = Break { what: format!("{MORE_LOAD}% more load"), set: vec![format!("load={load:.1}%")] };
    let with = plan.load_changed(row.cell, plan.seeds.first().copied(), &more.set, base)?;
    if with.rehearsal.arrivals.len() != loaded.rehearsal.arrivals.len()
        || with.rehearsal.arrivals.iter().zip(&loaded.rehearsal.arrivals).any(|(one, other)| one.at != other.at)
    {
        breaks.push(more);
    }
    Ok(breaks)
}

/// Nodes of equal shape.
pub struct NodeKind {
    /// What the nodes are called: their machine's GPUs, or their names.
    pub called: String,
    pub count: usize,
    /// The name of the last of them that is ready at the start.
    pub last: Arc<str>,
}

/// The kinds of nodes that are ready at the start, those with most nodes first. Instances of clouds are left out,
/// because another one can be requested.
pub fn kinds(rehearsal: &Rehearsal) -> Vec<NodeKind> {
    let ready = |state: NodeState| state == NodeState::Ready;
    let nodes = rehearsal.nodes.iter().filter(|node| ready(node.state) && offer_of(&node.spec.shape).is_none());
    let mut kinds: Vec<NodeKind> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        let called = called(&node.spec.shape);
        // Nodes of one name may differ in labels or racks, which do not make them another kind.
        let at = *known.entry(called.clone()).or_insert_with(|| {
            kinds.push(NodeKind { called, count: 0, last: Arc::clone(&node.spec.name) });
            kinds.len() - 1
        });
        kinds[at].count += 1;
        kinds[at].last = Arc::clone(&node.spec.name);
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    kinds.truncate(MOST_KINDS);
    kinds
}

/// A node by its GPUs, such as `8 a100-80g`, or by its cores if it has none.
fn called(shape: &NodeShape) -> String {
    match shape.gpus.first() {
        Some(gpu) => format!("{} {}", shape.gpus.len(), gpu.model),
        None => format!("{} cores without a GPU", shape.cpu_capacity()),
    }
}

impl BreakResult {
    pub fn of(plan: &PlanFile, change: Break, runs: &[PlanRun]) -> BreakResult {
        let held: Vec<usize> = (0..plan.asked.len())
            .map(|constraint| runs.iter().filter(|run| run.constraints[constraint].held).count())
            .collect();
        let keeps = plan.asked.iter().zip(&held).all(|(share, held)| share.holds(*held, runs.len()));
        let least = (0..held.len()).min_by_key(|constraint| (held[*constraint], *constraint));
        let first_broken = least.filter(|constraint| held[*constraint] < runs.len()).and_then(|constraint| {
            let broken = runs.iter().map(|run| &run.constraints[constraint]).find(|found| !found.held)?;
            Some((broken.name.clone(), broken.happened.clone()))
        });
        let kept = runs.iter().filter(|run| run.constraints.iter().all(|found| found.held)).count();
        BreakResult { change, runs: runs.len(), kept, keeps, first_broken }
    }

    /// A sentence such as `With 10% more load, p95(queue_wait) <= 30m fails with 3 of 5 seeds: …`.
    pub fn sentence(&self) -> String {
        let BreakResult { change, runs, kept, keeps, first_broken } = self;
        let with = format!("With {}", change.what);
        let broken = first_broken.as_ref().map(|(name, happened)| (name.as_str(), happened.as_str()));
        match (keeps, broken) {
            (true, None) => format!("{with}, it still meets everything with {}.", counted(*runs, "seed")),
            (true, Some((name, _))) => {
                format!(
                    "{with}, it still meets everything in the required share of the seeds; {name} fails with {} of {runs}.",
                    runs - kept
                )
            }
            (false, Some((name, happened))) => {
                let seeds = if *runs == 1 { String::new() } else { format!(" with {} of {runs} seeds", runs - kept) };
                format!("{with}, {name} fails{seeds}: {happened}.")
            }
            (false, None) => format!("{with}, too few of the seeds meet a constraint."),
        }
    }
}
