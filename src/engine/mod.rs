//! Floor 6. The simulated world, and the loop that drives the control plane through it.
//!
//! Owns the event queue, the virtual clock, the behavior of nodes and runs, faults, replay, explanation and the swarm
//! of random worlds. Must never know about file formats and must never decide anything. It carries out commands and
//! reports what happened.

#![warn(clippy::unwrap_used)]

mod accounts;
mod answers;
mod arrival_source;
mod audit;
mod audited_flavors;
mod audited_retries;
mod branch;
mod checkpoints;
mod cloud_models;
mod clouds;
mod deciding;
mod downloads;
mod due;
mod explain;
mod fitting;
mod outages;
mod pods_alone;
mod queue;
mod records;
mod rehearsal;
mod replay;
mod run;
mod runaway;
mod sampler;
mod selection;
mod serving;
mod serving_replica;
mod shared_gpus;
mod simulating;
mod swarm;
mod swarm_clouds;
mod swarm_dependencies;
mod swarm_fleets;
mod swarm_nodes;
mod swarm_objects;
mod swarm_pods;
mod swarm_pods_sites;
mod swarm_profiles;
mod swarm_queues;
mod swarm_services;
mod swarm_sets;
mod swarm_slurm;
mod swarm_slurm_sites;
mod swarm_stages;
mod swarm_usage;
mod traffic;
mod world;

pub use accounts::{Accounts, Standing};
pub use answers::hold_answers;
pub use audit::Audit;
pub use branch::{BranchError, Stated, branch, branch_with};
pub use cloud_models::{CloudModels, InstanceTurn, OfferModel};
pub use explain::{
    Explanation, HeldAhead, PlacementReasons, ReplicaStanding, UnmetDependency, explain, explain_unless,
};
pub use fitting::{Change, Fitting, Refused, declared_fleet, fitting};
pub use outages::{FailedState, FailureModel, Outage, Subject, Target, as_faults};
pub use pods_alone::refused_alone;
pub use queue::EventQueue;
pub use records::Records;
pub use rehearsal::{Branch, Fault, InitialNode, ModelFiles, NodeTurn, Rehearsal};
pub use replay::{Difference, Replay, replay};
pub use run::{Checks, Progress, RunEnd, RunOptions, run, run_decided, run_streamed};
pub use runaway::{Bound, MOST_RECORDS, Runaway, limit_records};
pub use selection::{Selection, selection};
pub use simulating::{Never, Preemptor, QueueChange, Remedy, Simulated, Victim, simulate};
pub use swarm::{MOST_RECORDS_OF_A_WORLD, WorldResult, draw_world, run_world, run_world_once};
pub use swarm_pods::draw_pod_world;
pub use swarm_profiles::draw_profiles_world;
pub use swarm_slurm::draw_slurm_world;
pub use swarm_stages::draw_stages_world;
pub use world::Due;
