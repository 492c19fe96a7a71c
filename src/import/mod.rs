//! Floor 10. Converts the records of other systems to scenario files: databases of servers, pages of their interfaces,
//! objects of Kubernetes, and the findings of probes.
//!
//! This room knows the tables and columns of those systems, and which key of a scenario each of them becomes. It must
//! never invent a value that a source does not state. It must never return a scenario that the room `scenario` refuses.
//! A fault in the written scenario is reported as a fault of the source, by table, row and column.

#![warn(clippy::unwrap_used)]

mod dstack_db;
mod found;
mod gpustack;
mod imported;
mod kubernetes;
mod sqlite;

pub use dstack_db::import_dstack;
pub use found::{FoundOptions, nodes_text};
pub use gpustack::{import_gpustack_pages, import_gpustack_store};
pub use imported::{ImportError, Imported, Names, SCENARIO};
pub use kubernetes::{ClusterSource, ImportedCluster, import_kubernetes};
