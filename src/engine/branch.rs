//! Branches: a branch is a run that equals another run until a given time, and has another fleet, profile or load from
//! then on.
//!
//! A branch is made from two rehearsals, a base and another one. Everything before the given time comes from the base.
//! Everything from that time on comes from the other rehearsal. Nodes join or leave and the profile changes at exactly
//! that time, before all other events of that instant. The result is one rehearsal, so a branch is run, logged and
//! replayed like any other run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use super::rehearsal::{Branch, Fault, InitialNode, NodeTurn, Rehearsal};
use dryrack_control::can_become;
use dryrack_fleet::{Foreign, GpuState, NodeShape, NodeState};
use dryrack_ids::{GpuId, JobId, NodeId};
use dryrack_scheduler::slurm::group_of_label;
use dryrack_units::SimTime;

/// Why one run cannot branch off the other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BranchError {
    #[error("the seed differs, but a branch must have the same random draws")]
    Seed,
    #[error("the node `{0}` is a different machine in the branch; to replace a machine, add a node with another name")]
    Node(String),
    #[error(
        "the node `{name}` {change} in the branch, but a branch keeps the partitions, reservations and labels of its nodes; \
         compare two whole runs: `dryrack run` with and without the change"
    )]
    Labels { name: String, change: String },
    #[error(
        "the node `{name}` begins as {state} in the branch, and only time makes a node so; begin as ready, not_ready or \
         maintenance, or add a fault"
    )]
    State { name: String, state: &'static str },
    #[error("`{0}` differs; a branch keeps it from before, so compare two whole runs, as `plan` does")]
    Kept(&'static str),
    #[error("the fleets differ; a branch can add and remove nodes but cannot change fleets")]
    Fleets,
    #[error(
        "the objects of Kueue differ; a branch keeps queues and quotas, so change them with `changes:` in both files"
    )]
    Queues,
    #[error(
        "a job named `{0}` was submitted before the branch, and another job with this name would be submitted after it"
    )]
    Job(String),
    #[error("the profile `{name}` cannot take over: {why}")]
    Profile { name: String, why: &'static str },
}

/// Something whose state the other rehearsal states for the time of the branch: it gets this state even if it begins the
/// base with the same, because a fault may have changed it since. Its ids are those of the other rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stated {
    Node(NodeId),
    Gpu(GpuId),
    Foreign(GpuId),
}

/// The run that is `base` before `at`, and `other` from then on.
pub fn branch(base: &Rehearsal, other: &Rehearsal, at: SimTime) -> Result<Rehearsal, BranchError> {
    branch_with(base, other, at, &BTreeSet::new())
}

/// Like [`branch`], with the states that `other` states for the time of the branch.
pub fn branch_with(
    base: &Rehearsal,
    other: &Rehearsal,
    at: SimTime,
    stated: &BTreeSet<Stated>,
) -> Result<Rehearsal, BranchError> {
    if base.seed != other.seed {
        return Err(BranchError::Seed);
    }
    if base.kueue != other.kueue {
        return Err(BranchError::Queues);
    }
    if base.fleets != other.fleets || base.clouds != other.clouds {
        return Err(BranchError::Fleets);
    }
    refuse_kept(base, other)?;
    let profile = match base.profile == other.profile {
        true => None,
        false => {
            let refused = |why| BranchError::Profile { name: other.profile.name.clone(), why };
            can_become(&base.profile, &other.profile).map_err(refused)?;
            Some(Arc::clone(&other.profile))
        }
    };
    let fleet = Fleets::of(base, other, stated)?;
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

/// Refuses a difference in what a branch could only take over from the base.
fn refuse_kept(base: &Rehearsal, other: &Rehearsal) -> Result<(), BranchError> {
    let kept = [
        ("objects", base.objects == other.objects),
        ("electricity", base.electricity == other.electricity),
        ("currency", base.currency == other.currency),
        ("warm_up", base.warm_up == other.warm_up),
    ];
    kept.iter().find(|(_, is_same)| !is_same).map_or(Ok(()), |(name, _)| Err(BranchError::Kept(name)))
}

/// The nodes that both rehearsals have, and those that only one of them has. Nodes are matched by name; leading zeros
/// in a name's number are ignored.
struct Fleets {
    /// The nodes that join, as indexes into the nodes of the other rehearsal.
    joining: Vec<usize>,
    leaving: BTreeSet<NodeId>,
    /// For each node of the other rehearsal, its id in the branch.
    places: Vec<NodeId>,
    own: usize,
    /// What makes the nodes that both have begin the branch as they begin the other rehearsal, where that differs or is
    /// stated for the time of the branch.
    turns: Vec<Fault>,
}

impl Fleets {
    fn of(base: &Rehearsal, other: &Rehearsal, stated: &BTreeSet<Stated>) -> Result<Fleets, BranchError> {
        let known: BTreeMap<(&str, u64), usize> =
            base.nodes.iter().enumerate().map(|(index, node)| (numbered(&node.spec.name), index)).collect();
        let mut found = Fleets {
            joining: Vec::new(),
            leaving: BTreeSet::new(),
            places: Vec::new(),
            own: base.nodes.len(),
            turns: Vec::new(),
        };
        for (index, node) in other.nodes.iter().enumerate() {
            match known.get(&numbered(&node.spec.name)) {
                Some(own) if base.nodes[*own].spec.shape != node.spec.shape => {
                    return Err(other_shape(&base.nodes[*own], node));
                }
                Some(own) => {
                    let own = NodeId::new(*own);
                    found.turns.extend(turns((own, &base.nodes[own.index()]), (NodeId::new(index), node), stated)?);
                    found.places.push(own);
                }
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

    /// The faults of the branch, with what changes at its time. If a joining node has a fault before the branch, the fault happens when the node
    /// joins. Faults of a leaving node after the branch are left out.
    fn faults(&self, base: &Rehearsal, other: &Rehearsal, at: SimTime) -> Vec<(SimTime, Fault)> {
        let before = base.faults.iter().filter(|(then, _)| *then < at).copied();
        let moved = other.faults.iter().filter_map(|(then, fault)| {
            let node = self.places[node_of(*fault).index()];
            let counts = *then >= at || node.index() >= self.own;
            counts.then(|| ((*then).max(at), with_node(*fault, node)))
        });
        let turns = self.turns.iter().map(|fault| (at, *fault));
        before.chain(turns).chain(moved).collect()
    }
}

/// Why a node cannot have the shape that it has in the other rehearsal.
fn other_shape(own: &InitialNode, other: &InitialNode) -> BranchError {
    let name = other.spec.name.to_string();
    let (own, other) = (&own.spec.shape, &other.spec.shape);
    if *own != Arc::new(NodeShape { labels: own.labels.clone(), ..NodeShape::clone(other) }) {
        return BranchError::Node(name);
    }
    // The labels of a union of partitions, such as `a,b`, come after those of the first of them.
    let keys: BTreeSet<&Arc<str>> = own.labels.keys().chain(other.labels.keys()).collect();
    let differing = keys.into_iter().find(|key| own.labels.get(*key) != other.labels.get(*key));
    let label = differing.expect("only the labels differ");
    let (group, is_there) = (group_of_label(label), other.labels.get(label));
    let change = match (group, is_there) {
        (Some(group), Some(_)) => format!("is in the {group}"),
        (Some(group), None) => format!("is not in the {group}"),
        (None, Some(value)) => format!("has the label {label}={value}"),
        (None, None) => format!("does not have the label {label}"),
    };
    BranchError::Labels { name, change }
}

/// What turns a node of the base into one that begins like that of the other rehearsal.
fn turns(
    (node, own): (NodeId, &InitialNode),
    (id, other): (NodeId, &InitialNode),
    stated: &BTreeSet<Stated>,
) -> Result<Vec<Fault>, BranchError> {
    if own.files != other.files {
        return Err(BranchError::Node(other.spec.name.to_string()));
    }
    let mut turns = Vec::new();
    if own.state != other.state || stated.contains(&Stated::Node(id)) {
        let state = |state| Err(BranchError::State { name: other.spec.name.to_string(), state });
        let becomes = match other.state {
            NodeState::Ready => NodeTurn::Ready,
            NodeState::NotReady => NodeTurn::NotReady,
            NodeState::Maintenance => NodeTurn::Maintenance,
            NodeState::Joining => return state("joining"),
            NodeState::Unreachable => return state("unreachable"),
            NodeState::Gone => return state("gone"),
        };
        turns.push(Fault::Node { node, becomes });
    }
    let of = |gpus: &[(u16, GpuState, Foreign)], index: u16| {
        let listed = gpus.iter().find(|(known, ..)| *known == index);
        listed.map_or((GpuState::Ready, Foreign::NONE), |(_, state, foreign)| (*state, *foreign))
    };
    let indexes: BTreeSet<u16> = own.gpus.iter().chain(&other.gpus).map(|(index, ..)| *index).collect();
    for index in indexes {
        let (gpu, of_other) = (GpuId { node, index }, GpuId { node: id, index });
        let ((own_state, own_foreign), (becomes, foreign)) = (of(&own.gpus, index), of(&other.gpus, index));
        turns.extend(
            (own_state != becomes || stated.contains(&Stated::Gpu(of_other))).then_some(Fault::Gpu { gpu, becomes }),
        );
        turns.extend(
            (own_foreign != foreign || stated.contains(&Stated::Foreign(of_other)))
                .then_some(Fault::Foreign { gpu, foreign }),
        );
    }
    Ok(turns)
}

/// Splits a name into a stem and a number, so that `worker-07` of one fleet matches `worker-7` of another.
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

/// The jobs that arrive before and after the branch. Jobs are matched by name.
struct Jobs {
    /// The number of jobs of the base that arrive before the branch.
    before: usize,
    /// The index of the first job of the other rehearsal that arrives at or after the branch.
    from: usize,
    /// For each job of the other rehearsal, its id in the branch. `None` if the branch does not have the job.
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

    /// Merges the requests about jobs of both rehearsals. Keeps the requests of the base that are made before the
    /// branch, about jobs that arrive before it. Keeps the requests of the other rehearsal that are made after the
    /// branch, or that are about jobs that arrive after it.
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
