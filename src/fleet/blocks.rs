//! Blocks: the parts into which an instance is split, the GPUs of each block, and which blocks are taken.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::claim::GpuClaim;
use dryrack_planted::planted;
use dryrack_units::{Bytes, GpuShare, MilliCpu};

/// How an instance is split. CPU and RAM are always divided evenly over the blocks. Disk is never divided.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocks {
    /// One block for each GPU, or for each CPU if there are fewer CPUs. Without GPUs, one block for each CPU.
    Auto,
    /// This many blocks. Both the number of CPUs and the number of GPUs must be divisible by it.
    Count(u32),
    /// Each block has one part of a GPU: a MIG profile or a time slice.
    Parts(GpuParts),
}

/// The equal parts into which every GPU of an instance is divided.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuParts {
    /// The name of a part: `1g.10gb`, or the name of a time slice.
    pub name: Arc<str>,
    pub per_gpu: u32,
    /// Each part's share of the GPU's time.
    pub share: GpuShare,
    /// The GPU memory that a job sees in one part.
    pub memory: Bytes,
}

/// The resources of a number of blocks, as a job sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub blocks: u32,
    pub cpus: u64,
    pub ram: Bytes,
    /// The number of GPUs, or of GPU parts if each block is a GPU part.
    pub gpus: u32,
    /// The memory of each GPU or part; zero if there are none.
    pub gpu_memory: Bytes,
}

/// The node resources that a set of blocks holds, as a claim takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub cpu: MilliCpu,
    pub ram: Bytes,
    pub gpus: SmallVec<[GpuClaim; 2]>,
}

/// A set of blocks of one instance. Two values are equal if and only if they contain the same blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockSet(SmallVec<[u64; 1]>);

impl BlockSet {
    pub fn contains(&self, block: u16) -> bool {
        let (word, bit) = BlockSet::place(block);
        self.0.get(word).is_some_and(|found| found & bit != 0)
    }

    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a block. Returns `false` if the set already contained the block.
    pub(super) fn insert(&mut self, block: u16) -> bool {
        let (word, bit) = BlockSet::place(block);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Removes a block. Returns `false` if the set did not contain the block.
    pub(super) fn remove(&mut self, block: u16) -> bool {
        let was_there = self.contains(block);
        if was_there {
            let (word, bit) = BlockSet::place(block);
            self.0[word] &= !bit;
            // Drop zero words at the end, so that equal sets have equal words.
            while self.0.last() == Some(&0) {
                self.0.pop();
            }
        }
        was_there
    }

    fn place(block: u16) -> (usize, u64) {
        (usize::from(block / 64), 1 << (block % 64))
    }
}

/// The largest number of blocks of one instance. dstack splits a machine with 448 CPUs and no GPUs into 448 blocks.
pub const MOST_BLOCKS: u32 = 4096;

impl Blocks {
    /// The number of blocks for a machine with these CPUs and GPUs. `None` if the machine cannot be split this way.
    ///
    /// Source: recorded decisions of dstack 0.19.9 to 0.22.5, for `blocks: auto` and for a number.
    pub fn split(&self, cpus: u64, gpus: u32) -> Option<u32> {
        let even = |blocks: u64| {
            let of_cpus = cpus.is_multiple_of(blocks) || planted!(BlocksNeedNotDivideCpus);
            let divides = blocks >= 1 && of_cpus && u64::from(gpus).is_multiple_of(blocks);
            divides.then(|| u32::try_from(blocks).ok()).flatten()
        };
        let blocks = match self {
            Blocks::Auto if gpus == 0 => even(cpus),
            Blocks::Auto => even(cpus.min(u64::from(gpus))),
            Blocks::Count(count) => even(u64::from(*count)),
            Blocks::Parts(parts) => gpus.checked_mul(parts.per_gpu).filter(|count| *count > 0),
        };
        blocks.filter(|count| *count <= MOST_BLOCKS)
    }

    /// The number of blocks nearest to `wanted` into which such a machine can be split. On a tie, the smaller number.
    pub fn nearest_split(wanted: u32, cpus: u64, gpus: u32) -> Option<u32> {
        let most = if gpus == 0 { cpus } else { cpus.min(u64::from(gpus)) };
        let most = u32::try_from(most).unwrap_or(MOST_BLOCKS).min(MOST_BLOCKS);
        let fits = (1..=most).filter(|count| Blocks::Count(*count).split(cpus, gpus).is_some());
        fits.min_by_key(|count| (count.abs_diff(wanted), *count))
    }

    /// The number of blocks that the configuration states, or 1 if it states none. Some rules use this number instead
    /// of the actual one.
    pub fn stated(&self) -> u32 {
        match self {
            Blocks::Count(count) => *count,
            Blocks::Auto | Blocks::Parts(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row is (CPUs, GPUs) and the number of blocks for `blocks: auto`, as decided by both dstack 0.19.10 and
    /// 0.22.5.
    #[test]
    fn auto_has_no_other_number_to_fall_back_on() {
        let rows = [
            ((6, 4), None),
            ((12, 8), None),
            ((3, 8), None),
            ((64, 8), Some(8)),
            ((4, 8), Some(4)),
            ((2, 0), Some(2)),
            ((0, 0), None),
        ];
        for ((cpus, gpus), expected) in rows {
            assert_eq!(Blocks::Auto.split(cpus, gpus), expected, "{cpus} CPUs and {gpus} GPUs");
        }
    }

    #[test]
    fn a_number_must_divide_both_cpus_and_gpus() {
        let rows =
            [((32, 8, 8), Some(8)), ((32, 8, 3), None), ((32, 8, 16), None), ((12, 0, 5), None), ((12, 0, 6), Some(6))];
        for ((cpus, gpus, count), expected) in rows {
            assert_eq!(Blocks::Count(count).split(cpus, gpus), expected, "{cpus} CPUs, {gpus} GPUs, {count} blocks");
        }
        // The numbers 1, 2, 4 and 8 divide both counts. 2 and 4 are equally near, so the smaller one is suggested.
        assert_eq!(Blocks::nearest_split(3, 32, 8), Some(2));
        assert_eq!(Blocks::nearest_split(16, 32, 8), Some(8));
        assert_eq!(Blocks::nearest_split(5, 12, 0), Some(4));
    }

    #[test]
    fn a_set_forgets_what_was_taken_out_of_it() {
        let mut set = BlockSet::default();
        assert!(set.insert(3) && set.insert(200) && !set.insert(3));
        assert_eq!((set.count(), set.contains(200), set.contains(4)), (2, true, false));
        assert!(set.remove(200) && !set.remove(200) && set.remove(3));
        assert_eq!(set, BlockSet::default());
    }

    #[test]
    fn a_set_has_room_for_each_block_that_an_instance_can_have() {
        let blocks = [3, 67, 131, 63, 64, MOST_BLOCKS as u16 - 1];
        let mut set = BlockSet::default();
        assert!(blocks.iter().all(|block| set.insert(*block)));
        assert_eq!((set.count(), set.is_empty()), (6, false));
        assert!([0, 2, 4, 62, 65, 66, 68, 4094].iter().all(|block| !set.contains(*block)));
        assert!(blocks.iter().all(|block| set.contains(*block) && set.remove(*block)));
        assert!(set.is_empty());
    }

    #[test]
    fn each_gpu_has_the_same_number_of_parts() {
        let parts =
            GpuParts { name: Arc::from("1g.10gb"), per_gpu: 7, share: GpuShare::new(142), memory: Bytes::from_gib(10) };
        let blocks = Blocks::Parts(parts);
        assert_eq!((blocks.split(32, 2), blocks.split(32, 0)), (Some(14), None));
        // 585 * 7 = 4095 and 586 * 7 = 4102.
        assert_eq!((blocks.split(32, 585), blocks.split(32, 586)), (Some(4095), None));
    }

    #[test]
    fn only_a_number_is_stated() {
        assert_eq!((Blocks::Count(4).stated(), Blocks::Auto.stated()), (4, 1));
    }
}
