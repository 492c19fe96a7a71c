//! The queue: replicas wait in an order, and passes over it place them.
//!
//! ```text
//!   submitted ──> to be analysed ──> waiting ──a pass──> placed
//!                                      ^ │
//!                                      │ └── refused: told why
//!                                      └──── the next attempt
//! ```
//!
//! The parts of this module are: triggers of passes ([`passes`], [`each`]), entering and leaving the queue
//! ([`waiting`]), the decision about one replica ([`placing`]), backfilling ([`backfill`], [`slots`]), preemption
//! ([`preempting`]), attained service ([`attained`], [`levels`]), and decisions of an outside scheduler ([`outside`]).

mod attained;
mod backfill;
mod each;
mod levels;
mod open_decision;
mod outside;
mod passes;
mod placing;
mod preempting;
mod projects;
mod quota;
mod slots;
mod slurm;
mod turns;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::attempts::Attempts;
use super::clocks::Clocks;
use super::core::Core;
use super::core::store::{Replica, ReplicaIndex, Wait};
use super::core::timer::Timer;
use super::flow::{Due, Flow, RefusedJob, Visitor, WaitingChanges, visit_in_order};
use super::outside::DecidedOutside;
use super::pass::{PassState, SeenByPass};
use super::pass_options::Trigger;
pub use attained::attained_width;
use attained::await_next_level;
use dryrack_event::{Command, Lifecycle, Outcome, Outside, Phase, Reason};
use dryrack_fleet::{Fleet, Placement};
use dryrack_ids::{AttemptId, NodeId};
use dryrack_planted::planted;
use dryrack_scheduler::{Backfill, Decision, Discipline, Grouping, Lines, WaitQueue, decide_for};
use dryrack_units::{SimDuration, SimTime};
use dryrack_workload::JobSpec;
use open_decision::OpenDecision;
pub use slots::time::CLOSE;
pub(crate) use slurm::never_starts as slurm_never_starts;
use turns::Turns;

pub(crate) struct Queue {
    queue: WaitQueue,
    /// The number of the line for each queue name that a job states.
    lines: HashMap<Option<Arc<str>>, u32, foldhash::fast::FixedState>,
    turns: Turns,
    /// The head of the queue with its reservation, for a kind of backfilling that keeps a reservation once it is made.
    picked: Option<backfill::HeadReservation>,
    /// State that backfilling keeps between passes.
    backfilling: Option<Box<backfill::Backfilling>>,
    /// Replicas for which other attempts are being preempted, each with the place that it will get. An entry stays
    /// until the preempted attempts have freed the place.
    nominations: preempting::Nominations,
    preempting: preempting::Preempting,
    /// Replicas that wait for the quota of their project, and replicas in the queue that count against a quota.
    projects: projects::Projects,
    /// State of a Slurm cluster: its partitions and priorities.
    slurm: Option<Box<slurm::Slurm>>,
    /// Future reservations of each node, if backfilling uses time slots.
    futures: slots::Futures,
    /// Replicas that were queued since the last pass, in the order in which they were queued. For each of them, one
    /// event says why it waits.
    fresh: VecDeque<(u64, ReplicaIndex)>,
    /// How many replicas have been queued so far.
    queued: u64,
    to_judge: each::ToJudge,
    /// Replicas that were held as the head of a line, for reasons of their own, each with [`Queue::room_changes`] at that
    /// time.
    held_as_head: BTreeMap<ReplicaIndex, u64>,
    /// The instant of the last settle.
    settled_at: SimTime,
    /// Replicas that wait to be analysed, in order of arrival.
    analysis_queue: VecDeque<(ReplicaIndex, u64)>,
    analysing: BTreeSet<AttemptId>,
    deciding: Option<OpenDecision>,
    analyse_pass: PassState,
    place_pass: PassState,
    backfill_pass: PassState,
    /// Clocks of passes that take time.
    clocks: Option<Clocks>,
    /// The state that the last backfill pass saw. If the state has not changed, the next pass is skipped.
    backfilled: Option<SeenByPass>,
    /// Replicas that an outside program placed on instances that are not up yet.
    awaiting: BTreeSet<ReplicaIndex>,
}

impl Queue {
    pub(crate) fn new(core: &mut Core) -> Queue {
        let (profile, seed) = (Arc::clone(&core.profile), core.deciding.seed);
        let mut queue = Queue {
            queue: WaitQueue::new(profile.scheduler.discipline, &profile.scheduler.order),
            lines: HashMap::default(),
            turns: Turns::default(),
            picked: None,
            backfilling: None,
            nominations: preempting::Nominations::new(),
            preempting: preempting::Preempting::default(),
            projects: projects::Projects::default(),
            slurm: slurm::Slurm::of(profile.slurm.as_ref()),
            futures: slots::Futures::default(),
            fresh: VecDeque::new(),
            queued: 0,
            to_judge: each::ToJudge::default(),
            held_as_head: BTreeMap::new(),
            settled_at: SimTime::ZERO,
            analysis_queue: VecDeque::new(),
            analysing: BTreeSet::new(),
            deciding: None,
            analyse_pass: PassState::new(profile.passes.analyse, seed, "analyse pass"),
            place_pass: PassState::new(profile.passes.place, seed, "place pass"),
            backfill_pass: PassState::new(profile.passes.for_backfill(), seed, "backfill pass"),
            clocks: Clocks::new(&profile.passes, profile.ticks.as_ref()),
            backfilled: None,
            awaiting: BTreeSet::new(),
        };
        queue.keep_backfilling(core);
        queue
    }
}

impl Flow for Queue {
    fn refuses(&mut self, core: &Core, spec: &JobSpec) -> Option<RefusedJob> {
        self.refused_by_slurm(core, spec)
    }

    fn queue_up(&mut self, core: &mut Core, index: ReplicaIndex) {
        match core.store[index].analysed {
            true => self.enter_queue(core, index),
            false => {
                let replica = &mut core.store[index];
                replica.wait = Wait::Analysis;
                self.analysis_queue.push_back((index, replica.version));
            }
        }
    }

    fn settle(&mut self, core: &mut Core) {
        self.settled_at = core.now;
        self.queue.count_pending(core.fleet.moment().pending);
        self.advance_clocks(core);
        self.run_analyse_pass(core);
        loop {
            self.admit_by_quota(core);
            self.run_place_pass(core);
            self.run_backfill_pass(core);
            // A replica may have left the queue because of its quota. The replica behind it is then the head, and this
            // pass has not judged that replica.
            let has_new_head = self.projects.take_has_left() | self.may_find_cheaper(core);
            if !has_new_head || core.profile.passes.place.trigger != Trigger::Event || self.deciding.is_some() {
                break;
            }
        }
        self.inform_clocks();
    }

    fn next_due(&mut self, core: &mut Core) -> Option<Due> {
        // No pass is due for an empty queue.
        if self.queue.is_empty() && self.analysis_queue.is_empty() {
            return None;
        }
        let due = [self.analyse_pass_due(core), self.place_pass_due(core), self.backfill_pass_due(core)];
        due.into_iter().flatten().min()
    }

    fn check(&self, core: &Core) {
        let (mut queued, mut fresh) = (0, 0);
        for (index, replica) in core.store.replicas.iter() {
            let index = index as ReplicaIndex;
            let analysing = self.analysing.contains(&replica.attempt_id());
            assert_eq!(
                analysing,
                replica.phase == Phase::Analysing,
                "{} is not what is analysed",
                replica.attempt_id()
            );
            queued += usize::from(replica.wait == Wait::Queue);
            let is_fresh = replica.fresh.is_some_and(|turn| self.fresh.binary_search(&(turn, index)).is_ok());
            assert_eq!(is_fresh, replica.fresh.is_some(), "{} is told what it was told", replica.attempt_id());
            assert!(!is_fresh || replica.wait == Wait::Queue, "{} is to be told why it waits", replica.attempt_id());
            fresh += usize::from(is_fresh);
        }
        assert_eq!(fresh, self.fresh.len(), "somebody is told twice why it waits");
        assert_eq!(queued, self.queue.len(), "the queue holds who does not wait in it");
        let is_analysed = |replica: &&Replica| replica.phase == Phase::Analysing;
        let analysed = core.store.replicas.values().filter(is_analysed).count();
        assert_eq!(self.analysing.len(), analysed, "an analysis goes on that nobody waits for");
        self.check_to_judge(core);
        self.check_quotas(core);
    }

    /// Asserts that no replica waits although the queue's discipline allows its placement and the fleet has room for
    /// it.
    fn check_nothing_waits_in_vain(&self, core: &Core) {
        // Partitions and their limits may keep a replica waiting beside free nodes.
        if self.slurm.is_some() {
            return;
        }
        let heads: Vec<_> = match core.profile.scheduler.discipline {
            Discipline::Strict | Discipline::Committed => self.queue.heads(core.now).map(|(key, _)| key).collect(),
            Discipline::Skipping => self.queue.iter(core.now).collect(),
        };
        for key in heads {
            let replica = &core.store[key.replica()];
            let (demand, context) = (core.store.demand_of(key.replica()), core.context(replica.attempt_id()));
            let decision = decide_for(&core.profile.scheduler, demand, context, &core.fleet, Grouping::EachNode, 1);
            assert!(matches!(decision, Decision::Refuse { .. }), "{} waits, but would fit", replica.attempt_id());
            assert!(replica.held.is_some(), "{} waits and was never told why", replica.attempt_id());
        }
    }

    fn fact(&mut self, core: &mut Core, index: ReplicaIndex, attempt: AttemptId, fact: Lifecycle) {
        self.analysing.remove(&attempt);
        let replica = &core.store[index];
        match (fact, replica.phase) {
            (Lifecycle::Analysed, Phase::Analysing) if replica.is_at(attempt) => {
                core.store[index].analysed = true;
                self.enter(core, index, Phase::Pending, None);
                self.queue_up(core, index);
            }
            (Lifecycle::AnalysisFailed, Phase::Analysing) if replica.is_at(attempt) => {
                self.end(core, index, Outcome::Failed, Reason::AnalysisFailed);
            }
            _ => self.attempt_fact(core, index, attempt, fact),
        }
    }

    /// Removes a replica from the queue and from any step in progress. Afterwards the replica causes no more work.
    fn withdraw(&mut self, core: &mut Core, index: ReplicaIndex) {
        let replica = &core.store[index];
        let (attempt, phase, wait) = (replica.attempt_id(), replica.phase, replica.wait);
        match wait {
            Wait::Queue => {
                self.leave_queue(core, index, Wait::Nothing);
                if core.is_decided_outside() {
                    core.command(Command::Withdraw { attempt });
                }
            }
            // The replica's version changes, which makes the commit of this decision void.
            Wait::Decision => {
                self.deciding = None;
                self.forget_nomination(core, index);
            }
            Wait::Quota => self.leave_group(core, index),
            Wait::Nothing
            | Wait::Analysis
            | Wait::Scan
            | Wait::BackOff
            | Wait::Dependency
            | Wait::Admission
            | Wait::LastAttempt => {}
        }
        if phase == Phase::Analysing && self.analysing.remove(&attempt) && !planted!(AnalysisIsNotAbandoned) {
            core.command(Command::AbandonAnalysis { attempt });
        }
    }

    fn phase_changed(&mut self, core: &mut Core, index: ReplicaIndex, before: (Phase, SimTime)) {
        let phase = core.store[index].phase;
        if phase == Phase::Running {
            await_next_level(core, index);
        }
        if phase == Phase::Scheduled {
            self.project_took(core, index);
        } else {
            self.awaiting.remove(&index);
        }
        if (before.0 == Phase::Stopping) != (phase == Phase::Stopping) {
            self.note_stopping(core, index, phase);
        }
        self.note_usage(core, index, before.0);
        self.forget_run(core, index);
        self.note_phase(core, index, before);
    }

    fn finished(&mut self, index: ReplicaIndex) {
        self.turns.forget(index);
    }

    fn fire(&mut self, core: &mut Core, timer: Timer) {
        match timer {
            Timer::CommitDue { .. } => self.commit_due(core),
            Timer::NextLevel { replica, .. } => self.join_next_level(core, replica),
            Timer::GraceOver { replica, .. } => self.grace_is_over(core, replica),
            other => panic!("the queue sets no {other:?}"),
        }
    }

    /// Assigns a number to each line of the queue, in the order in which the lines first appear.
    fn line_of(&mut self, core: &Core, queue: Option<&Arc<str>>) -> u32 {
        match core.profile.scheduler.lines {
            Lines::One => 0,
            Lines::EachQueue => {
                let next = self.lines.len() as u32;
                *self.lines.entry(queue.cloned()).or_insert(next)
            }
        }
    }

    fn requeue_pause(&self, core: &Core, because: Reason) -> SimDuration {
        self.requeue_delay(core, because)
    }

    fn decided(&mut self, core: &mut Core, attempt: AttemptId, placement: Option<&Placement>) {
        self.decided_outside(core, attempt, placement);
    }

    fn said(&mut self, core: &mut Core, said: &Outside) {
        self.said_outside(core, said);
    }

    fn stop(&mut self, core: &mut Core, index: ReplicaIndex, outcome: Outcome, because: Reason) {
        match self.awaiting.contains(&index) {
            // The attempt waits for its instances and was never started, so no stop is needed.
            true => self.end(core, index, outcome, because),
            false => self.stop_attempt(core, index, outcome, because),
        }
    }

    fn instance_is_up(&mut self, core: &mut Core, node: NodeId) {
        self.start_on_new(core, node);
    }

    fn caching_changed(&mut self, core: &mut Core) {
        self.keep_backfilling(core);
    }

    fn reconfigured(&mut self, core: &mut Core) {
        let mut waiting: Vec<ReplicaIndex> = self.queue.iter(core.now).map(|key| key.replica()).collect();
        waiting.extend(self.take_set_aside());
        let profile = Arc::clone(&core.profile);
        let before = std::mem::replace(&mut self.slurm, slurm::Slurm::of(profile.slurm.as_ref()));
        self.take_over(before, core);
        self.futures = slots::Futures::default();
        self.preempting.begin_anew();
        self.queue = WaitQueue::new(profile.scheduler.discipline, &profile.scheduler.order);
        self.analyse_pass.follow(profile.passes.analyse);
        self.place_pass.follow(profile.passes.place);
        self.backfill_pass.follow(profile.passes.for_backfill());
        self.clocks = Clocks::after_change(self.clocks.take(), &profile.passes, profile.ticks.as_ref());
        self.backfilled = None;
        self.keep_backfilling(core);
        self.picked = None;
        self.lines.clear();
        for job in core.store.jobs.numbers() {
            let queue = core.store.jobs[job].spec.queue.clone();
            core.store.jobs[job].line = self.line_of(core, queue.as_ref());
        }
        self.nominations.clear();
        self.held_as_head.clear();
        self.to_judge = each::ToJudge::default();
        for index in core.store.replicas.numbers() {
            if core.store.replicas[index].phase != Phase::Ended {
                core.store.replicas[index].key = self.key_of(core, index as ReplicaIndex);
            }
        }
        for index in waiting {
            self.forget_fresh(core, index);
            self.enter_queue(core, index);
        }
    }

    fn left_to(&self, core: &Core, index: ReplicaIndex) -> Option<Fleet> {
        let waits = core.store[index].wait == Wait::Queue;
        if waits { self.left_beside_nominations(core, index) } else { None }
    }

    fn analyses_ahead(&self, core: &Core, index: ReplicaIndex) -> Option<(Vec<AttemptId>, Vec<AttemptId>)> {
        let is_it = |(other, version): &(ReplicaIndex, u64)| {
            let replica = &core.store[index];
            *other == index && replica.wait == Wait::Analysis && replica.version == *version
        };
        let place = self.analysis_queue.iter().position(is_it)?;
        let before = self.analysis_queue.iter().take(place);
        let attempt_of = |(other, _): &(ReplicaIndex, u64)| core.store[*other].attempt_id();
        Some((self.analysing.iter().copied().collect(), before.map(attempt_of).collect()))
    }

    /// Visits only the heads if the discipline is strict and there is no backfilling. In this case, replicas behind a
    /// head cannot use an instance.
    fn each_waiting(&self, core: &mut Core, visit: &mut Visitor<'_>) {
        // The outside program requests instances by its own decisions.
        if core.profile.program.is_some() {
            return;
        }
        let (options, now) = (&core.profile.scheduler, core.now);
        match (options.discipline, options.backfill) {
            (Discipline::Strict | Discipline::Committed, Backfill::None) => {
                visit_in_order(core, self.queue.heads(now).map(|(key, _)| key.replica()), visit);
            }
            _ => visit_in_order(core, self.queue.iter(now).map(|key| key.replica()), visit),
        }
    }

    fn waiting_changes(&self, core: &Core) -> WaitingChanges {
        let at = if self.queue.moves_with_time() { core.now } else { SimTime::ZERO };
        (self.queue.changes(), at)
    }

    fn evaluate_job(&mut self, core: &mut Core, spec: &JobSpec) {
        self.evaluate_in_slurm(core, spec);
    }

    fn waits_for_admission(&self) -> bool {
        self.slurm.is_none()
    }

    fn may_drop_records(&self) -> bool {
        true
    }

    /// Entries of the analysis queue refer to replicas by index, and some of these replicas may have ended.
    fn names_ended(&self) -> bool {
        !self.analysis_queue.is_empty()
    }
}
