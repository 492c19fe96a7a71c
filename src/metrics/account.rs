//! The accounts of a run, computed from its records.
//!
//! Claims are added at `Placed` and subtracted at `Ended` or `ClaimFreed`. These are the same sums that the ledger
//! keeps, but computed from the log alone. So a claim that is released twice, or a transition from the wrong phase,
//! causes a panic here.

mod begin;
mod estimates;
mod unfinished;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::blame::{Blame, WaitAccount};
use super::finished::FinishedReplicas;
use super::fragment_account::FragmentAccount;
use super::load::{LoadAccount, Sample};
use super::node_account::{NodeAccount, Rates};
use super::service_account::ServiceAccount;
use super::unplaceable::UnplaceableAccount;
use super::usage_account::{Held, SavedAccount, UsageAccount, gpu_parts, is_failure};
use super::{JobAccount, JobFigures, OutsideAccount, ReplicaAccount, Row};
use dryrack_event::{Declaration, Event, Input, Outcome, Phase, Reason, Sink, UsageFact};
use dryrack_fleet::{Electricity, InstanceState, NodeState, Placement};
use dryrack_ids::{AttemptId, GpuId, JobId, Names, NodeId, Records};
use dryrack_units::SimTime;
use dryrack_workload::{JobBehavior, JobSpec, Speed, UtilizationPolicy};
pub use estimates::PAST_ESTIMATE;
pub use unfinished::RunRange;
use waiting::{charge, charge_own};

/// The largest number of nodes for which the accounts record when each attempt was on which GPU. The timeline shows
/// this for each GPU.
const STINT_NODES: usize = 12;
/// The largest number of recorded stints. A longer timeline would not be readable.
const STINTS: usize = 20_000;

#[derive(Default)]
pub struct RunAccount {
    /// All jobs; in accounts for figures only, just the jobs that have not ended.
    pub jobs: Records<JobAccount>,
    /// Jobs that have ended, in compact form. Used only in accounts for figures only.
    finished: FinishedReplicas,
    /// Whether these are accounts for figures only.
    pub figures_only: bool,
    pub nodes: Vec<NodeAccount>,
    pub names: Names,
    pub retries: u64,
    pub outside: OutsideAccount,
    pub deadlines_expired: u64,
    pub safety_broken: u64,
    pub policies_fired: u64,
    pub policies_warned: u64,
    /// The number of instances of clouds that existed: those that the warm-up left, and those requested after it.
    pub instances_made: u64,
    /// The instances of clouds and their GPUs that exist now, and the most of each at one time.
    instances: (u64, u64),
    pub instances_most: (u64, u64),
    /// The number of instances that a cloud took away while they were up.
    pub instances_taken: u64,
    /// The number of attempts that were stopped for another job, or that ended because a cloud took their instance
    /// away.
    pub preemptions: u64,
    /// The time at which the scenario stops the run, if it does.
    until: Option<SimTime>,
    /// The end of the warm-up. Metrics ignore everything before this time, and jobs that were submitted before it.
    pub warm_up: SimTime,
    /// The requests to all services, also in the warm-up; 0 if a service has a closed loop of clients.
    pub requests: u64,
    pub usage: UsageAccount,
    pub saved: SavedAccount,
    pub fragments: FragmentAccount,
    /// The requests of each service for language models.
    pub services: BTreeMap<JobId, ServiceAccount>,
    /// The number of replicas that were refused or never fit, by the leading reason of their last decision.
    pub turned_away: BTreeMap<(Outcome, Reason), u64>,
    /// The real behavior of each job, if it is known.
    behaviors: Vec<Arc<JobBehavior>>,
    /// Jobs that could never have been placed.
    pub unplaceable: UnplaceableAccount,
    /// Whether any node states its power draw.
    states_power: bool,
    /// The name of the currency of all prices, and what electricity costs and emits, if the scenario states them.
    pub currency: Option<Arc<str>>,
    pub electricity: Option<Arc<Electricity>>,
    /// The utilization policy of each bound attempt.
    policies: BTreeMap<AttemptId, UtilizationPolicy>,
    /// Nodes whose instance a cloud took away and whose attempts may not have ended yet.
    taken: BTreeSet<NodeId>,
    /// What attempts held that were lost at this instant, on nodes of which it is not known yet whether they were taken away.
    lost: Vec<(SimTime, Placement)>,
    is_warm: bool,
    /// For each fleet, whether it creates its instances on demand.
    clouds: Vec<bool>,
    pub records: u64,
    /// The number of records that are events.
    pub events: u64,
    /// The number of `JobEnded` records by outcome. It is counted independently of the states of the jobs.
    pub ended: [u64; Outcome::ALL.len()],
    pub waits: WaitAccount,
    /// The totals after each instant in which they changed.
    pub samples: Vec<Sample>,
    pub stints: Vec<Stint>,
    /// The share of the GPUs that was taken, as a function of the total GPU demand so far.
    pub load: LoadAccount,
    kept: BTreeMap<AttemptId, (Placement, SimTime)>,
    current: Current,
    pub now: SimTime,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Current {
    waiting: u64,
    gpu_taken: u64,
    cpu_taken: u64,
    gpu_ready: u64,
}

/// The stay of one attempt on one GPU, or on a node without GPUs.
#[derive(Clone, Copy, Debug)]
pub struct Stint {
    pub node: NodeId,
    pub gpu: Option<u16>,
    pub job: JobId,
    pub from: SimTime,
    /// When the attempt left. `None` if it was still there at the end.
    pub to: Option<SimTime>,
}

impl RunAccount {
    /// Closes the accounts at the end of the run. Capacity that is still held counts as held until this time.
    pub fn finish(&mut self, end: SimTime) {
        self.settle(self.now.max(end));
        for node in &mut self.nodes {
            node.settle(self.now);
        }
        let still_held: Vec<(AttemptId, Placement, SimTime)> = (self.replicas())
            .filter(|(_, _, replica)| replica.holding)
            .filter_map(|(attempt, _, replica)| Some((attempt, replica.placement.clone()?, replica.placed_last)))
            .chain(self.kept.iter().map(|(attempt, (placement, since))| (*attempt, placement.clone(), *since)))
            .collect();
        for (attempt, placement, since) in &still_held {
            let ended = self.replica(*attempt).ended;
            self.spend(*attempt, placement, *since, ended);
        }
        for (attempt, (placement, since)) in &self.kept {
            note_stints(&mut self.stints, self.nodes.len(), *attempt, placement, *since, None);
        }
        self.finished.sort();
        for id in self.jobs.numbers() {
            self.unplaceable.add(&self.jobs[id], self.warm_up);
            let job = &mut self.jobs[id];
            for (number, replica) in job.replicas.iter_mut().enumerate() {
                if is_waiting(replica.phase) {
                    charge(&mut self.waits, &job.spec, replica, self.now);
                    self.waits.again.open += u64::from(replica.placed.is_some());
                }
                charge_own(&mut self.waits, &job.spec, replica);
                if replica.holding {
                    let attempt = AttemptId { job: JobId::new(id), replica: number as u32, number: replica.attempt };
                    let placement = replica.placement.as_ref().expect("what holds was placed");
                    if !self.figures_only {
                        note_stints(&mut self.stints, self.nodes.len(), attempt, placement, replica.placed_last, None);
                    }
                }
            }
        }
        self.unplaceable.name(&self.nodes);
    }

    /// Whether the node is an instance that its fleet's cloud has created.
    pub fn is_made(&self, node: &NodeAccount) -> bool {
        let fleet = node.spec.shape.instance.as_ref().map(|instance| instance.fleet);
        fleet.is_some_and(|fleet| self.clouds.get(fleet.index()).copied().unwrap_or(false))
    }

    /// Whether any job has not ended for good.
    pub fn is_anything_left(&self) -> bool {
        self.ended.iter().sum::<u64>() < self.jobs.len() as u64
    }

    pub fn replicas(&self) -> impl Iterator<Item = (AttemptId, &JobAccount, &ReplicaAccount)> {
        self.jobs.iter().flat_map(|(id, job)| {
            job.replicas.iter().enumerate().map(move |(number, replica)| {
                let attempt = AttemptId { job: JobId::new(id), replica: number as u32, number: replica.attempt };
                (attempt, job, replica)
            })
        })
    }

    fn arrive(&mut self, at: SimTime) {
        self.records += 1;
        if !self.is_warm && self.warm_up == SimTime::ZERO {
            self.is_warm = true;
        }
        if at > self.now {
            self.settle(at);
        }
    }

    /// Closes the current instant; `at` is the next one.
    fn settle(&mut self, at: SimTime) {
        self.sample();
        self.load.settle(self.current.gpu_taken);
        self.fragments.settle(&self.nodes);
        if !self.is_warm && at >= self.warm_up {
            self.begin();
        }
        self.waits.pass(&self.nodes, self.now.max(self.warm_up).min(at), at);
        let (instances, gpus) = self.instances;
        self.instances_most = (self.instances_most.0.max(instances), self.instances_most.1.max(gpus));
        self.fragments.pass(at);
        self.now = at;
    }

    /// Ends the warm-up: resets everything that was counted before.
    fn begin(&mut self) {
        self.is_warm = true;
        let at = self.warm_up;
        for node in &mut self.nodes {
            node.settle(at);
            node.forget();
        }
        self.fragments.pass(at);
        self.fragments.forget();
        (self.retries, self.deadlines_expired, self.safety_broken) = (0, 0, 0);
        self.outside.begin();
        (self.policies_fired, self.policies_warned) = (0, 0);
        (self.instances_made, self.instances_taken, self.preemptions) = (self.instances.0, 0, 0);
        self.instances_most = (0, 0);
        self.usage = UsageAccount::default();
        self.saved = SavedAccount::default();
        self.turned_away.clear();
        self.waits.forget();
        for id in self.jobs.numbers() {
            let job = &mut self.jobs[id];
            job.failures = 0;
            for replica in &mut job.replicas {
                replica.waiting_since = replica.waiting_since.max(at);
                replica.own_waits.iter_mut().for_each(|own| own.charged.clear());
            }
        }
    }

    /// The replicas of jobs that were submitted after the warm-up.
    pub fn counted(&self) -> impl Iterator<Item = (AttemptId, &JobAccount, &ReplicaAccount)> {
        self.replicas().filter(|(_, job, _)| self.counts(job))
    }

    /// A sentence about the jobs that can never run, also those that were submitted before the end of the warm-up. `None`
    /// if there are none.
    pub fn never_run(&self) -> Option<String> {
        self.unplaceable.sentence(self.job_rows().count() as u64)
    }

    /// The number of jobs that were submitted after the warm-up.
    pub fn submitted(&self) -> u64 {
        self.job_rows().filter(|job| job.submitted >= self.warm_up).count() as u64
    }

    pub fn counts(&self, job: &JobAccount) -> bool {
        job.submitted >= self.warm_up
    }

    /// Adds the GPU usage of an attempt from `since` up to now, on the nodes of `placement`.
    fn spend(&mut self, attempt: AttemptId, placement: &Placement, since: SimTime, ended: Option<SimTime>) {
        let behavior = self
            .behaviors
            .get(attempt.job.index())
            .filter(|behavior| behavior.usage.is_some())
            .map(|behavior| &**behavior);
        if behavior.is_none() && !self.states_power {
            return;
        }
        let replica = &self.jobs[attempt.job.index()].replicas[attempt.replica as usize];
        let from = since.max(self.warm_up);
        let started = replica.last_started.filter(|started| *started >= since);
        let ran = started.map(|started| (started, ended.unwrap_or(self.now)));
        let mut gpus_before = 0;
        // `placement` may be only a part of the attempt's placement. The attempt's GPUs are numbered over the whole
        // placement.
        let whole = replica.placement.as_ref().unwrap_or(placement);
        for claim in whole.claims() {
            if placement.touches(claim.node) && from < self.now {
                let shape = &self.nodes[claim.node.index()].spec.shape;
                let held = Held { claim, shape, gpus_before, from, to: self.now, ran };
                self.usage.add(behavior, &held, self.electricity.as_deref());
            }
            gpus_before += claim.gpus.len();
        }
    }

    /// Adds the GPU time that was saved because a utilization policy ended this attempt.
    fn save(&mut self, attempt: AttemptId) {
        // If the attempt resumed from a checkpoint, its remaining time is unknown, because records do not say how much
        // work was done before.
        let behavior = self
            .behaviors
            .get(attempt.job.index())
            .filter(|behavior| attempt.number == 1 || behavior.checkpoint.is_none());
        let (Some(behavior), Some(policy)) = (behavior, self.policies.get(&attempt)) else {
            self.saved.ended += 1;
            self.saved.unknown += 1;
            return;
        };
        let replica = &self.jobs[attempt.job.index()].replicas[attempt.replica as usize];
        let claims = replica.placement.as_ref().map_or(&[][..], |placement| placement.claims());
        let of = |claim: &dryrack_fleet::NodeClaim| {
            gpu_parts(claim, &self.nodes[claim.node.index()].spec.shape).collect::<Vec<u64>>()
        };
        let parts: Vec<u64> = claims.iter().flat_map(of).collect();
        let after = replica.last_started.map_or(dryrack_units::SimDuration::ZERO, |started| self.now.since(started));
        let speeds = self.jobs[attempt.job.index()].spec.demand.speeds.as_ref();
        let shape_of = |node: dryrack_ids::NodeId| &*self.nodes[node.index()].spec.shape;
        let speed = speeds
            .zip(replica.placement.as_ref())
            .map_or(Speed::ONE, |(speeds, placement)| speeds.slowest(placement.gpu_models(shape_of)));
        let whole = behavior.run.map(|work| speed.time(work));
        self.saved.add((behavior, whole), policy, &parts, after);
    }

    fn sample(&mut self) {
        let Current { waiting, gpu_taken, cpu_taken, gpu_ready } = self.current;
        let sample = Sample { at: self.now, waiting, gpu_taken, cpu_taken, gpu_ready };
        let changed = self.samples.last().is_none_or(|last| Sample { at: self.now, ..*last } != sample);
        if changed && !self.figures_only {
            self.samples.push(sample);
        }
    }

    fn replica(&mut self, attempt: AttemptId) -> &mut ReplicaAccount {
        let job = self.jobs.get_mut(attempt.job.index());
        let replica = job.and_then(|job| job.replicas.get_mut(attempt.replica as usize));
        replica.unwrap_or_else(|| panic!("an event names {attempt}, which was never submitted"))
    }

    fn on_node(&mut self, node: NodeId, change: impl FnOnce(&mut NodeAccount)) {
        self.fragments.touch(node);
        self.waits.touch(node, Some(&self.nodes[node.index()]));
        let node = &mut self.nodes[node.index()];
        let before = node.current();
        change(node);
        self.current.follow(before, node.current());
    }

    /// Counts the node if it is an instance that is created or goes away.
    fn count_instance(&mut self, node: NodeId, to: NodeState) {
        let account = &self.nodes[node.index()];
        if !self.is_made(account) {
            return;
        }
        let gpus = account.gpu_count() as u64;
        let (instances, all) = self.instances;
        match (account.state == NodeState::Gone, to == NodeState::Gone) {
            (true, false) => self.instances = (instances + 1, all + gpus),
            (false, true) => self.instances = (instances.saturating_sub(1), all.saturating_sub(gpus)),
            (true, true) | (false, false) => {}
        }
    }

    fn take(&mut self, placement: &Placement) {
        let now = self.now;
        for claim in placement.claims() {
            self.on_node(claim.node, |node| node.take(now, claim));
        }
    }

    fn release(&mut self, attempt: AttemptId, placement: &Placement, since: SimTime) {
        let now = self.now;
        let ended = self.replica(attempt).ended;
        self.spend(attempt, placement, since, ended);
        for claim in placement.claims() {
            self.on_node(claim.node, |node| node.release(now, claim));
        }
        if !self.figures_only {
            note_stints(&mut self.stints, self.nodes.len(), attempt, placement, since, Some(now));
        }
    }

    fn enter(&mut self, attempt: AttemptId, to: Phase) {
        let from = self.replica(attempt).phase;
        assert!(from != Phase::Ended, "{attempt} goes from ended to {}", to.name());
        self.replica(attempt).phase = to;
        self.current.waiting -= u64::from(is_waiting(from));
        self.current.waiting += u64::from(is_waiting(to));
    }

    fn submit(&mut self, job: JobId, spec: &Arc<JobSpec>) {
        assert_eq!(job.index(), self.jobs.len(), "jobs are submitted in the order of their ids");
        if !self.figures_only {
            self.names.jobs.add_new(Arc::clone(&spec.name));
        }
        let replicas = (0..spec.replicas).map(|_| ReplicaAccount::new(self.now)).collect();
        self.current.waiting += u64::from(spec.replicas);
        self.load.add_demand(&spec.demand, spec.replicas);
        self.jobs.push(JobAccount {
            spec: Arc::clone(spec),
            submitted: self.now,
            replicas,
            outcome: None,
            failures: 0,
        });
    }

    /// Moves a job to the compact form if it has ended and holds nothing. Does so only in accounts for figures only.
    fn job_may_be_over(&mut self, job: JobId) {
        let account = &self.jobs[job.index()];
        let of_job = AttemptId { job, replica: 0, number: 0 }..=AttemptId { job, replica: u32::MAX, number: u32::MAX };
        let Some(outcome) = account.outcome.filter(|_| self.figures_only && !account.replicas.is_empty()) else {
            return;
        };
        if account.replicas.iter().any(ReplicaAccount::is_cut_off) {
            // Whether it could run is found out at the end.
            return;
        }
        if self.kept.range(of_job).next().is_none() {
            let mut account = self.jobs.drop_one(job.index(), 0);
            let JobAccount { spec, replicas, .. } = &mut account;
            replicas.iter_mut().for_each(|replica| charge_own(&mut self.waits, spec, replica));
            self.unplaceable.add(&account, self.warm_up);
            self.finished.add(job, &account, outcome);
        }
    }

    fn place(&mut self, attempt: AttemptId, placement: &Placement) {
        let now = self.now;
        self.charge_wait(attempt);
        self.take(placement);
        self.enter(attempt, Phase::Scheduled);
        let replica = self.replica(attempt);
        assert!(!replica.holding, "{attempt} is placed where it already has a place");
        assert_eq!(replica.attempt, attempt.number, "{attempt} is placed, which is not its last attempt");
        replica.placed.get_or_insert(now);
        replica.placed_last = now;
        replica.placement = Some(placement.clone());
        replica.holding = true;
        replica.reason = None;
        replica.never = None;
        replica.blame = None;
        let job = &mut self.jobs[attempt.job.index()];
        charge_own(&mut self.waits, &job.spec, &mut job.replicas[attempt.replica as usize]);
    }

    fn end(&mut self, attempt: AttemptId, outcome: Outcome, because: Reason, kept: &[NodeId]) {
        let now = self.now;
        if is_waiting(self.replica(attempt).phase) {
            self.charge_wait(attempt);
        }
        self.enter(attempt, Phase::Ended);
        if matches!(outcome, Outcome::NeverFits | Outcome::Refused) {
            let led = self.replica(attempt).reason.unwrap_or(because);
            *self.turned_away.entry((outcome, led)).or_default() += 1;
        }
        self.jobs[attempt.job.index()].failures += u64::from(is_failure(outcome, because));
        if because == Reason::UtilizationPolicy {
            self.save(attempt);
        }
        self.policies.remove(&attempt);
        let placement = self.jobs[attempt.job.index()].replicas[attempt.replica as usize].placement.as_ref();
        let is_taken = placement.is_some_and(|placement| self.taken.iter().any(|node| placement.touches(*node)));
        let is_preempted = because == Reason::Preempted || (outcome == Outcome::Lost && is_taken);
        self.preemptions += u64::from(is_preempted);
        if outcome == Outcome::Lost && !is_preempted {
            self.lost.retain(|(at, _)| *at == now);
            let placement = self.jobs[attempt.job.index()].replicas[attempt.replica as usize].placement.clone();
            self.lost.extend(placement.map(|placement| (now, placement)));
        }
        let replica = &mut self.jobs[attempt.job.index()].replicas[attempt.replica as usize];
        if replica.placed.is_none() {
            replica.waited_for = replica.reason;
        }
        replica.ended = Some(now);
        replica.outcome = Some(outcome);
        replica.reason = Some(because);
        let since = replica.placed_last;
        let held = std::mem::take(&mut replica.holding);
        assert!(held || kept.is_empty(), "{attempt} keeps a claim it does not have");
        if held {
            let mut free = replica.placement.clone().expect("what holds was placed");
            if !kept.is_empty() {
                let remains;
                (remains, free) = free.split(|node| kept.contains(&node));
                if !remains.is_empty() {
                    self.kept.insert(attempt, (remains, since));
                }
            }
            self.release(attempt, &free, since);
        }
    }

    fn retry(&mut self, attempt: AttemptId, because: Reason) {
        let now = self.now;
        let replica = self.replica(attempt);
        assert_eq!(replica.phase, Phase::Ended, "{attempt} follows an attempt that has not ended");
        replica.attempt = attempt.number;
        replica.phase = Phase::Pending;
        replica.last_started = None;
        replica.ended = None;
        replica.outcome = None;
        replica.reason = Some(because);
        replica.blame = Some(Blame::One(because));
        replica.waiting_since = now;
        self.current.waiting += 1;
        // A replica that a scale-up needs again did not fail.
        self.retries += u64::from(because != Reason::ScaledUp);
    }
}

impl RunAccount {
    /// Calls `tell` with each replica whose job was submitted after the warm-up, in order of ids. The accounts must be
    /// finished first.
    pub fn each_row<'a>(&'a self, mut tell: impl FnMut(Row<'a>)) {
        let warm_up = self.warm_up;
        self.each_row_of_all(|row| {
            if row.submitted >= warm_up {
                tell(row);
            }
        });
    }

    /// Like `each_row`, also with the replicas of the warm-up.
    pub fn each_row_of_all<'a>(&'a self, mut tell: impl FnMut(Row<'a>)) {
        let there = self.replicas().map(Row::of);
        if self.finished.is_empty() {
            return there.for_each(tell);
        }
        let mut over = self.finished.rows().peekable();
        there.for_each(|row| {
            let is_earlier = |other: &Row<'_>| (other.job, other.replica) < (row.job, row.replica);
            while let Some(earlier) = over.next_if(is_earlier) {
                tell(earlier);
            }
            tell(row);
        });
        over.for_each(tell);
    }

    /// All jobs, in no particular order.
    pub fn job_rows(&self) -> impl Iterator<Item = JobFigures> {
        let row = |job: &JobAccount| JobFigures {
            submitted: job.submitted,
            standing: job.standing(),
            failures: job.failures,
        };
        self.finished.jobs().chain(self.jobs.values().map(row))
    }
}

impl RunAccount {
    /// The useless GPU time and the free GPU time. `None` if nothing was measured.
    pub(super) fn fragmentation(&self) -> Option<(u128, u128)> {
        let account = &self.fragments;
        account.is_measured().then_some((account.useless_time, account.free_time))
    }
}

impl Current {
    fn follow(&mut self, before: Rates, after: Rates) {
        self.gpu_taken = self.gpu_taken - before.gpu_taken + after.gpu_taken;
        self.cpu_taken = self.cpu_taken - before.cpu_taken + after.cpu_taken;
        self.gpu_ready = self.gpu_ready - before.gpu_ready + after.gpu_ready;
    }
}

fn is_waiting(phase: Phase) -> bool {
    matches!(phase, Phase::Pending | Phase::Analysing)
}

fn note_stints(
    stints: &mut Vec<Stint>,
    nodes: usize,
    attempt: AttemptId,
    placement: &Placement,
    from: SimTime,
    to: Option<SimTime>,
) {
    if nodes > STINT_NODES || stints.len() >= STINTS {
        return;
    }
    for claim in placement.claims() {
        let stint = |gpu| Stint { node: claim.node, gpu, job: attempt.job, from, to };
        match claim.gpus.is_empty() {
            true => stints.push(stint(None)),
            false => stints.extend(claim.gpus.iter().map(|part| stint(Some(part.index)))),
        }
    }
}

impl Sink for RunAccount {
    fn input(&mut self, _step: u64, at: SimTime, input: &Input) {
        self.arrive(at);
        self.outside.input(at, input);
        match input.declaration() {
            Some(Declaration::Job { job, spec }) => self.submit(job, spec),
            Some(Declaration::Node { node, state, spec }) => {
                assert_eq!(node.index(), self.nodes.len(), "nodes are declared in the order of their ids");
                self.names.nodes.add_new(Arc::clone(&spec.name));
                self.load.add_gpus(spec.shape.gpus.len());
                self.waits.touch(node, None);
                self.states_power |= spec.shape.power.is_some();
                self.nodes.push(NodeAccount::new(spec, state, at).with_electricity(self.electricity.as_ref()));
                self.current.follow(Rates::default(), self.nodes[node.index()].current());
                self.fragments.touch(node);
            }
            Some(Declaration::Fleet { spec, .. }) => {
                self.clouds.push(spec.cloud.is_some());
                self.names.fleets.add_new(Arc::clone(&spec.name));
            }
            None => {}
        }
        if let Input::Usage(UsageFact::Served { job, report }) = input {
            self.services.entry(*job).or_default().add_report(at, report);
        }
    }

    fn event(&mut self, _step: u64, at: SimTime, event: &Event) {
        self.arrive(at);
        self.events += 1;
        match event {
            Event::NodeChanged { node, to, .. } => {
                self.count_instance(*node, *to);
                self.on_node(*node, |account| account.set_state(at, *to));
            }
            Event::InstanceChanged { node, from, to, .. } => {
                self.instances_made += u64::from(*to == InstanceState::Pending);
                let is_taken = from.is_up() && *to == InstanceState::Terminated;
                if is_taken {
                    self.taken.insert(*node);
                    // Outside dstack, its attempts end before it is said to be taken away.
                    let before = self.lost.len();
                    self.lost.retain(|(when, placement)| *when != at || !placement.touches(*node));
                    self.preemptions += (before - self.lost.len()) as u64;
                } else {
                    self.taken.remove(node);
                }
                self.instances_taken += u64::from(is_taken);
            }
            Event::GpuChanged { gpu: GpuId { node, index }, to, .. } => {
                self.on_node(*node, |account| account.set_gpu_state(at, *index, *to));
            }
            Event::Held { attempt, refusal, reasons } => self.hold(*attempt, *refusal, reasons),
            Event::Placed { attempt, placement, .. } => self.place(*attempt, placement),
            Event::CommitRefused { .. } => self.outside.event(at, event),
            Event::Moved { attempt, to, .. } => {
                self.enter(*attempt, *to);
                let replica = self.replica(*attempt);
                if *to == Phase::Running {
                    replica.started.get_or_insert(at);
                    replica.last_started = Some(at);
                }
                if !to.holds_claim() && std::mem::take(&mut replica.holding) {
                    let (placement, since) = (replica.placement.clone(), replica.placed_last);
                    replica.waiting_since = at;
                    self.release(*attempt, &placement.expect("what holds was placed"), since);
                }
            }
            Event::Ended { attempt, outcome, because, kept, .. } => self.end(*attempt, *outcome, *because, kept),
            Event::ClaimFreed { attempt, node } => {
                let kept = self.kept.remove(attempt);
                let (placement, since) = kept.unwrap_or_else(|| panic!("{attempt} frees a claim it did not keep"));
                let (free, remains) = placement.split(|other| other == *node);
                if !remains.is_empty() {
                    self.kept.insert(*attempt, (remains, since));
                }
                self.release(*attempt, &free, since);
                self.job_may_be_over(attempt.job);
            }
            Event::Retry { attempt, because, .. } => self.retry(*attempt, *because),
            Event::ReplicaAdded { attempt } => {
                self.jobs[attempt.job.index()].replicas.push(ReplicaAccount::new(at));
                self.current.waiting += 1;
            }
            Event::PolicyBound { attempt, values, .. } => {
                self.policies.insert(*attempt, *values);
            }
            Event::Evaluated { .. }
            | Event::AnalysisStarted { .. }
            | Event::SampleOdd { .. }
            | Event::Preempted { .. }
            | Event::Admitted { .. }
            | Event::NotAdmitted { .. }
            | Event::Evicted { .. } => {}
            Event::PolicyFired { .. } => self.policies_fired += 1,
            Event::PolicyWarned { .. } => self.policies_warned += 1,
            Event::DeadlineExpired { .. } => self.deadlines_expired += 1,
            Event::SafetyBroken { .. } => self.safety_broken += 1,
            Event::JobEnded { job, outcome, .. } => {
                let account = &mut self.jobs[job.index()];
                assert!(account.outcome.replace(*outcome).is_none(), "{} ended twice", account.spec.name);
                self.ended[*outcome as usize] += 1;
                self.job_may_be_over(*job);
            }
        }
    }
}
