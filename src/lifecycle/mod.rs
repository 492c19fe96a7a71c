//! Floor 4. The transition tables of nodes, instances, attempts and multi-node runs. A transition that is not in a
//! table cannot be taken.
//!
//! Must never have an edge that the table of its file lacks, and must never decide when an edge is taken.

#![warn(clippy::unwrap_used)]

mod instance;
mod member;
mod node;
mod run;
mod whole;

pub use instance::is_instance_edge;
pub use member::{MemberState, is_member_edge};
pub use node::is_node_edge;
pub use run::is_run_edge;
pub use whole::{WholeState, is_whole_edge};
