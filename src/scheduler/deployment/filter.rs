//! Filters for models: whether nodes may be used at all, and if not, why.

use super::hardware::HardwareVerdicts;
use super::options::{DeploymentFilter, DeploymentOptions};
use super::request::{Picks, Request};
use super::search::runners;
use crate::filter::{labels, picked, ready};
use crate::own::{NodeView, RequestView};
use dryrack_event::Reason;
use dryrack_fleet::Serving;
use dryrack_ids::NodeId;

/// A label that every node has, with the node's name as its value.
const NAME_LABEL: &str = "worker-name";

/// The nodes that pass every filter, in their order.
pub fn passing(
    options: &DeploymentOptions,
    request: &Request,
    serving: &Serving,
    hardware: &HardwareVerdicts,
) -> Vec<u32> {
    let mut verdicts = Verdicts::new(request, serving, hardware);
    let passes = |node: &u32| {
        options.filters.iter().all(|filter| judge(*filter, options, request, serving, *node, &mut verdicts).is_none())
    };
    (0..serving.hosts().len() as u32).filter(passes).collect()
}

/// The reason of the first filter that refuses a node.
pub fn refusal(
    options: &DeploymentOptions,
    request: &Request,
    serving: &Serving,
    node: u32,
    verdicts: &mut Verdicts,
) -> Option<Reason> {
    options.filters.iter().find_map(|filter| judge(*filter, options, request, serving, node, verdicts))
}

pub fn judge(
    filter: DeploymentFilter,
    options: &DeploymentOptions,
    request: &Request,
    serving: &Serving,
    node: u32,
    verdicts: &mut Verdicts,
) -> Option<Reason> {
    let host = &serving.hosts()[node as usize];
    match filter {
        DeploymentFilter::Picked => {
            let is_picked = match &request.picks {
                Picks::Free | Picks::Unreadable => true,
                Picks::Gpus(picks) => picks.iter().any(|pick| pick.node == host.name),
                Picks::Nodes(names) => names.contains(&host.name),
            };
            // The generators refuse missing GPUs, because only they know how a release reads picks.
            picked::judge(is_picked, || true).reason()
        }
        DeploymentFilter::Labels => verdicts.labels.judge(request, serving, node),
        DeploymentFilter::ReadyUnlessPickedOnSeveral if request.picked_nodes().len() > 1 => None,
        DeploymentFilter::Ready | DeploymentFilter::ReadyUnlessPickedOnSeveral => ready::judge(host.state).reason(),
        DeploymentFilter::Runner => {
            let runners = runners(options, request)?;
            (!host.kinds.iter().any(|kind| runners.contains(kind))).then_some(Reason::NoRunner)
        }
        DeploymentFilter::Compatible => verdicts.hardware.of_node(serving, node),
        DeploymentFilter::Own(own) => {
            let of = request.fleet.node(NodeId::new(node as usize));
            let view = NodeView::new(&of.shape, &of.status, request.fleet.moment());
            own.judge(&view, &RequestView::of_model(request.deployment, request.fields), request.is_ideal).reason()
        }
    }
}

/// Verdicts that are computed once, not again for each node.
pub struct Verdicts<'a> {
    labels: LabelVerdicts<'a>,
    hardware: &'a HardwareVerdicts,
}

impl<'a> Verdicts<'a> {
    pub fn new(request: &Request<'a>, serving: &Serving, hardware: &'a HardwareVerdicts) -> Verdicts<'a> {
        Verdicts { labels: LabelVerdicts::new(request, serving), hardware }
    }
}

/// The selector's verdict on each label set, computed once.
struct LabelVerdicts<'a> {
    known: Vec<Option<Option<Reason>>>,
    /// The node name that the selector requests through the label.
    name: Option<&'a str>,
}

impl<'a> LabelVerdicts<'a> {
    fn new(request: &Request<'a>, serving: &Serving) -> LabelVerdicts<'a> {
        let selector = request.deployment.selector.as_ref().filter(|selector| !selector.is_empty());
        let known = selector.map_or_else(Vec::new, |_| vec![None; serving.label_sets().len()]);
        LabelVerdicts { known, name: selector.and_then(|selector| selector.get(NAME_LABEL)).map(|name| &**name) }
    }

    fn judge(&mut self, request: &Request, serving: &Serving, node: u32) -> Option<Reason> {
        let host = &serving.hosts()[node as usize];
        let selector = request.deployment.selector.as_ref().filter(|selector| !selector.is_empty())?;
        let set = host.label_set as usize;
        let labels = &serving.label_sets()[set];
        // Two nodes with equal labels still differ in their names.
        let is_by_name = self.name.is_some() && !labels.contains_key(NAME_LABEL);
        let known = *self.known[set].get_or_insert_with(|| {
            let asked = selector.iter().filter(|(key, _)| !is_by_name || &***key != NAME_LABEL);
            labels::judge(asked, labels).reason()
        });
        let named = !is_by_name || self.name == Some(&*host.name);
        if named { known } else { Some(Reason::LabelMismatch) }
    }
}
