//! Scores of candidates by the placement strategies of models. Floating-point numbers are computed in the written
//! order, so scores are the same on every machine.

use super::candidate::{Candidate, CandidatePart, Generated};
use super::options::{Absent, Counted, SpreadRule};
use super::search::{Search, UpstreamException};
use super::single_gpu;
use crate::scorer::reliability;
use dryrack_event::Reason;
use dryrack_fleet::{Accounting, Left};
use dryrack_workload::{Backend, Strategy};

/// The maximum score.
const MOST: f64 = 100.0;
/// The weight of an instance of another model. An instance of the same model has the weight 1 (GPUStack 0.6.0 and
/// 2.3.0).
const OTHERS_WEIGHT: f64 = 0.2;
/// The weight of the main part of a multi-node model. A subordinate has the weight 1 (GPUStack 0.6.0 and 2.3.0).
const MAIN_WEIGHT: f64 = 5.0;

/// The score of each candidate, in the order of the candidates.
pub fn scores(search: &Search, found: &Generated) -> Result<Vec<f64>, UpstreamException> {
    match search.request.deployment.strategy {
        Strategy::Binpack => binpack(search, found),
        Strategy::Spread => Ok(spread(search, found)),
    }
}

/// Reduces the score of each candidate with unreliable nodes or GPUs (see [`super::ReadinessOptions`]).
pub fn subtract_doubts(search: &Search, found: &Generated, scores: &mut [f64]) {
    let weight = search.options.readiness.weight;
    if weight == 0 || !search.serving.is_any_doubtful() {
        return;
    }
    let loss = |readiness: f64| f64::from(weight) * (1.0 - readiness);
    let sound = &search.columns().sound;
    let of_node = |node: u32| reliability(search.host(node).reliance);
    match found {
        Generated::Singles(singles) => {
            for ((node, at), score) in singles.iter().zip(scores) {
                *score -= loss(if sound[*at as usize] { of_node(*node) } else { 0.0 });
            }
        }
        Generated::Written(written) => {
            let of_share = |share: &CandidatePart| {
                let node = share.node as u32;
                let gpus = share.claims.iter().filter_map(|(index, _)| search.find(node, *index, None));
                let (all, ready) = gpus.fold((0u32, 0u32), |(all, ready), at| (all + 1, ready + u32::from(sound[at])));
                let part = if all == 0 { 1.0 } else { f64::from(ready) / f64::from(all) };
                of_node(node) * part
            };
            for (candidate, score) in written.iter().zip(scores) {
                *score -= loss(candidate.shares().map(of_share).fold(1.0, f64::min));
            }
        }
    }
}

// Binpack

fn binpack(search: &Search, found: &Generated) -> Result<Vec<f64>, UpstreamException> {
    // Kinds are not distinguished here, so all instances on a GPU count.
    let left = search.columns().left(match search.options.accounting {
        Accounting::PartsByKind => Accounting::AllParts,
        other => other,
    });
    match found {
        Generated::Singles(singles) => {
            let score = |(_, at): &(u32, u32)| {
                let at = *at as usize;
                let claim = single_gpu::claim(search, search.columns().kind[at], search.columns().total[at]);
                fullness(search, Some(claim), Some(left.free[at])).map(|score| score.max(0.0))
            };
            singles.iter().map(score).collect()
        }
        Generated::Written(written) => written.iter().map(|candidate| packed(search, left, candidate)).collect(),
    }
}

fn packed(search: &Search, left: &Left, candidate: &Candidate) -> Result<f64, UpstreamException> {
    let main = fullest(search, left, &candidate.main, candidate.known.as_deref())?;
    let count = candidate.subordinates.len();
    if count == 0 || search.options.binpack.subordinates == Counted::Ignored {
        return Ok(main);
    }
    let mut sum = 0.0;
    for share in &candidate.subordinates {
        sum += fullest(search, left, share, None)?;
    }
    Ok((main * MAIN_WEIGHT + sum * count as f64) / (MAIN_WEIGHT + count as f64))
}

/// The score of the GPU that becomes fullest, plus a third of the score for RAM. If there are no GPUs, the score for
/// RAM alone.
fn fullest(
    search: &Search,
    left: &Left,
    share: &CandidatePart,
    known: Option<&[usize]>,
) -> Result<f64, UpstreamException> {
    let ram_free = search.host(share.node as u32).ram_free;
    let ram = if share.ram == 0 || ram_free == 0 { 0.0 } else { share.ram as f64 / ram_free as f64 * MOST };
    match (share.indexes.is_empty(), share.ram) {
        (false, _) => {}
        // A part of a vLLM model has no RAM claim, and the upstream program fails on this. Only the rule `picked_some` of
        // 2.3.0 makes such parts, of GPUs that do not exist. A GGUF model has a RAM claim, even if it is 0.
        (true, 0) if !matches!(search.request.deployment.backend, Backend::LlamaBox(_)) => {
            return Err(UpstreamException(Reason::UpstreamTypeError));
        }
        (true, _) => return Ok(ram),
    }
    let mut most = 0.0f64;
    for index in &share.indexes {
        let at = search.find(share.node as u32, *index, None);
        let at = at.filter(|at| known.is_none_or(|known| known.contains(at)));
        let score = fullness(search, share.claim(*index), at.map(|at| left.free[at]))?;
        most = most.max(score);
    }
    Ok(if share.ram == 0 { most } else { most + ram / 3.0 })
}

/// Two thirds of the fraction of the GPU's free memory that is claimed. RAM contributes the last third.
fn fullness(search: &Search, claim: Option<u64>, free: Option<u64>) -> Result<f64, UpstreamException> {
    match (claim, free, search.options.binpack.absent) {
        (Some(claim), Some(free), _) if free > 0 => Ok(claim as f64 / free as f64 * MOST * 2.0 / 3.0),
        (_, _, Absent::Zero) => Ok(0.0),
        (Some(_), Some(_), Absent::Raises) => Err(UpstreamException(Reason::UpstreamZeroDivisionError)),
        (_, _, Absent::Raises) => Err(UpstreamException(Reason::UpstreamKeyError)),
    }
}

// Spread

/// Numbers of instances: those of the model itself, and those of other models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    own: u32,
    others: u32,
}

/// Numbers of instances on all nodes and GPUs, for one model.
struct Counts<'s> {
    search: &'s Search<'s>,
    /// The counts of the model's own instances, on each node and on each GPU of the columns. `None` if it has no
    /// instances.
    own: Option<(Vec<u32>, Vec<u32>)>,
}

impl<'s> Counts<'s> {
    fn new(search: &'s Search<'s>) -> Counts<'s> {
        let serving = search.serving;
        let mut own = None;
        let Some(model) = search.request.model else { return Counts { search, own } };
        for instance in serving.instances_of(model) {
            let (nodes, gpus) =
                own.get_or_insert_with(|| (vec![0; serving.hosts().len()], vec![0; serving.columns().index.len()]));
            let main = instance.main.iter().map(|part| (part, true));
            let subordinates = instance.subordinates.iter().map(|part| (part, false));
            for (part, is_main) in main.chain(subordinates) {
                let Some(node) = part.node else { continue };
                if !is_main && search.options.spread.subordinates == Counted::Ignored {
                    continue;
                }
                nodes[node] += if is_main { part.indexes.len().max(1) } else { part.indexes.len() } as u32;
                for at in part.indexes.iter().filter_map(|index| search.find(node as u32, *index, None)) {
                    gpus[at] += 1;
                }
            }
        }
        Counts { search, own }
    }

    fn counted(&self, main: u32, subordinate: u32) -> u32 {
        match self.search.options.spread.subordinates {
            Counted::Counted => main + subordinate,
            Counted::Ignored => main,
        }
    }

    fn on_node(&self, node: u32) -> Count {
        let host = self.search.host(node);
        let all = self.counted(host.main_count, host.subordinate_count);
        let own = self.own.as_ref().map_or(0, |(nodes, _)| nodes[node as usize]);
        Count { own, others: all - own }
    }

    fn on_gpu(&self, at: usize) -> Count {
        let columns = self.search.columns();
        let all = self.counted(columns.main_count[at], columns.subordinate_count[at]);
        let own = self.own.as_ref().map_or(0, |(_, gpus)| gpus[at]);
        Count { own, others: all - own }
    }

    /// The count for a GPU index. The node may not have a GPU with this index, although an instance still holds it.
    fn on_index(&self, node: u32, index: u32) -> Count {
        if let Some(at) = self.search.find(node, index, None) {
            return self.on_gpu(at);
        }
        let mut count = Count::default();
        for instance in self.search.serving.instances_on(node as usize) {
            let is_own = self.search.request.model == Some(instance.model);
            for (part, is_main) in instance.parts_on(node as usize) {
                let held = part.indexes.iter().filter(|known| **known == index).count() as u32;
                let held = if is_main { held } else { self.counted(0, held) };
                *(if is_own { &mut count.own } else { &mut count.others }) += held;
            }
        }
        count
    }
}

fn spread(search: &Search, found: &Generated) -> Vec<f64> {
    let counts = Counts::new(search);
    match search.options.spread.rule {
        SpreadRule::Stepped if search.request.model.is_none() => vec![MOST; found.len()],
        SpreadRule::Stepped => stepped(&counts, found),
        SpreadRule::Relative => relative(&counts, found),
    }
}

/// A base score plus a bonus. The base depends on the kinds of instances on the node, and the bonus is too small to
/// outweigh a difference of the base.
fn stepped(counts: &Counts, found: &Generated) -> Vec<f64> {
    let on_node = |node: u32| (counts.on_node(node), counts.search.host(node).gpus.len());
    match found {
        Generated::Singles(singles) => {
            let score = |(node, at): &(u32, u32)| {
                let (whole, gpus) = on_node(*node);
                step(whole, gpus, std::iter::once(counts.on_gpu(*at as usize)))
            };
            singles.iter().map(score).collect()
        }
        Generated::Written(written) => {
            let score = |candidate: &Candidate| {
                let node = candidate.main.node as u32;
                let (whole, gpus) = on_node(node);
                step(whole, gpus, candidate.main.indexes.iter().map(|index| counts.on_index(node, *index)))
            };
            written.iter().map(score).collect()
        }
    }
}

fn step(whole: Count, gpus: usize, each: impl Iterator<Item = Count>) -> f64 {
    let most = 10.0 / (gpus + 1) as f64;
    let (base, is_own, is_others) = match (whole.own, whole.others) {
        (0, 0) => return MOST,
        (0, _) => (90.0, false, true),
        (_, 0) => (80.0, true, false),
        (_, _) => (70.0, true, true),
    };
    each.fold(base, |sum, count| {
        let divisor = match (is_own, is_others) {
            _ if count == Count::default() => 1.0,
            (true, true) => f64::from(count.own + 1) + f64::from(count.others + 1) * OTHERS_WEIGHT,
            (true, false) => f64::from(count.own + 1),
            (false, _) => f64::from(count.others + 1),
        };
        sum + most / divisor
    })
}

/// The smallest and largest numbers of instances on the main nodes of all candidates.
struct Extent {
    some_without_own: bool,
    own: (u32, u32),
    others: (u32, u32),
}

impl Extent {
    fn of(counts: impl Iterator<Item = Count>) -> Extent {
        let start = Extent { some_without_own: false, own: (u32::MAX, 0), others: (u32::MAX, 0) };
        counts.fold(start, |extent, count| Extent {
            some_without_own: extent.some_without_own || count.own == 0,
            own: (extent.own.0.min(count.own), extent.own.1.max(count.own)),
            others: (extent.others.0.min(count.others), extent.others.1.max(count.others)),
        })
    }

    /// A node's part of the score (GPUStack 2.1.0 and later, `SpreadScoreWeights`).
    fn score(&self, count: Count) -> f64 {
        let (own, others) = (few(count.own, self.own), few(count.others, self.others));
        let score = match (self.some_without_own, count.own) {
            (true, 0) => 0.85 + 0.15 * others,
            (true, _) => 0.45 + 0.35 * own + 0.20 * others,
            (false, _) => 0.50 + 0.25 * own + 0.15 * others,
        };
        score * MOST
    }
}

/// A value from 0 to 1: 1 for the smallest number of instances, 0 for the largest.
fn few(value: u32, (least, most): (u32, u32)) -> f64 {
    if most <= least { 1.0 } else { 1.0 - f64::from(value - least) / f64::from(most - least) }
}

fn relative(counts: &Counts, found: &Generated) -> Vec<f64> {
    let free = |count: Count| 1.0 / (f64::from(1 + count.own) + f64::from(count.others) * OTHERS_WEIGHT);
    let total = |node: f64, gpus: f64| node * 0.85 + gpus * MOST * 0.15;
    match found {
        Generated::Singles(singles) => {
            let extent = Extent::of(singles.chunk_by(|one, other| one.0 == other.0).map(|of| counts.on_node(of[0].0)));
            let mut scores = Vec::with_capacity(singles.len());
            for of_node in singles.chunk_by(|one, other| one.0 == other.0) {
                let node = extent.score(counts.on_node(of_node[0].0));
                scores.extend(of_node.iter().map(|(_, at)| total(node, free(counts.on_gpu(*at as usize)))));
            }
            scores
        }
        Generated::Written(written) => {
            let extent = Extent::of(written.iter().map(|candidate| counts.on_node(candidate.main.node as u32)));
            let score = |candidate: &Candidate| {
                let node = candidate.main.node as u32;
                let indexes = &candidate.main.indexes;
                let sum = indexes.iter().fold(0.0, |sum, index| sum + free(counts.on_index(node, *index)));
                let mean = if indexes.is_empty() { 1.0 } else { sum / indexes.len() as f64 };
                total(extent.score(counts.on_node(node)), mean)
            };
            written.iter().map(score).collect()
        }
    }
}
