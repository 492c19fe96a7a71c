//! Floor 4. The transition tables of nodes, instances, attempts and multi-node runs. Only transitions in a table are
//! allowed.
//!
//! A table must have exactly the edges of the diagram in its file. This room must never decide when an edge is taken.

#![warn(clippy::unwrap_used)]

mod attempt;
mod instance;
mod member;
mod node;
mod taken;
mod whole;

pub use attempt::is_attempt_edge;
pub use instance::is_instance_edge;
pub use member::{MemberState, is_member_edge};
pub use node::is_node_edge;
pub use taken::{is_member_edge_taken, is_whole_edge_taken, take_member_edge, take_whole_edge};
pub use whole::{WholeState, is_whole_edge};
