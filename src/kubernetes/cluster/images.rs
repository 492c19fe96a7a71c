//! Images on nodes.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::NodeInfo;

/// The images of a cluster by name.
#[derive(Debug, Default)]
pub struct Images(HashMap<Arc<str>, ImageState, FixedState>);

/// An image: its size according to the first node that has it, and the nodes that have it.
#[derive(Debug)]
pub struct ImageState {
    pub size: i64,
    /// In ascending order.
    nodes: Vec<usize>,
}

impl Images {
    pub fn of(nodes: &[NodeInfo]) -> Images {
        let mut known: HashMap<Arc<str>, ImageState, FixedState> = HashMap::default();
        for (index, node) in nodes.iter().enumerate() {
            for image in &node.shape.images {
                for name in &image.names {
                    let state = (known.entry(Arc::clone(name)))
                        .or_insert_with(|| ImageState { size: image.size_bytes, nodes: Vec::new() });
                    if state.nodes.last() != Some(&index) {
                        state.nodes.push(index);
                    }
                }
            }
        }
        Images(known)
    }

    /// The image of a container. A name without a tag means the tag `latest`.
    pub fn find(&self, name: &str) -> Option<&ImageState> {
        let has_tag = name.rfind(':') > name.rfind('/');
        if has_tag { self.0.get(name) } else { self.0.get(format!("{name}:latest").as_str()) }
    }
}

impl ImageState {
    pub fn is_on(&self, node: usize) -> bool {
        self.nodes.binary_search(&node).is_ok()
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }
}
