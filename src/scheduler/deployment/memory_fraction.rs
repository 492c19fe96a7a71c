//! The part of a GPU's memory that SGLang reserves (`--mem-fraction-static`) if no argument states it.
//!
//! SGLang leaves free what its activations and CUDA graphs will take, and sets this aside by the size of the GPU.
//! GPUStack 2.3.0 estimates the same in advance (`sglang_resource_fit_selector.py`, after SGLang's `server_args.py`). It
//! uses one part for all GPUs of a kind: that of the smallest one on the nodes that passed the filters.

use smallvec::SmallVec;

use super::arguments::{Arguments, to_integer};
use super::options::{DeploymentOptions, Pool};
use super::request::{Halt, Request, ReservedPart};
use dryrack_event::Reason;
use dryrack_fleet::{GpuKind, Serving};

const MIB: f64 = 1_048_576.0;
const GIB_IN_MIB: f64 = 1024.0;
/// What SGLang sets aside for its own data, in MiB.
const OWN_DATA: f64 = 512.0;
/// What a token of a chunk of a prompt takes, in MiB, and the fewest tokens that count.
const ACTIVATION_OF_TOKEN: f64 = 1.5;
const FEWEST_TOKENS: i64 = 2048;
/// What CUDA graphs take for each request of the largest batch, in MiB.
const GRAPH_OF_REQUEST: f64 = 2.0;
/// The same with attention that is parallel in data, for each part; batches above the bound take half as much again.
const GRAPH_OF_ATTENTION: f64 = 3.0;
const LARGE_BATCH: f64 = 300.0;
/// The part without any known GPU.
const UNKNOWN_GPU: f64 = 0.88;
/// Models that see images get this part of the result.
const VISION: f64 = 0.95;

/// What SGLang assumes on a GPU below a size.
struct Row {
    /// In GiB.
    below: f64,
    /// Whether the row is only for NPUs of Ascend.
    is_npu: bool,
    /// Tokens of a chunk of a prompt.
    chunk: i64,
    /// The largest batch for which there is a CUDA graph: on fewer than four GPUs, and on more.
    batch: [i64; 2],
}

const ROWS: [Row; 6] = [
    Row { below: 20.0, is_npu: false, chunk: 2048, batch: [8, 8] },
    Row { below: 32.0, is_npu: true, chunk: 32_768, batch: [16, 64] },
    Row { below: 35.0, is_npu: false, chunk: 2048, batch: [24, 80] },
    Row { below: 60.0, is_npu: false, chunk: 4096, batch: [32, 160] },
    Row { below: 64.0, is_npu: true, chunk: 32_768, batch: [64, 128] },
    Row { below: 160.0, is_npu: false, chunk: 8192, batch: [256, 512] },
];
const LARGER: Row = Row { below: f64::INFINITY, is_npu: false, chunk: 16_384, batch: [512, 512] };
const UNKNOWN: Row = Row { below: 0.0, is_npu: false, chunk: 4096, batch: [160, 160] };

/// The part for each kind of GPU on these nodes; with picked GPUs, for the picked kinds. A pick of some GPUs for each replica
/// is refused if a node has GPUs of a picked kind but none of them is picked: upstream looks for its picks in nothing.
pub fn of_kinds(question: &Question) -> Result<ReservedPart, Halt> {
    let Question { request, serving, nodes, .. } = *question;
    let mut parts: SmallVec<[(GpuKind, f64); 2]> = SmallVec::new();
    for node in nodes {
        for kind in &serving.hosts()[*node as usize].kinds {
            let is_asked = request.picked().is_empty() || request.picked().iter().any(|pick| pick.kind == *kind);
            if is_asked && parts.iter().all(|(known, _)| known != kind) {
                if question.each().is_some() && question.has_node_without_pick(*kind) {
                    return Err(Halt(Reason::UpstreamTypeError));
                }
                parts.push((*kind, question.part(*kind).max(0.0)));
            }
        }
    }
    Ok(ReservedPart::OfKind(parts))
}

/// What the part depends on.
pub struct Question<'a> {
    pub options: &'a DeploymentOptions,
    pub request: &'a Request<'a>,
    pub serving: &'a Serving,
    /// The nodes that passed the filters.
    pub nodes: &'a [u32],
    pub arguments: &'a Arguments<'a>,
}

impl Question<'_> {
    /// The part for GPUs of one kind, in thousandths. Zero if the nodes of this kind show GPUs of several kinds.
    fn part(&self, kind: GpuKind) -> f64 {
        let Some((shown, smallest)) = self.smallest(kind) else { return 0.0 };
        let size = smallest as f64 / MIB;
        let part = match smallest {
            0 => UNKNOWN_GPU,
            _ => thousandths((size - self.set_aside(kind, shown, size)) / size),
        };
        match self.request.deployment.model.vision_heads {
            Some(heads) if heads > 0 => thousandths(part * VISION),
            _ => part,
        }
    }

    /// What SGLang leaves free on a GPU of this size. Both are in MiB.
    fn set_aside(&self, kind: GpuKind, shown: GpuKind, size: f64) -> f64 {
        let tensor = self.tensor(kind);
        let is_npu = kind == GpuKind::Cann || shown == GpuKind::Cann;
        let row = row(size, is_npu);
        let chunk = self.number(&["chunked-prefill-size"]).unwrap_or(row.chunk);
        let batch = self.number(&["cuda-graph-max-bs"]).unwrap_or(row.batch[usize::from(tensor >= 4)]) as f64;
        let mut aside = OWN_DATA + batch * GRAPH_OF_REQUEST;
        if chunk > 0 {
            aside += chunk.max(FEWEST_TOKENS) as f64 * ACTIVATION_OF_TOKEN;
        }
        aside += tensor as f64 * self.pipeline(kind) as f64 / 8.0 * GIB_IN_MIB;
        if self.arguments.flag("enable-dp-attention") {
            let data = self.number(&["dp-size", "data-parallel-size", "dp"]).unwrap_or(1) as f64;
            let large = if batch > LARGE_BATCH { GRAPH_OF_ATTENTION / 2.0 } else { 0.0 };
            aside += batch * data * (GRAPH_OF_ATTENTION + large);
        }
        if size > 60.0 * GIB_IN_MIB {
            aside = aside.max(10.0 * GIB_IN_MIB);
        }
        aside += match self.arguments.value(&["speculative-algorithm"]) {
            None | Some("NGRAM") => 0.0,
            Some("STANDALONE") => 6.0 * GIB_IN_MIB,
            Some(_) => 2.0 * GIB_IN_MIB,
        };
        if self.arguments.value(&["enable-piecewise-cuda-graph"]).is_some_and(|text| !text.is_empty()) {
            aside += self.number(&["piecewise-cuda-graph-max-tokens"]).unwrap_or(0).div_euclid(4) as f64;
        }
        aside
    }

    fn number(&self, names: &[&str]) -> Option<i64> {
        self.arguments.value(names).and_then(to_integer)
    }

    /// The most GPUs of one node that a replica could use: the tensor-parallel size, or picked GPUs.
    fn tensor(&self, kind: GpuKind) -> i64 {
        let stated = self.number(&["tp-size", "tensor-parallel-size", "tp"]).unwrap_or(1).max(1);
        let picks = self.request.picked();
        let on_node = |name: &str| picks.iter().filter(|pick| pick.kind == kind && *pick.node == *name).count() as i64;
        let picked = picks.iter().map(|pick| on_node(&pick.node)).max().unwrap_or(0);
        let each = self.each().map_or(0, i64::from);
        stated.max(picked).max(each)
    }

    /// The pipeline-parallel size, or the number of nodes with picked GPUs.
    fn pipeline(&self, kind: GpuKind) -> i64 {
        let stated = self.number(&["pp-size", "pipeline-parallel-size"]).unwrap_or(1).max(1);
        let mut nodes: SmallVec<[&str; 4]> = SmallVec::new();
        for pick in self.request.picked().iter().filter(|pick| pick.kind == kind) {
            if !nodes.contains(&&*pick.node) {
                nodes.push(&pick.node);
            }
        }
        stated.max(nodes.len() as i64)
    }

    fn has_node_without_pick(&self, kind: GpuKind) -> bool {
        let is_picked = |name: &str| self.request.picked().iter().any(|pick| pick.kind == kind && *pick.node == *name);
        let mut hosts = self.nodes.iter().map(|node| &self.serving.hosts()[*node as usize]);
        hosts.any(|host| host.kinds.contains(&kind) && !is_picked(&host.name))
    }

    /// The number of picked GPUs for each replica.
    fn each(&self) -> Option<u32> {
        self.request.deployment.gpus_per_replica.filter(|each| *each > 0 && !self.request.picked().is_empty())
    }

    /// The kind of GPU that the nodes of a kind show, and the bytes of the smallest such GPU that could be used; zero if
    /// there is none. `None` if they show several kinds.
    fn smallest(&self, kind: GpuKind) -> Option<(GpuKind, u64)> {
        let columns = self.serving.columns();
        let mut found: Option<(GpuKind, Option<u64>)> = None;
        for node in self.nodes {
            let host = &self.serving.hosts()[*node as usize];
            if !host.kinds.contains(&kind) {
                continue;
            }
            let shown = match self.options.pool {
                Pool::LastKind => *host.kinds.last().expect("the node has this kind"),
                Pool::One | Pool::EachKind => kind,
            };
            let usable = self.usable(*node, kind);
            let here = host.gpus.clone().filter(|at| columns.kind[*at] == shown);
            let here = here.filter(|at| usable.as_ref().is_none_or(|usable| usable.contains(&columns.index[*at])));
            let least = here.map(|at| columns.total[at]).min();
            match &mut found {
                Some((known, _)) if *known != shown => return None,
                Some((_, smallest)) => *smallest = smallest.iter().copied().chain(least).min(),
                None => found = Some((shown, least)),
            }
        }
        found.map(|(shown, smallest)| (shown, smallest.unwrap_or(0)))
    }

    /// The indexes of the picked GPUs on a node that a replica would use, most free ones first. `None` if no GPU was
    /// picked there, so that all may be used.
    fn usable(&self, node: u32, kind: GpuKind) -> Option<SmallVec<[u32; 8]>> {
        let host = &self.serving.hosts()[node as usize];
        let here = self.request.picked().iter().filter(|pick| pick.kind == kind && pick.node == host.name);
        let picked: SmallVec<[u32; 8]> = here.map(|pick| pick.index).collect();
        if picked.is_empty() {
            return None;
        }
        let Some(each) = self.each() else { return Some(picked) };
        let columns = self.serving.columns();
        let ratio = &columns.left(self.options.accounting).ratio;
        let mut order: SmallVec<[usize; 8]> =
            host.gpus.clone().filter(|at| picked.contains(&columns.index[*at]) && columns.kind[*at] == kind).collect();
        order.sort_by(|one, other| ratio[*other].total_cmp(&ratio[*one]));
        order.truncate(each as usize);
        Some(order.into_iter().map(|at| columns.index[at]).collect())
    }
}

fn row(size: f64, is_npu: bool) -> &'static Row {
    if size <= 0.0 {
        return &UNKNOWN;
    }
    ROWS.iter().find(|row| size < row.below * GIB_IN_MIB && (is_npu || !row.is_npu)).unwrap_or(&LARGER)
}

/// Rounds to three decimals, like Python's `round`.
fn thousandths(part: f64) -> f64 {
    format!("{part:.3}").parse().expect("a number that was just printed")
}
