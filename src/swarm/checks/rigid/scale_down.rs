//! Which replicas are stopped when a job is scaled down, from the log alone: the least healthy first, then the one
//! whose phase changed last, then the one that was added last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::checks::{Case, CheckResult, Judged};
use dryrack_event::{Declaration, Event, FleetFact, Input, Phase, Reason, RecordBody, UserRequest};
use dryrack_fleet::{GpuState, NodeState, Placement};
use dryrack_ids::{GpuId, JobId, NodeId};
use dryrack_units::SimTime;

#[derive(Default)]
struct Told {
    nodes: BTreeMap<NodeId, NodeState>,
    /// The GPUs that are not ready.
    unready: BTreeSet<GpuId>,
    replicas: BTreeMap<(JobId, u32), Replica>,
    /// The jobs that have ended or were cancelled, and services, which also scale themselves.
    over: BTreeSet<JobId>,
    /// The replicas that the last request must stop, and the rest of what it says.
    expected: BTreeSet<(JobId, u32)>,
    asked: Option<(SimTime, JobId, u32)>,
    judged: bool,
}

struct Replica {
    phase: Phase,
    since: SimTime,
    placement: Option<Arc<Placement>>,
    is_dismissed: bool,
    /// Whether it waits because Kueue admitted its workload with fewer pods.
    is_surplus: bool,
}

pub fn judge(case: &Case<'_>) -> CheckResult {
    if !case.world.profile.flow.passes_over_queue() || case.world.scalings.is_empty() {
        return Ok(Judged::DoesNotApply);
    }
    let mut told = Told::default();
    for record in case.log {
        match &record.said {
            RecordBody::Input(input) => {
                told.is_done()?;
                told.input(record.at, input);
            }
            RecordBody::Event(event) => told.event(record.at, event)?,
        }
    }
    told.is_done()?;
    Ok(if told.judged { Judged::Holds } else { Judged::DoesNotApply })
}

impl Told {
    /// Asserts that everything was stopped that the last request had to stop.
    fn is_done(&mut self) -> Result<(), String> {
        match (self.asked.take(), self.expected.pop_first()) {
            (Some((at, job, wanted)), Some((_, replica))) => {
                Err(format!("at {at}, job {} is scaled to {wanted}, and replica {replica} is not stopped", job.index()))
            }
            (_, _) => Ok(()),
        }
    }

    fn input(&mut self, at: SimTime, input: &Input) {
        match input.declaration() {
            Some(Declaration::Node { node, state, .. }) => drop(self.nodes.insert(node, state)),
            Some(Declaration::Job { job, spec }) => {
                (0..spec.replicas).for_each(|replica| self.add(at, job, replica));
                if spec.scaling.is_some() {
                    self.over.insert(job);
                }
            }
            Some(Declaration::Fleet { .. }) | None => {}
        }
        match input {
            Input::Fleet(FleetFact::GpuReported { gpu, state }) => {
                if *state == GpuState::Ready {
                    self.unready.remove(gpu);
                } else {
                    self.unready.insert(*gpu);
                }
            }
            Input::User(UserRequest::Cancel { job }) => drop(self.over.insert(*job)),
            Input::User(UserRequest::Scale { job, replicas }) if !self.over.contains(job) => {
                self.scaled(at, *job, *replicas);
            }
            _ => {}
        }
    }

    fn add(&mut self, at: SimTime, job: JobId, replica: u32) {
        let new = Replica { phase: Phase::Pending, since: at, placement: None, is_dismissed: false, is_surplus: false };
        self.replicas.insert((job, replica), new);
    }

    fn scaled(&mut self, at: SimTime, job: JobId, wanted: u32) {
        let own = self.replicas.range((job, 0)..=(job, u32::MAX));
        let mut counted: Vec<_> = own
            .filter(|(_, replica)| replica.phase != Phase::Ended && !replica.is_dismissed)
            .map(|((_, number), replica)| (self.health(replica), Reverse(replica.since), Reverse(*number)))
            .collect();
        counted.sort_unstable();
        let surplus = counted.len().saturating_sub(wanted as usize);
        for (_, _, Reverse(number)) in counted.into_iter().take(surplus) {
            let replica = self.replicas.get_mut(&(job, number)).expect("it was just counted");
            replica.is_dismissed = true;
            // What is stopping already is not told again.
            if replica.phase != Phase::Stopping {
                self.expected.insert((job, number));
            }
            self.judged = true;
        }
        self.asked = Some((at, job, wanted));
    }

    /// How well a replica is: stopping, waiting, about to run, running on what is not ready, running on what is ready.
    fn health(&self, replica: &Replica) -> u8 {
        let is_ready = |placement: &Placement| {
            placement.claims().iter().all(|claim| {
                let is_well = |index| !self.unready.contains(&GpuId { node: claim.node, index });
                self.nodes.get(&claim.node) == Some(&NodeState::Ready)
                    && claim.gpus.iter().all(|gpu| is_well(gpu.index))
            })
        };
        match replica.phase {
            Phase::Stopping | Phase::Ended => 0,
            Phase::Pending | Phase::Analysing => 1,
            Phase::Scheduled | Phase::Preparing => 2,
            Phase::Running => 3 + u8::from(replica.placement.as_deref().is_some_and(is_ready)),
        }
    }

    /// Whether the replica ends because Kueue admitted fewer pods: it waits for that reason, and so does every other
    /// replica of the job that has not ended. No request to scale has a part in this.
    fn may_end_surplus(&self, job: JobId, replica: u32) -> bool {
        let mut others = self.replicas.range((job, 0)..=(job, u32::MAX));
        self.replicas[&(job, replica)].is_surplus
            && others.all(|(_, other)| other.phase == Phase::Ended || other.is_surplus)
    }

    fn event(&mut self, at: SimTime, event: &Event) -> Result<(), String> {
        match event {
            Event::NodeChanged { node, to, .. } => drop(self.nodes.insert(*node, *to)),
            Event::ReplicaAdded { attempt } => self.add(at, attempt.job, attempt.replica),
            Event::JobEnded { job, .. } => drop(self.over.insert(*job)),
            Event::Held { attempt, reasons, .. } => {
                let replica = self.replicas.get_mut(&(attempt.job, attempt.replica)).expect("it was declared or added");
                replica.is_surplus = reasons.contains(Reason::PartiallyAdmitted);
            }
            _ => {}
        }
        let (phase, because) = match event {
            Event::Placed { .. } => (Phase::Scheduled, None),
            Event::Moved { to, because, .. } => (*to, *because),
            Event::Ended { because, .. } => (Phase::Ended, Some(*because)),
            Event::Retry { .. } => (Phase::Pending, None),
            _ => return Ok(()),
        };
        let Some(attempt) = event.attempt() else { return Ok(()) };
        let ends_surplus = phase == Phase::Ended && self.may_end_surplus(attempt.job, attempt.replica);
        let replica = self.replicas.get_mut(&(attempt.job, attempt.replica)).expect("it was declared or added");
        let was_stopping = replica.phase == Phase::Stopping;
        (replica.phase, replica.since) = (phase, at);
        replica.is_surplus &= phase == Phase::Ended;
        if let Event::Placed { placement, .. } = event {
            replica.placement = Some(Arc::new(placement.clone()));
        }
        let is_told = because == Some(Reason::ScaledDown) && !was_stopping && !self.over.contains(&attempt.job);
        if is_told && ends_surplus {
            self.judged = true;
            return Ok(());
        }
        if is_told && !self.expected.remove(&(attempt.job, attempt.replica)) {
            return Err(format!(
                "at {at}, {attempt} is stopped by scaling down, and the rule names {:?}",
                self.expected
            ));
        }
        Ok(())
    }
}
