//! The input that all generators share: the nodes that passed the filters, grouped in pools, and their GPUs.

use smallvec::SmallVec;

use super::candidate::CandidatePart;
use super::hardware::HardwareVerdicts;
use super::options::{DeploymentFilter, DeploymentOptions, Generator, Pool, SglangOptions};
use super::request::{Plan, Request};
use dryrack_event::Reason;
use dryrack_fleet::{Accounting, Columns, GpuKind, Host, Left, Serving};
use dryrack_workload::Backend;

/// One decision in progress.
pub struct Search<'a> {
    pub options: &'a DeploymentOptions,
    pub request: &'a Request<'a>,
    pub serving: &'a Serving,
    pub plan: &'a Plan,
    /// Nodes that passed every filter, in the order of nodes.
    pub nodes: &'a [u32],
    /// The GPUs on which the backend does not run, if the profile checks this.
    pub hardware: &'a HardwareVerdicts,
}

/// A pool of nodes, and the kind of GPU that the pool considers.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// `None` if kinds are not distinguished.
    pub kind: Option<GpuKind>,
    pub nodes: Vec<u32>,
}

/// An exception of an upstream program, which ends the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamException(pub Reason);

/// Whether this is the first search of the decision that distinguishes kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    First,
    Later,
}

impl<'a> Search<'a> {
    pub fn columns(&self) -> &'a Columns {
        self.serving.columns()
    }

    pub fn left(&self) -> &'a Left {
        self.columns().left(self.options.accounting)
    }

    pub fn host(&self, node: u32) -> &'a Host {
        &self.serving.hosts()[node as usize]
    }

    fn sglang(&self) -> Option<&'a SglangOptions> {
        self.options.sglang.as_ref().filter(|_| self.request.deployment.backend == Backend::Sglang)
    }

    pub fn generators(&self) -> &'a [Generator] {
        self.sglang().map_or(&self.options.generators, |sglang| &sglang.generators)
    }

    /// For SGLang, kinds were distinguished once before the first search, for the part that is reserved.
    pub fn first_pass(&self) -> Pass {
        if self.sglang().is_some() { Pass::Later } else { Pass::First }
    }

    /// The nodes in their pools. For [`Pool::EachKind`], pools are in the order of kinds. For other rules, they are in
    /// the order in which kinds first occur.
    pub fn groups(&self, pass: Pass) -> Vec<Group> {
        if self.options.pool == Pool::One {
            return vec![Group { kind: None, nodes: self.nodes.to_vec() }];
        }
        let mut groups: Vec<Group> = Vec::new();
        for node in self.nodes {
            let kinds = &self.host(*node).kinds;
            let all = self.options.pool == Pool::EachKind || pass == Pass::First;
            let skipped = if all { 0 } else { kinds.len().saturating_sub(1) };
            for kind in &kinds[skipped..] {
                match groups.iter_mut().find(|group| group.kind == Some(*kind)) {
                    Some(group) => group.nodes.push(*node),
                    None => groups.push(Group { kind: Some(*kind), nodes: vec![*node] }),
                }
            }
        }
        groups.retain(|group| group.kind.is_none_or(|kind| self.plan.reserved.admits(kind)));
        if self.options.pool == Pool::EachKind {
            groups.retain(|group| group.kind.is_none_or(|kind| self.has_runner(kind)));
            // The groups are sorted, so that a node on which nothing fits cannot change which kind comes first.
            groups.sort_by_key(|group| group.kind);
        }
        groups
    }

    fn has_runner(&self, kind: GpuKind) -> bool {
        if !self.options.filters.contains(&DeploymentFilter::Runner) {
            return true;
        }
        runners(self.options, self.request).is_none_or(|runners| runners.contains(&kind))
    }

    /// The GPUs of a node that its pool lists, by index in the columns.
    pub fn listed(&self, node: u32, kind: Option<GpuKind>) -> impl Iterator<Item = usize> + use<'a> {
        let host = self.host(node);
        let columns = self.columns();
        let only = match (self.options.pool, kind, host.kinds.len()) {
            (Pool::One, _, _) | (_, None, _) | (_, _, 0 | 1) => None,
            (Pool::EachKind, kind, _) => kind,
            // All copies of the node share the list of its last kind.
            (Pool::LastKind, _, _) => host.kinds.last().copied(),
        };
        let (serving, hardware) = (self.serving, self.hardware);
        let runs_there = move |at: &usize| hardware.of_gpu(serving, node, *at).is_none();
        host.gpus.clone().filter(move |at| only.is_none_or(|only| columns.kind[*at] == only)).filter(runs_there)
    }

    /// Whether [`Search::listed`] lists every GPU of a node, and the pool sees the real values of all of them.
    pub fn lists_all(&self, node: u32) -> bool {
        self.host(node).kinds.len() < 2 && !self.hardware.refuses()
    }

    /// The number of GPUs that [`Search::listed`] lists.
    pub fn listed_count(&self, node: u32, kind: Option<GpuKind>) -> usize {
        let host = self.host(node);
        if self.lists_all(node) { host.gpus.len() } else { self.listed(node, kind).count() }
    }

    /// Whether the model reserves a part of a GPU, by index in the columns.
    pub fn reserves(&self, at: usize) -> bool {
        self.plan.reserves(self.columns().kind[at])
    }

    /// The part of a GPU that the model reserves.
    pub fn utilization(&self, at: usize) -> f64 {
        self.plan.utilization(self.columns().kind[at])
    }

    /// The bytes of a GPU that the model reserves.
    pub fn reservation(&self, at: usize) -> u64 {
        let columns = self.columns();
        self.plan.reservation(columns.kind[at], columns.total[at])
    }

    /// The free bytes of a GPU that its pool sees; zero for a GPU of another kind.
    pub fn free(&self, at: usize, kind: Option<GpuKind>) -> u64 {
        if self.is_seen(at, kind) { self.left().free[at] } else { 0 }
    }

    /// The free fraction of a GPU that its pool sees; zero for a GPU of another kind.
    pub fn ratio(&self, at: usize, kind: Option<GpuKind>) -> f64 {
        if self.is_seen(at, kind) { self.left().ratio[at] } else { 0.0 }
    }

    fn is_seen(&self, at: usize, kind: Option<GpuKind>) -> bool {
        kind.is_none_or(|kind| self.columns().kind[at] == kind)
    }

    /// Checks that a node with unified memory has a GPU 0. The released programs take the minimum of RAM and GPU 0
    /// there.
    pub fn check_unified(&self, node: u32, kind: Option<GpuKind>) -> Result<(), UpstreamException> {
        let host = self.host(node);
        if !host.unified || self.options.accounting == Accounting::Ledger {
            return Ok(());
        }
        let columns = self.columns();
        let mut seen = host.gpus.clone().filter(|at| self.is_seen(*at, kind)).peekable();
        let is_wrong = seen.peek().is_some() && seen.all(|at| columns.index[at] != 0);
        if is_wrong { Err(UpstreamException(Reason::UpstreamKeyError)) } else { Ok(()) }
    }

    /// A share of these GPUs with the claim on each. GPUs are given by index in the columns.
    pub fn share(&self, node: u32, gpus: impl Iterator<Item = usize>, claim: impl Fn(usize) -> u64) -> CandidatePart {
        let columns = self.columns();
        let mut share = CandidatePart { node: node as usize, ..CandidatePart::default() };
        for at in gpus {
            share.indexes.push(columns.index[at]);
            share.claims.push((columns.index[at], claim(at)));
        }
        share
    }

    /// The index in the columns of the GPU with this index and kind on a node.
    pub fn find(&self, node: u32, index: u32, kind: Option<GpuKind>) -> Option<usize> {
        let columns = self.columns();
        self.shown(node).find(|at| columns.index[*at] == index && self.is_seen(*at, kind))
    }

    /// The GPUs of a node that a pick can find. If kinds were distinguished before, only those of its last kind.
    pub fn shown(&self, node: u32) -> impl Iterator<Item = usize> + use<'a> {
        let (host, columns) = (self.host(node), self.columns());
        let is_after = self.options.pool == Pool::LastKind && self.first_pass() == Pass::Later;
        let only = host.kinds.last().copied().filter(|_| is_after);
        host.gpus.clone().filter(move |at| only.is_none_or(|only| columns.kind[*at] == only))
    }

    /// The indexes that were picked on this node, in the order of the picks. If kinds are distinguished, only those of
    /// this kind.
    pub fn picked_on(&self, node: u32, kind: Option<GpuKind>) -> SmallVec<[u32; 8]> {
        let name = &self.host(node).name;
        let here = |pick: &&super::request::PickedGpu| pick.node == *name && kind.is_none_or(|kind| pick.kind == kind);
        self.request.picked().iter().filter(here).map(|pick| pick.index).collect()
    }
}

/// Kinds of GPU for which there is an image of the backend; `None` for every kind.
pub fn runners<'a>(options: &'a DeploymentOptions, request: &Request<'a>) -> Option<&'a [GpuKind]> {
    request.runners.unwrap_or(Some(&options.runners))
}
