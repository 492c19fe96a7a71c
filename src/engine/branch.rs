//! A run that leaves another at a time: the same until then, with another fleet, profile or load from then on.
//!
//! Both are rehearsals of their own. The branch is one rehearsal made of the two: what happens before the time is of the
//! one, what happens from then on is of the other, and at the time itself, before anything else of that instant, nodes join
//! and leave and the profile changes. So a branch runs, is logged and is replayed as any run is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use super::rehearsal::{Fault, Rehearsal};
use dryrack_control::{Profile, can_become};
use dryrack_ids::{GpuId, JobId, NodeId};
use dryrack_units::SimTime;

/// What changes in a run at a time.
#[derive(Clone, Debug)]
pub struct Branch {
    pub at: SimTime,
    pub profile: Option<Arc<Profile>>,
    /// The nodes from this one on join then.
    pub joining: NodeId,
    /// Take nothing new from then on, and go when nothing is left on them.
    pub leaving: BTreeSet<NodeId>,
}

/// Why one run cannot leave the other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BranchError {
    #[error("the seed differs, but a branch must have the same random draws")]
    Seed,
    #[error(
        "the node `{0}` is a different machine in the branch; replace a machine by adding a node under another name"
    )]
    Node(String),
    #[error("the fleets differ; a branch can add and remove nodes, but cannot change fleets")]
    Fleets,
    #[error("a job named `{0}` came before the branch, and another of that name would come after it")]
    Job(String),
    #[error("the profile `{name}` cannot take over: {why}")]
    Profile { name: String, why: &'static str },
}

/// The run that is `base` before `at`, and `other` from then on.
pub fn branch(base: &Rehearsal, other: &Rehearsal, at: SimTime) -> Result<Rehearsal, BranchError> {
    if base.seed != other.seed {
        return Err(BranchError::Seed);
    }
    if base.fleets != other.fleets || base.clouds != other.clouds {
        return Err(BranchError::Fleets);
    }
    let profile = match base.profile == other.profile {
        true => None,
        false => {
            let refused = |why| BranchError::Profile { name: other.profile.name.clone(), why };
            can_become(&base.profile, &other.profile).map_err(refused)?;
            Some(Arc::clone(&other.profile))
        }
    };
    let fleet = Fleets::of(base, other)?;
    let jobs = Jobs::of(base, other, at)?;
    let mut merged = Rehearsal {
        nodes: base.nodes.iter().chain(fleet.joining.iter().map(|node| &other.nodes[*node])).cloned().collect(),
        arrivals: base.arrivals[..jobs.before].iter().chain(&other.arrivals[jobs.from..]).cloned().collect(),
        until: other.until,
        ..base.clone()
    };
    merged.faults = fleet.faults(base, other, at);
    merged.cancellations = jobs.of_jobs(
        &base.cancellations,
        &other.cancellations,
        at,
        |entry| (entry.0, entry.1),
        |entry, job| (entry.0, job),
    );
    merged.scalings = jobs.of_jobs(
        &base.scalings,
        &other.scalings,
        at,
        |entry| (entry.0, entry.1),
        |entry, job| (entry.0, job, entry.2),
    );
    merged.evaluations = jobs.of_jobs(
        &base.evaluations,
        &other.evaluations,
        at,
        |entry| (entry.0, entry.1),
        |entry, job| (entry.0, job),
    );
    merged.branch = Some(Branch { at, profile, joining: NodeId::new(base.nodes.len()), leaving: fleet.leaving });
    Ok(merged)
}

/// Which nodes are whose, by name; zeros before a number do not count.
struct Fleets {
    /// By their places in the other.
    joining: Vec<usize>,
    leaving: BTreeSet<NodeId>,
    /// Where a node of the other is in the branch.
    places: Vec<NodeId>,
    own: usize,
}

impl Fleets {
    fn of(base: &Rehearsal, other: &Rehearsal) -> Result<Fleets, BranchError> {
        let known: BTreeMap<(&str, u64), usize> =
            base.nodes.iter().enumerate().map(|(index, node)| (numbered(&node.spec.name), index)).collect();
        let mut found =
            Fleets { joining: Vec::new(), leaving: BTreeSet::new(), places: Vec::new(), own: base.nodes.len() };
        for (index, node) in other.nodes.iter().enumerate() {
            match known.get(&numbered(&node.spec.name)) {
                Some(own) if base.nodes[*own].spec.shape != node.spec.shape => {
                    return Err(BranchError::Node(node.spec.name.to_string()));
                }
                Some(own) => found.places.push(NodeId::new(*own)),
                None => {
                    found.places.push(NodeId::new(base.nodes.len() + found.joining.len()));
                    found.joining.push(index);
                }
            }
        }
        let stay: BTreeSet<NodeId> = found.places.iter().copied().collect();
        found.leaving = (0..base.nodes.len()).map(NodeId::new).filter(|node| !stay.contains(node)).collect();
        Ok(found)
    }

    /// What goes wrong with a node that joins before it does, has gone wrong when it does. What would go wrong with one
    /// that leaves is left out.
    fn faults(&self, base: &Rehearsal, other: &Rehearsal, at: SimTime) -> Vec<(SimTime, Fault)> {
        let before = base.faults.iter().filter(|(then, _)| *then < at).copied();
        let moved = other.faults.iter().filter_map(|(then, fault)| {
            let node = self.places[node_of(*fault).index()];
            let counts = *then >= at || node.index() >= self.own;
            counts.then(|| ((*then).max(at), with_node(*fault, node)))
        });
        before.chain(moved).collect()
    }
}

/// `worker-07` is `worker-7` where there are no more than ten of them.
fn numbered(name: &str) -> (&str, u64) {
    let number = name.rsplit_once('-').and_then(|(stem, number)| Some((stem, number.parse::<u64>().ok()?)));
    number.unwrap_or((name, u64::MAX))
}

fn node_of(fault: Fault) -> NodeId {
    match fault {
        Fault::Node { node, .. } => node,
        Fault::Gpu { gpu, .. } | Fault::Foreign { gpu, .. } => gpu.node,
    }
}

fn with_node(fault: Fault, node: NodeId) -> Fault {
    match fault {
        Fault::Node { becomes, .. } => Fault::Node { node, becomes },
        Fault::Gpu { gpu, becomes } => Fault::Gpu { gpu: GpuId { node, ..gpu }, becomes },
        Fault::Foreign { gpu, foreign } => Fault::Foreign { gpu: GpuId { node, ..gpu }, foreign },
    }
}

/// Which jobs come when, by name.
struct Jobs {
    /// So many of the one come before the branch.
    before: usize,
    /// Of the other, those from here on come after it.
    from: usize,
    /// Where a job of the other is in the branch, if it is there.
    places: Vec<Option<JobId>>,
}

impl Jobs {
    fn of(base: &Rehearsal, other: &Rehearsal, at: SimTime) -> Result<Jobs, BranchError> {
        let before = base.arrivals.partition_point(|arrival| arrival.at < at);
        let from = other.arrivals.partition_point(|arrival| arrival.at < at);
        let known: BTreeMap<&str, usize> =
            base.arrivals[..before].iter().enumerate().map(|(index, arrival)| (&*arrival.spec.name, index)).collect();
        let mut places: Vec<Option<JobId>> = Vec::with_capacity(other.arrivals.len());
        for (index, arrival) in other.arrivals.iter().enumerate() {
            let own = known.get(&*arrival.spec.name);
            if index < from {
                places.push(own.map(|own| JobId::new(*own)));
            } else if own.is_some() {
                return Err(BranchError::Job(arrival.spec.name.to_string()));
            } else {
                places.push(Some(JobId::new(before + index - from)));
            }
        }
        Ok(Jobs { before, from, places })
    }

    /// What is asked of jobs: of the one before the branch, of the other after it, and all that is asked of what comes
    /// after it.
    fn of_jobs<T: Clone>(
        &self,
        base: &[T],
        other: &[T],
        at: SimTime,
        of: impl Fn(&T) -> (SimTime, JobId),
        with: impl Fn(&T, JobId) -> T,
    ) -> Vec<T> {
        let is_before = |entry: &&T| of(entry).0 < at && of(entry).1.index() < self.before;
        let before = base.iter().filter(is_before).cloned();
        let after = other.iter().filter_map(|entry| {
            let (then, job) = of(entry);
            let counts = then >= at || job.index() >= self.from;
            self.places[job.index()].filter(|_| counts).map(|job| with(entry, job))
        });
        before.chain(after).collect()
    }
}
