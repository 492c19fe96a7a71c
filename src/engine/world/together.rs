//! Jobs whose tasks work together, such as distributed training: no task makes progress before all of them run, and all
//! end at once. If a task is lost, the others wait for its replacement, and all begin again from the last checkpoint.

use std::collections::BTreeMap;

use super::{Due, World};
use dryrack_event::{Input, Lifecycle};
use dryrack_ids::{AttemptId, JobId};
use dryrack_units::SimTime;

/// The running tasks of one job.
#[derive(Default)]
pub(super) struct Meeting {
    present: BTreeMap<u32, AttemptId>,
    /// When the last task arrived. `None` if a task is missing.
    since: Option<SimTime>,
    /// Increases whenever the tasks cease to work.
    round: u32,
}

impl World<'_> {
    /// Adds a task that has started. If it is the last, all begin to work.
    pub(super) fn meet(&mut self, now: SimTime, attempt: AttemptId, tasks: u32) {
        let meeting = self.meetings.entry(attempt.job).or_default();
        meeting.present.insert(attempt.replica, attempt);
        if (meeting.present.len() as u64) < u64::from(tasks) {
            return;
        }
        meeting.since = Some(now);
        let lengths = meeting.present.values().map(|attempt| {
            let (behavior, pace) = self.attempts[attempt].course();
            self.checkpoints.length(*attempt, behavior, pace)
        });
        // Each task has the same work. The task with the oldest checkpoint determines when all end.
        let longest = lengths.collect::<Option<Vec<_>>>().and_then(|lengths| lengths.into_iter().max());
        if let Some(length) = longest {
            self.queue.push_after(now, length, Due::WorkDone { job: attempt.job, round: meeting.round });
        }
    }

    /// Removes a task that stops or is lost. Returns since when it has worked; `None` if it has not.
    pub(super) fn leave(&mut self, now: SimTime, attempt: AttemptId) -> Option<SimTime> {
        let known = self.attempts.get(&attempt)?;
        if known.behavior.together.is_none() {
            return known.started;
        }
        let meeting = self.meetings.get_mut(&attempt.job)?;
        if meeting.present.get(&attempt.replica) != Some(&attempt) {
            return None;
        }
        meeting.present.remove(&attempt.replica);
        let since = meeting.since.take()?;
        meeting.round += 1;
        for other in meeting.present.values() {
            let course = self.attempts[other].course();
            self.checkpoints.interrupt(*other, course, now.since(since), false);
        }
        Some(since)
    }

    /// Lets all tasks of a job end, unless one was lost in the meantime.
    pub(super) fn finish_together(&mut self, now: SimTime, job: JobId, round: u32, inputs: &mut Vec<Input>) {
        if self.meetings.get(&job).is_none_or(|meeting| meeting.round != round) {
            return;
        }
        let meeting = self.meetings.remove(&job).unwrap_or_default();
        for attempt in meeting.present.into_values() {
            let known = &self.attempts[&attempt];
            let (epoch, ending) = (known.epoch, known.behavior.ending);
            self.fact(now, attempt, epoch, Lifecycle::Exited(ending), inputs);
        }
    }
}
