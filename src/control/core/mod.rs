//! The core of the control plane: the store of records, the ledger, the timers, the clock and the outbox.
//!
//! Only the core binds, releases and emits. It never checks which flow it serves. What it does serves all flows:
//! instances that clouds make and take back ([`instances`], [`scale_up`]), services that scale with their requests
//! ([`services`]), jobs that wait for other jobs ([`dependencies`]), quotas and shares ([`ledger`]),
//! utilization policies ([`usage`]), and recorded decisions for an explanation ([`examined`]).
//!
//! The state is in [`parts`], which know nothing of the core, and a method that needs one part is a method of that part.
//! The other files of this folder are what the core does with several parts at once. All methods of the core are here.

mod attempt;
#[cfg(test)]
mod core_tests;
mod deciding;
mod dependencies;
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
pub(crate) use parts::clouds::WaitingChanges;
pub use parts::examined::{AnalysesAhead, Watch, Watched};
pub(crate) use parts::{groups, store, timer};
pub(crate) use usage::check_sample;

use std::collections::VecDeque;
use std::sync::Arc;

use super::admission::Admission;
use super::pass_options::Trigger;
use super::profile::Profile;
use dryrack_event::{Command, Event, Output};
use dryrack_fleet::{Fleet, Moment, Placement};
use dryrack_policy::Quotas;
use dryrack_scheduler::Grouping;
use dryrack_scheduler::offers::GangRule;
use dryrack_units::SimTime;
use parts::accounts::Accounts;
use parts::clock::{Clock, Reader};
use parts::clouds::Clouds;
use parts::deciding::Deciding;
use parts::groups::Groups;
use parts::kept::Kept;
use parts::nodes::Nodes;
use parts::services::Services;
use parts::usage::Usage;
use store::{Held, Replica, ReplicaIndex, Store};
use timer::Timers;

pub(crate) struct Core {
    pub profile: Arc<Profile>,
    /// The current time.
    pub now: SimTime,
    /// Jobs, replicas and demands.
    pub store: Store,
    /// The nodes, their states, and which of their resources are taken.
    pub fleet: Fleet,
    /// Reports and heartbeats of the nodes.
    pub nodes: Nodes,
    /// Instances that clouds make and take back.
    pub clouds: Clouds,
    /// Shares of users and quotas of projects.
    pub accounts: Accounts,
    /// Claims that are kept after their attempt has ended.
    pub kept: Kept,
    pub deciding: Deciding,
    /// The clock that custom stages read.
    pub clock: Clock,
    /// Which custom stages read the number of pending replicas.
    reads_queue: Reader,
    /// Utilization policies.
    pub usage: Usage,
    /// Services that scale with their requests.
    services: Services,
    pub admission: Admission,
    /// Deadlines that several jobs share.
    pub groups: Groups,
    pub timers: Timers,
    /// Outputs that were not taken yet.
    outbox: VecDeque<Output>,
}

impl Core {
    pub fn new(profile: Arc<Profile>, seed: u64, grouping: Grouping) -> Core {
        Core {
            fleet: if profile.scheduler.needs_kinds() { Fleet::with_kinds() } else { Fleet::default() },
            deciding: Deciding::new(&profile.scheduler, seed, grouping),
            clock: Clock::new(&profile.scheduler),
            reads_queue: Reader::of(&profile.scheduler),
            accounts: Accounts::new(&profile.scheduler, Quotas::new(&profile.policies.quotas)),
            profile,
            now: SimTime::ZERO,
            store: Store::default(),
            nodes: Nodes::default(),
            kept: Kept::default(),
            timers: Timers::default(),
            usage: Usage::default(),
            clouds: Clouds::default(),
            services: Services::default(),
            admission: Admission::default(),
            groups: Groups::default(),
            outbox: VecDeque::new(),
        }
    }

    /// Advances the clock to this time.
    pub fn advance_to(&mut self, now: SimTime) {
        if now > self.now {
            self.keep_timers();
            self.now = now;
        }
    }

    /// Notes that something besides the time has changed.
    pub(crate) fn note_change(&mut self) {
        self.clock.note_change(self.now);
        self.move_clock();
    }

    /// Lets custom stages read the time of this instant.
    #[inline]
    pub(crate) fn move_clock(&mut self) {
        let moment = self.fleet.moment();
        if self.clock.is_due(self.now, moment.time) {
            let time = self.clock.advance(self.now);
            self.read(Moment { time, ..moment }, self.clock.admits());
        }
    }

    /// Lets custom stages read how many replicas are pending now.
    #[inline]
    pub(crate) fn count_pending(&mut self) {
        let (moment, pending) = (self.fleet.moment(), self.store.pending());
        if self.reads_queue != Reader::Nobody && moment.pending != pending {
            self.clock.note_change(self.now);
            self.read(Moment { pending, ..moment }, self.reads_queue == Reader::Filter);
        }
    }

    /// Lets custom stages read the values of this moment. Every decision may then be different. `admits` says whether a
    /// refused replica may fit.
    fn read(&mut self, moment: Moment, admits: bool) {
        self.fleet.set_moment(moment);
        self.deciding.forget(&self.profile.scheduler);
        if admits {
            self.judge_again();
        }
    }

    /// When refused replicas must be judged again although no input came: at the next step of the clock, or at once if
    /// the last round of decisions has shortened the queue.
    pub(crate) fn next_round(&self) -> Option<(SimTime, &'static str)> {
        let moment = self.fleet.moment();
        let is_shorter = self.reads_queue == Reader::Filter && self.store.pending() < moment.pending;
        let by_queue = is_shorter.then_some((self.now, "a shorter queue"));
        by_queue.or_else(|| self.clock.next_step(self.now, moment.time).map(|at| (at, "a minute of the clock")))
    }

    /// Lets every refused demand be judged again.
    fn judge_again(&mut self) {
        self.fleet.ask_all_again();
        for demand in self.store.demands.iter_mut() {
            (demand.held, demand.refused_at) = (None, None);
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
        match self.deciding.placing_makes_room {
            true => self.fleet.version(),
            false => self.fleet.growth(),
        }
    }

    /// Whether a placement can make room for other tasks. A custom filter may refuse a node because it is too empty. And
    /// in a fleet, a placement may move the first node of a gang elsewhere, so that the rest of the gang fits on the node
    /// that became free.
    pub fn may_placement_make_room(&self) -> bool {
        self.deciding.placing_makes_room || self.may_placement_move_gangs()
    }

    pub(super) fn may_placement_move_gangs(&self) -> bool {
        self.profile.scheduler.offers.gang == GangRule::NodeByNode && self.fleet.fleets().next().is_some()
    }

    /// Whether an outside scheduler decides.
    pub fn is_decided_outside(&self) -> bool {
        self.profile.passes.place.trigger == Trigger::Outside
    }

    /// Emits why a replica waits, unless the same reasons were emitted last.
    pub fn hold(&mut self, index: ReplicaIndex, held: Held) {
        self.clock.note_refusal();
        let replica = &mut self.store[index];
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
        let live = self.store.replicas.values().filter_map(|replica| replica.placement.clone());
        live.chain(self.kept.claims.values().cloned()).collect()
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
        assert!(!self.store.drops_ended(), "a profile changes where ended jobs are dropped");
        let before = std::mem::replace(&mut self.profile, Arc::new(profile));
        self.read_fields_anew();
        self.clock.follow(&self.profile.scheduler);
        self.reads_queue = Reader::of(&self.profile.scheduler);
        self.note_change();
        self.deciding.forget(&self.profile.scheduler);
        self.judge_again();
        self.usage.reconfigured(self.now);
        self.follow_accounts(&before);
        self.clouds.scale_up.search_again();
        self.tell_of_dependencies(self.store.never_satisfied());
        before
    }

    /// Asserts the integrity of the store and the ledger. This visits every record.
    pub fn check(&self) {
        let held = self.held();
        self.fleet.assert_adds_up(held.iter());
        for (index, replica) in self.store.replicas.iter() {
            let holds = replica.placement.is_some();
            assert_eq!(holds, replica.phase.holds_claim(), "{} holds a claim in the wrong phase", replica.attempt_id());
            for claim in replica.placement.iter().flat_map(|placement| placement.claims()) {
                let replicas = &self.nodes[claim.node.index()].replicas;
                assert!(replicas.contains(&(index as ReplicaIndex)), "{} is not on its node", replica.attempt_id());
            }
        }
        let on_nodes: usize = self.nodes.iter().map(|node| node.replicas.len()).sum();
        let claims = |replica: &Replica| replica.placement.as_ref().map_or(0, |placement| placement.claims().len());
        assert_eq!(
            on_nodes,
            self.store.replicas.values().map(claims).sum::<usize>(),
            "a node keeps a run that has left it"
        );
        self.assert_monitors();
        self.clouds.check(&self.fleet);
        self.assert_quotas();
        self.store.assert_dependencies();
        self.store.assert_pending();
        self.admission.check(&self.store);
    }
}
