//! What can be picked manually: every node and GPU, each refusal with its reason, by the filters that decide.

use std::sync::Arc;

use super::decide::{Decision, decide_for, judge};
use super::deployment::{Pickable, PickableNode, PlacementContext, findings, pickable, refused_at_submission};
use super::filter::Verdict;
use super::offers;
use super::options::SchedulerOptions;
use super::row::{Grouping, row_of, rows};
use dryrack_event::{Reason, Refusal};
use dryrack_fleet::Fleet;
use dryrack_ids::{GpuId, NodeId};
use dryrack_workload::{Demand, Deployment, Pick};

/// One node and its GPUs, as choices for a pick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    pub node: NodeId,
    /// The filters' verdict if this node alone were picked. For a model, also `Fit` if the node works together with
    /// others.
    pub verdict: Verdict,
    /// The verdict on each GPU if it alone were picked and had to be taken; empty if the demand asks for no GPU.
    pub gpus: Vec<Verdict>,
    /// For a model, and where the verdict is `Fit`: whether the node, and each of its GPUs, works only together with
    /// others.
    pub with_others: (bool, Vec<bool>),
}

/// Every node in order of ids, for a demand that is not submitted yet. Its own pick is ignored.
pub fn select(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Vec<Selectable> {
    select_for(options, demand, PlacementContext::UNSUBMITTED, fleet)
}

/// The same for a replica of a job.
pub fn select_for(
    options: &SchedulerOptions,
    demand: &Demand,
    context: PlacementContext,
    fleet: &Fleet,
) -> Vec<Selectable> {
    if let Some(deployment) = &demand.deployment {
        return select_for_model(options, (demand, deployment), context, fleet);
    }
    // A fleet is chosen by all of its instances.
    let of_offers = demand.requirements.as_ref().map(|_| {
        let rows = rows(fleet, &without_pick(demand), Grouping::EachNode);
        offers::judge(&options.offers, demand, context, fleet, &rows)
    });
    let one = |(node, known): (NodeId, &dryrack_fleet::Node)| {
        let count = if demand.task.gpus.is_some() { known.shape.gpus.len() } else { 0 };
        let (verdict, gpus) = match &of_offers {
            Some(verdicts) => (verdicts[node.index()], vec![verdicts[node.index()]; count]),
            None => {
                let gpu = |index: usize| GpuId { node, index: index as u16 };
                let gpus = (0..count).map(|index| judge_gpu(options, demand, fleet, gpu(index))).collect();
                (judge_node(options, demand, fleet, node), gpus)
            }
        };
        Selectable { node, verdict, gpus, with_others: (false, vec![false; count]) }
    };
    fleet.iter().map(one).collect()
}

/// The refusals of what the demand picks, each judged alone; empty if all could be selected, or nothing is picked.
pub fn refused_picks(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet) -> Vec<Verdict> {
    let Some(pick) = &demand.pick else { return Vec::new() };
    let verdicts: Vec<Verdict> = match (&demand.deployment, pick) {
        (Some(deployment), Pick::Nodes(picked)) => {
            let nodes = select_for_model(options, (demand, deployment), PlacementContext::UNSUBMITTED, fleet);
            picked.iter().map(|node| nodes[node.index()].verdict).collect()
        }
        (Some(deployment), Pick::Gpus(gpus) | Pick::AllGpus(gpus)) => {
            let answers = Answers::new(options, (demand, deployment), PlacementContext::UNSUBMITTED, fleet);
            gpus.iter().map(|gpu| answers.of_gpu(*gpu).0).collect()
        }
        (None, Pick::Nodes(nodes)) => nodes.iter().map(|node| judge_node(options, demand, fleet, *node)).collect(),
        (None, Pick::Gpus(gpus) | Pick::AllGpus(gpus)) => {
            gpus.iter().map(|gpu| judge_gpu(options, demand, fleet, *gpu)).collect()
        }
    };
    verdicts.into_iter().filter(|verdict| !verdict.is_fit()).collect()
}

/// The same for a model: nodes and GPUs that could hold a replica, alone or with others.
fn select_for_model(
    options: &SchedulerOptions,
    of: (&Demand, &Deployment),
    context: PlacementContext,
    fleet: &Fleet,
) -> Vec<Selectable> {
    let answers = Answers::new(options, of, context, fleet);
    let one = |(node, known): (NodeId, &dryrack_fleet::Node)| {
        let gpus = (0..known.shape.gpus.len() as u16).map(|index| answers.of_gpu(GpuId { node, index }));
        let (gpus, with_others): (Vec<Verdict>, Vec<bool>) = gpus.unzip();
        let (verdict, beside_others) = answers.of_node(node);
        Selectable { node, verdict, gpus, with_others: (beside_others, with_others) }
    };
    fleet.iter().map(one).collect()
}

/// What could be picked for a model in a fleet.
struct Answers<'a> {
    options: &'a SchedulerOptions,
    /// The demand without its own pick.
    free: Demand,
    deployment: &'a Deployment,
    context: PlacementContext,
    fleet: &'a Fleet,
    /// What can be picked while the fleet is as it is.
    now: Vec<PickableNode>,
    /// The same if nothing ran.
    idle: Vec<PickableNode>,
}

impl<'a> Answers<'a> {
    fn new(
        options: &'a SchedulerOptions,
        (demand, deployment): (&Demand, &'a Deployment),
        context: PlacementContext,
        fleet: &'a Fleet,
    ) -> Answers<'a> {
        let free = without_pick(demand);
        let now = pickable(&options.deployments, &free, deployment, fleet, &fleet.serving());
        let idle = pickable(&options.deployments, &free, deployment, fleet, fleet.idle_serving());
        Answers { options, free, deployment, context, fleet, now, idle }
    }

    /// The verdict on a node, and whether a `Fit` needs other nodes.
    fn of_node(&self, node: NodeId) -> (Verdict, bool) {
        let (now, idle) = (self.now[node.index()].node, self.idle[node.index()].node);
        let alone = self.alone(node);
        let verdict = match (alone, now) {
            (Verdict::Fit, _) | (_, Pickable::WithOthers | Pickable::Alone) => Verdict::Fit,
            (Verdict::Never(reason), Pickable::Not(_)) if idle == Pickable::WithOthers => Verdict::Unfit(reason),
            // The reason is what lacks for ever, not what lacks now.
            (Verdict::Never(_), Pickable::Not(_)) => judged(now, idle),
            (unfit @ Verdict::Unfit(_), Pickable::Not(_)) => unfit,
        };
        (verdict, !alone.is_fit())
    }

    /// The verdict on a GPU, and whether a `Fit` needs other GPUs. A pick of the GPU alone goes through the checks at
    /// submission and then through the scheduler itself, because a release has rules for picks that apply to nothing
    /// else.
    fn of_gpu(&self, gpu: GpuId) -> (Verdict, bool) {
        let answer = |nodes: &[PickableNode]| nodes[gpu.node.index()].gpus.get(usize::from(gpu.index)).copied();
        let (Some(now), Some(idle)) = (answer(&self.now), answer(&self.idle)) else {
            return (Verdict::Never(Reason::PickedGpuMissing), false);
        };
        let picked = on_gpu(&self.free, gpu);
        match refused_at_submission(&self.options.deployments, &picked, self.deployment, self.fleet) {
            Some((Refusal::Never, reason)) => return (Verdict::Never(reason), false),
            Some((Refusal::Unfit, reason)) => return (Verdict::Unfit(reason), false),
            None => {}
        }
        match decide_for(self.options, &picked, self.context, self.fleet, Grouping::EachNode, 1) {
            Decision::Place(_) => (Verdict::Fit, false),
            Decision::Refuse { .. } => (judged(now, idle), now == Pickable::WithOthers),
        }
    }

    /// Whether this node would hold a replica by itself.
    fn alone(&self, node: NodeId) -> Verdict {
        let alone = on_node(&self.free, node);
        let decision = decide_for(self.options, &alone, self.context, self.fleet, Grouping::EachNode, 1);
        let Decision::Refuse { refusal, .. } = decision else { return Verdict::Fit };
        let deployments = &self.options.deployments;
        let (_, found) = findings(deployments, &alone, self.deployment, self.context, self.fleet);
        let reason = found[node.index()].reason.unwrap_or(Reason::TooFewNodes);
        match refusal {
            Refusal::Unfit => Verdict::Unfit(reason),
            Refusal::Never => Verdict::Never(reason),
        }
    }
}

/// The verdict is `Never` if an idle fleet refuses too.
fn judged(now: Pickable, idle: Pickable) -> Verdict {
    match (now, idle) {
        (Pickable::Alone | Pickable::WithOthers, _) => Verdict::Fit,
        (Pickable::Not(_), Pickable::Not(reason)) => Verdict::Never(reason),
        (Pickable::Not(reason), Pickable::Alone | Pickable::WithOthers) => Verdict::Unfit(reason),
    }
}

/// The demand with this node as its pick.
pub fn on_node(demand: &Demand, node: NodeId) -> Demand {
    Demand { pick: Some(Pick::Nodes(vec![node])), ..without_pick(demand) }
}

/// The demand with exactly this GPU as its pick, for one task.
pub fn on_gpu(demand: &Demand, gpu: GpuId) -> Demand {
    Demand { tasks: 1, pick: Some(Pick::AllGpus(vec![gpu])), ..without_pick(demand) }
}

/// The same demand without its pick. What an exact pick asks of each picked node is then asked of every node.
fn without_pick(demand: &Demand) -> Demand {
    let deployment = demand.deployment.as_ref().map(|deployment| match deployment.gpus_per_replica {
        None => Arc::clone(deployment),
        // It applies to a pick only.
        Some(_) => Arc::new(Deployment { gpus_per_replica: None, ..(**deployment).clone() }),
    });
    Demand { pick: None, deployment, ..demand.clone() }
}

fn judge_node(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId) -> Verdict {
    judge_alone(options, &on_node(demand, node), fleet, node)
}

fn judge_gpu(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, gpu: GpuId) -> Verdict {
    judge_alone(options, &on_gpu(demand, gpu), fleet, gpu.node)
}

fn judge_alone(options: &SchedulerOptions, demand: &Demand, fleet: &Fleet, node: NodeId) -> Verdict {
    if demand.requirements.is_some() {
        // A fleet is chosen by all of its instances.
        let rows = rows(fleet, demand, Grouping::EachNode);
        return offers::judge(&options.offers, demand, PlacementContext::UNSUBMITTED, fleet, &rows)[node.index()];
    }
    judge(options, demand, std::slice::from_ref(&row_of(fleet, demand, node)))[0]
}
