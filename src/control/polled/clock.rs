//! The clocks of the loops: when each loop runs, and which records are due.

use std::collections::BTreeSet;

use super::options::{Loops, RunsOptions};
use crate::clocks::PassTime;
use crate::pass::PassState;
use crate::pass_options::{PassOptions, Trigger};
use dryrack_units::{SimDuration, SimTime};

/// The loops, in the order in which they run within one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LoopKind {
    Submitted,
    Running,
    Terminating,
    Runs,
}

impl LoopKind {
    pub const ALL: [LoopKind; 4] = [LoopKind::Submitted, LoopKind::Running, LoopKind::Terminating, LoopKind::Runs];

    pub fn reason(self) -> &'static str {
        match self {
            LoopKind::Submitted => "a poll of submitted nodes",
            LoopKind::Running => "a poll of running nodes",
            LoopKind::Terminating => "a poll of terminating nodes",
            LoopKind::Runs => "a poll of runs",
        }
    }

    /// The name of the loop's random stream. Another name would change every draw of its jitter.
    fn stream(self) -> &'static str {
        match self {
            LoopKind::Submitted => "a look at submitted nodes",
            LoopKind::Running => "a look at running nodes",
            LoopKind::Terminating => "a look at terminating nodes",
            LoopKind::Runs => "a look at runs",
        }
    }
}

/// The clock of one loop: when it runs, and which records are due.
pub(super) struct Clock {
    rounds: Option<(PassState, SimDuration, Option<u32>)>,
    /// Records with the times at which they are due. A flagged record is due since time zero.
    pub due: BTreeSet<(SimTime, u32)>,
    /// Number of these records that a poll would change.
    pub lively: usize,
}

impl Clock {
    pub fn new(options: &RunsOptions, kind: LoopKind, seed: u64) -> Clock {
        let rounds = match &options.loops {
            Loops::Ideal => None,
            Loops::Polled(loops) => {
                let rounds = match kind {
                    LoopKind::Submitted => loops.submitted.rounds,
                    LoopKind::Running => loops.running.rounds,
                    LoopKind::Terminating => loops.terminating.rounds,
                    LoopKind::Runs => loops.runs.rounds,
                };
                let pass = PassOptions {
                    trigger: Trigger::Every(rounds.every),
                    batch: rounds.batch,
                    jitter: rounds.jitter,
                    offset: SimDuration::ZERO,
                    takes: PassTime::NONE,
                };
                Some((PassState::new(pass, seed, kind.stream()), rounds.every, rounds.batch))
            }
        };
        Clock { rounds, due: BTreeSet::new(), lively: 0 }
    }

    /// When the loop has records to poll next. A loop with a limited batch runs only while a poll would change one
    /// of the records.
    pub fn next(&self, now: SimTime) -> Option<SimTime> {
        let (at, _) = self.due.first().filter(|_| self.lively > 0 || self.batch() == usize::MAX)?;
        let at = (*at).max(now);
        match &self.rounds {
            None => Some(at),
            Some((state, every, _)) => Some(state.next_tick(*every, at)),
        }
    }

    /// Whether the loop runs now. A loop with rounds runs in every round, even if no record is due. A loop without
    /// rounds runs only if a record is due. If a loop has a limited batch and a poll would change no record, the loop
    /// skips the round, unless `of_all` is set.
    pub fn runs_at(&self, now: SimTime, of_all: bool) -> bool {
        match &self.rounds {
            None => self.due.first().is_some_and(|(at, _)| *at <= now),
            Some((state, every, _)) => {
                let is_left_out = self.lively == 0 && self.batch() < usize::MAX && !of_all;
                state.next_tick(*every, now) == now && !is_left_out
            }
        }
    }

    /// All records that are due now.
    pub fn poll(&mut self, now: SimTime) -> Vec<u32> {
        if let Some((state, _, _)) = &mut self.rounds {
            state.ran(now);
        }
        self.due.range(..=(now, u32::MAX)).map(|(_, row)| *row).collect()
    }

    pub fn enter(&mut self, row: (SimTime, u32), lively: bool) {
        self.due.insert(row);
        self.lively += usize::from(lively);
    }

    pub fn leave(&mut self, row: (SimTime, u32), was_lively: bool) {
        self.due.remove(&row);
        self.lively -= usize::from(was_lively);
    }

    pub fn batch(&self) -> usize {
        let batch = self.rounds.as_ref().and_then(|(_, _, batch)| *batch);
        batch.map_or(usize::MAX, |batch| batch as usize)
    }
}
