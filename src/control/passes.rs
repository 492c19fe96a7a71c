//! Passes: what runs when. Triggered by events, by a period, or by a period for each replica; in bounded batches.

use super::Control;
use super::profile::{PassOptions, Trigger};
use super::store::{ReplicaIndex, Wait};
use crate::event::{Command, Event, Histogram, Phase, Reason, Refusal};
use crate::rng::Stream;
use crate::scheduler::{Discipline, QueueKey};
use crate::units::{SimDuration, SimTime};

/// The clockwork of one pass.
pub struct PassState {
    options: PassOptions,
    seed: u64,
    purpose: &'static str,
    last: Option<SimTime>,
    /// The batch was full: the rest is due at once, in the next round of the same instant.
    cut_short: bool,
}

impl PassState {
    pub fn new(options: PassOptions, seed: u64, purpose: &'static str) -> PassState {
        PassState { options, seed, purpose, last: None, cut_short: false }
    }

    /// The first tick at or after `now` that has not run: tick n is at n periods plus its jitter.
    fn next_tick(&self, period: SimDuration, now: SimTime) -> SimTime {
        let reach = self.options.jitter.as_nanos() / period.as_nanos() + 1;
        let mut number = (now.as_nanos() / period.as_nanos()).saturating_sub(reach);
        loop {
            let at = SimTime::ZERO.saturating_add(period.saturating_mul(number)).saturating_add(self.jitter(number));
            if at >= now && self.last.is_none_or(|last| at > last) {
                return at;
            }
            number += 1;
        }
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
        let waiting = !self.analysis_queue.is_empty() && self.analysis_has_room();
        waiting.then(|| self.pass_due(&self.analyse_pass, self.analysis_queue.iter().map(|(index, _)| *index)))?
    }

    pub(super) fn place_pass_due(&self) -> Option<(SimTime, &'static str)> {
        let waiting = !self.queue.is_empty() && self.deciding.is_none();
        waiting.then(|| self.pass_due(&self.place_pass, self.queue.iter().map(QueueKey::replica)))?
    }

    fn pass_due(
        &self,
        pass: &PassState,
        waiting: impl Iterator<Item = ReplicaIndex>,
    ) -> Option<(SimTime, &'static str)> {
        if pass.cut_short {
            return Some((self.now, "the rest of a batch"));
        }
        match pass.options.trigger {
            Trigger::Event => None,
            Trigger::Every(period) => Some((pass.next_tick(period, self.now), "a periodic pass")),
            Trigger::EachAfter(_) => {
                let due = waiting.map(|index| self.replicas[index as usize].due).min()?;
                Some((due.max(self.now), "a replica to be processed"))
            }
        }
    }

    fn is_due(&self, due: Option<(SimTime, &'static str)>, options: PassOptions) -> bool {
        match options.trigger {
            Trigger::Event => true,
            Trigger::Every(_) | Trigger::EachAfter(_) => due.is_some_and(|(at, _)| at <= self.now),
        }
    }

    /// Sets when a pass for each replica looks at this one next.
    fn processed(&mut self, index: ReplicaIndex, pass: PassOptions, purpose: &'static str) {
        if let Trigger::EachAfter(period) = pass.trigger {
            let replica = &mut self.replicas[index as usize];
            replica.processed += 1;
            let jitter = match pass.jitter.is_zero() {
                true => SimDuration::ZERO,
                false => {
                    let seed = self.place_pass.seed.wrapping_add(u64::from(replica.processed));
                    Stream::new(seed, purpose, u64::from(index)).duration(SimDuration::ZERO, pass.jitter)
                }
            };
            replica.due = self.now.saturating_add(period).saturating_add(jitter);
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
            self.ask(Command::Analyse { run });
            self.drop_stale_analyses();
        }
    }

    /// Entries whose replica has ended or moved on since: cancelled means no more work.
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
        if self.deciding.is_some() || self.queue.is_empty() || !self.is_due(self.place_pass_due(), options) {
            if self.deciding.is_none() {
                self.fresh.clear();
            }
            return;
        }
        (self.place_pass.last, self.place_pass.cut_short) = (Some(self.now), false);
        match options.trigger {
            Trigger::EachAfter(_) => self.place_each(options),
            Trigger::Event | Trigger::Every(_) => self.place_in_order(options),
        }
        if self.deciding.is_none() && !self.place_pass.cut_short {
            self.tell_why_they_wait();
        }
    }

    fn place_in_order(&mut self, options: PassOptions) {
        let mut looked_at = 0;
        while let Some((key, _)) = self.queue.next(self.fleet.growth()) {
            if options.batch.is_some_and(|batch| looked_at >= batch) {
                self.place_pass.cut_short = options.trigger == Trigger::Event;
                return;
            }
            looked_at += 1;
            self.consider(key.replica());
            if self.deciding.is_some() {
                return;
            }
        }
    }

    /// Each replica that is due, the queue's order first, then the least recently processed.
    fn place_each(&mut self, options: PassOptions) {
        let is_due = |key: &QueueKey| self.replicas[key.replica() as usize].due <= self.now;
        let mut due: Vec<QueueKey> = self.queue.iter().filter(is_due).collect();
        due.sort_by_key(|key| (key.priority(), self.replicas[key.replica() as usize].due, *key));
        for key in due.into_iter().take(options.batch.map_or(usize::MAX, |batch| batch as usize)) {
            if self.replicas[key.replica() as usize].wait != Wait::Queue {
                continue;
            }
            self.processed(key.replica(), options, "place pass of a replica");
            self.consider(key.replica());
            if self.deciding.is_some() {
                return;
            }
        }
    }

    /// Everyone who queued up since the last pass and still waits is told why, once.
    fn tell_why_they_wait(&mut self) {
        for index in std::mem::take(&mut self.fresh) {
            let replica = &self.replicas[index as usize];
            if replica.wait != Wait::Queue {
                continue;
            }
            let demand = &self.demands[replica.demand as usize];
            let judged = self.queue.is_refused(replica.demand, self.fleet.growth());
            let behind =
                self.profile.scheduler.discipline == Discipline::Strict && self.queue.head() != Some(replica.key);
            let held = match (&demand.held, judged && !behind) {
                (Some(held), true) => held.clone(),
                _ => (Refusal::Unfit, Histogram::of(Reason::QueueOrder, self.fleet.len() as u32)),
            };
            self.hold(index, held);
        }
        // Whoever has become the head of a strict queue without being judged waits for its own reasons now.
        if self.profile.scheduler.discipline == Discipline::Strict
            && let Some(head) = self.queue.head()
        {
            let demand = self.replicas[head.replica() as usize].demand;
            if self.queue.is_refused(demand, self.fleet.growth())
                && let Some(held) = self.demands[demand as usize].held.clone()
            {
                self.hold(head.replica(), held);
            }
        }
    }

    /// Says why a replica waits, unless the same reasons were the last to be said.
    pub(super) fn hold(&mut self, index: ReplicaIndex, held: (Refusal, Histogram)) {
        let replica = &mut self.replicas[index as usize];
        let same = (replica.held.as_ref())
            .is_some_and(|(refusal, reasons)| *refusal == held.0 && reasons.has_same_reasons(&held.1));
        if !same {
            replica.held = Some(held.clone());
            let run = replica.run();
            self.say(Event::Held { run, refusal: held.0, reasons: held.1 });
        }
    }
}
