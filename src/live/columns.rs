//! Columns, one for each GPU of the first snapshot. They stay the same for later snapshots. A column is identified by
//! its node and by the key of its GPU, which is the UUID if there is one. So if a GPU vanishes, its column does not
//! pass to another GPU.
//!
//! If a machine has no GPU at all, each node has one column for its CPUs. The memory of this column is the node's RAM.

use std::collections::BTreeSet;

use super::probe::{GpuSnapshot, Missing, NodeSnapshot, Reading, Snapshot};
use dryrack_units::{Bytes, Permille};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the column: `gpu0`, or with several nodes `alpha/gpu0`; `cpu` for CPUs.
    pub name: String,
    pub node: String,
    /// The pod or job that held the GPU when it was first seen.
    pub holder: Option<String>,
    /// The key of the GPU; `None` for the CPUs of the node.
    key: Option<String>,
}

/// The readings of one column in one poll.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub utilization: Reading<Permille>,
    pub memory: Reading<Bytes>,
}

impl Column {
    /// All columns, as defined by the first poll.
    pub fn all(snapshot: &Snapshot) -> Vec<Column> {
        let several = snapshot.nodes.len() > 1;
        let mut taken = BTreeSet::new();
        let mut named = |node: &NodeSnapshot, own: &str| {
            let plain: String = node.name.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect();
            let name = if several { format!("{plain}/{own}") } else { own.to_string() };
            let mut free = name.clone();
            while !taken.insert(free.clone()) {
                free.push('\'');
            }
            free
        };
        let mut columns = Vec::new();
        for node in &snapshot.nodes {
            for gpu in &node.gpus {
                columns.push(Column {
                    name: named(node, &format!("gpu{}", gpu.index)),
                    node: node.name.clone(),
                    holder: gpu.holder.clone(),
                    key: Some(gpu.key()),
                });
            }
        }
        if columns.is_empty() {
            let cpu = |node: &NodeSnapshot| Column {
                name: named(node, "cpu"),
                node: node.name.clone(),
                holder: None,
                key: None,
            };
            columns.extend(snapshot.nodes.iter().map(cpu));
        }
        columns
    }

    pub fn read(&self, snapshot: &Snapshot) -> Cell {
        let nodes: Vec<&NodeSnapshot> = snapshot.nodes.iter().filter(|node| node.name == self.node).collect();
        let gone = || Cell { utilization: Err(Missing::Vanished), memory: Err(Missing::Vanished) };
        match &self.key {
            None => nodes
                .first()
                .map_or_else(gone, |node| Cell { utilization: cpu_utilization(node), memory: node.ram_used.clone() }),
            Some(key) => {
                let gpu = nodes.iter().flat_map(|node| &node.gpus).find(|gpu| gpu.key() == *key);
                gpu.map_or_else(gone, |gpu| Cell {
                    utilization: gpu.utilization.clone(),
                    memory: gpu.memory_used.clone(),
                })
            }
        }
    }

    fn is(&self, node: &str, gpu: &GpuSnapshot) -> bool {
        self.node == node && self.key.as_ref() == Some(&gpu.key())
    }
}

fn is_plain(letter: char) -> bool {
    !letter.is_control() && !letter.is_whitespace() && !",\"'".contains(letter)
}

fn cpu_utilization(node: &NodeSnapshot) -> Reading<Permille> {
    let (used, all) = (node.cpu_used.clone()?, node.cpu.clone()?);
    if all.get() == 0 {
        return Err(Missing::NotAvailable);
    }
    let part = u128::from(used.get()) * 1000 / u128::from(all.get());
    Ok(Permille::new(part.min(1000) as u32))
}

/// GPUs in the snapshot that have no column, because they did not exist in the first poll.
pub fn strangers(columns: &[Column], snapshot: &Snapshot) -> Vec<String> {
    let all = snapshot.nodes.iter().flat_map(|node| node.gpus.iter().map(move |gpu| (node, gpu)));
    let new = all.filter(|(node, gpu)| !columns.iter().any(|column| column.is(&node.name, gpu)));
    new.map(|(node, gpu)| format!("GPU {} of {}", gpu.index, node.name)).collect()
}

/// The cell of every column for a poll that failed: the reason is the same for all of them.
pub fn nothing(why: &Missing) -> Cell {
    Cell { utilization: Err(why.clone()), memory: Err(why.clone()) }
}
