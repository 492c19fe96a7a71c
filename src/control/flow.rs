//! A flow: the way in which waiting replicas get their places. A profile names one flow.
//!
//! A flow owns its state. Everything else that it needs is in the [`Core`], which each method takes as an argument. The
//! required methods are what only the flow knows. The provided methods are the common lifecycle of an attempt
//! ([`Attempts`]); a flow with other rules overrides them.

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
    /// Makes a pending replica wait for its place, or for an earlier step such as its analysis.
    fn queue_up(&mut self, core: &mut Core, index: ReplicaIndex);

    /// Does what is due, once all inputs of this instant are applied and all timers have fired.
    fn settle(&mut self, core: &mut Core);

    /// When the flow must settle next even if nothing happens.
    fn next_due(&mut self, core: &mut Core) -> Option<Due>;

    /// Asserts the integrity of the flow's own state.
    fn check(&self, core: &Core);

    /// Asserts, at the end of a run, that no replica waits that the fleet has room for.
    fn check_nothing_waits_in_vain(&self, core: &Core);

    /// Submits a job whose record is in the store and has no replicas yet. `refused` says why it is refused, if it is.
    fn submitted(&mut self, core: &mut Core, job: JobId, refused: Option<Held>) {
        self.submit_replicas(core, job, refused);
    }

    /// Applies a fact about a run of a replica that is in the store.
    fn fact(&mut self, core: &mut Core, index: ReplicaIndex, run: RunId, fact: Lifecycle) {
        self.attempt_fact(core, index, run, fact);
    }

    /// Ends a job that was cancelled.
    fn cancelled(&mut self, core: &mut Core, job: JobId) {
        self.stop_replicas(core, job);
    }

    /// Scales a job that has not ended to this many replicas.
    fn scale(&mut self, core: &mut Core, job: JobId, wanted: u32) {
        self.scale_replicas(core, job, wanted);
    }

    /// Whether a job that is scaled to zero replicas stays alive.
    fn parks_jobs(&self) -> bool {
        false
    }

    /// Applies a count of a service's requests. The service's number of replicas follows the count.
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

    /// The replicas that are lost with a node, in the order in which they are given up.
    fn on_node(&self, core: &Core, node: NodeId) -> Vec<ReplicaIndex> {
        core.nodes[node.index()].runs.to_vec()
    }

    /// Ends the attempt of a replica that has a claim on a lost node.
    fn node_lost(&mut self, core: &mut Core, index: ReplicaIndex, node: NodeId) {
        self.lose_attempt(core, index, node);
    }

    /// Reacts to an instance that has come up and that a replica waits for.
    fn instance_is_up(&mut self, _core: &mut Core, _node: NodeId) {}

    /// Begins another attempt after one that has ended, or ends the replica for good. `ran` is how long the attempt was
    /// in its last phase of running, and `again` whether another attempt is wanted.
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

    /// Whether the claims that a run keeps after its end are forgotten, so that its nodes are never asked about them.
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

    /// When the next attempt after a failure is due, given the pause before it.
    fn restart_due(&mut self, core: &Core, _index: ReplicaIndex, pause: SimDuration) -> SimTime {
        core.now.saturating_add(pause)
    }

    /// Starts the next attempt of a replica, once its pause is over.
    fn restart(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.queue_up(core, index);
    }

    /// Forgets the flow's records of an attempt that is given up.
    fn give_up(&mut self, _core: &mut Core, _index: ReplicaIndex) {}

    /// Forgets the failures counted so far, because the attempt ended by a loss that was not its own failure.
    fn forget_failures(&mut self, _core: &mut Core, _index: ReplicaIndex) {}

    /// Removes a replica from the queue and from any step in progress, because its attempt ends.
    fn withdraw(&mut self, _core: &mut Core, _index: ReplicaIndex) {}

    /// Reacts to a change of a replica's phase. `before` is the phase that it left, and since when it was in that
    /// phase.
    fn phase_changed(&mut self, _core: &mut Core, _index: ReplicaIndex, _before: (Phase, SimTime)) {}

    /// Reacts to the final end of a replica.
    fn finished(&mut self, _index: ReplicaIndex) {}

    /// Sorts replicas in the order in which scaling down removes them.
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

    /// Applies a decision of an outside scheduler. Only a flow that can leave decisions to others gets one.
    fn decided(&mut self, _core: &mut Core, _run: RunId, _placement: Option<&Placement>) {
        panic!("checked at the door: this flow decides by itself");
    }

    /// Reacts to turning the keeping of results on or off.
    fn caching_changed(&mut self, _core: &mut Core) {}

    /// Reacts to a change of the profile.
    fn reconfigured(&mut self, _core: &mut Core) {}

    /// The fleet as a decision about this replica would see it; `None` if that is the current fleet.
    fn left_to(&self, _core: &Core, _index: ReplicaIndex) -> Option<Fleet> {
        None
    }

    /// The part of a replica's demand that one decision covers; `None` if the flow places whole demands.
    fn part_of(&self, _core: &Core, _index: ReplicaIndex) -> Option<(Arc<Demand>, Seats)> {
        None
    }

    /// How much of a new job with this demand the first decision covers.
    fn first_seats(&self, _demand: &Demand) -> Seats {
        Seats::All
    }

    /// The runs that are being analysed, and those in the analysis queue before this replica; `None` if the replica is
    /// not in that queue.
    fn analysed_before(&self, _core: &Core, _index: ReplicaIndex) -> Option<(Vec<RunId>, Vec<RunId>)> {
        None
    }

    /// The replicas that wait for room, in the order in which the flow would place them; `None` if the flow requests
    /// instances itself, whenever it takes a place.
    fn waiting(&self, _core: &Core) -> Option<Vec<ReplicaIndex>>;

    /// Whether records of ended jobs may be dropped.
    fn lets_records_go(&self) -> bool {
        false
    }

    /// Whether the flow may still refer to a replica that has ended.
    fn names_ended(&self) -> bool {
        false
    }

    /// Whether the flow keeps looking at replicas for as long as one of them has no place.
    fn never_rests(&self) -> bool {
        false
    }

    /// Whether the flow's only remaining work is to repeat refusals that were made since the fleet last grew.
    fn only_repeats_refusals(&self, _core: &Core) -> bool {
        false
    }
}
