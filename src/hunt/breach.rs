//! A decision that breaks a property, and the rule by which two such decisions are the same finding.

use super::observed::{Observed, Placed};
use dryrack_workload::{Category, Demand, DemandKind};

/// A decision that breaks a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub property: &'static str,
    /// How the property is broken, in words that many worlds share. Breaches of a property with the same manner are one
    /// finding.
    pub manner: String,
    /// What happened, in a sentence or two that use the names of the world.
    pub account: String,
    /// The text of the changed world that shows the breach, if the drawn world does not show it.
    pub shown_in: Option<String>,
    /// Expectations that should hold and do not.
    pub expects: Vec<Expected>,
    /// Expectations that hold instead.
    pub witness: Vec<String>,
}

/// A named expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub name: &'static str,
    /// The expectation without its name: `job: chat, is: placed`.
    pub what: String,
}

impl Expected {
    pub fn new(name: &'static str, what: impl Into<String>) -> Expected {
        Expected { name, what: what.into() }
    }
}

/// The properties that two breaches of the same finding share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub property: &'static str,
    pub manner: String,
}

impl Breach {
    pub fn group(&self) -> Group {
        Group { property: self.property, manner: self.manner.clone() }
    }
}

/// The expectation that all replicas of a job are placed at some time. They may have ended by the end of the world.
pub fn is_placed(observed: &Observed, job: &str) -> String {
    format!("job: {job}, is: placed, by: {}", observed.limit)
}

/// In words, the stage of the scheduler that a job goes through: how the job requests its place, and what the job is.
pub fn stage(observed: &Observed, job: usize) -> String {
    stage_of(&observed.jobs[job].spec.demand)
}

pub fn stage_of(demand: &Demand) -> String {
    let how = if demand.pick.is_some() { "picked" } else { "automatic" };
    let what = match &demand.kind {
        DemandKind::Sets(_) => "gang of unequal tasks".to_string(),
        DemandKind::Tasks(_) => if demand.tasks > 1 { "gang" } else { "task" }.to_string(),
        DemandKind::Model(deployment) => {
            let categories = &deployment.model.categories;
            let is_llm = categories.is_empty() || categories.contains(&Category::Llm);
            format!("{} on {}", if is_llm { "language model" } else { "other model" }, deployment.backend.server())
        }
        DemandKind::Requirements(_) => if demand.tasks > 1 { "run of several nodes" } else { "run" }.to_string(),
    };
    format!("{how} {what}")
}

/// The extent of a placement, in words.
pub fn extent(placed: &Placed) -> &'static str {
    match (placed.parts.len(), placed.gpus()) {
        (0 | 1, 0) => "one node",
        (0 | 1, 1) => "one GPU",
        (0 | 1, _) => "several GPUs",
        (_, _) => "several nodes",
    }
}
