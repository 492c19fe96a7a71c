//! Passes: when each pass runs. The trigger of a pass is an event, a period, or a separate period for each replica.
//! Each pass handles a batch of limited size.

use crate::attempts::Attempts;
use crate::clocks::PassKind;
use crate::core::Core;
use crate::core::store::{ReplicaIndex, Wait};
use crate::pass::SeenByPass;
use crate::pass_options::{PassOptions, Trigger};
use crate::queue::Queue;
use dryrack_event::{Command, Event, Histogram, Phase, Reason, Refusal};
use dryrack_planted::planted;
use dryrack_scheduler::Discipline;
use dryrack_units::{SimDuration, SimTime};

impl Queue {
    pub(super) fn analyse_pass_due(&self, core: &Core) -> Option<(SimTime, &'static str)> {
        if self.analysis_queue.is_empty() || !self.analysis_has_room(core) {
            return None;
        }
        if self.analyse_pass.cut_short {
            return Some((core.now, "the rest of a batch"));
        }
        match core.profile.passes.analyse.trigger {
            Trigger::Event | Trigger::Outside => None,
            Trigger::Every(period) => Some((self.analyse_pass.next_tick(period, core.now), "an analyse pass")),
            Trigger::EachAfter(_) => {
                let due = self.analysis_queue.iter().map(|(index, _)| core.store[*index].due).min()?;
                Some((due.max(core.now), "a replica to be analysed"))
            }
        }
    }

    /// When the place pass is due. A pass that could only repeat its refusals would change nothing, so it is not due.
    /// If the order changes with time, the function uses the order at the last settle.
    pub(super) fn place_pass_due(&mut self, core: &mut Core) -> Option<(SimTime, &'static str)> {
        if self.queue.is_empty() || self.deciding.is_some() {
            return None;
        }
        if self.place_pass.cut_short || self.place_pass.interrupted_after.is_some() {
            return Some((core.now, "the rest of a batch"));
        }
        match core.profile.passes.place.trigger {
            Trigger::Event | Trigger::Outside => None,
            Trigger::Every(period) => {
                let has_work = match self.main_has_work(core) {
                    Some(has_work) => has_work,
                    None => !self.fresh.is_empty() || self.queue.next(core.growth(), self.settled_at).is_some(),
                };
                match has_work {
                    true => Some((self.place_tick(core, period), "a place pass")),
                    false => self.next_epoch(core).map(|at| (at, "a change in the Slurm cluster")),
                }
            }
            Trigger::EachAfter(period) => self.next_judgement(core, period).map(|due| (due, "a replica to be placed")),
        }
    }

    fn place_tick(&self, core: &Core, period: SimDuration) -> SimTime {
        let of_clock = self.clocks.as_ref().and_then(|clocks| clocks.next(PassKind::Place));
        of_clock.unwrap_or_else(|| self.place_pass.next_tick(period, core.now))
    }

    fn backfill_tick(&self, core: &Core, period: SimDuration) -> SimTime {
        let of_clock = self.clocks.as_ref().and_then(|clocks| clocks.next(PassKind::Backfill));
        of_clock.unwrap_or_else(|| self.backfill_pass.next_tick(period, core.now))
    }

    /// Advances the clocks to this instant. The passes in between changed nothing, but they took their time.
    pub(super) fn advance_clocks(&mut self, core: &mut Core) {
        let (now, waiting) = (core.now, self.queue.len());
        if let Some(clocks) = &mut self.clocks {
            clocks.advance(now);
            clocks.are_waiting(waiting);
        }
    }

    pub(super) fn inform_clocks(&mut self) {
        let waiting = self.queue.len();
        self.clocks.iter_mut().for_each(|clocks| clocks.are_waiting(waiting));
    }

    fn analysis_has_room(&self, core: &Core) -> bool {
        self.analysing.len() < core.profile.analysis.concurrency as usize
    }

    pub(super) fn run_analyse_pass(&mut self, core: &mut Core) {
        let options = core.profile.passes.analyse;
        self.drop_stale_analyses(core);
        if self.analysis_queue.is_empty() || !is_due(core, self.analyse_pass_due(core), options) {
            return;
        }
        (self.analyse_pass.last, self.analyse_pass.cut_short) = (Some(core.now), false);
        let mut judged = 0;
        while self.analysis_has_room(core) {
            if self.analysis_queue.is_empty() {
                return;
            }
            if options.batch.is_some_and(|batch| judged >= batch) {
                self.analyse_pass.cut_short = options.trigger == Trigger::Event;
                return;
            }
            let Some((index, _)) = self.analysis_queue.pop_front() else { return };
            judged += 1;
            self.enter(core, index, Phase::Analysing, None);
            let attempt = core.store[index].attempt_id();
            self.analysing.insert(attempt);
            core.emit(Event::AnalysisStarted { attempt });
            core.command(Command::Analyse { attempt });
            self.drop_stale_analyses(core);
        }
    }

    /// Drops entries at the front of the queue whose replica has ended or no longer waits for this analysis. So a
    /// cancelled replica causes no more work.
    fn drop_stale_analyses(&mut self, core: &mut Core) {
        while let Some((index, version)) = self.analysis_queue.front() {
            let replica = &core.store[*index];
            if replica.wait == Wait::Analysis && replica.version == *version || planted!(CancelledIsAnalysed) {
                return;
            }
            self.analysis_queue.pop_front();
        }
    }

    pub(super) fn run_place_pass(&mut self, core: &mut Core) {
        let options = core.profile.passes.place;
        if self.queue.is_empty() {
            // No replica is left to judge, so the pass is over. While the decision about the last replica is in
            // progress, the pass is not over.
            if self.deciding.is_none() {
                self.place_pass.interrupted_after = None;
            }
            return;
        }
        if core.is_decided_outside() {
            return self.log_outside_decider(core);
        }
        let due = self.place_pass_due(core);
        if self.deciding.is_some() || !is_due(core, due, options) {
            return;
        }
        // A resumed pass began at an earlier tick, so it does not count as the tick of this instant.
        if self.place_pass.interrupted_after.is_none() {
            self.place_pass.last = Some(core.now);
            self.clocks.iter_mut().for_each(|clocks| clocks.tick(PassKind::Place, core.now));
        }
        self.place_pass.cut_short = false;
        if self.place_by_partition(core) {
            return;
        }
        match options.trigger {
            Trigger::EachAfter(period) => self.place_each(core, period),
            Trigger::Event | Trigger::Outside | Trigger::Every(_) => self.place_in_order(core, options),
        }
        if self.deciding.is_none() && !self.place_pass.cut_short {
            self.emit_waiting_reasons(core);
        }
    }

    fn place_in_order(&mut self, core: &mut Core, options: PassOptions) {
        self.charge_users(core);
        self.preempt(core);
        let mut judged = self.place_pass.interrupted_after.take().unwrap_or(0);
        loop {
            while let Some((key, _)) = self.queue.next(core.growth(), core.now) {
                if options.batch.is_some_and(|batch| judged >= batch) {
                    self.place_pass.cut_short = options.trigger == Trigger::Event;
                    return;
                }
                judged += 1;
                self.consider(core, key.replica());
                if self.deciding.is_some() {
                    self.place_pass.interrupted_after = Some(judged);
                    return;
                }
            }
            if !self.preempt(core) {
                break;
            }
        }
        if core.profile.passes.backfill.is_none() {
            self.backfill(core);
        }
    }

    /// The state that a backfill pass depends on, and a pass of Slurm's main scheduler: the fleet's growth, the number
    /// of replicas queued so far, and the number that still wait. The last number counts the changes in the Slurm
    /// cluster that time brings.
    pub(super) fn seen_by_pass(&self, core: &Core) -> SeenByPass {
        (core.growth(), self.queued, self.queue.len(), self.epoch(core))
    }

    /// When the backfill pass is due. A pass that could only repeat the last one is not due.
    pub(super) fn backfill_pass_due(&self, core: &Core) -> Option<(SimTime, &'static str)> {
        let options = core.profile.passes.backfill?;
        if self.queue.is_empty() || self.deciding.is_some() || self.backfilled == Some(self.seen_by_pass(core)) {
            return None;
        }
        match options.trigger {
            Trigger::Event | Trigger::EachAfter(_) | Trigger::Outside => None,
            Trigger::Every(period) => Some((self.backfill_tick(core, period), "a backfill pass")),
        }
    }

    pub(super) fn run_backfill_pass(&mut self, core: &mut Core) {
        let Some(options) = core.profile.passes.backfill else { return };
        if self.queue.is_empty() || self.deciding.is_some() || !is_due(core, self.backfill_pass_due(core), options) {
            return;
        }
        self.backfill_pass.ran(core.now);
        self.clocks.iter_mut().for_each(|clocks| clocks.tick(PassKind::Backfill, core.now));
        // Read the state before the pass. If the pass starts a replica, the next pass must also run, because it can
        // find other replicas to start.
        self.backfilled = Some(self.seen_by_pass(core));
        self.charge_users(core);
        self.backfill(core);
    }

    fn charge_users(&mut self, core: &mut Core) {
        if let Some(charged) = core.accounts.charged(core.now) {
            self.queue.charge(charged);
        }
    }

    /// For each replica that queued up since the last pass and still waits, emits one event that says why it waits.
    fn emit_waiting_reasons(&mut self, core: &mut Core) {
        while let Some((_, index)) = self.fresh.pop_front() {
            core.store[index].fresh = None;
            let replica = &core.store[index];
            let demand = &core.store.demands[replica.demand as usize];
            let judged = self.queue.is_refused(replica.demand, core.growth());
            let behind = core.profile.scheduler.discipline != Discipline::Skipping
                && self.queue.is_behind(replica.key, core.now);
            match (&demand.held, judged && !behind) {
                (Some(held), true) => {
                    let held = held.clone();
                    self.hold_with_own(core, index, held);
                }
                _ => hold_behind(core, index),
            }
        }
        // A replica may have become the head of a strict line without being judged in this pass. It then waits for the
        // reasons that are known for its demand.
        for (head, demand) in self.queue.restless_heads(core.now) {
            if self.queue.is_refused(demand, core.growth())
                && let Some(held) = core.store.demands[demand as usize].held.clone()
            {
                self.hold_with_own(core, head.replica(), held);
            }
        }
        self.emit_that_heads_are_behind(core);
    }

    /// A number that increases whenever refused replicas may find more room: the fleet has grown, or an advance
    /// reservation has begun or ended.
    pub(super) fn room_changes(&self, core: &Core) -> u64 {
        core.growth() + self.reservation_boundaries(core)
    }

    /// A replica that is no longer the head of its line is not judged again. Once there may be more room, the reasons for
    /// which it was held as the head may be over, and it only waits for the new head.
    fn emit_that_heads_are_behind(&mut self, core: &mut Core) {
        let changes = self.room_changes(core);
        let is_over = |(index, at): (&ReplicaIndex, &u64)| {
            *at != changes && self.queue.is_behind(core.store[*index].key, core.now)
        };
        let over: Vec<ReplicaIndex> =
            self.held_as_head.iter().filter(|held| is_over(*held)).map(|(index, _)| *index).collect();
        for index in over {
            self.held_as_head.remove(&index);
            hold_behind(core, index);
        }
    }
}

fn hold_behind(core: &mut Core, index: ReplicaIndex) {
    core.hold(index, (Refusal::Unfit, Histogram::of(Reason::QueueOrder, core.fleet.len() as u32)));
}

fn is_due(core: &Core, due: Option<(SimTime, &'static str)>, options: PassOptions) -> bool {
    match options.trigger {
        Trigger::Event | Trigger::Outside => true,
        Trigger::Every(_) | Trigger::EachAfter(_) => due.is_some_and(|(at, _)| at <= core.now),
    }
}
