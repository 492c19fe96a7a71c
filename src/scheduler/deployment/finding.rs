//! The findings about a model that an explanation shows: what one replica needs, what it would take of every GPU, and
//! what is free.

use std::borrow::Cow;

use super::evaluate::with_selector;
use super::filter;
use super::options::{DeploymentFilter, DeploymentOptions};
use super::request::{Request, ReservedPart, whole_bytes};
use super::search::Search;
use super::why;
use super::{hardware, plan};
use crate::context::PlacementContext;
use crate::filter::FilterName;
use crate::finding::GpuFinding;
use dryrack_event::Reason;
use dryrack_fleet::Fleet;
use dryrack_units::Bytes;
use dryrack_workload::{Demand, Deployment};

/// The need of one replica, which does not depend on its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// Total GPU memory.
    pub memory: Bytes,
    pub reserved: ReservedPart,
    /// The requested number of GPUs, if any.
    pub gpus: Option<u32>,
}

/// The findings for one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFindings {
    /// Every filter that refuses the node.
    pub refusals: Vec<(FilterName, Reason)>,
    /// Why the node does not fit, or does not fit alone; `None` if it fits.
    pub reason: Option<Reason>,
    pub gpus: Vec<GpuFinding>,
}

/// The need of a replica (or why it cannot be determined), and the findings for every node in order of ids.
pub fn findings(
    options: &DeploymentOptions,
    demand: &Demand,
    deployment: &Deployment,
    context: PlacementContext,
    fleet: &Fleet,
) -> (Result<Need, Reason>, Vec<NodeFindings>) {
    let deployment = with_selector(options, demand.pick.is_some(), Cow::Borrowed(deployment));
    let request = Request::of(&deployment, demand, context, fleet);
    let serving = fleet.serving();
    let hardware = hardware(options, &request, &serving);
    let passing = filter::passing(options, &request, &serving, &hardware);
    let planned = plan(options, &request, &serving, &passing).map_err(|halt| halt.0);
    let search = planned.as_ref().ok().map(|plan| Search {
        options,
        request: &request,
        serving: &serving,
        plan,
        nodes: &passing,
        hardware: &hardware,
    });
    let reasons = why::each(options, &request, &serving, &hardware, search.as_ref());
    let mut verdicts = filter::Verdicts::new(&request, &serving, &hardware);
    let nodes = reasons.enumerate().map(|(number, reason)| {
        let node = number as u32;
        let mut judge = |stage: &DeploymentFilter| {
            Some((stage_name(*stage), filter::judge(*stage, options, &request, &serving, node, &mut verdicts)?))
        };
        NodeFindings {
            refusals: options.filters.iter().filter_map(&mut judge).collect(),
            reason: reason.or(planned.as_ref().err().copied()),
            gpus: search.as_ref().map_or_else(Vec::new, |search| gpus(search, node)),
        }
    });
    let nodes = nodes.collect();
    let need = planned.map(|plan| Need {
        memory: Bytes::new(whole_bytes(plan.need.ceil())),
        reserved: plan.reserved,
        gpus: plan.count.and_then(|count| u32::try_from(count).ok()),
    });
    (need, nodes)
}

/// For each GPU, the memory that would be taken and the memory that is free by the profile's accounting.
fn gpus(search: &Search, node: u32) -> Vec<GpuFinding> {
    let columns = search.columns();
    let free = &search.left().free;
    let of = |at: usize| {
        let total = columns.total[at];
        let takes = match search.reserves(at) {
            true => search.reservation(at),
            false => whole_bytes(search.plan.need.ceil()),
        };
        GpuFinding {
            index: columns.index[at] as u16,
            total: Bytes::new(total),
            takes: Bytes::new(takes),
            free: Bytes::new(free[at]),
        }
    };
    search.host(node).gpus.clone().map(of).collect()
}

fn stage_name(stage: DeploymentFilter) -> FilterName {
    match stage {
        DeploymentFilter::Picked => FilterName::Picked,
        DeploymentFilter::Labels => FilterName::Labels,
        DeploymentFilter::Ready | DeploymentFilter::ReadyUnlessPickedOnSeveral => FilterName::Ready,
        DeploymentFilter::Runner | DeploymentFilter::Compatible => FilterName::Compatible,
        DeploymentFilter::Own(own) => FilterName::Own(own),
    }
}
