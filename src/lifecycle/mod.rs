//! Floor 3. The transition tables of runs and nodes, and nothing else: an edge that is not here cannot be taken.
//!
//! Must never have an edge that is not in the table of its file, nor decide when an edge is taken.

mod node;
mod run;

pub use node::is_node_edge;
pub use run::is_run_edge;
