//! The states of jobs, nodes and GPUs, computed from the records of a run.

use std::collections::{BTreeMap, BTreeSet};

use dryrack_event::{Declaration, Event, Histogram, Input, Outcome, Phase, Reason};
use dryrack_fleet::{GpuState, InstanceState, NodeClaim, NodeState, Placement};
use dryrack_ids::{AttemptId, FleetId, GpuId, JobId, Names, NodeId};

use super::expectation::{BlockCount, State, Subject};

/// The current state of each subject. It knows only the records that it was given. A judge passes on only the records
/// of jobs that it watches.
#[derive(Default)]
pub struct Fold {
    jobs: BTreeMap<JobId, JobFold>,
    nodes: Nodes,
    /// Fleets whose instances are created by a cloud.
    clouds: BTreeSet<FleetId>,
    /// The replicas that are placed on each node. `None` if no expectation needs this.
    holders: Option<BTreeMap<NodeId, BTreeSet<(JobId, u32)>>>,
}

type Nodes = BTreeMap<NodeId, NodeFold>;

struct JobFold {
    replicas: Vec<ReplicaFold>,
    /// The outcome of the whole job and its reason. Set once the job has ended for good.
    ended: Option<(Outcome, Reason)>,
}

struct ReplicaFold {
    attempt: u32,
    phase: Phase,
    claim: Option<Placement>,
    /// The last reasons that were given for the replica, in a `Held`, `CommitRefused`, `Moved`, `Ended` or `Retry`. A
    /// placement clears them.
    reasons: Histogram,
    /// How the replica's last attempt ended.
    outcome: Option<Outcome>,
    /// The attempt for which this replica was preempted.
    gave_way_to: Option<AttemptId>,
    /// Whether the replica still belongs to its job. False for a replica that scaling down removed, so that "all
    /// replicas" excludes it.
    is_wanted: bool,
}

struct NodeFold {
    state: NodeState,
    /// The state of the instance, if a cloud creates it.
    instance: Option<InstanceState>,
    gpus: Vec<GpuState>,
    /// The number of blocks, if the node is an instance that is split.
    blocks: Option<u32>,
}

/// The condition for which a subject is checked.
#[derive(Clone, Copy, Debug)]
pub struct StateCondition<'e> {
    pub state: State,
    /// The jobs whose replicas count for a node. `None` means all jobs.
    pub of: Option<&'e [JobId]>,
    pub on: Option<NodeId>,
    /// The number of blocks of the node that the replica holds.
    pub blocks: Option<BlockCount>,
    pub because: Option<Reason>,
}

impl Fold {
    /// Takes declarations. All other inputs are only reports: what the control plane concludes from them are events.
    pub fn input(&mut self, input: &Input) {
        match input.declaration() {
            Some(Declaration::Job { job, spec }) => {
                let replicas = (0..spec.replicas).map(|_| ReplicaFold::new()).collect();
                let known = self.jobs.insert(job, JobFold { replicas, ended: None });
                assert!(known.is_none(), "{} was submitted twice", spec.name);
            }
            Some(Declaration::Node { node, state, spec }) => {
                let gpus = vec![GpuState::Ready; spec.shape.gpus.len()];
                let of = spec.shape.instance.as_ref();
                let is_made = of.is_some_and(|of| self.clouds.contains(&of.fleet));
                let blocks = of.and_then(|of| of.total_blocks);
                let instance = is_made.then(|| InstanceState::of(state));
                let known = self.nodes.insert(node, NodeFold { state, instance, gpus, blocks });
                assert!(known.is_none(), "{} was declared twice", spec.name);
            }
            Some(Declaration::Fleet { fleet, spec }) if spec.cloud.is_some() => {
                self.clouds.insert(fleet);
            }
            Some(Declaration::Fleet { .. }) | None => {}
        }
    }

    /// Keeps track of the replicas on each node from now on.
    pub fn follow_holders(&mut self) {
        self.holders.get_or_insert_default();
    }

    /// The nodes on which an attempt is placed now.
    pub fn places(&self, attempt: AttemptId) -> Vec<NodeId> {
        let replica = self.jobs.get(&attempt.job).and_then(|job| job.replicas.get(attempt.replica as usize));
        let claim = replica.filter(|replica| replica.phase.holds_claim()).and_then(|replica| replica.claim.as_ref());
        claim.into_iter().flat_map(|claim| claim.claims()).map(|claim| claim.node).collect()
    }

    pub fn event(&mut self, event: &Event) {
        let Some(attempt) = event.attempt().filter(|_| self.holders.is_some()) else { return self.apply(event) };
        let before = self.places(attempt);
        self.apply(event);
        let after = self.places(attempt);
        if let Some(holders) = self.holders.as_mut().filter(|_| before != after) {
            for node in before {
                holders.entry(node).or_default().remove(&(attempt.job, attempt.replica));
            }
            for node in after {
                holders.entry(node).or_default().insert((attempt.job, attempt.replica));
            }
        }
    }

    /// The replicas of these jobs that are placed on a node.
    fn holders(&self, node: NodeId, of: Option<&[JobId]>) -> impl Iterator<Item = (JobId, u32)> {
        let on_node = self.holders.iter().filter_map(move |holders| holders.get(&node)).flatten().copied();
        on_node.filter(move |(job, _)| of.is_none_or(|jobs| jobs.contains(job)))
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::NodeChanged { node, to, .. } => self.nodes.get_mut(node).expect("declared before").state = *to,
            Event::InstanceChanged { node, to, .. } => {
                self.nodes.get_mut(node).expect("declared before").instance = Some(*to);
            }
            Event::GpuChanged { gpu, to, .. } => {
                let node = self.nodes.get_mut(&gpu.node).expect("declared before");
                node.gpus[usize::from(gpu.index)] = *to;
            }
            Event::Held { attempt, reasons, .. } => self.replica(*attempt).reasons = reasons.clone(),
            Event::Placed { attempt, placement, .. } => {
                let replica = self.replica(*attempt);
                replica.phase = Phase::Scheduled;
                replica.claim = Some(placement.clone());
                replica.reasons = Histogram::default();
                replica.gave_way_to = None;
            }
            Event::AnalysisStarted { .. } => {}
            Event::Admitted { .. } | Event::NotAdmitted { .. } | Event::Evicted { .. } => {}
            Event::Preempted { attempt, by } => self.replica(*attempt).gave_way_to = Some(*by),
            Event::CommitRefused { attempt, because, .. } => {
                self.replica(*attempt).reasons = Histogram::of(*because, 1)
            }
            Event::Moved { attempt, to, because, .. } => {
                let replica = self.replica(*attempt);
                replica.phase = *to;
                if let Some(reason) = because {
                    replica.reasons = Histogram::of(*reason, 1);
                }
                if !to.holds_claim() {
                    replica.claim = None;
                }
            }
            Event::Ended { attempt, outcome, because, kept, .. } => {
                let replica = self.replica(*attempt);
                replica.phase = Phase::Ended;
                replica.outcome = Some(*outcome);
                replica.is_wanted = *because != Reason::ScaledDown;
                match because {
                    // The reasons for this refusal were given just before. Keep them and add this one.
                    Reason::PickRefused | Reason::NeverFits => replica.reasons.add(*because, 1),
                    _ => replica.reasons = Histogram::of(*because, 1),
                }
                let claim = replica.claim.take();
                let remains = claim.map(|claim| claim.split(|node| kept.contains(&node)).0);
                replica.claim = remains.filter(|claim| !claim.is_empty());
            }
            Event::ClaimFreed { attempt, node } => {
                // The claim may belong to an earlier attempt instead of the current one.
                let replica = self.replica(*attempt);
                if replica.attempt == attempt.number {
                    let remains = replica.claim.take().map(|claim| claim.split(|other| other != *node).0);
                    replica.claim = remains.filter(|claim| !claim.is_empty());
                }
            }
            Event::Retry { attempt, because, .. } => {
                let replica = self.replica(*attempt);
                replica.attempt = attempt.number;
                replica.phase = Phase::Pending;
                replica.claim = None;
                replica.reasons = Histogram::of(*because, 1);
            }
            Event::JobEnded { job, outcome, because } => {
                self.jobs.get_mut(job).expect("submitted before").ended = Some((*outcome, *because));
            }
            Event::ReplicaAdded { attempt } => {
                self.jobs.get_mut(&attempt.job).expect("submitted before").replicas.push(ReplicaFold::new());
            }
            Event::DeadlineExpired { .. }
            | Event::SafetyBroken { .. }
            | Event::Evaluated { .. }
            | Event::PolicyBound { .. }
            | Event::PolicyFired { .. }
            | Event::PolicyWarned { .. }
            | Event::SampleOdd { .. } => {}
        }
    }

    fn replica(&mut self, attempt: AttemptId) -> &mut ReplicaFold {
        let job = self.jobs.get_mut(&attempt.job);
        let replica = job.and_then(|job| job.replicas.get_mut(attempt.replica as usize));
        replica.unwrap_or_else(|| panic!("an event names {attempt}, which was never submitted"))
    }

    /// The claim that the attempt holds, or that was kept after its end.
    pub fn placement(&self, attempt: AttemptId) -> Option<&Placement> {
        self.jobs.get(&attempt.job)?.replicas.get(attempt.replica as usize)?.claim.as_ref()
    }

    pub fn exists(&self, subject: Subject) -> bool {
        match subject {
            Subject::Job(job) => self.jobs.contains_key(&job),
            Subject::Node(node) => self.nodes.contains_key(&node),
            Subject::Gpu(gpu) => self.gpu(gpu).is_some(),
        }
    }

    /// The first replica of a job that is in the state, or that is not in it if `is_in_it` is false.
    pub fn first_replica(&self, subject: Subject, sought: &StateCondition<'_>, is_in_it: bool) -> Option<u32> {
        let Subject::Job(job) = subject else { return None };
        let mut replicas = self.jobs.get(&job)?.replicas.iter();
        let place = replicas.position(|replica| replica.is_wanted && replica.is(sought, &self.nodes) == is_in_it);
        place.map(|place| place as u32)
    }

    fn gpu(&self, gpu: GpuId) -> Option<GpuState> {
        self.nodes.get(&gpu.node)?.gpus.get(usize::from(gpu.index)).copied()
    }

    /// Whether the subject is in the state. For a job, at least `replicas` of its replicas must be in the state. If
    /// `replicas` is `None`, all of them must be, and there must be at least one. Returns false if the state does not
    /// apply to the subject.
    pub fn is(&self, subject: Subject, sought: &StateCondition<'_>, replicas: Option<u32>) -> bool {
        match (subject, sought.state) {
            (Subject::Node(node), State::Node(state)) => {
                self.nodes.get(&node).is_some_and(|known| known.state == state)
            }
            (Subject::Node(node), State::Instance(state)) => {
                self.nodes.get(&node).is_some_and(|known| known.instance == Some(state))
            }
            (Subject::Node(node), State::Holding(count)) => count.holds(self.holders(node, sought.of).count() as u64),
            (Subject::Gpu(gpu), State::Gpu(state)) => self.gpu(gpu) == Some(state),
            (Subject::Job(job), _) => self.jobs.get(&job).is_some_and(|job| job.is(sought, replicas, &self.nodes)),
            (Subject::Node(_) | Subject::Gpu(_), _) => false,
        }
    }

    /// The number and the names of these jobs' replicas on a node, such as `holding 2 replicas: chat, train[1]`.
    pub fn describe_holders(&self, node: NodeId, of: Option<&[JobId]>, names: &Names) -> String {
        let holders: Vec<String> = self.holders(node, of).map(|(job, number)| names.replica(job, number)).collect();
        match holders.as_slice() {
            [] => "holding no replica".to_string(),
            [one] => format!("holding {one}"),
            [shown @ .., _] if shown.len() >= 4 => {
                format!("holding {} replicas, among them {}", holders.len(), shown[..3].join(", "))
            }
            all => format!("holding {} replicas: {}", all.len(), all.join(", ")),
        }
    }

    /// The state of the subject in words, such as `running on alpha` or
    /// `2 running on alpha, beta and 1 pending (queue_order)`.
    pub fn describe(&self, subject: Subject, names: &Names) -> String {
        match subject {
            Subject::Node(node) => self.nodes.get(&node).map_or_else(absent, NodeFold::describe),
            Subject::Gpu(gpu) => self.gpu(gpu).map_or_else(absent, |state| gpu_state_name(state).to_string()),
            Subject::Job(job) => self.jobs.get(&job).map_or_else(absent, |job| job.describe(names, &self.nodes)),
        }
    }
}

impl NodeFold {
    fn describe(&self) -> String {
        match self.instance {
            None => node_state_name(self.state).to_string(),
            Some(instance) => format!("{} ({})", node_state_name(self.state), instance.name()),
        }
    }
}

fn absent() -> String {
    "not there".to_string()
}

impl JobFold {
    fn is(&self, sought: &StateCondition<'_>, replicas: Option<u32>, nodes: &Nodes) -> bool {
        // An outcome applies to the whole job, unless the expectation gives a number of replicas.
        if let (State::Outcome(outcome), None) = (sought.state, replicas) {
            let so = |(ended, because)| {
                ended == outcome && sought.because.is_none_or(|reason| because == reason || self.says(reason))
            };
            return self.ended.is_some_and(so);
        }
        let all = self.replicas.iter().filter(|replica| replica.is_wanted).count();
        let least = replicas.map_or(all.max(1), |least| least as usize);
        self.replicas.iter().filter(|replica| replica.is_wanted && replica.is(sought, nodes)).count() >= least
    }

    fn says(&self, reason: Reason) -> bool {
        self.replicas.iter().any(|replica| replica.reasons.contains(reason))
    }

    fn describe(&self, names: &Names, nodes: &Nodes) -> String {
        if let Some((outcome, because)) = self.ended {
            return match because.name() == outcome.name() {
                true => outcome.name().to_string(),
                false => format!("{} ({because})", outcome.name()),
            };
        }
        let mut groups: Vec<(String, usize)> = Vec::new();
        for replica in self.replicas.iter().filter(|replica| replica.is_wanted) {
            let text = replica.describe(names, nodes);
            match groups.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => groups.push((text, 1)),
            }
        }
        match groups.as_slice() {
            [] => "without replicas".to_string(),
            [(text, _)] => text.clone(),
            groups => {
                let parts: Vec<String> = groups.iter().map(|(text, count)| format!("{count} {text}")).collect();
                parts.join(" and ")
            }
        }
    }
}

impl ReplicaFold {
    fn new() -> ReplicaFold {
        ReplicaFold {
            attempt: 1,
            phase: Phase::Pending,
            claim: None,
            reasons: Histogram::default(),
            outcome: None,
            gave_way_to: None,
            is_wanted: true,
        }
    }

    fn is(&self, sought: &StateCondition<'_>, nodes: &Nodes) -> bool {
        let state = match sought.state {
            State::Phase(phase) => self.phase == phase,
            State::Placed => self.phase.holds_claim(),
            State::Outcome(outcome) => self.phase == Phase::Ended && self.outcome == Some(outcome),
            State::Node(_) | State::Instance(_) | State::Gpu(_) | State::Holding(_) => false,
        };
        let holds = |node: NodeId, blocks: Option<BlockCount>| {
            let held = self.blocks_of(node);
            let total = nodes.get(&node).and_then(|known| known.blocks);
            held.is_some_and(|held| match blocks {
                None => true,
                Some(BlockCount::All) => total == Some(held),
                Some(BlockCount::Some(comparison)) => comparison.holds(held.into()),
            })
        };
        let on = |node| holds(node, sought.blocks);
        state && sought.on.is_none_or(on) && sought.because.is_none_or(|reason| self.reasons.contains(reason))
    }

    /// The number of blocks of a node that the replica holds. `None` if it holds nothing there.
    fn blocks_of(&self, node: NodeId) -> Option<u32> {
        let here = self.claim.as_ref()?.claims().iter().find(|part| part.node == node)?;
        Some(here.blocks.len() as u32)
    }

    fn describe(&self, names: &Names, nodes: &Nodes) -> String {
        let mut text = self.phase.name().to_string();
        if let Some(claim) = &self.claim {
            let show = |part: &NodeClaim| match nodes.get(&part.node).and_then(|known| known.blocks) {
                Some(total) if total > 1 => {
                    format!("{} ({} of {total} blocks)", names.node(part.node), part.blocks.len())
                }
                Some(_) | None => names.node(part.node).to_string(),
            };
            let shown: Vec<String> = claim.claims().iter().take(3).map(show).collect();
            let more = claim.claims().len() - shown.len();
            text.push_str(if self.phase == Phase::Ended { " but still holding " } else { " on " });
            text.push_str(&shown.join(", "));
            if more > 0 {
                text.push_str(&format!(" and {more} more"));
            }
        }
        if !self.reasons.is_empty() {
            let described = |reason: Reason| match (reason, self.gave_way_to) {
                (Reason::Preempted, Some(by)) => format!("{} by {}", reason.name(), names.attempt(by)),
                _ => reason.name().to_string(),
            };
            let reasons: Vec<String> = self.reasons.iter().map(|(reason, _)| described(reason)).collect();
            text.push_str(&format!(" ({})", reasons.join(", ")));
        }
        text
    }
}

/// The name of a node's state in files.
pub fn node_state_name(state: NodeState) -> &'static str {
    match state {
        NodeState::Joining => "joining",
        NodeState::Ready => "ready",
        NodeState::NotReady => "not_ready",
        NodeState::Unreachable => "unreachable",
        NodeState::Maintenance => "maintenance",
        NodeState::Gone => "gone",
    }
}

/// The name of a GPU's state in files.
pub fn gpu_state_name(state: GpuState) -> &'static str {
    match state {
        GpuState::Ready => "ready",
        GpuState::Degraded => "degraded",
        GpuState::Draining => "draining",
        GpuState::Failed => "failed",
        GpuState::Unknown => "unknown",
    }
}
