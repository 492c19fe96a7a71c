//! A flow: how what waits comes to its place. A profile names one.
//!
//! A flow owns its state and answers the same few questions. Everything else that it needs is in the [`Core`], which it
//! is handed with each question. The required methods are what only the flow knows. The provided ones are the common
//! lifecycle of an attempt ([`Attempts`]), which a flow with other rules replaces.

use std::sync::Arc;

use super::attempts::Attempts;
use super::core::Core;
use super::core::store::ReplicaIndex;
use super::core::timer::Timer;
use dryrack_event::{Histogram, Lifecycle, Outcome, Phase, Reason, Refusal};
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::{JobId, NodeId, RunId};
use dryrack_scheduler::Seats;
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::Demand;

/// When something is due, and why.
pub(crate) type Due = (SimTime, &'static str);

/// Why something waits.
pub(crate) type Held = (Refusal, Histogram);

pub(crate) trait Flow {
    /// Makes a pending replica wait for its place, or for what comes before that.
    fn queue_up(&mut self, core: &mut Core, index: ReplicaIndex);

    /// Does what is due, once all inputs of this instant are applied and all timers have fired.
    fn settle(&mut self, core: &mut Core);

    /// When the flow must settle next even if nothing happens.
    fn next_due(&mut self, core: &mut Core) -> Option<Due>;

    /// Asserts the integrity of the flow's own state.
    fn check(&self, core: &Core);

    /// Asserts that nothing waits that the fleet would hold, when nothing more is to come.
    fn check_nothing_waits_in_vain(&self, core: &Core);

    /// Submits a job whose record is in the store and has no replicas yet. `refused` says why it is refused, if it is.
    fn submitted(&mut self, core: &mut Core, job: JobId, refused: Option<Held>) {
        self.submit_replicas(core, job, refused);
    }

    /// Takes in a fact about a run of a replica that is in the store.
    fn fact(&mut self, core: &mut Core, index: ReplicaIndex, run: RunId, fact: Lifecycle) {
        self.attempt_fact(core, index, run, fact);
    }

    /// Ends a job that was cancelled.
    fn cancelled(&mut self, core: &mut Core, job: JobId) {
        self.stop_replicas(core, job);
    }

    /// Gives a job that lives this many replicas.
    fn scale(&mut self, core: &mut Core, job: JobId, wanted: u32) {
        self.scale_replicas(core, job, wanted);
    }

    /// Whether a job may be scaled to no replica, and lives on.
    fn parks_jobs(&self) -> bool {
        false
    }

    /// Takes in how many requests a service had, which its number of replicas follows.
    fn requests_counted(&mut self, core: &mut Core, job: JobId, requests: u64) {
        core.count_requests(job, requests);
        self.rescale(core, job);
    }

    /// Ends a replica from whatever phase it is in.
    fn stop(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        self.stop_attempt(core, index, outcome, because);
    }

    /// Whether a replica that is stopping has stopped, while the flow has yet to notice it.
    fn has_stopped(&self, _index: ReplicaIndex) -> bool {
        false
    }

    /// Ends an attempt that has stayed too long in a phase other than stopping.
    fn stayed_too_long(&mut self, core: &mut Core, index: ReplicaIndex, phase: Phase) {
        self.end_overdue(core, index, phase);
    }

    /// What is lost with a node, in the order in which it is given up.
    fn on_node(&self, core: &Core, node: NodeId) -> Vec<ReplicaIndex> {
        core.nodes[node.index()].runs.to_vec()
    }

    /// Ends the attempt of a replica that has a claim on a lost node.
    fn node_lost(&mut self, core: &mut Core, index: ReplicaIndex, node: NodeId) {
        self.lose_attempt(core, index, node);
    }

    /// Takes in that an instance on which something waits is up.
    fn instance_is_up(&mut self, _core: &mut Core, _node: NodeId) {}

    /// Follows an attempt that has ended by another one, or ends the replica for good. `ran` is how long the attempt
    /// was in its last phase of running, and `again` whether another attempt is wanted.
    fn attempt_ended(
        &mut self,
        core: &mut Core,
        index: ReplicaIndex,
        (outcome, because): (Outcome, Reason),
        ran: SimDuration,
        again: bool,
    ) {
        self.follow(core, index, (outcome, because), ran, again);
    }

    /// Whether what a run keeps after its end is forgotten, so that nobody asks about it.
    fn leaks_claims(&self) -> bool {
        false
    }

    /// Whether a failed attempt of this replica is followed by one in the same place.
    fn restarts_in_place(&self, _core: &Core, _index: ReplicaIndex) -> bool {
        false
    }

    /// Keeps the place of an attempt that has failed and is followed by one in the same place.
    fn keep_place(&mut self, _core: &mut Core, _index: ReplicaIndex, _run: RunId, _placement: Placement) {
        panic!("only a flow that restarts in place keeps a place");
    }

    /// When the attempt after a failure is due, which follows after this pause.
    fn restart_due(&mut self, core: &Core, _index: ReplicaIndex, pause: SimDuration) -> SimTime {
        core.now.saturating_add(pause)
    }

    /// Starts the next attempt of a replica, once its pause is over.
    fn restart(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.queue_up(core, index);
    }

    /// Forgets what the flow has recorded of an attempt that is given up.
    fn give_up(&mut self, _core: &mut Core, _index: ReplicaIndex) {}

    /// Forgets failures that count against the next attempt, after a loss that was nobody's failure.
    fn forget_failures(&mut self, _core: &mut Core, _index: ReplicaIndex) {}

    /// Takes a replica out of everything that works on it, because its attempt ends.
    fn withdraw(&mut self, _core: &mut Core, _index: ReplicaIndex) {}

    /// Takes in that a replica has left a phase, in which it was since then, for the one that it is in.
    fn phase_changed(&mut self, _core: &mut Core, _index: ReplicaIndex, _before: (Phase, SimTime)) {}

    /// Takes in that a replica has ended for good.
    fn finished(&mut self, _index: ReplicaIndex) {}

    /// Puts first what goes first when a job is scaled down.
    fn sort_for_scale_down(&self, core: &Core, replicas: &mut Vec<ReplicaIndex>) {
        core.sort_least_healthy_first(replicas);
    }

    /// Whether scaling down these replicas of one job fails.
    fn scale_down_fails(&self, _core: &Core, _replicas: &[ReplicaIndex]) -> bool {
        false
    }

    /// Fires a timer that only this flow sets.
    fn fire(&mut self, _core: &mut Core, timer: Timer) {
        panic!("no flow sets {timer:?}");
    }

    /// The line in which a job of this queue waits.
    fn line_of(&mut self, _core: &Core, _queue: Option<&Arc<str>>) -> u32 {
        0
    }

    /// Takes in a decision of a scheduler outside, which is only asked by a flow that can let others decide.
    fn decided(&mut self, _core: &mut Core, _run: RunId, _placement: Option<&Placement>) {
        panic!("checked at the door: this flow decides by itself");
    }

    /// Takes in that results are kept or not kept from now on.
    fn caching_changed(&mut self, _core: &mut Core) {}

    /// Takes in that the profile has changed.
    fn reconfigured(&mut self, _core: &mut Core) {}

    /// The fleet as a decision about this replica would find it, if that is not the fleet as it is.
    fn left_to(&self, _core: &Core, _index: ReplicaIndex) -> Option<Fleet> {
        None
    }

    /// The part of its demand for which a replica looks for a place, if the flow places parts of jobs.
    fn part_of(&self, _core: &Core, _index: ReplicaIndex) -> Option<(Arc<Demand>, Seats)> {
        None
    }

    /// The seats for which a new job with this demand would look first.
    fn first_seats(&self, _demand: &Demand) -> Seats {
        Seats::All
    }

    /// The runs that are being analysed, and those that are analysed before this replica; `None` if it does not wait
    /// for its analysis.
    fn analysed_before(&self, _core: &Core, _index: ReplicaIndex) -> Option<(Vec<RunId>, Vec<RunId>)> {
        None
    }

    /// Those who wait for room, in the order in which the flow would place them; `None` if the flow asks for instances
    /// itself, with each place that it takes.
    fn waiting(&self, _core: &Core) -> Option<Vec<ReplicaIndex>>;

    /// Whether records of ended jobs may be dropped at all.
    fn lets_records_go(&self) -> bool {
        false
    }

    /// Whether something in the flow may still name a replica that has ended.
    fn names_ended(&self) -> bool {
        false
    }

    /// Whether the flow goes on looking for as long as anything is not served.
    fn never_rests(&self) -> bool {
        false
    }

    /// Whether all that the flow has left to do is to repeat refusals that were made since the fleet last grew.
    fn only_repeats_refusals(&self, _core: &Core) -> bool {
        false
    }
}
