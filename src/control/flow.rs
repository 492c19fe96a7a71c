//! A flow: the way in which waiting replicas are placed. A profile names one flow.
//!
//! A flow owns its state. Each method takes the [`Core`] as an argument, for everything else that the flow needs. A
//! flow must implement the required methods, because they differ between flows. The provided methods are the common
//! lifecycle of an attempt ([`Attempts`]). A flow with other rules overrides them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::attempts::Attempts;
use super::core::Core;
pub(crate) use super::core::WaitingChanges;
pub(crate) use super::core::store::Held;
use super::core::store::ReplicaIndex;
use super::core::timer::Timer;
use dryrack_event::{Lifecycle, Outcome, Outside, Phase, Reason};
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::{AttemptId, JobId, NodeId};
use dryrack_objects::ClusterObjects;
use dryrack_scheduler::{Examination, GangPart};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::{Demand, JobSpec};

/// The time at which something is due, and the reason.
pub(crate) type Due = (SimTime, &'static str);

/// Why a job is refused at submission, and how it ends.
pub(crate) struct RefusedJob {
    pub held: Held,
    pub outcome: Outcome,
    pub because: Reason,
    /// The demand that never fits. `None` if the hand pick is refused.
    pub demand: Option<Arc<Demand>>,
}

impl RefusedJob {
    pub fn for_its_picks(held: Held) -> RefusedJob {
        RefusedJob { held, outcome: Outcome::Refused, because: Reason::PickRefused, demand: None }
    }
}

/// How to continue after a visitor has seen a waiting replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    GoOn,
    /// Skip all later replicas with the same demand.
    LeaveOutDemand,
    Stop,
}

/// A function that is called for each waiting replica.
pub(crate) type Visitor<'a> = dyn FnMut(&mut Core, ReplicaIndex) -> Visit + 'a;

/// Calls the visitor for these replicas in order, until it stops or the list ends.
pub(crate) fn visit_in_order(core: &mut Core, waiting: impl Iterator<Item = ReplicaIndex>, visit: &mut Visitor<'_>) {
    let mut left_out = BTreeSet::new();
    for index in waiting {
        let demand = core.store[index].demand;
        if left_out.contains(&demand) {
            continue;
        }
        match visit(core, index) {
            Visit::GoOn => {}
            Visit::LeaveOutDemand => {
                left_out.insert(demand);
            }
            Visit::Stop => return,
        }
    }
}

pub(crate) trait Flow {
    /// Makes a pending replica wait for its place, or for an earlier step such as its analysis.
    fn queue_up(&mut self, core: &mut Core, index: ReplicaIndex);

    /// Runs everything that is due. The caller has applied all inputs of this instant and fired all timers.
    fn settle(&mut self, core: &mut Core);

    /// When the flow must settle next even if no input comes.
    fn next_due(&mut self, core: &mut Core) -> Option<Due>;

    /// Asserts the integrity of the flow's own state.
    fn check(&self, core: &Core);

    /// Asserts, at the end of a run, that no replica waits although the fleet has room for it.
    fn check_nothing_waits_in_vain(&self, core: &Core);

    /// Why the flow refuses a job at submission. `None` if it does not.
    fn refuses(&mut self, _core: &Core, _spec: &JobSpec) -> Option<RefusedJob> {
        None
    }

    /// Submits a job whose record is in the store and which has no replicas yet. `refused` says why if the job is
    /// refused.
    fn submitted(&mut self, core: &mut Core, job: JobId, refused: Option<RefusedJob>) {
        self.submit_replicas(core, job, refused);
    }

    /// Applies a fact about an attempt of a replica that is in the store.
    fn fact(&mut self, core: &mut Core, index: ReplicaIndex, attempt: AttemptId, fact: Lifecycle) {
        self.attempt_fact(core, index, attempt, fact);
    }

    /// Ends a job that was cancelled.
    fn cancelled(&mut self, core: &mut Core, job: JobId, because: Reason) {
        self.stop_replicas(core, job, because);
    }

    /// Begins the attempts of a job that no longer waits for other jobs. `replicas` are its replicas that waited.
    fn freed(&mut self, core: &mut Core, _job: JobId, replicas: Vec<ReplicaIndex>) {
        replicas.into_iter().for_each(|index| self.begin(core, index));
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

    /// Ends a replica that is in any phase.
    fn stop(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        self.stop_attempt(core, index, outcome, because);
    }

    /// Whether a replica in phase stopping has really stopped, or was never told to start, but the flow has not noticed it
    /// yet.
    fn has_stopped(&self, _index: ReplicaIndex) -> bool {
        false
    }

    /// Ends an attempt that stayed too long in a phase other than stopping.
    fn phase_timed_out(&mut self, core: &mut Core, index: ReplicaIndex, phase: Phase) {
        self.end_overdue(core, index, phase);
    }

    /// Whether the replicas on a node are given up once the node has been silent for the time that the profile states.
    fn evicts_from_silent_nodes(&self) -> bool {
        true
    }

    /// The replicas that are lost with a node, in the order in which their attempts end.
    fn on_node(&self, core: &Core, node: NodeId) -> Vec<ReplicaIndex> {
        core.nodes[node.index()].replicas.to_vec()
    }

    /// Ends the attempt of a replica that has a claim on a lost node.
    fn node_lost(&mut self, core: &mut Core, index: ReplicaIndex, node: NodeId) {
        self.lose_attempt(core, index, node);
    }

    /// Takes over the objects of a Kubernetes cluster. A flow with other rules ignores them.
    fn objects_declared(&mut self, _core: &mut Core, _objects: &Arc<ClusterObjects>) {}

    /// Whether jobs may wait for the admission of Kueue before this flow gets them.
    fn waits_for_admission(&self) -> bool {
        false
    }

    /// Whether the flow places pods. Their terms of admission are then added to the pods, and not to the demands.
    fn is_of_pods(&self) -> bool {
        false
    }

    /// Reacts to an instance that has come up and that a replica waits for.
    fn instance_is_up(&mut self, _core: &mut Core, _node: NodeId) {}

    /// Begins another attempt after one that has ended, or ends the replica for good. `ran` is how long the attempt was
    /// running just before its end; zero if it ended from another phase. `again` says whether another attempt is
    /// wanted.
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

    /// Whether the flow forgets the claims that an attempt keeps after its end. If so, its nodes are not asked whether
    /// it has stopped.
    fn leaks_claims(&self) -> bool {
        false
    }

    /// Whether a failed attempt of this replica is followed by another attempt in the same place.
    fn restarts_in_place(&self, _core: &Core, _index: ReplicaIndex) -> bool {
        false
    }

    /// Keeps the place of a failed attempt for the next attempt.
    fn keep_place(&mut self, _core: &mut Core, _index: ReplicaIndex, _run: AttemptId, _placement: Placement) {
        panic!("only a flow that restarts in place keeps a place");
    }

    /// When the next attempt after a failure is due, given the pause before it.
    fn restart_due(&mut self, core: &Core, _index: ReplicaIndex, pause: SimDuration) -> SimTime {
        core.now.saturating_add(pause)
    }

    /// Whether an attempt that was lost for this reason counts as one that failed: against the limit of retries, and with
    /// a pause before the next one.
    fn counts_as_failure(&self, _because: Reason) -> bool {
        false
    }

    /// How long a replica whose attempt was lost for this reason waits before the next one.
    fn requeue_pause(&self, _core: &Core, _because: Reason) -> SimDuration {
        SimDuration::ZERO
    }

    /// Starts the next attempt of a replica, once its pause is over.
    fn restart(&mut self, core: &mut Core, index: ReplicaIndex) {
        self.queue_up(core, index);
    }

    /// Forgets the flow's records of an attempt that is given up.
    fn give_up(&mut self, _core: &mut Core, _index: ReplicaIndex) {}

    /// Clears the count of failures. The attempt was lost, which does not count as a failure.
    fn forget_failures(&mut self, _core: &mut Core, _index: ReplicaIndex) {}

    /// Removes a replica from the queue and from any step in progress, because its attempt ends.
    fn withdraw(&mut self, _core: &mut Core, _index: ReplicaIndex) {}

    /// Reacts to a change of a replica's phase. `before` holds the previous phase and the time at which it began.
    fn phase_changed(&mut self, _core: &mut Core, _index: ReplicaIndex, _before: (Phase, SimTime)) {}

    /// Reacts to the final end of a replica.
    fn finished(&mut self, _index: ReplicaIndex) {}

    /// Sorts replicas so that scaling down removes the first ones.
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

    /// The number of the line in which jobs of this queue wait.
    fn line_of(&mut self, _core: &Core, _queue: Option<&Arc<str>>) -> u32 {
        0
    }

    /// Applies a decision of an outside scheduler. Only a flow that supports outside schedulers receives such a
    /// decision.
    fn decided(&mut self, _core: &mut Core, _run: AttemptId, _placement: Option<&Placement>) {
        panic!("checked at the door: this flow decides by itself");
    }

    /// Applies what an outside scheduler sent apart from its placement decisions.
    fn said(&mut self, _core: &mut Core, _said: &Outside) {
        panic!("checked at the door: this flow decides by itself");
    }

    /// Reacts when caching of results is turned on or off.
    fn caching_changed(&mut self, _core: &mut Core) {}

    /// Reacts to a change of the profile.
    fn reconfigured(&mut self, _core: &mut Core) {}

    /// The fleet as a decision about this replica would see it. `None` means the current fleet.
    fn left_to(&self, _core: &Core, _index: ReplicaIndex) -> Option<Fleet> {
        None
    }

    /// Makes the decision about a replica now, with everything that an explanation shows, and changes nothing. `None` if
    /// the flow decides by the scheduler of the profile alone.
    fn examine(&mut self, _core: &Core, _index: ReplicaIndex) -> Option<Examination> {
        None
    }

    /// Emits what would be decided about a demand now. Nothing is placed.
    fn evaluate(&mut self, core: &mut Core, name: &Arc<str>, demand: &Demand) {
        core.evaluate(name, demand);
    }

    /// As [`Flow::evaluate`], for a job whose answer depends on more than its demand.
    fn evaluate_job(&mut self, core: &mut Core, spec: &JobSpec) {
        self.evaluate(core, &spec.name, &spec.demand);
    }

    /// The part of a replica's demand that one decision covers. `None` if the flow places whole demands.
    fn part_of(&self, _core: &Core, _index: ReplicaIndex) -> Option<(Arc<Demand>, GangPart)> {
        None
    }

    /// How much of a new job with this demand the first decision covers.
    fn first_gang_part(&self, _demand: &Demand) -> GangPart {
        GangPart::Whole
    }

    /// Two lists of attempts: those that are being analysed, and those ahead of this replica in the analysis queue.
    /// `None` if the replica is not in that queue.
    fn analyses_ahead(&self, _core: &Core, _index: ReplicaIndex) -> Option<(Vec<AttemptId>, Vec<AttemptId>)> {
        None
    }

    /// Whether the flow itself requests instances when it places a replica. If so, the core requests no instances for
    /// waiting replicas.
    fn requests_instances(&self) -> bool {
        false
    }

    /// Calls the visitor for the replicas that wait for room, in the order in which the flow would place them.
    fn each_waiting(&self, _core: &mut Core, _visit: &mut Visitor<'_>) {
        panic!("this flow requests instances itself");
    }

    /// The version of the list that [`Flow::each_waiting`] visits.
    fn waiting_changes(&self, _core: &Core) -> WaitingChanges {
        panic!("this flow requests instances itself");
    }

    /// Whether records of ended jobs may be dropped.
    fn may_drop_records(&self) -> bool {
        false
    }

    /// Whether the flow may still refer to a replica that has ended.
    fn names_ended(&self) -> bool {
        false
    }

    /// Whether the flow retries its replicas without end as long as one of them has no place.
    fn retries_forever(&self) -> bool {
        false
    }

    /// Whether the flow's only remaining work repeats refusals that were made since the fleet last grew.
    fn only_repeats_refusals(&self, _core: &Core) -> bool {
        false
    }
}
