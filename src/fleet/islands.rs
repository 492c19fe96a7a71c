//! NVLink islands: GPUs of a node that reach each other without passing through its CPUs, such as the pairs of bridged
//! cards, or the two halves of a machine of eight.
//!
//! They are said by a label, as clusters say what they know of their nodes: `nvlink_islands: 4+4` for the first four GPUs
//! by index and the next four. A node that says nothing has its GPUs in one island.

use smallvec::{SmallVec, smallvec};
use thiserror::Error;

use super::node::NodeShape;

/// The label.
pub const ISLANDS_LABEL: &str = "nvlink_islands";

/// How many GPUs each island has, in the order of their indexes.
pub type Islands = SmallVec<[u16; 4]>;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IslandsError {
    #[error("`{0}` is no list of islands; expected their GPUs such as 4+4")]
    NotSizes(String),
    #[error("islands of {said} GPUs in all, on a machine of {has}")]
    OtherSum { said: u32, has: usize },
}

/// Reads such a label.
pub fn read_islands(text: &str, gpus: usize) -> Result<Islands, IslandsError> {
    let size = |part: &str| part.trim().parse::<u16>().ok().filter(|size| *size > 0);
    let sizes: Option<Islands> = text.split('+').map(size).collect();
    let sizes = sizes.ok_or_else(|| IslandsError::NotSizes(text.to_owned()))?;
    let said: u32 = sizes.iter().map(|size| u32::from(*size)).sum();
    if said as usize == gpus { Ok(sizes) } else { Err(IslandsError::OtherSum { said, has: gpus }) }
}

impl NodeShape {
    /// Of all its GPUs; one island where its label says nothing that can be read.
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
