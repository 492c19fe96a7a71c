//! The GPUs and nodes that could be picked for a model: those that could hold a replica, alone or together with others.
//!
//! A pick can be placed if each of its GPUs holds an equal part of the need ([`super::even`]). So a GPU can be picked
//! if, for some number of GPUs, it can hold its part and enough other GPUs can hold theirs. The other GPUs must be on
//! the same node, unless a replica may use several nodes.
//!
//! A profile may add constraints, such as a selector, to a model without a pick. They do not apply to a model with a
//! pick, so this module ignores them.

use smallvec::SmallVec;

use super::even::{self, Whole};
use super::options::TestedNumber;
use super::request::Request;
use super::search::{Group, Pass, Search};
use super::{DeploymentOptions, filter, hardware, layers, plan, why};
use crate::context::PlacementContext;
use dryrack_event::Reason;
use dryrack_fleet::{Fleet, Serving};
use dryrack_workload::{Backend, Demand, Deployment};

/// Whether a node or a GPU can be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pickable {
    Alone,
    /// Only together with other GPUs or nodes.
    WithOthers,
    Not(Reason),
}

/// The answers for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickableNode {
    /// Whether the node could hold a part of a replica together with other nodes: [`Pickable::WithOthers`] or a reason.
    /// A decision about the node says whether it could hold a replica alone.
    pub node: Pickable,
    pub gpus: Vec<Pickable>,
}

/// The answers for every node in order of ids. The demand must have no pick. `serving` is the state of the fleet.
pub fn pickable(
    options: &DeploymentOptions,
    demand: &Demand,
    deployment: &Deployment,
    fleet: &Fleet,
    serving: &Serving,
) -> Vec<PickableNode> {
    let request = Request::of(deployment, demand, PlacementContext::UNSUBMITTED, fleet);
    let hardware = hardware(options, &request, serving);
    let passing = filter::passing(options, &request, serving, &hardware);
    let planned = plan(options, &request, serving, &passing).map_err(|halt| halt.0);
    let search = planned.as_ref().ok().map(|plan| Search {
        options,
        request: &request,
        serving,
        plan,
        nodes: &passing,
        hardware: &hardware,
    });
    let reasons = why::each(options, &request, serving, &hardware, search.as_ref());
    let halted = planned.as_ref().err().copied();
    let refused = |reason: Option<Reason>| reason.or(halted).expect("without a search, the request is refused");
    let mut nodes: Vec<PickableNode> = (serving.hosts().iter().enumerate().zip(reasons))
        .map(|((node, host), reason)| {
            let reason = refused(reason);
            let of_gpu = |at: usize| hardware.of_gpu(serving, node as u32, at).unwrap_or(reason);
            let gpus = host.gpus.clone().map(|at| Pickable::Not(of_gpu(at))).collect();
            PickableNode { node: Pickable::Not(reason), gpus }
        })
        .collect();
    let Some(search) = &search else { return nodes };
    for group in search.groups(Pass::Later) {
        match &deployment.backend {
            Backend::LlamaBox(estimate) => {
                for (node, at) in held(search, &group).map(|known| (known.node, known.at)) {
                    if let Some(alone) = layers::could_hold(search, estimate, node, at) {
                        answer(&mut nodes, search, (node, at), alone);
                    }
                }
            }
            Backend::Vllm | Backend::Sglang => mark_even(search, &group, &mut nodes),
        }
        mark_whole_nodes(search, &group, &mut nodes);
    }
    nodes
}

/// A GPU and the number of bytes that it can hold.
#[derive(Clone, Copy)]
struct GpuCapacity {
    node: u32,
    at: usize,
    holds: u64,
}

fn held<'s>(search: &'s Search, group: &'s Group) -> impl Iterator<Item = GpuCapacity> + 's {
    group.nodes.iter().flat_map(move |node| {
        let gpus = search.listed(*node, group.kind);
        gpus.filter_map(move |at| Some(GpuCapacity { node: *node, at, holds: even::holds(search, at)? }))
    })
}

fn answer(nodes: &mut [PickableNode], search: &Search, (node, at): (u32, usize), alone: bool) {
    let offset = at - search.host(node).gpus.start;
    nodes[node as usize].gpus[offset] = if alone { Pickable::Alone } else { Pickable::WithOthers };
}

/// Whether a pick of this many GPUs is allowed for one replica.
fn is_allowed(search: &Search, count: usize) -> bool {
    let plan = search.plan;
    let is_asked = plan.count.is_none_or(|asked| i64::try_from(count) == Ok(asked));
    let is_tested = match search.options.divisible.tested {
        TestedNumber::Count => true,
        TestedNumber::TensorParallel => false,
        TestedNumber::TensorParallelOrPicked => plan.tensor_parallel.is_none(),
    };
    is_asked && (!is_tested || plan.divides(count as i64))
}

fn mark_even(search: &Search, group: &Group, nodes: &mut [PickableNode]) {
    let all: Vec<GpuCapacity> = held(search, group).collect();
    let backend = search.request.deployment.backend.name();
    let is_free = |node: u32| !search.serving.is_part_of_distributed(node as usize, backend);
    // The part that each of `count` GPUs must hold. `None` if a pick of this many GPUs is not allowed.
    let part = |count: usize| is_allowed(search, count).then(|| even::even_part(search.plan.need, count));
    let mut anywhere: Vec<u64> = match search.request.deployment.distributable {
        true => all.iter().filter(|gpu| is_free(gpu.node)).map(|gpu| gpu.holds).collect(),
        false => Vec::new(),
    };
    anywhere.sort_unstable_by_key(|holds| std::cmp::Reverse(*holds));
    // For each number of GPUs in a pick: the part that each GPU must hold, if enough other GPUs can hold it. `most`
    // lists what the other GPUs can hold, the largest amount first.
    let least_among = |most: &[u64]| {
        let parts = (2..=most.len()).filter_map(|count| Some((count, part(count)?)));
        parts.filter(|(count, part)| most[count - 2] >= *part).collect::<Vec<_>>()
    };
    let everywhere = least_among(&anywhere);
    for of_node in all.chunk_by(|one, other| one.node == other.node) {
        let node = of_node[0].node;
        let mut here: SmallVec<[u64; 8]> = of_node.iter().map(|gpu| gpu.holds).collect();
        here.sort_unstable_by_key(|holds| std::cmp::Reverse(*holds));
        let beside = least_among(&here);
        let is_one_of = |holds: u64, most: &[u64], parts: &[(usize, u64)]| {
            // `most` also contains this GPU if it is one of the largest. Then use the next largest GPU as the other one.
            parts.iter().any(|(count, part)| {
                let other = if holds >= most[count - 2] { most[count - 1] } else { most[count - 2] };
                holds >= *part && other >= *part
            })
        };
        for gpu in of_node {
            let alone = part(1).is_some_and(|part| gpu.holds >= part);
            let with_others =
                is_one_of(gpu.holds, &here, &beside) || (is_free(node) && is_one_of(gpu.holds, &anywhere, &everywhere));
            if alone || with_others {
                answer(nodes, search, (node, gpu.at), alone);
            }
        }
    }
}

/// Marks nodes that could be used together with other nodes: each node contributes the same number of GPUs, and every
/// GPU could hold a part.
fn mark_whole_nodes(search: &Search, group: &Group, nodes: &mut [PickableNode]) {
    if !search.request.deployment.distributable || matches!(search.request.deployment.backend, Backend::LlamaBox(_)) {
        return;
    }
    let wholes = even::wholes(search, group);
    for equal in even::by_count(&wholes) {
        let each = equal[0].gpus.len();
        let mut most: Vec<u64> = equal.iter().map(|whole| whole.holds).collect();
        most.sort_unstable_by_key(|holds| std::cmp::Reverse(*holds));
        let is_one_of = |whole: &&&Whole| {
            (2..=equal.len()).any(|count| {
                let gpus = count * each;
                let is_asked = search.plan.count.is_none_or(|asked| i64::try_from(gpus) == Ok(asked));
                let part = even::even_part(search.plan.need, gpus);
                is_asked && search.plan.divides(each as i64) && most[count - 1] >= part && whole.holds >= part
            })
        };
        for whole in equal.iter().filter(is_one_of) {
            nodes[whole.node as usize].node = Pickable::WithOthers;
        }
    }
}
