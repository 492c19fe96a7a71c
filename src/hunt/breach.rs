//! One decision that breaks a property, and when two of them are the same finding.

use super::told::{Observed, Placed};
use dryrack_workload::{Category, DemandKind};

/// A decision that breaks a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub property: &'static str,
    /// In which way, in words that many worlds share. Breaches of a property in the same manner are one finding.
    pub manner: String,
    /// What happened, in a sentence or two with the names of the world.
    pub account: String,
    /// The scenario that shows it, if it is not the drawn one: the text of a changed world.
    pub shown_in: Option<String>,
    /// What should be, and is not.
    pub expects: Vec<Expected>,
    /// What happens instead.
    pub witness: Vec<String>,
}

/// An expectation, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub name: &'static str,
    /// What follows the name: `job: chat, is: placed`.
    pub what: String,
}

impl Expected {
    pub fn new(name: &'static str, what: impl Into<String>) -> Expected {
        Expected { name, what: what.into() }
    }
}

/// What two breaches of the same finding have in common.
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

/// The stage of the scheduler that a job goes through, in words: how it is asked for, and what it is.
pub fn stage(told: &Observed, job: usize) -> String {
    let spec = &told.jobs[job].spec;
    let how = if spec.demand.pick.is_some() { "picked" } else { "automatic" };
    let what = match &spec.demand.kind {
        DemandKind::Tasks(_) => if spec.demand.tasks > 1 { "gang" } else { "task" }.to_string(),
        DemandKind::Model(deployment) => {
            let categories = &deployment.model.categories;
            let is_llm = categories.is_empty() || categories.contains(&Category::Llm);
            format!("{} on {}", if is_llm { "language model" } else { "other model" }, deployment.backend.server())
        }
        DemandKind::Requirements(_) => if spec.demand.tasks > 1 { "run of several nodes" } else { "run" }.to_string(),
    };
    format!("{how} {what}")
}

/// How far a placement extends.
pub fn extent(placed: &Placed) -> &'static str {
    match (placed.parts.len(), placed.gpus()) {
        (0 | 1, 0) => "one node",
        (0 | 1, 1) => "one GPU",
        (0 | 1, _) => "several GPUs",
        (_, _) => "several nodes",
    }
}
