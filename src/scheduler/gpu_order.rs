//! The order in which the GPUs of a node are taken.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which suitable GPUs of a node are taken first. In every order, degraded GPUs are taken last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GpuOrder {
    /// Lowest index.
    First,
    /// The GPU with the least free share or memory that is enough, then lowest index.
    Tightest,
    /// The GPU with the most free share or memory, then lowest index.
    Emptiest,
    /// If a task takes part of one GPU: the GPU whose use fragments the node least, then lowest index. Otherwise lowest
    /// index.
    LeastFragmentation,
    /// If a task takes whole GPUs: GPUs of one NVLink island, if an island has enough. If a task takes part of
    /// a GPU: as `tightest`.
    Islands,
    /// Any GPU, with equal probability.
    Random,
}
