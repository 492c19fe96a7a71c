//! NVLink islands: groups of GPUs of a node that reach each other without going through the CPUs. Examples are pairs of
//! bridged cards, and the two halves of a machine with eight GPUs.
//!
//! A node label gives the islands. `nvlink_islands: 4+4` means the first four GPUs by index and the next four. Without
//! the label, all GPUs of a node form one island.

use smallvec::{SmallVec, smallvec};
use thiserror::Error;

use super::node::NodeShape;

/// The name of the node label.
pub const ISLANDS_LABEL: &str = "nvlink_islands";

/// The number of GPUs of each island, in order of their indexes.
pub type Islands = SmallVec<[u16; 4]>;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IslandsError {
    #[error("`{0}` is not a list of islands; expected the number of GPUs of each, such as 4+4")]
    NotSizes(String),
    #[error("the islands have {said} GPUs in total, but the machine has {has}")]
    OtherSum { said: u32, has: usize },
}

/// Parses the value of the node label.
pub fn read_islands(text: &str, gpus: usize) -> Result<Islands, IslandsError> {
    let size = |part: &str| part.trim().parse::<u16>().ok().filter(|size| *size > 0);
    let sizes: Option<Islands> = text.split('+').map(size).collect();
    let sizes = sizes.ok_or_else(|| IslandsError::NotSizes(text.to_owned()))?;
    let said: u32 = sizes.iter().map(|size| u32::from(*size)).sum();
    if said as usize == gpus { Ok(sizes) } else { Err(IslandsError::OtherSum { said, has: gpus }) }
}

impl NodeShape {
    /// The islands of the node's GPUs. If the label is missing or cannot be read, all GPUs form one island.
    pub fn islands(&self) -> Islands {
        let said = self.labels.get(ISLANDS_LABEL).and_then(|text| read_islands(text, self.gpus.len()).ok());
        said.unwrap_or_else(|| smallvec![self.gpus.len() as u16])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn islands_are_read_of_a_label() {
        assert_eq!(read_islands("4+4", 8).unwrap().as_slice(), [4, 4]);
        assert_eq!(read_islands("2 + 2 + 1", 5).unwrap().as_slice(), [2, 2, 1]);
        assert_eq!(read_islands("4+4", 4), Err(IslandsError::OtherSum { said: 8, has: 4 }));
        for wrong in ["", "4+", "4,4", "0+8", "-4+12", "70000"] {
            assert_eq!(read_islands(wrong, 8), Err(IslandsError::NotSizes(wrong.to_owned())));
        }
    }
}
