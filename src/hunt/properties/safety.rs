//! Safety: rules that no placement may break, as judged by dryrack's own check at commit.

use super::property::Property;
use crate::arena::Case;
use crate::breach::{Breach, Expected, extent, is_placed, stage};
use crate::observed::{Broken, Observed};
use dryrack_event::Safety as Rule;
use dryrack_units::Bytes;

/// A rule of the commit check.
pub struct Safety {
    name: &'static str,
    rule: &'static str,
    what: Rule,
}

pub const NOT_READY: Safety =
    Safety { name: "ready", rule: "Nothing is placed on a node or a GPU that is not ready", what: Rule::NotReady };

pub const OVERCOMMITTED: Safety =
    Safety { name: "memory", rule: "No more is held of a GPU or a node than it has", what: Rule::Overcommit };

pub const WHOLE: Safety = Safety {
    name: "whole",
    rule: "A gang is placed as a whole, and a pick takes as many GPUs as were picked",
    what: Rule::GangTorn,
};

pub const REQUIREMENTS: Safety = Safety {
    name: "requirements",
    rule: "A place meets what the job asks for, and something is held of each GPU that is used",
    what: Rule::RequirementUnmet,
};

impl Property for Safety {
    fn name(&self) -> &'static str {
        self.name
    }

    fn rule(&self) -> &'static str {
        self.rule
    }

    fn breaches(&self, case: &mut Case<'_>) -> Vec<Breach> {
        let observed = &case.observed;
        let broken = observed.broken.iter().filter(|broken| broken.what == self.what);
        broken.filter(|broken| !may_overcommit(observed, broken)).map(|broken| self.breach(observed, broken)).collect()
    }
}

impl Safety {
    fn breach(&self, observed: &Observed, broken: &Broken) -> Breach {
        let job = observed.name(broken.job);
        let placed = observed.of(broken.job).filter(|placed| placed.at <= broken.at).last();
        let text = placed.map_or(String::new(), |placed| format!(" on {}", placed.text()));
        let node = &observed.nodes[broken.node].name;
        let holds_nothing = placed.is_some_and(|placed| {
            placed.parts.iter().any(|part| part.gpus.iter().any(|(_, memory)| *memory == Bytes::ZERO))
        });
        let why = match (self.what, holds_nothing) {
            (Rule::RequirementUnmet, true) => "holds no memory of a GPU that it uses",
            (Rule::RequirementUnmet, false) => "does not meet what it asks for",
            (Rule::NotReady, _) => "is not ready",
            (Rule::Overcommit, _) => "has less than is held of it",
            (Rule::GangTorn, _) => "is only a part of what was asked for",
        };
        let of = placed.map_or("", extent);
        Breach {
            property: self.name,
            manner: format!("{}, {of}: {why}", stage(observed, broken.job)),
            account: match self.what {
                Rule::NotReady | Rule::Overcommit => format!("`{job}` is placed{text}, and {node} {why}."),
                Rule::GangTorn | Rule::RequirementUnmet => format!("`{job}` is placed{text}, which {why}."),
            },
            shown_in: None,
            expects: vec![Expected::new("safe", format!("count: safety_broken, job: {job}, is: 0"))],
            witness: vec![
                format!("count: safety_broken, job: {job}, is: \">= 1\""),
                format!("{}, on: {node}, replicas: 1", is_placed(observed, job)),
            ],
        }
    }
}

/// Whether a user may have wanted this overcommitment.
fn may_overcommit(observed: &Observed, broken: &Broken) -> bool {
    broken.what == Rule::Overcommit && may_insist(observed, broken.job)
}

/// Whether a user may insist on these GPUs. Some programs accept overcommitted GPUs if they were picked by hand for a
/// language model, and mark the placement, but the protocol has no such mark.
pub(super) fn may_insist(observed: &Observed, job: usize) -> bool {
    let spec = &observed.jobs[job].spec;
    let is_marked = spec.demand.pick.is_some() && spec.demand.model().is_some() && spec.replicas == 1;
    is_marked && stage(observed, job).contains("language")
}
