//! Candidate places of a replica.

use smallvec::SmallVec;

use dryrack_fleet::GpuKind;

/// What a candidate takes of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The node's index in the order of nodes.
    pub node: usize,
    /// GPUs by their index on the node, in the order in which they were chosen. Picked GPUs that do not exist, or
    /// were picked twice, are included if the scheduler keeps them.
    pub indexes: SmallVec<[u32; 8]>,
    /// Each existing GPU with the bytes claimed of it.
    pub claims: SmallVec<[(u32, u64); 8]>,
    /// In bytes, without GPU memory that is part of RAM.
    pub ram: u64,
}

impl Share {
    /// The GPU memory claimed, in bytes.
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
    pub main: Share,
    pub subordinates: Vec<Share>,
    /// The kind of its GPUs, if kinds are distinguished.
    pub kind: Option<GpuKind>,
    /// Whether it takes more than is free, or less than is needed.
    pub overcommit: bool,
    /// If its score considers only some of the main node's GPUs: those, by index in the columns.
    pub known: Option<SmallVec<[usize; 8]>>,
}

impl Candidate {
    pub fn shares(&self) -> impl Iterator<Item = &Share> {
        std::iter::once(&self.main).chain(&self.subordinates)
    }

    pub fn gpus(&self) -> usize {
        self.shares().map(|share| share.indexes.len()).sum()
    }

    /// The GPU memory claimed, in bytes.
    pub fn claimed(&self) -> u64 {
        self.shares().map(Share::claimed).sum()
    }
}

/// What a generator found, in its order. Many candidates with a single GPU are common, so they are not written out.
#[derive(Clone, Debug)]
pub enum Found {
    /// Each as a node and the index of its GPU in the columns.
    Singles(Vec<(u32, u32)>),
    Written(Vec<Candidate>),
}

impl Found {
    pub fn is_empty(&self) -> bool {
        match self {
            Found::Singles(singles) => singles.is_empty(),
            Found::Written(written) => written.is_empty(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Found::Singles(singles) => singles.len(),
            Found::Written(written) => written.len(),
        }
    }
}
