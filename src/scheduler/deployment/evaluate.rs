//! The evaluation of a deployment before it is submitted.

use std::borrow::Cow;
use std::sync::Arc;

use super::arguments::Arguments;
use super::options::{DefaultSelector, DeploymentOptions, EvaluationCheck};
use super::request::{Picks, Request};
use super::{Answer, ArgumentReading, place};
use dryrack_event::{Histogram, Reason};
use dryrack_fleet::{GpuKind, Serving};
use dryrack_workload::{Backend, Deployment};

/// Whether a deployment would fit.
#[derive(Clone, Debug, PartialEq)]
pub enum Evaluation {
    /// The deployment fits. `memory` is the GPU memory in bytes that one replica would claim, summed over all nodes.
    Compatible {
        memory: u64,
    },
    Incompatible(Histogram),
}

/// Runs the checks, then the same stages as a decision.
pub fn evaluate(options: &DeploymentOptions, request: &Request, serving: &Serving) -> Evaluation {
    let all = serving.hosts().len().max(1) as u32;
    if let Some(reason) = first_refusal(&options.evaluation.checks, options, request, serving) {
        return Evaluation::Incompatible(Histogram::of(reason, all));
    }
    let categorized = with_category(options, request.deployment);
    let deployment = match options.default_selector {
        DefaultSelector::Linux => with_selector(options, request.picks != Picks::Free, categorized),
        DefaultSelector::LinuxWhenDeployed | DefaultSelector::None => categorized,
    };
    let request = Request { deployment: &deployment, ..request.clone() };
    match place(options, &request, serving, 1) {
        Answer::Place(ranked) if ranked[0].0.overcommit => {
            Evaluation::Incompatible(Histogram::of(Reason::InsufficientGpuMemory, all))
        }
        Answer::Place(ranked) => Evaluation::Compatible { memory: ranked[0].0.claimed() },
        Answer::Refuse(reasons) => Evaluation::Incompatible(reasons),
    }
}

/// Adds a selector for Linux if the user has neither selected nor picked nodes, because vLLM runs only on Linux.
pub(super) fn with_selector<'d>(
    options: &DeploymentOptions,
    is_picked: bool,
    deployment: Cow<'d, Deployment>,
) -> Cow<'d, Deployment> {
    let is_asked = options.default_selector != DefaultSelector::None && deployment.backend == Backend::Vllm;
    let is_chosen = deployment.selector.as_ref().is_some_and(|selector| !selector.is_empty());
    if !is_asked || is_chosen || is_picked {
        return deployment;
    }
    let mut deployment = deployment.into_owned();
    deployment.selector = Some([(Arc::from("os"), Arc::from("linux"))].into());
    Cow::Owned(deployment)
}

fn with_category<'d>(options: &DeploymentOptions, deployment: &'d Deployment) -> Cow<'d, Deployment> {
    let known = options.evaluation.architectures.iter();
    let category = deployment.model.architecture.as_ref().and_then(|own| {
        let mut own = known.filter(|known| *known.name == **own);
        own.next().and_then(|known| known.category)
    });
    match category {
        Some(category) if deployment.model.categories.is_empty() => {
            let mut filled = deployment.clone();
            filled.model.categories = vec![category];
            Cow::Owned(filled)
        }
        Some(_) | None => Cow::Borrowed(deployment),
    }
}

/// The reason of the first check that fails.
pub(super) fn first_refusal(
    checks: &[EvaluationCheck],
    options: &DeploymentOptions,
    request: &Request,
    serving: &Serving,
) -> Option<Reason> {
    checks.iter().find_map(|check| refusal(*check, options, request, serving))
}

fn refusal(
    check: EvaluationCheck,
    options: &DeploymentOptions,
    request: &Request,
    serving: &Serving,
) -> Option<Reason> {
    let label = |node: usize, key: &str| serving.labels(node).get(key).cloned();
    let picked = || {
        let node = |name: &Arc<str>| serving.hosts().iter().position(|host| host.name == *name);
        request.picked().iter().map(move |pick| (pick, node(&pick.node)))
    };
    let gpu = |node: usize, index: u32| {
        let columns = serving.columns();
        serving.hosts()[node].gpus.clone().find(|at| columns.index[*at] == index).map(|at| columns.kind[at])
    };
    let is_wrong = match check {
        EvaluationCheck::Port => {
            let read = Arguments::read(ArgumentReading::AnyElement, &request.deployment.arguments);
            return read.is_ok_and(|arguments| arguments.has("port")).then_some(Reason::PortStated);
        }
        EvaluationCheck::PickedNotApple => {
            picked().any(|(pick, node)| node.is_none_or(|node| gpu(node, pick.index) == Some(GpuKind::Mps)))
        }
        EvaluationCheck::PickedVendor => picked().any(|(pick, node)| {
            let runs = [GpuKind::Cuda, GpuKind::Rocm, GpuKind::Dcu];
            node.is_none_or(|node| gpu(node, pick.index).is_some_and(|kind| !runs.contains(&kind)))
        }),
        EvaluationCheck::PickedLinux => {
            let is_other = |node: usize| label(node, "os").is_none_or(|os| &*os != "linux");
            return picked().any(|(_, node)| node.is_none_or(is_other)).then_some(Reason::OsMismatch);
        }
        EvaluationCheck::PickedLeadsNone => {
            let own = &request.deployment.model.name;
            let leads = |node: usize| {
                serving.instances_on(node).any(|instance| {
                    let is_main = instance.main.as_ref().is_some_and(|part| part.node == Some(node));
                    is_main && instance.is_distributed && instance.model_name != *own
                })
            };
            // The picks are checked one by one. After a pick on a second node, even later picks on the first node are
            // checked.
            let first = request.picked().first().map(|pick| &pick.node);
            let later = picked().skip_while(|(pick, _)| Some(&pick.node) == first);
            let wrong = later.filter_map(|(_, node)| node).any(leads);
            return wrong.then_some(Reason::AlreadyDistributed);
        }
        EvaluationCheck::Architecture => {
            let own = request.deployment.model.architecture.as_ref();
            let is_known =
                own.is_some_and(|own| options.evaluation.architectures.iter().any(|known| *known.name == **own));
            return (!is_known).then_some(Reason::ModelArchitectureUnsupported);
        }
        EvaluationCheck::AnyLinux => {
            let is_linux = |node: usize| label(node, "os").is_some_and(|os| &*os == "linux");
            return (!(0..serving.hosts().len()).any(is_linux)).then_some(Reason::OsMismatch);
        }
    };
    is_wrong.then_some(Reason::BackendVendorMismatch)
}
