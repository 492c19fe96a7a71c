//! Where a replica could go.

use smallvec::SmallVec;

use dryrack_fleet::GpuKind;

/// What a candidate takes of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The node's place in the order of nodes.
    pub node: usize,
    /// GPUs by their index on the node, in the order in which they were chosen; one that was picked and is not there,
    /// and one picked twice, stands here too where the scheduler keeps it.
    pub indexes: SmallVec<[u32; 8]>,
    /// Bytes of each GPU that is there.
    pub claims: SmallVec<[(u32, u64); 8]>,
    /// Bytes, beside what of the GPUs' memory is a part of it.
    pub ram: u64,
}

impl Share {
    /// Bytes.
    pub fn claimed(&self) -> u64 {
        self.claims.iter().map(|(_, bytes)| bytes).sum()
    }

    pub fn claim(&self, index: u32) -> Option<u64> {
        self.claims.iter().find(|(known, _)| *known == index).map(|(_, bytes)| *bytes)
    }
}

/// GPUs of one node or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    pub main: Share,
    pub subordinates: Vec<Share>,
    /// The kind of its GPUs, where kinds are told apart.
    pub kind: Option<GpuKind>,
    /// It takes more than is free, or less than is needed.
    pub overcommit: bool,
    /// The only GPUs of the main node that its score knows of, by their place in the columns, where that is not all.
    pub known: Option<SmallVec<[usize; 8]>>,
}

impl Candidate {
    pub fn shares(&self) -> impl Iterator<Item = &Share> {
        std::iter::once(&self.main).chain(&self.subordinates)
    }

    pub fn gpus(&self) -> usize {
        self.shares().map(|share| share.indexes.len()).sum()
    }

    /// Bytes.
    pub fn claimed(&self) -> u64 {
        self.shares().map(Share::claimed).sum()
    }
}

/// What a generator found, in its order. Many candidates of one GPU each are common, and are not written out.
#[derive(Clone, Debug)]
pub enum Found {
    /// Each by its node and its GPU's place in the columns.
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
