//! The core of the control plane: the store of records, the ledger, the timers, the clock and the outbox.
//!
//! Only the core binds, releases and emits. It never checks which flow it serves. What it does serves all flows:
//! instances that clouds make and take back ([`instances`], [`scale_up`]), services that scale with their requests
//! ([`services`]), jobs that wait for other jobs ([`dependencies`]), quotas and shares ([`ledger`]),
//! utilization policies ([`usage`]), and recorded decisions for an explanation ([`examined`]).
//!
//! The state is in [`parts`], which know nothing of the core. The other files of this folder are what the core does with
//! several parts at once.

mod attempt;
mod deciding;
mod dependencies;
mod dropping;
mod due;
mod examined;
mod instances;
mod jobs;
mod kept;
mod ledger;
pub(crate) mod nodes;
mod parts;
mod scale_up;
mod scaling;
mod services;
mod usage;

pub use instances::LONGEST_PROVISIONING;
pub(crate) use parts::dependencies::DependencyState;
pub use parts::examined::{AnalysesAhead, Watch, Watched};
pub(crate) use parts::scale_up::WaitingChanges;
pub(crate) use parts::{store, timer};
pub(crate) use usage::check_sample;

use std::collections::VecDeque;
use std::sync::Arc;

use super::admission::Admission;
use super::pass_options::Trigger;
use super::profile::Profile;
use dryrack_event::{Command, Event, Output};
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::Records;
use dryrack_policy::Quotas;
use dryrack_scheduler::Grouping;
use dryrack_units::SimTime;
use parts::accounts::Accounts;
use parts::deciding::Deciding;
use parts::dependencies::Dependencies;
use parts::dropping::Dropping;
use parts::examined::Examined;
use parts::instances::Instances;
use parts::kept::Kept;
use parts::nodes::Nodes;
use parts::scale_up::ScaleUp;
use parts::services::Services;
use parts::usage::Usage;
use store::{Demands, Held, JobRecord, Replica, ReplicaIndex};
use timer::Timers;

pub(crate) struct Core {
    pub profile: Arc<Profile>,
    pub deciding: Deciding,
    pub now: SimTime,
    pub fleet: Fleet,
    pub nodes: Nodes,
    pub jobs: Records<JobRecord>,
    pub replicas: Records<Replica>,
    /// Ended jobs that can be dropped, and jobs dropped since the last `take_dropped`. `None` if all records are kept.
    dropping: Option<Dropping>,
    pub demands: Demands,
    pub accounts: Accounts,
    pub kept: Kept,
    pub timers: Timers,
    pub usage: Usage,
    instances: Instances,
    scale_up: ScaleUp,
    services: Services,
    dependencies: Dependencies,
    pub admission: Admission,
    outbox: VecDeque<Output>,
    examined: Examined,
}

impl Core {
    pub fn new(profile: Arc<Profile>, seed: u64, grouping: Grouping) -> Core {
        Core {
            fleet: if profile.scheduler.needs_kinds() { Fleet::with_kinds() } else { Fleet::default() },
            deciding: Deciding::new(&profile.scheduler, seed, grouping),
            accounts: Accounts::new(&profile.scheduler, Quotas::new(&profile.policies.quotas)),
            profile,
            now: SimTime::ZERO,
            nodes: Nodes::default(),
            jobs: Records::default(),
            replicas: Records::default(),
            dropping: None,
            demands: Demands::default(),
            kept: Kept::default(),
            timers: Timers::default(),
            usage: Usage::default(),
            instances: Instances::default(),
            scale_up: ScaleUp::default(),
            services: Services::default(),
            dependencies: Dependencies::default(),
            admission: Admission::default(),
            outbox: VecDeque::new(),
            examined: Examined::default(),
        }
    }

    /// Advances the clock to this time.
    pub fn advance_to(&mut self, now: SimTime) {
        if now > self.now {
            self.keep_timers();
            self.now = now;
        }
    }

    pub fn emit(&mut self, event: Event) {
        self.outbox.push_back(Output::Event(event));
    }

    pub fn command(&mut self, command: Command) {
        self.outbox.push_back(Output::Command(command));
    }

    /// Takes the oldest output that was not yet taken.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.pop_front()
    }

    /// Whether all outputs were taken.
    pub fn is_drained(&self) -> bool {
        self.outbox.is_empty()
    }

    /// A number that increases whenever a refused demand may fit now. Usually this is when the fleet grows, because
    /// placing a replica frees no resources. A custom filter may refuse a node because it is too empty. In that case,
    /// every change of the fleet increases the number.
    pub fn growth(&self) -> u64 {
        match self.profile.scheduler.may_placing_make_room() {
            true => self.fleet.version(),
            false => self.fleet.growth(),
        }
    }

    /// Whether an outside scheduler decides.
    pub fn is_decided_outside(&self) -> bool {
        self.profile.passes.place.trigger == Trigger::Outside
    }

    /// Emits why a replica waits, unless the same reasons were emitted last.
    pub fn hold(&mut self, index: ReplicaIndex, held: Held) {
        let replica = &mut self.replicas[index as usize];
        let same = (replica.held.as_ref())
            .is_some_and(|(refusal, reasons)| *refusal == held.0 && reasons.has_same_reasons(&held.1));
        if !same {
            replica.held = Some(held.clone());
            let attempt = replica.attempt_id();
            self.emit(Event::Held { attempt, refusal: held.0, reasons: held.1 });
        }
    }

    /// The claims of each attempt. This includes claims that an attempt keeps after its end.
    pub fn held(&self) -> Vec<Placement> {
        let live = self.replicas.values().filter_map(|replica| replica.placement.clone());
        live.chain(self.kept.claims.values().cloned()).collect()
    }

    /// The placement of a replica that holds a place.
    pub fn placement_of(&self, index: ReplicaIndex) -> &Placement {
        self.replicas[index as usize].placement.as_ref().expect("it holds a place")
    }

    /// All replicas that hold a place, in order of their numbers.
    pub fn holders(&self) -> Vec<ReplicaIndex> {
        let mut holders: Vec<_> = self.nodes.iter().flat_map(|node| node.replicas.iter().copied()).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    /// Replaces the profile and returns the old one. Every demand is then judged again.
    pub fn follow(&mut self, profile: Profile) -> Arc<Profile> {
        // Lines and accounts are numbered in the order of all jobs, including ended jobs. So the records of ended jobs
        // are needed here.
        assert!(self.dropping.is_none(), "a profile changes where ended jobs are dropped");
        self.deciding.forget(&profile.scheduler);
        let before = std::mem::replace(&mut self.profile, Arc::new(profile));
        self.usage.reconfigured(self.now);
        for demand in self.demands.iter_mut() {
            (demand.held, demand.refused_at) = (None, None);
        }
        self.fleet.ask_again();
        self.follow_accounts(&before);
        self.search_again();
        self.judge_never_satisfied_again();
        before
    }

    /// Asserts the integrity of the store and the ledger. This visits every record.
    pub fn check(&self) {
        let held = self.held();
        self.fleet.assert_adds_up(held.iter());
        for (index, replica) in self.replicas.iter() {
            let holds = replica.placement.is_some();
            assert_eq!(holds, replica.phase.holds_claim(), "{} holds a claim in the wrong phase", replica.attempt_id());
            for claim in replica.placement.iter().flat_map(|placement| placement.claims()) {
                let replicas = &self.nodes[claim.node.index()].replicas;
                assert!(replicas.contains(&(index as ReplicaIndex)), "{} is not on its node", replica.attempt_id());
            }
        }
        let on_nodes: usize = self.nodes.iter().map(|node| node.replicas.len()).sum();
        let claims = |replica: &Replica| replica.placement.as_ref().map_or(0, |placement| placement.claims().len());
        assert_eq!(on_nodes, self.replicas.values().map(claims).sum::<usize>(), "a node keeps a run that has left it");
        self.assert_monitors();
        self.assert_instances();
        self.assert_quotas();
        self.assert_dependencies();
        self.assert_admission();
    }
}
