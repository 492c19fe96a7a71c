//! Checks of an input before it is applied. An input from outside may state something impossible.

use super::MOST_COPIES;
use super::admission::check_objects;
use super::core::{Core, check_sample};
use super::flow::Flow;
use super::reconfigure::read_profile;
use dryrack_event::{External, FleetFact, Input, Lifecycle, Outside, UsageFact, UserRequest};
use dryrack_fleet::{NodeClaim, NodeSpec, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_units::{GpuShare, SimTime};
use dryrack_workload::{JobSpec, RunLimit};

/// Upper limit of one claim on any resource. It keeps sums of claims within their integer types.
const MOST_OF_ANYTHING: u64 = 1 << 50;

/// Checks whether an input may come at this point. The inputs of every world are possible by design. A log that
/// someone altered may contain other inputs.
pub(crate) fn check_input(core: &Core, flow: &dyn Flow, now: SimTime, input: &Input) -> Result<(), &'static str> {
    if now < core.now {
        return Err("time falls");
    }
    match input {
        Input::Fleet(FleetFact::KueueApplied { .. }) if !flow.waits_for_admission() => {
            Err("objects of Kueue under a profile whose jobs do not wait for admission")
        }
        Input::Fleet(fact) => check_fleet_fact(core, now, fact),
        Input::Attempt { attempt, fact } => {
            if let Lifecycle::StoppedOn { node } = fact {
                check_node(core, *node)?;
            }
            check_attempt(core, *attempt)
        }
        Input::Usage(UsageFact::Sample { attempt, utilization, memory, .. }) => {
            check_attempt(core, *attempt)?;
            check_sample(utilization, memory.len())
        }
        Input::Usage(UsageFact::Requests { job, .. } | UsageFact::Served { job, .. })
        | Input::User(UserRequest::Cancel { job }) => check_job(core, *job),
        Input::User(UserRequest::Scale { replicas: 0, .. }) if !flow.parks_jobs() => {
            Err("a job that is scaled to no replica")
        }
        Input::User(UserRequest::Scale { job, .. }) => check_job(core, *job),
        Input::Submit { job, spec } => check_submission(core, *job, spec),
        Input::External(External::Decided { attempt, placement }) => {
            check_attempt(core, *attempt)?;
            check_decision(core, placement.as_ref())
        }
        Input::External(External::Said(said)) => check_said(core, said),
        Input::Evaluate { demand, .. } if demand.tasks == 0 => Err("a job without tasks"),
        Input::Evaluate { spec: None, .. } if core.profile.scheduler.reads_fields() => {
            Err("a question without the job, of which the profile reads more than what it asks for")
        }
        Input::Evaluate { demand, .. } => {
            demand.pick.iter().flat_map(|pick| pick.nodes()).try_for_each(|node| check_node(core, node))
        }
        Input::Wakeup => Ok(()),
    }
}

fn check_fleet_fact(core: &Core, now: SimTime, fact: &FleetFact) -> Result<(), &'static str> {
    match fact {
        FleetFact::FleetDeclared { fleet, .. } if fleet.index() != core.fleet.fleets().count() => {
            Err("a fleet out of order")
        }
        FleetFact::FleetDeclared { .. } | FleetFact::ObjectsDeclared { .. } => Ok(()),
        FleetFact::KueueApplied { objects } => check_objects(objects),
        FleetFact::NodeDeclared { node, .. } if node.index() != core.fleet.len() => Err("a node out of order"),
        FleetFact::NodeDeclared { spec, .. } if !knows_fleet_of(core, spec) => {
            Err("an instance of an undeclared fleet")
        }
        FleetFact::NodeDeclared { spec, .. } => spec.shape.check_size(),
        FleetFact::NodeReported { node, state } => {
            check_node(core, *node)?;
            let joined = !matches!(core.fleet.node(*node).status.state, NodeState::Joining | NodeState::Gone);
            // A cloud may accept a request for an instance that has been given up since.
            let is_ignored = core.clouds.instances.ignores_report(*node, *state);
            if *state == NodeState::Joining && joined && !is_ignored {
                Err("a node that has joined joins again")
            } else {
                Ok(())
            }
        }
        FleetFact::HeartbeatBack { node } => check_node(core, *node),
        FleetFact::HeartbeatMissed { last, .. } if *last > now => Err("a heartbeat from the future"),
        FleetFact::HeartbeatMissed { node, .. } => check_node(core, *node),
        FleetFact::GpuReported { gpu, .. } | FleetFact::ForeignUse { gpu, .. } => {
            core.fleet.knows_gpu(*gpu).then_some(()).ok_or("a GPU that was never declared")
        }
        FleetFact::CapacityReported { fleet, offer, .. } if !core.fleet.knows_offer(*fleet, *offer) => {
            Err("an offer that no fleet has")
        }
        FleetFact::CapacityReported { .. } => Ok(()),
        FleetFact::Reconfigure { profile } => read_profile(core, profile).map(|_| ()),
    }
}

fn check_node(core: &Core, node: NodeId) -> Result<(), &'static str> {
    core.fleet.knows(node).then_some(()).ok_or("a node that was never declared")
}

fn check_job(core: &Core, job: JobId) -> Result<(), &'static str> {
    (job.index() < core.store.jobs.len()).then_some(()).ok_or("a job that was never submitted")
}

fn check_attempt(core: &Core, attempt: AttemptId) -> Result<(), &'static str> {
    check_job(core, attempt.job)?;
    core.store.knows_replica(attempt).then_some(()).ok_or("a replica that does not exist")
}

fn check_submission(core: &Core, job: JobId, spec: &JobSpec) -> Result<(), &'static str> {
    if job.index() != core.store.jobs.len() {
        return Err("a job out of order");
    }
    if spec.replicas.max(spec.demand.tasks) > MOST_COPIES {
        return Err("a job with too many replicas or tasks");
    }
    if spec.demand.tasks == 0 {
        return Err("a job without tasks");
    }
    if let Some(part) = &spec.queued {
        let sets = &part.workload.pod_sets;
        if sets.is_empty() || part.pod_set.is_some_and(|set| set as usize >= sets.len()) {
            return Err("a job without a pod set of its workload");
        }
        if part.workload.held.as_ref().is_some_and(|held| held.pod_sets.len() != sets.len()) {
            return Err("a workload that holds quota for other pod sets");
        }
    }
    if spec.after.iter().any(|dependency| dependency.job >= job) {
        return Err("a job that depends on a job that was not submitted before it");
    }
    if matches!(spec.run_limit.as_deref(), Some(RunLimit::ArrayTasks { most: 0, .. })) {
        return Err("a task of an array that allows no task to run");
    }
    let scales = spec.scaling.as_deref();
    if spec.replicas == 0 && scales.is_none_or(|scaling| scaling.min > 0) {
        return Err("a job without replicas");
    }
    if scales.is_some_and(|scaling| scaling.target.get() == 0 || scaling.window.is_zero()) {
        return Err("a service whose replicas have no target");
    }
    if scales.is_some_and(|scaling| scaling.max > MOST_COPIES) {
        return Err("a service with too many replicas");
    }
    match core.profile.policies.utilization.can_bind(&spec.utilization) {
        true => Ok(()),
        false => Err("a utilization policy without a time window, or with too many samples in it"),
    }
}

fn knows_fleet_of(core: &Core, spec: &NodeSpec) -> bool {
    spec.shape.instance.as_ref().is_none_or(|instance| core.fleet.knows_fleet(instance.fleet))
}

/// Checks that the ledger can record a decision at all. Whether the decision is allowed is judged when it is
/// applied.
pub(crate) fn check_decision(core: &Core, placement: Option<&Placement>) -> Result<(), &'static str> {
    if !core.is_decided_outside() {
        return Err("an outside decision under a profile that decides itself");
    }
    let Some(placement) = placement else { return Ok(()) };
    if placement.is_empty() || placement.claims().windows(2).any(|pair| pair[0].node >= pair[1].node) {
        return Err("a placement that does not have exactly one claim for each node, in the order of the nodes");
    }
    placement.claims().iter().try_for_each(|claim| check_claim(core, claim))
}

fn check_claim(core: &Core, claim: &NodeClaim) -> Result<(), &'static str> {
    let gpu = |index| GpuId { node: claim.node, index };
    let of_gpus = claim.gpus.iter().map(|part| part.memory.get());
    let most = of_gpus.chain([claim.cpu.get(), claim.ram.get()]).max().unwrap_or(0);
    if !core.fleet.knows(claim.node) || !claim.gpus.iter().all(|part| core.fleet.knows_gpu(gpu(part.index))) {
        return Err("a placement on a node or a GPU that was never declared");
    }
    let apart = claim.gpus.windows(2).all(|pair| pair[0].index < pair[1].index);
    if !apart || claim.gpus.iter().any(|part| part.share > GpuShare::WHOLE) || most > MOST_OF_ANYTHING {
        return Err("a placement that takes a GPU twice, or an impossible amount");
    }
    if core.profile.program.is_some() {
        return check_blocks(core, claim);
    }
    if claim.tasks == 0 || !claim.blocks.is_empty() {
        return Err("a placement without tasks, or on blocks of an instance");
    }
    Ok(())
}

fn check_blocks(core: &Core, claim: &NodeClaim) -> Result<(), &'static str> {
    let total = core.fleet.node(claim.node).shape.total_blocks().unwrap_or(0);
    let rises = claim.blocks.windows(2).all(|pair| pair[0] < pair[1]);
    let is_there = claim.blocks.last().is_none_or(|block| u32::from(*block) < total);
    if rises && is_there { Ok(()) } else { Err("a placement on blocks that do not exist, or twice on one block") }
}

/// Checks what an outside program sent apart from its placement decisions.
fn check_said(core: &Core, said: &Outside) -> Result<(), &'static str> {
    if core.profile.program.is_none() {
        return Err("a message from an outside program, although none decides here");
    }
    // The text is the same whether the job or only the replica is unknown.
    let check_attempt = |attempt| check_attempt(core, attempt).map_err(|_| "a replica that does not exist");
    match said {
        Outside::Waits { attempt, .. } | Outside::Cancels { attempt, .. } => check_attempt(*attempt),
        Outside::Preempts { attempt, by, .. } => check_attempt(*attempt).and(by.map_or(Ok(()), check_attempt)),
        Outside::Mistaken { attempt, .. } => attempt.map_or(Ok(()), check_attempt),
        Outside::CancelsJob { job, .. } => check_job(core, *job),
        Outside::Joined { .. } | Outside::Answers { .. } | Outside::Failed { .. } => Ok(()),
    }
}
