//! Checks a log independently of the control plane. The audit rebuilds the ledger, the phases and the accounts from the
//! records alone and checks each record against them. It shares no bookkeeping with the control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::accounts::{Accounts, Standing};
use super::audited_flavors::Flavors;
use super::audited_retries::Retries;
use dryrack_control::{Profile, UtilizationOptions, stated_tolerations, tolerate_state};
use dryrack_event::{Declaration, Event, FleetFact, Input, Outcome, Phase, Reason, Sink};
use dryrack_fleet::{
    GpuState, InstanceState, NodeClaim, NodeShape, NodeState, Placement, RESTRICTED_CORES_LABEL, offer_of,
};
use dryrack_ids::{AttemptId, GpuId, JobId, NodeId};
use dryrack_scheduler::offers::MultinodeTakes;
use dryrack_units::SimTime;
use dryrack_workload::{Coverage, Gang, JobSpec, Pick, TaskSet, UtilizationPolicy, UtilizationRule};

/// A sink that panics at the first record that is impossible in its place.
#[derive(Default)]
pub struct Audit {
    /// Whether the profile is historic. A historic profile may break safety if the log reports it with `SafetyBroken`.
    historic: bool,
    /// Whether the flow is dstack's. There, separate tasks are nodes of a run, and each node has its own placement.
    has_runs: bool,
    /// Whether a job may get a node that is not ready, if it tolerates the state.
    treats_states_as_taints: bool,
    /// What Kueue adds to the pods that it admits.
    flavors: Flavors,
    /// Failures that count together.
    retries: Retries,
    /// Whether nodes of one run may share a host by using different blocks of it.
    shares_hosts: bool,
    nodes: Vec<(Arc<NodeShape>, NodeState)>,
    gpus: BTreeMap<GpuId, GpuState>,
    jobs: Vec<Account>,
    /// The phase of each replica, with its attempt.
    phases: BTreeMap<(JobId, u32), (u32, Phase)>,
    /// For each replica that has ever run, the last attempt that ran.
    ran: BTreeMap<(JobId, u32), u32>,
    claims: BTreeMap<AttemptId, Placement>,
    cpu_taken: BTreeMap<NodeId, u64>,
    /// The cores taken on each node beyond the restricted cores of the GPUs that they are taken with.
    unrestricted_taken: BTreeMap<NodeId, u64>,
    gpu_milli_taken: BTreeMap<GpuId, u64>,
    unsafe_runs: Vec<AttemptId>,
    /// The state of each cloud instance. An instance has an entry once its state has changed for the first time.
    instances: BTreeMap<NodeId, InstanceState>,
    /// Attempts that were running when the profile changed. They stay bound by the policy of the previous profile.
    bound_before: BTreeSet<AttemptId>,
    /// The utilization policy of the profile.
    utilization: Option<UtilizationOptions>,
    /// Attempts that are bound by a utilization policy, each with its effective values.
    bound: BTreeMap<AttemptId, UtilizationPolicy>,
    at: SimTime,
    step: u64,
}

/// Whether a placement has as many tasks of each set as the set may have.
fn has_its_sets(spec: &JobSpec, placement: &Placement) -> bool {
    let placed = |place: usize| -> u32 {
        placement
            .claims()
            .iter()
            .map(|claim| claim.sets.as_ref().and_then(|sets| sets.get(place)).map_or(0, |count| *count))
            .sum()
    };
    let of_set = |(place, set): (usize, &TaskSet)| set.min_tasks <= placed(place) && placed(place) <= set.tasks;
    let is_together = spec.demand.gang != Gang::StrictPack || placement.claims().len() == 1;
    is_together && spec.demand.sets().iter().enumerate().all(of_set)
}

/// The cores that a claim takes beyond the restricted cores of its GPUs, and how many of those cores the node has. For
/// nodes without restricted cores, these are all cores.
fn unrestricted(shape: &NodeShape, claim: &NodeClaim) -> (u64, u64) {
    let each: u64 = shape.labels.get(RESTRICTED_CORES_LABEL).map_or(0, |text| text.parse().unwrap_or(0));
    let own: u64 = claim.gpus.iter().map(|part| each * u64::from(part.share.get())).sum();
    (claim.cpu.get().saturating_sub(own), shape.cpu.get().saturating_sub(each * 1000 * shape.gpus.len() as u64))
}

struct Account {
    spec: Arc<JobSpec>,
    /// The number of replicas that the job has ever had.
    replicas: u32,
    outcome: Option<Outcome>,
}

impl Audit {
    pub fn new(profile: &Profile) -> Audit {
        Audit {
            historic: profile.historic,
            has_runs: profile.flow.places_runs(),
            treats_states_as_taints: profile.flow.treats_states_as_taints(),
            utilization: Some(profile.policies.utilization),
            shares_hosts: profile.scheduler.offers.multinode_takes == MultinodeTakes::Blocks,
            ..Audit::default()
        }
    }

    /// Switches to another profile. If the previous profile was historic, broken safety stays allowed, because the
    /// attempts that broke it may continue.
    fn follow(&mut self, profile: &Profile) {
        let Audit { historic, utilization, shares_hosts, treats_states_as_taints, .. } = Audit::new(profile);
        self.treats_states_as_taints = treats_states_as_taints;
        (self.historic, self.utilization, self.shares_hosts) = (self.historic || historic, utilization, shares_hosts);
        let at_work = self.phases.iter().filter(|(_, (_, phase))| *phase == Phase::Running);
        let attempt = |((job, replica), (number, _)): (&(JobId, u32), &(u32, Phase))| AttemptId {
            job: *job,
            replica: *replica,
            number: *number,
        };
        self.bound_before.extend(at_work.map(attempt));
    }

    /// The accounts at the end of the log. Panics if a submitted job is not counted.
    pub fn finish(self) -> Accounts {
        let running = self.phases.iter().filter(|(_, (_, phase))| *phase == Phase::Running);
        for ((job, replica), (number, _)) in running {
            self.is_watched(AttemptId { job: *job, replica: *replica, number: *number });
        }
        let mut accounts = Accounts { submitted: self.jobs.len() as u64, ..Accounts::default() };
        for (index, job) in self.jobs.iter().enumerate() {
            let phases = (0..job.replicas).map(|number| self.phases[&(JobId::new(index), number)].1);
            accounts.add(match job.outcome {
                Some(outcome) => Standing::Ended(outcome),
                None if phases.clone().any(Phase::holds_claim) => Standing::Running,
                None => {
                    let alive = phases.clone().any(|phase| phase != Phase::Ended);
                    // A service without requests may scale to zero replicas. It has not ended.
                    let rests = job.spec.scaling.as_ref().is_some_and(|scaling| scaling.min == 0);
                    assert!(
                        alive || rests || self.has_runs,
                        "{} has ended in every replica, but not as a job",
                        job.spec.name
                    );
                    Standing::Waiting
                }
            });
        }
        accounts.checked()
    }

    fn begins_again(&mut self, attempt: AttemptId, due: SimTime, because: Reason) {
        self.retries.follows(attempt, &self.jobs[attempt.job.index()].spec, because, (self.at, due));
        let known =
            self.phases.get_mut(&(attempt.job, attempt.replica)).expect("only what was submitted is tried again");
        let ended = (attempt.number - 1, Phase::Ended);
        assert_eq!(*known, ended, "{attempt} begins before the last attempt has ended");
        *known = (attempt.number, Phase::Pending);
    }

    fn placed(&mut self, attempt: AttemptId, placement: &Placement) {
        let spec = Arc::clone(&self.jobs[attempt.job.index()].spec);
        if spec.shared_retry.is_some() {
            self.retries.placed(attempt);
        }
        let excused = self.unsafe_runs.contains(&attempt);
        let whole = match &spec.demand.pick {
            _ if self.nodes_of(&spec) > 1 => placement.tasks() == 1,
            // A replica of a model counts as one task, on its main node, even if it uses GPUs of other nodes.
            _ if spec.demand.model().is_some() => placement.tasks() == 1,
            Some(pick @ Pick::AllGpus(_)) => placement.claims().len() == pick.nodes().len(),
            Some(Pick::Nodes(_) | Pick::Gpus(_)) | None if !spec.demand.sets().is_empty() => {
                has_its_sets(&spec, placement)
            }
            Some(Pick::Nodes(_) | Pick::Gpus(_)) | None => placement.tasks() == spec.demand.tasks,
        };
        assert!(whole || excused, "{attempt} was placed in part: {placement:?}");
        let is_spread = placement.claims().iter().all(|claim| claim.tasks == 1);
        assert!(spec.demand.gang != Gang::Spread || is_spread || excused, "{attempt} is not spread: {placement:?}");
        for claim in placement.claims() {
            let (shape, state) = &self.nodes[claim.node.index()];
            let is_made = *state == NodeState::Joining && offer_of(shape).is_some();
            let tolerations = stated_tolerations(&spec).iter().chain(self.flavors.tolerations(&spec));
            let is_tolerated = self.treats_states_as_taints && tolerate_state(tolerations, *state);
            assert!(
                *state == NodeState::Ready || is_made || is_tolerated || excused,
                "{attempt} was placed on a node that is {state:?}"
            );
            let cpu = self.cpu_taken.entry(claim.node).or_default();
            *cpu += claim.cpu.get();
            assert!(*cpu <= shape.cpu.get() || excused, "{attempt} takes more CPU than there is");
            let (rest, most) = unrestricted(shape, claim);
            let unrestricted = self.unrestricted_taken.entry(claim.node).or_default();
            *unrestricted += rest;
            assert!(rest == 0 || *unrestricted <= most || excused, "{attempt} takes cores that are restricted to GPUs");
            for part in &claim.gpus {
                let gpu = GpuId { node: claim.node, index: part.index };
                let state = self.gpus.get(&gpu).copied().unwrap_or(GpuState::Ready);
                assert!(state.is_usable() || excused, "{attempt} was placed on a GPU that is {state:?}");
                let taken = self.gpu_milli_taken.entry(gpu).or_default();
                *taken += u64::from(part.share.get());
                // Pods that share a claim all hold its devices.
                assert!(
                    *taken <= 1000 || excused || shape.is_of_devices(part.index),
                    "{attempt} takes more of a GPU than there is"
                );
            }
        }
        self.is_in_one_fleet(attempt, placement);
        assert!(self.claims.insert(attempt, placement.clone()).is_none(), "{attempt} was placed twice");
    }

    /// Asserts that all replicas of a job are in the same fleet. Ignores replicas that are stopping or have ended.
    fn is_in_one_fleet(&self, attempt: AttemptId, placement: &Placement) {
        let fleet_of = |placement: &Placement| {
            let fleets = placement
                .claims()
                .iter()
                .map(|claim| self.nodes[claim.node.index()].0.instance.as_ref().map(|instance| instance.fleet));
            fleets.collect::<BTreeSet<_>>()
        };
        if !self.has_runs || self.jobs[attempt.job.index()].spec.demand.requirements().is_none() {
            return;
        }
        let mut fleets = fleet_of(placement);
        let first = AttemptId { job: attempt.job, replica: 0, number: 0 };
        for (other, claim) in self.claims.range(first..).take_while(|(other, _)| other.job == attempt.job) {
            // A claim of an earlier attempt does not count: it is only waiting to be released.
            let stays = |(number, phase): &(u32, Phase)| {
                *number == other.number && phase.holds_claim() && *phase != Phase::Stopping
            };
            if self.phases.get(&(other.job, other.replica)).is_some_and(stays) {
                fleets.extend(fleet_of(claim));
            }
        }
        assert!(fleets.len() == 1, "{attempt} is in another fleet than the rest of its job: {fleets:?}");
    }

    /// The number of nodes that each replica of a run has. It is more than one if each task of a gang is a separate
    /// node.
    fn nodes_of(&self, spec: &JobSpec) -> u32 {
        if self.has_runs { spec.demand.nodes_apart() } else { 1 }
    }

    /// Asserts that all nodes of a replica are placed when one of them begins, and that each node has its own host
    /// unless nodes may share one.
    ///
    /// Replica numbers are assigned in this order: the master of each replica, the workers of the first replica, the
    /// workers of the second replica, and so on. Jobs that were scaled are not checked, because their numbers no longer
    /// tell which nodes belong together.
    fn begins_whole(&self, attempt: AttemptId) {
        let account = &self.jobs[attempt.job.index()];
        let (replicas, nodes) = (account.spec.replicas, self.nodes_of(&account.spec));
        if nodes == 1 || account.replicas != replicas * nodes {
            return;
        }
        let group =
            if attempt.replica < replicas { attempt.replica } else { (attempt.replica - replicas) / (nodes - 1) };
        let workers = (0..nodes - 1).map(|worker| replicas + group * (nodes - 1) + worker);
        let mut hosts: Vec<NodeId> = Vec::new();
        for replica in std::iter::once(group).chain(workers) {
            let (number, phase) = self.phases[&(attempt.job, replica)];
            // Nodes may begin at different times, so a node that began earlier may already have ended.
            let is_done = self.ran.get(&(attempt.job, replica)) == Some(&attempt.number);
            if is_done && number == attempt.number && matches!(phase, Phase::Stopping | Phase::Ended) {
                return;
            }
            let claim = self.claims.get(&AttemptId { job: attempt.job, replica, number });
            assert!(
                phase.holds_claim() && number == attempt.number,
                "{attempt} begins, and node {replica} of it is {phase:?}"
            );
            hosts.extend(claim.iter().flat_map(|claim| claim.claims()).map(|claim| claim.node));
        }
        hosts.sort_unstable();
        hosts.dedup();
        assert!(
            self.shares_hosts || hosts.len() == nodes as usize,
            "{attempt} begins on fewer hosts than it has nodes"
        );
    }

    /// Asserts that an attempt does not begin on an instance that is still being provisioned.
    fn is_on_what_is_up(&self, attempt: AttemptId) {
        for claim in self.claims.get(&attempt).iter().flat_map(|own| own.claims()) {
            assert_ne!(self.nodes[claim.node.index()].1, NodeState::Joining, "{attempt} works where nothing is yet");
        }
    }

    /// Asserts that a change of state begins in the instance's current state, that an idle instance holds no claim, and
    /// that a busy instance holds one.
    fn instance_changed(&mut self, node: NodeId, from: InstanceState, to: InstanceState) {
        let known = self.instances.insert(node, to);
        assert!(known.is_none_or(|known| known == from), "an instance leaves a state that it was not in");
        let is_held = self.claims.values().any(|claim| claim.touches(node));
        assert!(to != InstanceState::Idle || !is_held, "an instance is idle, and something is there");
        assert!(to != InstanceState::Busy || is_held, "an instance is busy with nothing");
    }

    fn job_ended(&mut self, job: JobId, outcome: Outcome) {
        let account = &mut self.jobs[job.index()];
        assert!(account.outcome.is_none(), "{} ended twice", account.spec.name);
        account.outcome = Some(outcome);
        for number in 0..account.replicas {
            assert_eq!(self.phases[&(job, number)].1, Phase::Ended, "a replica outlives its job");
        }
    }

    fn ended(&mut self, attempt: AttemptId, from: Phase, kept: &[NodeId]) {
        self.leave(attempt, from, Phase::Ended);
        assert!(from.holds_claim() || kept.is_empty(), "{attempt} keeps a claim it never had");
        let gone = |node: &NodeId| self.nodes[node.index()].1 == NodeState::Gone;
        assert!(!kept.iter().any(gone), "{attempt} keeps a claim on a node that is gone");
        if from.holds_claim() {
            self.free(attempt, |node| kept.contains(&node));
        }
    }

    /// Releases the claims of an attempt on all nodes except those for which `keeps` returns true.
    fn free(&mut self, attempt: AttemptId, keeps: impl Fn(NodeId) -> bool) {
        let placement = self.claims.remove(&attempt).unwrap_or_else(|| panic!("{attempt} frees what it does not hold"));
        let (kept, free) = placement.split(keeps);
        for claim in free.claims() {
            *self.cpu_taken.get_mut(&claim.node).expect("it was taken") -= claim.cpu.get();
            let (rest, _) = unrestricted(&self.nodes[claim.node.index()].0, claim);
            *self.unrestricted_taken.get_mut(&claim.node).expect("it was taken") -= rest;
            for part in &claim.gpus {
                let gpu = GpuId { node: claim.node, index: part.index };
                *self.gpu_milli_taken.get_mut(&gpu).expect("it was taken") -= u64::from(part.share.get());
            }
        }
        if !kept.is_empty() {
            self.claims.insert(attempt, kept);
        }
    }

    fn leave(&mut self, attempt: AttemptId, from: Phase, to: Phase) {
        let known = self.phases.get_mut(&(attempt.job, attempt.replica)).expect("only what was submitted moves");
        assert_eq!(*known, (attempt.number, from), "{attempt} does not leave {from:?}");
        known.1 = to;
        if from == Phase::Running {
            self.is_watched(attempt);
            self.bound.remove(&attempt);
        }
    }

    /// Asserts that the attempt was bound by the effective policy, or by no policy if none applies to it.
    fn is_watched(&self, attempt: AttemptId) {
        if self.bound_before.contains(&attempt) {
            return;
        }
        let over = &self.jobs[attempt.job.index()].spec.utilization;
        let has_gpus =
            self.claims.get(&attempt).is_some_and(|own| own.claims().iter().any(|claim| !claim.gpus.is_empty()));
        let effective = self.utilization.and_then(|options| options.bind(over)).map(|(_, values)| values);
        let bound = self.bound.get(&attempt).copied();
        assert_eq!(bound, effective.filter(|_| has_gpus), "{attempt} did not run under the policy that holds for it");
    }

    /// Asserts that the policy that fired binds the attempt, and that the samples cover the policy's whole time window
    /// if the policy has the default rule.
    fn covered(&self, attempt: AttemptId, covered: &Coverage) {
        let policy =
            self.bound.get(&attempt).unwrap_or_else(|| panic!("{attempt} is under no policy, and one fired for it"));
        assert!(!covered.gpus.is_empty() && covered.first <= covered.last, "{attempt}: {covered:?} covers nothing");
        let length = covered.last.since(covered.first);
        let is_whole = policy.rule != UtilizationRule::Covered || length >= policy.time_window;
        assert!(is_whole, "{attempt}: {covered:?} is no whole window");
    }
}

impl Sink for Audit {
    fn input(&mut self, step: u64, at: SimTime, input: &Input) {
        assert!(at >= self.at && step >= self.step, "time or steps fell");
        (self.at, self.step) = (at, step);
        match input.declaration() {
            Some(Declaration::Node { state, spec, .. }) => self.nodes.push((Arc::clone(&spec.shape), state)),
            Some(Declaration::Job { job, spec }) => {
                assert_eq!(job.index(), self.jobs.len(), "jobs come in order of their ids");
                self.retries.submitted(spec);
                self.jobs.push(Account { spec: Arc::clone(spec), replicas: spec.replicas, outcome: None });
                for number in 0..spec.replicas {
                    self.phases.insert((job, number), (1, Phase::Pending));
                }
            }
            Some(Declaration::Fleet { .. }) | None => {}
        }
        if let Input::Fleet(FleetFact::Reconfigure { profile }) = input {
            let profile = serde_json::from_str(profile).and_then(Profile::from_data);
            self.follow(&profile.expect("the control plane has read it"));
        }
        if let Input::Fleet(FleetFact::KueueApplied { objects }) = input {
            self.flavors.apply(objects);
        }
        if let Input::Fleet(FleetFact::GpuReported { gpu, state }) = input {
            self.gpus.insert(*gpu, *state);
        }
    }

    fn event(&mut self, step: u64, at: SimTime, event: &Event) {
        assert_eq!((at, step), (self.at, self.step), "an event belongs to the inputs before it");
        match event {
            Event::NodeChanged { node, from, to, .. } => {
                assert_eq!(self.nodes[node.index()].1, *from, "a node leaves a state that it was not in");
                self.nodes[node.index()].1 = *to;
            }
            Event::GpuChanged { gpu, to, .. } => assert_eq!(self.gpus[gpu], *to),
            Event::InstanceChanged { node, from, to, .. } => self.instance_changed(*node, *from, *to),
            Event::Placed { attempt, placement, .. } => {
                let (_, phase) = self.phases[&(attempt.job, attempt.replica)];
                assert!(matches!(phase, Phase::Pending | Phase::Analysing), "{attempt} was placed while {phase:?}");
                self.leave(*attempt, phase, Phase::Scheduled);
                self.placed(*attempt, placement);
            }
            Event::Moved { attempt, from, to, .. } => {
                assert!(!to.holds_claim() || from.holds_claim(), "{attempt} holds a claim without being placed");
                if matches!(to, Phase::Preparing | Phase::Running) {
                    self.is_on_what_is_up(*attempt);
                }
                if *to == Phase::Running {
                    self.begins_whole(*attempt);
                    self.ran.insert((attempt.job, attempt.replica), attempt.number);
                }
                self.leave(*attempt, *from, *to);
            }
            Event::Ended { attempt, from, kept, .. } => self.ended(*attempt, *from, kept),
            Event::ClaimFreed { attempt, node } => {
                assert!(self.claims[attempt].touches(*node), "{attempt} frees a node that it does not hold");
                self.free(*attempt, |other| other != *node);
            }
            Event::Retry { attempt, at, because } => self.begins_again(*attempt, *at, *because),
            Event::SafetyBroken { attempt, .. } => {
                assert!(self.historic, "{attempt} broke safety under a profile that is not historic");
                self.unsafe_runs.push(*attempt);
            }
            Event::JobEnded { job, outcome, .. } => self.job_ended(*job, *outcome),
            Event::ReplicaAdded { attempt } => {
                let account = &mut self.jobs[attempt.job.index()];
                assert!(account.outcome.is_none(), "{attempt} is added to a job that has ended");
                assert_eq!((attempt.replica, attempt.number), (account.replicas, 1), "replicas are added in order");
                account.replicas += 1;
                self.phases.insert((attempt.job, attempt.replica), (1, Phase::Pending));
            }
            Event::Held { attempt, reasons, .. } => {
                assert!(!reasons.is_empty(), "{attempt} waits without a reason");
                let (number, phase) = self.phases[&(attempt.job, attempt.replica)];
                assert_eq!((number, phase), (attempt.number, Phase::Pending), "only what is pending waits");
            }
            Event::Evaluated { refusal, reasons, .. } => {
                assert_eq!(refusal.is_none(), reasons.is_empty(), "what does not fit does so for a reason");
            }
            Event::AnalysisStarted { attempt } => {
                assert!(self.jobs.len() > attempt.job.index(), "what is analysed was submitted");
            }
            Event::PolicyBound { attempt, values, .. } => {
                let phase = self.phases[&(attempt.job, attempt.replica)];
                assert_eq!(phase, (attempt.number, Phase::Running), "{attempt} is bound while it does not run");
                assert!(self.bound.insert(*attempt, *values).is_none(), "{attempt} is bound twice");
            }
            Event::PolicyFired { attempt, covered, .. } | Event::PolicyWarned { attempt, covered, .. } => {
                self.covered(*attempt, covered);
            }
            Event::SampleOdd { attempt, .. } => {
                assert!(self.bound.contains_key(attempt), "{attempt} is under no policy")
            }
            Event::Preempted { attempt, by } => {
                let holds = |attempt: &AttemptId| self.phases[&(attempt.job, attempt.replica)].1.holds_claim();
                assert!(holds(attempt) && !holds(by), "{attempt} gives way to {by}");
            }
            Event::Admitted { job, pod_sets, .. } => {
                self.flavors.admit(&self.jobs[job.index()].spec, pod_sets);
            }
            Event::NotAdmitted { job, .. } | Event::Evicted { job, .. } => {
                assert!(self.jobs.len() > job.index(), "Kueue decides about a job that was submitted");
            }
            Event::CommitRefused { .. } | Event::DeadlineExpired { .. } => {}
        }
    }
}
