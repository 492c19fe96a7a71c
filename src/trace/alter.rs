//! Samples a list of tasks, or scales the times of its submissions.

use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration, SimTime};

use super::row::TraceTask;

/// A random part of a list. Each task has its own random draw, so keeping a task does not depend on other tasks.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub part: Permille,
    pub seed: u64,
}

impl Sample {
    /// Whether the task is kept. The task's line number is the key of its draw.
    pub fn keeps(&self, task: &TraceTask) -> bool {
        Stream::new(self.seed, "sample of a trace", task.line).chance(u64::from(self.part.get()))
    }
}

/// Scales the offset of each submission from the first one by `numerator / denominator`, rounded down to a nanosecond.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub first: SimTime,
    pub numerator: u64,
    pub denominator: u64,
}

impl Scale {
    /// Returns the task at its new time, or `None` if the new time is too large to represent.
    pub fn apply(&self, task: TraceTask) -> Option<TraceTask> {
        let since = u128::from(task.submit.since(self.first).as_nanos());
        let moved = since * u128::from(self.numerator) / u128::from(self.denominator);
        let submit = self.first.checked_add(SimDuration::from_nanos(u64::try_from(moved).ok()?))?;
        Some(TraceTask { submit, ..task })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(line: u64, at: u64) -> TraceTask {
        TraceTask::new(line.to_string(), line, SimTime::from_secs(at), SimDuration::from_secs(5))
    }

    #[test]
    fn gaps_are_scaled_from_the_first_submission() {
        let half = Scale { first: SimTime::from_secs(100), numerator: 500, denominator: 1000 };
        let moved = [100, 110, 131].map(|at| half.apply(task(1, at)).unwrap().submit.as_nanos() / 1_000_000);
        assert_eq!(moved, [100_000, 105_000, 115_500]);
        let too_far = Scale { first: SimTime::ZERO, numerator: u64::MAX, denominator: 1 };
        assert!(too_far.apply(task(1, 100)).is_none());
    }

    #[test]
    fn a_task_is_kept_or_not_whatever_else_there_is() {
        let kept = |part| {
            let sample = Sample { part: Permille::new(part), seed: 7 };
            (1..=10_000).filter(|line| sample.keeps(&task(*line, 0))).collect::<Vec<u64>>()
        };
        assert_eq!((kept(0).len(), kept(1000).len()), (0, 10_000));
        // 1,000 tasks are expected. The standard deviation is the square root of 10,000 * 0.1 * 0.9, which is 30.
        let tenth = kept(100);
        assert!((850..=1150).contains(&tenth.len()), "{}", tenth.len());
        // The larger sample contains the smaller one.
        let half = kept(500);
        assert!(tenth.iter().all(|line| half.contains(line)));
    }
}
