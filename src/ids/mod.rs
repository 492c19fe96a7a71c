//! Floor 1. Typed ids and the tables of their names.
//!
//! Owns the small integers that identify nodes, GPUs and jobs. Owns containers that keep records by number
//! ([`Records`]) or items in order ([`OrderedSet`]). Knows nothing about the things that the ids identify. Ids are
//! consecutive numbers in order of declaration, so they are the last part of every sort key. In JSON an id is written
//! as its name.

#![warn(clippy::unwrap_used)]

mod id_serde;
mod ordered;
mod records;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

pub use id_serde::{NameError, declared, lend};
pub use ordered::OrderedSet;
pub use records::Records;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            pub fn new(index: usize) -> $name {
                match u32::try_from(index) {
                    Ok(index) => $name(index),
                    Err(_) => panic!("more than {} of one kind", u32::MAX),
                }
            }

            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// The number of a node, in order of declaration.
    NodeId
}
id! {
    /// The number of a fleet of instances, in order of declaration.
    FleetId
}
id! {
    /// The number of a job, in order of submission.
    JobId
}

/// A GPU, identified by its node and its index on that node: `alpha/0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuId {
    pub node: NodeId,
    pub index: u16,
}

/// One attempt to run one replica of a job. An acknowledgement contains the attempt, so a late one cannot be taken for
/// one of another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptId {
    pub job: JobId,
    pub replica: u32,
    /// Counted from 1.
    #[serde(rename = "attempt")]
    pub number: u32,
}

/// The names of one kind of ids, in order of the ids.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    names: Vec<Arc<str>>,
    /// The ids by name. Built on the first lookup.
    by_name: OnceLock<ByName>,
}

type ByName = HashMap<Arc<str>, u32, foldhash::fast::FixedState>;

/// The error for a name that is already in the table.
#[derive(Debug, PartialEq, Eq)]
pub struct DuplicateName;

fn next_id(names: &[Arc<str>]) -> u32 {
    u32::try_from(names.len()).expect("fewer than 2^32 names")
}

impl NameTable {
    /// Adds a name and returns its id, which is the number of names before it.
    pub fn add(&mut self, name: Arc<str>) -> Result<usize, DuplicateName> {
        self.by_name();
        let by_name = self.by_name.get_mut().expect("just made");
        match by_name.entry(Arc::clone(&name)) {
            Entry::Occupied(_) => Err(DuplicateName),
            Entry::Vacant(entry) => {
                entry.insert(next_id(&self.names));
                self.names.push(name);
                Ok(self.names.len() - 1)
            }
        }
    }

    /// Adds a name that must be new. If it is not, panics at once if the lookup table exists, else on the first lookup.
    pub fn add_new(&mut self, name: Arc<str>) -> usize {
        if let Some(by_name) = self.by_name.get_mut() {
            let known = by_name.insert(Arc::clone(&name), next_id(&self.names));
            assert!(known.is_none(), "`{name}` is given twice");
        }
        self.names.push(name);
        self.names.len() - 1
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name().get(name).map(|id| *id as usize)
    }

    fn by_name(&self) -> &ByName {
        self.by_name.get_or_init(|| {
            let by_name: ByName = self.names.iter().cloned().zip(0..).collect();
            assert_eq!(by_name.len(), self.names.len(), "a name is given twice");
            by_name
        })
    }

    pub fn get(&self, index: usize) -> Option<&Arc<str>> {
        self.names.get(index)
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter()
    }
}

/// The names of a run's nodes, jobs and fleets.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub nodes: NameTable,
    pub jobs: NameTable,
    pub fleets: NameTable,
}

impl Names {
    pub fn node(&self, node: NodeId) -> &str {
        self.nodes.get(node.index()).map_or("?", |name| name)
    }

    pub fn fleet(&self, fleet: FleetId) -> &str {
        self.fleets.get(fleet.index()).map_or("?", |name| name)
    }

    pub fn job(&self, job: JobId) -> &str {
        self.jobs.get(job.index()).map_or("?", |name| name)
    }

    /// The name of an attempt, such as `chat`, `chat[1]` or `chat #2`. The replica is shown unless it is the first, and
    /// so is the attempt.
    pub fn attempt(&self, attempt: AttemptId) -> String {
        let mut name = self.replica(attempt.job, attempt.replica);
        if attempt.number > 1 {
            name.push_str(&format!(" #{}", attempt.number));
        }
        name
    }

    /// The name of a replica, such as `chat` or `chat[1]`.
    pub fn replica(&self, job: JobId, replica: u32) -> String {
        match replica {
            0 => self.job(job).to_string(),
            _ => format!("{}[{replica}]", self.job(job)),
        }
    }

    /// The name of a GPU, such as `alpha/0`.
    pub fn gpu(&self, gpu: GpuId) -> String {
        format!("{}/{}", self.node(gpu.node), gpu.index)
    }
}

impl fmt::Display for AttemptId {
    /// Formats the numbers, for assertions that have no names: `job 3, replica 0, attempt 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}, replica {}, attempt {}", self.job.0, self.replica, self.number)
    }
}
