//! Checks of an input before it is applied. An input from outside may state something impossible.

use super::MOST_COPIES;
use super::core::{Core, check_sample};
use super::flow::Flow;
use dryrack_event::{Input, Lifecycle, Outside};
use dryrack_fleet::{NodeClaim, NodeSpec, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_units::{GpuShare, SimTime};
use dryrack_workload::{JobSpec, RunLimit};

/// Upper limit of one claim on any resource. It keeps sums of claims within their integer types.
const MOST_OF_ANYTHING: u64 = 1 << 50;

impl Core {
    /// Checks whether an input may come at this point. The inputs of every world are possible by design. A log that
    /// someone altered may contain other inputs.
    pub(crate) fn check_input(&self, flow: &dyn Flow, now: SimTime, input: &Input) -> Result<(), &'static str> {
        let known_node = |node: NodeId| self.fleet.knows(node).then_some(()).ok_or("a node that was never declared");
        let known_gpu = |gpu: GpuId| self.fleet.knows_gpu(gpu).then_some(()).ok_or("a GPU that was never declared");
        let known_job =
            |job: JobId| (job.index() < self.jobs.len()).then_some(()).ok_or("a job that was never submitted");
        if now < self.now {
            return Err("time falls");
        }
        match input {
            Input::NodeDeclared { node, .. } if node.index() != self.fleet.len() => Err("a node out of order"),
            Input::FleetDeclared { fleet, .. } if fleet.index() != self.fleet.fleets().count() => {
                Err("a fleet out of order")
            }
            Input::FleetDeclared { .. } => Ok(()),
            Input::NodeDeclared { spec, .. } if !self.knows_fleet_of(spec) => Err("an instance of no declared fleet"),
            Input::NodeDeclared { spec, .. } => spec.shape.check_size(),
            Input::Wakeup | Input::ObjectsDeclared { .. } => Ok(()),
            Input::NodeReported { node, state } => {
                known_node(*node)?;
                let joined = !matches!(self.fleet.node(*node).status.state, NodeState::Joining | NodeState::Gone);
                if *state == NodeState::Joining && joined { Err("a node that has joined joins again") } else { Ok(()) }
            }
            Input::HeartbeatBack { node } => known_node(*node),
            Input::CapacityReported { fleet, offer, .. } if !self.fleet.knows_offer(*fleet, *offer) => {
                Err("an offer that no fleet has")
            }
            Input::CapacityReported { .. } => Ok(()),
            Input::Reconfigure { profile } => self.read_profile(profile).map(|_| ()),
            Input::HeartbeatMissed { last, .. } if *last > now => Err("a heartbeat from the future"),
            Input::HeartbeatMissed { node, .. } => known_node(*node),
            Input::GpuReported { gpu, .. } | Input::ForeignUse { gpu, .. } => known_gpu(*gpu),
            Input::Run { fact: Lifecycle::StoppedOn { node }, .. } if !self.fleet.knows(*node) => known_node(*node),
            Input::Run { attempt, .. } | Input::UsageSample { attempt, .. }
                if known_job(attempt.job).map(|()| !self.knows_replica(*attempt))? =>
            {
                Err("a replica that is not")
            }
            Input::UsageSample { utilization, memory, .. } => check_sample(utilization, memory.len()),
            Input::Run { .. } => Ok(()),
            Input::RequestsCounted { job, .. } | Input::Cancel { job } => known_job(*job),
            Input::Scale { replicas: 0, .. } if !flow.parks_jobs() => Err("a job scaled to nothing"),
            Input::Scale { job, .. } => known_job(*job),
            Input::Submit { job, .. } if job.index() != self.jobs.len() => Err("a job out of order"),
            Input::Submit { spec, .. } if spec.replicas.max(spec.demand.tasks) > MOST_COPIES => {
                Err("a job of more replicas or tasks than any")
            }
            Input::Submit { spec, .. } if spec.demand.tasks == 0 => Err("a job of nothing"),
            Input::Submit { job, spec } if spec.after.iter().any(|dependency| dependency.job >= *job) => {
                Err("a job that depends on one that was not submitted before it")
            }
            Input::Submit { spec, .. }
                if matches!(spec.run_limit.as_deref(), Some(RunLimit::ArrayTasks { most: 0, .. })) =>
            {
                Err("a task of an array of which none may run")
            }
            Input::Submit { spec, .. } => self.check_submission(spec),
            Input::Decided { attempt, .. } if known_job(attempt.job).map(|()| !self.knows_replica(*attempt))? => {
                Err("a replica that is not")
            }
            Input::Decided { placement, .. } => self.check_decision(placement.as_ref()),
            Input::Outside(said) => self.check_said(said),
            Input::Evaluate { demand, .. } if demand.tasks == 0 => Err("a job of nothing"),
            Input::Evaluate { demand, .. } => demand.pick.iter().flat_map(|pick| pick.nodes()).try_for_each(known_node),
        }
    }

    fn check_submission(&self, spec: &JobSpec) -> Result<(), &'static str> {
        let scales = spec.scaling.as_deref();
        if spec.replicas == 0 && scales.is_none_or(|scaling| scaling.min > 0) {
            return Err("a job of nothing");
        }
        if scales.is_some_and(|scaling| scaling.target.get() == 0 || scaling.window.is_zero()) {
            return Err("a service of which a replica serves nothing");
        }
        if scales.is_some_and(|scaling| scaling.max > MOST_COPIES) {
            return Err("a service of more replicas than any");
        }
        match self.profile.policies.utilization.can_bind(&spec.utilization) {
            true => Ok(()),
            false => Err("a utilization policy of no time, or of more samples than are kept"),
        }
    }

    fn knows_fleet_of(&self, spec: &NodeSpec) -> bool {
        spec.shape.instance.as_ref().is_none_or(|instance| self.fleet.knows_fleet(instance.fleet))
    }

    /// Checks that the ledger can record a decision at all. Whether the decision is allowed is judged when it is
    /// applied.
    pub(crate) fn check_decision(&self, placement: Option<&Placement>) -> Result<(), &'static str> {
        if !self.is_decided_outside() {
            return Err("a decision from outside, where the profile decides");
        }
        let Some(placement) = placement else { return Ok(()) };
        if placement.is_empty() || placement.claims().windows(2).any(|pair| pair[0].node >= pair[1].node) {
            return Err("a placement that is not one claim for each of its nodes, in their order");
        }
        placement.claims().iter().try_for_each(|claim| self.check_claim(claim))
    }

    fn check_claim(&self, claim: &NodeClaim) -> Result<(), &'static str> {
        let gpu = |index| GpuId { node: claim.node, index };
        let of_gpus = claim.gpus.iter().map(|part| part.memory.get());
        let most = of_gpus.chain([claim.cpu.get(), claim.ram.get()]).max().unwrap_or(0);
        if !self.fleet.knows(claim.node) || !claim.gpus.iter().all(|part| self.fleet.knows_gpu(gpu(part.index))) {
            return Err("a placement on a node or a GPU that was never declared");
        }
        let apart = claim.gpus.windows(2).all(|pair| pair[0].index < pair[1].index);
        if !apart || claim.gpus.iter().any(|part| part.share > GpuShare::WHOLE) || most > MOST_OF_ANYTHING {
            return Err("a placement that takes a GPU twice, or more of anything than there could be");
        }
        if self.profile.program.is_some() {
            return self.check_blocks(claim);
        }
        if claim.tasks == 0 || !claim.blocks.is_empty() {
            return Err("a placement of no task, or on blocks of an instance");
        }
        Ok(())
    }

    fn check_blocks(&self, claim: &NodeClaim) -> Result<(), &'static str> {
        let total = self.fleet.node(claim.node).shape.total_blocks().unwrap_or(0);
        let rises = claim.blocks.windows(2).all(|pair| pair[0] < pair[1]);
        let is_there = claim.blocks.last().is_none_or(|block| u32::from(*block) < total);
        if rises && is_there { Ok(()) } else { Err("a placement on blocks that are not there, or twice on one") }
    }

    /// Checks what an outside program sent apart from its placement decisions.
    fn check_said(&self, said: &Outside) -> Result<(), &'static str> {
        if self.profile.program.is_none() {
            return Err("a message from an outside program, though none decides here");
        }
        let known_attempt =
            |attempt: AttemptId| match attempt.job.index() < self.jobs.len() && self.knows_replica(attempt) {
                true => Ok(()),
                false => Err("a replica that is not"),
            };
        match said {
            Outside::Waits { attempt, .. } | Outside::Cancels { attempt, .. } => known_attempt(*attempt),
            Outside::Preempts { attempt, by, .. } => known_attempt(*attempt).and(by.map_or(Ok(()), known_attempt)),
            Outside::Mistaken { attempt, .. } => attempt.map_or(Ok(()), known_attempt),
            Outside::CancelsJob { job, .. } if job.index() >= self.jobs.len() => Err("a job that was never submitted"),
            Outside::CancelsJob { .. } | Outside::Joined { .. } | Outside::Answers { .. } | Outside::Failed { .. } => {
                Ok(())
            }
        }
    }
}
