//! What custom stages read besides nodes and jobs: the clock, which moves in whole minutes, and who reads the queue.

use dryrack_scheduler::SchedulerOptions;
use dryrack_units::{SimDuration, SimTime};

/// When the clock moves, and when refused replicas are judged again because it has moved.
#[derive(Default)]
pub struct Clock {
    /// Whether a stage reads the time.
    is_read: bool,
    /// The time after which the filters give the same verdicts again, if one of them reads the time. Until then, a refused
    /// replica may fit although nothing else has changed.
    cycle: Option<SimDuration>,
    /// Whether a replica was refused since the clock last moved.
    has_refused: bool,
    /// When something besides the time last changed.
    changed_at: SimTime,
}

/// Which custom stages read the number of pending replicas.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    Nobody,
    /// A scorer, or a key of the order. A change of the number admits no refused replica.
    Ranking,
    /// A filter: a change of the number may admit a refused replica.
    Filter,
}

impl Reader {
    pub fn of(scheduler: &SchedulerOptions) -> Reader {
        if scheduler.read_by_filters().queue {
            Reader::Filter
        } else if scheduler.read_by_stages().queue || scheduler.orders_by_queue() {
            Reader::Ranking
        } else {
            Reader::Nobody
        }
    }
}

/// Stages read the time in steps of this length.
const STEP: SimDuration = SimDuration::from_secs(60);

const DAY: SimDuration = SimDuration::from_secs(24 * 3600);
const WEEK: SimDuration = SimDuration::from_secs(7 * 24 * 3600);

impl Clock {
    pub fn new(scheduler: &SchedulerOptions) -> Clock {
        let mut clock = Clock::default();
        clock.follow(scheduler);
        clock
    }

    /// Notes that these options apply from now on.
    pub fn follow(&mut self, scheduler: &SchedulerOptions) {
        self.is_read = scheduler.read_by_stages().time;
        let of_filters = scheduler.read_by_filters();
        let cycle = if of_filters.weekday { WEEK } else { DAY };
        self.cycle = of_filters.time.then_some(cycle);
    }

    pub fn note_refusal(&mut self) {
        self.has_refused = true;
    }

    pub fn note_change(&mut self, now: SimTime) {
        self.changed_at = now;
    }

    /// Whether the clock moves now. `read` is the time that the stages read so far.
    pub fn is_due(&self, now: SimTime, read: SimTime) -> bool {
        self.is_read && last_step(now) != read && !self.is_tried(now)
    }

    /// Moves the clock. Returns the time that the stages read from now on.
    pub fn advance(&mut self, now: SimTime) -> SimTime {
        self.has_refused = false;
        last_step(now)
    }

    /// Whether a refused replica may fit after a step of the clock.
    pub fn admits(&self) -> bool {
        self.cycle.is_some()
    }

    /// Whether every time that a filter can read has been tried since the last change.
    fn is_tried(&self, now: SimTime) -> bool {
        self.cycle.is_some_and(|cycle| now.since(self.changed_at) > cycle)
    }

    /// When the clock moves next, if a refused replica may fit then. `read` is the time that the stages read so far.
    pub fn next_step(&self, now: SimTime, read: SimTime) -> Option<SimTime> {
        let is_awaited = self.admits() && self.has_refused && !self.is_tried(now);
        is_awaited.then(|| read.saturating_add(STEP).max(now))
    }

    /// How long a replica may be refused again and again until nothing more is expected to happen.
    pub fn patience(&self, otherwise: SimDuration) -> SimDuration {
        self.cycle.map_or(otherwise, |cycle| otherwise.max(cycle))
    }
}

/// The last whole minute.
pub fn last_step(now: SimTime) -> SimTime {
    let step = STEP.as_nanos();
    SimTime::from_nanos(now.as_nanos() / step * step)
}
