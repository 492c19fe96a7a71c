//! The placement of models: filters, candidate generators and scorers. Each decision is about one replica.
//!
//! A decision is a pure function of a request and of [`dryrack_fleet::Serving`]. Every stage is a file named after its
//! rule. The options ([`DeploymentOptions`]) say which stages run, with which thresholds and orders. Some released
//! programs end a decision with an exception. The profile of such a program refuses with a reason that is named after
//! the exception.

mod arguments;
mod candidate;
mod demand;
mod evaluate;
mod even;
mod filter;
mod finding;
mod hardware;
mod largest_gpus;
mod layers;
mod memory_fraction;
#[cfg(test)]
mod memory_fraction_tests;
mod node_prefix;
mod options;
mod picked_all;
mod picked_some;
#[cfg(test)]
mod place_tests;
mod placer;
#[cfg(test)]
mod placer_tests;
mod request;
#[cfg(test)]
mod request_tests;
mod score;
mod search;
mod selectable;
#[cfg(test)]
mod selectable_tests;
mod similar;
mod single_gpu;
mod why;

pub use candidate::{Candidate, CandidatePart};
pub use evaluate::{Evaluation, evaluate};
pub use finding::{Need, NodeFindings, findings};
pub use options::{
    Absent, ArgumentReading, BinpackOptions, CountRule, Counted, DefaultSelector, DeploymentFilter, DeploymentOptions,
    Divided, DivisibleOptions, Divisor, EvaluationCheck, EvaluationOptions, Fault, FreeMemory, Generator,
    KnownArchitecture, LayerOptions, LayerStage, Left, NeedOptions, NodeCount, Pool, ReadinessOptions, Rounding,
    SglangOptions, Short, ShortOfRam, SingleNeed, SpreadOptions, SpreadRule, TestedNumber, UnreadableNeed, Unreserved,
    UtilizationOptions, UtilizationRange,
};
pub(crate) use placer::ModelPlacer;
pub use request::{PickedGpu, Picks, Plan, Request, ReservedPart, plan};

use std::cmp::Ordering;

use candidate::Generated;
use dryrack_event::{Histogram, Reason};
use dryrack_fleet::Serving;
use dryrack_workload::Backend;
use hardware::HardwareVerdicts;
use request::Halt;
use search::{Pass, Search, UpstreamException};

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Candidates with their scores, best first. There is at least one.
    Place(Vec<(Candidate, f64)>),
    /// Reasons, each with its number of nodes. Together they cover every node.
    Refuse(Histogram),
}

/// Places one replica. `keep` is the number of candidates wanted.
pub fn place(options: &DeploymentOptions, request: &Request, serving: &Serving, keep: usize) -> Answer {
    let whole = |reason| Answer::Refuse(Histogram::of(reason, serving.hosts().len().max(1) as u32));
    if request.picks == Picks::Unreadable {
        return whole(match options.utilization.unreadable {
            Fault::Refused if options.pool == Pool::EachKind => Reason::PickedGpuMissing,
            Fault::Refused | Fault::ValueError => Reason::UpstreamValueError,
        });
    }
    let hardware = hardware(options, request, serving);
    let nodes = filter::passing(options, request, serving, &hardware);
    let nodes = in_order(options, request, serving, nodes);
    let plan = match plan(options, request, serving, &nodes) {
        Ok(plan) => plan,
        Err(Halt(reason)) if nodes.is_empty() && !halts_without_nodes(options, reason) => {
            return Answer::Refuse(why::reasons(options, request, serving, &hardware, None));
        }
        Err(Halt(reason)) => return whole(reason),
    };
    let search = Search { options, request, serving, plan: &plan, nodes: &nodes, hardware: &hardware };
    match search_stages(&search, keep) {
        Ok(ranked) if !ranked.is_empty() => Answer::Place(ranked),
        Ok(_) => Answer::Refuse(why::reasons(options, request, serving, &hardware, Some(&search))),
        Err(reason) => whole(reason),
    }
}

/// The nodes in the order in which they are considered: for SGLang, those with the most GPUs first.
fn in_order(options: &DeploymentOptions, request: &Request, serving: &Serving, mut nodes: Vec<u32>) -> Vec<u32> {
    if options.sglang.is_some() && request.deployment.backend == Backend::Sglang {
        let shown = |node: u32| {
            let host = &serving.hosts()[node as usize];
            let only = host.kinds.last().filter(|_| options.pool == Pool::LastKind);
            host.gpus.clone().filter(|at| only.is_none_or(|only| serving.columns().kind[*at] == *only)).count()
        };
        nodes.sort_by_key(|node| std::cmp::Reverse(shown(*node)));
    }
    nodes
}

/// The verdicts of the compatibility table, if the profile uses it.
fn hardware(options: &DeploymentOptions, request: &Request, serving: &Serving) -> HardwareVerdicts {
    match options.filters.contains(&DeploymentFilter::Compatible) {
        true => HardwareVerdicts::new(request.deployment, serving),
        false => HardwareVerdicts::default(),
    }
}

/// Whether this reason refuses the request even if no node passed the filters. A ValueError does so only in profiles
/// that raise it for an unreadable need.
fn halts_without_nodes(options: &DeploymentOptions, reason: Reason) -> bool {
    reason != Reason::UpstreamValueError || options.need.unreadable == UnreadableNeed::ValueError
}

/// The candidates of the first generator that finds at least one, best first. An error refuses the whole request.
fn search_stages(search: &Search, keep: usize) -> Result<Vec<(Candidate, f64)>, Reason> {
    if let Backend::LlamaBox(estimate) = &search.request.deployment.backend {
        return scored(search, layers::find(search, estimate), keep);
    }
    let mut pass = search.first_pass();
    let is_picked = matches!(search.request.picks, Picks::Gpus(_));
    let takes_picks =
        |generator: &&Generator| matches!(generator, Generator::PickedAll { .. } | Generator::PickedSome {});
    let generators = search.generators();
    let has_picking = generators.iter().any(|generator| takes_picks(&generator));
    for generator in generators {
        // If the profile has generators for picks, they handle all requests with picks, and only those.
        if takes_picks(&generator) != (is_picked && has_picking) {
            continue;
        }
        let found = generate(search, generator, &mut pass)?;
        if !found.is_empty() {
            return scored(search, found, keep);
        }
    }
    Ok(Vec::new())
}

fn scored(search: &Search, found: Generated, keep: usize) -> Result<Vec<(Candidate, f64)>, Reason> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let mut scores = score::scores(search, &found).map_err(|UpstreamException(reason)| reason)?;
    score::subtract_doubts(search, &found, &mut scores);
    Ok(ranked(search, found, &scores, keep))
}

fn generate(search: &Search, generator: &Generator, pass: &mut Pass) -> Result<Generated, Reason> {
    let found = match *generator {
        Generator::PickedAll { need, several_nodes, short } => {
            picked_all::find(search, picked_all::Rules { need, several_nodes, short })
        }
        Generator::PickedSome {} => return picked_some::find(search),
        Generator::SingleGpu { need, left } => single_gpu::find(search, need, left, pass),
        Generator::LargestGpus { count } => largest_gpus::find(search, count, pass),
        Generator::NodePrefix { divisor, count, without_reservation } => {
            node_prefix::find(search, node_prefix::Rules { divisor, count, without_reservation }, pass)
        }
        Generator::SimilarGpus { count } => similar::find_gpus(search, count, pass),
        Generator::SimilarNodes { divisor, count, without_reservation } => {
            similar::find_nodes(search, node_prefix::Rules { divisor, count, without_reservation }, pass)
        }
        Generator::EvenGpus {} => Ok(even::find_gpus(search)),
        Generator::EvenNodes {} => even::find_nodes(search),
    };
    found.map_err(|UpstreamException(reason)| reason)
}

/// The best candidates in order. On a tie, the candidate that was found first comes first.
fn ranked(search: &Search, found: Generated, scores: &[f64], keep: usize) -> Vec<(Candidate, f64)> {
    let better =
        |one: &usize, other: &usize| -> Ordering { scores[*other].total_cmp(&scores[*one]).then(one.cmp(other)) };
    let mut order: Vec<usize> = match keep {
        1 => (0..scores.len()).min_by(better).into_iter().collect(),
        _ => {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(better);
            order
        }
    };
    order.truncate(keep);
    let mut written = match found {
        Generated::Singles(singles) => {
            let single = |at: usize| written_single(search, singles[at]);
            return order.into_iter().map(|at| (single(at), scores[at])).collect();
        }
        Generated::Written(written) => written,
    };
    order.into_iter().map(|at| (std::mem::take(&mut written[at]), scores[at])).collect()
}

fn written_single(search: &Search, (node, at): (u32, u32)) -> Candidate {
    let at = at as usize;
    let (total, kind) = (search.columns().total[at], search.columns().kind[at]);
    let main = search.share(node, std::iter::once(at), |_| single_gpu::claim(search, kind, total));
    let kind = (search.options.pool != Pool::One).then_some(kind);
    Candidate { main, kind, ..Candidate::default() }
}
