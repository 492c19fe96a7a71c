//! Filters: may these nodes be used at all for a model, and if not, why not.

use super::options::{DeploymentFilter, DeploymentOptions};
use super::request::{Picks, Request};
use super::search::runners;
use crate::event::Reason;
use crate::fleet::{Labels, NodeState, Serving};

/// By this label every node has its own name.
const NAME_LABEL: &str = "worker-name";

/// The nodes that pass every filter, in their order.
pub fn passing(options: &DeploymentOptions, request: &Request, serving: &Serving) -> Vec<u32> {
    let mut labels = LabelVerdicts::new(request, serving);
    let passes = |node: &u32| {
        options.filters.iter().all(|filter| judge(*filter, options, request, serving, *node, &mut labels).is_none())
    };
    (0..serving.hosts().len() as u32).filter(passes).collect()
}

/// The reason of the first filter that refuses a node.
pub fn refusal(
    options: &DeploymentOptions,
    request: &Request,
    serving: &Serving,
    node: u32,
    labels: &mut LabelVerdicts,
) -> Option<Reason> {
    options.filters.iter().find_map(|filter| judge(*filter, options, request, serving, node, labels))
}

pub fn judge(
    filter: DeploymentFilter,
    options: &DeploymentOptions,
    request: &Request,
    serving: &Serving,
    node: u32,
    labels: &mut LabelVerdicts,
) -> Option<Reason> {
    let host = &serving.hosts()[node as usize];
    match filter {
        DeploymentFilter::Picked => {
            let is_picked = match &request.picks {
                Picks::Free | Picks::Unreadable => true,
                Picks::Gpus(picks) => picks.iter().any(|pick| pick.node == host.name),
                Picks::Nodes(names) => names.contains(&host.name),
            };
            (!is_picked).then_some(Reason::NotPicked)
        }
        DeploymentFilter::Labels => labels.judge(request, serving, node),
        DeploymentFilter::Ready => match host.state {
            NodeState::Ready => None,
            NodeState::Joining => Some(Reason::NodeJoining),
            NodeState::NotReady => Some(Reason::NodeNotReady),
            NodeState::Unreachable => Some(Reason::NodeUnreachable),
            NodeState::Maintenance => Some(Reason::NodeMaintenance),
            NodeState::Gone => Some(Reason::NodeGone),
        },
        DeploymentFilter::Runner => {
            let runners = runners(options, request)?;
            (!host.kinds.iter().any(|kind| runners.contains(kind))).then_some(Reason::NoRunner)
        }
    }
}

/// The selector's verdict on each label set, found once.
pub struct LabelVerdicts(Vec<Option<Option<Reason>>>);

impl LabelVerdicts {
    pub fn new(request: &Request, serving: &Serving) -> LabelVerdicts {
        let asked = request.deployment.selector.as_ref().is_some_and(|selector| !selector.is_empty());
        LabelVerdicts(if asked { vec![None; serving.label_sets().len()] } else { Vec::new() })
    }

    fn judge(&mut self, request: &Request, serving: &Serving, node: u32) -> Option<Reason> {
        let host = &serving.hosts()[node as usize];
        let selector = request.deployment.selector.as_ref().filter(|selector| !selector.is_empty())?;
        let set = host.label_set as usize;
        let known = *self.0[set].get_or_insert_with(|| missing(selector, &serving.label_sets()[set]));
        // Nodes of one label set differ in their names.
        let named = match selector.get(NAME_LABEL) {
            Some(name) if !serving.label_sets()[set].contains_key(NAME_LABEL) => *name == host.name,
            Some(_) | None => true,
        };
        if named { known } else { Some(Reason::LabelMismatch) }
    }
}

fn missing(selector: &Labels, labels: &Labels) -> Option<Reason> {
    let mut verdict = None;
    for (key, value) in selector {
        match labels.get(key) {
            None if &**key == NAME_LABEL => {}
            None => return Some(Reason::LabelMissing),
            Some(found) if found != value => verdict = Some(Reason::LabelMismatch),
            Some(_) => {}
        }
    }
    verdict
}
