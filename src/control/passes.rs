//! Passes: what runs when. Passes are triggered by events, by a period, or by a period for each replica. They work in
//! bounded batches.

use super::Control;
use super::clocks::Which;
use super::profile::{PassOptions, Trigger};
use super::store::{ReplicaIndex, Wait};
use dryrack_event::{Command, Event, Histogram, Phase, Reason, Refusal};
use dryrack_rng::Stream;
use dryrack_scheduler::{Discipline, QueueKey};
use dryrack_units::{SimDuration, SimTime};

/// The clockwork of one pass.
pub struct PassState {
    options: PassOptions,
    seed: u64,
    purpose: &'static str,
    last: Option<SimTime>,
    /// The batch was full, so the rest is due at once, in the next round of the same instant.
    cut_short: bool,
    /// How many of its batch the pass had looked at when a decision that takes time interrupted it. The pass goes on
    /// once that decision is made.
    interrupted_after: Option<u32>,
}

impl PassState {
    pub fn new(options: PassOptions, seed: u64, purpose: &'static str) -> PassState {
        PassState { options, seed, purpose, last: None, cut_short: false, interrupted_after: None }
    }

    /// Replaces the options, such as the period.
    pub(super) fn follow(&mut self, options: PassOptions) {
        self.options = options;
    }

    /// The first tick at or after `now` that has not run: tick n is at n periods plus its jitter.
    pub(super) fn next_tick(&self, period: SimDuration, now: SimTime) -> SimTime {
        let reach = self.options.offset.saturating_add(self.options.jitter).as_nanos() / period.as_nanos() + 1;
        let mut number = (now.as_nanos() / period.as_nanos()).saturating_sub(reach);
        loop {
            let since = period.saturating_mul(number).saturating_add(self.jitter(number));
            let at = SimTime::ZERO.saturating_add(self.options.offset).saturating_add(since);
            if at >= now && self.last.is_none_or(|last| at > last) {
                return at;
            }
            number += 1;
        }
    }

    /// Records that the tick of this instant has run.
    pub(super) fn ran(&mut self, now: SimTime) {
        self.last = Some(now);
    }

    fn jitter(&self, number: u64) -> SimDuration {
        match self.options.jitter.is_zero() {
            true => SimDuration::ZERO,
            false => Stream::new(self.seed, self.purpose, number).duration(SimDuration::ZERO, self.options.jitter),
        }
    }
}

impl Control {
    pub(super) fn analyse_pass_due(&self) -> Option<(SimTime, &'static str)> {
        if self.analysis_queue.is_empty() || !self.analysis_has_room() {
            return None;
        }
        if self.analyse_pass.cut_short {
            return Some((self.now, "the rest of a batch"));
        }
        match self.profile.passes.analyse.trigger {
            Trigger::Event | Trigger::Outside => None,
            Trigger::Every(period) => Some((self.analyse_pass.next_tick(period, self.now), "an analyse pass")),
            Trigger::EachAfter(_) => {
                let due = self.analysis_queue.iter().map(|(index, _)| self.replicas[*index as usize].due).min()?;
                Some((due.max(self.now), "a replica to be analysed"))
            }
        }
    }

    /// When the place pass is due. A pass that could only repeat its refusals is not due, because it would change
    /// nothing. An order that moves with time is taken as it was at the last settle.
    pub(super) fn place_pass_due(&mut self) -> Option<(SimTime, &'static str)> {
        if self.queue.is_empty() || self.deciding.is_some() {
            return None;
        }
        if self.place_pass.cut_short || self.place_pass.interrupted_after.is_some() {
            return Some((self.now, "the rest of a batch"));
        }
        match self.profile.passes.place.trigger {
            Trigger::Event | Trigger::Outside => None,
            Trigger::Every(period) => {
                let has_work =
                    !self.fresh.is_empty() || self.queue.next(self.fleet.growth(), self.settled_at).is_some();
                has_work.then(|| (self.place_tick(period), "a place pass"))
            }
            Trigger::EachAfter(period) => {
                let waiting = self.worth_a_look();
                let due = waiting.into_iter().map(|key| self.catch_up(key.replica(), period)).min()?;
                Some((due, "a replica to be placed"))
            }
        }
    }

    fn place_tick(&self, period: SimDuration) -> SimTime {
        let of_clock = self.clocks.as_ref().and_then(|clocks| clocks.next(Which::Place));
        of_clock.unwrap_or_else(|| self.place_pass.next_tick(period, self.now))
    }

    fn backfill_tick(&self, period: SimDuration) -> SimTime {
        let of_clock = self.clocks.as_ref().and_then(|clocks| clocks.next(Which::Backfill));
        of_clock.unwrap_or_else(|| self.backfill_pass.next_tick(period, self.now))
    }

    /// Advances the clocks to this instant. Ticks in the meantime changed nothing, but took their time.
    pub(super) fn go_on_with_clocks(&mut self) {
        let (now, waiting) = (self.now, self.queue.len());
        if let Some(clocks) = &mut self.clocks {
            clocks.go_on(now);
            clocks.are_waiting(waiting);
        }
    }

    pub(super) fn tell_clocks(&mut self) {
        let waiting = self.queue.len();
        self.clocks.iter_mut().for_each(|clocks| clocks.are_waiting(waiting));
    }

    /// Replicas that were not refused since the fleet last grew, or were not told yet why they wait.
    fn worth_a_look(&self) -> Vec<QueueKey> {
        let growth = self.fleet.growth();
        let is_open = |key: &QueueKey| {
            let index = key.replica();
            !self.queue.is_refused(self.replicas[index as usize].demand, growth)
                || self.replicas[index as usize].fresh.is_some()
        };
        self.queue.iter(self.now).filter(is_open).collect()
    }

    /// When a replica is due next. The looks it had in the meantime could not have changed anything, so they are
    /// skipped.
    fn catch_up(&mut self, index: ReplicaIndex, period: SimDuration) -> SimTime {
        while self.replicas[index as usize].due < self.now {
            let jitter = self.jitter_of(index);
            let replica = &mut self.replicas[index as usize];
            replica.due = replica.due.saturating_add(period).saturating_add(jitter);
        }
        self.replicas[index as usize].due
    }

    fn jitter_of(&mut self, index: ReplicaIndex) -> SimDuration {
        let longest = self.profile.passes.place.jitter;
        if longest.is_zero() {
            return SimDuration::ZERO;
        }
        let replica = &mut self.replicas[index as usize];
        replica.processed += 1;
        let seed = self.place_pass.seed.wrapping_add(u64::from(replica.processed));
        Stream::new(seed, "place pass of a replica", u64::from(index)).duration(SimDuration::ZERO, longest)
    }

    fn is_due(&self, due: Option<(SimTime, &'static str)>, options: PassOptions) -> bool {
        match options.trigger {
            Trigger::Event | Trigger::Outside => true,
            Trigger::Every(_) | Trigger::EachAfter(_) => due.is_some_and(|(at, _)| at <= self.now),
        }
    }

    fn analysis_has_room(&self) -> bool {
        self.analysing.len() < self.profile.analysis.concurrency as usize
    }

    pub(super) fn run_analyse_pass(&mut self) {
        let options = self.profile.passes.analyse;
        self.drop_stale_analyses();
        if self.analysis_queue.is_empty() || !self.is_due(self.analyse_pass_due(), options) {
            return;
        }
        (self.analyse_pass.last, self.analyse_pass.cut_short) = (Some(self.now), false);
        let mut looked_at = 0;
        while self.analysis_has_room() {
            if self.analysis_queue.is_empty() {
                return;
            }
            if options.batch.is_some_and(|batch| looked_at >= batch) {
                self.analyse_pass.cut_short = options.trigger == Trigger::Event;
                return;
            }
            let Some((index, _)) = self.analysis_queue.pop_front() else { return };
            looked_at += 1;
            self.enter(index, Phase::Analysing, None);
            let run = self.replicas[index as usize].run();
            self.analysing.insert(run);
            self.emit(Event::AnalysisStarted { run });
            self.command(Command::Analyse { run });
            self.drop_stale_analyses();
        }
    }

    /// Drops the first entries whose replica has ended or moved on since. What is cancelled causes no more work.
    fn drop_stale_analyses(&mut self) {
        while let Some((index, version)) = self.analysis_queue.front() {
            let replica = &self.replicas[*index as usize];
            if replica.wait == Wait::Analysis && replica.version == *version {
                return;
            }
            self.analysis_queue.pop_front();
        }
    }

    pub(super) fn run_place_pass(&mut self) {
        let options = self.profile.passes.place;
        if self.queue.is_empty() {
            // With nobody left, the pass is over, unless the last replica is still being decided about.
            if self.deciding.is_none() {
                self.place_pass.interrupted_after = None;
            }
            return;
        }
        if self.is_decided_outside() {
            return self.tell_who_decides();
        }
        let due = self.place_pass_due();
        if self.deciding.is_some() || !self.is_due(due, options) {
            return;
        }
        // A pass that goes on began at its own tick, and does not count as the tick of this instant.
        if self.place_pass.interrupted_after.is_none() {
            self.place_pass.last = Some(self.now);
            self.clocks.iter_mut().for_each(|clocks| clocks.tick(Which::Place, self.now));
        }
        self.place_pass.cut_short = false;
        match options.trigger {
            Trigger::EachAfter(period) => self.place_each(period),
            Trigger::Event | Trigger::Outside | Trigger::Every(_) => self.place_in_order(options),
        }
        if self.deciding.is_none() && !self.place_pass.cut_short {
            self.tell_why_they_wait();
        }
    }

    fn place_in_order(&mut self, options: PassOptions) {
        self.charge_users();
        self.preempt();
        let mut looked_at = self.place_pass.interrupted_after.take().unwrap_or(0);
        loop {
            while let Some((key, _)) = self.queue.next(self.fleet.growth(), self.now) {
                if options.batch.is_some_and(|batch| looked_at >= batch) {
                    self.place_pass.cut_short = options.trigger == Trigger::Event;
                    return;
                }
                looked_at += 1;
                self.consider(key.replica());
                if self.deciding.is_some() {
                    self.place_pass.interrupted_after = Some(looked_at);
                    return;
                }
            }
            if !self.preempt() {
                break;
            }
        }
        if self.profile.passes.backfill.is_none() {
            self.backfill();
        }
    }

    /// What a backfill pass depends on: the fleet's growth, how many have been queued so far, and how many still
    /// wait.
    fn seen_by_backfill(&self) -> (u64, u64, usize) {
        (self.fleet.growth(), self.queued, self.queue.len())
    }

    /// When the backfill pass is due. A pass that could only repeat the last one is not due.
    pub(super) fn backfill_pass_due(&self) -> Option<(SimTime, &'static str)> {
        let options = self.profile.passes.backfill?;
        if self.queue.is_empty() || self.deciding.is_some() || self.backfilled == Some(self.seen_by_backfill()) {
            return None;
        }
        match options.trigger {
            Trigger::Event | Trigger::EachAfter(_) | Trigger::Outside => None,
            Trigger::Every(period) => Some((self.backfill_tick(period), "a backfill pass")),
        }
    }

    pub(super) fn run_backfill_pass(&mut self) {
        let Some(options) = self.profile.passes.backfill else { return };
        if self.queue.is_empty() || self.deciding.is_some() || !self.is_due(self.backfill_pass_due(), options) {
            return;
        }
        self.backfill_pass.ran(self.now);
        self.clocks.iter_mut().for_each(|clocks| clocks.tick(Which::Backfill, self.now));
        // Taken before the pass, because a replica that starts leaves others to look at.
        self.backfilled = Some(self.seen_by_backfill());
        self.charge_users();
        self.backfill();
    }

    fn charge_users(&mut self) {
        if let Some(shares) = &mut self.shares {
            self.queue.charge(shares.charged(self.now));
        }
    }

    /// Looks at each replica that is due: by priority, then the least recently processed first.
    fn place_each(&mut self, period: SimDuration) {
        let mut due = self.worth_a_look();
        due.retain(|key| self.replicas[key.replica() as usize].due <= self.now);
        due.sort_by_key(|key| (key.priority(), self.replicas[key.replica() as usize].due, *key));
        for key in due {
            let index = key.replica();
            if self.replicas[index as usize].wait != Wait::Queue {
                continue;
            }
            let jitter = self.jitter_of(index);
            self.replicas[index as usize].due = self.now.saturating_add(period).saturating_add(jitter);
            self.consider(index);
            if self.deciding.is_some() {
                return;
            }
        }
    }

    /// Tells each replica that queued up since the last pass and still waits why it waits, once.
    fn tell_why_they_wait(&mut self) {
        while let Some((_, index)) = self.fresh.pop_front() {
            let replica = &mut self.replicas[index as usize];
            replica.fresh = None;
            let demand = &self.demands[replica.demand as usize];
            let judged = self.queue.is_refused(replica.demand, self.fleet.growth());
            let behind = self.profile.scheduler.discipline != Discipline::Skipping
                && self.queue.is_behind(replica.key, self.now);
            let held = match (&demand.held, judged && !behind) {
                (Some(held), true) => held.clone(),
                _ => (Refusal::Unfit, Histogram::of(Reason::QueueOrder, self.fleet.len() as u32)),
            };
            self.hold(index, held);
        }
        // A replica that has become the head of a strict line without being judged now waits for its own reasons.
        for (head, demand) in self.queue.restless_heads(self.now) {
            if self.queue.is_refused(demand, self.fleet.growth())
                && let Some(held) = self.demands[demand as usize].held.clone()
            {
                self.hold(head.replica(), held);
            }
        }
    }

    /// Says why a replica waits, unless the same reasons were the last to be given.
    pub(super) fn hold(&mut self, index: ReplicaIndex, held: (Refusal, Histogram)) {
        let replica = &mut self.replicas[index as usize];
        let same = (replica.held.as_ref())
            .is_some_and(|(refusal, reasons)| *refusal == held.0 && reasons.has_same_reasons(&held.1));
        if !same {
            replica.held = Some(held.clone());
            let run = replica.run();
            self.emit(Event::Held { run, refusal: held.0, reasons: held.1 });
        }
    }
}
