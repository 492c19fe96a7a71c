//! How often a profile decides as a program does. The program decides in the world. At each of its decisions, profiles
//! are asked about the same attempt on the same fleet, so a decision that differs changes none of those that follow.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::arena::{Arena, DecisionMaker};
use super::breach::stage_of;
use super::draw::Kind;
use dryrack_conform::assign_all;
use dryrack_control::Profile;
use dryrack_engine::Progress;
use dryrack_event::{Answer, Command, Decider, Event, External, FleetFact, Input, Sink};
use dryrack_fleet::{Fleet, NodeClaim, Placement};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_outside::Session;
use dryrack_rehearse::rehearse_decided;
use dryrack_scheduler::{Decision, Draw, Grouping, PlacementContext, decide_for, refused_at_submission};
use dryrack_units::SimTime;
use dryrack_workload::{Demand, JobSpec};

/// One decision of the program about an attempt, and how each profile differs from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub at: SimTime,
    pub job: Arc<str>,
    /// How the job is asked for and what it is.
    pub stage: String,
    /// For each profile; `None` if it decides the same.
    pub differences: Vec<Option<Difference>>,
}

/// What the program and a profile decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub how: How,
    pub program: String,
    pub profile: String,
}

/// In what two decisions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    OnlyProgram,
    OnlyProfile,
    OtherNodes,
    OtherParts,
    OtherClaims,
}

impl How {
    pub fn text(self) -> &'static str {
        match self {
            How::OnlyProgram => "only the program places it",
            How::OnlyProfile => "only the profile places it",
            How::OtherNodes => "on other nodes",
            How::OtherParts => "on other GPUs or blocks of the same nodes",
            How::OtherClaims => "in the same place, with other claims",
        }
    }
}

/// Lets the program decide in the world of a seed, and asks the profiles the same. `Err` says why the program cannot
/// decide in that world.
pub fn compare_seed(
    kind: &Kind,
    seed: u64,
    profiles: &[Arc<Profile>],
    arena: &mut Arena,
) -> Result<Vec<Asked>, String> {
    let refusal = |arena: &mut Arena| arena.refusal.take().unwrap_or_else(|| "it cannot be run".to_string());
    let Some(loaded) = arena.load(&kind.draw(seed), DecisionMaker::Program) else { return Err(refusal(arena)) };
    let (rehearsal, progress) = (&loaded.rehearsal, Progress::default());
    let setup = loaded.outside.clone().expect("the arena names the program");
    let asked = arena.with_program(rehearsal, setup, DecisionMaker::Program, |session| {
        let mut beside = Beside::new(session, profiles, rehearsal.seed);
        rehearse_decided(rehearsal, Vec::new(), &progress, Vec::new(), &mut beside);
        beside.finish()
    });
    match asked {
        Some((asked, None)) => Ok(asked),
        Some((_, Some(failure))) => Err(failure),
        None => Err(refusal(arena)),
    }
}

/// Passes everything on to the program, and asks the profiles at each of its decisions.
struct Beside<'d> {
    session: &'d mut Session,
    profiles: &'d [Arc<Profile>],
    seed: u64,
    jobs: BTreeMap<JobId, Arc<JobSpec>>,
    names: Vec<Arc<str>>,
    /// The attempts that wait for the program, by the number in which they began to.
    waiting: BTreeMap<u64, AttemptId>,
    queued: u64,
    /// For each attempt, the version of the fleet when the program last let it wait. Asked again on the same fleet, the
    /// program decides nothing new.
    waited: BTreeMap<AttemptId, u64>,
    asked: Vec<Asked>,
}

impl<'d> Beside<'d> {
    fn new(session: &'d mut Session, profiles: &'d [Arc<Profile>], seed: u64) -> Beside<'d> {
        Beside {
            session,
            profiles,
            seed,
            jobs: BTreeMap::new(),
            names: Vec::new(),
            waiting: BTreeMap::new(),
            queued: 0,
            waited: BTreeMap::new(),
            asked: Vec::new(),
        }
    }

    fn finish(mut self) -> Vec<Asked> {
        self.asked.sort_by(|one, other| (one.at, &one.job).cmp(&(other.at, &other.job)));
        self.asked
    }

    /// Judges an answer. A program places by priority, then in the order in which attempts began to wait; each
    /// placement counts for those after it. An attempt that the answer leaves out waits, unless the program wishes to
    /// be asked again by itself: then it has not decided about that attempt yet.
    fn judge(&mut self, now: SimTime, fleet: &Fleet, answer: &Answer) {
        let is_at_work = self.session.wakes_at().is_some();
        let decided: BTreeMap<AttemptId, Option<&Placement>> = (answer.inputs.iter())
            .filter_map(|input| match input {
                Input::External(External::Decided { attempt, placement }) => Some((*attempt, placement.as_ref())),
                _ => None,
            })
            .collect();
        let mut attempts: Vec<AttemptId> = self.waiting.values().copied().collect();
        attempts.sort_by_key(|attempt| Reverse(self.jobs[&attempt.job].priority));
        let (version, mut fleet) = (fleet.version(), fleet.clone());
        for attempt in attempts {
            let spec = Arc::clone(&self.jobs[&attempt.job]);
            let program = decided.get(&attempt).copied();
            // The decision about an attempt that waited was already compared. A later refusal only ends the attempt.
            if program == Some(None) && self.waited.contains_key(&attempt) {
                continue;
            }
            let is_left_open = is_at_work && !self.session.answered(attempt);
            if program.is_none() && (is_left_open || self.waited.insert(attempt, version) == Some(version)) {
                continue;
            }
            self.asked.push(self.ask((now, attempt), &spec, program.flatten(), &fleet));
            if let Some(placement) = program.flatten() {
                hold(&mut fleet, attempt, &spec.demand, placement);
            }
        }
    }

    fn ask(
        &self,
        (at, attempt): (SimTime, AttemptId),
        spec: &JobSpec,
        program: Option<&Placement>,
        fleet: &Fleet,
    ) -> Asked {
        let difference = |profile: &Arc<Profile>| {
            let profile = decided_by(profile, self.seed, attempt, spec, fleet);
            difference(program, profile.as_ref(), &self.names)
        };
        let differences = self.profiles.iter().map(difference).collect();
        Asked { at, job: Arc::clone(&spec.name), stage: stage_of(&spec.demand), differences }
    }

    fn leaves(&mut self, attempt: AttemptId) {
        self.waiting.retain(|_, waiting| *waiting != attempt);
        self.waited.remove(&attempt);
    }
}

/// Where a profile places the run; `None` if it does not. A run of several nodes is placed whole or not at all.
fn decided_by(profile: &Profile, seed: u64, attempt: AttemptId, spec: &JobSpec, fleet: &Fleet) -> Option<Placement> {
    let (options, demand) = (&profile.scheduler, &*profile.scheduler.demand_of(spec));
    if refused_at_submission(options, demand, fleet).is_some() {
        return None;
    }
    if let Some(requirements) = demand.requirements() {
        let outcome = assign_all(&options.offers, requirements, demand.tasks, &mut fleet.clone());
        let claims: SmallVec<[NodeClaim; 1]> =
            outcome.assigned.into_iter().map(|(_, assigned)| assigned.claim).collect();
        let nodes: BTreeSet<NodeId> = claims.iter().map(|claim| claim.node).collect();
        let is_whole = outcome.refused.is_empty() && nodes.len() == claims.len();
        return is_whole.then(|| Placement::new(claims));
    }
    let draw = Draw::new(seed, attempt);
    let context = PlacementContext { job: Some(attempt.job), replicas: spec.replicas, draw, fleet: None, least: 1 };
    match decide_for(options, demand, context, fleet, Grouping::Classes, 1) {
        Decision::Place(mut candidates) => Some(candidates.swap_remove(0).placement),
        Decision::Refuse { .. } => None,
    }
}

/// Enters a placement of the program into a copy of the fleet, unless the blocks are held, which is refused anyway.
fn hold(fleet: &mut Fleet, attempt: AttemptId, demand: &Demand, placement: &Placement) {
    let is_held = |claim: &NodeClaim| {
        let held = &fleet.node(claim.node).status.blocks;
        claim.blocks.iter().any(|block| held.contains(*block))
    };
    if placement.claims().iter().any(is_held) {
        return;
    }
    match demand.model() {
        Some(deployment) => fleet.host(attempt, placement, &PlacementContext::hosting(attempt.job, deployment)),
        None => fleet.take(placement),
    }
}

fn difference(program: Option<&Placement>, profile: Option<&Placement>, names: &[Arc<str>]) -> Option<Difference> {
    let nodes = |placement: &Placement| placement.claims().iter().map(|claim| claim.node).collect::<Vec<_>>();
    let parts = |placement: &Placement| {
        let gpus = |claim: &NodeClaim| claim.gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>();
        placement.claims().iter().map(|claim| (gpus(claim), claim.blocks.to_vec())).collect::<Vec<_>>()
    };
    let how = match (program, profile) {
        (None, None) => return None,
        (Some(_), None) => How::OnlyProgram,
        (None, Some(_)) => How::OnlyProfile,
        (Some(one), Some(other)) if one == other => return None,
        (Some(one), Some(other)) if nodes(one) != nodes(other) => How::OtherNodes,
        (Some(one), Some(other)) if parts(one) != parts(other) => How::OtherParts,
        (Some(_), Some(_)) => How::OtherClaims,
    };
    let text = |placement: Option<&Placement>| placement.map_or("waits".to_string(), |known| words(known, names));
    Some(Difference { how, program: text(program), profile: text(profile) })
}

/// `n1/0 (36.0GiB), n2/0 (36.0GiB)`, or the blocks of each node.
fn words(placement: &Placement, names: &[Arc<str>]) -> String {
    let of_claim = |claim: &NodeClaim| {
        let name = &names[claim.node.index()];
        if !claim.blocks.is_empty() {
            let blocks: Vec<String> = claim.blocks.iter().map(u16::to_string).collect();
            return format!("{name} blocks {}", blocks.join("+"));
        }
        match claim.gpus.as_slice() {
            [] => name.to_string(),
            gpus => {
                let gpu = |gpu: &dryrack_fleet::GpuClaim| format!("{name}/{} ({})", gpu.index, gpu.memory);
                gpus.iter().map(gpu).collect::<Vec<_>>().join(", ")
            }
        }
    };
    placement.claims().iter().map(of_claim).collect::<Vec<_>>().join(", ")
}

impl Sink for Beside<'_> {
    fn input(&mut self, step: u64, at: SimTime, input: &Input) {
        match input {
            Input::Fleet(FleetFact::NodeDeclared { spec, .. }) => self.names.push(Arc::clone(&spec.name)),
            Input::Submit { job, spec } => {
                self.jobs.insert(*job, Arc::clone(spec));
            }
            _ => {}
        }
        self.session.input(step, at, input);
    }

    fn event(&mut self, step: u64, at: SimTime, event: &Event) {
        if let Event::Placed { attempt, .. } | Event::Ended { attempt, .. } = event {
            self.leaves(*attempt);
        }
        self.session.event(step, at, event);
    }
}

impl Decider for Beside<'_> {
    fn join(&mut self) -> Answer {
        self.session.join()
    }

    fn command(&mut self, now: SimTime, command: &Command) {
        match command {
            Command::Submit { attempt } => {
                self.queued += 1;
                self.waiting.insert(self.queued, *attempt);
            }
            Command::Withdraw { attempt } => self.leaves(*attempt),
            _ => {}
        }
        self.session.command(now, command);
    }

    fn decide(&mut self, now: SimTime, fleet: &Fleet) -> Option<Answer> {
        let answer = self.session.decide(now, fleet)?;
        if !answer.is_last {
            self.judge(now, fleet, &answer);
        }
        Some(answer)
    }

    fn evaluates(&self) -> bool {
        self.session.evaluates()
    }

    fn evaluate(&mut self, now: SimTime, fleet: &Fleet, name: &Arc<str>, demand: &Arc<Demand>) -> Answer {
        self.session.evaluate(now, fleet, name, demand)
    }

    fn wakes_at(&self) -> Option<SimTime> {
        self.session.wakes_at()
    }

    fn polls(&self) -> bool {
        self.session.polls()
    }

    fn leave_unasked(&mut self) {
        self.session.leave_unasked();
    }
}
