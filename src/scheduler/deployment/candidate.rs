//! Candidate places of a replica.

use smallvec::SmallVec;

use dryrack_fleet::GpuKind;

/// The part of a candidate on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidatePart {
    /// The node's index in the order of nodes.
    pub node: usize,
    /// GPU indexes on the node, in the order in which the GPUs were chosen. Picked GPUs that do not exist and duplicate
    /// picks are included if the scheduler keeps them.
    pub indexes: SmallVec<[u32; 8]>,
    /// Existing GPUs, each with the claimed bytes.
    pub claims: SmallVec<[(u32, u64); 8]>,
    /// Claimed RAM in bytes, without GPU memory that is part of RAM.
    pub ram: u64,
}

impl CandidatePart {
    /// The claimed GPU memory, in bytes.
    pub fn claimed(&self) -> u64 {
        self.claims.iter().map(|(_, bytes)| bytes).sum()
    }

    pub fn claim(&self, index: u32) -> Option<u64> {
        self.claims.iter().find(|(known, _)| *known == index).map(|(_, bytes)| *bytes)
    }
}

/// A candidate: GPUs of one node or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    pub main: CandidatePart,
    pub subordinates: Vec<CandidatePart>,
    /// The kind of the GPUs, if kinds are distinguished.
    pub kind: Option<GpuKind>,
    /// Whether the candidate takes more than is free, or less than is needed.
    pub overcommit: bool,
    /// The GPUs that the score considers, by index in the columns. `None` if it considers all GPUs of the main node.
    pub known: Option<SmallVec<[usize; 8]>>,
}

impl Candidate {
    pub fn shares(&self) -> impl Iterator<Item = &CandidatePart> {
        std::iter::once(&self.main).chain(&self.subordinates)
    }

    pub fn gpus(&self) -> usize {
        self.shares().map(|share| share.indexes.len()).sum()
    }

    /// The claimed GPU memory on all nodes, in bytes.
    pub fn claimed(&self) -> u64 {
        self.shares().map(CandidatePart::claimed).sum()
    }
}

/// The candidates that a generator found, in its order. Many candidates with a single GPU are common, so they have a
/// compact form.
#[derive(Clone, Debug)]
pub enum Generated {
    /// Candidates with a single GPU. Each is a node and the index of its GPU in the columns.
    Singles(Vec<(u32, u32)>),
    Written(Vec<Candidate>),
}

impl Generated {
    pub fn is_empty(&self) -> bool {
        match self {
            Generated::Singles(singles) => singles.is_empty(),
            Generated::Written(written) => written.is_empty(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Generated::Singles(singles) => singles.len(),
            Generated::Written(written) => written.len(),
        }
    }
}
