//! The placer for models: runs the stages for a demand on a fleet.

use std::borrow::Cow;
use std::cell::OnceCell;

use smallvec::SmallVec;

use super::candidate::Generated;
use super::demand::{candidate_of, placeable};
use super::evaluate::{Evaluation, evaluate, first_refusal, with_selector};
use super::finding::{NodeFindings, findings};
use super::options::DeploymentOptions;
use super::request::Request;
use super::search::Search;
use super::selectable::{Pickable, PickableNode, pickable};
use super::{Answer, filter, hardware, place, plan, score};
use crate::context::PlacementContext;
use crate::decision::{Candidate, Decision};
use crate::finding::{GpuFinding, NodeFinding, Shortage};
use crate::node_class::Grouping;
use crate::pick::{on_gpu, on_node, without_pick};
use crate::placer::Placer;
use crate::verdict::Verdict;
use dryrack_event::{Histogram, Reason, Refusal};
use dryrack_fleet::{Fleet, GpuClaim, Placement};
use dryrack_ids::{GpuId, NodeId};
use dryrack_units::{Bytes, Score};
use dryrack_workload::{Demand, Deployment, Strategy};

/// Places replicas of a model.
pub struct ModelPlacer<'a> {
    options: &'a DeploymentOptions,
    demand: &'a Demand,
    deployment: &'a Deployment,
    context: PlacementContext,
    fleet: &'a Fleet,
    choices: OnceCell<Choices>,
}

/// The nodes and GPUs that could be picked.
struct Choices {
    /// The demand without its own pick.
    free: Demand,
    /// What can be picked in the current state of the fleet.
    now: Vec<PickableNode>,
    /// What could be picked if no run held anything.
    idle: Vec<PickableNode>,
}

impl Placer for ModelPlacer<'_> {
    fn candidates(&self, _: Grouping, keep: usize) -> Result<SmallVec<[Candidate; 1]>, Histogram> {
        self.with_request(|request| match place(self.options, request, &self.fleet.serving(), keep) {
            Answer::Place(ranked) => Ok(ranked.iter().map(|(found, score)| placeable(found, *score)).collect()),
            Answer::Refuse(reasons) => Err(reasons),
        })
    }

    fn ever_fits(&self) -> bool {
        self.with_request(|request| {
            let request = Request { is_ideal: true, ..request.clone() };
            matches!(place(self.options, &request, self.fleet.idle_serving(), 1), Answer::Place(_))
        })
    }

    fn still_fits(&self, placement: &Placement) -> bool {
        let serving = self.fleet.serving();
        let passing = self.with_request(|request| {
            filter::passing(self.options, request, &serving, &hardware(self.options, request, &serving))
        });
        placement.claims().iter().all(|claim| {
            let node = self.fleet.node(claim.node);
            let (shape, status) = (&node.shape, &node.status);
            let unified = |part: &&GpuClaim| shape.gpus[usize::from(part.index)].unified;
            let pooled: Bytes = claim.gpus.iter().filter(unified).map(|part| part.memory).sum();
            let is_free = |part: &GpuClaim| {
                let index = usize::from(part.index);
                status.gpus[index].state.is_usable() && status.gpu_memory_free(shape, index) >= part.memory
            };
            passing.binary_search(&(claim.node.index() as u32)).is_ok()
                && status.ram_free(shape) >= pooled + claim.ram
                && claim.gpus.iter().all(is_free)
        })
    }

    /// Findings for the candidates with their scores. All other nodes have the reason why they are not candidates.
    fn findings(&self, decision: &Decision) -> Vec<NodeFinding> {
        let candidates = match decision {
            Decision::Place(candidates) => candidates.as_slice(),
            Decision::Refuse { .. } => &[],
        };
        let find = |(node, found): (NodeId, NodeFindings)| {
            let best = candidates.iter().find(|candidate| candidate.placement.touches(node));
            let verdict = match (best, found.reason) {
                (Some(_), _) | (None, None) => Verdict::Fit,
                (None, Some(reason)) => Verdict::Unfit(reason),
            };
            NodeFinding {
                shortages: if best.is_none() { memory_shortage(&found.gpus) } else { Vec::new() },
                refusals: found.refusals.into_iter().map(|(filter, reason)| (filter.name(), reason)).collect(),
                gpus: found.gpus,
                capacity: u32::from(best.is_some()),
                total: best.map_or(Score::ZERO, |candidate| candidate.score),
                ..NodeFinding::of(node, verdict)
            }
        };
        self.fleet.iter().map(|(node, _)| node).zip(self.found()).map(find).collect()
    }

    fn select_node(&self, node: NodeId) -> (Verdict, bool) {
        let choices = self.choices();
        let (now, idle) = (choices.now[node.index()].node, choices.idle[node.index()].node);
        let alone = self.alone(&choices.free, node);
        let verdict = match (alone, now) {
            (Verdict::Fit, _) | (_, Pickable::WithOthers | Pickable::Alone) => Verdict::Fit,
            (Verdict::Never(reason), Pickable::Not(_)) if idle == Pickable::WithOthers => Verdict::Unfit(reason),
            // For a final refusal, states what is missing even on an idle fleet.
            (Verdict::Never(_), Pickable::Not(_)) => judged(now, idle),
            (unfit @ Verdict::Unfit(_), Pickable::Not(_)) => unfit,
        };
        (verdict, !alone.is_fit())
    }

    /// Judges a pick of this GPU alone. The pick must pass the checks at submission and then the scheduler itself,
    /// because a release may have rules that apply only to picks.
    fn select_gpu(&self, gpu: GpuId) -> (Verdict, bool) {
        let choices = self.choices();
        let answer = |nodes: &[PickableNode]| nodes[gpu.node.index()].gpus.get(usize::from(gpu.index)).copied();
        let (Some(now), Some(idle)) = (answer(&choices.now), answer(&choices.idle)) else {
            return (Verdict::Never(Reason::PickedGpuMissing), false);
        };
        let picked = on_gpu(&choices.free, gpu);
        let picked = self.asked(&picked);
        match picked.refused_at_submission() {
            Some((Refusal::Never, reason)) => return (Verdict::Never(reason), false),
            Some((Refusal::Unfit, reason)) => return (Verdict::Unfit(reason), false),
            None => {}
        }
        match picked.decide(Grouping::EachNode, 1) {
            Decision::Place(_) => (Verdict::Fit, false),
            Decision::Refuse { .. } => (judged(now, idle), now == Pickable::WithOthers),
        }
    }

    fn takes_gpus(&self) -> bool {
        true
    }

    fn evaluate(&self, _: Grouping) -> (Option<Refusal>, Histogram) {
        let request = self.submitted();
        match evaluate(self.options, &request, &self.fleet.serving()) {
            Evaluation::Compatible { .. } => (None, Histogram::default()),
            Evaluation::Incompatible(reasons) => {
                let checks = &self.options.evaluation.checks;
                let refusal = first_refusal(checks, self.options, &request, self.fleet.idle_serving());
                let ever = refusal.is_none() && self.ever_fits();
                (Some(if ever { Refusal::Unfit } else { Refusal::Never }), reasons)
            }
        }
    }

    fn refused_at_submission(&self) -> Option<(Refusal, Reason)> {
        let checks = &self.options.evaluation.at_submission;
        if checks.is_empty() {
            return None;
        }
        let request = self.submitted();
        let reason = first_refusal(checks, self.options, &request, &self.fleet.serving())?;
        let for_ever = first_refusal(checks, self.options, &request, self.fleet.idle_serving()).is_some();
        Some((if for_ever { Refusal::Never } else { Refusal::Unfit }, reason))
    }

    /// Scores by the model's strategy. For a packed model, all scores are zero: every replica counts among the claims
    /// that fill its own GPU, so such replicas cannot be compared.
    fn placement_scores(&self, placements: &[&Placement]) -> Vec<Score> {
        let none = || vec![Score::ZERO; placements.len()];
        if self.deployment.strategy == Strategy::Binpack {
            return none();
        }
        let (options, serving) = (self.options, self.fleet.serving());
        let request = &Request::of(self.deployment, self.demand, self.context, self.fleet);
        let nodes: Vec<u32> = (0..serving.hosts().len() as u32).collect();
        let Ok(plan) = plan(options, request, &serving, &nodes) else { return none() };
        let hardware = hardware(options, request, &serving);
        let search = Search { options, request, serving: &serving, plan: &plan, nodes: &nodes, hardware: &hardware };
        let written = placements.iter().map(|placement| candidate_of(placement)).collect();
        let scores = score::scores(&search, &Generated::Written(written));
        scores.map_or_else(|_| none(), |scores| scores.into_iter().map(Score::new).collect())
    }
}

impl<'a> ModelPlacer<'a> {
    pub fn new(
        options: &'a DeploymentOptions,
        demand: &'a Demand,
        deployment: &'a Deployment,
        context: PlacementContext,
        fleet: &'a Fleet,
    ) -> ModelPlacer<'a> {
        ModelPlacer { options, demand, deployment, context, fleet, choices: OnceCell::new() }
    }

    /// A placer for the same model with another pick.
    fn asked<'b>(&'b self, demand: &'b Demand) -> ModelPlacer<'b> {
        let deployment = demand.model().expect("a pick leaves the model");
        ModelPlacer::new(self.options, demand, deployment, self.context, self.fleet)
    }

    /// The request that is judged at submission.
    fn submitted(&self) -> Request<'_> {
        Request::of(self.deployment, self.demand, PlacementContext::UNSUBMITTED, self.fleet)
    }

    /// Calls `ask` with the request that is placed. It includes the selector that the options add.
    fn with_request<R>(&self, ask: impl FnOnce(&Request<'_>) -> R) -> R {
        let is_picked = self.demand.pick.is_some();
        let deployment = with_selector(self.options, is_picked, Cow::Borrowed(self.deployment));
        ask(&Request::of(&deployment, self.demand, self.context, self.fleet))
    }

    fn found(&self) -> Vec<NodeFindings> {
        findings(self.options, self.demand, self.deployment, self.context, self.fleet).1
    }

    fn choices(&self) -> &Choices {
        self.choices.get_or_init(|| {
            let free = without_pick(self.demand);
            let now = pickable(self.options, &free, self.deployment, self.fleet, &self.fleet.serving());
            let idle = pickable(self.options, &free, self.deployment, self.fleet, self.fleet.idle_serving());
            Choices { free, now, idle }
        })
    }

    /// Whether a replica would fit on this node alone.
    fn alone(&self, free: &Demand, node: NodeId) -> Verdict {
        let alone = on_node(free, node);
        let alone = self.asked(&alone);
        let Decision::Refuse { refusal, .. } = alone.decide(Grouping::EachNode, 1) else { return Verdict::Fit };
        let reason = alone.found()[node.index()].reason.expect("a request that is refused has a reason on each node");
        match refusal {
            Refusal::Unfit => Verdict::Unfit(reason),
            Refusal::Never => Verdict::Never(reason),
        }
    }
}

/// Combines two answers. The verdict is `Never` if an idle fleet would refuse too.
fn judged(now: Pickable, idle: Pickable) -> Verdict {
    match (now, idle) {
        (Pickable::Alone | Pickable::WithOthers, _) => Verdict::Fit,
        (Pickable::Not(_), Pickable::Not(reason)) => Verdict::Never(reason),
        (Pickable::Not(reason), Pickable::Alone | Pickable::WithOthers) => Verdict::Unfit(reason),
    }
}

/// The shortage of the GPU that lacks the least memory. Empty if some GPU has enough.
fn memory_shortage(gpus: &[GpuFinding]) -> Vec<Shortage> {
    let short = gpus.iter().filter(|gpu| gpu.free < gpu.takes);
    let least = short.min_by_key(|gpu| (gpu.takes.saturating_sub(gpu.free), gpu.index));
    let is_any_free = gpus.iter().any(|gpu| gpu.free >= gpu.takes);
    let said = |gpu: &GpuFinding| {
        let texts = (gpu.takes.to_string(), gpu.free.to_string());
        Shortage::of("GPU memory", (gpu.takes.get(), gpu.free.get()), texts)
    };
    least.filter(|_| !is_any_free).map(said).into_iter().collect()
}
